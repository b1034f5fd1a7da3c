"""A user's DataFrames as one frame with columns of our own names: what every plan starts from.

===========  =========================================================================
column       what it is
===========  =========================================================================
``b``        the bucket of the key (streaming only)
``k0, k1…``  the key's columns, as the user has them
``o0, o1…``  the order's columns
``c0, c1…``  passthrough columns (``keep=``)
``f``        the file that a row is from, where bad rows are reported (``bad=``)
``s``        the number of the source of a row, where each source has a DataFrame
``v0_0…``    the columns that feed the leaves of source 0, of source 1, …
===========  =========================================================================

Only columns that are needed are taken, so Spark reads no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.errors import DataError, UsageError, listener, nearest, option, speak_to
from pellucid.internal.data.bind import COLUMNS, bind, missing_keys
from pellucid.internal.data.cells import check_formats
from pellucid.internal.data.feed import source_types
from pellucid.internal.expr.types import BOOL, INT, STR, OptionalType, TupleType, Type
from pellucid.internal.graph.model import Graph
from pellucid.spark.daemon import modules_stay
from pellucid.spark.reading import check_columns, event_columns, find

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
    formats: tuple[tuple[str, str], ...] = ()  # for columns of times written as text: their format


@dataclass(frozen=True)
class Fields:
    """What the columns of a frame mean: all that a worker needs to know of them."""

    sources: tuple[FrameSource, ...]
    key: tuple[tuple[str, Type], ...] = ()
    order: tuple[tuple[str, Type], ...] = ()
    tagged: bool = False  # a row belongs to one source, and `s` says which
    wide: bool = False  # a row holds all sources, and null is silence
    along: tuple[str, ...] = ()  # passthrough columns, by the user's names
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
        """The names in the frame of the passthrough columns."""
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
    along: tuple[tuple[str, DataType], ...] = ()  # passthrough columns, by the user's names


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
    """The collation of a text column that Spark does not compare byte by byte."""
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
    """The same for an event: text without its collation, so that Spark's expressions compare it as the engine does."""
    found = find(schema, path, "the DataFrame")
    return found.column.cast("string") if _collation(found.type) else found.column


def _type_at(schema: StructType, path: str) -> DataType:
    found: DataType = find(schema, path, "the DataFrame").type
    return found


# What is shipped to the workers: the pipeline, what the frame's columns mean, what is to come out.
#
# A job travels as bytes and is unpacked once in each worker process, however many tasks it runs there.

LATE = "late"  # the name of the output that late rows go to
BAD = "bad"  # and of the one for rows that are set aside
FILE = "f"  # the column of a frame that says which file a row is from


@dataclass(frozen=True)
class Late:
    """What is done about rows that are not in order (see `pellucid.spark.step`)."""

    policy: str = "fail"  # or "drop", "keep"
    wait: int = 0  # how far the order must have gone on before a row is applied
    sequence: int | None = None
    gaps: str = "fail"  # or "wait"

    def __post_init__(self) -> None:
        if self.policy not in ("fail", "drop", "keep"):
            raise UsageError(f"{option('late')} must be 'fail', 'drop' or 'keep', found {self.policy!r}")
        if isinstance(self.wait, bool) or not isinstance(self.wait, int) or self.wait < 0:
            raise UsageError(
                f"{option('wait')} must not be negative, and in whole units of the order column, found {self.wait!r}"
            )


class Met(NamedTuple):
    """A column of the key or the order with the name of an event's field: both must be the same."""

    what: str  # "key" or "order"
    name: str
    column: str  # of the frame
    form: str | None = None  # for times written as text

    @property
    def formats(self) -> dict[str, str]:
        """By the name of the column."""
        return {} if self.form is None else {self.name: self.form}


@dataclass(frozen=True)
class SparkJob:
    """The work of one task."""

    graph: Graph
    fields: Fields
    outputs: tuple[tuple[str, Type], ...]  # those that are wanted
    kept: tuple[
        tuple[str, str], ...
    ]  # (the user's name, the column of the frame), of key and order, and of what passes through
    external: bool = True  # the key comes with the data, and the whole pipeline runs once for each
    ordered: bool = True  # rows come in order, and are judged
    late: Late = Late()
    nth: str | None = None  # the column that numbers the events of one push
    tag: str | None = None  # the column that says which output an event is of
    engine: str = "auto"  # the engine's mode
    met: tuple[Met, ...] = ()  # columns of key and order that the event has itself: they appear once
    bad: str = "fail"  # or rows that cannot be read, or on which a step fails: left out ("drop"), or reported ("keep")
    asked: str = (
        ""  # the digest of the pipeline as the user has it, which stays when its first steps are cut off (`prefix.cut`)
    )

    def __post_init__(self) -> None:
        if not self.asked:
            object.__setattr__(self, "asked", self.graph.digest)
        first = dict(self.fields.types).get("o0", "bigint")
        if self.late.sequence is not None and first.startswith(("date", "timestamp")):
            raise UsageError(
                f"{option('sequence')} needs {option('order')} to be one column of whole numbers, but "
                f"{self.fields.order[0][0]!r} is a {first}"
            )

    @property
    def front(self) -> str:
        """What was applied to the rows before they got here; empty if they come as the user has them."""
        return "" if self.asked == self.graph.digest else self.asked

    @property
    def counted(self) -> bool:
        """Whether the engine's count of pushes is the stream's: it gets every push, as it came, in order (a chunk knows
        how many came before it)."""
        return self.ordered and not self.fields.key and not self.front


def packed(job: SparkJob) -> bytes:
    """The job as bytes; functions of modules that executors do not have go along."""
    from pyspark import cloudpickle

    _ = job.graph.digest  # goes along: what opaque functions call and read is found here, where the user's files are
    try:
        return cloudpickle.dumps((listener(), job))  # type: ignore[no-any-return]
    except Exception as error:
        raise UsageError(
            f"{job.graph.name} cannot be sent to Spark's workers: {error}; one of its functions holds something that "
            "cannot be pickled, such as an open file or a connection"
        ) from None


def unpacked(data: bytes) -> SparkJob:
    """The job again; asked for when a task begins."""
    modules_stay()
    return _unpacked(data)


@lru_cache(maxsize=32)
def _unpacked(data: bytes) -> SparkJob:
    import pickle

    who, job = pickle.loads(data)
    speak_to(who)  # a worker's messages are read where the job came from
    return job  # type: ignore[no-any-return]


def output_schema(job: SparkJob, frame: Frame) -> StructType:
    """The schema of what comes out: key, order, output, number, events."""
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    types, along = dict(frame.kept), dict(frame.along)
    bad = job.bad == "keep"  # a bad row may have no key
    nulls = {*along, *(name for name, column in job.kept if bad or column in job.fields.missing)}
    fields = [StructField(name, along[name] if name in along else types[name], name in nulls) for name, _ in job.kept]
    if job.tag is not None:
        fields.append(StructField(job.tag, StringType(), False))
    if job.nth is not None:
        fields.append(StructField(job.nth, IntegerType(), False))
    for name, t in job.outputs:
        if job.tag is None:
            fields += event_columns(t, name)
            continue
        inner = event_columns(t, name)
        scalar = len(inner) == 1 and inner[0].name == name
        fields.append(StructField(name, inner[0].dataType if scalar else StructType(inner), True))
    if job.late.policy == "keep":
        fields.append(StructField(LATE, late_struct(job, frame), True))
    if bad:
        texts = [StructField(name, LongType() if name == "row" else StringType(), True) for name in COLUMNS]
        fields.append(StructField(BAD, StructType(texts), True))
    return StructType(fields)


def late_struct(job: SparkJob, frame: Frame) -> StructType:
    """A late row as it came in: the columns of its source."""
    from pyspark.sql.types import StructField, StructType

    types: dict[str, Any] = {f.name: f.dataType for f in frame.df.schema.fields}
    return StructType([StructField(name, types[column], True) for name, column in late_columns(job.fields)])


def late_columns(fields: Fields) -> list[tuple[str, str]]:
    """(name, column of the frame) of what a late row holds besides key and order.

    >>> from pellucid.internal.expr.types import INT
    >>> from pellucid.spark.frames import FrameSource
    >>> late_columns(Fields((FrameSource("x", INT, ("v",)),)))
    [('v', 'v0_0')]
    """
    out: list[tuple[str, str]] = []
    for s, source in enumerate(fields.sources):
        for path, column in zip(source.columns, fields.values(s), strict=True):
            name = path if len(fields.sources) == 1 else f"{source.name}_{path}"
            out.append((name.replace(".", "_"), column))
    return out
