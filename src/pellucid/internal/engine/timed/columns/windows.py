"""Tumbling and sliding windows over columns.

A row waits by its time: that says which of its windows closes first.  When windows close, their rows are sorted by key
and time: then each window of a key is a stretch of rows, and the sub-pipeline runs over all stretches at once.

A row that is in a window which is still open goes on waiting.  Nothing is noted of which windows a row counts in: those
of its windows that are open when it comes, and these are just those that no clock has closed before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.errors import StepError
from pellucid.internal.engine.timed.columns.inner import Failed, Inner
from pellucid.internal.engine.timed.columns.order import (
    by_key_and_time,
    changes,
    many,
    numbers,
    one_word,
    order_by,
    settled,
    sorted_words,
)
from pellucid.internal.engine.timed.columns.rows import LEAST, Kinds, Rows
from pellucid.internal.engine.timed.columns.spans import Spans
from pellucid.internal.engine.timed.columns.texts import Texts
from pellucid.internal.engine.timed.columns.waiting import Waiting
from pellucid.internal.expr.types import INT

_SLICE = 1 << 17  # rows that are sorted and run at once


@dataclass
class LateRows:
    """Rows that came too late, in the order in which they came: which of the batch, and what they missed."""

    which: Any  # row numbers
    start: Any = None  # of the windows that they missed
    end: Any = None

    def __len__(self) -> int:
        return len(self.which)


@dataclass
class Answers:
    """What windows put out: their keys, starts, ends and the leaves of the values; by time, then by key."""

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

    def close(self, clock: int | None) -> Answers:
        """The answers of the windows that the clock closes."""
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
        from pellucid.internal.engine.timed.columns.radix import sliced

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
        from pellucid.internal.engine.timed.columns.radix import cut, packed

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
