"""The README's and the docs' own lines are run."""

from __future__ import annotations

import ast
import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pellucid import check

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md"])
LINKING = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_in_the_docs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")  # as wide as where there is no terminal
    failures, _ = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS, encoding="utf-8")
    assert failures == 0


def anchors(page: Path) -> set[str]:
    """The names under which a page's headings are linked to."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)", prose, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKING, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, place in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            there = page.parent / target if target else page
            assert there.exists(), f"{page.name} links to {target}"
            assert not place or place in anchors(there), f"{page.name} links to {target}#{place}"


def without_times(text: str) -> str:
    return re.sub(r"\(smt, [\d.]+ m?s\)", "(smt)", text)


def test_the_readme_says_what_comes_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Every `call   # result` in the README's Python blocks is true."""
    space: dict[str, object] = {"__name__": "readme"}
    checked = 0
    for block in blocks(ROOT / "README.md", "python"):
        if "pellucid.spark" in block:
            continue  # tests/spark/test_api.py runs this one
        exec(compile(block, "README.md", "exec", dont_inherit=True), space)
        for line in block.splitlines():
            match = re.match(r"^(?!print)(\S.*?)\s\s+# (?:push by push: )?(\[.*\]|True|False)", line)
            if match:
                assert eval(match[1], space) == eval(match[2])
                checked += 1
    printed = capsys.readouterr().out
    assert "x ─▶ filter v % 2 == 1 ─▶ cumulate total + v ─▶ out" in printed
    for block in blocks(ROOT / "README.md", "text"):  # as it is printed, but for how long it took
        assert without_times(block) in without_times(printed)
    assert "failed at push 2 on the event 0: ZeroDivisionError" in printed
    assert checked == 9


@pytest.mark.parametrize("kills", ["3", pytest.param("20", marks=pytest.mark.long)])
def test_the_readme_commands_run(tmp_path: Path, kills: str) -> None:
    """As they are printed; in every run with fewer kills."""
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    ran = 0
    for block in blocks(ROOT / "README.md", "sh"):
        for line in block.splitlines():
            command = shlex.split(line, comments=True)
            if command and command[0] == "pellucid":
                command = [
                    kills if before == "--kills" else word
                    for before, word in zip(["", *command], command, strict=False)
                ]
                subprocess.run(command, cwd=tmp_path, env=env, check=True, capture_output=True)
                ran += 1
            elif command and command[0] == "make":
                assert re.search(rf"^{command[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert ran == 6
    for made in ("totals.parquet", "totals.svg", "totals.csv", "run.svg"):
        assert (tmp_path / made).exists()


def test_every_question_says_what_proved_rests_on() -> None:
    page = (ROOT / "docs/explanation/checking.md").read_text(encoding="utf-8")
    table = page.split("\n## What *proved* rests on\n")[1].split("\n## ")[0]
    rows = "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("|"))
    questions = set()
    for file in (ROOT / "src/pellucid").rglob("*.py"):
        for found in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(found, ast.FunctionDef) and found.returns is not None and found.name[0] != "_":
                questions |= {found.name} if "Verdict" in ast.unparse(found.returns) else set()
    asked = {name for name in check.__all__ if name in questions}
    assert {"holds", "times", "failures", "atomic", "capacity"} <= asked
    assert {f"`check.{name}`" for name in asked} <= set(re.findall("`[^`]+`", rows))
