"""Keys that pipelines make, and pipelines that are called on them: Spark gives the interpreter's answers, in the way that fits the key."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.keyed_shapes import EVENTS, SHAPES, made
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
    got = p.spark(df if key else df.drop("user"), key=key, order="seq", step="output").collect()
    assert found(p, [{"user": 0, **row.asDict(recursive=True)} for row in got]) == expected(p, rows)
