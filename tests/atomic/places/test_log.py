"""The log of a place: what lasts, who may write it, and what is refused."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from pellucid.atomic.places.core.state import FIELDS, VERSION, Record, make
from pellucid.atomic.places.log import open_log, read_log
from pellucid.atomic.places.network import new_network
from pellucid.atomic.places.operators import looked_at
from pellucid.errors import StateError, UsageError
from tests.sinks.postgres import Postgres, server_or_skip

EXAMPLES = [
    make("boot", n=1, mark="k7q2mx"),
    make("begin", t="p:1:1"),
    make("begin", t="p:1:2", parent="p:1:1"),
    make("send", t="p:1:1", seq=1, path=[["out", "p", b"x"], ["in", "q", b"y"], ["in", "c", b"z"]], value={"a": [1]}),
    make("sent", t="p:1:1", seq=1),
    make("deposit", channel="c", mid="q:1:1/1", sender="q:1:1", value=b"\x00\xff"),
    make("take", t="p:1:1", channel="c", mid="q:1:1/1", sender="q:1:1"),
    make("pending", t="p:1:1"),
    make("prepared", attempt="a:1:a1", coordinator="a", members=["p:1:1"], needs=[]),
    make("given_up", attempt="a:1:a1"),
    make("decide", attempt="p:1:a1", members=["p:1:1", "q:1:1"], participants=["q"]),
    make("commit", members=["p:1:1"], attempt="p:1:a1"),
    make("commit", members=["p:1:1"]),
    make("abort", t="p:1:2", why="cascade from p:1:1", back=["q:1:1/1"]),
    make("end", attempt="p:1:a1"),
    make("hand", what="p:1:a1", outcome="commit", who="me", when=1.5),
    make("refused", what="nonsense", source="q"),
    make("met", place="q", stand="1-x/7"),
    make("behind", stand="1-y/9", source="q"),
    make("accepted", stands=["1-y/9"], who="me", when=1.5),
]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    yield from server_or_skip()


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "p" / "log.sqlite")
    server: Postgres = request.getfixturevalue("postgres")
    return server.database()


pytestmark = pytest.mark.filterwarnings("ignore:.*fsync = off")


def same(found: list[Record], expected: list[Record]) -> bool:
    return [(r.kind, r.fields) for r in found] == [(r.kind, r.fields) for r in expected]


def test_every_record_comes_back(target: str) -> None:
    assert {r.kind for r in EXAMPLES} == set(FIELDS)
    log = open_log(target, "p")
    log.append(EXAMPLES[:5])
    log.append(EXAMPLES[5:])
    assert same(list(log.records()), EXAMPLES)
    assert same(read_log(target, "p"), EXAMPLES)  # while it is open
    log.close()
    log = open_log(target, "p")
    log.append(EXAMPLES[:1] * 100)
    log.close()
    assert same(read_log(target, "p"), EXAMPLES + EXAMPLES[:1] * 100)
    assert all(record.when > 1e9 for record in read_log(target, "p"))


def test_what_is_not_synced_comes_with_the_next_that_is(target: str) -> None:
    log = open_log(target, "p")
    log.append(EXAMPLES[:2], sync=False)
    assert read_log(target, "p") == []
    log.append(EXAMPLES[2:3], sync=True)
    assert same(read_log(target, "p"), EXAMPLES[:3])
    log.append(EXAMPLES[3:4], sync=False)
    log.close()
    assert same(read_log(target, "p"), EXAMPLES[:4])


def test_a_log_has_one_writer(target: str) -> None:
    log = open_log(target, "p")
    with pytest.raises(StateError, match="a place runs once"):
        open_log(target, "p")
    log.close()
    open_log(target, "p").close()


def test_a_killed_writer_leaves_what_it_synced_and_no_lock(tmp_path: Path) -> None:
    target = tmp_path / "p" / "log.sqlite"
    program = (
        "import os, signal, sys\n"
        "from pellucid.atomic.places.log import open_log\n"
        "from pellucid.atomic.places.core.state import make\n"
        "log = open_log(sys.argv[1], 'p')\n"
        "log.append([make('boot', n=1)])\n"
        "log.append([make('begin', t='p:1:1')], sync=False)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(target)], check=False, timeout=60)
    assert [r.kind for r in read_log(target)] == ["boot"]
    log = open_log(target, "p")
    assert [r.kind for r in log.records()] == ["boot"]
    log.close()


def test_a_checkpoint_between_two_writes_loses_nothing(tmp_path: Path) -> None:
    """SQLite moves its write-ahead log into the file while a place is running, and somebody else may ask it to."""
    target = tmp_path / "p" / "log.sqlite"
    log = open_log(target, "p")
    for n in range(20):
        log.append([make("refused", what="x" * 4000, source=str(n))])
        if n % 3 == 0:
            other = sqlite3.connect(target)
            other.execute("PRAGMA wal_checkpoint(PASSIVE)")
            other.close()
    assert [r["source"] for r in read_log(target)] == [str(n) for n in range(20)]
    log.close()
    assert len(read_log(target)) == 20


def test_a_checkpoint_that_races_with_the_records_of_a_commit_loses_none(tmp_path: Path) -> None:
    """A writer says of each decision that it lasts; others empty its write-ahead log meanwhile; then it is killed."""
    target = tmp_path / "p" / "log.sqlite"
    hear, tell = os.pipe()
    writer = os.fork()
    if writer == 0:
        with suppress(BaseException):
            log = open_log(target, "p")
            for n in range(1, 10**6):
                decided = {"members": [f"p:1:{n}"], "attempt": f"p:1:a{n}"}
                log.append([make("decide", **decided, participants=["q"]), make("commit", **decided)])
                os.write(tell, f"{n}\n".encode())
        os._exit(1)
    os.close(tell)
    with os.fdopen(hear, "rb", buffering=0) as pipe:
        try:
            told = int(pipe.readline())
            emptied, until = 0, time.monotonic() + 0.4
            with closing(sqlite3.connect(target, timeout=0.01)) as other:
                while time.monotonic() < until or not emptied:
                    with suppress(sqlite3.OperationalError):
                        emptied += not other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
                other.execute("PRAGMA busy_timeout = 60000")
                other.execute("BEGIN IMMEDIATE")  # who cannot write now must not say that it has
                time.sleep(0.1)
                os.kill(writer, signal.SIGKILL)
        finally:
            with suppress(ProcessLookupError):
                os.kill(writer, signal.SIGKILL)
            _, ended = os.waitpid(writer, 0)
        assert os.WIFSIGNALED(ended), "the writer did not wait for the others, and ended by itself"
        told = max([told, *map(int, pipe.read().split(b"\n")[:-1])])
    found = [r["attempt"] for r in read_log(target) if r.kind == "commit"]
    assert found[:told] == [f"p:1:a{n}" for n in range(1, told + 1)] and len(found) in (told, told + 1) and emptied
    log = open_log(target, "p")
    assert len(list(log.records())) == 2 * len(found)
    log.close()


def test_the_log_is_full_sync_and_private(tmp_path: Path) -> None:
    target = tmp_path / "p" / "log.sqlite"
    log = open_log(target, "p")
    db = log._db  # type: ignore[attr-defined]
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert target.stat().st_mode & 0o777 == 0o600
    assert target.parent.stat().st_mode & 0o777 == 0o700
    log.close()


def _change(target: Path, statement: str) -> None:
    db = sqlite3.connect(target)
    db.execute(statement)
    db.commit()
    db.close()


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE log SET fields = x'9107' WHERE number = 2", "record 2 is damaged"),
        ("UPDATE log SET kind = 'pending' WHERE number = 2", "record 2 is damaged"),
        ("DELETE FROM log WHERE number = 2", "record 2 is missing"),
        ("UPDATE head SET version = 2", "a log of version 2; this Pellucid reads version 1"),
        ("UPDATE head SET place = 'q'", "this is the log of the place 'q', not of 'p'"),
        ("DELETE FROM head", "it has 0 heads"),
    ],
)
def test_a_log_that_is_not_right_is_refused(tmp_path: Path, statement: str, says: str) -> None:
    target = tmp_path / "p" / "log.sqlite"
    log = open_log(target, "p")
    log.append(EXAMPLES[:4])
    log.close()
    _change(target, statement)
    with pytest.raises(StateError, match=says):
        read_log(target, "p")
    if "heads" not in says:
        with pytest.raises(StateError, match=says), closing(open_log(target, "p")) as again:
            list(again.records())


def test_a_file_that_is_no_log(tmp_path: Path) -> None:
    target = tmp_path / "p" / "log.sqlite"
    target.parent.mkdir()
    target.write_text("this is not a database, whatever its name says" * 100)
    for opening in (lambda: open_log(target, "p"), lambda: read_log(target)):
        with pytest.raises(StateError, match="not a log that SQLite can read"):
            opening()
    with pytest.raises(StateError, match="never been started"):
        read_log(tmp_path / "nowhere.sqlite")


def test_a_log_below_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("a file")
    with pytest.raises(StateError, match="there is no such log"):
        read_log(tmp_path / "p" / "log.sqlite")
    made = new_network(tmp_path / "inn", {"hotel": ["rooms"]})
    (made.folder / "places" / "hotel").write_text("a file")
    assert looked_at(made, "hotel").state == "new"


def test_a_record_of_another_shape() -> None:
    for kind, data in [("dance", b"\x90"), ("boot", b"\x91\xc3"), ("begin", b"\x92\xa3p:1\xc0"), ("end", b"\xff\xff")]:
        with pytest.raises(StateError, match=f"not a record '{kind}'"):
            Record.unpack(kind, data)


def test_a_start_of_before_marks_is_read() -> None:
    (record,) = [Record.unpack("boot", b"\x91\x03")]
    assert (record["n"], record["mark"], repr(record)) == (3, None, "boot(n=3)")
    assert Record.unpack("boot", make("boot", n=3, mark="k7q2mx").pack())["mark"] == "k7q2mx"


def test_the_warning_of_a_server_that_does_not_sync_has_no_password(postgres: Postgres) -> None:
    target = postgres.database().replace("postgres@", "postgres:S3cret@")
    with pytest.warns(UserWarning, match="fsync = off") as said:
        open_log(target, "p").close()
    assert "S3cret" not in str(said[0].message)


def test_postgres_that_is_not_there_or_not_enough(postgres: Postgres) -> None:
    with pytest.raises(StateError, match="cannot be reached"):
        open_log("postgresql://me:S3cret@127.0.0.1:1/shop", "p")
    database = postgres.database()
    with pytest.raises(UsageError, match="say of which place"):
        read_log(database)
    with pytest.raises(StateError, match="there is no log of 'p'"):
        read_log(database, "p")
    import psycopg

    with psycopg.connect(database, autocommit=True) as db:
        db.execute("DROP ROLE IF EXISTS guest")
        db.execute("CREATE ROLE guest LOGIN")
        db.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    with pytest.raises(StateError, match="needs to create, read and write"):
        open_log(database.replace("postgres@", "guest@"), "p")
    log, other = open_log(database, "p"), open_log(database, "q")  # many places in one database
    log.append(EXAMPLES[:2])
    other.append(EXAMPLES[:1])
    assert (len(read_log(database, "p")), len(read_log(database, "q"))) == (2, 1)
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    with pytest.raises(StateError, match="the place has to stop"):
        log.append(EXAMPLES[2:3])
    log.close()
    other.close()


def test_a_log_of_another_version_in_postgresql(postgres: Postgres) -> None:
    """One place's; those of others in the same database are read as ever."""
    import psycopg

    database = postgres.database()
    for place in ("p", "q"):
        log = open_log(database, place)
        log.append(EXAMPLES[:1])
        log.close()
    with psycopg.connect(database, autocommit=True) as db:
        assert db.execute("UPDATE pellucid_places SET version = 7 WHERE place = 'p'").rowcount == 1
    said = f"a log of version 7; this Pellucid reads version {VERSION}: use the one that wrote it"
    for use in (read_log, open_log):
        with pytest.raises(StateError, match=said):
            use(database, "p")
    assert [r.kind for r in read_log(database, "q")] == ["boot"]
