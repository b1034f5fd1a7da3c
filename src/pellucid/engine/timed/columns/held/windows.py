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

from pellucid.engine.timed.columns.inner import Inner
from pellucid.engine.timed.columns.order import by_key_and_time, numbers, order_by
from pellucid.engine.timed.columns.rows import LEAST, Kinds, Rows
from pellucid.engine.timed.columns.spans import Spans
from pellucid.engine.timed.columns.texts import Texts
from pellucid.engine.timed.columns.windows import Answers, FixedWindows, LateRows
from pellucid.expr.types import INT

_NEW, _UNTOLD = 1, 2  # since the clock moved last; since running answers were told


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
        self._heaps: dict[int, list[list[Any]]] = {}  # parts of columns: time, marks, key, value
        self._marked: set[int] = set()  # heaps with marks
        self._since = LEAST  # the first window that takes rows
        self.so_far = self._none()

    def __len__(self) -> int:
        return sum(len(part[0]) for parts in self._heaps.values() for part in parts)

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
        marks = np.full(len(rows), _NEW | _UNTOLD if self._early else _NEW, np.int64)
        self._add([rows.time, marks, *rows.columns()], last)
        return late

    def _add(self, columns: list[Any], last: Any) -> None:
        """More rows, each to the heap of the last window that it is in."""
        if not len(last):
            return
        order = order_by([last])
        last = last[order]
        starts = np.flatnonzero(np.append(True, last[1:] != last[:-1]))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(last)], strict=True):
            heap, which = int(last[start]), order[start:stop]
            self._heaps.setdefault(heap, []).append([c[which] for c in columns])
            self._marked.add(heap)

    def close(self, clock: int | None, tells: bool = False) -> Answers:
        """The answers of the windows that the clock closes, and of closed ones that have got rows since it moved; in
        ``so_far``, if they are told now, those of open ones that have got rows since they were told."""
        before = LEAST if self._open is None else self._open
        opens = None if clock is None else max(self._first_open(clock), before)
        self.so_far = self._none()
        found = self._put_out(before, opens, tells)
        if opens is not None:
            self._open = opens
        self._unmark(_NEW | _UNTOLD if tells or not self._early else _NEW)
        if clock is None:
            self._heaps, self._marked = {}, set()
        else:
            self._since = max(self._since, self._first_open(clock - self.allowed))
            for heap in [h for h in self._heaps if h < self._since]:
                del self._heaps[heap]
                self._marked.discard(heap)
        return found

    def _put_out(self, before: int, opens: int | None, tells: bool) -> Answers:
        """Of windows from ``before`` to before ``opens`` (None: of all from there on) all answers; of windows before
        those, and if they are told, of windows from ``opens`` on, those with marked rows."""
        heaps = np.array(sorted(self._heaps), np.int64)
        closing = heaps >= before
        if opens is not None:
            closing &= heaps < opens + self._most - 1 if opens > before else False
        marked = np.array(sorted(self._marked), np.int64)
        near = np.zeros(len(heaps), np.bool_)
        if len(marked):
            at = np.searchsorted(marked, heaps - self._most + 1)
            near = marked[np.minimum(at, len(marked) - 1)] <= heaps + self._most - 1
            near &= at < len(marked)
            if not tells:  # only those of closed windows matter
                near &= heaps < before + self._most - 1
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
            np.minimum(last, opens - 1, out=last)
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
        parts = []
        for heap in heaps:
            if len(self._heaps[heap]) > 1:
                self._heaps[heap] = [[np.concatenate(c) for c in zip(*self._heaps[heap], strict=True)]]
            parts += self._heaps[heap]
        return parts[0] if len(parts) == 1 else [np.concatenate(c) for c in zip(*parts, strict=True)]

    def _unmark(self, marks: int) -> None:
        still = set()
        for heap in self._marked:
            for part in self._heaps[heap]:
                part[1] = part[1] & ~marks
                if part[1].any():
                    still.add(heap)
        self._marked = still

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
        self._heaps, self._marked = {}, set()
        self._add(groups[0], self.spans.last(groups[0][0]))
        self._unmark(0)
