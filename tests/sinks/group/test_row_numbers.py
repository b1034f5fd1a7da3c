"""How a SQLite member is cut at an epoch: by the numbers of its rows, whatever its columns are called; not in silence
where they cannot be told."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from pellucid import sinks
from pellucid.errors import StateError


def members(folder: Path) -> dict[str, sinks.Sink]:
    return {"table": sinks.sqlite(folder / "a.db", "t"), "archive": sinks.parquet(folder / "b")}


def one_behind(folder: Path, columns: list[str]) -> None:
    """Two batches, of which the archive has the first only.  The values of the second are below those of the first."""
    for batch, first in enumerate((1000, 0)):
        if batch:
            for name in ("b", "log"):
                shutil.copytree(folder / name, folder / f"{name}.before")
        table = pa.table({name: list(range(first, first + 10)) for name in columns})
        sinks.together(members(folder), log=folder / "log").write(table, "q", batch)
    shutil.rmtree(folder / "b")
    shutil.copytree(folder / "b.before", folder / "b")
    shutil.copy(folder / "log.before" / "whole.json", folder / "log" / "whole.json")


@pytest.mark.parametrize("columns", [["v"], ["rowid", "v"], ["RowID", "v"], ["_rowid_", "oid", "v"]])
def test_a_column_of_the_name_of_the_rows_numbers(tmp_path: Path, columns: list[str]) -> None:
    one_behind(tmp_path, columns)
    tables = sinks.read_together(members(tmp_path), log=tmp_path / "log")
    first = list(range(1000, 1010))
    assert tables["table"]["v"].to_pylist() == tables["archive"]["v"].to_pylist() == first


VIEW = """create table u(v integer); create view t as select * from u;
    create trigger g instead of insert on t begin insert into u values (new.v); end"""


@pytest.mark.parametrize(
    ("made", "columns"), [(VIEW, ["v"]), ("", ["rowid", "_rowid_", "oid", "v"])], ids=["a view", "all names taken"]
)
def test_rows_that_cannot_be_told_apart(
    tmp_path: Path, made: str, columns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pellucid.sinks.unresolved._PAUSE", 0.0)
    with closing(sqlite3.connect(tmp_path / "a.db")) as db:
        db.executescript(made)
    one_behind(tmp_path, columns)
    with pytest.raises(StateError, match="cannot be told: SQLite has not told how its rows are numbered"):
        sinks.read_together(members(tmp_path), log=tmp_path / "log")
