"""Columns that meet: an event has a field of the name of a column of the key.

A table has a column of one name once.  Where the two hold the same, it stands once; where they differ, one of them
would be lost, so that is refused: before anything is written where the types tell, else at the first row that differs.
Every way to run a pipeline asks here, and says it in the same words.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError, UsageError
from pellucid.internal.data.arrow import column_leaves, numpy_of
from pellucid.internal.data.bind import Place, parted, shorten
from pellucid.internal.data.columns import Column, Output, Strings, events_of, values_of
from pellucid.internal.data.formats.fields import own_paths
from pellucid.internal.data.formats.outputs import arrow_type, key_array
from pellucid.internal.data.spelled import inner_type
from pellucid.internal.expr.types import FLOAT, STR, OptionalType, RecordType, TupleType, Type

Where: TypeAlias = "Callable[[int], str]"  # names the row whose push put the i-th event out

_NO_FORMATS: Mapping[str, str] = MappingProxyType({})
_AT_ONCE = 1 << 16  # rows that are looked at together: the first that differs ends it
_LOST = "one of them would be lost; rename the field, or that column before"


def refuse_types(what: str, output: str, t: Type, columns: Mapping[str, Any]) -> None:
    """Refuse the columns (of the key or the order: ``what``) of which an output has a field of a type that cannot hold
    the same; ``columns`` are their Arrow types.

    >>> from pellucid.internal.expr.types import INT, STR
    >>> refuse_types("key", "pair", TupleType((INT, STR)), {"user": pa.string(), "pair_1": pa.string()})
    >>> refuse_types("key", "pair", TupleType((INT, STR)), {"pair_0": pa.string()})
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: the output 'pair' has a field 'pair_0' of type int, and the key column of this name
    holds string: one of them would be lost; rename the field, or that column before
    """
    own = own_paths(t, output)
    for column, found in columns.items():
        if column in own and not _can_be(own[column][0], found):
            raise UsageError(_other_type(what, output, column, own[column][0], found))


def refuse_other_keys(
    output: Output, key: Sequence[str], where: Where | None = None, formats: Mapping[str, str] = _NO_FORMATS
) -> None:
    """Refuse an event with a field of the name of a column of its key, and another value."""
    own = own_paths(output.type, output.name)
    if not any(name in own for name in key):
        return
    kinds = [kind for _, kind in output.key_type.columns()] if output.key_type is not None else []
    if output.keys is None or len(kinds) != len(key):
        if not len(output):
            return
        raise DataError(f"the output {output.name!r} has no key of {len(key)} column(s): {', '.join(key)}")
    refuse_types("key", output.name, output.type, dict(zip(key, map(arrow_type, kinds), strict=True)))
    for name, kind, leaves in zip(key, kinds, parted(kinds, output.keys), strict=True):
        if name not in own:
            continue
        t, at = own[name]
        mine = output.columns[at : at + t.width]
        if t == kind and all(map(_same, mine, leaves)):
            continue
        _refuse("key", output.name, name, t, mine, key_array(kind, leaves), where, formats.get(name))


def refuse_other_columns(
    what: str,
    output: Output,
    columns: Iterable[tuple[str, Any]],
    where: Where | None = None,
    formats: Mapping[str, str] = _NO_FORMATS,
) -> None:
    """The same for columns that are at hand as Arrow arrays, a value for each event.

    >>> from pellucid.internal.expr.types import INT
    >>> refuse_other_columns("order", Output("t", INT, [[1, 5]]), [("t", pa.array([1, 2]))], lambda i: f"row {i + 1}")
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: row 2: the field 't' of the output 't' is 5, and the order column of this name is 2: one
    of them would be lost; rename the field, or that column before
    """
    own = own_paths(output.type, output.name)
    for name, array in columns:
        if name in own:
            t, at = own[name]
            _refuse(what, output.name, name, t, output.columns[at : at + t.width], array, where, formats.get(name))


def _lenient() -> Place:
    """A place that takes notes of values that are not what is wanted."""
    return Place("", str, bad={})


def _can_be(t: Type, found: Any) -> bool:
    """Whether a column of this Arrow type may hold what a field of this type does: it can be read as one."""
    if isinstance(t, (RecordType, TupleType)):
        return False
    try:
        column_leaves(t, pa.array([], found), column="", place=_lenient(), nan=True)
    except (DataError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _refuse(
    what: str,
    output: str,
    name: str,
    t: Type,
    mine: Sequence[Column],
    array: Any,
    where: Where | None,
    form: str | None,
) -> None:
    """Refuse the first event whose field is not what the column is."""
    if not _can_be(t, array.type):
        raise UsageError(_other_type(what, output, name, t, array.type))
    at = _first_other(t, mine, array, form)
    if at is None:
        return
    own = _said(events_of(t, [_cut(column, at, at + 1) for column in mine])[0])
    place = f"{where(at)}: " if where is not None else ""
    raise DataError(
        f"{place}the field {name!r} of the output {output!r} is {own}, and the {what} column of this name is "
        f"{_said(array[at].as_py())}: {_LOST}"
    )


def _other_type(what: str, output: str, name: str, t: Type, found: Any) -> str:
    return (
        f"the output {output!r} has a field {name!r} of type {t}, and the {what} column of this name holds {found}: "
        f"{_LOST}"
    )


def _first_other(t: Type, mine: Sequence[Column], array: Any, form: str | None) -> int | None:
    """The first row in which a column, read as what a field is declared as, is not what the field is."""
    *_, (_, leaf) = t.leaves()
    for start in range(0, len(array), _AT_ONCE):
        part = array.slice(start, _AT_ONCE)
        place = _lenient()
        theirs, _ = column_leaves(t, part, column="", place=place, nan=True, form=form)
        own = [_cut(column, start, start + len(part)) for column in mine]
        other = _unequal(leaf, own[-1], theirs[-1])
        if isinstance(t, OptionalType):
            there = np.asarray(own[0], dtype=bool)
            other = (there != theirs[0]) | (there & other)
        if inner_type(t) == FLOAT and pa.types.is_integer(part.type):
            other |= _rounded(part)
        other[list(place.bad or ())] = True
        found = np.flatnonzero(other)
        if len(found):
            return start + int(found[0])
    return None


def _rounded(array: Any) -> Any:
    """Where a whole number has no float that is equal to it: two numbers would be one."""
    whole = _one(array)
    numbers = numpy_of(whole.fill_null(0))
    out = np.zeros(len(numbers), dtype=bool)
    for i in np.flatnonzero((numbers > 2**53) | (numbers < -(2**53))).tolist():
        out[i] = int(float(numbers[i])) != int(numbers[i])
    return out


def _one(array: Any) -> Any:
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def _unequal(leaf: Type, mine: Column, theirs: Column) -> Any:
    """Where two columns of one type differ; a NaN is a NaN."""
    if isinstance(mine, Strings) and isinstance(theirs, Strings):
        if mine.values is theirs.values:
            return mine.codes != theirs.codes
        known = {text: code for code, text in enumerate(theirs.values)}
        codes, used = mine.codes, list(range(len(mine.values)))
        if len(mine.values) > len(codes):  # an engine's column may come with every text it ever saw
            found, codes = np.unique(codes, return_inverse=True)
            used = found.tolist()
        table = np.array([known.get(mine.values[c], -1) for c in used] or [-1], dtype=np.int64)
        return table[codes] != theirs.codes
    if isinstance(mine, (Strings, list)) or isinstance(theirs, (Strings, list)):
        pairs = zip(values_of(leaf, mine), values_of(leaf, theirs), strict=True)
        return np.array([a != b and (a == a or b == b) for a, b in pairs], dtype=bool)
    other = mine != theirs
    return other & ~((mine != mine) & (theirs != theirs)) if mine.dtype.kind == "f" else other


def _same(mine: Column, theirs: Column) -> bool:
    """Whether two columns of one type are the same; a quick look, without which they are looked at one by one."""
    if isinstance(mine, list) and isinstance(theirs, list):
        return mine == theirs
    if isinstance(mine, Strings) and isinstance(theirs, Strings):
        return not _unequal(STR, mine, theirs).any()
    if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
        return bool(np.array_equal(mine, theirs))
    return False


def _cut(column: Column, start: int, stop: int) -> Column:
    return Strings(column.codes[start:stop], column.values) if isinstance(column, Strings) else column[start:stop]


def _said(value: Any) -> str:
    if isinstance(value, Enum):
        return value.name
    return str(value) if isinstance(value, (dt.date, dt.timedelta, Decimal)) else shorten(value)
