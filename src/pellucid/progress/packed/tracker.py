"""The compiled clock as it is called."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.errors import UsageError
from pellucid.progress.antichain import Antichain, ChangeBatch
from pellucid.progress.builder import Arcs, Location
from pellucid.progress.packed import kernel, tables
from pellucid.progress.packed.plan import Plan
from pellucid.progress.rows import pack, unpack
from pellucid.progress.times import Integers, Time
from pellucid.progress.tracker import Tracker

_COUNT = 2**40  # a change of a count: more than this is a mistake, and sums stay within 64 bits


def _zeros(count: int) -> Any:
    return np.zeros(count, dtype=np.int64)


class Packed(Tracker):
    """Incremental and compiled, for times of whole numbers."""

    def __init__(self, arcs: Arcs, plan: Plan) -> None:
        super().__init__(arcs)
        self.plan, self.width = plan, plan.width
        self._bare = [isinstance(order, Integers) for order in arcs.orders]  # the time itself is the one coordinate
        one = zip(self._bare, plan.layouts, strict=True)
        self._bounds = [(found.low[0], found.high[0]) if bare else (1, 0) for bare, found in one]
        self._waiting: list[int] = []
        w, cells = self.width, 3 * len(arcs.places)
        self._held: list[Any] = [plan.tables, _zeros(tables.CELLS + tables.CELL * cells), None, None, None, None]
        self._clock = self._held[1]
        self._where = _zeros(6)  # their addresses
        self._where[:2] = [plan.tables.ctypes.data, self._clock.ctypes.data]
        kernel.reset(self._where, cells)
        self._more_nodes(64)
        self._more_heap(64)
        self._hold(5, _zeros(64 * (w + 2)))

    def _hold(self, which: int, array: Any) -> None:
        self._held[which], self._where[which] = array, array.ctypes.data

    def _more_nodes(self, count: int) -> None:
        size = count * (tables.TIME + self.width)
        nodes, table = _zeros(size), _zeros(1 + (1 << (2 * count - 1).bit_length()))
        if self._held[2] is not None:
            nodes[: self._held[2].size] = self._held[2]
        table[0] = table.size - 2
        self._hold(2, nodes)
        self._hold(3, table)
        kernel.supply(self._where, size)

    def _more_heap(self, count: int) -> None:
        heap = _zeros(count * (self.width + 2))
        if self._held[4] is not None:
            heap[: self._held[4].size] = self._held[4]
        self._hold(4, heap)
        self._clock[tables.HEAP] = count

    # ------------------------------------------------------------ what changes

    def update(self, location: Location, time: Time, diff: int) -> None:
        try:
            at = self.arcs.at.get(location, -1)
        except TypeError:  # its node is a list: nobody has that
            at = -1
        if type(time) is int and type(diff) is int and self.width == 1 and at >= 0:
            low, high = self._bounds[at]
            if low <= time <= high and -_COUNT <= diff <= _COUNT:  # the common case, without the detour
                self._waiting += (at, diff, time)
                return
        super().update(location, time, diff)

    def _update(self, at: int, time: Time, diff: int) -> None:
        if not -_COUNT <= diff <= _COUNT:
            raise UsageError(f"{self.arcs.places[at]}: a change of a count by {diff} is too large")
        row = (time,) if self._bare[at] else pack(self.arcs.orders[at], time)
        self._waiting += (at, diff, *row)
        if len(row) < self.width:
            self._waiting += [0] * (self.width - len(row))

    def propagate_all(self) -> None:
        rows = self._waiting
        if len(rows) > self._held[5].size:
            self._hold(5, _zeros(2 * len(rows)))
        self._held[5][: len(rows)] = rows
        self._run(len(rows))
        rows.clear()

    def _run(self, size: int) -> None:
        """Of the updates' array so many numbers."""
        clock = self._clock
        clock[tables.UPDATES] = size
        while lacks := kernel.propagate(self._where):
            more = int(clock[tables.LACKS])
            if lacks == tables.MORE_HEAP:
                self._more_heap(int(clock[tables.HEAP]) + max(int(clock[tables.HEAP]), more))
            else:
                count = int(clock[tables.NODES]) // (tables.TIME + self.width)
                self._more_nodes(count + max(count, more))

    def number(self, location: Location) -> int:
        """The number of a location, for `update_rows`."""
        return self._at(location)

    def update_rows(self, numbers: Any, times: Any, diffs: Any) -> None:
        """Many changes at once, and `propagate_all`: arrays of locations (by `number`), of times (a column for each
        coordinate) and of changes."""
        numbers, times, diffs = (np.asarray(given, dtype=np.int64) for given in (numbers, times, diffs))
        times = times.reshape(len(numbers), -1)
        if len(diffs) != len(numbers) or (len(numbers) and (numbers.min() < 0 or numbers.max() >= len(self._bare))):
            raise UsageError(
                "update_rows: as many changes as locations are needed, and numbers of locations that are there"
            )
        if len(diffs) and np.abs(diffs).max() > _COUNT:
            raise UsageError(f"update_rows: a change of a count by more than {_COUNT} is too large")
        rows = np.zeros((len(numbers), self.width + 2), dtype=np.int64)
        rows[:, 0], rows[:, 1], rows[:, 2 : 2 + times.shape[1]] = numbers, diffs, times
        for at in np.unique(numbers):
            found, mine = self.plan.layouts[at], rows[numbers == at, 2:]
            low, high = np.array(found.low), np.array(found.high)
            ends = self.arcs.ends
            for p in range(len(low)):
                low[p], high[p] = max(low[p], ends.low.get(p, low[p])), min(high[p], ends.high.get(p, high[p]))
            inside = (mine[:, : len(low)] >= low) & (mine[:, : len(low)] <= high)
            if times.shape[1] < len(low) or not inside.all() or mine[:, len(low) :].any():
                place, order = self.arcs.places[at], self.arcs.orders[at]
                near = ", or too near the ends of 64 bits" if any(ends) else ""
                raise UsageError(f"update_rows: a row for {place} is not a time of {order}{near}")
        self.propagate_all()
        flat = rows.reshape(-1)
        self._hold(5, flat if len(flat) else _zeros(1))
        self._run(len(flat))

    # ------------------------------------------------------------ what is so

    def pushed_rows(self) -> Any:
        """How frontiers changed since it was asked for last, as an array: a row has a location's number, the change and
        the time's coordinates."""
        found = np.empty((int(self._clock[tables.PUSHES]), self.width + 2), dtype=np.int64)
        if len(found):
            kernel.drain(self._where, found.reshape(-1))
        return found

    def pushed(self) -> ChangeBatch:
        if self._clock[tables.PUSHES]:
            places, orders, bare, update = self.arcs.places, self.arcs.orders, self._bare, self._pushed.update
            for at, diff, *row in self.pushed_rows().tolist():
                update((places[at], row[0] if bare[at] else self._time(orders[at], at, row)), diff)
        return self._pushed

    def _time(self, order: Any, at: int, row: list[int]) -> Time:
        return unpack(order, tuple(row[: len(self.plan.layouts[at].low)]))

    def _frontier(self, at: int) -> Antichain:
        found = np.empty(8 * self.width, dtype=np.int64)
        count = kernel.frontier(self._where, at, found)
        if count > 8:
            found = np.empty(count * self.width, dtype=np.int64)
            kernel.frontier(self._where, at, found)
        order = self.arcs.orders[at]
        rows = found[: count * self.width].reshape(-1, self.width).tolist()
        return Antichain((self._time(order, at, row) for row in rows), order)

    def pointstamps(self) -> list[tuple[tuple[Location, Time], int]]:
        found = np.empty(0, dtype=np.int64)
        found = np.empty(kernel.counted(self._where, found) * (self.width + 2), dtype=np.int64)
        kernel.counted(self._where, found)
        rows = found.reshape(-1, self.width + 2).tolist()
        places, orders = self.arcs.places, self.arcs.orders
        return sorted((((places[at], self._time(orders[at], at, row)), count) for at, count, *row in rows), key=str)

    @property
    def settled(self) -> int:
        """How many changes were looked at so far: what the clock has cost."""
        return int(self._clock[tables.SETTLED])
