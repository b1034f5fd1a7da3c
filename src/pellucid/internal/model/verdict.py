"""Verdicts: what a question is answered with.

A verdict is **proved** (for all inputs), **refuted**, **bounded** (nothing was found within a bound, which it names: no
proof) or **unknown** (not decided).  It is true only when proved.  A refuted one carries a counterexample
(`model.counterexample`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pellucid.internal.model.counterexample import Counterexample
from pellucid.internal.model.show.verdict import verdict_html, verdict_json, verdict_text

Status: TypeAlias = Literal["proved", "refuted", "bounded", "unknown"]


def combined(statuses: Iterable[Status]) -> Status:
    """The status of a question that asks several things: refuted if one is, else as weak as the weakest answer.

    >>> combined(["proved", "bounded"]), combined(["proved", "unknown", "bounded"]), combined([])
    ('bounded', 'unknown', 'proved')
    """
    found = set(statuses)
    weakest: tuple[Status, ...] = ("refuted", "unknown", "bounded")
    return next((status for status in weakest if status in found), "proved")


class Judgement:
    """Whatever has a status: verdicts, audits of recorded runs, reports of crash tests."""

    if TYPE_CHECKING:

        @property
        def status(self) -> Status: ...

    @property
    def proved(self) -> bool:
        """It holds, for all inputs."""
        return self.status == "proved"

    @property
    def refuted(self) -> bool:
        """It does not hold."""
        return self.status == "refuted"

    @property
    def unknown(self) -> bool:
        """It was not decided."""
        return self.status == "unknown"

    @property
    def bounded(self) -> bool:
        """Nothing speaks against it within a bound; beyond that it was not looked at."""
        return self.status == "bounded"

    @property
    def holds(self) -> bool:
        """The same as proved."""
        return self.proved

    def __bool__(self) -> bool:
        return self.proved


@dataclass(frozen=True)
class Verdict(Judgement):
    """The answer to a question; true only when proved.  ``bound`` says what a bounded one has looked at.

    >>> bool(Verdict("unknown", "AG EF out", "explicit", 0.1))
    False
    >>> print(Verdict("bounded", "G out", "explicit", 0.1, bound="runs of at most 3 events"))
    bounded  G out: nothing found in runs of at most 3 events  (explicit, 100 ms)
      not proved: what is beyond this bound was not looked at
    """

    status: Status
    question: str
    engine: str = ""
    seconds: float = 0.0
    counterexample: Counterexample | None = None
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    bound: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if self.bounded and not self.bound:
            raise ValueError("a bounded verdict says what its bound is: bound=…")

    def __str__(self) -> str:
        return verdict_text(self)

    def _repr_html_(self) -> str:
        return verdict_html(self)

    def to_json(self, *, indent: int | None = None) -> str:
        """A versioned document."""
        return verdict_json(self, indent=indent)
