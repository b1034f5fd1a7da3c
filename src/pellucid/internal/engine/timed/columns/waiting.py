"""Rows that wait for the clock.

Each row has a time at which it is due.  Rows come in any order, and those go that are due by now.  They lie in a few
runs, each at least twice as long as the next; a run is sorted when a small part of it is taken for the first time.  So
a row costs a logarithm, however many wait and however little comes or goes at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid.internal.engine.timed.columns.rows import picked


class _Run:
    """Columns, the first being what is due; from ``start`` on they wait still."""

    __slots__ = ("columns", "least", "most", "rising", "start")

    def __init__(self, columns: list[Any], rising: bool = False) -> None:
        self.columns, self.start, self.rising = columns, 0, rising
        self.least, self.most = int(columns[0].min()), int(columns[0].max())

    def __len__(self) -> int:
        return len(self.columns[0]) - self.start

    def left(self) -> list[Any]:
        return [c[self.start :] for c in self.columns] if self.start else self.columns

    def taken(self, limit: int, whole: bool) -> list[Any]:
        """What is due up to a limit, of a run that has more; it is gone then.  ``whole``: rows that are not due may be
        among what is given, too."""
        if not self.rising:
            later = np.flatnonzero(self.columns[0] > limit)
            if 2 * len(later) < len(self.columns[0]):  # what is left is less than half: no need to sort it now
                out = self.columns if whole else picked(self.columns, np.flatnonzero(self.columns[0] <= limit))
                self.columns = picked(self.columns, later)
                self.least = int(self.columns[0].min())
                return out
            order = np.argsort(self.columns[0], kind="stable")
            self.columns, self.rising = picked(self.columns, order), True  # nothing was taken of it yet
        stop = int(np.searchsorted(self.columns[0], limit, side="right"))
        out = [c[self.start : stop] for c in self.columns]
        self.start = stop
        self.least = int(self.columns[0][stop])
        if stop * 2 > len(self.columns[0]):  # give the memory back
            self.columns, self.start = [c[stop:].copy() for c in self.columns], 0
        return out


class Waiting:
    """Rows by what is due.

    >>> waiting = Waiting([np.int64])
    >>> waiting.add(np.array([5, 1, 3]), [np.array([50, 10, 30])])
    >>> [c.tolist() for c in waiting.take(3)], len(waiting)
    ([[1, 3], [10, 30]], 1)
    >>> [c.tolist() for c in waiting.take(None)]
    [[5], [50]]
    """

    def __init__(self, kinds: Sequence[Any]) -> None:
        self.kinds = [np.dtype(np.int64), *map(np.dtype, kinds)]
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @property
    def least(self) -> int | None:
        """When the first of them is due."""
        return min((run.least for run in self._runs), default=None)

    def add(self, due: Any, columns: Sequence[Any]) -> None:
        """More rows."""
        if not len(due):
            return
        self._runs.append(_Run([due, *columns]))
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            self._merge()

    def _merge(self) -> None:
        last, before = self._runs.pop(), self._runs.pop()
        # Sorted at the next take only: until then, runs are merged by putting one behind the other.
        self._runs.append(_Run([np.concatenate(pair) for pair in zip(before.left(), last.left(), strict=True)]))

    def take(self, limit: int | None, *, whole: bool = False) -> list[Any]:
        """The columns of all rows that are due at ``limit`` or before it (None: of all), the first being what is due;
        they are gone then.  With ``whole`` others may be among them, which wait on: it saves a copy."""
        found: list[list[Any]] = []
        kept: list[_Run] = []
        for run in self._runs:
            if limit is None or run.most <= limit:
                found.append(run.left())
                continue
            if run.least <= limit:
                found.append(run.taken(limit, whole))
            kept.append(run)
        self._runs = kept
        return self._joined(found)

    def _joined(self, parts: list[list[Any]]) -> list[Any]:
        if len(parts) == 1:
            return parts[0]
        return [
            np.concatenate([p[j] for p in parts]) if parts else np.zeros(0, kind) for j, kind in enumerate(self.kinds)
        ]

    def columns(self) -> list[Any]:
        """All that waits; nothing goes."""
        return self._joined([run.left() for run in self._runs])

    def put(self, columns: Sequence[Any]) -> None:
        """Exactly these rows wait."""
        self._runs = [_Run(list(columns))] if len(columns[0]) else []
