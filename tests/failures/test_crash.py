"""Crash tests of pipelines by event time: real kills, after which all agree; and recorded runs of them, audited."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from pellucid.errors import UsageError
from pellucid.failures.audit import audit
from pellucid.failures.audit.record import read_trace, trace_table
from pellucid.failures.testing import crash_test
from pellucid.internal.engine.epochs import run_epochs
from pellucid.internal.load import load_pipeline

SHOP = """\
from datetime import timedelta

from pellucid import Stream, Windowed, pipeline


def count(w):
    return w.cumulate(lambda n, v: n + 1, start=0)


@pipeline
def counts(x: Stream[int]):
    w = x.at(lambda v: v, lateness=3, id="when").tumbling(10, count, id="w")
    return {"out": w, "late": w.late}


@pipeline
def waits(x: Stream[int]) -> Stream[Windowed[int, int]]:
    return x.at(lambda v: v, idle=timedelta(seconds=1), id="when").tumbling(10, count, late="drop")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = random.Random(5)
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "in.jsonl").write_text("".join(f"{v - rng.randrange(25)}\n" for v in range(300)))
    return tmp_path


def test_no_crash_shows(folder: Path) -> None:
    report = crash_test(
        f"{folder}/shop.py:counts", folder / "in.jsonl", kills=3, seed=4, points=["commit", "snapshot"], pushes=40,
        folder=folder / "crash",
    )  # fmt: skip
    assert report.bounded and report.hits == 3
    assert all(o.audit is not None and o.audit.steps for o in report.outcomes)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_no_crash_shows_wherever_it_comes(folder: Path, seed: int) -> None:
    assert crash_test(f"{folder}/shop.py:counts", folder / "in.jsonl", kills=15, seed=seed, pushes=20).bounded


def recorded(folder: Path) -> list[dict[str, Any]]:
    """The steps of a recorded run."""
    p = load_pipeline(f"{folder}/shop.py:counts")
    places = {"out": folder / "out.jsonl", "late": folder / "late.jsonl"}
    run_epochs(p, folder / "in.jsonl", places, state=folder / "state", pushes=50, record=True)
    rows: list[dict[str, Any]] = read_trace(folder / "state").to_pylist()
    for row in rows:
        for side in ("consumed", "produced"):
            row[side] = [(m["stream"], m["n"], m["border"], m["digest"]) for m in row[side]]
    return rows


def test_a_recorded_run_is_audited_and_what_moved_its_clock_is_on_record(folder: Path) -> None:
    rows = recorded(folder)
    assert audit(folder / "state").proved
    ticks = [r for r in rows if r["rule"] == "I-EVENT" and r["task"] == "worker"]
    borders = [r for r in rows if r["rule"] == "I-BORDER" and r["task"] == "worker"]
    assert len(borders) == 6 and len(ticks) == 12  # in each epoch the rows, and what moves the clock
    told = ticks[-1]["consumed"][0]
    last = next(r for r in rows if r["task"] == "worker" and r["index"] == ticks[-1]["index"])
    last["consumed"] = [(*told[:3], told[3] + 1)]  # another end of the input than the source has told
    found = audit(trace_table(rows))
    assert found.refuted and {v.check for v in found.violations} >= {"messages"}, found


def test_a_clock_that_nothing_moved_is_found(folder: Path) -> None:
    rows = recorded(folder)
    tick = next(r for r in rows if r["task"] == "worker" and r["rule"] == "I-EVENT" and r["index"] == 1)
    tick["consumed"] = []
    assert audit(trace_table(rows)).refuted


def test_what_the_clock_on_the_wall_decides_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"step 'when' .* has idle=, and when a source is idle the clock on the wall"):
        crash_test(f"{folder}/shop.py:waits", folder / "in.jsonl", kills=1)
