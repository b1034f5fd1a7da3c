"""Rows that are called by their numbers, as long as they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid.engine.timed.columns.keys import longer


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
