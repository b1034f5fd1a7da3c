"""The transition system of a pipeline: its Kripke structure, as expressions.

One push is one step (seed 001, section 3.1).  In a step every source pushes any event of its domain or stays
silent; the **state** is the processors' states and queues; **observations** are the presence and value of every
stream in the step, the lengths of queues after it, overflow and failure.  Everything is an expression over the
state's variables followed by the inputs', built by running the graph once on symbolic events: so explicit search,
SMT solvers and exporters all read the same system, and the users' functions are the traced ones.

A queue of bound Q holds up to Q events.  A push that would need more leads to the **overflow** state: nothing is
dropped or overwritten; ``overflow`` stays true from there on, and all streams are silent.  A push on which a
function fails leads to ``failed`` in the same way.

Integers are exact, unless the system is **strict**: then an integer that leaves 64 bits is a failure, as it is for every engine that runs
the pipeline.  A question that mentions ``failed`` is asked of the strict system; others are asked of the exact one, which is simpler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from pellucid.check.domains import Domain
from pellucid.engine.layout import capacities
from pellucid.errors import NotTraceable, UsageError
from pellucid.expr import node as n
from pellucid.expr.function import Function
from pellucid.expr.node import Expr, walk
from pellucid.expr.rewrite import failure, overflow, substitute
from pellucid.expr.types import BOOL, INT, Type, simplest
from pellucid.graph.model import Graph, Node

__all__ = ["Slot", "System", "Variable", "build_system"]

TRUE, FALSE = n.const(True), n.const(False)


@dataclass(frozen=True)
class Variable:
    """A variable of the state or of the input.

    ``size`` is the number of its values 0 … size-1 where it is a bounded counter.
    """

    name: str
    type: Type
    start: Any = None
    size: int | None = None


@dataclass(frozen=True)
class Slot:
    """An event that a stream may carry in a step: whether it does, and its leaves."""

    present: Expr
    leaves: tuple[Expr, ...]


@dataclass(frozen=True)
class System:
    """A transition system: ``next[i]`` is the new value of ``state[i]``, over state and input variables."""

    name: str
    domain: Domain
    state: tuple[Variable, ...]
    inputs: tuple[Variable, ...]
    next: tuple[Expr, ...]
    streams: Mapping[str, tuple[Type, tuple[Slot, ...]]]  # by name: sources, outputs and steps
    lengths: Mapping[str, Expr]  # of each queue after the step
    bounds: Mapping[str, int]  # of each queue
    overflow: Expr
    failed: Expr
    sources: tuple[tuple[str, Type], ...] = ()
    strict: bool = False  # leaving 64 bits is a failure
    wide: Expr = FALSE  # in this push an integer leaves 64 bits; of a strict system only

    @property
    def full(self) -> Expr:
        """Some queue has reached its bound, or would have had to grow beyond it."""
        out = self.overflow
        for id, length in self.lengths.items():
            out = n.or_(out, n.eq(length, n.const(self.bounds[id])))
        return out

    def present(self, stream: str) -> Expr:
        """Whether the stream carries an event in this step."""
        out = FALSE
        for slot in self.streams[stream][1]:
            out = n.or_(out, slot.present)
        return out

    def value(self, stream: str) -> tuple[Expr, ...]:
        """The leaves of its event (of the last one, where it carries several)."""
        slots = self.streams[stream][1]
        leaves = slots[0].leaves
        for slot in slots[1:]:
            leaves = tuple(n.ite(slot.present, a, b) for a, b in zip(slot.leaves, leaves, strict=True))
        return leaves


@dataclass
class _Run:
    """A symbolic run of a graph: where its steps keep their state, and what went wrong so far."""

    domain: Domain
    cells: dict[tuple[str, str], Expr] = field(default_factory=dict)  # (step, label) → value now
    lengths: dict[str, Expr] = field(default_factory=dict)
    overflow: Expr = FALSE
    failed: Expr = FALSE
    strict: bool = False
    wide: Expr = FALSE
    fresh: Callable[[str, str, Type, Any, int | None], Expr] | None = None
    queue: Callable[[str], int] | None = None
    held: dict[str, list[tuple[Expr, ...]]] = field(default_factory=dict)  # queues of a window's inner run
    lost: dict[str, Expr] = field(default_factory=dict)  # whether a lossy stream loses its events in this push

    def cell(self, step: str, label: str, t: Type, start: Any, size: int | None = None) -> Expr:
        """The present value of a piece of state; created at its start value."""
        key = (step, label)
        if key not in self.cells:
            self.cells[key] = self.fresh(step, label, t, start, size) if self.fresh is not None else n.const(start)
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
        roots = fn.traced.roots() if fn.traced is not None else self._tabulate(fn, who)
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

    def _tabulate(self, fn: Function, who: str) -> tuple[Expr, ...]:
        """An opaque function over a finite domain, by calling it on everything."""
        kinds = list(fn.params)
        pools = [self.domain.events(p) if p is not None else None for p in kinds]
        if fn.task or fn.result is None or any(pool is None for pool in pools):
            raise NotTraceable(
                f"{who}: {fn.name} {fn.reason}, and its arguments cannot be listed; "
                "give a finite domain, such as ints=range(0, 8)"
            )
        rows = list(product(*[pool for pool in pools if pool is not None]))
        if len(rows) > 4096:
            raise NotTraceable(f"{who}: {fn.name} {fn.reason}; its {len(rows):,} arguments are too many to list")
        variables = [n.var(i, t) for i, t in enumerate(t for p in kinds for _, t in p.leaves())]
        out: list[Expr] | None = None
        for row in reversed(rows):
            flat = [leaf for part in row for leaf in part]
            args = [p.unflatten(list(part)) for p, part in zip(kinds, row, strict=True)]
            try:
                values = [n.const(v) for v in fn.result.flatten(fn.call(*args))]
            except Exception:
                values = [n.raise_(0, t) for _, t in fn.result.leaves()]
            test = TRUE
            for v, leaf in zip(variables, flat, strict=True):
                test = n.and_(test, n.eq(v, n.const(leaf)))
            out = values if out is None else [n.ite(test, a, b) for a, b in zip(values, out, strict=True)]
        assert out is not None
        return tuple(out)

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
            count = self.cell(node.id, "count", INT, 0, node.k)
            after = n.ite(n.eq(count, n.const(node.k - 1)), n.const(0), n.add(count, n.const(1)))
            self.cells[node.id, "count"] = n.ite(s.present, after, count)
            out.append(Slot(n.and_(s.present, n.eq(count, n.const(0))), s.leaves))
        return out

    def do_trim(self, node: Node, ins: list[list[Slot]], cap: int | None) -> list[Slot]:
        assert node.k is not None
        out = []
        for s in ins[0]:
            count = self.cell(node.id, "count", INT, 0, node.k + 1)
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
        queues = [_Queue(self, f"{node.id}.{at}", node.id, slots) for at, slots in enumerate(ins)]
        out = []
        for _ in range(max(len(slots) for slots in ins)):
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
            count = self.cell(node.id, "seen", INT, 0, k)
            ring = [
                tuple(self.cell(node.id, f"event{i}.{j}", t, simplest(t), self.domain.modulus if t == INT else None) for j, t in enumerate(kinds))
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
        inner = _Run(self.domain, strict=self.strict)
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


class _Queue:
    """A queue during one push: what it held, then what came, then what is left."""

    def __init__(self, run: _Run, id: str, step: str, slots: list[Slot]) -> None:
        self.run, self.id, self.step = run, id, step
        self.kinds = [e.type for e in slots[0].leaves]
        self.inner = run.fresh is None
        if self.inner:  # a window's inner run: the queue is a list that starts empty with the run
            self.length: Expr = run.cells.get((step, f"{id}.length"), n.const(0))
            self.items = list(run.held.get(id, []))
            self.bound = len(self.items) + len(slots)
        else:
            assert run.queue is not None
            self.bound = run.queue(id)
            self.length = run.cell(step, f"{id}.length", INT, 0, self.bound + 1)
            self.items = [
                tuple(
                    run.cell(step, f"{id}.{i}.{j}", t, simplest(t), run.domain.modulus if t == INT else None)
                    for j, t in enumerate(self.kinds)
                )
                for i in range(self.bound)
            ]
        empty = tuple(n.const(simplest(t)) for t in self.kinds)
        for s in slots:  # room for all that comes, beyond the bound; what stays must fit again
            self.items.append(empty)
            for i in range(len(self.items)):
                here = n.and_(s.present, n.eq(self.length, n.const(i)))
                self.items[i] = tuple(n.ite(here, a, b) for a, b in zip(s.leaves, self.items[i], strict=True))
            self.length = n.ite(s.present, n.add(self.length, n.const(1)), self.length)

    @property
    def some(self) -> Expr:
        return n.not_(n.eq(self.length, n.const(0)))

    def take(self, when: Expr) -> None:
        empty = tuple(n.const(simplest(t)) for t in self.kinds)
        shifted = [*self.items[1:], empty]
        self.items = [
            tuple(n.ite(when, a, b) for a, b in zip(new, old, strict=True))
            for new, old in zip(shifted, self.items, strict=True)
        ]
        self.length = n.ite(when, n.sub(self.length, n.const(1)), self.length)

    def store(self) -> None:
        run = self.run
        run.lengths[self.id] = self.length
        run.cells[self.step, f"{self.id}.length"] = self.length
        if self.inner:
            run.held[self.id] = self.items
            return
        run.overflow = n.or_(run.overflow, n.lt(n.const(self.bound), self.length))
        for i in range(self.bound):
            for j in range(len(self.kinds)):
                run.cells[self.step, f"{self.id}.{i}.{j}"] = self.items[i][j]


@n.values_only()
def build_system(
    graph: Graph, domain: Domain, queue: int | Mapping[str, int] = 3, lossy: Sequence[str] = (), *, strict: bool = False
) -> System:
    """The transition system of a pipeline, with this bound for every queue, or for each by its id.

    The streams named in ``lossy`` may lose any of their events (seed 001, section 7); ``strict`` makes leaving 64 bits a failure.
    """
    for id in lossy:
        if id not in graph.position:
            raise UsageError(f"{graph.name} has no stream {id!r} to lose events: it has {', '.join(graph.position)}")
    known = {id for id, _, _ in graph.queues()}
    if isinstance(queue, Mapping):
        for id in queue:
            if id not in known:
                raise UsageError(f"{graph.name} has no queue {id!r}: it has {', '.join(sorted(known)) or 'none'}")

    def bound(id: str) -> int:
        return queue if isinstance(queue, int) else queue.get(id, 3)

    inputs: list[Variable] = []
    sources: dict[int, list[tuple[int, Type]]] = {}
    for at in graph.sources:
        node = graph.nodes[at]
        inputs.append(Variable(f"{node.id}.present", BOOL))
        sources[at] = [(len(inputs) - 1, BOOL)]
        for path, t in node.type.leaves():
            inputs.append(Variable(f"{node.id}.{path or 'value'}", t))
            sources[at].append((len(inputs) - 1, t))
    losses = {}
    for id in lossy:
        losses[id] = len(inputs)
        inputs.append(Variable(f"lost.{id}", BOOL))
    # State variables are found while the graph is run; inputs are numbered from a mark, and moved behind them.
    mark = 1_000_000
    state: list[Variable] = []

    def fresh(step: str, label: str, t: Type, start: Any, size: int | None) -> Expr:
        state.append(Variable(f"{step}:{label}", t, start, size))
        order.append((step, label))
        return n.var(len(state) - 1, t)

    order: list[tuple[str, str]] = []
    run = _Run(domain, strict=strict, fresh=fresh, queue=bound, lost={id: n.var(mark + i, BOOL) for id, i in losses.items()})
    stopped = fresh("", "stopped", INT, 0, 3)  # 0 running, 1 overflow, 2 failed
    running = n.eq(stopped, n.const(0))
    slots = {
        at: [
            Slot(
                n.and_(running, n.var(mark + parts[0][0], BOOL)),
                tuple(n.var(mark + i, t) for i, t in parts[1:]),
            )
        ]
        for at, parts in sources.items()
    }
    streams = run.step(graph, slots)
    stop = n.ite(n.or_(run.failed, run.wide), n.const(2), n.ite(run.overflow, n.const(1), stopped))
    halted = n.not_(n.eq(stop, n.const(0)))
    following = [stop]
    for i, (step, label) in enumerate(order[1:], 1):
        # A push that stops the system leaves the rest as it was: one state for each reason is enough.
        following.append(n.ite(halted, n.var(i, state[i].type), run.cells[step, label]))
    leaves = [n.var(i, v.type) for i, v in enumerate(state)]
    moved = {mark + i: n.var(len(state) + i, v.type) for i, v in enumerate(inputs)}
    named: dict[str, list[Slot]] = {node.id: streams[i] for i, node in enumerate(graph.nodes)}
    named |= {name: streams[i] for name, i in graph.outputs}
    types = {node.id: node.type for node in graph.nodes} | {name: graph.nodes[i].type for name, i in graph.outputs}
    live = n.not_(halted)
    flat: list[Expr] = [*following, *run.lengths.values(), n.eq(stop, n.const(1)), n.eq(stop, n.const(2)), run.wide]
    for s in (s for slots_ in named.values() for s in slots_):
        flat += [n.and_(live, s.present), *s.leaves]
    done = iter(substitute(flat, _Leaves(leaves, moved)))
    following = [next(done) for _ in following]
    lengths = {id: next(done) for id in run.lengths}
    full, failed, wide = next(done), next(done), next(done)
    final: dict[str, tuple[Type, tuple[Slot, ...]]] = {}
    for name, slots_ in named.items():
        final[name] = types[name], tuple(Slot(next(done), tuple(next(done) for _ in s.leaves)) for s in slots_)
    return System(
        graph.name,
        domain,
        tuple(state),
        tuple(inputs),
        tuple(following),
        final,
        lengths,
        {id: bound(id) for id in lengths},
        full,
        failed,
        tuple((graph.nodes[at].id, graph.nodes[at].type) for at in graph.sources),
        strict,
        wide,
    )


class _Leaves(list[Expr]):
    """Variables by number: the state's own, then the inputs' behind them."""

    def __init__(self, state: list[Expr], inputs: dict[int, Expr]) -> None:
        super().__init__(state)
        self.inputs = inputs

    def __getitem__(self, i: Any) -> Any:
        return self.inputs[i] if i in self.inputs else super().__getitem__(i)
