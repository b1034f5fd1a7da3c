"""Counterexamples as tests: a file that pytest runs, with what it has to import from the user's own files.

A test says what **does** happen, so it passes now; once the pipeline is fixed it fails, and is turned round.  Its
lines come from the counterexample (`model.counterexample.Counterexample.test`).
"""

from __future__ import annotations

import datetime
import enum
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pellucid.internal.draw.labels import clean
from pellucid.internal.model.sheet import event_fields

if TYPE_CHECKING:
    from pellucid.internal.model.counterexample import Counterexample


@dataclass(frozen=True)
class Case:
    """A counterexample, what it refutes, and where each of its pipelines can be imported from."""

    example: Counterexample
    question: str
    files: tuple[str, ...]  # a path, or a module's dotted name
    names: tuple[str, ...]
    test: str = ""


@dataclass
class Imports:
    """The names that the tests need: ``names[file]`` in the order they were asked for."""

    names: dict[str, list[str]] = field(default_factory=dict)
    tools: set[str] = field(default_factory=set)  # names of pellucid's own, and pytest
    ours: set[str] = field(default_factory=set)  # other imports of pellucid's
    standard: set[str] = field(default_factory=set)  # whole lines

    def need(self, file: str, name: str) -> None:
        found = self.names.setdefault(file, [])
        if name not in found:
            found.append(name)


def slug(text: str) -> str:
    """A text as a name: of a test, of a file.

    >>> slug("sum_of_odds: AG EF out"), slug("!EF full")
    ('sum_of_odds_AG_EF_out', 'EF_full')
    """
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")[:60].rstrip("_") or "property"


def pytest_file(cases: Sequence[Case], *, folder: str = ".") -> str:
    """One file with a test for each case."""
    imports = Imports()
    taken: set[str] = set()
    bodies = [_test(case, imports, taken) for case in cases]
    return "\n\n".join([_head(imports, folder), *bodies])


def _head(imports: Imports, folder: str) -> str:
    standard, ours, users = set(imports.standard), [], []
    paths = {f: is_path(f) for f in imports.names}
    if any(paths.values()):
        standard |= {"import importlib.util", "import sys", "from pathlib import Path"}
    if "pytest" in imports.tools:
        ours.append("import pytest\n")
    if imports.tools - {"pytest"}:
        ours.append(f"from pellucid import {', '.join(sorted(imports.tools - {'pytest'}))}")
    ours += sorted(imports.ours)
    folders: list[str] = []
    loaded = 0
    for file, names in imports.names.items():
        if not paths[file]:
            users.append(f"from {file} import {', '.join(names)}")
            continue
        where = os.path.relpath(os.path.dirname(os.path.abspath(file)), os.path.abspath(folder)).replace(os.sep, "/")
        here = "Path(__file__).parent" + ("" if where == "." else f" / {json.dumps(where)}")
        # By its path, and the folder last: the file may have the name of another module, and may import its neighbours.
        line = f"sys.path.append(str({here}))"
        if line not in folders:
            folders.append(line)
        stem = re.sub(r"\W", "_", os.path.splitext(os.path.basename(file))[0])
        module = f"user_{stem}" + (f"_{loaded}" if loaded else "")
        loaded += 1
        path = f"{here} / {json.dumps(os.path.basename(file))}"
        users.append(f'_spec = importlib.util.spec_from_file_location("{module}", {path})')
        users.append(f'{module} = sys.modules["{module}"] = importlib.util.module_from_spec(_spec)')
        users.append(f"_spec.loader.exec_module({module})")
        users += [f"{name} = {module}.{name}" for name in names]
    first = sorted(standard, key=lambda line: (line.startswith("from"), line))
    groups = ["\n".join(lines) for lines in (first, ours, folders, users)]
    comment = "# Written by Pellucid: what refuted the properties below, run on the real engine."
    return comment + "\n" + "\n\n".join(g for g in groups if g) + "\n"


def is_path(file: str) -> bool:
    return file.endswith(".py") or os.sep in file or os.path.exists(file)


def _test(case: Case, imports: Imports, taken: set[str]) -> str:
    base = name = case.test or "test_" + slug(f"{'_'.join(dict.fromkeys(case.names))} {case.question}")
    more = 2
    while name in taken:
        name, more = f"{base}_{more}", more + 1
    taken.add(name)
    lines = [f"def {name}() -> None:", f"    # Broken: {clean(case.question)}", *case.example.test(case, imports)]
    return "\n".join(lines) + "\n"


def literal(value: Any, file: str, imports: Imports) -> str:
    """An event, or lists and dicts of events, as Python; its classes are imported."""
    if isinstance(value, list):
        return "[" + ", ".join(literal(v, file, imports) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {literal(v, file, imports)}" for k, v in value.items()) + "}"
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f'float("{value!r}")'
    if type(value) is tuple:
        items = [literal(v, file, imports) for v in value]
        return "(" + ", ".join(items) + ("," if len(items) == 1 else "") + ")"
    fields = event_fields(value)
    if fields is None and not isinstance(value, enum.Enum):
        if isinstance(value, (datetime.date, datetime.timedelta)):
            imports.standard.add("import datetime")
        elif isinstance(value, Decimal):
            imports.standard.add("from decimal import Decimal")
        return repr(value)
    kind = type(value)
    loaded = sys.modules.get(kind.__module__)
    path = getattr(loaded, "__file__", None)
    own = path is None or (is_path(file) and os.path.abspath(path) == os.path.abspath(file))
    outer = kind.__qualname__.split(".")[0]
    imports.need(file if own else kind.__module__, outer)
    if isinstance(value, enum.Enum):
        return f"{kind.__qualname__}.{value.name}"
    return (
        f"{kind.__qualname__}(" + ", ".join(f"{k}={literal(v, file, imports)}" for k, v in (fields or {}).items()) + ")"
    )
