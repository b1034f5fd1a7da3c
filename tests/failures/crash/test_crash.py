"""Crash tests: real runs are killed, and it does not show; where it must show, it is told why."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.planted import Planted

from pellucid.errors import DataError, UsageError
from pellucid.failures.crash import (
    GROUPS,
    MOMENT,
    CrashReport,
    Round,
    Strike,
    crash,
    default_outputs,
    difference,
    draw,
    load_rounds,
    points_of,
    read_output,
    save_rounds,
)
from pellucid.failures.testing import command_for, crash_test
from pellucid.internal.base.faults import RUNTIME as POINTS
from pellucid.internal.base.faults import parse

PIPELINES = """\
import time

from pellucid import Stream, pipeline


@pipeline
def totals(x: Stream[int]) -> Stream[int]:
    return x.filter(lambda v: v % 3 != 0).cumulate(lambda t, v: t + v, start=0)


def clock(v: int) -> int:
    return v + time.time_ns() % 1000003


@pipeline
def timed(x: Stream[int]) -> Stream[int]:
    return x.map(clock)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipes.py").write_text(PIPELINES)
    (tmp_path / "in.jsonl").write_text("".join(f"{v}\n" for v in range(400)))
    return tmp_path


def played(
    folder: Path, *strikes: Strike, name: str = "totals", planted: bool = False, **environment: str
) -> CrashReport:
    """One run with these strikes, one in each generation."""
    command = command_for(
        f"{folder}/pipes.py:{name}",
        [f"{folder}/in.jsonl"],
        ["out"],
        {"out": "x.csv"},
        folder / "w",
        pushes=20,
        chunk=5,
        environment=environment,
    )
    if planted:
        command = Planted(**vars(command))
    return crash(command, folder / "w", seed=1, replay=[Round(list(strikes))])


def test_kills_at_points_and_moments_do_not_show(folder: Path) -> None:
    # So much that no recovery finds everything done already, however late the first commit comes.
    (folder / "in.jsonl").write_text("".join(f"{v}\n" for v in range(3000)))
    strikes = [
        Strike("snapshot:before-write"),
        Strike("sink:before-commit", "tree"),
        Strike("recover:loaded"),
        Strike("coordinator:recover", "coordinator"),
        Strike(MOMENT, "task", share=0.0, task="worker"),
    ]
    report = played(folder, *strikes)
    assert report.bounded and report.hits == 5 and report.missed == 0, str(report)
    (outcome,) = report.outcomes
    assert outcome.round.starts == 3 and outcome.audit is not None and outcome.audit.explained is not None
    # All tasks go back when each has loaded what it needs: the one that was hit on the way there (recover:loaded) never
    # happened.  That before coordinator:recover is ended by a worker that dies at its first event (Strike.fault): it
    # counts if the other tasks had put it on record by then that they were back.
    recovered = outcome.audit.explained.recovered
    assert len(recovered) in (3, 4) and list(recovered) == sorted(recovered)
    assert "5 kills hit, 0 came too late" in str(report) and "No crash shows" in str(report)
    assert not report.proved and not report and report.bound == "kills that hit: 5, runs: 1"
    assert "Only these kills were tried" in str(report)


def test_the_planted_bug_is_caught_by_the_audit_and_by_the_output(folder: Path) -> None:
    """A sink that commits as soon as it has an epoch, while the worker's disk is full; then it dies, and all go
    back."""
    report = played(
        folder,
        Strike("sink:after-commit"),
        planted=True,
        PYTHONPATH=os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(Path(__file__).parents[3])])),
        PELLUCID_FAULTS="snapshot:before-write[worker]=enospc@*/0",
    )
    assert report.refuted
    (outcome,) = report.outcomes
    assert outcome.audit is not None and outcome.differences
    assert {"commit-deaf", "commit-early", "commit-back"} <= {v.kind for v in outcome.audit.violations}
    text = str(report)
    # The worker's snapshot never comes; the source's may be late as well, and is the one that is told first then.
    deaf = {v.other for v in outcome.audit.violations if v.kind == "commit-deaf"}
    assert "worker" in deaf and any(f"without having heard of the snapshot of {task}" in text for task in deaf)
    assert "an epoch was written twice" in text and "the sink appends what it is given" in text
    assert "--replay" in text and "schedule.json" in text


def test_a_task_that_is_not_deterministic_is_told_with_the_evidence(folder: Path) -> None:
    report = played(folder, Strike("sink:before-commit", hit=2), name="timed")
    assert report.refuted
    assert "Two runs without any crash differ as well" in str(report) and "a task is not deterministic" in str(report)


def test_a_strike_that_does_not_hit_is_counted_as_such(folder: Path) -> None:
    report = played(folder, Strike("worker:event", hit=100_000))
    assert report.unknown and not report and report.hits == 0 and report.missed == 1
    assert "Nothing was hit: this says nothing." in str(report)


def test_the_helper_raises_what_shows(folder: Path) -> None:
    done = crash_test(
        f"{folder}/pipes.py:totals",
        folder / "in.jsonl",
        kills=2,
        seed=3,
        points=["commit"],
        outputs="sqlite:t.db#totals",
        pushes=40,
        chunk=20,
        folder=folder / "ok",
    )
    assert done.hits == 2
    with closing(sqlite3.connect(folder / "ok" / "reference" / "out.db")) as db:
        assert db.execute("SELECT count(*) FROM totals").fetchone() == (266,)
    with pytest.raises(AssertionError, match="a task is not deterministic"):
        crash_test(
            f"{folder}/pipes.py:timed",
            folder / "in.jsonl",
            kills=1,
            seed=3,
            points=["sink:before-commit"],
            pushes=100,
            folder=folder / "bad",
        )


def test_what_cannot_run_is_no_crash(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"without any crash the run does not come to its end: .*nowhere\.csv"):
        crash_test(f"{folder}/pipes.py:totals", "nowhere.csv", kills=1, folder=folder / "w")
    with pytest.raises(UsageError, match="has no output 'sums': it has out"):
        crash_test(
            f"{folder}/pipes.py:totals", folder / "in.jsonl", kills=1, outputs={"sums": "x.csv"}, folder=folder / "w"
        )


# Schedules.


def test_every_point_is_in_a_group_and_is_understood_by_the_runtime() -> None:
    assert set(points_of([])) - {MOMENT} == set(POINTS)
    for point in POINTS:
        assert parse(Strike(point, "tree", hit=2).fault(3) or "")[-1].generation == 3


def test_the_same_seed_draws_the_same_strikes_of_all_kinds() -> None:
    def strikes(seed: int) -> list[Strike]:
        rng = random.Random(seed)
        return [draw(rng, points_of([]), ["worker", "sink.out"]) for _ in range(300)]

    assert strikes(5) == strikes(5) != strikes(6)
    drawn = strikes(5)
    assert {s.victim for s in drawn if s.point == MOMENT} == {"task", "coordinator", "tree"}
    assert {s.point for s in drawn} == {*POINTS, MOMENT}


def test_a_schedule_comes_back_from_its_file(tmp_path: Path) -> None:
    rounds = [
        Round([Strike("sink:write", hit=2), Strike(MOMENT, "task", share=0.5, task="worker")]),
        Round([Strike("recover:load", "tree")]),
    ]
    save_rounds(tmp_path / "s.json", 7, rounds)
    seed, back = load_rounds(tmp_path / "s.json")
    assert seed == 7 and [r.strikes for r in back] == [r.strikes for r in rounds]


def test_a_schedule_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_rounds(tmp_path / "nowhere.json")
    bad = tmp_path / "bad.json"
    bad.write_text("[]")
    with pytest.raises(DataError, match="is no schedule of pellucid crash"):
        load_rounds(bad)
    bad.write_text(json.dumps({"seed": 1, "rounds": [[{"point": "sink:comit"}]]}))
    with pytest.raises(DataError, match=r"there is no point 'sink:comit'"):
        load_rounds(bad)
    with pytest.raises(UsageError, match="no such point or group"):
        points_of(["nothing-like-it"])
    assert set(GROUPS) == {"snapshot", "commit", "recovery", "work", "finish", "moment"}


# Outputs.


def test_outputs_of_all_kinds_are_read_and_compared(tmp_path: Path) -> None:
    place = f"sqlite:{tmp_path}/x.db#t"
    assert read_output(place) == [] and read_output(str(tmp_path / "none.csv")) == b""
    with closing(sqlite3.connect(tmp_path / "x.db")) as db, db:
        db.execute("CREATE TABLE t (a INTEGER)")
        db.executemany("INSERT INTO t VALUES (?)", [(2,), (1,)])
    assert read_output(place) == ["(1,)", "(2,)"]
    assert difference(["(1,)", "(2,)"], ["(1,)", "(2,)", "(2,)"]) is not None
    assert difference(b"a\nb\n", b"b\na\n") == "output: the same rows in another order, from row 1 on"
    assert (
        difference(b"a\nb\nc\n", b"a\nx\n")
        == "output: 2 rows instead of 3: 2 lost (such as b'b'), 1 that should not be there (such as b'x'), from row 2 "
        "on"
    )
    assert difference(b"a\n", b"a") == "output: the same rows, but other bytes (1 instead of 2)"
    with pytest.raises(UsageError, match="the ending of the name says the format"):
        default_outputs(["out"], {"out": "data"})
