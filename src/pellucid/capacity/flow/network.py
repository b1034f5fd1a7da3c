"""A topology as a network of flows: how many tuples per unit of time can come to a queue for a long while.

Every queue is a *server*: with workers that share it, of workers ÷ time; a queue of one worker, of 1 ÷ time.  A spout
brings less than 1 ÷ gap.  A bolt puts out its ratio times what its servers serve; a server serves no more than comes,
unless it is *stocked*: a queue that can get as long as one likes can be filled first, and then serves at full speed
whatever comes.  With routing ``one`` a tuple goes to one of all queues that hear it; with ``all``, to one queue of each
bolt that does.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from pellucid.capacity.flow.linear import Limit, Optimum, maximum
from pellucid.capacity.steps.machine import places_of, workers_of
from pellucid.capacity.steps.step import Place, named
from pellucid.capacity.topology import ANY, Topology
from pellucid.errors import UsageError
from pellucid.internal.model import on_time

ONE = Fraction(1)


class Pipe(NamedTuple):
    """Tuples that somebody puts out for a queue, per unit of time."""

    source: str
    place: Place


class Served(NamedTuple):
    """Tuples that a server serves, per unit of time."""

    place: Place


class Emits(NamedTuple):
    """What a spout emits (in each of its groups), at most: the limit that rates are about."""

    spout: str
    group: int


class Speed(NamedTuple):
    """What a server can serve at most."""

    place: Place


class Stock(NamedTuple):
    """Why a queue is unbounded: a flow, and the queues that can be filled before it."""

    flow: Optimum
    before: tuple[Place, ...]


@dataclass(frozen=True)
class Network:
    """The network of a topology with given numbers of workers, in the urgent semantics."""

    topology: Topology

    def __post_init__(self) -> None:
        for name, bolt in self.topology.bolts.items():
            if bolt.workers is ANY:
                raise UsageError(
                    f"bolt {name} has ANY number of workers: a flow is of given numbers, as in given(workers=2)."
                )
        if self.topology.semantics != "urgent":
            raise UsageError("flow decides the urgent semantics: given(semantics='urgent') asks for it.")

    @cached_property
    def of(self) -> dict[str, list[Place]]:
        """The queues of each bolt."""
        return {b: places_of(self.topology, b) for b in self.topology.bolts}

    @cached_property
    def places(self) -> list[Place]:
        """All queues."""
        return list(chain.from_iterable(self.of.values()))

    @cached_property
    def speed(self) -> dict[Place, Fraction]:
        """How many tuples each server serves per unit of time, if it always has some."""
        return {
            p: (workers_of(self.topology, b) if isinstance(p, str) else 1) / self.topology.bolts[b].time
            for b, places in self.of.items()
            for p in places
        }

    @cached_property
    def _upstream(self) -> dict[str, dict[str, None]]:
        return {}

    def upstream(self, bolt: str) -> dict[str, None]:
        """The bolts from which tuples come to a bolt, directly or not, and itself: what else there is does not matter
        to it."""
        if bolt not in self._upstream:
            found, waiting, bolts = {bolt}, [bolt], self.topology.bolts
            while waiting:
                new = [h for h in bolts[waiting.pop()].hears if h in bolts and h not in found]
                found.update(new)
                waiting += new
            self._upstream[bolt] = {b: None for b in bolts if b in found}
        return self._upstream[bolt]

    def groups(self, source: str) -> list[list[Place]]:
        """The choices that each tuple of a source has: one queue of each group gets it."""
        heard = [self.of[b] for b in self.topology.listeners(source)]
        if self.topology.routing == "one":
            return [list(chain.from_iterable(heard))] if heard else []
        return heard

    def limits(
        self, rates: Mapping[str, Fraction], stocked: Collection[Place], within: Collection[str] | None = None
    ) -> list[Limit]:
        """What holds for every flow that lasts, ``within`` some bolts and what they hear; ``rates`` are the spouts'
        (1 ÷ gap)."""
        on_time()
        found, bolts = [], {b: bolt for b, bolt in self.topology.bolts.items() if within is None or b in within}
        known = {p for b in bolts for p in self.of[b]}
        pipes: dict[str, list[list[Place]]] = {}
        for name in (*self.topology.spouts, *bolts):
            pipes[name] = [[p for p in group if p in known] for group in self.groups(name)]
        for s in self.topology.spouts:
            for g, group in enumerate(pipes[s]):
                if group:
                    found.append(Limit(Emits(s, g), {Pipe(s, p): ONE for p in group}, rates[s]))
        coming: dict[Place, list[Pipe]] = {p: [] for p in known}
        for name, groups in pipes.items():
            for p in chain.from_iterable(groups):
                coming[p].append(Pipe(name, p))
        for b, bolt in bolts.items():
            for p in self.of[b]:
                found.append(Limit(Speed(p), {Served(p): ONE}, self.speed[p]))
                if p not in stocked:
                    terms: dict[Hashable, Fraction] = {Served(p): ONE}
                    terms.update((pipe, -ONE) for pipe in coming[p])
                    found.append(Limit(("comes", p), terms, Fraction(0)))
            for g, group in enumerate(pipes[b]):
                if group:
                    terms = {Pipe(b, p): ONE for p in group}
                    terms.update((Served(p), -bolt.ratio) for p in self.of[b])
                    found.append(Limit(("puts out", b, g), terms, Fraction(0)))
        return found

    def goal(self, place: Place) -> dict[Hashable, Fraction]:
        """What comes to a queue."""
        heard = self.topology.bolts[place if isinstance(place, str) else place[0]].hears
        return {Pipe(s, place): ONE for s in (*self.topology.spouts, *self.topology.bolts) if s in heard}

    def rates(self) -> dict[str, Fraction]:
        """1 ÷ gap, for each spout."""
        return {s: 1 / spout.gap for s, spout in self.topology.spouts.items()}

    def inflow(self, place: Place, rates: Mapping[str, Fraction], stocked: Collection[Place] = ()) -> Optimum:
        """The most that can come to a queue for a long while."""
        bolt = place if isinstance(place, str) else place[0]
        found = maximum(self.goal(place), self.limits(rates, stocked, self.upstream(bolt)))
        assert found is not None  # whatever comes is emitted or served, and both have limits
        return found

    def busy(self, place: Place, rates: Mapping[str, Fraction]) -> Optimum:
        """Such a flow in which spouts emit as much as they can beside: in a circle, one could do without them."""
        goal = dict.fromkeys(self.goal(place), 1000 * ONE)
        for s in self.topology.spouts:
            for p in chain.from_iterable(self.groups(s)):
                goal[Pipe(s, p)] = goal.get(Pipe(s, p), 0 * ONE) + 1
        found = maximum(goal, self.limits(rates, ()))
        assert found is not None
        value = sum((found.solution[pipe] for pipe in self.goal(place)), 0 * ONE)
        return Optimum(value, found.solution, {})

    def stocked(self, rates: Mapping[str, Fraction], within: Iterable[Place] | None = None) -> dict[Place, Stock]:
        """The queues that can get as long as one likes, each with the flow that does it, in an order in which those
        that one needs come before it."""
        found: dict[Place, Stock] = {}
        left = list(self.places if within is None else within)
        while True:
            before = tuple(found)
            new = {p: best for p in left if (best := self.inflow(p, rates, before)).value > self.speed[p]}
            if not new:
                return found
            found |= {p: Stock(best, before) for p, best in new.items()}
            left = [p for p in left if p not in new]

    def words(self, found: Optimum) -> str:
        """Why it is not more: what the flow is made of, by its prices."""
        parts = []
        for name, price in found.prices.items():
            if not price:
                continue
            if isinstance(name, Emits):
                parts.append((price / self.topology.spouts[name.spout].gap, f"{name.spout} emits"))
            elif isinstance(name, Speed):
                parts.append((price * self.speed[name.place], f"{named(name.place)} at full speed brings"))
        return " + ".join(f"{amount} that {what}" for amount, what in parts) or "0"
