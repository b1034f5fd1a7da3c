"""A search through the zones of a network, within a budget; what it found, and the way there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pellucid.capacity.zones.compiled import layout as y
from pellucid.capacity.zones.network import Network, Seen, Tables
from pellucid.errors import UsageError
from pellucid.internal.model import Budget, CutShort

if TYPE_CHECKING:
    import numpy as np

Fewest: TypeAlias = Literal["emits", "steps"]
NEVER = 2**40  # a limit that no queue reaches
_TURNS = 2_000
MOST_ROWS = 257
MEMORY = 3 * 2**30  # bytes that a search may hold; what is more is cut short, as by any other budget


@dataclass(frozen=True)
class Label:
    """What a step of the search was: its kind and two numbers, as `urgent` names them."""

    kind: int
    who: int
    where: int


@dataclass(frozen=True)
class Zones:
    """What a search found.

    ``way`` leads to a state that reaches the limit; it is None if there is none, or none was found before the budget
    was spent (``cut`` says so).  ``longest`` has the longest queue of each bolt, in any state and in a settled one.
    """

    network: Network
    observe: Seen
    limit: int
    caps: dict[str, int]
    way: tuple[Label, ...] | None
    longest: dict[str, tuple[int, int]]
    zones: int
    states: int
    expanded: int
    memory: int  # bytes
    cut: str = ""
    _nodes: Any = field(default=None, repr=False, compare=False)
    _zones: Any = field(default=None, repr=False, compare=False)

    @property
    def complete(self) -> bool:
        """Whether all was seen and nothing reaches the limit."""
        return self.way is None and not self.cut

    def kept(self) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
        """The zones that are closed under steps: states and matrices."""
        for row in self._nodes:
            if row[y.FLAG] == y.LEFT:
                n, at = int(row[y.NODE_SIZE]), int(row[y.NODE_ZONE])
                yield tuple(map(int, row[y.NODE_HEAD :])), self._zones[at : at + n * n].reshape(n, n)


def search(
    network: Network,
    *,
    limit: int = NEVER,
    observe: Seen | None = None,
    fewest: Fewest = "emits",
    caps: dict[str, int] | None = None,
    budget: Budget | None = None,
) -> Zones:
    """Look for a state in which the queue of the network's bolt has reached the limit, nearest first.

    ``caps`` says of some bolts that a queue of so many stands for so many or more: more can be reached than is true.

    >>> from pellucid.capacity import Bolt, Spout, Topology
    >>> t = Topology({"S": Spout(gap="0.8")}, {"B": Bolt(time=1, hears="S")})
    >>> found = search(Network.of(t, "B"), limit=2)
    >>> found.complete, len([label for label in found.way if label.kind == 0])
    (False, 7)
    >>> search(Network.of(t.given(gap=1), "B")).longest
    {'B': (1, 0)}
    """
    if limit < 1:
        raise UsageError(f"the limit of {network.bolt}: expected 1 or more, got {limit}.")
    budget = budget or Budget(None, None)
    observe = observe or network.topology.observe
    if network.rows > MOST_ROWS:  # a matrix of that size for each state
        why = f"{network.rows - 1:,} workers and spouts are more than the {MOST_ROWS - 1} for which runs are searched"
        return Zones(network, observe, limit, caps or {}, None, dict.fromkeys(network.bolts, (0, 0)), 0, 0, 0, 0, why)
    tables = network.tables(limit=limit, observe=observe, caps=caps or {}, by_steps=fewest == "steps")
    running = _Running(network, tables)
    return running.result(observe, limit, caps or {}, *running.run(budget))


class _Running:
    """The arrays of a search, which grow when they are full; the registers have their addresses."""

    def __init__(self, network: Network, tables: Tables) -> None:
        self.network, self.width, self.rows = network, len(tables.start), network.rows
        self.registers = _numbers(y.REGISTERS)
        self.held: dict[int, np.ndarray] = {}
        for register, number in tables.numbers.items():
            self.registers[register] = number
        for register, values in tables.arrays.items():
            self._hold(register, _numbers(max(1, len(values))))[: len(values)] = values
        for register in (y.ANY_STATE, y.SETTLED_STATE):
            self._hold(register, _numbers(len(network.bolts)))
        for register in (y.ROW, y.ROW2, y.ROW3, y.HERE):
            self._hold(register, _numbers(self.width))
        for register in (y.ZONE, y.ZONE2, y.ZONE3, y.HERE_ZONE):
            self._hold(register, _numbers(self.rows**2))
        self._hold(y.MAP, _numbers(self.rows))
        self.held[y.HERE][:] = tables.start
        self.registers[y.RESULT] = y.RESULT_HEAD + self.width + self.rows**2
        self.registers[y.NODE] = y.NODE_HEAD + self.width
        self.registers[y.BEST] = -1
        self._results(64)
        self._hold(y.NODES, _numbers(512 * (y.NODE_HEAD + self.width)), 512)
        self._hold(y.ZONES, _numbers(128 * self.rows**2), 128 * self.rows**2)
        self._hold(y.TABLE, _numbers(1024, -1), 1024)
        self._hold(y.LISTS, _numbers(2 * 8192, -1), 8192)

    def _hold(self, register: int, array: np.ndarray, size: int | None = None) -> np.ndarray:
        self.held[register], self.registers[register] = array, array.ctypes.data
        if size is not None:
            self.registers[_SIZES[register]] = size
        return array

    def _results(self, count: int) -> None:
        self._hold(y.RESULTS, _numbers(count * int(self.registers[y.RESULT])), count)

    def _grow(self, why: int) -> None:
        from pellucid.capacity.zones.compiled import kernel as k

        r, held = self.registers, self.held
        results = int(r[y.RESULTS_SIZE])
        if why == k.MORE_RESULTS:
            self._results(4 * results)
        elif why == k.MORE_NODES:
            count = 2 * (int(r[y.NODE_COUNT]) + results)
            self._hold(y.NODES, _longer(held[y.NODES], count * int(r[y.NODE])), count)
        elif why == k.MORE_ZONES:
            count = int(1.6 * int(r[y.ZONES_USED])) + 2 * results * self.rows**2
            self._hold(y.ZONES, _longer(held[y.ZONES], count), count)
        elif why == k.MORE_SLOTS:
            old, size = held[y.TABLE], len(held[y.TABLE])
            while 2 * (int(r[y.STATES]) + results) > size:
                size *= 2
            self._hold(y.TABLE, _numbers(size, -1), size)
            k.rehash(r, old)
        else:
            size = 2 * int(r[y.LISTS_SIZE])
            self._hold(y.LISTS, _longer(held[y.LISTS], 2 * size, -1), size)

    def run(self, budget: Budget) -> tuple[bool, str]:
        """Go on until it is done, found or cut short; whether it was found, and why it was cut."""
        from pellucid.capacity.zones.compiled import kernel as k

        while True:
            why = k.search(self.registers, _TURNS)
            if why in (k.DONE, k.FOUND):
                return why == k.FOUND, ""
            try:
                budget.look(int(self.registers[y.NODE_COUNT]), int(self.registers[y.WAITING]))
            except CutShort as cut:
                return False, str(cut)
            if why != k.WORKING and 2 * sum(array.nbytes for array in self.held.values()) > MEMORY:
                count = int(self.registers[y.NODE_COUNT])
                return False, f"the limit of {MEMORY / 2**30:g} GiB of memory was reached after {count:,} states"
            if why != k.WORKING:
                self._grow(why)

    def result(self, observe: Seen, limit: int, caps: dict[str, int], found: bool, cut: str) -> Zones:
        """What was found."""
        r, bolts = self.registers, self.network.bolts
        count = int(r[y.NODE_COUNT])
        nodes = self.held[y.NODES].reshape(-1, y.NODE_HEAD + self.width)[:count]
        way: list[Label] = []
        node = int(r[y.BEST]) if found else -1
        while node >= 0:
            way.append(Label(*map(int, nodes[node, [y.NODE_KIND, y.NODE_WHO, y.NODE_WHERE]])))
            node = int(nodes[node, y.PARENT])
        longest = {b: (int(self.held[y.ANY_STATE][i]), int(self.held[y.SETTLED_STATE][i])) for i, b in enumerate(bolts)}
        memory = sum(array.nbytes for array in self.held.values())
        kept, states, expanded = (int(r[i]) for i in (y.KEPT, y.STATES, y.EXPANDED))
        led = tuple(way[::-1]) if found else None
        return Zones(
            self.network,
            observe,
            limit,
            caps,
            led,
            longest,
            kept,
            states,
            expanded,
            memory,
            cut,
            nodes,
            self.held[y.ZONES],
        )


_SIZES = {
    y.RESULTS: y.RESULTS_SIZE,
    y.NODES: y.NODES_SIZE,
    y.ZONES: y.ZONES_SIZE,
    y.TABLE: y.TABLE_SIZE,
    y.LISTS: y.LISTS_SIZE,
}


def _numbers(count: int, value: int = 0) -> np.ndarray:
    import numpy as np

    return np.full(count, value, dtype=np.int64)


def _longer(array: np.ndarray, size: int, value: int = 0) -> np.ndarray:
    longer = _numbers(size, value)
    longer[: len(array)] = array
    return longer
