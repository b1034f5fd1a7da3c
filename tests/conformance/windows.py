"""Pipelines with times for the cases of other systems: which events each window, session, join or dedup holds.

Other systems count in seconds, often with a half; here a second is a million units of an ``int`` time.  Each event has
a tag, and the sub-pipeline of a window strings the tags together, so what comes out says which events it holds, and in
which order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from pellucid import PellucidError, Stream, join, merge, pipeline, silent
from tests.conformance import Differs, OtherRule, expect

SECOND = 1_000_000
PAST = -(10**15)  # before all that cases speak of


class Event(NamedTuple):
    """What cases are made of."""

    time: int
    key: str
    tag: str


class Held(NamedTuple):
    """A window that was put out: its bounds in units, and the events that it holds, by their numbers, in order."""

    start: int
    end: int
    events: list[int]


class Put(NamedTuple):
    """What came out of a batch: windows, the numbers of the events that were late, and windows as they are so far."""

    windows: list[Held]
    late: list[int]
    early: list[Held]


def units(seconds: Any) -> int:
    """Seconds as units; a fraction that is none of a microsecond is no case of ours."""
    exact = Fraction(str(seconds)) * SECOND
    if exact.denominator != 1:
        raise Differs(f"{seconds} seconds are no whole microseconds")
    return int(exact)


def seconds(time: int) -> Any:
    """Units as a case says them."""
    return time // SECOND if time % SECOND == 0 else time / SECOND


def known(case: dict[str, Any], *fields: str) -> None:
    """Nothing in a case that nobody here looks at."""
    if more := sorted(case.keys() - {"id", "kind", "source", "note", *fields}):
        raise Differs(f"{', '.join(more)}: nobody here knows what that is")


def tags(x: Stream[Event]) -> Stream[str]:
    """The sub-pipeline of every window."""
    return x.cumulate(lambda text, e: text + e.tag, start="")


class Shape(NamedTuple):
    """A step that has windows: ``sliding`` with size and every, or ``session`` with its gap; all in units.  They take
    events for so long after their end."""

    kind: str
    size: int
    every: int = 0
    origin: int = 0
    allowed: int = 0

    def over(self, x: Stream[Event]) -> Stream[Any]:
        if self.kind == "session":
            if self.allowed:
                return x.session(self.size, tags, allowed_lateness=self.allowed)
            return x.session(self.size, tags, early="event")
        more: dict[str, Any] = {"origin": self.origin, "allowed_lateness": self.allowed, "early": "event"}
        if self.every == self.size:
            return x.tumbling(self.size, tags, **more)
        return x.sliding(self.size, self.every, tags, **more)


def shape(case: dict[str, Any]) -> Shape:
    """A window as cases describe it: ``type`` or by its fields."""
    known(
        case, "type", "size", "size_s", "window_s", "period", "slide_s", "every_s", "offset_s", "offset", "origin",
        "origin_s", "align_to_s", "gap", "gap_s",
    )  # fmt: skip

    def first(*names: str, default: Any = None) -> Any:
        return next((case[name] for name in names if name in case), default)

    gap, size = first("gap", "gap_s"), first("size", "size_s", "window_s")
    if case.get("type", "session" if size is None else "") in ("session", "sessions"):
        return Shape("session", units(gap))
    if case.get("type", "sliding") not in ("fixed", "tumbling", "sliding"):
        raise Differs(f"windows of type {case['type']!r} are not known")
    every = first("period", "slide_s", "every_s", default=size)
    return Shape(
        "sliding", units(size), units(every), units(first("offset", "origin", "origin_s", "align_to_s", default=0))
    )


class Windows:
    """A running pipeline with windows, of one source or several that are merged, each with its lateness in units.

    With ``held`` a last source has no events of its own: its times alone say how far the clock may go.
    """

    def __init__(self, over: Shape, lateness: Sequence[int] = (0,), keyed: bool = False, held: bool = False) -> None:
        names = [f"x{i}" for i in range(len(lateness))] + ["held"] * held
        delays = [*lateness, 0] if held else list(lateness)

        def run(**streams: Stream[Event]) -> Any:
            timed = [streams[name].at("time", lateness=late) for name, late in zip(names, delays, strict=True)]
            x = merge(*timed) if len(timed) > 1 else timed[0]
            if held:
                x = x.filter(lambda e: e.tag != "")
            if keyed:
                x = x.key_by(lambda e: e.key)
            w = over.over(x)
            return {"out": w, "late": w.late, "early": w.early}

        self.names = names
        self.pipeline = pipeline(_named(run, names), **dict.fromkeys(names, Event))
        self.engine = self.pipeline.engine()
        self.count = 0
        self.events: list[tuple[int, str]] = []

    def push(self, rows: Iterable[tuple[int, str]], source: int = 0) -> Put:
        """A batch of times (in units) with their keys; events are numbered as they come."""
        return self.push_all({source: list(rows)})

    def push_all(self, rows: dict[int, list[tuple[int, str]]]) -> Put:
        """A batch with rows of several sources."""
        pushed: list[tuple[int, Event]] = []
        for source, its in rows.items():
            for time, key in its:
                pushed.append((source, Event(time, key, f"{len(self.events)};")))
                self.events.append((time, key))
        return self._put(self._push(self.engine, pushed))

    def hold(self, time: int) -> Put:
        """The clock may go to this time: nobody else holds it back."""
        for name in self.names[:-1]:
            self.engine.idle(name)
        return self._put(self._push(self.engine, [(len(self.names) - 1, Event(time, "", ""))]))

    def finish(self) -> Put:
        """The end of all sources."""
        return self._put(self.engine.finish())

    def open(self) -> list[Held]:
        """The windows that are not complete yet, as they are so far."""
        return self._put(self._copy().finish()).windows

    def _copy(self) -> Any:
        """A run that goes on from the state of this one."""
        copy = self.pipeline.engine()
        copy.load(self.engine.save())
        return copy

    def restart(self) -> None:
        """Go on from a saved state."""
        self.engine = self._copy()

    def clock(self) -> int | None:
        """Where the clock is (None: nowhere yet), asked of a copy that goes on from the state: by how much something of
        long ago is late."""
        late = self._push(self._copy(), [(0, Event(PAST, "", "?"))])["late"]
        return late[0].clock if late else None

    def _push(self, engine: Any, rows: list[tuple[int, Event]]) -> Any:
        return engine.push(
            **{name: [e if s == i else silent for s, e in rows] for i, name in enumerate(self.names)}
        )  # fmt: skip

    def _put(self, out: Any) -> Put:
        held, early = (
            [Held(w.start, w.end, [int(tag) for tag in w.value.split(";")[:-1]]) for w in out[name]]
            for name in ("out", "early")
        )
        return Put(held, [int(late.value.tag[:-1]) for late in out["late"]], early)


def _named(run: Any, names: list[str]) -> Any:
    """A function of so many streams."""
    space = {"run": run}
    exec(f"def windows({', '.join(names)}):\n    return run({', '.join(f'{n}={n}' for n in names)})", space)
    return space["windows"]


def refused(make: Any) -> str | None:
    """What Pellucid says against it, if anything."""
    try:
        make()
    except PellucidError as error:
        return str(error)
    return None


def fold(name: str, its: list[Any]) -> Any:
    """What is to be made of the events [time, value] of a window, in their order."""
    values = [value for _, value in its]
    folds: dict[str, Callable[[], Any]] = {
        "collect": lambda: values,
        "collect_list": lambda: values,
        "collect_set": lambda: sorted(set(values)),
        "collect_dict": lambda: dict(values),
        "count": lambda: len(values),
        "count_per_window": lambda: len(values),
        "sum": lambda: sum(values),
        "mean": lambda: sum(values) / len(values),
        "first": lambda: values[0],
        "last": lambda: values[-1],
        "max": lambda: max(values),
        "min": lambda: min(values),
    }
    if re.fullmatch(r"count_(per|by)_(?!key|window)\w+", name):  # how often each value is there
        return dict(Counter(values))
    if name not in folds:
        raise Differs(f"the fold {name!r} is not known")
    return folds[name]()


def apart(over: Shape, times: Iterable[int]) -> dict[int, list[int]]:
    """Windows that begin less often than they are long, which are refused here: the events of each, by its start."""
    found: dict[int, list[int]] = {}
    for time in times:
        start = over.origin + (time - over.origin) // over.every * over.every
        if time < start + over.size:
            found.setdefault(start, []).append(time)
    return found


def refuse_apart(over: Shape, theirs: Any, wanted: Any) -> None:
    """Such windows are refused here; what a case says of them has to be so by their own rule."""
    said = refused(lambda: Windows(over))
    if said is None or wanted == "error":
        return expect("refused", said is not None, True)
    expect("by their rule", theirs, wanted)
    raise OtherRule(f"every > size leaves events in no window, and is refused: {said}")


def sessions(times: Iterable[int], gap: int) -> list[tuple[int, int]]:
    """(first, last) of each session of Pellucid over these times."""
    run = Windows(Shape("session", gap), lateness=(10**12,))
    run.push([(time, "") for time in times])
    return sorted((w.start, w.end - gap - 1) for w in run.finish().windows)


def product(sides: list[list[Any]]) -> list[tuple[Any, ...]]:
    """All combinations of values of several sides, None where a side has none: full joins, one after the other."""

    class Value(NamedTuple):
        time: int
        value: int

    def run(**streams: Stream[Value]) -> Any:
        timed = [one.at("time").map(lambda e: e.value) for one in streams.values()]
        whole: Any = timed[0]
        for one in timed[1:]:
            whole = join(whole, one, within=1000, how="full")
        return whole

    names = [f"x{i}" for i in range(len(sides))]
    joined = pipeline(_named(run, names), **dict.fromkeys(names, Value))
    longest = max(map(len, sides))
    data = {
        name: [*(Value(0, value) for value in its), *([silent] * (longest - len(its)))]
        for name, its in zip(names, sides, strict=True)
    }
    return [_flat(row, len(sides)) for row in joined(**data)]


def _flat(row: Any, sides: int) -> tuple[Any, ...]:
    """((a, b), c) as (a, b, c)."""
    if sides == 1:
        return (row,)
    left = (None,) * (sides - 1) if row[0] is None else _flat(row[0], sides - 1)
    return (*left, row[1])
