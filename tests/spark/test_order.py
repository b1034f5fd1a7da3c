"""Keys and orders: which columns can be one, how rows out of order are told, and how long to wait for them."""

from __future__ import annotations

import datetime
import json
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pellucid import DataError, UsageError, apply, pipeline
from pellucid.internal.expr.types import BOOL, INT, STR, Type
from pellucid.spark.api import _wait
from pellucid.spark.failure import explain
from pellucid.spark.frames import Fields, Frame, FrameSource, Late, SparkJob, key_leaf, order_leaf
from pellucid.spark.step import Judge, Runner
from pellucid.spark.stream import Bucket, run_bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOTAL = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
AHEAD = "; choose late='drop' or late='keep', or allow for it with wait= (in a stream)"


def refusal(
    *batches: list[tuple[Any, ...]],
    key: Any = None,
    order: Any = None,
    types: tuple[Type, Type] = (STR, INT),
    **late: Any,
) -> str:
    """What is said of the last of some micro-batches of (user, at)."""
    fields = Fields((FrameSource("x", INT, ("x",)),), (("user", types[0]),), (("at", types[1]),))
    job = SparkJob(TOTAL.graph, fields, (("out", INT),), (("user", "k0"), ("at", "o0")), late=Late(**late))
    bucket = Bucket(Runner(job))
    tables = [
        pa.table(
            {
                "k0": pa.array([r[0] for r in b], key),
                "o0": pa.array([r[1] for r in b], order),
                "v0_0": pa.array([1] * len(b)),
            }
        )
        for b in batches
    ]
    for table in tables[:-1]:
        run_bucket(job, bucket, table)
    with pytest.raises(DataError) as error:
        run_bucket(job, bucket, tables[-1])
    return str(error.value)


# ------------------------------------------------------------------ rows out of order


def test_a_row_of_another_key_is_no_second_row() -> None:
    late = f"user='b', at=5: the row is late or doubled: at=7 of the same key was applied before{AHEAD}"
    assert refusal([("a", 4), ("b", 7)], [("a", 5), ("b", 5)]) == late
    again = f"user='b', at=5: the row is late or doubled: at=5 of the same key was applied before{AHEAD}"
    assert refusal([("a", 4), ("b", 5)], [("a", 5), ("b", 5)]) == again


def test_two_rows_of_a_key_are_found_with_others_between() -> None:
    two = (
        "user='a', at=5: two rows have this order: add a column to order= that tells them apart, or if they are the "
        "same row twice choose late='drop'"
    )
    assert refusal([("a", 5), ("b", 5), ("a", 5)]) == two
    assert refusal([("a", 1)], [("a", 5), ("b", 5), ("a", 5)], wait=0) == two
    assert refusal([("a", 5), ("a", 5)], [("a", 20)], wait=10) == two


def test_a_judge_that_compares_goes_on_from_one_that_did_not_and_back() -> None:
    plain = Judge((("at", INT),), STR)
    assert plain.refused(2, [[1, 3]], [["a", "b"]]) == []
    compares = Judge((("at", INT),), STR, sources=1)
    compares.load(plain.save())
    assert [r.why for r in compares.refused(2, [[1, 3]], [["a", "b"]], [[5, 6]])] == ["late", "late"]
    assert [r.why for r in compares.refused(3, [[2, 2, 2]], [["a"] * 3], [[5, 5, 6]])] == ["late", "different"]
    plain = Judge((("at", INT),), STR)
    plain.load(compares.save())
    assert [r.row for r in plain.refused(3, [[2, 3, 4]], [["a", "b", "b"]])] == [0, 1]


def test_a_number_before_the_first_of_a_sequence() -> None:
    assert (
        refusal([("a", 0)], sequence=1)
        == "user='a', at=0: the sequence of a key begins with 1; leave such rows out, or choose late='drop' or "
        "late='keep'"
    )


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz"])
def test_times_are_no_sequence(kind: str) -> None:
    fields = Fields((FrameSource("x", INT, ("x",)),), order=(("at", INT),), types=(("o0", kind),))
    with pytest.raises(
        UsageError, match=f"sequence= needs order= to be one column of whole numbers, but 'at' is a {kind}"
    ):
        SparkJob(TOTAL.graph, fields, (("out", INT),), (), late=Late(sequence=1))


@pytest.mark.parametrize(
    ("kind", "values", "found", "last"),
    [
        (
            pa.timestamp("us", tz="UTC"),
            [datetime.datetime(2024, 1, 2), datetime.datetime(2024, 1, 1)],
            "2024-01-01 00:00:00+00:00",
            "2024-01-02 00:00:00+00:00",
        ),
        (
            pa.timestamp("us"),
            [datetime.datetime(2024, 1, 2, 3, 4, 5), datetime.datetime(2024, 1, 1)],
            "2024-01-01 00:00:00",
            "2024-01-02 03:04:05",
        ),
        (pa.date32(), [datetime.date(2024, 1, 2), datetime.date(1960, 1, 1)], "1960-01-01", "2024-01-02"),
        (pa.int16(), [2, 1], "1", "2"),
        (pa.string(), ["ß", "a"], "'a'", "'ß'"),
    ],
)
def test_orders_are_shown_as_they_are_written(kind: Any, values: list[Any], found: str, last: str) -> None:
    said = refusal([("a", values[0])], [("a", values[1])], order=kind, types=(STR, STR if kind == pa.string() else INT))
    assert (
        said == f"user='a', at={found}: the row is late or doubled: at={last} of the same key was applied before{AHEAD}"
    )


def test_keys_are_shown_as_they_are_written() -> None:
    from decimal import Decimal

    assert refusal([(Decimal("1.50"), 2)], [(Decimal("1.50"), 1)], key=pa.decimal128(5, 2)).startswith(
        "user=1.50, at=1: "
    )
    assert refusal([(True, 2)], [(True, 1)], types=(BOOL, INT)).startswith("user=True, at=1: ")
    day = datetime.date(2024, 1, 2)
    assert refusal([(day, 2)], [(day, 1)], key=pa.date32(), types=(INT, INT)).startswith("user=2024-01-02, at=1: ")


# ------------------------------------------------------------------ how long to wait


def waits(wait: Any, kind: str) -> int:
    types = pytest.importorskip("pyspark.sql.types")
    fields = Fields((), order=(("o", STR if kind == "StringType" else INT),))
    return _wait(wait, Frame(None, fields, (("o", getattr(types, kind)()),), None, ()))


def test_a_wait_in_the_unit_of_its_column() -> None:
    assert waits(10, "IntegerType") == 10
    assert (
        waits(timedelta(hours=12), "TimestampType") == waits(timedelta(hours=12), "TimestampNTZType") == 43_200_000_000
    )
    assert waits(timedelta(hours=48), "DateType") == 2
    assert waits(timedelta(0), "DateType") == waits(None, "DateType") == 0


@pytest.mark.parametrize(
    ("wait", "kind", "message"),
    [
        (timedelta(hours=12), "DateType", "wait= must be whole days, as the order column 'o' is a date"),
        (timedelta(hours=36), "DateType", "wait= must be whole days, as the order column 'o' is a date"),
        (timedelta(hours=-12), "DateType", "wait= must"),
        (timedelta(days=-1), "DateType", "wait= must not be negative"),
        (2, "DateType", "wait= must be a timedelta, as the order column 'o' is a time"),
        (5, "TimestampType", "wait= must be a timedelta, as the order column 'o' is a time"),
        (1.5, "TimestampNTZType", "wait= must be a timedelta, as the order column 'o' is a time"),
        (timedelta(seconds=-1), "TimestampType", "wait= must not be negative"),
        (timedelta(seconds=1), "LongType", "wait= must be a whole number, in the unit of the order column 'o'"),
        (1.0, "LongType", "wait= must be a whole number, in the unit of the order column 'o'"),
        (True, "LongType", "wait= must be a whole number, in the unit of the order column 'o'"),
        (-3, "LongType", "wait= must not be negative"),
        (3, "StringType", "wait= must be a whole number, in the unit of the order column 'o'"),
    ],
)
def test_a_wait_that_is_refused(wait: Any, kind: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        waits(wait, kind)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("wait", [-1, 1.5, True, timedelta(days=1)])
def test_a_job_has_a_whole_wait(wait: Any) -> None:
    with pytest.raises(UsageError, match="wait= must not be negative, and in whole units of the order column"):
        Late(wait=wait)


# ------------------------------------------------------------------ which columns


@pytest.mark.parametrize(
    ("kind", "as_key", "as_order"),
    [
        (
            "double",
            "round it, or cast it to string",
            "count in smaller units, as in (c * 1000).cast('bigint'), so that no two rows become equal",
        ),
        (
            "float",
            "round it, or cast it to string",
            "count in smaller units, as in (c * 1000).cast('bigint'), so that no two rows become equal",
        ),
        ("binary", "take hex() of it", "take hex() of it"),
        ("struct<a:int>", "name its fields, as in key=['c.field']", "name its fields, as in order=['c.field']"),
        ("array<int>", "cast it to string", "cast it to bigint"),
        ("boolean", None, "cast it to bigint"),
        (
            "decimal(5,2)",
            None,
            "count in smaller units, as in (c * 1000).cast('bigint'), so that no two rows become equal",
        ),
    ],
)
def test_columns_that_are_refused(spark: SparkSession, kind: str, as_key: str | None, as_order: str) -> None:
    found = spark.createDataFrame([], f"c {kind}").schema["c"].dataType
    if as_key is not None:
        with pytest.raises(DataError) as error:
            key_leaf(found, "c", "df")
        assert str(error.value) == (
            f"df: the key column 'c' is {kind}: a key is a whole number, a text, a truth value, a date, a timestamp or "
            f"a decimal; {as_key}"
        )
    with pytest.raises(DataError) as error:
        order_leaf(found, "c", "df")
    assert (
        str(error.value)
        == f"df: the order column 'c' is {kind}: expected a whole number, a date, a timestamp or a text; {as_order}"
    )


def test_a_collation_is_refused_where_texts_are_sent_or_sorted() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    assert key_leaf(types.StringType(), "c", "df") == order_leaf(types.StringType("UTF8_BINARY"), "c", "df") == STR
    for name in ("UTF8_LCASE", "UNICODE", "UNICODE_CI"):
        for what, leaf in (("key", key_leaf), ("order", order_leaf)):
            with pytest.raises(DataError) as error:
                leaf(types.StringType(name), "c", "df")
            assert str(error.value) == (
                f"df: the {what} column 'c' has the collation {name}: Spark compares such texts in its own way, and "
                "Pellucid compares all "
                "texts character by character; cast it to string, or take lower() of it and cast that, so that case "
                "does not count"
            )


def test_events_are_compared_without_their_collation(spark: SparkSession) -> None:
    """In Spark's expressions, in the kernel, and from several sources: the answers of the local engine."""
    rows = [("k", 1, "a"), ("k", 2, "A"), ("k", 3, "b"), ("k", 4, "a")]
    df = spark.createDataFrame(rows, "account string, seq bigint, x string collate UTF8_LCASE")
    only = pipeline(lambda x: x.filter(lambda v: v == "a"), x=str)
    count = pipeline(lambda x: x.filter(lambda v: v == "a").cumulate(lambda n, v: n + 1, start=0), x=str)
    values = [v for _, _, v in rows]
    for p in (only, count):
        found = p.spark(df, key="account", order="seq")
        assert sorted((r.seq, r.out) for r in found.collect()) == list(zip((1, 4), p(values), strict=True))
        assert "collate" not in found.schema.simpleString()
    both = pipeline(lambda x, y: apply(lambda a, b: (a == "a") != (b == "A"), x, y), x=str, y=str)
    made = both.spark(df, df.withColumnRenamed("x", "y"), key="account", order="seq")
    assert (
        [r.out for r in sorted(made.collect(), key=lambda r: r.seq)]
        == both(x=values, y=values)
        == [True, True, False, True]
    )
    with pytest.raises(DataError, match="the key column 'x' has the collation UTF8_LCASE"):
        count.spark(df, key="x", order="seq", value="x")
    with pytest.raises(DataError, match="the order column 'x' has the collation UTF8_LCASE"):
        count.spark(df, key="account", order="x", value="x")


def test_two_rows_of_one_order_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """As a batch, cut into chunks, and in both kinds of stream: one row if it is there twice, else the same refusal."""
    schema = "user string, seq bigint, x bigint"
    p = pipeline(lambda x: x.filter(lambda v: v > 15).cumulate(lambda t, v: t + v, start=0), x=int)
    said = {"key": "user", "order": "seq", "late": "drop"}

    def streamed(second: int, **how: Any) -> list[Any]:
        """The two rows of one order in two micro-batches."""
        name = f"{second}-{len(how)}"
        (tmp_path / name).mkdir()
        for n, rows in enumerate(([("a", 1, 20)], [("a", 1, second), ("a", 2, 100)])):
            lines = [json.dumps(dict(zip(("user", "seq", "x"), row, strict=True))) for row in rows]
            (tmp_path / name / f"{n}.json").write_text("\n".join(lines))
            os.utime(tmp_path / name / f"{n}.json", (1e9 + n, 1e9 + n))  # by which Spark orders files
        files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(tmp_path / name))
        found: list[Any] = []
        query = p.spark(files, buckets=1, **said, **how).writeStream.foreachBatch(
            lambda df, _: found.extend(df.collect())
        )
        query.option("checkpointLocation", f"{tmp_path}/of-{name}").trigger(
            availableNow=True
        ).start().awaitTermination()
        return found

    differ = spark.createDataFrame([("a", 2, 100), ("a", 1, 20), ("a", 1, 10)], schema)
    own: dict[str, Any] = {"store": "spark", "drop": ()}
    assert [row.out for row in streamed(20, state=str(tmp_path / "state"))] == [20, 120]
    for way in (
        lambda: p.spark(differ, **said).collect(),
        lambda: p.spark(differ.drop("user"), **{**said, "key": None}, partitions=4).collect(),
        lambda: streamed(10, state=str(tmp_path / "other")),
        lambda: streamed(10, **own),
    ):
        with pytest.raises(Exception) as caught:
            way()
        assert re.search(
            r"seq=1: (two rows have this order but|a row of this .* with other)", str(explain(caught.value))
        )
