"""The checker of certificates for the `literal` semantics: the transitions of the appendix, from every zone."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import NamedTuple, TypeAlias

from pellucid.capacity.zones.proof.certificate import Certificate
from pellucid.capacity.zones.proof.checker import Checker
from pellucid.capacity.zones.proof.zone import Zone
from pellucid.internal.model import on_time

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
