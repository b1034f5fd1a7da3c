"""A member that cannot be reached before anything is decided: it is tried again for a while, then no member has the
batch.
"""

from __future__ import annotations

import itertools
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from pellucid import sinks
from pellucid.errors import DataError, StateError, Unreachable, UsageError
from pellucid.sinks.postgres_sink import PostgresSink
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
        "batch 1: own cannot be reached (no route to host): it is tried again for 20 s, and until then no member has "
        "it",
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
        r"\(patience=\): no member has it: no route to host. When that is put right, start the query again",
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
    with pytest.raises(DataError, match=r"member 'other' .* does not take it, so no member has it: a row is wrong"):
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
        with pytest.raises(
            Unreachable, match=r"member 'totals' .* given up after 0.5 s .*no member has it: PostgreSQL"
        ):
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


# Several tables of one PostgreSQL database: nobody waits for what another member has prepared, and nobody waits for a
# lock in silence.

ROWS = pa.table({"x": [1, 2, 3]})

OLDER = """CREATE TABLE pellucid_epochs (target text NOT NULL, query text NOT NULL, batch bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (target, query))"""


@pytest.fixture(scope="module", params=[20, 0], ids=["prepared", "held open"])
def either(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    yield from server_or_skip(prepared=request.param)


@contextmanager
def sessions(dsn: str) -> Iterator[Any]:
    with psycopg.connect(dsn, autocommit=True) as db:
        yield db


def prepared_by(sink: PostgresSink, query: str, batch: int) -> Any:
    """A batch that is staged and prepared, and lasts if the server keeps it."""
    staged = sink.stage(ROWS, query, batch)
    sink.prepare(staged)
    return None if sink.hold(staged, "a1") else staged


@pytest.mark.parametrize("book", ["", OLDER], ids=["new", "older"])
@pytest.mark.parametrize("order", list(itertools.permutations("abc")), ids="".join)
def test_each_prepares_while_all_others_are_prepared(either: Postgres, book: str, order: tuple[str, ...]) -> None:
    """A database of any age, in any order: the second needs nothing that the first holds."""
    dsn = either.database()
    if book:
        with sessions(dsn) as db:
            db.execute(book)
    # what waits for something prepared never gets it: it would raise when its time is over
    made = {name: sinks.postgres(dsn, name, wait=2) for name in order}
    held = {name: prepared_by(sink, "q", 0) for name, sink in made.items()}
    for name, sink in made.items():
        if held[name] is None:
            assert sink.settle("q", 0, "a1", commit=True)
        else:
            sink.commit(held[name])
        assert sink.read()["x"].to_pylist() == [1, 2, 3]


def test_nothing_is_altered_where_nothing_is_missing(either: Postgres) -> None:
    """Another group has something prepared, or open, in the same books."""
    dsn = either.database()
    other = sinks.postgres(dsn, "other", wait=2)
    open_one = prepared_by(other, "q", 0)
    mine = sinks.postgres(dsn, "mine", wait=0.5)
    assert mine.claim("group", "log") is None
    assert mine.write(ROWS, "r", 0).rows == 3
    if open_one is None:
        other.settle("q", 0, "a1", commit=False)
    else:
        other.abort(open_one)


@pytest.mark.parametrize("what", ["last", "claim", "write", "cut", "unclaim"])
def test_nobody_waits_in_silence(postgres: Postgres, what: str) -> None:
    """What holds the lock is named, and it is said within the sink's time."""
    dsn = postgres.database()
    sink = sinks.postgres(dsn, "t", wait=0.5)
    sink.write(ROWS, "q", 0)
    sink.claim("group", "log")
    calls = {
        "last": lambda: sink.last("q"), "claim": lambda: sink.claim("group", "log"), "cut": lambda: sink.cut("q", 0, 1),
        "write": lambda: sink.write(ROWS, "q", 1), "unclaim": lambda: sink.unclaim("group"),
    }  # fmt: skip
    with psycopg.connect(dsn) as other:
        other.execute("LOCK TABLE pellucid_epochs, pellucid_groups")
        with pytest.raises((DataError, StateError), match=r"0\.5 s.*process \d+ of postgres \(LOCK TABLE") as caught:
            calls[what]()
        assert "\n" not in str(caught.value)
        other.rollback()
    calls[what]()


def test_what_another_session_has_said_is_not_repeated(postgres: Postgres) -> None:
    """Its last statement may have data in it, or a password."""
    dsn = postgres.database()
    sink = sinks.postgres(dsn, "t", wait=0.1)
    sink.write(ROWS, "q", 0)
    with psycopg.connect(dsn) as other:
        other.execute("LOCK TABLE pellucid_epochs")
        for said in ("SELECT 'S3cret'", "SELECT $$S3cret$$", 'SELECT 1 AS "S3cret"', "SELECT -- S3cret\n 1"):
            other.execute(said.encode())
            with pytest.raises(DataError, match=r"process \d+ of postgres \(\w+ .*…\)") as caught:
                sink.last("q")
            assert "S3cret" not in str(caught.value)


def test_a_book_that_must_be_altered_behind_what_is_prepared(postgres: Postgres) -> None:
    """The one case in which a change must wait: it is said what for."""
    dsn = postgres.database()
    with sessions(dsn) as db:
        db.execute(OLDER)
        with db.transaction():
            db.execute("INSERT INTO pellucid_epochs VALUES ('public.z', 'q', 1)")
            db.execute("PREPARE TRANSACTION 'somebody'")
            db.execute("BEGIN")
    with pytest.raises(DataError, match=r"within 0\.5 s: .*the prepared transaction 'somebody'"):
        sinks.postgres(dsn, "t", wait=0.5).write(ROWS, "q", 0)
    with sessions(dsn) as db:
        db.execute("ROLLBACK PREPARED 'somebody'")
    assert sinks.postgres(dsn, "t", wait=0.5).write(ROWS, "q", 0).rows == 3


def test_two_tables_of_one_database_in_one_group(either: Postgres, tmp_path: Path) -> None:
    for turn in range(3):
        dsn = either.database()
        made = {name: sinks.postgres(dsn, name, wait=10) for name in ("a", "b", "c")}
        group = sinks.together(made, log=tmp_path / f"log{turn}", patience=0.0)
        group.say = lambda text: None
        for batch in range(3):
            group.write(ROWS, "q", batch)
        assert {name: table.num_rows for name, table in group.read().items()} == {"a": 9, "b": 9, "c": 9}
        group.close()


def test_one_table_by_two_names_is_refused(either: Postgres, tmp_path: Path) -> None:
    """Also by another address of the server: the server says what it is."""
    dsn = either.database()
    other = dsn.replace("127.0.0.1", "localhost")
    assert other != dsn
    for twin in (sinks.postgres(dsn, "public.t"), sinks.postgres(other, "t")):
        group = sinks.together(a=sinks.postgres(dsn, "t"), b=twin, log=tmp_path / "log")
        with pytest.raises(UsageError, match="together: 'a' and 'b' are the same target: name it once"):
            group.write(ROWS, "q", 0)
