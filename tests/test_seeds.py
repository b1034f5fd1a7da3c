"""Every run is the same run, and a hunt is another one."""

from __future__ import annotations

import ast
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import hunt, seeds
from tests.thinned import ONE_IN

HERE = Path(__file__).parent
EXAMPLE = """
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.seeds import seeds

SEEN = []

@settings(max_examples=20)
@given(st.integers(), st.text())
def test_drawn(n, s):
    SEEN.append((n, s))
    assert n < 10**6 or {fine}

@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(3))
def test_seeded(seed):
    SEEN.append(seed)

@pytest.mark.seeded
def test_last(capfd):
    with capfd.disabled():
        print("\\ndrawn", ascii(SEEN))
"""


WORDS = ("Random", "random", "secrets", "settings")  # one of them is in whatever is looked for


def calls(file: Path) -> Iterator[tuple[int, str, ast.Call]]:
    text = file.read_text()
    if not any(word in text for word in WORDS):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield node.lineno, ast.unparse(node.func), node


def test_no_test_draws_from_anywhere_else() -> None:
    """A generator has a seed, and nothing but its examples is said of a test of Hypothesis."""
    wrong = []
    for file in sorted(HERE.rglob("*.py")):
        if file.name in (
            "seeds.py",
            "hunt.py",
            "test_protocols.py",
        ):  # the last has tasks that draw, and sets their seed
            continue
        for line, name, call in calls(file):
            unseeded = (
                name in ("random.Random", "Random", "np.random.default_rng", "numpy.random.default_rng")
                and not call.args
            )
            shared = name in ("random.choice", "random.sample", "random.shuffle", "random.seed") or name.startswith(
                ("np.random.rand", "secrets.")
            )
            other = name == "settings" and {k.arg for k in call.keywords} & {"derandomize", "database", "deadline"}
            if unseeded or shared or other:
                wrong.append(f"{file.relative_to(HERE)}:{line}: {ast.unparse(call)}")
    assert wrong == []


@pytest.mark.skipif(seeds.HUNT is not None, reason="a hunt is not the same run every time")
def test_the_profile_is_loaded() -> None:
    assert settings.get_current_profile_name() == "fixed"
    assert (settings.default.derandomize, settings.default.database, settings.default.deadline) == (True, None, None)


def run(folder: Path, fine: bool, *args: str, hash_seed: str = "0", **more: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text("from tests.conftest import *")
    (folder / "test_example.py").write_text(EXAMPLE.replace("{fine}", str(fine)))
    path = os.pathsep.join([str(HERE.parent / "src"), str(HERE.parent)])
    environment = (
        {k: v for k, v in os.environ.items() if not k.startswith(("PELLUCID_HUNT", "PYTEST_"))}
        | {"PYTHONPATH": path, "PYTHONHASHSEED": hash_seed}
        | more
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        str(HERE.parent / "pyproject.toml"),
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        *args,
    ]
    return subprocess.run([*command, str(folder)], env=environment, capture_output=True, text=True, timeout=600)


def drawn(done: subprocess.CompletedProcess[str]) -> str:
    return next(line for line in done.stdout.splitlines() if line.startswith("drawn "))


def test_what_is_drawn_depends_on_nothing_but_the_seed(tmp_path: Path) -> None:
    """Not on the hash seed, nor on the modules that other tests have loaded; a hunt draws something else, and puts what
    it finds on record."""
    (tmp_path / "test_before.py").write_text(
        "CONSTANTS = [123456789, 'a text of a module that is loaded before']\ndef test_before():\n    pass\n"
    )
    one = run(tmp_path, True, hash_seed="1")
    two = run(tmp_path, True, "--deselect", "test_before.py::test_before", "-p", "tests.crash.pipelines", hash_seed="2")
    assert "6 passed" in one.stdout and drawn(one) == drawn(two)
    record = tmp_path / "found"
    other = run(
        tmp_path, False, "-m", hunt.RANDOM, "--hypothesis-seed=7", PELLUCID_HUNT="7", PELLUCID_HUNT_FOUND=str(record)
    )
    assert other.returncode == 1 and "1 failed, 4 passed, 1 deselected" in other.stdout, other.stdout
    assert "7000001" in drawn(other) and drawn(other) != drawn(one)
    assert [json.loads(line) for line in record.read_text().splitlines()] == [[7, "test_example.py::test_drawn"]]


def test_what_is_left_when_the_time_is_over_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    hunt.Hunting(1).pytest_runtest_setup()
    monkeypatch.setenv(hunt.UNTIL, "0")
    with pytest.raises(pytest.skip.Exception, match="the time is over"):
        hunt.Hunting(1).pytest_runtest_setup()


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[int, list[str], int]] = []

    def a_round(seed: int, until: float, found: Path, only: list[str], processes: int) -> bool:
        asked.append((seed, only, processes))
        if seed == 12:
            found.write_text('[12, "tests/a.py::test_b"]\n')
            monkeypatch.setattr(hunt.time, "time", lambda: until + 1)
        return True

    monkeypatch.setattr(hunt, "a_round", a_round)
    monkeypatch.setattr(sys, "argv", ["hunt", "--seed", "11", "--minutes", "1"])
    assert hunt.main() == 1 and asked == [(11, [], 2), (12, [], 2)]
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "hunting with seed 11" and said[-2:] == [
        "2 rounds in 1.0 minutes, seeds 11 to 12: 1 test failed",
        "  make hunt SEED=12 ONLY='tests/a.py::test_b'",
    ]
    monkeypatch.setattr(sys, "argv", ["hunt", "--seed", "3", "tests/a.py::test_b"])
    assert hunt.main() == 0 and asked[-1] == (3, ["tests/a.py::test_b"], 2)
    monkeypatch.setattr(hunt, "a_round", lambda *_: False)
    assert hunt.main() == 2 and "could not be run with seed 3" in capsys.readouterr().err


def test_what_every_run_has_only_a_part_of_is_there() -> None:
    for test in ONE_IN:
        file, _, name = test.partition("::")
        assert f"\ndef {name}(" in (HERE.parent / file).read_text(), f"{test}: no such test; correct tests/thinned.py"


def test_without_xdist_every_test_can_still_be_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shares the tests among processes, and nothing else: who has only pytest runs them one after the other."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "xdist"] + ["xdist", "tests.one_spark"]:
        monkeypatch.setitem(sys.modules, name, None)
    runpy.run_path(str(HERE / "conftest.py"))
