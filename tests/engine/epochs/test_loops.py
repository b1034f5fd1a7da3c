"""Loops with epochs and kills: a loop is over before the border of its epoch, and what its body remembers is in the
snapshot."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from pellucid import iterate, pipeline
from pellucid.internal.base.faults import RUNTIME as POINTS
from pellucid.internal.engine.epochs import run_epochs
from tests.engine.epochs.conftest import Runs
from tests.engine.epochs.test_crash import schedule
from tests.examples.flights_oracle import EXAMPLES, example
from tests.examples.loops_oracle import components, random_links

COMPONENTS = example("loop_components")
SAID = (
    "loop_components.py:components",
    "--in",
    "links.csv",
    "--out",
    "out.csv",
    "--pushes",
    "7",
    "--state",
    "state",
    "--json",
)


@pytest.fixture
def network(runs: Runs) -> Runs:
    """A folder with the program and its links."""
    shutil.copy(EXAMPLES / "loop_components.py", runs.folder)
    write(runs.folder, links())
    return runs


def links() -> list[tuple[int, int, int]]:
    return random_links(random.Random(4), 30, 60)


def write(folder: Path, rows: list[tuple[int, int, int]]) -> None:
    (folder / "links.csv").write_text("\n".join(["day,a,b", *(",".join(map(str, row)) for row in rows)]) + "\n")


def check(network: Runs) -> None:
    wanted = COMPONENTS.components([COMPONENTS.Link(*row) for row in links()])
    assert network.read("out.csv").decode().split() == ["node,name", *(f"{c.node},{c.name}" for c in wanted)]
    assert {c.node: c.name for c in wanted} == components([(a, b) for _, a, b in links()])


@pytest.mark.parametrize("point", ["worker:border", "snapshot:after-ack"])
def test_killed_at_a_point(network: Runs, until_done: Any, point: str) -> None:
    done = until_done(network, *SAID, faults=schedule(point, "tree"))
    assert len(done) > 1 or "going back" in done[0].stderr
    check(network)


@pytest.mark.long
@pytest.mark.parametrize("action", ["kill", "tree"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_every_point(network: Runs, until_done: Any, point: str, action: str) -> None:
    until_done(network, *SAID, faults=schedule(point, action))
    check(network)


def test_without_times_epochs_change_nothing(tmp_path: Path) -> None:
    """Push by push: the answers of one call, wherever the borders are; also those of sums of a round."""

    def body(x: Any) -> Any:
        total = x.each_round(lambda w: w.cumulate(lambda t, v: t + v, start=0))
        return x.explode(lambda v: [v // 2, v // 3]).filter(lambda v: v > 0), total.cumulate(
            lambda t, v: t + v, start=0
        )

    p = pipeline(lambda x: iterate(x, body), x=int)
    rows = [random.Random(5).randrange(100) for _ in range(40)]
    (tmp_path / "in.csv").write_text("\n".join(["x", *map(str, rows)]) + "\n")
    for pushes in (3, 40):
        out = tmp_path / f"out{pushes}.csv"
        run_epochs(p, tmp_path / "in.csv", out, state=tmp_path / f"state{pushes}", pushes=pushes)
        assert [int(v) for v in out.read_text().split()[1:]] == p(rows)
