"""Members that fail, that are new, gone, older or of another group; every refusal is in docs/how-to-together.md (with
epochs: `engine/epochs/test_group_commit.py`)."""

from __future__ import annotations

import json
import shutil
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from pellucid import sinks
from pellucid.errors import DataError, PellucidError, StateError, UsageError
from pellucid.internal.base.files import sealed
from pellucid.sinks import decisions as logs
from pellucid.sinks.decisions import DecisionLog
from pellucid.sinks.unresolved import doubt_of_group
from tests.sinks.group.words import REFUSES, documented
from tests.sinks.group.world import QUERY, World, dies, expected, rows
from tests.sinks.own import Lines
from tests.sinks.postgres import Postgres, server_or_skip

BACKUP = "a member comes back from a backup, or was deleted"
OLDER = "the log is an older copy, damaged or of another version"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    yield from server_or_skip()


@pytest.fixture(scope="module")
def plain_server() -> Iterator[Postgres]:
    """One as it comes: without prepared transactions."""
    yield from server_or_skip(prepared=0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, None)


def all_have(world: World, *attempts: tuple[int, int]) -> bool:
    whole = expected(*attempts)
    return world.have() == dict.fromkeys(world.sinks(), whole) and world.read() == dict.fromkeys(world.sinks(), whole)


# ---------------------------------------------------------------- before the decision


def test_one_that_refuses_is_all_that_refuse(world: World) -> None:
    with closing(sqlite3.connect(world.folder / "totals.db")) as db:
        db.execute(
            "CREATE TABLE totals (epoch INTEGER, attempt INTEGER NOT NULL CHECK (attempt > 0), n INTEGER UNIQUE)"
        )
    with pytest.raises(DataError, match=r"CHECK constraint failed: attempt > 0"):
        world.write(0, 0)
    assert list(world.have().values()) == [[], [], []]
    assert not (world.log / "rows").exists() or not list((world.log / "rows").iterdir())
    world.write(0, 1)
    why = (
        r"table 'totals': a row of batch 1 is refused, UNIQUE constraint failed: totals.n \(row 1: epoch=1, attempt=2, "
        r"n=0\): leave it out before the sink, or alter the table"
    )
    with documented(REFUSES, DataError, why):
        world.write(1, 2)
    assert all_have(world, (0, 1))


def test_one_that_another_program_holds(world: World) -> None:
    world.write(0, 1)
    members = world.sinks() | {"totals": sinks.sqlite(world.folder / "totals.db", "totals", wait=0.2)}
    with closing(sqlite3.connect(world.folder / "totals.db", isolation_level=None)) as db:
        group = sinks.together(members, log=world.log)
        group.begin(QUERY)
        db.execute("BEGIN IMMEDIATE")
        with documented(REFUSES, StateError, r"another writer has held the database for 0\.2 s: is a second run or"):
            group.write(rows(1, 2), QUERY, 1)
    assert all_have(world, (0, 1))


def test_a_table_without_the_needed_privileges(tmp_path: Path, server: Postgres) -> None:
    import psycopg

    world = World(tmp_path, server.database())
    name = world.dsn.rpartition("/")[2]  # type: ignore[union-attr]
    with psycopg.connect(world.dsn, autocommit=True) as db:
        db.execute("CREATE TABLE totals (epoch bigint, attempt bigint, n bigint)")
        db.execute("CREATE ROLE guest LOGIN")
        db.execute("GRANT ALL ON SCHEMA public TO guest")
    guest = f"postgresql://guest@127.0.0.1:{server.port}/{name}"
    members = world.sinks() | {"totals": sinks.postgres(guest, "totals")}
    with pytest.raises(DataError, match=r"'totals': PostgreSQL says: permission denied for table totals"):
        sinks.together(members, log=world.log).write(rows(0, 1), QUERY, 0)
    assert world.have()["orders"] == []
    assert world.have()["archive"] == []
    with psycopg.connect(world.dsn, autocommit=True) as db:
        assert db.execute("SELECT count(*) FROM pg_prepared_xacts").fetchone() == (0,)
        db.execute("GRANT ALL ON totals TO guest")
    sinks.together(members, log=world.log).write(rows(0, 2), QUERY, 0)
    assert all_have(world, (0, 2))


def test_a_driver_that_was_believed_dead_decides_nothing(world: World) -> None:
    old = world.group()
    old.write(rows(0, 1), QUERY, 0)
    staged = old.stage(rows(1, 2), QUERY, 1)
    old.prepare(staged)
    old.abort(staged)  # what it holds, the second would wait for
    staged = old.stage(rows(1, 2), QUERY, 1)
    for member in old.members:
        member.soon(member.abort, QUERY, 1).result()
    world.write(1, 3)
    with documented(
        "a driver that was believed dead wakes up",
        StateError,
        match=r"another driver of this group has begun meanwhile",
    ):
        old.commit(staged)
    old.abort(staged)
    assert all_have(world, (0, 1), (1, 3))


def test_what_a_late_prepare_left_is_cleared(tmp_path: Path, server: Postgres) -> None:
    """Recovery has made its list; then the transaction of a dead driver gets prepared, and holds the query."""
    world = World(tmp_path, server.database())
    world.write(0, 1)
    group = world.group()
    group.begin(QUERY)
    late = world.sinks()["totals"]
    staged = late.stage(rows(1, 9), QUERY, 1)
    late.prepare(staged)
    assert late.hold(staged, "late")
    assert late.held(QUERY) == [(1, "late")]
    group.write(rows(1, 2), QUERY, 1)
    assert late.held(QUERY) == []
    assert all_have(world, (0, 1), (1, 2))


# ---------------------------------------------------------------- the decision itself


def test_a_decision_whose_writing_failed_is_asked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fails after the file has its name: it may be there, so the log is asked, and what it knows counts."""
    real = logs.write_lasting

    def fails_after(path: Any, pieces: Any, **more: Any) -> bool:
        real(path, pieces, **more)
        if '"batch": 1' in b"".join(pieces).decode():
            raise OSError(5, "Input/output error")
        return True

    group = world.group()
    group.write(rows(0, 1), QUERY, 0)
    monkeypatch.setattr(logs, "write_lasting", fails_after)
    group.write(rows(1, 2), QUERY, 1)
    assert all_have(world, (0, 1), (1, 2))


def test_a_decision_that_could_not_be_written_is_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    real = logs.write_lasting

    def fails_before(path: Any, pieces: Any, **more: Any) -> bool:
        if '"batch": 1' in b"".join(pieces).decode():
            raise OSError(28, "No space left on device")
        return real(path, pieces, **more)

    group = world.group()
    group.write(rows(0, 1), QUERY, 0)
    with monkeypatch.context() as patch:
        patch.setattr(logs, "write_lasting", fails_before)
        with pytest.raises(DataError, match=r"batch 1 .* is not decided, so no member has it: .*/log: No space left"):
            group.write(rows(1, 2), QUERY, 1)
    assert all_have(world, (0, 1))
    group.write(rows(1, 3), QUERY, 1)
    assert all_have(world, (0, 1), (1, 3))


@pytest.mark.parametrize("change", [{"batch": 7}, {"format": 2}], ids=["damaged", "another version"])
def test_a_log_that_cannot_be_read_is_refused(world: World, change: dict[str, int]) -> None:
    world.write(0, 1)
    path = world.log / "decisions.json"
    document = json.loads(path.read_text()) | change
    if "format" in change:
        document.pop("checksum")
        path.write_bytes(sealed(document))
        why = r"decisions.json: a log of another version of Pellucid"
    else:
        path.write_text(json.dumps(document))
        why = r"decisions.json: not a log of decisions .its checksum is wrong.: .* from a copy"
    with documented(OLDER, StateError, why):
        world.write(1, 2)
    with pytest.raises(StateError, match=why):
        world.read()


# ---------------------------------------------------------------- after the decision


class Moody(Lines):
    """A sink of one's own that cannot be reached for a while."""

    down = 0

    def commit(self, staged: Any) -> None:
        if self.down:
            self.down -= 1
            raise DataError("the server is gone")
        super().commit(staged)


def test_one_that_fails_does_not_stop_the_others_and_is_tried_again(world: World) -> None:
    own = Moody(world.folder / "own")
    group = sinks.together({"own": own, **world.sinks()}, log=world.log, patience=20)
    group.write(rows(0, 1), QUERY, 0)
    own.down = 3
    group.write(rows(1, 2), QUERY, 1)
    assert own.down == 0
    assert [row["attempt"] for row in own.rows()] == [1] * 3 + [2] * 3
    assert world.have() == dict.fromkeys(world.sinks(), expected((0, 1), (1, 2)))


def test_one_that_stays_away_leaves_the_batch_in_doubt(world: World) -> None:
    own = Moody(world.folder / "own")
    members = {"own": own, **world.sinks()}
    group = sinks.together(members, log=world.log, patience=0.2)
    group.write(rows(0, 1), QUERY, 0)
    own.down = 1000
    why = (
        r"batch 1 of query 'shop' is decided, and unresolved: member 'own' .* does not have it yet: the "
        r"server is gone. The other members have it, readers of read_together.. do not see it, later batches wait. "
        r"Nothing is lost"
    )
    with documented("a member cannot be reached **after** the decision", StateError, why):
        group.write(rows(1, 2), QUERY, 1)
    assert world.have() == dict.fromkeys(world.sinks(), expected((0, 1), (1, 2)))  # the others have it
    with pytest.raises(UsageError, match=r"given are .*: name all of them"):
        world.read()
    with pytest.raises(DataError, match=r"the server is gone"):  # later ones wait: it is committed first
        group.write(rows(2, 3), QUERY, 2)
    own.down = 0
    group.write(rows(2, 3), QUERY, 2)
    assert [row["attempt"] for row in own.rows()] == [1] * 3 + [2] * 3 + [3] * 3
    assert world.have() == dict.fromkeys(world.sinks(), expected((0, 1), (1, 2), (2, 3)))


def test_a_reader_sees_whole_epochs_while_one_is_in_doubt(tmp_path: Path, server: Postgres) -> None:
    world = World(tmp_path, server.database())
    world.write(0, 1)
    assert dies(lambda: world.write(1, 2), "parquet:before-commit=kill")
    assert world.have()["orders"] == expected((0, 1), (1, 2))
    assert world.have()["archive"] == expected((0, 1))
    assert world.read() == dict.fromkeys(world.sinks(), expected((0, 1)))
    assert dies(lambda: world.group().begin(QUERY), "parquet:before-commit=kill")
    assert dies(lambda: world.group().begin(QUERY), "parquet:after-commit=kill")
    assert world.read()["archive"] == world.read()["orders"]
    world.group().begin(QUERY)
    assert all_have(world, (0, 1), (1, 2))


def test_rows_of_other_programs_come_along(tmp_path: Path, server: Postgres) -> None:
    """Also while PostgreSQL is read without the last epoch: what was not written by its transaction is not of it."""
    world = World(tmp_path, server.database())
    made = world.sinks()
    members = {name: made[name] for name in ("totals", "archive")}  # the first has it when the second dies

    def write(epoch: int) -> None:
        sinks.together(members, log=world.log, patience=0).write(rows(epoch, 1), QUERY, epoch)

    def totals() -> list[Any]:
        found = sinks.read_together(members, log=world.log)
        assert found["archive"].num_rows == 3
        return sorted(tuple(row.values()) for row in found["totals"].to_pylist())

    write(0)
    assert dies(lambda: write(1), "parquet:before-commit=kill")
    assert world.have()["totals"] == expected((0, 1), (1, 1))
    assert totals() == expected((0, 1))
    with psycopg.connect(str(world.dsn), autocommit=True) as db:
        db.execute("INSERT INTO totals VALUES (7, 7, 7)")
        assert totals() == [*expected((0, 1)), (7, 7, 7)]
        db.execute("UPDATE totals SET n = 100 WHERE epoch = 1 AND n = 2")
        assert totals() == [*expected((0, 1)), (1, 1, 100), (7, 7, 7)]


def test_commit_after_abort_and_double_commit(tmp_path: Path, server: Postgres) -> None:
    """What was taken back cannot be committed by its name, and what is committed is not committed twice."""
    sink = sinks.postgres(server.database(), "totals")
    staged = sink.stage(rows(0, 1), QUERY, 0)
    sink.prepare(staged)
    assert sink.hold(staged, "a1")
    assert sink.settle(QUERY, 0, "a1", commit=False)
    assert not sink.settle(QUERY, 0, "a1", commit=True)
    assert sink.last(QUERY) is None
    staged = sink.stage(rows(0, 2), QUERY, 0)
    sink.prepare(staged)
    assert sink.hold(staged, "a2")
    assert sink.settle(QUERY, 0, "a2", commit=True)
    assert not sink.settle(QUERY, 0, "a2", commit=True)
    assert not sink.settle(QUERY, 0, "a2", commit=False)
    assert sink.read()["attempt"].to_pylist() == [2, 2, 2]


def test_without_prepared_transactions(tmp_path: Path, plain_server: Postgres) -> None:
    world = World(tmp_path, plain_server.database())
    with pytest.warns(
        UserWarning, match=r"totals: the server keeps no prepared transactions .max_prepared_transactions is 0"
    ):
        world.write(0, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert dies(lambda: world.write(1, 2), "postgres:before-commit=kill")
        assert world.have()["orders"] == expected((0, 1), (1, 2))
        assert world.have()["totals"] == expected((0, 1))
        assert world.read() == dict.fromkeys(world.sinks(), expected((0, 1)))
        assert world.write(1, 3).skipped
    assert all_have(world, (0, 1), (1, 2))


# ---------------------------------------------------------------- other members


def test_a_member_that_is_new(world: World) -> None:
    world.write(0, 1)
    members = world.sinks() | {"late": sinks.sqlite(world.folder / "late.db", "late")}
    with documented(
        "a member is new",
        StateError,
        match=r"member 'late' .* is new in a group whose last batch is 0.* Say added='late'",
    ):
        sinks.together(members, log=world.log).write(rows(1, 2), QUERY, 1)
    group = sinks.together(members, log=world.log, added="late")
    group.write(rows(1, 2), QUERY, 1)
    found = group.read()
    assert found["late"]["epoch"].to_pylist() == [1, 1, 1]
    assert found["orders"]["epoch"].to_pylist() == [0, 0, 0, 1, 1, 1]
    sinks.together(members, log=world.log, added="late").write(rows(2, 3), QUERY, 2)  # the same call goes on
    sinks.together(members, log=world.log).write(rows(3, 4), QUERY, 3)
    assert sinks.read_together(members, log=world.log)["late"].num_rows == 9


def test_a_member_that_leaves(world: World) -> None:
    world.write(0, 1)
    members = {name: sink for name, sink in world.sinks().items() if name != "totals"}
    with documented(
        "a member is gone",
        StateError,
        match=r"member 'totals' .* is not given any more: give it, or, .* say removed='totals'",
    ):
        sinks.together(members, log=world.log).write(rows(1, 2), QUERY, 1)
    assert dies(lambda: world.write(1, 2), "together:decided=kill")
    with documented(
        "a member is gone, and an epoch is unresolved",
        StateError,
        match=r"member 'totals' .* cannot leave the group now: batch 1 is decided, and it is",
    ):
        sinks.together(members, log=world.log, removed="totals").write(rows(2, 3), QUERY, 2)
    world.group().begin(QUERY)
    sinks.together(members, log=world.log, removed="totals").write(rows(2, 3), QUERY, 2)
    assert world.have()["totals"] == expected((0, 1), (1, 2))
    assert world.have()["orders"] == expected((0, 1), (1, 2), (2, 3))


def test_a_member_that_is_another_target(world: World) -> None:
    world.write(0, 1)
    members = world.sinks() | {"totals": sinks.sqlite(world.folder / "other.db", "totals")}
    with pytest.raises(
        StateError, match=r"member 'totals' was sqlite:.*totals.db#totals, and is sqlite:.*other.db#totals"
    ):
        sinks.together(members, log=world.log).write(rows(1, 2), QUERY, 1)


def test_a_member_back_from_a_backup_is_refused_or_gets_what_it_lacks(world: World) -> None:
    for epoch in range(2):
        world.write(epoch, epoch + 1)
    shutil.copy(world.folder / "totals.db", world.folder / "backup")
    world.write(2, 3)
    shutil.copy(world.folder / "backup", world.folder / "totals.db")
    with documented(
        BACKUP,
        StateError,
        match=r"member 'totals' .*: the last batch of query 'shop' that is there is 1, and the group's is 2: was it restored",  # noqa: E501
    ):
        world.write(3, 4)
    assert world.write(2, 3).skipped  # the batch that it lacks comes again: it gets it
    assert all_have(world, (0, 1), (1, 2), (2, 3))
    world.write(3, 4)
    shutil.copy(world.folder / "backup", world.folder / "totals.db")
    for comes in (3, 4):  # two are missing: no batch that could come again has both
        with pytest.raises(
            StateError, match=r"the last batch of query 'shop' that is there is 1, and the group's is 3"
        ):
            world.write(comes, 4)
    with pytest.raises(
        StateError, match=r"member 'totals' .*: its last epoch is older than the group's last whole one"
    ):
        world.read()


def test_an_older_log_is_refused(world: World) -> None:
    world.write(0, 1)
    shutil.copytree(world.log, world.folder / "older")
    world.write(1, 2)
    shutil.rmtree(world.log)
    shutil.copytree(world.folder / "older", world.log)
    with documented(
        OLDER, StateError, match=r"has batch 1 of query 'shop', and the last that .* has decided is 0: the log is"
    ):
        world.write(2, 3)
    shutil.rmtree(world.log)
    with pytest.raises(StateError, match=r"belongs to another group, whose log is"):
        world.write(2, 3)


def test_one_folder_by_two_names(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for kind in (sinks.parquet, sinks.delta):
        group = sinks.together(a=kind(tmp_path / "t"), b=kind(tmp_path / "link" / "t"), log=tmp_path / "log")
        with pytest.raises(UsageError, match="together: 'a' and 'b' are the same target: name it once"):
            group.write(pa.table({"x": [1]}), "q", 0)


def test_two_groups_that_share_a_sink(world: World) -> None:
    world.write(0, 1)
    shared = {"archive": sinks.parquet(world.folder / "archive"), "own": sinks.sqlite(world.folder / "own.db", "own")}
    with documented(
        "a target of another group",
        StateError,
        match=r"member 'archive' .* belongs to another group, whose log is .*log: .*_group.json",
    ):
        sinks.together(shared, log=world.folder / "log2").write(rows(0, 2), "other", 0)
    assert world.have()["archive"] == expected((0, 1))
    for name in ("orders", "totals"):
        with pytest.raises(StateError, match=rf"member '{name}' .* belongs to another group"):
            sinks.together({name: world.sinks()[name]}, log=world.folder / "log3").write(rows(0, 2), "other", 0)


def test_two_tables_of_one_file(world: World) -> None:
    members = {name: sinks.sqlite(world.folder / "shop.db", name, wait=2) for name in ("a", "b")}
    for epoch in range(2):
        sinks.together(members, log=world.log).write(rows(epoch, 1), QUERY, epoch)
    assert dies(
        lambda: sinks.together(members, log=world.log).write(rows(2, 1), QUERY, 2), "sqlite:after-commit=kill@1"
    )
    found = sinks.read_together(members, log=world.log)
    assert found["a"].to_pydict() == found["b"].to_pydict()
    sinks.together(members, log=world.log).write(rows(3, 1), QUERY, 3)
    found = sinks.read_together(members, log=world.log)
    assert found["a"]["epoch"].to_pylist() == found["b"]["epoch"].to_pylist() == [e for e in range(4) for _ in range(3)]


# ---------------------------------------------------------------- whose rows


def test_rows_go_to_the_member_that_the_column_names(world: World) -> None:
    members = {name: sinks.sqlite(world.folder / f"{name}.db", name) for name in ("sums", "late")}
    table = pa.table(
        {"output": ["sums", "late", "late", "gone"], "user": list("abcd"), "sums": [1, None, None, None],
         "late": [None, 2, 3, None]}
    )  # fmt: skip
    group = sinks.together({**members, "gone": None}, log=world.log, by="output")
    group.write(table, QUERY, 0)
    found = group.read()
    assert found["sums"].to_pylist() == [{"user": "a", "sums": 1}]
    assert found["late"].to_pylist() == [{"user": "b", "late": 2}, {"user": "c", "late": 3}]
    with pytest.raises(
        DataError, match=r"column 'output' names the output 'gone', which is no member; there are sums, late"
    ):
        sinks.together(members, log=world.log, by="output").write(table, QUERY, 1)
    with pytest.raises(DataError, match=r"there is no column 'outpt'; there are output, user, sums, late"):
        sinks.together(members, log=world.log, by="outpt").write(table, QUERY, 1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda f: sinks.together(log=f), "name at least one member"),
        (
            lambda f: sinks.together(a="sqlite:x.db#t"),
            "a='sqlite:x.db#t' is no sink: an address is one by sinks.sink_of",
        ),
        (
            lambda f: sinks.together(a=sinks.kafka("h", "t")),
            "a is kafka, which cannot be one of a group: a topic cannot be",
        ),
        (
            lambda f: sinks.together(a=sinks.once(print, ledger=f)),
            "a is once, which cannot be one of a group: what a function",
        ),
        (
            lambda f: sinks.together(a=sinks.together(b=sinks.parquet(f))),
            "a is together, which cannot be one of a group: a group in a group",
        ),
        (
            lambda f: sinks.together(a=sinks.parquet(f), b=sinks.parquet(f / "../" / f.name)),
            "'a' and 'b' are the same target",
        ),
        (
            lambda f: sinks.together(a=sinks.parquet(f), added="b"),
            "added='b' is no member: expected the name of a new one, of a",
        ),
        (lambda f: sinks.together(a=sinks.parquet(f), removed="a"), "removed='a' is a member"),
        (
            lambda f: sinks.together(a=sinks.parquet(f)).write(rows(0, 1), QUERY, 0),
            "where are its decisions kept\\? Give log=FOLDER",
        ),
        (lambda f: sinks.read_together(a=sinks.parquet(f)), "where are the group's decisions\\? Give log=FOLDER"),
    ],
)
def test_what_cannot_be_a_group_is_refused(tmp_path: Path, make: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make(tmp_path)


def test_another_query_begins_when_the_one_before_is_whole(world: World) -> None:
    world.write(0, 1)
    assert dies(lambda: world.write(1, 2), "together:decided=kill")
    with pytest.raises(
        StateError, match=r"batch 1 of query 'shop' is decided, and member 'orders' .* has it not: start"
    ):
        world.group().write(rows(0, 5), "anew", 0)
    world.group().begin(QUERY)
    world.group().write(rows(0, 5), "anew", 0)
    assert all_have(world, (0, 1), (1, 2), (0, 5))


def test_a_batch_before_which_others_are_missing(world: World) -> None:
    with pytest.raises(
        StateError, match=r"no batch of query 'shop' was decided, yet batch 3 comes: is this another log"
    ):
        world.write(3, 1)
    world.write(3, 1, first_batch=3)
    with pytest.raises(StateError, match=r"the last batch of query 'shop' that is decided is 3, yet batch 7 comes"):
        world.write(7, 2)


def test_the_log_says_who_decides(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path / "log")
    with pytest.raises(DataError, match=r"no log of decisions is there: nothing was written by this group"):
        sinks.read_together(log=tmp_path / "log", a=sinks.parquet(tmp_path / "a"))
    log.take(QUERY, {"a": "x"})
    with pytest.raises(UsageError, match=r"member 'a' is x, and parquet: .* is given: name the same target"):
        sinks.read_together(log=tmp_path / "log", a=sinks.parquet(tmp_path / "a"))


def test_one_table_in_two_spellings(tmp_path: Path) -> None:
    """SQLite does not tell T from t; two writers of one table would take each other's epochs for their own."""
    with pytest.raises(UsageError, match="'a' and 'b' are the same target"):
        sinks.together(a=sinks.sqlite(tmp_path / "a.db", "t"), b=sinks.sqlite(tmp_path / "a.db", "T"))


def test_a_server_by_a_url_and_by_pairs(tmp_path: Path, server: Postgres) -> None:
    """One target, whoever writes it how; another table, database or server is another one."""
    dsn = server.database()
    found = psycopg.conninfo.conninfo_to_dict(dsn)
    pairs = f"dbname={found['dbname']} port={found['port']} host={found['host']} user=postgres"
    archive = sinks.parquet(tmp_path / "archive")

    def group(address: str, table: str = "totals") -> Any:
        return sinks.together(
            {"totals": sinks.postgres(address, table), "archive": archive}, log=tmp_path / "log", patience=0
        )

    def earlier() -> None:
        """The log as an earlier version wrote it: the pairs as they were given."""
        path = tmp_path / "log" / "decisions.json"
        document = json.loads(path.read_text())
        document.pop("checksum")
        document["members"]["totals"] = [f"{pairs} password=***#totals", -1]
        path.write_bytes(sealed(document))

    for batch, address in enumerate((pairs, dsn, pairs, dsn)):
        group(address).write(rows(batch, 1), QUERY, batch)
        if batch == 2:
            earlier()
        for other in (pairs, dsn):
            assert group(other).read()["totals"].num_rows == 3 * (batch + 1)
    for other, table in ((server.dsn, "totals"), (dsn, "other"), (pairs.replace("host=", "host=not-"), "totals")):
        with pytest.raises(UsageError, match=r"read_together: member 'totals' is postgresql:.*: name the same target$"):
            group(other, table).read()
        with pytest.raises(StateError, match=r"member 'totals' was postgresql:.*: name the same target"):
            group(other, table).write(rows(4, 1), QUERY, 4)
    with pytest.raises(UsageError, match=r"are the same target"):
        sinks.together(a=sinks.postgres(dsn, "t"), b=sinks.postgres(pairs, "t"), log=tmp_path / "other")


# ---------------------------------------------------------------- what is not everywhere


@pytest.fixture(scope="module")
def small_server() -> Iterator[Postgres]:
    """One that keeps a single prepared transaction."""
    yield from server_or_skip(prepared=1)


def test_a_server_that_keeps_too_few(tmp_path: Path, small_server: Postgres) -> None:
    world = World(tmp_path, small_server.database())
    world.write(0, 1)
    other = sinks.postgres(str(world.dsn), "other")
    staged = other.stage(rows(0, 1), "another", 0)
    other.prepare(staged)
    assert other.hold(staged, "a1")  # the only one that there can be
    for what in ("a server that keeps too few of them", REFUSES):
        with documented(what, PellucidError):
            world.write(1, 2)
    other.settle("another", 0, "a1", commit=False)
    world.write(1, 3)
    assert world.have() == dict.fromkeys(world.sinks(), expected((0, 1), (1, 3)))


def test_what_is_in_doubt(world: World) -> None:
    world.write(0, 1)
    assert doubt_of_group(world.log).lines() == [
        f"{world.log}: batch 0 of 'shop', decided {_when(world)}, is everywhere: nothing is unresolved",
        *(f"  {m.name:<12} has it         {m.target}" for m in doubt_of_group(world.log).members),
    ]
    assert dies(lambda: world.write(1, 2), "sqlite:after-commit=kill")
    found = doubt_of_group(world.log)
    assert (found.in_doubt, found.batch, found.whole, found.epochs) == (True, 1, 0, False)
    assert {m.name: (m.last, m.lacks) for m in found.members} == {
        "orders": (1, False), "archive": (0, True), "totals": (0, True)
    }  # fmt: skip
    lines = found.lines()
    assert lines[0].endswith("is unresolved")
    assert "later batches wait for archive, totals" in lines
    assert lines[-2].startswith("to resolve it: see that archive and totals can be reached and written to; then start")
    assert json.loads(json.dumps(found.document()))["members"][1]["lacks"] is True
    shutil.rmtree(world.folder / "archive")
    assert next(m for m in doubt_of_group(world.log).members if m.name == "archive").why == "the folder is gone"


def _when(world: World) -> str:
    return doubt_of_group(world.log).lines()[0].partition("decided ")[2].partition(", is ")[0]


def test_a_folder_without_a_log(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no group of sinks has a log there"):
        doubt_of_group(tmp_path)
    DecisionLog(tmp_path / "together").take(QUERY, {"a": "x"})
    assert doubt_of_group(tmp_path).lines() == [
        f"{tmp_path / 'together'}: nothing is decided yet: nothing is unresolved"
    ]
