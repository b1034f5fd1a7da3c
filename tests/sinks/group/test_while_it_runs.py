"""What others do to the members and the log of a group while its query runs: it is refused, and said."""

from __future__ import annotations

import datetime as dt
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from pellucid import sinks
from pellucid.errors import DataError, StateError
from pellucid.sinks import parquet_sink as files
from tests.sinks.group.world import QUERY, World, expected, rows
from tests.sinks.postgres import Postgres, server_or_skip


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    yield from server_or_skip()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, None)


def have(world: World, *attempts: tuple[int, int]) -> bool:
    return world.have() == dict.fromkeys(world.sinks(), expected(*attempts))


# ---------------------------------------------------------------- members


@pytest.mark.parametrize("lost", ["orders.db", "archive"])
def test_a_member_that_is_deleted_is_not_begun_anew(world: World, lost: str) -> None:
    """It would have the batches from here on, and nobody would miss the others."""
    group = world.group()
    group.write(rows(0, 1), QUERY, 0)
    kept = world.folder / "kept"
    (world.folder / lost).rename(kept)
    with pytest.raises(
        StateError, match=r"so no member has it: the last batch .* that is there is none, .* group's is 0"
    ):
        group.write(rows(1, 2), QUERY, 1)
    again = world.folder / lost
    shutil.rmtree(again) if again.is_dir() else again.unlink()
    kept.rename(again)
    assert have(world, (0, 1))
    group.write(rows(1, 3), QUERY, 1)
    assert have(world, (0, 1), (1, 3))


def test_one_whose_commit_fails_is_not_begun_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second attempt at a commit writes the rows once more: not into a file that has nothing from before."""
    group = world.group()
    group.write(rows(0, 1), QUERY, 0)
    (orders,) = (member.sink for member in group.members if member.name == "orders")
    kept, file = world.folder / "kept", world.folder / "orders.db"

    def fails(staged: Any) -> None:
        file.rename(kept)
        raise DataError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(orders, "commit", fails)
        group.patience = 1.0  # a second attempt at least
        with pytest.raises(StateError, match=r"is decided, and unresolved: member 'orders' .* that is there is none"):
            group.write(rows(1, 2), QUERY, 1)
    file.unlink()
    kept.rename(file)
    group.write(rows(2, 3), QUERY, 2)
    assert have(world, (0, 1), (1, 2), (2, 3))


def test_an_older_copy_that_is_put_back_is_refused(world: World) -> None:
    group = world.group()
    group.write(rows(0, 1), QUERY, 0)
    shutil.copytree(world.folder / "archive", world.folder / "older")
    group.write(rows(1, 2), QUERY, 1)
    shutil.rmtree(world.folder / "archive")
    shutil.copytree(world.folder / "older", world.folder / "archive")
    with pytest.raises(StateError, match=r"'archive' .*: the last batch .* that is there is 0, and the group's is 1"):
        group.write(rows(2, 3), QUERY, 2)


def test_a_member_that_has_joined_later_needs_nothing_from_before(world: World) -> None:
    world.write(0, 1)
    members = {**world.sinks(), "late": sinks.sqlite(world.folder / "late.db", "late")}
    group = sinks.together(members, log=world.log, added="late")
    for batch in (1, 2):
        group.write(rows(batch, batch), QUERY, batch)
    assert sinks.read_together(group)["late"].num_rows == 6


def test_a_table_of_sqlite_that_is_dropped(world: World) -> None:
    group = world.group()
    group.write(rows(0, 1), QUERY, 0)
    with closing(sqlite3.connect(world.folder / "orders.db")) as db:
        db.execute("ALTER TABLE orders RENAME TO aside")
    with pytest.raises(StateError, match=r"no member has it: .*it is empty, yet 3 rows were written there"):
        group.write(rows(1, 2), QUERY, 1)
    with closing(sqlite3.connect(world.folder / "orders.db")) as db:
        db.execute("ALTER TABLE aside RENAME TO orders")
    group.write(rows(1, 3), QUERY, 1)
    assert have(world, (0, 1), (1, 3))


def test_readers_do_not_take_an_emptied_table_for_half_of_what_is_there(world: World) -> None:
    world.write(0, 1)
    for done in ("DELETE FROM orders", "DROP TABLE orders"):
        with closing(sqlite3.connect(world.folder / "orders.db")) as db:
            db.execute(done)
            db.commit()
        with pytest.raises(
            StateError, match=r"read_together: member 'orders' .*: it is empty, yet 3 rows were written"
        ):
            world.read()


def test_rows_that_others_take_out_are_not_missed(tmp_path: Path) -> None:
    members = {
        "orders": sinks.sqlite(tmp_path / "orders.db", "orders", drained=True),
        "archive": sinks.parquet(tmp_path / "archive"),
    }
    sinks.together(members, log=tmp_path / "log").write(rows(0, 1), QUERY, 0)
    with closing(sqlite3.connect(tmp_path / "orders.db")) as db:
        db.execute("DELETE FROM orders")
        db.commit()
    members["orders"] = sinks.sqlite(tmp_path / "orders.db", "orders")  # that it is drained is in the log
    tables = sinks.read_together(members, log=tmp_path / "log")
    assert {name: table.num_rows for name, table in tables.items()} == {"orders": 0, "archive": 3}


def test_a_table_of_postgresql_that_is_dropped(tmp_path: Path, server: Postgres) -> None:
    world = World(tmp_path, server.database())
    group = world.group()
    group.write(rows(0, 1), QUERY, 0)
    with psycopg.connect(str(world.dsn), autocommit=True) as db:
        db.execute("ALTER TABLE totals RENAME TO aside")
    with pytest.raises(StateError, match=r"no member has it: .*it is empty, yet 3 rows were written there"):
        group.write(rows(1, 2), QUERY, 1)
    with psycopg.connect(str(world.dsn), autocommit=True) as db:
        db.execute("DROP TABLE totals")
        db.execute("ALTER TABLE aside RENAME TO totals")
    group.write(rows(1, 3), QUERY, 1)
    assert have(world, (0, 1), (1, 3))


def test_what_the_machine_refuses_names_the_member(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any, **more: Any) -> None:
        raise OSError(28, "No space left on device", "part-0.parquet")

    group = world.group()
    with monkeypatch.context() as patch:
        patch.setattr(files, "sync", full)
        with pytest.raises(DataError, match=r"member 'archive' .* no member has it: .*part-0.parquet: No space left"):
            group.write(rows(0, 1), QUERY, 0)
    group.write(rows(0, 2), QUERY, 0)
    assert have(world, (0, 2))


def test_a_number_that_sqlite_cannot_hold(world: World) -> None:
    wide = pa.table({"n": pa.array([1, 2**64 - 1], pa.uint64())})
    with pytest.raises(DataError, match=r"no member has it: .*column 'n' has 18446744073709551615, and SQLite's whole"):
        world.group().write(wide, QUERY, 0)


# ---------------------------------------------------------------- numbers


def test_a_batch_that_leaves_others_out_is_refused_at_any_time(world: World) -> None:
    """Else those between would be left out later, as if their rows were there."""
    group = world.group()
    group.write(rows(0, 1), QUERY, 0)
    with pytest.raises(StateError, match=r"decided is 0, yet batch 3 comes, so those between are missing"):
        group.write(rows(3, 2), QUERY, 3)
    assert not group.write(rows(1, 3), QUERY, 1).skipped
    assert have(world, (0, 1), (1, 3))


# ---------------------------------------------------------------- the log


def test_a_log_that_gets_damaged_leaves_nothing_locked(world: World) -> None:
    group = world.group()
    group.write(rows(0, 1), QUERY, 0)
    log = world.log / "decisions.json"
    kept = log.read_bytes()
    log.write_bytes(b"null")
    with pytest.raises(StateError, match=r"not a log of decisions"):
        group.write(rows(1, 2), QUERY, 1)
    with closing(sqlite3.connect(world.folder / "orders.db", timeout=0)) as db:
        db.execute("BEGIN IMMEDIATE")
    log.write_bytes(kept)
    group.write(rows(1, 3), QUERY, 1)
    assert have(world, (0, 1), (1, 3))


def test_a_log_that_is_gone_decides_nothing(world: World) -> None:
    group = world.group()
    group.write(rows(0, 1), QUERY, 0)
    shutil.rmtree(world.log)
    with pytest.raises(StateError, match=r"the log of decisions is gone, and nothing is decided without it"):
        group.write(rows(1, 2), QUERY, 1)
    assert have(world, (0, 1))


def test_a_file_where_the_log_belongs(world: World) -> None:
    world.log.write_text("notes")
    with pytest.raises(StateError, match=r"decisions.json: the log of decisions cannot be read: Not a directory"):
        world.write(0, 1)
    with pytest.raises(StateError, match=r"decisions.json: the log of decisions cannot be read: Not a directory"):
        world.read()


def test_rows_that_another_driver_has_cleared_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two drivers begin at once: the second takes the rows of the first for something that was left."""
    first, second = world.group(), world.group()
    first.write(rows(0, 1), QUERY, 0)
    real = first._all

    def later(*given: Any) -> None:
        second.write(rows(1, 3), QUERY, 1)
        real(*given)

    monkeypatch.setattr(first, "_all", later)
    with pytest.raises(StateError, match=r"another driver of this group has begun meanwhile"):
        first.write(rows(1, 2), QUERY, 1)
    assert have(world, (0, 1), (1, 3))


# ---------------------------------------------------------------- Delta, which writes only when it commits


def lake(folder: Path, log: str = "log", **more: Any) -> Any:
    pytest.importorskip("deltalake")
    members = {"orders": sinks.sqlite(folder / "orders.db", log), "lake": sinks.delta(folder / "lake", **more)}
    return sinks.together(members, log=folder / log, patience=0.0)


@pytest.mark.parametrize(
    ("batch", "more", "words"),
    [
        (pa.table({"n": pa.array([dt.timedelta(1)], pa.duration("us"))}), {}, "holds durations"),
        (pa.table({"n": pa.array([dt.time(1)], pa.time64("us"))}), {}, "Delta cannot hold these columns"),
        (pa.table({"n": ["a", ""], "m": [1, 2]}), {"partition_by": "n"}, "partition_by"),
    ],
)
def test_what_delta_cannot_take_is_not_decided(tmp_path: Path, batch: pa.Table, more: Any, words: str) -> None:
    """It would be in doubt for ever: no later attempt could be better."""
    with pytest.raises(DataError, match=rf"member 'lake' .* does not take it, so no member has it: .*{words}"):
        lake(tmp_path, **more).write(batch, QUERY, 0)
    group = lake(tmp_path)
    group.write(pa.table({"n": [1]}), QUERY, 0)
    assert [table.num_rows for table in group.read().values()] == [1, 1]


def test_columns_that_the_delta_table_has_not(tmp_path: Path) -> None:
    group = lake(tmp_path)
    group.write(pa.table({"n": [1]}), QUERY, 0)
    with closing(sqlite3.connect(tmp_path / "orders.db")) as db:
        db.execute("ALTER TABLE log ADD COLUMN m INTEGER")
    with pytest.raises(DataError, match=r"member 'lake' .* no member has it: .*does not fit the Delta table"):
        group.write(pa.table({"n": [1], "m": [1]}), QUERY, 1)
    assert group.last(QUERY) == 0


def test_a_delta_table_that_is_deleted_is_not_begun_anew(tmp_path: Path) -> None:
    group = lake(tmp_path)
    group.write(pa.table({"n": [1]}), QUERY, 0)
    (tmp_path / "lake").rename(tmp_path / "kept")
    with pytest.raises(StateError, match=r"so no member has it: the last batch .* that is there is none"):
        group.write(pa.table({"n": [2]}), QUERY, 1)


@pytest.mark.parametrize("kind", ["lake", "archive"])
def test_a_member_that_goes_away_before_it_commits(tmp_path: Path, kind: str) -> None:
    """The batch is decided: it waits until the target is back, and none is begun anew in its place."""
    target = tmp_path / kind
    group = lake(tmp_path) if kind == "lake" else World(tmp_path, None).group()
    group.write(rows(0, 1), QUERY, 0)
    staged = group.stage(rows(1, 2), QUERY, 1)
    group.prepare(staged)
    target.rename(tmp_path / "kept")
    with pytest.raises(
        StateError, match=rf"is decided, and unresolved: .*{kind}: it was deleted or moved while batch 1"
    ):
        group.commit(staged)
    shutil.rmtree(target, ignore_errors=True)
    (tmp_path / "kept").rename(target)
    group.recover()
    assert {table.num_rows for table in group.read().values()} == {6}


def test_what_delta_says_is_one_plain_line(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("no folder")
    with pytest.raises(DataError) as caught:
        lake(tmp_path).write(pa.table({"n": [1]}), QUERY, 0)
    assert "lake" in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_delta_table_is_of_one_group(tmp_path: Path) -> None:
    lake(tmp_path).write(pa.table({"n": [1]}), QUERY, 0)
    with pytest.raises(
        StateError, match=r"'lake' .* belongs to another group, whose log is .*/log: .*rm .*_group.json"
    ):
        lake(tmp_path, "other").write(pa.table({"n": [1]}), "others", 0)
    (tmp_path / "lake" / "_group.json").unlink()
    lake(tmp_path, "other").write(pa.table({"n": [1]}), "others", 0)
