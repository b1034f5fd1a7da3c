"""Verdicts and counterexamples: what a check answers.

A verdict is **proved**, **refuted** or **unknown** (a bound was reached).  It is true only when proved.  A refuted
one carries a counterexample: the input stream, step by step, that shows it; a liveness property is refuted by a
lasso, whose last steps repeat for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.graph.model import Graph

__all__ = ["Counterexample", "StepView", "Verdict"]


@dataclass(frozen=True)
class StepView:
    """One push of a counterexample: what came in, what every stream carried, what waits after it.

    ``inputs`` has an entry for each source that is not silent; ``streams`` the events of every named stream (an empty
    list: silence); ``queues`` the contents of every queue after the push.
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

    def __str__(self) -> str:
        from pellucid.report.counterexample_text import counterexample_text

        return counterexample_text(self)

    def _repr_html_(self) -> str:
        from pellucid.report.counterexample_svg import counterexample_svg

        return counterexample_svg(self)

    def to_json(self, *, indent: int | None = None) -> str:
        """A versioned document: the pushes, what every stream carried, what waits after each."""
        from pellucid.report.counterexample_json import counterexample_json

        return counterexample_json(self, indent=indent)

    def as_pytest(
        self, question: str, *, file: str | Sequence[str], name: str | Sequence[str] = "", **more: str
    ) -> str:
        """A test file that reproduces it on the real engine (see `pellucid.report.counterexample_pytest.as_pytest`)."""
        from pellucid.report.counterexample_pytest import as_pytest

        return as_pytest(self, question, file=file, name=name, **more)


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

    def __str__(self) -> str:
        from pellucid.report.verdict import verdict_text

        return verdict_text(self)

    def _repr_html_(self) -> str:
        from pellucid.report.verdict import verdict_html

        return verdict_html(self)

    def to_json(self, *, indent: int | None = None) -> str:
        """A versioned document."""
        from pellucid.report.verdict import verdict_json

        return verdict_json(self, indent=indent)
