"""One interface: staged, prepared, committed or aborted, by every sink and for both engines; and sinks of one's own."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pellucid import pipeline, sinks
from pellucid.errors import StateError, UsageError
from pellucid.sinks import Sink, sink_of
from pellucid.sinks.rows import Rows
from tests.sinks.own import Lines

ROWS = pa.table({"user": ["a", "b"], "sum": [1, 2]})

MADE: dict[str, Callable[[Path], Sink]] = {
    "parquet": lambda folder: sinks.parquet(folder / "out"),
    "sqlite": lambda folder: sinks.sqlite(folder / "out.db", "sums"),
    "delta": lambda folder: sinks.delta(folder / "out"),
    "lines": lambda folder: Lines(folder / "out"),
}


def rows(sink: Sink) -> list[dict[str, Any]]:
    if isinstance(sink, Lines):
        return sink.rows()
    return sorted(sink.read().to_pylist(), key=lambda row: str(row["user"]))


@pytest.mark.parametrize("name", MADE)
def test_the_two_phases(tmp_path: Path, name: str) -> None:
    if name == "delta":
        pytest.importorskip("deltalake")
    sink = MADE[name](tmp_path)
    sink.write(ROWS, "q", 0)
    staged = sink.stage(ROWS, "q", 1)
    assert not staged.skipped and sink.last("q") == 0
    sink.prepare(staged)
    assert MADE[name](tmp_path).last("q") == 0 and len(rows(MADE[name](tmp_path))) == 2
    sink.abort(staged)
    assert sink.last("q") == 0
    staged = sink.stage(ROWS, "q", 1)
    sink.prepare(staged)
    sink.commit(staged)
    assert sink.last("q") == 1 and len(rows(sink)) == 4
    assert sink.write(ROWS, "q", 1).skipped and sink.write(ROWS, "q", 0).skipped
    assert rows(sink) == sorted(2 * ROWS.to_pylist(), key=lambda row: row["user"]) or name == "lines"


@pytest.mark.parametrize("name", ["parquet", "sqlite", "lines"])
def test_what_is_aborted_leaves_nothing(tmp_path: Path, name: str) -> None:
    sink = MADE[name](tmp_path)
    sink.write(ROWS, "q", 0)
    before = sorted(path for path in tmp_path.rglob("*"))
    for prepared in (False, True):
        staged = sink.stage(ROWS, "q", 1)
        if prepared:
            sink.prepare(staged)
        sink.abort(staged)
    assert sorted(path for path in tmp_path.rglob("*")) == before and rows(sink) == ROWS.to_pylist()


def test_a_commit_that_fails_is_aborted(tmp_path: Path) -> None:
    class Full(Lines):
        def commit(self, staged: sinks.Staged) -> None:
            raise OSError(28, "No space left on device")

    sink = Full(tmp_path)
    with pytest.raises(OSError, match="No space"):
        sink.write(ROWS, "q", 0)
    assert sink.calls == ["stage", "prepare", "abort"] and not list(tmp_path.glob("*/*"))


def test_prepare_of_a_table_of_one_file_keeps_others_out(tmp_path: Path) -> None:
    sink, other = (sinks.sqlite(tmp_path / "out.db", table, wait=0.1) for table in ("a", "b"))
    staged = sink.stage(ROWS, "q", 0)
    with pytest.raises(StateError, match=r"another writer has held the database for 0\.1 s"):
        other.stage(ROWS, "q", 0)
    sink.commit(staged)
    assert other.write(ROWS, "q", 0).rows == 2


# ------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("sqlite:{}/a.db#t", "sqlite"),
        ("sqlite://{}/a.db#t", "sqlite"),
        ("postgres://db/shop#t", "postgres"),
        ("postgresql://db/shop#t", "postgres"),
        ("delta:{}/lake", "delta"),
        ("kafka://host:9092/topic", "kafka"),
        ("{}/folder", "parquet"),
        ("env:SOME_PLACE#t", "sqlite"),
    ],
)
def test_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, kind: str) -> None:
    monkeypatch.setenv("SOME_PLACE", f"sqlite:{tmp_path}/a.db")
    sink = sink_of(address.format(tmp_path))
    assert sink.kind == kind
    if kind == "sqlite":
        assert sink.identity == f"sqlite:{tmp_path}/a.db#t"
        sink.write(ROWS, "q", 0)
        assert (tmp_path / "a.db").exists()


# ------------------------------------------------------------------ a run with epochs


total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0, id="sum"), x=int)


def events(folder: Path) -> Path:
    (folder / "x.jsonl").write_text("".join(f"{i}\n" for i in range(50)))
    return folder / "x.jsonl"


def test_a_run_with_epochs_takes_a_sink_of_ones_own(tmp_path: Path) -> None:
    sink = Lines(tmp_path / "out")
    report = total.run_epochs(events(tmp_path), sink, state=tmp_path / "state", pushes=10)
    assert report.epochs == 5
    assert [row["out"] for row in sink.rows()] == [sum(range(i + 1)) for i in range(50)]
    again = total.run_epochs(tmp_path / "x.jsonl", {"out": sink}, state=tmp_path / "state", pushes=10)
    assert again.epochs == report.epochs and len(sink.rows()) == 50
    with pytest.raises(
        StateError, match=r"belongs to another run: outputs= was out=lines: .*, and is out=lines: .* now"
    ):
        total.run_epochs(tmp_path / "x.jsonl", Lines(tmp_path / "other"), state=tmp_path / "state", pushes=10)


def test_the_sink_of_a_table_is_its_address(tmp_path: Path) -> None:
    """A run that began with the address goes on with the sink itself."""
    source = events(tmp_path)
    total.run_epochs(source, f"sqlite:///{tmp_path}/out.db#sums", state=tmp_path / "state", pushes=10)
    sink = sinks.sqlite(tmp_path / "out.db", "sums")
    total.run_epochs(source, sink, state=tmp_path / "state", pushes=10)
    assert sink.read()["out"].to_pylist() == [sum(range(i + 1)) for i in range(50)]


def test_any_sink_is_an_output(tmp_path: Path) -> None:
    sink = sinks.parquet(tmp_path / "out")
    total.run_epochs(events(tmp_path), sink, state=tmp_path / "state", pushes=20)
    assert sorted(sink.read()["out"].to_pylist()) == [sum(range(i + 1)) for i in range(50)]
    with pytest.raises(UsageError, match="goes with Spark"):
        total.run_epochs(events(tmp_path), "kafka://host/topic", state=tmp_path / "other", pushes=20)


PROGRAM = """
import sys
from pathlib import Path
from pellucid import pipeline
from tests.sinks.own import Lines

total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0, id="sum"), x=int)
folder = Path(sys.argv[1])
total.run_epochs(folder / "x.jsonl", Lines(folder / "out"), state=folder / "state", pushes=10, chunk=10)
"""


@pytest.mark.parametrize(
    "faults",
    ["sink:before-commit=tree@2", "sqlite:before-commit=tree@2;sink:after-commit=kill@1/1", "sink:after-commit=tree@3"],
)
def test_a_crash_does_not_show_in_a_sink_of_ones_own(tmp_path: Path, faults: str) -> None:
    events(tmp_path)
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(Path(__file__).parents[2])]))
    codes = []
    for _ in range(4):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path)],
            env={**os.environ, "PELLUCID_FAULTS": faults, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=300,
        )
        codes.append(done.returncode)
        if done.returncode == 0:
            break
    assert codes == [-9, 0], done.stderr
    assert [row["out"] for row in Lines(tmp_path / "out").rows()] == [sum(range(i + 1)) for i in range(50)]


def test_rows_get_the_labels_of_their_schema_also_where_a_record_is_missing() -> None:
    """Spark says of a record that it is never missing, which is so in the rows of its own output; Arrow's cast fails
    on the others."""
    zoned = {zone: pa.timestamp("us", zone) for zone in ("Etc/UTC", "UTC")}
    count = pa.struct([pa.field("n", pa.int64(), nullable=False)])
    last = {zone: pa.struct([pa.field("at", t, nullable=False)]) for zone, t in zoned.items()}
    now = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
    came = pa.record_batch(
        [
            pa.array([now] * 3, zoned["Etc/UTC"]),
            pa.array([None, {"n": 1}, {"n": 2}], count),
            pa.array([{"at": now}, None, {"at": now}], last["Etc/UTC"]),
        ],
        names=["when", "count", "last"],
    )
    wanted = pa.schema([("when", zoned["UTC"]), pa.field("count", count, nullable=False), ("last", last["UTC"])])
    for batch in (came, came.slice(1)):
        (got,) = Rows(wanted, [batch])
        assert got.schema == wanted and got.to_pylist() == batch.to_pylist()
