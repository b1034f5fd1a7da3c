"""The flights of 2013, whole, in the pipelines of examples/flights.py: here, from a frame, CSV and Parquet, and through
kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pellucid import check
from pellucid.internal.cli.main import cli
from tests.diagonal import diagonal
from tests.examples.oracles import EXAMPLES, KEYS, ORDER, example, expected, refuse_lost, refuse_other, scheduled

NAMES = list(KEYS)
FILE = str(EXAMPLES / "flights.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("flights")
    example("flights_table").write(out)
    return out


def test_the_oracle() -> None:
    """The numbers that are known of this table."""
    assert len(scheduled()) == 336_776
    assert len(expected("alerts")) == 779
    assert len(expected("ended_by_cancelled")) == 707


@pytest.mark.parametrize("name", NAMES)
def test_a_frame_as_it_comes(name: str) -> None:
    """The frame of the package itself: floats with holes, texts that spell times, in no order; all columns come
    along."""
    flights = example("flights_table").frame().assign(rowid=range(336_776))
    found = getattr(example("flights"), name)(flights, key=KEYS[name], order=ORDER, keep=True)
    refuse_other(name, found)
    refuse_lost(found.assign(time_hour=pd.to_datetime(found.time_hour)))


@pytest.mark.parametrize(("name", "kind"), diagonal(NAMES, ["csv", "parquet"]))
def test_files(folder: Path, tmp_path: Path, name: str, kind: str) -> None:
    out = tmp_path / "out.parquet"
    key = ["--key", KEYS[name]] if KEYS[name] else []
    told = CliRunner().invoke(
        cli,
        [
            *("run", f"{FILE}:{name}", "--in", str(folder / f"flights.{kind}"), "--out", str(out)),
            *("--order", ",".join(ORDER), "--keep-columns", "all", *map(str, key)),
        ],
    )
    assert told.exit_code == 0, told.output
    found = pq.read_table(out).to_pandas()
    refuse_other(name, found)
    if kind == "parquet" and name in ("alerts", "earned"):  # what nobody declared is text in a CSV file
        refuse_lost(found)


def test_every_step_is_compiled() -> None:
    for name in NAMES:
        assert getattr(example("flights"), name).why_plain is None


def epochs(folder: Path, name: str, kind: str, rows: int) -> list[str]:
    """The command of a run that can be killed."""
    key = ["--key", str(KEYS[name]), "--workers", "2"] if KEYS[name] else []
    return [
        *(sys.executable, "-m", "pellucid", "run", f"{FILE}:{name}", "--in", str(folder / f"flights.{kind}"), *key),
        *("--out", f"out-{name}.parquet", "--keep-columns", "all"),
        *("--epoch-size", str(max(rows // 30, 1)), "--state", f"state-{name}"),
    ]


@pytest.mark.crash
@pytest.mark.parametrize(
    ("name", "kind", "rows"),
    [
        pytest.param("alerts", "csv", 40_000),
        pytest.param("earned", "parquet", 40_000),
        *[pytest.param(name, kind, None, marks=pytest.mark.long) for name in NAMES for kind in ("csv", "parquet")],
    ],
)
def test_killed_and_going_on(tmp_path: Path, name: str, kind: str, rows: int | None) -> None:
    """kill -9 of the whole tree, twice, when epochs have been committed; then the same command to its end."""
    example("flights_table").write(tmp_path, rows)
    command = epochs(tmp_path, name, kind, rows or 336_776)
    hit = 0
    for wanted in (1, 3):
        held = (
            {"PELLUCID_FAULTS": "coordinator:finish=hang@1/*"} if wanted == 1 else {}
        )  # it cannot end before the kill
        victim = subprocess.Popen(
            command, cwd=tmp_path, env=os.environ | held, stderr=subprocess.DEVNULL, start_new_session=True
        )
        while len(list(tmp_path.glob(f"state-{name}/committed/out/*"))) < wanted and victim.poll() is None:
            time.sleep(0.005)
        if victim.poll() is None:
            os.killpg(victim.pid, signal.SIGKILL)
            hit += 1
        victim.wait()
        if wanted == 1:  # the second may come too late on a fast machine
            assert hit and not (tmp_path / f"out-{name}.parquet").exists()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = pq.read_table(tmp_path / f"out-{name}.parquet").to_pandas()
    if KEYS[name]:  # two workers: each key in its order; what nobody declared is text in a CSV file
        found = found.astype({"minute": int, "rowid": int}).sort_values(ORDER)
    refuse_other(name, found, rows)
    if kind == "parquet":
        refuse_lost(found, rows)


@pytest.mark.parametrize(
    "formula",
    [
        "G (out -> out.delay > 60)",
        "G (out -> out.time_hour = flights.time_hour)",  # an alert has the time of its last flight
        "G (out -> flights.dep_delay != None)",  # a cancelled flight raises none
    ],
)
def test_questions(formula: str) -> None:
    """Decided for all flights that there could ever be."""
    assert check.holds(example("flights").late_again, formula).proved
