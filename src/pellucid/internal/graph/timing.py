"""Event time in a graph: what a timed step is given, and the events that it emits.

A time is an ``int64`` in every engine: microseconds for a ``datetime``, as everywhere here, or the number itself where
a stream's time is an ``int``.  Lengths of time (sizes, gaps, lateness) are in the same unit; 1 is the least of them.

>>> from datetime import timedelta
>>> length(DATETIME, timedelta(minutes=1), "size"), length(INT, 5, "size")
(60000000, 5)
>>> length(INT, timedelta(minutes=1), "size")
Traceback (most recent call last):
ValueError: size must be an int, as the times of this stream are ints, found timedelta datetime.timedelta(seconds=60)
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, NamedTuple, TypeVar

from pellucid.errors import PipelineError
from pellucid.internal.expr.types import DATETIME, INSTANT, INT, INT_MAX, INT_MIN, OptionalType, Type
from pellucid.internal.expr.types.base import RecordType, TupleType
from pellucid.internal.expr.types.base import maybe as maybe  # what a join did not find
from pellucid.internal.expr.types.base import missing as missing
from pellucid.internal.expr.types.rich import DAY, TICK
from pellucid.internal.graph.processors import PROCESSORS

At = TypeVar("At")
V = TypeVar("V")

#: How a step knows that its times are the rounds of the loop that it is in.
ROUND = "round"


class Windowed(NamedTuple, Generic[At, V]):
    """The answer of a time window: it holds for the times from ``start`` to before ``end``.

    Declared as ``Stream[Windowed[datetime, float]]``: the type of the times, and that of the value.

    >>> from pellucid import pipeline
    >>> from pellucid.internal.expr.types import type_of
    >>> Windowed(0, 10, 3.5).value, type_of(Windowed[int, float])
    (3.5, Windowed(start: int, end: int, value: float))
    """

    start: At
    end: At
    value: V


class Late(NamedTuple, Generic[At, V]):
    """An event that came too late: its ``time`` was complete, the ``clock`` had passed it.

    ``start`` and ``end`` are those of the window that it missed; of several sliding windows, for which there is one
    `Late`, the start of the first and the end of the last: it missed its windows that end at ``end`` or before, and
    counts in the later ones.  None for steps that have no windows.

    >>> late = Late("ada", 3, 12, 0, 10)
    >>> f"{late.value} of {late.time} missed {late.start} to {late.end}: it was {late.clock}"
    'ada of 3 missed 0 to 10: it was 12'
    """

    value: V
    time: At
    clock: At
    start: At | None
    end: At | None


@dataclass(frozen=True)
class Timing:
    """What a timed step is given, all in the unit of its stream's times.

    >>> hourly = Timing(times=DATETIME, size=3_600_000_000, every=600_000_000, late="drop")
    >>> print(hourly)
    times=datetime, size=3600000000, every=600000000, late='drop'
    >>> hourly.words()
    '1 h every 10 min, late ones dropped'
    """

    times: Type = INT  # the type of the times: DATETIME, INSTANT or INT
    lateness: int = 0  # at: how far behind the greatest time seen an event may come
    idle: int | None = None  # at: after a silence of so many microseconds of wall time it holds no other stream back
    size: int | None = None  # tumbling, sliding: a window is [origin + k * every, … + size)
    every: int | None = None
    origin: int = 0
    tz: str | None = None  # windows of whole calendar days there; size, every and origin in days of 24 hours, local
    gap: int | None = None  # session
    low: int | None = None  # join: low <= b.t - a.t <= high
    high: int | None = None
    within: int | None = None  # as_of (None: however old), dedup
    how: str = ""  # join: inner, left, full; as_of: inner, left; in the body of a loop: round
    late: str = "fail"  # or drop; events go to `late` where a step of that kind reads this one
    allowed: int = 0  # tumbling, sliding: so long after its end a window's answer is still corrected
    early: int | str | None = (
        None  # windows: running answers: "event", or as often as the clock passes a multiple of it
    )
    limit: int | None = None  # iterate: more rounds than so many are an error
    rounds: int | None = None  # iterate: it stops after so many

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.said())

    def said(self) -> list[tuple[str, Any]]:
        """What is not as if nothing had been said."""
        return [(f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default]

    def words(self, *, late: bool = True) -> str:
        """What it is given, for pictures and messages; what becomes of late events only if that is asked for."""

        def shown(units: int) -> str:
            return shown_length(self.times, units)

        if self.how == ROUND:  # the only times in the body of a loop
            return "each round"
        parts = []
        if self.limit is not None:
            parts.append(f"up to {self.limit:,} rounds")
        if self.rounds is not None:
            parts.append(f"{self.rounds:,} rounds")
        if self.size is not None and self.every is not None:
            parts.append(shown(self.size) + (f" every {shown(self.every)}" if self.every != self.size else ""))
            if self.tz is not None:
                parts[0] += f" in {self.tz}"
            if self.origin:
                zone = DATETIME if self.tz is not None else self.times
                parts.append(f"from {shown_time(zone, self.origin)}")
        if self.gap is not None:
            parts.append(f"gap {shown(self.gap)}")
        if self.low is not None and self.high is not None:
            both = self.low == -self.high
            parts.append(f"within {shown(self.high) if both else f'{shown(self.low)} to {shown(self.high)}'}")
        if self.within is not None:
            parts.append(f"within {shown(self.within)}")
        parts += [self.how] if self.how else []
        parts += [f"lateness {shown(self.lateness)}"] if self.lateness else []
        parts += [f"idle after {shown_length(INSTANT, self.idle)}"] if self.idle is not None else []
        parts += [f"corrected for {shown(self.allowed)}"] if self.allowed else []
        if self.early is not None:
            parts.append(f"early every {shown(self.early)}" if isinstance(self.early, int) else "early at each event")
        parts += ["late ones dropped"] if late and self.late == "drop" else []
        return ", ".join(parts)

    def tells(self, now: int, after: int) -> bool:
        """Whether running answers come when the clock moves from one time to another.

        >>> Timing(early="event").tells(3, 3), Timing(early=10).tells(3, 9), Timing(early=10).tells(3, 10)
        (True, False, True)
        """
        if isinstance(self.early, int):
            return after // self.early > now // self.early
        return self.early is not None


def clock_of(
    kind: str, made: Type | None, inputs: Sequence[Type | None], title: str, where: Sequence[str] = ()
) -> Type | None:
    """The type of the times that a step's events have, None if they have none: the one rule of times.

    ``at`` makes them (of the type ``made``); ordinary steps hand them on, if all that they read have times of one type.

    >>> print(clock_of("map", None, [DATETIME], "m"), clock_of("at", INT, [None], "a"))
    datetime int
    >>> clock_of("tumbling", None, [None], "t")
    Traceback (most recent call last):
    pellucid.errors.PipelineError: t needs the times of events: say first what an event's time is, as in x.at(lambda e:
    e.when, lateness=…)
    """
    processor = PROCESSORS[kind]
    first = inputs[0] if inputs else None
    if processor.clock == "makes":
        if first is not None:
            raise PipelineError(f"{title}: the times of these events are given already, by an at before it: leave one")
        return made
    if processor.clock == "drops":
        return None
    if any((other is None) != (first is None) for other in inputs):
        raise PipelineError(
            f"{title} reads a stream whose events have times and one whose events have none: say .at(…) on both"
        )
    for other in inputs:
        if other != first:
            raise PipelineError(
                f"{title} reads streams without a common time: the times of one are {first}, of another {other}; give "
                "both times of one type in .at(…)"
            )
    if processor.timed and first is None and processor.clock != "may":
        raise PipelineError(
            f"{title} needs the times of events: say first what an event's time is, as in x.at(lambda e: e.when, "
            "lateness=…)"
        )
    return first


def length(clock: Type, given: Any, word: str, *, least: int = 1) -> int:
    """A length of time in units, refused (`ValueError`) if it is none or less than ``least``."""
    if clock == INT:
        if isinstance(given, bool) or not isinstance(given, int):
            raise ValueError(
                f"{word} must be an int, as the times of this stream are ints, found {type(given).__name__} {given!r}"
            )
        units = given
    else:
        if not isinstance(given, dt.timedelta):
            raise ValueError(f"{word} must be a timedelta, found {type(given).__name__} {given!r}")
        units = given // TICK
    if units < least:
        wanted = "positive" if least == 1 else "at least 0"
        raise ValueError(f"{word} must be {wanted}, found {shown_length(clock, units)}")
    if units > INT_MAX:
        raise ValueError(f"{word} does not fit in 64 bits: {given}")
    return units


def moment(clock: Type, given: Any, word: str) -> int:
    """A point in time in units, refused (`ValueError`) if it is none."""
    trouble = clock.problem(given)
    if trouble:
        raise ValueError(f"{word}: {trouble}")
    return int(clock.flatten(given)[0])


def shown_length(clock: Type, units: int) -> str:
    """A length of time for messages and pictures.

    >>> shown_length(DATETIME, 90_000_000), shown_length(DATETIME, 3 * DAY), shown_length(INT, 7)
    ('1 min 30 s', '3 d', '7')
    """
    if clock == INT:
        return str(units)
    sign, units = "-" if units < 0 else "", abs(units)
    parts = []
    for name, size in (("d", DAY), ("h", DAY // 24), ("min", DAY // 1440), ("s", 10**6), ("ms", 1000), ("µs", 1)):
        if units >= size:
            parts.append(f"{units // size} {name}")
            units %= size
    return sign + (" ".join(parts) or "0 s")


def shown_time(clock: Type, units: int) -> str:
    """A point in time for messages.

    >>> shown_time(DATETIME, 60_000_000), shown_time(INT, 7)
    ('1970-01-01 00:01:00', '7')
    """
    return str(value_of(clock, units)) if in_range(clock, units) else f"{units:,} units"


def value_of(clock: Type, units: int) -> Any:
    """The time that a number of units is, as the user's functions see it."""
    return clock.unflatten((units,))


def in_range(clock: Type, units: int) -> bool:
    """Whether a number of units is a time that there is."""
    low, high = clock.limits()[0] or (INT_MIN, INT_MAX)
    return low <= units <= high


def windowed(clock: Type, value: Type) -> RecordType:
    """The type of the answers of a time window."""
    return RecordType(Windowed, (("start", clock), ("end", clock), ("value", value)))


def late_type(clock: Type, value: Type) -> RecordType:
    """The type of the events that came too late."""
    edge = OptionalType(clock)
    return RecordType(Late, (("value", value), ("time", clock), ("clock", clock), ("start", edge), ("end", edge)))


def time_type(t: Type | None) -> Type | None:
    """The type of times that a function of this result gives, None if it gives none."""
    inner = t.inner if isinstance(t, OptionalType) else t
    return inner if inner in (DATETIME, INSTANT, INT) else None


def swapped(t: Type) -> str | None:
    """What is wrong with a declared ``Windowed`` or ``Late``, anywhere in a type, whose times are none: most often the
    two types in its brackets are the wrong way round.  None: nothing.

    >>> from pellucid.internal.expr.types import type_of
    >>> swapped(type_of(Late[int, float])), swapped(type_of(tuple[int, Late[float, int]]))
    (None, 'Late[float, int]: the type of the times comes first, then that of the value, as in Late[int, float]')
    """
    if isinstance(t, TupleType):
        return next((found for found in map(swapped, t.items) if found is not None), None)
    if not isinstance(t, RecordType):
        return None
    of = dict(t.fields)
    if t.cls in (Windowed, Late):
        name, times, value = t.cls.__name__, of["time" if t.cls is Late else "start"], of["value"]
        if time_type(times) is None:
            first, second = (_named(kind) for kind in (times, value))
            right = f"{name}[{second}, {first}]" if time_type(value) is not None else f"{name}[datetime, {second}]"
            said = "the type of the times comes first, then that of the value"
            return f"{name}[{first}, {second}]: {said}, as in {right}"
    return next((found for found in map(swapped, of.values()) if found is not None), None)


def _named(t: Type) -> str:
    return t.cls.__name__ if isinstance(t, RecordType) else str(t)
