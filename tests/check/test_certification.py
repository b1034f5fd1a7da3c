"""A counterexample is shown only if the property is violated on the interpreter: a wrong encoding is noticed, and
named.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
import z3

from pellucid import Mod, apply, check, merge, pipeline
from pellucid.check import certify as second
from pellucid.check import decide
from pellucid.check import explicit as program
from pellucid.check.certify import certify, certify_space
from pellucid.check.explicit import explore
from pellucid.check.smt import encode as smt_encode
from pellucid.check.system import run
from pellucid.check.system.build import build_system
from pellucid.check.system.domains import domain_of
from pellucid.check.system.queues import Queue
from pellucid.check.system.run import SystemRun
from pellucid.check.system.variables import FALSE, Slot
from pellucid.check.trial_runs import straight, try_out
from pellucid.internal.expr import node as n
from pellucid.internal.expr.types import INT
from pellucid.internal.solve import certificate as solver
from pellucid.internal.solve import terms
from pellucid.internal.solve.certificate import Proof

same = pipeline(lambda x: x.map(lambda v: v, id="same"), x=int)
shown = pipeline(lambda x: x, x=int)
kept = pipeline(lambda x: x.filter(lambda v: v == v or v > 0, id="kept"), x=int)
large, larger = (pipeline(lambda x, k=k: x.map(lambda v: v > k), x=int) for k in (3, 2))
moves = check.Transitions([0], lambda s: [(s + 1) % 3], lambda s: {"x": s})
small = pipeline(lambda x: x.map(lambda v: v < 3), x=int)

QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "invariant": lambda ints: check.holds(same, "G (out -> out.value = x.value)", ints=ints),
    "history": lambda ints: check.holds(same, "G (x.value = 1 -> !X (out.value = 1 & x.value = 0))", ints=ints),
    "step": lambda ints: check.equivalent(same, shown, ints=ints),
    "sequence": lambda ints: check.equivalent(same, shown, how="sequence", ints=ints),
    "paper": lambda ints: check.equivalent(same, shown, how="paper", ints=ints),
    "implies": lambda ints: check.implies(large, larger, ints=ints),
    "monitor": lambda ints: check.monitor(moves, small),
}
SILENT: dict[str, Callable[[Any], Any]] = {
    "loop": lambda ints: check.holds(kept, "G (x -> F out)", ints=ints),
    "live": lambda ints: check.live(kept, ints=ints),
    "within": lambda ints: check.live(kept, within=1, ints=ints),
    "falls silent": lambda ints: check.equivalent(kept, shown, how="sequence", ints=ints),
}


def _wrong_map(self: SystemRun, node: Any, ins: Any, cap: Any) -> list[Slot]:
    """One more than it should be, or the opposite."""
    made = []
    for s in ins[0]:
        (value,) = self.call(node.fn, s.leaves, s.present, node.describe())
        made.append(Slot(s.present, (n.not_(value) if str(value.type) == "bool" else n.add(value, n.const(1)),)))
    return made


def _wrong_filter(self: SystemRun, node: Any, ins: Any, cap: Any) -> list[Slot]:
    """Nothing passes."""
    return [Slot(FALSE, s.leaves) for s in ins[0]]


@pytest.mark.parametrize("ints", [range(2), None], ids=["listed", "exact"])
@pytest.mark.parametrize("asked", QUESTIONS)
def test_a_wrong_value_is_noticed(asked: str, ints: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SystemRun.STEPS, "map", _wrong_map)
    verdict = QUESTIONS[asked](ints)
    assert verdict.unknown and "interpreter" in " ".join(verdict.notes), verdict
    assert verdict.counterexample is None


@pytest.mark.parametrize("ints", [range(2), None], ids=["listed", "exact"])
@pytest.mark.parametrize("asked", SILENT)
def test_a_wrong_silence_is_noticed(asked: str, ints: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SystemRun.STEPS, "filter", _wrong_filter)
    verdict = SILENT[asked](ints)
    assert verdict.unknown and "interpreter" in " ".join(verdict.notes), verdict


def test_what_is_violated_is_shown() -> None:
    assert check.holds(same, "G (out -> out.value != 1)").refuted
    assert check.holds(pipeline(lambda x: x.filter(lambda v: v > 0), x=int), "G (x -> F out)", ints=range(2)).refuted
    assert check.live(pipeline(lambda x: x.filter(x.cumulate(lambda n, v: n + 1, start=0) <= 2), x=int)).refuted
    join = pipeline(lambda x, y: x + y, x=int, y=int)
    assert check.holds(join, "!EF full", queue=2).refuted and check.holds(join, "G !overflow", queue=2).refuted


def test_beyond_64_bits_nothing_is_refuted_that_fails_first() -> None:
    square = pipeline(lambda x: x.map(lambda v: v * v), x=int)
    verdict = check.holds(square, "G (out -> out.value < 9223372036854775807)")
    assert verdict.unknown and "an integer leaves 64 bits" in verdict.notes[0], verdict


# No proof is believed that is wrong: each of these mutants made the checker say *proved*, and must not any more.

total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
of_three = pipeline(lambda x: x.window(3, total), x=int)
steps = pipeline(lambda x: x.trim(1) - x, x=int)
NEVER = "not believed"


def disbelieved(verdict: check.Verdict) -> bool:
    return verdict.unknown and any(NEVER in note for note in verdict.notes)


# ------------------------------------------------------------ what an honest proof says


def test_a_proof_by_smt_says_what_it_passed() -> None:
    verdict = check.holds(total, "G (out -> out.value >= 0)", ints=range(100), engine="smt")
    assert verdict.proved and verdict.details["certificate"].endswith(":state >= 0)")
    assert (
        "premises can be met; tried on" in verdict.details["checked"]
        and "of the interpreter" in verdict.details["checked"]
    )
    assert ("confirmed by cvc5" in verdict.details["checked"]) == (importlib.util.find_spec("cvc5") is not None)


def test_a_complete_search_says_what_it_passed() -> None:
    verdict = check.holds(of_three, "G (out -> out.value <= 9)", ints=range(4))
    assert verdict.proved and verdict.details["checked"].startswith("all 105 steps computed again in Python; tried on")
    assert "checked" in check.live(of_three).details and "checked" in check.holds(of_three, "G F out | F G !x").details


@pytest.mark.parametrize(
    "p",
    [
        total,
        of_three,
        steps,
        pipeline(lambda x: x.decimate(3) + x, x=int),
        pipeline(lambda x: x.filter(lambda v: 100 // v > 3), x=int),
        pipeline(lambda x, y: apply(lambda a, b: a / b, x.decimate(2), y), x=int, y=float),
        pipeline(lambda x: merge(x.window(2, steps), x.trim(2)), x=int),
        pipeline(lambda x: x.map(lambda s: s == "on"), x=str),
    ],
)
def test_systems_do_what_the_interpreter_does(p: Any) -> None:
    for strict in (False, True):
        trial = try_out(build_system(p.graph, domain_of(None), 2, strict=strict), seconds=0.05)
        assert trial.beside and trial.runs >= 40 and trial.problem == ""


def test_lost_events_are_lost_for_the_interpreter_too() -> None:
    system = build_system(
        steps.graph, domain_of(range(5)), 3, ("x", *[node.id for node in steps.graph.nodes if node.kind == "trim"])
    )
    assert try_out(system, seconds=0.05).problem == ""


def test_an_output_may_have_the_name_of_another_step() -> None:
    p = pipeline(lambda x: {"a": x.map(lambda v: v + 1, id="b"), "b": x.map(lambda v: v + 2, id="a")}, x=int)
    assert try_out(build_system(p.graph, domain_of(None)), seconds=0.02).problem == ""


# ------------------------------------------------------------ a wrong encoding


def test_a_wrong_plus_for_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(terms._INT, "add", lambda z3, a, b: z3.If(b > 90, a, a + b))  # type: ignore[index]
    verdict = check.holds(total, "G (out -> out.value <= 90)", ints={0, 91, 92}, engine="smt")
    assert disbelieved(verdict)


def test_a_wrong_plus_for_the_solver_where_the_property_holds_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(terms._INT, "add", lambda z3, a, b: a + b + 1)  # type: ignore[index]
    verdict = check.holds(total, "G (out -> out.value >= 0)", ints=range(8), engine="smt")
    assert disbelieved(verdict) and "for z3, and" in verdict.notes[0]


def test_a_wrong_plus_in_the_compiled_search(monkeypatch: pytest.MonkeyPatch) -> None:
    short = pipeline(lambda x: x.window(2, total), x=int)
    assert check.holds(short, "G (out -> out.value <= 3)", ints=range(4), engine="explicit").refuted
    monkeypatch.setitem(program._NUMBER, "add", program._NUMBER["bor"])
    assert disbelieved(check.holds(short, "G (out -> out.value <= 3)", ints=range(4), engine="explicit"))
    assert disbelieved(check.holds(short, "AG (out.value <= 3 | AX true)", ints=range(4), engine="explicit"))


def test_a_wrong_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep_the_last(self: Queue, when: n.Expr) -> None:  # takes an event, and forgets to move up the others
        self.length = n.ite(when, n.sub(self.length, n.const(1)), self.length)

    late = pipeline(lambda x: x.filter(x.trim(1) >= 0), x=int)
    monkeypatch.setattr(Queue, "take", keep_the_last)
    for engine in ("explicit", "smt"):
        verdict = check.holds(late, "G (out.value == 1 -> O x.value == 1)", ints=range(2), engine=engine)
        assert disbelieved(verdict) and any("in the interpreter" in note for note in verdict.notes)


def test_a_wrong_window(monkeypatch: pytest.MonkeyPatch) -> None:
    right = run.SystemRun.window_value

    def without_the_first(self: run.SystemRun, node: Any, events: Any, closes: Any) -> Any:
        return right(self, node, events[1:], closes)

    monkeypatch.setattr(run.SystemRun, "window_value", without_the_first)
    for engine in ("explicit", "smt"):
        verdict = check.holds(of_three, "G (out -> out.value <= 6)", ints=range(4), engine=engine)
        assert disbelieved(verdict) and "in the interpreter" in verdict.notes[0]


def test_a_wrong_count(monkeypatch: pytest.MonkeyPatch) -> None:
    right = run.SystemRun.do_step
    monkeypatch.setitem(
        run.SystemRun.STEPS,
        "decimate",
        lambda self, node, ins, lanes: right(self, dataclasses.replace(node, k=node.k + 1), ins, lanes),
    )
    p = pipeline(lambda x: x.decimate(2), x=int)
    assert disbelieved(check.holds(p, "G (out -> X !out)"))


# ------------------------------------------------------------ a wrong solver


@pytest.mark.parametrize("formula", ["G (out -> out.value <= 5)", "G (out -> X (!out | out.value < 9))"])
def test_a_solver_that_always_says_unsat(monkeypatch: pytest.MonkeyPatch, formula: str) -> None:
    monkeypatch.setattr(z3.Solver, "check", lambda self, *assumptions: z3.unsat)
    assert disbelieved(check.holds(total, formula, ints=range(8), engine="smt", timeout=6))
    assert disbelieved(check.holds(total, formula, engine="smt", timeout=6))


def test_premises_that_contradict_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smt_encode.Encoding, "allowed", lambda self, inputs=None: [z3.BoolVal(False)])
    assert disbelieved(check.holds(total, "G (out -> out.value <= 5)", ints=range(8), engine="smt", timeout=6))
    # also where the property holds, and no run can show that the proof was none
    verdict = check.holds(total, "G (out -> out.value >= 0)", ints=range(8), engine="smt", timeout=6)
    assert disbelieved(verdict) and "contradict each other" in verdict.notes[0]


def test_a_proof_that_another_solver_contradicts(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cvc5")
    s = build_system(total.graph, domain_of(range(3)))
    far = n.lt(n.const(10**6), n.var(1, INT))  # no short run gets there
    certified = certify(s, far, Proof(0, (n.le(n.var(1, INT), n.const(10**6)),)))
    assert not certified.passed and "cvc5" in certified.notes[0]
    monkeypatch.setattr(second, "has_cvc5", lambda: False)
    assert certify(s, far, Proof(0, (n.le(n.var(1, INT), n.const(10**6)),))).words.endswith("(cvc5 is not installed)")


def test_a_second_solver_that_does_not_decide_is_no_confirmation(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cvc5")
    monkeypatch.setattr(solver, "ask_cvc5", lambda text, seconds: None)
    verdict = check.holds(total, "G (out -> out.value >= 0)", ints=range(8), engine="smt")
    assert verdict.proved and any("did not confirm" in note for note in verdict.notes)


# ------------------------------------------------------------ a wrong search


@pytest.mark.parametrize(
    "spoil",
    [
        lambda space: space.successor.__setitem__((1, 1), 0),
        lambda space: space.seen.__setitem__((1, 1), 1 - space.seen[1, 1]),
    ],
)
def test_a_search_that_recorded_something_else(spoil: Callable[[Any], None]) -> None:
    s = build_system(of_three.graph, domain_of(range(2)))
    space = explore(s, [s.present("out")])
    assert certify_space(space, [s.present("out")]).passed
    spoil(space)
    assert not certify_space(space, [s.present("out")]).passed


def test_a_search_that_stopped_too_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    real = decide.explore

    def some(*args: Any, **more: Any) -> Any:
        space = real(*args, **more)
        return dataclasses.replace(
            space, expanded=space.expanded - 1, successor=space.successor[:-1], seen=space.seen[:-1]
        )

    monkeypatch.setattr(decide, "explore", some)
    assert disbelieved(check.holds(of_three, "G (out -> out.value <= 9)", ints=range(4)))


def test_integers_modulo_n_are_tried_on_the_system_alone() -> None:
    assert "runs of the system" in check.live(total, ints=Mod(3)).details["checked"]


# ------------------------------------------------------------ the evaluator that is trusted


def test_straight_is_what_evaluate_says() -> None:
    from pellucid.internal.expr.evaluate import evaluate

    s = build_system(
        pipeline(lambda x, y: apply(lambda a, b: (a // 3 - b * 2) % 7, x.decimate(2), y), x=int, y=int).graph,
        domain_of(None),
    )
    roots = [*s.next, *(e for _, slots in s.streams.values() for slot in slots for e in (slot.present, *slot.leaves))]
    compute = straight(roots)
    for leaves, after in try_out(s, seconds=0.02).points:
        assert compute(leaves)[: len(s.next)] == after == tuple(evaluate(e, leaves) for e in s.next)
