"""``bad="keep"`` on Spark: rows that cannot be read, or on which a step fails, are an output; the local run is the
oracle."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pellucid import DataError, Pipeline, UsageError, apply, pipeline, sinks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0).map(lambda t: 1000 // t, id="share"), x=int)
share = pipeline(lambda x: x.map(lambda v: 1000 // v, id="share"), x=int)
SCHEMA = "k string, seq int, x bigint, n string"
ROWS: list[tuple[Any, ...]] = [
    ("u", 1, 4, "a"), ("v", 1, None, "b"), ("u", 3, -4, "c"), (None, 4, 1, "d"), ("v", 5, 8, "e"), ("u", 2, 0, "f"),
    ("v", None, 2, "g"), ("u", 6, 6, None), ("v", 7, -8, "h"), ("v", 9, 2, "i"),
]  # fmt: skip


def local(p: Pipeline, rows: list[tuple[Any, ...]], said: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """What a run on this machine gives: events with their notes, and of each bad row its note, column and step."""
    table = pa.table([list(c) for c in zip(*rows, strict=True)], names=["k", "seq", "x", "n"])
    found = p(table, bad="keep", keep=["n"], **said)
    events = [(e["n"], e["out"]) for e in found["out"].to_pylist()]
    bad = [(rows[e["row"]][3], e["column"], e["step"], e["reason"]) for e in found["bad"].to_pylist()]
    return events, [(*letter[:3], letter[3].replace("every row its place", "every row an order")) for letter in bad]


def by(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=str)


@pytest.mark.parametrize(
    ("p", "said"),
    [
        (share, {}),
        (total, {"key": "k", "order": "seq"}),
        (total, {"order": "seq"}),
    ],
    ids=["rows", "keys", "one"],
)
def test_a_batch(spark: SparkSession, p: Pipeline, said: dict[str, Any]) -> None:
    rows = ROWS if "key" in said or not said else [row for row in ROWS if (row[0], row[1]) != ("v", 1)]
    df = spark.createDataFrame(rows, SCHEMA)
    want, bad = local(p, rows, said)
    found = p.spark(df, bad="keep", keep=["n"], **said)
    assert set(found) == {"out", "bad"}
    assert by([(row.n, row.out) for row in found["out"].collect()]) == by(want)
    letters = found["bad"].collect()
    assert by([(row.column, row.step, row.reason) for row in letters]) == by([letter[1:] for letter in bad])
    assert all(row.file is None and row.row is None for row in letters)
    if said:  # where they are, their key and order say
        assert {f'"seq": {row.seq}' in row.text or row.seq is None for row in letters} == {True}
    one = p.spark(df, bad="keep", tag="output", keep=["n"], **said).collect()
    assert by([(row.n, row.bad.column, row.bad.step, row.bad.reason) for row in one if row.output == "bad"]) == by(bad)
    assert by([(row.n, row.out) for row in one if row.output == "out"]) == by(want)


def test_sources_that_meet_by_order(spark: SparkSession, tmp_path: Path) -> None:
    """A row that cannot be read is not there, so that what it would have met meets the next; of a push that fails all
    rows are told; a file tells its name."""
    both = pipeline(lambda a, b: apply(lambda v, w: 10 * v + 100 // w, a, b, id="both"), a=int, b=int)
    left = spark.createDataFrame([(1, 1), (2, None), (3, 3), (4, 4)], "t int, a int")
    right = spark.createDataFrame([(1, 5), (2, 20), (3, 0), (4, 50)], "t int, b int")
    left.coalesce(1).write.parquet(str(tmp_path / "left"))
    found = both.spark(spark.read.parquet(str(tmp_path / "left")), right, order="t", bad="keep")
    assert by([tuple(row) for row in found["out"].collect()]) == [(1, 30), (3, 35)]
    letters = found["bad"].orderBy("t", "text").collect()
    assert [(row.t, row.column, row.step) for row in letters] == [(2, "a", None), (4, None, "both"), (4, None, "both")]
    assert "left/part-" in letters[0].file and letters[0].text == '{"t": 2, "a_a": null, "b_b": null}'


def test_a_stream_to_its_sinks(spark: SparkSession, tmp_path: Path) -> None:
    """Two micro-batches; each letter is there once, and Spark's own progress counts them."""
    for number, rows in enumerate((ROWS[:5], ROWS[5:])):
        spark.createDataFrame(rows, SCHEMA).coalesce(1).write.parquet(str(tmp_path / "in" / f"{number}"))
    files = spark.readStream.schema(SCHEMA).option("recursiveFileLookup", True).option("maxFilesPerTrigger", 1)
    said = {"key": "k", "order": "seq", "late": "drop"}
    made = total.spark(
        files.parquet(str(tmp_path / "in")), bad="keep", tag="output", state=str(tmp_path / "state"), **said
    )
    target = sinks.split(
        "output", sinks={name: sinks.sqlite(str(tmp_path / "out.db"), name) for name in ("out", "bad")}
    )
    query = (
        made.writeStream.foreachBatch(target)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    counts = [p.observedMetrics["pellucid"].bad for p in query.recentProgress if p.numInputRows]
    rows = target.read()["bad"].to_pylist()
    assert len(rows) == sum(counts) == 5 and len(counts) == 2
    assert sum('"step": "share"' in row["bad"] or '"step":"share"' in row["bad"] for row in rows) == 2
    target.close()


def test_too_many_and_what_cannot_be_said(spark: SparkSession) -> None:
    df = spark.createDataFrame(ROWS, SCHEMA)
    with pytest.raises(
        DataError, match=r"2 rows are bad, and max_bad=1 allows 1: nothing more is written; among them\n"
    ):
        share.spark(df, bad="keep", max_bad=1)
    assert set(share.spark(df, bad="keep", max_bad=2)) == {"out", "bad"}
    stream = spark.readStream.format("rate").load().selectExpr("value as x", "value as seq")
    bad = pipeline(lambda x: {"bad": x + 1}, x=int)
    for p, frame, said, why in (
        (share, df, {"bad": "bad.csv"}, "bad='bad.csv': p.spark gives DataFrames: say bad='keep', and write"),
        (total, df, {"bad": "keep", "order": "seq", "sequence": 1}, "bad= does not go with sequence="),
        (bad, df, {"bad": "keep"}, "bad='keep' makes an output called 'bad', and pipeline has one: rename it"),
        (share, stream, {"bad": "keep"}, "bad='keep' gives rows that are set aside as an output of their own"),
        (share, stream, {"bad": "keep", "tag": "t", "max_bad": 3}, "max_bad= is for a batch"),
        (
            share,
            df.withColumnRenamed("k", "step"),
            {"bad": "keep", "key": "step"},
            "the column 'step' of the key or order has the name of a column of the output 'bad'",
        ),
    ):
        with pytest.raises(UsageError, match=re.escape(why)):
            p.spark(frame, **said)
