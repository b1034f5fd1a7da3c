"""How far event time has come: a clock for each stream, moved by the steps `at`.

A step `at` with lateness *L* has the watermark *W* = greatest time seen - *L* (before its first event: none).  It is
active, idle (declared so, after a silence) or ended.  A stream's candidate is the least *W* of the active steps
`at` before it; if none is active, `END` if all have ended, else the greatest *W* there is.  Its clock is the greatest
candidate so far: it never goes back.

A step that reads two streams has a clock for each, by which it gives up what the other one has brought.  While one is
idle as a whole, it would stand still, and hold the other back: so that its candidate is then that of both together.

Events of a batch are judged by the clock at its beginning (`Clocks.now`); the clock moves once, at its end, to
`Clocks.after`, and `Clocks.settle` closes the batch.  An idle step's next event makes it active.

>>> from pellucid import merge, pipeline
>>> both = pipeline(lambda x, y: merge(x.at(lambda v: v, lateness=2), y.at(lambda v: v)), x=int, y=int)
>>> clocks = Clocks(both.graph)
>>> x, y, out = (i for i, node in enumerate(both.graph.nodes) if node.kind in ("at", "merge"))
>>> clocks.saw(x, 10)
>>> clocks.after(out) == BEGINNING  # y may still bring anything
True
>>> clocks.saw(y, 9)
>>> clocks.now(out) == BEGINNING, clocks.after(out)
(True, 8)
>>> clocks.settle()
>>> clocks.now(out)
8

The one order of events with equal times: by the whole event, leaf by leaf, whatever order they came in.

None comes first; False before True, enums by their place in the class, texts by code points, floats by value, -0.0
before 0.0 and NaN last.

>>> from pellucid.internal.expr.types import FLOAT, type_of
>>> rank = ranking(type_of(float | None))
>>> sorted([0.0, float("nan"), None, -0.0, -1.0], key=rank)
[None, -1.0, -0.0, 0.0, nan]
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from pellucid.errors import LateError, StateError, StepError
from pellucid.internal.engine.interpreter import short
from pellucid.internal.expr.types import FLOAT, EnumType, Type
from pellucid.internal.expr.types.rich import DAY, EPOCH, EPOCH_UTC, TICK
from pellucid.internal.graph.model import Graph, Node
from pellucid.internal.graph.timed import MOST_ALONE
from pellucid.internal.graph.timing import Timing, shown_length, shown_time

# Windows that begin at fixed times: which of them an event is in; and the days of time zones.
#
# Without a time zone a window is ``[origin + k * every, origin + k * every + size)`` for every whole ``k``, negative
# ones too.  With one, sizes are whole days, and a day begins with the first instant of its date there: so it has 23,
# 24 or 25 hours, or what else the zone has done.  Where a clock is set back over midnight, what comes after the first
# midnight is the new day; a date that a zone has left out is a day without instants.


def windows_of(timing: Timing, time: int) -> list[tuple[int, int]]:
    """The windows (start, end) that a time is in, in order.

    >>> windows_of(Timing(size=10, every=5), 12)
    [(5, 15), (10, 20)]
    >>> windows_of(Timing(size=10, every=10, origin=3), -1)
    [(-7, 3)]
    """
    assert timing.size is not None and timing.every is not None
    if timing.tz is None:
        last = timing.origin + (time - timing.origin) // timing.every * timing.every
        starts = range(last, time - timing.size, -timing.every)
        return [(start, start + timing.size) for start in reversed(starts)]
    origin, size, every = timing.origin // DAY, timing.size // DAY, timing.every // DAY
    day = day_of(timing.tz, time)
    last = origin + (day - origin) // every * every
    days = range(last, day - size, -every)
    return [(day_start(timing.tz, d), day_start(timing.tz, d + size)) for d in reversed(days)]


@lru_cache(maxsize=100_000)
def day_start(tz: str, day: int) -> int:
    """The first instant of a day (counted from 1970-01-01) in a time zone, in microseconds of UTC.

    >>> (day_start("Europe/Berlin", 19814) - day_start("Europe/Berlin", 19813)) // 3_600_000_000  # 2024-03-31
    23
    """
    try:
        wall = EPOCH + dt.timedelta(days=day)
        # Of a midnight that is there twice the first; of one that is not there, when it would have been: the moment at
        # which the clock was set forward.
        return int((wall.replace(tzinfo=ZoneInfo(tz), fold=0).astimezone(dt.UTC) - EPOCH_UTC) // TICK)
    except OverflowError:
        raise OverflowError("a day before the year 1 or after 9999") from None


def day_of(tz: str, time: int) -> int:
    """The day in a time zone that an instant is in.

    >>> day_of("Europe/Berlin", 19812 * DAY + 23 * DAY // 24)  # 23:00 in UTC is the next day there
    19813
    """
    wall = (EPOCH_UTC + dt.timedelta(microseconds=time)).astimezone(ZoneInfo(tz)).replace(tzinfo=None)
    day = (wall - EPOCH) // dt.timedelta(days=1)
    while time < day_start(tz, day):
        day -= 1
    while time >= day_start(tz, day + 1):
        day += 1
    return day


def ranking(t: Type | None) -> Callable[[Any], tuple[Any, ...]]:
    """What to compare events of a type by (of no type: nothing, they are all equal)."""
    if t is None:
        return lambda event: ()
    ranks = [_leaf(kind) for _, kind in t.leaves()]
    return lambda event: tuple(rank(leaf) for rank, leaf in zip(ranks, t.flatten(event), strict=True))


def _leaf(kind: Type) -> Callable[[Any], Any]:
    if kind == FLOAT:
        return _float
    if isinstance(kind, EnumType):
        place = {member: i for i, member in enumerate(kind.members)}
        return place.__getitem__
    return lambda leaf: leaf


def _float(value: float) -> tuple[bool, float, float]:
    if math.isnan(value):
        return True, 0.0, 0.0
    return False, value, math.copysign(1.0, value)


#: Before every time, and after every time and every sum of a time and a length.
BEGINNING, END = -(2**64), 2**64

ACTIVE, IDLE, ENDED = "active", "idle", "ended"


#: A clock: the steps `at` before a stream, and those before all that a step reads beside it.
_Clock: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"


class Clocks:
    """The clocks of all streams of a graph.  A stream is called by the position of its step."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        #: The steps `at` that a stream's times come from, by position.
        self.before: list[tuple[int, ...]] = _before(graph)
        self.marks: dict[int, int] = {i: BEGINNING for i, node in enumerate(graph.nodes) if node.kind == "at"}
        #: The greatest time that each of them has seen in this batch.
        self.seen: dict[int, int] = {}
        self.status: dict[int, str] = dict.fromkeys(self.marks, ACTIVE)
        self._ending: set[int] = set()  # those that end with this batch
        pairs = [(self.before[j], self._both(i)) for i, node in enumerate(graph.nodes) for j in node.inputs]
        self._now: dict[_Clock, int] = dict.fromkeys([*((own, own) for own in self.before), *pairs], BEGINNING)

    def saw(self, at: int, time: int) -> None:
        """A step `at` has seen an event of this time (or several, of which this is the greatest)."""
        if self.status[at] == ENDED:
            raise StateError(f"{self.graph.nodes[at].describe()}: an event came after the end of its input")
        timing = self.graph.nodes[at].timing
        assert timing is not None
        self.status[at] = ACTIVE
        self.seen[at] = max(self.seen.get(at, time), time)
        self.marks[at] = max(self.marks[at], time - timing.lateness)

    def idle(self, at: int) -> None:
        """From here on a step `at` holds no clock back, until its next event."""
        if self.status[at] == ACTIVE:
            self.status[at] = IDLE

    def end(self, steps: Iterable[int] | None = None) -> None:
        """The input ends with this batch: every time is complete.  Or that of some steps `at` alone does."""
        self._ending |= set(self.marks if steps is None else steps)

    def now(self, stream: int, step: int | None = None) -> int:
        """A stream's clock, as it was when the batch began; for a step that reads it beside another one, that step's
        clock of it."""
        return self._now[self._clock(stream, step)]

    def after(self, stream: int, step: int | None = None) -> int:
        """What a stream's clock moves to at the end of the batch; asked when all that the steps `at` before it (and
        before the step that reads it) see in this batch is known."""
        return max(self.now(stream, step), self._candidate(*self._clock(stream, step)))

    def settle(self) -> None:
        """The end of a batch: the clocks have moved."""
        self.seen = {}
        for clock in self._now:
            self._now[clock] = max(self._now[clock], self._candidate(*clock))
        self.status |= dict.fromkeys(self._ending, ENDED)
        self._ending = set()

    def _clock(self, stream: int, step: int | None) -> _Clock:
        return self.before[stream], self.before[stream] if step is None else self._both(step)

    def _both(self, step: int) -> tuple[int, ...]:
        """The steps `at` before all that a step reads."""
        return tuple(sorted({at for j in self.graph.nodes[step].inputs for at in self.before[j]}))

    def _candidate(self, own: tuple[int, ...], both: tuple[int, ...]) -> int:
        active = [self.marks[i] for i in own if self.status[i] == ACTIVE and i not in self._ending]
        if active:
            return min(active)
        if all(self.status[i] == ENDED or i in self._ending for i in own):
            return END
        return self._candidate(both, both) if both != own else max(self.marks[i] for i in own)

    def decides(self, stream: int, step: int | None = None) -> tuple[tuple[int, ...], bool]:
        """The steps `at` that a stream's clock waits for, and whether for each of them: the active ones.  Where none is
        active, the next event of any that has not ended moves it; if all have ended, none is waited for.

        >>> from pellucid import merge, pipeline
        >>> both = pipeline(lambda x, y: merge(x.at(lambda v: v), y.at(lambda v: v)), x=int, y=int)
        >>> clocks = Clocks(both.graph)
        >>> clocks.idle(2)
        >>> clocks.decides(4)
        ((3,), True)
        >>> clocks.idle(3)
        >>> clocks.decides(4)
        ((2, 3), False)
        """
        own, both = self._clock(stream, step)
        for steps in (own, both):
            active = tuple(i for i in steps if self.status[i] == ACTIVE and i not in self._ending)
            if active:
                return active, True
            left = tuple(i for i in steps if self.status[i] != ENDED and i not in self._ending)
            if not left:
                return (), True
        return left, False

    def save(self) -> dict[str, Any]:
        """All of it, by the ids of steps."""
        name = [node.id for node in self.graph.nodes]
        return {
            "marks": {name[i]: mark for i, mark in self.marks.items()},
            "seen": {name[i]: time for i, time in self.seen.items()},
            "status": {name[i]: status for i, status in self.status.items()},
            "now": [([name[i] for i in own], [name[i] for i in both], now) for (own, both), now in self._now.items()],
        }

    def load(self, saved: dict[str, Any]) -> None:
        """What `save` gave, of the same graph."""
        at = self.graph.position
        self.marks = {at[step]: mark for step, mark in saved["marks"].items()}
        self.seen = {at[step]: time for step, time in saved["seen"].items()}
        self.status = {at[step]: status for step, status in saved["status"].items()}
        self._now = {
            (tuple(at[step] for step in own), tuple(at[step] for step in both)): now for own, both, now in saved["now"]
        }


def _before(graph: Graph) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for i, node in enumerate(graph.nodes):
        clock = node.processor.clock
        own = {i} if clock == "makes" else set() if clock == "drops" else {a for j in node.inputs for a in found[j]}
        found.append(tuple(sorted(own)))
    return found


def feeders(graph: Graph) -> dict[str, tuple[str, ...]]:
    """The sources that the events of each step `at` come from, by their ids.

    >>> from pellucid import merge, pipeline
    >>> p = pipeline(lambda x, y: merge(x, y).at(lambda v: v, id="when"), x=int, y=int)
    >>> feeders(p.graph)
    {'when': ('x', 'y')}
    """
    sources: list[set[int]] = []
    for i, node in enumerate(graph.nodes):
        sources.append({i} if node.kind == "source" else {s for j in node.inputs for s in sources[j]})
    return {
        node.id: tuple(graph.nodes[s].id for s in sorted(sources[i]))
        for i, node in enumerate(graph.nodes)
        if node.kind == "at"
    }


# What errors say when a step that works by event time cannot continue, the same in every engine.


def late_error(
    node: Node,
    clock: Type,
    value: Any,
    time: int,
    now: int,
    push: int,
    start: int | None = None,
    end: int | None = None,
) -> LateError:
    """An event came too late, and nothing was said about such events."""
    missed, corrected = "", ""
    if node.timing is not None and node.timing.size is not None:  # of sessions and joins there is no correction
        corrected = "or with allowed_lateness= here (the answer comes again, corrected), "
        missed = _missed(clock, windows_of(node.timing, time), now - node.timing.allowed)
    elif node.processor.puts == "many" and start is not None and end is not None and node.sub is not None:
        missed = _missed(clock, [(start, end)], end)
    why = (
        f"on the event {short(value)}: its time is {shown_time(clock, time)}{missed}, and the clock is at "
        f"{shown_time(clock, now)}: it is {shown_length(clock, now - time)} late; allow for so much more with "
        f"lateness= in at, {corrected}or take late events from this step's .late, or let them go with late='drop'"
    )
    return LateError(f"{node.describe()} failed at push {push:,} {why}", step=node.id, position=push, why=why)


def _missed(clock: Type, windows: Sequence[tuple[int, int]], until: int) -> str:
    """Which of an event's windows are complete.

    >>> from pellucid.internal.expr.types import INT
    >>> _missed(INT, [(0, 10)], 12), _missed(INT, [(0, 10), (5, 15)], 16)
    (', whose window from 0 to 10 is complete', ', whose windows from 0 to 10 and from 5 to 15 are complete')
    >>> _missed(INT, [(0, 10), (5, 15)], 12)
    ', whose window from 0 to 10 is complete (it would count in the 1 that is open)'
    """
    over = [f"from {shown_time(clock, a)} to {shown_time(clock, b)}" for a, b in windows if b <= until]
    left = len(windows) - len(over)
    said = " and ".join(over) if len(over) < 3 else f"{over[0]} up to the one {over[-1]}, {len(over)} in all,"
    more = f" (it would count in the {left} that {'is' if left == 1 else 'are'} open)" if left else ""
    return f", whose window{'s' * (len(over) > 1)} {said} {'is' if len(over) == 1 else 'are'} complete{more}"


def no_time(node: Node, value: Any, push: int) -> StepError:
    """An event has no time."""
    why = (
        f"on the event {short(value)}: it has no time (None); leave such events out before, with filter, or say which "
        "time they have"
    )
    return StepError(f"{node.describe()} failed at push {push:,} {why}", step=node.id, position=push, why=why)


def no_such_time(node: Node, value: Any, time: int, clock: Type, push: int) -> StepError:
    """A window, a session or a time of waiting would begin or end where there are no times any more."""
    limits = "64 bits" if clock.limits()[0] is None else "the years 1 to 9999"
    why = (
        f"on the event {short(value)} of {shown_time(clock, time)}: what it belongs to begins or ends outside {limits}"
        "; leave such events out before, with filter"
    )
    return StepError(f"{node.describe()} failed at push {push:,} {why}", step=node.id, position=push, why=why)


def not_ahead(
    node: Node, clock: Type, keys: Sequence[Any], now: int, asked: int, notified: bool, push: int
) -> StepError:
    """A task asks for a time that is over."""
    when = f"notified of {shown_time(clock, now)}" if notified else f"on an event of {shown_time(clock, now)}"
    least = "a time after the one that it is notified of" if notified else "the time of its event, or a later one"
    why = f"{of_key(keys)}{when}: it asks to be notified of {shown_time(clock, asked)}, which is over: expected {least}"
    return StepError(f"{node.describe()} failed at push {push:,} {why}", step=node.id, position=push, why=why)


def never_done(node: Node, clock: Type, keys: Sequence[Any], now: int, push: int) -> StepError:
    """A task asks for one time after the other."""
    why = (
        f"{of_key(keys)}notified of {shown_time(clock, now)}: on_time was called {MOST_ALONE:,} times in a row, "
        "without an event between, and asked for one more time each time; at the end of the input every time is "
        "complete, so this would never end: let it ask for none when there is nothing left to wait for"
    )
    return StepError(f"{node.describe()} failed at push {push:,} {why}", step=node.id, position=push, why=why)


def of_key(keys: Sequence[Any]) -> str:
    """Of which key something is, for messages.

    >>> of_key(["ada"]), of_key([])
    ("for the key 'ada', ", '')
    """
    return f"for the key {', '.join(short(key) for key in keys)}, " if keys else ""


def sub_failed(node: Node, clock: Type, start: int, end: int, error: StepError, push: int) -> StepError:
    """A step inside a window failed: which window, for no single push is to blame."""
    what = str(error).replace(f" failed at push {error.position:,} ", " failed ", 1)
    why = f"in the window from {shown_time(clock, start)} to {shown_time(clock, end)}: {what}"
    return type(error)(f"{node.describe()} failed {why}", step=node.id, position=push, why=why)


def too_many_rounds(
    node: Node, clock: Type | None, time: int | None, rounds: int, events: Sequence[Any], push: int
) -> StepError:
    """A loop is not over after as many rounds as it may have, or has more events than any that ends."""
    some = ", ".join(short(event) for event in events[:3]) + (", …" if len(events) > 3 else "")
    what = "1 event still goes" if len(events) == 1 else f"{len(events):,} events still go"
    why = (
        f"{_when(clock, time)}: after {_rounds(rounds)} {what} round: {some}; have the body emit only what changes, "
        f"allow more with limit=, or say rounds={rounds} to stop there"
    )
    return StepError(f"{node.describe()} failed at push {push:,} {why}", step=node.id, position=push, why=why)


def body_failed(
    node: Node, clock: Type | None, time: int | None, rounds: int, error: StepError, push: int
) -> StepError:
    """A step in the body of a loop failed: in which round (the first is 1)."""
    what = str(error).replace(f" failed at push {error.position:,} ", " failed ", 1)
    why = f"{_when(clock, time)} in round {rounds:,}: {what}"
    return type(error)(f"{node.describe()} failed at push {push:,} {why}", step=node.id, position=push, why=why)


def _when(clock: Type | None, time: int | None) -> str:
    return f"at time {shown_time(clock, time)}" if clock is not None and time is not None else "on its events"


def _rounds(rounds: int) -> str:
    return "1 round" if rounds == 1 else f"{rounds:,} rounds"
