"""Verdicts: what a question is answered with.

A verdict is **proved**, **refuted** or **unknown** (a bound was reached).  It is true only when proved.  A refuted
one carries a counterexample (`pellucid.model.counterexample`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pellucid.model.counterexample import Counterexample
from pellucid.model.show.verdict import verdict_html, verdict_json, verdict_text

Status: TypeAlias = Literal["proved", "refuted", "unknown"]


class Judgement:
    """Whatever says proved, refuted or unknown: verdicts, audits of recorded runs, reports of crash tests."""

    if TYPE_CHECKING:

        @property
        def status(self) -> Status: ...

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

    @property
    def holds(self) -> bool:
        """The same as proved."""
        return self.proved

    def __bool__(self) -> bool:
        return self.proved


@dataclass(frozen=True)
class Verdict(Judgement):
    """The answer to a question; true only when proved.

    >>> bool(Verdict("unknown", "AG EF out", "explicit", 0.1))
    False
    """

    status: Status
    question: str
    engine: str = ""
    seconds: float = 0.0
    counterexample: Counterexample | None = None
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return verdict_text(self)

    def _repr_html_(self) -> str:
        return verdict_html(self)

    def to_json(self, *, indent: int | None = None) -> str:
        """A versioned document."""
        return verdict_json(self, indent=indent)
