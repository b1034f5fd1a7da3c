"""Why a queue is finite: proofs, one after the other, and the check that each has to pass.

What comes to a queue in a time t is at most the flow times t, and a constant for what queues that are finite hold.  So
a queue is finite if no more can come to it than it serves, where every queue that is not proved to be finite yet
counts as a store: whatever is true of it, it cannot send more.  Behind those it hears, each bolt is proved in turn.

Bolts that go in a circle can still be proved one by one, if even full stores of the others do not bring too much; or
together, if `cycles` says that they cannot make each other longer without end.

A proof has prices (`linear`): whoever doubts that no more can come multiplies them out.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from pellucid.capacity.flow.cycles import circles, judged
from pellucid.capacity.flow.linear import certified
from pellucid.capacity.flow.network import Network
from pellucid.capacity.steps.step import Place
from pellucid.capacity.topology import Topology


@dataclass(frozen=True)
class Proof:
    """Bolts whose queues are finite, given the proofs before it: for each, the most that comes and the prices that
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


def why_unknown(topology: Topology, bolt: str, finite: Collection[str]) -> str:
    """Why it is neither proved nor refuted that the queue of a bolt is finite."""
    circle = undecided(topology)[0]
    if bolt in circle:
        return circle[bolt]
    doubted = [b for b in circle if b not in finite and bolt in behind(topology, [b])]
    return f"more can come than is served, if {' or '.join(doubted)} can hold enough"
