"""An upper bound for every queue in no time: how much can come in a window of any length, bolt by bolt.

Zones are exact, and take long where there are many workers and odd numbers.  An *envelope* says that no window of
length d has more than ``burst + rate * d`` tuples (network calculus; Cruz, 1991).

- A spout: 1 and 1 / gap.
- The queue of a bolt with W workers that need t: as long as no more comes than they serve, a tuple that waits came not
  more than ``k * t`` after the ``k * W`` before it, for some k; so the queue is at most ``burst + k * (rate * t - W)``,
  that is ``burst``, and none waits longer than ``(burst - 1) * t / W``.
- What a bolt emits in a window came in one that is longer by the time from queue to end; if more comes than it
  serves, it is what its workers can do: W and W / t.

A bolt that might get a tuple is taken to get it (routing ``one``), so a queue that is bounded may have no envelope.
`check_envelopes` looks at each line of the table again, by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor
from typing import Any

from pellucid.capacity.flow import Flow, Flows, Threshold, check_flows, flows, grow, literal_bound, not_known
from pellucid.capacity.flow.bounds import threshold
from pellucid.capacity.picture import number
from pellucid.capacity.report import amount, percent, table
from pellucid.capacity.steps import Replay, replay
from pellucid.capacity.topology import ANY, Topology
from pellucid.capacity.zones.decide import (
    GapThreshold,
    Longest,
    WorkersThreshold,
    decide,
    least_gap,
    least_workers,
    longest,
)
from pellucid.capacity.zones.question import capacity
from pellucid.errors import UsageError
from pellucid.internal.model import Budget, CutShort, Status, combined

__all__ = ["BoltPlan", "Change", "Plan", "changes", "plan", "plan_text"]


@dataclass(frozen=True)
class Envelope:
    """What comes to a bolt, and what it emits: no window of length d has more than burst + rate * d."""

    burst: Fraction
    rate: Fraction
    out_burst: Fraction
    out_rate: Fraction
    keeps_up: bool

    @property
    def at_most(self) -> int | None:
        """No queue is longer; None if nothing is known."""
        return floor(self.burst) if self.keeps_up else None


def envelopes(topology: Topology) -> dict[str, Envelope] | None:
    """The envelopes of all bolts; None where there are none: bolts in a circle, ANY workers, the literal semantics.

    >>> from pellucid.capacity import figure_1
    >>> found = envelopes(figure_1(gap=2))
    >>> [found[b].at_most for b in ("B1", "B2", "B3")]  # exactly it is 1, 1 and 2
    [1, 2, None]
    >>> [envelopes(figure_1(gap=3, workers=2))[b].at_most for b in ("B1", "B2", "B3")]
    [1, 2, 4]
    """
    order = topology.order()
    if order is None or topology.semantics == "literal":
        return None
    if any(bolt.workers is ANY for bolt in topology.bolts.values()):
        return None
    table: dict[str, Envelope] = {}
    for name in order:
        burst, rate = _comes(topology, name, table)
        table[name] = _through(topology, name, burst, rate)
    return table


def _comes(topology: Topology, name: str, table: Mapping[str, Envelope]) -> tuple[Fraction, Fraction]:
    bolt = topology.bolts[name]
    burst, rate = Fraction(bolt.initial), Fraction(0)
    for heard in bolt.hears:
        if heard in topology.spouts:
            burst, rate = burst + 1, rate + 1 / topology.spouts[heard].gap
        else:
            burst, rate = burst + table[heard].out_burst, rate + table[heard].out_rate
    return burst, rate


def _through(topology: Topology, name: str, burst: Fraction, rate: Fraction) -> Envelope:
    bolt = topology.bolts[name]
    assert bolt.workers is not ANY
    serving = 1 if bolt.queue == "per worker" else bolt.workers  # all of it may go to one of the queues
    keeps_up = rate * bolt.time <= serving
    if keeps_up:
        stays = bolt.time * (1 + max(Fraction(0), burst - 1) / serving)
        most, speed = burst + rate * stays, rate
    else:
        most, speed = Fraction(bolt.workers), bolt.workers / bolt.time
    rest = Fraction(bolt.ratio.denominator - 1, bolt.ratio.denominator)  # of what was put aside before
    return Envelope(burst, rate, bolt.ratio * most + rest, bolt.ratio * speed, keeps_up)


def check_envelopes(topology: Topology, table: Mapping[str, Envelope]) -> bool:
    """Whether each line follows from those before it: nothing is computed that is not compared.

    >>> from dataclasses import replace
    >>> from pellucid.capacity import figure_1
    >>> t = figure_1(gap=3)
    >>> found = envelopes(t)
    >>> check_envelopes(t, found), check_envelopes(t, {**found, "B2": replace(found["B2"], burst=Fraction(1))})
    (True, False)
    """
    if topology.semantics != "urgent" or set(table) != set(topology.bolts):
        return False
    place = {b: i for i, b in enumerate(topology.order() or ())}
    for name, bolt in topology.bolts.items():
        line, workers = table[name], bolt.workers
        if workers is ANY or name not in place or any(place.get(h, -1) >= place[name] for h in bolt.hears):
            return False
        spouts = [topology.spouts[h] for h in bolt.hears if h in topology.spouts]
        before = [table[h] for h in bolt.hears if h in table]
        if line.burst < bolt.initial + len(spouts) + sum(b.out_burst for b in before):
            return False
        if line.rate < sum(1 / s.gap for s in spouts) + sum(b.out_rate for b in before):
            return False
        each = workers if bolt.queue == "shared" else 1
        if line.keeps_up and line.rate > each / bolt.time:
            return False
        whole = (bolt.ratio.denominator - 1) / Fraction(bolt.ratio.denominator)
        by_workers = (
            line.out_burst >= bolt.ratio * workers + whole and line.out_rate >= bolt.ratio * workers / bolt.time
        )
        longer = bolt.time + bolt.time * max(line.burst - 1, Fraction(0)) / each
        by_queue = line.keeps_up and line.out_rate >= bolt.ratio * line.rate
        by_queue = by_queue and line.out_burst >= bolt.ratio * (line.burst + line.rate * longer) + whole
        if not by_workers and not by_queue:
            return False
    return True


# A plan for a topology: what is true of each queue, exactly.
#
# Whether a queue is bounded is decided by flow; how long it gets, and what keeps it below a limit, by zones.  Both are
# shown: a bound comes with a run that reaches it, an unbounded queue with one that makes it as long as was asked, and
# each run was replayed step by step.  What is proved has a certificate, which a small checker accepts.
#
# A limit is broken by a queue that *reaches* it, as in the paper: ``B1=2`` asks for a queue that is never 2 long.

SHOWN = 8  # how long an unbounded queue is made, where no limit was given
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


# What to change first, and what it brings: to all queues, not only to the one that is too long.
#
# More workers for one bolt can make the queue of the next one longer, or unbounded: so every proposal is planned like
# the topology itself, and what becomes better and what becomes worse stands beside it.

Lengths = Mapping[str, "int | str"]
_SECONDS, _STATES = 2.0, 50_000  # for one queue of one proposal


@dataclass(frozen=True)
class Change:
    """A proposal: ``after`` has how long each queue gets then: a number; ``"bounded"``, where the number would take too
    long to find; ``"unbounded"`` or ``"unknown"``."""

    words: str
    topology: Topology
    before: Lengths
    after: Lengths
    solved: tuple[str, ...]  # the bolts whose question is answered yes by that
    broken: tuple[str, ...]  # and those whose is not any more

    @property
    def brings(self) -> str:
        """In words."""
        changed = [
            f"{b} {self.before[b]} → {self.after[b]}" for b in self.before if self.before[b] != self.after[b]
        ] or ["no queue gets shorter"]
        worse = [f"{b} gets worse by that" for b in self.broken]
        return ", ".join([*changed, *worse])

    def __str__(self) -> str:
        return f"{self.words}: {self.brings}"


def changes(plan: Plan, *, budget: Budget | None = None, tell: Tell = lambda words: None) -> list[Change]:
    """Proposals for every queue that is too long, the best first: those that solve most and break nothing, then those
    with the fewest workers more.

    >>> from pellucid.capacity import Bolt, Spout, Topology
    >>> from pellucid.capacity.planning import plan
    >>> t = Topology({"S": Spout(gap="0.5")}, {"A": Bolt(1, "S"), "B": Bolt(1, "A")})
    >>> for change in changes(plan(t)):
    ...     print(change)
    2 workers for A and 2 for B (instead of 1 and 1): A unbounded → 1
    a gap of 1 for every spout (at most 1 tuple per unit of time): A unbounded → 1
    2 workers for A (instead of 1): A unbounded → 1, B 1 → unbounded, B gets worse by that
    """
    budget = budget or Budget(60.0, 2_000_000)
    wrong = [bolt for bolt in plan.bolts.values() if bolt.status == "refuted"]
    if not wrong:
        return []
    out = list[Change]()
    with budget.kept():
        try:
            for words, topology in _proposals(plan, wrong).items():
                tell(f"what it brings: {words}")
                out.append(_tried(plan, words, topology, budget))
        except CutShort:  # what was tried is advice all the same
            pass
    out = [change for change in out if change.solved]  # what solves nothing is no advice
    return sorted(out, key=lambda c: (len(c.broken) > 0, -len(c.solved), *_cost(plan.topology, c.topology), c.words))


def _proposals(plan: Plan, wrong: list[BoltPlan]) -> dict[str, Topology]:
    """What is worth trying."""
    found: dict[str, Topology] = {}
    for bolt in wrong:
        found.update(_workers(plan.topology, bolt))
    found.update(_together(plan.topology, plan))
    found.update(_gap(plan.topology, wrong))
    return found


def _before(bolt: BoltPlan) -> int | str:
    known = bolt.longest is not None or bolt.unbounded or bolt.at_most is None
    return _length(bolt.longest, bolt.unbounded) if known else f"≤ {bolt.at_most}"


def _length(most: int | None, unbounded: bool) -> int | str:
    return "unbounded" if unbounded else "unknown" if most is None else most


def _workers(topology: Topology, bolt: BoltPlan) -> dict[str, Topology]:
    """More workers for one bolt, as many as its limit needs, or as keep up."""
    now = topology.bolts[bolt.bolt].workers
    assert now is not ANY
    if bolt.workers is not None:
        many = bolt.workers.workers if bolt.workers.status == "at" else None
    elif topology.semantics == "literal":
        bound = literal_bound(topology, bolt.bolt)
        many = None if bound.through else bound.tuples
    elif topology.bolts[bolt.bolt].queue == "per worker" or bolt.flow.inflow is None:
        many = None  # all that comes may go to the queue of one worker, however many there are
    else:
        each = bolt.flow.capacity / now
        many = max(now + 1, floor(bolt.flow.inflow / each) + (bolt.flow.inflow % each > 0))
    if many is None or many <= now:
        return {}
    return {
        f"{many} workers for {bolt.bolt} (instead of {now})": topology.given(workers={bolt.bolt: many}),
    }


def _together(topology: Topology, plan: Plan) -> dict[str, Topology]:
    """For all bolts, in their order, as many as keep up with what the ones before them then let through."""
    order = topology.order()
    if order is None or topology.semantics == "literal":
        return {}
    given, more = topology, dict[str, int]()
    for name in [b for b in order if b in plan.bolts]:
        now = given.bolts[name].workers
        assert now is not ANY
        bolt = plan.bolts.get(name)
        least = bolt.workers.workers if bolt is not None and bolt.workers is not None and bolt.workers.workers else 1
        many = max(now, least if bolt is not None and bolt.status == "refuted" else now)
        while flows(given.given(workers={name: many}))[name].status == "unbounded" and many < now + 10_000:
            if given.bolts[name].queue == "per worker":
                return {}  # no number of workers is enough
            found = flows(given.given(workers={name: many}))[name]
            assert found.inflow is not None
            many = max(many + 1, -floor(-found.inflow / (found.capacity / many)))
        if many > now:
            more[name] = many
            given = given.given(workers=more)
    if len(more) < 2:
        return {}
    first, *rest = more.items()
    said = " and ".join([f"{first[1]} workers for {first[0]}", *(f"{n} for {b}" for b, n in rest)])
    old = " and ".join(str(topology.bolts[b].workers) for b in more)
    return {f"{said} (instead of {old})": given}


def _gap(topology: Topology, wrong: list[BoltPlan]) -> dict[str, Topology]:
    """One gap for every spout, wide enough for all that is wrong."""
    rates = [bolt.largest_rate for bolt in wrong]
    known = [rate for rate in rates if rate is not None]
    if len(known) < len(rates) or not known:
        return {}
    rate = min(known)
    wider = {s: max(spout.gap, 1 / rate) for s, spout in topology.spouts.items()}
    if wider == {s: spout.gap for s, spout in topology.spouts.items()}:
        return {}
    tuples = "tuple" if rate == 1 else "tuples"
    words = f"a gap of {number(1 / rate)} for every spout (at most {number(rate)} {tuples} per unit of time)"
    return {words: topology.given(gap=wider)}


def _tried(plan: Plan, words: str, topology: Topology, budget: Budget) -> Change:
    before = {name: _before(bolt) for name, bolt in plan.bolts.items()}
    after: dict[str, int | str] = {}
    solved, broken = [], []
    known = flows(topology) if topology.semantics == "urgent" else None
    for name, old in plan.bolts.items():
        after[name] = length = _after(topology, name, known, budget)
        if old.limit is None:
            good, bad = length not in ("unbounded", "unknown"), length == "unbounded"
        else:  # "bounded" says nothing about a limit
            good = isinstance(length, int) and length < old.limit
            bad = length == "unbounded" or (isinstance(length, int) and not good)
        if good and old.status == "refuted":
            solved.append(name)
        if bad and old.status != "refuted":
            broken.append(name)
    return Change(words, topology, before, after, tuple(solved), tuple(broken))


def _after(topology: Topology, name: str, known: Flows | None, budget: Budget) -> int | str:
    """How long a queue gets then; where that takes long to find out, what flow says."""
    if known is not None and known[name].status == "unbounded":
        return "unbounded"
    part = budget.part(0.1)
    left = part.left()
    found = longest(topology, name, budget=Budget(_SECONDS if left is None else min(_SECONDS, left), _STATES))
    most = found.any if topology.observe == "any" else found.settled
    if most is None and known is not None and known[name].status == "bounded":
        return "bounded"
    return _length(most, found.status == "unbounded")


def _cost(before: Topology, after: Topology) -> tuple[bool, int]:
    """Whether the sources have to be slower, which is seldom in one's power; and how many workers more there are."""
    return before.spouts != after.spouts, _all_workers(after) - _all_workers(before)


def _all_workers(topology: Topology) -> int:
    return sum(bolt.workers for bolt in topology.bolts.values() if bolt.workers is not ANY)


# The plan of a topology, for a terminal.

_HEAD = (
    "bolt", "verdict", "workers", "longest", "in use", "limit", "least workers", "least gap", "bounded from",
    "largest rate", "backlog", "done in", "meanwhile",
)  # fmt: skip


def plan_text(plan: Plan, advice: Sequence[Change] = ()) -> str:
    """Table, reasons, advice.

    >>> from pellucid.capacity import figure_1
    >>> from pellucid.capacity.planning import changes, plan
    >>> found = plan(figure_1(gap="0.8", workers={"B2": 3, "B3": 4}), {"B1": 2}, only=("B1",))
    >>> print(plan_text(found, changes(found)))
    bolt  verdict  workers    longest  in use  limit  least workers  least gap  bounded from  largest rate
    B1    refuted        1  unbounded   125 %      2              2          1             1             1
    <BLANKLINE>
    B1: 1.25 can come per unit of time (5/4 that S1 emits), and 1 is served
    first: 2 workers for B1 (instead of 1): B1 unbounded → 1
    or: a gap of 1 for every spout (at most 1 tuple per unit of time): B1 unbounded → 1
    """
    out = [table(_HEAD, [_row(plan.topology, bolt) for bolt in plan.bolts.values()])]
    said = [plan.warning] if plan.warning else []
    said += [line for bolt in plan.bolts.values() for line in _why(bolt)]
    said += [f"{'first' if i == 0 else 'or'}: {change}" for i, change in enumerate(advice)]
    return "\n".join([*out, *(["", *said] if said else [])])


def _row(topology: Topology, plan: BoltPlan) -> list[str]:
    bolt = topology.bolts[plan.bolt]
    assert bolt.workers is not ANY
    alone, meanwhile = plan.drain(bolt.workers, bolt.time)
    urgent = topology.semantics == "urgent"
    return [
        plan.bolt,
        plan.status,
        str(bolt.workers),
        _longest(plan),
        percent(plan.flow.utilisation) if urgent and plan.flow.utilisation is not None else "",
        "" if plan.limit is None else str(plan.limit),
        "" if plan.workers is None else _least(plan.workers.status, plan.workers.workers),
        "" if plan.gap is None else _least(plan.gap.status, plan.gap.gap),
        "" if plan.bounded_from is None else _least(plan.bounded_from.status, plan.bounded_from.gap),
        amount(plan.largest_rate, none=""),
        str(plan.backlog) if plan.backlog else "",
        amount(alone) if plan.backlog else "",
        _meanwhile(plan, meanwhile) if plan.backlog else "",
    ]


def _meanwhile(plan: BoltPlan, time: Fraction | None) -> str:
    if plan.flow.inflow is None:
        return "unknown"
    return "never" if time is None else amount(time)


def _longest(plan: BoltPlan) -> str:
    if plan.unbounded:
        return "unbounded"
    if plan.longest is not None:
        return str(plan.longest)
    if plan.at_most is not None:
        return f"≤ {plan.at_most}"
    return "bounded" if plan.flow.status == "bounded" else "unknown"


def _least(status: str, value: int | Fraction | None) -> str:
    always = f"≤ {amount(value)}" if value else "any"  # where nothing is known of gaps below that one
    return {"at": amount(value), "never": "none", "always": always}.get(status, "unknown")


def _why(plan: BoltPlan) -> list[str]:
    out = []
    flow = plan.flow
    if plan.unbounded and flow.inflow is None:
        out.append(plan.why)  # of the literal semantics, which has its own reasons
    elif plan.unbounded:
        first = f", once {' and '.join(flow.stores)} {'was' if len(flow.stores) == 1 else 'were'} filled"
        out.append(
            f"{plan.bolt}: {amount(flow.inflow)} can come per unit of time ({flow.why}){first if flow.stores else ''}, "
            f"and {amount(flow.capacity)} {'is' if flow.capacity == 1 else 'are'} served"
        )
    elif plan.status == "unknown":
        reason = f"{flow.why}; {plan.why}" if flow.status == "unknown" and flow.why else plan.why
        out.append(f"{plan.bolt}: unknown: {reason}")
    if plan.workers is not None and plan.workers.status == "never":
        out.append(f"{plan.bolt}: {plan.workers}")
    return out
