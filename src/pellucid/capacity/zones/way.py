"""From the labels of a search to what happened: which worker took, ended or emitted what at which moment.

The search tells workers apart by age only; here they get their numbers.  What it leaves out, the bolts that are not
upstream of the bolt in question, is put back by `run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from pellucid.capacity.steps.step import Place, Worker
from pellucid.capacity.zones.compiled import layout as y
from pellucid.capacity.zones.moments import Moments
from pellucid.capacity.zones.network import Network, Seen
from pellucid.capacity.zones.search import Label


class Event(NamedTuple):
    """Something that happens at a moment: ``action`` is of the paper (an urgent *end* is a `bolt_emit`, or the end of a
    tuple in a final bolt); ``to`` has the queues that are looked at, ``away`` is how many tuples go elsewhere (with
    ``all``, to everybody else)."""

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
        self.left: tuple[str, int] | None = None  # who puts out how many more
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
