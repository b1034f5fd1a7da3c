"""Runs with epochs over several files: the same bytes as without epochs, also after kills; files that changed."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from tests.diagonal import diagonal
from tests.engine.epochs.conftest import Runs

FORMS = ["csv", "jsonl", "parquet", "arrow", "csv.gz", "jsonl.bz2", "hive"]


def files(folder: Path, form: str, count: int = 4) -> str:
    """Some files in a folder, of 0, 130, 260 … rows; the lines of the second have no last end."""
    (folder / "data").mkdir()
    for k in range(count):
        values = [(k * 1000 + i) * 7919 % 1009 for i in range(130 * k)]
        write(folder, form, k, values)
    return "data"


def write(folder: Path, form: str, k: int, values: list[int]) -> None:
    users = pa.array([f"u{v % 5}" for v in values], pa.string())
    table = pa.table({"x": pa.array(values, pa.int64() if k % 2 else pa.int32()), "user": users})
    if form == "hive":
        inner = folder / "data" / f"part={9 + k}"
        inner.mkdir()
        pq.write_table(table, inner / "f.parquet", row_group_size=50)
        return
    path = folder / "data" / f"f{k}.{form}"
    if form == "parquet":
        pq.write_table(table, path, row_group_size=50)
    elif form == "arrow":
        pyarrow.feather.write_feather(table, str(path), chunksize=50)
    else:
        lines = [f'{{"x": {v}, "user": "u{v % 5}"}}' if "jsonl" in form else f"{v},u{v % 5}" for v in values]
        text = "\n".join([*([] if "jsonl" in form else ["x,user"]), *lines]) + ("" if k == 1 else "\n")
        if not values and "jsonl" in form:
            text = "\n"
        pack = gzip.compress if form.endswith("gz") else bz2.compress if form.endswith("bz2") else bytes
        path.write_bytes(pack(text.encode()))


def args(form: str, *more: str) -> tuple[str, ...]:
    key = "user,part" if form == "hive" else "user"
    return ("p.py:total", "--in", "data", "--value", "x", "--key", key, *more)


@pytest.mark.parametrize("form", FORMS)
def test_the_same_rows_as_without_epochs(runs: Runs, form: str) -> None:
    files(runs.folder, form)
    expected = runs.plain(*args(form))
    done = runs(*args(form), "--out", "out.jsonl", "--state", "s", "--pushes", "47", "--chunk", "20")
    assert done.returncode == 0, done.stderr
    assert runs.read("out.jsonl") == expected


@pytest.mark.parametrize(
    ("form", "point"),
    diagonal(
        ["csv", "parquet", "hive"], ["source:read=kill@20", "coordinator:committed=tree@9", "snapshot:torn=tree@14"]
    ),
)
def test_killed_in_the_middle(runs: Runs, form: str, point: str) -> None:
    files(runs.folder, form)
    expected = runs.plain(*args(form))
    command = (*args(form), "--out", "out.jsonl", "--state", "s", "--pushes", "31", "--chunk", "13")
    done = runs(*command, faults=point)
    if done.returncode != 0:
        done = runs(*command)
    assert done.returncode == 0, done.stderr
    assert runs.read("out.jsonl") == expected


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_files_that_are_added_are_read_by_the_same_command(runs: Runs, form: str) -> None:
    files(runs.folder, form, 3)
    command = (*args(form), "--out", "out.jsonl", "--state", "s", "--pushes", "31")
    assert runs(*command).returncode == 0
    write(runs.folder, form, 3, list(range(77)))
    done = runs(*command)
    assert done.returncode == 0, done.stderr
    assert runs.read("out.jsonl") == runs.plain(*args(form))


def test_lists_and_workers(runs: Runs) -> None:
    files(runs.folder, "csv")
    several = ("p.py:total", "--in", "data/f3.csv", "--in", "data/f2.csv", "--value", "x", "--key", "user")
    done = runs(*several, "--out", "out.jsonl", "--state", "s", "--pushes", "50", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert runs.read("out.jsonl") == runs.plain(*several)
    other = ("p.py:total", "--in", "data/f2.csv", "--in", "data/f3.csv", "--value", "x", "--key", "user")
    said = runs(*other, "--out", "out.jsonl", "--state", "s", "--pushes", "50", "--workers", "2")
    assert said.returncode == 2 and "--in" in said.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda data: (data / "f1.csv").write_text((data / "f1.csv").read_text().replace("u1", "u2")),
            "data/f1.csv: has changed since the last run",
        ),
        (
            lambda data: (data / "f1.csv").unlink(),
            "data/f1.csv: no such file in data: the run in this state folder has read it; bring it back",
        ),
        (
            lambda data: (data / "f0b.csv").write_text("x,user\n1,u1\n"),
            "data/f0b.csv: is new, and comes before data/f1.csv, which was read: what is added must come behind the "
            "last file; take it away, or start anew in another state folder",
        ),
    ],
)
def test_what_has_changed_is_refused(runs: Runs, change: object, said: str) -> None:
    files(runs.folder, "csv")
    command = (*args("csv"), "--out", "out.jsonl", "--state", "s", "--pushes", "31")
    assert runs(*command).returncode == 0
    assert callable(change)
    change(runs.folder / "data")
    again = runs(*command)
    assert again.returncode == 2 and said in again.stderr, again.stderr


@pytest.mark.parametrize(
    ("form", "point"), diagonal(FORMS, ["", "source:read=kill@20", "coordinator:committed=tree@9"])
)
def test_columns_that_come_along(runs: Runs, form: str, point: str) -> None:
    files(runs.folder, form)
    kept = (*args(form), "--keep-columns", "x,part" if form == "hive" else "x")
    expected = runs.plain(*kept)
    command = (*kept, "--out", "out.jsonl", "--state", "s", "--pushes", "31", "--chunk", "13", "--workers", "2")
    done = runs(*command, faults=point)
    if point and done.returncode != 0:
        done = runs(*command)
    assert done.returncode == 0, done.stderr
    assert runs.read("out.jsonl") == expected
    if not point:
        other = runs(*args(form), "--out", "out.jsonl", "--state", "s", "--pushes", "31", "--workers", "2")
        assert other.returncode == 2 and "the list of columns that come along was" in other.stderr, other.stderr


def test_kept_from_one_of_two_inputs(runs: Runs) -> None:
    (runs.folder / "a.csv").write_text("x,note\n" + "".join(f"{i},n{i}\n" if i % 3 else f"{i},\n" for i in range(200)))
    (runs.folder / "b.csv").write_text("y\n" + "".join(f"{i}\n" for i in range(150)))
    both = ("p.py:two", "--in", "x=a.csv", "--in", "y=b.csv", "--short", "silent", "--keep-columns", "x=note")
    done = runs(*both, "--out", "out.parquet", "--state", "s", "--pushes", "17", "--cut", "up")
    assert done.returncode == 0, done.stderr
    runs.plain(*both, out="plain.parquet")
    assert pq.read_table(runs.folder / "out.parquet").equals(pq.read_table(runs.folder / "plain.parquet"))
