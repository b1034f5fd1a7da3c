"""Queues have no bound: no verdict depends on one being full, unless the formula speaks of queues."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid import Mod, apply, check, pipeline
from pellucid.check.answer import counted
from pellucid.check.decide import Options, decide
from pellucid.check.endless.unbounded import decide_about, speaks_of_queues
from pellucid.check.formula import resolve
from pellucid.check.formula.parse import parse
from pellucid.check.system.build import build_system
from pellucid.check.system.domains import domain_of
from pellucid.check.system.queues import Room

late = pipeline(lambda x: apply(lambda a, b: a + b, x.trim(5, id="late"), x, id="sum"), x=int)  # five events wait
sums = pipeline(lambda a, b: apply(lambda u, v: u + v, a, b, id="sum"), a=int, b=int)  # any number may wait
three = pipeline(lambda a, b: a.filter(a.cumulate(lambda n, _: n + 1, start=0) <= 3) + b, a=int, b=int)


def ask(p: Any, formula: str, ints: Any = None, queue: Any = 3) -> Any:
    """The bare answer, without notes on 64 bits."""
    return decide_about(p.graph, parse(formula), domain_of(ints), queue, (), Options())


@pytest.mark.parametrize("ints", [None, Mod(2), range(2)], ids=str)
@pytest.mark.parametrize("queue", [1, 3, {"sum.1": 2}], ids=str)
def test_what_comes_after_a_queue_is_full_counts(ints: Any, queue: Any) -> None:
    refuted = ask(late, "G !out", ints, queue)
    assert refuted.status == "refuted" and len(refuted.pushes) == 6
    assert ask(late, "AG EF out", ints, queue).status == "proved"


def test_no_step_is_dead_because_a_queue_is_short() -> None:
    assert check.dead_paths(late).details["dead"] == {}
    assert check.dead_paths(
        pipeline(lambda x: apply(lambda a, b: a + b, x.trim(5).filter(lambda v: v * v < 0, id="none"), x), x=int)
    ).details["dead"]


@pytest.mark.parametrize("ints", [None, Mod(2), range(3)], ids=str)
@pytest.mark.parametrize("queue", [1, 8])
def test_a_join_of_two_sources_is_live(ints: Any, queue: int) -> None:
    verdict = ask(sums, "AG EF out", ints, queue)
    assert verdict.status == "proved" and "queues of any length" in verdict.notes[0]


@pytest.mark.parametrize(
    "p",
    [
        pipeline(lambda x, y: x.trim(1) - y, x=int, y=int),
        pipeline(lambda x: x.decimate(3) + x, x=int),  # its second queue grows for ever
        pipeline(lambda a, b: a.filter(b), a=int, b=bool),  # what was refused has to go first, however much it is
        pipeline(lambda a, b: (a + b).filter(lambda v: v > 80), a=int, b=int),
        pipeline(lambda a, b: a.filter(lambda v: v > 80) + b, a=int, b=int),
    ],
    ids=["trim", "decimate", "filter", "threshold after", "threshold before"],
)
def test_what_can_always_be_done_however_long_the_queues_are(p: Any) -> None:
    assert ask(p, "AG EF out").status == "proved"


def test_what_can_not_be_done_any_more_is_no_matter_of_queues() -> None:
    dead = ask(three, "AG EF out")  # three events of a, and no more
    assert dead.status == "refuted" and "never holds again" in dead.notes[0]
    run = check.holds_on(
        three, "G !out", *zip(*[(push.get("a", 0), push.get("b", 0)) for push in dead.pushes if push], strict=True)
    )
    assert run.refuted or not dead.pushes
    never = pipeline(lambda a, b: a.filter(lambda v: v > 80 and v < 10) + b, a=int, b=int)
    assert ask(never, "AG EF out").status == "refuted"


@pytest.mark.parametrize("ints", [None, range(2)], ids=str)
def test_what_all_runs_do_is_proved_of_queues_of_any_length(ints: Any) -> None:
    assert ask(sums, "G (out -> a | b)", ints).status == "proved"
    assert ask(sums, "(G F a) & (G F b) -> G F out", ints).status == "proved"
    assert ask(sums, "G (a -> F out)", ints).status == "refuted"


def test_values_that_waited_are_those_that_came() -> None:
    positive = pipeline(lambda a, b: a.filter(lambda v: v > 0) + b.map(lambda v: abs(v)), a=int, b=int)
    assert ask(positive, "G (out -> out.value > 0)").status == "proved"
    assert ask(positive, "G (out -> out.value > 1)").status == "refuted"
    assert ask(sums, "G (out -> out.value <= 2)", range(2)).status == "proved"
    assert ask(sums, "G (out -> out.value <= 1)", range(2)).status == "refuted"


def test_a_bound_is_part_of_a_question_that_speaks_of_queues() -> None:
    assert speaks_of_queues(parse("G (queue(sum.1).length <= 2 | out)")) and not speaks_of_queues(
        parse("G (out -> failed)")
    )
    assert check.holds(late, "!EF overflow", queue=5).proved and check.holds(late, "!EF overflow", queue=4).refuted
    assert check.holds(late, "!EF full", queue=6).proved and check.holds(late, "!EF full", queue=5).refuted
    assert check.holds(late, "EF out", queue=1).proved
    assert check.holds(late, "EF (out & !overflow)", queue=1).refuted  # here the bound is asked about


def test_where_nothing_is_known_the_answer_is_unknown() -> None:
    """From the second event of a on, out must have its value: which one waits a thousand pushes later is not known."""
    first = pipeline(lambda a, b: apply(lambda u, v: u, a.cumulate(lambda n, _: n + 1, start=0), b), a=int, b=int)
    answer = ask(first, "G (out & out.value = 40 -> a | O out)")
    assert answer.status != "refuted"
    if answer.status == "unknown":
        assert "queues without a bound" in answer.notes[0]


def test_unknown_counts_for_and_against() -> None:
    """At a bound of 1 a join says nothing about what follows a full queue: neither reading is wrong."""
    system = build_system(sums.graph, domain_of(None), Room(1))
    for text, against, favour in (
        ("AG EF out", "refuted", "proved"),
        ("G !out", "refuted", "refuted"),
        ("EF out", "proved", "proved"),
        ("G (out -> a | b)", "refuted", "proved"),
    ):
        f = resolve(parse(text), system)
        assert decide(system, counted(f, system.overflow, for_it=False), Options()).status == against, text
        assert decide(system, counted(f, system.overflow, for_it=True), Options()).status == favour, text


def test_steps_that_wait_for_the_same_streams_hold_the_same_events() -> None:
    swapped = pipeline(lambda a, b: apply(lambda v, u: u + v, b, a), a=int, b=int)
    assert check.equivalent(sums, swapped).proved
    assert check.equivalent(sums, pipeline(lambda a, b: apply(lambda v, u: u - v, b, a), a=int, b=int)).refuted


@pytest.mark.long
def test_steps_that_wait_for_the_same_streams_behind_others_hold_the_same_events() -> None:
    less, more = (pipeline(lambda a, b, k=k: a.trim(1) - b * k, a=int, b=int) for k in (1, 2))
    assert check.equivalent(less, pipeline(lambda a, b: apply(lambda v, u: u - v, b, a.trim(1)), a=int, b=int)).proved
    assert check.equivalent(less, more).refuted


def test_a_monitor_gets_the_room_that_it_needs() -> None:
    counter = check.Transitions([0], lambda s: [(s + 1) % 12], lambda s: {"x": s})
    slow = pipeline(lambda x: apply(lambda new, old: new - old != 5, x.trim(5), x), x=int)
    assert check.monitor(counter, slow).refuted
    assert check.monitor(counter, pipeline(lambda x: apply(lambda new, old: new != old, x.trim(5), x), x=int)).proved
    endless = check.monitor(
        counter, pipeline(lambda x: apply(lambda new, old: new == old or old >= 0, x.decimate(3), x), x=int)
    )
    assert endless.unknown and "needs more than 32 events" in endless.notes[0]


def test_a_system_with_deep_queues_can_do_all_that_the_interpreter_does() -> None:
    """Lengths are exact; the first events are those that wait, as long as no more than the bound ever did."""
    from pellucid.check.smt.encode import input_leaves
    from pellucid.internal.engine.interpreter import Interpreter
    from pellucid.internal.expr.evaluate import evaluate

    p = pipeline(lambda a, b: apply(lambda u, v: u - v, a.filter(lambda v: v > 1), b.trim(1), id="join"), a=int, b=int)
    runs = [
        [{"a": 5}, {"b": 1}, {"a": 2, "b": 3}, {"a": 1}],
        [{"a": 3}] * 6 + [{"b": 7}] * 9,
        [{"b": i} for i in range(5)] + [{"a": 9}] * 6,
    ]
    for beyond in ("deep", "many"):
        system = build_system(p.graph, domain_of(None), Room(2, beyond))
        for run in runs:
            state, real, longest = [v.start for v in system.state], Interpreter(p.graph), 0
            for push in run:
                leaves = [*state, *input_leaves(system, push)]
                out = real.push(push)["out"]
                (slot,) = system.streams["out"][1]
                waiting = {id: len(events) for id, events in real.queues.items()}
                longest = max(longest, *waiting.values())
                if beyond == "deep":
                    assert bool(evaluate(slot.present, leaves)) == bool(out)
                    assert {id: evaluate(e, leaves) for id, e in system.lengths.items()} == waiting
                if longest <= 2 and out:
                    assert evaluate(slot.leaves[0], leaves) == out[0]
                state = [evaluate(e, leaves) for e in system.next]
