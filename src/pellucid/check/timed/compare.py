"""``check.equivalent`` of two pipelines by event time: the same answers on all runs, in whatever order rows arrive.

Both run side by side on what comes.  Step by step they must emit the same in every batch, in order; as a sequence
the same in the end, in any order, as the order across windows and keys is promised of none.  A failure (also a late
event that nothing was said about) is an observation as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from math import gcd, lcm
from typing import Any, NoReturn

from pellucid.check.answer import Answer
from pellucid.check.counterexample import Pushes
from pellucid.check.decide import has_z3
from pellucid.check.side_by_side import Fitted
from pellucid.check.timed.machine import (
    At,
    Finish,
    Inputs,
    Move,
    Rows,
    Seen,
    Silent,
    TimedMachine,
    frozen,
    frozen_engine,
    time_leaves,
    units_of,
)
from pellucid.check.timed.question import Spot, arriving, budget_of, decided
from pellucid.check.timed.runs import Reached, TimedRun, named
from pellucid.errors import UsageError
from pellucid.internal.engine.timed.clock import BEGINNING, END
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.types import INT, Type
from pellucid.internal.graph.model import Graph, Node
from pellucid.internal.graph.timing import shown_length
from pellucid.internal.model import Budget, CutShort, Search, Verdict, now
from pellucid.internal.model.sheet import event_text


def equivalent_in_time(
    a: Any,
    b: Any,
    *,
    how: str = "step",
    arrival: str = "any",
    events: Any = None,
    times: Any = None,
    ints: Any = None,
    pushes: int | None = 3,
    rate: int | None = None,
    batch: int = 1,
    timeout: float | None = 60.0,
    max_states: int | None = 200_000,
    progress: Any = None,
) -> Verdict:
    """The verdict; ``a`` and ``b`` have graphs and names."""
    if how == "paper":
        raise UsageError(
            "how='paper' compares sequences without times: of pipelines by event time ask 'step' or 'sequence'"
        )
    only = arriving(arrival)
    for p in (a, b):
        if not p.graph.timed:
            raise UsageError(f"{p.name} does not work by event time, and the other one does: they cannot be compared")
    graphs = (a.graph, b.graph)
    sources, outputs = _fit(graphs)
    began = now()
    if pushes is None:
        return _for_ever(a, b, how, arrival, events, times, ints, rate, batch, budget_of(timeout, max_states, progress))
    if rate is not None:
        raise UsageError("rate= is of runs of any length: give pushes=None as well")
    inputs = Inputs.of(a.graph, events=events, ints=ints, times=times, pushes=pushes, batch=batch, also=b.graph)
    theirs = {sources[s]: found for s, found in inputs.events.items()}
    other = Inputs.of(b.graph, events=theirs, pushes=pushes, batch=batch)
    waits = {*inputs.idle} | {s for s, mine in sources.items() if mine in other.idle}
    inputs = replace(inputs, idle=tuple(s for s in sources if s in waits))
    manner = "in every batch" if how == "step" else "in the end"
    said = f"{a.name} and {b.name} emit the same {manner}{only}"
    alike = step_by_step(a.graph, b.graph, sources, outputs, timeout)
    if alike.proved:
        return Verdict("proved", said, alike.engine, now() - began, None, alike.notes)
    reached = [Reached(a.graph, inputs), Reached(b.graph, replace(other, told=inputs.told, idle=other.idle))]
    machines = [TimedMachine(one.graph, inputs) for one in reached]
    found: list[tuple[Spot, Move, str]] = []

    def steps(spot: Spot) -> Iterator[tuple[Move, Spot]]:
        left, right = spot.past.sides
        for move, pushed in machines[0].moves(left):
            one, seen = machines[0].take(left, move, pushed)
            two, also = machines[1].take(right, named(move, sources), pushed)
            for one_of, its in zip(reached, (seen, also), strict=True):
                one_of.saw(its)
            if arrival == "in time" and (seen.behind or also.behind or isinstance(move, Silent)):
                continue
            past, why = _both(spot.past, (one, two), (seen, also), move, outputs, how)
            if why and not found:
                found.append((spot, move, why))
            yield move, Spot(one, past)

    start = _Pair((machines[0].start(), machines[1].start()), {}, False)
    search: Search[Spot, Move] = Search([Spot(start.sides[0], start)], steps, budget_of(timeout, max_states, progress))
    verdict = decided(search, found, graphs, said, reached, began)
    return replace(verdict, notes=(*verdict.notes, *alike.notes)) if verdict.bounded else verdict


def _for_ever(
    a: Any, b: Any, how: str, arrival: str, events: Any, times: Any, ints: Any, rate: Any, batch: int, budget: Budget
) -> Verdict:
    """Runs of any length."""

    if how != "step" or arrival != "any" or events is not None or batch != 1:
        raise UsageError(
            "pushes=None, runs of any length, goes with how='step', one row in a batch, and events that are made up: "
            "leave how=, arrival=, events= and batch= out, or say pushes="
        )
    if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int) or rate < 1):
        raise UsageError(f"rate= takes how many events may come at one time, found {rate!r}")
    if times is None:
        raise UsageError(
            "pushes=None: say times=, how far an event may be from the greatest time so far, as in times=range(-2, 4)"
        )
    clock = next(t for t in a.graph.clocks if t is not None)
    distances = units_of([a.graph], clock, times)
    sources, outputs = _fit((a.graph, b.graph))
    if max(distances) < 1:
        raise UsageError("pushes=None: none of times= is after the greatest time so far, so no time would pass")
    inputs = Inputs.of(a.graph, ints=ints, times=[0 if clock == INT else timedelta(0)])
    return equivalent_for_ever(a, b, inputs, distances, rate, sources, outputs, budget)


class _Pair:
    """Two machines, what one has emitted more than the other, and whether one has failed."""

    __slots__ = ("failed", "more", "sides")

    def __init__(self, sides: tuple[At, At], more: dict[str, Counter[Any]], failed: bool) -> None:
        self.sides, self.more, self.failed = sides, more, failed

    def key(self) -> Any:
        """As a value; the first machine is in the state already."""
        more = frozenset((name, frozenset(c.items())) for name, c in self.more.items() if c)
        return self.sides[1].key, more, self.failed


def _both(
    past: _Pair,
    sides: tuple[At, At],
    seen: tuple[Seen, Seen],
    move: Move,
    outputs: Mapping[str, str],
    how: str,
) -> tuple[_Pair, str]:
    """What is so after a move of both, and how they differ, in words."""
    failed = [s.failed is not None for s in seen]
    if failed[0] != failed[1]:
        who, error = (1, seen[0].failed) if failed[0] else (2, seen[1].failed)
        return _Pair(sides, past.more, True), f"{who} fails ({error and type(error).__name__}), and the other does not"
    more = {}
    for mine, theirs in outputs.items():
        left, right = seen[0].outputs.get(mine, []), seen[1].outputs.get(theirs, [])
        if how == "step":
            if frozen(left) != frozen(right):
                return _Pair(sides, past.more, False), f"{mine}: {_texts(left)} and {_texts(right)}"
            continue
        count = Counter(past.more.get(mine, Counter()))
        count.update(map(_value, left))
        count.subtract(map(_value, right))
        more[mine] = Counter({value: n for value, n in count.items() if n})
        if more[mine] and (isinstance(move, Finish) or failed[0]):
            ones = sorted(text for (_, text), n in more[mine].items() if n > 0)
            others = sorted(text for (_, text), n in more[mine].items() if n < 0)
            return _Pair(sides, more, False), f"{mine}: in the end {_list(ones)} of one, {_list(others)} of the other"
    return _Pair(sides, more, failed[0]), ""


def _value(value: Any) -> tuple[Any, str]:
    return frozen(value), event_text(value)


def _texts(values: list[Any]) -> str:
    return _list([event_text(v) for v in values])


def _list(texts: list[str]) -> str:
    return ", ".join(texts[:3]) + (", …" if len(texts) > 3 else "") if texts else "nothing"


#: Of a step that works by event time, what its function is asked: an event, and nothing that it remembers.
_ASKS_ONE = ("at", "key_by", "dedup")
_SECONDS = 5.0  # for all functions that are not written the same


def step_by_step(
    a: Graph, b: Graph, sources: Mapping[str, str], outputs: Mapping[str, str], timeout: float | None
) -> Answer:
    """Whether two graphs have the same steps in the same places, whose functions and sub-pipelines are proved to do
    the same on all events: then they emit the same on all runs, whatever times a step receives.

    That is asked of each pair as of a pipeline without times.  What is known less leaves it open.
    """
    from pellucid.check.questions import equivalent

    open_ = Answer("unknown", "step by step")
    if a.reads or b.reads or _places(a) != _places(b):  # what is only called may answer otherwise
        return open_
    if any(b.nodes[i].id != sources[a.nodes[i].id] for i in a.sources) or any(
        dict(a.outputs)[mine] != dict(b.outputs)[theirs] for mine, theirs in outputs.items()
    ):
        return open_
    until = now() + min(_SECONDS, timeout or _SECONDS)
    shown: list[str] = []
    words: dict[str, None] = {}
    for one, other in zip(a.nodes, b.nodes, strict=True):
        parts: list[tuple[Graph | None, Graph | None]] = [(one.sub, other.sub)]
        if [f.digest for f in one.functions] != [f.digest for f in other.functions]:
            parts.append((_alone(a, one), _alone(b, other)))
            if None in parts[-1]:
                return open_
        for mine, theirs in parts:
            if mine is None or theirs is None or mine.digest == theirs.digest:
                continue
            if mine.timed or not has_z3() or now() >= until:
                return open_
            found = equivalent(Fitted(one.id, mine), Fitted(other.id, theirs), timeout=until - now())
            if isinstance(found.counterexample, Pushes):
                pushes = "; ".join(event_text(push["in"]) for push in found.counterexample.inputs if "in" in push)
                return replace(open_, notes=(f"{one.describe()} is another one in the other: they differ on {pushes}",))
            if not found.proved:
                return open_
            shown.append(one.id)
            words |= dict.fromkeys(found.notes)
    if not shown:
        return Answer("proved", "simplification", notes=("they are the same graph",))
    note = f"step for step they do the same on all events: proved of {', '.join(dict.fromkeys(shown))}, each for itself"
    return Answer("proved", "step by step", notes=(note, *words))


def _places(graph: Graph) -> Any:
    """What each step is, without its function and its sub-pipeline."""
    return [(n.kind, n.inputs, n.type, n.k, repr(n.start), n.state, n.key, n.timing) for n in graph.nodes]


def _alone(graph: Graph, node: Node) -> Graph | None:
    """A step as a pipeline of its own; None where it is none without the others."""
    if len(node.inputs) != 1 or len(node.functions) != 1 or (node.processor.timed and node.kind not in _ASKS_ONE):
        return None
    (fn,) = node.functions
    assert fn.result is not None
    made = replace(node, inputs=(0,), key=None)
    if node.kind in _ASKS_ONE:
        made = replace(made, kind="map", type=fn.result, timing=None)
    return Graph(node.id, (Node("in", "source", (), graph.nodes[node.inputs[0]].type), made), (0,), (("out", 1),))


def _fit(graphs: tuple[Graph, Graph]) -> tuple[dict[str, str], dict[str, str]]:
    """Which source and which output of one is which of the other: by name where the names are the same, else by
    place."""
    out = []
    for word, names in (
        ("source", [[(g.nodes[i].id, g.nodes[i].type) for i in g.sources] for g in graphs]),
        ("output", [[(name, g.nodes[i].type) for name, i in g.outputs] for g in graphs]),
    ):
        one, two = names
        if len(one) != len(two):
            raise UsageError(
                f"{graphs[0].name} has {len(one)} {word}s, and {graphs[1].name} {len(two)}: they cannot be compared"
            )
        if {n for n, _ in one} == {n for n, _ in two}:
            two = [next(t for t in two if t[0] == name) for name, _ in one]
        for (mine, t), (theirs, u) in zip(one, two, strict=True):
            if t != u:
                raise UsageError(
                    f"the {word} {mine!r} of {graphs[0].name} is {t}, and {theirs!r} of {graphs[1].name} is {u}: they "
                    "cannot be compared"
                )
        out.append({mine: theirs for (mine, _), (theirs, _) in zip(one, two, strict=True)})
    return out[0], out[1]


# Two pipelines by event time in runs of any length: times count from the greatest one seen, so that states come again.
#
# Windows are the same everywhere: what a pipeline does with events that are all later by a multiple of its period (the
# least common multiple of how often its windows begin) is what it did, later by as much, **if no function looks at the
# time** of an event. That is asked of each function as it was traced (`flows`), and a pipeline of which it is not known
# is refused. (At the ends of 64 bits, and of the years, there is no later: what fails there is left out.) So after each
# step both engines are moved back, by multiples of the period, to where the greatest time is within the first one:
# equal states go on alike. There are finitely many if events come a bounded time behind and ahead of the greatest one
# (``times=``), at most ``rate`` of them at one time: a window is then of finitely many events.
#
# Only of one source: of two, one may be any time ahead of the other.

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
        return None  # what they emit has times in it that are no leaves of an event
    if first is None or any(other != first for other in before):
        if inside or node.kind not in STATELESS or node.fn is not None:
            _refuse(node, "reads what a join, as_of or late emits, of which it is not known where its times are")
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
        return first if node.processor.hands_on else _refuse(node, "has times of events in it")
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
    """Whether two emit the same in every batch of every run, however long; ``inputs`` has the events at the time 0,
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
    # what was not given: where the first event is, the values of some fields, what a function does that was only called
    picked = f", the first at a multiple of {shown_length(clock, step)}" if step > 1 else ""
    picked += inputs.by_chance()
    called = {fn.name: None for graph in (a.graph, b.graph) for _, fn in graph.opaque()}
    picked += f", of {', '.join(called)} as it answered when it was called" if called else ""
    said = f"{a.name} and {b.name} emit the same in every batch"
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
