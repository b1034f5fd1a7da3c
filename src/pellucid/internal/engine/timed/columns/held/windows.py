"""Tumbling and sliding windows whose answers can be corrected, or are told before they are complete.

Rows lie by the last window that they are in: a window's own are those of a few neighbouring heaps.  A row stays until
its last window takes no more rows.  Which windows have got rows since the clock moved last (those that were closed are
put out again), and since running answers were told, is marked at the rows.

Nothing is noted of which windows a row counts in: those that were not given up when it came, and of these are all for
which an answer can still come.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.internal.engine.timed.columns.inner import Inner
from pellucid.internal.engine.timed.columns.order import by_key_and_time, numbers, order_by
from pellucid.internal.engine.timed.columns.rows import LEAST, Kinds, Rows
from pellucid.internal.engine.timed.columns.spans import Spans
from pellucid.internal.engine.timed.columns.texts import Texts
from pellucid.internal.engine.timed.columns.windows import Answers, FixedWindows, LateRows
from pellucid.internal.expr.types import INT

_NEW, _UNTOLD = 1, 2  # since the clock moved last; since running answers were told


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
        self._marked: dict[int, set[int]] = {_NEW: set(), _UNTOLD: set()}  # heaps with such marks
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
        marks = _NEW | _UNTOLD if self._early else _NEW
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
        ``so_far``, if they are told now, those of open ones that have got rows since they were told."""
        before = LEAST if self._open is None else self._open
        opens = None if clock is None else max(self._first_open(clock), before)
        self.so_far = self._none()
        found = self._put_out(before, opens, tells)
        if opens is not None:
            self._open = opens
        for mark in (_NEW, _UNTOLD) if tells else (_NEW,):
            self._unmark(mark)
        if clock is None:
            self._heaps, self._marked[_UNTOLD] = {}, set()
        else:
            self._since = max(self._since, self._first_open(clock - self.allowed))
            for heap in [h for h in self._heaps if h < self._since]:
                del self._heaps[heap]
                self._marked[_UNTOLD].discard(heap)
        return found

    def _put_out(self, before: int, opens: int | None, tells: bool) -> Answers:
        """Of windows from ``before`` to before ``opens`` (None: of all from there on) all answers; of windows before
        those, and if they are told, of windows from ``opens`` on, those with marked rows."""
        heaps = np.array(sorted(self._heaps), np.int64)
        closing = heaps >= before
        if opens is not None:
            closing &= heaps < opens + self._most - 1 if opens > before else False
        near = self._near(heaps, _NEW) & (heaps < before + self._most - 1)  # those of windows that were closed
        if tells:
            near |= self._near(heaps, _UNTOLD)
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
        counts = {bit: np.append(0, np.cumsum(marks[order] & bit > 0)) for bit in (_NEW, _UNTOLD)}

        def has(bit: int, at: Any, upto: Any) -> Any:
            return counts[bit][upto] > counts[bit][at]

        def complete(k: Any, at: Any, upto: Any) -> Any:
            chosen = (k >= before) | has(_NEW, at, upto)
            return chosen if opens is None else chosen & (k < opens)

        def running(k: Any, at: Any, upto: Any) -> Any:
            return (k >= opens) & has(_UNTOLD, at, upto)

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
        self._heaps, self._marked = {}, {_NEW: set(), _UNTOLD: set()}
        marks = groups[0][1]
        for some in np.unique(marks).tolist():
            which = np.flatnonzero(marks == some)
            columns = [c[which] for c in groups[0]]
            self._add(columns, self.spans.last(columns[0]), int(some))
