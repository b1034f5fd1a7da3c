"""Certificates of *proved*: zones that no step leaves and in which no queue reaches the limit; plain data.

A certificate has the settled states only (under `literal`: all states), each with its zones: matrices of bounds on the
differences of clocks, as texts such as ``"<3/5"`` and ``"<=1"``, None for no bound.  The clocks are, in this order, the
constant 0, the spouts, and the busy workers of each bolt, the oldest first.  `checker` accepts a certificate or says
what is wrong with it, and has nothing of the search.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pellucid.capacity.topology import Topology
from pellucid.capacity.zones.compiled import layout as y
from pellucid.capacity.zones.network import INF, Seen
from pellucid.capacity.zones.search import Zones
from pellucid.internal.model import on_time

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
        from pellucid.capacity.zones.proof.checker import wrong

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
