"""Tumbling and sliding windows over columns: which windows a time is in, two operators, and the step.

Windows are numbered: window *k* is [origin + k·every, origin + k·every + size).  Calendar days of a time zone are
counted by days; how many hours each has, the zone says.

**Without corrections and running answers** (`FixedWindows`) a row waits by its time: that says which of its windows
closes first.  When windows close, their rows are sorted by key and time: then each window of a key is a stretch of
rows, and the sub-pipeline runs over all stretches at once.  A row that is in a window which is still open goes on
waiting.

**With them** (`HeldWindows`) rows lie by the last window that they are in: a window's own are those of a few
neighbouring heaps.  A row stays until its last window takes no more rows.  Which windows have got rows since the clock
moved last (those that were closed are emitted again), and since the last running answers, is marked at the rows.  Over
many rows that takes six times as long as without (`bench/time.py`), hence two operators.

Nothing is noted of which windows a row counts in: those of its windows that were not given up when it came, and of
these are all for which an answer can still come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.errors import StepError
from pellucid.internal.engine.timed.clock import day_start, no_such_time, sub_failed, windows_of
from pellucid.internal.engine.timed.plan import Timed
from pellucid.internal.engine.timed.rows import LEAST, MOST, Failed, Inner, Kinds, Rows, Texts, Waiting
from pellucid.internal.engine.timed.sorting import (
    by_key_and_time,
    changes,
    many,
    numbers,
    one_word,
    order_by,
    settled,
    sorted_words,
)
from pellucid.internal.engine.timed.steps import Flow, LateRows, Run, Step, before, moved
from pellucid.internal.expr.types import INT
from pellucid.internal.expr.types.rich import DAY

_DAY = 86_400_000_000
_FAR = 1 << 61
#: Within the years 1 to 9999 in any time zone, in microseconds since 1970.
_DAYS = (-719_160 * _DAY, 2_932_890 * _DAY)


@dataclass(frozen=True)
class Spans:
    """Windows of one size, one every so often."""

    size: int
    every: int
    origin: int = 0

    @property
    def apart(self) -> bool:
        """Whether a time is in one window only."""
        return self.size == self.every

    @property
    def even(self) -> bool:
        """Whether a time is in one window only, and these are of one length within 64 bits."""
        return self.apart and type(self) is Spans and abs(self.origin) + self.every < _FAR

    def last(self, times: Any) -> Any:
        """The number of the last window that each time is in."""
        return self._whole((self._wide(times) - self.origin) // self.every)

    def first(self, times: Any) -> Any:
        """The number of the first one."""
        return self._whole((self._wide(times) - (self.origin + self.size)) // self.every + 1)

    def open_at(self, clock: int) -> int:
        """The number of the first window that is not closed: whose end is after the clock."""
        return (clock - self.origin - self.size) // self.every + 1

    def start(self, k: Any) -> Any:
        """Where these windows start."""
        return self._whole(self.origin + self._wide(k, self.every) * self.every)

    def end(self, k: Any) -> Any:
        """Where they end; the end is not in them."""
        return self._whole(self.origin + self._wide(k, self.every) * self.every + self.size)

    def ends(self, k: int) -> int:
        """Where one window ends; those before it have ended by then."""
        return self.origin + k * self.every + self.size

    def _wide(self, numbers: Any, by: int = 1) -> Any:
        """Numbers with which one can count without leaving 64 bits; near their ends these are Python's own."""
        reach = abs(self.origin) + self.size + self.every
        far = _FAR // by
        if not len(numbers) or (reach < _FAR and -far < int(numbers.min()) and int(numbers.max()) < far):
            return numbers
        return numbers.astype(object)

    def _whole(self, numbers: Any) -> Any:
        if numbers.dtype != object:
            return numbers
        return numbers.astype(np.int64)  # what does not fit is an OverflowError


class Days(Spans):
    """Windows of whole calendar days in a time zone: ``size`` and ``every`` are numbers of days, ``origin`` is a day
    (counted from 1970-01-01).  ``midnight`` tells the instant at which a day begins there."""

    def __init__(self, size: int, every: int, origin: int, midnight: Callable[[int], int]) -> None:
        super().__init__(size, every, origin)
        object.__setattr__(self, "_midnight", midnight)
        object.__setattr__(self, "_known", {})

    def _begins(self, days: Any) -> Any:
        """When these days begin."""
        known: dict[int, int] = self._known  # type: ignore[attr-defined]
        used, places = np.unique(np.asarray(days, dtype=np.int64), return_inverse=True)
        for day in used.tolist():
            if day not in known:
                known[day] = self._midnight(day)  # type: ignore[attr-defined]
        found = np.fromiter((known[day] for day in used.tolist()), dtype=np.int64, count=len(used))
        return found[places].reshape(np.shape(days))

    def _day(self, times: Any) -> Any:
        """The calendar day of each time there."""
        near = times // _DAY
        used, places = np.unique(near, return_inverse=True)
        # No zone is more than a day away from UTC: three days are looked at.
        out = np.empty(len(times), dtype=np.int64)
        begins = np.stack([self._begins(used + d) for d in (-1, 0, 1, 2)], axis=1) if len(used) else None
        if begins is not None:
            here = begins[places]
            out = near - 2 + (here <= times[:, None]).sum(axis=1)
        return out

    def last(self, times: Any) -> Any:
        return (self._day(times) - self.origin) // self.every

    def first(self, times: Any) -> Any:
        return (self._day(times) - (self.origin + self.size)) // self.every + 1

    def open_at(self, clock: int) -> int:
        first, last = _DAYS  # a clock may stand before all times that there are
        day = int(self._day(np.array([min(max(clock, first), last)], dtype=np.int64))[0])
        return (day - self.origin - self.size) // self.every + 1

    def start(self, k: Any) -> Any:
        return self._begins(self.origin + k * self.every)

    def end(self, k: Any) -> Any:
        return self._begins(self.origin + k * self.every + self.size)

    def ends(self, k: int) -> int:
        try:
            return int(self._begins(np.array([self.origin + k * self.every + self.size]))[0])
        except OverflowError:  # before or after all days
            return -(2**63) if k < 0 else 2**63 - 1


_SLICE = 1 << 17  # rows that are sorted and run at once


@dataclass
class Answers:
    """What windows emit: their keys, starts, ends and the leaves of the values; by time, then by key."""

    key: list[Any]
    start: Any
    end: Any
    value: list[Any]

    def __len__(self) -> int:
        return len(self.start)


def all_of(parts: list[Answers]) -> Answers:
    """Answers one part behind the other."""
    if len(parts) == 1:
        return parts[0]
    return Answers(
        [np.concatenate(c) for c in zip(*[p.key for p in parts], strict=True)],
        np.concatenate([p.start for p in parts]),
        np.concatenate([p.end for p in parts]),
        [np.concatenate(c) for c in zip(*[p.value for p in parts], strict=True)],
    )


class WindowFailed(Exception):  # noqa: N818 - reads as what it is
    """The sub-pipeline failed in a window."""

    def __init__(self, start: int, end: int, error: StepError) -> None:
        super().__init__(str(error))
        self.start, self.end, self.error = start, end, error


class FixedWindows:
    """Windows of one size.

    The clock is a whole number; None is the time before all others when a batch is taken, and the one after all others
    when windows are closed.

    >>> from pellucid import pipeline
    >>> total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    >>> texts = Texts()
    >>> from pellucid.internal.expr.types import INT
    >>> windows = FixedWindows(Spans(10, 10), Inner(total.graph, texts), Kinds.of(None, INT), texts)
    >>> len(windows.take(Rows(np.array([3, 12, 5]), [], [np.array([1, 2, 3])]), None))
    0
    >>> answers = windows.close(10)
    >>> answers.start.tolist(), answers.value[0].tolist()
    ([0], [4])
    >>> late = windows.take(Rows(np.array([9, 10]), [], [np.array([7, 8])]), 10)
    >>> late.which.tolist(), late.end.tolist(), windows.close(None).value[0].tolist()
    ([0], [10], [10])
    """

    so_far: Answers | None = None  # the running answers, where they are asked for

    def __init__(self, spans: Spans, inner: Inner, kinds: Kinds, texts: Texts) -> None:
        self.spans, self.inner, self.kinds, self.texts = spans, inner, kinds, texts
        self._rows = Waiting(kinds.arrays)
        self._open: int | None = None  # the first window that is not closed; None: none is

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, rows: Rows, clock: int | None) -> LateRows:
        """Judge a batch by the clock, and keep the rows that count in some window; the others, and those that missed
        one, are late."""
        none = np.zeros(0, np.int64)
        if clock is not None:
            self._open = max(self.spans.open_at(clock), self._open if self._open is not None else -(2**63))
        since = self._open
        over = None if since is None else self.spans.ends(since - 1)  # what is before it has missed a window
        if since is None or over is None or not len(rows) or int(rows.time.min()) >= over:
            self._rows.add(rows.time, rows.columns())
            return LateRows(none, none, none)
        which = np.flatnonzero(rows.time < over)
        some = rows.time[which]
        first, last = self.spans.first(some), self.spans.last(some)
        late = LateRows(which, self.spans.start(first), self.spans.end(np.minimum(last, since - 1)))
        kept = np.ones(len(rows), np.bool_)
        kept[which[last < since]] = False
        rows = rows.at(kept)
        self._rows.add(rows.time, rows.columns())
        return late

    def close(self, clock: int | None, tells: bool = False) -> Answers:
        """The answers of the windows that the clock closes (``tells`` is for `HeldWindows`)."""
        through = limit = None
        if clock is not None:
            through = self.spans.open_at(clock) - 1
            limit = self.spans.ends(through) - 1
            done = self._open is not None and through < self._open  # no window closes that was open
            if done or self._rows.least is None or self._rows.least > limit:
                return self._answers([], np.zeros(0, np.int64), [])
        columns = self._rows.take(limit, whole=True)
        rows = Rows.made(columns[0], columns[1:], len(self.kinds.key))
        keys = [numbers(t, c, self.texts) for t, c in zip(self.kinds.key, rows.key, strict=True)]
        whole = one_word(keys, len(rows)) if self.spans.even and many(len(rows)) else None
        found, left = [], None
        for which, end, ends in self._slices(rows, clock, limit):
            through = None if end is None else self.spans.open_at(end) - 1
            if whole is not None and len(which):
                found.append(self._at_once(rows, which, ends, whole, through))
                continue
            which = which if left is None else np.concatenate([left, which])
            answers, left = self._closed(rows, keys, which, through)
            found.append(answers)
        if left is not None:
            rest = rows.at(left)
            self._rows.add(rest.time, rest.columns())
        return all_of(found) if found else self._answers([], np.zeros(0, np.int64), [])

    def _slices(
        self, rows: Rows, clock: int | None, limit: int | None
    ) -> Iterator[tuple[Any, int | None, tuple[int, int]]]:
        """The numbers of the rows that are due in parts that a processor can keep at hand, as if they came so and the
        clock moved in between: each with the clock after it, and the ends of its times."""
        n = len(rows)
        if not n:
            return
        least, most = int(rows.time.min()), int(rows.time.max())
        most = most if limit is None else min(most, limit)
        parts, every = n // _SLICE, self.spans.ends(0) - self.spans.ends(-1)
        # Where a window ends, so that of windows that do not overlap none is cut (days have not all the same length).
        since = self.spans.ends(int(self.spans.first(np.array([least]))[0]) - 1)
        long = -(-(most - since) // (max(parts, 1) * every)) * every
        if parts < 4 or (most - since) // max(long, 1) < 3:
            due = np.arange(n) if limit is None or int(rows.time.max()) <= limit else np.flatnonzero(rows.time <= limit)
            yield due, clock, (least, most)
            return
        from pellucid.internal.engine.timed.compiled import sliced

        parts = (most - since) // long + 1
        order, edges = np.empty(n, np.uint32 if n < 2**32 else np.int64), np.zeros(parts + 1, np.int64)
        sliced(rows.time, since, long, most, order, edges)
        for i in range(parts):
            begin, end = since + i * long, since + (i + 1) * long
            yield order[edges[i] : edges[i + 1]], clock if i == parts - 1 else end, (begin, end - 1)

    def _at_once(
        self, rows: Rows, which: Any, ends: tuple[int, int], key: tuple[Any, int], through: int | None
    ) -> Answers:
        """The answers over many rows of windows that do not overlap, all of which close: in compiled loops, with key
        and time in one word."""
        from pellucid.internal.engine.timed.compiled import cut, packed

        words, (column, width), n = np.empty(len(which), np.uint64), key, len(which)
        bits = (ends[1] - ends[0]).bit_length()
        if width + bits > 63:
            keys = [numbers(t, c, self.texts) for t, c in zip(self.kinds.key, rows.key, strict=True)]
            return self._closed(rows, keys, which, through)[0]
        packed(which, column, rows.time, ends[0], bits, words)
        words, order = sorted_words(words, which, width + bits, bits)
        starts, windows = np.empty(n, np.int64), np.empty(n, np.int64)
        count, ties = cut(words, bits, ends[0], self.spans.origin, self.spans.every, starts, windows)
        if ties:
            order = settled(order, changes([words], n), self.kinds.value, rows.value, self.texts)
        starts = starts[:count]
        self._open = through + 1 if through is not None else self._open
        return self._run(rows, windows[:count], starts, order[starts], order)

    def _closed(self, rows: Rows, keys: list[Any], which: Any, through: int | None) -> tuple[Answers, Any]:
        """The answers of the windows up to one (None: of all) over these rows; and the numbers of those that are in
        later ones, too (None: none is)."""
        if not len(which):
            return self._answers([], np.zeros(0, np.int64), []), None
        some = [c[which] for c in keys]
        order, new, times = by_key_and_time(some, rows.time[which], self.kinds.value, rows.value, self.texts, which)
        since = self._open
        last = self.spans.last(times)
        if self.spans.apart and (through is None or int(last.max()) <= through):
            self._open = through + 1 if through is not None else since
            new[1:] |= last[1:] != last[:-1]
            starts = np.flatnonzero(new)
            return self._run(rows, last[starts], starts, order[starts], order), None
        first = self.spans.first(times)
        if since is not None and since > LEAST:
            np.maximum(first, since, out=first)
        left = None
        if through is not None:
            self._open = through + 1 if since is None else max(since, through + 1)
            again = last > through
            left = order[again] if again.any() else None
            np.minimum(last, through, out=last)
        return self._stretches(rows, order, new, first, last), left

    def _stretches(
        self,
        rows: Rows,
        order: Any,
        new: Any,
        first: Any,
        last: Any,
        wanted: Callable[[Any, Any, Any], Any] | None = None,
    ) -> Answers:
        """Windows that share rows: each row begins those that no earlier row of its key is in, and ends those that no
        later one is in.  In both ways the windows come by key and number, so starts and ends go together.

        ``wanted`` chooses some of them, by their numbers, and the places of their first rows and after their last."""
        n = len(order)
        begins, ends = first.copy(), last.copy()
        same = np.flatnonzero(~new[1:])  # rows whose next one has the same key
        begins[same + 1] = np.maximum(first[same + 1], last[same] + 1)
        ends[same] = np.minimum(last[same], first[same + 1] - 1)
        opened, closed = np.maximum(last - begins + 1, 0), np.maximum(ends - first + 1, 0)
        at, upto = np.repeat(np.arange(n), opened), np.repeat(np.arange(n), closed) + 1
        k = begins[at] + np.arange(len(at)) - np.repeat(np.cumsum(opened) - opened, opened)
        if wanted is not None:
            chosen = wanted(k, at, upto)
            at, upto, k = at[chosen], upto[chosen], k[chosen]
        lengths = upto - at
        starts = np.cumsum(lengths) - lengths
        gather = np.repeat(at - starts, lengths) + np.arange(int(lengths.sum()))
        return self._run(rows, k, starts, order[at], order[gather])

    def _run(self, rows: Rows, k: Any, starts: Any, at: Any, gather: Any) -> Answers:
        """The answers over groups of rows: their windows, where they begin among the rows that ``gather`` says, and a
        row with the key of each."""
        try:
            answered, values = self.inner.last(starts, rows.value, gather)
        except Failed as failed:
            window = k[failed.group : failed.group + 1]
            raise WindowFailed(int(self.spans.start(window)[0]), int(self.spans.end(window)[0]), failed.error) from None
        k, at = k[answered], at[answered]
        order = order_by([k]) if len(k) else answered  # by key they are already
        return self._answers([c[at[order]] for c in rows.key], k[order], [c[order] for c in values])

    def _answers(self, key: list[Any], k: Any, value: list[Any]) -> Answers:
        if not len(k):
            none = self.kinds.none()
            key, value = none.key, [np.zeros(0, c) for c in self.inner.kinds]
        return Answers(key, self.spans.start(k), self.spans.end(k), value)

    # ------------------------------------------------------------ what is saved

    def layout(self) -> list[list[Any]]:
        """The types of the columns that are saved, group by group."""
        return [[INT, *self.kinds.key, *self.kinds.value]]

    def saved(self) -> tuple[dict[str, Any], list[list[Any]]]:
        """A few words, and columns."""
        return {"open": self._open}, [self._rows.columns()]

    def load(self, words: dict[str, Any], groups: list[list[Any]]) -> None:
        """Go on from what was saved."""
        self._open = words["open"]
        self._rows.put(groups[0])


_NEW, _UNSHOWN = 1, 2  # rows since the clock moved last; since the last running answers


class _Part:
    """Some rows of a heap: time, marks, key, value; and which marks there are among them."""

    __slots__ = ("columns", "marks")

    def __init__(self, columns: list[Any], marks: int) -> None:
        self.columns, self.marks = columns, marks

    def __len__(self) -> int:
        return len(self.columns[0])


def _one(parts: list[_Part]) -> _Part:
    marks = 0
    for part in parts:
        marks |= part.marks
    return _Part([np.concatenate(c) for c in zip(*[p.columns for p in parts], strict=True)], marks)


class HeldWindows(FixedWindows):
    """Windows that take rows for so long after their end; ``early``: running answers are asked for.

    >>> from pellucid import pipeline
    >>> total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    >>> texts = Texts()
    >>> windows = HeldWindows(Spans(10, 10), Inner(total.graph, texts), Kinds.of(None, INT), texts, 5, False)
    >>> len(windows.take(Rows(np.array([3, 12, 5]), [], [np.array([1, 2, 3])]), None))
    0
    >>> windows.close(12).value[0].tolist()
    [4]
    >>> len(windows.take(Rows(np.array([9]), [], [np.array([7])]), 12)), windows.close(15).value[0].tolist()
    (0, [11])
    >>> windows.take(Rows(np.array([9]), [], [np.array([7])]), 15).end.tolist()
    [10]
    """

    def __init__(self, spans: Spans, inner: Inner, kinds: Kinds, texts: Texts, allowed: int, early: bool) -> None:
        super().__init__(spans, inner, kinds, texts)
        self.allowed, self._early = allowed, early
        self._most = -(-spans.size // spans.every)  # windows that a row can be in
        self._heaps: dict[int, list[_Part]] = {}  # each part at least twice as long as the next
        self._marked: dict[int, set[int]] = {_NEW: set(), _UNSHOWN: set()}  # heaps with such marks
        self._since = LEAST  # the first window that takes rows
        self.so_far = self._none()

    def __len__(self) -> int:
        return sum(len(part) for parts in self._heaps.values() for part in parts)

    def _none(self) -> Answers:
        return self._answers([], np.zeros(0, np.int64), [])

    def _first_open(self, clock: int) -> int:
        return max(self.spans.open_at(clock), LEAST)

    def take(self, rows: Rows, clock: int | None) -> LateRows:
        """Judge a batch by the clock, and keep the rows that count in some window."""
        none = np.zeros(0, np.int64)
        late = LateRows(none, none, none)
        if not len(rows):
            return late
        last = self.spans.last(rows.time)
        if clock is not None:
            since, first = self._first_open(clock - self.allowed), self.spans.first(rows.time)
            which = np.flatnonzero(first < since)
            if len(which):
                missed = np.minimum(last[which], since - 1)
                late = LateRows(which, self.spans.start(first[which]), self.spans.end(missed))
                kept = last >= since
                rows, last = rows.at(kept), last[kept]
        marks = _NEW | _UNSHOWN if self._early else _NEW
        self._add([rows.time, np.full(len(rows), marks, np.int64), *rows.columns()], last, marks)
        return late

    def _add(self, columns: list[Any], last: Any, marks: int) -> None:
        """More rows, each to the heap of the last window that it is in; which marks they may have."""
        if not len(last):
            return
        order = order_by([last])
        last = last[order]
        starts = np.flatnonzero(np.append(True, last[1:] != last[:-1]))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(last)], strict=True):
            heap, which = int(last[start]), order[start:stop]
            parts = self._heaps.setdefault(heap, [])
            parts.append(_Part([c[which] for c in columns], marks))
            while len(parts) > 1 and len(parts[-2]) < 2 * len(parts[-1]):
                parts[-2:] = [_one(parts[-2:])]
            for mark, heaps in self._marked.items():
                if marks & mark:
                    heaps.add(heap)

    def close(self, clock: int | None, tells: bool = False) -> Answers:
        """The answers of the windows that the clock closes, and of closed ones that have got rows since it moved; in
        ``so_far``, if they are due now, those of open ones that have got rows since the last ones."""
        before = LEAST if self._open is None else self._open
        opens = None if clock is None else max(self._first_open(clock), before)
        self.so_far = self._none()
        found = self._put_out(before, opens, tells)
        if opens is not None:
            self._open = opens
        for mark in (_NEW, _UNSHOWN) if tells else (_NEW,):
            self._unmark(mark)
        if clock is None:
            self._heaps, self._marked[_UNSHOWN] = {}, set()
        else:
            self._since = max(self._since, self._first_open(clock - self.allowed))
            for heap in [h for h in self._heaps if h < self._since]:
                del self._heaps[heap]
                self._marked[_UNSHOWN].discard(heap)
        return found

    def _put_out(self, before: int, opens: int | None, tells: bool) -> Answers:
        """Of windows from ``before`` to before ``opens`` (None: of all from there on) all answers; of windows before
        those, and if running answers are due, of windows from ``opens`` on, those with marked rows."""
        heaps = np.array(sorted(self._heaps), np.int64)
        closing = heaps >= before
        if opens is not None:
            closing &= heaps < opens + self._most - 1 if opens > before else False
        near = self._near(heaps, _NEW) & (heaps < before + self._most - 1)  # those of windows that were closed
        if tells:
            near |= self._near(heaps, _UNSHOWN)
        used = heaps[closing | near]
        if not len(used):
            return self._none()
        time, marks, *columns = self._of(used.tolist())
        rows = Rows.made(time, columns, len(self.kinds.key))
        keys = [numbers(t, c, self.texts) for t, c in zip(self.kinds.key, rows.key, strict=True)]
        order, new, times = by_key_and_time(keys, rows.time, self.kinds.value, rows.value, self.texts)
        first, last = self.spans.first(times), self.spans.last(times)
        np.maximum(first, self._since if near.any() else before, out=first)
        if opens is not None and not tells:
            np.minimum(last, max(opens - 1, LEAST), out=last)
        counts = {bit: np.append(0, np.cumsum(marks[order] & bit > 0)) for bit in (_NEW, _UNSHOWN)}

        def has(bit: int, at: Any, upto: Any) -> Any:
            return counts[bit][upto] > counts[bit][at]

        def complete(k: Any, at: Any, upto: Any) -> Any:
            chosen = (k >= before) | has(_NEW, at, upto)
            return chosen if opens is None else chosen & (k < opens)

        def running(k: Any, at: Any, upto: Any) -> Any:
            return (k >= opens) & has(_UNSHOWN, at, upto)

        answers = self._stretches(rows, order, new, first, last, complete)
        if tells and opens is not None:
            self.so_far = self._stretches(rows, order, new, first, last, running)
        return answers

    def _of(self, heaps: list[int]) -> list[Any]:
        """The rows of some heaps."""
        parts = [part for heap in heaps for part in self._heaps[heap]]
        return parts[0].columns if len(parts) == 1 else _one(parts).columns

    def _near(self, heaps: Any, mark: int) -> Any:
        """Which heaps have rows that may share a window with one that is marked so."""
        marked = np.array(sorted(self._marked[mark]), np.int64)
        if not len(marked):
            return np.zeros(len(heaps), np.bool_)
        at = np.searchsorted(marked, heaps - self._most + 1)
        found = marked[np.minimum(at, len(marked) - 1)] <= heaps + self._most - 1
        return found & (at < len(marked))

    def _unmark(self, mark: int) -> None:
        for heap in self._marked[mark]:
            for part in self._heaps[heap]:
                if part.marks & mark:
                    part.columns[1] = part.columns[1] & ~mark
                    part.marks &= ~mark
        self._marked[mark] = set()

    # ------------------------------------------------------------ what is saved

    def layout(self) -> list[list[Any]]:
        """The types of the columns that are saved, group by group."""
        return [[INT, INT, *self.kinds.key, *self.kinds.value]]

    def saved(self) -> tuple[dict[str, Any], list[list[Any]]]:
        """A few words, and columns."""
        if not self._heaps:
            none = self.kinds.none()
            return self._words(), [[none.time, none.time, *none.columns()]]
        return self._words(), [self._of(sorted(self._heaps))]

    def _words(self) -> dict[str, Any]:
        return {"open": self._open, "since": self._since}

    def load(self, words: dict[str, Any], groups: list[list[Any]]) -> None:
        """Go on from what was saved."""
        self._open, self._since = words["open"], int(words["since"])
        self._heaps, self._marked = {}, {_NEW: set(), _UNSHOWN: set()}
        marks = groups[0][1]
        for some in np.unique(marks).tolist():
            which = np.flatnonzero(marks == some)
            columns = [c[which] for c in groups[0]]
            self._add(columns, self.spans.last(columns[0]), int(some))


# ---------------------------------------------------------------- the steps


class Windows(Step):
    """What windows share."""

    op: Any  # FixedWindows, or Sessions

    def __init__(self, run: Run, stage: Timed) -> None:
        super().__init__(run, stage)
        assert self.node.sub is not None
        self.inner = Inner(self.node.sub, self.texts, run.mode)

    @property
    def why_plain(self) -> str | None:
        return self.inner.why_plain

    def put(self, flows: list[Flow]) -> Flow:
        (flow,) = flows
        wrong = self.first_wrong(flow) if len(flow) else None
        if wrong is not None:  # an event that is late may come before it
            some = flow.at(slice(0, wrong))
            self.note(self.too_late(some, self.op.take(some.rows(), before(self.now()))))
            assert self.clock is not None
            time = int(flow.time[wrong])
            raise no_such_time(self.node, self.event(flow, wrong), time, self.clock, self.push(flow, wrong))
        self.note(self.too_late(flow, self.op.take(flow.rows(), before(self.now()))))
        if not self.run.moving:
            return self.nothing()
        try:
            found = self.closed()
        except WindowFailed as failed:
            assert self.clock is not None
            push = self.run.push_of(2**62)
            raise sub_failed(self.node, self.clock, failed.start, failed.end, failed.error, push) from (
                failed.error.__cause__
            )
        return self.answers(found)

    def closed(self) -> Answers:
        """The answers that are complete; the running ones, if they are due now, go to the step `early`."""
        found: Answers = self.op.close(self.after(), self.tells())
        if self.op.so_far is not None:
            early = self.answers(self.op.so_far)
            self.run.early_now[self.stage.step] = Flow(early.stamp, None, early.key, early.value)
        return found

    def tells(self) -> bool:
        """Whether running answers are due now."""
        assert self.timing is not None
        if not self.run.early:
            return False
        clocks, stream = self.run.clocks, self.stage.inputs[0]
        return self.timing.tells(self.now(), clocks.after(stream, self.stage.step))

    @staticmethod
    def answers(found: Answers) -> Flow:
        """As they go on."""
        return moved(found.end - 1, found.key, [found.start, found.end, *found.value])

    def first_wrong(self, flow: Flow) -> int | None:
        """The first event whose window is not within the times that there are; None if all are."""
        raise NotImplementedError


class Fixed(Windows):
    """Tumbling and sliding windows."""

    op: FixedWindows

    def __init__(self, run: Run, stage: Timed) -> None:
        super().__init__(run, stage)
        t = self.timing
        assert t is not None and t.size is not None and t.every is not None
        if t.tz is None:
            spans = Spans(t.size, t.every, t.origin % t.every)  # the same windows, with small numbers
        else:
            tz = t.tz
            spans = Days(t.size // DAY, t.every // DAY, t.origin // DAY, lambda day: day_start(tz, day))
        more = self.inner, self.kinds(), self.texts
        held = t.allowed or t.early is not None
        self.op = HeldWindows(spans, *more, t.allowed, t.early is not None) if held else FixedWindows(spans, *more)

    def first_wrong(self, flow: Flow) -> int | None:
        t, (least, most) = self.timing, self.limits()
        assert t is not None and t.size is not None and t.every is not None
        reach = abs(t.origin) + 2 * t.size + 2 * t.every + (2 * DAY if t.tz is not None else 0)
        near = (flow.time < min(least + reach, MOST)) | (flow.time > max(most - reach, LEAST))
        for at in np.flatnonzero(near).tolist():  # hardly ever any
            try:
                windows = windows_of(t, int(flow.time[at]))
            except OverflowError:
                return int(at)
            if any(not least <= edge <= most for window in windows for edge in window):
                return int(at)
        return None
