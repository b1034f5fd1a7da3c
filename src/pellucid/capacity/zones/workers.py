"""Any number of workers, for each bolt independently: a proof by the numbers at which more change nothing.

If no tuple ever waits in a settled state of a bolt with N workers, then one more worker never gets anything to do: the
states and steps with N + 1 are those with N, and so on.  So N stands for all larger numbers, once it is *proved* that
nothing waits; that depends on what is upstream alone.  Bolt by bolt, each after those it hears, the numbers 1, 2, … N
are gone through, for each choice of the numbers before; what is left are finitely many questions with given numbers.

Under the `literal` semantics the same is asked of every state: that nothing waits while no worker is idle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pellucid.capacity.topology import ANY, Observation, Topology
from pellucid.capacity.zones.decide import Decided, decide
from pellucid.capacity.zones.network import cone
from pellucid.capacity.zones.proof.any_workers import AnyCertificate, Case
from pellucid.capacity.zones.proof.certificate import certificate
from pellucid.capacity.zones.run import Trace
from pellucid.capacity.zones.search import Fewest
from pellucid.internal.model import Budget, Status

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
