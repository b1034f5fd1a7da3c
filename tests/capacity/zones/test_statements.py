"""What is true about queues, statement by statement, by zones; the false claims with the run that shows it."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest

from pellucid import check
from pellucid.capacity import ANY, Bolt, Spout, Topology, figure_1, replay
from pellucid.capacity.zones.decide import decide, longest
from pellucid.capacity.zones.figures import figure_table, paper_table
from pellucid.capacity.zones.thresholds import least_gap, least_workers
from pellucid.capacity.zones.workers import decide_any
from pellucid.internal.model import Budget

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


def test_unequal_workers() -> None:
    (row,) = figure_table([(2, 3, 3)])
    assert [row.thresholds[b, 8].gap for b in ("B1", "B2", "B3")] == [Fraction(1, 2), Fraction(2, 3), Fraction(2, 3)]
