"""Bounded or not, by flow: the thresholds of Figure 1, stores, circles; and runs for whatever is unbounded."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from pellucid.capacity import Bolt, Flows, Spout, Topology, check_flows, figure_1, flows, grid, grow, replay, threshold
from pellucid.capacity.flow.cycles import below_one, circles, judged
from pellucid.capacity.flow.linear import Limit, certified, maximum
from pellucid.errors import UsageError
from tests.capacity.random_topologies import topology

THRESHOLDS = {"B1": ["1", "1/2", "1/3"], "B2": ["2", "1", "2/3"], "B3": ["2", "1", "2/3"]}
TABLE = [(b, n + 1, Fraction(gap)) for b, gaps in THRESHOLDS.items() for n, gap in enumerate(gaps)]


@pytest.mark.parametrize(("bolt", "workers", "gap"), TABLE)
def test_figure_1_has_these_thresholds(bolt: str, workers: int, gap: Fraction) -> None:
    t = figure_1(gap=gap, workers=workers)
    found = threshold(t, bolt)
    assert (found.status, found.gap) == ("at", gap)
    assert flows(t)[bolt].status == "bounded"  # the threshold itself is safe
    assert check_flows(flows(t))
    below = t.given(gap=gap * Fraction(99, 100))
    assert flows(below)[bolt].status == "unbounded"


@pytest.mark.parametrize(("bolt", "workers", "gap"), TABLE)
@pytest.mark.parametrize("observe", ["any", "settled"])
def test_below_the_threshold_every_limit_is_reached(bolt: str, workers: int, gap: Fraction, observe: str) -> None:
    t = figure_1(gap=gap * Fraction(9, 10), workers=workers).given(observe=observe)
    for limit in (2, 3, 8):
        assert replay(t, grow(t, bolt, limit).steps).longest(bolt) >= limit


def test_b3_is_unbounded_with_one_worker_in_b1_and_bounded_with_two() -> None:
    """Fill B1 first, then drain it while both spouts feed B2."""
    t = figure_1(gap="0.8", workers={"B1": 1, "B2": 3, "B3": 3})
    found = flows(t)["B3"]
    assert found.status == "unbounded" and found.stores == ("B1",)
    assert (found.load, found.inflow, found.capacity) == (Fraction(5, 2), Fraction(7, 2), 3)
    assert found.utilisation < 1
    for length in (3, 10, 40):
        run = grow(t, "B3", length)
        assert run.kind == "prepare and drain" and replay(t, run.steps).longest("B3") >= length
    assert flows(t.given(workers={"B1": 2}))["B3"].status == "bounded"


def test_more_workers_make_a_downstream_queue_longer() -> None:
    t = Topology({"S": Spout("0.5")}, {"A": Bolt(1, "S"), "B": Bolt(1, "A")})
    assert flows(t)["B"].status == "bounded" and flows(t.given(workers={"A": 2}))["B"].status == "unbounded"
    assert replay(t.given(workers={"A": 2}), grow(t.given(workers={"A": 2}), "B", 9).steps).longest("B") >= 9
    two = Topology({"S1": Spout(2), "S2": Spout(2)}, {"A": Bolt(1, ["S1", "S2"]), "B": Bolt(1, "A")})
    for workers, longest in ((1, (1, 0)), (2, (2, 1))):
        found = [
            grid(two.given(workers={"A": workers}, observe=o), step="1/2").longest["B"] for o in ("any", "settled")
        ]
        assert tuple(found) == longest


def test_a_growing_loop_proves_that_there_is_no_bound() -> None:
    t = figure_1(gap="0.8")
    run = grow(t, "B1", 12)
    assert run.kind == "growing loop" and run.loop is not None
    start, end, gain = run.loop
    again = replay(t, run.steps[:start] + 20 * run.steps[start:end])
    before = replay(t, run.steps[:start]).lengths("B1")[-1]
    assert again.lengths("B1")[-1] == before + 20 * gain


def test_all_adds_up() -> None:
    t = figure_1(gap=1, workers=4).given(routing="all")
    assert {b: str(found.inflow) for b, found in flows(t).items()} == {"B1": "1", "B2": "2", "B3": "3"}
    assert [threshold(t.given(workers=n), "B3").gap for n in (1, 2, 3)] == [3, Fraction(3, 2), 1]


def test_ratios_and_queues_of_workers() -> None:
    t = Topology({"S": Spout(1)}, {"A": Bolt("1/3", "S", ratio="5/2"), "B": Bolt(1, "A", workers=3)})
    assert flows(t)["B"].inflow == Fraction(5, 2) and flows(t)["B"].status == "bounded"
    assert threshold(t, "B").gap == Fraction(5, 6)
    single = t.given(bolts={**t.bolts, "B": Bolt(1, "A", workers=3, queue="per worker")})
    assert flows(single)["B"].capacity == 1 and flows(single)["B"].status == "unbounded"
    assert threshold(single, "B").gap == Fraction(5, 2)
    assert replay(single, grow(single, "B", 9).steps).longest("B") >= 9


def test_one_spouts_gap_while_the_others_keep_theirs() -> None:
    t = figure_1(gap=1, workers=2).given(gap={"S2": 4})
    assert threshold(t, "B2", spouts=["S1"]).gap == Fraction(4, 7)
    assert threshold(t, "B1", spouts=["S2"]).status == "always"
    busy = t.given(gap={"S1": "1/3"})
    assert threshold(busy, "B2", spouts=["S2"]).status == "never"
    assert str(threshold(busy, "B2", spouts=["S2"])) == "the queue of B2 is bounded at no gap"
    with pytest.raises(UsageError, match="spouts: there is no spout S3: S1, S2 are"):
        threshold(t, "B1", spouts=["S3"])
    with pytest.raises(UsageError, match="there is no bolt B4"):
        threshold(t, "B4")
    with pytest.raises(UsageError, match="it is a spout, which has no queue"):
        flows(t)["S1"]


def ring(ratio: str, gap: str = "3", routing: str = "one") -> Topology:
    bolts = {"A": Bolt(1, ["S", "B"]), "B": Bolt(1, "A", ratio=ratio), "C": Bolt(1, "B")}
    return Topology({"S": Spout(gap)}, bolts, routing=routing)  # type: ignore[arg-type]


def test_circles_where_what_goes_round_dies_out() -> None:
    assert circles(ring("1/2")) == [["A", "B"]]
    assert flows(ring("1/2"))["A"].status == "bounded"  # 1/3 + 1/2 of 1
    assert threshold(ring("1/2"), "A").gap == 2
    t = ring("1/2", gap="1.9")
    assert flows(t)["A"].status == "unbounded" and replay(t, grow(t, "A", 9).steps).longest("A") >= 9
    assert threshold(ring("1/2", routing="all"), "A").gap == 2


@pytest.mark.parametrize("routing", ["one", "all"])
def test_circles_where_it_does_not_are_said(routing: str) -> None:
    t = ring("1", routing=routing)
    found = flows(t)
    assert [found[b].status for b in "ABC"] == ["unknown", "unknown", "bounded"]
    assert threshold(t, "A").status == "unknown"
    words = {
        "one": "a tuple that goes round the circle A, B can come back as 1 or more",
        "all": "the ratios of the circle A, B have a spectral radius of 1 or more",
    }[routing]
    assert str(found).startswith(f"A: unknown: {words}\nB: unknown: {words}\nC: bounded: 1 can come")
    assert threshold(t, "C").status == "unknown"
    assert str(threshold(t, "A")) == f"the queue of A is not decided by flow: {words}"
    with pytest.raises(UsageError, match="the queue of A does not grow for ever: whether it does is unknown"):
        grow(t, "A", 3)


def test_a_circle_in_which_theory_ends() -> None:
    """Three bolts with 3/4 each: what goes round dies out, but stores of two can be more than one had."""
    bolts = {"A": Bolt(1, ["S", "C"], ratio="3/4"), "B": Bolt(1, "A", ratio="3/4"), "C": Bolt(1, "B", ratio="3/4")}
    t = Topology({"S": Spout(9)}, bolts)
    assert judged(t, ["A", "B", "C"])[:2] == (True, False)
    assert flows(t)["A"].status == "unknown"
    assert flows(t.given(gap="0.9"))["A"].status == "unbounded"  # this is certain all the same
    per_worker = ring("1/2").given(bolts={**ring("1/2").bolts, "B": Bolt(1, "A", ratio="1/2", queue="per worker")})
    assert flows(per_worker)["A"].status == "unknown"


def test_rates_that_make_every_queue_unbounded_are_said() -> None:
    assert flows(figure_1(gap="0.5")).warning == (
        "every queue is unbounded at these rates (S1 every 1/2, S2 every 1/2): no limit is kept, and nothing needs to "
        "be searched."
    )
    assert flows(figure_1(gap=1)).warning == ""


def test_what_flow_does_not_decide_is_refused() -> None:
    from pellucid.capacity import ANY

    with pytest.raises(UsageError, match="bolt B1 has ANY number of workers: a flow is of given numbers"):
        flows(figure_1(gap=1, workers=ANY))
    with pytest.raises(UsageError, match="flow decides the urgent semantics"):
        flows(figure_1(gap=1).given(semantics="literal"))
    with pytest.raises(UsageError, match=r"a run that makes the queue of B1 50 long has more than 100 steps: most="):
        grow(figure_1(gap="0.9"), "B1", 50, most=100)


def test_nobody_feeds_a_circle_of_its_own() -> None:
    with pytest.raises(UsageError, match="no spout feeds A, B: they hear only each other"):
        Topology({"S": Spout(1)}, {"A": Bolt(1, "B"), "B": Bolt(1, "A"), "C": Bolt(1, "S")})


def changed(found: Flows, bolt: str, **new: Any) -> Flows:
    return Flows(found.topology, {**found.table, bolt: replace(found[bolt], **new)})


def test_prices_that_are_changed_are_no_certificate() -> None:
    found = flows(figure_1(gap=1, workers=2))
    best = found["B3"].optimum
    assert best is not None and check_flows(found)
    for name, price in best.prices.items():
        for other in (price + 1, price - 1):
            prices = {**best.prices, name: other}
            assert not check_flows(changed(found, "B3", optimum=replace(best, prices=prices)))
    assert not check_flows(changed(found, "B3", optimum=None))
    assert not check_flows(Flows(found.topology.given(gap="0.9"), found.table))
    assert not check_flows(changed(found, "B1", status="unbounded"))  # as a store it brings more
    trap = flows(figure_1(gap="0.8", workers={"B1": 1, "B2": 3, "B3": 3}))
    assert check_flows(trap) and not check_flows(changed(trap, "B3", status="bounded"))
    assert not check_flows(changed(flows(ring("1")), "A", status="bounded", optimum=best))


def test_what_is_bounded_on_random_topologies_is_certified() -> None:
    for number in range(60):
        found = flows(topology(number, single=True))
        assert check_flows(found)
        for b in found.unbounded:
            assert not check_flows(changed(found, b, status="bounded"))


def test_behind_what_is_unknown_a_bolt_can_be_bounded_all_the_same() -> None:
    """However much A and B hold, they put out 1 per unit of time at most."""
    t = ring("1")
    quick = t.given(bolts={**t.bolts, "C": Bolt(time="1/2", hears="B")})
    found = flows(quick)
    assert [found[b].status for b in "ABC"] == ["unknown", "unknown", "bounded"] and check_flows(found)
    late = {**t.bolts, "C": Bolt(time=2, hears="B"), "D": Bolt(time=9, hears="C")}
    assert flows(t.given(bolts=late))["C"].why == "more can come than is served, if A or B can hold enough"


def test_the_maximum_is_certified_on_random_programs() -> None:
    chance = random.Random(16)
    for _ in range(60):
        variables = [f"x{i}" for i in range(chance.randint(1, 5))]
        limits = [
            Limit(
                i,
                {v: Fraction(chance.randint(-2, 4), chance.randint(1, 3)) for v in variables},
                Fraction(chance.randint(0, 6)),
            )
            for i in range(chance.randint(1, 6))
        ]
        limits.append(Limit("all", dict.fromkeys(variables, Fraction(1)), Fraction(10)))
        goal = {v: Fraction(chance.randint(-2, 5)) for v in variables}
        found = maximum(goal, limits)
        assert found is not None and certified(goal, limits, found.value, found.prices)
        assert sum((goal[v] * x for v, x in found.solution.items()), Fraction(0)) == found.value
        for limit in limits:
            assert sum((c * found.solution[v] for v, c in limit.terms.items()), Fraction(0)) <= limit.most


def test_spectral_radius_against_powers() -> None:
    """From the meaning: the powers of a matrix with a radius below 1 vanish."""
    import numpy

    chance = random.Random(7)
    for _ in range(200):
        n = chance.randint(1, 4)
        matrix = [[Fraction(chance.randint(0, 3), chance.randint(2, 8)) for _ in range(n)] for _ in range(n)]
        radius = max(abs(numpy.linalg.eigvals(numpy.array(matrix, dtype=float))))
        if abs(radius - 1) > 1e-6:
            assert below_one(matrix) == (radius < 1)
