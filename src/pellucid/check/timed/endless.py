"""Two pipelines by event time in runs of any length: times count from the greatest one seen, so that states come again.

Windows are the same everywhere: what a pipeline does with events that are all later by a multiple of its period (the
least common multiple of how often its windows begin) is what it did, later by as much, **if no function looks at the
time** of an event.  That is asked of each function as it was traced (`flows`), and a pipeline of which it is not known
is refused.  (At the ends of 64 bits, and of the years, there is no later: what fails there is left out.)  So after each
step both engines are moved back, by multiples of the period, to where the greatest time is within the first one: equal
states go on alike.  There are finitely many if events come a bounded time behind and ahead of the greatest one
(``times=``), at most ``rate`` of them at one time: a window is then of finitely many events.

Only of one source: of two, one may be any time ahead of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, lcm
from typing import Any, NoReturn

from pellucid.check.timed.compare import _both, _Pair
from pellucid.check.timed.found import TimedRun, named
from pellucid.check.timed.inputs import Finish, Inputs, Move, Rows, time_leaves
from pellucid.check.timed.machine import At, TimedMachine, frozen_engine
from pellucid.check.timed.question import Spot
from pellucid.errors import UsageError
from pellucid.internal.engine.timed.clock import BEGINNING, END
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.model import Graph, Node
from pellucid.internal.graph.timing import shown_length
from pellucid.internal.model import Budget, CutShort, Search, Verdict, now

Leaves = tuple[bool, ...]  # of a stream: which leaves of an event are times that move with it
STATELESS = ("source", "at", "map", "filter", "key_by", "merge", "late", "early")


def flows(graph: Graph, times: Leaves, *, inside: bool = False) -> list[Leaves | None]:
    """Which leaves of each stream are times; None where it is not known.  Refused by name is a step that looks at
    one.

    >>> from pellucid import pipeline
    >>> p = pipeline(lambda x: x.at(lambda e: e[0]).tumbling(9, lambda w: w.map(lambda e: e[1])), x=tuple[int, int])
    >>> flows(p.graph, (True, False))
    [(True, False), (True, False), (True, True, False)]
    """
    found: list[Leaves | None] = []
    for node in graph.nodes:
        before = [found[i] for i in node.inputs]
        found.append(times if node.kind == "source" else _flow(node, before, inside))
    return found


def _flow(node: Node, before: Sequence[Leaves | None], inside: bool) -> Leaves | None:
    first = before[0]
    if node.kind in ("late", "join", "as_of", "lookup"):
        return None  # what they put out has times in it that are no leaves of an event
    if first is None or any(other != first for other in before):
        if inside or node.kind not in STATELESS or node.fn is not None:
            _refuse(node, "reads what a join, as_of or late puts out, of which it is not known where its times are")
        return None
    if not inside and not node.processor.timed and node.kind not in STATELESS:
        _refuse(node, "remembers, and what it has seen would be moved as well")
    if node.kind == "at" or node.kind in ("merge", "early"):
        return first
    if node.sub is not None and node.processor.timed:
        sub = flows(node.sub, first, inside=True)[node.sub.outputs[0][1]]
        return None if sub is None else (True, True, *sub)
    if not any(first):
        return (False,) * node.type.width
    if node.fn is None:
        return first if node.kind in ("trim", "decimate") else _refuse(node, "has times of events in it")
    if node.fn.traced is None:
        _refuse(node, "has a function that cannot be traced, and may look at the time")
    outputs = node.fn.traced.outputs
    skipped = sum(t.width for t in node.fn.params[:-1] if t is not None)  # a state comes before the event
    seen = {skipped + i for i, is_time in enumerate(first) if is_time}
    if node.kind == "map":
        leaves = []
        for e in outputs:
            leaves.append(e.op == "var" and e.value in seen)
            if not leaves[-1] and _reads(e) & seen:
                _refuse(node, "looks at the time of an event")
        return tuple(leaves)
    if any(_reads(e) & seen for e in outputs) or len(before) > 1:
        _refuse(node, "looks at the time of an event")
    return first if node.kind in ("filter", "key_by", "dedup") else (False,) * node.type.width


def _reads(e: Expr) -> set[int]:
    return {int(part.value) for part in walk(e) if part.op == "var"}


def _refuse(node: Node, why: str) -> NoReturn:
    raise UsageError(
        f"{node.describe()} {why}: whether it does the same at other times is not known, so nothing can be said of "
        "runs of any length; say pushes=, how many events a run has"
    )


class Moved:
    """A graph whose states can be moved in time."""

    def __init__(self, graph: Graph) -> None:
        if len(graph.sources) > 1:
            raise UsageError(
                f"{graph.name} has several sources, of which one may be any time ahead of another: say pushes=, how "
                "many events a run has"
            )
        self.graph = graph
        source = graph.nodes[graph.sources[0]]
        _, places, _ = time_leaves(graph)[source.id]
        self.times = tuple(i in places for i in range(source.type.width))
        self.flows = flows(graph, self.times)
        self.period = 1
        for node in graph.nodes:
            t = node.timing
            if t is not None and t.tz is not None:
                _refuse(node, "has windows of days of a time zone, which are not all as long")
            for often in (t.every, t.early) if t is not None else ():
                self.period = lcm(self.period, often if isinstance(often, int) else 1)

    def event(self, value: Any, by: int) -> Any:
        """An event of the source, later by so much."""
        return _later(self.graph.nodes[self.graph.sources[0]].type, self.times, value, by)

    def engine(self, engine: Any, by: int) -> None:
        """All that an engine holds, later by so much."""

        def clock(time: int) -> int:
            return time if time in (BEGINNING, END) else time + by

        engine.clocks.marks = {at: clock(mark) for at, mark in engine.clocks.marks.items()}
        engine.clocks._now = {key: clock(time) for key, time in engine.clocks._now.items()}
        for step, state in engine.state.items():
            node = self.graph.nodes[step]
            engine.state[step] = self._held(node, state, by)

    def _held(self, node: Node, state: Any, by: int) -> Any:
        types = [self.graph.nodes[i].type for i in node.inputs]
        leaves = [self.flows[i] for i in node.inputs]

        def value(event: Any, side: int = 0) -> Any:
            times = leaves[side]
            assert times is not None
            return _later(types[side], times, event, by)

        def item(found: Any, side: int = 0) -> Any:
            return type(found)(
                found.stamp, found.time + by, found.outer, found.key, value(found.value, side), found.push
            )

        if node.kind in ("tumbling", "sliding"):
            kept, untold = state
            return (
                {(k, s + by, e + by): [(t + by, value(v)) for t, v in events] for (k, s, e), events in kept.items()},
                {(k, s + by, e + by) for k, s, e in untold},
            )
        if node.kind == "session":
            return {k: [[(t + by, value(v), told) for t, v, told in s] for s in some] for k, some in state.items()}
        if node.kind == "join":
            return [[type(w)(item(w.item, side), w.found) for w in some] for side, some in enumerate(state)]
        if node.kind in ("as_of", "lookup"):
            return tuple([item(i, side) for i in some] for side, some in enumerate(state))
        if node.kind == "dedup":
            waiting, last = state
            return [(item(i), like) for i, like in waiting], {key: t + by for key, t in last.items()}
        _refuse(node, "holds what is not known here")


def _later(t: Type, times: Leaves, value: Any, by: int) -> Any:
    if not any(times):
        return value
    return t.unflatten([leaf + by if is_time else leaf for leaf, is_time in zip(t.flatten(value), times, strict=True)])


class _Anywhere:
    """Two engines where the greatest time is within the first period; how many events came at the times from which more
    can come."""

    __slots__ = ("came", "greatest", "sides")

    def __init__(self, sides: tuple[Any, Any], greatest: int | None, came: dict[int, int]) -> None:
        self.sides, self.greatest, self.came = sides, greatest, came

    def key(self) -> Any:
        """As a value."""
        return frozen_engine(self.sides[1]), self.greatest, frozenset(self.came.items())


def equivalent_for_ever(
    a: Any,
    b: Any,
    inputs: Inputs,
    distances: Sequence[int],
    rate: int | None,
    sources: Any,
    outputs: Any,
    budget: Budget,
) -> Verdict:
    """Whether two put out the same in every batch of every run, however long; ``inputs`` has the events at the time 0,
    ``distances`` are from the greatest time seen to the next event's, ``rate`` is how many may come at one time.

    All states are looked at, so it is proved for the runs that were said; not where the check picked a part of that."""
    most_at_once = 1 if rate is None else rate
    moved = [Moved(a.graph), Moved(b.graph)]
    period, began = lcm(*(m.period for m in moved)), now()
    machines = [TimedMachine(p.graph, inputs) for p in (a, b)]
    step = gcd(period, *distances)
    ((source, events),) = inputs.events.items()
    found: list[tuple[Spot, Move]] = []

    def steps(spot: Spot) -> Iterator[tuple[tuple[Move, int], Spot]]:
        past = spot.past
        if past.greatest is None:
            times = list(range(0, period, step))
        else:
            times = [past.greatest + d for d in distances]
        for time in times:
            for event in events if past.came.get(time, 0) < most_at_once else ():
                yield from _take(spot, Rows(((source, moved[0].event(event, time)),)), time)
        yield from _take(spot, Finish(), None)

    def _take(spot: Spot, move: Move, time: int | None) -> Iterator[tuple[tuple[Move, int], Spot]]:
        past = spot.past
        ats = [At((), engine) for engine in past.sides]
        one, seen = machines[0].take(ats[0], move, 0)
        two, also = machines[1].take(ats[1], named(move, sources), 0)
        _, why = _both(_Pair((one, two), {}, False), (one, two), (seen, also), move, outputs, "step")
        if why and not found:
            found.append((spot, move))
        if time is None or seen.failed is not None or why:
            return
        greatest = time if past.greatest is None else max(time, past.greatest)
        came = {**past.came, time: past.came.get(time, 0) + 1}
        by = -(greatest // period) * period
        for m, engine in zip(moved, (one.engine, two.engine), strict=True):
            m.engine(engine, by)
        oldest = greatest + min(distances)
        came = {t + by: n for t, n in came.items() if t >= oldest}
        there = _Anywhere((one.engine, two.engine), greatest + by, came)
        yield (move, by), Spot(At(frozen_engine(one.engine), one.engine), there)

    start = _Anywhere((machines[0].start().engine, machines[1].start().engine), None, {})
    first = Spot(At(frozen_engine(start.sides[0]), start.sides[0]), start)
    search: Search[Spot, Any] = Search([first], steps, budget)
    clock = next(t for t in a.graph.clocks if t is not None)
    least, most = (shown_length(clock, d) for d in (min(distances), max(distances)))
    many = f"at most {most_at_once} at one time" if most_at_once > 1 else "each time once"
    runs = f"of any length, one event in a batch, with events {least} to {most} after the greatest time so far, {many}"
    # what nobody said: where the first event is, the values of some fields, what a function does that was only called
    picked = f", the first at a multiple of {shown_length(clock, step)}" if step > 1 else ""
    picked += inputs.by_chance()
    called = {fn.name: None for graph in (a.graph, b.graph) for _, fn in graph.opaque()}
    picked += f", of {', '.join(called)} as it answered when it was called" if called else ""
    said = f"{a.name} and {b.name} put out the same in every batch"
    cut = ""
    try:
        for _ in search:
            if found:
                break
    except CutShort as error:
        cut = str(error)
    details = {"states": len(search.parents)}
    if found:
        spot, move = found[0]
        example = TimedRun((a.graph, b.graph), _whole(moved[0], search.way(spot), move), None, "they differ here")
        if not example.replay():
            raise AssertionError(f"{a.name}, {b.name}: the literal engine and the one that runs differ on {example}")
        return Verdict("refuted", said, "explicit", now() - began, example, (), details)
    if cut:
        return Verdict("unknown", said, "explicit", now() - began, None, (cut,), details)
    notes = (
        f"no function looks at the time of an event, so states that are {shown_length(clock, period)} apart are alike; "
        "where an engine's times end, they are not",
        *inputs.notes(),
    )
    if rate is None or picked:
        bound = f"runs {runs}{picked}"
        return Verdict("bounded", said, "explicit", now() - began, None, notes, details, bound=bound)
    return Verdict("proved", f"{said}, in all runs {runs}", "explicit", now() - began, None, notes, details)


def _whole(moved: Moved, way: Sequence[tuple[Move, int]], last: Move) -> tuple[Move, ...]:
    """The run as it was, without the moves back in time between its steps."""
    out: list[Move] = []
    by = 0
    for move, back in [*way, (last, 0)]:
        if isinstance(move, Rows):
            out.append(Rows(tuple((source, moved.event(event, by)) for source, event in move.rows)))
        else:
            out.append(move)
        by -= back
    return tuple(out)
