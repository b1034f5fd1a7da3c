"""A counterexample as a test: a file that pytest runs, on the real engine, from the user's own pipeline.

The test says what the pipeline **does** on the input that breaks the property, so it passes now; whoever mends the
pipeline sees it fail and turns it round.  A stream that repeats for ever is pushed three rounds.
"""

from __future__ import annotations

import enum
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.check.verdict import Counterexample
from pellucid.draw.labels import clean
from pellucid.errors import StepError, UsageError
from pellucid.graph.model import Graph
from pellucid.report.counterexample_rows import event_fields

__all__ = ["Case", "as_pytest", "pytest_file", "slug"]

_ROUNDS = 3


@dataclass(frozen=True)
class Case:
    """A counterexample, what it refutes, and where each of its pipelines can be imported from."""

    example: Counterexample
    question: str
    files: tuple[str, ...]  # a path, or a module's dotted name
    names: tuple[str, ...]
    test: str = ""


@dataclass
class _Imports:
    """The names that the tests need: ``names[file]`` in the order they were asked for."""

    names: dict[str, list[str]] = field(default_factory=dict)
    tools: set[str] = field(default_factory=set)

    def need(self, file: str, name: str) -> None:
        found = self.names.setdefault(file, [])
        if name not in found:
            found.append(name)


def as_pytest(
    example: Counterexample,
    question: str,
    *,
    file: str | Sequence[str],
    name: str | Sequence[str] = "",
    test: str = "",
    folder: str = ".",
) -> str:
    """The text of a test file; ``file`` and ``name`` say where the pipeline stands (two of each for two).

    ``folder`` is where the test will be written: a path to ``file`` is then given from there.

    >>> from pellucid import check, pipeline
    >>> late = pipeline(lambda x: x.trim(1), x=int)
    >>> example = check.holds(late, "G (x -> out)").counterexample
    >>> print(as_pytest(example, "G (x -> out)", file="shop.late", name="late"))
    # Written by Pellucid: what refuted the properties below, run on the real engine.
    from shop.late import late
    <BLANKLINE>
    <BLANKLINE>
    def test_late_G_x_out() -> None:
        # Broken: G (x -> out)
        # On every run, in every step, if x carries an event, then out carries an event.
        x = [0]
        assert late.trace(x) == [[]]
    <BLANKLINE>
    """
    files = (file,) if isinstance(file, str) else tuple(file)
    names = (name,) if isinstance(name, str) else tuple(name)
    names = tuple(n or g.name for n, g in zip(names, example.graphs, strict=False)) or names
    return pytest_file([Case(example, question, files, names, test)], folder=folder)


def slug(text: str) -> str:
    """A text as a name: of a test, of a file.

    >>> slug("sum_of_odds: AG EF out"), slug("!EF full")
    ('sum_of_odds_AG_EF_out', 'EF_full')
    """
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")[:60].rstrip("_") or "property"


def pytest_file(cases: Sequence[Case], *, folder: str = ".") -> str:
    """One file with a test for each case."""
    imports = _Imports()
    taken: set[str] = set()
    bodies = [_test(case, imports, taken) for case in cases]
    return "\n\n".join([_head(imports, folder), *bodies])


def _head(imports: _Imports, folder: str) -> str:
    standard, ours, users = set(), [], []
    paths = {f: _is_path(f) for f in imports.names}
    if any(paths.values()):
        standard |= {"import importlib.util", "import sys", "from pathlib import Path"}
    if "pytest" in imports.tools:
        ours.append("import pytest\n")
    if imports.tools & {"silent", "StepError"}:
        ours.append(f"from pellucid import {', '.join(sorted(imports.tools & {'silent', 'StepError'}))}")
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


def _is_path(file: str) -> bool:
    return file.endswith(".py") or os.sep in file or os.path.exists(file)


def _test(case: Case, imports: _Imports, taken: set[str]) -> str:
    example = case.example
    if len(case.names) != len(example.graphs) or not all(case.names):
        raise UsageError(f"a test of {len(example.graphs)} pipeline(s) needs as many names, found {case.names!r}")
    files = case.files if len(case.files) == len(case.names) else case.files * len(case.names)
    base = name = case.test or "test_" + slug(f"{'_'.join(dict.fromkeys(case.names))} {case.question}")
    more = 2
    while name in taken:
        name, more = f"{base}_{more}", more + 1
    taken.add(name)
    lines = [f"def {name}() -> None:", *(f"    # {line}" for line in _comment(case))]
    sources = [example.graphs[0].nodes[at].id for at in example.graphs[0].sources]
    pushes = _pushes(example)
    for source in sources:
        lines.append(f"    {_variable(source, case.names)} = {_column(example, source, files[0], imports)}")
    for graph, file, called in zip(example.graphs, files, case.names, strict=True):
        imports.need(file, called)
        lines += _observed(graph, called, [_variable(s, case.names) for s in sources], pushes, file, imports)
    return "\n".join(lines) + "\n"


def _comment(case: Case) -> list[str]:
    lines = [f"Broken: {clean(case.question)}"]
    try:
        from pellucid.check.formula import explain
        from pellucid.check.formula.parse import parse

        lines.append(explain(parse(case.question)))
    except UsageError:
        pass  # a question with a name is a sentence already
    if case.example.why:
        lines.append(clean(case.example.why))
    if case.example.loop is not None:
        lines.append(f"What is after the + is pushed again and again; here {_ROUNDS} times.")
    return lines


def _pushes(example: Counterexample) -> list[dict[str, Any]]:
    if example.loop is None:
        return example.inputs
    return example.inputs[: example.loop] + _ROUNDS * example.inputs[example.loop :]


def _column(example: Counterexample, source: str, file: str, imports: _Imports) -> str:
    """The events of a source as Python; what repeats is written once."""
    texts = []
    for push in example.inputs:
        if source in push:
            texts.append(_literal(push[source], file, imports))
        else:
            imports.tools.add("silent")
            texts.append("silent")
    if example.loop is None:
        return f"[{', '.join(texts)}]"
    before, again = texts[: example.loop], texts[example.loop :]
    return (f"[{', '.join(before)}] + " if before else "") + f"{_ROUNDS} * [{', '.join(again)}]"


def _observed(
    graph: Graph, called: str, variables: list[str], pushes: list[dict[str, Any]], file: str, imports: _Imports
) -> list[str]:
    """What the real engine does on these pushes, as assertions."""
    from pellucid.engine.in_memory import trace_in_memory
    from pellucid.engine.interpreter import Interpreter
    from pellucid.pipeline import silent

    own = [graph.nodes[at].id for at in graph.sources]
    given = ", ".join(a if len(own) == 1 else f"{b}={a}" for a, b in zip(variables, own, strict=True))
    data = {b: [push.get(b, silent) for push in pushes] for b in own}
    try:
        trace = trace_in_memory(graph, (), data)
    except StepError as error:
        imports.tools |= {"pytest", "StepError"}
        return [
            "    with pytest.raises(StepError) as failure:",
            f"        {called}.trace({given})",
            f"    assert (failure.value.step, failure.value.position) == ({json.dumps(error.step)}, {error.position})",
        ]
    lines = [f"    assert {called}.trace({given}) == {_literal(trace, file, imports)}"]
    run = Interpreter(graph)
    run.run([{b: push[b] for b in own if b in push} for push in pushes])
    waiting = {id: len(queue) for id, queue in run.queues.items()}
    if any(waiting.values()):
        lines.append(f"    engine = {called}.engine()")
        lines.append(f"    engine.push({given})")
        lines.append(f"    assert engine.queues == {json.dumps(waiting, ensure_ascii=False)}")
    return lines


def _variable(source: str, taken: tuple[str, ...]) -> str:
    """A name for the events of a source that hides nothing the test needs."""
    hidden = (*taken, "StepError", "engine", "failure", "pytest", "silent")
    return f"{source}_events" if source in hidden else source


def _literal(value: Any, file: str, imports: _Imports) -> str:
    """An event, or lists and dicts of events, as Python; its classes are imported."""
    if isinstance(value, list):
        return "[" + ", ".join(_literal(v, file, imports) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {_literal(v, file, imports)}" for k, v in value.items()) + "}"
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f'float("{value!r}")'
    fields = event_fields(value)
    if fields is None and not isinstance(value, enum.Enum):
        return repr(value)
    kind = type(value)
    loaded = sys.modules.get(kind.__module__)
    path = getattr(loaded, "__file__", None)
    own = path is None or (_is_path(file) and os.path.abspath(path) == os.path.abspath(file))
    outer = kind.__qualname__.split(".")[0]
    imports.need(file if own else kind.__module__, outer)
    if isinstance(value, enum.Enum):
        return f"{kind.__qualname__}.{value.name}"
    return (
        f"{kind.__qualname__}("
        + ", ".join(f"{k}={_literal(v, file, imports)}" for k, v in (fields or {}).items())
        + ")"
    )
