"""Mutants of the compiled transitions: one line of them is changed, and the judges must find it out.

Each is compiled anew, which takes a while: they are among the long tests.
"""

# ruff: noqa: E501 - a line of the source and what comes in its place stand beside each other
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
COMPILED = Path("src/pellucid/capacity/zones/compiled")

# the module, what stands there, what comes in its place
MUTANTS = {
    "a spout emits at its gap": ("urgent", "spout + 1, -2 * numbers(c[y.GAP])[spout]", "spout + 1, -2 * numbers(c[y.GAP])[spout] + 1"),
    "takes are forgotten": ("urgent", "taken = min(length, workers[o] - busy)", "taken = min(length, 1)  * (busy == 0)"),
    "the rest of a ratio is lost": ("urgent", "t[at + y.DUE] = due %", "t[at + y.DUE] = 0 * due %"),
    "time passes beyond an end": ("urgent", "2 * numbers(c[y.TIME])[o] + 1", "2 * numbers(c[y.TIME])[o] + 3"),
    "time stops before an end": ("urgent", "2 * numbers(c[y.TIME])[o] + 1", "2 * numbers(c[y.TIME])[o]"),
    "a clock forgets too much": ("matrix", "m[i * n + j] > 2 * gap[s] + 1", "m[i * n + j] > 0"),
}  # fmt: skip

SCRIPT = """
from tests.capacity.zones.judges import Tally, judge, small
tally, caught = Tally(), ""
for number in range(200):
    for semantics in ("urgent", "literal"):
        try:
            judge(*small(number, semantics=semantics), tally)
        except Exception as wrong:
            caught = f"{number}: {type(wrong).__name__}: {wrong}"
        caught = caught or (tally.wrong[0] if tally.wrong else "")
    if caught:
        break
print(caught or "not caught")
"""


def said_of(mutant: str, folder: Path) -> str:
    module, old, new = MUTANTS[mutant]
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / COMPILED / f"{module}.py"
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{mutant}: the line is not there once"
    file.write_text(text.replace(old, new), encoding="utf-8")
    given = {**os.environ, "PYTHONPATH": f"{folder / 'src'}:{ROOT}", "NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=given, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_lines_are_there() -> None:
    for mutant, (module, old, _) in MUTANTS.items():
        assert (ROOT / COMPILED / f"{module}.py").read_text(encoding="utf-8").count(old) == 1, mutant


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_found_out(mutant: str, tmp_path: Path) -> None:
    said = said_of(mutant, tmp_path)
    print(f"{mutant}: {said[:100]}")
    assert said != "not caught"
