"""Dead letters in a run with epochs: rows that are set aside go to a sink of their own, each epoch once like any other.

A source knows where a row is from and writes the whole letter.  A worker knows only the push in which a step failed;
but push *i* is row *i* of every input, so the sink finds the rows itself.  It reads no more of the inputs than it has
to, and its snapshot keeps where that reading is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from typing import Any, NamedTuple

import numpy as np

from pellucid.errors import StepError
from pellucid.internal.data.bind import BadRow, Place, of_row, set_aside
from pellucid.internal.data.columns import columns_of
from pellucid.internal.data.columns import events_of as values_in
from pellucid.internal.engine.epochs.messages import Events, positions_of, take
from pellucid.internal.expr.types import Type, type_of

BAD = "bad"  # the name of their output
STREAM = "(bad rows)"  # and that of the stream to it
_AT_ONCE = 1 << 17


class Letter(NamedTuple):
    """A dead letter as an event."""

    file: str | None
    row: int | None
    column: str | None
    step: str | None
    reason: str
    text: str | None


LETTER: Type = type_of(Letter)


def as_events(rows: Sequence[tuple[int, BadRow]]) -> Events:
    """Dead letters with their pushes, as they are sent."""
    events = [Letter(*astuple(row)) for _, row in rows]
    return Events(columns_of(LETTER, events), np.array([push for push, _ in rows], dtype=np.int64))


def from_events(first: int, events: Events) -> list[tuple[int, BadRow]]:
    """The same where they come."""
    pushes = positions_of(events, first).tolist()
    return [(push, BadRow(*letter)) for push, letter in zip(pushes, values_in(LETTER, events.columns), strict=True)]


def of_failures(failed: Sequence[tuple[int, StepError]]) -> Events:
    """The pushes in which a step failed; whose rows they are, the sink will find."""
    return as_events([(push, BadRow("", None, None, error.step, error.why, None)) for push, error in failed])


def without_bad(
    read: Sequence[tuple[Place, Any]], found: dict[str, Events], first: int
) -> tuple[dict[str, Events], Events]:
    """The events of a source task without the pushes that have a row that cannot be read, and their letters.

    ``read`` are the rows of each input at hand, and where they are from; ``first`` is the push of the first of them.
    """
    rows = set_aside([place for place, _ in read], [table for _, table in read])
    gone = np.array(sorted({first + i for i, _ in rows}), dtype=np.int64)
    if len(gone):
        found = {
            name: take(events, np.flatnonzero(~np.isin(positions_of(events, first), gone)), first)
            for name, events in found.items()
        }
    return found, as_events([(first + i, row) for i, row in rows])


class RowFinder:
    """The rows of the inputs by their pushes, which only go up; for a sink a keeper of no columns."""

    def __init__(self, opened: Callable[[Sequence[Mapping[str, Any]] | None], list[Any]]) -> None:
        self._opened = opened
        self._lanes: list[Any] = []

    def restore(self, offsets: Sequence[Mapping[str, Any]] | None) -> None:
        """Go on where a snapshot left it."""
        self._lanes = self._opened(offsets)

    def offsets(self) -> list[dict[str, Any]]:
        """Where it is, for a snapshot."""
        return [lane.offset() for lane in self._lanes]

    def read(self, until: int) -> None:
        """Nothing is read before it is asked for."""

    def with_kept(self, batch: Any, *_: Any) -> Any:
        """No column comes along."""
        return batch

    def letters(self, push: int, failure: BadRow) -> list[BadRow]:
        """A letter for each row of a push in which a step failed."""
        out = []
        for lane in self._lanes:
            while lane.row < push and lane.pieces(min(_AT_ONCE, push - lane.row))[0]:
                pass
            have, tables, places = lane.pieces(1) if lane.row == push else (0, [], [])
            if have:
                out.append(of_row(places[0][1], 0, failure.reason, tables[0], step=failure.step))
        return out
