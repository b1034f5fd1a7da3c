"""Pipelines with loops on Spark: the rows of the local call, as a batch and as a stream; what cannot go there."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

from pellucid import Pipeline, UsageError, iterate, pipeline
from pellucid.spark.plan import choose
from tests.engine.timed.drawn_loops import drawn_loop
from tests.examples.flights_oracle import example
from tests.examples.loops_oracle import components, random_links, random_readings, random_web
from tests.examples.test_loops import ways_told
from tests.spark.timed import test_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMPONENTS, PATHS, RANKS = example("loop_components"), example("loop_paths"), example("loop_pagerank")
for _module in (COMPONENTS, PATHS, RANKS):
    cloudpickle.register_pickle_by_value(_module)  # workers cannot import it, as `pellucid run` has it


def test_which_way() -> None:
    def loop(x: Any) -> Any:
        return iterate(x, lambda v: (v.filter(lambda r: r[1] > 0), v), id="loop")

    kind = tuple[int, int]
    keyed = pipeline(lambda x: loop(x.at(lambda r: r[0]).key_by(lambda r: r[1])), x=kind)
    whole = pipeline(lambda x: loop(x.at(lambda r: r[0])), x=kind)
    pushes = pipeline(loop, x=kind)
    assert choose(keyed.graph, key=False, order=False).way == "inner"
    assert choose(whole.graph, key=False, order=False).way == "one"
    assert choose(whole.graph, key=True, order=False).way == "keys"
    found = choose(pushes.graph, key=True, order=False)
    assert "step 'loop'" in str(found.problem) and "takes rows one by one" in str(found.problem)


def loop_of(rng: random.Random) -> tuple[Pipeline, int]:
    return drawn_loop(rng, timed=True), 1


def test_micro_batches_crashes_and_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random loops in random partitions: what tasks do is what the literal engine does."""
    ways, rows = set(), 0
    for seed in (3, 2, 7, 16, 51):
        test_stream.new_worker()
        out, way, _ = test_stream.follow(seed, tmp_path / str(seed), monkeypatch, 20, made=loop_of)
        ways, rows = ways | {way}, rows + out
    test_stream.new_worker()
    assert ways == {"keys", "inner", "one"}
    assert rows > 20


def test_a_loop_without_times_is_refused(spark: SparkSession) -> None:
    p = pipeline(lambda x: iterate(x, lambda v: v // 2, id="loop"), x=int)
    with pytest.raises(UsageError, match=r"step 'loop' .*takes rows one by one.*say what an event's time is, with at"):
        p.spark(spark.createDataFrame([(1,)], "x bigint"))


def test_the_three_programs_as_batches(spark: SparkSession) -> None:
    rng = random.Random(11)
    links = random_links(rng, 30, 40)
    df = spark.createDataFrame(links, "day bigint, a bigint, b bigint").repartition(3)
    rows = [tuple(row) for row in COMPONENTS.components.spark(df).collect()]
    assert sorted(rows) == sorted(map(tuple, COMPONENTS.components([COMPONENTS.Link(*row) for row in links])))

    readings = random_readings(rng, 7, 30)
    df = spark.createDataFrame(readings, "batch bigint, start string, end string, minutes bigint").repartition(3)
    ways = PATHS.shortest.spark(df).collect()
    assert sorted((w.batch, w.place, w.minutes) for w in ways) == ways_told(readings)

    web = random_web(rng, 12)
    pages = [(name, to, 1 / len(web)) for name, to in web.items()]
    df = spark.createDataFrame(pages, "name string, links array<string>, rank double").repartition(3)
    p = RANKS.ranked(len(web))
    found = {row.name: row.rank for row in p.spark(df).collect()}
    assert found == {page.name: page.rank for page in p([RANKS.Page(*page) for page in pages])}  # to the last bit


def test_components_as_a_query_that_is_started_again(spark: SparkSession, tmp_path: Path) -> None:
    links = random_links(random.Random(12), 25, 30)
    (tmp_path / "in").mkdir()
    found: list[tuple[int, int]] = []

    def arrive(number: int, rows: list[Any]) -> None:
        table = pa.table({n: pa.array([r[i] for r in rows], pa.int64()) for i, n in enumerate(("day", "a", "b"))})
        file = tmp_path / "in" / f"{number:03d}.parquet"
        pq.write_table(table, file)
        os.utime(file, (number * 10 + 1e9, number * 10 + 1e9))

    def run() -> None:
        df = spark.readStream.schema("day bigint, a bigint, b bigint").option("maxFilesPerTrigger", 1)
        out = COMPONENTS.components.spark(df.parquet(str(tmp_path / "in")), state=str(tmp_path / "state"))
        query = out.writeStream.foreachBatch(lambda part, _: found.extend(map(tuple, part.collect())))
        query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
            availableNow=True
        ).start().awaitTermination()

    arrive(1, links[:12])
    arrive(2, links[12:18])
    run()
    arrive(3, links[18:])
    arrive(4, [(99, 1, 1)])
    run()
    wanted = COMPONENTS.components([COMPONENTS.Link(*row) for row in links])
    assert found == [tuple(c) for c in wanted]  # one task, time after time
    assert dict(found) == components([(a, b) for _, a, b in links])
