"""A DataFrame's columns as the leaves of a source, and leaves as the columns of an event.

In: each leaf is read from one column (or a field of a struct) as ``bigint``, ``double``, ``boolean`` or ``string``, an
enum as the name of its member.  What fits is what the local reader takes (`data.arrow`): a type that does not
fit is refused at once, from the schema; a null, a NaN or an unknown member fails where a row brings it.  A guard costs
a look at each value, so a column that cannot be null has none.

Out: a scalar is one column, a record its fields, a tuple its items behind the name; what is inside those is a struct.
The schema, the native columns and the kernels' Arrow arrays are made by one walk each over the type, in one order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pellucid.errors import DataError
from pellucid.internal.data.arrow import EXACT, check_kind, column_leaves, event_fields, no_whole, struct_fields
from pellucid.internal.data.bind import Binding, Place, no_nan
from pellucid.internal.data.cells import inner_type
from pellucid.internal.data.rich import rich_column
from pellucid.internal.expr.types import (
    BOOL,
    DATE,
    DATETIME,
    FLOAT,
    INSTANT,
    INT,
    TIMEDELTA,
    DecimalType,
    EnumType,
    ListType,
    OptionalType,
    TimeType,
    Type,
    simplest,
)
from pellucid.spark.column import MARK, NoColumn, NotNative, failure, native_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField, StructType


# ---------------------------------------------------------------- in


def never_null(c: Column, what: str, name: str, df: DataFrame) -> Column:
    """A column of the key or the order, which fails where a row has none."""
    from pyspark.sql import functions as F

    field = next((f for f in df.schema.fields if f.name == name), None)
    if field is not None and not field.nullable:
        return c
    give = "a key" if what == "key" else "an order"
    return F.coalesce(
        c,
        F.raise_error(
            F.lit(f"{MARK}DataError: the {what} column {name!r} is null: give every row {give}, or leave such rows out")
        ),
    )


@dataclass(frozen=True)
class FoundColumn:
    steps: tuple[str, ...]  # the column's name, then fields of structs
    type: Any  # the Spark type
    nullable: bool

    @property
    def column(self) -> Column:
        """Made when asked for: each one costs calls to the JVM."""
        column = column_of(self.steps[0])
        for step in self.steps[1:]:
            column = column.getField(step)
        return column


def column_of(name: str) -> Column:
    """The column of exactly this name, whatever is in it: a dot is no path here."""
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


def source_leaves(binding: Binding, schema: StructType, place: str, silent: bool = False) -> list[Column]:
    """The leaves of a source, one column each, with guards against what is no event.

    ``binding`` says which column feeds which leaf, as for a file.  With ``silent`` a row whose leaves are all null is
    no event (its leaves come out null); a row where only some are null fails in any case::

        source_leaves(bind("x", INT, ["x"], place="df"), df.schema, "df")   # [Column<'coalesce(x, raise_error(…))'>]
    """
    from pyspark.sql import functions as F

    found = [find(schema, path, place) for path in binding.columns]
    leaves: list[Any] = []
    for path, (_, t), f in zip(binding.columns, binding.type.columns(), found, strict=True):
        inner = inner_type(t)
        if isinstance(inner, (TimeType, DecimalType, ListType)):
            leaves += [NoColumn(f"reads {t} from the column {path!r}")] * t.width
            continue
        x = _as_enum(inner, f, path, place) if isinstance(inner, EnumType) else _as_scalar(t, f, path, place)
        if f.nullable and not silent and inner is t:
            x = F.coalesce(x, failure(f"{place}: column {path!r} {_no_null(t)}", t))
        if inner == FLOAT and f.type.typeName() in ("double", "float") and not binding.nan:
            x = F.nanvl(x, failure(f"{place}: column {path!r} is NaN: {no_nan(t)}", FLOAT))
        if inner is not t:
            leaves += [x.isNotNull(), F.coalesce(x, F.lit(_blank(inner)))]
        else:
            leaves.append(x)
    return _all_or_none(binding, found, leaves, place) if silent and len(leaves) > 1 else leaves


def plain_leaves(t: Type, paths: Sequence[str], columns: Sequence[str], schema: StructType) -> list[Any]:
    """The leaves of a source from the columns of a frame, without guards: for who only asks where a row belongs, and
    leaves it to others to refuse one that is no event::

        plain_leaves(INT, ["x"], ["v0_0"], frame.df.schema)   # [Column<'v0_0'>]
    """
    from pyspark.sql import functions as F

    leaves: list[Any] = []
    for path, (_, leaf), column in zip(paths, t.columns(), columns, strict=True):
        f, inner = find(schema, column, "the DataFrame"), inner_type(leaf)
        if isinstance(inner, (TimeType, DecimalType, ListType)):
            leaves += [NoColumn(f"reads {leaf} from the column {path!r}")] * leaf.width
            continue
        if isinstance(inner, EnumType):
            x = _as_enum(inner, f, path, "the DataFrame")
        else:
            x = _as_scalar(leaf, f, path, "the DataFrame")
        leaves += [x] if inner is leaf else [x.isNotNull(), F.coalesce(x, F.lit(_blank(inner)))]
    return leaves


def _no_null(t: Type) -> str:
    return f"is null: expected {t}; fill it, remove the row, or declare it as {t} | None"


def _blank(t: Type) -> Any:
    value = simplest(t)
    return value.name if isinstance(t, EnumType) else value


def check_columns(binding: Binding, schema: StructType, place: str) -> None:
    """Refuse a column whose type cannot hold what is read from it: from the schema, before any job."""
    import pyarrow as pa

    for path, (_, t) in zip(binding.columns, binding.type.columns(), strict=True):
        f, inner = find(schema, path, place), inner_type(t)
        if isinstance(inner, EnumType):
            _as_enum(inner, f, path, place)
        elif isinstance(inner, ListType):
            column_leaves(t, pa.array([], arrow_kind(f.type, path, place, t)), column=path, place=Place(place, str))
        elif not isinstance(inner, (TimeType, DecimalType)):
            _as_scalar(t, f, path, place)
        elif f.type.typeName() != "void":
            empty = pa.array([], arrow_kind(f.type, path, place, t))
            rich_column(inner, empty, path, Place(place, str), binding.formats.get(path))


def surely_events(binding: Binding, schema: StructType, place: str = "the DataFrame") -> list[bool]:
    """For each leaf, whether its column can only hold events, so that reading it never fails."""
    out = []
    for path, (_, t) in zip(binding.columns, binding.type.columns(), strict=True):
        found, inner = find(schema, path, place), inner_type(t)
        floats = inner == FLOAT and found.type.typeName() in ("double", "float") and not binding.nan
        floats = floats or _is_whole(t, found)
        sure = not (floats or isinstance(inner, (EnumType, TimeType, DecimalType, ListType)))
        out += [sure and not found.nullable] if inner is t else [sure, sure]
    return out


def find(schema: StructType, path: str, place: str) -> FoundColumn:
    """The column of this path: one of that name, or a field of a struct (of a struct …)."""
    fields = {f.name: f for f in schema.fields}
    if path in fields:
        return FoundColumn((path,), fields[path].dataType, fields[path].nullable)
    for i, c in enumerate(path):
        if c == "." and path[:i] in fields and fields[path[:i]].dataType.typeName() == "struct":
            f, rest = fields[path[:i]], path[i + 1 :]
            steps: tuple[str, ...] = (f.name,)
            nullable = f.nullable
            while rest:
                inner = {g.name: g for g in getattr(f.dataType, "fields", ())}
                step = next(
                    (n for n in sorted(inner, key=len, reverse=True) if rest == n or rest.startswith(n + ".")), None
                )
                if step is None:
                    break
                f, rest = inner[step], rest[len(step) + 1 :]
                steps, nullable = (*steps, step), nullable or f.nullable
            if not rest:
                return FoundColumn(steps, f.dataType, nullable)
    raise DataError(f"{place}: no column {path!r}: its columns are {', '.join(fields)}")


def arrow_kind(found: Any, column: str, place: str, t: Type) -> Any:
    """The Arrow type in which a worker gets a column of this Spark type."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    if found.typeName() == "timestamp":
        return pa.timestamp("us", tz="UTC")  # versions of Spark differ in how they are told the time zone
    if found.typeName() == "array":
        return pa.list_(arrow_kind(found.elementType, column, place, t))
    if found.typeName() == "struct":
        return pa.struct([(f.name, arrow_kind(f.dataType, column, place, t)) for f in found.fields])
    try:
        return to_arrow_type(found)
    except PySparkException:
        raise DataError(
            f"{place}: column {column!r} holds {found.simpleString()}: expected {t}; read it as {t}, or change the "
            "source's type"
        ) from None


def _is_whole(t: Type, f: FoundColumn) -> bool:
    """Whether these are floats that stand for ints with holes in between."""
    return t == OptionalType(INT) and f.type.typeName() in ("double", "float")


def _as_scalar(t: Type, f: FoundColumn, column: str, place: str) -> Column:
    kind = f.type.typeName()
    if _is_whole(t, f):
        from pyspark.sql import functions as F

        most, x = EXACT[kind], f.column
        before, after = no_whole("\0", most).split("\0")
        begin = F.lit(f"{MARK}{place}: column {column!r}: {before}")
        wrong = F.raise_error(F.concat(begin, x.cast("string"), F.lit(after))).cast("bigint")
        return F.when(x.isNull() | ((F.abs(x) <= most) & (F.rint(x) == x)), x.cast("bigint")).otherwise(wrong)
    t = inner_type(t)
    if kind != "void":
        check_kind(t, arrow_kind(f.type, column, place, t), column, Place(place, str))
    if kind == "boolean" and t == FLOAT:
        return f.column.cast("bigint").cast("double")
    # A cast that changes nothing costs nothing; one of a text drops its collation, which would compare differently.
    return f.column if f.type.simpleString() == native_type(t) else f.column.cast(native_type(t))


def _as_enum(t: EnumType, f: FoundColumn, column: str, place: str) -> Column:
    """Members by name, else by value; in texts also by a whole number's digits, like the local reader."""
    from pyspark.sql import functions as F

    kind, x = f.type.typeName(), f.column
    texts = kind in ("string", "char", "varchar")
    if kind == "void":
        return x.cast("string")
    if not texts and kind not in ("byte", "short", "integer", "long", "float", "double", "boolean"):
        raise DataError(
            f"{place}: column {column!r} holds {arrow_kind(f.type, column, place, t)}: expected {t}; "
            "give its members by name or by value"
        )
    known: dict[Any, str] = {}
    for m in t.members:
        if isinstance(m.value, int):
            known[str(m.value)] = m.name
    for m in t.members:
        if isinstance(m.value, (bool, int, float, str)):
            known[m.value] = m.name
    for m in t.members:
        known[m.name] = m.name
    found = F.raise_error(
        F.concat(F.lit(f"{MARK}{place}: column {column!r}: expected a member of {t} ({_names(t)}), "
                       "found "), x.cast("string"),
                 F.lit("; correct the value or remove the row"))
    )  # fmt: skip
    if texts:
        x = x.cast("string")  # without a collation
        names = [m.name for m in t.members]
        out = F.when(x.isNull() | x.isin(names), x)
        for key, name in known.items():
            if isinstance(key, str) and key not in names:
                out = out.when(x == F.lit(str(key)), F.lit(name))
        return out.otherwise(found)
    number = x.cast("double") if kind in ("float", "double") else x.cast("bigint")
    out = F.when(x.isNull(), F.lit(None).cast("string"))
    for key, name in known.items():
        if isinstance(key, str) or (kind not in ("float", "double") and key != int(key)):
            continue
        value = float(key) if kind in ("float", "double") else int(key)
        out = out.when(number == F.lit(value), F.lit(name))
    return out.otherwise(found)


def _names(t: EnumType) -> str:
    return ", ".join(m.name for m in t.members[:8]) + (", …" if len(t.members) > 8 else "")


def _all_or_none(binding: Binding, found: list[FoundColumn], leaves: list[Column], place: str) -> list[Column]:
    """A record is silent where all its leaves are null; where only some are, it is broken."""
    from pyspark.sql import functions as F

    empty = reduce(lambda a, b: a & b, [f.column.isNull() for f in found])
    out = []
    for path, (_, t), x in zip(binding.columns, binding.type.columns(), leaves, strict=True):
        message = (
            f"{place}: column {path!r} is null, but other columns of the source {binding.source!r} are not: "
            "give all of them, or none for silence"
        )
        out.append(F.when(empty, F.lit(None).cast(native_type(t))).otherwise(F.coalesce(x, failure(message, t))))
    return out


# ---------------------------------------------------------------- out


def event_columns(t: Type, name: str) -> list[StructField]:
    """The columns of an event of this type: ``name`` for a scalar, a record's fields, ``name_0`` … for a tuple.

    What is inside a field is a struct; the items of a tuple there are ``_0``, ``_1`` …::

        event_columns(TupleType((INT, FLOAT)), "out")   # out_0 bigint, out_1 double
    """
    from pyspark.sql import types as T

    scalars: dict[Type, Any] = {
        INT: T.LongType(),
        FLOAT: T.DoubleType(),
        BOOL: T.BooleanType(),
        DATETIME: T.TimestampNTZType(),
        INSTANT: T.TimestampType(),
        DATE: T.DateType(),
        TIMEDELTA: T.DayTimeIntervalType(),
    }

    def field(n: str, u: Type) -> Any:
        return T.StructField(n, spark_type(inner_type(u)), isinstance(u, OptionalType))

    def spark_type(u: Type) -> Any:
        fields = struct_fields(u)
        if isinstance(u, DecimalType):
            return T.DecimalType(19, u.places)
        if isinstance(u, ListType):
            return T.ArrayType(spark_type(inner_type(u.item)), isinstance(u.item, OptionalType))
        return scalars.get(u, T.StringType()) if fields is None else T.StructType([field(n, i) for n, i in fields])

    return [field(n, i) for n, i in event_fields(t, name)]


def pack(t: Type, leaves: Sequence[Column], name: str) -> list[Column]:
    """The columns of an event from its leaves, named as :func:`event_columns` has them."""
    from pyspark.sql import functions as F

    rest = iter(leaves)

    def build(u: Type) -> Column:
        if isinstance(u, OptionalType):
            there = next(rest)
            return F.when(there, build(u.inner))
        if isinstance(u, (TimeType, DecimalType, ListType)):
            raise NotNative(f"puts out {u}")
        fields = struct_fields(u)
        return next(rest) if fields is None else F.struct(*[build(i).alias(n) for n, i in fields])

    return [build(i).alias(n) for n, i in event_fields(t, name)]
