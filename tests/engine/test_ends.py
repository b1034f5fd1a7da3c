"""A function that would end the program does not end it as if all were done."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pellucid import StepError, pipeline
from pellucid.cli.main import cli

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
