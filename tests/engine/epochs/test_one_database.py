"""A run whose outputs are tables of one PostgreSQL database: no start waits for what an earlier one left prepared."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from pellucid import sinks
from pellucid.sinks.unresolved import doubt_of_group
from tests.engine.epochs.conftest import Runs
from tests.engine.epochs.test_group_commit import ROWS, TOTAL, expected
from tests.sinks.postgres import Postgres

MOMENTS = ("together:prepared[sink.out-2]=tree@2", "together:decided=kill@2")


@pytest.fixture(autouse=True)
def _user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has no user's name: whoever asks says who it is."""
    monkeypatch.setenv("PGUSER", "postgres")


def outs(dsn: str) -> list[str]:
    return ["--out", f"{dsn}#a", "--out", f"{dsn}#b", "--patience", "8"]


def left(dsn: str) -> list[str]:
    with psycopg.connect(dsn, autocommit=True) as db:
        return [gid for (gid,) in db.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")]


@contextmanager
def waiting(dsn: str, statement: str) -> Iterator[None]:
    """Another program that waits for the whole table, and behind which all others wait; it has our number, as an older
    Pellucid that was killed."""

    def run() -> None:
        with suppress(psycopg.Error), psycopg.connect(dsn) as db:
            db.execute("SELECT pg_advisory_xact_lock(7233181290055142706)")
            db.execute(statement.encode())
            db.rollback()

    thread = threading.Thread(target=run)
    thread.start()
    with psycopg.connect(dsn, autocommit=True) as db:
        for _ in range(200):
            if db.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)").fetchone() == (True,):
                break
            time.sleep(0.02)
        try:
            yield
        finally:
            db.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted")
            thread.join()


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_and_behind_it_somebody_waits(runs: Runs, postgres: Postgres, moment: str) -> None:
    dsn = postgres.database()
    assert runs(*TOTAL, *outs(dsn), faults=moment).returncode == -signal.SIGKILL
    begun = time.monotonic()
    with waiting(dsn, "ALTER TABLE pellucid_epochs ADD COLUMN IF NOT EXISTS rows bigint"):
        done = runs(*TOTAL, *outs(dsn))
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begun < 300
    members = {f"out-{n}": sinks.postgres(dsn, name) for n, name in enumerate("ab", 1)}
    for table in sinks.read_together(members, log=runs.folder / "state" / "together").values():
        assert sorted(table["out"].to_pylist()) == sorted(expected())
    assert left(dsn) == []


def test_what_is_prepared_and_not_decided_is_named(
    runs: Runs, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also before the first decision: it holds locks."""
    dsn = postgres.database()
    assert runs(*TOTAL, *outs(dsn), faults="together:before-decision=kill@1").returncode == -signal.SIGKILL
    (first, second) = sorted(left(dsn))
    with monkeypatch.context() as other:
        other.setenv("PGUSER", "nobody")
        found = doubt_of_group(runs.folder / "state")
        assert found.in_doubt is None
        assert found.lines()[0].endswith("whether out-1 and out-2 has something prepared cannot be seen from here")
    found = doubt_of_group(runs.folder / "state")
    assert found.in_doubt
    text = "\n".join(found.lines())
    assert first in text
    assert second in text
    assert "is prepared and not decided" in text
    assert "to resolve it: give the same command again: what is not decided is taken back" in text
    assert runs(*TOTAL, *outs(dsn)).returncode == 0
    assert doubt_of_group(runs.folder / "state").in_doubt is False


def test_doubt_ends_while_somebody_holds_the_books(runs: Runs, postgres: Postgres) -> None:
    dsn = postgres.database()
    assert runs(*TOTAL, *outs(dsn)).returncode == 0
    with psycopg.connect(dsn) as db:
        db.execute("LOCK TABLE pellucid_epochs")
        begun = time.monotonic()
        found = doubt_of_group(runs.folder / "state")
        assert time.monotonic() - begun < 60
    assert found.in_doubt is None
    assert all("(LOCK TABLE pellucid_epochs)" in member.why for member in found.members), found.lines()


def test_two_runs_in_one_database(runs: Runs, postgres: Postgres, tmp_path: Path) -> None:
    """What one was killed over does not keep the other waiting."""
    dsn = postgres.database()
    assert runs(*TOTAL, *outs(dsn), faults="together:before-decision=kill@1").returncode == -signal.SIGKILL
    other = ["--out", f"{dsn}#c", "--out", f"{dsn}#d", "--patience", "8", "--state", "other"]
    done = runs(*TOTAL[:-2], *other)
    assert done.returncode == 0, done.stderr
    assert runs(*TOTAL, *outs(dsn)).returncode == 0
    assert {name: sinks.postgres(dsn, name).read().num_rows for name in "abcd"} == dict.fromkeys("abcd", ROWS)
