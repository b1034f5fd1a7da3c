"""Pipelines by event time as streaming queries of a real Spark: every micro-batch has the rows of the literal engine,
across restarts."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from pellucid import LateError, Pipeline, join, pipeline
from pellucid.internal.data.columns import Batch
from pellucid.internal.data.formats.outputs import output_batch, output_schema
from pellucid.internal.engine.timed.running import LiteralEngine
from pellucid.internal.expr.types import INT, Type
from pellucid.spark import explain, late_counts
from pellucid.spark.timed.clock import murmur, routes_to
from tests.spark.timed.shapes import MINUTE, OFFER, SALE, Offer, Sale, fold, offers, sales, silence
from tests.spark.timed.test_batch import ARROW_OFFER, ARROW_SALE, multiset, session_in, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_number_of_a_bucket_is_that_of_its_partition(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    df = spark.createDataFrame([(b, r) for b, r in enumerate(routes_to(7))], "b int, r int").repartition(7, "r")
    found = df.select("b", "r", F.hash("r").alias("h"), F.spark_partition_id().alias("p")).collect()
    assert [row.b for row in found] == [row.p for row in found]
    assert [row.h for row in found] == [murmur(row.r) for row in found]


class Feed:
    """Files for the sources of a pipeline, one for each in every micro-batch, and the same for the literal engine."""

    def __init__(self, p: Pipeline, folder: Path, key: str | None) -> None:
        self.p, self.folder, self.key = p, folder, key
        self.names = [p.graph.nodes[i].id for i in p.graph.sources]
        for name in self.names:
            (folder / name).mkdir(parents=True)
        self.files = 0
        self.literal = LiteralEngine(p.graph, key=None if key is None else INT)

    def arrive(self, *rows: list[dict[str, Any]]) -> list[str]:
        """One more micro-batch; what the literal engine says to it."""
        self.files += 1
        for name, some, kinds in zip(self.names, rows, (ARROW_SALE, ARROW_OFFER), strict=False):
            file = self.folder / name / f"{self.files:03d}.parquet"
            pq.write_table(table(some, kinds), file)
            os.utime(file, (self.files * 10 + 1e9, self.files * 10 + 1e9))  # Spark takes files in this order
        return multiset([row for part in self._said(rows) for row in part])

    def _said(self, rows: tuple[list[dict[str, Any]], ...]) -> list[list[dict[str, Any]]]:
        from pellucid.internal.data.columns import columns_of

        types: list[Type] = [self.p.graph.nodes[i].type for i in self.p.graph.sources]
        events = [[_event(t, row) for row in some] for t, some in zip(types, rows, strict=True)]
        count, at = sum(map(len, events)), 0
        columns, masks = [], []
        for t, some in zip(types, events, strict=True):
            filled = [some[0]] * at + some + [some[0]] * (count - at - len(some))
            columns.append(columns_of(t, filled))
            masks.append([at <= i < at + len(some) for i in range(count)])
            at += len(some)
        keys = None
        if self.key is not None:
            keys = [columns_of(INT, [row[self.key] for some in rows for row in some]) for _ in types]
        out = []
        for output in self.literal.push_batch(Batch(count, columns, masks, keys)):
            key = {} if self.key is None else {self.key: INT}
            schema = output_schema(output.type, output.name, key)
            found = output_batch(output, schema, key=list(key)).to_pylist()
            out.append([_tagged(self.p, output.name, row, list(key)) for row in found])
        return out

    def run(self, spark: SparkSession, schemas: list[str], **options: Any) -> list[list[str]]:
        """All that has arrived, to its end: the rows of each micro-batch."""
        frames = [
            spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.folder / name))
            for name, schema in zip(self.names, schemas, strict=False)
        ]
        df = self.p.spark(*frames, key=self.key, tag="output", state=str(self.folder / "state"), buckets=3, **options)
        found: dict[int, list[str]] = {}

        def put(part: Any, number: int) -> None:
            found[number] = multiset(part.toArrow().to_pylist())

        query = df.writeStream.foreachBatch(put).option("checkpointLocation", str(self.folder / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
        return [found[n] for n in sorted(found)]


def _event(t: Any, row: dict[str, Any]) -> Any:
    from tests.spark.timed.shapes import Colour

    values = {name: row[name] for name, _ in t.fields}
    if "colour" in values:
        values["colour"] = Colour[values["colour"]]
    return t.cls(**values)


def _tagged(p: Pipeline, name: str, row: dict[str, Any], key: list[str]) -> dict[str, Any]:
    """A row as one of a DataFrame with all outputs."""
    event = {n: v for n, v in row.items() if n not in key}
    event = event if list(event) != [name] else event[name]
    outputs = {n: event if n == name else None for n, _ in p.graph.outputs}
    return {**{n: row[n] for n in key}, "output": name, **outputs}


def windows(x: Any) -> Any:
    w = x.at("when", lateness=5 * MINUTE).key_by(lambda e: e.user).tumbling(10 * MINUTE, fold, id="w")
    return {"totals": w, "late": w.late}


def silences(x: Any) -> Any:
    w = silence(x.at("when", lateness=5 * MINUTE).key_by(lambda e: e.user), id="silent")
    return {"silent": w.map(lambda s: (s.since, s.sold, s.last.user)), "late": w.late}


def pairs(x: Any, y: Any) -> Any:
    w = join(x.at("when"), y.at(lambda e: e.at + timedelta(0)), within=2 * MINUTE, how="full", id="pairs")
    return {"pairs": w, "late": w.late}


def followed(spark: SparkSession, folder: Path, build: Callable[..., Any], key: str | None, batches: list[int]) -> int:
    """A query in several runs beside the literal engine; how many events were late."""
    rng = random.Random(5)
    several = build is pairs
    p = pipeline(build, x=Sale, y=Offer) if several else pipeline(build, x=Sale)
    feed, expected = Feed(p, folder, key), []
    found = []
    for run in batches:
        for _ in range(run):
            begin = feed.files * 20
            rows = [sales(rng, 40, spread=begin + 30)[:25]]
            if several:
                rows.append(offers(rng, 20, spread=begin + 30))
            expected.append(feed.arrive(*rows))
        with session_in(spark, rng.choice(["America/New_York", "Asia/Kathmandu"])):
            found += feed.run(spark, [SALE, OFFER])
    assert found == expected and any(expected)
    assert late_counts(str(folder / "state")) == feed.literal.late
    return sum(feed.literal.late.values())


def test_windows_by_a_key_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    assert followed(spark, tmp_path, windows, None, [2, 1])


def test_a_task_is_told_of_times(spark: SparkSession, tmp_path: Path) -> None:
    assert followed(spark, tmp_path, silences, None, [2, 1])


@pytest.mark.long
@pytest.mark.parametrize(
    ("build", "key"), [(windows, "shop"), (pairs, "shop"), (pairs, None), (silences, "shop"), (silences, None)]
)
def test_queries_follow_the_literal_engine(spark: SparkSession, tmp_path: Path, build: Any, key: str | None) -> None:
    assert followed(spark, tmp_path, build, key, [2, 1, 3])


def test_a_late_row_ends_the_query(spark: SparkSession, tmp_path: Path) -> None:
    p = pipeline(lambda x: x.at("when").key_by(lambda e: e.user).session(MINUTE, fold, id="s"), x=Sale)
    feed, rng = Feed(p, tmp_path, None), random.Random(1)
    rows = sorted(sales(rng, 60), key=lambda row: row["when"])
    feed.arrive(rows[30:])
    with pytest.raises(LateError):
        feed.arrive(rows[:30])
    with pytest.raises(Exception, match="late") as caught:
        feed.run(spark, [SALE])
    said = explain(caught.value)
    assert isinstance(said, LateError) and "step 's'" in str(said)
    assert "allow for so much more with lateness= in at" in str(said)
