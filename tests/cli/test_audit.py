"""The command ``pellucid audit``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import Result

from pellucid.failures.audit.recorded import trace_table
from tests.failures.simulated import simulated
from tests.failures.tampered import commit_again

Pellucid = Callable[..., Result]


@pytest.fixture
def run(folder: Path, pellucid: Pellucid) -> Path:
    """The state folder of a recorded run."""
    (folder / "in.jsonl").write_text("".join(f"{v}\n" for v in range(100)))
    done = pellucid(
        "run",
        "pipes.py:total",
        "--in",
        "in.jsonl",
        "--out",
        "out.csv",
        "--pushes",
        20,
        "--chunk",
        5,
        "--state",
        "state",
        "--record",
    )
    assert done.exit_code == 0, done.output
    return folder / "state"


def test_a_recorded_run_holds(run: Path, pellucid: Pellucid) -> None:
    done = pellucid("audit", run)
    assert done.exit_code == 0 and "The run kept the promise." in done.output
    document = json.loads(pellucid("audit", run, "--json").stdout)
    assert document["pellucid"] == 1 and document["verb"] == "audit" and document["holds"] is True
    assert document["explanation"]["epochs"] == 5 and document["explanation"]["committed"] == 5


def test_its_output_is_compared(run: Path, folder: Path, pellucid: Pellucid) -> None:
    (folder / "same.csv").write_bytes((folder / "out.csv").read_bytes())
    assert pellucid("audit", run, "--against", "same.csv").exit_code == 0
    (folder / "other.csv").write_text((folder / "out.csv").read_text() + "7\n")
    done = pellucid("audit", run, "--against", "out=other.csv")
    assert done.exit_code == 1 and "sink.out: out: 100" not in done.output
    assert "no   output" in done.output and "1 is lost (b'7')" in done.output
    missing = pellucid("audit", run, "--against", "nowhere.csv")
    assert (
        missing.exit_code == 2
        and "nowhere.csv: there is no such file: expected the output of the failure-free run" in missing.output
    )


def test_it_is_drawn(run: Path, folder: Path, pellucid: Pellucid) -> None:
    assert pellucid("audit", run, "--picture", "run.svg").exit_code == 0
    assert (folder / "run.svg").read_text().startswith("<svg")
    wrong = pellucid("audit", run, "--picture", "no/such/folder.svg")
    assert wrong.exit_code == 2 and "cannot be written" in wrong.output


def test_a_tampered_trace_is_refuted(folder: Path, pellucid: Pellucid) -> None:
    import random

    rows = commit_again(simulated(1), random.Random(0))
    assert rows is not None
    pq.write_table(trace_table(rows), folder / "trace.parquet")
    done = pellucid("audit", "trace.parquet")
    assert done.exit_code == 1
    assert (
        "no   commit" in done.output and "visible again" in done.output and "The run broke the promise." in done.output
    )
    document = json.loads(pellucid("audit", "trace.parquet", "--json").stdout)
    assert document["holds"] is False and document["violations"][0]["check"] == "commit"


def test_bad_input_is_told(folder: Path, pellucid: Pellucid) -> None:
    assert "no such file or folder" in pellucid("audit", "nowhere").output
    (folder / "empty").mkdir()
    nothing = pellucid("audit", "empty")
    assert nothing.exit_code == 2 and "has no recorded trace" in nothing.output and "--record" in nothing.output
    pq.write_table(trace_table(simulated(1)), folder / "trace.parquet")
    lonely = pellucid("audit", "trace.parquet", "--against", "x.csv")
    assert lonely.exit_code == 2 and "expected the state folder of a run" in lonely.output
    for option in ("--on", "--engine", "--master"):
        said = pellucid("audit", "trace.parquet", option, "spark").stderr
        assert said == f"pellucid: {option} is gone: a run is audited on this machine\n"
