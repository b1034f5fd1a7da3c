"""Leaf columns as Arrow arrays: types, schemas and batches of what comes out.  The way in is `data.arrow`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pellucid.errors import DataError, UsageError
from pellucid.internal.data.bind import shorten
from pellucid.internal.data.columns import Column, Output, Strings
from pellucid.internal.data.formats.fields import own_paths
from pellucid.internal.data.formats.lists import list_array
from pellucid.internal.data.rich import rich_array, rich_type
from pellucid.internal.expr.types import (
    BOOL,
    FLOAT,
    INT,
    STR,
    DecimalType,
    EnumType,
    ListType,
    OptionalType,
    RecordType,
    TimeType,
    TupleType,
    Type,
)

_NO_KEY: Mapping[str, Type] = MappingProxyType({})


def arrow_type(t: Type) -> Any:
    """The Arrow type of a column; an enum goes by its members' names."""
    if isinstance(t, OptionalType):
        return arrow_type(t.inner)
    if isinstance(t, (TimeType, DecimalType)):
        return rich_type(t)
    if isinstance(t, ListType):
        return pa.list_(nested_type(t.item))
    return pa.int64() if t == INT else pa.float64() if t == FLOAT else pa.bool_() if t == BOOL else pa.string()


def event_fields(t: Type, name: str) -> list[tuple[str, Type]]:
    """The columns of an event: ``name`` for a scalar, a record's fields, ``name_0``, ``name_1`` … for a tuple; what is
    inside those is a struct.

    The same here, in files and on Spark.

    >>> event_fields(INT, "out"), event_fields(TupleType((INT, FLOAT)), "out")
    ([('out', int)], [('out_0', int), ('out_1', float)])
    """
    if isinstance(t, RecordType):
        return list(t.fields)
    if isinstance(t, TupleType):
        return [(f"{name}_{i}", item) for i, item in enumerate(t.items)]
    return [(name, t)]


def struct_fields(t: Type) -> list[tuple[str, Type]] | None:
    """The fields of a struct that stands for a record, or for a tuple (``_0``, ``_1`` …); None for a scalar."""
    return event_fields(t, "") if isinstance(t, (RecordType, TupleType)) else None


def nested_type(t: Type) -> Any:
    """The Arrow type of an event or of what is inside it.

    >>> nested_type(TupleType((INT, TupleType((BOOL, STR)))))
    StructType(struct<_0: int64, _1: struct<_0: bool, _1: string>>)
    """
    fields = struct_fields(t)
    return arrow_type(t) if fields is None else pa.struct([(n, nested_type(inner)) for n, inner in fields])


def event_arrays(t: Type, name: str, leaves: Sequence[Any]) -> tuple[list[str], list[Any]]:
    """The names of an event's columns, and their arrays from those of its leaves.

    >>> pair = TupleType((INT, TupleType((INT, INT))))
    >>> names, arrays = event_arrays(pair, "out", [pa.array([1]), pa.array([2]), pa.array([3])])
    >>> names, arrays[1].to_pylist()
    (['out_0', 'out_1'], [{'_0': 2, '_1': 3}])
    """
    rest = iter(leaves)

    def build(u: Type) -> Any:
        if isinstance(u, OptionalType):
            there = next(rest)
            return pc.if_else(there, build(u.inner), pa.scalar(None, arrow_type(u)))
        if isinstance(u, (TimeType, DecimalType)):
            return rich_array(u, next(rest))
        if isinstance(u, ListType):
            return list_array(u, next(rest))
        fields = struct_fields(u)
        if fields is None:
            return next(rest)
        return pa.StructArray.from_arrays([build(i) for _, i in fields], names=[n for n, _ in fields])

    items = event_fields(t, name)
    return [n for n, _ in items], [build(i) for _, i in items]


def key_array(t: Type, leaves: Sequence[Column]) -> Any:
    """The leaves of a column of a key as one Arrow array.

    >>> key_array(OptionalType(INT), [np.array([True, False]), np.array([7, 0])]).to_pylist()
    [7, None]
    """
    arrays = [array_of(leaf, column) for (_, leaf), column in zip(t.leaves(), leaves, strict=True)]
    return event_arrays(t, "key", arrays)[1][0]


def output_schema(t: Type, name: str, key: Mapping[str, Type] = _NO_KEY) -> Any:
    """The Arrow schema of an output; the columns of the key, by name, come first.  One that the event has itself stands
    once: that both are the same, `data.formats.met` sees to.

    >>> output_schema(INT, "out", {"user": STR}).names
    ['user', 'out']
    """
    if name in key and not isinstance(t, (RecordType, TupleType)):
        raise UsageError(
            f"the key column {name!r} has the name of an output: one of them would be lost; rename the column, or name "
            "the output otherwise (a pipeline that returns a dict names its outputs)"
        )
    own = own_paths(t, name)
    keys = [(n, arrow_type(leaf)) for n, leaf in key.items() if n not in own]
    return pa.schema([*keys, *[(n, nested_type(inner)) for n, inner in event_fields(t, name)]])


def output_batch(output: Output, schema: Any, *, key: Sequence[str] = ()) -> Any:
    """What an output stream put out, as a record batch of this schema; ``key`` names the columns of its key.

    >>> out = Output("out", INT, [[1, 2]])
    >>> output_batch(out, output_schema(INT, "out")).to_pydict()
    {'out': [1, 2]}
    """
    leaves = [array_of(leaf, column) for (_, leaf), column in zip(output.type.leaves(), output.columns, strict=True)]
    _, arrays = event_arrays(output.type, output.name, leaves)
    if len(schema) > len(arrays):
        if output.keys is None or output.key_type is None or len(list(output.key_type.columns())) != len(key):
            raise DataError(
                f"the output {output.name!r} has no key of {len(key)} column(s), so there is nothing to write to "
                f"{', '.join(key)}"
            )
        own = own_paths(output.type, output.name)
        flat = [array_of(t, c) for (_, t), c in zip(output.key_type.leaves(), output.keys, strict=True)]
        parts = event_arrays(output.key_type, key[0], flat)[1]
        arrays = [*[array for n, array in zip(key, parts, strict=True) if n not in own], *arrays]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def array_of(t: Type, column: Column) -> Any:
    """A leaf column as an Arrow array."""
    if isinstance(column, Strings):
        codes, values = column.codes, column.values
        if len(values) > len(codes):  # an engine's column may come with every text it ever saw
            used, codes = np.unique(codes, return_inverse=True)
            values = [values[c] for c in used.tolist()]
        return pc.take(_texts(values), numbers_of(codes, np.int64))
    if isinstance(t, EnumType):
        if isinstance(column, list):
            return _texts([m.name for m in column])
        return pc.take(_texts([m.name for m in t.members]), numbers_of(column, np.int64))
    if t == STR:
        return _texts(column)
    if t == BOOL:
        bits = np.packbits(np.asarray(column, dtype=bool), bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(column), [None, pa.py_buffer(bits)])
    return numbers_of(column, np.float64 if t == FLOAT else np.int64)


def numbers_of(column: Any, kind: Any) -> Any:
    """Numbers of one kind as an array, over the same memory where it has that form."""
    values = np.ascontiguousarray(column, dtype=kind)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def _texts(values: Any) -> Any:
    try:
        encoded = [v.encode() for v in values]
    except UnicodeEncodeError as error:
        raise DataError(
            f"the text {shorten(error.object)} has half of a surrogate pair, which is no character: tables and files "
            "hold UTF-8"
        ) from None
    ends = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(v) for v in encoded], out=ends[1:])
    offsets = pa.py_buffer(ends)
    data = pa.py_buffer(b"".join(encoded))
    return pa.Array.from_buffers(pa.large_string(), len(encoded), [None, offsets, data]).cast(pa.string())
