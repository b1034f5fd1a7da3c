"""Loops that go row by row, as CPython runs them over a few rows; `radix` has them compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def first_ones(groups: Any, times: Any, last: Any, known: Any, within: int, keep: Any) -> None:
    """Mark the rows that are kept: those of which no kept row of the same group is at most so much earlier.

    Rows come by group and time; ``last`` is when each group's last kept row was, if ``known``.
    """
    for i in range(len(groups)):
        group, t = groups[i], int(times[i])
        since = int(last[group])
        # Times rise, so a difference below 0 is one that has left 64 bits: it is greater than any length of time.
        if not known[group] or t - since > within or t - since < 0:
            keep[i] = known[group] = True
            last[group] = t


def chosen(many: bool, name: str) -> Callable[..., None]:
    """One of these loops, compiled where there are many rows."""
    if many:
        from pellucid.internal.engine.timed import compiled as radix

        found: Callable[..., None] = getattr(radix, name)
        return found
    plain: Callable[..., None] = globals()[name]
    return plain
