"""A table that somebody alters after the decision and before the commit that a crash delayed: the epoch stays in doubt
until it fits again, nothing is given up, and what is wrong is said."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from pellucid import sinks
from pellucid.errors import DataError
from pellucid.sinks.group.doubt import doubt_of_group
from tests.sinks.group.test_cut_back import Two
from tests.sinks.group.world import QUERY, World, dies, expected, rows
from tests.sinks.postgres import Postgres, server_or_skip

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
    with pytest.raises(DataError, match=r"does not take it, so nobody has it: .*column 'n' .* is missing in the table"):
        world.write(2, 3)
    tables = sinks.read_together(world.sinks(), log=world.log)
    assert {name: table.num_rows for name, table in tables.items()} == {"totals": 6, "archive": 6}
