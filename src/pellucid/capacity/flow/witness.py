"""Runs that make an unbounded queue as long as one likes.

The flow that shows that more comes than is served is turned into a schedule: each spout emits at the rate that the flow
gives it, and tuples are dealt out to those who hear them as the flow says.  Then the machine runs, and the steps are
what it did.  Where the flow needs stores, they are filled first, one phase each (*prepare and drain*); how much that is
follows from how long the later phases take.  Without stores the run repeats itself in the end, with a longer queue each
time: a *growing loop*, which proves that there is no bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from pellucid.capacity.flow.bounds import flows
from pellucid.capacity.flow.linear import Optimum
from pellucid.capacity.flow.literal import literal_run
from pellucid.capacity.flow.network import Network, Pipe, Served
from pellucid.capacity.steps.machine import Situation
from pellucid.capacity.steps.step import Place, Step, Worker, named
from pellucid.capacity.steps.urgent import Urgent
from pellucid.capacity.topology import Observation, Topology
from pellucid.errors import UsageError


@dataclass(frozen=True)
class Growth:
    """A run that makes a queue at least so long.

    ``phases`` says which bolt is filled when (up to which step); ``loop``, if there is one, is a part of the run that
    can be repeated for ever: from which step, to which, and by how many tuples the queue is longer each time.
    """

    bolt: str
    length: int
    steps: tuple[Step, ...]
    phases: tuple[tuple[str, int], ...]
    loop: tuple[int, int, int] | None = None

    @property
    def kind(self) -> str:
        """How it is done, in words."""
        if len(self.phases) > 1:
            return "prepare and drain"
        return "growing loop" if self.loop else "growing run"


def grow(
    topology: Topology, bolt: str, length: int, *, observe: Observation | None = None, most: int = 1_000_000
) -> Growth:
    """A run in which the queue of an unbounded bolt gets as long as asked; `replay` accepts its steps.

    >>> from pellucid.capacity import figure_1, replay
    >>> t = figure_1(gap="0.8", workers={"B1": 1, "B2": 3, "B3": 3})
    >>> found = grow(t, "B3", 5)
    >>> found.kind, [b for b, _ in found.phases], replay(t, found.steps).longest("B3")
    ('prepare and drain', ['B1', 'B3'], 5)
    >>> grow(t, "B2", 5)
    Traceback (most recent call last):
        ...
    pellucid.errors.UsageError: the queue of B2 does not grow for ever: it is bounded.

    In the literal semantics the bolt is the one under analysis.

    >>> t = figure_1(gap="9.2").given(semantics="literal")
    >>> replay(t, grow(t, "B2", 5).steps, bolt="B2").longest("B2")
    5
    """
    if topology.semantics == "literal":
        steps = literal_run(topology, bolt, length, most)
        return Growth(bolt, length, steps, ((bolt, len(steps)),))
    status = flows(topology)[bolt].status
    if status != "unbounded":
        said = "it is bounded" if status == "bounded" else "whether it does is unknown"
        raise UsageError(f"the queue of {bolt} does not grow for ever: {said}.")
    network = Network(topology)
    plans = _plans(network, network.of[bolt][0])
    spare = 2
    while True:
        found = _attempt(network, plans, length, observe or topology.observe, spare, most)
        if found is not None:
            return found
        spare *= 2  # a store was empty too early: by how much is a matter of single tuples, which flow does not see


@dataclass(frozen=True)
class _Plan:
    """How one queue is filled: the flow, with spouts that are a little slower than they could be."""

    place: Place
    flow: Optimum
    growth: Fraction  # by how much the queue gets longer per unit of time
    stores: tuple[Place, ...]


def _plans(network: Network, goal: Place) -> list[_Plan]:
    """What is to be filled, in this order; the goal last."""
    stocked = network.stocked(network.rates())
    order = list(stocked)
    plans: dict[Place, _Plan] = {}
    wanted = [goal]
    for place in wanted:  # it grows meanwhile
        (best, before), speed = stocked[place], network.speed[place]
        most = best.value
        # What can come bends downwards with the rate, so this much slower leaves more than half of what is too much.
        slower = 2 * most / (most + speed)
        rates = {}
        for s, spout in network.topology.spouts.items():
            rates[s] = 1 / _simplest(spout.gap, spout.gap * slower)
        flow = network.inflow(place, rates, before)
        stores = tuple(p for p in before if flow.solution.get(Served(p), 0) > _coming(network, flow, p))
        plans[place] = _Plan(place, flow, flow.value - speed, stores)
        wanted += [p for p in stores if p not in wanted]
    return sorted(plans.values(), key=lambda plan: order.index(plan.place))


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


def _attempt(
    network: Network, plans: list[_Plan], length: int, observe: Observation, spare: int, most: int
) -> Growth | None:
    """A run by these plans; None if a store was empty before the goal was reached."""
    needs, lasts = [0] * len(plans), [Fraction(0)] * len(plans)
    for i in range(len(plans) - 1, -1, -1):
        later = sum(lasts[i + 1 :], Fraction(0))
        needs[i] = length if i == len(plans) - 1 else math.ceil(network.speed[plans[i].place] * later) + spare
        lasts[i] = (needs[i] + 2 * spare) / plans[i].growth
    run = _Run(network)
    phases, loop = [], None
    for i, plan in enumerate(plans):
        last = i == len(plans) - 1
        loop = run.fill(plan, needs[i], observe if last else "any", most, bool(plan.stores), len(plans) == 1)
        if loop is None:
            return None
        phases.append((plan.place if isinstance(plan.place, str) else plan.place[0], len(run.steps)))
    bolt = phases[-1][0]
    return Growth(bolt, length, tuple(run.steps), tuple(phases), loop or None)


class _Run:
    """The machine, driven by plans."""

    def __init__(self, network: Network) -> None:
        self.network, self.machine = network, Urgent(network.topology)
        self.at = self.machine.start()
        self.steps: list[Step] = []

    def fill(
        self, plan: _Plan, need: int, observe: Observation, most: int, stores: bool, watch: bool
    ) -> tuple[int, int, int] | tuple[()] | None:
        """Run until the queue is long enough; what repeated, if that is watched; None if a store is empty."""
        machine, index = self.machine, self.machine.place[plan.place]
        dealer = _Dealer(self.network, plan)
        settled: list[tuple[int, Situation]] = []
        seen: dict[object, int] = {}
        loop: tuple[int, int, int] | tuple[()] = ()
        while not self._reached(index, need, observe):
            if stores and any(self.at.lengths[machine.place[p]] == 0 for p in plan.stores):
                return None
            if len(self.steps) > most:
                raise UsageError(
                    f"a run that makes the queue of {named(plan.place)} {need} long has more than {most:,} steps: "
                    "most= allows for more."
                )
            if watch and not loop and machine.settled(self.at):
                loop = self._repeats(plan, index, dealer, settled, seen)
            step = dealer.next(machine, self.at)
            self.steps.append(step)
            self.at = machine.after(self.at, step)
        return loop

    def _reached(self, index: int, need: int, observe: Observation) -> bool:
        return self.at.lengths[index] >= need and (observe == "any" or self.machine.settled(self.at))

    def _repeats(
        self, plan: _Plan, index: int, dealer: _Dealer, settled: list[tuple[int, Situation]], seen: dict[object, int]
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


class _Dealer:
    """Who emits when, and who gets it: smooth weighted rounds by the flow of a plan."""

    def __init__(self, network: Network, plan: _Plan) -> None:
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

    def next(self, machine: Urgent, at: Situation) -> Step:
        """What happens next: emits, takes, spouts that are due; else time passes up to the next of them."""
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
        return Step("time_elapse", by=Fraction(min(waits)))
