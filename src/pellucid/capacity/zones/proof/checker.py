"""The checker of certificates: a small program in plain Python that knows the semantics and nothing of the search.

Zones prove that a limit is kept if (1) the beginning is in one of them, (2) every step from any of them leads into one
of them, and (3) on no such step the limit is reached.  A step of the `urgent` semantics is a whole moment here: a spout
emits, or some workers end; then takes and emits follow **in every order** that there is, one by one, and each state in
between is looked at.  So it is also checked that the search was right to go through one order only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, combinations_with_replacement, product
from math import lcm
from typing import NamedTuple, TypeAlias

from pellucid.capacity.zones.proof.certificate import Certificate
from pellucid.capacity.zones.proof.zone import Zone
from pellucid.internal.model import on_time

Busy: TypeAlias = tuple[int, int]  # a clock (−1: a tuple that is taken just now) and the number of the worker


class Bolt(NamedTuple):
    """A bolt in a moment: its queues (one, if it is shared, else one for each worker), who is busy, who waits to emit,
    who is idle, what is owed of its ratio."""

    queues: tuple[int, ...]
    busy: tuple[Busy, ...]
    ended: tuple[int, ...]
    idle: tuple[int, ...]
    owed: Fraction


Bolts: TypeAlias = tuple[Bolt, ...]
Key: TypeAlias = tuple[tuple[tuple[int, ...], int, Fraction, int], ...]


def wrong(proof: Certificate) -> str | None:
    """What is wrong with a certificate; None if it proves what it says."""
    if proof.topology.semantics == "literal":
        from pellucid.capacity.zones.proof.literal import LiteralChecker

        return LiteralChecker(proof).wrong()
    return Checker(proof).wrong()


class Checker:
    """The urgent semantics."""

    def __init__(self, proof: Certificate) -> None:
        self.proof, self.topology = proof, proof.topology
        self.bolts = [self.topology.bolts[b] for b in proof.bolts]
        self.shared = [b.queue == "shared" for b in self.bolts]
        self.workers = [int(b.workers) for b in self.bolts]  # type: ignore[arg-type]
        self.caps = [proof.caps.get(b) for b in proof.bolts]
        self.target = proof.bolts.index(proof.bolt)
        gaps, times = [self.topology.spouts[s].gap for s in proof.spouts], [b.time for b in self.bolts]
        self.unit = lcm(*(number.denominator for number in gaps + times))  # whole numbers are faster than fractions
        self.gaps, self.times = [int(gap * self.unit) for gap in gaps], [int(time * self.unit) for time in times]
        self.known: dict[object, list[Zone]] = defaultdict(list)

    def wrong(self) -> str | None:
        """The first thing that is wrong."""
        said = self.shape() or self.upstream()
        if said is not None:
            return said
        for place in self.proof.places:
            self.known[place.bolts].append(Zone.read(place.zone, self.unit))
        spouts = len(self.gaps)
        start = Zone.zero(1 + spouts)
        begins = tuple(self._beginning(i) for i in range(len(self.bolts)))
        said = self.moment(begins, start)
        if said is not None:
            return f"at the beginning, {said}"
        for number, place in enumerate(self.proof.places):
            said = self.steps(place.bolts, Zone.read(place.zone, self.unit))
            if said is not None:
                return f"zone {number}: {said}"
        return None

    def shape(self) -> str | None:
        """Whether states and matrices are what they should be."""
        if self.proof.limit < 1:
            return "the limit is below 1"
        for number, place in enumerate(self.proof.places):
            if len(place.bolts) != len(self.bolts):
                return f"zone {number} has {len(place.bolts)} bolts, not {len(self.bolts)}"
            rows = 1 + len(self.gaps) + sum(busy for _, busy, _, _ in place.bolts)
            if len(place.zone) != rows or any(len(row) != rows for row in place.zone):
                return f"zone {number} is not a matrix of {rows} by {rows}"
        return None

    def upstream(self) -> str | None:
        """Whether everything is there that can bring tuples to the bolt."""
        for b in self.proof.bolts:
            for heard in self.topology.bolts[b].hears:
                if heard not in self.proof.spouts and heard not in self.proof.bolts:
                    return f"{heard}, which {b} hears, is missing"
        return None

    def _beginning(self, i: int) -> Bolt:
        bolt, many = self.bolts[i], self.workers[i]
        queues: tuple[int, ...] = (bolt.initial,)
        if not self.shared[i]:
            queues = tuple(bolt.initial // many + (w < bolt.initial % many) for w in range(many))
        return Bolt(queues, (), (), tuple(range(many)), Fraction(0))

    # ---------------------------------------------------------------- steps from a zone

    def steps(self, key: Key, zone: Zone) -> str | None:
        """Everything that can happen from a settled state."""
        now, clock = [], 1 + len(self.gaps)
        for i, (queues, busy, owed, _) in enumerate(key):
            idle = tuple(range(busy, self.workers[i]))
            now.append(Bolt(queues, tuple((clock + k, k) for k in range(busy)), (), idle, owed))
            clock += busy
        bolts = tuple(now)
        working = [(i, c) for i, bolt in enumerate(bolts) for c, _ in bolt.busy]
        for then, over in self._endings(zone, working):
            said = self._end(bolts, then, over) if over else self._spouts(bolts, then)
            if said is not None:
                return said
        return None

    def _endings(self, zone: Zone, working: list[tuple[int, int]]) -> Iterator[tuple[Zone, frozenset[int]]]:
        """The parts of a zone by whose clocks are at the end of their tuples."""
        parts: list[tuple[Zone, frozenset[int]]] = [(zone, frozenset())]
        for i, c in working:
            time = self.times[i]
            divided = [(part.below(c, time), over) for part, over in parts]
            divided += [(part.equal(c, time), over | {c}) for part, over in parts]
            parts = [(part, over) for part, over in divided if not part.empty]
        yield from parts

    def _spouts(self, bolts: Bolts, zone: Zone) -> str | None:
        for s, name in enumerate(self.proof.spouts):
            then = zone.above(1 + s, self.gaps[s])
            if then.empty:
                continue
            for after in self.delivered(bolts, name, 1):
                said = self.moment(after, then.reset(1 + s))
                if said is not None:
                    return f"{name} emits, and {said}"
        return None

    def _end(self, bolts: Bolts, zone: Zone, over: frozenset[int]) -> str | None:
        after = []
        for i, bolt in enumerate(bolts):
            done = tuple(w for c, w in bolt.busy if c in over)
            busy = tuple((c, w) for c, w in bolt.busy if c not in over)
            if self.topology.listeners(self.proof.bolts[i]):
                after.append(bolt._replace(busy=busy, ended=done))
            else:
                after.append(bolt._replace(busy=busy, idle=(*bolt.idle, *done)))
        said = self.moment(tuple(after), zone)
        return None if said is None else f"some workers end, and {said}"

    # ---------------------------------------------------------------- one moment

    def moment(self, bolts: Bolts, zone: Zone) -> str | None:
        """Takes and emits in every order, until there are none; then time passes."""
        waiting, seen = [bolts], {bolts}
        while waiting:
            on_time()
            here = waiting.pop()
            if self.proof.observe == "any" and self.length(here) >= self.proof.limit:
                return f"the queue of {self.proof.bolt} is {self.length(here)}"
            last = True
            for after in chain(self.takes(here), self.emits(here)):
                last = False
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)
            if last:
                said = self.settled(here, zone)
                if said is not None:
                    return said
        return None

    def length(self, bolts: Bolts) -> int:
        """The queue that is asked about; the longest, if each worker has one."""
        return max(bolts[self.target].queues)

    def takes(self, bolts: Bolts) -> Iterator[Bolts]:
        """One idle worker takes."""
        for i, bolt in enumerate(bolts):
            for w in bolt.idle:
                q = 0 if self.shared[i] else w
                if bolt.queues[q] == 0:
                    continue
                idle = tuple(v for v in bolt.idle if v != w)
                lefts = {bolt.queues[q] - 1}
                if self.caps[i] is not None and bolt.queues[q] >= self.caps[i]:  # type: ignore[operator]
                    lefts.add(bolt.queues[q])  # so many or more
                for left in lefts:
                    queues = (*bolt.queues[:q], left, *bolt.queues[q + 1 :])
                    yield _with(bolts, i, bolt._replace(queues=queues, idle=idle, busy=(*bolt.busy, (-1, w))))
                if self.shared[i]:
                    break  # they are all alike

    def emits(self, bolts: Bolts) -> Iterator[Bolts]:
        """One worker that has ended puts out what is due."""
        for i, bolt in enumerate(bolts):
            for k, w in enumerate(bolt.ended):
                owed = bolt.owed + self.bolts[i].ratio
                count = owed.numerator // owed.denominator
                ended = bolt.ended[:k] + bolt.ended[k + 1 :]
                after = bolt._replace(ended=ended, idle=(*bolt.idle, w), owed=owed - count)
                yield from self.delivered(_with(bolts, i, after), self.proof.bolts[i], count)
                if self.shared[i]:
                    break

    def delivered(self, bolts: Bolts, name: str, count: int) -> Iterator[Bolts]:
        """Tuples of somebody, in every way in which they can go."""
        groups = []
        for b in self.topology.listeners(name):
            if b not in self.proof.bolts:
                groups.append([None])
                continue
            i = self.proof.bolts.index(b)
            groups.append([(i, q) for q in range(1 if self.shared[i] else self.workers[i])])  # type: ignore[misc]
        if self.topology.routing == "one":
            groups = [list(chain.from_iterable(groups))]
        for choice in product(*(combinations_with_replacement(group, count) for group in groups)):
            after = bolts
            for target in chain.from_iterable(choice):
                if target is None:
                    continue
                i, q = target
                more = after[i].queues[q] + 1
                cap = self.caps[i]
                more = more if cap is None else min(more, cap)
                queues = (*after[i].queues[:q], more, *after[i].queues[q + 1 :])
                after = _with(after, i, after[i]._replace(queues=queues))
            yield after

    def settled(self, bolts: Bolts, zone: Zone) -> str | None:
        """Time passes: the zone must be part of one that is known."""
        if self.length(bolts) >= self.proof.limit:
            return f"the settled queue of {self.proof.bolt} is {self.length(bolts)}"
        clocks, ends, key = list(range(1 + len(self.gaps))), list[tuple[int, int]](), []
        for i, bolt in enumerate(bolts):
            old = [(c, w) for c, w in bolt.busy if c >= 0]
            new = [(c, w) for c, w in bolt.busy if c < 0]
            queues = bolt.queues
            if not self.shared[i]:
                new.sort(key=lambda worker: -bolt.queues[worker[1]])
                idle = sorted((bolt.queues[w] for w in bolt.idle), reverse=True)
                queues = (*(bolt.queues[w] for _, w in old + new), *idle)
            for c, _ in old + new:
                ends.append((len(clocks), self.times[i]))
                clocks.append(max(c, 0))  # a new clock is as the constant 0
            key.append((queues, len(bolt.busy), bolt.owed, 0))
        then = zone.chosen(clocks).later(ends)
        if any(then.within(known) for known in self.known[tuple(key)]):
            return None
        return f"this leads out of the zones: {tuple(key)}"


def _with(bolts: Bolts, i: int, bolt: Bolt) -> Bolts:
    return (*bolts[:i], bolt, *bolts[i + 1 :])
