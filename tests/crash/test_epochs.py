"""Runs with epochs under kill -9: ten kills of each of twenty pipelines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.epochs import CASES, one
from tests.sinks.postgres import Postgres


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_ten_kills_of_every_pipeline(name: str, tmp_path: Path, postgres: Postgres) -> None:
    report = one(name, 10, 2, tmp_path, dsn=postgres.database())
    assert report.bounded and report.hits >= 10, str(report)
