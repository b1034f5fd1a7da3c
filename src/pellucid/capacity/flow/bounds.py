"""Is there a length that a queue never exceeds?  Decided by flow, before any search.

Such a queue is *bounded* here, and the others are *unbounded*.  That has nothing to do with the status *bounded* of
verdicts, which says how far a search went.

A queue can get as long as one likes exactly if more can come for a long while than its workers serve; what can come
counts queues that are unbounded themselves as stores, which can be filled first and then drained at full speed
(`network`).  At equality it is bounded, since spouts need strictly more than their gap.  Why a queue is bounded is in
`proof`, what circles have to do with it in `cycles`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import chain
from typing import Literal, NamedTuple, TypeAlias

from pellucid.capacity.flow.linear import Limit, Optimum, certified, maximum
from pellucid.capacity.steps import Place, Situation, Step, Urgent, Worker, named, places_of, workers_of
from pellucid.capacity.topology import ANY, Observation, Topology
from pellucid.errors import UsageError
from pellucid.internal.model import components, on_time

# A topology as a network of flows: how many tuples per unit of time can come to a queue for a long while.
#
# Every queue is a *server*: with workers that share it, of workers ÷ time; a queue of one worker, of 1 ÷ time.  A spout
# brings less than 1 ÷ gap.  A bolt emits its ratio times what its servers serve; a server serves no more than comes,
# unless it is *stocked*: a queue that can get as long as one likes can be filled first, and then serves at full speed
# whatever comes.  With routing ``one`` a tuple goes to one of all queues that hear it; with ``all``, to one queue of
# each bolt that does.

ONE = Fraction(1)


class Pipe(NamedTuple):
    """Tuples that one source emits for a queue, per unit of time."""

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
        """What holds for every flow that is kept up, ``within`` some bolts and what they hear; ``rates`` are those of
        the spouts (1 ÷ gap)."""
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
                    found.append(Limit(("emits", b, g), terms, Fraction(0)))
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


# Bolts that go in a circle: where flow still decides, and where theory ends.
#
# A tuple that goes round comes back as the product of the ratios on its way.  If that is below 1 on every circle
# (``one``), or if the matrix of ratios has a spectral radius below 1 (``all``), what goes round dies out, and every
# flow that the network allows can be had from empty queues.  That queues are *bounded* needs more:
#
# - ``all`` with shared queues: there is no choice, and the queues are those of a network with fixed routes, which
#   depend continuously on what comes (Harrison and Reiman, 1981): bounded at equality, too.
# - ``one``: a queue *b* gets, beyond what the flow allows, at most what was stored elsewhere when it was last empty,
#   each tuple times the gain of its way to *b*.  So the longest queues satisfy Q ≤ G·Q + constants, and they are
#   bounded if the matrix of gains has a spectral radius below 1; else *unknown*.
#
# All of it with exact numbers: a matrix M of numbers from 0 on has a spectral radius below 1 exactly if 1 − M can be
# eliminated with positive pivots (it is then a nonsingular M-matrix).


def circles(topology: Topology) -> list[list[str]]:
    """The bolts that can come back to themselves, those that belong together in one list.

    >>> from pellucid.capacity import Bolt, Spout, Topology
    >>> bolts = {"A": Bolt(1, ["S", "B"]), "B": Bolt(1, "A", ratio="1/2"), "C": Bolt(1, "B")}
    >>> circles(Topology({"S": Spout(1)}, bolts))
    [['A', 'B']]
    """
    names = list(topology.bolts)
    found = []
    for group in components({b: list(topology.listeners(b)) for b in names}):
        if len(group) > 1 or any(b in topology.listeners(b) for b in group):
            found.append(sorted(group, key=names.index))
    return sorted(found, key=lambda group: names.index(group[0]))


def below_one(matrix: Sequence[Sequence[Fraction]]) -> bool:
    """Whether the spectral radius of a matrix of numbers from 0 on is below 1.

    >>> half, one = Fraction(1, 2), Fraction(1)
    >>> below_one([[half]]), below_one([[one]]), below_one([[half, half], [half, half]]), below_one([[0, 2], [half, 0]])
    (True, False, False, False)
    >>> below_one([[0, Fraction(7, 4)], [half, 0]])
    True
    """
    n = len(matrix)
    rows = [[Fraction(i == j) - matrix[i][j] for j in range(n)] for i in range(n)]
    for i in range(n):
        if rows[i][i] <= 0:
            return False
        for k in range(i + 1, n):
            on_time()
            factor = rows[k][i] / rows[i][i]
            rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    return True


def gains(topology: Topology, group: Sequence[str]) -> dict[tuple[str, str], Fraction]:
    """The largest product of ratios on a way from one bolt of a circle to another, or back to itself."""
    inside = set(group)
    best = {(a, b): topology.bolts[a].ratio for a in group for b in topology.listeners(a) if b in inside}
    for via in group:
        for a in group:
            on_time()
            if (a, via) not in best:
                continue
            for b in group:
                if (via, b) in best:
                    best[a, b] = max(best.get((a, b), Fraction(0)), best[a, via] * best[via, b])
    return best


def judged(topology: Topology, group: Sequence[str]) -> tuple[bool, bool, str]:
    """Of a circle: whether what goes round dies out, whether flow says which queues are bounded, and in words why not.

    >>> from pellucid.capacity import Bolt, Spout, Topology
    >>> def ring(ratio): return Topology({"S": Spout(1)}, {"A": Bolt(1, ["S", "B"]), "B": Bolt(1, "A", ratio=ratio)})
    >>> judged(ring("1/2"), ["A", "B"])
    (True, True, '')
    >>> judged(ring("2"), ["A", "B"])
    (False, False, 'a tuple that goes round the circle A, B can come back as 1 or more')
    """
    ring = ", ".join(group)
    gain = gains(topology, group)
    shared = all(topology.bolts[b].queue == "shared" for b in group)
    if topology.routing == "all":
        ratios = [
            [topology.bolts[a].ratio if b in topology.listeners(a) else Fraction(0) for b in group] for a in group
        ]
        if not below_one(ratios):
            return False, False, f"the ratios of the circle {ring} have a spectral radius of 1 or more"
        if shared:
            return True, True, ""
    elif max(gain[b, b] for b in group) >= 1:
        return False, False, f"a tuple that goes round the circle {ring} can come back as 1 or more"
    if not shared:
        return True, False, f"in the circle {ring} a choice is made of the worker's queue"
    stored = [[gain[a, b] if a != b else Fraction(0) for a in group] for b in group]
    if below_one(stored):
        return True, True, ""
    return True, False, f"in the circle {ring} one queue can store what makes others longer"


# Why a queue is bounded: proofs, one after the other, and the check that each has to pass.
#
# What comes to a queue in a time t is at most the flow times t, and a constant for what queues that are bounded hold.
# So a queue is bounded if no more can come to it than it serves, where every queue that is not proved to be bounded yet
# counts as a store: whatever is true of it, it cannot send more.  Behind those it hears, each bolt is proved in turn.
#
# Bolts that go in a circle can still be proved one by one, if even full stores of the others do not bring too much; or
# together, if `cycles` says that they cannot make each other longer without end.
#
# A proof has prices (`linear`): to see that no more can come, multiply them out.


@dataclass(frozen=True)
class Proof:
    """Bolts whose queues are bounded, given the proofs before it: for each, the most that comes and the prices that
    show it.  Several at once are a circle, or a part of one."""

    bolts: tuple[str, ...]
    most: Mapping[str, Fraction]
    prices: Mapping[str, Mapping[Hashable, Fraction]]


def proved(network: Network, unbounded: Collection[str]) -> tuple[Proof, ...]:
    """All that can be proved, in an order in which it can be checked."""
    topology, found, done = network.topology, list[Proof](), set[str]()
    left = [b for b in network.topology.order() or topology.bolts if b not in unbounded]
    together = [tuple(b for b in group if b in left) for group in circles(topology) if judged(topology, group)[1]]
    while True:
        new = [proof for b in left if b not in done and (proof := _attempt(network, (b,), done, found)) is not None]
        if not new:
            groups = [tuple(b for b in group if b not in done) for group in together]
            new = [proof for group in groups if group and (proof := _attempt(network, group, done, found)) is not None]
        if not new:
            return tuple(found)


def _attempt(network: Network, bolts: tuple[str, ...], done: set[str], found: list[Proof]) -> Proof | None:
    """A proof for these bolts, which is noted at once."""
    stores, most, prices = _stores(network, bolts, done), {}, {}
    for b in bolts:
        place = network.of[b][0]
        best = network.inflow(place, network.rates(), stores)
        if best.value > network.speed[place]:
            return None
        most[b], prices[b] = best.value, best.prices
    proof = Proof(bolts, most, prices)
    done.update(bolts)
    found.append(proof)
    return proof


def _stores(network: Network, bolts: Sequence[str], done: Collection[str]) -> list[Place]:
    """Everything that is not proved yet; a bolt alone counts as a store for itself, several do not."""
    together = bolts if len(bolts) > 1 else ()
    return [p for b in network.topology.bolts if b not in done and b not in together for p in network.of[b]]


def check_proofs(topology: Topology, proofs: Sequence[Proof]) -> bool:
    """Whether each proof, given those before it, shows what it says; nothing is searched.

    >>> from pellucid.capacity import figure_1, flows
    >>> found = flows(figure_1(gap=1, workers=2))
    >>> check_proofs(found.topology, found.proofs), check_proofs(found.topology.given(gap="0.9"), found.proofs)
    (True, False)
    """
    network, done = Network(topology), set[str]()
    for proof in proofs:
        limits = network.limits(network.rates(), _stores(network, proof.bolts, done))
        for b in proof.bolts:
            place = network.of[b][0]
            if proof.most[b] > network.speed[place]:
                return False
            if not certified(network.goal(place), limits, proof.most[b], proof.prices[b]):
                return False
        if len(proof.bolts) > 1:
            ring = [group for group in circles(topology) if set(proof.bolts) <= set(group)]
            if not ring or not judged(topology, ring[0])[1]:
                return False
        done.update(proof.bolts)
    return True


@lru_cache(maxsize=64)  # it is asked for of each bolt
def undecided(topology: Topology) -> tuple[Mapping[str, str], Collection[str]]:
    """The bolts in circles that cannot be proved together, and why; and those, in circles and behind them, of which
    flow cannot even say that they are unbounded."""
    found: dict[str, str] = {}
    unsure: set[str] = set()
    for group in circles(topology):
        dies, decides, why = judged(topology, group)
        if not decides:
            found |= dict.fromkeys(group, why)
        if not dies:
            unsure |= set(behind(topology, group))
    return found, unsure


def behind(topology: Topology, bolts: Collection[str]) -> list[str]:
    """These bolts and all that hear them, directly or not."""
    found, waiting = dict.fromkeys(bolts), list(bolts)
    while waiting:
        new = [c for c in topology.listeners(waiting.pop(0)) if c not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return list(found)


def why_unknown(topology: Topology, bolt: str, bounded: Collection[str]) -> str:
    """Why it is neither proved nor refuted that the queue of a bolt is bounded."""
    circle = undecided(topology)[0]
    if bolt in circle:
        return circle[bolt]
    doubted = [b for b in circle if b not in bounded and bolt in behind(topology, [b])]
    return f"more can come than is served, if {' or '.join(doubted)} can hold enough"


# A flow as a schedule, and the machine that runs it.
#
# Each spout emits at the rate that the flow gives it, and tuples are dealt out to those who hear them as the flow says,
# in smooth weighted rounds.  Everything else follows from the urgent semantics.  Since all times are rational, such a
# run repeats itself in the end, unless queues grow; and if it comes back to a state with longer queues, where those
# were never empty meanwhile, then it can go on like that for ever: a *growing loop*, which proves that there is no
# bound.


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


FlowStatus: TypeAlias = Literal["bounded", "unbounded", "unknown"]


@dataclass(frozen=True)
class Flow:
    """What flow says about the queue of one bolt (of one of its workers, if each has a queue).

    ``capacity`` is what is served per unit of time at full speed, ``load`` the most that comes in the long run,
    ``inflow`` the most that comes for a long while, when the queues in ``stores`` were filled before; None if the time
    was up before that was known.
    """

    bolt: str
    status: FlowStatus
    capacity: Fraction
    load: Fraction | None
    inflow: Fraction | None
    stores: tuple[str, ...] = ()
    why: str = ""
    by_run: bool = False  # in a circle that never ends, a run showed it, and what flow says of inflow may be too much

    @property
    def utilisation(self) -> Fraction | None:
        """The load as a part of the capacity; below 1 does not mean bounded (`inflow` decides)."""
        return None if self.load is None else self.load / self.capacity


@dataclass(frozen=True)
class Flows(Mapping[str, Flow]):
    """What flow says about each bolt.

    >>> from pellucid.capacity import figure_1, flows
    >>> found = flows(figure_1(gap="0.8", workers={"B1": 1, "B2": 3, "B3": 3}))
    >>> print(found)
    B1: unbounded: 5/4 can come per unit of time (5/4 that S1 emits), and 1 is served
    B2: bounded: 5/2 can come per unit of time (5/4 that S1 emits + 5/4 that S2 emits), and 3 are served
    B3: unbounded, though its load in the long run is only 5/2: 7/2 can come per unit of time (5/4 that S1 emits +
    5/4 that S2 emits + 1 that B1 at full speed brings), once B1 was filled, and 3 are served
    >>> found.unbounded
    ('B1', 'B3')
    """

    topology: Topology
    table: Mapping[str, Flow]
    proofs: tuple[Proof, ...] = field(default=(), repr=False, compare=False)

    def __getitem__(self, bolt: str) -> Flow:
        self.topology.bolt(bolt)
        return self.table[bolt]

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def unbounded(self) -> tuple[str, ...]:
        """The bolts whose queues get as long as one likes."""
        return tuple(b for b, found in self.table.items() if found.status == "unbounded")

    @property
    def warning(self) -> str:
        """What is worth saying before anything is searched: that every queue is unbounded; else nothing."""
        if len(self.unbounded) < len(self.table):
            return ""
        rates = ", ".join(f"{s} every {spout.gap}" for s, spout in self.topology.spouts.items())
        return f"every queue is unbounded at these rates ({rates}): no limit is kept, and nothing needs to be searched."

    def __str__(self) -> str:
        return "\n".join(f"{b}: {_words(found)}" for b, found in self.table.items())


def _words(found: Flow) -> str:
    if found.status == "unknown":
        return f"unknown: {found.why}"
    if found.by_run:
        return f"{found.status}: {found.why}"
    though = ""
    if found.status == "unbounded" and found.load is not None and found.load <= found.capacity:
        though = f", though its load in the long run is only {found.load}"
    first = f", once {' and '.join(found.stores)} {'was' if len(found.stores) == 1 else 'were'} filled"
    return (
        f"{found.status}{though}: {found.inflow} can come per unit of time ({found.why})"
        f"{first if found.stores else ''}, and {found.capacity} {'is' if found.capacity == 1 else 'are'} served"
    )


def flows(topology: Topology) -> Flows:
    """Decide by flow which queues are bounded.

    >>> from pellucid.capacity import Bolt, Spout, Topology
    >>> t = Topology({"S": Spout(gap="0.5")}, {"A": Bolt(1, "S"), "B": Bolt(1, "A")})
    >>> [found.status for found in flows(t).values()]
    ['unbounded', 'bounded']
    >>> [found.status for found in flows(t.given(workers={"A": 2})).values()]  # more workers, and B gets too much
    ['bounded', 'unbounded']
    """
    return _flows(topology)


@lru_cache(maxsize=64)  # each part of a question asks for the same
def _flows(topology: Topology) -> Flows:
    on_time()
    network = Network(topology)
    rates = network.rates()
    stocked = unbounded(network)
    grows = [b for b in topology.bolts if network.of[b][0] in stocked]
    proofs = proved(network, grows)
    bounded = {b: proof.prices for proof in proofs for b in proof.bolts}
    stores = [p for b in topology.bolts if b not in bounded for p in network.of[b]]
    table = {}
    for b in topology.bolts:
        place = network.of[b][0]
        load, capacity = network.inflow(place, rates).value, network.speed[place]
        if b in grows:
            best, before = stocked[place]
            filled, by_run = _stores_bounds(network, best, before), not best.prices
            why = "a run repeats itself with a longer queue each time" if by_run else network.words(best)
            table[b] = Flow(b, "unbounded", capacity, load, best.value, filled, why, by_run)
            continue
        best = network.inflow(place, rates, stores)
        if b in bounded:
            table[b] = Flow(b, "bounded", capacity, load, best.value, (), network.words(best))
        else:
            table[b] = Flow(b, "unknown", capacity, load, best.value, (), why_unknown(topology, b, bounded))
    return Flows(topology, table, proofs)


def not_known(topology: Topology, why: str) -> Flows:
    """Nothing is known of any bolt, for this reason.

    >>> from pellucid.capacity import figure_1
    >>> print(not_known(figure_1(gap=1), "the time was up")["B1"].status)
    unknown
    """
    network = Network(topology.given(semantics="urgent"))  # how fast workers are is the same in both
    speeds = {b: network.speed[network.of[b][0]] for b in topology.bolts}
    return Flows(topology, {b: Flow(b, "unknown", speed, None, None, (), why) for b, speed in speeds.items()})


def _stores_bounds(network: Network, best: Optimum, stocked: Collection[Place]) -> tuple[str, ...]:
    """The bolts that serve more than comes to them."""
    found = []
    for p in stocked:
        comes = sum((best.solution.get(pipe, Fraction(0)) for pipe in network.goal(p)), Fraction(0))
        if best.solution.get(Served(p), Fraction(0)) > comes:
            found.append(p if isinstance(p, str) else p[0])
    return tuple(dict.fromkeys(found))


def check_flows(found: Flows) -> bool:
    """Whether the proofs show that the queues said to be *bounded* are: a small check that searches nothing.

    >>> from pellucid.capacity import figure_1
    >>> check_flows(flows(figure_1(gap=1, workers=2)))
    True
    """
    bounded = {b for b, flow in found.items() if flow.status == "bounded"}
    return check_proofs(found.topology, found.proofs) and bounded == {b for proof in found.proofs for b in proof.bolts}


# From which gap on a queue is bounded, exactly.
#
# What can come grows with the rate along a line that bends downwards, and a queue that becomes unbounded at some rate
# is a store from there on: so the rates at which something changes are found one after the other, each as the point
# where a line meets a capacity.  Nothing is sampled, and nothing approached.


@dataclass(frozen=True)
class Threshold:
    """From which gap on a queue is bounded: ``"at"`` that gap and above (below it is not), ``"always"``, whatever the
    gap, ``"never"``, or ``"unknown"``."""

    bolt: str
    status: Literal["at", "always", "never", "unknown"]
    gap: Fraction | None = None
    why: str = ""

    def __str__(self) -> str:
        said = {"at": f"from gap {self.gap} on, and not below", "always": "at every gap", "never": "at no gap"}
        return f"the queue of {self.bolt} is " + (
            f"not decided by flow: {self.why}" if self.status == "unknown" else f"bounded {said[self.status]}"
        )


def threshold(topology: Topology, bolt: str, *, spouts: Collection[str] | None = None) -> Threshold:
    """The least gap at which the queue of a bolt is bounded, exactly, if ``spouts`` (all of them, unless told) have
    this gap and the others keep theirs.

    >>> from pellucid.capacity import figure_1
    >>> [str(threshold(figure_1(gap=1, workers=n), b).gap) for b in ("B1", "B2", "B3") for n in (1, 2, 3)]
    ['1', '1/2', '1/3', '2', '1', '2/3', '2', '1', '2/3']
    >>> print(threshold(figure_1(gap=1, workers={"B1": 1, "B2": 1, "B3": 2}), "B3"))
    the queue of B3 is bounded at every gap
    """
    on_time()
    topology.bolt(bolt)
    changing = list(topology.spouts if spouts is None else spouts)
    for s in changing:
        if s not in topology.spouts:
            raise UsageError(f"spouts: there is no spout {s}: {', '.join(topology.spouts)} are.")
    network = Network(topology)
    circle, unsure = undecided(topology)
    doubts = [why for b, why in circle.items() if bolt in unsure or bolt in behind(topology, [b])]
    found = _change(network, bolt, changing) if bolt not in unsure else Threshold(bolt, "unknown")
    if not doubts or found.status == "never":
        return found
    if found.gap is not None:
        there = flows(topology.given(gap=dict.fromkeys(changing, found.gap)))
        if there[bolt].status == "bounded":
            return found
    return Threshold(bolt, "unknown", None, doubts[0])


def _change(network: Network, bolt: str, changing: Collection[str]) -> Threshold:
    """The gap below which flow says that a queue is unbounded."""
    rate = Fraction(0)
    goal, upstream = network.of[bolt][0], [p for b in network.upstream(bolt) for p in network.of[b]]
    stocked = set(network.stocked(_at(network, changing, rate), upstream))
    if goal in stocked:
        return Threshold(bolt, "never")
    while True:
        next_rates = {p: r for p in upstream if p not in stocked
                      if (r := _crossing(network, p, changing, rate, stocked)) is not None}  # fmt: skip
        if not next_rates:
            return Threshold(bolt, "always")
        rate = min(next_rates.values())
        stocked |= {p for p, r in next_rates.items() if r == rate}
        if goal in stocked:
            return Threshold(bolt, "at", 1 / rate) if rate else Threshold(bolt, "never")


def _at(network: Network, changing: Collection[str], rate: Fraction) -> dict[str, Fraction]:
    return {s: rate if s in changing else r for s, r in network.rates().items()}


def _crossing(
    network: Network, place: Place, changing: Collection[str], rate: Fraction, stocked: Collection[Place]
) -> Fraction | None:
    """The rate, from ``rate`` on, above which more can come than is served; None if there is none.

    Prices give a line above what can come at *every* rate, so where it meets the speed is at or before the rate that
    is sought; there are finitely many lines.
    """
    speed = network.speed[place]
    while True:
        found = network.inflow(place, _at(network, changing, rate), stocked)
        if found.value >= speed:
            higher = network.inflow(place, _at(network, changing, rate + 1), stocked)
            return rate if higher.value > speed else None
        slope = sum(
            (price for name, price in found.prices.items() if getattr(name, "spout", None) in changing), Fraction(0)
        )
        if slope <= 0:
            return None
        rate += (speed - found.value) / slope
