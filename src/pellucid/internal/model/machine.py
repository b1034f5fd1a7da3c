"""A machine: what can be searched."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Protocol


class Machine(Protocol):
    """A system with steps.  States are hashable values; a label says in words which step it was."""

    def start(self) -> Any:
        """Before the first step."""

    def steps(self, at: Any, *, failures: bool = True) -> Iterable[tuple[Any, Any]]:
        """Labels and what comes after; without ``failures``, only what the system does by itself."""

    def see(self, at: Any) -> Hashable:
        """What is observed."""

    def complete(self, at: Any) -> bool:
        """Whether it may end here."""
