"""The house: imports go one way, also those inside functions; no room is too full; every room is on the map."""

from __future__ import annotations

import ast
import functools
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.conftest import KILLED, SLOW
from tests.thinned import ONE_IN

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "pellucid"

# What stands further left knows nothing of what stands further right (docs/architecture.md has the picture).
ORDER = [
    "secrets", "errors", "address", "base", "expr", "graph", "draw", "data", "request", "load", "model", "solve",
    "sinks", "progress", "capacity", "atomic", "engine", "failures", "check", "spark", "export",
    "pipeline", "cli", "__main__",
]  # fmt: skip
MOST = 22  # modules in a folder: more files of one story each, and fewer folders within folders


def imported(file: Path) -> Iterator[tuple[int, str]]:
    """The rooms that a module imports from, and the lines; what only the type checker reads does not count."""
    try:
        yield from imports_of(file.read_text(encoding="utf-8"))
    except AssertionError as error:
        raise AssertionError(f"{file}:{error}") from None


def room_of(parts: Sequence[str]) -> str:
    """The room of a module, by its path from ``pellucid`` on."""
    return parts[1] if parts[0] == "internal" and len(parts) > 1 else parts[0]


@functools.cache
def imports_of(text: str) -> list[tuple[int, str]]:
    tree, found = ast.parse(text), []
    types_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for body in node.body
        for inner in ast.walk(body)
    }
    for node in ast.walk(tree):
        if id(node) in types_only:
            continue
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{node.lineno}: write the whole name of what is imported")
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "pellucid":
            whole = node.module == "pellucid"
            names = [f"pellucid.{alias.name}" for alias in node.names] if whole else [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("pellucid.")]
        for name in names:
            room = room_of(name.split(".")[1:])
            if room in ORDER or not room.startswith("_"):
                found.append((node.lineno, room))
    return found


def upward(source: Path) -> list[str]:
    """Imports of what stands above."""
    wrong = []
    for file in sorted(source.rglob("*.py")):
        parts = file.relative_to(source).with_suffix("").parts
        if parts[-1] == "__init__" and len(parts) <= (2 if parts[0] == "internal" else 1):  # the public face of all
            continue
        own = room_of(parts)
        for line, room in imported(file):
            if room in ORDER and ORDER.index(room) > ORDER.index(own):
                wrong.append(f"{'/'.join(parts)}.py:{line}: {own} imports {room}")
    return wrong


def test_imports_go_one_way() -> None:
    assert upward(SOURCE) == []


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("internal/graph", "from pellucid.internal.engine.interpreter import Interpreter"),
        ("internal/data", "import pellucid.check.questions"),
    ],
)
def test_a_planted_import_is_found(tmp_path: Path, room: str, line: str) -> None:
    shutil.copytree(SOURCE, tmp_path / "pellucid", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "pellucid" / room / "planted.py").write_text(f"def later() -> None:\n    {line}\n")
    (found,) = upward(tmp_path / "pellucid")
    assert found.startswith(f"{room}/planted.py:2: {Path(room).name} imports ")


def inside() -> list[Path]:
    """What lies at the top, and what lies behind it."""
    return [p for folder in (SOURCE, SOURCE / "internal") for p in folder.iterdir() if p.name != "internal"]


def test_every_module_has_its_place() -> None:
    rooms = {p.stem for p in inside() if (p.suffix == ".py" or (p / "__init__.py").exists())}
    assert rooms - {"__init__"} == set(ORDER) & rooms, "a new room needs a place in ORDER and in docs/architecture.md"
    full = {
        str(folder.relative_to(SOURCE)): count
        for folder in SOURCE.rglob("*")
        if folder.is_dir() and (count := len(list(folder.glob("*.py")))) > MOST
    }
    assert full == {}, "make rooms of it"


def test_every_room_is_on_the_map() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = {
        f"{p.relative_to(SOURCE)}/" if p.is_dir() else str(p.relative_to(SOURCE))
        for p in inside()
        if (p.suffix == ".py" or p.is_dir()) and p.stem not in ("__init__", "__main__", "__pycache__")
    }
    assert {room for room in rooms if f"](../src/pellucid/{room})" not in page} == set()


@pytest.mark.parametrize("file", sorted((ROOT / "bench").glob("*.py")), ids=lambda file: file.stem)
def test_a_measurement_finds_the_tests_that_it_uses(file: Path) -> None:
    """``python bench/X.py`` has only the folder bench/ to import from: the project's is put before it."""
    reached = False
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        text = ast.unparse(node)
        reached = reached or (text.startswith("sys.path.insert") and "parents[1]" in text)
        assert reached or not text.startswith(("from tests", "import tests")), f"{file.name}:{node.lineno}: {text}"


@pytest.mark.parametrize("file", ["sinks/group/test_faults.py", "atomic/places/test_classic_faults.py"])
def test_the_tables_of_classic_faults_name_tests_that_are_there(file: str) -> None:
    """Which test is about which fault; a name without a file is in the same file, or in the one that was named last."""
    tests = Path(__file__).parent
    own = last = tests / file
    table = own.read_text().split("\n=====")[2]
    named = re.findall(r"`(?:([\w/]+\.py)(?:::)?)?(test_\w+(?!\.py)…?)?`", table)
    assert len(named) > 20
    for where, name in named:
        if where:
            last = next(path for path in (own.parent / where, tests / where) if path.exists())
        begins = f"def {name.removesuffix('…')}" + ("" if name.endswith("…") else "(")
        assert not name or any(begins in place.read_text() for place in (own, last)), f"{file}: there is no {name}"


def test_the_glossary_is_kept() -> None:
    """The words in the left column of its last table stand in no module of the package and on no page."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    table = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition("## Words that are not used")[2]
    words = [word.strip() for row in re.findall(r"^\| ([a-z, ]+) \|", table, re.M)[1:] for word in row.split(",")]
    assert len(words) > 8
    banned = re.compile(rf"(?<![\"'\w])(?:{'|'.join(words)})(?!\w)", re.IGNORECASE)
    files = [*SOURCE.rglob("*.py"), *(page for page in pages if page.name != "glossary.md")]
    found = [
        f"{file.relative_to(ROOT)}:{at}: {match[0]}"
        for file in files
        for at, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if (match := banned.search(line))
    ]
    assert found == []


def test_the_tables_of_marks_name_tests_that_are_there() -> None:
    """A file that was renamed would lose its mark, and a test its share, in silence."""
    gone = [file for file in (*SLOW, *KILLED) if not (ROOT / file).exists()]
    for test in ONE_IN:
        file, _, name = test.partition("::")
        if not (ROOT / file).exists() or f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8"):
            gone.append(test)
    assert gone == []
