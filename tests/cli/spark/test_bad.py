"""``--bad`` and ``--max-bad`` on Spark: the rows that are set aside are one more output, of a batch and of a query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from pellucid import sinks
from tests.cli.spark.conftest import KEYED, Command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = {"user": ["a", "a", "b", None], "seq": [1, 2, 1, 1], "x": [5, 0, None, 3]}
SECOND = {"user": ["a", "b", "b"], "seq": [3, 2, 3], "x": [2, 0, 10]}


def put(folder: Path, name: str, rows: dict[str, list[object]]) -> None:
    (folder / "events").mkdir(exist_ok=True)
    pq.write_table(pa.table(rows), folder / "events" / f"{name}.parquet")


def test_a_batch(spark: SparkSession, run: Command, folder: Path) -> None:
    put(folder, "1", FIRST)
    said = ["inverse", "--in", "events", *KEYED, "--out", "out.parquet"]
    done = run(*said, "--bad", "bad.jsonl", "--max-bad", 2)
    assert done.exit_code == 2 and "3 rows are bad, and --max-bad 2 allows 2: nothing more is written" in done.output
    assert not Path("out.parquet").exists() and not Path("bad.jsonl").exists()
    done = run(*said, "--bad", "bad.jsonl", "--max-bad", 3)
    assert done.exit_code == 0 and ", 1 out, 3 bad, " in done.output, done.output
    letters = spark.read.json(str(folder / "bad.jsonl")).collect()
    assert sorted((str(row.user), str(row.column), str(row.step)) for row in letters) == [
        ("None", "user", "None"), ("a", "None", "invert"), ("b", "x", "None"),
    ]  # fmt: skip
    assert all(row.file.endswith("events/1.parquet") for row in letters)


def test_a_query(spark: SparkSession, run: Command, folder: Path) -> None:
    """The count goes over all micro-batches; too many end the query before one of them is written."""
    put(folder, "1", FIRST)
    out, bad = (f"sqlite:{folder}/out.db#{name}" for name in ("sums", "bad"))
    said = ["inverse", "--in", "events", *KEYED, "--stream", "--trigger", "once", "--checkpoint", "check"]
    first = run(*said, "--out", out, "--bad", bad, "--max-bad", 3)
    assert first.exit_code == 0 and ", 1 out, 3 bad, " in first.output, first.output
    put(folder, "2", SECOND)
    again = run(*said, "--out", out, "--bad", bad, "--max-bad", 3)
    assert again.exit_code == 2 and "4 rows are bad, and --max-bad 3 allows 3" in again.output
    assert [sinks.sqlite(f"{folder}/out.db", t).read().num_rows for t in ("sums", "bad")] == [1, 3]
    last = run(*said, "--out", out, "--bad", bad, "--max-bad", 4)
    assert last.exit_code == 0 and ", 2 out, 4 bad, " in last.output, last.output
    assert [sinks.sqlite(f"{folder}/out.db", t).read().num_rows for t in ("sums", "bad")] == [3, 4]


def test_what_cannot_be_done(run: Command, folder: Path) -> None:
    put(folder, "1", FIRST)
    for said, why in (
        (["--in", "events.csv", *KEYED, "--bad", "bad.csv"], "--bad: events.csv is csv, which Spark itself reads"),
        (["--in", "events", *KEYED, "--bad", "out.csv"], "--bad out.csv: is where the output 'out' goes"),
        (["--in", "events", "--order", "seq", "--sequence", 1, "--bad", "b.csv"], "--bad does not go with --sequence"),
    ):
        done = run("inverse", *said, "--out", "out.csv")
        assert done.exit_code == 2 and why in done.output, done.output
