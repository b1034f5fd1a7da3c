"""A member that cannot be reached before anything is decided: it is tried again for a while, then nobody has the
batch."""

from __future__ import annotations

import socket
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pellucid import sinks
from pellucid.errors import DataError, Unreachable
from tests.sinks.group.words import assert_told
from tests.sinks.group.world import QUERY, World, expected, rows
from tests.sinks.own import Lines
from tests.sinks.postgres import Postgres, server_or_skip

AWAY = "a member cannot be reached **before** the decision"


class Away(Lines):
    """A sink of one's own whose server does not answer, at one of the two steps before the decision."""

    away, at = 0, "stage"

    def stage(self, data: Any, query: str, batch: int) -> Any:
        self._reach("stage")
        return super().stage(data, query, batch)

    def prepare(self, staged: Any) -> None:
        super().prepare(staged)
        self._reach("prepare")

    def _reach(self, at: str) -> None:
        if self.away and self.at == at:
            self.away -= 1
            raise Unreachable("no route to host")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, None)


def group_of(world: World, own: Any, patience: float) -> tuple[Any, list[str]]:
    said: list[str] = []
    group = sinks.together({"own": own, **world.sinks()}, log=world.log, patience=patience)
    group.say = said.append
    return group, said


@pytest.mark.parametrize("at", ["stage", "prepare"])
def test_one_that_is_back_in_time_has_the_batch_as_all(world: World, at: str) -> None:
    own = Away(world.folder / "own")
    group, said = group_of(world, own, 20)
    group.write(rows(0, 1), QUERY, 0)
    own.away, own.at = 2, at
    group.write(rows(1, 2), QUERY, 1)
    assert [row["attempt"] for row in own.rows()] == [1] * 3 + [2] * 3
    assert world.have() == dict.fromkeys(world.sinks(), expected((0, 1), (1, 2)))
    assert said == [
        "batch 1: own cannot be reached (no route to host): it is tried again for 20 s, and until then nobody has it",
        "batch 1: own is reached again",
    ]
    assert_told(AWAY, said[0])
    assert own.calls.count("abort") == (2 if at == "prepare" else 0)  # nothing that was tried is left


def test_one_that_stays_away_is_given_up_and_nobody_has_the_batch(world: World) -> None:
    own = Away(world.folder / "own")
    group, _ = group_of(world, own, 0.2)
    group.write(rows(0, 1), QUERY, 0)
    own.away = 10**6
    with pytest.raises(
        Unreachable,
        match=r"^together: batch 1 of query 'shop': member 'own' .* cannot be reached, and is given up after 0.2 s "
        r"\(patience=\): nobody has it: no route to host. When that is put right, start the query again",
    ) as caught:
        group.write(rows(1, 2), QUERY, 1)
    assert_told(AWAY, str(caught.value))
    assert world.have() == dict.fromkeys(world.sinks(), expected((0, 1)))
    own.away = 0
    group.write(rows(1, 3), QUERY, 1)
    assert world.have() == dict.fromkeys(world.sinks(), expected((0, 1), (1, 3)))
    assert [row["attempt"] for row in own.rows()] == [1] * 3 + [3] * 3


def test_nobody_is_waited_for_when_another_refuses(world: World) -> None:
    """And the reason is the one that refuses."""
    own, other = Away(world.folder / "own"), Lines(world.folder / "other")
    group = sinks.together({"own": own, "other": other}, log=world.log, patience=600)
    group.say = lambda text: None
    group.write(rows(0, 1), QUERY, 0)
    own.away = 10**6

    def refuse(staged: Any) -> None:
        raise DataError("a row is wrong")

    other.prepare = refuse  # type: ignore[method-assign]
    with pytest.raises(DataError, match=r"member 'other' .* does not take it, so nobody has it: a row is wrong"):
        group.write(rows(1, 2), QUERY, 1)


def test_who_is_let_in_nowhere_is_no_server_that_is_down(postgres: Postgres) -> None:
    """A wrong name stays wrong: nobody waits for it."""
    dsn = postgres.database()
    with pytest.raises(DataError, match=r"cannot be reached for table 't': .*nobody") as caught:
        sinks.postgres(dsn.replace("/test", "/nobody"), "t").last(QUERY)
    assert not isinstance(caught.value, Unreachable)


def test_a_server_that_goes_away_is_unreachable_not_wrong(postgres: Postgres) -> None:
    """In the middle of a batch, too."""
    sink = sinks.postgres(postgres.database(), "t")
    staged = sink.stage(rows(0, 1), QUERY, 0)
    with psycopg.connect(postgres.dsn, autocommit=True) as db:
        db.execute("SELECT pg_terminate_backend(%s)", (staged.held[0].info.backend_pid,))
    with pytest.raises(Unreachable, match=r"table 't': PostgreSQL says: terminating connection"):
        sink.prepare(staged)
    sink.abort(staged)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and nobody listens
        gone = sinks.postgres(f"postgresql://postgres@127.0.0.1:{closed.getsockname()[1]}/shop", "t")
        with pytest.raises(Unreachable, match=r"PostgreSQL cannot be reached for table 't'"):
            gone.last(QUERY)


@pytest.mark.long
def test_a_host_that_says_nothing_is_not_waited_for_longer_than_a_lock() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        sink = sinks.postgres(f"postgresql://postgres@127.0.0.1:{mute.getsockname()[1]}/shop", "t", wait=1)
        begun = time.monotonic()
        with pytest.raises(Unreachable, match="timeout"):
            sink.last(QUERY)
        assert time.monotonic() - begun < 60


@pytest.mark.long
@pytest.mark.parametrize("prepared", [20, 0])
def test_a_server_that_is_down_before_the_decision(tmp_path: Path, prepared: int) -> None:
    """A real one: started again in time, and not."""
    warnings.simplefilter("ignore")
    for server in server_or_skip(prepared=prepared):
        world = World(tmp_path, server.database())
        group = world.group(patience=60)
        group.say = lambda text: None
        group.write(rows(0, 1), QUERY, 0)
        server.stop()
        back = threading.Timer(1.0, server.start)
        back.start()
        group.write(rows(1, 2), QUERY, 1)
        back.join()
        assert world.have() == dict.fromkeys(world.sinks(), expected((0, 1), (1, 2)))
        server.stop()
        group.patience = 0.5
        with pytest.raises(Unreachable, match=r"member 'totals' .* given up after 0.5 s .*nobody has it: PostgreSQL"):
            group.write(rows(2, 3), QUERY, 2)
        server.start()
        assert world.have() == dict.fromkeys(world.sinks(), expected((0, 1), (1, 2)))
        group.write(rows(2, 4), QUERY, 2)
        assert world.have() == dict.fromkeys(world.sinks(), expected((0, 1), (1, 2), (2, 4)))


def test_a_server_that_is_down_when_the_query_begins(world: World) -> None:
    """It is said that nothing is lost, and what to do; also of a batch that is decided."""
    begins = "a member cannot be reached when the run or the query begins"
    down = {**world.sinks(), "totals": sinks.postgres("postgresql://127.0.0.1:1/shop", "totals", wait=1)}
    group = sinks.together(down, log=world.log, patience=0)
    for _ in range(2):
        with pytest.raises(
            Unreachable,
            match=r"member 'totals' \(table 'totals'\) cannot be reached \(PostgreSQL cannot be reached for table "
            r"'totals': .*\)\. Nothing is lost: when it is up, start the query again",
        ) as caught:
            group.write(rows(0, 1), QUERY, 0)
        assert_told(begins, str(caught.value))
        assert "\n" not in str(caught.value)
