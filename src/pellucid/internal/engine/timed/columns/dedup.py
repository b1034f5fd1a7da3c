"""Doubled events over columns: of each key an event is kept if no kept one is at most so much earlier."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.internal.engine.timed.columns.keys import Keys, longer
from pellucid.internal.engine.timed.columns.order import canonical, many, numbers
from pellucid.internal.engine.timed.columns.plain import chosen
from pellucid.internal.engine.timed.columns.rows import Kinds, Rows, later
from pellucid.internal.engine.timed.columns.texts import Texts
from pellucid.internal.engine.timed.columns.waiting import Waiting
from pellucid.internal.expr.types import INT

_SOME = 1 << 12


class Dedup:
    """Keeps the first in event time.  ``kinds.key`` is what makes two events the same; the first leaves of it, ``own``
    in number, are the stream's own key, by which answers are put in order.

    >>> from pellucid.internal.expr.types import INT
    >>> dedup = Dedup(5, Kinds((INT,), (INT,)), Texts())
    >>> rows = Rows(np.array([7, 3, 12]), [np.array([1, 1, 1])], [np.array([70, 30, 120])])
    >>> dedup.take(rows, None).tolist(), dedup.put(13).value[0].tolist()
    ([], [30, 120])
    """

    def __init__(self, within: int, kinds: Kinds, texts: Texts, own: int = 0) -> None:
        self.within, self.kinds, self.texts, self.own = within, kinds, texts, own
        self._rows = Waiting(kinds.arrays)
        self._start()

    def _start(self) -> None:
        self._keys = Keys(self.kinds.key)
        self._last, self._known = np.zeros(16, np.int64), np.zeros(16, np.bool_)
        self._tidied = 0

    def __len__(self) -> int:
        return len(self._rows) + int(self._known.sum())

    def take(self, rows: Rows, clock: int | None) -> Any:
        """Judge a batch; the numbers of the rows that are late."""
        if clock is None or not len(rows) or int(rows.time.min()) >= clock:
            self._rows.add(rows.time, rows.columns())
            return np.zeros(0, np.int64)
        late = rows.time < clock
        rest = rows.at(~late)
        self._rows.add(rest.time, rest.columns())
        return np.flatnonzero(late)

    def put(self, clock: int | None) -> Rows:
        """The events that are kept, of those whose time is complete; by time, then by the event."""
        columns = self._rows.take(None if clock is None else clock - 1)
        rows = Rows.made(columns[0], columns[1:], len(self.kinds.key))
        if not len(rows):
            return rows
        key = self._keys.of(rows.key, len(rows))
        order = canonical([key, rows.time], self.kinds.value, rows.value, self.texts)
        self._last, self._known = longer(self._last, self._keys.count), longer(self._known, self._keys.count)
        key, keep = key[order], np.zeros(len(rows), np.bool_)

        chosen(many(len(rows)), "first_ones")(key, rows.time[order], self._last, self._known, self.within, keep)
        rows = rows.at(order[keep])
        self._tidy(clock)
        own = zip(self.kinds.key[: self.own], rows.key[: self.own], strict=True)
        words = [numbers(t, c, self.texts) for t, c in own]
        return rows.at(canonical([rows.time, *words], self.kinds.value, rows.value, self.texts))

    def _tidy(self, clock: int | None) -> None:
        """Forget the keys whose last kept event is further back than the clock looks, now and then."""
        if clock is None or self._keys.count <= 2 * self._tidied + _SOME:
            return
        count = self._keys.count
        alive = np.flatnonzero(self._known[:count] & (later(self._last[:count], self.within) >= clock))
        self._restore([*(c[alive] for c in self._keys.columns()), self._last[alive]])
        self._tidied = len(alive)

    def _kept(self) -> list[Any]:
        known = np.flatnonzero(self._known[: self._keys.count])
        return [*(c[known] for c in self._keys.columns()), self._last[known]]

    def _restore(self, columns: list[Any]) -> None:
        self._start()
        if len(columns[-1]):
            key = self._keys.of(columns[:-1], len(columns[-1]))
            self._last, self._known = longer(self._last, self._keys.count), longer(self._known, self._keys.count)
            self._last[key], self._known[key] = columns[-1], True

    # ------------------------------------------------------------ what is saved

    def layout(self) -> list[list[Any]]:
        """The types of the columns that are saved, group by group."""
        return [[INT, *self.kinds.key, *self.kinds.value], [*self.kinds.key, INT]]

    def saved(self) -> tuple[dict[str, Any], list[list[Any]]]:
        """A few words, and columns."""
        return {}, [self._rows.columns(), self._kept()]

    def load(self, words: dict[str, Any], groups: list[list[Any]]) -> None:
        """Go on from what was saved."""
        self._rows.put(groups[0])
        self._restore(groups[1])
