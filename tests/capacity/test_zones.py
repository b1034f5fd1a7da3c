"""`check.capacity`: verdicts with parts, runs in every form, *unknown*, and mistakes by name."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from math import ceil

import pytest

from pellucid import check
from pellucid.capacity import ANY, Bolt, Spout, Topology, figure_1, replay
from pellucid.capacity.zones.certificate import AnyCertificate, Certificate, Place, certificate
from pellucid.capacity.zones.decide import decide, decide_any, least_gap, least_workers, longest
from pellucid.capacity.zones.question import CapacityPart, paper_table
from pellucid.errors import UsageError
from pellucid.internal.model import Budget


def test_parts() -> None:
    found = check.capacity(figure_1(gap="1.5", workers={"B2": 2}), {"B1": 2, "B2": 1})
    assert found.refuted and {b: part.status for b, part in found.parts.items()} == {"B1": "proved", "B2": "refuted"}
    part = found.parts["B2"]
    assert isinstance(part, CapacityPart) and part.trace is not None and part.certificate is None
    assert found.counterexample is part.counterexample and found.details["parts"] == {"B1": "proved", "B2": "refuted"}
    assert found.parts["B1"].certificate is not None and found.parts["B1"].certificate.check() is None


def test_a_run_in_every_form() -> None:
    t = figure_1(gap="0.8")
    found = check.capacity(t, {"B1": 2})
    run = found.counterexample
    assert run is not None and run.replay()
    assert "the queue of B1 reaches 2 after 7 emits of the spouts" in run.text()
    assert run.picture("B1").startswith("<svg")
    document = json.loads(found.to_json())["verdict"]
    assert document["details"]["parts"] == {"B1": "refuted"}
    assert document["counterexample"]["steps"][-1]["step"] == "spout_emit S1 → B1"
    assert found.parts["B1"].details["infimum"] == "28/5" and found.parts["B1"].details["emits"] == 7
    assert replay(t, run.steps).longest("B1") == 2


def test_fewest_steps_and_fewest_emits() -> None:
    t = figure_1(gap="0.9", workers={"B3": 1})
    emits = check.capacity(t, {"B3": 4}, fewest="emits").parts["B3"].details
    steps = check.capacity(t, {"B3": 4}, fewest="steps").parts["B3"].details
    assert emits["emits"] <= steps["emits"] and steps["steps"] <= emits["steps"]


def test_unknown() -> None:
    hard = figure_1(gap="2/3", workers=3)
    assert check.capacity(hard, {"B3": 3}, timeout=None, max_states=100).unknown
    few = check.capacity(hard, {"B3": 3}, max_states=100)
    assert few.unknown and "the limit of 100 states was reached" in str(few) and "not decided" in str(few)
    own = Topology({"S": Spout(3)}, {"B": Bolt(1, "S", workers=ANY, queue="per worker")})
    found = check.capacity(own, {"B": 3})
    assert found.unknown and "each worker of B has a queue" in found.notes[0]


def test_bolts_in_a_circle() -> None:
    t = Topology({"S": Spout(3)}, {"A": Bolt(1, ["S", "B"], ratio="1/2"), "B": Bolt(1, "A")})
    assert check.capacity(t, {"A": 3, "B": 3}).proved
    found = check.capacity(t.given(workers=ANY), {"A": 3})
    assert found.unknown
    assert found.notes == ("A: unknown: the bolts go in a circle, and none of them is first; proved for no number",)


def test_memory_is_a_budget_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.capacity.zones.search.MEMORY", 2**20)
    found = check.capacity(figure_1(gap="2/3", workers=3), {"B3": 3})
    assert found.unknown and "GiB of memory was reached after" in found.notes[0]


def test_any_number_that_is_refuted_says_which() -> None:
    t = Topology({"S1": Spout(2), "S2": Spout(2)}, {"A": Bolt(1, ["S1", "S2"], workers=ANY), "B": Bolt(1, "A")})
    found = check.capacity(t, {"B": 2})
    assert found.refuted and "with workers A 2, B 1: the queue of B reaches 2" in found.notes[0]


def test_bolts_behind_others_may_have_any_number() -> None:
    assert check.capacity(figure_1(gap=1, workers={"B3": ANY}), {"B1": 2}).proved


def test_rates_that_make_every_queue_unbounded_are_said_first() -> None:
    assert check.capacity(figure_1(gap="0.4"), {"B1": 2}).notes[0].startswith("every queue is unbounded at these rates")


def test_progress_is_told() -> None:
    told: list[dict[str, int]] = []
    check.capacity(figure_1(gap="2/3", workers=3), {"B3": 3}, progress=told.append, certify=False)
    assert told and {"states", "waiting"} <= told[0].keys()


@pytest.mark.parametrize(
    ("limits", "given", "message"),
    [
        ({"b1": 2}, {}, "there is no bolt b1; did you mean 'B1'"),
        ({"S1": 2}, {}, "there is no bolt S1 (it is a spout, which has no queue)"),
        ({}, {}, "limits={}: expected the limit of at least one bolt, such as"),
        ({"B1": 0}, {}, "the limit of B1: expected a number of tuples from 1 on, got 0."),
        ({"B1": "2"}, {}, "the limit of B1: expected a number of tuples from 1 on, got '2'."),
        ({"B1": 2}, {"fewest": "seconds"}, "fewest='seconds': expected 'emits' or 'steps'"),
        ({"B1": 2}, {"observe": "some"}, "observe='some': expected 'any' or 'settled'"),
        ({"B1": 2}, {"within": 0}, "within: 0 is not above 0."),
    ],
)
def test_mistakes(limits: dict[str, int], given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check.capacity(figure_1(gap=1), limits, **given)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_mistakes_in_what_is_asked_about() -> None:
    with pytest.raises(UsageError, match=r"check\.capacity takes a capacity\.Topology, found a str"):
        check.capacity("Figure 1", {"B1": 2})  # type: ignore[arg-type]
    literal = Topology({"S": Spout(1)}, {"B": Bolt(1, "S", queue="per worker")}, semantics="literal")
    with pytest.raises(UsageError, match='semantics="literal" has one queue for each bolt'):
        check.capacity(literal, {"B": 2})
    fine = Topology({"S": Spout("1/1000000007")}, {"B": Bolt("1/998244353", "S")})
    with pytest.raises(UsageError, match="have no common unit that is coarse enough"):
        check.capacity(fine.given(gap="1000000000/1000000007"), {"B": 2})


def test_nothing_heavy_is_loaded_before_it_is_used() -> None:
    code = "import sys, pellucid.capacity, pellucid.capacity.zones.question; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# What is true about queues, statement by statement, by zones; the false claims with the run that shows it.

THRESHOLDS = {"B1": "1 1/2 1/3 1/4", "B2": "2 1 2/3 1/2", "B3": "2 1 2/3 1/2"}


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("bolt", THRESHOLDS)
def test_figure_1_thresholds(bolt: str, workers: int) -> None:
    expected = Fraction(THRESHOLDS[bolt].split()[workers - 1])
    t = figure_1(gap=1, workers=workers)
    for limit in (2, 3, 4, 8):
        found = least_gap(t, bolt, limit)
        if bolt == "B3" and limit == 2:  # two emits at one moment
            assert found.status == "never" and found.below is not None and found.below.emits == 2
        else:
            assert (found.status, found.gap) == ("at", expected)
    below = decide(t.given(gap=expected * Fraction(9, 10)), bolt, 4, budget=Budget(1.0))
    assert below.status == "refuted" and below.trace is not None and below.trace.confirmed


@pytest.mark.parametrize(
    ("workers", "gap"),
    [(1, "2"), (1, "2.3"), (1, "9"), (2, "1"), (2, "1.3"), (2, "2"), (3, "2/3"), (3, "1"), (4, "1/2"), (4, "1")],
)
def test_figure_1_longest_queues(workers: int, gap: str) -> None:
    t = figure_1(gap=gap, workers=workers)
    waits = int(workers < 2 * ceil(1 / Fraction(gap)))
    found = {b: longest(t, b) for b in t.bolts}
    assert {b: (n.any, n.settled) for b, n in found.items()} == {"B1": (1, 0), "B2": (1, waits), "B3": (2, waits)}


def test_a_pair_that_depends_on_the_limit() -> None:
    t = figure_1(gap=1, workers=2).given(routing="all", observe="settled")
    assert [least_gap(t, "B3", limit).gap for limit in (2, 3)] == [2, Fraction(3, 2)]
    shown = least_gap(t, "B3", 2).below
    assert shown is not None and shown.confirmed


def test_the_threshold_is_safe_and_the_least_time_is_not_attained() -> None:
    t = Topology({"S": Spout(1)}, {"B": Bolt(1, "S")})
    assert decide(t, "B", 2).status == "proved"
    found = decide(t.given(gap="99/100"), "B", 2)
    assert found.trace is not None and found.trace.infimum is not None
    assert found.trace.infimum < found.trace.duration < found.trace.infimum + Fraction(1, 100)
    near = decide(t.given(gap="0.8"), "B", 2, within="1/1000000").trace
    assert near is not None and near.infimum == Fraction(28, 5)
    assert near.infimum < near.duration < near.infimum + Fraction(1, 10**6)


# ---------------------------------------------------------------- "four emits reach 3 tuples if the gap is below 1"


@pytest.mark.parametrize(("gap", "urgent", "literal"), [("0.4", 5, 4), ("0.5", 6, 5), ("0.8", 12, 5), ("0.9", 22, 5)])
def test_emits_that_reach_three_tuples(gap: str, urgent: int, literal: int) -> None:
    t = figure_1(gap=gap)
    for semantics, one in (("urgent", urgent), ("literal", literal)):
        for bolt, emits in (("B1", one), ("B2", 4)):
            given = t.given(semantics=semantics)
            shown = decide(given, bolt, 3, fewest="emits").trace
            assert shown is not None and shown.emits == emits
            assert replay(given, shown.steps, bolt=bolt).longest(bolt) >= 3


# ---------------------------------------------------------------- the literal semantics


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("gap", ["1/3", "1/2", "0.6", "0.8", "1", "1.5", "9.2"])
def test_literal_is_safe_iff_every_tuple_finds_a_worker(workers: int, gap: str) -> None:
    t = figure_1(gap=gap, workers=workers).given(semantics="literal")
    for bolt, spouts in (("B1", 1), ("B2", 2)):
        safe = spouts * ceil(1 / Fraction(gap)) <= workers
        found = decide(t, bolt, 2)
        assert found.status == ("proved" if safe else "refuted")


def test_literal_shortest_runs() -> None:
    literal = figure_1(gap="0.8").given(semantics="literal")
    papers = decide(literal, "B1", 2).trace
    assert papers is not None
    actions = [step.action for step in papers.steps]
    assert [a.rsplit("_", 1)[0] if a.startswith("set") else a for a in actions] == [
        "time_elapse", "setDoTake", "setDoEmit", "spout_emit", "time_elapse", "setDoTake", "setDoEmit", "bolt_take",
        "setDoTake", "setDoEmit", "spout_emit", "time_elapse", "setDoTake", "setDoEmit", "spout_emit",
    ]  # fmt: skip
    both = decide(literal.given(gap="9.2"), "B2", 2).trace
    assert both is not None and len(both.steps) == 14


# ---------------------------------------------------------------- more workers


def test_more_workers_upstream_can_lengthen_a_queue() -> None:
    t = Topology({"S1": Spout(2), "S2": Spout(2)}, {"A": Bolt(1, ["S1", "S2"]), "B": Bolt(1, "A")})
    assert [str(longest(t.given(workers={"A": n}), "B")) for n in (1, 2)] == ["1/0", "2/1"]
    fast = Topology({"S": Spout("0.5")}, {"A": Bolt(1, "S"), "B": Bolt(1, "A")})
    assert [str(longest(fast.given(workers={"A": n}), "B")) for n in (1, 2)] == ["1/0", "unbounded"]
    found = decide_any(t.given(workers={"A": ANY}), "B", 2)
    assert found.status == "refuted" and dict(found.numbers) == {"A": 2, "B": 1}
    assert found.trace is not None and found.trace.confirmed


def test_unbounded_although_the_load_is_small() -> None:
    t = figure_1(gap="0.8", workers={"B1": 1, "B2": 3, "B3": 3})
    assert str(longest(t, "B3")) == "unbounded"
    found = decide(t, "B3", 5, budget=Budget(2.0))
    assert found.status == "refuted" and found.trace is not None and found.trace.confirmed
    assert str(longest(t.given(workers={"B1": 2}), "B3")) == "2/1"


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_queue_is_not_longer_by_more_of_its_own_workers(workers: int) -> None:
    t = figure_1(gap=2, workers={"B2": 2})
    more, less = (longest(t.given(workers={"B3": n}), "B3") for n in (workers + 1, workers))
    assert more.any is not None and less.any is not None and more.settled is not None and less.settled is not None
    assert more.any <= less.any and more.settled <= less.settled


def test_the_theorem_for_any_numbers_of_workers() -> None:
    """Figure 1, gap 2 (and with it every wider one, of which each run is one of gap 2, too)."""
    t = figure_1(gap=2, workers=ANY)
    assert check.capacity(t, {"B1": 2, "B2": 2, "B3": 3}).proved
    assert check.capacity(t, {"B1": 1, "B2": 2, "B3": 2}, observe="settled").proved
    exact = check.capacity(t, {"B1": 1, "B2": 1, "B3": 2})
    assert {bolt: part.status for bolt, part in exact.parts.items()} == dict.fromkeys(("B1", "B2", "B3"), "refuted")
    assert check.capacity(t, {"B2": 1, "B3": 1}, observe="settled").refuted
    below = check.capacity(t.given(gap="1.99"), {"B2": 2})
    assert below.refuted and below.parts["B2"].details["workers"] == {"B2": 1}


def test_least_workers() -> None:
    assert [least_workers(figure_1(gap=gap), "B2", 2).workers for gap in ("0.8", "1", "2", "0.3")] == [3, 2, 1, 7]
    never = least_workers(figure_1(gap=2), "B3", 2)
    assert never.workers is None and never.below is not None and never.below.confirmed


# ---------------------------------------------------------------- tables


def test_the_papers_table() -> None:
    rows = {(row.semantics, row.bolt, row.limit): row for row in paper_table().rows}
    assert len(rows) == 8 and all(row.wrong is None for row in rows.values())
    for limit in (2, 3):
        assert rows["urgent", "B1", limit].threshold.gap == rows["literal", "B1", limit].threshold.gap == 1
        assert rows["urgent", "B2", limit].threshold.gap == 2
        assert rows["literal", "B2", limit].threshold.status == "never"
        assert all(rows[semantics, bolt, limit].run for semantics in ("urgent", "literal") for bolt in ("B1", "B2"))
    assert rows["literal", "B1", 2].run == (15, 3) and rows["literal", "B2", 2].run == (14, 3)
    assert [rows["urgent", "B1", n].any_number for n in (2, 3)] == ["safe at gap 1 and above"] * 2


# Certificates: every one is accepted, and every damaged one is refused.


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
