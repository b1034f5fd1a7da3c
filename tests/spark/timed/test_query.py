"""Pipelines by event time as streaming queries of a real Spark: every micro-batch has the rows of the literal engine,
across restarts.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

from pellucid import DataError, LateError, Pipeline, Scale, StepError, UsageError, iterate, join, pipeline
from pellucid.internal.data.arrow import output_batch, output_schema
from pellucid.internal.data.columns import Batch
from pellucid.internal.expr.types import INT, STR, OptionalType, Type, type_of
from pellucid.spark import explain, late_counts
from pellucid.spark.api import run_partition_batch as run_partition
from pellucid.spark.frames import Fields, FrameSource, SparkJob, packed
from pellucid.spark.plan import choose
from pellucid.spark.timed import TimedRunner, Times, murmur, routes_to
from tests.engine.timed.drawn import drawn_loop
from tests.engine.timed.literal_engine import LiteralEngine
from tests.examples.oracles import components, example, random_links, random_readings, random_web
from tests.examples.test_loops import ways_told
from tests.spark.timed import test_stream
from tests.spark.timed.shapes import MINUTE, OFFER, ONE, SALE, TWO, Offer, Sale, fold, made, offers, sales, silence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Pipelines by event time as Spark batches: the rows of `p(table)`, as a multiset, whatever the partitions.


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


# Event time on Spark at its edges: keys of every type, frames of several sources in one, rows that cannot be read,
# nothing at all.

T0 = datetime(2024, 3, 31, 1, 30)
MINUTE_EDGES = timedelta(minutes=1)


def count(w: Any) -> Any:
    return w.cumulate(lambda n, e: n + 1, start=0)


def test_keys_come_back_in_the_types_of_their_columns() -> None:
    """Dates and times are numbers in the engine, decimals texts, and null may be a key."""
    p = pipeline(lambda x: x.at(lambda v: v).tumbling(10, count), x=int)
    kinds = [
        (pa.date32(), INT, [date(2024, 1, 1), date(1969, 12, 31)]),
        (pa.timestamp("us", tz="Asia/Kathmandu"), INT, [datetime(y, 1, 1, tzinfo=UTC) for y in (2024, 2)]),
        (pa.timestamp("us"), INT, [T0, datetime.max]),
        (pa.decimal128(7, 3), STR, [Decimal("-0.010"), Decimal("1234.500")]),
        (pa.int16(), INT, [-7, 7]),
        (pa.bool_(), type_of(bool), [True, False]),
        (pa.string(), OptionalType(STR), [None, ""]),
    ]  # fmt: skip
    key = tuple((f"key{i}", t) for i, (_, t, _) in enumerate(kinds))
    fields = Fields((FrameSource("x", INT, ("x",)),), key)
    kept = tuple((name, f"k{i}") for i, (name, _) in enumerate(key))
    job = SparkJob(p.graph, fields, (("out", p.graph.nodes[p.graph.outputs[0][1]].type),), kept, ordered=False)
    columns = {f"k{i}": pa.array(values, kind) for i, (kind, _, values) in enumerate(kinds)}
    table = pa.table(columns | {"v0_0": pa.array([3, 4])})
    (out,) = run_partition(packed(job), iter(table.to_batches()))
    assert [out.schema.field(name).type for name, _ in key] == [kind for kind, _, _ in kinds]
    got = {tuple(repr(row[name]) for name, _ in key): (row["start"], row["value"]) for row in out.to_pylist()}
    rows = table.select([f"k{i}" for i in range(len(key))]).to_pylist()
    assert got == {tuple(map(repr, row.values())): (0, 1) for row in rows}


def test_rows_of_several_sources_in_one_frame() -> None:
    """Null is silence, and a row may bring events to both."""
    p = pipeline(lambda x, y: join(x.at(lambda v: v), y.at(lambda v: v), within=1), x=int, y=int)
    fields = Fields((FrameSource("x", INT, ("x",)), FrameSource("y", INT, ("y",))), wide=True)
    job = SparkJob(p.graph, fields, (("out", p.graph.nodes[-1].type),), (), ordered=False)
    table = pa.table({"v0_0": pa.array([1, None, 5]), "v1_0": pa.array([5, 2, None])})
    runner = TimedRunner(job)
    rows = [row for part in (*runner.take(table), *runner.finish()) for row in part.to_pylist()]
    assert sorted(map(tuple, (row.values() for row in rows))) == [(1, 2), (5, 5)]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("both", [False, True])
def test_the_clock_is_that_of_the_rows_that_are_there(wide: bool, both: bool) -> None:
    """A row of another source is none of this one, whatever its columns hold; nor is one that a filter drops."""

    def near(x: Any, y: Any) -> Any:
        a = x.filter(lambda v: v != -9).map(lambda v: v * 2).at(lambda v: v, id="a")
        return join(a, (y.map(lambda v: v + 1) if both else y).at(lambda v: v, id="b"), within=1)

    p = pipeline(near, x=int, y=int)
    fields = Fields((FrameSource("x", INT, ("x",)), FrameSource("y", INT, ("y",))), wide=wide, tagged=not wide)
    times = Times(SparkJob(p.graph, fields, (), (), ordered=False))

    def seen(x: list[int | None], y: list[int | None]) -> dict[str, int]:
        tags = {} if wide else {"s": pa.array([0 if v is not None else 1 for v in x], pa.int32())}
        return times.of(pa.table(tags | {"v0_0": pa.array(x, pa.int64()), "v1_0": pa.array(y, pa.int64())}))

    more = 1 if both else 0
    assert seen([-7, -3, None], [None, None, -5]) == {"a": -6, "b": -5 + more}
    assert seen([None, None], [-8, -5]) == {"b": -5 + more}
    assert seen([-9, -4], [None, None]) == {"a": -8}
    assert seen([-9], [None]) == {}


class Seen(NamedTuple):
    user: str
    when: datetime | None
    paid: Annotated[Decimal, Scale(2)] | None = None


def test_a_row_without_a_time_is_told_with_its_key() -> None:
    p = pipeline(
        lambda x: x.filter(lambda e: e.user != "nobody").at("when", id="when").tumbling(MINUTE_EDGES, count), x=Seen
    )
    fields = Fields((FrameSource("x", type_of(Seen), ("user", "when", "paid")),), (("shop", INT),))
    job = SparkJob(p.graph, fields, (("out", p.graph.nodes[-1].type),), (("shop", "k0"),), ordered=False)
    table = pa.table(
        {
            "k0": pa.array([7, 8]),
            "v0_0": pa.array(["nobody", "ada"]),
            "v0_1": pa.array([None, None], pa.timestamp("us")),
            "v0_2": pa.array([None, None], pa.decimal128(5, 2)),
        }
    )
    with pytest.raises(StepError) as caught:
        list(TimedRunner(job).take(table))
    assert "step 'when'" in str(caught.value) and str(caught.value).endswith("from shop=8"), str(caught.value)
    with pytest.raises(DataError, match="the key column 'shop' is null: give every row a key"):
        list(TimedRunner(job).take(table.set_column(0, "k0", pa.array([7, None]))))


class Naive(NamedTuple):
    user: str | None
    when: datetime


@pytest.mark.long
def test_times_without_a_zone_and_nothing_at_all(spark: SparkSession) -> None:
    p = pipeline(lambda x: x.at("when").session(MINUTE_EDGES, count), x=Naive)
    rows = [("a", T0 + i * MINUTE_EDGES / 3) for i in range(9)] + [(None, T0), ("a", T0 + 30 * MINUTE_EDGES)]
    schema = "user string, when timestamp_ntz"
    table = pa.table({"user": [r[0] for r in rows], "when": pa.array([r[1] for r in rows], pa.timestamp("us"))})
    with session_in(spark, "Europe/Berlin"):  # where 2:30 on that day does not exist
        found = p.spark(spark.createDataFrame(rows, schema), key="user").toArrow()
        assert multiset(found.to_pylist()) == multiset(p(table, key="user").to_pylist())
        assert p.spark(spark.createDataFrame([], schema), key="user").toArrow().num_rows == 0
        late = spark.createDataFrame([("a", None)], schema)
        with pytest.raises(Exception, match="when") as caught:
            p.spark(late, key="user").collect()
    assert "column 'when' is null: expected datetime" in str(explain(caught.value))


SCRIPT = """
from __future__ import annotations
import sys
from datetime import datetime, timedelta
from typing import NamedTuple
from pyspark import cloudpickle
from pellucid import join, pipeline
class Payment(NamedTuple):
    when: datetime
    user: int
def timed(x):
    return x.at("when").key_by(lambda e: e.user)
def pairs(a, b):
    return join(timed(a), timed(b), within=timedelta(1)).map(lambda p: (p[0].user, p[1].user))
def made(x):
    return timed(x).tumbling(timedelta(1), lambda w: w.map(lambda e: e.user)).map(lambda w: w.value)
for p in (pipeline(pairs, a=Payment, b=Payment), pipeline(made, x=Payment)):
    p.graph.digest
    sys.stdout.buffer.write(cloudpickle.dumps(p.graph))
"""
WORKER = """
import pickle, sys
from pellucid.internal.engine.timed.engine import TimedEngine
for _ in range(2):
    print(TimedEngine(pickle.load(sys.stdin.buffer)).why_plain)
"""


def test_records_of_a_script_are_events_on_workers() -> None:
    """The class of a record comes with the pipeline there, and the names of its fields' types do not."""
    pytest.importorskip("pyspark")
    sent = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True).stdout
    found = subprocess.run([sys.executable, "-c", WORKER], input=sent, capture_output=True, check=False)
    assert found.stdout.decode().split() == ["None", "None"], found.stderr.decode()


# Pipelines with loops on Spark: the rows of the local call, as a batch and as a stream; what cannot go there.

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
