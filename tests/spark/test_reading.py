"""Columns as leaves and leaves as columns: what fits, what is refused, and in which words."""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pellucid.errors import DataError
from pellucid.internal.data.arrow import event_arrays, leaf_column, output_schema
from pellucid.internal.data.bind import Binding, Place
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, TupleType, Type, type_of
from pellucid.spark.reading import event_columns, pack, source_leaves, surely_events

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


class Side(enum.Enum):
    BUY = "b"
    SELL = 2
    HOLD = True
    BOTH = "BUY"  # its value is another's name: names come first


class Inner(NamedTuple):
    a: int
    side: Side


class Outer(NamedTuple):
    inner: Inner
    pair: tuple[float, bool]
    name: str


SIDE, OUTER = type_of(Side), type_of(Outer)


def read(spark: SparkSession, t: Type, rows: list[Any], schema: str, *columns: str, silent: bool = False) -> list[Any]:
    df = spark.createDataFrame([(r,) for r in rows] if not isinstance(rows[0], tuple) else rows, schema)
    leaves = source_leaves(Binding("x", t, columns or ("x",)), df.schema, "df", silent)
    found: list[Row] = df.select(*[c.alias(f"c{i}") for i, c in enumerate(leaves)]).collect()
    return [r[0] if len(leaves) == 1 else tuple(r) for r in found]


@pytest.mark.parametrize(
    ("t", "kind", "values", "want"),
    [
        (INT, "tinyint", [1, -1], [1, -1]),
        (INT, "int", [2**31 - 1], [2**31 - 1]),
        (INT, "boolean", [True, False], [1, 0]),
        (FLOAT, "bigint", [2**53 + 1, -3], [float(2**53), -3.0]),
        (FLOAT, "float", [0.5, math.inf], [0.5, math.inf]),
        (FLOAT, "boolean", [True], [1.0]),
        (BOOL, "boolean", [True, False], [True, False]),
        (STR, "string", ["\U0001f600", ""], ["\U0001f600", ""]),
        (STR, "string collate UTF8_LCASE", ["A"], ["A"]),
        (SIDE, "string", ["BUY", "b", "2", "SELL", "HOLD"], ["BUY", "BUY", "SELL", "SELL", "HOLD"]),
        (SIDE, "bigint", [2, 1], ["SELL", "HOLD"]),
        (SIDE, "double", [2.0, 1.0], ["SELL", "HOLD"]),
        (SIDE, "boolean", [True], ["HOLD"]),
    ],
)
def test_what_fits(spark: SparkSession, t: Type, kind: str, values: list[Any], want: list[Any]) -> None:
    got = read(spark, t, values, f"x {kind}")
    assert [repr(v) for v in got] == [repr(v) for v in want]


@pytest.mark.parametrize("kind", ["string", "bigint", "double", "boolean"])
def test_members_are_those_of_the_local_reader(spark: SparkSession, kind: str) -> None:
    import pyarrow as pa

    values: list[Any] = {
        "string": ["BUY", "SELL", "HOLD", "BOTH", "b", "2", "True"],
        "bigint": [1, 2],
        "double": [1.0, 2.0],
        "boolean": [True],
    }[kind]
    codes, _ = leaf_column(SIDE, pa.array(values), column="x", place=Place("df", str))
    members = list(Side)
    assert read(spark, SIDE, values, f"x {kind}") == [members[int(c)].name for c in codes]


@pytest.mark.parametrize(
    ("t", "kind", "value", "message"),
    [
        (
            INT,
            "int",
            None,
            "df: column 'x' is null: expected int; fill it, remove the row, or declare it as int | None",
        ),
        (
            STR,
            "string",
            None,
            "df: column 'x' is null: expected str; fill it, remove the row, or declare it as str | None",
        ),
        (
            SIDE,
            "string",
            None,
            "df: column 'x' is null: expected Side; fill it, remove the row, or declare it as Side | None",
        ),
        (
            INT,
            "void",
            None,
            "df: column 'x' is null: expected int; fill it, remove the row, or declare it as int | None",
        ),
        (
            FLOAT,
            "double",
            math.nan,
            "df: column 'x' is NaN: NaN is no event, as it equals nothing, not even itself: say nan='keep'",
        ),
        (FLOAT, "float", math.nan, "df: column 'x' is NaN"),
        (
            SIDE,
            "string",
            "buy",
            r"df: column 'x': expected a member of Side \(BUY, SELL, HOLD, BOTH\), found buy; correct the value",
        ),
        (SIDE, "bigint", 7, r"expected a member of Side \(BUY, SELL, HOLD, BOTH\), found 7; correct the value"),
    ],
)
def test_what_a_row_must_not_hold(spark: SparkSession, t: Type, kind: str, value: Any, message: str) -> None:
    with pytest.raises(Exception, match=r"\[pellucid\] .*" + message.removeprefix("df: ")):
        read(spark, t, [value], f"x {kind}")


@pytest.mark.parametrize(
    ("t", "kind", "message"),
    [
        (
            INT,
            "double",
            "df: column 'x' holds double: expected int; cast it to int64 first, or make the source float; "
            "if they are whole numbers with holes, int | None",
        ),
        (INT, "string", "df: column 'x' holds string: expected int; read it as int, or change the source's type"),
        (
            INT,
            "timestamp",
            "df: column 'x' holds timestamp[us, tz=UTC]: expected int; cast it to int64 first, so that its unit is "
            "your choice",
        ),
        (
            FLOAT,
            "decimal(10,2)",
            "df: column 'x' holds decimal128(10, 2): expected float; cast it to float64 or to whole cents as int64 "
            "first",
        ),
        (BOOL, "int", "df: column 'x' holds int32: expected bool; read it as bool, or change the source's type"),
        (STR, "binary", "df: column 'x' holds binary: expected str; read it as str, or change the source's type"),
        (SIDE, "date", "df: column 'x' holds date32[day]: expected Side; give its members by name or by value"),
    ],
)
def test_types_that_do_not_fit_are_refused_at_once(spark: SparkSession, t: Type, kind: str, message: str) -> None:
    schema = spark.createDataFrame([], f"x {kind}").schema
    with pytest.raises(DataError) as error:
        source_leaves(Binding("x", t, ("x",)), schema, "df")
    assert str(error.value) == message


def test_a_missing_column_is_named(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="df: no column 'y': its columns are x"):
        source_leaves(Binding("x", INT, ("y",)), spark.createDataFrame([], "x int").schema, "df")


def test_names_with_dots_backticks_and_struct_fields(spark: SparkSession) -> None:
    schema = "`a.b` bigint, `c``d` bigint, s struct<`e.f`: struct<g: int>, h: bigint>"
    rows = [(1, 2, ((3,), 4))]
    assert read(spark, INT, rows, schema, "a.b") == [1]
    assert read(spark, INT, rows, schema, "c`d") == [2]
    assert read(spark, INT, rows, schema, "s.e.f.g") == [3]
    assert read(spark, INT, rows, schema, "s.h") == [4]
    with pytest.raises(Exception, match=r"column 's.h' is null"):
        read(spark, INT, [(1, 2, None)], schema, "s.h")


def test_a_silent_row_has_all_leaves_null_or_none(spark: SparkSession) -> None:
    pair = TupleType((INT, FLOAT))
    schema = "a bigint, b double"
    assert read(spark, pair, [(1, 2.0), (None, None)], schema, "a", "b", silent=True) == [(1, 2.0), (None, None)]
    assert read(spark, INT, [1, None], "x bigint", silent=True) == [1, None]
    with pytest.raises(
        Exception, match="column 'b' is null, but other columns of the source 'x' are not: give all of them"
    ):
        read(spark, pair, [(1, None)], schema, "a", "b", silent=True)
    with pytest.raises(Exception, match="column 'b' is NaN"):
        read(spark, pair, [(1, math.nan)], schema, "a", "b", silent=True)


def test_a_guard_only_where_it_is_needed(spark: SparkSession) -> None:
    schema = spark.createDataFrame(
        [], "a bigint not null, b bigint, f double not null, s struct<c: bigint not null>"
    ).schema
    t = TupleType((INT, INT, FLOAT, INT))
    binding = Binding("x", t, ("a", "b", "f", "s.c"))
    assert surely_events(binding, schema) == [True, False, False, False]
    texts = [str(c) for c in source_leaves(binding, schema, "df")]
    assert ["raise_error" in text for text in texts] == [False, True, True, True]


# ---------------------------------------------------------------- out


@pytest.mark.parametrize(
    ("t", "names"),
    [
        (INT, ["out"]),
        (TupleType((INT, TupleType((BOOL, STR)))), ["out_0", "out_1"]),
        (OUTER, ["inner", "pair", "name"]),
        (SIDE, ["out"]),
    ],
)
def test_schema_native_columns_and_arrow_agree(spark: SparkSession, t: Type, names: list[str]) -> None:
    import pyarrow as pa
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    sample: dict[Type, Any] = {INT: 5, FLOAT: 0.5, BOOL: True, STR: "a"}
    kinds: dict[Type, Any] = {INT: pa.int64(), FLOAT: pa.float64(), BOOL: pa.bool_()}
    values = [sample.get(k, "BUY") for _, k in t.leaves()]
    schema = StructType(event_columns(t, "out"))
    assert schema.names == names
    native = spark.range(1).select(
        *pack(t, [F.lit(v).cast("bigint") if type(v) is int else F.lit(v) for v in values], "out")
    )
    arrays = [pa.array([v], kinds.get(k, pa.string())) for v, (_, k) in zip(values, t.leaves(), strict=True)]
    made_names, made = event_arrays(t, "out", arrays)
    table = pa.table(made, names=made_names)
    assert native.schema.simpleString() == schema.simpleString() == from_arrow_schema(table.schema).simpleString()
    assert table.schema.equals(output_schema(t, "out"))  # what the local engine writes
    assert [r.asDict(recursive=True) for r in native.collect()] == table.to_pylist()


def test_names_inside_are_those_of_the_fields(spark: SparkSession) -> None:
    from pyspark.sql.types import StructType

    text = StructType(event_columns(OUTER, "out")).simpleString()
    assert text == "struct<inner:struct<a:bigint,side:string>,pair:struct<_0:double,_1:boolean>,name:string>"
