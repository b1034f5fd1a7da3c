"""The two machines and the judge: the paper's own runs, what is enabled, what is said if it is not."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pellucid.capacity import ANY, Bolt, Spout, Step, Topology, Worker, figure_1, grid, replay
from pellucid.errors import UsageError

PAPER = [
    "time_elapse", "setDoTake_F1", "setDoEmit_F1a", "spout_emit",
    "time_elapse", "setDoTake_T", "setDoEmit_F1a", "bolt_take", "setDoTake_F1", "setDoEmit_F1a", "spout_emit",
    "time_elapse", "setDoTake_F2a", "setDoEmit_F1a", "spout_emit",
]  # fmt: skip


def wait(by: str) -> Step:
    return Step("time_elapse", by=Fraction(by))


def emit(spout: str, *to: str) -> Step:
    return Step("spout_emit", spout, to)


def take(bolt: str, worker: int = 0) -> Step:
    return Step("bolt_take", Worker(bolt, worker))


def put(bolt: str, *to: str, worker: int = 0) -> Step:
    return Step("bolt_emit", Worker(bolt, worker), to)


def in_words(actions: list[str], bolt: str, spout: str, delay: str) -> list[Step]:
    given = {"time_elapse": wait(delay), "spout_emit": emit(spout, bolt), "bolt_take": take(bolt)}
    return [given.get(action, Step(action)) for action in actions]


def test_the_papers_own_trace() -> None:
    """Section 5: limit 2, a gap below 1."""
    literal = figure_1(gap="0.8").given(semantics="literal")
    run = replay(literal, in_words(PAPER, "B1", "S1", "0.9"), bolt="B1")
    assert len(run.steps) == 15 and run.longest("B1") == 2 and run.times[-1] == Fraction("2.7")
    assert run.emits == 3


def test_the_papers_trace_is_the_shortest_with_one_spout() -> None:
    one = Topology({"S1": Spout("0.8")}, {"B1": Bolt(1, "S1"), "B3": Bolt(1, "B1")}, semantics="literal")
    found = grid(one, step="0.1", bolt="B1", limit=2, most=2)
    assert len(found.runs["B1"]) == 15
    assert replay(one, found.runs["B1"], bolt="B1").longest("B1") == 2


@pytest.mark.parametrize("gap", ["9.2", "1", "0.8"])
def test_literal_with_both_spouts_is_unsafe_at_every_gap_in_14_steps(gap: str) -> None:
    flags_off = ["setDoTake_F1", "setDoEmit_F1a"]
    two = Topology({"S1": Spout(gap), "S2": Spout(gap)}, {"B2": Bolt(1, ["S1", "S2"]), "B3": Bolt(1, "B2")})
    two = two.given(semantics="literal")
    long = str(Fraction(gap) + 1)
    first = in_words(["time_elapse", *flags_off, "spout_emit", "time_elapse"], "B2", "S1", long)
    then = in_words(["setDoTake_T", "setDoEmit_F1a", "bolt_take", *flags_off, "spout_emit"], "B2", "S1", long)
    last = in_words(["setDoTake_F2a", "setDoEmit_F1a", "spout_emit"], "B2", "S2", long)
    run = replay(two, first + then + last, bolt="B2")
    assert len(run.steps) == 14 and run.longest("B2") == 2


def test_literal_14_steps_are_the_least_at_9_2() -> None:
    two = Topology({"S1": Spout("9.2"), "S2": Spout("9.2")}, {"B2": Bolt(1, ["S1", "S2"]), "B3": Bolt(1, "B2")})
    found = grid(two.given(semantics="literal"), step="1", bolt="B2", limit=2, most=2)
    assert len(found.runs["B2"]) == 14


def literal_safe(spouts: int, gap: str, workers: int) -> bool:
    """Whether a grid finds no queue of 2; B takes 1."""
    names = [f"S{i}" for i in range(spouts)]
    t = Topology(dict.fromkeys(names, Spout(gap)), {"B": Bolt(1, names, workers=workers)})
    found = grid(t.given(semantics="literal"), step="1/4", bolt="B", limit=2, most=2)
    return found.longest["B"] < 2


@pytest.mark.parametrize(("spouts", "gap", "workers", "safe"), [
    (1, "0.7", 1, False), (1, "1", 1, True), (1, "0.7", 2, True), (1, "0.2", 2, False), (2, "1", 2, True),
    (2, "0.7", 2, False),
])  # fmt: skip
def test_literal_is_safe_if_every_tuple_finds_a_worker(spouts: int, gap: str, workers: int, safe: bool) -> None:
    assert literal_safe(spouts, gap, workers) == safe == (spouts * -(-1 // Fraction(gap)) <= workers)


def test_two_emits_reach_a_queue_of_two_in_b3_at_any_gap() -> None:
    """Both workers end at the same instant, and both emit before B3 takes."""
    both = [wait("10"), emit("S1", "B1"), take("B1"), emit("S2", "B2"), take("B2"), wait("1")]
    run = replay(figure_1(gap="9.2"), [*both, put("B1", "B3"), put("B2", "B3")])
    assert run.longest("B3") == 2 and run.emits == 2
    assert run.longest("B3", "settled") == 0  # not yet settled
    run = replay(figure_1(gap="9.2"), [*both, put("B1", "B3"), put("B2", "B3"), take("B3")])
    assert run.longest("B3", "settled") == 1


FIRST = [wait("2"), emit("S1", "B1")]


@pytest.mark.parametrize(("steps", "why"), [
    ([emit("S1", "B1")], "step 0 (spout_emit S1 → B1) is not possible at time 0: only 0 has passed since the last "
                         "emit, and it needs more than 1."),
    ([wait("1"), emit("S1", "B1")], "only 1 has passed since the last emit, and it needs more than 1"),
    ([wait("0")], "time passes by more than 0, not by 0"),
    ([Step("time_elapse")], "time passes by more than 0"),
    ([wait("2"), emit("S2", "B1")], "B1 is no queue that hears S2"),
    ([wait("2"), emit("S1")], "S1 puts out 1 here, each to one of those who hear it, and not 0"),
    ([wait("2"), emit("S1", "B1", "B2")], "and not 2"),
    ([wait("2"), emit("S3", "B1")], "there is no spout S3"),
    ([take("B1")], "its queue is empty"),
    ([take("B1", 1)], "there is no worker B1[1]"),
    ([*FIRST, wait("1")], "step 2 (time_elapse 1) is not possible at time 2: B1[0] can take, which comes first."),
    ([*FIRST, emit("S2", "B2")], "B1[0] can take, which comes first"),
    ([*FIRST, take("B1"), take("B1")], "it executes a tuple"),
    ([*FIRST, take("B1"), wait("3/2")], "B1[0] ends its tuple in 1"),
    ([*FIRST, take("B1"), put("B1", "B3")], "it executes a tuple"),
    ([*FIRST, take("B1"), wait("1"), wait("1")], "B1[0] can emit, which comes first"),
    ([*FIRST, take("B1"), wait("1"), emit("S2", "B2")], "B1[0] can emit, which comes first"),
    ([*FIRST, take("B1"), wait("1"), put("B1", "B2")], "B2 is no queue that hears B1"),
    ([*FIRST, put("B1", "B3")], "it is idle"),
    ([*FIRST, Step("setDoTake_T")], "it is a step of the literal semantics"),
    ([Step("spout_admit", "S1")], "there is no such action: spout_emit, bolt_emit, bolt_take, time_elapse are"),
])  # fmt: skip
def test_what_is_not_possible_is_refused(steps: list[Step], why: str) -> None:
    with pytest.raises(UsageError) as error:
        replay(figure_1(gap=1), steps)
    assert why in str(error.value)


OFF = [Step("setDoTake_F1"), Step("setDoEmit_F1a")]


@pytest.mark.parametrize(("steps", "why"), [
    ([wait("2"), wait("1")], "CanTimeElapse is false"),
    ([wait("2"), emit("S1", "B1")], "SetFlags is DT: the flags are set first"),
    ([Step("setDoTake_F1")], "SetFlags is No, not DT"),
    ([wait("2"), Step("setDoTake_T")], "no worker is idle with a tuple in its queue"),
    ([wait("2"), Step("setDoTake_F2")], "it is for several workers, none of them idle"),
    ([wait("2"), *OFF, emit("S1", "B1"), Step("setDoTake_F1")], "the queue is not empty"),
    ([wait("2"), *OFF, emit("S1", "B1"), Step("setDoTake_T"), Step("setDoEmit_F1")], "it is for several workers"),
    ([wait("2"), *OFF, emit("S1", "B1"), Step("setDoTake_T"), Step("setDoEmit_F1a"), emit("S2", "B2")],
     "DoTake is true"),
    ([wait("2"), *OFF, emit("S1", "B1"), Step("setDoTake_F2a")], "it is for one worker that is not idle"),
    ([wait("1"), *OFF, emit("S1", "B1")], "Stime is 1, and it needs more than 1"),
])  # fmt: skip
def test_what_is_not_possible_literally_is_refused(steps: list[Step], why: str) -> None:
    with pytest.raises(UsageError) as error:
        replay(figure_1(gap=1).given(semantics="literal"), steps, bolt="B1")
    assert why in str(error.value)


def test_literal_other_bolts_take_and_emit_when_they_like() -> None:
    literal = figure_1(gap=1).given(semantics="literal")
    run = [wait("2"), *OFF, emit("S1", "B2"), wait("2"), *OFF, emit("S2", "B2"), *OFF, take("B2")]
    assert replay(literal, run, bolt="B1").longest("B2") == 2


def test_ratios_put_out_what_is_due() -> None:
    spouts, ratio = {"S": Spout(1)}, Fraction(3, 2)
    t = Topology(spouts, {"A": Bolt(1, "S", ratio=ratio, initial=2), "B": Bolt(1, "A"), "C": Bolt(1, "A")})
    start = [take("A"), wait("1")]
    assert replay(t, [*start, put("A", "B"), take("A"), take("B"), wait("1"), put("A", "B", "C")]).longest("C") == 1
    with pytest.raises(UsageError, match="A puts out 1 here, each to one of those who hear it, and not 2"):
        replay(t, [*start, put("A", "B", "B")])
    copies = t.given(routing="all")
    assert replay(copies, [*start, put("A", "C", "B")]).longest("C") == 1
    with pytest.raises(UsageError, match="A puts out 1 here, with a copy for each who hears it: C gets 0"):
        replay(copies, [*start, put("A", "B")])


def test_a_queue_for_each_worker() -> None:
    t = Topology({"S": Spout(1)}, {"B": Bolt(1, "S", workers=2, queue="per worker", initial=3)})
    first, second = Worker("B", 0), Worker("B", 1)
    begin = [take("B", 0), take("B", 1), wait("1")]
    run = replay(t, [*begin, take("B", 0), wait("1/2"), Step("spout_emit", "S", (first,))])
    assert run.lengths("B") == [2, 1, 1, 1, 0, 0, 1]
    assert run.settled()[-1]
    with pytest.raises(UsageError, match="B is no queue that hears S"):
        replay(t, [*begin, take("B", 0), wait("1/2"), emit("S", "B")])
    with pytest.raises(UsageError, match="its queue is empty"):
        replay(t, [*begin, take("B", 1)])
    assert run.busy()[second] == [(0, 1)] and run.busy()[first] == [(0, 1), (1, 2)]


def test_steps_need_numbers() -> None:
    with pytest.raises(
        UsageError, match=r"bolt B2 has ANY number of workers, and steps need a number: topology\.given"
    ):
        replay(figure_1(gap=1, workers={"B2": ANY}), [])
    with pytest.raises(UsageError, match="the literal semantics is of one bolt under analysis: bolt= names it"):
        replay(figure_1(gap=1).given(semantics="literal"), [])


def test_a_grid_says_what_it_cannot() -> None:
    with pytest.raises(UsageError, match=r"the time 1 of bolt B1 is no multiple of the grid's step 3/10\."):
        grid(figure_1(gap=1), step="0.3")
    with pytest.raises(UsageError, match="limit= is of one bolt's queue"):
        grid(figure_1(gap=1), step=1, limit=2)
    t = Topology({"S": Spout("1/4")}, {"B": Bolt(1, "S")})
    found = grid(t, step="1/2", most=3)
    assert not found.complete and found.why == "a queue grew beyond 3" and found.longest == {"B": 4}
    assert replay(t, found.runs["B"]).longest("B") == 4


def test_a_run_is_a_counterexample_with_all_its_forms() -> None:
    both = [wait("10"), emit("S1", "B1"), take("B1"), emit("S2", "B2"), take("B2"), wait("1")]
    run = replay(figure_1(gap="9.2"), [*both, put("B1", "B3"), put("B2", "B3")]).counterexample("2 tuples wait in B3")
    assert run.replay() and str(run).splitlines()[-1].endswith("2 tuples wait in B3")
    assert '"bolt_emit B2[0] → B3"' in run.to_json() and "<svg" in run.picture()
    literal = figure_1(gap="0.8").given(semantics="literal")
    assert replay(literal, in_words(PAPER, "B1", "S1", "0.9"), bolt="B1").counterexample().replay()
