"""A member that was dumped, restored or rewritten, or whose mark is of an earlier version, while another lacks the last
batch: its rows are not shown as if the batch were everywhere, nor are others left out."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from pellucid import sinks
from pellucid.errors import StateError
from pellucid.sinks.parquet_sink import ParquetSink
from tests.sinks.group.words import assert_told
from tests.sinks.group.world import QUERY, World, dies, expected, rows
from tests.sinks.postgres import Postgres, server_or_skip

RESTORED = "a member was dumped and restored, or its table rewritten, and another lacks an epoch"


@pytest.fixture(scope="module", params=[20, 0], ids=["prepared", "held open"])
def either(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    yield from server_or_skip(prepared=request.param)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.sinks.unresolved._TRIES", 2)
    monkeypatch.setattr("pellucid.sinks.unresolved._PAUSE", 0.0)


class Two(World):
    """PostgreSQL, which has the last batch, and Parquet, which lacks it."""

    def sinks(self) -> dict[str, Any]:
        made = super().sinks()
        return {name: made[name] for name in ("totals", "archive")}


def behind(folder: Path, dsn: str | None) -> World:
    world = Two(folder, dsn)
    world.write(0, 1)
    assert dies(lambda: world.write(1, 2), "parquet:before-commit=kill")
    assert world.have() == {"totals": expected((0, 1), (1, 2)), "archive": expected((0, 1))}
    return world


def whole_again(world: World) -> None:
    world.group().begin(QUERY)
    world.write(2, 3)
    assert world.read() == dict.fromkeys(world.sinks(), expected((0, 1), (1, 2), (2, 3)))


@pytest.mark.parametrize("more", [(), ("--single-transaction",), ("--inserts",)], ids=["", "in one", "row by row"])
def test_a_database_that_came_back_by_pg_dump(tmp_path: Path, either: Postgres, more: tuple[str, ...]) -> None:
    world = behind(tmp_path, either.database())
    assert world.read() == dict.fromkeys(world.sinks(), expected((0, 1)))
    file = f"{either.folder}/{tmp_path.name}.dump"
    name = str(world.dsn).rpartition("/")[2]
    dumps = [one for one in more if one == "--inserts"]
    loads = [one for one in more if one != "--inserts"]
    assert either._run("pg_dump", "-Fc", *dumps, "-f", file, str(world.dsn)).returncode == 0
    with psycopg.connect(either.dsn, autocommit=True) as db:
        db.execute(f"DROP DATABASE {name}".encode())
        db.execute(f"CREATE DATABASE {name}".encode())
    assert either._run("pg_restore", *loads, "-d", str(world.dsn), file).returncode == 0
    with pytest.raises(
        StateError,
        match=r"batch 1 is not yet at 'archive', and which rows of member 'totals' \(table 'totals'\) are of it cannot "
        r"be told: its mark was not written by the transaction that it names: the database came back by pg_dump.*start "
        r"the query again",
    ) as caught:
        world.read()
    assert_told(RESTORED, str(caught.value))
    whole_again(world)


def test_a_mark_that_names_the_transaction_of_the_restore(tmp_path: Path, postgres: Postgres) -> None:
    """A young server may give a number once more: all rows are then of the transaction that the mark names."""
    world = behind(tmp_path, postgres.database())
    with psycopg.connect(str(world.dsn)) as db:
        db.execute("UPDATE pellucid_epochs SET xact = txid_current()")
        db.execute("UPDATE totals SET n = n")
    with pytest.raises(StateError, match="3 rows were written by its transaction, and 6 of it are there"):
        world.read()
    with psycopg.connect(str(world.dsn)) as db:
        db.execute("UPDATE totals SET n = n")
    with pytest.raises(StateError, match="3 rows were written by its transaction, and 0 of it are there"):
        world.read()
    whole_again(world)


@pytest.mark.parametrize(
    "statement",
    ["VACUUM FREEZE totals", "VACUUM FREEZE pellucid_epochs", "VACUUM FULL totals", "VACUUM FULL pellucid_epochs"],
)
def test_what_keeps_transactions_keeps_the_cut(tmp_path: Path, postgres: Postgres, statement: str) -> None:
    world = behind(tmp_path, postgres.database())
    with psycopg.connect(str(world.dsn), autocommit=True) as db:
        db.execute(statement.encode())
    assert world.read() == dict.fromkeys(world.sinks(), expected((0, 1)))
    whole_again(world)


def test_numbers_of_transactions_of_more_than_32_bits(tmp_path: Path, postgres: Postgres) -> None:
    """They are 64 bits wide, and those of rows 32."""
    world = behind(tmp_path, postgres.database())
    with psycopg.connect(str(world.dsn)) as db:  # as if the server had gone round some times before
        db.execute("ALTER TABLE pellucid_epochs DISABLE TRIGGER ALL")
        (xmin,) = db.execute("SELECT xmin::text::bigint FROM pellucid_epochs").fetchone() or (0,)
        assert db.execute("SELECT xact FROM pellucid_epochs").fetchone() == (xmin,)
        (mine,) = db.execute("SELECT txid_current()").fetchone() or (0,)
        db.execute("UPDATE pellucid_epochs SET xact = %s", (mine + (7 << 32),))
        db.execute("UPDATE totals SET n = n WHERE epoch = 1")
    assert world.read() == dict.fromkeys(world.sinks(), expected((0, 1)))


def test_a_table_that_was_rewritten(tmp_path: Path, postgres: Postgres) -> None:
    world = behind(tmp_path, postgres.database())
    with psycopg.connect(str(world.dsn), autocommit=True) as db:
        db.execute("ALTER TABLE totals ALTER COLUMN n TYPE numeric")
    with pytest.raises(StateError, match="and 0 of it are there: the table was rewritten"):
        world.read()


@pytest.mark.parametrize(
    "book",
    [
        "ALTER TABLE pellucid_epochs DROP COLUMN xact, DROP COLUMN added",
        "ALTER TABLE pellucid_epochs DROP COLUMN rows, DROP COLUMN xact, DROP COLUMN added",
        "UPDATE pellucid_epochs SET xact = NULL",
    ],
)
def test_a_mark_of_an_earlier_version(tmp_path: Path, postgres: Postgres, book: str) -> None:
    world = behind(tmp_path, postgres.database())
    with psycopg.connect(str(world.dsn), autocommit=True) as db:
        db.execute(book.encode())
    with pytest.raises(StateError, match="its mark is of an earlier version"):
        world.read()
    whole_again(world)


def test_an_earlier_version_that_writes_on(tmp_path: Path, postgres: Postgres) -> None:
    """It leaves the number of the transaction as it was."""
    world = behind(tmp_path, postgres.database())
    with psycopg.connect(str(world.dsn), autocommit=True) as db:
        db.execute("UPDATE pellucid_epochs SET batch = batch, at = now()")
    with pytest.raises(StateError, match="its mark was not written by the transaction that it names"):
        world.read()


def test_a_batch_without_rows(tmp_path: Path, postgres: Postgres) -> None:
    world = Two(tmp_path, postgres.database())
    world.write(0, 1)
    empty = rows(1, 2).slice(0, 0)
    assert dies(lambda: world.group().write(empty, QUERY, 1), "parquet:before-commit=kill")
    assert world.read() == dict.fromkeys(world.sinks(), expected((0, 1)))


# ---------------------------------------------------------------- SQLite


def dumped(file: Path) -> None:
    """Write the file anew from a dump, as ``.dump`` makes it."""
    with closing(sqlite3.connect(file)) as db:
        text = "\n".join(db.iterdump())
    file.unlink()
    with closing(sqlite3.connect(file)) as db:
        db.executescript(text)


def with_a_gap(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("DELETE FROM totals WHERE n = 1 AND epoch = 0")
        db.commit()
    dumped(file)


def older(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.executescript("ALTER TABLE pellucid_cuts DROP COLUMN added; ALTER TABLE pellucid_cuts DROP COLUMN upto")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (with_a_gap, "3 rows were written, and 2 are there under their numbers: other rows have them since the file"),
        (older, "its mark is of an earlier version"),
    ],
)
def test_a_sqlite_file_whose_rows_have_other_numbers(tmp_path: Path, change: Callable[[Path], None], why: str) -> None:
    world = behind(tmp_path, None)
    change(tmp_path / "totals.db")
    with pytest.raises(StateError, match=rf"which rows of member 'totals' .* are of it cannot be told: {why}"):
        world.read()
    world.group().begin(QUERY)
    world.write(2, 3)
    assert world.read()["archive"] == expected((0, 1), (1, 2), (2, 3))


def test_a_sqlite_file_from_a_dump_without_gaps(tmp_path: Path) -> None:
    world = behind(tmp_path, None)
    dumped(tmp_path / "totals.db")
    assert world.read() == dict.fromkeys(world.sinks(), expected((0, 1)))


def test_rows_that_others_add_to_sqlite_come_along(tmp_path: Path) -> None:
    world = behind(tmp_path, None)
    with closing(sqlite3.connect(tmp_path / "totals.db")) as db:
        db.execute("INSERT INTO totals VALUES (7, 7, 7)")
        db.commit()
    assert world.read() == {"totals": [*expected((0, 1)), (7, 7, 7)], "archive": expected((0, 1))}


# ---------------------------------------------------------------- Delta


class Full(ParquetSink):
    """One whose disk is full when it commits."""

    full = False

    def commit(self, staged: Any) -> Any:
        if self.full:
            raise OSError(28, "No space left on device")
        return super().commit(staged)


def test_a_delta_table_whose_versions_are_gone(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    import deltalake

    archive = Full(tmp_path / "archive")
    members = {"lake": sinks.delta(tmp_path / "lake"), "archive": archive}

    def write(batch: int) -> None:
        sinks.together(members, log=tmp_path / "log", patience=0).write(pa.table({"n": [1, 2, 3]}), QUERY, batch)

    write(0)
    archive.full = True
    with pytest.raises(StateError, match=r"batch 1 .* is decided, and unresolved: member 'archive'"):
        write(1)
    archive.full = False
    found = sinks.read_together(members, log=tmp_path / "log")
    assert {name: table.num_rows for name, table in found.items()} == {"lake": 3, "archive": 3}
    table = deltalake.DeltaTable(str(tmp_path / "lake"))
    table.create_checkpoint()
    for version in range(table.version()):
        (tmp_path / "lake" / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(StateError, match=r"member 'lake' .* are of it cannot be told: its version \d+ cannot be read"):
        sinks.read_together(members, log=tmp_path / "log")
    write(2)
    assert sinks.read_together(members, log=tmp_path / "log")["lake"].num_rows == 9
