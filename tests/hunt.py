"""The random tests with seeds that nobody has tried, round after round, until the time is over.

    make hunt                                        # 30 minutes, from a seed by chance, which is printed first
    make hunt SEED=4711 MINUTES=5
    make hunt SEED=4712 ONLY=tests/spark/test_equal.py::test_batch_without_a_key    # what a hunt found, again

A round is one run of pytest over all tests that draw (those of Hypothesis, and those marked ``seeded``), with one seed;
the next round has the next seed.  So what a round finds is found again by that seed alone, whatever ran before it.  The
exit code is 1 if something was found. What a hunt finds becomes a fixed test.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

RANDOM = "(hypothesis or seeded) and not long and not kafka"  # a long test draws what its short one does, more often
UNTIL, FOUND = "PELLUCID_HUNT_UNTIL", "PELLUCID_HUNT_FOUND"


class Hunting:
    """What pytest does otherwise in a hunt (see ``tests/conftest.py``)."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.until, self.found = float(os.environ.get(UNTIL, "inf")), os.environ.get(FOUND)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Files in another order each time, so that in a short hunt each has its chance."""
        files = list(dict.fromkeys(item.path for item in items))
        random.Random(self.seed).shuffle(files)
        place = {file: n for n, file in enumerate(files)}
        items.sort(key=lambda item: place[item.path])

    def pytest_runtest_setup(self) -> None:
        """What is left when the time is over is left out."""
        if time.time() > self.until:
            pytest.skip("the time is over")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Put what fails on record; with several processes, the one that reports."""
        if report.failed and self.found is not None and "PYTEST_XDIST_WORKER" not in os.environ:
            with open(self.found, "a") as file:
                file.write(json.dumps([self.seed, report.nodeid]) + "\n")


def a_round(seed: int, until: float, found: Path, only: list[str], processes: int) -> bool:
    """All random tests with this seed; whether they could be run at all."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        RANDOM,
        f"--hypothesis-seed={seed}",
        "-p",
        "no:cacheprovider",
        "--tb=short",
    ]
    command += (
        ["-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder"] if processes > 1 and not only else []
    )
    environment = os.environ | {"PELLUCID_HUNT": str(seed), UNTIL: str(until), FOUND: str(found)}
    return subprocess.run([*command, *(only or ["tests"])], env=environment, check=False).returncode in (0, 1)


def told(found: list[tuple[int, str]], rounds: int, seed: int, minutes: float) -> str:
    """What was found, and how to see it again.

    >>> print(told([(8, "tests/a.py::test_b[8000003]")], 2, 7, 3.04))
    2 rounds in 3.0 minutes, seeds 7 to 8: 1 test failed
      make hunt SEED=8 ONLY='tests/a.py::test_b[8000003]'
    >>> print(told([], 1, 7, 3))
    1 round in 3.0 minutes, seed 7: nothing found
    """
    which = f"seed {seed}" if rounds == 1 else f"seeds {seed} to {seed + rounds - 1}"
    what = "nothing found" if not found else f"{len(found)} test{'s' if len(found) > 1 else ''} failed"
    head = f"{rounds} round{'s' if rounds > 1 else ''} in {minutes:.1f} minutes, {which}: {what}"
    return "\n".join([head, *(f"  make hunt SEED={at} ONLY='{test}'" for at, test in found)])


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.hunt", description="random tests with new seeds, until the time is over"
    )
    parser.add_argument("--seed", type=int, help="the first seed; by chance, if not given")
    parser.add_argument("--minutes", type=float, default=30, help="how long to go on (30)")
    parser.add_argument("--processes", type=int, default=2, help="tests at a time (2)")
    parser.add_argument(
        "only", nargs="*", help="only these tests, one round, as a hunt that has found something prints it"
    )
    asked = parser.parse_args()
    seed = secrets.randbelow(10**6) if asked.seed is None else asked.seed
    if seed < 0:
        parser.error(f"--seed: a seed is not negative, found {seed}")
    print(f"hunting with seed {seed}", flush=True)
    began = time.time()
    until, rounds = began + 60 * asked.minutes, 0
    with tempfile.TemporaryDirectory(prefix="pellucid-hunt-") as folder:
        record = Path(folder) / "found"
        record.touch()
        while rounds == 0 or (time.time() < until and not asked.only):
            if not a_round(seed + rounds, until, record, asked.only, asked.processes):
                print(f"the tests could not be run with seed {seed + rounds}: see above", file=sys.stderr)
                return 2
            rounds += 1
        found = list(
            dict.fromkeys((int(at), str(test)) for at, test in map(json.loads, record.read_text().splitlines()))
        )
    print(told(found, rounds, seed, (time.time() - began) / 60))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
