"""A flow as a schedule, and the machine that runs it.

Each spout emits at the rate that the flow gives it, and tuples are dealt out to those who hear them as the flow says,
in smooth weighted rounds.  Everything else follows from the urgent semantics.  Since all times are rational, such a run
repeats itself in the end, unless queues grow; and if it comes back to a state with longer queues, where those were
never empty meanwhile, then it can go on like that for ever: a *growing loop*, which proves that there is no bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from pellucid.capacity.flow.linear import Optimum
from pellucid.capacity.flow.network import Network, Pipe, Served, Stock
from pellucid.capacity.flow.proof import undecided
from pellucid.capacity.steps.machine import Situation
from pellucid.capacity.steps.step import Place, Step, Worker, named
from pellucid.capacity.steps.urgent import Urgent
from pellucid.capacity.topology import Observation
from pellucid.errors import UsageError


@dataclass(frozen=True)
class Plan:
    """How one queue is filled: the flow, with spouts that are a little slower than they could be."""

    place: Place
    flow: Optimum
    growth: Fraction  # by how much the queue gets longer per unit of time
    stores: tuple[Place, ...]


def plan_for(network: Network, place: Place, stock: Stock) -> Plan:
    """How a queue that is unbounded is filled, by the flow that says so."""
    best, before = stock
    speed, most = network.speed[place], best.value
    # What can come bends downwards with the rate, so this much slower leaves more than half of what is too much.
    slower = 2 * most / (most + speed)
    gaps = {s: spout.gap for s, spout in network.topology.spouts.items()}
    rates = {s: 1 / _simplest(gap, gap * slower) for s, gap in gaps.items()}
    flow = network.inflow(place, rates, before) if best.prices else network.busy(place, rates)
    stores = tuple(p for p in before if flow.solution.get(Served(p), 0) > _coming(network, flow, p))
    return Plan(place, flow, flow.value - speed, stores)


def _coming(network: Network, flow: Optimum, place: Place) -> Fraction:
    return sum((flow.solution.get(pipe, Fraction(0)) for pipe in network.goal(place)), Fraction(0))


def _simplest(low: Fraction, high: Fraction) -> Fraction:
    """The fraction with the least denominator above ``low`` and not above ``high``.

    >>> _simplest(Fraction(4, 5), Fraction(1)), _simplest(Fraction(1), Fraction(10, 9))
    (Fraction(1, 1), Fraction(10, 9))
    """
    denominator = 1
    while True:
        numerator = math.floor(low * denominator) + 1
        if Fraction(numerator, denominator) <= high:
            return Fraction(numerator, denominator)
        denominator += 1


def unbounded(network: Network) -> dict[Place, Stock]:
    """The queues that get as long as one likes, in an order in which those that one needs come before it.

    By flow; in circles in which what goes round does not die out, and behind them, where flow can be wrong about what
    comes, by a run that ends in a growing loop.
    """
    _, unsure = undecided(network.topology)
    sure = [p for b in network.topology.bolts if b not in unsure for p in network.of[b]]
    found = network.stocked(network.rates(), sure)
    for b in [b for b in network.topology.bolts if b in unsure]:
        for place in network.of[b][:1]:
            best = network.busy(place, network.rates())
            if best.value > network.speed[place] and _grows(network, plan_for(network, place, Stock(best, ()))):
                found[place] = Stock(best, ())
    return found


def _grows(network: Network, plan: Plan, most: int = 3000) -> bool:
    """Whether a run by this plan, which needs no stores, ends in a growing loop before it is too long."""
    return plan.growth > 0 and bool(Runner(network).fill(plan, None, "any", most, True))


class Runner:
    """The machine, driven by plans."""

    def __init__(self, network: Network) -> None:
        self.network, self.machine = network, Urgent(network.topology)
        self.at = self.machine.start()
        self.steps: list[Step] = []

    def fill(
        self, plan: Plan, need: int | None, observe: Observation, most: int, watch: bool
    ) -> tuple[int, int, int] | tuple[()] | None:
        """Run until the queue is long enough (without a number, until something repeats); what repeated, if that is
        watched; None if a store is empty, or without a number if nothing repeats."""
        machine, index = self.machine, self.machine.place[plan.place]
        dealer = Dealer(self.network, plan)
        settled: list[tuple[int, Situation]] = []
        seen: dict[object, int] = {}
        loop: tuple[int, int, int] | tuple[()] = ()
        while not loop if need is None else not self._reached(index, need, observe):
            if any(self.at.lengths[machine.place[p]] == 0 for p in plan.stores):
                return None
            if len(self.steps) > most:
                if need is None:
                    return None
                raise UsageError(
                    f"a run that makes the queue of {named(plan.place)} {need} long has more than {most:,} steps: "
                    "most= allows for more."
                )
            if watch and not loop and machine.settled(self.at):
                loop = self._repeats(index, dealer, settled, seen)
            step = dealer.next(machine, self.at)
            if step is None:  # nothing will ever happen again
                return None
            self.steps.append(step)
            self.at = machine.after(self.at, step)
        return loop

    def _reached(self, index: int, need: int, observe: Observation) -> bool:
        return self.at.lengths[index] >= need and (observe == "any" or self.machine.settled(self.at))

    def _repeats(
        self, index: int, dealer: Dealer, settled: list[tuple[int, Situation]], seen: dict[object, int]
    ) -> tuple[int, int, int] | tuple[()]:
        """Whether this state was there before, with shorter queues only where they were never empty since."""
        at = self.at
        full = tuple(length > 0 for length in at.lengths)
        stime = tuple(t for t, s in zip(at.stime, self.machine.spouts, strict=True) if s in dealer.period)
        key = (stime, at.status, at.left, at.owed, full, dealer.credits())
        settled.append((len(self.steps), at))
        before = seen.get(key)
        seen[key] = len(settled) - 1
        if before is None:
            return ()
        start, then = settled[before]
        gain = at.lengths[index] - then.lengths[index]
        for k, (old, new) in enumerate(zip(then.lengths, at.lengths, strict=True)):
            if new < old or (new > old and any(s.lengths[k] == 0 for _, s in settled[before:])):
                return ()
        return (start, len(self.steps), gain) if gain > 0 else ()


class Dealer:
    """Who emits when, and who gets it: smooth weighted rounds by the flow of a plan."""

    def __init__(self, network: Network, plan: Plan) -> None:
        self.network = network
        self.period: dict[str, Fraction] = {}
        self.weights: dict[tuple[str, int], dict[Place, Fraction]] = {}
        self.credit: dict[tuple[str, int], dict[Place, Fraction]] = {}
        topology = network.topology
        for name in [*topology.spouts, *topology.bolts]:
            for g, group in enumerate(network.groups(name)):
                flow = {p: plan.flow.solution.get(Pipe(name, p), Fraction(0)) for p in group}
                total = sum(flow.values(), Fraction(0))
                if not total:  # tuples that the flow has no use for
                    flow, total = {p: Fraction(p == group[0]) for p in group}, Fraction(1)
                elif name in topology.spouts:
                    self.period[name] = min(self.period.get(name, 1 / total), 1 / total)
                self.weights[name, g] = {p: f / total for p, f in flow.items()}
                self.credit[name, g] = dict.fromkeys(group, Fraction(0))

    def credits(self) -> tuple[Fraction, ...]:
        """Where the rounds are."""
        return tuple(c for credit in self.credit.values() for c in credit.values())

    def deal(self, name: str, count: int) -> Iterator[Place]:
        """The queues that get the next tuples."""
        for g in range(len(self.network.groups(name))):
            credit = self.credit[name, g]
            for _ in range(count):
                for p, weight in self.weights[name, g].items():
                    credit[p] += weight
                best = max(credit, key=lambda p: credit[p])
                credit[best] -= 1
                yield best

    def next(self, machine: Urgent, at: Situation) -> Step | None:
        """What happens next: emits, takes, spouts that are due; else time passes up to the next of them, if there is
        any."""
        w = machine.acts(at)
        emitting = at.status.find("E")
        if emitting >= 0:
            worker = machine.workers[emitting]
            return Step("bolt_emit", worker, tuple(self.deal(worker.bolt, machine.due(at, machine.bolt_of[emitting]))))
        if w is not None:
            return Step("bolt_take", Worker(*machine.workers[w]))
        waits = [left for left, status in zip(at.left, at.status, strict=True) if status == "X"]
        for s, period in self.period.items():
            wait = period - at.stime[machine.spouts[s]]
            if wait <= 0:
                return Step("spout_emit", s, tuple(self.deal(s, 1)))
            waits.append(wait)
        return Step("time_elapse", by=Fraction(min(waits))) if waits else None
