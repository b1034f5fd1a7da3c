"""The log of a place: records that last, in SQLite (WAL, synchronous=FULL) or PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from pellucid.atomic.places.records import Record


class Log(Protocol):
    """One place writes it, alone; others may read it."""

    place: str

    def records(self) -> Iterator[Record]:
        """All of them, oldest first; `StateError` where one is damaged."""

    def append(self, records: Iterable[Record], *, sync: bool = True) -> None:
        """Write them; with ``sync`` they, and all before them, last when it returns.  Without, they may be kept back
        until the next that is synced."""

    def close(self) -> None:
        """Write what was kept back, and let go of the log."""


def open_log(target: str, place: str) -> Log:
    """The log of this place, made if it is not there, for writing: ``target`` is a file or a ``postgresql://…``.
    `StateError` if another process has it, or it is another place's, or of another version."""
    raise NotImplementedError


def read_log(target: str) -> list[Record]:
    """What a log has, for who only looks (the place may be running)."""
    raise NotImplementedError
