"""A pipeline by event time as a machine: its states are those of the literal engine, in a canonical form.

A state is a running engine that is never changed: a step is taken with a copy.  Two are the same
if they hold the same, whatever the order in which rows came that wait for a clock: the engine sorts them before it uses
them (``exact`` keeps the order, for engines of which that is not known).

What a step of the machine is watched for (`Seen`): the rows that came to each timed step and how it judged them, what
it emit, and how the clocks moved.

Which events come in a check by event time, at which times, and what else can happen.

``events=`` lists the events themselves.  Else they are made of small values: the field that an event's time is has the
``times=``, ints the ``ints=``, and the other fields two values each.  Where no times are given, they are those at
which something can change: around each length that a step is given, and around these and the lateness.

>>> from pellucid import pipeline
>>> p = pipeline(lambda x: x.at(lambda v: v, lateness=2).tumbling(10, lambda w: w), x=int)
>>> Inputs.of(p.graph).events
{'x': (0, 9, 10, 11, 12, 13)}
"""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import enum
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from pellucid.check.question_arguments import short
from pellucid.check.system.domains import domain_of
from pellucid.errors import LateError, StepError, UsageError
from pellucid.internal.engine.timed.clock import Clocks, feeders
from pellucid.internal.engine.timed.literal import Item, Literal, Row
from pellucid.internal.engine.timed.plan import Plan, Timed
from pellucid.internal.expr.node import Expr, var
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, EnumType, Type, conform
from pellucid.internal.graph.model import Graph, Node, refuse_loops
from pellucid.internal.graph.timing import in_range, shown_time
from pellucid.internal.model.sheet import event_text

MOST_TIMES, MOST_EVENTS = 8, 24  # that are made up; times= and events= may give more
_PLAIN: dict[Type, tuple[Any, ...]] = {BOOL: (False, True), INT: (0, 1), FLOAT: (0.0, 1.0), STR: ("a", "b")}


@dataclass(frozen=True)
class Rows:
    """A batch: events, each for a source."""

    rows: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        return "; ".join(f"{source} {event}" for source, event in self.rows)


@dataclass(frozen=True)
class Silent:
    """A source is declared idle, after a silence."""

    source: str

    def __str__(self) -> str:
        return f"{self.source} is idle"


@dataclass(frozen=True)
class Ends:
    """A source ends while others go on."""

    source: str

    def __str__(self) -> str:
        return f"{self.source} ends"


@dataclass(frozen=True)
class Finish:
    """The end of all input."""

    def __str__(self) -> str:
        return "the end"


Move = Rows | Silent | Ends | Finish


@dataclass(frozen=True)
class Inputs:
    """What can come: the events of each source; how many pushes before the end, how many of them in one batch."""

    events: Mapping[str, tuple[Any, ...]]
    pushes: int
    batch: int
    idle: tuple[str, ...]  # the sources that may be declared idle
    told: tuple[str, ...] = ()  # of events that are made up: the values of their fields
    picked: tuple[str, ...] = ()  # the fields of which there are more values than those that the check picked

    @classmethod
    def of(
        cls,
        graph: Graph,
        *,
        events: Any = None,
        ints: Any = None,
        times: Any = None,
        pushes: int = 4,
        batch: int = 1,
        also: Graph | None = None,
        most: int = MOST_EVENTS,
    ) -> Inputs:
        """What the words of a check say, each of which is looked at.  The times are those of ``also``, too."""
        for asked in (graph, also):
            if asked is not None:
                refuse_loops(asked, "a check by event time")
        for name, given in (("pushes", pushes), ("batch", batch)):
            if isinstance(given, bool) or not isinstance(given, int) or given < 1:
                raise UsageError(f"{name}= takes a whole number of at least 1, found {short(given)}")
        sources = [graph.nodes[i].id for i in graph.sources]
        if events is not None:
            if ints is not None or times is not None:
                raise UsageError("events= lists the events: ints= and times= do not go with it")
            listed, told, picked = _listed(graph, sources, events), tuple[str, ...](), tuple[str, ...]()
        else:
            listed, told, picked = _made(graph, ints, times, also, most)
        waits = [at for at in feeders(graph) if (t := graph[at].timing) is not None and t.idle is not None]
        idle = tuple(s for s in sources if any(s in feeders(graph)[at] for at in waits))
        return cls(listed, pushes, batch, idle, told, picked)

    def moves(self, pushed: int, idle: frozenset[str], ended: frozenset[str]) -> Iterator[tuple[Move, int]]:
        """What can come after so many pushes, and how many there are then."""
        rows = [(s, e) for s, found in self.events.items() if s not in ended for e in found]
        for many in range(1, min(self.batch, self.pushes - pushed) + 1):
            for some in product(rows, repeat=many):
                yield Rows(some), pushed + many
        if pushed < self.pushes:  # what comes after the last event but the end is as if it came with it
            for source in self.idle:
                if source not in idle | ended and pushed:
                    yield Silent(source), pushed
            if len(self.events) > 1:
                for source in self.events:
                    if source not in ended and len(ended) + 1 < len(self.events):
                        yield Ends(source), pushed
        yield Finish(), self.pushes

    def bound(self) -> str:
        """For the verdict: which runs were looked at."""
        many = sum(map(len, self.events.values()))
        batches = f", in batches of at most {self.batch}" if self.batch > 1 else ""
        given = f"one of {many} made-up events" if self.told else f"one of the {many} given"
        return f"runs of at most {self.pushes} events{batches}, each {given}{self.by_chance()}"

    def by_chance(self) -> str:
        """For the verdict: of which fields the values were not given."""
        return f", with picked values of {', '.join(self.picked)}" if self.picked else ""

    def notes(self) -> tuple[str, ...]:
        """For the verdict: what the events are."""
        if self.told:
            picked = (f"say which values of {', '.join(self.picked)} are meant, with ints= (whole numbers) or events=",)
            return (*(picked if self.picked else ()), *self.told)
        out = []
        for source, events in self.events.items():
            shown = ", ".join(map(event_text, events[:6])) + (f", … ({len(events)} in all)" if len(events) > 6 else "")
            out.append(f"events of {source}: {shown}")
        return tuple(out)


def _listed(graph: Graph, sources: list[str], events: Any) -> dict[str, tuple[Any, ...]]:
    by_source = events if isinstance(events, Mapping) else {sources[0]: events} if len(sources) == 1 else None
    if by_source is None or set(by_source) != set(sources):
        wanted = (
            "a list of events"
            if len(sources) == 1
            else "a list of events for each source, as in "
            + ("events={" + ", ".join(f"{s!r}: […]" for s in sources) + "}")
        )
        raise UsageError(f"events= takes {wanted}; found {short(events)}")
    out = {}
    for source in sources:
        given = by_source[source]
        if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
            raise UsageError(f"events= takes a list of events for {source}, found {short(given)}")
        try:
            out[source] = tuple(dict.fromkeys(conform(graph[source].type, event) for event in given))
        except ValueError as error:
            raise UsageError(f"events= of {source}: {error}") from None
        if not out[source]:
            raise UsageError(f"events= of {source} is empty: give at least one event")
    return out


# ---------------------------------------------------------------- events that are made up


def _made(
    graph: Graph, ints: Any, times: Any, also: Graph | None, most: int
) -> tuple[dict[str, tuple[Any, ...]], tuple[str, ...], tuple[str, ...]]:
    domain = domain_of(ints)
    if domain.modulus is not None:
        raise UsageError("ints=Mod(N) does not go with event time, where a time must not begin anew: give a range")
    numbers = domain.values if domain.values is not None else _PLAIN[INT]
    leaves = time_leaves(graph)
    made, told, picked = {}, [], []
    for at in graph.sources:
        source = graph.nodes[at]
        clock, places, there = leaves[source.id]
        units = units_of([graph] if also is None else [graph, also], clock, times)
        paths = [path for path, _ in source.type.leaves()]
        values: list[tuple[Any, ...]] = []
        for i, (path, kind) in enumerate(source.type.leaves()):
            if i in places:
                values.append(tuple(units))
            elif i in there:
                values.append((True,))
            else:
                values.append(_values(source.id, path, kind, numbers))
                if not (kind == BOOL or isinstance(kind, EnumType) or (kind == INT and domain.values is not None)):
                    picked.append(f"{source.id}.{path}" if path else source.id)
        fixed = []
        for i in range(len(values) - 1, -1, -1):  # the last fields first: those that matter tend to stand in front
            if _many(values) > max(most, len(units)) and len(values[i]) > 1 and i not in places and ints is None:
                fixed.append(paths[i])
                values[i] = values[i][-1:]
                name = f"{source.id}.{paths[i]}" if paths[i] else source.id
                picked += [name] if name not in picked else []
        found = dict.fromkeys(source.type.tidy(leaf) for leaf in product(*values))
        made[source.id] = tuple(source.type.unflatten(list(leaf)) for leaf in found)
        each = []
        for i, (path, some) in enumerate(zip(paths, values, strict=True)):
            shown = [shown_time(clock, u) for u in some] if i in places else [event_text(v) for v in some]
            each.append(f"{path} {', '.join(shown)}".strip())
        told.append(f"events of {source.id}: {'; '.join(each)}")
        if fixed:
            told.append(f"only one value of {', '.join(reversed(fixed))} was tried: say events=[…] to have others")
    return made, tuple(told), tuple(picked)


def source_kinds(t: Type) -> list[Type]:
    """The types of an event's leaves."""
    return [kind for _, kind in t.leaves()]


def _many(values: list[tuple[Any, ...]]) -> int:
    out = 1
    for some in values:
        out *= len(some)
    return out


def _values(source: str, path: str, kind: Type, numbers: tuple[Any, ...]) -> tuple[Any, ...]:
    if kind == INT:
        return tuple(numbers)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if isinstance(kind, EnumType):
        return tuple(kind.members)
    name = f"{source}.{path}" if path else source
    raise UsageError(
        f"{name} is of the type {kind}, of which no events are made up: list the events of the sources, with events="
    )


def time_leaves(graph: Graph) -> dict[str, tuple[Type, frozenset[int], frozenset[int]]]:
    """For each source: the type of its times, and which of an event's leaves are the times that the steps `at` give,
    and which say that such a time is there.

    >>> from pellucid import pipeline
    >>> p = pipeline(lambda x: x.filter(lambda e: e[1] > 0).at(lambda e: e[0]), x=tuple[int, int])
    >>> time_leaves(p.graph)
    {'x': (int, frozenset({0}), frozenset())}
    """
    events: list[list[Expr] | None] = []
    origin: list[frozenset[str]] = []  # the sources that a stream's events come from
    found: dict[str, tuple[Type, set[int], set[int]]] = {}
    for node in graph.nodes:
        before = [events[i] for i in node.inputs]
        start = frozenset(s for i in node.inputs for s in origin[i])
        event: list[Expr] | None = None
        if node.kind == "source":
            start = frozenset({node.id})
            event = [var(i, kind) for i, kind in enumerate(source_kinds(node.type))]
        elif node.processor.hands_on or (
            node.kind == "merge" and all(b is not None and b == before[0] for b in before)
        ):
            event = before[0]
        elif node.kind == "map" and node.fn is not None and node.fn.traced is not None and before[0] is not None:
            event = list(substitute(node.fn.traced.outputs, before[0]))
        for source in start if node.kind == "at" else ():
            clock = graph.clocks[graph.position[node.id]]
            fn = node.fn
            assert clock is not None and fn is not None
            _, leaves, there = found.setdefault(source, (clock, set(), set()))
            if fn.traced is not None and before[0] is not None:
                *guards, time = substitute(fn.traced.outputs, before[0])
                if time.op == "var":
                    leaves.add(int(time.value))
                    there |= {int(g.value) for g in guards if g.op == "var"}
        events.append(event)
        origin.append(start)
    for at in graph.sources:
        source = graph.nodes[at].id
        if source not in found:
            found[source] = (INT, set(), set())
        elif not found[source][1]:
            raise UsageError(
                f"{source}: which of its fields an event's time is cannot be seen from the function that at takes, so "
                "no events are made up: list the events of the sources, with events="
            )
    return {source: (clock, frozenset(leaves), frozenset(there)) for source, (clock, leaves, there) in found.items()}


def units_of(graphs: Sequence[Graph], clock: Type, times: Any) -> list[int]:
    """The times, in units."""
    if times is None:
        return [u for u in usual_times(*graphs) if in_range(clock, u)]
    if isinstance(times, (str, bytes)) or not isinstance(times, Iterable):
        raise UsageError(f"times= takes a list of times, or a range, found {short(times)}")
    out = []
    for time in times:
        if clock == INT and isinstance(time, int) and not isinstance(time, bool):
            out.append(time)
        elif clock != INT and isinstance(time, dt.timedelta):
            out.append(time // dt.timedelta(microseconds=1))
        elif clock != INT and isinstance(time, dt.datetime) and not clock.problem(time):
            out.append(int(clock.flatten(time)[0]))
        else:
            what = "ints" if clock == INT else "datetimes, or timedeltas from 1970-01-01 on"
            raise UsageError(f"times= takes {what}, as the times of this pipeline are {clock}; found {short(time)}")
    if not out:
        raise UsageError("times= is empty: give at least one time")
    return sorted(set(out))


def usual_times(*graphs: Graph) -> list[int]:
    """The times at which something can change: 0, and around each length, alone and with the lateness; the nearest."""
    timings = [node.timing for graph in graphs for node in graph.nodes if node.timing is not None]
    latenesses = sorted({t.lateness for t in timings})
    lengths: set[int] = set()
    for t in timings:
        given = [t.size, t.every, t.gap, t.within, t.high, t.low and -t.low]
        lengths |= {abs(length) for length in given if length}
    found = [0]
    for length in sorted(lengths):
        found += [length - 1, length, length + 1]
    for length in sorted(lengths):
        found += [length + late + more for late in latenesses if late for more in (0, 1)]
    if not any(latenesses) or not lengths:
        found += [2 * max(lengths, default=1), 2 * max(lengths, default=1) + 1]
    unique = sorted(set(found))
    if len(unique) <= MOST_TIMES:
        return unique
    most, late = max(lengths), max(latenesses)  # around the greatest length, which all others are inside of
    keep = {0, min(lengths), most - 1, most, most + 1, most + late, most + late + 1}
    return sorted(keep)


#: Steps that emit what they are given, at once: nothing is promised of them but what the others promise.
PLAIN = ("at", "late", "early")


@dataclass
class Judged:
    """A timed step in one batch: what came to each of its inputs, what of it came too late (with the edges of what it
    missed), its windows' answers with the events in them, what it emitted; and its clocks, before and after."""

    came: list[tuple[int, Item]] = field(default_factory=list)
    late: list[tuple[int, Item, int | None, int | None]] = field(default_factory=list)
    answers: list[tuple[tuple[Any, Any], int, int, tuple[Any, ...]]] = field(default_factory=list)
    put: list[Item] = field(default_factory=list)
    clock: int = 0  # of the step's own stream, when the batch began


@dataclass
class Seen:
    """What one step of the machine showed."""

    outputs: dict[str, list[Any]] = field(default_factory=dict)
    steps: dict[str, Judged] = field(default_factory=dict)
    streams: dict[str, list[Any]] = field(default_factory=dict)
    clocks: list[tuple[str, int, int]] = field(default_factory=list)  # of steps: before and after
    times: dict[str, list[int]] = field(default_factory=dict)  # of the events that came to each step `at`
    behind: bool = False  # an event came that is further behind than was said
    failed: StepError | None = None

    @property
    def late(self) -> bool:
        """Whether something came too late for a step."""
        return isinstance(self.failed, LateError) or any(judged.late for judged in self.steps.values())


# A class that stands before an engine in the order of classes; for the type checker it is one.
if TYPE_CHECKING:
    _Engine = Literal
else:
    _Engine = object


class Watching(_Engine):
    """Beside an engine, before it in the order of classes: notes what its steps do."""

    seen: Seen

    def _through(self, streams: Any) -> Any:
        before = dict(self.clocks._now)
        try:
            return super()._through(streams)
        finally:
            graph = self.graph
            self.seen.streams = {n.id: [i.value for i in streams[at]] for at, n in enumerate(graph.nodes)}
            for clock, now in self.clocks._now.items():
                self.seen.clocks.append((", ".join(graph.nodes[i].id for i in clock[0]), before[clock], now))

    def _timed(self, stage: Timed, streams: list[list[Item]]) -> list[Item]:
        graph: Graph = self.graph
        clocks: Clocks = self.clocks
        node = graph.nodes[stage.step]
        if node.kind in PLAIN:
            put: list[Item] = super()._timed(stage, streams)
            if node.kind == "at":
                self.seen.times[node.id] = [item.at for item in put]
            return put
        judged = self.seen.steps.setdefault(node.id, Judged())
        judged.clock = clocks.now(stage.step)
        judged.came = [(number, item) for number, j in enumerate(stage.inputs) for item in streams[j]]
        judged.put = super()._timed(stage, streams)
        return judged.put

    def _too_late(
        self, stage: Timed, item: Item, number: int = 0, start: int | None = None, end: int | None = None
    ) -> None:
        node = self.graph.nodes[stage.step]
        self.seen.steps.setdefault(node.id, Judged()).late.append((number, item, start, end))
        super()._too_late(stage, item, number, start, end)

    def _so_far(self, stage: Timed, node: Node, windows: Any) -> None:
        judged = self.seen.steps.setdefault(node.id, Judged())
        kept = list(judged.answers)
        super()._so_far(stage, node, windows)
        judged.answers = kept

    def _answer(self, node: Node, keys: tuple[Any, Any], start: int, end: int, events: list[Any]) -> None:
        held = tuple((event[0], event[1]) for event in events)
        self.seen.steps.setdefault(node.id, Judged()).answers.append((keys, start, end, held))
        super()._answer(node, keys, start, end, events)


def watched(engine: type[Literal]) -> type[Literal]:
    """An engine that is watched."""
    return type(f"Watched{engine.__name__}", (Watching, engine), {})


@dataclass(frozen=True)
class At:
    """A state of the machine.  ``key`` is what it is; ``engine`` is one that is there."""

    key: Any
    engine: Any = field(compare=False, repr=False)
    pushed: int = field(compare=False, default=0)
    idle: frozenset[str] = field(compare=False, default=frozenset())
    ended: frozenset[str] = field(compare=False, default=frozenset())
    over: bool = field(compare=False, default=False)  # the input has ended, or a step has failed
    greatest: Mapping[str, int] = field(compare=False, default_factory=dict)  # the times that each step `at` has seen


class TimedMachine:
    """One pipeline by event time.

    >>> from pellucid import pipeline
    >>> p = pipeline(lambda x: x.at(lambda v: v).tumbling(10, lambda w: w), x=int)
    >>> machine = TimedMachine(p.graph, Inputs.of(p.graph, times=[3, 12]))
    >>> at, seen = machine.take(machine.start(), Rows((("x", 3),)), 1)
    >>> at, seen = machine.take(at, Rows((("x", 12),)), 2)
    >>> seen.outputs, seen.steps[p.graph.nodes[2].id].answers
    ({'out': [Windowed(start=0, end=10, value=3)]}, [((None, None), 0, 10, ((3, 3),))])
    """

    def __init__(self, graph: Graph, inputs: Inputs, *, engine: type[Literal] = Literal, exact: bool = False) -> None:
        self.graph, self.inputs, self.kind, self.exact = graph, inputs, watched(engine), exact
        self._feeders = feeders(graph)

    def start(self) -> At:
        """Before the first event."""
        engine = self.kind(self.graph)
        return At((frozen_engine(engine, self.exact), frozenset(), 0, frozenset(), frozenset(), False), engine)

    def moves(self, at: At) -> Iterator[tuple[Move, int]]:
        """What can come next."""
        return iter(()) if at.over else self.inputs.moves(at.pushed, at.idle, at.ended)

    def take(self, at: At, move: Move, pushed: int) -> tuple[At, Seen]:
        """The state after a move, and what was seen of it."""
        engine = fork(at.engine)
        engine.seen = seen = Seen()
        idle, ended, over = at.idle, at.ended, False
        try:
            if isinstance(move, Rows):
                idle -= {source for source, _ in move.rows}
                rows = [Row(source, event, push=at.pushed + n) for n, (source, event) in enumerate(move.rows)]
                found = engine.batch(rows)
            elif isinstance(move, Silent):
                idle |= {move.source}
                engine.idle(move.source)
                found = engine.batch([])
            elif isinstance(move, Ends):
                ended |= {move.source}
                found = engine.batch([], [step for step, by in self._feeders.items() if ended.issuperset(by)])
            else:
                assert isinstance(move, Finish)
                over, found = True, engine.finish()
            seen.outputs = {name: [item.value for item in items] for name, items in found.items()}
        except StepError as error:
            seen.failed = error
            self._behind(at.greatest, seen)
            return At(("failed", error.step, type(error).__name__, pushed), None, pushed, idle, ended, True), seen
        greatest = self._behind(at.greatest, seen)
        key = (frozen_engine(engine, self.exact), frozenset(greatest.items()), pushed, idle, ended, over)
        return At(key, engine, pushed, idle, ended, over, greatest), seen

    def _behind(self, before: Mapping[str, int], seen: Seen) -> dict[str, int]:
        """The greatest time of each step `at`; and whether an event was further behind it than its lateness."""
        greatest = dict(before)
        for step, times in seen.times.items():
            timing = self.graph[step].timing
            assert timing is not None
            for time in times:
                seen.behind |= step in greatest and time < greatest[step] - timing.lateness
                greatest[step] = max(greatest.get(step, time), time)
        return greatest


# ---------------------------------------------------------------- copies and canonical forms of what an engine holds

_SHARED = (Graph, Plan, Type, Item, Node, str, bytes, int, float, enum.Enum, type(None), frozenset, Exception)


def fork(value: Any) -> Any:
    """A copy of what can change; all else is shared."""
    kind = type(value)
    if kind is dict:
        return {k: fork(v) for k, v in value.items()}
    if kind is list:
        return [fork(v) for v in value]
    if kind is tuple:
        return tuple([fork(v) for v in value])
    if kind is set:
        return set(value)
    if kind is deque:
        return deque(map(fork, value))
    if isinstance(value, (*_SHARED, tuple)) or callable(value):
        return value
    if kind.__module__.startswith("pellucid."):
        if dataclasses.is_dataclass(value) and kind.__dataclass_params__.frozen:
            return value
        made = object.__new__(kind)
        for name, part in vars(value).items():
            made.__dict__[name] = fork(part) if name != "seen" else part
        return made
    return copy.deepcopy(value)  # a user's own state of a task


_APART = frozenset({"graph", "outer", "plan", "late", "_late_now", "_early_now", "_moved", "_push", "seen", "pushed"})
_CLOCKS = ("marks", "status", "_now")


def frozen_engine(engine: Any, exact: bool = False) -> Any:
    """What an engine holds, as a value: equal if it goes on alike."""
    clocks = tuple(frozen(getattr(engine.clocks, name)) for name in _CLOCKS)
    more = {k: v for k, v in vars(engine).items() if k not in _APART and k not in ("clocks", "state", "_ordinary")}
    ordinary = {k: (run.state, run._waiting) for k, run in engine._ordinary.items()}
    state = {k: v for k, v in engine.state.items() if not _empty(v)}
    return clocks, frozen(state, exact), frozen(ordinary, True), frozen(more, True)


def _empty(value: Any) -> bool:
    """Whether a step holds nothing, as if nothing had come yet."""
    return not value or (type(value) in (tuple, list) and all(type(v) in (dict, list, set) and not v for v in value))


def frozen(value: Any, exact: bool = True) -> Any:
    """A value that can be hashed; without ``exact``, lists whose order does not matter are sorted."""
    kind = type(value)
    if kind is float:
        return "float", repr(value)
    if kind in (int, str, bool) or value is None:
        return value
    if kind is dict:
        return "dict", frozenset((frozen(k), frozen(v, exact)) for k, v in value.items())
    if kind in (list, deque):
        parts = [frozen(v, exact) for v in value]
        return "list", tuple(parts if exact else sorted(parts, key=repr))
    if kind is tuple:
        return tuple([frozen(v, exact) for v in value])
    if kind in (set, frozenset):
        return "set", frozenset(frozen(v) for v in value)
    if kind.__name__ == "Item":  # of any engine: without its place in the batch
        return value.time, frozen(value.outer), frozen(value.key), frozen(value.value)
    if isinstance(value, tuple):  # a record
        return kind.__name__, tuple([frozen(v) for v in value])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return kind.__name__, tuple([frozen(getattr(value, f.name), exact) for f in dataclasses.fields(value)])
    try:
        hash(value)
    except TypeError:
        return kind.__name__, repr(value)
    return value
