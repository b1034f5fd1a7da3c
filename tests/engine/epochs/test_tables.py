"""SQLite and PostgreSQL: the rows and how far they go are one transaction, so a crash around the commit does not
show."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa

from pellucid.failures.crash import drop_table
from pellucid.sinks import sink_of
from tests.engine.epochs.conftest import Runs
from tests.sinks.postgres import Postgres


def expected(runs: Runs) -> list[int]:
    lines = runs.plain("p.py:diamond", "--in", "x.jsonl").decode().splitlines()
    return [int(line[8:-1]) for line in lines]


def command(target: str) -> tuple[str, ...]:
    return (
        "p.py:diamond",
        "--in",
        "x.jsonl",
        "--out",
        target,
        "--epoch-size",
        "150",
        "--state",
        "state",
        "--cut",
        "half",
    )


def test_a_table_of_postgresql_survives(runs: Runs, until_done: Any, postgres: Postgres) -> None:
    wanted, address = expected(runs), postgres.database()
    until_done(runs, *command(f"{address}#sums"), faults="sink:after-commit=tree@3;sink:before-commit=kill@2/1")
    with psycopg.connect(address) as db:
        assert [v for (v,) in db.execute("select out from sums order by ctid").fetchall()] == wanted


def test_a_table_that_does_not_fit(runs: Runs) -> None:
    with closing(sqlite3.connect(runs.folder / "out.db")) as db:
        db.execute("create table sums (other text)")
    done = runs(*command("sqlite:out.db#sums"))
    assert done.returncode == 2
    assert "table 'sums' does not fit the batch: column 'out' (INTEGER) is missing in the table" in done.stderr


SECRET = "S3cretPw"


def leaks(folder: Path, *texts: str) -> list[str]:
    """Where a secret can be read: the files of a folder, by their names, and texts."""
    found = [str(path) for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    return found + [text for text in texts if SECRET in text]


def test_no_password_in_what_a_run_leaves_or_says_and_a_rotated_one_goes_on(runs: Runs, postgres: Postgres) -> None:
    address = postgres.database()
    secret, rotated = (address.replace("postgres@", f"postgres:{word}@") for word in (SECRET, "Rotated"))
    assert secret != address
    killed = runs(*command(f"{secret}#sums"), "--record", "--json", faults="sink:before-commit=tree@2")
    assert killed.returncode != 0 and not leaks(runs.folder, killed.stdout, killed.stderr)
    document = runs.report(runs(*command(f"{rotated}#sums"), "--record", "--json"))
    assert (
        document["resumed_from"] is not None and document["out"]["out"] == rotated.replace("Rotated", "***") + "#sums"
    )
    other = runs(*command(f"{secret.replace('/test', '/other')}#sums"), "--record")
    assert other.returncode == 2 and "--out was out=postgresql://" in other.stderr
    crashed = runs("x", faults="")  # no such file: says nothing either
    words = ["audit", "state", "--against", f"{secret}#sums", "--json", "--picture", "run.svg"]
    audit = [sys.executable, "-m", "pellucid", *words]
    audited = subprocess.run(audit, cwd=runs.folder, capture_output=True, text=True)
    assert audited.returncode == 0, audited.stderr
    assert not leaks(runs.folder, other.stdout, other.stderr, crashed.stderr, audited.stdout, audited.stderr)


def test_the_audit_logs_in_with_the_password_of_the_address_it_is_given(runs: Runs, postgres: Postgres) -> None:
    """The run's own output is written down without its password: that of ``--against`` is used for both."""
    secret = postgres.locked(f"{SECRET}%")
    assert runs(*command(f"{secret}#sums"), "--record").returncode == 0

    def audit(against: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "pellucid", "audit", "state", "--against", against]
        return subprocess.run(words, cwd=runs.folder, capture_output=True, text=True, env=os.environ | {"BASE": secret})

    for address in (f"{secret}#sums", "env:BASE#sums"):
        done = audit(address)
        assert done.returncode == 0 and "yes  output" in done.stdout, done.stderr
    other, without, file = audit(f"{secret}#nowhere"), audit(secret), audit("out.csv")
    assert other.returncode == 2 and "#nowhere: there is no such table" in other.stderr
    assert without.returncode == 2 and "which table? Expected postgresql://" in without.stderr
    assert file.returncode == 2 and "cannot be compared" in file.stderr
    assert not leaks(runs.folder, *(done.stdout + done.stderr for done in (other, without, file)))


def test_a_second_crash_test_finds_nothing_of_the_first_in_the_database(postgres: Postgres) -> None:
    place = f"{postgres.database()}#sums_crash_reference"
    for query in ("first", "second"):
        sink_of(place).write(pa.table({"out": [1]}), query, 0)
        drop_table(place)


def test_a_crash_test_of_a_table_leaves_no_password(runs: Runs, postgres: Postgres) -> None:
    secret = postgres.database().replace("postgres@", f"postgres:{SECRET}@")
    words = ["crash", "p.py:diamond", "--in", "x.jsonl", "--kills", "1", "--points", "commit", "--epoch-size", "250"]
    words += ["--seed", "1", "--folder", "kept", "--json"]
    command = [sys.executable, "-m", "pellucid", *words, "--out", f"{secret}#sums"]
    done = subprocess.run(command, cwd=runs.folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert not leaks(runs.folder, done.stdout, done.stderr)
    with psycopg.connect(secret) as connection:  # and no table
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'sums%'").fetchone()
        assert found == (0,)
