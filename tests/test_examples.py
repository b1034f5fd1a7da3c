"""Every example runs as a program and is short."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "examples").glob("*.py"))


def test_there_are_examples() -> None:
    assert {"seed001_appendix.py", "seed001_figures.py", "seed000_listing1.py"} <= {f.name for f in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_runs(file: Path, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "error", "NO_COLOR": "1"}
    done = subprocess.run([sys.executable, str(file)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() and not done.stderr


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_is_short_and_explains_itself(file: Path) -> None:
    text = file.read_text()
    assert text.startswith('"""')
    assert len(text.splitlines()) < 60


EXPECTED = """\
 E(10) -> 10.0
 E(20) -> 15.0
 Reset -> nothing
  E(5) -> 5.0
  E(7) -> 6.0
"""


def test_listing_1_prints_the_averages() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    file = ROOT / "examples" / "seed000_listing1.py"
    assert subprocess.run([sys.executable, str(file)], env=env, capture_output=True, text=True, check=True).stdout == EXPECTED
