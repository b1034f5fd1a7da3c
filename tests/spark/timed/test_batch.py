"""Pipelines by event time as Spark batches: the rows of `p(table)`, as a multiset, whatever the partitions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.spark.timed.shapes import OFFER, ONE, SALE, TWO, made, offers, sales

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def plain(value: Any) -> Any:
    """A value that does not depend on the time zone in which it is shown."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat()
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return value


def multiset(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in an order that is theirs alone."""
    return sorted(repr(plain(row)) for row in rows)


def table(rows: list[dict[str, Any]], like: dict[str, Any]) -> Any:
    """Rows as the local engine takes them."""
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in like.items()})


ARROW_SALE = {
    "when": pa.timestamp("us", tz="UTC"), "user": pa.string(), "n": pa.int64(), "price": pa.decimal128(10, 2),
    "x": pa.float64(), "colour": pa.string(), "day": pa.date32(), "shop": pa.int32(),
}  # fmt: skip
ARROW_OFFER = {"at": pa.timestamp("us", tz="UTC"), "user": pa.string(), "rate": pa.int64(), "shop": pa.int32()}


@contextmanager
def session_in(spark: SparkSession, zone: str) -> Iterator[None]:
    """The session's time zone is another one."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def given(spark: SparkSession, name: str, rng: random.Random, rows: int) -> tuple[list[Any], list[DataFrame]]:
    """Tables for here, and the same as DataFrames."""
    some = sales(rng, rows)
    here, there = [table(some, ARROW_SALE)], [spark.createDataFrame(some, SALE).repartition(3)]
    if name in TWO:
        more = offers(rng, rows)
        here, there = [*here, table(more, ARROW_OFFER)], [*there, spark.createDataFrame(more, OFFER).repartition(2)]
    return here, there


OFTEN = ("sliding", "by user", "by colour", "full join", "silence")  # in every run


@pytest.mark.parametrize(
    "name", [name if name in OFTEN else pytest.param(name, marks=pytest.mark.long) for name in (*ONE, *TWO)]
)
def test_a_batch_has_the_rows_of_the_local_call(spark: SparkSession, name: str) -> None:
    rng = random.Random(name)
    p = made(name)
    here, there = given(spark, name, rng, 120)
    with session_in(spark, rng.choice(["UTC", "America/New_York", "Asia/Kathmandu"])):
        for key in (
            (["shop"],) if name == "sliding" else (None,) if name in OFTEN else (None, ["shop"], ["day", "user"])
        ):
            if key == ["day", "user"] and name in TWO:
                continue
            expected = p(*here, key=key) if key else p(*here)
            found = p.spark(*there, key=key).toArrow()
            assert found.column_names == expected.column_names
            assert multiset(found.to_pylist()) == multiset(expected.to_pylist()) and found.num_rows
