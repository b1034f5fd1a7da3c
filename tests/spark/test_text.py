"""Functions that look inside text, on Spark: the kernel in Python's workers gives what plain Python gives."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import pytest

from pellucid import Stream, pipeline
from tests.expr.texts import NAMES, TEXTS
from tests.seeds import seeds
from tests.spark.test_equal import collected, frames, outcome, streamed_outcome
from tests.spark.worlds import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pipeline
def named(x: Stream[str]) -> Stream[str]:
    """The last letters of all names so far."""
    short = x.filter(lambda s: len(s) < 9 and not s.isspace(), id="short")
    told = short.map(lambda s: f"{NAMES.get(s.strip(), s.upper())}:{len(s)}", id="told")
    return told.cumulate(lambda last, s: (last + s)[-15:], start="", id="last")


def some(seed: int) -> tuple[list[Any], random.Random]:
    rng = random.Random(seed)
    return rows_of([{"x": rng.choice(TEXTS)} for _ in range(40)], ["a", "b", "ß"], rng), rng


def test_it_is_compiled_there() -> None:
    assert "told   map: in the fused kernel" in named.spark_plan(key=True)
    assert "Python for each event" not in named.spark_plan(key=True)


@pytest.mark.seeded
def test_batch(spark: SparkSession) -> None:
    rows, rng = some(seeds(1)[0])
    got = collected(
        named, lambda: named.spark(*frames(spark, named, rows, rng), key="user", order="seq", tag="output").collect()
    )
    assert got == outcome(named, rows)


@pytest.mark.seeded
def test_streaming(spark: SparkSession, tmp_path: Path) -> None:
    rows, rng = some(seeds(1, 7)[0])
    assert streamed_outcome(spark, named, rows, rng, tmp_path, "own") == outcome(named, rows)


def test_local_times_whatever_zone_the_session_has(spark: SparkSession) -> None:
    zone = ZoneInfo("America/New_York")
    hours = pipeline(
        lambda at: at.map(lambda t: (t.astimezone(zone).date(), t.astimezone(zone).hour, t)),
        at=Annotated[datetime, UTC],
    )
    start = datetime(2013, 11, 3, 3, tzinfo=UTC)  # the night in which an hour comes twice there
    given = [start + timedelta(minutes=20 * i) for i in range(20)]
    before = spark.conf.get("spark.sql.session.timeZone")
    df = spark.createDataFrame([(t,) for t in given], "at timestamp")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        table = hours.spark(df).toArrow()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    found = [(row["out_0"], row["out_1"], row["out_2"].astimezone(UTC)) for row in table.to_pylist()]
    local = [t.astimezone(zone) for t in given]
    assert sorted(found) == sorted((t.date(), t.hour, t.astimezone(UTC)) for t in local)
    assert "in the fused kernel" in hours.spark_plan()
