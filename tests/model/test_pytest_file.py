"""Counterexamples as tests: each is written, run by a pytest of its own, and fails once the pipeline changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pellucid import UsageError, check
from pellucid.internal.load import _load_path
from pellucid.internal.model.pytest_file import Case, pytest_file, slug
from pellucid.internal.model.verdict import Verdict

SOURCE = """\
import enum
from dataclasses import dataclass

from pellucid import Stream, apply, pipeline


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Order:
    color: Color
    cents: int


@pipeline
def thirds(x: Stream[int]) -> Stream[int]:
    return apply(lambda a, b: a + b, x.decimate(3), x, id="sum")


@pipeline
def late(x: Stream[int]) -> Stream[int]:
    return x.trim(1)


@pipeline
def later(y: Stream[int]) -> Stream[int]:
    return y.trim(2)


@pipeline
def ratio(o: Stream[Order], engine: Stream[bool]) -> Stream[int]:
    return apply(lambda a, b: 10 // a.cents if b else 1, o, engine, id="ratio")


@pipeline
def colors(o: Stream[Order]):
    return {"reds": o.filter(lambda v: v.color == Color.RED), "all": o}
"""


def questions(m: Any) -> dict[str, tuple[Verdict, tuple[str, ...]]]:
    return {
        "full": (check.holds(m.thirds, "!EF full"), ("thirds",)),
        "lasso": (check.holds(m.thirds, "G (x -> F out)"), ("thirds",)),
        "step": (check.equivalent(m.late, m.later), ("late", "later")),
        "sequence": (check.equivalent(m.late, m.later, how="sequence", ints=range(2)), ("late", "later")),
        "fails": (check.holds(m.ratio, "!EF failed"), ("ratio",)),
        "records": (check.holds(m.colors, "AG !reds", ints=range(2)), ("colors",)),
    }


def run(folder: Path, *files: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-c", "/dev/null", *files]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a file puts its folder first: that must not stay, above all not for one called queue.py."""
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_the_tests_run_and_see_a_change(tmp_path: Path) -> None:
    """For files of all kinds of names: one after the other in a folder of its own, and the tests of all in one
    pytest."""
    sources, tests, count = [], [], 0
    for file in ("shop.py", "my-shop.py", "queue.py"):
        folder = tmp_path / file.removesuffix(".py")
        (folder / "src").mkdir(parents=True)
        (folder / "tests").mkdir()
        source = folder / "src" / file
        source.write_text(SOURCE)
        module = _load_path(str(source))
        asked = questions(module)
        assert all(verdict.refuted for verdict, _ in asked.values())
        cases = [
            Case(v.counterexample, v.question, (str(source),), names) for v, names in asked.values() if v.counterexample
        ]
        found = folder / "tests" / f"test_found_{len(tests)}.py"
        found.write_text(pytest_file(cases, folder=str(folder / "tests")))
        sources, tests, count = [*sources, source], [*tests, str(found.relative_to(tmp_path))], count + len(cases)
    result = run(tmp_path, *tests)
    assert result.returncode == 0 and f"{count} passed" in result.stdout, result.stdout + result.stderr

    for source in sources:
        source.write_text(
            SOURCE.replace("trim(2)", "trim(1)").replace("decimate(3)", "decimate(1)").replace("10 //", "10 +")
        )
    result = run(tmp_path, *tests)
    assert "15 failed, 3 passed" in result.stdout, result.stdout + result.stderr


def test_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    verdict, names = questions(_load_path("shop.py"))["lasso"]
    example = verdict.counterexample
    assert example is not None
    assert example.as_pytest(verdict.question, file="shop.py", name=names[0], folder="tests") == (
        """\
# Written by Pellucid: what refuted the properties below, run on the real engine.
import importlib.util
import sys
from pathlib import Path

from pellucid import silent

sys.path.append(str(Path(__file__).parent / ".."))

_spec = importlib.util.spec_from_file_location("user_shop", Path(__file__).parent / ".." / "shop.py")
user_shop = sys.modules["user_shop"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(user_shop)
thirds = user_shop.thirds


def test_thirds_G_x_F_out() -> None:
    # Broken: G (x -> F out)
    # On every run, in every step, if x carries an event, then in that step or a later one out carries an event.
    # What is after the + is pushed again and again; here 3 times.
    x = [0, 0] + 3 * [silent]
    assert thirds.trace(x) == [[0], [], [], [], []]
    engine = thirds.engine()
    engine.push(x)
    assert engine.queues == {"sum.0": 0, "sum.1": 1}
"""
    )


def test_two_tests_never_have_one_name(tmp_path: Path) -> None:
    (tmp_path / "shop2.py").write_text(SOURCE)
    verdict, names = questions(_load_path(str(tmp_path / "shop2.py")))["full"]
    assert verdict.counterexample is not None
    case = Case(verdict.counterexample, verdict.question, ("shop2",), names)
    text = pytest_file([case, case])
    assert "def test_thirds_EF_full() -> None:" in text and "def test_thirds_EF_full_2() -> None:" in text
    with pytest.raises(UsageError, match=r"a test of 1 pipeline\(s\) needs as many names, found \(\)"):
        pytest_file([Case(verdict.counterexample, "!EF full", ("shop2",), ())])


def test_slugs() -> None:
    assert slug("a: G (x -> F ö)") == "a_G_x_F" and slug("!!") == "property" and len(slug("x" * 200)) == 60
