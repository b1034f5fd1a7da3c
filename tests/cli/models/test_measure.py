"""``pellucid run --measure``: what is written, and that ``pellucid capacity`` reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from click.testing import Result

from pellucid.capacity.measured import read_jobs

Command: TypeAlias = Callable[..., Result]


def test_a_file_is_measured(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_text("x\n" + "".join(f"{i}\n" for i in range(5000)))
    result = pellucid(
        "run", "pipes.py:total", "--in", "a.csv", "--out", "out.csv", "--measure", "m.json", "--chunk", 100
    )
    assert result.exit_code == 0, result.stderr
    found = json.loads((folder / "m.json").read_text())
    assert (found["pellucid"], found["kind"], found["pipeline"], found["input"]) == (
        1,
        "measured run",
        "total",
        "files",
    )
    assert found["events"] == sum(s["events"] for s in found["samples"]) == 5000 and found["events_out"] == {
        "out": 5000
    }
    assert 0 < found["busy"] <= found["seconds"]
    left = [s["waiting"] for s in found["samples"]]
    assert left[-1] == 0 and left == sorted(left, reverse=True) and left[0] >= 0
    (job,) = read_jobs(folder / "m.json")
    assert job.kind == "local" and list(job.steps)[:2] == ["total", "x"]
    assert job.steps["total"].rate is None and (job.steps["total"].capacity or 0) > 0
    assert job.notes[1] == "its input was there from the start: at which rate it comes is not known (--rate says it)"
    result = pellucid("capacity", "m.json")
    assert result.exit_code == 3 and "say at which rate they will come" in result.stdout
    assert pellucid("capacity", "m.json", "--rate", "total=10").exit_code == 3
    result = pellucid("capacity", "m.json", "--rate", "total=10", "--bounded-is-enough")
    assert result.exit_code == 0 and "bounded by what was measured" in result.stdout.splitlines()[0]


def test_a_pipe_is_measured(pellucid: Command, folder: Path) -> None:
    result = pellucid("run", "pipes.py:total", "--out", "o.csv", "--measure", "m.json", input="1\n2\n3\n")
    assert result.exit_code == 0, result.stderr
    found = json.loads((folder / "m.json").read_text())
    assert found["input"] == "pipe" and found["events"] == 3 and found["samples"][-1]["waiting"] is None


def test_what_measure_does_not_go_with(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_text("x\n1\n")
    for more, words in (
        (["--on", "spark"], "--measure goes with the local engine: a Spark query tells of itself"),
        (["--epoch-size", "1", "--state", "s"], "--measure goes with a run without epochs"),
    ):
        result = pellucid("run", "pipes.py:total", "--in", "a.csv", "--out", "o.csv", "--measure", "m.json", *more)
        assert result.exit_code == 2 and words in result.stderr, result.stderr
    result = pellucid("run", "pipes.py:total", "--in", "a.csv", "--measure", "a.csv")
    assert result.exit_code == 2 and "a.csv" in result.stderr and (folder / "a.csv").read_text() == "x\n1\n"
