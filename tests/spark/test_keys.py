"""Keys that pipelines make, and pipelines that are called on them: Spark gives the interpreter's answers, in the way
that fits the key."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pytest

from pellucid import DataError, pipeline, sinks
from pellucid.internal.expr.types import INT, STR
from pellucid.spark import read_csv
from pellucid.spark.failure import explain
from pellucid.spark.files.csv import Wanted, cells
from tests.keyed_shapes import EVENTS, SHAPES, add, made
from tests.spark.worlds import Row, expected, found

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAYS = {
    "a key inside of a key": "one",
    "a key of another type inside": "one",
    "a key inside a window": "one",
    "a nested pipeline over a key inside a window": "one",
    "two keys of one type meet": "one",  # events of one row wait for those of others
    "two keys of one type merge": "one",
    "beside a stream without a key": "one",
    "one pipeline under two keys": "one",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_way_is_that_of_the_steps_written_out(shape: str) -> None:
    nested, written = made(shape)
    way = nested.spark_plan(order="seq").splitlines()[1].split(":")[0]
    assert way == written.spark_plan(order="seq").splitlines()[1].split(":")[0] == WAYS.get(shape, "inner")


@pytest.mark.parametrize(
    ("shape", "key"),
    [
        ("a key before two levels", None),
        ("a key inside, used outside", None),
        ("a key inside a window under a key", None),
        ("two keys of one type meet", None),
        ("a key of another type inside", "user"),
    ],
)
def test_the_answers_are_the_interpreters(spark: SparkSession, shape: str, key: str | None) -> None:
    p, _ = made(shape)
    rows = [Row(i % 3 if key else 0, i, {"x": v}) for i, v in enumerate(EVENTS)]
    mixed = [(row.key, row.seq, row.push["x"]) for row in rows]
    random.Random(5).shuffle(mixed)
    df = spark.createDataFrame(mixed, "user int, seq int, x int").repartition(3)
    got = p.spark(df if key else df.drop("user"), key=key, order="seq", tag="output").collect()
    assert found(p, [{"user": 0, **row.asDict(recursive=True)} for row in got]) == expected(p, rows)


def test_a_null_key_is_refused_in_every_way(spark: SparkSession) -> None:
    nothing = pipeline(lambda x: x.map(lambda v: v + 1), x=int)
    df = spark.createDataFrame([("a", 1, 1), (None, 2, 2)], "user string, seq int, x int")
    for how in ({}, {"native": "off"}):
        with pytest.raises(Exception, match="the key column 'user' is null") as caught:
            nothing.spark(df, key="user", **how).collect()  # type: ignore[arg-type]
        found = explain(caught.value)
        assert isinstance(found, DataError) and str(found).endswith(
            "the key column 'user' is null: give every row a key, or leave such rows out"
        )


class Flight(NamedTuple):
    carrier: str | None
    note: str | None
    delay: int


def test_null_is_a_key_where_the_field_may_be_missing(spark: SparkSession, tmp_path: Path) -> None:
    """The local run is the oracle: with memory and without, in Spark's expressions and in the kernel, from a DataFrame
    and from CSV, as a batch and as a stream."""
    sums = pipeline(lambda f: f.map(lambda e: e.delay).cumulate(add, start=0), f=Flight)
    late = pipeline(lambda f: f.map(lambda e: e.delay + 1), f=Flight)
    rows = [
        {"carrier": [None, "a", ""][i % 3], "gate": i % 2, "seq": i, "note": ["n", None][i % 2], "delay": i}
        for i in range(12)
    ]
    df = spark.createDataFrame(rows, "carrier string, gate int, seq int, note string, delay int")
    for key in (["carrier"], ["gate", "carrier"]):
        here = sums(rows, key=key, order="seq")
        assert [row.asDict() for row in sums.spark(df, key=key, order="seq").orderBy("seq").collect()] == here
    for how in ({}, {"native": "off"}):
        there = late.spark(df, key="carrier", **how).collect()  # type: ignore[arg-type]
        assert sorted(map(str, (row.asDict() for row in there))) == sorted(map(str, late(rows, key="carrier")))
    (tmp_path / "in").mkdir()
    out = sinks.sqlite(tmp_path / "out.db", "t")
    for number in range(2):
        lines = ["carrier,seq,note,delay"]
        for r in rows[6 * number : 6 * number + 6]:
            carrier = "" if r["carrier"] is None else f'"{r["carrier"]}"'
            lines.append(f"{carrier},{r['seq']},{r['note'] or ''},{r['delay']}")
        (tmp_path / "in" / f"{number}.csv").write_text("\n".join([*lines, ""]))
        read = read_csv(spark, tmp_path / "in", sums, key="carrier", order="seq", stream=True)
        made = sums.spark(read, key="carrier", order="seq", state=str(tmp_path / "state"), buckets=2)
        query = made.writeStream.foreachBatch(out).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
    found = sorted(out.read().to_pylist(), key=lambda row: int(row["seq"]))
    assert found == sums(rows, key="carrier", order="seq")
    notes = read_csv(spark, tmp_path / "in", sums, key="carrier", order="seq").orderBy("seq").collect()
    assert [row["note"] for row in notes] == [r["note"] for r in rows]  # an empty cell of str | None is None


def test_an_empty_cell_of_a_key_is_null_and_a_quoted_one_is_not(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('user,x,w\na,1,\n"",2,""\n,3,c\n')
    df = cells(spark, str(tmp_path / "a.csv"), ",", False, Wanted({"x": INT, "w": STR}, keys=["user"]))
    assert [tuple(row) for row in df.orderBy("x").collect()] == [("a", 1, ""), ("", 2, ""), (None, 3, "c")]


def test_a_key_of_several_columns(spark: SparkSession) -> None:
    rows = [("x", 1, 0, 1), ("y", 1, 1, 2), ("x", 2, 2, 3), ("x", 1, 3, 4)]
    df = spark.createDataFrame(rows, "a string, b int, seq int, v int")
    total = pipeline(lambda v: v.cumulate(add, start=0), v=int)
    out = total.spark(df, key=["a", "b"], order="seq").orderBy("seq").collect()
    here = total(
        pa.table({n: [row[i] for row in rows] for i, n in enumerate(("a", "b", "seq", "v"))}), key=["a", "b"]
    ).to_pylist()
    assert [{n: row[n] for n in ("a", "b", "out")} for row in out] == here
