"""Pipelines by event time on the command line: shown and explained; where they do not run yet, refused by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Command = Callable[..., Result]

TIMED = """\
from datetime import datetime, timedelta
from typing import NamedTuple
from pellucid import Stream, Windowed, pipeline

class Payment(NamedTuple):
    when: datetime
    user: str
    amount: float

@pipeline
def hourly(x: Stream[Payment]) -> Stream[Windowed[datetime, float]]:
    paid = x.at("when", lateness=timedelta(minutes=5), id="when").key_by(lambda p: p.user, id="user")
    total = lambda w: w.cumulate(lambda t, p: t + p.amount, start=0.0)
    return paid.tumbling(timedelta(hours=1), total, id="hours").filter(lambda w: w.value > 10, id="much")
"""


@pytest.fixture
def timed(folder: Path) -> Path:
    (folder / "timed.py").write_text(TIMED)
    (folder / "in.csv").write_text("when,user,amount\n2024-05-01T09:00:00,ada,1.5\n")
    return folder


def test_show(pellucid: Command, timed: Path) -> None:
    found = pellucid("show", "timed.py")
    assert found.exit_code == 0, found.stderr
    words = " ".join(found.stdout.split())
    assert "at .when lateness 5 min ─▶ key by p.user ─▶ tumbling 1 h [cumulate t + p.amount]" in words
    document = json.loads(pellucid("show", "timed.py", "--json").stdout)
    steps = {node["id"]: node for node in document["graph"]["nodes"]}
    assert steps["when"]["timing"] == {"times": "datetime", "lateness": 300_000_000}
    assert steps["hours"]["timing"]["size"] == 3_600_000_000


def test_explain(pellucid: Command, timed: Path) -> None:
    found = pellucid("explain", "timed.py")
    assert found.exit_code == 0, found.stderr
    assert re.search(
        r"hours: tumbling 1 h .*\n.*\n +remembers: the events of windows that are not complete, for each", found.stdout
    )
    assert "when: at .when lateness 5 min" in found.stdout
    assert "remembers: the greatest time that it has seen" in found.stdout
    assert "on Spark: Spark does not know event time yet" in found.stdout


REFUSED = {
    "run": (["run", "timed.py", "--in", "in.csv"], "pellucid run"),
    "epochs": (
        ["run", "timed.py", "--in", "in.csv", "--out", "out.csv", "--pushes", "2", "--state", "s"],
        "pellucid run",
    ),
    "check": (["check", "timed.py", "--property", "AG EF out"], "check.holds"),
    "failures": (["check", "timed.py", "--failures"], "the model of failures"),
    "crash": (["crash", "timed.py", "--in", "in.csv"], "pellucid crash"),
    "export": (["export", "timed.py", "--ints", "mod:4"], "NuSMV"),
}


@pytest.mark.parametrize("verb", list(REFUSED))
def test_where_event_time_is_not_known_yet_it_is_refused(verb: str, pellucid: Command, timed: Path) -> None:
    words, who = REFUSED[verb]
    found = pellucid(*words)
    assert found.exit_code == 2, (found.stdout, found.stderr)
    said = " ".join(found.stderr.split())
    assert f"step 'when' (at .when, timed.py:12) works by event time, which {who} does not know yet" in said, said
    assert "Traceback" not in found.stderr
