"""The one order of events: by leaves, nothing first, false before true, enums by place, texts by code points, floats by
value with NaN last.

An event's leaves become whole numbers whose order is that of the leaves; rows are sorted by such numbers.

>>> import numpy as np
>>> order_by([np.array([2, 1, 2]), np.array([5, 9, 4])]).tolist()
[1, 2, 0]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.expr.types import BOOL, FLOAT, STR, Type

if TYPE_CHECKING:
    from pellucid.engine.timed.columns.texts import Texts

MANY = 1 << 15  # rows: from here on, compiled loops pay
_DIGIT = 11  # bits that one pass sorts by
_SIGN = np.int64(-(2**63))


def numbers(t: Type, column: Any, texts: Texts) -> Any:
    """A leaf's column as whole numbers in the order of its values; equal values have equal numbers.

    >>> from pellucid.engine.timed.columns.texts import Texts
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
    n = len(columns[0])
    if n < MANY:
        return np.lexsort(columns[::-1]) if len(columns) > 1 else np.argsort(columns[0], kind="stable")
    from pellucid.engine.timed.columns.radix import ranked, rising

    index: Any = None
    for words, bits in reversed(_packed(columns)):
        here = words if index is None else words[index]
        if rising(here):
            continue
        index = np.arange(n, dtype=np.uint32 if n < 2**32 else np.int64) if index is None else index
        here = here.copy() if here is words else here
        spare, other = np.empty_like(here), np.empty_like(index)
        swapped = ranked(here, index, spare, other, bits, -(-bits // _DIGIT))
        index = other if swapped else index
    return np.arange(n) if index is None else index


def _packed(columns: Sequence[Any]) -> list[tuple[Any, int]]:
    """Several columns in one word of 64 bits, as far as they go in; with how many bits are used."""
    out: list[tuple[Any, int]] = []
    for column in columns:
        least, most = int(column.min()), int(column.max())
        bits = (most - least).bit_length()
        if not bits:
            continue
        words = (column - np.int64(least)).view(np.uint64)  # a difference of 64 bits wraps to what it is, unsigned
        if out and out[-1][1] + bits <= 64:
            before, used = out[-1]
            out[-1] = (before << np.uint64(bits)) | words, used + bits
        else:
            out.append((words, bits))
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
    order = order_by(front)
    new = changes([c[order] for c in front], n)
    if new.all():
        return order
    # Only rows that are equal so far are looked at more closely: they are few, as a rule.
    run = np.cumsum(new)
    equal = ~new
    equal[:-1] |= ~new[1:]
    rows = order[equal]
    inner = order_by([run[equal], *(numbers(t, c[rows], texts) for t, c in zip(types, leaves, strict=True))])
    order = order.copy()
    order[equal] = rows[inner]
    return order
