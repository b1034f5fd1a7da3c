"""Recorded traces: read from files and state folders, with their columns checked."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid.errors import DataError, UsageError
from pellucid.failures.audit import audit
from pellucid.failures.audit.arrays import columns
from pellucid.failures.audit.recorded import read_trace, trace_files, trace_table, unfinished
from pellucid.internal.engine.epochs.recording import RecordedMessage, Recorder, schema, write_trace
from tests.failures.simulated import simulated


def test_a_trace_comes_back_from_parquet_as_it_was(tmp_path: Path) -> None:
    trace = trace_table(simulated(1))
    pq.write_table(trace, tmp_path / "trace.parquet")
    assert read_trace(tmp_path).to_pylist() == trace.to_pylist()
    assert audit(tmp_path).holds


def test_the_order_of_the_rows_does_not_matter() -> None:
    rows = simulated(2)
    mixed = random.Random(0).sample(rows, len(rows))
    one, other = columns(trace_table(rows)), columns(trace_table(mixed))
    assert one.index.tolist() == other.index.tolist() and one.consumed.n.tolist() == other.consumed.n.tolist()
    assert audit(trace_table(mixed)).holds


def test_several_files_are_one_trace(tmp_path: Path) -> None:
    trace = trace_table(simulated(3))
    half = len(trace) // 2
    for at, part in enumerate((trace.slice(0, half), trace.slice(half))):
        pq.write_table(part, tmp_path / f"{at}.parquet")
    assert audit(tmp_path).steps == len(trace) and audit(tmp_path).holds


def test_a_run_that_was_killed_is_read_from_its_steps(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "source.x", 0)
    recorder.step("SOURCE", 1, produced=[RecordedMessage("s", 0, False, 17)])
    assert unfinished(tmp_path)
    made = write_trace(tmp_path)
    later = made.stat().st_mtime + 10
    os.utime(made, (later, later))
    assert not unfinished(tmp_path)
    assert trace_files(tmp_path) == [tmp_path / "trace" / "trace.parquet"]
    recorder.step("SOURCE", 1, produced=[RecordedMessage("s", 1, False, 18)])
    recorder.close()
    os.utime(tmp_path / "trace" / "000000.source.x.steps", (later + 10, later + 10))
    assert len(read_trace(tmp_path)) == 2


def test_an_empty_trace_holds() -> None:
    assert audit(schema().empty_table()).holds


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns(["epoch"]), "no column 'epoch': a trace has task, generation, index"),
        (lambda t: t.set_column(4, "epoch", pa.array(["x"] * len(t))), "column 'epoch' is string, expected int64"),
        (lambda t: t.set_column(5, "consumed", pa.array([[1]] * len(t))), "column 'consumed' is list<"),
        (
            lambda t: t.set_column(4, "epoch", pa.array([None, *range(len(t) - 1)], pa.int64())),
            "row 0: column 'epoch' is empty",
        ),
    ],
)
def test_wrong_columns_are_named(tmp_path: Path, change: object, message: str) -> None:
    pq.write_table(change(trace_table(simulated(1))), tmp_path / "t.parquet")  # type: ignore[operator]
    with pytest.raises(DataError) as caught:
        audit(tmp_path)
    assert message in str(caught.value) and "t.parquet" in str(caught.value)


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        read_trace(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="run with record=True"):
        read_trace(tmp_path)
    (tmp_path / "x.parquet").write_text("not Parquet")
    with pytest.raises(DataError, match=r"x\.parquet: cannot be read as Parquet"):
        read_trace(tmp_path)


def test_a_message_without_a_number_is_refused() -> None:
    rows = [
        {
            "task": "a",
            "index": 0,
            "rule": "SOURCE",
            "epoch": 1,
            "produced": [{"stream": "s", "n": None, "border": False, "digest": 1}],
        }
    ]
    with pytest.raises(DataError, match="step 0: a message without 'n'"):
        audit(trace_table(rows))
