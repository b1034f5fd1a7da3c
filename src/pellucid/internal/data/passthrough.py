"""Columns that meet: an event has a field of the name of a column of the key.

A table has a column of one name once.  Where the two hold the same, it stands once; where they differ, one of them
would be lost, so that is refused: before anything is written where the types tell, else at the first row that differs.
Every way to run a pipeline asks here, and says it in the same words.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError, UsageError
from pellucid.internal.data.arrow import (
    array_of,
    arrow_type,
    column_leaves,
    event_fields,
    key_array,
    numpy_of,
    output_batch,
    output_schema,
    taken,
    without_views,
)
from pellucid.internal.data.bind import Kept, Place, own_paths, parted, shorten
from pellucid.internal.data.cells import inner_type
from pellucid.internal.data.columns import Column, Output, Strings, events_of, values_of
from pellucid.internal.data.rich import is_list
from pellucid.internal.expr.types import BOOL, FLOAT, STR, OptionalType, RecordType, TupleType, Type

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


# Columns that come along with the events of an output file: the order's, and those that are kept.


@dataclass(frozen=True)
class Along:
    """Which columns come along, in their order, and of which types."""

    order: tuple[str, ...] = ()
    kept: Kept = field(default_factory=Kept)
    types: Mapping[str, Any] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)  # of times in texts, by column

    def __bool__(self) -> bool:
        return bool(self.order or self.kept.columns)

    def names(self, t: Type, name: str, key: Sequence[str]) -> list[str]:
        """Those that go with one output: what a record has itself, or the key has, is there already."""
        own = own_paths(t, name)
        order = [column for column in self.order if column not in own and column not in key]
        return [*order, *(column for _, column in self.kept.of(t, name))]

    def schema(self, t: Type, name: str, key: Mapping[str, Type]) -> Any:
        """The columns of an output: the key's, what comes along, the event's."""
        refuse_types("key", name, t, {column: arrow_type(kind) for column, kind in key.items()})
        plain = output_schema(t, name, key)
        at = len(plain) - len(event_fields(t, name))
        fields = list(plain)
        more = [pa.field(column, self.types[column]) for column in self.names(t, name, list(key))]
        return pa.schema([*fields[:at], *more, *fields[at:]])

    def batch(
        self,
        output: Output,
        key: Mapping[str, Type],
        columns: Mapping[str, Any],
        rows: Any,
        schema: Any,
        where: Where | None = None,
    ) -> Any:
        """What an output put out, with the values that came along in these rows of the columns; texts may be codes.
        ``where`` names the row of an event."""
        names = self.names(output.type, output.name, list(key))
        refuse_other_keys(output, list(key), where, self.formats)
        width = len(event_fields(output.type, output.name))
        keys = schema.names[: len(schema) - width - len(names)]
        given = bool(names) and all(name in columns for name in keys)  # as they were read: texts may be codes
        known = {} if given else key
        plain = output_batch(output, output_schema(output.type, output.name, known), key=list(known))
        if not names:
            return plain
        pick = _picker(np.asarray(rows, dtype=np.int64), len(columns[names[0]]))
        first = [pick(columns[name]) for name in keys] if given else plain.columns[: len(keys)]
        more = [_coded(pick(columns[name]), self.types[name]) for name in names]
        return pa.RecordBatch.from_arrays([*first, *more, *plain.columns[-width:]], names=schema.names)


def _picker(rows: Any, count: int) -> Callable[[Any], Any]:
    """How these rows are taken from columns of so many: all, those that are there once in their order (which costs a
    fraction of the rest), or any."""
    if bool((rows[1:] > rows[:-1]).all()):
        if len(rows) == count:
            return lambda column: column
        here = np.zeros(count, dtype=bool)
        here[rows] = True
        mask = array_of(BOOL, here)
        return lambda column: without_views(column, lambda plain: plain.filter(mask))
    index = pa.array(rows)
    return lambda column: taken(column, index)


def fits(found: Any, t: Any) -> bool:
    """Whether a column can be written as one of this type: also texts that are codes, which a writer may use.

    >>> fits(pa.dictionary(pa.int32(), pa.string()), pa.string()), fits(pa.int32(), pa.int64())
    (True, False)
    """
    return bool(found == t or (found == pa.dictionary(pa.int32(), pa.string()) and t == pa.string()))


def _coded(array: Any, t: Any) -> Any:
    return array if fits(array.type, t) else fitting(array, t)


def fitting(array: Any, t: Any) -> Any:
    """A column in the type that was announced: a dictionary becomes what it stands for."""
    if array.type == t:
        return array
    return array.cast(t)


_IN_TEXT = (
    pa.types.is_null, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal,
    pa.types.is_string, pa.types.is_large_string, pa.types.is_date, pa.types.is_time, pa.types.is_timestamp,
    pa.types.is_duration,
)  # fmt: skip
_NOT_IN_PARQUET = (pa.types.is_union, pa.types.is_interval, pa.types.is_run_end_encoded)


def refuse_no_cells(path: str, form: str, schema: Any) -> None:
    """Refuse a column for which a file of this format has no form.

    >>> refuse_no_cells("out.csv", "csv", pa.schema([("tags", pa.list_(pa.string()))]))
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: out.csv: the column 'tags' holds list<item: string>, for which csv has no form: do not
    keep it, or write .jsonl, .parquet or .arrow
    """
    for one in schema:
        if not _has_form(one.type, form):
            others = [f".{other}" for other in ("jsonl", "parquet", "arrow") if _has_form(one.type, other)]
            raise DataError(
                f"{path}: the column {one.name!r} holds {one.type}, for which {form} has no form: do not keep it, or "
                f"write {', '.join(others[:-1])}{' or ' if others[1:] else ''}{others[-1]}"
            )


def _has_form(t: Any, form: str) -> bool:
    """Whether a file of this format can hold values of an Arrow type."""
    if form == "arrow":
        return True
    if pa.types.is_dictionary(t):
        return _has_form(t.value_type, form)
    inside = (t.field(i).type for i in range(t.num_fields))
    if form == "parquet":
        here = not any(kind(t) for kind in _NOT_IN_PARQUET)
        return here and all(_has_form(part, form) for part in inside)
    if pa.types.is_struct(t) or (form == "jsonl" and is_list(t)):
        return all(_has_form(part, form) for part in inside)
    return any(kind(t) for kind in _IN_TEXT)
