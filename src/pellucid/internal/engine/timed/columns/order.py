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
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.internal.expr.types import BOOL, FLOAT, STR, Type

if TYPE_CHECKING:
    from pellucid.internal.engine.timed.columns.texts import Texts

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

    >>> from pellucid.internal.engine.timed.columns.texts import Texts
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
    from pellucid.internal.engine.timed.columns.radix import rising

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
    """Words of so many bits in order, and the row numbers beside them; nobody else may know the arrays.  ``last`` are
    those of the last column in them: rows come by time, more or less, so that sorted by all but the last column they
    are nearly in order."""
    from pellucid.internal.engine.timed.columns.radix import nearly, ranked, rising

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
