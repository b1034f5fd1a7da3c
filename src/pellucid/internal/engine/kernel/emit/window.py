"""Windows in a kernel.

The definition (Model Checking of Stream Processing Pipelines, 2021, section 2): the i-th output is the last event
that the sub-pipeline puts out over the k events i … i+k-1, run from its initial state.  In general that is k pushes per
event, and this is what `_recompute` writes; the sub-pipeline's state lives in local variables.

Where the sub-pipeline is a chain of maps and filters into a cumulate whose function is a sum, a minimum, a
maximum, a conjunction or a disjunction of something that does not look at the accumulated value, a
few operations per event are enough, whatever k is.  Plain sums add what comes and subtract what goes.  The others
take events in blocks of k; each block keeps the aggregates of its suffixes, and a window is the suffix
of one block and the prefix of the next.  Integers and Booleans only, where these are associative exactly; and
an event that fails, or is so large that some partial sum might overflow, sends the windows that
contain it back to the definition, so that failures stay where they belong.

Folds that can be cut: the function of a cumulate, as an associative operation on the old value and a term of the
event.

>>> from pellucid.internal.expr.function import Function
>>> f = Function.make(lambda t, v: t + v - 1 if v > 0 else t, (INT, INT))
>>> part = fold_of(f.traced.outputs[0], 0, 1, clean=True)
>>> part.op, [(term.sign, term.value, term.when) for term in part.terms]
('add', [(-1, 1 if v1 > 0 else 0, v1 > 0), (1, v1 if v1 > 0 else 0, v1 > 0)])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.rewrite import may_be_nan
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, EnumType, Type
from pellucid.internal.graph.model import Graph, Node

if TYPE_CHECKING:
    from pellucid.internal.engine.kernel.emit.loop import Emitter
    from pellucid.internal.engine.kernel.emit.pen import Flow, Storage

_BITS = ("band", "bor", "bxor")


@dataclass(frozen=True)
class Term:
    """What an event brings to a fold, and when; a sum subtracts it where ``sign`` is -1."""

    when: Expr
    value: Expr
    sign: int = 1


@dataclass(frozen=True)
class FoldPart:
    """One leaf of a cumulate's value: ``leaf' = op(leaf, term)``."""

    op: str  # add, min, max, and, or, band, bor, bxor, last; same: it never changes
    type: Type
    terms: tuple[Term, ...] = ()
    first: bool = True  # of equals the first is kept (a float zero has a sign)
    nan_kept: bool = True  # a start value that is NaN stays


def fold_of(e: Expr, leaf: int, states: int, *, clean: bool, failing: bool = False) -> FoldPart | str:
    """The fold that a leaf of a cumulate's value is, or why it is none.

    The first ``states`` variables are the old leaves; ``clean`` says that no float of an event is NaN, ``failing`` that
    whoever asks sees by itself to terms that fail.
    """
    return _Splitter(leaf, states, clean, failing).split(e)


_NO_FOLD = "its function is no associative fold, such as t + v, max(t, v) or t and v"
_FLOATS = "a sum of floats is not associative: cut elsewhere, it is rounded elsewhere"


@dataclass(frozen=True)
class _Splitter:
    """Takes one leaf of a cumulate's value apart: the old leaf, and what does not look at old leaves."""

    leaf: int
    states: int
    clean: bool  # no float of the event is NaN
    failing: bool  # terms that fail are seen to elsewhere, so no check may be left out

    def old(self, e: Expr) -> bool:
        return e.op == "var" and bool(e.value == self.leaf)

    def free(self, e: Expr) -> bool:
        return not any(p.op == "var" and p.value < self.states for p in walk(e))

    def split(self, e: Expr) -> FoldPart | str:
        """The fold, or why it is none."""
        if self.old(e):
            return FoldPart("same", e.type)
        if self.free(e):
            return FoldPart("last", e.type, (Term(n.TRUE, e),), first=False)
        if e.op == "after" and not self.failing:
            # The checks can only fail, and if they do the chunk fails when it is run.
            return self.split(e.args[-1])
        if e.op in ("add", "sub"):
            return self.sum(e)
        if e.op in _BITS or e.op in ("and", "or"):
            return self.chain(e)
        if e.op == "ite":
            return self.choice(e)
        return _NO_FOLD

    def sum(self, e: Expr) -> FoldPart | str:
        """``t + a - b``: each term is summed on its own, so that no sum of terms overflows by itself."""
        terms: list[Term] = []
        olds: list[int] = []
        todo = [(1, e)]
        while todo:
            sign, x = todo.pop()
            if self.old(x):
                olds.append(sign)
            elif self.free(x):
                terms.append(Term(n.TRUE, x, sign))
            elif x.op in ("add", "sub"):
                todo += [(sign, x.args[0]), (sign if x.op == "add" else -sign, x.args[1])]
            else:
                return _NO_FOLD
        if olds != [1]:
            return _NO_FOLD
        return FoldPart("add", INT, tuple(terms)) if e.type == INT else _FLOATS

    def chain(self, e: Expr) -> FoldPart | str:
        """``t and a and b``, ``t | a | b``: what stands behind ``t`` in a truth value is not always evaluated."""
        operands: list[Expr] = []
        todo = [e]
        while todo:
            x = todo.pop()
            if x.op == e.op and not self.free(x):
                todo += reversed(x.args)
            else:
                operands.append(x)
        at = [i for i, x in enumerate(operands) if self.old(x)]
        rest = [x for x in operands if not self.old(x)]
        if len(at) != 1 or not all(map(self.free, rest)):
            return _NO_FOLD
        if e.op in ("and", "or"):
            rest = [reduce(n.and_ if e.op == "and" else n.or_, rest)]
            if at[0] < len(operands) - 1 and n.fails(rest[0]) and not self.failing:
                return f"what follows the old value in its {e.op!r} may fail, and is not evaluated for every event"
        return FoldPart(e.op, e.type, tuple(Term(n.TRUE, x) for x in rest))

    def choice(self, e: Expr) -> FoldPart | str:
        c, yes, no = e.args
        if c.op in ("lt", "le") and {yes, no} == set(c.args) and e.type in (INT, FLOAT):
            for old, value in ((yes, no), (no, yes)):
                if self.old(old) and self.free(value):
                    # NaN compares with nothing: where the value stands behind `else`, it is taken.
                    if e.type == FLOAT and value is no and not (self.clean and not may_be_nan(value)):
                        return "a value may be NaN, which ends its minimum or maximum"
                    keeps = old is (yes if c.op == "le" else no)
                    op = "min" if yes is c.args[0] else "max"
                    return FoldPart(op, e.type, (Term(n.TRUE, value),), first=keeps, nan_kept=old is no)
        if not self.free(c):
            return _NO_FOLD
        sides = [self.split(yes), self.split(no)]
        for side in sides:
            if isinstance(side, str):
                return side
        a, b = (s for s in sides if isinstance(s, FoldPart))
        real = a if a.op != "same" else b
        if "same" not in (a.op, b.op) and (a.op, a.first, a.nan_kept) != (b.op, b.first, b.nan_kept):
            return _NO_FOLD
        if real.op == "last" or max(len(a.terms), len(b.terms)) == 1:
            left, right = (s.terms[0] if s.terms else Term(n.FALSE, _nothing(real.op, e.type)) for s in (a, b))
            if left.sign == right.sign or "same" in (a.op, b.op):
                sign = real.terms[0].sign if real.terms else 1
                term = Term(n.ite(c, left.when, right.when), n.ite(c, left.value, right.value), sign)
                return replace(real, terms=(term,) if real.terms else ())
        under = [(c, t) for t in a.terms] + [(n.not_(c), t) for t in b.terms]
        terms = [Term(n.and_(d, t.when), n.ite(d, t.value, _nothing(real.op, t.value.type)), t.sign) for d, t in under]
        return replace(real, terms=tuple(terms))


IDENTITY = {"add": 0, "min": INT_MAX, "max": INT_MIN, "and": True, "or": False, "band": -1, "bor": 0, "bxor": 0}


def _nothing(op: str, t: Type) -> Expr:
    """What changes nothing, for where there is no term; for folds that ask `when`, some value."""
    if isinstance(t, EnumType):
        return n.const(t.members[0])
    if t in (INT, BOOL):
        return n.const(IDENTITY.get(op, 0 if t == INT else False))
    return n.const(0.0 if t == FLOAT else "")


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
        part = _part(e, i, len(starts))
        if part is None or not isinstance(starts[i], int):
            return None
        parts.append(_Part(part[0], part[1], int(starts[i])))
    return Associative(tuple(chain), tuple(parts))


def _part(e: Expr, leaf: int, states: int) -> tuple[str, Expr] | None:
    """``op(leaf, value)``, where value does not look at the accumulated leaves."""
    fold = fold_of(e, leaf, states, clean=True, failing=True)
    if isinstance(fold, str) or len(fold.terms) != 1 or fold.terms[0].sign != 1 or fold.type not in (INT, BOOL):
        return None
    return (fold.op, fold.terms[0].value) if fold.op in ("add", "min", "max", "and", "or") else None


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
        """Put out the window's value."""
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
