"""Lists as columns: Arrow's lists as the texts that say them (`expr.types.ListType`), and back.

The elements of all rows are one array, so each leaf of theirs is read as a column is, with the same refusals; a message
names the row and the element.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pellucid.errors import DataError
from pellucid.internal.data.bind import Place
from pellucid.internal.data.columns import Column, Strings
from pellucid.internal.expr.types import (
    FLOAT,
    INT,
    STR,
    EnumType,
    ListType,
    OptionalType,
    RecordType,
    TupleType,
    Type,
    conform,
)
from pellucid.internal.expr.types.lists import elements
from pellucid.internal.expr.types.times import is_nat


def is_list(t: Any) -> bool:
    """Whether an Arrow type is one of lists."""
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    views = [getattr(pa.types, name) for name in ("is_list_view", "is_large_list_view") if hasattr(pa.types, name)]
    return any(kind(t) for kind in (*kinds, *views))


@dataclass(frozen=True)
class _Inside(Place):
    """The place of elements: what is refused of one is refused of its row."""

    whole: Place | None = None
    of: Callable[[int], tuple[int, int]] = lambda i: (i, 0)  # the row of an element, and its place there
    column: str | None = None

    def refuse(self, i: int, why: str, column: str | None = None) -> None:
        assert self.whole is not None
        row, at = self.of(i)
        self.whole.refuse(row, f"element {at}: {why}", self.column)


def list_column(t: ListType, array: Any, column: str, place: Place, nan: bool = False) -> Strings:
    """An Arrow array of lists as a column of texts; where a row is null, the text is that of the empty list.

    >>> place = Place("events", lambda i: f"row {i + 1}")
    >>> found = list_column(ListType(INT), pa.array([[1, 2], [], [1, 2]]), "x", place)
    >>> [found.values[c] for c in found.codes]
    ['1,2', '', '1,2']
    >>> list_column(ListType(INT), pa.array([[1], [2, None]]), "x", place)
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: events: row 2: element 1: column 'x' is null: expected int; fill it, remove the row, or
    declare it as int | None
    """
    from pellucid.internal.data.arrow import numpy_of
    from pellucid.internal.data.formats.outputs import array_of

    if not is_list(array.type):
        raise DataError(f"{place.name}: column {column!r} holds {array.type}: expected {t}; read it as a list")
    # Not by a cast: Arrow's own of a view reads elements that are not there. What a null has of its own is in neither.
    sizes = numpy_of(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
    ends = np.cumsum(sizes)

    def of(i: int) -> tuple[int, int]:
        row = int(np.searchsorted(ends, i, side="right"))
        return row, i - int(ends[row] - sizes[row])

    inside = _Inside(place.name, lambda i: place.row(of(i)[0]), whole=place, of=of, column=column)
    parts = [fragments(kind, c) for kind, c in _leaves(t.item, array.flatten(), column, inside, nan)]
    comma = pa.scalar(",", pa.large_string())
    one = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, comma)
    offsets = array_of(INT, np.concatenate([[0], ends])).cast(pa.int32())
    coded = pc.binary_join(pa.ListArray.from_arrays(offsets, one), comma).dictionary_encode()
    return Strings(numpy_of(coded.indices).astype(np.int64), coded.dictionary.to_pylist() or [""])


def _leaves(t: Type, array: Any, column: str, place: Place, nan: bool) -> Iterator[tuple[Type, Column]]:
    """The leaf columns of elements, with their types."""
    from pellucid.internal.data.arrow import column_leaves, numpy_of
    from pellucid.internal.data.formats.outputs import nested_type, struct_fields

    fields = struct_fields(t)
    if fields is None:
        found, _ = column_leaves(t, array, column=column, place=place, nan=nan)
        yield from zip([kind for _, kind in t.leaves()], found, strict=True)
        return
    if not pa.types.is_struct(array.type):
        if not pa.types.is_null(array.type):
            raise DataError(
                f"{place.name}: the elements of column {column!r} hold {array.type}: expected {t}, a struct"
            )
        array = array.cast(nested_type(t))
    if array.null_count and not getattr(t, "absent", False):
        why = f"column {column!r} is null: expected {t}; fill it, or remove the element"
        place.refuse_all(np.flatnonzero(~numpy_of(array.is_valid())).tolist(), lambda _: why)
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    parts = array.flatten()
    for name, inner in fields:
        if name not in names:
            raise DataError(
                f"{place.name}: the elements of column {column!r} have no field {name!r}: they have {', '.join(names)}"
            )
        yield from _leaves(inner, parts[names.index(name)], f"{column}.{name}", place, nan)


def fragments(kind: Type, column: Column) -> Any:
    """The values of a leaf as the pieces of a list's text."""
    from pellucid.internal.data.formats.outputs import array_of

    if isinstance(column, Strings):
        return pc.take(_large([json.dumps(v, ensure_ascii=False) for v in column.values]), array_of(INT, column.codes))
    if isinstance(kind, EnumType):
        names = _large([json.dumps(m.name, ensure_ascii=False) for m in kind.members])
        return pc.take(names, array_of(INT, column))
    if kind == FLOAT:
        return _large([json.dumps(v) for v in np.asarray(column, dtype=np.float64).tolist()])
    return array_of(kind, column).cast(pa.large_string())


def _large(texts: list[str]) -> Any:
    from pellucid.internal.data.formats.outputs import array_of

    return array_of(STR, texts).cast(pa.large_string())


def list_array(t: ListType, texts: Any) -> Any:
    """Texts that say lists, as an Arrow array of lists.

    >>> list_array(ListType(INT), pa.array(["1,2", "", "1,2"])).to_pylist()
    [[1, 2], [], [1, 2]]
    """
    from pellucid.internal.data.formats.outputs import array_of, event_arrays, nested_type

    coded = texts.dictionary_encode()
    flat: list[Any] = []
    ends = [0]
    for text in coded.dictionary.to_pylist():
        flat += t.rows(text)
        ends.append(len(flat) // len(t.kinds))
    leaves = [array_of(kind, flat[j :: len(t.kinds)]) for j, kind in enumerate(t.kinds)]
    made = event_arrays(TupleType((t.item,)), "x", leaves)[1][0]
    lists = pa.ListArray.from_arrays(array_of(INT, ends).cast(pa.int32()), made, type=nested_type(t))
    return pc.take(lists, coded.indices)


def plain_lists(t: Type, value: Any) -> Any:
    """An element as other libraries have it: a record as a dict, an enum's member by its name.

    >>> plain_lists(ListType(TupleType((INT, STR))), [(1, "a")])
    [{'_0': 1, '_1': 'a'}]
    """
    from pellucid.internal.data.formats.outputs import struct_fields

    if value is None:
        return None
    if isinstance(t, ListType):
        return [plain_lists(t.item, item) for item in value]
    if isinstance(t, EnumType):
        return value.name
    inner = getattr(t, "inner", None)
    if inner is not None:
        return plain_lists(inner, value)
    fields = struct_fields(t)
    if fields is None:
        return value
    parts = [getattr(value, name) for name, _ in fields] if isinstance(t, RecordType) else value
    return {name: plain_lists(u, part) for (name, u), part in zip(fields, parts, strict=True)}


def from_objects(t: Type, value: Any) -> Any:
    """A value of a list in a pandas column, as Arrow takes it: exactly of this type, or a `ValueError`.

    In pandas a NaN inside a list means that there is nothing, and ints with holes are floats.

    >>> from_objects(ListType(OptionalType(INT)), [1.0, float("nan")])
    [1, None]
    """
    from pellucid.internal.data.arrow import EXACT, no_whole
    from pellucid.internal.data.formats.outputs import struct_fields

    if isinstance(t, OptionalType):
        if value is None or is_nat(value) or (isinstance(value, float) and value != value):
            return None
        if t.inner == INT and isinstance(value, float):
            if not value.is_integer() or abs(value) > EXACT["double"]:
                raise ValueError(no_whole(value, EXACT["double"]))
            value = int(value)
        return from_objects(t.inner, value)
    if isinstance(t, ListType):
        values = elements(value)
        if values is None:
            raise ValueError(t.problem(value))
        return [_element(t.item, i, item) for i, item in enumerate(values)]
    fields = struct_fields(t)
    if fields is not None and isinstance(value, Mapping):
        return {name: from_objects(inner, value.get(name)) for name, inner in fields}
    if isinstance(t, EnumType) and not isinstance(value, t.cls):
        value = next((m for m in t.members if value in (m.name, m.value)), value)
    return plain_lists(t, conform(t, value))


def _element(t: Type, i: int, value: Any) -> Any:
    try:
        return from_objects(t, value)
    except ValueError as error:
        raise ValueError(f"element {i}: {error}") from None
