"""Which events come in a check by event time, at which times, and what else can happen.

``events=`` lists the events themselves.  Else they are made of small values: the field that an event's time is has the
``times=``, ints the ``ints=``, and the other fields two values each.  Where nothing is said of times, they are those at
which something can change: around each length that a step is told, and around these and the lateness.

>>> from pellucid import pipeline
>>> p = pipeline(lambda x: x.at(lambda v: v, lateness=2).tumbling(10, lambda w: w), x=int)
>>> Inputs.of(p.graph).events
{'x': (0, 9, 10, 11, 12, 13)}
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from pellucid.check.given import short
from pellucid.check.system.domains import domain_of
from pellucid.errors import UsageError
from pellucid.internal.engine.timed.clock import feeders
from pellucid.internal.expr.node import Expr, var
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, EnumType, Type, conform
from pellucid.internal.graph.memory import refuse_loops
from pellucid.internal.graph.model import Graph
from pellucid.internal.graph.timing import in_range, shown_time
from pellucid.internal.model.sheet import event_text

MOST_TIMES, MOST_EVENTS = 8, 24  # that are made up; whoever says times= or events= may have more
_KEEP = ("filter", "key_by", "at", "trim", "decimate", "merge")  # steps that hand events on as they are
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
        """For the verdict: of which fields nobody said the values."""
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
        elif (node.kind in ("filter", "key_by", "at", "trim", "decimate") and len(node.inputs) == 1) or (
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
                f"{source}: which of its fields an event's time is cannot be seen from what at is told, so no events "
                "are made up: list the events of the sources, with events="
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
