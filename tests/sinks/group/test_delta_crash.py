"""A driver with a Delta table in its group is killed: the table and the others have a batch all, or none, and once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pellucid import sinks
from pellucid.errors import DataError
from pellucid.sinks.decisions import DecisionLog
from tests.sinks.group.delta_job import BATCHES, members
from tests.sinks.group.world import QUERY

ROOT = Path(__file__).parents[3]
NOBODY_HAS_IT = ("together:decided", "delta:before-commit")
DELTA_HAS_IT = ("delta:after-commit", "sqlite:before-commit")
ALL_HAVE_IT = ("sqlite:after-commit", "together:committed")
NOT_DECIDED = ("together:kept", "together:before-decision")
OF_EACH_MEMBER = ("together:prepare@1", "together:prepare@2", "together:prepared@1", "together:prepared@2")


def start(folder: Path, attempt: int, faults: str = "") -> int:
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
    done = subprocess.run(
        [sys.executable, "-m", "tests.sinks.group.delta_job", str(folder), str(attempt)], cwd=ROOT, text=True,
        env={**os.environ, "PYTHONPATH": path, "PELLUCID_FAULTS": faults}, capture_output=True, timeout=600,
    )  # fmt: skip
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def seen(folder: Path) -> list[tuple[int, int]]:
    """The batches and their attempts, as readers of the group see them: the same in both."""
    try:
        tables = sinks.read_together(members(folder), log=folder / "log")
    except DataError as error:
        assert "no epoch of query" in str(error)  # noqa: PT017
        return []
    found = [sorted(zip(*(t[c].to_pylist() for c in ("epoch", "attempt", "n")), strict=True)) for t in tables.values()]
    assert found[0] == found[1]
    assert len(found[0]) == len(set(found[0])) == 3 * len({row[:2] for row in found[0]})
    return sorted({row[:2] for row in found[0]})


def killed(folder: Path, point: str, batch: int) -> None:
    pytest.importorskip("deltalake")
    point, _, member = point.partition("@")
    hit = 2 * batch + int(member) if member else batch + 1  # who comes there once for each member, or once
    assert start(folder, 1, f"{point}=kill@{hit}") == -signal.SIGKILL
    record, lake = DecisionLog(folder / "log").read(), members(folder)["lake"]
    assert record is not None
    decided = batch if member or point in NOT_DECIDED else batch + 1
    there = decided - (point in NOBODY_HAS_IT)
    assert record.batch == decided - 1
    assert lake.last(QUERY) == (there - 1 if there else None)
    assert not there or lake.read().num_rows == 3 * there
    assert seen(folder) == [(n, 1) for n in range(there - (point in DELTA_HAS_IT))]
    assert start(folder, 2) == 0
    # what was decided stays as it was, and the rest comes from who came later
    assert seen(folder) == [(n, 1 if n < decided else 2) for n in range(BATCHES)]
    for sink in members(folder).values():
        assert sink.read().num_rows == 3 * BATCHES


@pytest.mark.parametrize("point", ["together:before-decision", "delta:before-commit", "delta:after-commit"])
def test_killed_around_the_commit(tmp_path: Path, point: str) -> None:
    killed(tmp_path, point, 1)


@pytest.mark.long
@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("point", [*NOT_DECIDED, *OF_EACH_MEMBER, *NOBODY_HAS_IT, *DELTA_HAS_IT, *ALL_HAVE_IT])
def test_killed_at_every_moment(tmp_path: Path, point: str, batch: int) -> None:
    killed(tmp_path, point, batch)
