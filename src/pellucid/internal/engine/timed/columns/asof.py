"""As-of over columns: for each event of one stream the latest of another that is not after it.

An event waits until nothing of the other stream can come any more that is not after it.  Of the other stream's events
whose times are complete only one of each key and time can be an answer: the greatest in the canonical order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.internal.engine.timed.columns.keys import Keys
from pellucid.internal.engine.timed.columns.order import canonical, changes
from pellucid.internal.engine.timed.columns.rows import Kinds, Rows, later
from pellucid.internal.engine.timed.columns.search import Index, Pool
from pellucid.internal.engine.timed.columns.texts import Texts
from pellucid.internal.engine.timed.columns.waiting import Waiting
from pellucid.internal.expr.types import INT

_SOME = 1 << 12


class AsOf:
    """The latest of the right stream for each event of the left one, at most ``within`` older (None: however old).

    >>> from pellucid.internal.expr.types import INT
    >>> kinds = Kinds((), (INT,))
    >>> as_of = AsOf(5, kinds, kinds, Texts())
    >>> as_of.take(Rows(np.array([4, 20]), [], [np.array([1, 2])]), Rows(np.array([3, 1]), [], [np.array([30, 10])]))
    >>> asked, found, there = as_of.put(21, 21)
    >>> asked.value[0].tolist(), found.value[0].tolist(), there.tolist()
    ([1, 2], [30, 30], [True, False])
    """

    def __init__(self, within: int | None, left: Kinds, right: Kinds, texts: Texts) -> None:
        self.within, self.left, self.right, self.texts = within, left, right, texts
        self.asked, self.coming = Waiting(left.arrays), Waiting(right.arrays)
        self._start()

    def _start(self) -> None:
        self._keys = Keys(self.right.key)
        self._pool = Pool([np.dtype(np.int64), *self.right.arrays])
        self._index = Index()
        self._tidied = 0

    def __len__(self) -> int:
        return len(self.asked) + len(self.coming) + self._pool.size

    def take(self, left: Rows, right: Rows) -> None:
        """Events that are not late."""
        self.asked.add(left.time, left.columns())
        self.coming.add(right.time, right.columns())

    def put(self, left_clock: int | None, right_clock: int | None) -> tuple[Rows, Rows, Any]:
        """The events that can be answered, as they wait; beside each the answer, and whether there is one (if not, what
        stands there means nothing).  None is the end."""
        limit = None if right_clock is None else right_clock - 1
        columns = self.coming.take(limit)
        self._changed(Rows.made(columns[0], columns[1:], len(self.right.key)))
        columns = self.asked.take(limit)
        asked = Rows.made(columns[0], columns[1:], len(self.left.key))
        key = self._keys.of(asked.key, len(asked), add=False)
        at = self._index.last(key, asked.time)
        there = at >= 0
        if self._pool.size:
            found = self._pool.at(np.where(there, at, 0))
            if self.within is not None and there.any():
                there &= later(found[0], self.within) >= asked.time
            answers = Rows.made(found[0], found[1:], len(self.right.key))
        else:
            answers = Rows(
                asked.time, [], [np.zeros(len(asked), kind) for kind in self.right.arrays[len(self.right.key) :]]
            )
        self._tidy(left_clock, right_clock)
        return asked, answers, there

    def _changed(self, rows: Rows) -> None:
        """Events of the right stream whose times are complete."""
        if not len(rows):
            return
        key = self._keys.of(rows.key, len(rows))
        order = canonical([key, rows.time], self.right.value, rows.value, self.texts)
        key, rows = key[order], rows.at(order)
        last = np.append(changes([key, rows.time], len(rows))[1:], True)
        self._add(key[last], rows.at(last))

    def _add(self, key: Any, rows: Rows) -> None:
        self._index.add(key, rows.time, self._pool.add([rows.time, *rows.columns()]))

    def _tidy(self, left_clock: int | None, right_clock: int | None) -> None:
        """Whoever is still to be answered has a time that is not before both clocks: of what is up to there, only the
        last of each key can be his."""
        if self._pool.size <= 2 * self._tidied + _SOME:
            return
        columns = self._pool.all()
        clocks = [c for c in (left_clock, right_clock) if c is not None]
        key = self._keys.of(columns[1 : 1 + len(self.right.key)], len(columns[0]))
        order = canonical([key, columns[0]], (), (), self.texts)
        over = min(clocks) if len(clocks) == 2 else max(clocks, default=2**63 - 1)
        before = columns[0][order] <= over
        # The last of a key up to there: the next one is after it, or of another key.
        last = before & np.append(~before[1:] | (key[order][1:] != key[order][:-1]), True)
        self.restore([c[order[last | ~before]] for c in columns])

    def restore(self, columns: list[Any]) -> None:
        """Keep just these."""
        self._start()
        if len(columns[0]):
            rows = Rows.made(columns[0], columns[1:], len(self.right.key))
            self._add(self._keys.of(rows.key, len(rows)), rows)
        self._tidied = len(columns[0])

    # ------------------------------------------------------------ what is saved

    def layout(self) -> list[list[Any]]:
        """The types of the columns that are saved, group by group."""
        left, right = ([INT, *kinds.key, *kinds.value] for kinds in (self.left, self.right))
        return [left, right, right]

    def saved(self) -> tuple[dict[str, Any], list[list[Any]]]:
        """A few words, and columns."""
        return {}, [self.asked.columns(), self.coming.columns(), self._pool.all()]

    def load(self, words: dict[str, Any], groups: list[list[Any]]) -> None:
        """Go on from what was saved."""
        self.asked.put(groups[0])
        self.coming.put(groups[1])
        self.restore(groups[2])
