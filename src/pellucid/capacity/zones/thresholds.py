"""Thresholds, exactly: the least gap, and the least number of workers, at which a limit is kept.

Below the least gap at which the queue is bounded every limit is reached: flow says which gap that is, and nothing is
searched there.  From there on: every run that reaches the limit does so for all gaps below some number, its widest, and
not for that number itself, for all its conditions on the gap are strict.  So the widest gap of a run that was found is
the next to be tried, and the first at which there is no run is the threshold: it is safe, as is every gap above it,
for whatever can happen with a wider gap can happen with a smaller one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Literal, TypeAlias

from pellucid.capacity.flow import flows, literal_bound
from pellucid.capacity.flow import threshold as by_flow
from pellucid.capacity.topology import Observation, Spout, Topology
from pellucid.capacity.zones.decide import Decided, decide
from pellucid.capacity.zones.network import Network, cone
from pellucid.capacity.zones.run import Trace
from pellucid.capacity.zones.search import search
from pellucid.errors import UsageError
from pellucid.internal.model import Budget, CutShort

Found: TypeAlias = Literal["at", "never", "always", "unknown"]
_TINY = 2**10
_TRIES = 6  # gaps that are tried before it is asked whether this comes to an end


@dataclass(frozen=True)
class GapThreshold:
    """From which gap on a limit is kept.

    ``"at"``: from ``gap`` on, and not below; ``"never"``, whatever the gap; ``"always"``: at every gap (above 0, or
    from a small one on, if there is no proof for all at once); ``"unknown"``: the limit is broken below ``gap``, and
    the budget was spent before a gap was found at which it is kept, or runs break it ever closer to ``kept_from``, from
    where on it is kept.  ``below`` is a run for gaps
    below the threshold, ``tried`` the gaps that were looked at.
    """

    bolt: str
    limit: int
    status: Found
    gap: Fraction | None
    by_flow: Fraction | None
    below: Trace | None = None
    decided: Decided | None = None
    tried: tuple[Fraction, ...] = ()
    why: str = ""
    kept_from: Fraction | None = None

    def __str__(self) -> str:
        limit = f"the queue of {self.bolt} stays below {self.limit}"
        if self.status == "at":
            return f"{limit} from gap {self.gap} on, and not below"
        if self.status == "always":
            return f"{limit} at every gap" + (f" from {self.gap} on" if self.gap else "")
        if self.status == "never":
            return f"{limit} at no gap"
        below = f"not below {self.gap}, " if self.gap is not None else ""
        return f"not decided from which gap on {limit}: {below}{self.why}"


def least_gap(
    topology: Topology,
    bolt: str,
    limit: int,
    *,
    spouts: Collection[str] | None = None,
    observe: Observation | None = None,
    budget: Budget | None = None,
) -> GapThreshold:
    """The least gap of these spouts (all, unless told) at which the queue of a bolt stays below the limit.

    >>> from pellucid.capacity import figure_1
    >>> t = figure_1(gap=1, workers=2).given(routing="all", observe="settled")
    >>> print(least_gap(t, "B3", 2))
    the queue of B3 stays below 2 from gap 2 on, and not below
    >>> print(least_gap(t, "B3", 3))
    the queue of B3 stays below 3 from gap 3/2 on, and not below
    """
    topology.bolt(bolt)
    names = tuple(topology.spouts if spouts is None else spouts)
    for s in names:
        if s not in topology.spouts:
            raise UsageError(f"spouts: there is no spout {s}: {', '.join(topology.spouts)} are.")
    budget, observe = budget or Budget(60.0, 2_000_000), observe or topology.observe
    try:
        with budget.kept():
            return _least_gap(topology, bolt, limit, names, observe, budget)
    except CutShort as cut:
        return GapThreshold(bolt, limit, "unknown", None, None, why=str(cut))


def _least_gap(
    topology: Topology, bolt: str, limit: int, names: tuple[str, ...], observe: Observation, budget: Budget
) -> GapThreshold:
    if topology.semantics == "literal" and (bound := literal_bound(topology, bolt)).through:
        return GapThreshold(bolt, limit, "never", None, None, why=bound.why)
    flow = by_flow(topology, bolt, spouts=names) if topology.semantics == "urgent" else None
    if flow is not None and flow.status == "never":
        return GapThreshold(bolt, limit, "never", None, None, why=flow.why)
    bounded = flow.gap if flow is not None else None
    least = min(b.time for b in topology.bolts.values()) / _TINY
    gap = bounded if bounded is not None else least
    if flow is not None and flow.status == "always":
        everywhere = _at_every_gap(topology, bolt, limit, names, observe, least, budget)
        if everywhere is not None:
            return GapThreshold(bolt, limit, "always", Fraction(0), None, None, everywhere, (Fraction(0),))
    below: Trace | None = None
    tried: list[Fraction] = []
    while True:
        tried.append(gap)
        found = decide(topology.given(gap=dict.fromkeys(names, gap)), bolt, limit, observe=observe, budget=budget)
        if found.status == "proved":
            status: Found = "always" if below is None and bounded is None else "at"
            return GapThreshold(bolt, limit, status, gap, bounded, below, found, tuple(tried))
        if found.trace is None:
            return GapThreshold(bolt, limit, "unknown", gap, bounded, below, found, tuple(tried), found.why)
        below = found.trace
        if below.way is None:
            return GapThreshold(bolt, limit, "unknown", gap, bounded, below, found, tuple(tried), found.why)
        wider = below.way.moments.widest(topology, names)
        if wider is None:
            return GapThreshold(bolt, limit, "never", None, bounded, below, found, tuple(tried))
        assert wider > gap, "the conditions of a run on the gap are strict"
        gap = wider
        if len(tried) == _TRIES:
            kept = _kept_from(topology, bolt, limit, names, observe, gap, budget)
            if kept is not None and kept.spouts[names[0]].gap > gap:
                high = kept.spouts[names[0]].gap
                why = f"and kept from {high} on; between them every run that was found breaks it a little further up"
                return GapThreshold(bolt, limit, "unknown", gap, bounded, below, None, tuple(tried), why, high)


def _kept_from(
    topology: Topology,
    bolt: str,
    limit: int,
    names: Collection[str],
    observe: Observation,
    above: Fraction,
    budget: Budget,
) -> Topology | None:
    """The topology at the first gap above this one at which a queue upstream becomes bounded, if the limit is kept
    there: runs that fill that queue first break it for gaps as near to that one as one likes, and none is the last."""
    if topology.semantics != "urgent":
        return None
    _, upstream = cone(topology, bolt)
    known = {by_flow(topology, b, spouts=names).gap for b in upstream}
    for gap in sorted(gap for gap in known if gap is not None and gap > above):
        given = topology.given(gap=dict.fromkeys(names, gap))
        if decide(given, bolt, limit, observe=observe, show=False, budget=budget.part(0.3)).status == "proved":
            return given
    return None


def _at_every_gap(
    topology: Topology,
    bolt: str,
    limit: int,
    names: Collection[str],
    observe: Observation,
    least: Fraction,
    budget: Budget,
) -> Decided | None:
    """A proof for every gap at once, if zones find one: with spouts that need more than 0 between two tuples.

    The queues that such spouts can fill are counted up to some length, and *so many or more* from there on.
    """
    spout = object.__new__(Spout)  # a topology that is asked about has no gap of 0
    object.__setattr__(spout, "gap", Fraction(0))
    given = topology.given(spouts={**topology.spouts, **dict.fromkeys(names, spout)})
    network = Network.of(given, bolt)
    unbounded = flows(topology.given(gap=dict.fromkeys(names, least))).unbounded
    stocks = [b for b in network.bolts if b in unbounded]
    if any(given.bolts[b].queue == "per worker" for b in stocks):
        return None
    many = max((network.workers(b) for b in stocks), default=0) + 1
    found = search(
        network, limit=limit, observe=observe, caps=dict.fromkeys(stocks, many), budget=budget.part(0.3)
    )  # fmt: skip
    if not found.complete:
        return None
    return Decided(given, bolt, limit, observe, "proved", None, found)


@dataclass(frozen=True)
class WorkersThreshold:
    """How many workers of its own a bolt needs for a limit; None if no number is enough."""

    bolt: str
    limit: int
    status: Found
    workers: int | None
    below: Trace | None = None
    decided: Decided | None = None
    why: str = ""

    def __str__(self) -> str:
        limit = f"the queue of {self.bolt} stays below {self.limit}"
        if self.status == "at":
            return f"{limit} with {self.workers} worker{'' if self.workers == 1 else 's'} and more, and not with fewer"
        if self.status == "never":
            return f"no number of workers of {self.bolt} is enough: {self.why}"
        return f"not decided with how many workers {limit}: {self.why}"


def least_workers(
    topology: Topology,
    bolt: str,
    limit: int,
    *,
    observe: Observation | None = None,
    budget: Budget | None = None,
) -> WorkersThreshold:
    """The least number of workers of a bolt with which its queue stays below the limit; the others keep theirs.

    A queue never gets longer by more workers of its own.  So the first number that is enough is the least; and where
    nothing waits in a settled state, more workers change nothing at all.

    >>> from pellucid.capacity import figure_1
    >>> print(least_workers(figure_1(gap="0.8"), "B2", 2))
    the queue of B2 stays below 2 with 3 workers and more, and not with fewer
    >>> print(least_workers(figure_1(gap=2), "B3", 2))
    no number of workers of B3 is enough: with 2 nothing waits in a settled state, so more would change nothing
    """
    budget, observe = budget or Budget(60.0, 2_000_000), observe or topology.observe
    try:
        with budget.kept():
            return _least_workers(topology, bolt, limit, observe, budget)
    except CutShort as cut:
        return WorkersThreshold(bolt, limit, "unknown", None, why=str(cut))


def _least_workers(topology: Topology, bolt: str, limit: int, observe: Observation, budget: Budget) -> WorkersThreshold:
    alone = topology.given(workers={bolt: 1})
    many = 1  # with fewer it is unbounded
    if topology.semantics == "literal":
        bound = literal_bound(alone, bolt)
        if bound.through:
            return WorkersThreshold(bolt, limit, "never", None, why=bound.why)
        if bolt in topology.bolts[bolt].hears:
            return WorkersThreshold(bolt, limit, "unknown", None, why="it hears itself")
        many = max(1, bound.tuples) if limit > 1 else 1
    elif topology.bolts[bolt].queue == "shared" and (inflow := flows(alone)[bolt].inflow) is not None:
        many = max(1, ceil(inflow * topology.bolts[bolt].time))
    below: Trace | None = None
    if many > 1:
        below = decide(topology.given(workers={bolt: many - 1}), bolt, limit, observe=observe, budget=budget).trace
    while True:
        given = topology.given(workers={bolt: many})
        found = decide(given, bolt, limit, observe=observe, budget=budget)
        if found.status == "proved":
            return WorkersThreshold(bolt, limit, "at", many, below, found)
        if found.trace is None:
            return WorkersThreshold(bolt, limit, "unknown", many, below, found, found.why)
        below = found.trace
        waits = decide(
            given, bolt, 1, observe="blocked" if topology.semantics == "literal" else "settled", budget=budget
        )
        if waits.status == "proved":
            why = f"with {many} nothing waits in a settled state, so more would change nothing"
            return WorkersThreshold(bolt, limit, "never", None, below, found, why)
        if waits.status == "unknown" or budget.over:
            why = f"{many} are not enough, and {waits.why or 'the time is up'}"
            return WorkersThreshold(bolt, limit, "unknown", many, below, found, why)
        many += 1
