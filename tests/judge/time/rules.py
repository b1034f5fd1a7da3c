"""The rules of event time in plain Python: rows in the order of their arrival, batch by batch, and nothing clever.

A *run* is a list of nodes, each after those that it reads.  `Run.batch` takes the rows of one batch and returns what
each node puts out, and which rows came too late for it.  All times are whole numbers (of microseconds, or of nothing).
Nothing of Pellucid is used here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tests.judge.time.canonical import canonical

__all__ = [
    "AsOf",
    "At",
    "Clock",
    "Dedup",
    "Each",
    "Early",
    "Join",
    "Late",
    "Merge",
    "Node",
    "Row",
    "Run",
    "Sessions",
    "Timers",
    "Windows",
]

NEVER, ALWAYS = float("-inf"), float("inf")  # the clock before anything was seen, and after all has ended

Fold = Callable[[list[Any]], list[Any]]  # the events of a window in order, and what comes of them: the last one counts


class Row(NamedTuple):
    """An event of a stream."""

    time: int
    key: Any
    value: Any


class Late(NamedTuple):
    """An event that came too late, what the clock was, and the windows that it missed."""

    value: Any
    time: int
    clock: float
    start: int | None = None
    end: int | None = None
    side: int | None = None  # of a join: from which of its streams


class Windowed(NamedTuple):
    """The answer of a window."""

    start: int
    end: int
    value: Any


class Node:
    """What reads streams and puts out one; `at` are those who say times, before it."""

    def __init__(self, *inputs: Node) -> None:
        self.inputs = inputs
        self.at: tuple[At, ...] = tuple(dict.fromkeys(at for one in inputs for at in one.at))
        self.clocks = [Clock(one.at, self.at) for one in inputs]
        self.late: list[Late] = []

    def take(self, *rows: list[Row]) -> None:
        """The rows of a batch, judged by the clocks as they are."""
        raise NotImplementedError

    def put(self) -> list[Row]:
        """What is complete, now that the clocks have moved."""
        raise NotImplementedError

    def too_late(self, row: Row, side: int | None = None, **window: int) -> None:
        self.late.append(Late(row.value, row.time, self.clocks[side or 0].now, side=side, **window))


class At(Node):
    """Where a stream gets its times: a source with its watermark."""

    def __init__(self, lateness: int = 0) -> None:
        super().__init__()
        self.at = (self,)
        self.lateness, self.state = lateness, "active"
        self.watermark = NEVER

    def see(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.state = "active"
            self.watermark = max(self.watermark, row.time - self.lateness)


class Clock:
    """The clock over some sources: the greatest candidate so far.

    `whole` are the sources of all streams of a step.  A stream that is idle as a whole holds the others back no longer
    (a table that rarely changes must not), so its candidate is that of all of them.
    """

    def __init__(self, sources: Sequence[At], whole: Sequence[At] = ()) -> None:
        self.sources, self.whole = sources, whole or sources
        self.now = NEVER

    def candidate(self) -> float:
        active = [one.watermark for one in self.sources if one.state == "active"]
        if active:
            return min(active)
        if all(one.state == "ended" for one in self.sources):
            return ALWAYS
        if set(self.whole) != set(self.sources):
            return Clock(self.whole).candidate()
        return max(one.watermark for one in self.sources)

    def move(self) -> None:
        self.now = max(self.now, self.candidate())


class Each(Node):
    """An ordinary step that looks at one row after the other: what it puts out has the row's time."""

    def __init__(self, source: Node, change: Callable[[Row], list[Row]]) -> None:
        super().__init__(source)
        self.change = change

    def take(self, *rows: list[Row]) -> None:
        self.ready = [out for row in rows[0] for out in self.change(row)]

    def put(self) -> list[Row]:
        return self.ready


class Merge(Node):
    def take(self, *rows: list[Row]) -> None:
        self.ready = [row for one in rows for row in one]

    def put(self) -> list[Row]:
        return self.ready


class Windows(Node):
    """Fixed windows ``[start, end)`` that begin at ``origin + k * every``; with `starts`, wherever that says."""

    def __init__(
        self, source: Node, size: int, every: int, fold: Fold, origin: int = 0,
        windows: Callable[[int], list[tuple[int, int]]] | None = None, allowed: int = 0, early: int | str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(source)
        self.allowed, self.early = allowed, early
        self.untold: set[tuple[Any, int, int]] = set()  # with rows since their answers so far were told
        self.so_far: list[Row] = []
        self.size, self.every, self.origin, self.fold = size, every, origin, fold
        self.windows = windows or self.regular
        self.open: dict[tuple[Any, int, int], list[Row]] = {}

    def regular(self, time: int) -> list[tuple[int, int]]:
        last = self.origin + (time - self.origin) // self.every * self.every
        found = []
        while last > time - self.size:
            found.append((last, last + self.size))
            last -= self.every
        return found[::-1]

    def take(self, *rows: list[Row]) -> None:
        self.before, self.fresh = self.clocks[0].now, set()
        for row in rows[0]:
            missed = []
            for start, end in self.windows(row.time):
                if self.gone(end):
                    missed.append((start, end))
                else:
                    self.open.setdefault((row.key, start, end), []).append(row)
                    self.fresh.add((row.key, start, end))
            if missed:
                self.too_late(row, start=missed[0][0], end=missed[-1][1])

    def gone(self, end: int) -> bool:
        """Whether a window takes no more rows."""
        return self.clocks[0].now >= end + self.allowed

    def put(self) -> list[Row]:
        now = self.clocks[0].now
        closed = [w for w in self.open if now >= w[2] and (self.before < w[2] or w in self.fresh)]
        out = _answers([(window, self.open[window]) for window in closed], self.fold)
        self.open = {window: rows for window, rows in self.open.items() if not self.gone(window[2])}
        self.untold |= self.fresh
        self.so_far = []
        if told(self.early, self.before, now):
            running = [(w, rows) for w, rows in self.open.items() if w in self.untold and now < w[2]]
            self.so_far, self.untold = _answers(running, self.fold), set()
        return out


def told(early: int | str | None, before: float, now: float) -> bool:
    """Whether answers so far are told: at each batch, or when the clock passes a multiple of something."""
    if not isinstance(early, int):
        return early is not None
    return now > NEVER and (before == NEVER or now == ALWAYS or now // early > before // early)


class Early(Node):
    """The answers so far of windows."""

    def __init__(self, windows: Windows | Sessions) -> None:
        super().__init__(windows)
        self.of = windows

    def take(self, *rows: list[Row]) -> None:
        pass

    def put(self) -> list[Row]:
        return self.of.so_far


class Sessions(Node):
    """Events of a key at distance `gap` or less are together."""

    def __init__(self, source: Node, gap: int, fold: Fold, early: int | str | None = None) -> None:
        super().__init__(source)
        self.gap, self.fold, self.early = gap, fold, early
        self.open: list[tuple[Any, list[Row]]] = []
        self.before, self.untold = NEVER, list[Row]()
        self.so_far: list[Row] = []

    def take(self, *rows: list[Row]) -> None:
        self.before = self.clocks[0].now
        for row in rows[0]:
            near, inside = [], False
            for key, session in self.open:
                first, last = session[0].time, session[-1].time
                if key == row.key and first - self.gap <= row.time <= last + self.gap:
                    near.append(session)
                    inside = inside or first <= row.time
            if row.time < self.clocks[0].now and not inside:
                self.too_late(row)
                continue
            self.open = [(key, session) for key, session in self.open if not any(session is one for one in near)]
            together = sorted([row, *(one for session in near for one in session)], key=lambda one: one.time)
            self.open.append((row.key, together))
            self.untold.append(row)

    def put(self) -> list[Row]:
        now = self.clocks[0].now
        closed = [one for one in self.open if self.clocks[0].now > one[1][-1].time + self.gap]
        self.open = [one for one in self.open if self.clocks[0].now <= one[1][-1].time + self.gap]
        self.so_far = []
        if told(self.early, self.before, now):
            running = [(key, s) for key, s in self.open if any(row is one for row in s for one in self.untold)]
            self.so_far, self.untold = self._answers(running), []
        return self._answers(closed)

    def _answers(self, sessions: list[tuple[Any, list[Row]]]) -> list[Row]:
        return _answers([((key, s[0].time, s[-1].time + self.gap + 1), s) for key, s in sessions], self.fold)


def in_order(rows: Iterable[Row]) -> list[Row]:
    """By time, then by the whole event."""
    return sorted(rows, key=lambda row: (row.time, canonical(row.value)))


def _answers(closed: list[tuple[tuple[Any, int, int], list[Row]]], fold: Fold) -> list[Row]:
    """Of each window that is complete, if anything comes of its events."""
    found = []
    for (key, start, end), rows in closed:
        if out := fold([row.value for row in in_order(rows)]):
            found.append(Row(end - 1, key, Windowed(start, end, out[-1])))
    return sorted(found, key=lambda row: (row.time, canonical(row.key), row.value.start))


class Join(Node):
    """Pairs of a key with ``lo <= b.time - a.time <= hi``; what stays alone comes out when it is given up."""

    def __init__(self, a: Node, b: Node, lo: int, hi: int, how: str = "inner") -> None:
        super().__init__(a, b)
        self.lo, self.hi, self.how = lo, hi, how
        self.held: tuple[list[tuple[Row, list[Row]]], ...] = ([], [])  # rows of a side, with those they were paired to

    def take(self, *rows: list[Row]) -> None:
        self.ready: list[Row] = []
        for side in (0, 1):
            for row in rows[side]:
                if row.time < self.clocks[side].now:
                    self.too_late(row, side)
                else:
                    self._pair(side, row)

    def _pair(self, side: int, row: Row) -> None:
        paired: list[Row] = []
        for other, its in self.held[1 - side]:
            a, b = (row, other) if side == 0 else (other, row)
            if a.key == b.key and self.lo <= b.time - a.time <= self.hi:
                paired.append(other)
                its.append(row)
                self.ready.append(Row(max(a.time, b.time), a.key, (a.value, b.value)))
        self.held[side].append((row, paired))

    def put(self) -> list[Row]:
        for side, reach in ((0, self.hi), (1, -self.lo)):
            for row, paired in list(self.held[side]):
                if self.clocks[1 - side].now > row.time + reach:
                    self.held[side][:] = [one for one in self.held[side] if one[0] is not row]
                    if not paired and self.how in (("left", "full"), ("full",))[side]:
                        value = (row.value, None) if side == 0 else (None, row.value)
                        self.ready.append(Row(max(row.time, row.time + reach), row.key, value))
        return self.ready


class AsOf(Node):
    """Each row of a with the latest one of b that is not after it, and at most `within` old."""

    def __init__(self, a: Node, b: Node, within: int | None = None, how: str = "left") -> None:
        super().__init__(a, b)
        self.within, self.how = within, how
        self.waiting: list[Row] = []
        self.known: list[Row] = []

    def take(self, *rows: list[Row]) -> None:
        for side, kept in ((0, self.waiting), (1, self.known)):
            for row in rows[side]:
                if row.time < self.clocks[side].now:
                    self.too_late(row, side)
                else:
                    kept.append(row)

    def put(self) -> list[Row]:
        ready = [a for a in self.waiting if self.clocks[1].now > a.time]
        self.waiting = [a for a in self.waiting if self.clocks[1].now <= a.time]
        out = []
        for a in ready:
            fit = [b for b in self.known if b.key == a.key and b.time <= a.time]
            found = in_order(fit)[-1:]
            if found and self.within is not None and a.time - found[0].time > self.within:
                found = []
            if found or self.how == "left":
                out.append(Row(a.time, a.key, (a.value, found[0].value if found else None)))
        return out


class Waiting(Node):
    """Rows wait until their time is complete; late is a row before the clock."""

    def __init__(self, source: Node) -> None:
        super().__init__(source)
        self.waiting: list[Row] = []

    def take(self, *rows: list[Row]) -> None:
        for row in rows[0]:
            if row.time < self.clocks[0].now:
                self.too_late(row)
            else:
                self.waiting.append(row)

    def complete(self) -> list[Row]:
        """Those that need wait no longer."""
        now = self.clocks[0].now
        ready = [row for row in self.waiting if now > row.time]
        self.waiting = [row for row in self.waiting if now <= row.time]
        return ready


class Dedup(Waiting):
    """A row is kept iff no kept one of what it is known by is `within` earlier, or less."""

    def __init__(self, source: Node, by: Callable[[Any], Any], within: int) -> None:
        super().__init__(source)
        self.by, self.within = by, within
        self.kept: dict[Any, int] = {}

    def put(self) -> list[Row]:
        out = []
        for row in in_order(self.complete()):
            name = canonical((row.key, self.by(row.value)))
            if name not in self.kept or row.time - self.kept[name] > self.within:
                self.kept[name] = row.time
                out.append(row)
        return out


Task = Callable[[Any, Any], tuple[Any, list[Any], list[int]]]  # a state, and a row or a time, to state, events, times


class Timers(Waiting):
    """A task that is told of times: of each key its rows by time and event, each when it is complete; and each time
    that it asked for, once, behind the rows of that time."""

    def __init__(self, source: Node, start: Any, on_row: Task, on_time: Task) -> None:
        super().__init__(source)
        self.start, self.on_row, self.on_time = start, on_row, on_time
        self.states: dict[Any, Any] = {}
        self.asked: dict[Any, list[int]] = {}

    def put(self) -> list[Row]:
        now, out, ready = self.clocks[0].now, [], self.complete()
        for key in {row.key for row in ready} | set(self.asked):
            rows = in_order(row for row in ready if row.key == key)
            while True:
                asked = self.asked.setdefault(key, [])
                told = asked[0] if asked and asked[0] < now else None
                state = self.states.get(key, self.start)
                if rows and (told is None or self.first(rows[0].time, told)):
                    row = rows.pop(0)
                    time, (state, events, more) = row.time, self.on_row(state, row)
                elif told is not None:
                    time, self.asked[key] = told, asked[1:]
                    state, events, more = self.on_time(state, told)
                else:
                    break
                self.states[key] = state
                self.asked[key] = self.asks(self.asked[key], more)
                out += [Row(time, key, event) for event in events]
        return sorted(out, key=lambda row: (row.time, canonical(row.key)))

    def first(self, time: int, told: int) -> bool:
        """Whether a row of a time comes before the news of another."""
        return time <= told

    def asks(self, asked: list[int], more: list[int]) -> list[int]:
        """What is asked for, the first in front."""
        return sorted({*asked, *more})


class Run:
    """Nodes, each after those that it reads."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes

    def batch(
        self, rows: dict[At, list[Row]], idle: Iterable[At] = (), ended: Iterable[At] = ()
    ) -> dict[Node, tuple[list[Row], list[Late]]]:
        """The rows of one batch, what was declared idle before them, what has ended."""
        out: dict[Node, tuple[list[Row], list[Late]]] = {}
        for at in idle:
            at.state = "idle"
        for at, its in rows.items():
            at.see(its)
        for at in ended:
            at.state = "ended"
        for node in self.nodes:
            if isinstance(node, At):
                out[node] = (list(rows.get(node, ())), [])
                continue
            node.late = []
            node.take(*(out[one][0] for one in node.inputs))
            for clock in node.clocks:
                clock.move()
            out[node] = (node.put(), node.late)
        return out

    def end(self) -> dict[Node, tuple[list[Row], list[Late]]]:
        """No more rows from anybody."""
        return self.batch({}, ended=[node for node in self.nodes if isinstance(node, At)])
