"""Output files appear whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from pellucid import DataError
from pellucid.internal.base.files import write_whole
from pellucid.internal.data.feed import ahead
from pellucid.internal.data.outputs import json_texts, open_writer

SCHEMA = pa.schema([("x", pa.int64())])
BATCH = pa.record_batch({"x": [1, 2]})


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.parquet", "a.arrow"])
def test_nothing_is_there_before_the_end_and_all_of_it_after(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    with open_writer(str(target), SCHEMA) as writer:
        writer.write(BATCH)
        assert not target.exists()
        assert len(os.listdir(tmp_path)) == 1
    assert os.listdir(tmp_path) == [name]
    assert writer.rows == 2


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.parquet", "a.arrow"])
def test_an_error_leaves_nothing(tmp_path: Path, name: str, error: type[BaseException]) -> None:
    def fail() -> None:
        with open_writer(str(tmp_path / name), SCHEMA) as writer:
            writer.write(BATCH)
            raise error

    with pytest.raises(error):
        fail()
    assert os.listdir(tmp_path) == []


def test_a_full_disk(tmp_path: Path) -> None:
    writer = open_writer(str(tmp_path / "a.jsonl"), SCHEMA)

    class Full:
        def write(self, data: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    writer._sink._stream = Full()
    with pytest.raises(DataError, match=r"a\.jsonl: cannot be written: No space left on device$"), writer:
        writer.write(BATCH)
    assert os.listdir(tmp_path) == []


def test_a_disk_that_gets_full_while_row_groups_are_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are packed in a thread of their own: what goes wrong there is said, and nothing is left."""
    monkeypatch.setattr("pellucid.internal.data.outputs._ROW_GROUP", 1)
    writer = open_writer(str(tmp_path / "a.parquet"), SCHEMA)

    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            if self.tell() > 1000:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data)

    writer._sink._stream = Full()
    with pytest.raises(DataError, match=r"a\.parquet: cannot be written: No space left on device"), writer:
        [writer.write(BATCH) for _ in range(100)]
    assert os.listdir(tmp_path) == []


def test_a_file_gets_the_rights_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with open_writer(str(tmp_path / "a.csv"), SCHEMA):
        pass
    assert (tmp_path / "a.csv").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_small_batches_share_a_row_group(tmp_path: Path) -> None:
    with open_writer(str(tmp_path / "a.parquet"), SCHEMA) as writer:
        for _ in range(100):
            writer.write(BATCH)
    file = parquet.ParquetFile(tmp_path / "a.parquet")
    assert (file.metadata.num_rows, file.num_row_groups) == (200, 1)


def test_json_texts() -> None:
    assert json_texts(pa.array([1.5, float("inf"), float("-inf")])) == ["1.5", "1e999", "-1e999"]
    with pytest.raises(DataError, match="column 'mean' has a NaN, for which JSON has no word: write CSV or Parquet"):
        json_texts(pa.array([[1.5, float("nan")], None]), "mean")
    assert json_texts(pa.array([True, False])) == ["true", "false"]
    assert json_texts(pa.array(['a"b\n', "é"])) == ['"a\\"b\\n"', '"é"']


def dead() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize("whole", [False, True])
def test_only_what_dead_processes_left_of_the_same_target_goes(tmp_path: Path, whole: bool) -> None:
    gone, parent = dead(), os.getppid()
    stale = tmp_path / f".a.csv.{gone}.part"
    stale.write_text("half")
    keep = [
        f".a.csv.{parent}.part",  # alive
        f".b.csv.{gone}.part",  # of another target
        f".a.csv.gz.{gone}.part",
        f".a.csv.{gone}.part.bak",
        f".a.csv.0{gone}.part",  # no name that we give
        ".a.csv.0.part",
        ".a.csv..part",
        ".a.csv.part",
        ".a.csv.x.part",
        f".a.csv.{10**30}.part",
        f"a.csv.{gone}.part",
    ]
    for name in keep:
        (tmp_path / name).write_text("mine")
    other = dead()
    (tmp_path / f".a.csv.{other}.part").symlink_to("plain")
    (tmp_path / "plain").write_text("mine")
    if whole:
        write_whole(str(tmp_path / "a.csv"), "text")
    else:
        with open_writer(str(tmp_path / "a.csv"), SCHEMA):
            pass
    assert sorted(os.listdir(tmp_path)) == sorted([*keep, f".a.csv.{other}.part", "plain", "a.csv"])
    assert all((tmp_path / name).read_text() == "mine" for name in keep)


def test_what_somebody_has_locked_stays(tmp_path: Path) -> None:
    """A process of another container or machine writes to the same disk: its number says nothing here."""
    stale = tmp_path / f".a.csv.{dead()}.part"
    with open(stale, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with open_writer(str(tmp_path / "a.csv"), SCHEMA) as writer:
            writer.prepare()
            with open(tmp_path / f".a.csv.{os.getpid()}.part") as own, pytest.raises(BlockingIOError):
                fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ours stays locked until it has its name
        assert stale.exists()
    with open_writer(str(tmp_path / "a.csv"), SCHEMA):
        pass
    assert os.listdir(tmp_path) == ["a.csv"]


def test_a_file_in_the_way(tmp_path: Path) -> None:
    mine = tmp_path / f".a.csv.{os.getpid()}.part"
    mine.write_text("")
    with pytest.raises(DataError) as caught:
        open_writer(str(tmp_path / "a.csv"), SCHEMA)
    assert str(caught.value) == f"{mine}: is in the way: another run may be writing here; else remove it"
    assert mine.exists()


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with open_writer(str(tmp_path / "a.csv"), SCHEMA) as writer:
            writer.write(BATCH)
        open_writer(str(tmp_path / "a.csv"), SCHEMA).discard()
        write_whole(str(tmp_path / "b"), "text")
    assert len(os.listdir("/proc/self/fd")) == before


ODD = {
    "views": (pa.array([[1.5]], pa.list_view(pa.float64())), {"csv": "no form"}),
    "nan in a view": (pa.array([[float("nan")]], pa.list_view(pa.float64())), {"csv": "no form", "jsonl": "has a NaN"}),
    "texts": (pa.array(["a", None], pa.string_view()), {"csv": "no form", "jsonl": "no form"}),
    "months": (
        pa.array([pa.MonthDayNano([1, 2, 3])]),
        {"csv": r"csv has no form: do not keep it, or write \.arrow$", "jsonl": "no form", "parquet": "no form"},
    ),
    "runs": (
        pa.RunEndEncodedArray.from_arrays([2], pa.array([7])),
        {"csv": "no form", "jsonl": "no form", "parquet": "no form"},
    ),
    "late": (
        pa.array([2**40, 0], pa.timestamp("s")),
        dict.fromkeys(["csv", "jsonl"], "year is not between 1 and 9999"),
    ),
    "fine": (pa.array([1], pa.duration("ns")), dict.fromkeys(["csv", "jsonl"], "a span with nanoseconds")),
    "zone": (pa.array([1], pa.timestamp("s", "Mars/Olympus")), dict.fromkeys(["csv", "jsonl"], "time zone 'Mars/")),
    "ends": (pa.array([-719162, 2932896], pa.date32()), {}),
}


@pytest.mark.parametrize("what", ODD)
def test_columns_that_nobody_declared(tmp_path: Path, what: str) -> None:
    """They are written as they are, or refused by name."""
    column, refused = ODD[what]
    batch = pa.record_batch({"c": column})
    for form in ("csv", "jsonl", "parquet", "arrow"):

        def write(path: str) -> None:
            with open_writer(path, batch.schema) as writer:
                writer.write(batch)

        path = str(tmp_path / f"a.{form}")
        if form in refused:
            with pytest.raises(DataError, match=f"column 'c' .*{refused[form]}"):
                write(path)
        else:
            write(path)
    assert len(os.listdir(tmp_path)) == 4 - len(refused)
    if what == "ends":
        assert (tmp_path / "a.csv").read_text() == "c\n0001-01-01\n9999-12-31\n"


# Reading ahead: the same items in the same order, errors behind them, and no thread that is left.


def _noted(items: Iterator[int], seen: list[int]) -> Iterator[int]:
    for item in items:
        seen.append(item)
        yield item


def test_an_error_comes_behind_what_was_read_before() -> None:
    def read() -> Iterator[int]:
        yield from range(5)
        raise ValueError("row 6")

    seen: list[int] = []
    with ahead(read()) as items, pytest.raises(ValueError, match="row 6"):
        list(_noted(items, seen))
    assert seen == [0, 1, 2, 3, 4]


def test_whoever_leaves_early_leaves_no_thread() -> None:
    made = []

    def read() -> Iterator[int]:
        for i in range(1000):
            made.append(i)
            yield i

    with ahead(read()) as items:
        assert next(items) == 0
    assert len(made) < 10
    assert not [t for t in threading.enumerate() if t.name == "pellucid-read"]
