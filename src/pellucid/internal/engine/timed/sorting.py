"""The one order of events: by leaves, nothing first, false before true, enums by place, texts by code points, floats by
value with NaN last.

An event's leaves become whole numbers whose order is that of the leaves; rows are sorted by such numbers.

>>> import numpy as np
>>> order_by([np.array([2, 1, 2]), np.array([5, 9, 4])]).tolist()
[1, 2, 0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from pellucid.internal.engine.timed.rows import kind_of
from pellucid.internal.expr.types import BOOL, FLOAT, STR, Type

if TYPE_CHECKING:
    from pellucid.internal.engine.timed.rows import Texts

MANY = 1 << 15  # rows: from here on, compiled loops pay, also if they are still to be read from disk
_SOME = 1 << 11  # and from here on, once they are
_DIGIT = 11  # bits that one pass sorts by
_SHIFTS = 8  # for each row, as long as moving rows to their neighbours is faster than sorting
_SIGN = np.int64(-(2**63))
_rows = 0  # that came in smaller parts


def many(n: int) -> bool:
    """Whether so many rows are worth compiled loops: reading those from disk takes as long as some parts of a stream
    do without them, so it is done when a large part comes, or many."""
    global _rows
    if n >= MANY or n < _SOME:
        return n >= MANY
    _rows += n
    return _rows >= 8 * MANY


def numbers(t: Type, column: Any, texts: Texts) -> Any:
    """A leaf's column as whole numbers in the order of its values; equal values have equal numbers.

    >>> from pellucid.internal.engine.timed.rows import Texts
    >>> numbers(FLOAT, np.array([np.nan, -0.0, 0.0, -1.5]), Texts()).argsort().tolist()
    [3, 1, 2, 0]
    """
    if t == FLOAT:
        bits = column.view(np.int64)
        out = np.where(bits < 0, ~bits ^ _SIGN, bits)
        out[np.isnan(column)] = 2**63 - 1
        return out
    if t == STR:
        return texts.ranks(column)
    return column.astype(np.int64) if t == BOOL else column


def order_by(columns: Sequence[Any]) -> Any:
    """The row numbers by these whole numbers, the first counting most; rows that are equal stay as they are."""
    return _sorted(columns)[0]


def _sorted(columns: Sequence[Any]) -> tuple[Any, Any]:
    """The row numbers in order; and the numbers themselves in order, packed into words, if they go into one."""
    n = len(columns[0])
    if not many(n):
        return (np.lexsort(columns[::-1]) if len(columns) > 1 else np.argsort(columns[0], kind="stable")), None
    from pellucid.internal.engine.timed.compiled import rising

    packed = _packed(columns)
    index: Any = None
    here: Any = None
    for word in reversed(packed):
        here = word.words if index is None else word.words[index]
        if rising(here):
            continue
        index = np.arange(n, dtype=np.uint32 if n < 2**32 else np.int64) if index is None else index
        here = here.copy() if here is word.words else here
        here, index = sorted_words(here, index, word.bits, word.last if word is packed[-1] else 0)
    order = np.arange(n) if index is None else index
    return order, here if len(packed) == 1 else None


def sorted_words(words: Any, index: Any, bits: int, last: int) -> tuple[Any, Any]:
    """Words of so many bits in order, and the row numbers beside them; no other code may keep the arrays.  ``last`` are
    those of the last column in them: rows come by time, more or less, so that sorted by all but the last column they
    are nearly in order."""
    from pellucid.internal.engine.timed.compiled import nearly, ranked, rising

    if rising(words):
        return words, index
    spare, other = np.empty_like(words), np.empty_like(index)
    if last:
        high = bits - last
        if high and ranked(words, index, spare, other, last, high, -(-high // _DIGIT)):
            words, index, spare, other = spare, other, words, index
        if nearly(words, index, _SHIFTS * len(words)):
            return words, index
    if ranked(words, index, spare, other, 0, bits, -(-bits // _DIGIT)):
        words, index = spare, other
    return words, index


def one_word(columns: Sequence[Any], n: int) -> tuple[Any, int] | None:
    """Several columns of numbers as one of words without sign, in the same order, and their bits; None if they do not
    go into one.

    >>> words, bits = one_word([np.array([7, 5]), np.array([0, 1])], 2)
    >>> words.tolist(), bits
    ([4, 1], 3)
    """
    if not columns:
        return np.zeros(n, np.uint64), 0
    packed = _packed(columns)
    return (packed[0].words, packed[0].bits) if len(packed) == 1 else None


@dataclass
class _Word:
    words: Any
    bits: int
    last: int  # bits of the last column in it


def _packed(columns: Sequence[Any]) -> list[_Word]:
    """Several columns in one word of 64 bits, as far as they go in."""
    out: list[_Word] = []
    for column in columns:
        least, most = int(column.min()), int(column.max())
        bits = (most - least).bit_length()
        if not bits and not (out == [] and column is columns[-1]):
            if out:
                out[-1].last = 0
            continue
        words = column.view(np.uint64) - np.uint64(least % 2**64)  # what wraps is right again as a number without sign
        if out and out[-1].bits + bits <= 64:
            before = out[-1]
            np.left_shift(before.words, np.uint64(bits), out=before.words)
            np.bitwise_or(before.words, words, out=before.words)
            out[-1] = _Word(before.words, before.bits + bits, bits)
        else:
            out.append(_Word(words, max(bits, 1), max(bits, 1)))
    return out


def changes(columns: Sequence[Any], n: int) -> Any:
    """Where a row differs from the one before it; the first row does."""
    out = np.zeros(n, dtype=bool)
    out[:1] = True
    for column in columns:
        np.logical_or(out[1:], column[1:] != column[:-1], out=out[1:])
    return out


def canonical(front: Sequence[Any], types: Sequence[Type], leaves: Sequence[Any], texts: Texts) -> Any:
    """The row numbers by some columns of numbers, and where these are equal by the leaves of the events."""
    n = len(front[0]) if front else len(leaves[0])
    if not n:
        return np.zeros(0, dtype=np.int64)
    if not front:
        return order_by([numbers(t, c, texts) for t, c in zip(types, leaves, strict=True)])
    order, words = _sorted(front)
    new = changes([words], n) if words is not None else changes([c[order] for c in front], n)
    return settled(order, new, types, leaves, texts)


def settled(order: Any, new: Any, types: Sequence[Type], leaves: Sequence[Any], texts: Texts) -> Any:
    """Rows that are equal so far (not ``new``) by their leaves."""
    if not leaves or new.all():
        return order
    # Only those are looked at more closely: they are few, as a rule.
    equal = ~new
    equal[:-1] |= ~new[1:]
    places = np.flatnonzero(equal)
    rows, run = order[places], np.cumsum(new[places])
    inner = order_by([run, *(numbers(t, c[rows], texts) for t, c in zip(types, leaves, strict=True))])
    order[places] = rows[inner]
    return order


def by_key_and_time(
    keys: Sequence[Any], time: Any, types: Sequence[Type], leaves: Sequence[Any], texts: Texts, which: Any = None
) -> tuple[Any, Any, Any]:
    """The row numbers by keys (numbers), time and event; where in that order a new key begins; and the times in that
    order.  With ``which``, keys and times are those of these rows of the leaves alone."""
    n = len(time)
    order, words = _sorted([*keys, time])
    if words is None:
        times, new_key = time[order], changes([c[order] for c in keys], n)
        new = new_key | changes([times], n)
    else:
        least = int(time.min())
        bits = np.uint64((int(time.max()) - least).bit_length())
        times = (words & ((np.uint64(1) << bits) - np.uint64(1)) if bits < 64 else words).view(np.int64) + least
        new, new_key = changes([words], n), changes([words >> bits], n) if bits < 64 else changes([], n)
    order = order if which is None else which[order]
    return settled(order, new, types, leaves, texts), new_key, times


def by_number_and_time(number: Any, time: Any) -> tuple[Any, Any, Any]:
    """The row numbers by a number and the time, and both of them in that order.

    >>> [c.tolist() for c in by_number_and_time(np.array([1, 0, 1]), np.array([9, 5, 7]))]
    [[1, 2, 0], [0, 1, 1], [5, 7, 9]]
    """
    order, words = _sorted([number, time])
    bits = (int(time.max()) - int(time.min())).bit_length()
    if words is None or bits > 63:
        return order, number[order], time[order]
    low = np.uint64(bits)
    times = (words & ((np.uint64(1) << low) - np.uint64(1))).view(np.int64) + int(time.min())
    return order, (words >> low).view(np.int64) + int(number.min()), times


# Keys as small whole numbers, so that what is kept for each is a row of an array.

_SOME_KEYS = 1 << 12
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
        if self._table is None and len(self._direct) <= most < max(_SOME_KEYS, 4 * (len(values) + self.count)):
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
            from pellucid.internal.engine.timed.compiled import numbered

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
        from pellucid.internal.engine.timed.compiled import hashed

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
        """Forget all others; those that stay get new numbers, in the same order."""
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


# Rows that are called by their numbers, and found by key and time: which are in an interval, which is the last not
# after a time.
#
# They lie in a few sorted runs, each at least twice as long as the next, so that a row costs a logarithm.  In a run,
# key and time are one number, with the time counted from the least one there; where that would not fit in 64 bits,
# the place of the time among all times of the run stands for it.

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
        self._new: list[tuple[Any, Any, Any]] = []  # not sorted before they are searched: most are given up before that

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
