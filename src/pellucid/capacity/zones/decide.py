"""Does the queue of a bolt reach a limit, for given numbers of workers?  By flow first, then by zones.

Where flow says that the queue is unbounded, every limit is reached, and a run that does so is looked for, the nearest
first.  Where it is bounded, the search through zones ends.  If a queue upstream is unbounded, it would not: then such a
queue is counted up to some length only, and from there on it is *so many or more*.  That lets more happen than can:
what is proved is true, and what is found there is looked for again with queues that are counted to the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any, Literal, TypeAlias

from pellucid.capacity.flow import flows, grow, literal_bound
from pellucid.capacity.flow import threshold as by_flow
from pellucid.capacity.topology import ANY, Observation, Spout, Topology
from pellucid.capacity.zones.certificate import AnyCertificate, Case, certificate
from pellucid.capacity.zones.network import Network, Seen, cone
from pellucid.capacity.zones.search import WITHIN, Fewest, Trace, Zones, given_run, search, trace
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


# Any number of workers, for each bolt independently: a proof by the numbers at which more change nothing.
#
# If no tuple ever waits in a settled state of a bolt with N workers, then one more worker never gets anything to do:
# the states and steps with N + 1 are those with N, and so on.  So N stands for all larger numbers, once it is *proved*
# that nothing waits; that depends on what is upstream alone.  Bolt by bolt, each after those it hears, the numbers 1,
# 2, … N are gone through, for each choice of the numbers before; what is left are finitely many questions with given
# numbers.
#
# Under the `literal` semantics the same is asked of every state: that nothing waits while no worker is idle.

MOST = 64  # workers of one bolt that are tried


@dataclass
class AnyDecided:
    """The answer for a bolt and any numbers of workers: ``cases`` are the numbers that were proved, each with those of
    its bolts for which it stands for all larger ones; ``numbers`` are those that break the limit, or at which it
    stopped."""

    topology: Topology
    bolt: str
    limit: int
    observe: Observation
    status: Status = "proved"
    numbers: Mapping[str, int] = field(default_factory=dict)
    trace: Trace | None = None
    cases: list[Case] = field(default_factory=list)
    zones: int = 0
    why: str = ""

    @property
    def certificate(self) -> AnyCertificate:
        """The proof."""
        return AnyCertificate(self.topology, self.bolt, self.limit, self.observe, tuple(self.cases))

    @property
    def proved_for(self) -> str:
        """The numbers that are proved, in words."""
        return "; ".join(str(case) for case in self.cases) or "no number"


def decide_any(
    topology: Topology,
    bolt: str,
    limit: int,
    *,
    observe: Observation | None = None,
    fewest: Fewest | None = None,
    budget: Budget | None = None,
) -> AnyDecided:
    """Whether the queue of a bolt stays below the limit, whatever the numbers of workers of the bolts that have `ANY`.

    >>> from pellucid.capacity import ANY, figure_1
    >>> found = decide_any(figure_1(gap=2, workers=ANY), "B3", 3)
    >>> found.status
    'proved'
    >>> for case in found.cases:
    ...     print(case)
    B1 1 or more, B2 1, B3 1
    B1 1 or more, B2 1, B3 2 or more
    B1 1 or more, B2 2 or more, B3 1
    B1 1 or more, B2 2 or more, B3 2 or more
    >>> found = decide_any(figure_1(gap=1, workers=ANY), "B3", 4)
    >>> found.status, dict(found.numbers)
    ('refuted', {'B1': 1, 'B2': 1, 'B3': 1})
    """
    observe, budget = observe or topology.observe, budget or Budget(60.0, 2_000_000)
    answer = AnyDecided(topology, bolt, limit, observe)
    order = topology.order()
    _, upstream = cone(topology, bolt)
    if order is None:
        answer.status, answer.why = "unknown", "the bolts go in a circle, and none of them is first"
        return answer
    bolts = [b for b in order if b in upstream]
    _Cases(answer, bolts, fewest, budget).go({}, (), ())
    return answer


@dataclass
class _Cases:
    answer: AnyDecided
    bolts: list[str]
    fewest: Fewest | None
    budget: Budget

    def go(self, numbers: dict[str, int], more: tuple[str, ...], proofs: tuple[tuple[str, Decided], ...]) -> bool:
        """Go through the numbers of the next bolt; False if it is over."""
        answer, topology = self.answer, self.answer.topology
        if len(numbers) == len(self.bolts):
            return self._case(numbers, more, proofs)
        b = self.bolts[len(numbers)]
        given = topology.bolts[b].workers
        if given is not ANY:
            return self.go({**numbers, b: given}, more, proofs)
        many = 0
        while True:
            many += 1
            now = {**numbers, b: many}
            if topology.bolts[b].queue == "per worker":
                answer.status, answer.numbers = "unknown", now
                answer.why = f"each worker of {b} has a queue, and something may wait in it whatever their number"
                return False
            if self.budget.over or many > MOST:
                waits = f"something waits with {many - 1} of {b}" if many > 1 else ""
                over = f"the time limit of {self.budget.timeout:g} s was reached" if self.budget.over else ""
                answer.status, answer.numbers, answer.why = "unknown", now, ", and ".join(filter(None, (waits, over)))
                return False
            found = self._waits(now, b)
            if found.status == "unknown":
                answer.status, answer.numbers, answer.why = "unknown", now, found.why
                return False
            enough = found.status == "proved"
            if not self.go(now, (*more, b) if enough else more, (*proofs, (b, found)) if enough else proofs):
                return False
            if enough:
                return True

    def _waits(self, numbers: dict[str, int], b: str) -> Decided:
        """Whether a tuple ever waits while no worker of this bolt is idle."""
        literal = self.answer.topology.semantics == "literal"
        given = self.answer.topology.given(workers=numbers)
        return decide(given, b, 1, observe="blocked" if literal else "settled", show=False, budget=self.budget)

    def _case(self, numbers: dict[str, int], more: tuple[str, ...], proofs: tuple[tuple[str, Decided], ...]) -> bool:
        answer = self.answer
        given = answer.topology.given(workers=numbers)
        found = decide(given, answer.bolt, answer.limit, observe=answer.observe, fewest=self.fewest, budget=self.budget)
        answer.zones += found.explored
        if found.status != "proved":
            answer.status, answer.numbers, answer.trace, answer.why = found.status, numbers, found.trace, found.why
            return False
        assert found.zones is not None
        saturated = tuple((b, certificate(p.zones)) for b, p in proofs if p.zones is not None)
        answer.cases.append(Case(numbers, more, certificate(found.zones), saturated))
        return True


# Thresholds, exactly: the least gap, and the least number of workers, at which a limit is kept.
#
# Below the least gap at which the queue is bounded every limit is reached: flow says which gap that is, and nothing is
# searched there.  From there on: every run that reaches the limit does so for all gaps below some number, its widest,
# and not for that number itself, for all its conditions on the gap are strict.  So the widest gap of a run that was
# found is the next to be tried, and the first at which there is no run is the threshold: it is safe, as is every gap
# above it, for whatever can happen with a wider gap can happen with a smaller one.

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
