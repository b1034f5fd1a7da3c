"""Random pipelines: interpreter = Spark batch = Spark streaming, whatever the partitions and micro-batches."""

from __future__ import annotations

import importlib.util
import os
import random
import runpy
import shutil
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

from pellucid import Pipeline, StepError, Stream, UsageError, merge, pipeline, sinks
from pellucid.internal.expr.types import list_in
from pellucid.spark import session
from pellucid.spark.failure import explain
from tests.expr.written import NAMES, TEXTS
from tests.seeds import HUNT, seeds
from tests.spark.worlds import Failed, Row, expected, found, rows_of, table_of, tables_of
from tests.strategies import EVENTS, KEYS, Seeded, add_steps, make_input, make_pipeline
from tests.test_examples import ON_SPARK, right_on_spark
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


# Every pipeline of the examples: interpreter = Spark batch = Spark streaming, with keys.

FOLDER = Path(__file__).parents[2] / "examples"


def pipelines() -> list[Any]:
    out = []
    for file in [*sorted(FOLDER.glob("failure_*.py")), *sorted(FOLDER.glob("stream_*.py"))]:
        name = f"example_{file.stem}"
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        cloudpickle.register_pickle_by_value(module)  # workers cannot import it, as `pellucid run` has it
        for label, value in vars(module).items():
            known = isinstance(value, Pipeline) and value.__module__ == name
            if known and all(value.graph.nodes[i].type in EVENTS for i in value.graph.sources):
                out.append(pytest.param(value, id=f"{file.stem}:{label}"))
    return out


ALL = pipelines()


def test_those_that_start_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the session that is there; tests/test_examples.py runs them as programs, which is long."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(session, "_ours", None)  # somebody else's: they leave it alone
    for name in ON_SPARK:
        runpy.run_path(str(FOLDER / name), run_name="__main__")
    said = capfd.readouterr()
    assert not said.err
    right_on_spark(said.out)
    assert spark.range(3).count() == 3


def test_there_are_examples() -> None:
    assert len(ALL) >= 10


@pytest.mark.parametrize("p", ALL)
def test_batch_examples_on_spark(spark: SparkSession, p: Pipeline) -> None:
    c = Seeded(len(p.graph.nodes))
    rows = rows_of(make_input(c, p, 60), [1, 2, 3], c.rng)
    made = p.spark(*frames(spark, p, rows, c.rng), key="user", order="seq", tag="output")
    assert collected(p, made.collect) == outcome(p, rows)


@pytest.mark.parametrize(
    "p", [pytest.param(*p.values, id=p.id, marks=() if at % 9 == 0 else pytest.mark.long) for at, p in enumerate(ALL)]
)
def test_streaming_examples_on_spark(spark: SparkSession, p: Pipeline, tmp_path: Path) -> None:
    c = Seeded(len(p.graph.nodes))
    rows = rows_of(make_input(c, p, 60), [1, 2, 3], c.rng)
    assert streamed_outcome(spark, p, rows, c.rng, tmp_path, "own") == outcome(p, rows)


# Keys that are given up, on Spark: one ordered stream, batch and micro-batches; the local run is the oracle.


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


# Functions that look inside text, on Spark: the kernel in Python's workers gives what plain Python gives.


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
def test_batch_text(spark: SparkSession) -> None:
    rows, rng = some(seeds(1)[0])
    got = collected(
        named, lambda: named.spark(*frames(spark, named, rows, rng), key="user", order="seq", tag="output").collect()
    )
    assert got == outcome(named, rows)


@pytest.mark.seeded
def test_streaming_text(spark: SparkSession, tmp_path: Path) -> None:
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
