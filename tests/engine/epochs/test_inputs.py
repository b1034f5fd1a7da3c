"""Inputs of runs with epochs: several files, files that grow or change, and rows in the order that columns say; always
the rows of the run without epochs.
"""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from pellucid import DataError, StateError, UsageError, merge, pipeline
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
    done = runs(*args(form), "--out", "out.jsonl", "--state", "s", "--epoch-size", "47", "--chunk", "20")
    assert done.returncode == 0, done.stderr
    assert runs.read("out.jsonl") == expected


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_files_that_are_added_are_read_by_the_same_command(runs: Runs, form: str) -> None:
    files(runs.folder, form, 3)
    command = (*args(form), "--out", "out.jsonl", "--state", "s", "--epoch-size", "31")
    assert runs(*command).returncode == 0
    write(runs.folder, form, 3, list(range(77)))
    done = runs(*command)
    assert done.returncode == 0, done.stderr
    assert runs.read("out.jsonl") == runs.plain(*args(form))


def test_lists_and_workers(runs: Runs) -> None:
    files(runs.folder, "csv")
    several = ("p.py:total", "--in", "data/f3.csv", "--in", "data/f2.csv", "--value", "x", "--key", "user")
    done = runs(*several, "--out", "out.jsonl", "--state", "s", "--epoch-size", "50", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert runs.read("out.jsonl") == runs.plain(*several)
    other = ("p.py:total", "--in", "data/f2.csv", "--in", "data/f3.csv", "--value", "x", "--key", "user")
    said = runs(*other, "--out", "out.jsonl", "--state", "s", "--epoch-size", "50", "--workers", "2")
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
    command = (*args("csv"), "--out", "out.jsonl", "--state", "s", "--epoch-size", "31")
    assert runs(*command).returncode == 0
    assert callable(change)
    change(runs.folder / "data")
    again = runs(*command)
    assert again.returncode == 2 and said in again.stderr, again.stderr


@pytest.mark.parametrize("form", FORMS)
def test_passthrough_columns(runs: Runs, form: str) -> None:
    files(runs.folder, form)
    kept = (*args(form), "--keep-columns", "x,part" if form == "hive" else "x")
    expected = runs.plain(*kept)
    command = (*kept, "--out", "out.jsonl", "--state", "s", "--epoch-size", "31", "--chunk", "13", "--workers", "2")
    done = runs(*command)
    assert done.returncode == 0, done.stderr
    assert runs.read("out.jsonl") == expected
    other = runs(*args(form), "--out", "out.jsonl", "--state", "s", "--epoch-size", "31", "--workers", "2")
    assert other.returncode == 2 and "the list of passthrough columns was" in other.stderr, other.stderr


def test_kept_from_one_of_two_inputs(runs: Runs) -> None:
    (runs.folder / "a.csv").write_text("x,note\n" + "".join(f"{i},n{i}\n" if i % 3 else f"{i},\n" for i in range(200)))
    (runs.folder / "b.csv").write_text("y\n" + "".join(f"{i}\n" for i in range(150)))
    both = ("p.py:two", "--in", "x=a.csv", "--in", "y=b.csv", "--uneven", "silent", "--keep-columns", "x=note")
    done = runs(*both, "--out", "out.parquet", "--state", "s", "--epoch-size", "17", "--cut", "up")
    assert done.returncode == 0, done.stderr
    runs.plain(*both, out="plain.parquet")
    assert pq.read_table(runs.folder / "out.parquet").equals(pq.read_table(runs.folder / "plain.parquet"))


# Runs with epochs in the order that columns say: the rows of the run without epochs, also after kills; what is not in
# order is sorted once, and an order that is not total is refused before anything is written.

total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
two = pipeline(lambda x, y: merge(x.map(lambda v: v + 1), y.map(lambda v: -v)), x=int, y=int)


def mixed(count: int = 400, step: int = 7919) -> list[dict[str, Any]]:
    """Rows of five users, not in order; times are equal for two of them."""
    found = []
    for i in range(count):
        n = i * step % count
        at = dt.datetime(2013, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=n // 2)
        found.append({"x": n, "user": f"u{n % 5}", "at": at, "seq": n % 2, "note": f"n{n}" if n % 3 else None})
    return found


def summed(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What running sums of the users are, in order: told without the engine."""
    sums: dict[str, int] = {}
    out = []
    for row in sorted(rows, key=lambda row: (row["at"], row["seq"])):
        sums[row["user"]] = sums.get(row["user"], 0) + row["x"]
        out.append((row["user"], row["at"], row["seq"], row["note"], sums[row["user"]]))
    return out


def write_ordered(folder: Path, form: str, rows: list[dict[str, Any]], name: str = "in") -> str:
    table = pa.Table.from_pylist(rows)
    path = folder / f"{name}.{form}"
    if form == "parquet":
        pq.write_table(table, path, row_group_size=50)
    else:
        lines = [f"{r['x']},{r['user']},{r['at'].isoformat()},{r['seq']},{r['note'] or ''}" for r in table.to_pylist()]
        path.write_text("\n".join(["x,user,at,seq,note", *lines, ""]))
    return path.name


ARGS = ("--value", "x", "--key", "user", "--order", "at,seq", "--keep-columns", "note")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_what_is_not_in_order_is_sorted(runs: Runs, form: str) -> None:
    rows = mixed()
    command = ("p.py:total", "--in", write_ordered(runs.folder, form, rows), *ARGS, "--workers", "2", "--chunk", "13")
    command = (*command, "--out", "out.parquet", "--state", "s", "--epoch-size", "31")
    done = runs(*command)
    assert done.returncode == 0, done.stderr
    found = pq.read_table(runs.folder / "out.parquet").to_pylist()
    assert list(found[0]) == ["user", "at", "seq", "note", "out"]
    said = [tuple(row.values()) for row in found]
    if form == "csv":  # there a time that nobody declares is a text
        said = [(user, dt.datetime.fromisoformat(at), *rest) for user, at, *rest in said]
    assert said == summed(rows)


def test_what_is_in_order_is_read_as_it_is_and_may_grow(tmp_path: Path) -> None:
    rows = sorted(mixed(), key=lambda row: (row["at"], row["seq"]))
    asked: dict[str, Any] = {"key": "user", "order": ["at", "seq"], "keep": ["note"], "value": "x", "pushes": 50}

    def run() -> list[tuple[Any, ...]]:
        total.run_epochs(tmp_path / "in.csv", tmp_path / "out.parquet", state=tmp_path / "state", **asked)
        return [tuple(row.values()) for row in pq.read_table(tmp_path / "out.parquet").to_pylist()]

    write_ordered(tmp_path, "csv", rows[:300])
    assert [row[-1] for row in run()] == [row[-1] for row in summed(rows[:300])]
    assert not (tmp_path / "state" / "sorted").exists()
    write_ordered(tmp_path, "csv", rows)
    assert [row[-1] for row in run()] == [row[-1] for row in summed(rows)]
    with open(tmp_path / "in.csv", "a") as file:
        file.write("9,u1,2013-01-01T00:00:00+00:00,7,\n")
    with pytest.raises(DataError) as caught:
        run()
    assert str(caught.value) == (
        f"{tmp_path}/in.csv: of the rows that were added, some do not come after all that were read, by "
        "order=('at', 'seq'): append rows in order, or start in another state folder, which sorts all of them"
    )


def test_a_sorted_input_must_stay_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / write_ordered(tmp_path, "csv", mixed())
    asked: dict[str, Any] = {"state": tmp_path / "state", "pushes": 50, "value": "x"}

    def run(**more: Any) -> None:
        total.run_epochs(path, tmp_path / "out.csv", **asked, **{"order": ["at", "seq"], **more})

    run()
    (tmp_path / "state" / "order.json").unlink()  # as if it had been killed before: the copy is made anew
    run()
    path.touch()  # another time, and the same bytes
    run()
    with pytest.raises(StateError, match="order= was at, seq when it began, and is seq, at now"):
        run(order=["seq", "at"])
    path.write_text(path.read_text() + "1,u1,2014-01-01T00:00:00+00:00,0,\n")
    with pytest.raises(DataError, match="has changed since the run in this state folder began, and was sorted then by"):
        run()


def test_inputs_that_meet_by_their_order(tmp_path: Path) -> None:
    """Rows of equal order are one push; an input without such a row is silent in it, also where None is a value."""
    left = [(5, 1), (1, 2), (3, 3)]
    right = [(3, 10), (2, 20), (5, None), (9, 40)]
    pq.write_table(pa.table({"t": [t for t, _ in left], "x": [v for _, v in left]}), tmp_path / "l.parquet")
    pq.write_table(pa.table({"t": [t for t, _ in right], "y": [v for _, v in right]}), tmp_path / "r.parquet")
    both = pipeline(lambda x, y: merge(x, y.map(lambda v: -1 if v is None else v)), x=int, y=int | None)
    both.run_epochs(
        {"x": tmp_path / "l.parquet", "y": tmp_path / "r.parquet"}, tmp_path / "out.csv", state=tmp_path / "state",
        pushes=2, order="t",
    )  # fmt: skip
    told = []
    for t in sorted({t for t, _ in left + right}):
        told += [(t, v) for at, v in left if at == t] + [(t, -1 if v is None else v) for at, v in right if at == t]
    assert (tmp_path / "out.csv").read_text().split() == ["t,out", *(f"{t},{v}" for t, v in told)]


def test_an_order_that_is_not_total_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("k,t,x\na,2,1\nb,1,2\na,2,3\n")
    asked: dict[str, Any] = {"state": tmp_path / "state", "pushes": 1, "key": "k", "value": "x"}
    with pytest.raises(DataError) as caught:
        total.run_epochs(path, tmp_path / "out.csv", order="t", **asked)
    assert str(caught.value) == (
        f"{path}: row 3 (line 4): order t=2 of the key 'a' is there twice (also row 1 (line 2)): which is first "
        "is unknown; name more columns in order=, or if it is the same row twice say late='drop'"
    )
    assert not (tmp_path / "state").exists()
    with pytest.raises(DataError, match=r"but with other values \(x=1 and x=3\): which is first is unknown; name more"):
        total.run_epochs(path, tmp_path / "out.csv", order="t", late="drop", **asked)
    assert not (tmp_path / "out.csv").exists()
    path.write_text("k,t,x\na,2,1\nb,1,2\na,2,1\n")
    total.run_epochs(path, tmp_path / "out.csv", order="t", late="drop", **asked)
    assert (tmp_path / "out.csv").read_text().split() == ["k,t,out", '"b",1,2', '"a",2,1']
    with pytest.raises(UsageError, match="late='drop' needs order=, the columns that say which row comes first"):
        total.run_epochs(path, tmp_path / "out.csv", late="drop", **asked)
    with pytest.raises(DataError, match=r"in\.csv: no order column 'when': its columns are k, t, x"):
        total.run_epochs(path, tmp_path / "out.csv", order="when", **asked)
