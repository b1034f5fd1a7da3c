"""Random pipelines: interpreter = Spark batch = Spark streaming, whatever the partitions and micro-batches."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid import Pipeline, StepError, Stream, merge, pipeline
from pellucid.internal.expr.types import list_in
from pellucid.spark.failure import explain
from tests.seeds import HUNT, seeds
from tests.spark.worlds import Failed, Row, expected, found, rows_of, table_of, tables_of
from tests.strategies import KEYS, Seeded, add_steps, make_input, make_pipeline
from tests.volumes import some_seeds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def world(seed: int) -> tuple[Pipeline, list[Row], random.Random]:
    """A random pipeline, its rows, and a source of further choices."""
    c = Seeded(seed)
    p = make_pipeline(c, max_steps=6, windows=1)
    keys = c.of([[1, 2, 3, 4, 5], ["a", "b", "ß"], [7]])
    return p, rows_of(make_input(c, p, c.of([0, 7, 40, 90])), keys, c.rng), c.rng


def outcome(p: Pipeline, rows: list[Row]) -> Any:
    try:
        return expected(p, rows)
    except Failed:
        return "fails"


def collected(p: Pipeline, run: Any) -> Any:
    """What Spark gives, in the form of `outcome`."""
    try:
        return found(p, [row.asDict(recursive=True) for row in run()])
    except Exception as error:
        if isinstance(explain(error), StepError) or isinstance(error, StepError):
            return "fails"
        raise


def frames(spark: SparkSession, p: Pipeline, rows: list[Row], rng: random.Random) -> list[DataFrame]:
    """The rows as DataFrames, in any order and any number of partitions."""
    shuffled = list(rows)
    rng.shuffle(shuffled)
    tables = [table_of(p, shuffled)] if rng.random() < 0.5 else list(tables_of(p, shuffled).values())
    return [spark.createDataFrame(t).repartition(rng.choice([1, 2, 3])) for t in tables]


def check_batch(spark: SparkSession, seed: int) -> None:
    p, rows, rng = world(seed)
    dfs = frames(spark, p, rows, rng)
    made = p.spark(*dfs, key="user", order="seq", tag="output", partitions=rng.choice([None, 1, 3]))
    assert collected(p, made.collect) == outcome(p, rows), f"seed {seed}"


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(8, 16))
def test_batch(spark: SparkSession, seed: int) -> None:
    check_batch(spark, seed)


@pytest.mark.long
@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(400, 1000))
def test_batch_long(spark: SparkSession, seed: int) -> None:
    check_batch(spark, seed)


def check_alone(spark: SparkSession, seed: int) -> str:
    """Without key=: by the key that the pipeline makes, each row where it is, or all in one place;
    which way it was."""
    from pyspark.sql.functions import lit

    c = Seeded(seed)
    if c.of([False, True]):
        p = make_pipeline(c, max_steps=4, windows=1, sources=c.of([1, 1, 2]), forgets=True)
    else:  # all of it under a key of its own
        t = c.of([t for t in KEYS if list_in(t) is None])
        p = pipeline(lambda x: add_steps(c, [x.key_by(c.of(KEYS[t]))], 3, 1, c.of([False, False, True]))[-1], x=t)
    rows = rows_of(make_input(c, p, c.of([7, 40])), [0], c.rng)
    dfs = [df.drop("user") for df in frames(spark, p, rows, c.rng)]
    made = p.spark(*dfs, order="seq", tag="output", partitions=c.of([None, 3]))
    got = collected(p, lambda: made.select(lit(0).alias("user"), "*").collect())
    assert got == outcome(p, rows), f"seed {seed}"
    return p.spark_plan(order="seq").splitlines()[1].split(":")[0]


@pytest.mark.seeded
def test_batch_without_a_key(spark: SparkSession) -> None:
    ways = Counter(check_alone(spark, seed) for seed in seeds(16, 7000))
    assert HUNT or {"inner", "one"} <= set(ways), ways


@pytest.mark.long
@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(300, 8000))
def test_batch_without_a_key_long(spark: SparkSession, seed: int) -> None:
    check_alone(spark, seed)


def check_stream(spark: SparkSession, seed: int, folder: Path, store: str) -> None:
    p, rows, rng = world(seed)
    if rows:
        assert streamed_outcome(spark, p, rows, rng, folder, store) == outcome(p, rows), f"seed {seed}"


def streamed_outcome(
    spark: SparkSession, p: Pipeline, rows: list[Row], rng: random.Random, folder: Path, store: str
) -> Any:
    """Micro-batches cut anywhere; the query is stopped and started again somewhere."""
    parts: list[list[Row]] = []
    rest = list(rows)
    while rest:
        size = rng.choice([1, 5, 30])
        parts.append(rest[:size])
        rest = rest[size:]
        rng.shuffle(parts[-1])
    schema = spark.createDataFrame(table_of(p, rows)).schema
    out: dict[int, list[Any]] = {}

    def collect(df: DataFrame, batch: int) -> None:
        out[batch] = df.collect()

    def run() -> None:
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        where = {"store": "spark"} if store == "spark" else {"state": str(folder / "state")}
        made = p.spark(stream, key="user", order="seq", tag="output", buckets=rng.choice([None, 2]), **where)
        query = made.writeStream.foreachBatch(collect).option("checkpointLocation", str(folder / "check"))
        query.trigger(availableNow=True).start().awaitTermination()

    def whole() -> list[Any]:
        (folder / "in").mkdir()
        stop = rng.randrange(len(parts) + 1)
        for first, last in ((0, stop), (stop, len(parts))):
            for i in range(first, last):
                file = folder / "in" / f"{i:05d}.parquet"
                pq.write_table(table_of(p, parts[i]), folder / f"{i}.tmp")
                (folder / f"{i}.tmp").rename(file)
                os.utime(file, (i + 1, i + 1))
            if first < last:
                run()
        return [row for batch in out.values() for row in batch]

    return collected(p, whole)


@pytest.mark.seeded
@pytest.mark.parametrize(("seed", "store"), [*[(s, "own") for s in seeds(2)], *[(s, "spark") for s in seeds(1, 2)]])
def test_streaming(spark: SparkSession, seed: int, store: str, tmp_path: Path) -> None:
    check_stream(spark, 500 + seed, tmp_path, store)


@pytest.mark.long
@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(100, 2000))
def test_streaming_long(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    for store in ("own", "spark"):
        folder = tmp_path / store
        folder.mkdir()
        check_stream(spark, seed, folder, store)
        shutil.rmtree(folder)


def test_an_empty_frame(spark: SparkSession) -> None:
    p, _, _ = world(3)
    table = pa.table({"user": pa.array([], pa.int64()), "seq": pa.array([], pa.int64())} | _no_rows(p))
    assert p.spark(spark.createDataFrame(table), key="user", order="seq", tag="output").collect() == []


def _no_rows(p: Pipeline) -> dict[str, Any]:
    table = table_of(p, [])
    return {n: table.column(n) for n in table.column_names if n not in ("user", "seq")}


@pytest.mark.parametrize("native", ["auto", "off"])
def test_a_value_where_none_may_be(spark: SparkSession, native: str) -> None:
    """The step that makes ``T | None`` of ``T`` is a map like others."""

    @pipeline
    def widened(x: Stream[int]) -> Stream[int | None]:
        return merge(x.filter(lambda v: v > 1), x.map(lambda v: None if v == 1 else v * 10))

    df = widened.spark(spark.createDataFrame([(1,), (2,)], "x long"), native=native)
    assert df.schema["out"].nullable
    assert sorted((row.out for row in df.collect()), key=str) == sorted(widened([1, 2]), key=str) == [2, 20, None]
