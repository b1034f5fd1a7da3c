"""From which gap on a queue is bounded, exactly.

What can come grows with the rate along a line that bends downwards, and a queue that becomes unbounded at some rate is
a store from there on: so the rates at which something changes are found one after the other, each as the point where a
line meets a capacity.  Nothing is sampled, and nothing approached.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from pellucid.capacity.flow.bounds import flows
from pellucid.capacity.flow.network import Network
from pellucid.capacity.flow.proof import behind, undecided
from pellucid.capacity.steps.step import Place
from pellucid.capacity.topology import Topology
from pellucid.errors import UsageError
from pellucid.internal.model import on_time


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
