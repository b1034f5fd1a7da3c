"""What is true about queues, statement by statement, as far as runs and flow show it."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest

from pellucid.capacity import Bolt, Constant, Spout, Topology, figure_1, flows, grid, grow, replay, simulate
from pellucid.capacity.flow import literal_bound
from pellucid.errors import UsageError
from tests.capacity.meaning import told
from tests.capacity.random_topologies import topology


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
