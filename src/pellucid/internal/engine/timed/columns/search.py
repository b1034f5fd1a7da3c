"""Rows that are called by their numbers, and found by key and time: which are in an interval, which is the last not
after a time.

They lie in a few sorted runs, each at least twice as long as the next, so that a row costs a logarithm.  In a run, key
and time are one number, with the time counted from the least one there; where that would not fit in 64 bits, the place
of the time among all times of the run stands for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from pellucid.internal.engine.timed.columns.keys import longer
from pellucid.internal.engine.timed.columns.order import order_by

_FAR = 1 << 62
Side: TypeAlias = Literal["left", "right"]


class _Run:
    __slots__ = ("base", "bits", "codes", "key", "keys", "most", "row", "time", "times")

    def __init__(self, key: Any, time: Any, row: Any) -> None:
        """Rows by key and time."""
        self.key, self.time, self.row = key, time, row
        self.keys, self.base, self.most = int(key[-1]), int(time.min()), int(time.max())
        self.times: Any = None
        self.bits = (self.most - self.base + 1).bit_length()
        if self.bits + self.keys.bit_length() > 62 or not -_FAR < self.base <= self.most < _FAR:
            self.times = np.unique(time)
            self.bits = len(self.times).bit_length()
        self.codes = (key << self.bits) + self._place(time, "left")

    def _place(self, time: Any, side: Side) -> Any:
        """How many units, or times of the run, are before these times; with ``right`` those equal to them count."""
        if self.times is not None:
            return np.searchsorted(self.times, time, side=side)
        return np.clip(time, self.base - (side == "right"), self.most + (side == "left")) - (
            self.base - (side == "right")
        )

    def search(self, key: Any, time: Any, side: Side) -> Any:
        """Where rows of these keys and times would go in; of equal ones before (``left``) or behind them."""
        return np.searchsorted(self.codes, (key << self.bits) + self._place(time, side), side="left")


class Index:
    """Row numbers by key (a number from 0 on) and time.

    >>> index = Index()
    >>> index.add(np.array([1, 0, 1]), np.array([5, 5, 9]), np.array([0, 1, 2]))
    >>> probe, row = index.between(np.array([1, 0]), np.array([5, 6]), np.array([9, 9]))
    >>> probe.tolist(), row.tolist()
    ([0, 0], [0, 2])
    >>> index.last(np.array([1, 1, 0]), np.array([8, 4, 5])).tolist()
    [0, -1, 1]
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._new: list[tuple[Any, Any, Any]] = []  # not sorted before somebody asks: most are given up before that

    def __len__(self) -> int:
        return sum(len(run.row) for run in self._runs) + sum(len(row) for _, _, row in self._new)

    def add(self, key: Any, time: Any, row: Any) -> None:
        """More rows."""
        if len(row):
            self._new.append((key, time, row))

    def _settle(self) -> None:
        """The rows that are new into the runs."""
        if not self._new:
            return
        key, time, row = (np.concatenate(c) if len(self._new) > 1 else c[0] for c in zip(*self._new, strict=True))
        self._new = []
        order = order_by([key, time])
        parts = [(key[order], time[order], row[order])]
        size = len(row)
        while self._runs and len(self._runs[-1].row) < 2 * size:
            run = self._runs.pop()
            parts.append((run.key, run.time, run.row))
            size += len(run.row)
        if len(parts) > 1:
            key, time, row = (np.concatenate(c) for c in zip(*reversed(parts), strict=True))
            order = order_by([key, time])
            parts = [(key[order], time[order], row[order])]
        self._runs.append(_Run(*parts[0]))

    def between(self, key: Any, low: Any, high: Any) -> tuple[Any, Any]:
        """For each key and interval, both ends in it, the rows there: pairs (number of the interval, row)."""
        self._settle()
        probes, rows = [], []
        for run in self._runs:
            asked, keys, lows, highs = np.arange(len(key)), key, low, high
            if len(key) and (int(key.min()) < 0 or int(key.max()) > run.keys):
                asked = np.flatnonzero((key >= 0) & (key <= run.keys))
                keys, lows, highs = key[asked], low[asked], high[asked]
            start, stop = run.search(keys, lows, "left"), run.search(keys, highs, "right")
            count = np.maximum(stop - start, 0)
            total = int(count.sum())
            if total:
                probes.append(np.repeat(asked, count))
                rows.append(run.row[np.repeat(start - (np.cumsum(count) - count), count) + np.arange(total)])
        if not probes:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate(probes), np.concatenate(rows)

    def last(self, key: Any, time: Any) -> Any:
        """For each key and time the row of that key that is the last not after it, -1 if there is none."""
        self._settle()
        best, since = np.full(len(key), -1), np.full(len(key), -(2**63))
        for run in self._runs:
            asked = np.flatnonzero((key >= 0) & (key <= run.keys))
            at = run.search(key[asked], time[asked], "right") - 1
            there = at >= 0
            asked, at = asked[there], at[there]
            same = run.key[at] == key[asked]
            asked, at = asked[same], at[same]
            newer = (best[asked] < 0) | (run.time[at] >= since[asked])
            asked, at = asked[newer], at[newer]
            best[asked], since[asked] = run.row[at], run.time[at]
        return best


class Pool:
    """Columns that grow; a row's number is its place.

    >>> pool = Pool([np.int64])
    >>> pool.add([np.array([7, 8])]).tolist(), pool.add([np.array([9])]).tolist(), pool.at(np.array([2, 0]))[0].tolist()
    ([0, 1], [2], [9, 7])
    """

    def __init__(self, kinds: Sequence[Any]) -> None:
        self._kinds = list(kinds)
        self.clear()

    def clear(self) -> None:
        """No rows."""
        self._columns = [np.zeros(0, kind) for kind in self._kinds]
        self.size = 0

    def add(self, columns: Sequence[Any]) -> Any:
        """More rows; their numbers."""
        n = len(columns[0])
        for j, column in enumerate(columns):
            if not self.size:
                self._columns[j] = column  # as it is, until more come
                continue
            if len(self._columns[j]) < self.size + n:
                self._columns[j] = longer(self._columns[j], self.size + n)
            self._columns[j][self.size : self.size + n] = column
        self.size += n
        return np.arange(self.size - n, self.size)

    def at(self, rows: Any) -> list[Any]:
        """The columns of these rows."""
        return [c[rows] for c in self._columns]

    def all(self) -> list[Any]:
        """All of them."""
        return [c[: self.size] for c in self._columns]
