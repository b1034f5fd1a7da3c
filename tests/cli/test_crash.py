"""The command ``pellucid crash``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Pellucid = Callable[..., Result]


@pytest.fixture
def events(folder: Path) -> str:
    (folder / "in.jsonl").write_text("".join(f"{v}\n" for v in range(200)))
    return "in.jsonl"


def test_kills_do_not_show_and_can_be_played_again(folder: Path, events: str, pellucid: Pellucid) -> None:
    done = pellucid(
        "crash",
        "pipes.py:total",
        "--in",
        events,
        "--epoch-size",
        20,
        "--kills",
        2,
        "--seed",
        5,
        "--points",
        "worker:border",
        "--folder",
        "kept",
        "--json",
    )
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["status"] == "bounded" and document["bound"] == "kills that hit: 2, runs: 1"
    assert document["kills"] == 2 and document["seed"] == 5
    assert "run 0: 2 of 2 kills hit (worker:border" in done.stderr
    assert (folder / "kept" / "reference" / "out.jsonl").exists()
    again = pellucid("crash", "pipes.py:total", "--in", events, "--epoch-size", 20, "--replay", "kept/schedule.json")
    assert again.exit_code == 0 and "2 kills hit, 0 came too late" in again.output and "seed 5" in again.output


def test_nothing_hit_is_unknown(events: str, pellucid: Pellucid, folder: Path) -> None:
    plan = {"seed": 1, "rounds": [[{"point": "worker:event", "hit": 10_000}]]}
    (folder / "plan.json").write_text(json.dumps(plan))
    done = pellucid("crash", "pipes.py:total", "--in", events, "--epoch-size", 50, "--replay", "plan.json")
    assert done.exit_code == 3 and "Nothing was hit: this says nothing." in done.output


def test_bad_usage_is_told(events: str, pellucid: Pellucid, folder: Path) -> None:
    def said(*more: object) -> str:
        done = pellucid("crash", *more)
        assert done.exit_code == 2, done.output
        return done.output

    assert "no pipeline 'totl'" in said("pipes.py:totl", "--in", events)
    assert "no such point or group. Groups: snapshot" in said(
        "pipes.py:total", "--in", events, "--epoch-size", 50, "--points", "nowhere"
    )
    assert "has several outputs (sums, firsts)" in said(
        "pipes.py:two", "--in", "a=in.jsonl", "--in", "b=in.jsonl", "--out", "x.csv"
    )
    assert "without any crash the run does not come to its end" in said("pipes.py:total", "--in", "nowhere.csv")
    (folder / "full").mkdir()
    (folder / "full" / "x").write_text("")
    assert "--folder full: is not empty" in said("pipes.py:total", "--in", events, "--folder", "full")
