"""``pellucid check FILE:NAME --failures``: what is told, and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Command = Callable[..., Result]

FILE = """\
import itertools

from pellucid import Stream, merge, pipeline

clock = itertools.count()


@pipeline
def totals(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")


@pipeline
def both(a: Stream[int], b: Stream[int]) -> Stream[int]:
    return merge(a, b, id="both").cumulate(lambda t, v: 2 * t + v, start=0, id="sum")


@pipeline
def stamped(x: Stream[int]) -> Stream[int]:
    return x.task(lambda state, v: (state, [next(clock)]), 0, to=int, id="stamp")
"""


@pytest.fixture
def shop(tmp_path: Path) -> str:
    (tmp_path / "shop.py").write_text(FILE)
    return str(tmp_path / "shop.py")


def test_bounded(pellucid: Command, shop: str) -> None:
    done = pellucid("check", f"{shop}:totals", "--failures", "--crashes", "1")
    assert done.exit_code == 3
    assert done.stdout.startswith(
        "bounded  totals: failures: crashes cannot be seen (aligned, transactional sink, replayable source): nothing "
        "found in an input of 2 epochs of 2 events each (made up), with at most 1 crash"
    )
    enough = pellucid("check", f"{shop}:totals", "--failures", "--crashes", "1", "--bounded-is-enough")
    assert enough.exit_code == 0 and enough.stdout.startswith("bounded")


def test_refuted(pellucid: Command, shop: str) -> None:
    done = pellucid("check", f"{shop}:totals", "--failures", "--sink", "append", "--epochs", "1", "--events", "1")
    assert done.exit_code == 1
    assert "2  sum crashes" in done.stdout
    assert "no failure-free execution shows this: sum: 1, 1" in done.stdout


def test_spark_with_an_order_that_may_change(pellucid: Command, shop: str) -> None:
    asked = ("check", f"{shop}:both", "--failures", "--events", "1", "--crashes", "1")
    assert pellucid(*asked, "--bounded-is-enough").exit_code == 0
    done = pellucid(*asked, "--protocol", "microbatch")
    assert done.exit_code == 1 and "SINK batch 1: was written before" in done.stdout


def test_a_clock(pellucid: Command, shop: str) -> None:
    done = pellucid("check", f"{shop}:stamped", "--failures", "--events", "1", "--crashes", "1")
    assert done.exit_code == 3 and "uses the iterator 'clock', which it did not make" in done.stdout


def test_unknown(pellucid: Command, shop: str) -> None:
    done = pellucid("check", f"{shop}:both", "--failures", "--max-states", "20")
    assert done.exit_code == 3
    assert "not decided: this is no proof" in done.stdout and "the limit of 20 states was reached" in done.stdout


def test_json_and_pictures(pellucid: Command, shop: str, tmp_path: Path) -> None:
    done = pellucid(
        "check",
        f"{shop}:totals",
        "--failures",
        "--source",
        "not-replayable",
        "--json",
        "--svg",
        str(tmp_path / "pictures"),
    )
    (result,) = json.loads(done.stdout)["results"]
    assert done.exit_code == 1 and result["status"] == "refuted"
    assert result["counterexample"]["kind"] == "not explained"
    assert "F-RECOVER" in result["counterexample"]["steps"]
    assert (tmp_path / "pictures" / "totals_failures.svg").read_text().startswith("<svg")


def test_a_test_is_written_for_a_crash(pellucid: Command, shop: str, tmp_path: Path) -> None:
    done = pellucid(
        "check", f"{shop}:totals", "--failures", "--sink", "append", "--pytest", str(tmp_path / "test_found.py")
    )
    assert done.exit_code == 1 and done.stderr == ""
    assert "example = check.failures(totals, sink='append'" in (tmp_path / "test_found.py").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sink", "append"], "--sink belongs to --failures"),
        (["--failures", "--sink", "file"], "--sink takes transactional, idempotent, append, found 'file'"),
        (["--failures", "--protocol", "abs"], "--protocol takes aligned, unaligned, microbatch, found 'abs'"),
        (["--failures", "--source", "socket"], "--source takes replayable, not-replayable, found 'socket'"),
        (["--failures", "--ints", "mod:4"], "--ints does not go with it"),
        (["--failures", "--property", "AG EF out"], "--property does not go with it"),
    ],
)
def test_bad_options(pellucid: Command, shop: str, options: list[str], message: str) -> None:
    done = pellucid("check", f"{shop}:totals", *options)
    assert done.exit_code == 2 and message in done.stderr


def test_two_pipelines(pellucid: Command, shop: str) -> None:
    done = pellucid("check", f"{shop}:totals", f"{shop}:both", "--failures")
    assert done.exit_code == 2 and "--failures asks about one pipeline, found 2" in done.stderr
