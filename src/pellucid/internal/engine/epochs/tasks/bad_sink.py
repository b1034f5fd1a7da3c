"""The sink of rows that are set aside: an output like the others, in the order of the pushes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.internal.data.tables.bad import BadRow, table_of, too_many
from pellucid.internal.engine.epochs.letters import BAD, LETTER, STREAM, RowFinder, from_events
from pellucid.internal.engine.epochs.targets import Target
from pellucid.internal.engine.epochs.tasks.messages import Events
from pellucid.internal.engine.epochs.tasks.sink import SinkTask
from pellucid.internal.engine.epochs.tasks.task import Context


class BadSink(SinkTask):
    """Dead letters; more than ``most`` end the run, and the epoch in which they are is committed nowhere."""

    def __init__(self, context: Context, target: Target, schema: Any, finder: RowFinder, most: int | None) -> None:
        super().__init__(context, BAD, STREAM, LETTER, target, schema, {}, finder)
        self._finder, self._most = finder, most

    def _batch(self, found: list[tuple[int, Events]]) -> tuple[Any, Any]:
        sent = [letter for first, events in found for letter in from_events(first, events)]
        rows: list[tuple[int, BadRow]] = []
        for push, row in sorted(sent, key=lambda letter: letter[0]):
            whole = [row] if row.file else self._finder.letters(push, row)
            rows += [(push, one) for one in whole]
        letters = [row for _, row in rows]
        if self._most is not None and self.rows + len(letters) > self._most:
            raise too_many(self.rows + len(letters), self._most, letters[:3])
        return table_of(letters), np.array([push for push, _ in rows], dtype=np.int64)
