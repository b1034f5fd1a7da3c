"""Runs with epochs under kill -9: a few here; all of ``python -m tests.crash.epochs`` with the marker ``long``."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.crash.epochs import CASES, one
from tests.sinks.postgres import Postgres


def test_a_table_of_postgresql_survives(tmp_path: Path, postgres: Postgres) -> None:
    dsn = postgres.database()
    report = one("kept_by_key", 2, 1, tmp_path, rows=400, dsn=dsn)
    assert report.bounded and report.hits == 2, str(report)
    with psycopg.connect(dsn) as connection:  # and leaves nothing behind
        assert connection.execute(
            "SELECT count(*) FROM pg_tables WHERE tablename LIKE 't_kept_by_key%'"
        ).fetchone() == (0,)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_ten_kills_of_every_pipeline(name: str, tmp_path: Path, postgres: Postgres) -> None:
    report = one(name, 10, 2, tmp_path, dsn=postgres.database())
    assert report.bounded and report.hits >= 10, str(report)
