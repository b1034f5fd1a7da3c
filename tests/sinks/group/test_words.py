"""Whatever goes wrong is said as docs/how-to-together.md says it (with epochs: `engine/epochs/test_together.py`)."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pellucid import sinks
from pellucid.errors import PellucidError
from pellucid.internal.base.files import sealed
from pellucid.sinks.decisions import DecisionLog
from pellucid.sinks.unresolved import doubt_of_group
from tests.sinks.group.test_together import Moody
from tests.sinks.group.words import assert_told
from tests.sinks.group.world import QUERY, World, dies, expected, rows
from tests.sinks.postgres import Postgres, server_or_skip


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, None)


@pytest.fixture(scope="module")
def small_server() -> Iterator[Postgres]:
    """One that keeps a single prepared transaction."""
    yield from server_or_skip(prepared=1)


def refused(what: Callable[[], Any]) -> str:
    with pytest.raises(PellucidError) as caught:
        what()
    return str(caught.value)


def without(world: World, name: str) -> dict[str, Any]:
    return {member: sink for member, sink in world.sinks().items() if member != name}


def restored(world: World) -> str:
    world.write(0, 1)
    shutil.copy(world.folder / "totals.db", world.folder / "backup")
    world.write(1, 2)
    world.write(2, 3)
    shutil.copy(world.folder / "backup", world.folder / "totals.db")
    return refused(lambda: world.write(3, 4))


def deleted(world: World) -> str:
    world.write(0, 1)
    world.write(1, 2)
    (world.folder / "totals.db").unlink()
    return refused(lambda: world.write(2, 3))


def older(world: World) -> str:
    world.write(0, 1)
    shutil.copytree(world.log, world.folder / "older")
    world.write(1, 2)
    shutil.rmtree(world.log)
    shutil.copytree(world.folder / "older", world.log)
    return refused(lambda: world.write(2, 3))


def rewritten(world: World, change: Callable[[dict[str, Any]], Any], checksum: bool = True) -> str:
    world.write(0, 1)
    path = world.log / "decisions.json"
    document = json.loads(path.read_text())
    document.pop("checksum")
    change(document)
    path.write_bytes(sealed(document) if checksum else json.dumps(document).encode())
    return refused(lambda: world.write(1, 2))


def locked(world: World) -> str:
    world.write(0, 1)
    members = world.sinks() | {"totals": sinks.sqlite(world.folder / "totals.db", "totals", wait=0.2)}
    with closing(sqlite3.connect(world.folder / "totals.db", isolation_level=None)) as db:
        group = sinks.together(members, log=world.log)
        group.begin(QUERY)
        db.execute("BEGIN IMMEDIATE")
        said = refused(lambda: group.write(rows(1, 2), QUERY, 1))
    assert "another writer has held the database for 0.2 s: is a second run or query, or another program" in said
    assert world.have() == dict.fromkeys(world.sinks(), expected((0, 1)))
    return said


def not_unique(world: World) -> str:
    with closing(sqlite3.connect(world.folder / "totals.db")) as db:
        db.execute("CREATE TABLE totals (epoch INTEGER, attempt INTEGER, n INTEGER UNIQUE)")
    world.write(0, 1)
    said = refused(lambda: world.write(1, 2))
    assert (
        "table 'totals': a row of batch 1 is refused, UNIQUE constraint failed: totals.n (row 1: epoch=1, attempt=2, "
        "n=0): leave it out before the sink, or alter the table"
    ) in said
    assert world.have() == dict.fromkeys(world.sinks(), expected((0, 1)))
    return said


def away(world: World) -> str:
    own = Moody(world.folder / "own")
    own.down = 1000
    return refused(lambda: sinks.together({"own": own, **world.sinks()}, log=world.log, patience=0).write(
        rows(0, 1), QUERY, 0))  # fmt: skip


def woken(world: World) -> str:
    old = world.group()
    old.write(rows(0, 1), QUERY, 0)
    world.write(1, 2)
    return refused(lambda: old.log.decide(2, "late"))


def new(world: World) -> str:
    world.write(0, 1)
    members = world.sinks() | {"late": sinks.sqlite(world.folder / "late.db", "late")}
    return refused(lambda: sinks.together(members, log=world.log).write(rows(1, 2), QUERY, 1))


def gone(world: World) -> str:
    world.write(0, 1)
    return refused(lambda: sinks.together(without(world, "totals"), log=world.log).write(rows(1, 2), QUERY, 1))


def gone_in_doubt(world: World) -> str:
    world.write(0, 1)
    assert dies(lambda: world.write(1, 2), "together:decided=kill")
    group = sinks.together(without(world, "totals"), log=world.log, removed="totals")
    return refused(lambda: group.write(rows(2, 3), QUERY, 2))


def shared(world: World) -> str:
    world.write(0, 1)
    members = {"archive": sinks.parquet(world.folder / "archive"), "own": sinks.sqlite(world.folder / "own.db", "own")}
    return refused(lambda: sinks.together(members, log=world.folder / "other").write(rows(0, 1), "other", 0))


REFUSES = "a member refuses the rows (a `NOT NULL`, a missing right, a full disk, another program that holds the table)"
CASES: list[tuple[str, Callable[[World], str]]] = [
    (REFUSES, locked),
    (REFUSES, not_unique),
    ("a member cannot be reached **after** the decision", away),
    ("a driver that was believed dead wakes up", woken),
    ("a member comes back from a backup, or was deleted", restored),
    ("a member comes back from a backup, or was deleted", deleted),
    ("the log is an older copy, damaged or of another version", older),
    (
        "the log is an older copy, damaged or of another version",
        lambda world: rewritten(world, lambda d: d.update(format=2)),
    ),
    (
        "the log is an older copy, damaged or of another version",
        lambda world: rewritten(world, lambda d: d.update(batch=7), checksum=False),
    ),
    ("a member is new", new),
    ("a member is gone", gone),
    ("a member is gone, and an epoch is in doubt", gone_in_doubt),
    ("a target of another group", shared),
]


@pytest.mark.parametrize(("what", "happens"), CASES)
def test_it_is_said_as_the_docs_say_it(world: World, what: str, happens: Callable[[World], str]) -> None:
    assert_told(what, happens(world))


def test_a_server_that_keeps_too_few(tmp_path: Path, small_server: Postgres) -> None:
    world = World(tmp_path, small_server.database())
    world.write(0, 1)
    other = sinks.postgres(str(world.dsn), "other")
    staged = other.stage(rows(0, 1), "another", 0)
    other.prepare(staged)
    assert other.hold(staged, "a1")  # the only one that there can be
    said = refused(lambda: world.write(1, 2))
    assert_told("a server that keeps too few of them", said)
    assert_told(REFUSES, said)
    other.settle("another", 0, "a1", commit=False)
    world.write(1, 3)
    assert world.have() == dict.fromkeys(world.sinks(), expected((0, 1), (1, 3)))


def test_what_is_in_doubt(world: World) -> None:
    world.write(0, 1)
    assert doubt_of_group(world.log).lines() == [
        f"{world.log}: batch 0 of 'shop', decided {_when(world)}, is everywhere: nothing is in doubt",
        *(f"  {m.name:<12} has it         {m.target}" for m in doubt_of_group(world.log).members),
    ]
    assert dies(lambda: world.write(1, 2), "sqlite:after-commit=kill")
    found = doubt_of_group(world.log)
    assert (found.in_doubt, found.batch, found.whole, found.epochs) == (True, 1, 0, False)
    assert {m.name: (m.last, m.lacks) for m in found.members} == {
        "orders": (1, False), "archive": (0, True), "totals": (0, True)
    }  # fmt: skip
    lines = found.lines()
    assert lines[0].endswith("is in doubt")
    assert "later batches wait for archive, totals" in lines
    assert lines[-2].startswith("to resolve it: see that archive and totals can be reached and written to; then start")
    assert json.loads(json.dumps(found.document()))["members"][1]["lacks"] is True
    shutil.rmtree(world.folder / "archive")
    assert next(m for m in doubt_of_group(world.log).members if m.name == "archive").why == "the folder is gone"


def _when(world: World) -> str:
    return doubt_of_group(world.log).lines()[0].partition("decided ")[2].partition(", is ")[0]


def test_a_folder_without_a_log(tmp_path: Path) -> None:
    assert "no group of sinks has a log there" in refused(lambda: doubt_of_group(tmp_path))
    DecisionLog(tmp_path / "together").take(QUERY, {"a": "x"})
    assert doubt_of_group(tmp_path).lines() == [f"{tmp_path / 'together'}: nothing is decided yet: nothing is in doubt"]
