"""SQLite and PostgreSQL: the rows and how far they go are one transaction, so a crash around the commit does not show."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.engine.epochs.conftest import Runs
from tests.spark.postgres import MISSING, Postgres, find_programs, serve

FAULTS = ("sink:before-commit=kill@3", "sink:after-commit=tree@3", "sink:staged=tree@2;sink:after-commit=kill@1/1")


def expected(runs: Runs) -> list[int]:
    lines = runs.plain("p.py:diamond", "--in", "x.jsonl").decode().splitlines()
    return [int(line[8:-1]) for line in lines]


def command(target: str) -> tuple[str, ...]:
    return ("p.py:diamond", "--in", "x.jsonl", "--out", target, "--epochs", "150", "--state", "state", "--cut", "half")


@pytest.mark.parametrize("faults", [FAULTS[0], pytest.param(FAULTS[1], marks=pytest.mark.long), FAULTS[2]])
def test_sqlite(runs: Runs, until_done: Any, faults: str) -> None:
    wanted = expected(runs)
    until_done(runs, *command("sqlite:out.db#sums"), faults=faults)
    with closing(sqlite3.connect(runs.folder / "out.db")) as db:
        assert [v for (v,) in db.execute("select out from sums order by rowid")] == wanted


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'pellucid[postgres]'")
    programs = find_programs()
    if programs is None:
        pytest.skip(MISSING)
    with serve(programs) as server:
        yield server


@pytest.mark.parametrize("faults", [pytest.param(FAULTS[0], marks=pytest.mark.long), FAULTS[1], pytest.param(FAULTS[2], marks=pytest.mark.long)])
def test_postgres(runs: Runs, until_done: Any, postgres: Postgres, faults: str) -> None:
    import psycopg

    wanted, address = expected(runs), postgres.database()
    until_done(runs, *command(f"{address}#sums"), faults=faults)
    with psycopg.connect(address) as db:
        assert [v for (v,) in db.execute("select out from sums order by ctid").fetchall()] == wanted


def test_a_table_that_does_not_fit(runs: Runs) -> None:
    with closing(sqlite3.connect(runs.folder / "out.db")) as db:
        db.execute("create table sums (other text)")
    done = runs(*command("sqlite:out.db#sums"))
    assert done.returncode == 2
    assert "table 'sums' does not fit the batch: column 'out' (INTEGER) is missing in the table" in done.stderr
