"""Which rows of a block of CSV may be bad: found by whole columns, so that only those are read one by one.

A row that is not named here is read by the fast parser; one that is may still be good (``+5``), and only the exact
reader, which is asked about it, says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pellucid.internal.data.blocks import RowsOf
from pellucid.internal.data.numbers import BLANKS, FALSE, FLOAT_CELL, TRUE
from pellucid.internal.data.spelled import inner_type
from pellucid.internal.expr.types import BOOL, FLOAT, INT, OptionalType, Type

_QUOTE, _NEWLINE, _RETURN = 34, 10, 13
_SHORT = r"[ \t]*[+-]?[0-9]{1,18}[ \t]*"  # fits in 64 bits
_SHORT_WHOLE = r"[ \t]*[+-]?[0-9]{1,15}\.0*[ \t]*"  # is below 2**53


def rows_in(data: bytes, delimiter: str, *, blank: bool) -> tuple[Any, Any]:
    """Of the rows of a block of strict CSV the lines on which they begin, and how many cells each has; with ``blank``
    an empty line is a row.

    >>> begins, cells = rows_in(b'1,2\\n\\n"a\\n,b",3,4\\n', ",", blank=False)
    >>> begins.tolist(), cells.tolist()
    ([0, 2], [2, 3])
    """
    raw = np.frombuffer(data, dtype=np.uint8)
    newlines, parts = np.flatnonzero(raw == _NEWLINE), np.flatnonzero(raw == ord(delimiter))
    ends = newlines
    if b'"' in data:
        quotes = np.flatnonzero(raw == _QUOTE)
        ends = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
        parts = parts[np.searchsorted(quotes, parts) % 2 == 0]
    stops = ends if data.endswith(b"\n") else np.append(ends, len(raw))
    begins = np.concatenate([[0], stops[:-1] + 1]).astype(np.int64)
    if not blank:
        length = stops - begins
        empty = (length == 0) | ((length == 1) & (raw[np.minimum(begins, len(raw) - 1)] == _RETURN))
        begins, stops = begins[~empty], stops[~empty]
    cells = np.searchsorted(parts, stops) - np.searchsorted(parts, begins) + 1
    return np.searchsorted(newlines, begins), cells


def suspects(
    rows: RowsOf, cells: Any, width: int, wanted: Mapping[str, Type], texts: Callable[[bytes], Mapping[str, Any]]
) -> Any:
    """A truth value for each row: whether it may be bad.  ``cells`` says how many each has; ``texts`` gives columns of
    some rows as texts, in which what is nothing is null."""
    wrong = cells != width
    rest = rows.without(wrong)
    if not rest:
        return wrong
    there = np.flatnonzero(~wrong)
    try:
        for name, column in texts(rest).items():
            fits = _fits(wanted[name], column)
            if len(fits) != len(there):
                return np.ones(len(wrong), dtype=bool)
            wrong[there[~fits]] = True
    except pa.ArrowInvalid:  # the fast parser does not say which row it is
        return np.ones(len(wrong), dtype=bool)
    return wrong


def numbers_in(wanted: Mapping[str, Type]) -> list[str]:
    """The columns in which not every text is a value."""
    return [name for name, t in wanted.items() if inner_type(t) in (INT, FLOAT, BOOL)]


def _fits(t: Type, column: Any) -> Any:
    """Which cells are surely what they should be."""
    if inner_type(t) == BOOL:
        found = pc.is_in(pc.ascii_trim(column, characters=BLANKS), value_set=pa.array([*TRUE, *FALSE]))
        found = pc.or_(found, pc.is_null(column))
    else:
        form = FLOAT_CELL if inner_type(t) == FLOAT else _SHORT
        if t == OptionalType(INT):
            form = f"{_SHORT}|{_SHORT_WHOLE}"
        found = pc.match_substring_regex(column, f"^(?:{form})$").fill_null(True)
    return np.asarray(found.combine_chunks().to_numpy(zero_copy_only=False), dtype=bool)
