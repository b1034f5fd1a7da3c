"""The public face: few names, each with a docstring and an example, and a light import."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pellucid

HEAVY = ("numpy", "numba", "pyarrow", "pandas", "pyspark", "z3", "click")


def test_the_public_names_are_few_and_documented() -> None:
    assert len(pellucid.__all__) <= 26
    assert sorted(pellucid.__all__) == list(pellucid.__all__)
    for name in pellucid.__all__:
        value = getattr(pellucid, name)
        assert inspect.getdoc(value), name


def test_every_function_has_an_example() -> None:
    functions = (
        pellucid.pipeline,
        pellucid.apply,
        pellucid.merge,
        pellucid.join,
        pellucid.as_of,
        pellucid.lookup,
        pellucid.iterate,
    )
    for thing in (*functions, pellucid.Pipeline, pellucid.Mod, pellucid.Windowed, pellucid.Late):
        assert ">>>" in (inspect.getdoc(thing) or ""), thing
    for name, method in inspect.getmembers(pellucid.Stream):
        if (inspect.isfunction(method) or name == "late") and not name.startswith("_"):
            assert ">>>" in (inspect.getdoc(method) or ""), name


def test_importing_pellucid_loads_nothing_heavy() -> None:
    code = f"import sys, pellucid, pellucid.check; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_importing_pellucid_loads_few_rooms() -> None:
    """No engine, no data, no search: those are loaded by what is done first.  Of the command line, what notes signals
    before anything else is loaded."""
    code = "import sys, pellucid; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    parts = [name.removeprefix("pellucid.internal.").removeprefix("pellucid.").split(".")[0] for name in loaded]
    rooms = {part for part, name in zip(parts, loaded, strict=True) if name.startswith("pellucid.")} - {"internal"}
    assert rooms == {"check", "cli", "errors", "expr", "graph", "pipeline", "secrets"}


ROOMS = [
    "pellucid.atomic", "pellucid.atomic.places", "pellucid.capacity", "pellucid.check", "pellucid.failures",
    "pellucid.progress", "pellucid.sinks", "pellucid.spark",
]  # fmt: skip


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_public_is_at_the_top_of_its_room(room: str) -> None:
    module = importlib.import_module(room)
    assert module.__all__ == sorted(module.__all__)
    for name in module.__all__:
        assert inspect.getdoc(getattr(module, name)), name
    with pytest.raises(AttributeError):
        _ = module.nothing


def test_the_rooms_load_no_solver_and_no_spark() -> None:
    code = f"import sys, {', '.join(ROOMS)}; print([m for m in ('numba', 'pyspark', 'z3') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_page_names_what_is_public_and_nothing_else() -> None:
    page = (Path(__file__).parent.parent / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    named = set(re.findall(r"pellucid\.(\w+)\.(\w+)(?![\w.])", page))
    assert ("spark", "read_csv") in named and ("failures", "crash_test") in named
    for room, name in named:
        assert name in importlib.import_module(f"pellucid.{room}").__all__, f"pellucid.{room}.{name}"


# where the calls of a section of the page are imported from
SECTIONS = {
    "Crashes": ("pellucid.failures",),
    "Graphs with times": ("pellucid.progress",),
    "The clock": ("pellucid.progress",),
    "Atomic failure": ("pellucid.atomic",),
    "Places": ("pellucid.atomic.places",),
    "Capacity": ("pellucid.capacity",),
    "On Spark": ("pellucid.spark", "pellucid.sinks"),
}


def _called(name: str, rooms: tuple[str, ...]) -> Any:
    """What a call on the page calls; None where it is a method of what another one gives."""
    from pellucid import Pipeline, Stream, check

    first, *rest = name.split(".")
    starts = {"x": Stream, "w": Stream, "p": Pipeline, "check": check, "pellucid": importlib.import_module("pellucid")}
    found = starts.get(first) if rest else None
    for room in rooms if found is None else ():
        found = found or getattr(importlib.import_module(room), first, None)
    for part in rest:
        at = getattr(found, "__name__", "")
        if found is not None and not hasattr(found, part) and f"{at}.{part}" in MODULES:
            importlib.import_module(f"{at}.{part}")
        found = getattr(found, part, None)
    return found


MODULES = {
    ".".join(file.relative_to(Path(pellucid.__file__).parents[1]).with_suffix("").parts).removesuffix(".__init__")
    for file in Path(pellucid.__file__).parent.rglob("*.py")
}


def test_the_page_calls_everything_as_it_is() -> None:
    """Parameters by their names, and their defaults."""
    page = (Path(__file__).parent.parent / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    rooms: tuple[str, ...] = ("pellucid",)
    checked, wrong = 0, []
    for line in page.splitlines():
        if line.startswith("#"):
            rooms = (*SECTIONS.get(line.lstrip("# "), ()), "pellucid")
        for name, given in re.findall(r"`([\w.]+)(\([^`]*\))`", line.split(" | ")[0]) if line.startswith("| `") else ():
            called = _called(name, rooms)
            text = given.replace("=…", "=...").replace("…", "*more")
            call = ast.parse(f"f{text}", mode="eval").body
            if called is None or not isinstance(call, ast.Call) or isinstance(call.func, ast.Attribute):
                continue
            known = inspect.signature(called).parameters
            for given_one in call.keywords:
                one = known.get(str(given_one.arg))
                said = ast.unparse(given_one.value)
                if one is None and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
                    wrong.append(f"{name} takes no {given_one.arg}")
                elif one is not None and isinstance(given_one.value, ast.Constant) and said != "...":
                    checked += 1
                    value = ast.literal_eval(said)
                    if one.default not in (value, inspect.Parameter.empty) and str(one.default) != str(value):
                        wrong.append(f"{name}: {given_one.arg} is {one.default} where nothing is said, not {said}")
    assert checked > 80 and not wrong, wrong
