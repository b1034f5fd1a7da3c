"""Certificates for any number of workers: a certificate for each case, and that the cases are all there are.

A case has a number for each bolt, and for some of them it stands for all larger ones: there it has a certificate that
nothing ever waits with that number, so that more workers would change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.capacity.topology import ANY, Observation, Topology
from pellucid.capacity.zones.network import Seen
from pellucid.capacity.zones.proof.certificate import Certificate


@dataclass(frozen=True)
class Case:
    """Numbers of workers; those of the bolts in ``more`` stand for all larger ones."""

    numbers: Mapping[str, int]
    more: tuple[str, ...]
    proof: Certificate
    nothing_waits: tuple[tuple[str, Certificate], ...]

    def __str__(self) -> str:
        return ", ".join(f"{b} {n}{' or more' if b in self.more else ''}" for b, n in self.numbers.items())


@dataclass(frozen=True)
class AnyCertificate:
    """That the queue of a bolt stays below a limit for any numbers of workers of the bolts that have `ANY`."""

    topology: Topology
    bolt: str
    limit: int
    observe: Observation
    cases: tuple[Case, ...]

    def check(self) -> str | None:
        """What is wrong with it; None if it is a proof."""
        order = self.topology.order()
        if order is None:
            return "the bolts go in a circle"
        upstream = _upstream(self.topology, self.bolt)
        bolts = [b for b in order if b in upstream]
        said = self._covers(bolts, 0, self.cases)
        if said is not None:
            return said
        for case in self.cases:
            given = self.topology.given(workers=dict(case.numbers))
            said = _says(case.proof, given, self.bolt, self.limit, self.observe)
            known = dict(case.nothing_waits)
            for b in case.more:
                observe: Seen = "blocked" if self.topology.semantics == "literal" else "settled"
                if b not in known:
                    said = said or f"it is not shown that nothing waits for {b}"
                else:
                    said = said or _says(known[b], given, b, 1, observe)
            if said is not None:
                return f"{case}: {said}"
        return None

    def _covers(self, bolts: Sequence[str], i: int, cases: Sequence[Case]) -> str | None:
        """Whether these cases, which agree on the first bolts, have all numbers of the next one, and so on."""
        if i == len(bolts):
            return None if cases else "a case is missing"
        b = bolts[i]
        given = self.topology.bolts[b].workers
        many = 1 if given is ANY else given
        while True:
            here = [case for case in cases if case.numbers.get(b) == many]
            if not here:
                return f"no case has {many} workers of {b}"
            said = self._covers(bolts, i + 1, here)
            if said is not None:
                return f"{b} {many}: {said}"
            if given is not ANY:
                return None
            if all(b in case.more for case in here):
                return None
            if any(b in case.more for case in here):
                return f"the cases with {many} workers of {b} do not agree on whether they are enough"
            many += 1

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "bolt": self.bolt,
            "limit": self.limit,
            "observe": self.observe,
            "cases": [
                {
                    "workers": dict(case.numbers),
                    "or more": list(case.more),
                    "proof": case.proof.document(),
                    "nothing waits": {b: proof.document() for b, proof in case.nothing_waits},
                }
                for case in self.cases
            ],
        }

    def __str__(self) -> str:
        return f"{len(self.cases):,} cases: " + "; ".join(map(str, self.cases))


def _says(proof: Certificate, topology: Topology, bolt: str, limit: int, observe: Seen) -> str | None:
    """Whether a certificate is about this, and a proof of it."""
    for b in proof.bolts:
        if proof.topology.bolts[b] != topology.bolts[b]:
            return f"the certificate is of another {b}"
    same = (proof.topology.routing, proof.topology.semantics, dict(proof.topology.spouts)) == (
        topology.routing, topology.semantics, dict(topology.spouts),
    )  # fmt: skip
    if not same or (proof.bolt, proof.observe) != (bolt, observe) or proof.limit > limit:
        return "the certificate is of something else"
    return proof.check()


def _upstream(topology: Topology, bolt: str) -> set[str]:
    found, waiting = {bolt}, [bolt]
    while waiting:
        new = [h for h in topology.bolts[waiting.pop()].hears if h in topology.bolts and h not in found]
        found.update(new)
        waiting += new
    return found
