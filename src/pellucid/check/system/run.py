"""One push of a pipeline on symbolic events: each kind of step as one function, as in the interpreter.

A `Run` keeps what the steps remember as expressions; a window runs its sub-pipeline in a run of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from pellucid.check.functions.arguments import closed_list
from pellucid.check.functions.called import Tables, beyond
from pellucid.check.system.domains import Domain
from pellucid.check.system.queues import Guess, Room, fronts_of
from pellucid.check.system.variables import FALSE, TRUE, Came, Lanes, Memory, Slot, groups
from pellucid.errors import UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.rewrite import failure, overflow, substitute
from pellucid.internal.expr.tracing.trace import Traced
from pellucid.internal.expr.types import INT, Type, simplest
from pellucid.internal.graph.model import Graph, Node
from pellucid.internal.graph.processors import Call, Cell, cells_of, meaning_of


@dataclass
class SystemRun:
    """A symbolic run of a graph: where its steps keep their state, and what went wrong so far."""

    domain: Domain
    cells: dict[tuple[str, str], Expr] = field(default_factory=dict)  # (step, label) → value now
    lengths: dict[str, Expr] = field(default_factory=dict)
    overflow: Expr = FALSE
    failed: Expr = FALSE
    strict: bool = False
    wide: Expr = FALSE
    fresh: Callable[[str, str, Type, Any, int | None, str, str], Expr] | None = None
    room: Room | None = None  # of its queues; None in a window's inner run
    guess: Guess | None = None
    # steps that wait for the same streams wait for the same events
    joined: dict[Any, Any] = field(default_factory=dict)
    held: dict[str, list[tuple[Expr, ...]]] = field(default_factory=dict)  # queues of a window's inner run
    lost: dict[str, Expr] = field(default_factory=dict)  # whether a lossy stream loses its events in this push
    lanes: Callable[[Graph, int], Lanes] | None = None  # of the keys that a step is under
    pushed: int = 0
    beyond: Expr = FALSE  # in this push comes a key that has no lane, and none is left
    tables: Tables = field(default_factory=Tables)  # of the functions that are called
    outside: Expr = FALSE  # in this push one of them got an argument that its table does not have
    trouble: dict[str, tuple[Expr, Expr]] = field(default_factory=dict)  # of each step: it fails, it leaves 64 bits

    def cell(
        self,
        step: str,
        label: str,
        t: Type,
        start: Any,
        size: int | None = None,
        role: str = "state",
        of: str | None = None,
        anew: Expr | None = None,
    ) -> Expr:
        """The present value of a piece of state, of a step or of one of its queues; created at its start value, to
        which it goes back in a push in which ``anew`` holds."""
        key = (step, label)
        if key not in self.cells:
            of = step if of is None else of
            self.cells[key] = (
                self.fresh(step, label, t, start, size, role, of) if self.fresh is not None else n.const(start)
            )
            if anew is not None:
                self.cells[key] = n.ite(anew, n.const(start), self.cells[key])
        return self.cells[key]

    def size(self, t: Type) -> int | None:
        """How many values an integer has here, where they are few."""
        return self.domain.modulus if t == INT else None

    def call(self, fn: Function, leaves: Sequence[Expr], when: Expr, who: str) -> list[Expr]:
        """A function applied; its failure counts where an event is there."""
        traced = self.as_data(fn)
        if traced is None:
            return self.look_up(fn, leaves, when)
        roots = traced.roots()
        m = self.domain.modulus
        count = None  # of a task's events: a number of its own, not an integer modulo N
        if traced.count is not None:
            count = len(traced.outputs)
        if m is not None:
            _check_constants([r for i, r in enumerate(roots) if i != count], m, who)
        with n.values_only(False):  # with every failure in its place
            made = substitute(roots, list(leaves), self.domain.reduce if m is not None else None)
        for e in made:
            self.failed = n.or_(self.failed, n.and_(when, failure(e)))
        if self.strict and m is None:
            with n.values_only(False):
                # One that engines call computes in Python's integers: only what it returns must have 64 bits.
                conditions = [overflow(root) if fn.runs is not None else beyond(root) for root in roots]
            for condition in substitute(conditions, list(leaves)):
                self.wide = n.or_(self.wide, n.and_(when, condition))
        out = substitute(roots, list(leaves), self.domain.reduce if m is not None else None)
        return [e if m is None or i == count or e.type != INT else _reduced(e, m) for i, e in enumerate(out)]

    def as_data(self, fn: Function) -> Traced | None:
        """A function as data, as engines or at least a check can see it; None if there is only its table."""
        return fn.traced if fn.traced is not None else self.tables.inside(fn)

    def look_up(self, fn: Function, leaves: Sequence[Expr], when: Expr) -> list[Expr]:
        """A function that is called and not traced: what its table says."""
        table = self.tables(fn)
        with n.values_only(False):
            made = substitute(table.roots, list(leaves))
        for e in made:
            self.failed = n.or_(self.failed, n.and_(when, failure(e)))
        (outside,) = substitute([table.outside], list(leaves))
        self.outside = n.or_(self.outside, n.and_(when, outside))
        return substitute(table.roots, list(leaves))

    # ------------------------------------------------------------ the steps, one function each

    def step(self, g: Graph, sources: Mapping[int, list[Slot]]) -> list[list[Slot]]:
        """One push: the slots of every stream."""
        self.pushed += 1
        streams: list[list[Slot]] = []
        for i, node in enumerate(g.nodes):
            if node.kind == "source":
                streams.append(self.leak(node, sources[i]))
                continue
            ins = [streams[j] for j in node.inputs]
            before, (self.failed, self.wide) = (self.failed, self.wide), (FALSE, FALSE)
            lanes = self.lanes_of(g, i) if node.key is not None else None
            streams.append(self.leak(node, self.once(node, ins, lanes)))
            own = self.trouble[node.id] = self.failed, self.wide
            self.failed, self.wide = n.or_(before[0], own[0]), n.or_(before[1], own[1])
        return streams

    def once(self, node: Node, ins: list[list[Slot]], lanes: Lanes | None) -> list[Slot]:
        """What a step emits; two that only count, and count the same, are one."""
        do = self.STEPS.get(node.kind, SystemRun.do_step)
        if self.room is None or lanes is not None or node.processor.keeps != "count":
            return do(self, node, ins, lanes)
        key = (node.kind, node.k, tuple(ins[0]))
        if key not in self.joined:
            self.joined[key] = do(self, node, ins, lanes)
        return list(self.joined[key])

    def leak(self, node: Node, slots: list[Slot]) -> list[Slot]:
        """What is left of a stream that may lose its events."""
        if node.id not in self.lost:
            return slots
        return [replace(s, present=n.and_(s.present, n.not_(self.lost[node.id]))) for s in slots]

    def lanes_of(self, g: Graph, i: int) -> Lanes:
        """The lanes of the keys that a step is under."""
        if self.lanes is None:  # a window's inner run: a lane for every key that comes, kept from event to event
            made: dict[int, Lanes] = {}
            number = groups(g)

            def own(_: Graph, at: int) -> Lanes:
                return made.setdefault(number[at], Came(f"key {number[at]}", None))

            self.lanes = own
        return self.lanes(g, i)

    def do_key_by(self, node: Node, ins: list[list[Slot]], lanes: Lanes | None) -> list[Slot]:
        assert node.fn is not None and lanes is not None
        out = []
        for s in ins[0]:
            key = self.call(node.fn, s.leaves, s.known, node.describe())
            out.append(Slot(s.present, s.leaves, lanes.find(self, tuple(key), s.present)))
        return out

    def do_forget(self, node: Node, ins: list[list[Slot]], lanes: Lanes | None) -> list[Slot]:
        if self.room is None or len(ins[0]) > 1:
            where = "inside a window" if self.room is None else "on a stream that may carry several events in one push"
            raise UsageError(
                f"{node.describe()}: checks do not follow forget {where}: ask about the part of the pipeline before "
                "it, or about one without it"
            )
        return self.do_key_by(node, ins, lanes)

    def do_merge(self, node: Node, ins: list[list[Slot]], lanes: Lanes | None) -> list[Slot]:
        return [s for slots in ins for s in slots]

    def do_step(self, node: Node, ins: list[list[Slot]], lanes: Lanes | None) -> list[Slot]:
        """A step as the table of processors defines it, at each event that may come."""
        means = meaning_of(node, "the checks' system")
        out = []
        for s in self.taken(node, ins, lanes):
            memory = Memory(self, node.id, s, lanes, self.cells_of(node, s)) if node.processor.keeps else None
            known, unsure = (s.known, s.unsure) if memory is None else (memory.known, memory.unsure)
            made = means(node, memory.now if memory is not None else [], s.leaves, self.function_of(node, known))
            if memory is not None:
                memory.keep(made.after)
            out += [Slot(n.and_(s.present, when), tuple(leaves), s.lanes, unsure) for when, leaves in made.emits]
            if not made.emits:  # it never emits; but there is a stream, with events of a type
                out.append(Slot(FALSE, tuple(n.const(simplest(t)) for _, t in node.type.leaves()), s.lanes, unsure))
        return out

    def taken(self, node: Node, ins: list[list[Slot]], lanes: Lanes | None) -> list[Slot]:
        """The events that a step takes; of one with several inputs one from each, side by side."""
        if not node.queued:
            return ins[0]
        return [
            replace(s, leaves=tuple(leaf for front in fronts for leaf in front))
            for s, fronts in fronts_of(self, node, ins, lanes)
        ]

    def cells_of(self, node: Node, s: Slot) -> list[Cell]:
        """What a step remembers, with how many values each part can have here, where they are few."""
        if node.any_object:  # it goes by its number
            assert node.fn is not None
            start, many = self.tables.states(node.fn, node.start)
            return [Cell("state", INT, start, many, "number")]
        m, cells = self.domain.modulus, cells_of(node, [e.type for e in s.leaves])
        for cell in cells if m is not None else []:
            if cell.type == INT and cell.role == "state" and not 0 <= cell.start < m:
                raise UsageError(
                    f"{node.describe()}: its start value {cell.start} is not among the integers modulo {m}"
                )
        return [cell if cell.role == "count" else replace(cell, size=self.size(cell.type)) for cell in cells]

    def function_of(self, node: Node, known: Expr) -> Call:
        """How a step's own function is applied to an event, where that is known."""

        def call(leaves: Sequence[Expr], when: Expr = TRUE) -> Sequence[Expr]:
            if node.sub is not None:
                width = len(leaves) // (node.earlier + 1)
                events = [tuple(leaves[i : i + width]) for i in range(0, len(leaves), width)]
                return self.window_value(node.sub, events, n.and_(known, when))
            assert node.fn is not None
            if node.kind == "explode" and not getattr(self.as_data(node.fn), "many", False):
                raise closed_list(node)
            return self.call(node.fn, leaves, n.and_(known, when), node.describe())

        return call

    #: What is not done as the table of processors says it of one event.
    STEPS: ClassVar[dict[str, Callable[..., list[Slot]]]] = {
        "merge": do_merge, "key_by": do_key_by, "forget": do_forget,
    }  # fmt: skip

    def window_value(self, sub: Graph, events: list[tuple[Expr, ...]], closes: Expr) -> list[Expr]:
        """Whether a fresh sub-pipeline emits anything over these events, and the leaves of its last one."""
        inner = SystemRun(self.domain, strict=self.strict, tables=self.tables)
        has: Expr = FALSE
        last: tuple[Expr, ...] | None = None
        for event in events:
            streams = inner.step(sub, {sub.sources[0]: [Slot(TRUE, event)]})
            for s in streams[sub.outputs[0][1]]:
                has = n.or_(has, s.present)
                last = (
                    s.leaves
                    if last is None
                    else tuple(n.ite(s.present, a, b) for a, b in zip(s.leaves, last, strict=True))
                )
        self.failed = n.or_(self.failed, n.and_(closes, inner.failed))
        self.wide = n.or_(self.wide, n.and_(closes, inner.wide))
        self.outside = n.or_(self.outside, n.and_(closes, inner.outside))
        assert last is not None
        return [has, *last]


def _reduced(e: Expr, m: int) -> Expr:
    """A function's result among the integers modulo N: constants on its branches are not reduced yet."""
    if e.op == "const":
        return n.const(e.value % m)
    if e.op == "ite":
        return n.ite(e.args[0], _reduced(e.args[1], m), _reduced(e.args[2], m))
    return e


def _check_constants(roots: Sequence[Expr], m: int, who: str) -> None:
    """Modulo N there is no N: a constant that is compared, added or handed on must be smaller; a divisor need not
    be."""
    for e in walk(*roots):
        operands = e.args[:1] if e.op in ("floordiv", "mod") else e.args
        for a in (*operands, *(r for r in roots if r is e)):
            if a.op == "const" and a.type == INT and a.value >= m:
                raise UsageError(
                    f"{who}: the constant {a.value} is not among the integers modulo {m}: use Mod({a.value + 1}) or "
                    "larger"
                )
