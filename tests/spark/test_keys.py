"""Keys that pipelines make, and pipelines that are called on them: Spark gives the interpreter's answers, in the way
that fits the key."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from pellucid import DataError, pipeline
from pellucid.expr.types import INT, STR
from pellucid.spark.failure import explain
from pellucid.spark.files.csv import Wanted, cells
from tests.keyed_shapes import EVENTS, SHAPES, add, made
from tests.spark.worlds import Row, expected, found

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAYS = {
    "a key inside of a key": "one",
    "a key of another type inside": "one",
    "a key inside a window": "scan",
    "a nested pipeline over a key inside a window": "scan",
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
