"""Folders with inputs, and runs in processes of their own that can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pellucid.internal.cli.main import cli
from tests.sinks.postgres import Postgres, server_or_skip

ROOT = Path(__file__).parents[3]
PIPELINES = """\
from pellucid import Stream, apply, merge, pipeline


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")


@pipeline
def chain(x: Stream[int]) -> Stream[int]:
    even = x.map(lambda v: v * 3, id="a").filter(lambda v: v % 2 == 0, id="b")
    return even.cumulate(lambda t, v: t + v, start=0, id="c")


@pipeline
def diamond(x: Stream[int]) -> Stream[int]:
    left = x.filter(lambda v: v % 3 == 0, id="thirds")
    right = x.cumulate(lambda t, v: max(t, v), start=0, id="top").decimate(2, id="half")
    return merge(left, right, id="both")


@pipeline
def two(x: Stream[int], y: Stream[int]) -> Stream[int]:
    return merge(x.map(lambda v: v + 1, id="up"), y.trim(3, id="later"), id="both")


@pipeline
def pairs(x: Stream[int], y: Stream[int]) -> Stream[int]:
    return apply(lambda a, b: 1000 * a + b, x.decimate(3, id="some"), y, id="pair")
"""


class Runs:
    """Runs ``pellucid run`` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "p.py").write_text(PIPELINES)
        (folder / "x.jsonl").write_text("".join(f"{(i * 7919) % 1009}\n" for i in range(1000)))
        (folder / "y.jsonl").write_text("".join(f"{(i * 104729) % 997}\n" for i in range(730)))

    def command(self, *args: str, module: str = "pellucid.internal.cli.main") -> list[str]:
        return [sys.executable, "-m", module, "run", *args]

    def environment(self, faults: str = "") -> dict[str, str]:
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
        return {**os.environ, "PELLUCID_FAULTS": faults, "PYTHONPATH": path}

    def __call__(
        self, *args: str, faults: str = "", module: str = "pellucid.internal.cli.main"
    ) -> subprocess.CompletedProcess[str]:
        """In a process that can be killed; without faults in this one, which has loaded everything already."""
        if not faults and module == "pellucid.internal.cli.main":
            with contextlib.chdir(self.folder):
                done = CliRunner().invoke(cli, ["run", *args])
            return subprocess.CompletedProcess(args, done.exit_code, done.stdout, done.stderr)
        return subprocess.run(
            self.command(*args, module=module),
            env=self.environment(faults),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=600,
        )

    def start(self, *args: str, faults: str = "") -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*args),
            env=self.environment(faults),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def plain(self, *args: str, out: str = "plain.jsonl") -> bytes:
        """The output of the same pipeline without epochs; nobody kills it, so it runs in this process."""
        with contextlib.chdir(self.folder):
            done = CliRunner().invoke(cli, ["run", *args, "--out", out])
        assert done.exit_code == 0, done.output
        return self.read(out)

    def report(self, done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


@pytest.fixture
def until_done() -> Callable[..., list[subprocess.CompletedProcess[str]]]:
    """Give the same command again until it is done, as a user would; the faults stay armed."""

    def again(runs: Runs, *args: str, faults: str = "", most: int = 5) -> list[subprocess.CompletedProcess[str]]:
        done = []
        for _ in range(most):
            done.append(runs(*args, faults=faults))
            if done[-1].returncode == 0:
                return done
        raise AssertionError(f"not done after {most} runs: {done[-1].stderr}")

    return again


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A real PostgreSQL server for the tests of one file."""
    yield from server_or_skip()
