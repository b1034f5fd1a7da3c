"""A field of the name of a column of the key on Spark: once where both are the same, refused where they differ (of a
column of the order the event's own field comes out), on every way, in the local run's words: the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pellucid import DataError, PellucidError, Pipeline, UsageError, apply, pipeline, sinks
from pellucid.spark.failure import explain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Row(NamedTuple):
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


counted = pipeline(_counted, x=Row)
stateless = pipeline(lambda x: x.map(lambda e: _made(e, e.v)), x=Row)
same = pipeline(lambda x: x.filter(lambda e: e.v < 9), x=Row)
inner = pipeline(lambda x: _counted(x.key_by("k")), x=Row)
timed = pipeline(lambda x: x.at("t").dedup(by="t", within=1).map(lambda e: _made(e, e.v)), x=Row)
WAYS: dict[str, tuple[Pipeline, dict[str, Any]]] = {
    "keys": (counted, {"key": "k", "order": "t"}),
    "native": (stateless, {"key": "k", "order": "t"}),
    "one": (counted, {"order": "t", "partitions": 1}),
    "inner": (inner, {"order": "t"}),
    "event time": (timed, {"key": "k"}),
}
GOOD = [("a", 1, 0), ("b", 2, 3), ("a", 3, 1), ("x", 4, 9)]  # an x is an x
BAD = {"k": ("b", 5, 9), "t": ("b", 5, 8)}
SCHEMA = "k string, t bigint, v bigint"


def local(p: Pipeline, rows: list[Any], said: dict[str, Any]) -> list[dict[str, Any]]:
    """What the local run gives."""
    records = [dict(zip(("k", "t", "v"), row, strict=True)) for row in rows]
    found = p(records, **{name: said[name] for name in ("key", "order") if name in said})
    return sorted(found, key=lambda row: row["t"])


def told(error: BaseException) -> str:
    found = explain(error)
    assert isinstance(found, DataError), error
    return str(found)


@pytest.mark.parametrize("way", WAYS)
def test_a_batch(spark: SparkSession, way: str) -> None:
    p, said = WAYS[way]
    out = p.spark(spark.createDataFrame(GOOD, SCHEMA).repartition(2), **said)
    assert sorted(map(tuple, out.drop("nth").collect()), key=lambda r: r[1]) == [
        tuple(row.values()) for row in local(p, GOOD, said)
    ]
    rows = [*GOOD, BAD["t"]]  # the order's column: the event's own field comes out
    out = p.spark(spark.createDataFrame(rows, SCHEMA).repartition(2), **said)
    assert max(row["t"] for row in out.collect()) == 105
    if "key" in said:
        rows = [*GOOD, BAD["k"]]
        with pytest.raises(DataError) as here:
            local(p, rows, said)
        with pytest.raises(Exception) as caught:
            p.spark(spark.createDataFrame(rows, SCHEMA).repartition(2), **said).collect()
        words = str(here.value)[str(here.value).index("the field ") :]
        there = told(caught.value)
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
    df = spark.createDataFrame(GOOD, SCHEMA)
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
        spark.createDataFrame(part, SCHEMA).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
        stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
        found = counted.spark(stream, key="k", order="t", buckets=2, **how)
        query = found.writeStream.foreachBatch(out).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()

    go(GOOD)
    with pytest.raises(Exception) as caught:
        go([("c", 6, 1), BAD["k"]])
    assert told(caught.value) == (
        "k='b', t=5: the field 'k' of the output 'out' is 'x', and the key column of this name is 'b': one of them "
        "would be lost; rename the field, or that column before"
    )
    assert sorted(r["t"] for r in out.read().to_pylist()) == [1, 2, 3, 4]


def _frame(spark: SparkSession, **more: Any) -> DataFrame:
    from pyspark.sql import functions as F

    df = spark.createDataFrame(GOOD, SCHEMA)
    for name, value in more.items():
        df = df.withColumn(name, F.lit(value))
    return df


def test_what_is_known_before_any_job(spark: SparkSession) -> None:
    typed = pipeline(lambda x: x.map(lambda e: Typed(e.v, e.t)), x=Row)
    two = pipeline(lambda x: {"late": x.filter(lambda e: e.v > 5), "rest": x.filter(lambda e: e.v <= 5)}, x=Row)
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
