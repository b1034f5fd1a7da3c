"""Real failures of a real Spark, and what the user is told of them."""

from __future__ import annotations

import datetime as dt
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid import Pipeline, Scale, apply, errors, pipeline, sinks
from pellucid.errors import DataError, IntOverflow, PellucidError, StepError, UsageError
from pellucid.spark import explain as explain_of_test_bad_tables
from pellucid.spark.failure import MARK, explain, from_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGE = "step 'total': the function failed\n  at push 3, on event 7"


def told(action: Callable[[], Any]) -> PellucidError:
    """What the user is told of an action that fails."""
    with pytest.raises(Exception) as caught:
        action()
    found = explain(caught.value)
    assert found is not None and found is not caught.value, caught.value
    text = str(found)
    assert "\tat " not in text and "org.apache" not in text and "SQLSTATE" not in text, text
    return found


def fails(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        if batch.num_rows:
            raise StepError("step 'total': the function failed\n  at push 3, on event 7", step="total", position=3)
        yield batch


def fails_from_another(batches: Iterator[Any]) -> Iterator[Any]:
    for _ in batches:
        try:
            raise DataError("the first\n\n  after an empty line")
        except DataError as error:
            raise IntOverflow("the second\n\n  after an empty line") from error
    yield from ()


def fails_by_itself(batches: Iterator[Any]) -> Iterator[Any]:
    for _ in batches:
        raise KeyError("nope")
    yield from ()


def refused(batches: Iterator[Any]) -> Iterator[Any]:
    for _ in batches:
        raise ConnectionRefusedError("[PATH_NOT_FOUND] Connection refused")
    yield from ()


def dies(batches: Iterator[Any]) -> Iterator[Any]:
    import os

    for _ in batches:
        os._exit(3)
    yield from ()


@pytest.mark.parametrize("action", ["collect", "count", "write"])
def test_our_error_from_a_worker(spark: Any, tmp_path: Path, action: str) -> None:
    frame = spark.range(3, numPartitions=1).mapInArrow(fails, "id long")
    act = {"collect": frame.collect, "count": frame.count, "write": lambda: frame.write.parquet(str(tmp_path / "out"))}
    error = told(act[action])
    assert type(error) is StepError and str(error) == MESSAGE


def test_the_last_raised_of_our_errors_wins(spark: Any) -> None:
    error = told(spark.range(3, numPartitions=1).mapInArrow(fails_from_another, "id long").collect)
    assert type(error) is IntOverflow and str(error) == "the second\n\n  after an empty line"


def stream(spark: Any, folder: Path, step: Any, sink: Callable[[Any, int], None] | None) -> None:
    spark.range(3, numPartitions=1).write.parquet(str(folder / "in"))
    frame = spark.readStream.schema("id long").parquet(str(folder / "in"))
    frame = frame.mapInArrow(step, "id long") if callable(step) else frame.select(step) if step is not None else frame
    writer = frame.writeStream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    (writer.foreachBatch(sink) if sink else writer.format("noop")).start().awaitTermination()


def test_our_error_from_a_worker_of_a_stream(spark: Any, tmp_path: Path) -> None:
    error = told(lambda: stream(spark, tmp_path, fails, None))
    assert type(error) is StepError and str(error) == MESSAGE


def test_our_error_through_foreach_batch(spark: Any, tmp_path: Path) -> None:
    error = told(lambda: stream(spark, tmp_path, fails, lambda frame, _: frame.collect()))
    assert type(error) is StepError and str(error) == MESSAGE


def test_our_error_in_foreach_batch_itself(spark: Any, tmp_path: Path) -> None:
    def sink(frame: Any, epoch: int) -> None:
        raise errors.StateError(f"micro-batch {epoch}:\n  the snapshot is damaged")

    error = told(lambda: stream(spark, tmp_path, None, sink))
    assert type(error) is errors.StateError and str(error) == "micro-batch 0:\n  the snapshot is damaged"


def test_raised_natively(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    def raising(message: str) -> Any:
        return spark.range(1).select(F.raise_error(F.lit(message)).cast("string").alias("x"))

    error = told(raising(f"{MARK}{MESSAGE}").collect)
    assert type(error) is StepError and str(error) == MESSAGE
    error = told(raising(f"{MARK}DataError: column 'user':\n  a null key").collect)
    assert type(error) is DataError and str(error) == "column 'user':\n  a null key"
    error = told(raising("the user's own").collect)
    assert type(error) is StepError and str(error) == "raise_error in the query said: the user's own"
    error = told(lambda: raising(f"{MARK}{MESSAGE}").write.parquet(str(tmp_path / "out")))
    assert str(error) == MESSAGE
    error = told(
        lambda: stream(spark, tmp_path, F.raise_error(F.lit(f"{MARK}{MESSAGE}")).cast("long").alias("x"), None)
    )
    assert type(error) is StepError and str(error) == MESSAGE


def test_arithmetic(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    error = told(spark.range(1).select(F.lit(2**63 - 1) + F.col("id") + 1).collect)
    assert type(error) is IntOverflow
    assert str(error).startswith("An integer left the signed 64-bit range in a native expression (written at ")
    assert "test_failure.py" in str(error) and "ansi" not in str(error)
    error = told(spark.range(1).select(F.lit(1) / F.col("id")).collect)
    assert type(error) is StepError and str(error).startswith("Division by zero in a native expression (written at ")
    error = told(spark.range(1).selectExpr("1 % id").collect)
    assert type(error) is StepError and str(error) == "Division by zero in a native expression."
    error = told(lambda: stream(spark, tmp_path, F.col("id") + 9223372036854775807, None))
    assert type(error) is IntOverflow


def test_what_the_query_asks_for_is_not_there(spark: Any, tmp_path: Path) -> None:
    error = told(lambda: spark.range(1).select("nope"))
    assert type(error) is DataError and str(error) == "There is no column 'nope'. Columns like it: 'id'."
    error = told(lambda: spark.read.parquet("/there/is/no/such"))
    assert type(error) is DataError and str(error) == "/there/is/no/such does not exist (or Spark may not read it)."
    times = pa.array([0], pa.timestamp("ns", tz="UTC"))
    pq.write_table(pa.table({"at": times}), tmp_path / "ns.parquet")
    error = told(lambda: spark.read.parquet(str(tmp_path / "ns.parquet")))
    assert type(error) is DataError and str(error) == (
        "Spark cannot read times in nanoseconds from Parquet (Illegal Parquet type: INT64 (TIMESTAMP(NANOS,true))), "
        "which is what pandas writes: write them in microseconds, as with to_parquet(…, coerce_timestamps='us') "
        "or Arrow's write_table(…, coerce_timestamps='us')"
    )
    error = told(lambda: spark.table("nope"))
    assert type(error) is UsageError and str(error).startswith(
        "Spark refused it (TABLE_OR_VIEW_NOT_FOUND): The table or view"
    )
    assert "UnresolvedRelation" not in str(error)
    error = told(spark.range(1).selectExpr("cast('abc' as bigint)").collect)
    assert type(error) is DataError and str(error).startswith("Spark cannot read a value: The value 'abc' of the type")
    assert "try_cast" not in str(error)


def ended(writer: Any) -> None:
    writer.start().awaitTermination()


def test_a_file_that_cannot_be_read(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "2.csv").write_text("a,b\n1,2\n3,4,5\n")
    begun = spark.readStream.schema("a long, b long").option("header", True).option("mode", "FAILFAST").csv(str(folder))
    writer = begun.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    for sink in (writer.format("noop"), writer.foreachBatch(lambda frame, _: frame.collect())):
        error = told(partial(ended, sink))
        assert type(error) is DataError
        assert str(error) == f"file://{folder}/2.csv: Spark cannot read a value: Malformed CSV record: 3,4,5"
    read = (
        spark.read.schema("b long, a long")
        .option("header", True)
        .option("enforceSchema", False)
        .option("mode", "FAILFAST")
    )
    error = told(read.csv(str(folder)).collect)
    assert str(error).startswith(
        f"file://{folder}/2.csv: its header is a, b, but that of the first file is b, a: all files of a folder must"
    )


def test_another_function_fails(spark: Any) -> None:
    error = told(spark.range(1, numPartitions=1).mapInArrow(fails_by_itself, "id long").collect)
    assert type(error) is StepError
    assert str(error).startswith("A Python function failed on Spark (in fails_by_itself, ")
    assert str(error).endswith("): KeyError: 'nope'")
    error = told(spark.range(1, numPartitions=1).mapInArrow(refused, "id long").collect)
    assert str(error).endswith("): ConnectionRefusedError: [PATH_NOT_FOUND] Connection refused")


def test_a_worker_dies(spark: Any) -> None:
    error = told(spark.range(1, numPartitions=1).mapInArrow(dies, "id long").count)
    assert type(error) is PellucidError and str(error).startswith(
        "A Python worker died 4 times or could not start: it was killed"
    )


def test_out_of_memory_in_python() -> None:
    text = "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):\n"
    error = from_text(text + '  File "/job.py", line 8, in push\nMemoryError\n SQLSTATE: 38000')
    assert str(error).startswith("A Python worker of Spark ran out of memory: ") and "driver" not in str(error)


def test_out_of_memory(spark: Any) -> None:
    error = told(lambda: spark._jvm.java.nio.ByteBuffer.allocate(2**31 - 1))
    assert str(error).startswith("Spark ran out of memory. Give it more (conf spark.driver.memory=4g")


def test_another_java_error(spark: Any) -> None:
    error = told(lambda: spark._jvm.java.util.Optional.empty().get())
    assert type(error) is PellucidError and str(error) == "Spark failed: No value present"


def test_spark_has_gone(java_home: Any, tmp_path: Path) -> None:
    """In a process of its own, because its JVM is killed."""
    script = """
        import os, signal
        from pyspark import SparkContext
        from pellucid.errors import UsageError
        from pellucid.spark.failure import explain
        from pellucid.spark.session import session, stop_if_ours

        spark = session(master="local[1]")
        jvm = SparkContext._gateway.proc
        os.kill(spark._jvm.java.lang.ProcessHandle.current().pid(), signal.SIGKILL)
        jvm.wait()
        try:
            spark.range(1).count()
        except Exception as error:
            print(explain(error))
        try:
            session()
        except UsageError as error:
            print(error)
        print(stop_if_ours(spark))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=600)
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done
    assert lines[0].startswith("Spark has gone: it was stopped or killed")
    assert lines[1] == "The Spark of this process has died (killed, or out of memory). Start Python again."
    assert lines[2] == "True" and done.returncode == 0


def test_what_is_not_sparks_is_not_explained() -> None:
    assert explain(ValueError("x")) is None and explain(KeyboardInterrupt()) is None
    ours = UsageError("x")
    assert explain(ours) is ours


KINDS = [
    kind.__name__
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, PellucidError) and kind is not PellucidError
]
LINES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=20), min_size=1, max_size=4
)
WRAPPINGS = [
    "{}",
    "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: {}\n SQLSTATE: 38000",
    "[STREAM_FAILED] Query [id = 1] terminated with exception: {}\n SQLSTATE: 38000 SQLSTATE: XXKST\n=== Streaming "
    "Query ===\nx",
    "An error occurred while calling o1.count.\n: org.apache.spark.SparkException: Job aborted: {}\n\tat "
    "x.y(Z.java:1)\nCaused by: z",
]


@given(st.sampled_from(KINDS), LINES, st.lists(st.sampled_from(WRAPPINGS), max_size=3))
def test_a_message_survives_any_wrapping(kind: str, lines: list[str], wrappings: list[str]) -> None:
    message = "\n".join(["it failed", *(f"  {line}." for line in lines)])
    text = (
        f'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    f()\npellucid.errors.{kind}: {message}'
    )
    for wrapping in wrappings:
        text = wrapping.replace("{}", text)
    found = from_text(text)
    assert type(found).__name__ == kind and str(found) == message


# ``bad="keep"`` on Spark: rows that cannot be read, or on which a step fails, are an output; the local run is the
# oracle.

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


# Tables on Spark that are not as they were declared: the messages name the row, the column, the step, and what to
# write.


class Flight(NamedTuple):
    carrier: str
    at: Annotated[dt.datetime, dt.UTC]
    fee: Annotated[Decimal, Scale(2)]


AIRLINES = {"UA": "United"}
names = pipeline(lambda f: f.map(lambda e: AIRLINES[e.carrier], id="name"), f=Flight)
AT = dt.datetime(2013, 1, 1, 5, tzinfo=dt.UTC)


def test_each_is_named(spark: SparkSession) -> None:
    def rows(*values: Any, at: str = "timestamp", carrier: str = "string") -> Any:
        return spark.createDataFrame([values], f"carrier {carrier}, at {at}, fee decimal(10,3), CARRIER2 int")

    good = ("UA", AT, Decimal("1.500"), 1)
    said: list[tuple[Callable[[], Any], str]] = [
        (
            lambda: names.spark(rows(*good).withColumnRenamed("CARRIER2", "Carrier")),
            "the DataFrame: the columns 'carrier' and 'Carrier' differ only in case, which Spark does not tell apart: "
            "rename one, or drop it",
        ),
        (
            lambda: names.spark(rows(*good, at="timestamp").withColumn("at", _naive())),
            "column 'at' holds timestamp[us]: expected datetime[UTC]; its times have no time zone: declare the field "
            "as datetime",
        ),
        (
            lambda: names.spark(rows("UA", AT, Decimal("1.505"), 1)).collect(),
            "column 'fee': 1.505 has more than 2 places after the point: round it first, or declare Scale(3)",
        ),
        (
            lambda: names.spark(rows(None, AT, Decimal("1.500"), 1)).collect(),
            "column 'carrier' is null: expected str; fill it, remove the row, or declare it as str | None",
        ),
        (lambda: names.spark(rows("ZZ", *good[1:])).collect(), "KeyError: 'ZZ'"),
        (
            lambda: names.spark(rows(*good).selectExpr("*", "array(carrier) k"), key="k"),
            "the key column 'k' is array<string>: a key is a whole number, a text, a truth value, a date, a timestamp "
            "or a decimal",
        ),
        (
            lambda: names.spark(rows(*good).selectExpr("*", "1 out"), keep=["out"]),
            "keep='out': the output 'out' has a column of this name itself",
        ),
    ]
    for call, message in said:
        with pytest.raises(Exception) as caught:
            call()
        assert message in str(explain_of_test_bad_tables(caught.value) or caught.value)


def _naive() -> Any:
    from pyspark.sql import functions as F

    return F.col("at").cast("timestamp_ntz")
