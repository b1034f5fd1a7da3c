"""What to change first, and what it brings: to all queues, not only to the one that is too long.

More workers for one bolt can make the queue of the next one longer, or unbounded: so every proposal is planned like the
topology itself, and what becomes better and what becomes worse stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor

from pellucid.capacity.flow import Flows, flows, literal_bound
from pellucid.capacity.picture.timeline import number
from pellucid.capacity.planning.plan import BoltPlan, Plan, Tell
from pellucid.capacity.topology import ANY, Topology
from pellucid.capacity.zones.decide import longest
from pellucid.internal.model import Budget, CutShort

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
        told = [f"{b} {self.before[b]} → {self.after[b]}" for b in self.before if self.before[b] != self.after[b]] or [
            "no queue gets shorter"
        ]
        worse = [f"{b} gets worse by that" for b in self.broken]
        return ", ".join([*told, *worse])

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
