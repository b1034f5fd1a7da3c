"""Places that are wrong on purpose: ``python -m tests.judge.places_planted FAULT DIR PLACE`` runs a place with a fault
in it.  The judge of kills and the audit must find each of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from pellucid.atomic.places import host
from pellucid.atomic.places.core.commit import Commits
from pellucid.atomic.places.core.state import Record
from pellucid.atomic.places.log import SqliteLog


def commit_before_the_log_is_written() -> None:
    """Decisions are told while they are in memory only; they are written with the next thing that is."""
    honest = SqliteLog.append

    def append(self: SqliteLog, records: Iterable[Record], *, sync: bool = True) -> None:
        records = list(records)
        honest(self, records, sync=sync and not any(record.kind in ("commit", "decide") for record in records))

    SqliteLog.append = append  # type: ignore[method-assign]


def a_dependency_forgotten() -> None:
    """Who took a message does not wait for its sender."""
    Commits._needs = lambda self, t, u: None  # type: ignore[method-assign]


def abort_without_restoring() -> None:
    """What was taken by one that aborts is gone."""
    honest = Commits._abort

    def abort(self: Commits, t: str, why: str) -> None:
        self.state.live[t].takes.clear()
        honest(self, t, why)

    Commits._abort = abort  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[], None]] = {
    "commit-before-the-log": commit_before_the_log_is_written,
    "dependency-forgotten": a_dependency_forgotten,
    "abort-without-restoring": abort_without_restoring,
}


def program(fault: str) -> list[str]:
    """What starts such a place."""
    return [sys.executable, "-m", "tests.judge.places_planted", fault]


if __name__ == "__main__":
    FAULTS[sys.argv[1]]()
    sys.exit(host.main(sys.argv[2:]))
