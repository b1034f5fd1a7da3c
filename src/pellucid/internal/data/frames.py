"""NumPy, pandas and Arrow objects as leaf columns, and results of the same kind.

A pandas result keeps the index: each event has the label of the push that put it out.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError
from pellucid.internal.data.arrow import (
    EXACT,
    array_of,
    arrow_type,
    column_at,
    column_names,
    columns_of_nothing,
    event_fields,
    key_type,
    no_whole,
    numbers_of,
    one_array,
    output_batch,
    output_schema,
    source_columns,
    struct_fields,
)
from pellucid.internal.data.bind import Binding, Place, bind, missing_keys, parted
from pellucid.internal.data.cells import inner_type, is_spelled
from pellucid.internal.data.columns import Column, Given, Output, dict_rows, events_of, from_events, values_of
from pellucid.internal.data.rich import from_objects, plain_lists
from pellucid.internal.expr.types import (
    BOOL,
    DATE,
    FLOAT,
    INSTANT,
    INT,
    STR,
    TIMEDELTA,
    DecimalType,
    EnumType,
    ListType,
    OptionalType,
    RecordType,
    TimeType,
    TupleType,
    Type,
    conform,
)

# ------------------------------------------------------------------ columns of pandas
#
# A column of objects may hold anything, and Arrow guesses one type for all of it: of a naive and an aware time, or of a
# whole number and a float, it makes one kind and loses the difference.  So where a number, a time or a decimal is
# wanted, each object is looked at; texts and the columns that pandas itself has types for go to Arrow as they are.


def pandas_array(
    name: str,
    series: Any,
    types: Mapping[str, Type],
    place: Place | None = None,
    *,
    nan_is_null: bool = False,
    nan: bool = False,
) -> Any:
    """A column as an Arrow array; ``types`` are what is read of it: at ``""`` itself, else at paths inside of it.

    >>> import pandas
    >>> pandas_array("n", pandas.Series([None, None]), {"": OptionalType(INT)}).to_pylist()
    [None, None]
    """
    t = types.get("")
    place = place or Place("the table", lambda i: f"position {i:,}")
    if series.dtype == object:
        found = _records(name, series, types, place, nan) if types and t is None else None
        if found is not None:
            return found
        if t is not None and isinstance(inner_type(t), ListType):
            return _lists(name, t, _present(series, False), len(series), place)
        if t is not None and inner_type(t) != STR and not isinstance(inner_type(t), EnumType):
            values = _present(series, nan and t == FLOAT)
            if not (is_spelled(t) and {type(v) for v in values.values()} <= {str}):
                return _each(name, t, values, len(series), place)
    missing = nan_is_null or isinstance(t, OptionalType) or (t is not None and series.dtype.kind in "mM")
    try:  # in a column of objects a NaN is nothing but a hole
        array = pa.array(series, from_pandas=missing or series.dtype == object)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        if place.bad is not None and t is not None:
            return _each(name, t, _present(series, False), len(series), place)
        raise DataError(f"{place.name}: column {name!r} mixes types: {error}") from None
    if isinstance(t, OptionalType) and array.null_count == len(array):
        return pa.nulls(len(array))  # the type of a column without a value is not known: pandas says float
    return array


def _present(series: Any, nan: bool) -> dict[int, Any]:
    """The objects of a column that are there, by their positions; with ``nan`` a NaN is one."""
    gone = series.isna().to_numpy()
    return {i: v for i, v in enumerate(series.tolist()) if not gone[i] or (nan and isinstance(v, float))}


def _each(name: str, t: Type, values: Mapping[int, Any], count: int, place: Place) -> Any:
    """Objects as the values of a type, each of them checked; the others are null."""

    out: list[Any] = [None] * count
    inner = inner_type(t)
    for i, value in values.items():
        try:
            if inner == INT and isinstance(t, OptionalType) and isinstance(value, float):
                if not value.is_integer() or abs(value) > EXACT["double"]:
                    raise ValueError(no_whole(value, EXACT["double"]))
                value = int(value)  # ints with holes in between are floats in pandas, in a dict as well
            found = conform(inner, value)
            out[i] = found.name if isinstance(found, enum.Enum) else found
        except ValueError as error:
            place.refuse(i, f"column {name!r}: {error}", name)
    return pa.array(out, pa.decimal128(38, inner.places) if isinstance(inner, DecimalType) else arrow_type(inner))


def _lists(name: str, t: Type, values: Mapping[int, Any], count: int, place: Place) -> Any:
    """Objects as lists, each of them checked; the others are null."""

    out: list[Any] = [None] * count
    for i, value in values.items():
        try:
            out[i] = from_objects(inner_type(t), value)
        except ValueError as error:
            place.refuse(i, f"column {name!r}: {error}", name)
    return pa.array(out, arrow_type(t))


def _records(name: str, series: Any, types: Mapping[str, Type], place: Place, nan: bool) -> Any:
    """Dicts as a struct of the fields that are read; None if it holds something else, or if a field is nowhere."""
    import pandas as pd

    rows = _present(series, False)
    if not all(isinstance(row, dict) for row in rows.values()):
        return None
    inside: dict[str, dict[str, Type]] = {}
    for path, t in types.items():
        head, _, rest = path.partition(".")
        inside.setdefault(head, {})[rest] = t
    if rows and not all(any(head in row for row in rows.values()) for head in inside):
        return None
    arrays = []
    for head, below in inside.items():
        values = [rows[i].get(head) if i in rows else None for i in range(len(series))]
        arrays.append(pandas_array(f"{name}.{head}", pd.Series(values, dtype=object), below, place, nan=nan))
    return pa.StructArray.from_arrays(arrays, list(inside))


_NONE: Mapping[str, Type] = MappingProxyType({})
_NO_FORMATS: Mapping[str, str] = MappingProxyType({})

Along: TypeAlias = "Sequence[tuple[str, Any]]"  # passthrough columns, by name


def read(
    kind: str,
    source: str,
    t: Type,
    data: Any,
    place: Place,
    key: Sequence[str] = (),
    missing: Mapping[str, Type] = _NONE,
    formats: Mapping[str, str] = _NO_FORMATS,
    *,
    nan: bool = False,
) -> Given:
    """One source's events from an array, a Series, a DataFrame or an Arrow object."""
    if kind == "ndarray":
        return _from_numpy(source, t, data, place, nan)
    if kind == "Series" and data.dtype == object and not _are_names(t, data):
        if isinstance(t, OptionalType):
            data = data.where(data.notna(), None)
        return from_events(place.name.split(":")[0], source, t, data.tolist(), place, nan=nan)

    table = arrow_table(kind, source, data, {path or source: c for path, c in t.columns()}, place=place, nan=nan)
    if isinstance(table.schema.field(0).type, pa.StructType) and kind in ("Array", "ChunkedArray"):
        table = pa.Table.from_struct_array(data)
    advice = "rename one, or give that column alone"
    names, nothing = column_names(table.schema), columns_of_nothing(table.schema)
    binding = bind(source, t, names, place=place.name, advice=advice, key=key, nan=nan, nothing=nothing)
    return _bound(replace(binding, missing=missing, formats=formats), table, place)


def _bound(binding: Binding, table: Any, place: Place, *, silent: bool = False) -> Given:
    """What a source reads from a table, and the columns of the key."""

    columns, mask, keys = source_columns(binding, table, place, silent=silent)
    kinds = [key_type(column_at(table, n).type, n, place.name, binding.missing.get(n)) for n in binding.key]
    named = zip(binding.key, kinds, parted(kinds, keys or []), strict=True)
    return Given(table.num_rows, columns, mask, {n: (t, leaves) for n, t, leaves in named})


def _are_names(t: Type, data: Any) -> bool:
    """Whether a column of objects holds the names of an enum's members: before pandas 3 every text column is one."""
    return isinstance(t, EnumType) and {type(value) for value in data} <= {str}


def read_wide(
    graph: str,
    sources: Mapping[str, Type],
    data: Any,
    key: Sequence[str] = (),
    where: Place | None = None,
    formats: Mapping[str, str] = _NO_FORMATS,
    *,
    nan: bool = False,
) -> list[Given]:
    """Several sources from one table: each reads the columns of its name, a null (in pandas NaN) is silence."""

    table = (
        data if isinstance(data, (pa.Table, pa.RecordBatch)) else arrow_table("DataFrame", "", data, nan_is_null=True)
    )
    names = column_names(table.schema)
    place = where or Place(graph, lambda i: f"position {i:,}")
    said: dict[str, Any] = {"place": graph, "wide": True, "key": key, "nan": nan}
    said["nothing"] = columns_of_nothing(table.schema)
    bound = [bind(source, t, names, **said) for source, t in sources.items()]
    read = [pair for b in bound for pair in zip(b.columns, (t for _, t in b.type.columns()), strict=True)]
    missing = missing_keys(read, key)
    return [_bound(replace(one, missing=missing, formats=formats), table, place, silent=True) for one in bound]


def arrow_table(
    kind: str,
    source: str,
    data: Any,
    types: Mapping[str, Type] = _NONE,
    *,
    nan_is_null: bool = False,
    place: Place | None = None,
    nan: bool = False,
) -> Any:
    """As an Arrow table; ``types`` are those of the columns that are read.

    In pandas a NaN means that there is nothing: it is null where that may be.  Else it stays a NaN, which is a value
    (``nan``) or what the message speaks of.
    """

    if kind in ("Table", "RecordBatch"):
        return data
    if kind in ("Array", "ChunkedArray"):
        return pa.table({source: data})

    if kind == "Series":
        only = dict(zip([""], types.values(), strict=True)) if len(types) == 1 else {}
        return pa.table({source: pandas_array(source, data, only, place, nan_is_null=nan_is_null, nan=nan)})
    names = [str(name) for name in data.columns]
    columns = [
        pandas_array(name, data.iloc[:, i], _within(types, name), place, nan_is_null=nan_is_null, nan=nan)
        for i, name in enumerate(names)
    ]
    return pa.table(columns, names=names)


def _within(types: Mapping[str, Type], column: str) -> dict[str, Type]:
    """What is read of a column, by the paths inside of it."""
    return {path[len(column) + 1 :]: t for path, t in types.items() if path == column or path.startswith(f"{column}.")}


def _from_numpy(source: str, t: Type, data: Any, place: Place, nan: bool) -> Given:
    if data.ndim != 1:
        raise DataError(f"{place.name}: expected an array of one dimension, found {data.ndim}: flatten it first")
    if isinstance(data, np.ma.MaskedArray):
        if np.ma.getmaskarray(data).any():
            raise DataError(f"{place.name}: the array has masked values: leave them out first")
        data = data.data
    if data.dtype == object:
        return from_events(place.name.split(":")[0], source, t, data.tolist(), place, nan=nan)
    if data.dtype.names is None and isinstance(t, (RecordType, TupleType)):
        raise DataError(f"{place.name}: expected {t}: give a structured array, found one of {data.dtype}")
    if data.dtype.names is not None and not isinstance(t, RecordType):
        raise DataError(f"{place.name}: expected {t}, found a structured array: choose one field of it")
    columns = {path or source: _numpy_column(_field(data, path, place), path, place) for path, _ in t.columns()}
    return _bound(Binding(source, t, tuple(columns), nan=nan), pa.table(columns), place)


def _field(data: Any, path: str, place: Place) -> Any:
    """The field of a structured array at a dotted path, or an array itself."""
    if not path or path in (data.dtype.names or ()):
        return data[path] if path else data
    head, _, rest = path.partition(".")
    if not rest or head not in (data.dtype.names or ()):
        raise DataError(f"{place.name}: no field {path!r} in the array: it has {', '.join(data.dtype.names or ())}")
    return _field(data[head], rest, place)


def _numpy_column(data: Any, path: str, place: Place) -> Any:
    """An array as an Arrow array; numbers are not copied where their memory has the right form."""
    kind = data.dtype.kind
    if kind in "iuf" and data.itemsize <= 8:
        return numbers_of(data, data.dtype.newbyteorder("="))
    if kind in "bUT":
        return array_of(BOOL if kind == "b" else STR, data if kind == "b" else data.tolist())
    if kind == "O" or (kind in "mM" and np.datetime_data(data.dtype)[0] in ("s", "ms", "us", "ns", "D")):
        return pa.array(data)
    hint = ": decode it first" if kind == "S" else ""
    what = "bytes" if kind == "S" else data.dtype
    raise DataError(f"{place.name}: {f'field {path!r}: ' if path else ''}cannot read an array of {what}{hint}")


# ------------------------------------------------------------------ results


def result(
    kind: str,
    output: Output,
    first: Any,
    rows: Any,
    key: Sequence[str] = (),
    extra: Along = (),
    *,
    where: Callable[[int], str] | None = None,
    formats: Mapping[str, str] = _NO_FORMATS,
) -> Any:
    """An output as the kind of the first input; ``rows`` are those of the first input that the events came with,
    ``extra`` the columns between the key and the event; ``where`` names the row of an event."""
    if kind == "ndarray":
        return _to_numpy(output)
    if key:
        from pellucid.internal.data.outputs import refuse_other_keys

        refuse_other_keys(output, key, where, formats)
    if kind in ("Series", "DataFrame"):
        return _to_pandas(kind, output, first, rows, key, extra)

    schema = output_schema(output.type, output.name, _key_types(output, key))
    fields = event_fields(output.type, output.name)
    if kind == "dicts":
        found = output.keys if key and output.keys is not None else []  # else it may be that of a key_by
        kinds = _key_types(output, key)
        keys = dict(zip(key, zip(kinds.values(), parted(kinds.values(), found), strict=True), strict=True))
        return dict_rows(output, {n: keys[n] for n in keys if n in schema.names[: -len(fields)]}, extra, fields)
    batch = output_batch(output, schema, key=key)
    if kind == "polars":
        import polars as pl

        own = pl.from_arrow(pa.Table.from_batches([batch]))
        return pl.DataFrame(_between(list(own), [c.alias(n) for n, c in extra], len(fields)))
    if kind in ("RecordBatch", "Table"):
        names = _between(batch.schema.names, [n for n, _ in extra], len(fields))
        arrays = _between(batch.columns, [c for _, c in extra], len(fields))
        if kind == "Table":
            return pa.table(arrays, names=names) if extra else pa.Table.from_batches([batch])
        return pa.RecordBatch.from_arrays([one_array(array) for array in arrays], names=names) if extra else batch
    array = batch.to_struct_array() if isinstance(output.type, (RecordType, TupleType)) else batch.column(0)
    if kind == "polars Series":
        import polars as pl

        return pl.Series(output.name, pl.from_arrow(array))
    return pa.chunked_array([array]) if kind == "ChunkedArray" else array


def _between(columns: Any, extra: Any, event: int) -> list[Any]:
    """The key's columns, the passthrough columns, the event's columns."""
    at = len(columns) - event
    return [*columns[:at], *extra, *columns[at:]]


def shown_as(kind: str, column: Any) -> Any:
    """A column of any library in the form of a kind: for a result of several inputs."""

    if not isinstance(column, (pa.Array, pa.ChunkedArray)):
        column = column.to_arrow() if hasattr(column, "to_arrow") else pa.array(column, from_pandas=True)
    if kind == "dicts":
        return column.to_pylist()
    if kind == "DataFrame":
        return column.to_pandas().array
    if kind == "polars":
        import polars as pl

        return pl.Series(pl.from_arrow(column))
    return column


def numpy_type(t: Type) -> Any:
    """The NumPy type of an event: structured for a record.

    >>> numpy_type(TupleType((INT, FLOAT)))
    dtype([('0', '<i8'), ('1', '<f8')])
    """
    if isinstance(t, RecordType):
        return np.dtype([(name, numpy_type(inner)) for name, inner in t.fields])
    if isinstance(t, TupleType):
        return np.dtype([(str(i), numpy_type(inner)) for i, inner in enumerate(t.items)])
    if isinstance(t, TimeType):
        return np.dtype({DATE: "datetime64[D]", TIMEDELTA: "timedelta64[us]"}.get(t, "datetime64[us]"))
    kinds: dict[Type, Any] = {INT: np.int64, FLOAT: np.float64, BOOL: np.bool_}
    return np.dtype(kinds.get(t, np.object_))


def _plain(t: Type, columns: Iterator[Column]) -> Any:
    """A column as an array; texts as a NumPy text array, times as NumPy's, what may be missing as objects."""
    if isinstance(t, (OptionalType, DecimalType, EnumType, ListType)) or t == INSTANT:
        leaves = [next(columns) for _ in range(t.width)]
        return _filled(events_of(t, leaves))
    column = next(columns)
    if t == STR:
        texts = values_of(t, column)
        if not any(text.endswith("\0") for text in texts):  # NumPy takes such an end for filling
            return np.array(texts, dtype=np.str_)
        out = np.empty(len(texts), dtype=object)
        out[:] = texts
        return out
    if isinstance(t, TimeType):
        return np.asarray(column, dtype=np.int64).astype(numpy_type(t))
    return np.asarray(column, dtype=numpy_type(t))


def _filled(values: list[Any]) -> Any:
    """Any values as an array of objects, lists whole."""
    out = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        out[i] = value
    return out


def _to_numpy(output: Output) -> Any:
    t = output.type
    rest = iter(output.columns)
    if not isinstance(t, (RecordType, TupleType)):
        return _plain(t, rest)
    parts = [(path, _plain(kind, rest)) for path, kind in t.columns()]
    out = np.empty(len(output), dtype=_with_texts(t, iter([column for _, column in parts])))
    for path, column in parts:
        at = out
        for name in path.split("."):
            at = at[name]
        at[...] = column
    return out


def _with_texts(t: Type, columns: Any) -> Any:
    """The structured type in which a text field is as wide as its longest text."""
    if isinstance(t, RecordType):
        return np.dtype([(name, _with_texts(inner, columns)) for name, inner in t.fields])
    if isinstance(t, TupleType):
        return np.dtype([(str(i), _with_texts(inner, columns)) for i, inner in enumerate(t.items)])
    return next(columns).dtype


def _key_types(output: Output, key: Sequence[str]) -> dict[str, Type]:
    kinds = [kind for _, kind in output.key_type.columns()] if key and output.key_type is not None else []
    return dict(zip(key, kinds, strict=True))


def _to_pandas(kind: str, output: Output, first: Any, rows: Any, key: Sequence[str], extra: Along) -> Any:
    import pandas as pd

    index = first.index[rows] if not len(rows) or rows.min() >= 0 else None
    kinds = _key_types(output, key)
    own = output_schema(output.type, output.name, kinds).names  # refuses names that meet
    first_own = own[: len(own) - len(event_fields(output.type, output.name))]
    rest = iter(output.keys or [])
    keys = {name: _pandas_values(t, rest) for name, t in kinds.items()}
    series = {name: pd.Series(values, index=index, name=name) for name, values in keys.items() if name in first_own}
    series |= {name: pd.Series(column, index=index, name=name) for name, column in extra}
    rest = iter(output.columns)
    for name, t in event_fields(output.type, output.name):
        series[name] = pd.Series(_pandas_field(t, rest, len(output)), index=index, name=name)
    if kind == "Series" and len(series) == 1:
        return next(iter(series.values()))
    return pd.DataFrame(series, index=index)


def _pandas_field(t: Type, columns: Iterator[Column], count: int) -> Any:
    """A field of a record: a record in it is a dict, as Arrow's structs become in pandas."""

    fields = struct_fields(t)
    if fields is None:
        return _pandas_values(t, columns)
    parts = {name: _pandas_field(inner, columns, count) for name, inner in fields}
    rows = zip(*(_objects(part) for part in parts.values()), strict=True)
    return _filled([dict(zip(parts, row, strict=True)) for row in rows])


def _objects(values: Any) -> list[Any]:
    plain: list[Any] = values.tolist()
    return plain


def _pandas_values(t: Type, columns: Iterator[Column]) -> Any:
    """A column as pandas would have it: what is missing is NaN among floats, NA among ints, NaT among times."""
    import pandas as pd

    leaves = [next(columns) for _ in range(t.width)]
    inner = inner_type(t)
    if isinstance(inner, EnumType):
        return np.array([None if m is None else m.name for m in events_of(t, leaves)], dtype=object)
    if isinstance(inner, ListType):
        return _filled([plain_lists(inner, value) for value in events_of(t, leaves)])
    if inner == STR and int(pd.__version__.split(".")[0]) >= 3:  # before, "str" spells None and loses a last "\0"
        return pd.array(events_of(t, leaves), dtype="str")
    if isinstance(inner, DecimalType) or inner in (DATE, STR):
        return _filled(events_of(t, leaves))
    if isinstance(inner, TimeType):
        numbers = np.array(leaves[-1], dtype=np.int64)
        if isinstance(t, OptionalType):
            numbers[~np.asarray(leaves[0], dtype=bool)] = np.iinfo(np.int64).min  # NaT
        times = numbers.view("timedelta64[us]" if inner == TIMEDELTA else "datetime64[us]")
        return pd.array(times).tz_localize("UTC") if inner == INSTANT else times
    values = np.asarray(leaves[-1], dtype=numpy_type(inner))
    if not isinstance(t, OptionalType):
        return values
    gone = ~np.asarray(leaves[0], dtype=bool)
    if inner == FLOAT:
        return np.where(gone, np.nan, values)
    return (pd.arrays.IntegerArray if inner == INT else pd.arrays.BooleanArray)(values.copy(), gone)
