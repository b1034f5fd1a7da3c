"""What it costs to set bad rows aside: a CSV file of a million rows, without bad ones and with some.

    .venv/bin/python bench/bad_rows.py [--rows 1000000] [--bad 0.01]

Told are the processor time (user and system) and the wall time of ``pellucid run --bad``, a process of its own each.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PIPELINE = """
from typing import NamedTuple
from pellucid import Stream, pipeline


class Row(NamedTuple):
    user: str
    x: int
    y: float


@pipeline
def total(r: Stream[Row]) -> Stream[float]:
    return r.map(lambda e: e.x * 2.0 + e.y).cumulate(lambda a, b: a + b, start=0.0)
"""


def write(path: Path, rows: int, bad: float) -> None:
    """A table in which so many rows have an x that is no number."""
    rng = random.Random(1)
    with path.open("w") as file:
        file.write("user,x,y\n")
        for i in range(rows):
            wrong = "oops" if bad and i % round(1 / bad) == 0 else ""
            file.write(f"u{rng.randrange(1000)},{wrong}{rng.randrange(10**6)},{rng.random():.6f}\n")


def measured(folder: Path, name: str) -> tuple[float, float, str]:
    """Processor and wall seconds of a run, and what it says."""
    command = [sys.executable, "-m", "pellucid", "run", f"{folder}/p.py:total", "--in", f"{folder}/{name}.csv"]
    command += ["--out", f"{folder}/out.parquet", "--bad", f"{folder}/letters.csv"]
    before, began = os.times(), time.perf_counter()
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr.strip()
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent, time.perf_counter() - began, said.splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--bad", type=float, default=0.01)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "p.py").write_text(PIPELINE)
        for name, share in (("good", 0.0), ("bad", options.bad)):
            write(folder / f"{name}.csv", options.rows, share)
        measured(folder, "good")  # compiles
        for name in ("good", "bad"):
            processor, wall, said = measured(folder, name)
            print(f"{name:5} {processor:6.2f} s of processor, {wall:6.2f} s  {said}")


if __name__ == "__main__":
    main()
