"""A place: channels, transactions, and what it says to clients and to other places."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pellucid.atomic.places.core.events import Effects, Event
from pellucid.atomic.places.core.paths import Tree
from pellucid.atomic.places.records import Record


@dataclass(frozen=True)
class Timing:
    """How long to wait before something is said again, in seconds."""

    resend: float = 0.5  # what was not acknowledged
    ask: float = 0.5  # what others have not told yet
    attempt: float = 10.0  # a vote that does not come: the attempt is given up, and nothing else


class Core:
    """A place; ``records`` are what its log has, oldest first."""

    def __init__(self, name: str, tree: Tree, records: Iterable[Record], *, timing: Timing = Timing()) -> None:
        raise NotImplementedError

    def start(self) -> Effects:
        """To be called once, and carried out, before anything is handled: the start's number, crashed transactions."""
        raise NotImplementedError

    def handle(self, event: Event) -> Effects:
        """What to do about it."""
        raise NotImplementedError
