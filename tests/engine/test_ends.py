"""A function that would end the program does not end it as if all were done; it fails, as with any exception."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from pellucid import StepError, pipeline
from pellucid.internal.cli.main import cli
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.types import INT

FILE = """import sys
from pellucid import Stream, pipeline


@pipeline
def some(x: Stream[int]) -> Stream[int]:
    return x.map(lambda v: sys.exit(0) if v > 1 else v, to=int)
"""


@pytest.mark.parametrize("mode", ["python", "auto"])
def test_an_exit_is_a_failure_of_its_step(mode: str) -> None:
    p = pipeline(lambda x: x.map(lambda v: sys.exit(0) if v > 1 else v, to=int, id="some"), x=int)
    with pytest.raises(StepError, match=r"step 'some' .* failed at push 1 on the event 2: SystemExit: 0"):
        p.engine(mode=mode).push([1, 2, 3])
    with pytest.raises(StepError, match="SystemExit"):
        p.trace([1, 2, 3])


def test_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(FILE)
    (tmp_path / "in.csv").write_text("x\n1\n2\n3\n")
    done = CliRunner().invoke(
        cli, ["run", f"{tmp_path}/p.py:some", "--in", f"{tmp_path}/in.csv", "--out", f"{tmp_path}/out.csv"]
    )
    assert done.exit_code == 2, done.output
    assert "SystemExit: 0" in done.output
    assert not (tmp_path / "out.csv").exists()


class Stop(BaseException):
    pass


def cancelled(v: int) -> int:
    if v > 1:
        raise asyncio.CancelledError("late")
    return v


def closed(v: int) -> int:
    if v > 1:
        raise GeneratorExit("late")
    return v


def stopped(v: int) -> int:
    if v > 1:
        raise Stop("late")
    return v


@pytest.mark.parametrize("f", [cancelled, closed, stopped, lambda v: int(str(stopped(v)))])
@pytest.mark.parametrize("mode", ["python", "auto"])
def test_what_is_no_exception_is_a_failure_of_its_step(f: Callable[[int], int], mode: str) -> None:
    p = pipeline(lambda x: x.map(f, to=int, id="some"), x=int)
    with pytest.raises(StepError, match=r"step 'some' .* failed at push 1 on the event 2: \w+: late"):
        p.engine(mode=mode).push([1, 2, 3])


def test_what_is_no_exception_is_traced() -> None:
    traced = Function.make(stopped, (INT,)).traced
    assert traced is not None and traced.raises == ("Stop: late",)


def test_what_is_no_exception_with_epochs(tmp_path: Path) -> None:
    fail = "\n\ndef fail():\n    raise GeneratorExit('late')\n\n\n@pipeline"
    (tmp_path / "p.py").write_text(FILE.replace("sys.exit(0)", "fail()").replace("\n\n@pipeline", fail))
    (tmp_path / "in.csv").write_text("x\n1\n2\n3\n")
    files = ["--in", f"{tmp_path}/in.csv", "--out", f"{tmp_path}/out.csv"]
    epochs = ["--pushes", "2", "--state", f"{tmp_path}/state"]
    done = CliRunner().invoke(cli, ["run", f"{tmp_path}/p.py:some", *files, *epochs])
    assert done.exit_code == 2, done.output
    assert "step 'map-" in done.output and "GeneratorExit: late" in done.output
