"""Zones for the checker of certificates: bounds are numbers with their strictness, and every operation closes again.

Slow and plain: nothing here is shared with the compiled matrices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain, combinations_with_replacement, product
from math import lcm
from typing import NamedTuple, TypeAlias

from pellucid.capacity.zones.certificate import Certificate
from pellucid.internal.model import on_time

# A bound of a difference: how much at most, and 0 if it is less than that, else 1.  Pairs compare as bounds do.
Bound: TypeAlias = "tuple[Fraction | int, int]"
Number: TypeAlias = "Fraction | int"
Rows: TypeAlias = "list[list[Bound | None]]"
NONE: Bound = (0, 1)


class Zone:
    """All values of clocks whose differences are within bounds; clock 0 is the constant 0.

    >>> z = Zone.zero(3).later([(1, Fraction(1))]).above(2, Fraction(1, 2))
    >>> z.empty, z.above(1, Fraction(1)).empty, z.reset(2).rows[2][1]
    (False, True, (Fraction(-1, 2), 0))
    """

    def __init__(self, rows: Rows) -> None:
        self.rows, self.empty = rows, False

    @staticmethod
    def zero(count: int) -> Zone:
        """All clocks are 0."""
        return Zone([[NONE] * count for _ in range(count)])

    @staticmethod
    def read(rows: Sequence[Sequence[str | None]], unit: int) -> Zone:
        """As a certificate has it, in units of 1 / unit."""
        return Zone([[_read(entry, unit) for entry in row] for row in rows])._closed()

    def _closed(self) -> Zone:
        rows, count = self.rows, len(self.rows)
        for k in range(count):
            through = rows[k]
            for row in rows:
                first = row[k]
                if first is None:
                    continue
                for j in range(count):
                    second = through[j]
                    if second is None:
                        continue
                    total = first[0] + second[0], first[1] & second[1]
                    known = row[j]
                    if known is None or total < known:
                        row[j] = total
        self.empty = any((row[i] or NONE) < NONE for i, row in enumerate(rows))
        return self

    def _with(self, i: int, j: int, bound: Bound) -> Zone:
        """With a tighter bound: whatever goes through it may be tighter, too."""
        known = self.rows[i][j]
        if self.empty or (known is not None and known <= bound):
            return self
        rows = [list(row) for row in self.rows]
        last = self.rows[j]
        for row in rows:
            first = row[i]
            if first is None:
                continue
            first = first[0] + bound[0], first[1] & bound[1]
            for k, rest in enumerate(last):
                if rest is not None:
                    total = first[0] + rest[0], first[1] & rest[1]
                    old = row[k]
                    if old is None or total < old:
                        row[k] = total
        then = Zone(rows)
        then.empty = any((row[k] or NONE) < NONE for k, row in enumerate(rows))
        return then

    def below(self, clock: int, time: Number) -> Zone:
        """With this clock less than a time."""
        return self._with(clock, 0, (time, 0))

    def at_most(self, clock: int, time: Number) -> Zone:
        """With this clock at most a time."""
        return self._with(clock, 0, (time, 1))

    def above(self, clock: int, time: Number) -> Zone:
        """With this clock more than a time."""
        return self._with(0, clock, (-time, 0))

    def at_least(self, clock: int, time: Number) -> Zone:
        """With this clock at least a time."""
        return self._with(0, clock, (-time, 1))

    def equal(self, clock: int, time: Number) -> Zone:
        """With this clock at a time."""
        return self.at_most(clock, time).at_least(clock, time)

    def reset(self, clock: int) -> Zone:
        """This clock becomes 0."""
        order = list(range(len(self.rows)))
        order[clock] = 0
        return self.chosen(order)

    def chosen(self, clocks: Sequence[int]) -> Zone:
        """These clocks, in this order; 0 is a clock that is 0."""
        rows = [[self.rows[i][j] for j in clocks] for i in clocks]
        for a, i in enumerate(clocks):
            for b, j in enumerate(clocks):
                if i == j:
                    rows[a][b] = NONE
        return Zone(rows)

    def later(self, ends: Sequence[tuple[int, Number]] = (), *, strictly: bool = False) -> Zone:
        """After any time, in which no clock gets beyond its end; with ``strictly``, after some time."""
        rows = [list(row) for row in self.rows]
        for i in range(1, len(rows)):
            rows[i][0] = None
            low = rows[0][i]
            if strictly and low is not None:
                rows[0][i] = low[0], 0
        for clock, end in ends:
            rows[clock][0] = end, 1
        return Zone(rows)._closed()

    def within(self, other: Zone) -> bool:
        """Whether it is part of another one."""
        if self.empty:
            return True
        for mine, theirs in zip(self.rows, other.rows, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                if b is not None and (a is None or a > b):
                    return False
        return True


def _read(entry: str | None, unit: int) -> Bound | None:
    if entry is None:
        return None
    weak = entry.startswith("<=")
    number = Fraction(entry[2:] if weak else entry[1:]) * unit
    return (number.numerator if number.denominator == 1 else number), int(weak)


# The checker of certificates: a small program in plain Python that knows the semantics and nothing of the search.
#
# Zones prove that a limit is kept if (1) the beginning is in one of them, (2) every step from any of them leads into
# one of them, and (3) on no such step the limit is reached.  A step of the `urgent` semantics is a whole moment here: a
# spout emits, or some workers end; then takes and emits follow **in every order** that there is, one by one, and each
# state in between is looked at.  So it is also checked that the search was right to go through one order only.

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
        """One worker that has ended emits what is due."""
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
        """Tuples of a source, in every way in which they can go."""
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


# The checker of certificates for the `literal` semantics: the transitions of the appendix, from every zone.

Flags: TypeAlias = tuple[bool, bool, bool, str]  # CanTimeElapse, DoTake, DoEmit, SetFlags


class Queue(NamedTuple):
    """A bolt: the length of its queue, how many workers are busy, what is owed of its ratio, how many wait to emit."""

    length: int
    busy: int
    owed: Fraction
    done: int


State: TypeAlias = tuple[Queue, ...]


class LiteralChecker(Checker):
    """The literal semantics; every transition leads to one state of the certificate."""

    def __init__(self, proof: Certificate) -> None:
        super().__init__(proof)
        self.final = [not self.topology.listeners(b) for b in proof.bolts]

    def wrong(self) -> str | None:
        """The first thing that is wrong."""
        said = self.shape() or self.upstream()
        if said is None and not all(self.shared):
            said = "queues per worker are not in the paper"
        if said is not None:
            return said
        for place in self.proof.places:
            if place.flags is None:
                return "a state has no flags"
            self.known[self._key(place.bolts), place.flags].append(Zone.read(place.zone, self.unit))
        start = tuple(Queue(bolt.initial, 0, Fraction(0), 0) for bolt in self.bolts)
        said = self._leads(start, (True, False, False, "No"), Zone.zero(1 + len(self.gaps)))
        if said is not None:
            return f"at the beginning, {said}"
        for number, place in enumerate(self.proof.places):
            assert place.flags is not None
            on_time()
            for name, state, flags, zone in self._steps(
                self._key(place.bolts), place.flags, Zone.read(place.zone, self.unit)
            ):
                said = self._leads(state, flags, zone)
                if said is not None:
                    return f"zone {number}: {name}, and {said}"
        return None

    @staticmethod
    def _key(bolts: tuple[tuple[tuple[int, ...], int, Fraction, int], ...]) -> State:
        return tuple(Queue(queues[0], busy, owed, done) for queues, busy, owed, done in bolts)

    def _leads(self, state: State, flags: Flags, zone: Zone) -> str | None:
        if zone.empty:
            return None
        length = state[self.target].length
        quiet = all(
            q.done == 0 and (q.length == 0 or q.busy == many) for q, many in zip(state, self.workers, strict=True)
        )
        mine = state[self.target]
        if self.proof.observe == "blocked":
            if length and mine.busy + mine.done == self.workers[self.target]:
                return f"a tuple of {self.proof.bolt} waits, and no worker is idle"
        elif length >= self.proof.limit and (self.proof.observe == "any" or quiet):
            return f"the queue of {self.proof.bolt} is {length}"
        if any(zone.within(known) for known in self.known[state, flags]):
            return None
        return f"this leads out of the zones: {state}, {flags}"

    def _clock(self, state: State, bolt: int) -> int:
        return 1 + len(self.gaps) + sum(q.busy for q in state[:bolt])

    def _steps(self, state: State, flags: Flags, zone: Zone) -> Iterator[tuple[str, State, Flags, Zone]]:
        can, take, emit, following = flags
        if can:
            for after, then in self._elapse(state, zone):
                yield "time_elapse", after, (False, take, emit, "DT"), then
        mine = state[self.target]
        if following == "DT":
            do = mine.length > 0 and mine.busy + mine.done < self.workers[self.target]
            yield "setDoTake", state, (can, do, emit, "DE"), zone
        elif following == "DE":
            yield "setDoEmit", state, (can, take, mine.done > 0, "No"), zone
        else:
            set_again: Flags = (True, take, emit, "DT")
            for s, name in enumerate(self.proof.spouts):
                then = zone.above(1 + s, self.gaps[s])
                if not (then.empty or take or emit):
                    for after in self._delivered(state, name, 1):
                        yield "spout_emit", after, set_again, then.reset(1 + s)
            for b, q in enumerate(state):
                if q.done and (b != self.target or emit):
                    owed = q.owed + self.bolts[b].ratio
                    count = owed.numerator // owed.denominator
                    less = (*state[:b], q._replace(done=q.done - 1, owed=owed - count), *state[b + 1 :])
                    for after in self._delivered(less, self.proof.bolts[b], count):
                        yield "bolt_emit", after, set_again, zone
                if q.length and q.busy + q.done < self.workers[b] and (b != self.target or take):
                    new = self._clock(state, b) + q.busy
                    clocks = [*range(new), 0, *range(new, len(zone.rows))]
                    taken = q._replace(length=q.length - 1, busy=q.busy + 1)
                    yield "bolt_take", (*state[:b], taken, *state[b + 1 :]), set_again, zone.chosen(clocks)

    def _elapse(self, state: State, zone: Zone) -> Iterator[tuple[State, Zone]]:
        later = zone.later(strictly=True)
        working = [(b, self._clock(state, b) + k) for b, q in enumerate(state) for k in range(q.busy)]
        for over in product((False, True), repeat=len(working)):
            then, after, left = later, list(state), list(range(1 + len(self.gaps)))
            for (b, clock), done in zip(working, over, strict=True):
                time = self.times[b]
                then = then.at_least(clock, time) if done else then.below(clock, time)
                if done:
                    q = after[b]
                    after[b] = q._replace(busy=q.busy - 1, done=q.done + (not self.final[b]))
                else:
                    left.append(clock)
            if not then.empty:
                yield tuple(after), then.chosen(left)

    def _delivered(self, state: State, name: str, count: int) -> Iterator[State]:
        heard = self.topology.listeners(name)
        mine = [self.proof.bolts.index(b) for b in heard if b in self.proof.bolts]
        if self.topology.routing == "all" or count == 0:
            yield tuple(q._replace(length=q.length + count) if i in mine else q for i, q in enumerate(state))
            return
        choices = [*mine, *([-1] if len(mine) < len(heard) else [])]
        for choice in set(product(choices, repeat=count)):
            yield tuple(q._replace(length=q.length + choice.count(i)) for i, q in enumerate(state))
