"""Verdicts and counterexamples: what a check answers.

A verdict is **proved**, **refuted** or **unknown** (a bound was reached).  It is true only when proved.  A refuted
one carries a counterexample: the input stream, step by step, that shows it; a liveness property is refuted by a
lasso, whose last steps repeat for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pellucid.graph.model import Graph

__all__ = ["Counterexample", "StepView", "Verdict"]


@dataclass(frozen=True)
class StepView:
    """One push of a counterexample: what came in, what every stream carried, what waits after it.

    ``inputs`` has an entry for each source that is not silent; ``streams`` the events of every named stream (an empty list:
    silence); ``queues`` the contents of every queue after the push.
    """

    inputs: Mapping[str, Any]
    streams: Mapping[str, list[Any]] = field(default_factory=dict)
    queues: Mapping[str, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Counterexample:
    """An input stream that breaks a property; from ``loop`` on, the steps repeat for ever (None: it ends)."""

    graphs: tuple[Graph, ...]  # one, or the two that were compared
    steps: tuple[StepView, ...]
    loop: int | None = None
    why: str = ""  # in words: what is wrong in the last step

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """The pushes, ready for ``Interpreter.run`` or an engine."""
        return [dict(step.inputs) for step in self.steps]


@dataclass(frozen=True)
class Verdict:
    """The answer to a question about a pipeline; true only when proved.

    >>> bool(Verdict("unknown", "AG EF out", "explicit", 0.1))
    False
    """

    status: str  # proved, refuted, unknown
    question: str
    engine: str = ""
    seconds: float = 0.0
    counterexample: Counterexample | None = None
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def proved(self) -> bool:
        """It holds."""
        return self.status == "proved"

    @property
    def refuted(self) -> bool:
        """It does not hold."""
        return self.status == "refuted"

    @property
    def unknown(self) -> bool:
        """A bound was reached first."""
        return self.status == "unknown"

    def __bool__(self) -> bool:
        return self.proved
