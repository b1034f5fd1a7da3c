"""The transition system of a pipeline: its Kripke structure, as expressions.

One push is one step (Model Checking of Stream Processing Pipelines, 2021, section 3.1).  In a step every source pushes
any event of its domain or stays silent; the **state** is the processors' states and queues; **observations** are the
presence and value of every stream in the step, the lengths of queues after it, overflow and failure.  Everything is an
expression over the state's variables followed by the inputs', built by running the graph once on symbolic events: so
explicit search, SMT solvers and exporters all read the same system, and the users' functions are the traced ones.

A queue of bound Q holds up to Q events.  A push that would need more leads to the **overflow** state: nothing is
dropped or overwritten; ``overflow`` stays true from there on, and all streams are silent.  A push on which a
function fails leads to ``failed`` in the same way.  A push on which a function that is called and not traced gets an
argument that it was never called with leads **outside** in the same way: about such a run nothing is claimed.

Integers are exact, unless the system is **strict**: then an integer that leaves 64 bits is a failure, as it is for
every engine that runs the pipeline.  A question that mentions ``failed`` is asked of the strict system; others are
asked of the exact one, which is simpler.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.check.functions.arguments import tables_of
from pellucid.check.functions.called import Leaves, Tables
from pellucid.check.system.domains import Domain
from pellucid.check.system.queues import Guess, Room, is_guess
from pellucid.check.system.run import SystemRun
from pellucid.check.system.tracking import Asked, KeyRecorder, Keys, Track, chosen_lanes, plan
from pellucid.check.system.variables import FALSE, TRUE, Lanes, Slot, Variable, groups
from pellucid.errors import UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.rewrite import has_text, substitute, tidy
from pellucid.internal.expr.types import BOOL, INT, DecimalType, OptionalType, TimeType, Type, simplest
from pellucid.internal.graph.model import Graph, forgetting, refuse_timed

_MARK = 1_000_000  # inputs are numbered from here until all state variables are known
HIDDEN = "\0"  # in front of a step's name, among the streams, where an output of that name is another stream


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
    keys: Keys | None = None  # which keys are tracked
    # in this push events of keys that are not tracked are seen, or it comes after the end of a run with too many keys:
    # it is not judged
    partial: Expr = FALSE
    outside: Expr = FALSE  # in this push or before, a function got an argument that it was never called with
    assume: Expr = TRUE  # what is taken for granted of every push: others are in no run
    outputs: Mapping[str, str] = field(default_factory=dict)  # the step (or source) that each output is
    graph: Graph | None = None  # whose system it is, so that a proof can be tried on the interpreter
    lead: tuple[
        Mapping[str, Any], ...
    ] = ()  # pushes that lead the pipeline to this system's start, if that is not its own
    failures: Mapping[str, Expr] = field(default_factory=dict)  # of pipelines side by side: which has failed
    # something looks inside a string or orders strings: then a solver's strings must be Python's, not mere names
    texts: bool = False
    guessed: tuple[Mapping[str, str], ...] = ()  # pushes that are guessed: for each, what stands there for which source

    def mapped(self, change: Callable[[list[Expr]], list[Expr]]) -> System:
        """The system with all its expressions changed, except the variables."""
        slots = [s for _, many in self.streams.values() for s in many]
        flat = [*self.next, *self.lengths.values(), *self.failures.values()]
        flat += [self.overflow, self.failed, self.wide, self.outside, self.assume, self.partial]
        done = iter(change([*flat, *(e for s in slots for e in (s.present, *s.leaves))]))
        following = tuple(next(done) for _ in self.next)
        lengths = {id: next(done) for id in self.lengths}
        failures = {side: next(done) for side in self.failures}
        overflow, failed, wide, outside, assume, partial = (next(done) for _ in range(6))
        streams = {
            name: (t, tuple(Slot(next(done), tuple(next(done) for _ in s.leaves)) for s in many))
            for name, (t, many) in self.streams.items()
        }
        return dataclasses.replace(
            self, next=following, streams=streams, lengths=lengths, overflow=overflow, failed=failed, wide=wide,
            assume=assume, outside=outside, partial=partial, failures=failures,
        )  # fmt: skip

    @property
    def own_sources(self) -> list[tuple[str, Type]]:
        """The pipeline's sources: without those that stand for what is guessed."""
        return [(name, t) for name, t in self.sources if not is_guess(name)]

    @property
    def full(self) -> Expr:
        """Some queue has reached its bound, or would have had to grow beyond it."""
        out = self.overflow
        for id, length in self.lengths.items():
            out = n.or_(out, n.eq(length, n.const(self.bounds[id])))
        return out

    def present(self, stream: str) -> Expr:
        """Whether the stream carries an event in this step."""
        return n.any_of(slot.present for slot in self.streams[stream][1])

    def value(self, stream: str) -> tuple[Expr, ...]:
        """The leaves of its event, if it carries at most one in a push; of other streams ask for each, the first or
        the last."""
        return self.last(stream)

    def first(self, stream: str) -> tuple[Expr, ...]:
        """The leaves of its first event in this step."""
        return _chosen(self.streams[stream][1][::-1], self.streams[stream][0])

    def last(self, stream: str) -> tuple[Expr, ...]:
        """The leaves of its last event in this step."""
        return _chosen(self.streams[stream][1], self.streams[stream][0])

    def count(self, stream: str) -> Expr:
        """How many events it carries in this step."""
        out: Expr = n.const(0)
        for slot in self.streams[stream][1]:
            out = n.add(out, n.int_of_bool(slot.present))
        return out

    def node(self, id: str) -> str:
        """Under which name the stream of a source or step stands in ``streams``: an output of that name takes
        precedence."""
        return f"{HIDDEN}{id}" if self.outputs.get(id, id) != id else id


def _refuse_times_modulo(graph: Graph, domain: Domain) -> None:
    for node in graph.nodes:
        for t in (node.type, *((node.state,) if node.state is not None else ())):
            for path, column in t.columns():
                inner = column.inner if isinstance(column, OptionalType) else column
                if domain.modulus is not None and isinstance(inner, (TimeType, DecimalType)):
                    field = f" (field {path!r})" if path else ""
                    raise UsageError(
                        f"{node.describe()}{field} carries {column}, and integers modulo {domain.modulus} are no times "
                        "and no decimals: leave ints= out, or give a range"
                    )
        if node.sub is not None:
            _refuse_times_modulo(node.sub, domain)


def _chosen(slots: Sequence[Slot], t: Type) -> tuple[Expr, ...]:
    """The leaves of the last of these that is present."""
    leaves = slots[0].leaves if slots else tuple(n.const(simplest(kind)) for _, kind in t.leaves())
    for slot in slots[1:]:
        leaves = tuple(n.ite(slot.present, a, b) for a, b in zip(slot.leaves, leaves, strict=True))
    return leaves


@n.values_only()
def build_system(
    graph: Graph,
    domain: Domain,
    queue: int | Mapping[str, int] | Room = 3,
    lossy: Sequence[str] = (),
    *,
    strict: bool = False,
    track: Track | None = None,
    events: Mapping[str, Iterable[Leaves]] | None = None,
    sides: Mapping[str, Sequence[str]] | None = None,
) -> System:
    """The transition system of a pipeline, with this bound for every queue, or for each by its id, or with another
    `Room`.

    The streams named in ``lossy`` may lose any of their events (Model Checking of Stream Processing Pipelines, 2021,
    section 7); ``strict`` makes leaving 64 bits a failure; ``track`` is what the question looks at, which decides about
    the keys that are tracked; ``events`` are all that the sources bring, where that is known. ``sides`` are pipelines
    side by side in one graph, each by its outputs: they fail each for itself, and share what both would do.
    """
    refuse_timed(graph, "a check")
    for id in lossy:
        if id not in graph.position:
            raise UsageError(f"{graph.name} has no stream {id!r} to lose events: it has {', '.join(graph.position)}")
    known = {id for id, _, _ in graph.queues()}
    room = queue if isinstance(queue, Room) else Room(queue)
    if isinstance(room.bounds, Mapping):
        for id in room.bounds:
            if id not in known:
                raise UsageError(f"{graph.name} has no queue {id!r}: it has {', '.join(sorted(known)) or 'none'}")

    _refuse_times_modulo(graph, domain)
    inputs: list[Variable] = []
    sources: dict[int, list[tuple[int, Type]]] = {}
    for at in graph.sources:
        node = graph.nodes[at]
        inputs.append(Variable(f"{node.id}.present", BOOL, role="present", of=node.id))
        sources[at] = [(len(inputs) - 1, BOOL)]
        for j, (path, t) in enumerate(node.type.leaves()):
            inputs.append(Variable(f"{node.id}.{path or 'value'}", t, role="leaf", of=node.id, at=j))
            sources[at].append((len(inputs) - 1, t))
    losses = {}
    for id in lossy:
        losses[id] = len(inputs)
        inputs.append(Variable(f"lost.{id}", BOOL, role="lost", of=id))
    apart = _sides(graph, sides)

    def once(
        lanes: Callable[[Graph, int], Lanes],
    ) -> tuple[SystemRun, list[list[Slot]], list[Variable], list[tuple[str, str]], dict[str, Expr], Guess]:
        """One push on symbolic events.

        State variables are found while the graph is run; inputs are numbered from a mark, and moved behind them.
        """
        state: list[Variable] = []
        order: list[tuple[str, str]] = []

        def fresh(step: str, label: str, t: Type, start: Any, size: int | None, role: str, of: str) -> Expr:
            state.append(Variable(f"{step}:{label}", t, start, size, role, of))
            order.append((step, label))
            return n.var(len(state) - 1, t)

        lost = {id: n.var(_MARK + i, BOOL) for id, i in losses.items()}
        guess = Guess(domain, state, inputs, types, _MARK, 2 * _MARK)
        run = SystemRun(
            domain, strict=strict, fresh=fresh, room=room, guess=guess, lost=lost, lanes=lanes, tables=tables
        )
        # 0 running, 1 overflow, 2 failed, 3 too many keys, 4 outside
        size = 5 if graph.opaque() else 4 if keyed else 3
        stopped = {side: fresh(side, "stopped", INT, 0, size, "stopped", side) for side in apart}
        running = n.any_of(n.eq(cell, n.const(0)) for cell in stopped.values())
        slots = {}
        for at, parts in sources.items():
            present = n.and_(running, n.var(_MARK + parts[0][0], BOOL))
            slots[at] = [Slot(present, tuple(tidy(graph.nodes[at].type, [n.var(_MARK + i, t) for i, t in parts[1:]])))]
        return run, run.step(graph, slots), state, order, stopped, guess

    types = {graph.nodes[at].id: graph.nodes[at].type for at in graph.sources}
    tables = Tables(tables_of(graph, domain, events))
    keyed = any(node.key is not None for node in graph.nodes)
    keys = None
    lanes: Callable[[Graph, int], Lanes] = _no_lanes
    if keyed:
        asked: list[Asked] = []
        number, recorders = groups(graph), dict[int, Lanes]()
        _, _, state, order, _, recorded = once(
            lambda _, at: recorders.setdefault(number[at], KeyRecorder(number[at], asked))
        )
        source_of = {_MARK + i: v.of for i, v in enumerate(inputs) if v.role in ("present", "leaf")}
        step_of = {i: step for i, (step, _) in enumerate(order) if i >= len(apart) and state[i].role != "key"}

        def pool(i: int) -> Sequence[Any] | None:
            if i >= 2 * _MARK:  # of an event that waits in a queue that is not tracked: any that could come there
                return (False, True) if recorded.inputs[i - 2 * _MARK].type == BOOL else None
            v = inputs[i - _MARK] if i >= _MARK else state[i]
            if v.size is not None:
                return range(v.size)
            if i < _MARK and v.type == INT:
                return None
            found = domain.leaf(v.type)
            if found is not None and v.role == "leaf" and v.of in types and types[v.of].guards()[v.at]:
                return list(dict.fromkeys([*found, simplest(v.type)]))  # of what is not there
            return found

        wanted = track or Track()
        # An event that was left out of a run might have been needed for what is assumed, or for a count of events.
        if domain.assume or forgetting(graph) is not None:
            wanted = dataclasses.replace(wanted, whole=True)
        planned = plan(graph, wanted, asked, source_of, step_of, pool, 2 * _MARK)
        keys, made = planned.keys, {g: make() for g, make in planned.make.items()}
        for g, chosen in planned.chosen.items():
            first = [[len(inputs) + i * len(kinds) + j for j in range(len(kinds))] for i, kinds in enumerate(chosen)]
            inputs += [
                Variable(f"key {i + 1}", t, None, None, "key", f"{g}.{i}", j)
                for i, kinds in enumerate(chosen)
                for j, t in enumerate(kinds)
            ]
            made[g] = chosen_lanes(g, [[n.var(_MARK + at, inputs[at].type) for at in row] for row in first])

        lanes = lambda _, at: made[planned.number[at]]

    run, streams, state, order, stopped, guess = once(lanes)
    running = {side: n.eq(cell, n.const(0)) for side, cell in stopped.items()}
    fails, over, wide = {}, FALSE, FALSE
    for side, steps in apart.items():
        # In the order of the graph: what a later step does after a failure of an earlier one may make no sense.
        here = [pair for id, pair in run.trouble.items() if id in steps]
        fails[side] = n.and_(running[side], n.any_of(e for pair in here for e in pair))
        # queues may be shared by both
        over = n.or_(over, n.and_(n.and_(running[side], n.not_(fails[side])), run.overflow))
        wide = n.or_(wide, n.and_(running[side], n.any_of(leaves_64 for _, leaves_64 in here)))
    # An overflow, a key too many or an argument that was not tried stops all sides: what comes after is not known of
    # any.
    stop = {}
    for side, cell in stopped.items():
        known_of = n.ite(fails[side], n.const(2), n.ite(n.and_(running[side], over), n.const(1), cell))
        known_of = n.ite(n.and_(running[side], run.beyond), n.const(3), known_of)
        stop[side] = n.ite(n.and_(running[side], run.outside), n.const(4), known_of)
    partial = n.any_of(n.eq(cell, n.const(3)) for cell in stop.values()) if run.beyond is not FALSE else FALSE
    if keys is not None and keys.chosen:
        partial = n.any_of([s.unsure for slots_ in streams for s in slots_])
    live = {side: n.eq(cell, n.const(0)) for side, cell in stop.items()}
    going = {id: n.any_of(live[side] for side, steps in apart.items() if id in steps) for id in graph.position}
    following = list(stop.values())
    for i, (step, label) in enumerate(order[len(apart) :], len(apart)):
        # A push that stops the system leaves the rest as it was: one state for each reason is enough.
        # (Steps that count the same share a cell, so it goes on as long as any side does.)
        following.append(n.ite(n.any_of(live.values()), run.cells[step, label], n.var(i, state[i].type)))
    leaves = [n.var(i, v.type) for i, v in enumerate(state)]
    # What is guessed stands behind the sources, before what is lost.
    own = sum(v.role in ("present", "leaf") for v in inputs)
    behind = (
        [_MARK + i for i in range(own)]
        + [2 * _MARK + i for i in range(len(guess.inputs))]
        + [_MARK + i for i in range(own, len(inputs))]
    )
    inputs[own:own] = guess.inputs
    moved = {old: n.var(len(state) + i, inputs[i].type) for i, old in enumerate(behind)}
    outputs = {name: graph.nodes[i].id for name, i in graph.outputs}
    place = {node.id: i for i, node in enumerate(graph.nodes)}
    place |= {f"{HIDDEN}{id}": i for id, i in place.items() if outputs.get(id, id) != id} | dict(graph.outputs)
    named: dict[str, list[Slot]] = {name: streams[i] for name, i in place.items()}
    kinds = {name: graph.nodes[i].type for name, i in place.items()}
    failures = {side: n.eq(cell, n.const(2)) for side, cell in stop.items()}
    full = n.any_of(n.eq(cell, n.const(1)) for cell in stop.values())
    flat: list[Expr] = [
        *following,
        *run.lengths.values(),
        *failures.values(),
        full,
        wide,
        partial,
        n.any_of(n.eq(cell, n.const(4)) for cell in stop.values()),
    ]
    for name, slots_ in named.items():
        sure = going[graph.nodes[place[name]].id]
        # an output is its pipeline's own, also where the step behind it is shared
        if sides is not None and name in outputs:
            sure = n.any_of(live[side] for side in apart if name in sides[side])
        flat += [e for s in slots_ for e in (n.and_(sure, s.present), *s.leaves)]
    done = iter(substitute(flat, _Leaves(leaves, moved)))
    following = [next(done) for _ in following]
    lengths = {id: next(done) for id in run.lengths}
    failures = {side: next(done) for side in failures}
    full, wide, partial, outside = (next(done) for _ in range(4))
    # a push that fails leaves the queues as they were, which is how they would be after silence
    if sides is None and lengths:
        silence = [
            *leaves,
            *(FALSE if v.role == "present" else n.var(len(state) + i, v.type) for i, v in enumerate(inputs)),
        ]
        before = substitute(list(lengths.values()), silence)
        failed = n.any_of(failures.values())
        lengths = {id: n.ite(failed, old, now) for (id, now), old in zip(lengths.items(), before, strict=True)}
    final: dict[str, tuple[Type, tuple[Slot, ...]]] = {}
    for name, slots_ in named.items():
        final[name] = kinds[name], tuple(Slot(next(done), tuple(next(done) for _ in s.leaves)) for s in slots_)
    system = System(
        graph.name,
        domain,
        tuple(state),
        tuple(inputs),
        tuple(following),
        final,
        lengths,
        {id: room.of(id) for id in lengths},
        full,
        n.any_of(failures.values()),
        (*types.items(), *guess.sources),
        strict,
        wide,
        keys,
        partial,
        outside=FALSE if run.outside is FALSE else outside,
        outputs=outputs,
        # An interpreter beside it does the same, unless something is guessed, a queue may overflow unseen, or pipelines
        # fail each for itself.
        graph=graph
        if room.beyond == "overflow" and (room.watch is None or known <= room.watch) and sides is None
        else None,
        failures=failures if sides else {},
        texts=has_text(
            *following, full, wide, partial, outside, *lengths.values(), *failures.values(), *_carried(final)
        ),
        guessed=tuple(guess.pushes),
    )
    if not domain.assume:
        return system
    from pellucid.check.system.assume import attach  # it is made of formulas, and they speak of systems

    return attach(system)


def _carried(streams: Mapping[str, tuple[Type, tuple[Slot, ...]]]) -> list[Expr]:
    return [e for _, slots in streams.values() for s in slots for e in (s.present, *s.leaves)]


def _no_lanes(graph: Graph, at: int) -> Lanes:
    raise AssertionError(f"{graph.nodes[at].id} is under no key")


def _sides(graph: Graph, sides: Mapping[str, Sequence[str]] | None) -> dict[str, set[str]]:
    """The steps of each pipeline in a graph: those that its outputs depend on; without sides, all."""
    if sides is None:
        return {"": set(graph.position)}
    outputs, out = dict(graph.outputs), {}
    for side, names in sides.items():
        waiting, found = [outputs[name] for name in names], set()
        while waiting:
            at = waiting.pop()
            if graph.nodes[at].id not in found:
                found.add(graph.nodes[at].id)
                waiting += graph.nodes[at].inputs
        out[side] = found
    return out


class _Leaves(list[Expr]):
    """Variables by number: the state's own, then the inputs' behind them."""

    def __init__(self, state: list[Expr], inputs: dict[int, Expr]) -> None:
        super().__init__(state)
        self.inputs = inputs

    def __getitem__(self, i: Any) -> Any:
        return self.inputs[i] if i in self.inputs else super().__getitem__(i)


# A system with more state: cells that remember something of what was seen.
#
# The cells stand behind the state that is there; the inputs move up, and every expression with them.


class Cells:
    """Collects cells for a system; `done` gives the system with them.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> from pellucid.internal.expr.types import BOOL
    >>> before = build_system(pipeline(lambda x: x + 1, x=int).graph, domain_of(None))
    >>> cells = Cells(before)
    >>> came = cells.add("came", BOOL, False)
    >>> cells.follow(came, before.present("x"))
    >>> after, (out, seen) = cells.done([before.present("out"), came])
    >>> [v.name for v in after.state], seen.value
    ([':stopped', 'came'], 1)
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self._made: list[Variable] = []
        self._next: dict[int, Expr] = {}
        self._mark = len(system.state) + len(system.inputs)  # cells are numbered behind the inputs until all are known

    def add(
        self,
        name: str,
        t: Type,
        start: object,
        role: str = "memory",
        of: str = "",
        at: int = 0,
        *,
        size: int | None = None,
    ) -> Expr:
        """A new cell, of 0 … size-1 where it is a bounded counter; `follow` says what it holds next."""
        self._made.append(Variable(name, t, start, size, role, of, at))
        return n.var(self._mark + len(self._made) - 1, t)

    def follow(self, cell: Expr, value: Expr) -> None:
        """What the cell holds after a push."""
        self._next[cell.value - self._mark] = value

    @n.values_only()
    def done(self, roots: Sequence[Expr]) -> tuple[System, list[Expr]]:
        """The system with the cells, and the roots over it."""
        old, have, many = self._system, len(self._system.state), len(self._made)
        if not many:
            return old, list(roots)
        leaves = [n.var(i, v.type) for i, v in enumerate(old.state)]
        leaves += [n.var(have + many + i, v.type) for i, v in enumerate(old.inputs)]
        leaves += [n.var(have + i, v.type) for i, v in enumerate(self._made)]
        following = [self._next[i] for i in range(many)]
        moved = old.mapped(lambda exprs: substitute(exprs, leaves))
        added = substitute([*following, *roots], leaves)
        system = dataclasses.replace(moved, state=(*old.state, *self._made), next=(*moved.next, *added[:many]))
        return system, added[many:]


# The cone of influence: the part of a system that a question can depend on.
#
# Whether a window emits an event depends on how many came, not on what they were.  With the rest cut away, questions
# about presence have finitely many states over exact integers as well.


@n.values_only()
def cone(system: System, roots: Sequence[Expr], *, all_inputs: bool = False) -> tuple[System, list[Expr]]:
    """The system with only the variables that the roots depend on, and the roots over it.

    With ``all_inputs`` the inputs stay as they are.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    >>> s = build_system(pipeline(lambda x: x.window(3, total), x=int).graph, domain_of(None))
    >>> small, _ = cone(s, [s.present("out")])
    >>> [v.name.split(":")[1] for v in small.state], [v.name for v in small.inputs]
    (['seen'], ['x.present'])
    """
    system, roots = _frozen(system, roots)
    states = len(system.state)
    needed: set[int] = set()
    waiting = _variables([*roots, system.assume, system.partial])
    while waiting:
        i = waiting.pop()
        if i not in needed:
            needed.add(i)
            if i < states:
                waiting |= _variables([system.next[i]]) - needed
    if all_inputs:
        needed |= set(range(states, states + len(system.inputs)))
    kept = sorted(needed)
    number = {old: new for new, old in enumerate(kept)}
    kept_states = [i for i in kept if i < states]
    kept_inputs = [i - states for i in kept if i >= states]
    variables = [*system.state, *system.inputs]
    leaves = [n.var(number.get(i, 0), v.type) for i, v in enumerate(variables)]
    flat = substitute([*[system.next[i] for i in kept_states], *roots], leaves)
    streams = {}
    for name, (t, slots) in system.streams.items():
        inside = _variables([e for s in slots for e in (s.present, *s.leaves)]) <= needed
        if inside:
            moved = iter(substitute([e for s in slots for e in (s.present, *s.leaves)], leaves))
            streams[name] = t, tuple(Slot(next(moved), tuple(next(moved) for _ in s.leaves)) for s in slots)
    lengths = {id: substitute([e], leaves)[0] for id, e in system.lengths.items() if _variables([e]) <= needed}
    halted = [
        substitute([e], leaves)[0] if _variables([e]) <= needed else n.const(False)
        for e in (system.overflow, system.failed, system.wide, system.outside)
    ]
    failures = {side: substitute([e], leaves)[0] for side, e in system.failures.items() if _variables([e]) <= needed}
    assume, partial = substitute([system.assume, system.partial], leaves)
    small = dataclasses.replace(
        system,
        state=tuple(system.state[i] for i in kept_states),
        inputs=tuple(system.inputs[i] for i in kept_inputs),
        next=tuple(flat[: len(kept_states)]),
        streams=streams,
        lengths=lengths,
        overflow=halted[0],
        failed=halted[1],
        wide=halted[2],
        outside=halted[3],
        assume=assume,
        partial=partial,
        failures=failures,
    )
    return small, flat[len(kept_states) :]


def _frozen(system: System, roots: Sequence[Expr]) -> tuple[System, Sequence[Expr]]:
    """Put constants in place of variables that never change, until there are none."""
    while True:
        stuck = {i for i, e in enumerate(system.next) if e.op == "var" and e.value == i}
        asked = [*roots, system.assume, system.partial]
        used = _variables([*system.next, *asked]) & stuck
        changing = _variables([e for i, e in enumerate(system.next) if i not in stuck]) | _variables(asked)
        if not used & changing:
            return system, roots
        variables = [*system.state, *system.inputs]
        leaves = [n.const(v.start) if i in stuck else n.var(i, v.type) for i, v in enumerate(variables)]
        roots = substitute(roots, leaves)
        frozen = system.mapped(lambda exprs, leaves=leaves: substitute(exprs, leaves))  # type: ignore[misc]
        following = [
            n.var(i, v.type) if i in stuck else e
            for i, (v, e) in enumerate(zip(system.state, frozen.next, strict=True))
        ]
        system = dataclasses.replace(frozen, next=tuple(following))


def _variables(roots: Sequence[Expr]) -> set[int]:
    return {e.value for e in walk(*roots) if e.op == "var"}
