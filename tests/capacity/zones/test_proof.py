"""Certificates: every one is accepted, and every damaged one is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from pellucid import check
from pellucid.capacity import ANY, Bolt, Spout, Topology, figure_1
from pellucid.capacity.zones.decide import decide
from pellucid.capacity.zones.proof.any_workers import AnyCertificate
from pellucid.capacity.zones.proof.certificate import Certificate, Place, certificate
from pellucid.capacity.zones.workers import decide_any


def proof_of(t: Topology, bolt: str, limit: int) -> Certificate:
    found = decide(t, bolt, limit)
    assert found.zones is not None and found.status == "proved"
    return certificate(found.zones)


URGENT = proof_of(figure_1(gap=2), "B3", 3)
LITERAL = proof_of(figure_1(gap=1).given(semantics="literal"), "B1", 2)
STOCK = proof_of(Topology({"S": Spout("0.5")}, {"A": Bolt(1, "S"), "B": Bolt(1, "A")}), "B", 2)


SLOWER = {**figure_1(gap=1).bolts, "B1": Bolt("1.1", "S1")}


@pytest.mark.parametrize("proof", [URGENT, LITERAL, STOCK], ids=["urgent", "literal", "stock"])
def test_accepted(proof: Certificate) -> None:
    assert proof.check() is None
    document = json.loads(proof.to_json())
    assert len(document["zones"]) == len(proof.places) and document["bolt"] == proof.bolt


@pytest.mark.parametrize("proof", [URGENT, LITERAL, STOCK], ids=["urgent", "literal", "stock"])
def test_a_zone_that_is_missing(proof: Certificate) -> None:
    """Most are needed; of the literal ones some are not, and without them it is still a proof."""
    refused = 0
    for i in range(len(proof.places)):
        said = replace(proof, places=proof.places[:i] + proof.places[i + 1 :]).check()
        refused += said is not None and "leads out of the zones" in said
    assert refused >= len(proof.places) * (0.6 if proof is LITERAL else 1)


def tighter(place: Place, i: int, j: int) -> Place:
    """The same with one bound that is tighter by a little."""
    entry = place.zone[i][j]
    if entry is None:
        changed = "<=1000000"
    elif entry.startswith("<="):
        changed = f"<{entry[2:]}"
    else:
        changed = f"<={Fraction(entry[1:]) - Fraction(1, 1000)}"
    rows = [list(row) for row in place.zone]
    rows[i][j] = changed
    return replace(place, zone=tuple(map(tuple, rows)))


def test_a_bound_that_is_too_tight() -> None:
    """The ages of tuples: a bound on them that is tighter leaves something out.  (Bounds on the clocks of spouts are
    looser than they need be: with some of them tighter, the zones are still a proof, and a better one.)"""
    proof = proof_of(figure_1(gap=2), "B2", 2)
    spouts, refused, kept = len(proof.spouts), 0, 0
    for number, place in enumerate(proof.places):
        for i in range(len(place.zone)):
            for j in range(len(place.zone)):
                if i != j and (i > spouts or j > spouts):
                    places = list(proof.places)
                    places[number] = tighter(place, i, j)
                    damaged = replace(proof, places=tuple(places)).check()
                    refused, kept = refused + (damaged is not None), kept + (damaged is None)
    assert refused >= 2 * kept > 0


def test_of_something_else() -> None:
    assert replace(URGENT, limit=2).check() is not None
    assert replace(URGENT, topology=figure_1(gap="1.99")).check() is not None
    assert replace(URGENT, topology=figure_1(gap=2).given(routing="all")).check() is not None
    assert replace(URGENT, topology=figure_1(gap=2, workers={"B2": 2})).check() is not None
    assert replace(URGENT, spouts=("S1",)).check() is not None
    assert replace(URGENT, bolts=("B1", "B3")).check() is not None
    assert replace(STOCK, caps={}).check() is not None
    assert replace(LITERAL, topology=figure_1(gap="0.99").given(semantics="literal")).check() is not None
    assert replace(LITERAL, observe="blocked", bolt="B1", spouts=()).check() is not None
    assert replace(LITERAL, topology=figure_1(gap=1).given(semantics="literal", bolts=SLOWER)).check() is not None
    # What is proved at a gap is proved at a wider one: the same zones will do.
    assert replace(URGENT, topology=figure_1(gap=3)).check() is None


def test_any_number_of_workers() -> None:
    found = decide_any(figure_1(gap=2, workers=ANY), "B3", 3)
    proof = found.certificate
    assert proof.check() is None and len(proof.cases) == 4
    for i in range(len(proof.cases)):
        fewer = AnyCertificate(proof.topology, proof.bolt, 3, "any", proof.cases[:i] + proof.cases[i + 1 :])
        said = fewer.check()
        assert said is not None and ("no case has" in said or "do not agree" in said)
    bold = [replace(case, more=("B1", "B2", "B3")) for case in proof.cases[:1]]
    assert replace(proof, cases=tuple(bold)).check() is not None
    assert replace(proof, limit=2).check() is not None


def test_a_verdict_is_not_believed_without_its_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Certificate, "check", lambda self: "a bound is missing")
    found = check.capacity(figure_1(gap=2), {"B1": 2})
    assert found.unknown and "which the checker does not accept: a bound is missing" in found.notes[0]
