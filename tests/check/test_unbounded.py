"""Queues have no bound: no verdict depends on one being full, unless the formula speaks of queues."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from pellucid import Mod, Stream, apply, check, merge, pipeline
from pellucid.check.answer import counted
from pellucid.check.decide import Options, decide
from pellucid.check.formula import Atom, Formula, evaluate_lasso, resolve
from pellucid.check.formula.nodes import Ref
from pellucid.check.formula.parse import parse
from pellucid.check.history import History, linear
from pellucid.check.system.build import build_system
from pellucid.check.system.domains import domain_of
from pellucid.check.system.queues import Room
from pellucid.check.unbounded import Systems, decide_about, speaks_of_queues
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr.evaluate import evaluate
from tests.seeds import seeds
from tests.strategies import Seeded

late = pipeline(lambda x: apply(lambda a, b: a + b, x.trim(5, id="late"), x, id="sum"), x=int)  # five events wait
sums = pipeline(lambda a, b: apply(lambda u, v: u + v, a, b, id="sum"), a=int, b=int)  # any number may wait
three = pipeline(lambda a, b: a.filter(a.cumulate(lambda n, _: n + 1, start=0) <= 3) + b, a=int, b=int)


def ask(p: Any, formula: str, ints: Any = None, queue: Any = 3) -> Any:
    """The bare answer, without notes on 64 bits."""
    return decide_about(Systems(p.graph, domain_of(ints), queue), parse(formula), Options())


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


# AG EF p where states cannot be listed: strings, records, floats, sums, hysteresis, cooldowns.


class Log(NamedTuple):
    user: str
    level: str
    took: int


def crossing(high, v):
    now = (v > 60) if high else (v > 80)
    return now, ([v] if now and not high else [])


def cooling(left, v):
    if left > 0:
        return left - 1, []
    return (3, [v]) if v > 80 else (0, [])


errors = pipeline(lambda x: x.filter(lambda e: e.level == "error"), x=Log)
slow = pipeline(lambda x: x.filter(lambda e: (e.level == "error") & (e.took > 80)), x=Log)
latched = pipeline(
    lambda x: x.filter(x.cumulate(lambda s, e: s | (e.level == "stop"), start=False).map(lambda b: not b)), x=Log
)
impossible = pipeline(lambda x: x.filter(lambda e: e.level == "error").filter(lambda e: e.level == "warning"), x=Log)
alarm = pipeline(lambda x: x.task(crossing, False), x=int)
cooled = pipeline(lambda x: x.task(cooling, 0), x=int)
above = pipeline(lambda x: x.filter(lambda v: v > 2.5), x=float)
saved = pipeline(lambda x: x.cumulate(lambda s, v: s + v, start=0).filter(lambda s: s > 100), x=int)
highest = pipeline(lambda x: x.cumulate(lambda s, v: max(s, v), start=0).filter(lambda s: s < 100), x=int)
reset = pipeline(lambda x: x.cumulate(lambda s, v: 0 if v < 0 else s + v, start=0), x=int)


@pytest.mark.parametrize(
    ("p", "formula", "status"),
    [
        (errors, "AG EF out", "proved"),
        (slow, "AG EF out", "proved"),
        (latched, "AG EF out", "refuted"),
        (impossible, "AG EF out", "refuted"),
        (alarm, "AG EF out", "proved"),
        (cooled, "AG EF out", "proved"),
        (above, "AG EF out", "proved"),
        (saved, "AG EF out", "proved"),
        (highest, "AG EF out", "refuted"),
        (reset, "AG EF out.value = 0", "proved"),
        (reset, "AG EF out.value > 1000", "proved"),
        (reset, "AG EF out.value < 0", "refuted"),
    ],
)
def test_decided(p, formula, status):
    verdict = check.holds(p, formula, warn=False)
    assert verdict.status == status, verdict
    if (
        verdict.counterexample is not None and formula == "AG EF out"
    ):  # what is said to be over is over, as far as one can try
        run = Interpreter(p.graph)
        for push in verdict.counterexample.inputs:
            run.push(push)
        tries = (
            [Log("", level, 99) for level in ("error", "warning", "stop", "")]
            if p.graph.nodes[0].type.width > 1
            else [0, 99, -5, 100]
        )
        assert not any(run.push({"x": event})["out"] for event in tries)


# Formulas as invariants with history: the same verdicts as the automaton, shortest runs, exact integers.

P, Q = Atom(Ref("p")), Atom(Ref("q"))


@pipeline
def free(p: Stream[bool], q: Stream[bool]) -> Stream[bool]:
    return p.filter(lambda v: v)


def formula(c: Seeded, atoms: list[Formula], depth: int, ops: str) -> Formula:
    if depth == 0 or c.of([True, False, False, False]):
        return c.of(atoms)  # type: ignore[no-any-return]
    op = c.of(ops.split())
    return Formula(
        op,
        tuple(
            formula(c, atoms, depth - 1, ops)
            for _ in range(2 if op in ("&", "|", "->", "<->", "S", "W", "R", "U") else 1)
        ),
    )


def judged(f: Formula, trace: list[set[Formula]]) -> list[bool]:
    """Whether ``f`` was seen to be broken in each push of a trace, by the bits of a history."""
    system = build_system(free.graph, domain_of(None))
    history = History(system)
    names = {P: system.present("p"), Q: system.present("q")}
    placed = _placed(f, names)
    extended, (good,) = history.cells.done([history.always(placed)])
    state, out = [v.start for v in extended.state], []
    for label in trace:
        leaves = [*state, P in label, False, Q in label, False]
        out.append(bool(evaluate(good, leaves)))
        state = [evaluate(e, leaves) for e in extended.next]
    return out


def _placed(f: Formula, names: dict[Formula, Any]) -> Formula:
    if f.op == "atom":
        return Atom(names[f], str(f))
    return Formula(f.op, tuple(_placed(a, names) for a in f.args))


def ahead(f: Formula) -> int:
    inner = max((ahead(a) for a in f.args), default=0)
    return inner + 1 if f.op == "X" else max(0, inner - 1) if f.op == "Y" else inner


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(120))
def test_a_history_says_what_the_formula_said(seed: int) -> None:
    c = Seeded(seed)
    f = formula(c, [P, Q], 3, "! & | -> <-> X X Y O H S")
    trace = [{a for a in (P, Q) if c.of([True, False])} for _ in range(7)]
    # The truth of f in step i is that of X…X f in step 0; the last step repeats, and none that is judged looks so far.
    truth = []
    for i in range(7 - ahead(f)):
        at = f
        for _ in range(i):
            at = Formula("X", (at,))
        truth.append(evaluate_lasso(at, trace, 6))
    assert judged(f, trace) == [True] * ahead(f) + truth, str(f)


def test_branching_that_is_linear() -> None:
    told = {
        text: linear(parse(text))
        for text in ("AG (p -> AX q)", "AG (p -> AG q)", "A [p U q]", "!EF (p & EX q)", "AX p & AX q")
    }
    assert {text: str(f) for text, f in told.items()} == {
        "AG (p -> AX q)": "G (!p | X q)",
        "AG (p -> AG q)": "G (!p | G q)",
        "A [p U q]": "p U q",
        "!EF (p & EX q)": "G (!p | X !q)",
        "AX p & AX q": "X p & X q",
    }
    for text in ("AG (AX p | AX q)", "AG EF p", "AF AG p", "AG (p -> EX q)", "A [AX p U q]"):
        assert linear(parse(text)) is None, text


@dataclass(frozen=True)
class Reading:
    sensor: str
    degrees: int


@pipeline
def alarms(r: Stream[Reading]) -> Stream[Reading]:
    def cool(left: int, e: Reading) -> tuple[int, list[Reading]]:
        if left > 0:
            return left - 1, []
        return (2, [e]) if e.degrees > 80 else (0, [])

    return r.task(cool, initial=0)


@pytest.mark.parametrize(
    ("formula", "pushes"),
    [
        ("G (out -> X !out)", None),
        ("G (out -> X (!out & X !out))", None),
        ("G (out -> X X X !out)", 4),
        ("G (r.degrees > 80 -> out | X out)", 3),  # two that the pause swallows, after the first
        ("G (out -> r.degrees > 79 & X !out)", None),
        ("G (out -> r.degrees > 85 & X !out)", 1),  # seen at once: no need to wait for the next push
        ("G (out -> O r.degrees > 80)", None),
        ("G (out -> Y O out)", 1),
        ("G (out.degrees > 90 -> H r.degrees != 85)", 2),  # silence before it is no reading that differs
        ("G (Y out -> !out)", None),
        ("!out W r.degrees > 80", None),
        ("AG (out -> AX (!out & AX !out))", None),
        ("AG (out -> AX AX AX !out)", 4),
        ('G (out.sensor = "cellar" -> X !out.sensor = "cellar")', None),
        ("X X !out", 3),
        ("G (r.degrees > 90 -> G !out.degrees = 81)", 4),  # the pause lies between
    ],
)
def test_over_exact_integers_and_strings(formula: str, pushes: int | None) -> None:
    verdict = check.holds(alarms, formula)
    assert verdict.status == ("proved" if pushes is None else "refuted"), verdict
    if pushes is not None:
        assert len(verdict.counterexample.inputs) == pushes, verdict  # type: ignore[union-attr]


def test_within_over_thresholds() -> None:
    hot = pipeline(lambda x: x.filter(lambda v: v > 80), x=int)
    assert check.live(hot, within=2).counterexample.inputs == [{"x": 0}, {"x": 0}]  # type: ignore[union-attr]
    clipped = pipeline(lambda x: x.map(lambda v: v if v < 9 else 9).decimate(2), x=int)
    assert check.holds(clipped, "G (x & X x -> out.value < 10 | X out.value < 10)").proved


# Joins whose queues have no bound: with something assumed of what comes in, and by key.

sums_joins = pipeline(lambda a, b: apply(lambda u, v: u + v, a, b), a=int, b=int)
share = pipeline(lambda part, whole: apply(lambda p, w: 100 * p // w, part, whole), part=int, whole=int)
POSITIVE = "(a -> a.value > 0) & (b -> b.value > 0)"


def test_what_is_assumed_of_events_holds_of_those_that_wait() -> None:
    assert check.holds(sums_joins, "G (out -> out.value > 1)", assume=POSITIVE, warn=False).proved
    wrong = check.holds(sums_joins, "G (out -> out.value > 2)", assume=POSITIVE, warn=False)
    assert wrong.refuted and wrong.counterexample is not None
    assert all(value > 0 for push in wrong.counterexample.inputs for value in push.values())


def test_what_is_assumed_of_one_source_is_not_assumed_of_the_other() -> None:
    assert check.holds(sums_joins, "G (out -> out.value > 0)", assume="a.value > 0", warn=False).refuted
    assert check.holds(
        sums_joins, "G (out -> out.value > 0)", assume="(a & b -> a.value > 0) & b.value > 0", warn=False
    ).refuted  # a alone may be anything


def test_what_is_assumed_of_two_pushes_is_not_of_one() -> None:
    assert not check.holds(
        sums_joins,
        "G (out -> out.value >= 0)",
        assume="a.value >= Y a.value & b.value >= Y b.value",
        warn=False,
        timeout=4,
    ).proved


def test_a_share_never_fails_and_is_at_most_a_hundred() -> None:
    within = "part.value >= 0 & part.value <= 1000 & whole.value >= 1000"
    assert check.holds(share, "G (out -> out.value <= 100)", assume=within, warn=False).proved
    assert check.holds(share, "G !failed", assume="part.value >= 0 & part.value <= 1000", warn=False).refuted


class Bill(NamedTuple):
    """Something due."""

    id: int
    due: int


settled = pipeline(
    lambda i, p: apply(lambda a, b: b.due - a.due, i.key_by(lambda e: e.id), p.key_by(lambda e: e.id)), i=Bill, p=Bill
)


@pytest.mark.parametrize(
    ("formula", "status"),
    [
        ("G (i & p & i.value.id = p.value.id -> out)", "proved"),
        ("G (i & p -> out)", "refuted"),
        ("AG EF out", "proved"),
    ],
)
def test_a_join_by_key(formula: str, status: str) -> None:
    assert check.holds(settled, formula, warn=False).status == status


def test_no_bound_is_enough_for_a_join_by_key() -> None:
    verdict = check.buffers(settled)
    assert verdict.refuted and verdict.counterexample is not None and verdict.counterexample.loop is not None


class Leader(enum.Enum):
    """Whether there is one."""

    LOST = 0
    BACK = 1


def test_a_way_may_need_one_source_alone() -> None:
    def see(missed: int, beat: bool) -> tuple[int, list[Leader]]:
        if beat:
            return 0, [Leader.BACK] if missed >= 3 else []
        return missed + 1, [Leader.LOST] if missed == 2 else []

    def body(beat: Any, tick: Any) -> Any:
        return merge(beat.map(lambda n: True), tick.map(lambda t: False)).task(see, 0)

    assert check.holds(pipeline(body, beat=int, tick=bool), "AG EF any(out.value = BACK)", warn=False).proved


def test_an_assumption_about_a_join_by_key_of_streams_that_remember() -> None:
    pairs = pipeline(
        lambda a, b: apply(
            lambda u, v: u + v, a.key_by(lambda v: v).cumulate(lambda t, v: max(t, v), start=0), b.key_by(lambda v: v)
        ),
        a=int,
        b=int,
    )
    assert check.holds(pairs, "G (a & b -> out)", assume="a.value >= 0 & b.value >= 0", warn=False).refuted
    assert check.holds(pairs, "G (out -> a | b)", assume="a.value >= 0 & b.value >= 0", warn=False).proved
