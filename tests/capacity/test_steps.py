"""The two machines and the judge: the paper's own runs, what is enabled, what is said if it is not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest

from pellucid.capacity import ANY, Bolt, Literal, Spout, Step, Topology, Urgent, Worker, figure_1, replay
from pellucid.capacity.steps import FLAGS, Situation, Steps
from pellucid.errors import UsageError
from tests.capacity.grid import grid
from tests.capacity.oracle import Told
from tests.capacity.topologies import topology

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
    ([wait("2"), emit("S1")], "S1 emits 1 here, each to one of those who hear it, and not 0"),
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
    with pytest.raises(UsageError, match="A emits 1 here, each to one of those who hear it, and not 2"):
        replay(t, [*start, put("A", "B", "B")])
    copies = t.given(routing="all")
    assert replay(copies, [*start, put("A", "C", "B")]).longest("C") == 1
    with pytest.raises(UsageError, match="A emits 1 here, with a copy for each who hears it: C gets 0"):
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


# The judge is judged: every step on random walks against a second telling of both semantics, and mutants of the
# transitions, which the same walks must refute.


def candidates(t: Topology, told: Told, chance: random.Random) -> Iterator[Step]:
    """Steps that may be right, and some that are nearly so."""
    places = list(dict.fromkeys(map(told.source, told.people)))
    for s in t.spouts:
        heard = [p for p in places if (p if isinstance(p, str) else p[0]) in t.listeners(s)]
        if t.routing == "one":
            for p in [*heard, chance.choice(places)]:
                yield Step("spout_emit", s, (p,))
        else:
            yield Step("spout_emit", s, one_each(t, s, 1, places, chance))
        yield Step("spout_emit", s, tuple(chance.choices(places, k=chance.randint(0, 2))))
    for b, n in told.people:
        yield Step("bolt_take", Worker(b, n))
        many = told.due(b)
        heard = [p for p in places if (p if isinstance(p, str) else p[0]) in t.listeners(b)]
        if t.routing == "all":
            yield Step("bolt_emit", Worker(b, n), one_each(t, b, many, places, chance))
        elif heard:
            yield Step("bolt_emit", Worker(b, n), tuple(chance.choices(heard, k=many)))
            yield Step("bolt_emit", Worker(b, n), tuple(chance.choices(heard, k=many + 1)))
    delays = {Fraction(0), Fraction(chance.randint(1, 9), chance.randint(1, 9))}
    for p in told.people:
        if told.does[p] == "X":
            delays.add(told.begun[p] + t.bolts[p[0]].time - told.now)
    for s, spout in t.spouts.items():
        delays |= {
            told.emitted_at[s] + spout.gap - told.now,
            told.emitted_at[s] + spout.gap - told.now + Fraction(1, 7),
        }
    for delay in sorted(delays):
        yield Step("time_elapse", by=delay)
    for flag in FLAGS:
        yield Step(flag)


def one_each(t: Topology, sender: str, many: int, places: list[Any], chance: random.Random) -> tuple[Any, ...]:
    to: list[Any] = []
    for b in t.listeners(sender):
        to += chance.choices([p for p in places if (p if isinstance(p, str) else p[0]) == b], k=many)
    return tuple(to)


def disagreement(make: Callable[[Topology, str | None], Steps], number: int, literal: bool, steps: int = 60) -> str:
    """Where a machine and the second telling differ on one walk; nothing if they do not."""
    t = topology(number, single=True)
    chance = random.Random(number)
    bolt = chance.choice(list(t.bolts)) if literal else None
    machine, told = make(t, bolt), Told(t, bolt)
    at: Situation = machine.start()
    for _ in range(steps):
        possible = []
        for step in candidates(t, told, chance):
            said, meant = machine.why_not(at, step) is None, told.allowed(step)
            if said != meant:
                return f"{t.name}: {step}: {said}, {meant}"
            possible += [step] if meant else []
        if not possible:
            return ""
        # Time passes rarely if something else can happen, or nothing would pile up.
        busy = [s for s in possible if s.action != "time_elapse"]
        step = chance.choice(busy if busy and chance.random() < 0.8 else possible)
        at = machine.after(at, step)
        told.change(step)
        if machine.settled(at) != told.settled():
            return f"{t.name}: {step}: settled"
        if [machine.length(at, b) for b in t.bolts] != [told.length(b) for b in t.bolts]:
            return f"{t.name}: {step}: lengths"
        if list(at.status) != [told.does[p] for p in told.people]:
            return f"{t.name}: {step}: {at.status}"
    return ""


def urgent(t: Topology, bolt: str | None) -> Steps:
    return Urgent(t)


def literal(t: Topology, bolt: str | None) -> Steps:
    assert bolt is not None
    return Literal(t, bolt)


@pytest.mark.parametrize("first", range(0, 90, 30))
def test_both_machines_are_what_they_mean(first: int) -> None:
    for number in range(first, first + 30):
        assert disagreement(urgent, number, False) == ""
        assert disagreement(literal, number, True) == ""


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 5000, 500))
def test_both_machines_are_what_they_mean_at_length(first: int) -> None:
    for number in range(first, first + 500):
        assert disagreement(urgent, number, False) == ""
        assert disagreement(literal, number, True) == ""


# ---------------------------------------------------------------- mutants


def guard(
    base: type[Steps], action: str, change: Callable[[Any, Situation, Step, str | None], str | None]
) -> type[Steps]:
    """A machine with another guard for an action."""

    class Mutant(base):  # type: ignore[misc, valid-type]
        def why_not(self, at: Situation, step: Step) -> str | None:
            why = super().why_not(at, step)
            return change(self, at, step, why) if step.action.startswith(action) else why

    return Mutant


def effect(
    base: type[Steps], action: str, change: Callable[[Any, Situation, Situation, Step], Situation]
) -> type[Steps]:
    """A machine in which an action does something else."""

    class Mutant(base):  # type: ignore[misc, valid-type]
        def after(self, at: Situation, step: Step) -> Situation:
            then = super().after(at, step)
            return change(self, at, then, step) if step.action == action else then

    return Mutant


def without(*words: str) -> Callable[[Any, Situation, Step, str | None], str | None]:
    """The guard without the objection that has these words."""
    return lambda machine, at, step, why: None if why and any(w in why for w in words) else why


def at_the_gap(machine: Any, at: Situation, step: Step, why: str | None) -> str | None:
    s = machine.spouts[step.who]
    return None if why and ("it needs more than" in why) and at.stime[s] == machine.gap[s] else why


URGENT = {
    "a spout emits at its gap": guard(Urgent, "spout_emit", at_the_gap),
    "a spout emits whenever it likes": guard(Urgent, "spout_emit", without("it needs more than")),
    "a spout does not wait for bolts": guard(Urgent, "spout_emit", without("which comes first")),
    "time does not wait for bolts": guard(Urgent, "time_elapse", without("which comes first")),
    "time passes beyond the end of a tuple": guard(Urgent, "time_elapse", without("ends its tuple")),
    "time stands still": guard(Urgent, "time_elapse", without("time passes by more than 0")),
    "a busy worker takes": guard(Urgent, "bolt_take", without("it executes")),
    "takes from an empty queue": guard(Urgent, "bolt_take", without("is empty")),
    "emits before the end": guard(Urgent, "bolt_emit", without("it executes")),
    "tuples go to anybody": guard(Urgent, "spout_emit", without("is no queue that hears")),
    "more tuples than are due": guard(Urgent, "bolt_emit", without("emits")),
    "Stime is not reset": effect(Urgent, "spout_emit", lambda m, at, then, step: then._replace(stime=at.stime)),
    "nobody gets the tuple": effect(Urgent, "spout_emit", lambda m, at, then, step: then._replace(lengths=at.lengths)),
    "a take leaves the tuple": effect(Urgent, "bolt_take", lambda m, at, then, step: then._replace(lengths=at.lengths)),
    "a take needs no time": effect(Urgent, "bolt_take", lambda m, at, then, step: then._replace(left=at.left)),
    "the ratio is forgotten": effect(Urgent, "bolt_emit", lambda m, at, then, step: then._replace(owed=at.owed)),
    "who emits stays": effect(Urgent, "bolt_emit", lambda m, at, then, step: then._replace(status=at.status)),
    "nobody ends": effect(Urgent, "time_elapse", lambda m, at, then, step: then._replace(status=at.status)),
    "spouts have no clock": effect(Urgent, "time_elapse", lambda m, at, then, step: then._replace(stime=at.stime)),
    "work has no clock": effect(Urgent, "time_elapse", lambda m, at, then, step: then._replace(left=at.left)),
}


def flags(**changed: Any) -> Callable[[Any, Situation, Situation, Step], Situation]:
    return lambda machine, at, then, step: then._replace(flags=then.flags._replace(**changed))


# That an emit asks DoEmit changes nothing: whenever SetFlags is No, the flag has just been set, and it is true if any
# worker of the bolt is in state E.
LITERAL = {
    "time passes twice": guard(Literal, "time_elapse", without("CanTimeElapse")),
    "time waits for flags": guard(
        Literal,
        "time_elapse",
        lambda m, at, step, why: why or (None if at.flags.set_flags == "No" else "flags first"),
    ),
    "spouts do not ask DoTake": guard(Literal, "spout_emit", without("DoTake is true")),
    "spouts do not ask DoEmit": guard(Literal, "spout_emit", without("DoEmit is true")),
    "spouts do not ask SetFlags": guard(Literal, "spout_emit", without("SetFlags")),
    "a spout emits at its gap": guard(Literal, "spout_emit", at_the_gap),
    "a take does not ask DoTake": guard(Literal, "bolt_take", without("DoTake is false")),
    "a take does not ask SetFlags": guard(Literal, "bolt_take", without("SetFlags")),
    "DoTake is set with an empty queue": guard(Literal, "setDoTake_T", without("no worker is idle")),
    "DoTake is taken back always": guard(Literal, "setDoTake_F1", without("the queue is not empty")),
    "F2 for one worker": guard(Literal, "setDoTake_F2", without("it is for several")),
    "F2a for several": guard(Literal, "setDoTake_F2a", without("it is for one")),
    "DoEmit is set always": guard(Literal, "setDoEmit_T", without("no worker is in state E")),
    "DoEmit is taken back always": guard(Literal, "setDoEmit_F1a", without("it is for one")),
    "flags in any order": guard(Literal, "setDoEmit", without("SetFlags")),
    "a take does not let time pass": effect(Literal, "bolt_take", flags(can_time_elapse=False)),
    "a spout does not set flags": effect(Literal, "spout_emit", flags(set_flags="No")),
    "time does not set flags": effect(Literal, "time_elapse", flags(set_flags="No")),
    "time lets time pass": effect(Literal, "time_elapse", flags(can_time_elapse=True)),
    "DoTake sets nothing": effect(Literal, "setDoTake_T", flags(do_take=False)),
    "DoEmit sets nothing": effect(Literal, "setDoEmit_T", flags(do_emit=False)),
    "DoEmit first": effect(Literal, "setDoTake_F1", flags(set_flags="No")),
}


@pytest.mark.parametrize("name", URGENT)
def test_a_mutant_of_the_urgent_semantics_is_refuted(name: str) -> None:
    mutant: Any = URGENT[name]
    assert any(disagreement(lambda t, bolt: mutant(t), number, False) for number in range(40)), name


@pytest.mark.parametrize("name", LITERAL)
def test_a_mutant_of_the_literal_semantics_is_refuted(name: str) -> None:
    mutant: Any = LITERAL[name]
    assert any(disagreement(lambda t, bolt: mutant(t, bolt), number, True) for number in range(40)), name
