"""Certificates of what is proved, and the small checker that each has to pass: it shares nothing with the search."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pellucid.capacity.topology import ANY, Observation, Topology
from pellucid.capacity.zones import layout as y
from pellucid.capacity.zones.network import INF, Seen
from pellucid.capacity.zones.search import Zones
from pellucid.internal.model import on_time

# Certificates of *proved*: zones that no step leaves and in which no queue reaches the limit; plain data.
#
# A certificate has the settled states only (under `literal`: all states), each with its zones: matrices of bounds on
# the differences of clocks, as texts such as ``"<3/5"`` and ``"<=1"``, None for no bound.  The clocks are, in this
# order, the constant 0, the spouts, and the busy workers of each bolt, the oldest first.  `checker` accepts a
# certificate or says what is wrong with it, and has nothing of the search.

Matrix = tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True)
class Place:
    """A state with a zone: ``bolts`` says for each bolt its queue (or queues, of the busy workers by age, then of the
    idle ones, longest first), how many are busy, what is owed of its ratio, and how many wait to emit."""

    bolts: tuple[tuple[tuple[int, ...], int, Fraction, int], ...]
    flags: tuple[bool, bool, bool, str] | None
    zone: Matrix


@dataclass(frozen=True)
class Certificate:
    """That the queue of a bolt stays below a limit: ``spouts`` and ``bolts`` are those upstream of it, in the order of
    the clocks; a queue in ``caps`` of so many means so many or more."""

    topology: Topology
    bolt: str
    limit: int
    observe: Seen
    spouts: tuple[str, ...]
    bolts: tuple[str, ...]
    caps: dict[str, int]
    places: tuple[Place, ...]

    def check(self) -> str | None:
        """What is wrong with it, by the small checker; None if it is a proof."""
        from pellucid.capacity.zones.checker import wrong

        return wrong(self)

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "bolt": self.bolt,
            "limit": self.limit,
            "observe": self.observe,
            "clocks": [*self.spouts, *(f"the busy of {b}" for b in self.bolts)],
            "so many or more": self.caps,
            "zones": [
                {
                    "bolts": {
                        b: {"queues": list(q), "busy": n, "owed": str(owed), "done": done}
                        for b, (q, n, owed, done) in zip(self.bolts, place.bolts, strict=True)
                    },
                    "flags": list(place.flags) if place.flags is not None else None,
                    "zone": [list(row) for row in place.zone],
                }
                for place in self.places
            ],
        }

    def to_json(self) -> str:
        """As a document."""
        return json.dumps(self.document(), ensure_ascii=False)

    def __str__(self) -> str:
        return f"{len(self.places):,} zones that no step leaves, the queue of {self.bolt} below {self.limit} in each"


def certificate(found: Zones) -> Certificate:
    """The certificate of a search that is complete.

    >>> from pellucid.capacity import Bolt, Spout, Topology
    >>> from pellucid.capacity.zones.network import Network
    >>> from pellucid.capacity.zones.search import search
    >>> t = Topology({"S": Spout(gap=1)}, {"B": Bolt(time=1, hears="S")})
    >>> proof = certificate(search(Network.of(t, "B"), limit=2))
    >>> print(proof)
    2 zones that no step leaves, the queue of B below 2 in each
    >>> proof.places[1].bolts, proof.places[1].zone
    ((((0,), 1, Fraction(0, 1), 0),), (('<=0', '<=0', '<=0'), ('<=1', '<=0', '<=0'), ('<=1', '<=1', '<=0')))
    >>> proof.check() is None
    True
    """
    assert found.complete, "only a search that is complete proves anything"
    n = found.network
    return Certificate(
        n.topology, n.bolt, found.limit, found.observe, n.spouts, n.bolts, found.caps, tuple(_places(found))
    )


def _places(found: Zones) -> Iterator[Place]:
    n = found.network
    literal = n.topology.semantics == "literal"
    for state, zone in found.kept():
        on_time()
        if state[y.PENDING] or (state[y.PHASE] and not literal):
            continue
        bolts, at = [], y.HEAD
        for b in n.bolts:
            bolt, many = n.topology.bolts[b], n.workers(b)
            shared = bolt.queue == "shared"
            queues = (state[at + y.LENGTH],) if shared else state[at + y.QUEUES : at + y.QUEUES + many]
            owed = Fraction(state[at + y.DUE], bolt.ratio.denominator)
            bolts.append((tuple(queues), state[at + y.BUSY], owed, state[at + y.DONE]))
            at += y.QUEUES + (0 if shared else many)
        flags = None
        if literal:
            p = state[y.PHASE]
            following = "DT" if p & y.SET_TAKE else "DE" if p & y.SET_EMIT else "No"
            flags = bool(p & y.CAN), bool(p & y.TAKES_FIRST), bool(p & y.EMITS_FIRST), following
        rows = tuple(tuple(_bound(int(entry), n.scale) for entry in row) for row in zone)
        yield Place(tuple(bolts), flags, rows)


def _bound(entry: int, scale: int) -> str | None:
    if entry >= INF:
        return None
    return f"{'<=' if entry & 1 else '<'}{Fraction(entry >> 1, scale)}"


# Certificates for any number of workers: a certificate for each case, and that the cases are all there are.
#
# A case has a number for each bolt, and for some of them it stands for all larger ones: there it has a certificate that
# nothing ever waits with that number, so that more workers would change nothing.


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
