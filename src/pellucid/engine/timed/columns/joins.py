"""The interval join over columns: pairs of events of one key with low ≤ b.t - a.t ≤ high.

Both sides are kept in pools, and found by key and time.  A row whose time for a partner is over matches nothing that
can still come, so it may stay until it is worth while to throw such rows away; only where it must be told that it found
no partner, it waits for the clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.engine.timed.columns.keys import Keys, longer
from pellucid.engine.timed.columns.order import canonical, order_by
from pellucid.engine.timed.columns.rows import LEAST, MOST, Kinds, Rows, later
from pellucid.engine.timed.columns.search import Index, Pool
from pellucid.engine.timed.columns.texts import Texts
from pellucid.engine.timed.columns.waiting import Waiting
from pellucid.expr.types import BOOL, INT

_SOME = 1 << 12


@dataclass
class Pairs:
    """Rows of both sides that belong together, and the place of the later one of each pair in its batch."""

    left: Rows
    right: Rows
    place: Any

    def __len__(self) -> int:
        return len(self.place)


class Side:
    """What is kept of one input: a row is given up when the other side's clock is after its time + ``reach``."""

    def __init__(self, kinds: Kinds, reach: int, told: bool) -> None:
        self.kinds, self.reach, self.told = kinds, reach, told
        self.start()

    def start(self) -> None:
        """Nothing is kept."""
        self.pool = Pool([np.dtype(np.int64), *self.kinds.arrays])  # time, key, value
        self.index = Index()
        self.found = np.zeros(16, np.bool_)  # a partner, by row
        self.due = Waiting([np.int64])
        self.tidied = 0

    def add(self, key: Any, rows: Rows) -> Any:
        """More rows, whose keys have these numbers; the numbers of the rows."""
        at = self.pool.add([rows.time, *rows.columns()])
        self.index.add(key, rows.time, at)
        if self.told:
            self.found = longer(self.found, self.pool.size)
            self.found[at] = False
            self.due.add(later(rows.time, self.reach), [at])
        return at

    def rows(self, at: Any) -> Rows:
        """The rows of these numbers."""
        columns = self.pool.at(at)
        return Rows.made(columns[0], columns[1:], len(self.kinds.key))

    def alone(self, clock: int | None) -> Rows:
        """The rows that the other side's clock gives up now, and that have found nobody."""
        if not self.told:
            return self.kinds.none()
        _, at = self.due.take(None if clock is None else clock - 1)
        alone = at[~self.found[at]]
        self.found[alone] = True  # they need not be told again
        return self.rows(alone)

    def kept(self, clock: int | None) -> list[Any]:
        """The columns of the rows that are not given up: time, key, value, and whether a partner was found."""
        columns = self.pool.all()
        found = longer(self.found, self.pool.size)[: self.pool.size]
        if clock is None:  # the end: nothing can come any more
            return [c[:0] for c in [*columns, found]]
        alive = np.flatnonzero(later(columns[0], self.reach) >= clock)
        return [c[alive] for c in [*columns, found]]

    def restore(self, columns: list[Any], keys: Keys) -> None:
        """Keep these rows instead."""
        self.start()
        if not len(columns[0]):
            return
        rows = Rows.made(columns[0], columns[1:-1], len(self.kinds.key))
        at = self.add(keys.of(rows.key, len(rows)), rows)
        if self.told:
            self.found[at] = columns[-1]
            again = columns[-1]  # those that found somebody need not be told
            if again.any():
                self.due = Waiting([np.int64])
                alone = np.flatnonzero(~again)
                self.due.add(later(rows.time[alone], self.reach), [at[alone]])
        self.tidied = len(rows)


def _partners(index: Index, key: Any, time: Any, low: int, high: int) -> tuple[Any, Any]:
    """Rows of the same key from ``low`` to ``high`` after each time."""
    if len(time) and (int(time.max()) + low > MOST or int(time.min()) + high < LEAST):
        # All of an interval is beyond 64 bits, where nobody is; what `later` makes of its ends would be inside.
        key = np.where((later(time, low - 1) == MOST) | (later(time, high + 1) == LEAST), -1, key)
    return index.between(key, later(time, low), later(time, high))


class IntervalJoin:
    """Pairs of two streams within an interval.  Of a ``left`` or ``full`` join, rows without a partner come as well.

    >>> from pellucid.expr.types import INT
    >>> kinds = Kinds((), (INT,))
    >>> join = IntervalJoin(-2, 2, "left", kinds, kinds, Texts())
    >>> a, b = Rows(np.array([10, 20]), [], [np.array([1, 2])]), Rows(np.array([11]), [], [np.array([7])])
    >>> pairs = join.take(a, b, np.array([0, 1]), np.array([2]))
    >>> pairs.left.value[0].tolist(), pairs.right.value[0].tolist(), pairs.place.tolist()
    ([1], [7], [2])
    >>> left, right = join.give_up(23, 23)
    >>> left.value[0].tolist(), left.time.tolist(), len(right)
    ([2], [20], 0)
    """

    def __init__(self, low: int, high: int, how: str, left: Kinds, right: Kinds, texts: Texts) -> None:
        self.low, self.high, self.how, self.texts = low, high, how, texts
        self._keys = Keys(left.key)
        self.left = Side(left, high, how in ("left", "full"))
        self.right = Side(right, -low, how == "full")

    def __len__(self) -> int:
        return self.left.pool.size + self.right.pool.size

    def take(self, left: Rows, right: Rows, left_at: Any, right_at: Any) -> Pairs:
        """The pairs that a batch completes, by the place of the later event in the batch, then by the earlier one (its
        time, then the event).  The rows are not late; their places in the batch are given."""
        key, other = self._keys.of(left.key, len(left)), self._keys.of(right.key, len(right))
        before = self.right.pool.size
        order = order_by([other, right.time]) if len(right) else np.zeros(0, np.int64)
        probe = right.at(order)
        asked, old = _partners(self.left.index, other[order], probe.time, -self.high, -self.low)
        new_right = self.right.add(other, right)
        earlier, late = old, new_right[order[asked]] if len(asked) else asked
        place = right_at[order[asked]] if len(asked) else asked
        order = order_by([key, left.time]) if len(left) else np.zeros(0, np.int64)
        probe = left.at(order)
        asked, row = _partners(self.right.index, key[order], probe.time, self.low, self.high)
        mine = order[asked] if len(asked) else asked
        new_left = self.left.add(key, left)
        # Of two new events the later one completes the pair.
        places = np.full(len(mine), -1)
        fresh = row >= before
        places[fresh] = right_at[row[fresh] - before]
        own = left_at[mine] if len(mine) else mine
        from_left = np.concatenate([np.zeros(len(earlier), np.bool_), own > places])
        place = np.concatenate([place, np.maximum(own, places)])
        a = np.concatenate([earlier, new_left[mine] if len(mine) else mine])
        b = np.concatenate([late, row])
        if self.left.told:
            self.left.found[a] = True
        if self.right.told:
            self.right.found[b] = True
        return self._ordered(a, b, place, from_left)

    def _ordered(self, a: Any, b: Any, place: Any, from_left: Any) -> Pairs:
        left, right = self.left.rows(a), self.right.rows(b)
        if len(a):
            earlier = np.where(from_left, right.time, left.time)
            order = order_by([place, earlier])
            same = (place[order][1:] == place[order][:-1]) & (earlier[order][1:] == earlier[order][:-1])
            if same.any():
                order = self._ties(left, right, place, earlier)
            left, right, place = left.at(order), right.at(order), place[order]
        return Pairs(left, right, place)

    def _ties(self, left: Rows, right: Rows, place: Any, earlier: Any) -> Any:
        """Of partners of one event that have equal times, by the event: the one side is the same for all of them."""
        types = [*self.left.kinds.value, *self.right.kinds.value]
        return canonical([place, earlier], types, [*left.value, *right.value], self.texts)

    def give_up(self, left_clock: int | None, right_clock: int | None) -> tuple[Rows, Rows]:
        """The rows without a partner that the clocks give up now (None: the end), of either side, in no order."""
        out = self.left.alone(right_clock), self.right.alone(left_clock)
        if any(side.pool.size > 2 * side.tidied + _SOME for side in (self.left, self.right)):
            self.restore(self.left.kept(right_clock), self.right.kept(left_clock))
        return out

    def restore(self, left: list[Any], right: list[Any]) -> None:
        """Throw away what nothing can match any more: keep just these rows."""
        self._keys = Keys(self.left.kinds.key)
        self.left.restore(left, self._keys)
        self.right.restore(right, self._keys)

    # ------------------------------------------------------------ what is saved

    def layout(self) -> list[list[Any]]:
        """The types of the columns that are saved, group by group."""
        return [[INT, *side.kinds.key, *side.kinds.value, BOOL] for side in (self.left, self.right)]

    def saved(self) -> tuple[dict[str, Any], list[list[Any]]]:
        """A few words, and columns."""
        return {}, [side.kept(LEAST) for side in (self.left, self.right)]

    def load(self, words: dict[str, Any], groups: list[list[Any]]) -> None:
        """Go on from what was saved."""
        self.restore(*groups)
