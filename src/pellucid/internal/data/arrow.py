"""Arrow arrays to leaf columns; no copy where the memory already has the right form.  The way back is
`data.formats.outputs`.

What fits: integers of any width into int (a uint64 must fit in 64 bits), integers and floats of any width into
float, texts and dictionaries of texts into str, a member's name or value into an enum.  What could lose
something is refused: floats into int, decimals, times.  A null is no event and is refused with its row, a NaN where
it was not said to be a value (``nan``).  Where an int may be missing, floats that are whole numbers fit as well:
that is how pandas and others keep ints with holes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pellucid.errors import DataError, UsageError
from pellucid.internal.data.bind import Binding, Place, no_nan, own_paths, shorten
from pellucid.internal.data.columns import Column, Output, Strings
from pellucid.internal.data.rich import is_list, list_array, list_column, rich_array, rich_column, rich_type
from pellucid.internal.expr.types import (
    BOOL,
    DATE,
    DATETIME,
    FLOAT,
    INSTANT,
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

# Leaf columns as Arrow arrays: types, schemas and batches of what comes out.  The way in is `data.arrow`.

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
    """What an output stream emitted, as a record batch of this schema; ``key`` names the columns of its key.

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


if TYPE_CHECKING:
    Mask = np.ndarray[Any, Any] | None


def column_names(schema: Any) -> list[str]:
    """The columns of a schema; a struct also by the dotted paths of its fields.

    >>> column_names(pa.schema([("x", pa.int64()), ("p", pa.struct([("a", pa.int64())]))]))
    ['x', 'p.a']
    """
    out: list[str] = []

    def visit(prefix: str, field: Any) -> None:
        path = f"{prefix}.{field.name}" if prefix else field.name
        if pa.types.is_struct(field.type):
            for i in range(field.type.num_fields):
                visit(path, field.type.field(i))
        else:
            out.append(path)

    for field in schema:
        visit("", field)
    return out


def column_at(batch: Any, path: str) -> Any:
    """The array of a column, or of a field of a struct column, as one array."""
    names = batch.schema.names
    if path in names:
        found = batch.column(names.index(path))
    else:
        head, rest = next((path[:i], path[i + 1 :]) for i, c in enumerate(path) if c == "." and path[:i] in names)
        found = one_array(batch.column(names.index(head)))
        while rest and not pa.types.is_null(found.type):
            fields = [found.type.field(i).name for i in range(found.type.num_fields)]
            step = next(f for f in fields if rest == f or rest.startswith(f + "."))
            found = found.flatten()[fields.index(step)]  # flatten, so that a null struct has null fields
            rest = rest[len(step) + 1 :]
    return one_array(found)


def columns_of_nothing(schema: Any) -> list[str]:
    """The columns of which no row holds anything, so that it is not known what they would hold: a record may be meant.

    >>> columns_of_nothing(pa.schema([("x", pa.int64()), ("p", pa.struct([("a", pa.null())]))]))
    ['p.a']
    """
    return [path for path in column_names(schema) if pa.types.is_null(type_at(schema, path))]


def type_at(schema: Any, path: str) -> Any:
    """The type of a column, or of a field of a struct column, by the schema alone: an empty table would import pandas,
    where there is one.

    >>> type_at(pa.schema({"a": pa.int8(), "s": pa.struct({"x.y": pa.string()})}), "s.x.y")
    DataType(string)
    """
    names = schema.names
    if path in names:
        return schema.field(names.index(path)).type
    head, rest = next((path[:i], path[i + 1 :]) for i, c in enumerate(path) if c == "." and path[:i] in names)
    found = schema.field(names.index(head)).type
    while rest and not pa.types.is_null(found):
        fields = [found.field(i).name for i in range(found.num_fields)]
        step = next(f for f in fields if rest == f or rest.startswith(f + "."))
        found, rest = found.field(fields.index(step)).type, rest[len(step) + 1 :]
    return found


def one_array(array: Any) -> Any:
    """A chunked array as one array."""
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks == 1:
            return array.chunk(0)
        combined = array.combine_chunks()
        return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined
    return array


def without_views(array: Any, f: Callable[[Any], Any]) -> Any:
    """A function of a column that Arrow does not have for views of texts; the result is a column of the same type.

    >>> views = pa.array(["a", "b"]).cast(pa.string_view())
    >>> without_views(views, lambda plain: plain.take(pa.array([1, None]))).to_pylist()
    ['b', None]
    """
    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        plain = pa.string() if pa.types.is_string_view(array.type) else pa.binary()
        return f(array.cast(plain)).cast(array.type)
    return f(array)


def taken(array: Any, index: Any) -> Any:
    """Rows of a column, in its own type."""
    return without_views(array, lambda plain: plain.take(index))


def source_columns(
    binding: Binding, batch: Any, place: Place, *, silent: bool = False
) -> tuple[list[Column], Mask, list[Column] | None]:
    """The leaf columns of a source in a batch, where it is silent, and its key's columns.

    With ``silent`` a row whose leaves are all null is no event; else a null is an error.
    """
    columns: list[Column] = []
    masks: list[Mask] = []
    for path, (_, t) in zip(binding.columns, binding.type.columns(), strict=True):
        array, form = column_at(batch, path), binding.formats.get(path)
        leaves, mask = column_leaves(t, array, column=path, place=place, silent=silent, nan=binding.nan, form=form)
        columns += leaves
        masks.append(mask)
    mask = one_mask(binding, masks, place, batch.num_rows) if silent else None
    keys = [(name, column_at(batch, name)) for name in binding.key]
    found = [key_leaves(key_type(a.type, n, place.name, binding.missing.get(n)), a, n, place) for n, a in keys]
    return columns, mask, [column for leaves in found for column in leaves] or None


def key_leaves(t: Type, array: Any, column: str, place: Place) -> list[Column]:
    """A column of a key as its leaves; a null is a key only where its type says so."""
    if isinstance(t, OptionalType):
        return column_leaves(t, array, column=column, place=place)[0]
    if array.null_count:
        why = f"the key column {column!r} is null: give every row a key, or leave such rows out"
        place.refuse_all(_nulls(array), lambda _: why, column)
    return [leaf_column(t, array, column=column, place=place)[0]]


def one_mask(binding: Binding, masks: list[Mask], place: Place, count: int) -> Mask:
    """A record is silent where all its columns are null; where only some are that may not be, it is broken."""
    if all(m is None for m in masks):
        return None
    full = [np.ones(count, dtype=bool) if m is None else m for m in masks]
    some: np.ndarray[Any, Any] = np.logical_or.reduce(full)
    needed = [not isinstance(t, OptionalType) for _, t in binding.type.columns()]
    strict = [m for m, must in zip(full, needed, strict=True) if must]
    every: np.ndarray[Any, Any] = np.logical_and.reduce(strict) & some if strict else some
    for i in np.flatnonzero(some != every).tolist():
        missing = next(path for path, m, must in zip(binding.columns, full, needed, strict=True) if must and not m[i])
        why = (
            f"column {missing!r} is null, but other columns of the source {binding.source!r} are not: "
            "give all of them, or none for silence"
        )
        place.refuse(i, why, missing)
    return every


def _nulls(array: Any) -> list[int]:
    """The rows in which there is nothing."""
    found: list[int] = np.flatnonzero(~numpy_of(one_array(array).is_valid())).tolist()
    return found


def column_leaves(
    t: Type,
    array: Any,
    *,
    column: str,
    place: Place,
    silent: bool = False,
    nan: bool = False,
    form: str | None = None,
) -> tuple[list[Column], Mask]:
    """One Arrow array as the columns of its leaves, and where it has an event; ``form`` is that of times in texts.

    >>> place = Place("events", lambda i: f"row {i + 1}")
    >>> column_leaves(OptionalType(INT), pa.array([7, None]), column="x", place=place)[0]
    [array([ True, False]), array([7, 0])]
    """
    if not isinstance(t, OptionalType):
        found, mask = leaf_column(t, array, column=column, place=place, silent=silent, nan=nan, form=form)
        return [found], mask
    array = one_array(array)
    count = len(array)
    if t.inner == INT and pa.types.is_floating(array.type):
        array = _whole_numbers(array, column, place)
    said: dict[str, Any] = {"silent": True, "nan": nan, "declared": t, "form": form}
    found, mask = leaf_column(t.inner, array, column=column, place=place, **said)
    there = np.ones(count, dtype=bool) if mask is None else mask
    if isinstance(found, Strings) and mask is not None:
        values = list(found.values)
        blank = values.index("") if "" in values else len(values)
        found = Strings(np.where(mask, found.codes, blank), values if blank < len(values) else [*values, ""])
    elif mask is not None:
        values_there: Any = found
        found = np.where(mask, values_there, np.zeros(1, dtype=values_there.dtype))
    return [there, found], mask


def leaf_column(
    t: Type,
    array: Any,
    *,
    column: str,
    place: Place,
    silent: bool = False,
    nan: bool = False,
    declared: Type | None = None,
    form: str | None = None,
) -> tuple[Column, Mask]:
    """One Arrow array as a leaf column, and where it has an event; ``declared`` is the type that messages speak of.

    >>> place = Place("events", lambda i: f"row {i + 1}")
    >>> leaf_column(INT, pa.array([1, 2], pa.int32()), column="x", place=place)[0]
    array([1, 2])
    >>> leaf_column(INT, pa.array([1, None]), column="x", place=place)
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: events: row 2: column 'x' is null: expected int; fill it, remove the row, or
    declare it as int | None
    """
    array = one_array(array)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    mask: Mask = None
    if array.null_count:
        mask = numpy_of(array.is_valid())
        if not silent:
            why = f"column {column!r} is null: expected {t}; fill it, remove the row, or declare it as {t} | None"
            place.refuse_all(_nulls(array), lambda _: why, column)
    if pa.types.is_null(array.type):
        array = array.cast(arrow_type(t))
    if isinstance(t, (TimeType, DecimalType)):
        if mask is None:
            return rich_column(t, array, column, place, form), None
        numbers = np.zeros(len(array), dtype=np.int64)
        rows = np.flatnonzero(mask)
        there = place.picked(lambda i: int(rows[i]))
        numbers[rows] = rich_column(t, array.drop_null(), column, there, form)
        return numbers, mask
    if isinstance(t, ListType):
        return list_column(t, array, column, place, nan), mask
    if pa.types.is_dictionary(array.type) and not (t == STR or isinstance(t, EnumType)):
        array = array.cast(array.type.value_type)
    if isinstance(t, EnumType):
        return _enum_codes(t, array, mask, column, place), mask
    check_kind(t, array.type, column, place)
    if t == STR:
        return _strings(array, mask), mask
    if mask is not None:
        array = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    if t == INT:
        return _ints(array, column, place), mask
    if t == FLOAT:
        values = numpy_of(array).astype(np.float64, copy=False)
        if not nan and pa.types.is_floating(array.type):  # what is null is 0 here
            why = f"column {column!r} is NaN: {no_nan(declared or t)}"
            place.refuse_all(np.flatnonzero(np.isnan(values)).tolist(), lambda _: why, column)
        return values, mask
    return numpy_of(array), mask


#: Up to here every whole number is a float of this type.
EXACT = {"halffloat": 2**11, "float": 2**24, "double": 2**53}


def _whole_numbers(array: Any, column: str, place: Place) -> Any:
    """Floats that are ints with holes in between; one that is no whole number, or may have been another, is refused.

    >>> _whole_numbers(pa.array([3.0, None]), "x", Place("events", lambda i: f"row {i + 1}")).to_pylist()
    [3, None]
    """
    values, most = numpy_of(array.fill_null(0.0)), EXACT[str(array.type)]
    wrong = ~((np.abs(values) <= most) & (np.floor(values) == values))
    if wrong.any():
        why = lambda i: f"column {column!r}: {no_whole(values[i].item(), most)}"
        place.refuse_all(np.flatnonzero(wrong).tolist(), why, column)
        values = np.where(wrong, 0.0, values)
    return pc.if_else(array.is_valid(), numbers_of(values, np.int64), pa.scalar(None, pa.int64()))


def no_whole(value: float | str, most: int) -> str:
    """Why a float is no int, for a message."""
    beyond = isinstance(value, float) and abs(value) > most and not math.isinf(value)
    why = f"is beyond 2**{most.bit_length() - 1}, from where on floats skip whole numbers" if beyond else "is none"
    return f"expected a whole number or null, but {value} {why}; correct the value, or declare it as float | None"


def check_kind(t: Type, found: Any, column: str, place: Place) -> None:
    """Refuse a column whose kind cannot hold events of this type, with a hint."""
    kind, bare = pa.types, found
    if t == INT:
        fits = kind.is_integer(bare) or kind.is_boolean(bare)
    elif t == FLOAT:
        fits = kind.is_integer(bare) or kind.is_floating(bare) or kind.is_boolean(bare)
    elif t == BOOL:
        fits = kind.is_boolean(bare)
    else:
        bare = bare.value_type if kind.is_dictionary(bare) else bare
        fits = kind.is_string(bare) or kind.is_large_string(bare) or kind.is_string_view(bare) or kind.is_null(bare)
    if fits:
        return
    hint = f"read it as {t}, or change the source's type"
    if is_list(found):
        hint = f"declare it as list[{t}]"
    elif kind.is_temporal(found):
        hint = "cast it to int64 first, so that its unit is your choice"
    elif kind.is_decimal(found):
        hint = "cast it to float64 or to whole cents as int64 first"
    elif t == INT and kind.is_floating(found):
        hint = "cast it to int64 first, or make the source float; if they are whole numbers with holes, int | None"
    raise DataError(f"{place.name}: column {column!r} holds {found}: expected {t}; {hint}")


def _ints(array: Any, column: str, place: Place) -> Any:
    if pa.types.is_boolean(array.type):
        return numpy_of(array).astype(np.int64)
    values = numpy_of(array)
    if values.dtype == np.uint64 and len(values) and values.max() > 2**63 - 1:
        place.refuse_all(
            np.flatnonzero(values > np.uint64(2**63 - 1)).tolist(),
            lambda i: (
                f"column {column!r}: {values[i]} does not fit in 64 bits (int is signed): make the source float or str"
            ),
            column,
        )
    return values.astype(np.int64, copy=False)


def _encoded(array: Any) -> tuple[Any, list[Any]]:
    """A column as int64 codes and the list of its different values."""
    if not pa.types.is_dictionary(array.type):
        if pa.types.is_string_view(array.type):
            array = array.cast(pa.string())
        array = array.dictionary_encode()
    indices = array.indices.fill_null(0) if array.indices.null_count else array.indices
    return numpy_of(indices).astype(np.int64, copy=False), array.dictionary.to_pylist()


def _strings(array: Any, mask: Mask) -> Strings:
    codes, values = _encoded(array)
    return Strings(codes, values if values or not len(codes) else [""])


def _enum_codes(t: EnumType, array: Any, mask: Mask, column: str, place: Place) -> Any:
    """Members by name, else by value; in texts also by a whole number's digits, as a CSV has nothing else."""
    known: dict[Any, int] = {}
    for code, member in enumerate(t.members):
        if isinstance(member.value, int):
            known[str(member.value)] = code
    for code, member in enumerate(t.members):
        if isinstance(member.value, (bool, int, float, str)):
            known[member.value] = code
    for code, member in enumerate(t.members):
        known[member.name] = code
    codes, values = _encoded(array)
    table = np.array([known.get(v, -1) if v is not None else -1 for v in values] or [0], dtype=np.int64)
    out = table[codes]
    if mask is not None:
        out = np.where(mask, out, 0)
    if len(out) and out.min() < 0:
        names = ", ".join(m.name for m in t.members[:8]) + (", …" if len(t.members) > 8 else "")
        place.refuse_all(
            np.flatnonzero(out < 0).tolist(),
            lambda i: (
                f"column {column!r}: expected a member of {t} ({names}), found {shorten(values[codes[i]])}; "
                "correct the value or remove the row"
            ),
            column,
        )
        out = np.maximum(out, 0)
    return out


def key_type(found: Any, column: str, place: str, missing: Type | None = None) -> Type:
    """The type of a key column: int, str, bool or a time; ``missing`` is what a source declares it as, where null is a
    key.

    >>> key_type(pa.int32(), "user", "events"), key_type(pa.null(), "user", "events", OptionalType(STR))
    (int, str | None)
    """
    if isinstance(missing, OptionalType):
        holes = pa.types.is_floating(found) and missing.inner == INT
        return OptionalType(key_type(arrow_type(missing) if holes or pa.types.is_null(found) else found, column, place))
    bare = found.value_type if pa.types.is_dictionary(found) else found
    if pa.types.is_boolean(bare):
        return BOOL
    if pa.types.is_integer(bare):
        return INT
    if pa.types.is_string(bare) or pa.types.is_large_string(bare) or pa.types.is_string_view(bare):
        return STR
    if pa.types.is_null(bare):  # no row has one
        return STR
    if pa.types.is_timestamp(bare):
        return DATETIME if bare.tz is None else INSTANT
    if pa.types.is_date(bare):
        return DATE
    instead = "a list is no key; take an element of it first" if is_list(found) else "cast it first"
    raise DataError(f"{place}: the key column {column!r} holds {found}: a key is int, str, bool or a time; {instead}")


def flattened(batch: Any) -> Any:
    """A record batch without structs: their fields are columns of their own, by their dotted paths.

    >>> flattened(pa.record_batch({"k": ["a"], "i": [{"a": 1, "b": {"c": 2.5}}]})).to_pydict()
    {'k': ['a'], 'i.a': [1], 'i.b.c': [2.5]}
    """
    names = column_names(batch.schema)
    if names == batch.schema.names:
        return batch
    return pa.RecordBatch.from_arrays([column_at(batch, name) for name in names], names=names)


# Not pa.array and not to_numpy: they import pandas, where there is one, which takes longer than most runs.


def numpy_of(array: Any) -> Any:
    """An Arrow array of numbers or truth values without nulls as a NumPy array; numbers are not copied.

    >>> numpy_of(pa.array([1, 2, 3]).slice(1)), numpy_of(pa.array([True, False]))
    (array([2, 3]), array([ True, False]))
    """
    count, offset, data = len(array), array.offset, array.buffers()[1]
    if pa.types.is_boolean(array.type):
        if not count or data is None:
            return np.zeros(count, dtype=bool)
        bits = np.frombuffer(data, dtype=np.uint8, count=(offset + count + 7) // 8)
        return np.unpackbits(bits, bitorder="little")[offset : offset + count].astype(bool)
    kind = np.dtype(_KINDS.get(str(array.type), str(array.type)))
    if not count or data is None:
        return np.zeros(count, dtype=kind)
    return np.frombuffer(data, dtype=kind, count=offset + count)[offset:]


_KINDS = {"halffloat": "float16", "float": "float32", "double": "float64"}
