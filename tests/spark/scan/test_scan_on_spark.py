"""One stream without keys, cut into chunks on Spark: equal to the interpreter, and lazy."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pellucid import Pipeline, StepError, merge, pipeline
from pellucid.engine.interpreter import Interpreter
from pellucid.spark.api import SparkOptions, run
from pellucid.spark.failure import explain
from pellucid.spark.scan.parts import Cut, cuts
from tests.spark.scan.scans import by_interpreter, job_of, make_scannable, total
from tests.spark.worlds import Row
from tests.strategies import Seeded, make_input
from tests.volumes import examples


def on_spark(spark: Any, p: Pipeline, df: Any, partitions: int | None = 5, **more: Any) -> list[tuple[Any, ...]]:
    out = run(p.graph, [df], {}, SparkOptions(order="seq", partitions=partitions, **more))
    assert "MapInArrow" in out._jdf.queryExecution().toString()
    return sorted(tuple(r) for r in out.collect())


def oracle(p: Pipeline, rows: list[tuple[Any, Any]]) -> list[tuple[Any, ...]]:
    it = Interpreter(p.graph)
    return [(seq, e) for seq, v in sorted(rows) for e in it.push(x=v)["out"]]


MANY = pipeline(
    lambda x: total(x.filter(lambda v: v % 3 != 1).decimate(2)).window(
        4, lambda w: w.cumulate(lambda t, v: t * 5 % 97 + v, start=0)
    ),
    x=int,
)
SUM = pipeline(total, x=int)


def _moment(i: int) -> datetime:
    return datetime(2024, 3, 30, 12) + timedelta(seconds=i * 997, microseconds=i)


ORDERS: dict[str, tuple[str, list[Any]]] = {
    "whole numbers": ("bigint", list(range(300))),
    "most close together": ("bigint", [-(2**63), -4, 0, 2**63 - 1, *range(10, 200)]),
    "one row": ("int", [5]),
    "no row": ("int", []),
    "three rows": ("smallint", [-3, 7, 1]),
    "dates": ("date", [date(1969, 12, 1) + timedelta(days=i) for i in range(60)]),
    "moments": ("timestamp", [_moment(i) for i in range(150)]),
    "over a change to summer time": ("timestamp_ntz", [_moment(i) for i in range(150)]),
    "texts": ("string", [f"{i * 37 % 1009:05}é" for i in range(200)]),
}


def same_on_spark(spark: Any, p: Pipeline, name: str) -> None:
    kind, seqs = ORDERS[name]
    rng = random.Random(len(seqs))
    rows = [(s, rng.randrange(-50, 50)) for s in seqs]
    shuffled = rng.sample(rows, len(rows))
    df = spark.createDataFrame(shuffled, f"seq {kind}, x bigint").repartition(3)
    assert on_spark(spark, p, df) == oracle(p, rows)


@pytest.mark.parametrize("name", ORDERS)
def test_orders_of_every_kind(spark: Any, name: str) -> None:
    same_on_spark(spark, SUM, name)


# A level sees the order only through the chunks, which are the same for all: some kinds show it, the rest are long.
IN_EVERY_RUN = {"no row", "over a change to summer time"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in IN_EVERY_RUN else [pytest.mark.long]) for name in ORDERS]
)
def test_orders_of_every_kind_through_three_levels(spark: Any, name: str) -> None:
    same_on_spark(spark, MANY, name)


@pytest.mark.long
def test_many_rows_through_compiled_kernels(spark: Any) -> None:
    from pyspark.sql.functions import spark_partition_id

    rng = random.Random(5)
    rows = [(i * 3 - 1000, rng.randrange(-1000, 1000)) for i in range(70_000)]
    seqs, xs = zip(*rng.sample(rows, len(rows)), strict=True)
    df = spark.createDataFrame(
        pa.table({"seq": pa.array(seqs, pa.int64()), "x": pa.array(xs, pa.int64())})
    ).repartition(4)
    out = run(MANY.graph, [df], {}, SparkOptions(order="seq", partitions=6))
    found = out.withColumn("chunk", spark_partition_id()).collect()
    assert sorted(r[:2] for r in found) == oracle(MANY, rows)
    sizes = Counter(r["chunk"] for r in found).values()
    assert len(sizes) == 6 and min(sizes) > max(sizes) / 2  # all chunks have about equal work


def test_several_outputs_and_tie_breakers(spark: Any) -> None:
    p = pipeline(lambda x: {"sums": total(x), "low": x.cumulate(lambda t, v: min(t, v), start=99)}, x=int)
    rng = random.Random(2)
    rows = [(day, i, rng.randrange(100)) for day in range(7) for i in range(rng.randrange(30))]
    df = spark.createDataFrame(rng.sample(rows, len(rows)), "day int, i int, x bigint").repartition(2)
    out = run(p.graph, [df], {}, SparkOptions(order=["day", "i"], tag="output", partitions=4))
    it, want = Interpreter(p.graph), []
    for day, i, v in sorted(rows):
        want += [(day, i, name, e) for name, events in it.push(x=v).items() for e in events]
    got = [(r["day"], r["i"], r["output"], r[r["output"]]) for r in out.collect()]
    assert sorted(got) == sorted(want)


def test_nothing_runs_until_somebody_asks(spark: Any) -> None:
    df = spark.range(100).selectExpr("id as seq", "id as x")
    spark.sparkContext.setJobGroup("lazy-scan", "no job may run")
    out = run(MANY.graph, [df], {}, SparkOptions(order="seq"))
    assert list(out.columns) == ["seq", "out"]
    out.explain(True)
    tracker = spark.sparkContext.statusTracker()
    assert list(tracker.getJobIdsForGroup("lazy-scan")) == []
    assert out.count() > 0
    assert len(tracker.getJobIdsForGroup("lazy-scan")) > 0
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


def test_sorted_passes_share_one_shuffle(spark: Any, tmp_path: Any) -> None:
    spark.range(1000).selectExpr("id as seq", "id as x").write.parquet(str(tmp_path / "rows"))
    df = spark.read.parquet(str(tmp_path / "rows"))
    out = run(MANY.graph, [df], {}, SparkOptions(order="seq", partitions=3))
    plan = out._jdf.queryExecution()
    out._jdf.collectToPython()
    text = plan.executedPlan().toString()
    assert "ReusedExchange [o0#" in text  # by passes 2 and 3, or by the run


def failure_of(df: Any) -> str:
    with pytest.raises(Exception) as caught:
        df.collect()
    found = explain(caught.value)
    assert found is not None
    return f"{type(found).__name__}: {found}"


def test_doubled_and_missing_orders(spark: Any) -> None:
    rows = [(i, 1) for i in range(50)] + [(20, 5)]
    df = spark.createDataFrame(rows, "seq bigint, x bigint").repartition(3)
    said = failure_of(run(SUM.graph, [df], {}, SparkOptions(order="seq", partitions=4)))
    assert (
        said == "DataError: seq=20: two rows have this order: add a column to order= that tells them apart, or if "
        "they are the same row twice choose late='drop'"
    )
    rows = [(i, 1) for i in range(50)] + [(None, 5)]
    df = spark.createDataFrame(rows, "seq bigint, x bigint").repartition(3)
    said = failure_of(run(SUM.graph, [df], {}, SparkOptions(order="seq", partitions=4)))
    assert (
        said == "DataError: seq=None: the order column 'seq' is null: give every row an order, or leave such rows out"
    )


def test_late_drop_keeps_the_first_in_every_pass(spark: Any) -> None:
    rows = [(i, i) for i in range(60) for _ in range(1 + i % 3)]
    df = spark.createDataFrame(rows, "seq bigint, x bigint").repartition(3)
    for p in (SUM, MANY):
        assert on_spark(spark, p, df, late="drop") == oracle(p, [(i, i) for i in range(60)])


def test_sequences_without_gaps(spark: Any) -> None:
    rows = [(i, i) for i in range(7, 80)]
    df = spark.createDataFrame(rows, "seq bigint, x bigint").repartition(3)
    assert on_spark(spark, SUM, df, sequence=7) == oracle(SUM, rows)
    for gap in (7, 31):
        said = failure_of(
            run(SUM.graph, [df.where(f"seq != {gap}")], {}, SparkOptions(order="seq", partitions=9, sequence=7))
        )
        assert said.startswith(
            f"DataError: seq={gap + 1}: seq {gap} is missing: the sequence must go up by one from 7;"
        )


def test_a_failure_on_spark(spark: Any) -> None:
    p = pipeline(lambda x: total(x.map(lambda v: 100 // (v - 40), id="m")), x=int)
    df = spark.range(100).selectExpr("id * 2 as seq", "id as x").repartition(3)
    said = failure_of(run(p.graph, [df], {}, SparkOptions(order="seq", partitions=5)))
    assert "step 'm'" in said and "on the event 40: ZeroDivisionError" in said and "from seq=80" in said


def test_what_cannot_be_cut_runs_on_one_core(spark: Any) -> None:
    p = pipeline(lambda x: x.cumulate(lambda t, v: t * 2 % 1001 + v, start=0), x=int)
    rows = [(i, i * i % 17) for i in range(100)]
    df = spark.createDataFrame(rows, "seq bigint, x bigint").repartition(3)
    out = run(p.graph, [df], {}, SparkOptions(order="seq"))
    assert out.rdd.getNumPartitions() == 1 and sorted(map(tuple, out.collect())) == oracle(p, rows)
    from pellucid.spark.frames import one_frame
    from pellucid.spark.scan.run import scanned

    frame = one_frame(p.graph, {None: df}, value=None, key=(), order=("seq",))
    job = job_of(p, tag=None, nth=None)
    assert scanned(job, frame, 4).rdd.getNumPartitions() == 1
    assert (
        scanned(
            job_of(SUM, tag=None, nth=None), one_frame(SUM.graph, {None: df}, value=None, key=(), order=("seq",)), 1
        ).rdd.getNumPartitions()
        == 1
    )


def test_two_sources_in_one_frame(spark: Any) -> None:
    p = pipeline(lambda x, y: total(merge(x, y.trim(3))), x=int, y=int)
    rng = random.Random(4)
    rows = [(i, rng.choice([None, i]), rng.choice([None, -i])) for i in range(80)]
    df = spark.createDataFrame(rows, "seq bigint, x bigint, y bigint").repartition(3)
    out = run(p.graph, [df], {}, SparkOptions(order="seq", partitions=4))
    it, want = Interpreter(p.graph), []
    for seq, x, y in rows:
        push = {k: v for k, v in (("x", x), ("y", y)) if v is not None}
        want += [(seq, i, e) for i, e in enumerate(it.push(push)["out"])]
    assert sorted(map(tuple, out.collect())) == want


@settings(max_examples=examples(2, 8))
@given(seed=st.integers(0, 10**6))
@example(seed=1)
def test_random_pipelines_on_spark(spark: Any, seed: int) -> None:
    from tests.spark import worlds

    c = Seeded(seed)
    p = make_scannable(c, most=6, sources=2)
    assume(isinstance(cuts(p.graph), Cut) and any(cuts(p.graph).levels))  # type: ignore[union-attr]
    rng = random.Random(seed)
    seqs = rng.sample(range(-500, 500), rng.randrange(60))
    rows = [Row(0, s, push) for s, push in zip(sorted(seqs), make_input(c, p, len(seqs)), strict=True)]
    want = by_interpreter(p, rows)
    assume(not isinstance(want, StepError))
    df = spark.createDataFrame(worlds.table_of(p, rng.sample(rows, len(rows)))).repartition(rng.randrange(1, 4))
    out = run(p.graph, [df], {}, SparkOptions(order="seq", tag="output", nth="nth", partitions=rng.randrange(2, 7)))
    got = worlds.found(p, [{**r.asDict(recursive=True), "user": None} for r in out.collect()])
    assert repr(got) == repr(want)
