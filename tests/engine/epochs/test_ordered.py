"""Runs with epochs in the order that columns say: the rows of the run without epochs, also after kills; what is not in
order is sorted once, and an order that is not total is refused before anything is written."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid import DataError, StateError, UsageError, merge, pipeline
from tests.diagonal import diagonal
from tests.engine.epochs.conftest import Runs

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


def write(folder: Path, form: str, rows: list[dict[str, Any]], name: str = "in") -> str:
    table = pa.Table.from_pylist(rows)
    path = folder / f"{name}.{form}"
    if form == "parquet":
        pq.write_table(table, path, row_group_size=50)
    else:
        lines = [f"{r['x']},{r['user']},{r['at'].isoformat()},{r['seq']},{r['note'] or ''}" for r in table.to_pylist()]
        path.write_text("\n".join(["x,user,at,seq,note", *lines, ""]))
    return path.name


ARGS = ("--value", "x", "--key", "user", "--order", "at,seq", "--keep-columns", "note")


@pytest.mark.parametrize(
    ("form", "point"), diagonal(["csv", "parquet"], ["", "source:read=kill@20", "coordinator:committed=tree@9"])
)
def test_sorted_and_killed(runs: Runs, form: str, point: str) -> None:
    rows = mixed()
    command = ("p.py:total", "--in", write(runs.folder, form, rows), *ARGS, "--workers", "2", "--chunk", "13")
    command = (*command, "--out", "out.parquet", "--state", "s", "--pushes", "31")
    done = runs(*command, faults=point)
    if point and done.returncode != 0:
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

    write(tmp_path, "csv", rows[:300])
    assert [row[-1] for row in run()] == [row[-1] for row in summed(rows[:300])]
    assert not (tmp_path / "state" / "sorted").exists()
    write(tmp_path, "csv", rows)
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
    path = tmp_path / write(tmp_path, "csv", mixed())
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
        f"{path}: row 3 (line 4): order t=2 of the key 'a' is there twice (also row 1 (line 2)): nobody knows which "
        "is first; name more columns in order=, or if it is the same row twice say late='drop'"
    )
    assert not (tmp_path / "state").exists()
    with pytest.raises(
        DataError, match=r"but with other values \(x=1 and x=3\): nobody knows which is first; name more"
    ):
        total.run_epochs(path, tmp_path / "out.csv", order="t", late="drop", **asked)
    assert not (tmp_path / "out.csv").exists()
    path.write_text("k,t,x\na,2,1\nb,1,2\na,2,1\n")
    total.run_epochs(path, tmp_path / "out.csv", order="t", late="drop", **asked)
    assert (tmp_path / "out.csv").read_text().split() == ["k,t,out", '"b",1,2', '"a",2,1']
    with pytest.raises(UsageError, match="late='drop' needs order=, the columns that say which row comes first"):
        total.run_epochs(path, tmp_path / "out.csv", late="drop", **asked)
    with pytest.raises(DataError, match=r"in\.csv: no order column 'when': its columns are k, t, x"):
        total.run_epochs(path, tmp_path / "out.csv", order="when", **asked)
