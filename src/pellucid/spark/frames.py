"""A user's DataFrames as one frame with columns of our own names: what every plan starts from.

===========  =========================================================================
column       what it is
===========  =========================================================================
``b``        the bucket of the key (streaming only)
``k0, k1…``  the key's columns, as the user has them
``o0, o1…``  the order's columns
``c0, c1…``  columns that come along (``keep=``)
``f``        the file that a row is from, where bad rows are told (``bad=``)
``s``        the number of the source that a row is of, where each source has a DataFrame
``v0_0…``    the columns that feed the leaves of source 0, of source 1, …
===========  =========================================================================

Only columns that are needed are taken, so Spark reads no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError, UsageError, nearest, option
from pellucid.internal.data.bind import bind, missing_keys
from pellucid.internal.data.feed import source_types
from pellucid.internal.data.formats.times import check_formats
from pellucid.internal.expr.types import BOOL, INT, STR, OptionalType, TupleType, Type
from pellucid.internal.graph.model import Graph
from pellucid.spark.reading import check_columns, find

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


@dataclass(frozen=True)
class FrameSource:
    """A source and the user's columns that feed its leaves."""

    name: str
    type: Type
    columns: tuple[str, ...]
    nan: bool = False  # whether NaN is a value of its floats
    formats: tuple[tuple[str, str], ...] = ()  # of columns of times in texts: their form


@dataclass(frozen=True)
class Fields:
    """What the columns of a frame mean: all that a worker needs to know of them."""

    sources: tuple[FrameSource, ...]
    key: tuple[tuple[str, Type], ...] = ()
    order: tuple[tuple[str, Type], ...] = ()
    tagged: bool = False  # a row is of one source, and `s` says of which
    wide: bool = False  # a row holds all sources, and null is silence
    along: tuple[str, ...] = ()  # columns that come along, by the user's names
    types: tuple[
        tuple[str, str], ...
    ] = ()  # (column of the frame, the type that Spark has for it in the user's DataFrame)

    @property
    def key_type(self) -> Type | None:
        """The key as an engine takes it."""
        kinds = tuple(t for _, t in self.key)
        return None if not kinds else kinds[0] if len(kinds) == 1 else TupleType(kinds)

    @property
    def keys(self) -> list[str]:
        """The names of the key's columns in the frame."""
        return [f"k{i}" for i in range(len(self.key))]

    @property
    def orders(self) -> list[str]:
        """The names of the order's columns in the frame."""
        return [f"o{i}" for i in range(len(self.order))]

    @property
    def keeps(self) -> list[str]:
        """The names in the frame of the columns that come along."""
        return [f"c{i}" for i in range(len(self.along))]

    @property
    def missing(self) -> list[str]:
        """The names in the frame of the key's columns in which null is a key."""
        return [c for c, (_, t) in zip(self.keys, self.key, strict=True) if isinstance(t, OptionalType)]

    def values(self, s: int) -> list[str]:
        """The names of a source's columns in the frame."""
        return [f"v{s}_{j}" for j in range(len(self.sources[s].columns))]


@dataclass(frozen=True)
class Frame:
    """A DataFrame with the columns above, what they mean, and the users' types of key and order."""

    df: DataFrame
    fields: Fields
    kept: tuple[tuple[str, DataType], ...]  # key and order, by the user's names
    raw: DataFrame  # the first of the user's own
    columns: tuple[Column, ...]  # what was selected from it
    along: tuple[tuple[str, DataType], ...] = ()  # columns that come along, by the user's names


def one_frame(
    graph: Graph,
    frames: Mapping[str | None, DataFrame],
    *,
    value: str | Mapping[str, str] | None,
    key: Sequence[str],
    order: Sequence[str],
    keep: Sequence[str] = (),
    nan: bool = False,
    files: bool = False,
    formats: Mapping[str, str] = MappingProxyType({}),
) -> Frame:
    """The frame of all sources; ``frames`` maps sources to DataFrames, or None to one that holds all of them."""
    from pyspark.sql import functions as F

    types = source_types(graph)
    values = _values(graph.name, types, value)
    wide = None in frames and len(types) > 1
    if None in frames and not wide:
        frames = {next(iter(types)): frames[None]}
    _check_sources(graph.name, types, frames, wide)
    parts: list[tuple[DataFrame, list[FrameSource], str]] = []
    if wide:
        df = frames[None]
        place = "the DataFrame"
        found = [_source(s, t, df, place, values.get(s), key, order, wide, formats, nan) for s, t in types.items()]
        parts.append((df, found, place))
    else:
        for s, t in types.items():
            place = "the DataFrame" if len(types) == 1 else f"the DataFrame of source {s!r}"
            source = _source(s, t, frames[s], place, values.get(s), key, order, wide, formats, nan)
            parts.append((frames[s], [source], place))
    for df, mine, place in parts:
        _refuse_twins(df, [*key, *order, *keep, *(path for source in mine for path in source.columns)], place)
    keys = _leaves(parts, key, "key", key_leaf)
    orders = _leaves(parts, order, "order", order_leaf)
    sources = tuple(source for _, found, _ in parts for source in found)
    read = [pair for s in sources for pair in zip(s.columns, (t for _, t in s.type.columns()), strict=True)]
    check_formats(formats, read, graph.name)
    for name in order:
        if name in formats:
            raise UsageError(
                f"{option('order')}: the column {name!r} is a text on Spark, and would be put in order as one: make a "
                "timestamp of it first, as in df.withColumn(…, F.to_timestamp(…))"
            )
    missing = missing_keys(read, key)
    keys = tuple((name, OptionalType(t) if name in missing else t) for name, t in keys)
    first = parts[0][0].schema
    kept = tuple((name, _type_at(first, name)) for name in [*key, *order])
    owners = [df.schema for df, found, _ in parts for _ in found]  # of each source, the schema that it is read from
    names = [*(f"k{i}" for i in range(len(key))), *(f"o{i}" for i in range(len(order)))]
    along = tuple((name, first[name].dataType) for name in keep)
    names += [f"c{i}" for i in range(len(along))]
    held = [(name, t.simpleString()) for name, (_, t) in zip(names, (*kept, *along), strict=True)]
    held += [
        (f"v{at}_{j}", _type_at(owners[at], path).simpleString())
        for at, s in enumerate(sources)
        for j, path in enumerate(s.columns)
    ]
    fields = Fields(sources, keys, orders, tagged=len(parts) > 1, wide=wide, along=tuple(keep), types=tuple(held))
    selected: list[DataFrame] = []
    chosen: tuple[Column, ...] = ()
    for number, (df, found, _) in enumerate(parts):
        columns = [column_at(df.schema, name).alias(f"k{i}") for i, name in enumerate(key)]
        columns += [column_at(df.schema, name).alias(f"o{i}") for i, name in enumerate(order)]
        columns += [df[f"`{name}`"].alias(f"c{i}") for i, name in enumerate(keep)]
        if files:
            columns.append(F.input_file_name().alias("f"))
        if fields.tagged:
            columns.append(F.lit(number).alias("s"))
        for at, source in enumerate(sources):
            for j, path in enumerate(source.columns):
                if source in found:
                    columns.append(_value_at(df.schema, path).alias(f"v{at}_{j}"))
                else:
                    there = _type_at(owners[at], path)
                    columns.append(F.lit(None).cast("string" if _collation(there) else there).alias(f"v{at}_{j}"))
        chosen = chosen or tuple(columns)
        selected.append(df.select(*columns))
    whole = selected[0]
    for more in selected[1:]:
        whole = whole.unionByName(more)
    return Frame(whole, fields, kept, parts[0][0], chosen, along)


def case_counts(df: DataFrame) -> bool:
    """Whether this Spark tells columns apart that differ only in case."""
    return str(df.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def _refuse_twins(df: DataFrame, paths: Sequence[str], place: str) -> None:
    """Two columns that differ only in case are one to Spark, and it cannot say which is meant."""
    if case_counts(df):
        return
    names = list(df.columns)
    for path in paths:
        name = path if path in names else path.split(".")[0]
        twin = next((other for other in names if other != name and other.lower() == name.lower()), None)
        if twin is not None and name in names:
            raise DataError(
                f"{place}: the columns {name!r} and {twin!r} differ only in case, which Spark does not tell apart: "
                "rename one, or drop it"
            )


def _values(name: str, types: Mapping[str, Type], value: str | Mapping[str, str] | None) -> dict[str, str]:
    if value is None:
        return {}
    if isinstance(value, str):
        if len(types) > 1:
            raise UsageError(
                f"{name} has several sources ({', '.join(types)}): say which column is for which, as in "
                f"value={{{next(iter(types))!r}: {value!r}, …}}"
            )
        value = {next(iter(types)): value}
    for source in value:
        if source not in types:
            raise UsageError(
                f"{option('value')}: {name} has no source {source!r}: it has {', '.join(types)}"
                f"{nearest(source, list(types))}"
            )
        if [path for path, _ in types[source].columns()] != [""]:
            raise UsageError(
                f"{option('value')} names one column, but the source {source!r} is a record {types[source]}: it reads "
                f"{', '.join(path for path, _ in types[source].columns())}; leave {option('value')} out"
            )
    return dict(value)


def _check_sources(name: str, types: Mapping[str, Type], frames: Mapping[str | None, Any], wide: bool) -> None:
    for source, df in frames.items():
        if source not in types and not wide:
            raise UsageError(
                f"{name} has no source {source!r}: it has {', '.join(types)}{nearest(str(source), list(types))}"
            )
        if not hasattr(df, "isStreaming") or not hasattr(df, "select"):
            raise UsageError(
                f"{name}.spark wants a Spark DataFrame, found {type(df).__module__}.{type(df).__qualname__}"
            )
    missing = [s for s in types if s not in frames and not wide]
    if missing:
        raise UsageError(f"{name} has {len(types)} sources ({', '.join(types)}): no DataFrame for {', '.join(missing)}")
    if len({df.isStreaming for df in frames.values()}) > 1:
        raise UsageError(f"{name}: some DataFrames are streams and some are not: give all of one kind")


def _source(
    name: str,
    t: Type,
    df: DataFrame,
    place: str,
    value: str | None,
    key: Sequence[str],
    order: Sequence[str],
    wide: bool,
    formats: Mapping[str, str],
    nan: bool,
) -> FrameSource:
    names = column_names(df.schema)
    scalar = [path for path, _ in t.columns()] == [""]
    if scalar and value is None and not wide:
        names = [n for n in names if n not in key and n not in order] or names
    bound = bind(name, t, names, place=place, value=value, wide=wide)
    mine = {column: form for column, form in formats.items() if column in bound.columns}
    # a column of the wrong type is refused here, before any job
    check_columns(replace(bound, formats=mine), df.schema, place)
    return FrameSource(name, t, bound.columns, nan, tuple(mine.items()))


def _leaves(parts: Any, names: Sequence[str], what: str, leaf: Any) -> tuple[tuple[str, Type], ...]:
    """The types of key or order columns; they must be the same in all DataFrames."""
    out: list[tuple[str, Type]] = []
    for df, _, place in parts:
        known = column_names(df.schema)
        for i, name in enumerate(names):
            if name not in known:
                raise DataError(
                    f"{place}: no {what} column {name!r}: its columns are {', '.join(known)}{nearest(name, known)}"
                )
            found = _type_at(df.schema, name)
            t = leaf(found, name, place)
            if len(out) <= i:
                out.append((name, t))
            elif found != _type_at(parts[0][0].schema, name):
                first = _type_at(parts[0][0].schema, name)
                raise DataError(
                    f"{place}: the {what} column {name!r} is {found.simpleString()}, but {first.simpleString()} in "
                    f"{parts[0][2]}: cast one of them"
                )
    return tuple(out)


def key_leaf(found: DataType, name: str, place: str) -> Type:
    """How an engine keeps a key of this Spark type."""
    kind = type(found).__name__
    _refuse_collation(found, "key", name, place)
    if kind in _WHOLE:
        return INT
    if kind == "BooleanType":
        return BOOL
    if kind in _TEXT or kind == "DecimalType":
        return STR
    hint = {
        "FloatType": "round it, or cast it to string", "DoubleType": "round it, or cast it to "
                                                                     "string", "BinaryType": "take hex() of it",
        "StructType": f"name its fields, as in key=['{name}.field']",
    }.get(kind, "cast it to string")  # fmt: skip
    raise DataError(
        f"{place}: the key column {name!r} is {found.simpleString()}: a key is a whole number, a text, a truth value, "
        f"a date, a timestamp or a decimal; {hint}"
    )


def order_leaf(found: DataType, name: str, place: str) -> Type:
    """How an engine keeps an order of this Spark type."""
    kind = type(found).__name__
    _refuse_collation(found, "order", name, place)
    if kind in _WHOLE:
        return INT
    if kind in _TEXT:
        return STR
    scaled = "count in smaller units, as in (c * 1000).cast('bigint'), so that no two rows become equal"
    hint = {
        "BinaryType": "take hex() of it", "StructType": f"name its fields, as in order=['{name}.field']",
        "DecimalType": scaled, "FloatType": scaled, "DoubleType": scaled,
    }.get(kind, "cast it to bigint")  # fmt: skip
    raise DataError(
        f"{place}: the order column {name!r} is {found.simpleString()}: expected a whole number, a date, a timestamp "
        f"or a text; {hint}"
    )


def _collation(found: DataType) -> str | None:
    """The collation of a text that Spark does not compare by its bytes."""
    name = getattr(found, "collation", None)
    return None if name in (None, "UTF8_BINARY") else str(name)


def _refuse_collation(found: DataType, what: str, name: str, place: str) -> None:
    """Spark would send to one place, or put in one order, what the engine keeps apart, and the other way round."""
    collation = _collation(found)
    if collation:
        raise DataError(
            f"{place}: the {what} column {name!r} has the collation {collation}: Spark compares such texts in its own "
            "way, and Pellucid compares all texts character by character; cast it to string, or take lower() of it and "
            "cast that, so that case does not count"
        )


_WHOLE = {"ByteType", "ShortType", "IntegerType", "LongType", "DateType", "TimestampType", "TimestampNTZType"}
_TEXT = {"StringType", "VarcharType", "CharType"}


# ------------------------------------------------------------------ columns by name


def column_names(schema: StructType) -> list[str]:
    """The columns of a schema; a struct also by the dotted paths of its fields."""
    out: list[str] = []

    def visit(prefix: str, struct: StructType) -> None:
        for field in struct.fields:
            path = f"{prefix}{field.name}"
            out.append(path)
            if type(field.dataType).__name__ == "StructType":
                visit(path + ".", field.dataType)

    visit("", schema)
    return out


def column_at(schema: StructType, path: str) -> Column:
    """The column, or the field of a struct column, at this path."""
    return find(schema, path, "the DataFrame").column


def _value_at(schema: StructType, path: str) -> Column:
    """The same of an event: a text without its collation, so that Spark's expressions compare it as the engine does."""
    found = find(schema, path, "the DataFrame")
    return found.column.cast("string") if _collation(found.type) else found.column


def _type_at(schema: StructType, path: str) -> DataType:
    found: DataType = find(schema, path, "the DataFrame").type
    return found
