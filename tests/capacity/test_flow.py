"""Finite or unbounded, by flow: the thresholds of Figure 1, stores, circles; and runs for whatever is unbounded."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from math import ceil

import pytest

from pellucid.capacity import (
    Bolt,
    Constant,
    Flows,
    Spout,
    Topology,
    check_flows,
    figure_1,
    flows,
    grow,
    replay,
    simulate,
    threshold,
)
from pellucid.capacity.flow import literal_bound
from pellucid.capacity.flow.bounds import Proof, below_one, check_proofs, circles, judged
from pellucid.capacity.flow.linear import Limit, certified, maximum
from pellucid.errors import UsageError
from tests.capacity.grid import grid
from tests.capacity.meaning import told
from tests.capacity.topologies import topology

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
@pytest.mark.parametrize("ratio", ["1", "2"])
def test_circles_where_it_does_not_are_decided_by_a_run(routing: str, ratio: str) -> None:
    """What goes round never ends: A gets all that B serves, and what the spout brings."""
    t = ring(ratio, routing=routing)
    found = flows(t)
    assert str(found).startswith("A: unbounded: a run repeats itself with a longer queue each time\nB: bounded: 1 can")
    run = grow(t, "A", 9)
    assert run.kind == "growing loop" and replay(t, run.steps).longest("A") >= 9
    assert check_flows(found)
    words = {
        "one": "a tuple that goes round the circle A, B can come back as 1 or more",
        "all": "the ratios of the circle A, B have a spectral radius of 1 or more",
    }[routing]
    assert threshold(t, "A").status == "unknown"
    assert str(threshold(t, "A")) == f"the queue of A is not decided by flow: {words}"


def test_a_circle_that_is_proved_together_or_not_at_all() -> None:
    bolts = {
        "A": Bolt(2, ["A", "B", "S"], workers=2, ratio="1/2"), "B": Bolt(2, ["A", "C"], ratio="1/5"),
        "C": Bolt(4, ["A", "B"], ratio="1/2"),
    }  # fmt: skip
    t = Topology({"S": Spout("9/4")}, bolts)
    found = flows(t)
    assert [proof.bolts for proof in found.proofs] == [("A", "B", "C")] and check_flows(found)
    (proof,) = found.proofs
    one_by_one = [Proof((b,), {b: proof.most[b]}, {b: proof.prices[b]}) for b in "ABC"]
    assert not check_proofs(t, one_by_one)
    lasting = t.given(bolts={**t.bolts, "B": Bolt(2, ["A", "C"], ratio=2)})  # what goes round does not die out
    assert not check_proofs(lasting, found.proofs)
    # Bolts in no circle are not proved together.
    chain = flows(Topology({"S": Spout(1)}, {"A": Bolt(1, "S"), "B": Bolt(1, "A")}))
    first, second = chain.proofs
    both = Proof(("A", "B"), {**first.most, **second.most}, {**first.prices, **second.prices})
    assert check_proofs(chain.topology, (first, second)) and not check_proofs(chain.topology, (both,))


def test_where_no_run_is_found_it_is_unknown() -> None:
    """B would be too slow in the end, but it takes 800 for each tuple that goes round in it for ever."""
    t = Topology({"S": Spout(2)}, {"A": Bolt(1, "S", ratio="1/400"), "B": Bolt("1/9", ["A", "B"]), "C": Bolt(2, "B")})
    found = flows(t)
    assert [flow.status for flow in found.values()] == ["bounded", "unknown", "unknown"] and check_flows(found)
    assert str(found).splitlines()[1:] == [
        "B: unknown: a tuple that goes round the circle B can come back as 1 or more",
        "C: unknown: more can come than is served, if B can hold enough",
    ]
    with pytest.raises(UsageError, match="the queue of B does not grow for ever: whether it does is unknown"):
        grow(t, "B", 3)


def test_three_in_a_circle() -> None:
    """What goes round dies out, and even full stores do not bring too much for all of them."""
    bolts = {"A": Bolt(1, ["S", "C"], ratio="3/4"), "B": Bolt(1, "A", ratio="3/4"), "C": Bolt(1, "B", ratio="3/4")}
    t = Topology({"S": Spout(3)}, bolts)
    assert judged(t, ["A", "B", "C"])[:2] == (True, False)
    found = flows(t)
    assert [proof.bolts for proof in found.proofs] == [("B",), ("C",), ("A",)] and check_flows(found)
    assert threshold(t, "A").gap == 1 / (1 - Fraction(27, 64))
    faster = t.given(gap="1.7")
    assert replay(faster, grow(faster, "A", 9).steps).longest("A") >= 9


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


def said(found: Flows, bolt: str, status: str) -> Flows:
    return replace(found, table={**found.table, bolt: replace(found[bolt], status=status)})


def test_proofs_that_are_changed_are_none() -> None:
    found = flows(figure_1(gap=1, workers=2))
    assert check_flows(found) and [proof.bolts for proof in found.proofs] == [("B1",), ("B2",), ("B3",)]
    *first, last = found.proofs
    for name, price in last.prices["B3"].items():
        for other in (price + 1, price - 1):
            bad = replace(last, prices={"B3": {**last.prices["B3"], name: other}})
            assert not check_flows(replace(found, proofs=(*first, bad)))
    assert not check_flows(replace(found, proofs=tuple(first)))
    assert not check_flows(replace(found, proofs=(last, *first)))  # before the others are proved, they bring more
    assert not check_flows(replace(found, topology=found.topology.given(gap="0.9")))
    assert not check_flows(said(found, "B1", "unknown"))
    trap = flows(figure_1(gap="0.8", workers={"B1": 1, "B2": 3, "B3": 3}))
    assert check_flows(trap) and not check_flows(said(trap, "B3", "bounded"))


def test_what_is_bounded_on_random_topologies_is_certified() -> None:
    for number in range(60):
        found = flows(topology(number, single=True))
        assert check_flows(found)
        assert [flow.status == "bounded" for flow in found.values()].count(True) == len(found.proofs)


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


# What is true about queues, statement by statement, as far as runs and flow show it.


def at_and_above(gap: Fraction, workers: int) -> dict[str, tuple[int, int]]:
    """The last column of the table of Figure 1, for as many workers everywhere."""
    waits = workers < 2 * ceil(1 / gap)
    return {"B1": (1, 0), "B2": (1, int(waits)), "B3": (2, int(waits))}


@pytest.mark.parametrize(("workers", "gap", "step"), [
    (1, "2", "1/2"), (1, "2.3", "1/4"), (1, "9.2", "1"), (2, "1", "1/4"), (2, "1.3", "1/4"), (2, "2", "1/4"),
    (3, "1", "1/2"), (4, "1", "1/2"), pytest.param(3, "2/3", "1/4", marks=pytest.mark.long),
])  # fmt: skip
def test_the_longest_queues_of_figure_1_are_reached(workers: int, gap: str, step: str) -> None:
    t = figure_1(gap=gap, workers=workers)
    for i, observe in enumerate(("any", "settled")):
        found = grid(t.given(observe=observe), step=step, most=2)
        assert found.complete
        assert found.longest == {b: longest[i] for b, longest in at_and_above(Fraction(gap), workers).items()}
        for b, run in found.runs.items():
            assert replay(t, run).longest(b, observe) == found.longest[b]  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("gap", ["2/3", "4/5", "1", "9/5", "2", "7/3"])
def test_a_grid_finds_no_more_than_there_is(workers: int, gap: str) -> None:
    t = figure_1(gap=gap, workers=workers)
    bounded = [b for b, flow in flows(t).items() if flow.status == "bounded"]
    found = grid(t, step="1/2", most=2)
    for b in bounded:
        assert found.longest[b] <= at_and_above(Fraction(gap), workers)[b][0]


def test_thresholds_that_depend_on_the_limit() -> None:
    """`all`, two workers, settled, B3: limit 2 has the threshold 2, limit 3 has 3/2."""
    t = figure_1(gap=2, workers=2).given(routing="all", observe="settled")
    assert grid(t, step="1/4").longest["B3"] == 1
    near = grid(t.given(gap="1.6"), step="1/4", bolt="B3", limit=2)
    assert near.longest["B3"] == 2 and replay(t.given(gap="1.6"), near.runs["B3"]).longest("B3") == 2
    assert grid(t.given(gap="3/2"), step="1/4").longest["B3"] == 2
    for gap in ("1.49", "1.3"):
        below = t.given(gap=gap)
        assert flows(below)["B3"].status == "unbounded" and replay(below, grow(below, "B3", 3).steps).longest("B3") >= 3


def test_a_grid_sees_only_some_runs() -> None:
    t = Topology({"S": Spout("0.9")}, {"B": Bolt(1, "S")})
    assert grid(t, step="0.1").longest == {"B": 1} and flows(t)["B"].status == "unbounded"
    assert grid(t, step="1/20", most=1).longest == {"B": 2}


# ---------------------------------------------------------------- "four emits reach 3 tuples if the gap is below 1"

URGENT_EMITS = {"0.4": 5, "0.5": 6, "0.8": 12, "0.9": 22}
LITERAL_EMITS = {"0.4": 4, "0.5": 5, "0.8": 5, "0.9": 5}


@pytest.mark.parametrize("gap", URGENT_EMITS)
def test_emits_until_three_tuples_urgent_with_one_spout(gap: str) -> None:
    """The faster a spout is, the longer is the queue of its bolt at each of its emits; and faster than a little more
    than the gap it is not."""
    t = Topology({"S": Spout(gap)}, {"B": Bolt(1, "S")})
    fast = Fraction(gap) + Fraction(1, 10_000)
    emits = next(n for n in range(1, 99) if told(t, {"S": [fast * (i + 1) for i in range(n)]})["B"][0] >= 3)
    assert emits == URGENT_EMITS[gap]
    run = simulate(t, tuples=emits, arrivals=Constant(fast), log=True)
    judged = replay(t, run.steps())
    assert judged.longest("B") == 3 and judged.emits == emits
    assert simulate(t, tuples=emits - 1, arrivals=Constant(fast)).longest("B") == 2


@pytest.mark.parametrize("gap", LITERAL_EMITS)
def test_emits_until_three_tuples_literal_with_one_spout(gap: str) -> None:
    t = Topology({"S": Spout(gap)}, {"B": Bolt(1, "S")}, semantics="literal")
    found = grid(t, step="1/20" if gap in ("0.4", "0.9") else "1/10", bolt="B", limit=3, most=3)
    assert replay(t, found.runs["B"], bolt="B").emits == LITERAL_EMITS[gap]


@pytest.mark.parametrize("gap", URGENT_EMITS)
@pytest.mark.parametrize("semantics", ["urgent", "literal"])
def test_emits_until_three_tuples_with_both_spouts(gap: str, semantics: str) -> None:
    spouts = {"S1": Spout(gap), "S2": Spout(gap)}
    t = Topology(spouts, {"B": Bolt(1, ["S1", "S2"])}, semantics=semantics)  # type: ignore[arg-type]
    found = grid(t, step="1/10" if gap in ("0.5", "0.8") else "1/20", bolt="B", limit=3, most=3)
    assert replay(t, found.runs["B"], bolt="B").emits == 4


# ---------------------------------------------------------------- the literal semantics


@pytest.mark.parametrize("gap", ["0.3", "0.8", "1", "1.5", "9.2"])
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("bolt", ["B1", "B2"])
def test_literal_every_limit_has_the_same_answer(bolt: str, workers: int, gap: str) -> None:
    t = figure_1(gap=gap, workers=workers).given(semantics="literal")
    spouts = {"B1": 1, "B2": 2}[bolt]
    safe = spouts * ceil(1 / Fraction(gap)) <= workers
    assert literal_bound(t, bolt).status == ("bounded" if safe else "unbounded")
    if safe:
        with pytest.raises(UsageError, match="does not grow for ever: it is bounded"):
            grow(t, bolt, 2)
        return
    for limit in (2, 3, 8):
        assert replay(t, grow(t, bolt, limit).steps, bolt=bolt).longest(bolt) >= limit


def test_literal_what_is_not_known() -> None:
    t = figure_1(gap=9).given(semantics="literal")
    itself = Topology({"S": Spout(9)}, {"B": Bolt(1, ["S", "B"], ratio="1/2")}, semantics="literal")
    assert str(literal_bound(itself, "B")) == (
        "B: unknown: 1 can come while one is worked on, and there is 1 worker; it hears itself"
    )
    with pytest.raises(UsageError, match="whether it does is unknown, since it hears itself"):
        grow(itself, "B", 2)
    each = t.given(bolts={**t.bolts, "B1": Bolt(1, "S1", workers=2, queue="per worker")})
    assert literal_bound(each, "B1").status == "unknown"
    full = t.given(bolts={**t.bolts, "B1": Bolt(1, "S1", initial=3)})
    assert literal_bound(full, "B1").status == "unknown"


# ---------------------------------------------------------------- more workers


def test_more_of_its_own_workers_never_make_a_queue_longer() -> None:
    for number in range(80):
        t = topology(number, single=False)
        emits = {s: [spout.gap * Fraction(9, 8) * (n + 1) for n in range(10)] for s, spout in t.spouts.items()}
        last = list(t.bolts)[-1]
        many = t.bolts[last].workers
        assert isinstance(many, int)
        fewer, more = told(t, emits)[last], told(t.given(workers={last: many + 1}), emits)[last]
        assert more[0] <= fewer[0] and more[1] <= fewer[1], number


def test_from_the_cutoff_on_more_workers_change_nothing() -> None:
    """A bolt that spouts feed never has a settled queue with Σ⌈time ÷ gap⌉ workers."""
    for number in range(60):
        t = topology(number, ratios=False)
        first = next(iter(t.bolts))  # it hears spouts only
        t = t.given(bolts={b: Bolt(x.time, x.hears, workers=x.workers) for b, x in t.bolts.items()})
        enough = sum(ceil(t.bolts[first].time / t.spouts[s].gap) for s in t.bolts[first].hears)
        runs = [simulate(t.given(workers={first: enough + more}), tuples=300, choose="longest") for more in (0, 1, 5)]
        for run in runs:
            assert run.longest(first, "settled") == 0
            assert [run.longest(b) for b in t.bolts] == [runs[0].longest(b) for b in t.bolts], number
            assert run.time == runs[0].time
