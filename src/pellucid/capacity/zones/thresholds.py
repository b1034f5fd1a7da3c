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

from pellucid.capacity.flow import flows
from pellucid.capacity.flow import threshold as by_flow
from pellucid.capacity.topology import Observation, Topology
from pellucid.capacity.zones.decide import Decided, decide
from pellucid.capacity.zones.run import Trace
from pellucid.errors import UsageError
from pellucid.model import Budget

Found: TypeAlias = Literal["at", "never", "always", "unknown"]
_TINY = 2**10


@dataclass(frozen=True)
class GapThreshold:
    """From which gap on a limit is kept.

    ``"at"``: from ``gap`` on, and not below; ``"never"``, whatever the gap; ``"always"``: from ``gap`` on, which is
    smaller than anything that matters (it was not found to be broken below either); ``"unknown"``: the limit is broken
    below ``gap``, and the budget was spent before a gap was found at which it is kept.  ``below`` is a run for gaps
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

    def __str__(self) -> str:
        limit = f"the queue of {self.bolt} stays below {self.limit}"
        if self.status == "at":
            return f"{limit} from gap {self.gap} on, and not below"
        if self.status == "always":
            return f"{limit} at every gap from {self.gap} on"
        if self.status == "never":
            return f"{limit} at no gap"
        return f"not decided from which gap on {limit}: not below {self.gap}, {self.why}"


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
    flow = by_flow(topology, bolt, spouts=names) if topology.semantics == "urgent" else None
    if flow is not None and flow.status == "never":
        return GapThreshold(bolt, limit, "never", None, None, why=flow.why)
    bounded = flow.gap if flow is not None else None
    least = min(b.time for b in topology.bolts.values()) / _TINY
    gap = bounded if bounded is not None else least
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
    flow = flows(topology.given(workers={bolt: 1}))[bolt]
    many = 1
    if topology.semantics == "urgent" and topology.bolts[bolt].queue == "shared":
        many = max(1, ceil(flow.inflow * topology.bolts[bolt].time))  # with fewer it is unbounded
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
        waits = decide(given, bolt, 1, observe="settled", budget=budget)
        if waits.status == "proved":
            why = f"with {many} nothing waits in a settled state, so more would change nothing"
            return WorkersThreshold(bolt, limit, "never", None, below, found, why)
        if waits.status == "unknown" or budget.over:
            why = f"{many} are not enough, and {waits.why or 'the time is up'}"
            return WorkersThreshold(bolt, limit, "unknown", many, below, found, why)
        many += 1
