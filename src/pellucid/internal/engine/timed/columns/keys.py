"""Keys as small whole numbers, so that what is kept for each is a row of an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid.internal.engine.timed.columns.order import many
from pellucid.internal.engine.timed.columns.rows import kind_of
from pellucid.internal.expr.types import Type

_SOME = 1 << 12
_HALF = 31  # bits of the number of a part


class Numbers:
    """The places of whole numbers, in the order in which they first came.

    Numbers from 0 on, as far as it is worth while, are places of an array; the others are in a dictionary, or, once
    many rows came at a time, in a table by their hash, which compiled code looks at.

    >>> numbers = Numbers()
    >>> numbers.places(np.array([7, 10**15, 7]), True).tolist(), numbers.places(np.array([8, 7]), False).tolist()
    ([0, 1, 0], [-1, 0])
    """

    def __init__(self) -> None:
        self.count = 0
        self._direct = np.full(0, -1, dtype=np.int64)  # of those from 0 on, as far as it goes
        self._others: dict[int, int] = {}
        self._table: _Table | None = None  # instead of the dictionary

    def places(self, values: Any, add: bool) -> Any:
        """The place of each, -1 where it is not known and not to be added."""
        if not len(values):
            return np.zeros(0, np.int64)
        least, most = int(values.min()), int(values.max())
        if self._table is None and len(self._direct) <= most < max(_SOME, 4 * (len(values) + self.count)):
            self._widen(1 << most.bit_length())
        if least >= 0 and most < len(self._direct):
            return self._directly(values, add)
        if self._table is None and many(len(values)):
            self._table = _Table()
            known = np.flatnonzero(self._direct >= 0)
            self._table.fill(known, self._direct[known])
            self._table.fill(np.array([*self._others], np.int64), np.array([*self._others.values()], np.int64))
            self._direct, self._others = self._direct[:0], {}
        if self._table is not None:
            out, self.count = self._table.places(values, self.count, add)
            return out
        used, first, inverse = np.unique(values, return_index=True, return_inverse=True)
        found = np.empty(len(used), np.int64)
        for at in np.argsort(first).tolist():
            found[at] = self._place(int(used[at]), add)
        return found[inverse]

    def _directly(self, values: Any, add: bool) -> Any:
        if many(len(values)):
            from pellucid.internal.engine.timed.columns.radix import numbered

            out = np.empty(len(values), np.int64)
            self.count = int(numbered(values, self._direct, self.count, add, out))
            return out
        out = self._direct[values]
        if add and out.min() < 0:
            new = values[out < 0]
            new = new[np.sort(np.unique(new, return_index=True)[1])]
            self._direct[new] = np.arange(self.count, self.count + len(new))
            self.count += len(new)
            out = self._direct[values]
        return out

    def _widen(self, size: int) -> None:
        wider = np.full(size, -1, dtype=np.int64)
        wider[: len(self._direct)] = self._direct
        self._direct = wider
        for value in [v for v in self._others if 0 <= v < size]:
            wider[value] = self._others.pop(value)

    def _place(self, value: int, add: bool) -> int:
        if 0 <= value < len(self._direct):
            place = int(self._direct[value])
        else:
            place = self._others.get(value, -1)
        if place < 0 and add:
            place = self.count
            self.count += 1
            if 0 <= value < len(self._direct):
                self._direct[value] = place
            else:
                self._others[value] = place
        return place


class _Table:
    """Places of numbers by their hash: at most half of it is used, so that the next free slot is near."""

    def __init__(self, bits: int = 13) -> None:
        self._bits = bits
        self._keys, self._places = np.zeros(1 << bits, np.int64), np.full(1 << bits, -1, np.int64)

    def fill(self, values: Any, places: Any) -> None:
        """Numbers that have places already, each once."""
        used = self._places >= 0
        values, places = np.append(self._keys[used], values), np.append(self._places[used], places)
        table = _Table(max(self._bits, (4 * len(values)).bit_length()))
        slots = np.empty(len(values), np.int64)
        table.places(values, 0, True, slots)  # in some order: then each gets its own place
        there = table._places >= 0
        table._places[there] = places[table._places[there]]
        self._bits, self._keys, self._places = table._bits, table._keys, table._places

    def places(self, values: Any, count: int, add: bool, out: Any = None) -> tuple[Any, int]:
        """The place of each, and how many numbers there are then."""
        from pellucid.internal.engine.timed.columns.radix import hashed

        out = np.empty(len(values), np.int64) if out is None else out
        at, count = 0, int(count)
        while at < len(values):
            most = len(self._keys) // 2
            if count >= most and add:
                self.fill(values[:0], values[:0])  # twice as wide
                continue
            at, count = hashed(values, at, self._keys, self._places, 64 - self._bits, count, most, add, out)
        return out, count


class Keys:
    """Keys of one or more leaves, each with a number; where there is no key, everything is number 0.

    >>> from pellucid.internal.expr.types import INT
    >>> keys = Keys((INT, INT))
    >>> keys.of([np.array([1, 2, 1]), np.array([5, 5, 5])], 3).tolist(), [c.tolist() for c in keys.columns()]
    ([0, 1, 0], [[1, 2], [5, 5]])
    """

    def __init__(self, types: Sequence[Type]) -> None:
        self.types = tuple(types)
        self._start()

    def _start(self) -> None:
        self._parts = [Numbers() for _ in self.types]
        self._pairs = [Numbers() for _ in self.types[1:]]
        self._columns = [np.zeros(16, kind_of(t)) for t in self.types]
        self.count = 0 if self.types else 1

    def of(self, columns: Sequence[Any], n: int, add: bool = True) -> Any:
        """The number of each key; -1 for one that is new, if it is not to be added."""
        if not self.types:
            return np.zeros(n, np.int64)
        place = self._parts[0].places(_whole(columns[0]), add)
        for column, part, pairs in zip(columns[1:], self._parts[1:], self._pairs, strict=True):
            other = part.places(_whole(column), add)
            both = np.where((place < 0) | (other < 0), -1, place << _HALF | other)
            place = pairs.places(both, add)
        last = (self._pairs or self._parts)[-1]
        if last.count > self.count:
            self._note(columns, place, last.count)
        return place

    def _note(self, columns: Sequence[Any], place: Any, count: int) -> None:
        rows = np.flatnonzero(place >= self.count)
        for j, column in enumerate(columns):
            if len(self._columns[j]) < count:
                wider = np.zeros(2 * count, self._columns[j].dtype)
                wider[: self.count] = self._columns[j][: self.count]
                self._columns[j] = wider
            self._columns[j][place[rows]] = column[rows]
        self.count = count

    def columns(self) -> list[Any]:
        """The leaves of the keys, by their numbers."""
        return [c[: self.count] for c in self._columns]

    def keep(self, alive: Any) -> None:
        """Forget all others; those that stay are numbered anew, in the same order."""
        columns = [c[alive] for c in self.columns()]
        self._start()
        if self.types:
            self.of(columns, len(alive))


def _whole(column: Any) -> Any:
    return column.astype(np.int64) if column.dtype == np.bool_ else column


def longer(array: Any, size: int) -> Any:
    """An array with room for so many, zero where it is new."""
    if len(array) >= size:
        return array
    out = np.zeros(max(size, 2 * len(array), 16), array.dtype)
    out[: len(array)] = array
    return out
