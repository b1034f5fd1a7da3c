"""The input stream, push by push, that breaks a property; a liveness property is refuted by a lasso."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import Any

from pellucid.check.counterexample.replay import StepView, replay
from pellucid.check.counterexample.sheet import asked_about, sheet_of
from pellucid.check.formula import explain
from pellucid.check.formula.parse import parse
from pellucid.errors import StepError, UsageError
from pellucid.internal.draw.labels import clean
from pellucid.internal.engine.in_memory import trace_in_memory
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.graph.model import Graph
from pellucid.internal.graph.stream import silent
from pellucid.internal.model.counterexample import Counterexample
from pellucid.internal.model.sheet import Sheet
from pellucid.internal.model.show.documents import as_json
from pellucid.internal.model.show.pytest_file import Case, Imports, literal


@dataclass(frozen=True)
class Pushes(Counterexample):
    """A counterexample of one pipeline, or of two that were compared: ``steps`` are views of its pushes."""

    steps: tuple[StepView, ...] = ()

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """The pushes, ready for ``Interpreter.run`` or an engine."""
        return [dict(step.inputs) for step in self.steps]

    def sheet(self, question: str = "", *, everything: bool = False) -> Sheet:
        return sheet_of(self, show=asked_about(self, question), steps=everything)

    def document(self) -> dict[str, Any]:
        return {
            "pipelines": [graph.name for graph in self.graphs],
            "loop": self.loop,
            "why": self.why,
            "steps": [
                {
                    "push": i,
                    "in": as_json(step.inputs),
                    "streams": as_json(step.streams),
                    "queues": as_json(step.queues),
                }
                for i, step in enumerate(self.steps)
            ],
        }

    def test(self, case: Case, imports: Imports) -> list[str]:
        return lines_of(self, case, imports)

    def replay(self) -> bool:
        """Whether these pushes have these events and queues once more, on the interpreter and on the engine."""
        return repr(replay(self.graphs, self.inputs)) == repr(self.steps)  # NaN is itself


# ---------------------------------------------------------------- as a test on the real engine

_ROUNDS = 3  # of a stream that repeats for ever


def lines_of(example: Pushes, case: Case, imports: Imports) -> list[str]:
    """The lines of a test, below its name."""
    if len(case.names) != len(example.graphs) or not all(case.names):
        raise UsageError(f"a test of {len(example.graphs)} pipeline(s) needs as many names, found {case.names!r}")
    files = case.files if len(case.files) == len(case.names) else case.files * len(case.names)
    lines = [f"    # {line}" for line in _comment(example, case.question)]
    sources = [example.graphs[0].nodes[at].id for at in example.graphs[0].sources]
    pushes = example.inputs
    if example.loop is not None:
        pushes = pushes[: example.loop] + _ROUNDS * pushes[example.loop :]
    for source in sources:
        lines.append(f"    {_variable(source, case.names)} = {_column(example, source, files[0], imports)}")
    for graph, file, called in zip(example.graphs, files, case.names, strict=True):
        imports.need(file, called)
        lines += _observed(graph, called, [_variable(s, case.names) for s in sources], pushes, file, imports)
    return lines


def _comment(example: Pushes, question: str) -> list[str]:
    lines = []
    with contextlib.suppress(UsageError):  # a question with a name is a sentence already
        lines.append(explain(parse(question)))
    if example.why:
        lines.append(clean(example.why))
    if example.loop is not None:
        lines.append(f"What is after the + is pushed again and again; here {_ROUNDS} times.")
    return lines


def _column(example: Pushes, source: str, file: str, imports: Imports) -> str:
    """The events of a source as Python; what repeats is written once."""
    texts = []
    for push in example.inputs:
        if source in push:
            texts.append(literal(push[source], file, imports))
        else:
            imports.tools.add("silent")
            texts.append("silent")
    if example.loop is None:
        return f"[{', '.join(texts)}]"
    before, again = texts[: example.loop], texts[example.loop :]
    return (f"[{', '.join(before)}] + " if before else "") + f"{_ROUNDS} * [{', '.join(again)}]"


def _observed(
    graph: Graph, called: str, variables: list[str], pushes: list[dict[str, Any]], file: str, imports: Imports
) -> list[str]:
    """What the real engine does on these pushes, as assertions."""
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
    lines = [f"    assert {called}.trace({given}) == {literal(trace, file, imports)}"]
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
