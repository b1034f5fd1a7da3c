"""Several tables of one PostgreSQL database: nobody waits for what another member has prepared, and nobody waits for a
lock in silence."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from pellucid import sinks
from pellucid.errors import DataError, StateError, UsageError
from pellucid.sinks.postgres_sink import PostgresSink
from tests.sinks.postgres import Postgres, server_or_skip

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
