"""How a verb that gives verdicts ends: one table of exit codes for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pellucid.model.show.outcomes import Outcome

#: Of each status its exit code; *error* is a question that could not be asked.
CODES = {"proved": 0, "refuted": 1, "error": 2, "bounded": 3, "unknown": 3}
_WORST_FIRST = ("error", "refuted", "unknown", "bounded")


def code_of(statuses: Iterable[str], *, bounded_is_enough: bool = False) -> int:
    """The exit code of the worst status; 0 for none.

    >>> code_of(["proved", "bounded"]), code_of(["bounded", "refuted"]), code_of(["refuted", "error"])
    (3, 1, 2)
    >>> code_of(["bounded"], bounded_is_enough=True), code_of([])
    (0, 0)
    """
    found = set(statuses) - ({"bounded"} if bounded_is_enough else set())
    return CODES[next((status for status in _WORST_FIRST if status in found), "proved")]


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """The exit code of the worst outcome that did not pass."""
    return code_of(o.status for o in outcomes if not o.passed)
