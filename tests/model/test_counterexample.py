"""Any machine has counterexamples: found by the one search, told in every form, replayed; and all can say no."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

import pytest

from pellucid import UsageError
from pellucid.internal.model import Run, Search, Verdict, follow

SOURCE = """\
class Jugs:
    def start(self):
        return (0, 0)

    def steps(self, at, *, failures=True):
        small, large = at
        pour, back = min(small, 5 - large), min(large, 3 - small)
        yield "fill small", (3, large)
        yield "fill large", (small, 5)
        yield "empty small", (0, large)
        yield "empty large", (small, 0)
        yield "small to large", (small - pour, large + pour)
        yield "large to small", (small + back, large - back)

    def see(self, at):
        return {"small": at[0], "large": at[1]}

    def complete(self, at):
        return True


jugs = Jugs()
"""
space: dict[str, object] = {}
exec(SOURCE, space)
jugs = space["jugs"]
WAY = ["fill large", "large to small", "empty small", "large to small", "fill large", "large to small"]


def found() -> Run:
    search: Search[tuple[int, int], str] = Search([jugs.start()], jugs.steps)  # type: ignore[attr-defined]
    end = next(at for at, _ in search if at[1] == 4)
    return Run((), tuple(search.way(end)), None, "four litres", jugs)  # type: ignore[arg-type]


def test_the_shortest_way_in_every_form() -> None:
    run = found()
    assert list(run.steps) == WAY and run.replay()
    lines = run.text(width=200).splitlines()
    assert lines[0].split() == ["step", "0", "1", "2", "3", "4", "5"] and lines[-1].endswith("^ four litres")
    assert [line.split()[0] for line in lines[1:4]] == ["fill", "small", "large"]
    picture = ET.fromstring(run.picture("never four litres"))
    assert picture.tag.endswith("svg") and "step 5: " in "".join(picture.itertext())
    document = json.loads(run.to_json())
    assert document["pellucid"] == 1 and document["counterexample"]["start"] == {"small": 0, "large": 0}
    assert document["counterexample"]["steps"][-1] == {"step": "large to small", "seen": {"small": 3, "large": 4}}
    verdict = Verdict("refuted", "never four litres", "explicit", 0.1, run)
    assert "four litres" in str(verdict) and "<svg" in verdict._repr_html_() and not verdict
    assert json.loads(verdict.to_json())["verdict"]["counterexample"] == document["counterexample"]


def test_a_way_that_the_machine_does_not_go() -> None:
    run = found()
    assert not dataclasses.replace(run, steps=("jump", *run.steps)).replay()
    with pytest.raises(UsageError, match="step 1: 'jump' is not possible there: 'fill small', 'fill large'"):
        follow(jugs, ["fill small", "jump"])  # type: ignore[arg-type]


def test_what_never_ends_and_what_is_no_mapping() -> None:
    class Light:
        def start(self) -> int:
            return 0

        def steps(self, at: int, *, failures: bool = True) -> Iterable[tuple[str, int]]:
            yield "tick", (at + 1) % 2

        def see(self, at: int) -> int:
            return at

        def complete(self, at: int) -> bool:
            return False

    text = str(Run((), ("tick", "tick"), 0, "", Light()))
    assert "from here on it repeats" in text and "seen" in text and "^" not in text


def test_the_case_runs_and_fails_on_another_machine(tmp_path: Path) -> None:
    (tmp_path / "water.py").write_text(SOURCE)
    text = found().as_pytest("never four litres", file=str(tmp_path / "water.py"), name="jugs", folder=str(tmp_path))
    (tmp_path / "test_water.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-c", "/dev/null", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert "1 passed" in done.stdout, done.stdout
    (tmp_path / "water.py").write_text(SOURCE.replace("min(large, 3 - small)", "min(large, 2 - small)"))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert "1 failed" in done.stdout, done.stdout
