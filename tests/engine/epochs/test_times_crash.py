"""Event time with real kills: at every point, of a task and of the whole tree, and from outside; on the command line,
with files and tables."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pellucid.internal.base.faults import RUNTIME as POINTS
from pellucid.internal.cli.main import cli
from pellucid.internal.graph.model import Graph
from pellucid.internal.load import load_pipeline
from tests.engine.epochs.conftest import Runs
from tests.engine.epochs.test_crash import schedule, wait_for_tasks
from tests.engine.epochs.test_times import Paid, literally, paid

SHOP = """\
from typing import NamedTuple

from pellucid import Stream, pipeline


class Paid(NamedTuple):
    when: int
    user: str
    amount: int


def total(x):
    return x.cumulate(lambda t, p: t + p.amount, start=0)


@pipeline
def sums(x: Stream[Paid]):
    w = x.at("when", lateness=4, id="when").key_by(lambda p: p.user, id="user").tumbling(10, total, id="w")
    long = w.map(lambda w: w.value, id="value").session(25, lambda s: s.cumulate(lambda t, v: t + v, start=0), id="s")
    return {"out": w, "late": w.late, "long": long}
"""
SUMS = (
    "shop.py:sums",
    "--in",
    "paid.csv",
    "--out",
    "out=out.csv",
    "--out",
    "late=late.csv",
    "--out",
    "long=long.jsonl",
)
EPOCHS = ("--pushes", "60", "--state", "state", "--json")


@pytest.fixture
def shop(runs: Runs) -> Runs:
    """A folder with the pipeline and its rows."""
    (runs.folder / "shop.py").write_text(SHOP)
    write(runs.folder, paid(7, 600))
    return runs


def write(folder: Path, rows: list[Paid]) -> None:
    lines = ["when,user,amount", *(f"{p.when},{p.user},{p.amount}" for p in rows)]
    (folder / "paid.csv").write_text("\n".join(lines) + "\n")


def check(shop: Runs, report: dict[str, Any], rows: list[Paid], pushes: int = 60) -> None:
    """What is written is what the literal engine says."""
    graph, own = loaded(shop, rows)
    found, literal = literally(graph, {"x": own}, pushes)
    out = [",".join(map(str, w)) for w in found["out"]]
    assert shop.read("out.csv").decode().split() == ["start,end,value", *out]
    assert len(shop.read("late.csv").splitlines()) == len(found["late"]) + 1 > 1
    assert [json.loads(line) for line in shop.read("long.jsonl").splitlines()] == [w._asdict() for w in found["long"]]
    assert report["late"] == literal.late
    assert report["events_out"] == {name: len(events) for name, events in found.items()}


def loaded(shop: Runs, rows: list[Paid]) -> tuple[Graph, list[Any]]:
    """The pipeline of the folder, and rows as its own events."""
    graph = load_pipeline(f"{shop.folder}/shop.py:sums").graph
    return graph, [graph["x"].type.unflatten(list(row)) for row in rows]


def crash(shop: Runs, until_done: Any, point: str, action: str) -> None:
    done = until_done(shop, *SUMS, *EPOCHS, faults=schedule(point, action))
    assert len(done) > 1 or "going back" in done[0].stderr or point == "coordinator:finished", "nobody was killed"
    check(shop, shop.report(done[-1]), paid(7, 600))


def test_killed_at_a_point(shop: Runs, until_done: Any) -> None:
    crash(shop, until_done, "worker:border", "tree")


@pytest.mark.long
@pytest.mark.parametrize("action", ["kill", "tree"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_every_point(shop: Runs, until_done: Any, point: str, action: str) -> None:
    crash(shop, until_done, point, action)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_random_kills_from_outside(shop: Runs, until_done: Any, seed: int) -> None:
    """kill -9 of any process at any time, by somebody who knows nothing of points."""
    rng, rows, kills = random.Random(seed), paid(seed, 60_000), 0
    write(shop.folder, rows)
    said = (*SUMS, "--pushes", "100", "--state", "state", "--json", "--retries", "50")
    for _ in range(8):
        process = shop.start(*said)
        while process.poll() is None:
            time.sleep(rng.uniform(0.05, 0.8))
            pids = wait_for_tasks(shop)
            if pids["coordinator"] != process.pid:
                continue  # of the run before
            name = rng.choice(["coordinator", *pids])
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pids[name], signal.SIGKILL)
                    kills += 1
            if name == "coordinator":
                break
        _, text = process.communicate(timeout=300)
        assert process.returncode in (0, -signal.SIGKILL), text
        if process.returncode == 0:
            break
    done = until_done(shop, *said)
    assert kills > 2
    check(shop, shop.report(done[-1]), rows, 100)


def test_a_table_has_each_window_once(shop: Runs, until_done: Any) -> None:
    """A row of SQLite is there when its epoch is, and once, whoever is killed around its commit; per key."""
    said = ("shop.py:sums", "--in", "paid.csv", "--out", "out=sqlite:t.db#sums", "--pushes", "50", "--state", "state")
    done = until_done(shop, *said, faults="sink:after-commit=tree@2;worker:border=kill@3/1")
    assert len(done) > 1
    with contextlib.closing(sqlite3.connect(shop.folder / "t.db")) as connection:
        found = connection.execute("select start, end, value from sums").fetchall()
    graph, own = loaded(shop, paid(7, 600))
    assert found == [tuple(w) for w in literally(graph, {"x": own}, 50)[0]["out"]]


def test_a_late_row_is_exit_code_2(shop: Runs) -> None:
    (shop.folder / "shop.py").write_text(SHOP.replace('"late": w.late, ', ""))
    with contextlib.chdir(shop.folder):
        done = CliRunner().invoke(cli, ["run", "shop.py:sums", "--in", "paid.csv", "--out", "out=out.csv", *EPOCHS])
    assert done.exit_code == 2 and "Traceback" not in done.stderr
    assert (
        "step 'w' (tumbling, shop.py:18) failed at push" in done.stderr
        and " late; allow for so much more" in done.stderr
    )
    assert "paid.csv: row" in done.stderr
    assert not (shop.folder / "out.csv").exists()
