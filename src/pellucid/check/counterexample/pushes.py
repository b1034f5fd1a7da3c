"""The input stream, push by push, that breaks a property; a liveness property is refuted by a lasso."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pellucid.check.counterexample.case import lines_of
from pellucid.check.counterexample.replay import StepView, replay
from pellucid.check.counterexample.sheet import asked_about, sheet_of
from pellucid.model.counterexample import Counterexample
from pellucid.model.sheet import Sheet
from pellucid.model.show.documents import as_json
from pellucid.model.show.pytest_file import Case, Imports


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
