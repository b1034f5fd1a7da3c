"""`pellucid progress` of a pipeline: what waits for which clock, whether its times stay in order, and, of the state
folder of a run, why it is not done; what is refused, with one message and exit code 2."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from click.testing import Result

from pellucid.internal.engine.timed.why import flow
from pellucid.internal.load import load_pipeline

Command: TypeAlias = Callable[..., Result]

SHOP = """\
from datetime import datetime, timedelta
from typing import NamedTuple

from pellucid import Stream, join, pipeline
from pellucid.progress import Graph, buffer

class Click(NamedTuple):
    when: datetime
    user: str

def number(w):
    return w.cumulate(lambda n, v: n + 1, start=0)

@pipeline
def hourly(clicks: Stream[Click]):
    print("loaded")
    timed = clicks.at("when", lateness=timedelta(minutes=5), id="when").key_by(lambda c: c.user, id="user")
    return timed.tumbling(timedelta(hours=1), number, id="hours")

@pipeline
def backwards(x: Stream[int], y: Stream[int]):
    pair = join(x.at(lambda v: v, id="a"), y.at(lambda v: v, id="b"), within=(5, 10), how="full", id="pair")
    return pair.tumbling(2, number, id="twos")

@pipeline
def plain(x: Stream[int]) -> Stream[int]:
    return x.map(lambda v: v + 1)
"""
GRAPH = 'daily = Graph({"p": buffer("o")}, {"i": (None, "p"), "o": ("p", None)}, times=[0, 1], name="daily")\n'


@pytest.fixture
def shop(folder: Path) -> Path:
    (folder / "shop.py").write_text(SHOP)
    rows = [f"2024-05-01T{9 + i // 60:02}:{i % 60:02}:00,{'ab'[i % 2]}" for i in range(200)]
    (folder / "clicks.csv").write_text("\n".join(["when,user", *rows]) + "\n")
    return folder


def _hangs() -> None:
    os.environ["PELLUCID_FAULTS"] = "worker:border=hang@4"
    p = load_pipeline("shop.py:hourly")
    p.run_epochs("clicks.csv", "out.csv", state="state", pushes=20, say=lambda text: None)


@pytest.fixture
def stopped(shop: Path) -> Path:
    """A run that was killed after three epochs of twenty rows."""
    process = multiprocessing.get_context("fork").Process(target=_hangs)
    process.start()
    try:
        p, deadline = load_pipeline("shop.py:hourly"), time.monotonic() + 120
        while time.monotonic() < deadline and process.is_alive():
            if (shop / "state" / "run.json").exists() and p.progress("state").about["epoch"] == 3:
                break
            time.sleep(0.02)
    finally:
        process.kill()
        process.join()
    return shop


def test_a_run_that_was_killed(pellucid: Command, stopped: Path) -> None:
    found = pellucid("progress", "shop.py:hourly", "--state", "state", "--svg", "waiting.svg")
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert lines[0].startswith("hourly in state: not running, epoch 3 complete, 60 pushes by 20")
    assert lines[0].endswith(", 2 wait for the clock")
    assert lines[2].startswith("  clicks: 60 rows read, last row read 20")
    assert lines[2].endswith(
        "greatest event time 2024-05-01 09:59:00, watermark 2024-05-01 09:54:00, with a lateness of 5 min, active"
    )
    assert lines[3:] == [
        "steps",
        "  hours (tumbling 1 h): clock at 2024-05-01 09:54:00",
        "    2 keys, first a: 2024-05-01 09:00:00 to 2024-05-01 10:00:00; "
        "b: 2024-05-01 09:00:00 to 2024-05-01 10:00:00",
        "    2 windows are open: 2024-05-01 09:00:00 to 2024-05-01 10:00:00",
        "      source clicks could still send an event of 2024-05-01 09:54:00 (clicks → when → user → hours)",
        "      they come once clicks has sent an event of 2024-05-01 10:05:00 or later, has ended, or is idle",
    ]
    assert "loaded" in found.stderr
    assert 'data-source="clicks"' in (stopped / "waiting.svg").read_text()
    document = json.loads(pellucid("progress", "shop.py:hourly", "--state", "state", "--json").stdout)
    assert (document["pellucid"], document["verb"], document["progress"]["format"]) == (1, "progress", 1)
    assert document["progress"]["run"]["epoch"] == 3 and document["progress"]["complete"] is False
    for args, says in (
        (("shop.py:backwards", "--state", "state"), "--state state: belongs to another run: it is of 'hourly', not of"),
        (
            ("shop.py:hourly", "--state", "state", "--about", "clock"),
            "--state tells how far a run is: leave --about out",
        ),
        (("shop.py:hourly", "--state", "state", "--junit", "x.xml"), "--state tells how far a run is: leave --junit"),
    ):
        wrong = pellucid("progress", *args)
        assert wrong.exit_code == 2 and says in wrong.stderr, wrong.output


def test_without_a_run(pellucid: Command, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = pellucid("progress", "shop.py:hourly")
    assert found.exit_code == 0
    assert found.stdout.splitlines()[:4] == [
        "hourly: what waits for which clock",
        "hours (tumbling 1 h): a window comes when the clock is at its end",
        "  the clock of user is that of when",
        "    clicks → when → user → hours (lateness 5 min)",
    ]
    assert "proved   hourly: clock: nothing comes behind the clock of what follows" in found.stdout
    assert pellucid("progress", "shop.py:backwards").exit_code == 0
    wrong = {**flow.SUMMARIES, "join": lambda node: [0, -node.timing.low]}  # a step that puts out earlier times
    monkeypatch.setattr(flow, "SUMMARIES", wrong)
    refuted = pellucid("progress", "shop.py:backwards", "--json", "--junit", "report.xml")
    assert refuted.exit_code == 1
    assert [(r["name"], r["status"]) for r in json.loads(refuted.stdout)["results"]][-1] == (
        "backwards: clock", "refuted",
    )  # fmt: skip
    assert "<failure" in (shop / "report.xml").read_text()
    only = pellucid("progress", "shop.py:backwards", "--about", "acyclic")
    assert only.exit_code == 0 and "clock" not in only.stdout.splitlines()[-1]
    plain = pellucid("progress", "shop.py:plain")
    assert plain.exit_code == 0 and plain.stdout.startswith("plain knows no event time")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("shop.py:hourly", "--state", "empty"), "--state empty: is empty: no run has begun there yet"),
        (("shop.py:hourly", "--state", "nowhere"), "--state nowhere: no such folder: give the state folder of a run"),
        (("shop.py:hourly", "--state", "shop.py"), "--state shop.py: is no folder: give the state folder of a run"),
        (
            ("shop.py:hourly", "--state", "."),
            "--state .: holds no run of Pellucid: give the state folder of a run with",
        ),
        (("shop.py:hourli", "--state", "empty"), "shop.py: no pipeline 'hourli': its pipelines are hourly, backwards"),
        (("shop.py", "--state", "empty"), "shop.py: has 3 pipelines (hourly, backwards, plain): say which"),
        (("shop.py:hourly", "--why", "hours@3"), "--why is for graphs with times, and hourly is a pipeline: give"),
        (("shop.py:hourly", "--pending", "hours@3"), "--pending is for graphs with times, and hourly is a pipeline"),
        (("shop.py:number",), "shop.py: 'number' is no pipeline but a function: put @pipeline above it"),
        (("shop.py:hourly", "--about", "liveness"), "of a pipeline the questions are condition 2, acyclic, clock"),
    ],
)
def test_what_is_refused(pellucid: Command, shop: Path, args: tuple[str, ...], says: str) -> None:
    (shop / "empty").mkdir()
    result = pellucid("progress", *args)
    assert result.exit_code == 2 and says in result.stderr and "Traceback" not in result.output, result.output


def test_a_file_with_graphs_and_pipelines(pellucid: Command, shop: Path) -> None:
    (shop / "shop.py").write_text(SHOP + GRAPH)
    assert "daily: condition 1" in pellucid("progress", "shop.py").stdout
    assert "daily: condition 1" in pellucid("progress", "shop.py:daily").stdout
    assert pellucid("progress", "shop.py:hourly").stdout.startswith("hourly: what waits")
    wrong = pellucid("progress", "shop.py:daily", "--state", "x")
    assert wrong.exit_code == 2 and "'daily' is no pipeline but a Graph" in wrong.stderr
    unknown = pellucid("progress", "shop.py:dayly")
    assert unknown.exit_code == 2 and "no graph 'dayly': its graphs are daily" in unknown.stderr
