"""A search through the zones of a network, within a budget; what it found, and the way there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from pellucid.capacity.steps import (
    EMIT,
    EXECUTE,
    Place,
    Replay,
    Situation,
    Step,
    Steps,
    Urgent,
    Worker,
    machine_of,
    replay,
)
from pellucid.capacity.steps import Literal as LiteralSteps
from pellucid.capacity.topology import Number, Observation, Topology, exact
from pellucid.capacity.zones import layout as y
from pellucid.capacity.zones.network import Network, Seen, Tables
from pellucid.errors import UsageError
from pellucid.internal.model import Budget, CutShort, Run, on_time

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
        from pellucid.capacity.zones import compiled as k

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
        from pellucid.capacity.zones import compiled as k

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


# When the steps of a way happen: differences of times that must be kept, the least ones, and for which gaps.
#
# A way through zones fixes what happens at which *moment*, and what must lie between two moments: more than a gap
# between two emits of a spout, exactly the time of a tuple between its take and its end.  To have times, solve these
# differences: the longest path to a moment is when it can be at the earliest.  Where a difference is strict, that is an
# infimum which no run attains, but one comes as near to it as one likes.


class Apart(NamedTuple):
    """Moment ``later`` is ``by`` after moment ``earlier``, and the gap of ``spout`` besides, or more; strictly more."""

    earlier: int
    later: int
    by: Fraction
    spout: str | None = None
    strict: bool = False


@dataclass
class Moments:
    """Moments 0, 1, …, the first of which is the beginning, and what is between them."""

    count: int = 1
    apart: list[Apart] = field(default_factory=list)

    def next(self, *, strictly: bool = False) -> int:
        """One more moment, not before the last one."""
        self.apart.append(Apart(self.count - 1, self.count, Fraction(0), None, strictly))
        self.count += 1
        return self.count - 1

    def at_least(self, earlier: int, later: int, by: Fraction, spout: str | None = None, *, strictly: bool) -> None:
        """So much is between them, or more."""
        self.apart.append(Apart(earlier, later, by, spout, strictly))

    def at_most(self, earlier: int, later: int, by: Fraction, *, strictly: bool) -> None:
        """So much is between them, or less."""
        self.apart.append(Apart(later, earlier, -by, None, strictly))

    def earliest(self, topology: Topology | None) -> list[tuple[Fraction, int]]:
        """For each moment the infimum of its time, and how many times a little more it is than that.

        >>> m = Moments()
        >>> _ = m.next(), m.next()
        >>> m.at_least(0, 1, Fraction(1), strictly=True)
        >>> m.at_least(1, 2, Fraction(1), strictly=True)
        >>> [(str(time), more) for time, more in m.earliest(None)]
        [('0', 0), ('1', 1), ('2', 2)]
        """
        bys = [a.by + _gap(topology, a.spout) for a in self.apart]
        unit, little = lcm(*(by.denominator for by in bys)), 2 * self.count  # a time and its littles in one number
        edges = [
            (a.earlier, a.later, int(by * unit) * little + a.strict) for a, by in zip(self.apart, bys, strict=True)
        ]
        found = [0] * self.count
        for _ in range(self.count + 1):
            on_time()
            changed = False
            for i, j, by in edges:
                if found[i] + by > found[j]:
                    found[j], changed = found[i] + by, True
            if not changed:
                return [(Fraction(time // little, unit), time % little) for time in found]
        raise AssertionError("a way through zones has times")

    def times(self, topology: Topology | None, within: Fraction) -> tuple[list[Fraction], Fraction]:
        """Times of all moments, the last of which is less than ``within`` above its infimum, and this infimum.

        >>> m = Moments()
        >>> _ = m.next()
        >>> m.at_least(0, 1, Fraction(1), strictly=True)
        >>> m.times(None, Fraction(1, 50))
        ([Fraction(0, 1), Fraction(101, 100)], Fraction(1, 1))
        """
        found = self.earliest(topology)
        last, more = found[-1]
        little = within / (more + 1)
        for i, j, by, spout, strict in self.apart:
            (early, few), (late, many) = found[i], found[j]
            needed = few + strict - many  # times a little, which the rest of the difference must leave room for
            if needed > 0:
                little = min(little, (late - early - by - _gap(topology, spout)) / needed)
        tenths = Fraction(1, 10)
        while tenths > little:
            tenths /= 10
        return [time + count * tenths for time, count in found], last

    def widest(self, topology: Topology | None, spouts: Collection[str]) -> Fraction | None:
        """The supremum of the gaps, of these spouts, with which there are times: a gap below it has some, it has none
        itself.  None if every gap has.

        A gap is too wide if a circle of differences does not close; the gap with which this circle just closes is the
        next to be tried.

        >>> m = Moments()
        >>> _ = m.next(), m.next()
        >>> m.at_least(0, 1, Fraction(0), "S", strictly=True)
        >>> m.at_most(0, 1, Fraction(4, 5), strictly=True)
        >>> m.widest(None, ["S"])
        Fraction(4, 5)
        """
        edges = [
            (a.earlier, a.later, a.by + (0 if a.spout in spouts else _gap(topology, a.spout)), int(a.spout in spouts))
            for a in self.apart
        ]
        gap = 1 + sum((abs(by) for _, _, by, _ in edges), Fraction(0))
        first = True
        while True:
            circle = _too_long(self.count, [(i, j, by + wide * gap) for i, j, by, wide in edges])
            if circle is None:
                return None if first else gap
            gap = -sum((edges[e][2] for e in circle), Fraction(0)) / sum(edges[e][3] for e in circle)
            first = False


def _gap(topology: Topology | None, spout: str | None) -> Fraction:
    return Fraction(0) if spout is None or topology is None else topology.spouts[spout].gap


def _too_long(count: int, edges: Sequence[tuple[int, int, Fraction]]) -> list[int] | None:
    """A circle of edges whose sum is above 0."""
    unit = lcm(*(by.denominator for _, _, by in edges))
    whole = [(i, j, int(by * unit)) for i, j, by in edges]
    time, came = [0] * count, [-1] * count
    at = -1
    for _ in range(count + 1):
        on_time()
        at = -1
        for e, (i, j, by) in enumerate(whole):
            if time[i] + by > time[j]:
                time[j], came[j], at = time[i] + by, e, j
        if at < 0:
            return None
    for _ in range(count):
        at = edges[came[at]][0]
    circle = list[int]()
    here = at
    while not circle or here != at:
        circle.append(came[here])
        here = edges[came[here]][0]
    return circle


# From the labels of a search to what happened: which worker took, ended or emitted what at which moment.
#
# The search tells workers apart by age only; here they get their numbers.  What it leaves out, the bolts that are not
# upstream of the bolt in question, is put back by `run`.


class Event(NamedTuple):
    """Something that happens at a moment: ``action`` is of the paper (an urgent *end* is a `bolt_emit`, or the end of a
    tuple in a final bolt); ``to`` has the queues that are looked at, ``away`` is how many tuples go elsewhere (with
    ``all``, to all others)."""

    moment: int
    action: str
    who: Place | None = None
    to: tuple[Place, ...] = ()
    away: int = 0


@dataclass
class _Slot:
    """A worker: since which moment it has a tuple (None: it is idle), what is in its own queue."""

    worker: Worker
    since: int | None = None
    queue: int = 0
    done: bool = False


class _Bolt:
    """A bolt on the way: its workers in the order of the state (`layout`)."""

    def __init__(self, network: Network, name: str) -> None:
        bolt = network.topology.bolts[name]
        self.name, self.time, self.ratio = name, bolt.time, bolt.ratio
        self.shared, self.length, self.owed = bolt.queue == "shared", bolt.initial, Fraction(0)
        self.slots = [_Slot(Worker(name, w)) for w in range(network.workers(name))]
        if not self.shared:
            many, rest = divmod(bolt.initial, len(self.slots))
            for w, slot in enumerate(self.slots):
                slot.queue = many + (w < rest)

    @property
    def busy(self) -> list[_Slot]:
        return [slot for slot in self.slots if slot.since is not None and not slot.done]

    def take(self, slot: _Slot, moment: int) -> None:
        """A worker takes: it is the youngest of the busy ones."""
        if self.shared:
            self.length -= 1
            self.slots.remove(slot)
            self.slots.append(slot)
        else:
            slot.queue -= 1
        slot.since = moment

    def idle(self, slot: _Slot) -> None:
        """A worker is idle again: its place is among the idle ones, the longest queue first."""
        slot.since, slot.done = None, False
        at = self.slots.index(slot)
        busy = len(self.busy)
        while not self.shared and at + 1 < len(self.slots) and (at < busy or self.slots[at + 1].queue > slot.queue):
            self.slots[at], self.slots[at + 1] = self.slots[at + 1], self.slots[at]
            at += 1

    def due(self) -> int:
        """How many tuples are put out now."""
        self.owed += self.ratio
        count = int(self.owed)
        self.owed -= count
        return count


class Way:
    """What happened on the way that labels name, and when it can have happened.

    >>> from pellucid.capacity import Bolt, Spout, Topology
    >>> from pellucid.capacity.zones.search import search
    >>> t = Topology({"S": Spout(gap="0.4")}, {"B": Bolt(time=1, hears="S")})
    >>> way = Way(Network.of(t, "B"), search(Network.of(t, "B"), limit=2).way)
    >>> [f"{e.moment}: {e.action}" for e in way.events]
    ['1: spout_emit', '1: bolt_take', '2: spout_emit', '3: spout_emit']
    >>> str(way.moments.earliest(t)[-1][0]), str(way.moments.widest(t, ["S"]))
    ('6/5', '1/2')
    """

    def __init__(self, network: Network, labels: Sequence[Label], observe: Seen = "any") -> None:
        self.network, self.observe, self.moments = network, observe, Moments()
        self.bolts = [_Bolt(network, b) for b in network.bolts]
        self.emitted = dict.fromkeys(network.spouts, 0)
        self.events: list[Event] = []
        self.pending: list[str] = []  # bolts with queues per worker: tuples that are still to be put into one
        self.left: tuple[str, int] | None = None  # who emits how many more
        self.now, self.ending = 0, False
        for i, label in enumerate(labels):
            last = i == len(labels) - 1
            (self._literally if network.topology.semantics == "literal" else self._urgently)(label, last)
        if self.left:  # the limit was reached before all tuples of an emit were put somewhere
            self._place(self.left[0], 0, self.left[1])
        for name in self.pending:
            self._to(Worker(name, 0))

    @property
    def emits(self) -> int:
        """How many tuples the spouts have emitted."""
        return sum(e.action == "spout_emit" for e in self.events)

    # ---------------------------------------------------------------- urgent

    def _urgently(self, label: Label, last: bool) -> None:
        kind = label.kind
        if kind == y.EMIT:
            self._moment()
            self._emit(label)
        elif kind == y.END:
            bolt, w = self.bolts[label.who // y.WORKERS_AT_MOST], label.who % y.WORKERS_AT_MOST
            if not self.ending:
                self._moment()
                self.ending = True
            slot = bolt.busy[w]
            assert slot.since is not None
            self.moments.at_least(slot.since, self.now, bolt.time, strictly=False)
            self.moments.at_most(slot.since, self.now, bolt.time, strictly=False)
            bolt.idle(slot)
            self._put_out(bolt, slot.worker, label.where)
        elif kind == y.PLACE:
            self._next(label.where)
        elif kind == y.SLOT:
            bolt = self.bolts[label.who]
            self.pending.remove(bolt.name)
            bolt.slots[label.where].queue += 1
            self._to(bolt.slots[label.where].worker)
        if last and self.observe == "any":  # the limit is reached before the takes
            self._by_their_ends(strictly=False)
        elif kind in (y.TAKES, y.START) or (kind in (y.EMIT, y.SLOT, y.PLACE) and not (self.ending or self.pending)):
            self._takes()

    def _moment(self) -> None:
        self.now = self.moments.next()

    def _by_their_ends(self, *, strictly: bool) -> None:
        """No busy worker is beyond the end of its tuple."""
        for bolt in self.bolts:
            for slot in bolt.busy:
                assert slot.since is not None
                self.moments.at_most(slot.since, self.now, bolt.time, strictly=strictly)

    def _takes(self) -> None:
        if self.ending:
            self._by_their_ends(strictly=True)
        self.ending = False
        for bolt in self.bolts:
            slots = bolt.slots if not bolt.shared else sorted(bolt.slots, key=lambda slot: slot.worker)
            for slot in [slot for slot in slots if slot.since is None]:
                if (bolt.length if bolt.shared else slot.queue) > 0:
                    bolt.take(slot, self.now)
                    self.events.append(Event(self.now, "bolt_take", slot.worker))

    # ---------------------------------------------------------------- both

    def _emit(self, label: Label) -> None:
        spout = self.network.spouts[label.who]
        self.moments.at_least(self.emitted[spout], self.now, Fraction(0), spout, strictly=True)
        self.emitted[spout] = self.now
        if self.network.topology.semantics == "urgent":
            self._by_their_ends(strictly=True)
        self.events.append(Event(self.now, "spout_emit", spout))
        self._place(spout, label.where, 1)

    def _put_out(self, bolt: _Bolt, worker: Worker, choice: int) -> None:
        count = bolt.due() if self.network.topology.listeners(bolt.name) else 0
        self.events.append(Event(self.now, "bolt_emit", worker))
        choices = len(self.network.listeners(bolt.name)) + bool(self.network.elsewhere(bolt.name))
        if self.network.topology.routing == "one" and count > 1 and choices > 1:
            self.left = bolt.name, count  # one by one, by the labels that follow
            return
        self._place(bolt.name, choice, count)

    def _next(self, choice: int) -> None:
        """One of several tuples goes somewhere."""
        assert self.left is not None
        name, count = self.left
        self.left = (name, count - 1) if count > 1 else None
        self._place(name, choice, 1)

    def _place(self, name: str, choice: int, count: int) -> None:
        heard = self.network.listeners(name)
        if count == 0 or not self.network.topology.listeners(name):
            return
        away = 0
        if self.network.topology.routing == "all":
            for b in heard:
                self._give(b, count)
            away = count
        elif choice < len(heard):
            self._give(heard[choice], count)
        else:
            away = count
        self.events[-1] = self.events[-1]._replace(away=self.events[-1].away + away)

    def _give(self, name: str, count: int) -> None:
        bolt = self.bolts[self.network.bolts.index(name)]
        if bolt.shared:
            bolt.length += count
            self._to(*[name] * count)
        else:
            self.pending += [name] * count

    def _to(self, *places: Place) -> None:
        self.events[-1] = self.events[-1]._replace(to=(*self.events[-1].to, *places))

    # ---------------------------------------------------------------- literal

    def _literally(self, label: Label, last: bool) -> None:
        kind = label.kind
        if kind == y.ELAPSE:
            self._elapse(label.where)
        elif kind == y.EMIT:
            self._emit(label)
        elif kind == y.END:
            bolt = self.bolts[label.who]
            slot = next(slot for slot in bolt.slots if slot.done)
            bolt.idle(slot)
            self._put_out(bolt, slot.worker, label.where)
        elif kind == y.PLACE:
            self._next(label.where)
        elif kind == y.TAKE:
            bolt = self.bolts[label.who]
            slot = min((slot for slot in bolt.slots if slot.since is None), key=lambda slot: slot.worker)
            bolt.take(slot, self.now)
            self.events.append(Event(self.now, "bolt_take", slot.worker))
        elif kind in (y.DO_TAKE, y.DO_EMIT):
            several = self.network.workers(self.network.bolt) > 1
            if kind == y.DO_TAKE:
                word = "T" if label.who else "F1" if not label.where else "F2" if several else "F2a"
            else:
                word = "T" if label.who else "F1" if several else "F1a"
            self.events.append(Event(self.now, f"setDo{'Take' if kind == y.DO_TAKE else 'Emit'}_{word}"))

    def _elapse(self, code: int) -> None:
        self.now = self.moments.next(strictly=True)
        self.events.append(Event(self.now, "time_elapse"))
        for bolt in self.bolts:
            busy = bolt.busy
            over = code % (1 + len(busy))
            code //= 1 + len(busy)
            for i, slot in enumerate(busy):
                assert slot.since is not None
                if i >= over:
                    self.moments.at_most(slot.since, self.now, bolt.time, strictly=True)
                    continue
                self.moments.at_least(slot.since, self.now, bolt.time, strictly=False)
                if self.network.topology.listeners(bolt.name):
                    slot.done = True
                else:
                    bolt.idle(slot)


# A way as a run of the whole topology, with exact times, as `replay` accepts it.
#
# The bolts that the search left out take, end and emit whenever they can: under the `urgent` semantics they must, and
# it changes nothing upstream; under the `literal` one they need not do anything.

WITHIN = Fraction(1, 100)


@dataclass(frozen=True)
class Trace:
    """A run that reaches a limit: ``steps`` with exact times.

    ``infimum`` is the least time that runs of the same steps approach; none attains it, unless it is 0.  It is not
    known (None) of a run that was not found by zones.
    """

    topology: Topology
    bolt: str
    limit: int
    observe: Seen
    steps: tuple[Step, ...]
    emits: int
    infimum: Fraction | None
    way: Way | None

    @property
    def duration(self) -> Fraction:
        """How long this run takes."""
        return sum((step.by or Fraction(0) for step in self.steps), Fraction(0))

    def replayed(self) -> Replay:
        """What the judge of all runs makes of it."""
        return replay(self.topology, self.steps, bolt=self.bolt)

    @property
    def confirmed(self) -> bool:
        """Whether the replay reaches the limit."""
        observe: Observation = "settled" if self.observe == "settled" else "any"
        return self.replayed().longest(self.bolt, observe) >= self.limit

    @property
    def why(self) -> str:
        """In words."""
        settled = "a settled queue" if self.observe == "settled" else "the queue"
        emits = f"{self.emits} emit{'' if self.emits == 1 else 's'} of the spouts"
        return f"{settled} of {self.bolt} reaches {self.limit} after {emits}"

    def run(self) -> Run:
        """As a counterexample."""
        delays = sorted({step.by for step in self.steps if step.by is not None})
        machine = machine_of(self.topology, bolt=self.bolt, delays=delays)
        return Run((), self.steps, None, self.why, machine)


def trace(found: Zones, *, within: Number = WITHIN) -> Trace:
    """The run that a search has found, its time less than ``within`` above the infimum.

    >>> from pellucid.capacity import Bolt, Spout, Topology
    >>> from pellucid.capacity.zones.search import search
    >>> t = Topology({"S": Spout(gap="0.4")}, {"B": Bolt(time=1, hears="S")})
    >>> shown = trace(search(Network.of(t, "B"), limit=2))
    >>> [str(step) for step in shown.steps]
    ['time_elapse 401/1000', 'spout_emit S → B', 'bolt_take B[0]', 'time_elapse 401/1000', 'spout_emit S → B',
     'time_elapse 401/1000', 'spout_emit S → B']
    >>> shown.infimum, shown.duration, shown.confirmed
    (Fraction(6, 5), Fraction(1203, 1000), True)
    """
    assert found.way is not None, "nothing was found"
    network = found.network
    way = Way(network, found.way, found.observe)
    times, infimum = way.moments.times(network.topology, exact(within, "within"))
    if network.topology.semantics == "literal":
        steps = _literally(network, way, times, found.observe)
    else:
        steps = _Urgently(network, way, times, found.observe).steps
    shown = Trace(network.topology, network.bolt, found.limit, found.observe, tuple(steps), way.emits, infimum, way)
    assert shown.confirmed, f"the replay does not confirm the run that zones have found: {shown.why}"
    return shown


def given_run(topology: Topology, bolt: str, limit: int, observe: Seen, steps: tuple[Step, ...]) -> Trace:
    """A run that was found elsewhere."""
    emits = sum(step.action == "spout_emit" for step in steps)
    shown = Trace(topology, bolt, limit, observe, steps, emits, None, None)
    assert shown.confirmed, f"the replay does not confirm a run: {shown.why}"
    return shown


def _places(network: Network, event: Event) -> tuple[Place, ...]:
    """Where the tuples of an event go, those for bolts that were left out besides."""
    assert event.who is not None
    name = event.who if isinstance(event.who, str) else event.who[0]
    others = network.elsewhere(name)
    if network.topology.routing == "one":
        others = others[:1]
    return (*event.to, *(_first(network, b) for b in others for _ in range(event.away)))


def _first(network: Network, bolt: str) -> Place:
    return bolt if network.topology.bolts[bolt].queue == "shared" else Worker(bolt, 0)


class _Urgently:
    """The machine of the whole topology, driven by the events of a way."""

    def __init__(self, network: Network, way: Way, times: list[Fraction], observe: Seen) -> None:
        self.network, self.machine = network, Urgent(network.topology)
        self.at: Situation = self.machine.start()
        self.now, self.steps = Fraction(0), list[Step]()
        self.others = [w for w, worker in enumerate(self.machine.workers) if worker.bolt not in network.bolts]
        for event in way.events:
            self._pass(times[event.moment])
            if event.action == "spout_emit":
                self._rest()
            elif event.action == "bolt_emit" and not network.topology.listeners(event.who[0]):  # type: ignore[index]
                continue  # the end of a tuple in a final bolt is no step
            to = () if event.action == "bolt_take" else _places(network, event)
            self._do(Step(event.action, event.who, to))
        if observe == "settled":
            self._rest()

    def _do(self, step: Step) -> None:
        self.steps.append(step)
        self.at = self.machine.after(self.at, step)

    def _rest(self) -> None:
        """What the bolts that were left out can take and emit at this moment."""
        machine, done = self.machine, False
        while not done:
            done = True
            for w in self.others:
                worker = machine.workers[w]
                if self.at.status[w] == EMIT:
                    count = machine.due(self.at, machine.bolt_of[w])
                    self._do(Step("bolt_emit", worker, next(iter(machine.deliveries(worker.bolt, count)))))
                    done = False
                elif machine.can_take(self.at, w):
                    self._do(Step("bolt_take", worker))
                    done = False

    def _pass(self, time: Fraction) -> None:
        """Let time pass, with what the other bolts do meanwhile."""
        while self.now < time:
            self._rest()
            left = [Fraction(self.at.left[w]) for w in self.others if self.at.status[w] == EXECUTE]
            by = min([time - self.now, *left])
            self._do(Step("time_elapse", by=by))
            self.now += by


def _literally(network: Network, way: Way, times: list[Fraction], observe: Seen) -> list[Step]:
    """The steps as they are; for a settled state the bolts that were left out take and emit in the end."""
    steps, now = list[Step](), Fraction(0)
    for event in way.events:
        if event.action == "time_elapse":
            steps.append(Step("time_elapse", by=times[event.moment] - now))
            now = times[event.moment]
        elif event.action in ("spout_emit", "bolt_emit"):
            steps.append(Step(event.action, event.who, _places(network, event)))
        else:
            steps.append(Step(event.action, event.who))
    if observe == "settled":
        machine: Steps = LiteralSteps(network.topology, network.bolt)
        at = machine.start()
        for step in steps:
            at = machine.after(at, step)
        while not machine.settled(at):
            found = next(
                (step, then) for step, then in machine.steps(at)
                if step.who is None or (isinstance(step.who, tuple) and step.who[0] not in network.bolts)
            )  # fmt: skip
            steps.append(found[0])
            at = found[1]
    return steps
