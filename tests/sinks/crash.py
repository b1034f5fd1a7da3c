"""What the crash tests share: the input, the answer by an independent way, and a job that can be killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

NOTES = [
    "",
    "plain",
    'quo"ted',
    "two\nlines",
    "\\.",
    "a\n\\.\nb",
    "comma,;\t",
    "ünïcode 🦜",
    None,
    "'; DROP TABLE x; --",
]


def make_source(folder: Path, files: int = 4, rows: int = 300) -> Counter[tuple[Any, ...]]:
    """Files for the streaming source; returns the rows that must arrive, computed here and not by Spark."""
    folder.mkdir(parents=True)
    chosen = random.Random(7)
    expected: Counter[tuple[Any, ...]] = Counter()
    for number in range(files):
        made = []
        for place in range(rows):
            at = datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=UTC) + timedelta(
                microseconds=chosen.randrange(10**13)
            )
            made.append(
                {
                    "id": number * rows + place,
                    "user": f"u{chosen.randrange(20)}",
                    "x": chosen.random() * 1000,
                    "note": chosen.choice(NOTES),
                    "at": at,
                }
            )
        kinds = pa.schema(
            {
                "id": pa.int64(),
                "user": pa.string(),
                "x": pa.float64(),
                "note": pa.string(),
                "at": pa.timestamp("us", tz="UTC"),
            }
        )
        pq.write_table(pa.Table.from_pylist(made, kinds), folder / f"{number:03d}.parquet")
        os.utime(
            folder / f"{number:03d}.parquet", (1_700_000_000 + number, 1_700_000_000 + number)
        )  # the order in which Spark takes them
        expected.update((row["id"], row["user"], row["x"], row["note"], row["at"]) for row in made if row["x"] < 900)
    return expected


def rows_in(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """The rows of a target, as those of :func:`make_source`; SQLite and JSON keep a time as text, Spark's INT96 has no
    zone."""

    def time_of(value: Any) -> datetime:
        at = datetime.fromisoformat(value) if isinstance(value, str) else value
        return at if at.tzinfo else at.replace(tzinfo=UTC)

    if table.schema.field("at").type == pa.timestamp("ns"):
        place = table.schema.get_field_index("at")
        table = table.set_column(place, "at", table["at"].cast(pa.timestamp("us")))
    return Counter((row["id"], row["user"], row["x"], row["note"], time_of(row["at"])) for row in table.to_pylist())


def run_job(config: dict[str, Any], folder: Path, kill_after: float | None = None) -> int:
    """Run the job; with ``kill_after``, kill it and its JVM after so many seconds.  Returns the exit code (negative: a
    signal)."""
    path = folder / "job.json"
    path.write_text(json.dumps(config))
    with (folder / "job.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.sinks.streaming_job", str(path)],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        try:
            code = process.wait(timeout=kill_after if kill_after is not None else 300)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        finally:
            _end_group(process)
    if code not in (0, -signal.SIGKILL):
        raise AssertionError(f"the job failed with {code}:\n{(folder / 'job.log').read_text(errors='replace')[-4000:]}")
    return code


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """The job's own process group: its Python, its JVM, its workers."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.1)


def forget_last_commit(work: Path, name: str) -> int:
    """Delete the newest entry of the checkpoint's commit log, so that Spark runs that batch again; returns its
    number."""
    commits = work / name / "checkpoint" / "commits"
    newest = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(newest)).unlink()
    (commits / f".{newest}.crc").unlink(missing_ok=True)
    return newest
