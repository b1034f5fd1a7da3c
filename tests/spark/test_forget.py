"""Keys that are given up, on Spark: one ordered stream, batch and micro-batches; the local run is the oracle."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pellucid import Stream, UsageError, pipeline, sinks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Click(NamedTuple):
    user: str
    cents: int


@pipeline
def visits(click: Stream[Click]) -> Stream[tuple[str, int]]:
    mine = click.filter(lambda c: c.cents != 7).key_by(lambda c: c.user, id="users").forget(after=3)
    return mine.cumulate(lambda s, c: (c.user, s[1] + c.cents), start=("", 0), id="sum")


def test_a_batch_and_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(4)
    clicks = [(rng.choice("aabcdefgh"), i, rng.randrange(10)) for i in range(120)]
    want = visits([Click(user, cents) for user, _, cents in clicks])
    df = spark.createDataFrame(clicks, "user string, seq bigint, cents bigint")
    assert "one: one stream on one core" in visits.spark_plan(order="seq")
    got = visits.spark(df.repartition(3), order="seq").collect()
    assert [(r["out_0"], r["out_1"]) for r in sorted(got, key=lambda r: r["seq"])] == want
    with pytest.raises(UsageError, match=r"step 'users' .* counts the events of the whole stream, and with key="):
        visits.spark(df, key="user", order="seq")
    out = sinks.sqlite(tmp_path / "out.db", "t")
    for part in (clicks[:50], clicks[50:]):
        rows = spark.createDataFrame(part, "user string, seq bigint, cents bigint")
        rows.coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
        stream = spark.readStream.schema(df.schema).parquet(str(tmp_path / "in"))
        found = visits.spark(stream, order="seq", state=str(tmp_path / "state"))
        query = found.writeStream.foreachBatch(out).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
    streamed = sorted(out.read().to_pylist(), key=lambda r: r["seq"])
    assert [(r["out_0"], r["out_1"]) for r in streamed] == want
