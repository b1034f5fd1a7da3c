"""One push of a pipeline on symbolic events: each kind of step as one function, as in the interpreter.

A `Run` keeps what the steps remember as expressions; a window runs its sub-pipeline in a run of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.check.domains import Domain
from pellucid.check.guess import Guess
from pellucid.check.queues import Queue, Room
from pellucid.check.slot import FALSE, TRUE, Slot
from pellucid.check.tabulate import tabulate
from pellucid.engine.layout import capacities
from pellucid.errors import NotTraceable, UsageError
from pellucid.expr import node as n
from pellucid.expr.function import Function
from pellucid.expr.node import Expr, walk
from pellucid.expr.rewrite import failure, overflow, substitute
from pellucid.expr.types import INT, Type, simplest
from pellucid.graph.model import Graph, Node

__all__ = ["Run"]


@dataclass
class Run:
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
    held: dict[str, list[tuple[Expr, ...]]] = field(default_factory=dict)  # queues of a window's inner run
    lost: dict[str, Expr] = field(default_factory=dict)  # whether a lossy stream loses its events in this push

    def cell(
        self, step: str, label: str, t: Type, start: Any, size: int | None = None, role: str = "state", of: str | None = None
    ) -> Expr:
        """The present value of a piece of state, of a step or of one of its queues; created at its start value."""
        key = (step, label)
        if key not in self.cells:
            of = step if of is None else of
            self.cells[key] = self.fresh(step, label, t, start, size, role, of) if self.fresh is not None else n.const(start)
        return self.cells[key]

    def reduce(self, e: Expr) -> Expr:
        m = self.domain.modulus
        if m is None:
            return e
        if e.op == "mod" and e.args[1].op == "const" and 0 < e.args[1].value <= m:
            return e
        return n.binary("mod", e, n.const(m))

    def call(self, fn: Function, leaves: Sequence[Expr], when: Expr, who: str) -> list[Expr]:
        """A function applied; its failure counts where an event is there."""
        roots = fn.traced.roots() if fn.traced is not None else tabulate(fn, self.domain, who)
        m = self.domain.modulus
        count = None  # of a task's events: a number of its own, not an integer modulo N
        if fn.traced is not None and fn.traced.count is not None:
            count = len(fn.traced.outputs)
        if m is not None:
            _check_constants([r for i, r in enumerate(roots) if i != count], m, who)
        with n.values_only(False):  # with every failure in its place
            made = substitute(roots, list(leaves), self.reduce if m is not None else None)
        for e in made:
            self.failed = n.or_(self.failed, n.and_(when, failure(e)))
        if self.strict and m is None:
            with n.values_only(False):
                conditions = [overflow(root) for root in roots]
            for condition in substitute(conditions, list(leaves)):
                self.wide = n.or_(self.wide, n.and_(when, condition))
        out = substitute(roots, list(leaves), self.reduce if m is not None else None)
        return [e if m is None or i == count or e.type != INT else _reduced(e, m) for i, e in enumerate(out)]

    # ------------------------------------------------------------ the steps, one function each

    def step(self, g: Graph, sources: Mapping[int, list[Slot]]) -> list[list[Slot]]:
        """One push: the slots of every stream."""
        caps = capacities(g)
        streams: list[list[Slot]] = []
        for i, node in enumerate(g.nodes):
            if node.kind == "source":
                streams.append(self.leak(node, sources[i]))
                continue
            if node.key is not None or node.kind == "key_by":
                raise UsageError(f"{node.describe()}: checks of keyed steps are not possible yet; check the pipeline for one key")
            ins = [streams[j] for j in node.inputs]
            streams.append(self.leak(node, getattr(self, f"do_{node.kind}")(node, ins, caps[i])))
        return streams

    def leak(self, node: Node, slots: list[Slot]) -> list[Slot]:
        """What is left of a stream that may lose its events."""
        if node.id not in self.lost:
            return slots
        return [Slot(n.and_(s.present, n.not_(self.lost[node.id])), s.leaves) for s in slots]

    def do_map(self, node: Node, ins: list[list[Slot]], cap: int | None) -> list[Slot]:
        assert node.fn is not None
        return [Slot(s.present, tuple(self.call(node.fn, s.leaves, s.present, node.describe()))) for s in ins[0]]

    def do_filter(self, node: Node, ins: list[list[Slot]], cap: int | None) -> list[Slot]:
        assert node.fn is not None
        out = []
        for s in ins[0]:
            (keep,) = self.call(node.fn, s.leaves, s.present, node.describe())
            out.append(Slot(n.and_(s.present, keep), s.leaves))
        return out

    def do_merge(self, node: Node, ins: list[list[Slot]], cap: int | None) -> list[Slot]:
        return [s for slots in ins for s in slots]

    def state_of(self, node: Node) -> list[tuple[str, Expr]]:
        assert node.state is not None
        leaves = node.state.flatten(node.start)
        labels = [f"state.{path}" if path else "state" for path, _ in node.state.leaves()]
        kinds = [t for _, t in node.state.leaves()]
        m = self.domain.modulus
        out = []
        for label, t, leaf in zip(labels, kinds, leaves, strict=True):
            if m is not None and t == INT and not 0 <= leaf < m:
                raise UsageError(f"{node.describe()}: its start value {leaf} is not among the integers modulo {m}")
            out.append((label, self.cell(node.id, label, t, leaf, m if t == INT else None)))
        return out

    def do_cumulate(self, node: Node, ins: list[list[Slot]], cap: int | None) -> list[Slot]:
        assert node.fn is not None
        out = []
        for s in ins[0]:
            old = self.state_of(node)
            new = self.call(node.fn, [e for _, e in old] + list(s.leaves), s.present, node.describe())
            for (label, before), value in zip(old, new, strict=True):
                self.cells[node.id, label] = n.ite(s.present, value, before)
            out.append(Slot(s.present, tuple(new)))
        return out

    def do_decimate(self, node: Node, ins: list[list[Slot]], cap: int | None) -> list[Slot]:
        assert node.k is not None
        out = []
        for s in ins[0]:
            count = self.cell(node.id, "count", INT, 0, node.k, "count")
            after = n.ite(n.eq(count, n.const(node.k - 1)), n.const(0), n.add(count, n.const(1)))
            self.cells[node.id, "count"] = n.ite(s.present, after, count)
            out.append(Slot(n.and_(s.present, n.eq(count, n.const(0))), s.leaves))
        return out

    def do_trim(self, node: Node, ins: list[list[Slot]], cap: int | None) -> list[Slot]:
        assert node.k is not None
        out = []
        for s in ins[0]:
            count = self.cell(node.id, "count", INT, 0, node.k + 1, "count")
            done = n.eq(count, n.const(node.k))
            self.cells[node.id, "count"] = n.ite(n.and_(s.present, n.not_(done)), n.add(count, n.const(1)), count)
            out.append(Slot(n.and_(s.present, done), s.leaves))
        return out

    def do_task(self, node: Node, ins: list[list[Slot]], cap: int | None) -> list[Slot]:
        assert node.fn is not None
        if node.fn.traced is None or node.state is None:
            raise NotTraceable(f"{node.describe()}: {node.fn.name} {node.fn.reason}; a task is checked as data only")
        out = []
        for s in ins[0]:
            old = self.state_of(node)
            results = self.call(node.fn, [e for _, e in old] + list(s.leaves), s.present, node.describe())
            for (label, before), value in zip(old, results[: len(old)], strict=True):
                self.cells[node.id, label] = n.ite(s.present, value, before)
            count, rest, size = results[len(old)], results[len(old) + 1 :], node.type.width
            for i in range(len(node.fn.traced.slots)):
                there = n.and_(s.present, n.lt(n.const(i), count))
                out.append(Slot(there, tuple(rest[i * size : (i + 1) * size])))
        return out

    # -- steps that wait

    def do_apply(self, node: Node, ins: list[list[Slot]], cap: int | None) -> list[Slot]:
        assert node.fn is not None
        out = []
        for present, fronts in self.fronts(node, ins, cap):
            leaves = [leaf for front in fronts for leaf in front]
            out.append(Slot(present, tuple(self.call(node.fn, leaves, present, node.describe()))))
        return out

    def do_filter_by(self, node: Node, ins: list[list[Slot]], cap: int | None) -> list[Slot]:
        return [Slot(n.and_(p, fronts[1][0]), fronts[0]) for p, fronts in self.fronts(node, ins, cap)]

    def fronts(self, node: Node, ins: list[list[Slot]], cap: int | None) -> list[tuple[Expr, list[tuple[Expr, ...]]]]:
        """What a step consumes: from each input one event, wherever all have one.

        In a push no step fires more often than its busiest input brings events (`capacities`), so all that
        came is queued first and then consumed that many times.
        """
        first = ins[0]
        together = all(len(slots) == 1 and slots[0].present is first[0].present for slots in ins)
        # In a window's inner run presence may agree in one push and not in another: then something may wait.
        if together and not any(f"{node.id}.{at}" in self.held for at in range(len(ins))):
            for at in range(len(ins) if node.queued else 0):
                self.lengths[f"{node.id}.{at}"] = n.const(0)
            return [(first[0].present, [slots[0].leaves for slots in ins])]
        takes = max(len(slots) for slots in ins)
        queues = [Queue(self, f"{node.id}.{at}", node.id, slots, takes) for at, slots in enumerate(ins)]
        out = []
        for _ in range(takes):
            ready = TRUE
            for q in queues:
                ready = n.and_(ready, q.some)
            fronts = [q.items[0] for q in queues]
            out.append((ready, fronts))
            for q in queues:
                q.take(ready)
        for q in queues:
            q.store()
        return out

    # -- windows

    def do_window(self, node: Node, ins: list[list[Slot]], cap: int | None) -> list[Slot]:
        assert node.sub is not None and node.k is not None
        sub, k = node.sub, node.k
        kinds = [t for _, t in sub.nodes[sub.sources[0]].type.leaves()]
        out = []
        for s in ins[0]:
            count = self.cell(node.id, "seen", INT, 0, k, "count")
            ring = [
                tuple(self.cell(node.id, f"event{i}.{j}", t, simplest(t), self.domain.modulus if t == INT else None, "event") for j, t in enumerate(kinds))
                for i in range(k - 1)
            ]
            full = n.eq(count, n.const(k - 1))
            closes = n.and_(s.present, full)
            has, last = self.window_value(node, [*ring, s.leaves], closes)
            out.append(Slot(n.and_(closes, has), last))
            self.cells[node.id, "seen"] = n.ite(n.and_(s.present, n.not_(full)), n.add(count, n.const(1)), count)
            for i in range(k - 1):
                later = ring[i + 1] if i + 1 < k - 1 else s.leaves
                for j in range(len(kinds)):
                    here = n.ite(n.eq(count, n.const(i)), s.leaves[j], ring[i][j])
                    self.cells[node.id, f"event{i}.{j}"] = n.ite(s.present, n.ite(full, later[j], here), ring[i][j])
        return out

    def window_value(self, node: Node, events: list[tuple[Expr, ...]], closes: Expr) -> tuple[Expr, tuple[Expr, ...]]:
        """The definition, unrolled: the last event of a fresh sub-pipeline over these events."""
        assert node.sub is not None
        inner = Run(self.domain, strict=self.strict)
        has: Expr = FALSE
        last: tuple[Expr, ...] | None = None
        for event in events:
            streams = inner.step(node.sub, {node.sub.sources[0]: [Slot(TRUE, event)]})
            for s in streams[node.sub.outputs[0][1]]:
                has = n.or_(has, s.present)
                last = s.leaves if last is None else tuple(
                    n.ite(s.present, a, b) for a, b in zip(s.leaves, last, strict=True)
                )
        self.failed = n.or_(self.failed, n.and_(closes, inner.failed))
        self.wide = n.or_(self.wide, n.and_(closes, inner.wide))
        assert last is not None
        return has, last


def _reduced(e: Expr, m: int) -> Expr:
    """A function's result among the integers modulo N: constants on its branches are not reduced yet."""
    if e.op == "const":
        return n.const(e.value % m)
    if e.op == "ite":
        return n.ite(e.args[0], _reduced(e.args[1], m), _reduced(e.args[2], m))
    return e


def _check_constants(roots: Sequence[Expr], m: int, who: str) -> None:
    """Modulo N there is no N: a constant that is compared, added or handed on must be smaller; a divisor need not be."""
    for e in walk(*roots):
        operands = e.args[:1] if e.op in ("floordiv", "mod") else e.args
        for a in (*operands, *(r for r in roots if r is e)):
            if a.op == "const" and a.type == INT and a.value >= m:
                raise UsageError(
                    f"{who}: the constant {a.value} is not among the integers modulo {m}: use Mod({a.value + 1}) or larger"
                )
