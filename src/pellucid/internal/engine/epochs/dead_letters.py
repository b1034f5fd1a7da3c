"""Dead letters in a run with epochs: rows that are set aside go to a sink of their own, each epoch once like any other.

A source knows where a row is from and writes the whole dead letter.  A worker knows only the push in which a step
failed; but push *i* is row *i* of every input, so the sink finds the rows itself (`engine.epochs.sink.RowFinder`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any, NamedTuple

import numpy as np

from pellucid.errors import StepError
from pellucid.internal.data.bind import BadRow, Place, set_aside
from pellucid.internal.data.columns import columns_of
from pellucid.internal.data.columns import events_of as values_in
from pellucid.internal.engine.epochs.messages import Events, positions_of, take
from pellucid.internal.expr.types import Type, type_of

BAD = "bad"  # the name of their output
STREAM = "(bad rows)"  # and that of the stream to it


class DeadLetter(NamedTuple):
    """A dead letter as an event."""

    file: str | None
    row: int | None
    column: str | None
    step: str | None
    reason: str
    text: str | None


DEAD_LETTER: Type = type_of(DeadLetter)


def as_events(rows: Sequence[tuple[int, BadRow]]) -> Events:
    """Dead letters with their pushes, as they are sent."""
    events = [DeadLetter(*astuple(row)) for _, row in rows]
    return Events(columns_of(DEAD_LETTER, events), np.array([push for push, _ in rows], dtype=np.int64))


def from_events(first: int, events: Events) -> list[tuple[int, BadRow]]:
    """The same where they come."""
    pushes, found = positions_of(events, first).tolist(), values_in(DEAD_LETTER, events.columns)
    return [(push, BadRow(*letter)) for push, letter in zip(pushes, found, strict=True)]


def of_failures(failed: Sequence[tuple[int, StepError]]) -> Events:
    """The pushes in which a step failed; the sink will find their rows."""
    return as_events([(push, BadRow("", None, None, error.step, error.why, None)) for push, error in failed])


def without_bad(
    read: Sequence[tuple[Place, Any]], found: dict[str, Events], first: int
) -> tuple[dict[str, Events], Events]:
    """The events of a source task without the pushes that have a row that cannot be read, and their dead letters.

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
