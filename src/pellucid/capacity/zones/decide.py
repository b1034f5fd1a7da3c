"""Does the queue of a bolt reach a limit, for given numbers of workers?  By flow first, then by zones.

Where flow says that the queue is unbounded, every limit is reached, and a run that does so is looked for, the nearest
first.  Where it is bounded, the search through zones ends.  If a queue upstream is unbounded, it would not: then such a
queue is counted up to some length only, and from there on it is *so many or more*.  That lets more happen than can:
what is proved is true, and what is found there is looked for again with queues that are counted to the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pellucid.capacity.flow import flows, grow, literal_bound
from pellucid.capacity.topology import ANY, Topology
from pellucid.capacity.zones.network import Network, Seen, cone
from pellucid.capacity.zones.run import WITHIN, Trace, given_run, trace
from pellucid.capacity.zones.search import Fewest, Zones, search
from pellucid.errors import UsageError
from pellucid.internal.model import Budget, CutShort, Status


def numbered(topology: Topology, bolt: str) -> Topology:
    """With one worker for each bolt that has any number and is not upstream: it does not matter here how many."""
    _, upstream = cone(topology, bolt)
    others = {b: 1 for b, found in topology.bolts.items() if found.workers is ANY and b not in upstream}
    return topology.given(workers=others) if others else topology


@dataclass(frozen=True)
class Decided:
    """The answer for one bolt: ``zones`` is the last search, which is the proof if it is proved."""

    topology: Topology
    bolt: str
    limit: int
    observe: Seen
    status: Status
    trace: Trace | None = None
    zones: Zones | None = None
    why: str = ""

    @property
    def explored(self) -> int:
        """How many zones there are."""
        return self.zones.zones if self.zones is not None else 0


def decide(
    topology: Topology,
    bolt: str,
    limit: int,
    *,
    observe: Seen | None = None,
    fewest: Fewest | None = None,
    within: Any = WITHIN,
    show: bool = True,
    budget: Budget | None = None,
) -> Decided:
    """Whether the queue of a bolt stays below the limit; if not, a run with the fewest emits (or steps, which is usual
    for the literal semantics), whose time is less than ``within`` above the least; without ``show``, no run.

    >>> from pellucid.capacity import figure_1
    >>> decide(figure_1(gap=1), "B1", 2).status
    'proved'
    >>> found = decide(figure_1(gap="0.9"), "B1", 3)
    >>> found.status, found.trace.emits
    ('refuted', 22)
    """
    observe, budget = observe or topology.observe, budget or Budget(60.0, 2_000_000)
    topology.bolt(bolt)
    topology = numbered(topology, bolt)
    network = Network.of(topology, bolt)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise UsageError(f"the limit of {bolt}: expected a number of tuples from 1 on, got {limit!r}.")
    fewest = fewest or ("steps" if topology.semantics == "literal" else "emits")
    asked = _Asked(network, limit, observe, fewest, within, show)
    try:
        with budget.kept():
            return _decide(asked, budget)
    except CutShort as cut:
        return asked._answer("unknown", None, None, str(cut))


def _decide(asked: _Asked, budget: Budget) -> Decided:
    network, limit, observe = asked.network, asked.limit, asked.observe
    topology, bolt = network.topology, network.bolt
    stocks: tuple[str, ...] = ()
    unbounded, why = False, ""
    if topology.semantics == "urgent":
        found = flows(topology)
        unbounded = found[bolt].status == "unbounded"
        why = found[bolt].why if found[bolt].status == "unknown" else ""
        stocks = tuple(b for b in network.bolts if found[b].status == "unbounded" and b != bolt)
    elif observe != "blocked" and limit > 1:
        unbounded = literal_bound(topology, bolt).status == "unbounded"
    if unbounded:
        return asked.reached(budget)
    if not stocks:
        return asked.exactly(budget, why)
    return asked.with_stocks(stocks, budget)


@dataclass
class _Asked:
    network: Network
    limit: int
    observe: Seen
    fewest: Fewest
    within: Any
    show: bool

    def _answer(self, status: Status, shown: Trace | None, zones: Zones | None, why: str = "") -> Decided:
        n = self.network
        return Decided(n.topology, n.bolt, self.limit, self.observe, status, shown, zones, why)

    def _search(self, budget: Budget, caps: dict[str, int] | None = None) -> Zones:
        n = self.network
        return search(n, limit=self.limit, observe=self.observe, fewest=self.fewest, caps=caps, budget=budget)

    def _found(self, zones: Zones) -> Decided:
        return self._answer("refuted", trace(zones, within=self.within) if self.show else None, zones)

    def exactly(self, budget: Budget, why: str = "") -> Decided:
        """All that can happen."""
        zones = self._search(budget)
        if zones.way is not None:
            return self._found(zones)
        if zones.cut:
            return self._answer("unknown", None, zones, f"{why}; {zones.cut}" if why else zones.cut)
        return self._answer("proved", None, zones)

    def reached(self, budget: Budget) -> Decided:
        """The queue is unbounded: a run, a nearest one if that is found in time."""
        if not self.show:
            return self._answer("refuted", None, None, "the queue is unbounded")
        zones = self._search(budget.part(0.25))
        if zones.way is not None:
            return self._found(zones)
        n = self.network
        assert self.observe != "blocked"
        grown = grow(n.topology, n.bolt, self.limit, observe=self.observe)
        shown = given_run(n.topology, n.bolt, self.limit, self.observe, grown.steps)
        return self._answer("refuted", shown, zones, "the queue is unbounded; the run is not a shortest one")

    def with_stocks(self, stocks: tuple[str, ...], budget: Budget) -> Decided:
        """Some queues upstream are unbounded."""
        workers = max(self.network.workers(b) for b in stocks)
        many, share = workers + 1, 0.1
        while True:
            zones = self._search(budget.part(share), dict.fromkeys(stocks, many))
            if zones.complete:
                return self._answer("proved", None, zones)
            exact = self._search(budget.part(share))
            if exact.way is not None:
                return self._found(exact)
            if budget.over or many > 64 * workers or (zones.cut and share >= 0.4):
                counted = f"the unbounded queue of {' and '.join(stocks)} was counted up to {many}"
                return self._answer("unknown", None, zones, f"{zones.cut or counted}")
            many, share = 2 * many, min(0.4, 2 * share)


@dataclass(frozen=True)
class Longest:
    """How long the queue of a bolt gets, in any state and in a settled one; None if it is unbounded or not known."""

    bolt: str
    any: int | None
    settled: int | None
    status: str = "bounded"
    why: str = ""
    zones: int = 0

    def __str__(self) -> str:
        if self.status != "bounded":
            return self.status
        return f"{self.any}/{self.settled}"


def longest(topology: Topology, bolt: str, *, budget: Budget | None = None) -> Longest:
    """The longest queue of a bolt, in any state and in a settled one.

    >>> from pellucid.capacity import figure_1
    >>> [str(longest(figure_1(gap=2), b)) for b in ("B1", "B2", "B3")]
    ['1/0', '1/1', '2/1']
    >>> str(longest(figure_1(gap="0.9"), "B1"))
    'unbounded'
    """
    budget = budget or Budget(60.0, 2_000_000)
    topology.bolt(bolt)
    topology = numbered(topology, bolt)
    network = Network.of(topology, bolt)
    try:
        with budget.kept():
            return _longest(topology, network, budget)
    except CutShort as cut:
        return Longest(bolt, None, None, "unknown", str(cut))


def _longest(topology: Topology, network: Network, budget: Budget) -> Longest:
    bolt = network.bolt
    if topology.semantics == "literal":
        return _literally_longest(topology, network, budget)
    found = flows(topology)
    if found[bolt].status == "unbounded":
        return Longest(bolt, None, None, "unbounded", str(found[bolt].why))
    stocks = tuple(b for b in network.bolts if found[b].status == "unbounded")
    if not stocks:
        zones = search(network, budget=budget)
        if zones.cut:
            return Longest(bolt, None, None, "unknown", zones.cut, zones.zones)
        return Longest(bolt, *zones.longest[bolt], zones=zones.zones)
    many = max(network.workers(b) for b in stocks) + 1
    while not budget.over:
        zones = search(network, caps=dict.fromkeys(stocks, many), budget=budget.part(0.3))
        if zones.cut:
            return Longest(bolt, None, None, "unknown", zones.cut, zones.zones)
        most, settled = zones.longest[bolt]
        if _reached(network, most, "any", budget) and _reached(network, settled, "settled", budget):
            return Longest(bolt, most, settled, zones=zones.zones)
        many *= 2
    return Longest(bolt, None, None, "unknown", "the time limit was reached")


def _reached(network: Network, length: int, observe: Seen, budget: Budget) -> bool:
    """Whether a queue of this length is reached, with queues that are counted to the end."""
    return length == 0 or search(network, limit=length, observe=observe, budget=budget.part(0.2)).way is not None


def _literally_longest(topology: Topology, network: Network, budget: Budget) -> Longest:
    """Under the literal semantics; a bolt that hears a bolt has no bound that is known."""
    bolt = network.bolt
    bound = literal_bound(topology, bolt)
    if bound.status == "unbounded":
        return Longest(bolt, None, None, "unbounded", str(bound))
    if len(network.bolts) > 1:
        return Longest(bolt, None, None, "unknown", bound.why)
    zones = search(network, budget=budget)
    if zones.cut:
        return Longest(bolt, None, None, "unknown", zones.cut, zones.zones)
    return Longest(bolt, *zones.longest[bolt], zones=zones.zones)
