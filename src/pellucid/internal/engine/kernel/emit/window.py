"""Windows in a kernel.

The definition (Model Checking of Stream Processing Pipelines, 2021, section 2): the i-th output is the last event
that the sub-pipeline emits over the k events i … i+k-1, run from its initial state.  In general that is k pushes per
event, and this is what `_recompute` writes; the sub-pipeline's state lives in local variables.

Where the sub-pipeline is a chain of maps and filters into a cumulate whose function is a sum, a minimum, a
maximum, a conjunction or a disjunction of something that does not look at the accumulated value, a
few operations per event are enough, whatever k is.  Plain sums add what comes and subtract what goes.  The others
take events in blocks of k; each block keeps the aggregates of its suffixes, and a window is the suffix
of one block and the prefix of the next.  Integers and Booleans only, where these are associative exactly; and
an event that fails, or is so large that some partial sum might overflow, sends the windows that
contain it back to the definition, so that failures stay where they belong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.types import BOOL, INT, INT_MAX, INT_MIN
from pellucid.internal.graph.model import Graph, Node

if TYPE_CHECKING:
    from pellucid.internal.engine.kernel.emit.loop import Emitter
    from pellucid.internal.engine.kernel.emit.pen import Flow, Storage


def needs_interpreter(sub: Graph) -> bool:
    """Whether a sub-pipeline has keys inside: such a window is run by the interpreter."""
    return any(node.processor.keyed or (node.sub is not None and needs_interpreter(node.sub)) for node in sub.nodes)


def write_window(e: Emitter, node: Node, flow: Flow, cap: int | None, store: Storage) -> Flow:
    """Write one window step; returns its output stream."""
    assert node.sub is not None and node.k is not None
    w, k = e.w, node.k
    kinds = [t for _, t in e.current.nodes[node.inputs[0]].type.leaves()]
    rings = [store.ring(f"ring{j}", t, k) for j, t in enumerate(kinds)]
    at, seen = store.word("at", INT, 0), store.word("seen", INT, 0)
    out = e.fresh_flow(node, cap, flow.key is not None)
    fast = associative(node.sub)
    sums = None if fast is None else (_Sliding if fast.sliding else _Blocks)(e, node, fast, store)
    with e.each(flow) as (values, key):
        values = e.named(values)
        key = e.named([key])[0] if key else None
        pos = w.fresh("c")
        w.line(f"{pos} = {at.load(key)}")
        if sums is not None:
            sums.add(values, key, pos, [r.load(e, key, pos) for r in rings])
        for ring, value in zip(rings, values, strict=True):
            ring.store(e, key, pos, value)
        w.line(f"{pos} += 1")
        with w.block(f"if {pos} == {k}:"):
            if sums is not None:
                sums.turn(key)
            w.line(f"{pos} = 0")
        at.store(key, pos)

        def by_definition() -> None:
            count = w.fresh("c")
            w.line(f"{count} = {seen.load(key)}")
            with w.block(f"if {count} < {k}:"):
                w.line(f"{count} += 1")
                seen.store(key, count)
            with w.block(f"if {count} == {k}:"):
                _recompute(e, node, [partial(r.load, e, key) for r in rings], pos, out, key)

        if sums is None:
            by_definition()
        else:
            # `seen` counts only where the fast way does not hold; it is at least k-1 wherever that holds.
            sums.result(key, pos, out, by_definition)
    return out


def _recompute(
    e: Emitter, node: Node, load: Sequence[Callable[[str], str]], pos: str, out: Flow, key: str | None
) -> None:
    """The definition: push the window's events through a fresh sub-pipeline; the last output counts."""
    assert node.sub is not None and node.k is not None
    w, sub, k = e.w, node.sub, node.k
    if needs_interpreter(sub):
        site = e.layout.site(node, None)
        e.opaque = True
        found, row = w.fresh("t"), w.fresh("t")
        ring = ", ".join("(" + ", ".join(f(f"({pos} + j) % {k}") for f in load) + ",)" for _ in (0,))
        w.line(f"{found}, {row} = opaque[{site}]([{ring} for j in range({k})])")
        with w.block(f"if {found}:"):
            e.push(out, [f"{row}[{j}]" for j in range(node.type.width)], key)
        return
    outer, e.resets = e.resets, []
    lines, w.lines = w.lines, []
    e.inner.append(sub)
    e.windows.append(k)
    has = w.fresh("h")
    last = [w.fresh("u") for _ in range(node.type.width)]
    j, index = w.fresh("j"), w.fresh("i")
    with w.loop(f"for {j} in range({k}):"):
        w.line(f"{index} = {pos} + {j}")
        with w.block(f"if {index} >= {k}:"):
            w.line(f"{index} -= {k}")
        event = e.copied([f(index) for f in load])
        flows = {sub.sources[0]: e.flow(None, event, None)}
        e.nodes(sub, [1] * len(sub.nodes), flows, root_of=None)
        result = flows[sub.outputs[0][1]]
        with e.each(result) as (values, _):
            for name, value in zip(last, values, strict=True):
                w.line(f"{name} = {value}")
            w.line(f"{has} = True")
    body, w.lines = w.lines, lines
    w.line(f"{has} = False")
    for name, start in e.resets:
        w.line(f"{name} = {start}")
    w.lines += body
    e.resets = outer
    e.inner.pop()
    e.windows.pop()
    with w.block(f"if {has}:"):
        e.push(out, last, key)


# ---------------------------------------------------------------- associative sub-pipelines


@dataclass(frozen=True)
class _Part:
    """One leaf of the accumulated value: ``leaf' = op(leaf, value)``."""

    op: str  # add, min, max, and, or
    value: Expr
    start: int

    @property
    def identity(self) -> str:
        return "_MIN" if self.op == "max" else str(IDENTITY[self.op])

    def join(self, a: str, b: str) -> str:
        if self.op in ("min", "max"):
            sign = "<" if self.op == "min" else ">"
            return f"({b} if {b} {sign} {a} else {a})"
        return f"({a} {'+' if self.op == 'add' else self.op} {b})"


@dataclass(frozen=True)
class Associative:
    """A sub-pipeline that needs one operation per event: stateless steps, then a cumulate."""

    chain: tuple[Node, ...]
    parts: tuple[_Part, ...]

    @property
    def easy(self) -> bool:
        """Whether what an event adds is computed without steps before and without failures."""
        return not self.chain and not any(n.fails(p.value) for p in self.parts)

    @property
    def sliding(self) -> bool:
        """Whether it is sums of easy terms: add the new one, subtract the old one."""
        return self.easy and all(p.op == "add" and sum(1 for _ in walk(p.value)) <= 8 for p in self.parts)


def associative(sub: Graph) -> Associative | None:
    """The shape that the fast way takes, or None.

    >>> from pellucid import pipeline
    >>> total = pipeline(lambda x: x.cumulate(lambda t, v: t + v * v, start=0), x=int)
    >>> associative(total.graph).parts[0].op
    'add'
    >>> last = pipeline(lambda x: x.cumulate(lambda t, v: t * 2 + v, start=0), x=int)
    >>> associative(last.graph) is None
    True
    """
    at = sub.outputs[0][1]
    last = sub.nodes[at]
    if last.processor.keeps != "value" or last.fn is None or last.fn.traced is None or last.state is None:
        return None
    chain: list[Node] = []
    node = sub.nodes[last.inputs[0]]
    while node.processor.plain:
        if node.fn is None or node.fn.traced is None:
            return None
        chain.insert(0, node)
        node = sub.nodes[node.inputs[0]]
    if node.kind != "source" or len(chain) + 2 != len(sub.nodes):
        return None
    starts = last.state.flatten(last.start)
    parts = []
    for i, e in enumerate(last.fn.traced.outputs):
        fold = _fold(e, i, len(starts))
        if fold is None or fold[1] is None or not isinstance(starts[i], int):
            return None
        parts.append(_Part(fold[0], fold[1], int(starts[i])))
    return Associative(tuple(chain), tuple(parts))


IDENTITY = {"add": 0, "min": INT_MAX, "max": INT_MIN, "and": True, "or": False}


def _fold(e: Expr, leaf: int, states: int) -> tuple[str, Expr | None] | None:
    """``op(leaf, value)``, where the value does not look at the accumulated leaves, which are the first variables; no
    value where the leaf never changes.

    >>> v = [n.var(i, INT) for i in range(2)]
    >>> _fold(n.ite(n.lt(n.const(0), v[1]), n.add(v[0], v[1]), v[0]), 0, 1)
    ('add', v1 if v1 > 0 else 0)
    """

    def old(x: Expr) -> bool:
        return x.op == "var" and bool(x.value == leaf)

    def free(x: Expr) -> bool:
        return not any(part.op == "var" and part.value < states for part in walk(x))

    if old(e):
        return "same", None
    if e.type not in (INT, BOOL) or free(e):
        return None
    if e.op == "add":
        rest = [x for x in e.args if not old(x)]
        return ("add", rest[0]) if len(rest) == 1 and free(rest[0]) else None
    if e.op in ("and", "or"):
        operands, todo = list[Expr](), [e]
        while todo:
            x = todo.pop()
            if x.op == e.op and not free(x):
                todo += reversed(x.args)
            else:
                operands.append(x)
        rest = [x for x in operands if not old(x)]
        if len(operands) - len(rest) != 1 or not all(map(free, rest)):
            return None
        return e.op, reduce(n.and_ if e.op == "and" else n.or_, rest)
    if e.op != "ite":
        return None
    c, yes, no = e.args
    if c.op in ("lt", "le") and {yes, no} == set(c.args):
        for one, value in ((yes, no), (no, yes)):
            if old(one) and free(value):
                return "min" if yes is c.args[0] else "max", value
    sides = [_fold(side, leaf, states) for side in (yes, no)]
    ops = {side[0] for side in sides if side is not None and side[0] != "same"}
    if not free(c) or None in sides or len(ops) != 1:
        return None
    (op,) = ops
    terms = [n.const(IDENTITY[op]) if side is None or side[1] is None else side[1] for side in sides]
    return op, n.ite(c, terms[0], terms[1])


class _Sums:
    """What the two fast ways share.

    ``clean`` counts the events since the last one that needs the definition: a window is clean if it has
    seen k of them, and then `seen` need not be looked at either.
    """

    def __init__(self, e: Emitter, node: Node, shape: Associative, store: Storage) -> None:
        assert node.k is not None
        self.e, self.node, self.shape, self.k = e, node, shape, node.k
        self.kinds = [BOOL if p.op in ("and", "or") else INT for p in shape.parts]
        self.clean = store.word("clean", INT, 0)
        self.filtered = any(s.processor.puts == "some" for s in shape.chain)
        self.since = store.word("since", INT, node.k) if self.filtered else None  # … since one passed

    def add(self, values: list[str], key: str | None, pos: str, old: list[str]) -> None:
        """Take in one event; ``old`` is the one whose place it takes."""
        raise NotImplementedError

    def turn(self, key: str | None) -> None:
        """The ring is full and starts again."""

    def totals(self, key: str | None, pos: str) -> list[str]:
        """The aggregates of the last k events."""
        raise NotImplementedError

    def count(self, cell: Any, key: str | None, reset: str) -> None:
        """Count events since ``reset`` held, up to k."""
        w = self.e.w
        name = w.fresh("c")
        w.line(f"{name} = {cell.load(key)}")
        w.line(f"{name} = {name} + 1 if {name} < {self.k} else {name}")
        with w.block(f"if {reset}:"):
            w.line(f"{name} = 0")
        cell.store(key, name)

    def most(self, part: _Part) -> int:
        """Up to this size, k terms and the start cannot overflow in any order."""
        return (INT_MAX - abs(part.start)) // self.k

    def easy_terms(self, values: list[str]) -> tuple[str, list[str]]:
        """What an event adds, where nothing can fail: only its size can make it bad."""
        e, w = self.e, self.e.w
        found = e.named(self.values(values))
        sums = [
            (v, self.most(p)) for v, p in zip(found, self.shape.parts, strict=True) if p.op == "add" and not v.isdigit()
        ]
        if not sums:
            return "False", found
        bad = w.fresh("b")
        w.line(f"{bad} = " + " or ".join(f"not -{most} <= {v} <= {most}" for v, most in sums))
        terms = []
        for value, part in zip(found, self.shape.parts, strict=True):
            terms.append(w.fresh("e"))
            w.line(f"{terms[-1]} = {part.identity} if {bad} else {value}")
        return bad, terms

    def values(self, leaves: list[str]) -> list[str]:
        """The expressions of the parts, over an event's leaves."""
        return self.e.w.function([p.value for p in self.shape.parts], ["0"] * len(self.shape.parts) + leaves, (), 0)

    def result(self, key: str | None, pos: str, out: Flow, by_definition: Callable[[], None]) -> None:
        """Emit the window's value."""
        e, w = self.e, self.e.w
        with w.block(f"if {w.rare(f'{self.clean.load(key)} != {self.k}')}:"):
            by_definition()
        with w.block("else:"):
            names = []
            for part, total in zip(self.shape.parts, self.totals(key, pos), strict=True):
                if part.start != IDENTITY[part.op]:
                    start = str(bool(part.start)) if part.op in ("and", "or") else f"({part.start})"
                    total = part.join("_MIN" if part.start == INT_MIN else start, total)
                names.append(total)
            values = e.copied(names)
            if self.since is None:
                e.push(out, values, key)
            else:
                with w.block(f"if {self.since.load(key)} < {self.k}:"):
                    e.push(out, values, key)


class _Sliding(_Sums):
    """Sums: add what comes, subtract what goes.

    They hold the last ``clean`` events; a bad one empties them, so what goes is always good.
    """

    def __init__(self, e: Emitter, node: Node, shape: Associative, store: Storage) -> None:
        super().__init__(e, node, shape, store)
        self.running = [store.word(f"sum{j}", INT, 0) for j in range(len(shape.parts))]

    def add(self, values: list[str], key: str | None, pos: str, old: list[str]) -> None:
        e, w = self.e, self.e.w
        terms = e.named(self.values(values))
        bad = [
            f"not -{self.most(p)} <= {v} <= {self.most(p)}"
            for v, p in zip(terms, self.shape.parts, strict=True)
            if p.value.op != "const" or not -self.most(p) <= p.value.value <= self.most(p)
        ]
        with w.block(f"if {w.rare(' or '.join(bad) or 'False')}:"):
            for cell in self.running:
                cell.store(key, "0")
            self.clean.store(key, "0")
        with w.block(f"elif {w.rare(f'{self.clean.load(key)} != {self.k}')}:"):
            for cell, term in zip(self.running, terms, strict=True):
                cell.store(key, f"{cell.load(key)} + {term}")
            self.clean.store(key, f"{self.clean.load(key)} + 1")
        with w.block("else:"):
            gone = e.named(self.values(e.copied(old)))
            for cell, term, less in zip(self.running, terms, gone, strict=True):
                cell.store(key, f"{cell.load(key)} + ({term} - {less})")

    def totals(self, key: str | None, pos: str) -> list[str]:
        return [cell.load(key) for cell in self.running]


class _Blocks(_Sums):
    """Blocks of k events with the aggregates of their suffixes, and a running prefix."""

    def __init__(self, e: Emitter, node: Node, shape: Associative, store: Storage) -> None:
        super().__init__(e, node, shape, store)
        self.blocks = [store.ring(f"block{j}", t, self.k) for j, t in enumerate(self.kinds)]
        self.backs = [
            store.word(f"prefix{j}", t, IDENTITY[p.op])
            for j, (t, p) in enumerate(zip(self.kinds, shape.parts, strict=True))
        ]

    def add(self, values: list[str], key: str | None, pos: str, old: list[str]) -> None:
        e = self.e
        if self.shape.easy:
            (bad, terms), passed = self.easy_terms(values), "True"
        else:
            bad, passed, terms = self.terms(values)
        for term, part, block, back in zip(terms, self.shape.parts, self.blocks, self.backs, strict=True):
            block.store(e, key, pos, term)
            back.store(key, part.join(back.load(key), term))
        self.count(self.clean, key, bad)
        if self.since is not None:
            self.count(self.since, key, passed)

    def terms(self, values: list[str]) -> tuple[str, str, list[str]]:
        """What an event adds; one that fails, or is too large, is bad, one that is filtered out adds nothing."""
        e, w = self.e, self.e.w
        bad, passed = w.fresh("b"), w.fresh("b")
        terms = [w.fresh("e") for _ in self.shape.parts]
        w.line(f"{bad} = True; {passed} = False")
        for term, part in zip(terms, self.shape.parts, strict=True):
            w.line(f"{term} = {part.identity}")
        once = w.fresh("j")
        with w.block(f"for {once} in range(1):"):
            outer, w.on_fail = w.on_fail, ["break"]
            leaves = values
            for step in self.shape.chain:
                assert step.fn is not None and step.fn.traced is not None
                results = w.function(step.fn.traced.roots(), leaves, (), 0)
                if step.processor.puts == "each":
                    leaves = e.named(results)
                else:
                    with w.block(f"if not {results[0]}:"):
                        w.line(f"{bad} = False")
                        w.line("break")
            found = e.named(self.values(leaves))
            for value, part in zip(found, self.shape.parts, strict=True):
                if part.op == "add":
                    with w.block(f"if not -{self.most(part)} <= {value} <= {self.most(part)}:"):
                        w.line("break")
            for term, value in zip(terms, found, strict=True):
                w.line(f"{term} = {value}")
            w.line(f"{bad} = False; {passed} = True")
            w.on_fail = outer
        return bad, passed, terms

    def turn(self, key: str | None) -> None:
        e, w = self.e, self.e.w
        for part, block, back in zip(self.shape.parts, self.blocks, self.backs, strict=True):
            total, j = w.fresh("a"), w.fresh("j")
            w.line(f"{total} = {part.identity}")
            with w.block(f"for {j} in range({self.k - 1}, -1, -1):"):
                w.line(f"{total} = {part.join(block.load(e, key, j), total)}")
                block.store(e, key, j, total, times=self.k)
            back.store(key, part.identity)

    def totals(self, key: str | None, pos: str) -> list[str]:
        # At the start of a block the prefix is empty: its identity changes nothing.
        return [
            part.join(block.load(self.e, key, pos), back.load(key))
            for part, block, back in zip(self.shape.parts, self.blocks, self.backs, strict=True)
        ]
