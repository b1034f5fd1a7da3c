"""A real streaming query, killed with ``kill -9`` where it hurts most, and started again: nothing lost, nothing twice.

One job has a query for each sink.  The first run dies inside the first sink, the second finishes that one and dies
inside the next, and so on; the last run finishes.  Then the newest commit of every checkpoint is deleted and the job
runs once more: every sink is given its last batch again.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from pellucid import sinks
from tests.sinks.crash import forget_last_commit, make_source, rows_in, run_job
from tests.sinks.postgres import Postgres

# Where each sink is killed: the moment at which a naive sink would lose or repeat rows.
WORST = {
    "parquet": "parquet:between-moves",
    "sqlite": "sqlite:after-commit",
    "postgres": "postgres:before-commit",
    "parallel": "postgres:staged",
    "delta": "delta:after-commit",
}
POINTS = {
    "parquet": ["parquet:before-commit", "parquet:after-commit", "parquet:between-moves"],
    "sqlite": ["sqlite:before-commit", "sqlite:after-commit"],
    "postgres": ["postgres:before-commit", "postgres:after-commit"],
    "parallel": ["postgres:staged", "postgres:before-commit", "postgres:after-commit"],
    "delta": ["delta:before-commit", "delta:after-commit"],
}

pytestmark = pytest.mark.long  # tests/crash kills every sink in one job, in every run of the tests


def targets(work: Path, dsn: str) -> dict[str, tuple[str, dict[str, Any]]]:
    return {
        "parquet": ("parquet", {"path": str(work / "parquet" / "out")}),
        "sqlite": ("sqlite", {"path": str(work / "sqlite.db"), "table": "out"}),
        "postgres": ("postgres", {"dsn": dsn, "table": "out"}),
        "parallel": ("postgres", {"dsn": dsn, "table": "out_parallel", "parallel": True}),
        "delta": ("delta", {"path": str(work / "delta" / "out")}),
    }


class World:
    """The input, the targets and what must be in them."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder, self.work = folder, folder / "work"
        self.work.mkdir()
        (self.work / "delta").mkdir()
        self.dsn = dsn
        self.expected = make_source(folder / "source")
        self.targets = targets(self.work, dsn)

    def run(self, kill: tuple[str, str, int] | None = None, after: float | None = None, only: str | None = None) -> int:
        chosen = {name: target for name, target in self.targets.items() if only in (None, name)}
        config = {"source": str(self.folder / "source"), "work": str(self.work), "sinks": chosen, "kill": kill}
        return run_job(config, self.folder, after)

    def found(self, name: str) -> Counter[tuple[Any, ...]]:
        kind, arguments = self.targets[name]
        return rows_in(getattr(sinks, kind)(**arguments).read())


@pytest.fixture(scope="module")
def crashed(java_home: object, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    pytest.importorskip("deltalake")
    world = World(tmp_path_factory.mktemp("crash"), postgres.database())
    for name, point in WORST.items():
        assert world.run(kill=(name, point, 2)) == -signal.SIGKILL, f"{name} never came to {point}"
    assert world.run() == 0
    return world


@pytest.mark.parametrize("name", WORST)
def test_killed_and_started_again(crashed: World, name: str) -> None:
    assert crashed.found(name) == crashed.expected


def test_readers_that_do_not_know_the_manifest_see_the_same(crashed: World) -> None:
    table = ds.dataset(crashed.work / "parquet" / "out", format="parquet").to_table()
    assert rows_in(table) == crashed.expected
    assert list((crashed.work / "parquet" / "out" / "_staging").iterdir()) == []


def test_no_staging_table_is_left(crashed: World) -> None:
    import psycopg

    with psycopg.connect(crashed.dsn) as db:
        assert (
            db.execute(
                "SELECT relname FROM pg_class WHERE relname LIKE 'pellucid_staging_%' AND relkind = 'r'"
            ).fetchall()
            == []
        )


def test_replayed_batch_is_left_out(crashed: World) -> None:
    """Runs last: it changes the checkpoints."""
    for name in WORST:
        assert forget_last_commit(crashed.work, name) == 3
    assert crashed.run() == 0
    for name in WORST:
        assert crashed.found(name) == crashed.expected, name
        assert (crashed.work / name / "checkpoint" / "commits" / "3").exists()


@pytest.mark.parametrize(("name", "point"), [(name, point) for name, points in POINTS.items() for point in points])
def test_every_point(java_home: object, postgres: Postgres, tmp_path: Path, name: str, point: str) -> None:
    world = World(tmp_path, postgres.database())
    assert world.run(kill=(name, point, 1), only=name) == -signal.SIGKILL
    assert world.run(kill=(name, point, 2), only=name) == -signal.SIGKILL
    assert world.run(only=name) == 0
    assert world.found(name) == world.expected


@pytest.mark.parametrize("name", WORST)
def test_random_moments(java_home: object, postgres: Postgres, tmp_path: Path, name: str) -> None:
    world = World(tmp_path, postgres.database())
    moments = random.Random(name)
    kills = [world.run(after=moments.uniform(4, 12), only=name) for _ in range(4)]
    world.run(only=name)
    assert world.found(name) == world.expected, f"runs ended with {kills}"
