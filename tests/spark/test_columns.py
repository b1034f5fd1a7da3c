"""``keep=`` on Spark: the columns of the row that put an event out, on every way; the local run is the oracle."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid import PellucidError, Pipeline, Scale, Stream, UsageError, apply, pipeline, sinks
from pellucid.errors import DataError
from pellucid.internal.expr.types import INT, STR
from pellucid.spark import read_csv
from pellucid.spark.failure import explain
from pellucid.spark.files import Wanted, cells, read_json
from tests.data.test_lists import SCHEMA, Order, kept, odd, rows_of, told
from tests.keyed_shapes import EVENTS, SHAPES, add, made
from tests.seeds import seeds
from tests.spark.worlds import Row, expected, found

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Flight(NamedTuple):
    carrier: str
    delay: int


def _late(x: Any) -> Any:
    return x.filter(lambda v: v > 10, id="late")


WAYS: dict[str, tuple[Pipeline, dict[str, Any]]] = {
    "native": (pipeline(lambda delay: _late(delay), delay=int), {}),
    "rows": (pipeline(lambda delay: _late(delay), delay=int), {"native": "off"}),
    "keys": (
        pipeline(lambda delay: _late(delay).cumulate(lambda t, v: t + v, start=0), delay=int),
        {"key": "carrier", "order": "seq"},
    ),
    "one": (pipeline(lambda delay: _late(delay).cumulate(lambda t, v: t + v, start=0), delay=int), {"order": "seq"}),
    "inner": (
        pipeline(
            lambda f: f.key_by(lambda e: e.carrier).map(lambda e: e.delay).cumulate(lambda t, v: t + v, start=0),
            f=Flight,
        ),
        {"order": "seq"},
    ),
}
SCHEMA_KEEP = (
    "carrier string, seq bigint, delay bigint, tail string, at timestamp, price decimal(6,2), tags array<string>, "
    "place struct<x:int,y:string>, more map<string,int>"
)
ROWS = [
    ("UA", 1, 30, "N1", dt.datetime(2013, 1, 1, 5), Decimal("1.50"), ["a", None], (1, None), {"k": 1}),
    ("AA", 2, 5, None, None, None, None, None, None),
    ("UA", 3, 11, None, dt.datetime(2013, 1, 2), Decimal("-0.01"), [], (None, "q"), {}),
    ("AA", 4, 12, "", dt.datetime(1970, 1, 1), None, ["é"], (2, "r"), None),
]
KEPT = ["tail", "at", "price", "tags", "place", "more"]


@pytest.fixture
def df(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, SCHEMA_KEEP).repartition(2)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_keeps_every_type(df: DataFrame, way: str) -> None:
    p, said = WAYS[way]
    out = p.spark(df, keep=["seq", *KEPT], **said)
    assert {f.name: f.dataType for f in out.schema.fields if f.name in KEPT} == {
        f.name: f.dataType for f in df.schema.fields if f.name in KEPT
    }
    by_seq = {row.seq: row for row in df.collect()}
    found = {row.seq: row for row in out.collect()}
    records = [{"carrier": r[0], "seq": r[1], "delay": r[2]} for r in ROWS]
    local = {name: said[name] for name in ("key", "order") if name in said}
    expected = {row["seq"]: row["out"] for row in p(records, keep=["seq"], **local)}
    assert {seq: row.out for seq, row in found.items()} == expected
    for seq, row in found.items():
        assert [row[name] for name in KEPT] == [by_seq[seq][name] for name in KEPT]


def test_the_order_of_columns_and_all(df: DataFrame) -> None:
    p, said = WAYS["keys"]
    assert p.spark(df, keep=True, **said).columns == ["carrier", "seq", "delay", *KEPT, "out"]
    record = pipeline(lambda f: f.filter(lambda e: e.delay > 10), f=Flight)
    assert record.spark(df, keep=True).columns == ["seq", *KEPT, "carrier", "delay"]


def test_a_stream_keeps_them(spark: SparkSession, tmp_path: Path) -> None:
    p, said = WAYS["keys"]
    out = sinks.sqlite(tmp_path / "out.db", "t")
    for number, part in enumerate((ROWS[:2], ROWS[2:])):
        spark.createDataFrame(part, SCHEMA_KEEP).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
        stream = spark.readStream.schema(SCHEMA_KEEP).parquet(str(tmp_path / "in"))
        found = p.spark(stream, keep=["tail", "price"], state=str(tmp_path / "state"), buckets=2, **said)
        query = found.writeStream.foreachBatch(out).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
        assert number >= 0
    rows = sorted((r["seq"], r["tail"], r["out"]) for r in out.read().to_pylist())
    assert rows == [(1, "N1", 30), (3, None, 41), (4, "", 12)]


def test_what_is_refused(df: DataFrame) -> None:
    p, said = WAYS["keys"]
    two = pipeline(lambda left, right: left - right, left=int, right=int)
    cases: list[tuple[Any, str]] = [
        (
            lambda: p.spark(df, keep=["tial"], **said),
            "the DataFrame: no column 'tial' to keep: its columns are carrier, seq, delay, tail, at, price, tags, "
            "place, more; did you mean 'tail'?",
        ),
        (
            lambda: p.spark(df.withColumn("out", df.seq), keep=["out"], **said),
            "keep='out': the output 'out' has a column of this name itself: leave it out of keep=, or rename the "
            "column before",
        ),
        (
            lambda: p.spark(df.withColumnRenamed("tail", "OUT"), keep=["OUT"], **said),
            "keep='OUT': the columns 'OUT' and 'out' differ only in case, which Spark does not tell apart: rename one, "
            "or do not keep it",
        ),
        (
            lambda: two.spark(left=df, right=df, keep=["tail"], **said),
            "pipeline: keep= goes with one DataFrame on Spark: join the columns of several to what comes out, by key "
            "and order",
        ),
    ]
    for call, message in cases:
        with pytest.raises(PellucidError) as caught:
            call()
        assert str(caught.value) == message
    with pytest.raises(UsageError, match="wait= is for streaming DataFrames, and this one is not"):
        p.spark(df, keep=["tail"], wait=3, **said)


# NaN on Spark, on every way: a value where the run says so, else refused; the local run is the oracle.

ROWS_NAN = [("a", 1, 1.5), ("b", 2, math.nan), ("a", 3, math.nan), ("b", 4, -math.inf), ("a", 5, 0.5)]


def _words(v: float | None) -> int:
    return -1 if v is None else (1 if v == v else 0) + (2 if v > 1 else 0) + (4 if not v < 1 else 0)


def _last(x: Any) -> Any:
    return x.filter(lambda v: not v > 1).cumulate(lambda t, v: v if t != t or v > t else t, start=0.0)


WAYS_NAN: dict[str, tuple[Any, dict[str, Any]]] = {
    "rows": (pipeline(lambda x: x.map(_words), x=float | None), {}),
    "one": (pipeline(_last, x=float), {"order": "seq"}),
    "keys": (pipeline(_last, x=float), {"order": "seq", "key": "user"}),
}


def test_it_is_a_value_where_the_run_says_so(spark: SparkSession) -> None:
    df = spark.createDataFrame(ROWS_NAN, "user string, seq bigint, x double")
    local = [{"user": u, "seq": s, "x": x} for u, s, x in ROWS_NAN]
    for way, (p, asked) in WAYS_NAN.items():
        said = {name: value for name, value in asked.items() if name != "partitions"}
        want = p(local, nan="keep", keep=["seq"] if way == "rows" else None, **said)
        got = p.spark(df, value="x", nan="keep", keep=["seq"] if way == "rows" else None, **asked).collect()
        found = sorted((row["seq"], row["out"]) for row in got)
        assert repr(found) == repr(sorted((row["seq"], row["out"]) for row in want)), way
        with pytest.raises(Exception, match=r"column 'x' is NaN: NaN is no event.*say nan='keep'"):
            p.spark(df, value="x", **asked).collect()


def test_what_the_first_steps_compute_is_an_event(spark: SparkSession) -> None:
    """They run before the shuffle, as Spark's own expressions: a NaN of theirs (0 * inf) was refused behind it."""
    p = pipeline(lambda x: x.map(lambda v: v * 0.0).filter(lambda v: not v > 5).lag(1), x=float)
    rows = [(1, math.inf), (2, 1.0), (3, math.inf)]
    df = spark.createDataFrame([("a", *row) for row in rows], "user string, seq bigint, x double")
    assert "before the shuffle" in p.spark_plan(key="user", order="seq")
    got = sorted(p.spark(df, value="x", key="user", order="seq").collect())
    assert repr([(row["out_0"], row["out_1"]) for row in got]) == repr(p([x for _, x in rows]))


# Records that may be missing, as columns of a DataFrame: a struct that is null, or null in each field.


class Quote(NamedTuple):
    at: int
    price: float


class Seen(NamedTuple):
    at: int
    quote: Quote | None


def test_a_struct_that_is_null_has_null_in_each_field(spark: SparkSession) -> None:
    rows = [(1, None), (2, (3, 4.0)), (5, (None, None))]
    df = spark.createDataFrame(rows, "at bigint, quote struct<at bigint, price double>")
    price = pipeline(lambda x: x.at("at").tumbling(10, lambda w: w.map(lambda e: e.quote.price)), x=Seen)
    known = pipeline(lambda x: x.filter(lambda e: e.quote.price is not None).map(lambda e: e.quote.price), x=Seen)
    assert [row["out"] for row in known.spark(df).collect()] == [4.0]
    here = [Seen(1, None), Seen(2, Quote(3, 4.0)), Seen(5, None)]
    assert known(here) == [4.0]
    assert [tuple(row) for row in price.spark(df).collect()] == [tuple(w) for w in price(here)] == [(0, 10, None)]


# Arrays and structs of Spark as lists and records, in a batch and in a stream: as the local engine has them.


class Sold(NamedTuple):
    id: int
    sku: str
    last: Annotated[Decimal, Scale(2)]
    days: int


@pipeline
def sold(x: Stream[Order]) -> Stream[Sold]:
    """Each item with the price of the one before it."""
    items = x.explode(lambda e: e.items, beside=True).lag(1)
    return items.map(lambda p: Sold(p[0][0].id, p[0][1].sku, p[1][1].price, len(p[0][1].seen)))


def sold_of(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    items = [(row["id"], item) for row in rows for item in row["items"]]
    pairs = zip(items[1:], items, strict=False)
    return [(id, item["sku"], before["price"], len(item["seen"])) for (id, item), (_, before) in pairs]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return [row | {"user": f"u{row['id'] % 3}"} for row in rows_of(seeds(1, 3)[0], 40)]


@pytest.fixture(scope="module")
def folder(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("lists")
    schema = SCHEMA.append(pa.field("user", pa.string()))
    for i in (0, 1, 2):
        pq.write_table(pa.Table.from_pylist(rows[15 * i : 15 * (i + 1)], schema), made / f"{i}.parquet")
    return made


def wanted(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    users = sorted({row["user"] for row in rows})
    return sorted((user, *one) for user in users for one in sold_of([row for row in rows if row["user"] == user]))


@pytest.mark.seeded
def test_batch(spark: SparkSession, rows: list[dict[str, Any]], folder: Path, tmp_path: Path) -> None:
    df = spark.read.parquet(str(folder))
    found = sold.spark(df, key="user", order="id").collect()
    assert sorted((r["user"], r["id"], r["sku"], r["last"], r["days"]) for r in found) == wanted(rows)
    made = odd.spark(df, order="id")
    assert made.schema["items"].dataType.simpleString() == (
        "array<struct<sku:string,price:decimal(19,2),size:struct<width:double,unit:string>,kind:string,seen:array<date>>>"
    )
    sinks.parquet(tmp_path / "out").write(made, "q", 0)
    assert told(sorted(sinks.parquet(tmp_path / "out").read().to_pylist(), key=lambda r: r["id"])) == told(
        [{n: v for n, v in row.items() if n != "user"} for row in kept(rows)]
    )


@pytest.mark.seeded
def test_stream(spark: SparkSession, rows: list[dict[str, Any]], folder: Path, tmp_path: Path) -> None:
    """Micro-batches of a file each; what waits between them is kept in a snapshot."""
    schema = spark.read.parquet(str(folder)).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    out = sinks.parquet(tmp_path / "out")
    query = sold.spark(stream, key="user", order="id", state=str(tmp_path / "state")).writeStream
    query = query.foreachBatch(out).option("checkpointLocation", str(tmp_path / "check"))
    query.trigger(availableNow=True).start().awaitTermination()
    found = out.read().to_pylist()
    assert sorted((r["user"], r["id"], r["sku"], r["last"], r["days"]) for r in found) == wanted(rows)


def test_refused(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    df = spark.read.parquet(str(folder))
    with pytest.raises(DataError, match="the key column 'tags' is array<string>: a key is a whole number"):
        odd.spark(df, key="tags", order="id")
    with pytest.raises(DataError, match=r"column 'tags' holds string: expected list\[str\]; read it as a list"):
        odd.spark(df.withColumn("tags", df["user"]), order="id")
    with pytest.raises(DataError, match="column 'tags' holds int32: expected str"):
        odd.spark(df.withColumn("tags", F.array(F.lit(1))), order="id")
    (tmp_path / "in.jsonl").write_text('{"id": 1, "tags": ["a"]}\n')
    with pytest.raises(DataError, match=r"column 'tags': list\[str\] is not read from JSON Lines on Spark"):
        read_json(spark, tmp_path / "in.jsonl", {"id": int, "tags": list[str]})


# A field of the name of a column of the key on Spark: once where both are the same, refused where they differ (of a
# column of the order the event's own field comes out), on every way, in the local run's words: the oracle.


class MetRow(NamedTuple):
    k: str
    t: int
    v: int


class Counted(NamedTuple):
    k: str
    t: int
    n: int


class Typed(NamedTuple):
    k: int
    n: int


def _made(e: Any, n: Any) -> Any:
    return Counted("x" if e.v == 9 else e.k, e.t + (100 if e.v == 8 else 0), n)


def _counted(x: Any) -> Any:
    return apply(_made, x, x.cumulate(lambda n, e: n + 1, start=0))


counted = pipeline(_counted, x=MetRow)
stateless = pipeline(lambda x: x.map(lambda e: _made(e, e.v)), x=MetRow)
same = pipeline(lambda x: x.filter(lambda e: e.v < 9), x=MetRow)
inner = pipeline(lambda x: _counted(x.key_by("k")), x=MetRow)
timed = pipeline(lambda x: x.at("t").dedup(by="t", within=1).map(lambda e: _made(e, e.v)), x=MetRow)
WAYS_MET: dict[str, tuple[Pipeline, dict[str, Any]]] = {
    "keys": (counted, {"key": "k", "order": "t"}),
    "native": (stateless, {"key": "k", "order": "t"}),
    "one": (counted, {"order": "t", "partitions": 1}),
    "inner": (inner, {"order": "t"}),
    "event time": (timed, {"key": "k"}),
}
GOOD = [("a", 1, 0), ("b", 2, 3), ("a", 3, 1), ("x", 4, 9)]  # an x is an x
BAD = {"k": ("b", 5, 9), "t": ("b", 5, 8)}
SCHEMA_MET = "k string, t bigint, v bigint"


def local(p: Pipeline, rows: list[Any], said: dict[str, Any]) -> list[dict[str, Any]]:
    """What the local run gives."""
    records = [dict(zip(("k", "t", "v"), row, strict=True)) for row in rows]
    found = p(records, **{name: said[name] for name in ("key", "order") if name in said})
    return sorted(found, key=lambda row: row["t"])


def told_met(error: BaseException) -> str:
    found = explain(error)
    assert isinstance(found, DataError), error
    return str(found)


@pytest.mark.parametrize("way", WAYS_MET)
def test_a_batch(spark: SparkSession, way: str) -> None:
    p, said = WAYS_MET[way]
    out = p.spark(spark.createDataFrame(GOOD, SCHEMA_MET).repartition(2), **said)
    assert sorted(map(tuple, out.drop("nth").collect()), key=lambda r: r[1]) == [
        tuple(row.values()) for row in local(p, GOOD, said)
    ]
    rows = [*GOOD, BAD["t"]]  # the order's column: the event's own field comes out
    out = p.spark(spark.createDataFrame(rows, SCHEMA_MET).repartition(2), **said)
    assert max(row["t"] for row in out.collect()) == 105
    if "key" in said:
        rows = [*GOOD, BAD["k"]]
        with pytest.raises(DataError) as here:
            local(p, rows, said)
        with pytest.raises(Exception) as caught:
            p.spark(spark.createDataFrame(rows, SCHEMA_MET).repartition(2), **said).collect()
        words = str(here.value)[str(here.value).index("the field ") :]
        there = told_met(caught.value)
        assert there.endswith(words), there
        if way != "event time":
            assert (
                there[: -len(words)]
                == ", ".join(
                    f"{n}={v!r}" for n, v in (("k", "b"), ("t", 5)) if n in (said.get("key"), said.get("order"))
                )
                + ": "
                or way == "inner"
            )


def test_what_is_the_same_stays_native(spark: SparkSession) -> None:
    """A field that is the column itself needs no look at the rows."""
    df = spark.createDataFrame(GOOD, SCHEMA_MET)
    out = same.spark(df, key="k", order="t")
    assert "MapInArrow" not in out._jdf.queryExecution().toString() and "PythonMapInArrow" not in str(
        out._jdf.queryExecution().toString()
    )
    assert sorted(map(tuple, out.collect())) == sorted(row for row in GOOD if row[2] < 9)


@pytest.mark.parametrize("store", ["own", "spark"])
def test_a_stream(spark: SparkSession, tmp_path: Path, store: str) -> None:
    """The micro-batch in which they differ is written nowhere."""
    out = sinks.sqlite(tmp_path / "out.db", "t")
    how: dict[str, Any] = {"state": str(tmp_path / "state")} if store == "own" else {"store": "spark"}

    def go(part: list[Any]) -> None:
        spark.createDataFrame(part, SCHEMA_MET).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
        stream = spark.readStream.schema(SCHEMA_MET).parquet(str(tmp_path / "in"))
        found = counted.spark(stream, key="k", order="t", buckets=2, **how)
        query = found.writeStream.foreachBatch(out).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()

    go(GOOD)
    with pytest.raises(Exception) as caught:
        go([("c", 6, 1), BAD["k"]])
    assert told_met(caught.value) == (
        "k='b', t=5: the field 'k' of the output 'out' is 'x', and the key column of this name is 'b': one of them "
        "would be lost; rename the field, or that column before"
    )
    assert sorted(r["t"] for r in out.read().to_pylist()) == [1, 2, 3, 4]


def _frame(spark: SparkSession, **more: Any) -> DataFrame:
    from pyspark.sql import functions as F

    df = spark.createDataFrame(GOOD, SCHEMA_MET)
    for name, value in more.items():
        df = df.withColumn(name, F.lit(value))
    return df


def test_what_is_known_before_any_job(spark: SparkSession) -> None:
    typed = pipeline(lambda x: x.map(lambda e: Typed(e.v, e.t)), x=MetRow)
    two = pipeline(lambda x: {"late": x.filter(lambda e: e.v > 5), "rest": x.filter(lambda e: e.v <= 5)}, x=MetRow)
    total = pipeline(lambda v: v.cumulate(lambda t, e: t + e, start=0), v=int)
    by: dict[str, Any] = {"key": "k", "order": "t"}
    cases: list[tuple[Any, str]] = [
        (lambda: typed.spark(_frame(spark), key="k"), "the output 'out' has a field 'k' of type int, and the key "
         "column of this name holds string: one of them would be lost; rename the field, or that column before"),
        (lambda: counted.spark(_frame(spark, N=1), key="k", order=["t", "N"]), "the columns 'N' and 'n' of what comes "
         "out differ only in case, which Spark does not tell apart: rename one"),
        (lambda: two.spark(_frame(spark, rest=1), keep=["rest"], tag="output", order="t"), "the column 'rest' has the "
         "name of an output, which is a column with tag=: one of them would be lost; rename the column, or do not keep "
         "it"),
        (lambda: total.spark(_frame(spark, late=1), keep=["late"], late="keep", tag="output", **by), "the column "
         "'late' has the name of an output, which is a column with tag=: one of them would be lost; rename the column, "
         "or do not keep it"),
        (lambda: total.spark(_frame(spark, nth=1), keep=["nth"], nth="nth", **by), "nth='nth': there is a column of "
         "this name already; choose another with nth="),
    ]  # fmt: skip
    for call, message in cases:
        with pytest.raises(PellucidError) as caught:
            call()
        assert isinstance(caught.value, UsageError) and str(caught.value) == message


# Keys that pipelines make, and pipelines that are called on them: Spark gives the interpreter's answers, in the way
# that fits the key.

WAYS_KEYS = {
    "a key inside of a key": "one",
    "a key of another type inside": "one",
    "a key inside a window": "one",
    "a nested pipeline over a key inside a window": "one",
    "two keys of one type meet": "one",  # events of one row wait for those of others
    "two keys of one type merge": "one",
    "beside a stream without a key": "one",
    "one pipeline under two keys": "one",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_way_is_that_of_the_steps_written_out(shape: str) -> None:
    nested, written = made(shape)
    way = nested.spark_plan(order="seq").splitlines()[1].split(":")[0]
    assert way == written.spark_plan(order="seq").splitlines()[1].split(":")[0] == WAYS_KEYS.get(shape, "inner")


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
    got = p.spark(df if key else df.drop("user"), key=key, order="seq", tag="output").collect()
    assert found(p, [{"user": 0, **row.asDict(recursive=True)} for row in got]) == expected(p, rows)


def test_a_null_key_is_refused_in_every_way(spark: SparkSession) -> None:
    nothing = pipeline(lambda x: x.map(lambda v: v + 1), x=int)
    df = spark.createDataFrame([("a", 1, 1), (None, 2, 2)], "user string, seq int, x int")
    for how in ({}, {"native": "off"}):
        with pytest.raises(Exception, match="the key column 'user' is null") as caught:
            nothing.spark(df, key="user", **how).collect()  # type: ignore[arg-type]
        found = explain(caught.value)
        assert isinstance(found, DataError) and str(found).endswith(
            "the key column 'user' is null: give every row a key, or leave such rows out"
        )


class KeysFlight(NamedTuple):
    carrier: str | None
    note: str | None
    delay: int


def test_null_is_a_key_where_the_field_may_be_missing(spark: SparkSession, tmp_path: Path) -> None:
    """The local run is the oracle: with memory and without, in Spark's expressions and in the kernel, from a DataFrame
    and from CSV, as a batch and as a stream."""
    sums = pipeline(lambda f: f.map(lambda e: e.delay).cumulate(add, start=0), f=KeysFlight)
    late = pipeline(lambda f: f.map(lambda e: e.delay + 1), f=KeysFlight)
    rows = [
        {"carrier": [None, "a", ""][i % 3], "gate": i % 2, "seq": i, "note": ["n", None][i % 2], "delay": i}
        for i in range(12)
    ]
    df = spark.createDataFrame(rows, "carrier string, gate int, seq int, note string, delay int")
    for key in (["carrier"], ["gate", "carrier"]):
        here = sums(rows, key=key, order="seq")
        assert [row.asDict() for row in sums.spark(df, key=key, order="seq").orderBy("seq").collect()] == here
    for how in ({}, {"native": "off"}):
        there = late.spark(df, key="carrier", **how).collect()  # type: ignore[arg-type]
        assert sorted(map(str, (row.asDict() for row in there))) == sorted(map(str, late(rows, key="carrier")))
    (tmp_path / "in").mkdir()
    out = sinks.sqlite(tmp_path / "out.db", "t")
    for number in range(2):
        lines = ["carrier,seq,note,delay"]
        for r in rows[6 * number : 6 * number + 6]:
            carrier = "" if r["carrier"] is None else f'"{r["carrier"]}"'
            lines.append(f"{carrier},{r['seq']},{r['note'] or ''},{r['delay']}")
        (tmp_path / "in" / f"{number}.csv").write_text("\n".join([*lines, ""]))
        read = read_csv(spark, tmp_path / "in", sums, key="carrier", order="seq", stream=True)
        made = sums.spark(read, key="carrier", order="seq", state=str(tmp_path / "state"), buckets=2)
        query = made.writeStream.foreachBatch(out).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
    found = sorted(out.read().to_pylist(), key=lambda row: int(row["seq"]))
    assert found == sums(rows, key="carrier", order="seq")
    notes = read_csv(spark, tmp_path / "in", sums, key="carrier", order="seq").orderBy("seq").collect()
    assert [row["note"] for row in notes] == [r["note"] for r in rows]  # an empty cell of str | None is None


def test_an_empty_cell_of_a_key_is_null_and_a_quoted_one_is_not(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('user,x,w\na,1,\n"",2,""\n,3,c\n')
    df = cells(spark, str(tmp_path / "a.csv"), ",", False, Wanted({"x": INT, "w": STR}, keys=["user"]))
    assert [tuple(row) for row in df.orderBy("x").collect()] == [("a", 1, ""), ("", 2, ""), (None, 3, "c")]


def test_a_key_of_several_columns(spark: SparkSession) -> None:
    rows = [("x", 1, 0, 1), ("y", 1, 1, 2), ("x", 2, 2, 3), ("x", 1, 3, 4)]
    df = spark.createDataFrame(rows, "a string, b int, seq int, v int")
    total = pipeline(lambda v: v.cumulate(add, start=0), v=int)
    out = total.spark(df, key=["a", "b"], order="seq").orderBy("seq").collect()
    here = total(
        pa.table({n: [row[i] for row in rows] for i, n in enumerate(("a", "b", "seq", "v"))}), key=["a", "b"]
    ).to_pylist()
    assert [{n: row[n] for n in ("a", "b", "out")} for row in out] == here
