"""A plan for a topology: what is true of each queue, exactly.

Whether a queue is bounded is decided by flow; how long it gets, and what keeps it below a limit, by zones.  Both are
shown: a bound comes with a run that reaches it, an unbounded queue with one that makes it as long as was asked, and
each run was replayed step by step.  What is proved has a certificate, which a small checker accepts.

A limit is broken by a queue that *reaches* it, as in the paper: ``B1=2`` asks for a queue that is never 2 long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any

from pellucid.capacity.flow import Flow, Flows, Threshold, check_flows, flows, grow, literal_bound, not_known, threshold
from pellucid.capacity.planning.envelopes import Envelope, check_envelopes, envelopes
from pellucid.capacity.steps import Replay, replay
from pellucid.capacity.topology import ANY, Topology
from pellucid.capacity.zones.decide import Longest, decide, longest
from pellucid.capacity.zones.question import capacity
from pellucid.capacity.zones.thresholds import GapThreshold, WorkersThreshold, least_gap, least_workers
from pellucid.errors import UsageError
from pellucid.internal.model import Budget, CutShort, Status, combined

SHOWN = 8  # how long an unbounded queue is made, where nobody gave a limit
Tell = Callable[[str], None]


@dataclass(frozen=True)
class BoltPlan:
    """What is true of the queue of one bolt.

    ``status`` answers the question: does the queue stay below ``limit`` (without one: is it bounded at all)?
    ``longest`` is how long it gets, as the topology observes it; None if it is unbounded or not known.  ``run`` reaches
    that length; of an unbounded queue, the limit.
    """

    bolt: str
    status: Status
    flow: Flow
    found: Longest
    longest: int | None
    limit: int | None = None
    run: Replay | None = None
    workers: WorkersThreshold | None = None  # the least for the limit
    gap: GapThreshold | None = None  # the least for the limit, of all spouts
    bounded_from: Threshold | None = None  # the least gap of all spouts at which it is bounded
    backlog: int = 0
    why: str = ""
    proof: str = ""  # what shows that it is proved, and whether the small checker has accepted that
    at_most: int | None = None  # a bound that costs nothing, and is not reached

    @property
    def unbounded(self) -> bool:
        """Whether it gets as long as one likes."""
        return self.found.status == "unbounded"

    @property
    def largest_rate(self) -> Fraction | None:
        """Tuples per unit of time that every spout may bring, so that the queue is bounded (below its limit, if it has
        one); None if there is none, or none is needed, or it is not known."""
        if self.gap is not None:
            return 1 / self.gap.gap if self.gap.status == "at" and self.gap.gap else None
        known = self.bounded_from
        return 1 / known.gap if known is not None and known.status == "at" and known.gap else None

    def drain(self, workers: int, time: Fraction) -> tuple[Fraction, Fraction | None]:
        """How long until a backlog is done: if nothing else comes, exactly; and if as much comes as can in the long
        run (None: never)."""
        alone = ceil(Fraction(self.backlog, workers)) * time
        if self.flow.inflow is None:
            return alone, None
        spare = self.flow.capacity - self.flow.inflow
        queues = int(workers / time / self.flow.capacity)  # where each worker has one, what waits is spread evenly
        return alone, Fraction(ceil(Fraction(self.backlog, queues))) / spare if spare > 0 else None


@dataclass(frozen=True)
class Plan:
    """What is true of a topology."""

    topology: Topology
    bolts: Mapping[str, BoltPlan]
    warning: str = ""

    @property
    def status(self) -> Status:
        """Refuted if one queue is, proved if all are."""
        return combined(bolt.status for bolt in self.bolts.values())

    @property
    def shown(self) -> BoltPlan | None:
        """The bolt whose run is the one to look at: one that breaks its limit, else one that was asked about, else the
        longest queue, as far down the stream as there is one."""
        known = [(i, bolt) for i, bolt in enumerate(self.bolts.values()) if bolt.run is not None]
        broken = [(i, bolt) for i, bolt in known if bolt.status == "refuted"]
        ordered = sorted(broken or known, key=lambda one: (one[1].limit is not None, one[1].longest or 0, one[0]))
        return ordered[-1][1] if ordered else None

    def document(self) -> dict[str, Any]:
        """As plain data; numbers that are exact are texts."""
        t = self.topology
        return {
            "topology": t.name, "routing": t.routing, "semantics": t.semantics, "observe": t.observe,
            "status": self.status, "warning": self.warning or None,
            "bolts": [_document(t, bolt) for bolt in self.bolts.values()],
        }  # fmt: skip


def _document(topology: Topology, plan: BoltPlan) -> dict[str, Any]:
    bolt = topology.bolts[plan.bolt]
    assert bolt.workers is not ANY
    alone, meanwhile = plan.drain(bolt.workers, bolt.time)
    return {
        "bolt": plan.bolt, "status": plan.status, "workers": bolt.workers, "time": str(bolt.time), "limit": plan.limit,
        "longest": "unbounded" if plan.unbounded else plan.longest, "at_most": plan.at_most,
        "longest_any": plan.found.any, "longest_settled": plan.found.settled,
        "capacity": str(plan.flow.capacity), "load": _exact(plan.flow.load),
        "inflow": _exact(plan.flow.inflow), "utilisation": _exact(plan.flow.utilisation),
        "bounded": plan.flow.status, "why": plan.why or None,
        "proof": plan.proof or None,
        "least_workers": None if plan.workers is None else _status(plan.workers.status, plan.workers.workers),
        "least_gap": None if plan.gap is None else _status(plan.gap.status, plan.gap.gap),
        "bounded_from_gap":
            None if plan.bounded_from is None else _status(plan.bounded_from.status, plan.bounded_from.gap),
        "largest_rate": None if plan.largest_rate is None else str(plan.largest_rate),
        "backlog": plan.backlog, "drained_in": str(alone) if topology.semantics == "urgent" else None,
        "drained_in_meanwhile": None if meanwhile is None else str(meanwhile),
        "run": None if plan.run is None else {
            "steps": [str(step) for step in plan.run.steps], "time": str(plan.run.times[-1]), "emits": plan.run.emits,
        },
    }  # fmt: skip


def _exact(number: Fraction | None) -> str | None:
    return None if number is None else str(number)


def _status(status: str, number: int | Fraction | None) -> dict[str, str | None]:
    return {"status": status, "value": None if number is None else str(number)}


def plan(
    topology: Topology,
    limits: Mapping[str, int] | None = None,
    *,
    backlog: Mapping[str, int] | None = None,
    only: tuple[str, ...] = (),
    budget: Budget | None = None,
    tell: Tell = lambda words: None,
) -> Plan:
    """What is true of each queue (of ``only`` these bolts): how long it gets, what it takes to keep it below its limit.

    >>> from pellucid.capacity import figure_1
    >>> found = plan(figure_1(gap=2), {"B2": 2})
    >>> [(b.bolt, b.longest, b.status) for b in found.bolts.values()]
    [('B1', 1, 'proved'), ('B2', 1, 'proved'), ('B3', 2, 'proved')]
    >>> found = plan(figure_1(gap="0.8"), {"B2": 2}, only=("B2",)).bolts["B2"]
    >>> found.status, found.unbounded, found.workers.workers, found.gap.gap
    ('refuted', True, 3, Fraction(2, 1))
    """
    limits, backlog = dict(limits or {}), dict(backlog or {})
    for name in (*limits, *backlog, *only):
        topology.bolt(name)
    for name, limit in limits.items():
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise UsageError(f"the limit of {name}: expected a number of tuples from 1 on, got {limit!r}.")
    for name, waiting in backlog.items():
        if isinstance(waiting, bool) or not isinstance(waiting, int) or waiting < 0:
            raise UsageError(f"the backlog of {name}: expected 0 or more tuples, got {waiting!r}.")
    unknown = [name for name, bolt in topology.bolts.items() if bolt.workers is ANY]
    if unknown:
        raise UsageError(
            f"a plan needs numbers of workers, and {', '.join(unknown)} {'has' if len(unknown) == 1 else 'have'} ANY: "
            "ask check.capacity, which answers for any number."
        )
    budget = budget or Budget(60.0, 2_000_000)
    if backlog and topology.semantics == "literal":
        raise UsageError(
            f"the backlog of {next(iter(backlog))}: no time is known in which it is done, since literally "
            'time may pass while a worker is idle: semantics="urgent" has an answer.'
        )
    try:
        with budget.kept():
            known = _flows_of(topology)
    except CutShort as cut:
        known = not_known(topology, str(cut))
    bolts: dict[str, BoltPlan] = {}
    names = only or tuple(topology.bolts)
    table = envelopes(topology)
    for i, name in enumerate(names):
        tell(f"{name}: how long its queue gets")
        share = budget.part(1 / (len(names) - i))
        numbers = (limits.get(name), backlog.get(name))
        with share.kept():
            bolts[name] = _bolt(topology, name, *numbers, known[name], table, share, tell)
    return Plan(topology, bolts, known.warning if topology.semantics == "urgent" else "")


def _flows_of(topology: Topology) -> Flows:
    """Which queues are bounded, by the semantics of the topology: by flow, or in closed form."""
    if topology.semantics == "urgent":
        return flows(topology)
    nothing = not_known(topology, "")
    bounds = {b: literal_bound(topology, b) for b in topology.bolts}
    table = {b: replace(flow, status=bounds[b].status, why=bounds[b].why) for b, flow in nothing.items()}
    return replace(nothing, table=table)


def _bolt(
    topology: Topology,
    name: str,
    limit: int | None,
    backlog: int | None,
    flow: Flow,
    table: Mapping[str, Envelope] | None,
    budget: Budget,
    tell: Tell,
) -> BoltPlan:
    literal = topology.semantics == "literal"
    found = longest(topology, name, budget=budget)
    most = found.any if topology.observe == "any" else found.settled
    waiting = backlog if backlog is not None else 0 if literal else topology.bolts[name].initial
    proof = ""
    try:
        status, run, why = _shown(topology, name, limit, most, found, budget)
        status, why, proof = _proved(topology, name, limit, most, (status, why), (flow, table), budget)
    except CutShort as cut:
        status, run, why = "unknown", None, str(cut)
    at_most = table[name].at_most if table is not None else None
    workers = gap = None
    if limit is not None:
        tell(f"{name}: the least workers for its limit")
        workers = least_workers(topology, name, limit, budget=budget)
        tell(f"{name}: the least gap for its limit")
        gap = least_gap(topology, name, limit, budget=budget)
    try:
        bounded_from = None if literal else threshold(topology, name)
    except CutShort as cut:
        bounded_from = Threshold(name, "unknown", None, str(cut))
    return BoltPlan(
        name, status, flow, found, most, limit, run, workers, gap, bounded_from, waiting, why, proof, at_most
    )


def _proved(
    topology: Topology,
    name: str,
    limit: int | None,
    most: int | None,
    answer: tuple[Status, str],
    cheap: tuple[Flow, Mapping[str, Envelope] | None],
    budget: Budget,
) -> tuple[Status, str, str]:
    """What shows that it is proved; where zones took too long, flow or envelopes may show it as well."""
    (status, why), (flow, table) = answer, cheap
    if status == "proved" and most is not None:
        part = capacity(topology, {name: limit or most + 1}, timeout=budget.left(), max_states=budget.max_states)
        (proof,) = part.parts[name].notes
        return ("proved", why, proof) if part.proved else ("unknown", proof, "")
    if status != "unknown" or topology.semantics == "literal":
        return status, why, ""
    if limit is None:
        if flow.status != "bounded":
            return status, why, ""
        if not check_flows(flows(topology)):
            return "unknown", "the checker does not accept what flow says", ""
        return "proved", "", "by flow: no more comes than is served, checked"
    known = table[name].at_most if table is not None else None
    if table is None or known is None or known >= limit:
        return status, why, ""
    if not check_envelopes(topology, table):
        return "unknown", "the checker does not accept the envelopes", ""
    return "proved", "", f"by envelopes: no more than {known} can wait, checked"


def _shown(
    topology: Topology, name: str, limit: int | None, most: int | None, found: Longest, budget: Budget
) -> tuple[Status, Replay | None, str]:
    """The answer, and the run that shows how long the queue gets."""
    if found.status == "unbounded":
        steps = None
        if limit is not None:
            reached = decide(topology, name, limit, budget=budget)
            steps = reached.trace.steps if reached.trace is not None else None
        steps = steps or grow(topology, name, limit or SHOWN).steps
        return "refuted", replay(topology, steps, bolt=name), found.why
    if most is None:
        if limit is None:
            return "unknown", None, found.why
        answer = decide(topology, name, limit, budget=budget)
        run = answer.trace.replayed() if answer.trace is not None else None
        return answer.status, run, answer.why or found.why
    status: Status = "proved" if limit is None or most < limit else "refuted"
    if most == 0:
        return status, None, ""
    reached = decide(topology, name, most if status == "proved" or limit is None else limit, budget=budget)
    return status, reached.trace.replayed() if reached.trace is not None else None, ""
