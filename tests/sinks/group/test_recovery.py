"""Drivers that die at every named moment: all targets have an epoch, or none, once, and from one attempt."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from pellucid import sinks
from pellucid.errors import DataError
from pellucid.internal.base import faults
from pellucid.internal.model import follow
from pellucid.sinks.decisions import DecisionLog
from pellucid.sinks.unresolved import doubt_of_group
from tests.sinks.group.machine import Together
from tests.sinks.group.test_cut_back import Two
from tests.sinks.group.world import QUERY, World, dies, expected, rows
from tests.sinks.postgres import Postgres, server_or_skip

MEMBERS = ("orders", "archive", "totals")
KINDS = ("held", "held", "lasting")
# Where a driver dies in its second epoch, and whether that is decided then.
MOMENTS = {
    "together:recover": True,  # of the epoch before
    "together:kept": False,
    "together:prepare@1": False,
    "together:prepare@2": False,
    "together:prepare@3": False,
    "together:prepared@1": False,
    "together:prepared@2": False,
    "together:prepared@3": False,
    "together:before-decision": False,
    "together:decided": True,
    "sqlite:before-commit": True,
    "sqlite:after-commit": True,
    "parquet:before-commit": True,
    "parquet:after-commit": True,
    "parquet:between-moves": True,
    "postgres:before-commit": True,
    "postgres:after-commit": True,
    "together:committed": True,
}


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    yield from server_or_skip()


@pytest.fixture
def world(tmp_path: Path, server: Postgres) -> World:
    return World(tmp_path, server.database())


def armed(moment: str) -> str:
    point, _, hit = moment.partition("@")
    return f"{point}=kill@{hit or 1}/*"


class Notes:
    """What a driver did, as the steps of the machine, in a file that outlives it."""

    def __init__(self, path: Path, epoch: int) -> None:
        self.path, self.epoch, self.prepared = path, epoch, 0

    def __call__(self, point: str, member: str) -> None:
        m = MEMBERS.index(member) if member else -1
        labels = {
            "together:kept": [f"begin {self.epoch}", *(f"prepare {self.epoch} at m{i}" for i in range(3))],
            "together:prepared": [f"prepared {self.epoch} at m{m}"],
            "together:decided": [f"decide {self.epoch}"],
        }.get(point, [])
        if point.endswith(":after-commit") and member:
            labels = [f"commit {self.epoch} at m{m}"]
        with open(self.path, "a") as file:
            file.writelines(f"{label}\n" for label in labels)


@pytest.mark.parametrize("moment", MOMENTS)
def test_whoever_dies_all_have_it_or_none(world: World, tmp_path: Path, moment: str) -> None:
    """And the steps of the driver that dies, and of the one after it, are a run of the machine, which has the same
    attempts in every member."""
    notes, machine = tmp_path / "notes", Together(KINDS, epochs=2, failures=9, attempts=9)
    recover = ["crash", "start", *(f"recover m{i}" for i in range(3))]

    def note(*steps: str) -> None:
        with notes.open("a") as file:
            file.writelines(f"{step}\n" for step in steps)

    assert not dies(lambda: world.write(0, 1), "", Notes(notes, 1))
    note("whole 1", *recover)
    assert dies(lambda: world.write(1, 2), armed(moment), Notes(notes, 2)), f"no driver came to {moment}"
    record = DecisionLog(world.log).read()
    assert record is not None
    decided = record.batch == 1
    assert decided == (MOMENTS[moment] and moment != "together:recover")
    seen = world.read()  # between the phases, before any recovery
    assert len({tuple(found) for found in seen.values()}) == 1
    assert seen["orders"] in (expected((0, 1)), expected((0, 1), (1, 2)))
    attempt = 2 + notes.read_text().count("begin 2")  # the epoch comes again, with other rows if it may
    note(*recover)
    assert not dies(lambda: world.write(1, attempt), "", Notes(notes, 2))
    whole = expected((0, 1), (1, 2 if decided else attempt))
    assert world.have() == world.read() == dict.fromkeys(MEMBERS, whole)
    if moment not in ("together:recover", "parquet:between-moves"):  # which are no steps of the machine
        path = follow(machine, notes.read_text().split("\n")[:-1])
        for m in range(3):
            assert set(path[-1].members[m].rows) == {(epoch + 1, number) for epoch, number, _ in whole}
    world.write(2, 9)
    assert world.have() == dict.fromkeys(MEMBERS, sorted(whole + expected((2, 9))))
    assert not [one for sink in world.sinks().values() for one in sink.held(QUERY)]
    assert list((world.log / "rows").iterdir()) == []


def test_a_decision_that_is_only_in_memory_is_caught(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: the checks above would not pass it."""

    def forgetful(self: DecisionLog, batch: int, attempt: str, epoch: int = 0) -> object:
        from dataclasses import replace

        found = self.read()
        assert found is not None
        faults.point("together:decided")
        return replace(found, batch=batch, before=found.batch, attempt=attempt)

    with monkeypatch.context() as patch:
        patch.setattr(DecisionLog, "decide", forgetful)
        assert dies(lambda: world.write(0, 1), "sqlite:after-commit=kill")
    have = world.have()
    assert have["orders"] == expected((0, 1))
    assert have["totals"] == []  # one has it, one has not, and nobody knows that it was decided
    with pytest.raises(Exception, match=r"the last that .* has decided is none: the log is an older copy"):
        world.write(0, 2)


def test_twice_the_same_is_left_out(world: World) -> None:
    group = world.group()
    assert not group.write(rows(0, 1), QUERY, 0).skipped
    assert group.write(rows(0, 2), QUERY, 0).skipped
    assert world.group().write(rows(0, 3), QUERY, 0).skipped
    assert world.have() == dict.fromkeys(MEMBERS, expected((0, 1)))


def test_an_empty_epoch(world: World) -> None:
    world.write(0, 1)
    assert world.group().write(rows(1, 2, count=0), QUERY, 1).rows == 0
    assert world.group().last(QUERY) == 1
    world.write(2, 3)
    assert world.read() == dict.fromkeys(MEMBERS, expected((0, 1), (2, 3)))


# A table that another program alters after the decision and before the commit that a crash delayed: the epoch stays
# unresolved until the table fits again, and nothing is given up.

CHANGES = [
    ("ALTER TABLE totals DROP COLUMN n", "ALTER TABLE totals ADD COLUMN n bigint", "column 'n' .* is missing in the"),
    (
        "ALTER TABLE totals RENAME COLUMN n TO m",
        "ALTER TABLE totals RENAME COLUMN m TO n",
        "column 'n' .* is missing in",
    ),
    (
        "ALTER TABLE totals ADD COLUMN more text",
        "ALTER TABLE totals DROP COLUMN more",
        "column 'more' .* is not in the",
    ),
]


@pytest.fixture(scope="module")
def plain_server() -> Iterator[Postgres]:
    """One without prepared transactions: what is held open goes with its driver."""
    yield from server_or_skip(prepared=0)


def execute(world: World, statement: str) -> None:
    if world.dsn is None:
        with closing(sqlite3.connect(world.folder / "totals.db", isolation_level=None)) as file:
            file.execute(statement.replace("bigint", "INTEGER"))
    else:
        with psycopg.connect(world.dsn, autocommit=True) as db:
            db.execute(statement.encode())


@pytest.mark.parametrize("server", [True, False], ids=["postgres", "sqlite"])
@pytest.mark.parametrize(("change", "back", "why"), CHANGES)
def test_a_table_that_was_altered_while_a_batch_is_in_doubt(
    tmp_path: Path, plain_server: Postgres, server: bool, change: str, back: str, why: str
) -> None:
    world = Two(tmp_path, plain_server.database() if server else None)
    world.group().write(rows(0, 1), QUERY, 0)
    assert dies(lambda: world.group().write(rows(1, 2), QUERY, 1), "together:decided=kill")
    execute(world, change)
    for _ in range(2):
        with pytest.raises(DataError, match=f"table 'totals' does not fit the batch: .*{why}.*alter this one"):
            world.group().begin(QUERY)
    found = doubt_of_group(world.log, world.sinks())
    assert (found.in_doubt, {m.name: m.lacks for m in found.members}) == (True, {"totals": True, "archive": False})
    execute(world, back)
    world.group().begin(QUERY)
    world.write(2, 3)
    assert world.have()["archive"] == expected((0, 1), (1, 2), (2, 3))
    if "DROP COLUMN n" not in change:
        assert world.have()["totals"] == world.have()["archive"]
    tables = sinks.read_together(world.sinks(), log=world.log)
    assert {name: table.num_rows for name, table in tables.items()} == {"totals": 9, "archive": 9}
    assert doubt_of_group(world.log, world.sinks()).in_doubt is False


def test_what_is_prepared_cannot_be_altered(tmp_path: Path, postgres: Postgres) -> None:
    """A prepared transaction holds the table: who alters it waits, and the batch is committed first."""
    world = Two(tmp_path, postgres.database())
    world.write(0, 1)
    assert dies(lambda: world.write(1, 2), "together:decided=kill")
    with psycopg.connect(str(world.dsn), autocommit=True) as db:
        db.execute("SET lock_timeout = '200ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            db.execute("ALTER TABLE totals DROP COLUMN n")
        world.group().begin(QUERY)
        db.execute("ALTER TABLE totals RENAME COLUMN n TO m")
    with pytest.raises(
        DataError, match=r"does not take it, so no member has it: .*column 'n' .* is missing in the table"
    ):
        world.write(2, 3)
    tables = sinks.read_together(world.sinks(), log=world.log)
    assert {name: table.num_rows for name, table in tables.items()} == {"totals": 6, "archive": 6}
