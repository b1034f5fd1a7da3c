"""Two files in two folders, each with neighbours of its own: ``pellucid check old/p.py:p new/p.py:p``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Command = Callable[..., Result]

TOP = """\
from rates import TIMES
from pellucid import Stream, pipeline


@pipeline
def p(x: Stream[int]) -> Stream[int]:
    return x.map(lambda v: TIMES * v)
"""
LATER = """\
from pellucid import Stream, pipeline


def f(v: int) -> int:
    from rates import TIMES

    return TIMES * v


@pipeline
def p(x: Stream[int]) -> Stream[int]:
    return x.map(f)
"""


def two(folder: Path, text: str, times: tuple[int, int]) -> list[str]:
    for name, value in zip(("old", "new"), times, strict=True):
        (folder / name).mkdir()
        (folder / name / "p.py").write_text(text)
        (folder / name / "rates.py").write_text(f"TIMES = {value}\n")
    return ["check", "old/p.py:p", "new/p.py:p", "--equivalent", "step"]


@pytest.mark.parametrize(("times", "status"), [((2, 2), "proved"), ((2, 3), "refuted")])
def test_each_has_its_own_neighbour(pellucid: Command, folder: Path, times: tuple[int, int], status: str) -> None:
    result = pellucid(*two(folder, TOP, times))
    assert result.stdout.startswith(status), result.stderr


def test_a_package_beside_a_file(pellucid: Command, folder: Path) -> None:
    command = two(folder, TOP.replace("from rates", "from shop.rates"), (2, 3))
    for name in ("old", "new"):
        (folder / name / "shop").mkdir()
        (folder / name / "shop" / "__init__.py").touch()
        (folder / name / "rates.py").rename(folder / name / "shop" / "rates.py")
    assert pellucid(*command).stdout.startswith("refuted")


def test_a_neighbour_that_only_one_has_is_shared(pellucid: Command, folder: Path) -> None:
    command = two(folder, "import enum\nfrom kinds import Kind\n" + TOP, (2, 3))
    for name in ("old", "new"):
        (folder / name / "kinds.py").write_text("import enum\nKind = enum.Enum('Kind', 'A B')\n")
    (folder / "new" / "kinds.py").unlink()
    assert pellucid(*command).stdout.startswith("refuted")


def test_an_import_when_it_is_called_is_refused(pellucid: Command, folder: Path) -> None:
    result = pellucid(*two(folder, LATER, (2, 3)))
    old, new = (folder.resolve() / name / "rates.py" for name in ("old", "new"))
    assert result.exit_code == 2
    assert f"f() imports rates when it is called, and there are two: {old} and {new}: " in result.stderr
    assert result.stderr.rstrip().endswith("import it at the top of the file")


def test_so_it_is_where_both_are_loaded(pellucid: Command, folder: Path) -> None:
    both = LATER.replace("from pellucid", "import rates\nfrom pellucid", 1)
    result = pellucid(*two(folder, both, (2, 3)))
    assert result.exit_code == 2 and "there are two" in result.stderr


def test_one_folder_has_one_of_each(pellucid: Command, folder: Path) -> None:
    two(folder, LATER, (2, 3))
    result = pellucid("check", "old/p.py:p", "old/p.py:p", "--equivalent", "step")
    assert result.stdout.startswith("proved"), result.stderr
