"""Is there a length that a queue never exceeds?  Decided by flow, before any search.

Such a queue is *bounded* here, and the others are *unbounded*.  That has nothing to do with the status *bounded* of
verdicts, which says how far a search went.

A queue can get as long as one likes exactly if more can come for a long while than its workers serve; what can come
counts queues that are unbounded themselves as stores, which can be filled first and then drained at full speed
(`network`).  At equality it is bounded, since spouts need strictly more than their gap.  Why a queue is bounded is in
`proof`, what circles have to do with it in `cycles`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias

from pellucid.capacity.flow.linear import Optimum
from pellucid.capacity.flow.network import Network, Served
from pellucid.capacity.flow.proof import Proof, check_proofs, proved, why_unknown
from pellucid.capacity.flow.runs import unbounded
from pellucid.capacity.steps.step import Place
from pellucid.capacity.topology import Topology
from pellucid.internal.model import on_time

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
            filled, by_run = _stores(network, best, before), not best.prices
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


def _stores(network: Network, best: Optimum, stocked: Collection[Place]) -> tuple[str, ...]:
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
