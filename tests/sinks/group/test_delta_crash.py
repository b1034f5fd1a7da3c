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
from pellucid.sinks.group.log import DecisionLog
from tests.sinks.group.delta_job import BATCHES, members

ROOT = Path(__file__).parents[3]
DECIDED = ("together:decided", "delta:before-commit", "delta:after-commit", "sqlite:after-commit", "together:committed")
NOT = ("together:kept", "together:prepare", "together:prepared", "together:before-decision")


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


def killed(folder: Path, point: str, hit: int) -> None:
    pytest.importorskip("deltalake")
    assert start(folder, 1, f"{point}=kill@{hit}") == -signal.SIGKILL
    record = DecisionLog(folder / "log").read()
    assert record is not None
    decided = record.batch + 1
    assert seen(folder) in ([(n, 1) for n in range(decided)], [(n, 1) for n in range(decided - 1)])
    assert start(folder, 2) == 0
    # what was decided stays as it was, and the rest comes from who came later
    assert seen(folder) == [(n, 1 if n < decided else 2) for n in range(BATCHES)]
    for sink in members(folder).values():
        assert sink.read().num_rows == 3 * BATCHES


def test_killed_after_the_decision_and_before_delta_has_it(tmp_path: Path) -> None:
    killed(tmp_path, "delta:before-commit", 2)


@pytest.mark.long
@pytest.mark.parametrize("hit", [1, 2])
@pytest.mark.parametrize("point", [*NOT, *DECIDED])
def test_killed_at_every_moment(tmp_path: Path, point: str, hit: int) -> None:
    killed(tmp_path, point, hit)
