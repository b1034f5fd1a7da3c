"""Is a queue bounded?  Decided by flow, before any search.

A queue can get as long as one likes exactly if more can come for a long while than its workers serve; what can come
counts queues that are unbounded themselves as stores, which can be filled first and then drained at full speed
(`network`).  At equality it is bounded, since spouts need strictly more than their gap.  What comes in a time t is at
most the flow times t, and a constant for what queues that are bounded hold: so a queue that gets no more than it serves
stays bounded, bolt by bolt behind those it hears.  For bolts in a circle see `cycles`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias

from pellucid.capacity.flow.cycles import circles, judged
from pellucid.capacity.flow.linear import Optimum, certified
from pellucid.capacity.flow.network import Network, Served
from pellucid.capacity.steps.step import Place
from pellucid.capacity.topology import Topology
from pellucid.errors import UsageError

Bounded: TypeAlias = Literal["bounded", "unbounded", "unknown"]


@dataclass(frozen=True)
class Flow:
    """What flow says about the queue of one bolt (of one of its workers, if each has a queue).

    ``capacity`` is what is served per unit of time at full speed, ``load`` the most that comes in the long run,
    ``inflow`` the most that comes for a long while, when the queues in ``stores`` were filled before.
    """

    bolt: str
    status: Bounded
    capacity: Fraction
    load: Fraction
    inflow: Fraction
    stores: tuple[str, ...] = ()
    why: str = ""
    optimum: Optimum | None = field(default=None, repr=False, compare=False)

    @property
    def utilisation(self) -> Fraction:
        """The load as a part of the capacity; below 1 does not mean bounded (`inflow` decides)."""
        return self.load / self.capacity


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
    though = ""
    if found.status == "unbounded" and found.load <= found.capacity:
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
    network = Network(topology)
    rates = network.rates()
    undecided, unsure = _undecided(topology)
    stocked = network.stocked(rates, [p for b in topology.bolts if b not in unsure for p in network.of[b]])
    unbounded = [b for b in topology.bolts if network.of[b][0] in stocked]
    # Whatever is not known counts as a store: what is bounded then is bounded.
    doubted = {b: why for b, why in undecided.items() if b not in unbounded}
    while True:
        given = tuple(b for b in topology.bolts if b in unbounded or b in doubted)
        stores = [p for b in given for p in network.of[b]]
        best = {b: network.inflow(network.of[b][0], rates, stores) for b in topology.bolts if b not in given}
        more = [b for b, found in best.items() if found.value > network.speed[network.of[b][0]]]
        if not more:
            break
        doubted |= dict.fromkeys(more, f"more can come than is served, if {' or '.join(doubted)} can hold enough")
    table = {}
    for b in topology.bolts:
        place = network.of[b][0]
        load, capacity = network.inflow(place, rates).value, network.speed[place]
        if b in unbounded:
            flow, before = stocked[place]
            filled = _stores(network, flow, before)
            table[b] = Flow(b, "unbounded", capacity, load, flow.value, filled, network.words(flow), flow)
        elif b in doubted:
            table[b] = Flow(b, "unknown", capacity, load, network.inflow(place, rates, stores).value, (), doubted[b])
        else:
            table[b] = Flow(b, "bounded", capacity, load, best[b].value, (), network.words(best[b]), best[b])
    return Flows(topology, table)


def _stores(network: Network, best: Optimum, stocked: Collection[Place]) -> tuple[str, ...]:
    """The bolts that serve more than comes to them."""
    found = []
    for p in stocked:
        comes = sum((best.solution.get(pipe, Fraction(0)) for pipe in network.goal(p)), Fraction(0))
        if best.solution.get(Served(p), Fraction(0)) > comes:
            found.append(p if isinstance(p, str) else p[0])
    return tuple(dict.fromkeys(found))


def _undecided(topology: Topology) -> tuple[dict[str, str], set[str]]:
    """The bolts in circles of which flow cannot say that they are bounded, and why; and those, in circles and behind
    them, of which it cannot even say that they are not."""
    undecided: dict[str, str] = {}
    unsure: set[str] = set()
    for group in circles(topology):
        dies, decides, why = judged(topology, group)
        if not decides:
            undecided |= dict.fromkeys(group, why)
        if not dies:
            unsure |= set(_behind(topology, group))
    return undecided, unsure


def _behind(topology: Topology, bolts: Collection[str]) -> list[str]:
    found = list(bolts)
    for b in found:  # it grows meanwhile
        found += [c for c in topology.listeners(b) if c not in found]
    return found


def check_flows(found: Flows) -> bool:
    """Whether the prices show that the queues said to be *bounded* are: a small check that searches nothing.

    All others count as stores, which can only be too much; then no more comes to any of the bounded ones than it
    serves, and none is in a circle in which that would not be enough.

    >>> from pellucid.capacity import figure_1
    >>> check_flows(flows(figure_1(gap=1, workers=2)))
    True
    """
    network = Network(found.topology)
    bounded = [b for b, flow in found.items() if flow.status == "bounded"]
    stores = [p for b in found if b not in bounded for p in network.of[b]]
    limits = network.limits(network.rates(), stores)
    undecided, _ = _undecided(found.topology)
    for b in bounded:
        best, place = found[b].optimum, network.of[b][0]
        if best is None or best.value > network.speed[place] or b in undecided:
            return False
        if not certified(network.goal(place), limits, best.value, best.prices):
            return False
    return True


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

    What can come grows with the rate along a line that bends downwards, and a queue that becomes unbounded at some
    rate is a store from there on: so the rates at which something changes are found one after the other, each as the
    point where a line meets a capacity.

    >>> from pellucid.capacity import figure_1
    >>> [str(threshold(figure_1(gap=1, workers=n), b).gap) for b in ("B1", "B2", "B3") for n in (1, 2, 3)]
    ['1', '1/2', '1/3', '2', '1', '2/3', '2', '1', '2/3']
    >>> print(threshold(figure_1(gap=1, workers={"B1": 1, "B2": 1, "B3": 2}), "B3"))
    the queue of B3 is bounded at every gap
    """
    topology.bolt(bolt)
    changing = list(topology.spouts if spouts is None else spouts)
    for s in changing:
        if s not in topology.spouts:
            raise UsageError(f"spouts: there is no spout {s}: {', '.join(topology.spouts)} are.")
    network = Network(topology)
    undecided, unsure = _undecided(topology)
    for b, why in undecided.items():
        if bolt in unsure or bolt in _behind(topology, [b]):
            return Threshold(bolt, "unknown", None, why)
    rate = Fraction(0)
    stocked = set(network.stocked(_at(network, changing, rate)))
    goal = network.of[bolt][0]
    if goal in stocked:
        return Threshold(bolt, "never")
    while True:
        next_rates = {p: r for p in network.places if p not in stocked
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
