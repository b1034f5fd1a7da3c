"""``keep=`` on Spark: the columns of the row that put an event out, on every way; the local run is the oracle."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pellucid import PellucidError, Pipeline, UsageError, pipeline, sinks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Flight(NamedTuple):
    carrier: str
    delay: int


def _late(x: Any) -> Any:
    return x.filter(lambda v: v > 10, id="late")


WAYS: dict[str, tuple[Pipeline, dict[str, Any]]] = {
    "native": (pipeline(lambda delay: _late(delay), delay=int), {}),
    "rows": (pipeline(lambda delay: _late(delay), delay=int), {"native": "off"}),
    "keys": (
        pipeline(lambda delay: _late(delay).cumulate(lambda t, v: t + v, start=0), delay=int),
        {"key": "carrier", "order": "seq"},
    ),
    "one": (pipeline(lambda delay: _late(delay).cumulate(lambda t, v: t + v, start=0), delay=int), {"order": "seq"}),
    "inner": (
        pipeline(
            lambda f: f.key_by(lambda e: e.carrier).map(lambda e: e.delay).cumulate(lambda t, v: t + v, start=0),
            f=Flight,
        ),
        {"order": "seq"},
    ),
}
SCHEMA = (
    "carrier string, seq bigint, delay bigint, tail string, at timestamp, price decimal(6,2), tags array<string>, "
    "place struct<x:int,y:string>, more map<string,int>"
)
ROWS = [
    ("UA", 1, 30, "N1", dt.datetime(2013, 1, 1, 5), Decimal("1.50"), ["a", None], (1, None), {"k": 1}),
    ("AA", 2, 5, None, None, None, None, None, None),
    ("UA", 3, 11, None, dt.datetime(2013, 1, 2), Decimal("-0.01"), [], (None, "q"), {}),
    ("AA", 4, 12, "", dt.datetime(1970, 1, 1), None, ["é"], (2, "r"), None),
]
KEPT = ["tail", "at", "price", "tags", "place", "more"]


@pytest.fixture
def df(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, SCHEMA).repartition(2)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_keeps_every_type(df: DataFrame, way: str) -> None:
    p, said = WAYS[way]
    out = p.spark(df, keep=["seq", *KEPT], **said)
    assert {f.name: f.dataType for f in out.schema.fields if f.name in KEPT} == {
        f.name: f.dataType for f in df.schema.fields if f.name in KEPT
    }
    by_seq = {row.seq: row for row in df.collect()}
    found = {row.seq: row for row in out.collect()}
    records = [{"carrier": r[0], "seq": r[1], "delay": r[2]} for r in ROWS]
    local = {name: said[name] for name in ("key", "order") if name in said}
    expected = {row["seq"]: row["out"] for row in p(records, keep=["seq"], **local)}
    assert {seq: row.out for seq, row in found.items()} == expected
    for seq, row in found.items():
        assert [row[name] for name in KEPT] == [by_seq[seq][name] for name in KEPT]


def test_the_order_of_columns_and_all(df: DataFrame) -> None:
    p, said = WAYS["keys"]
    assert p.spark(df, keep=True, **said).columns == ["carrier", "seq", "delay", *KEPT, "out"]
    record = pipeline(lambda f: f.filter(lambda e: e.delay > 10), f=Flight)
    assert record.spark(df, keep=True).columns == ["seq", *KEPT, "carrier", "delay"]


def test_a_stream_keeps_them(spark: SparkSession, tmp_path: Path) -> None:
    p, said = WAYS["keys"]
    out = sinks.sqlite(tmp_path / "out.db", "t")
    for number, part in enumerate((ROWS[:2], ROWS[2:])):
        spark.createDataFrame(part, SCHEMA).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
        stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
        found = p.spark(stream, keep=["tail", "price"], state=str(tmp_path / "state"), buckets=2, **said)
        query = found.writeStream.foreachBatch(out).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
        assert number >= 0
    rows = sorted((r["seq"], r["tail"], r["out"]) for r in out.read().to_pylist())
    assert rows == [(1, "N1", 30), (3, None, 41), (4, "", 12)]


def test_what_is_refused(df: DataFrame) -> None:
    p, said = WAYS["keys"]
    two = pipeline(lambda left, right: left - right, left=int, right=int)
    cases: list[tuple[Any, str]] = [
        (
            lambda: p.spark(df, keep=["tial"], **said),
            "the DataFrame: no column 'tial' to keep: its columns are carrier, seq, delay, tail, at, price, tags, "
            "place, more; did you mean 'tail'?",
        ),
        (
            lambda: p.spark(df.withColumn("out", df.seq), keep=["out"], **said),
            "keep='out': the output 'out' has a column of this name itself: leave it out of keep=, or rename the "
            "column before",
        ),
        (
            lambda: p.spark(df.withColumnRenamed("tail", "OUT"), keep=["OUT"], **said),
            "keep='OUT': the columns 'OUT' and 'out' differ only in case, which Spark does not tell apart: rename one, "
            "or do not keep it",
        ),
        (
            lambda: two.spark(left=df, right=df, keep=["tail"], **said),
            "pipeline: keep= goes with one DataFrame on Spark: join the columns of several to what comes out, by key "
            "and order",
        ),
    ]
    for call, message in cases:
        with pytest.raises(PellucidError) as caught:
            call()
        assert str(caught.value) == message
    with pytest.raises(UsageError, match="keep= does not go with rows that wait"):
        p.spark(df, keep=["tail"], wait=3, **said)
