"""What the paper says of its pipelines (Model Checking of Stream Processing Pipelines, 2021, sections 4 and 5), and the
questions with a name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from pellucid import Mod, UsageError, apply, check, pipeline, silent

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "bench")]

import stream_pipelines  # noqa: E402
import stream_pipelines_appendix as appendix  # noqa: E402
import stream_pipelines_figures as figures  # noqa: E402


def test_the_grid_has_162_problems_and_two_engines_agree_on_each() -> None:
    grid = stream_pipelines.grid()
    assert len(grid) == 162
    verdicts = [stream_pipelines.ask(p, Mod(p.n)).status for p in grid]
    assert (verdicts.count("proved"), verdicts.count("refuted")) == (127, 35)
    # The second engines take longer: those of every ninth problem here, all in `bench/stream_pipelines.py`.
    for p, status in list(zip(grid, verdicts, strict=True))[::9]:
        assert stream_pipelines.second(p)[1] == status, p


@pytest.mark.parametrize("ints", [Mod(4), pytest.param(None, marks=pytest.mark.long)], ids=["mod 4", "exact"])
def test_5a_and_5b_are_sequence_but_not_step_equivalent(ints: Mod | None) -> None:
    step = check.equivalent(figures.figure_5a, figures.figure_5b, ints=ints)
    assert step.refuted
    assert step.counterexample is not None and len(step.counterexample.steps) == 1
    assert check.equivalent(figures.figure_5a, figures.figure_5b, how="sequence", ints=ints, timeout=120).proved


# Over exact integers sequences are compared in every run by tests/check/compare/test_sequence.py.
@pytest.mark.parametrize("ints", [Mod(4), pytest.param(None, marks=pytest.mark.long)], ids=["mod 4", "exact"])
def test_5a_flipped_is_5c_as_a_sequence(ints: Mod | None) -> None:
    assert check.equivalent(figures.figure_5a_flipped, figures.figure_5c, how="sequence", ints=ints, timeout=120).proved
    assert check.equivalent(figures.figure_5a_flipped, figures.figure_5c, ints=ints).refuted


@pytest.mark.parametrize("ints", [Mod(4), None], ids=["mod 4", "exact"])
def test_5a_as_it_is_drawn_is_5c_and_not_5b(ints: Mod | None) -> None:
    """The text says that it is 5b, and 5c with its condition flipped."""
    drawn, flipped = figures.figure_5a_drawn, figures.figure_5a_drawn_flipped
    assert check.equivalent(drawn, figures.figure_5b, how="sequence", ints=ints).refuted
    assert check.equivalent(drawn, figures.figure_5c, how="sequence", ints=ints).proved
    assert check.equivalent(flipped, figures.figure_5b, how="sequence", ints=ints).refuted
    assert check.equivalent(flipped, figures.figure_5c, how="sequence", ints=ints).refuted


def test_a_full_queue_is_one_more_than_is_needed() -> None:
    """Section 4.2 says Q >= 1 for 5a and Q >= 0 for 5b: that is what is needed (no overflow).  Its own formula, that no
    queue is ever full, takes one more, as it says itself ("can be bounded to Q - 1")."""
    for p, needed in ((figures.figure_5a, 1), (figures.figure_5b, 0)):
        for queue in (0, 1, 2):
            overflow = check.holds(p, "!EF overflow", queue=queue)
            full = check.holds(p, "!EF full", queue=queue)
            assert (overflow.proved, full.proved) == (queue >= needed, queue > needed), (p.name, queue)


def test_a_wrong_simplification_is_refuted() -> None:
    wrong = check.equivalent(figures.figure_5a_flipped, figures.figure_5b, how="sequence")
    assert wrong.refuted and wrong.counterexample is not None
    assert wrong.counterexample.steps[-1].streams["1:out"] != wrong.counterexample.steps[-1].streams["2:out"]


def test_the_least_bounds() -> None:
    assert sorted(check.buffers(figures.figure_5a, ints=Mod(4)).details["bounds"].values()) == [0, 1]
    assert sorted(check.buffers(figures.figure_5a).details["bounds"].values()) == [0, 1]
    assert list(check.buffers(figures.figure_5b).details["bounds"].values()) == [0, 0]


def test_figure_2a_has_no_bound_and_shows_the_loop() -> None:
    verdict = check.buffers(figures.figure_2a)
    example = verdict.counterexample
    assert verdict.refuted and example is not None and example.loop is not None
    assert list(verdict.details["grows"].values()) == [2]  # two events more with every three pushes
    assert len(example.steps) - example.loop == 3


def test_modulo_n_turns_the_verdict_round_and_the_tool_says_so() -> None:
    modulo = check.holds(appendix.smaller_than_3, "AG EF out", ints=Mod(4))
    assert modulo.proved
    assert modulo.notes == ("over exact integers it is refuted: arithmetic modulo N turned the verdict round",)
    exact = check.holds(appendix.smaller_than_3, "AG EF out")
    assert exact.refuted and exact.counterexample is not None and len(exact.counterexample.steps) == 3


NEGATED = [
    ("AG EF out", lambda a, b: a + b),
    ("AG EF out & AG (out -> out.value <= 1)", lambda a, b: apply(lambda u, v: 1 if u == v else 0, a, b)),
    ("G (out -> out.value >= 0)", lambda a, b: apply(lambda u, v: abs(u) + abs(v), a, b)),
]


@pytest.mark.parametrize("ints", [None, Mod(2)])
@pytest.mark.parametrize(("formula", "body"), NEGATED)
def test_the_negation_of_what_is_proved_is_refuted(formula: str, body: Any, ints: Any) -> None:
    """A formula is proved where it holds wherever a run may begin: there its negation does not hold."""
    p = pipeline(body, a=int, b=int)
    assert all(check.holds(p, part, ints=ints, warn=False).proved for part in formula.split(" & "))
    opposites = [f"!({formula})"] + (["EF AG !out"] if formula == "AG EF out" else [])
    for opposite in opposites:
        verdict = check.holds(p, opposite, ints=ints, warn=False)
        assert verdict.refuted, opposite


def test_a_formula_and_its_negation_may_both_be_refuted() -> None:
    two = pipeline(lambda a, b: a + b, a=int, b=int)
    assert [check.holds(two, f, warn=False).status for f in ("F out", "!(F out)")] == ["refuted", "refuted"]


def test_liveness_over_exact_integers() -> None:
    assert check.live(appendix.sum_of_odds).proved
    assert check.live(appendix.window_sum).proved
    assert check.live(appendix.sum_of_odds, within=3, ints=Mod(4)).proved


def test_figure_2b_monitors_every_run_of_a_system() -> None:
    """b is the number of times that a was true in the three previous states: kept right, and wrong by one state."""

    def system(memory: int) -> check.Transitions:
        def after(state: tuple[tuple[bool, ...], bool, int]) -> list[tuple[tuple[bool, ...], bool, int]]:
            seen = (*state[0], state[1])[-memory:]
            return [(seen, a, sum(seen)) for a in (False, True)]

        return check.Transitions([((), False, 0), ((), True, 0)], after, lambda s: {"a": s[1], "b": s[2]})

    assert check.monitor(system(3), figures.figure_2b_3).proved
    wrong = check.monitor(system(2), figures.figure_2b_3)
    assert wrong.refuted and wrong.counterexample is not None
    assert wrong.counterexample.steps[-1].streams["out"] == [False]
    assert len(wrong.counterexample.steps) == 4


def test_dead_paths() -> None:
    p = pipeline(
        lambda x: x.filter(lambda v: v > 3, id="big").filter(lambda v: v < 2, id="none").map(lambda v: v, id="same"),
        x=int,
    )
    dead = check.dead_paths(p).details["dead"]
    assert dead["none"] == dead["same"] == "it never carries an event"
    assert check.dead_paths(appendix.sum_of_odds, ints=Mod(4)).proved


def test_a_lossy_pipe() -> None:
    p = pipeline(lambda x: x.map(lambda v: v, id="copy") == x, x=int)
    assert check.holds(p, "G (out -> out.value = true)", ints=range(2)).proved
    lost = check.holds(p, "G (out -> out.value = true)", ints=range(2), lossy=["copy"])
    assert lost.refuted and lost.counterexample is not None
    assert [dict(s.inputs) for s in lost.counterexample.steps] == [{"x": 0, "lost.copy": True}, {"x": 1}]
    with pytest.raises(UsageError, match="has no stream 'cpy' to lose events"):
        check.holds(p, "G out", lossy=["cpy"])


def test_an_opaque_function_is_called_on_everything() -> None:
    import random

    rolls = pipeline(lambda x: x.map(lambda v: v + random.randint(0, 0), to=int, id="roll"), x=int)
    assert check.holds(rolls, "G (out -> out.value = in.value)", ints=range(4)).unknown
    read = pipeline(lambda x: x.map(lambda v: int(str(v)), to=int), x=int)
    assert check.holds(read, "G (out -> out.value = in.value)", ints=range(4)).proved
    everything = check.holds(rolls, "G (out -> out.value = in.value)")
    assert everything.unknown and "a lambda calls Random.getrandbits()" in everything.notes[0]


def test_a_stream_that_ends() -> None:
    p = pipeline(lambda a, b: a + b, a=int, b=int)
    assert check.holds_on(p, "F out.value = 5", [1, 2], [9, 3])
    late = check.holds_on(p, "G out", [1, silent], [2, 3])
    assert late.refuted and late.counterexample is not None and len(late.counterexample.steps) == 2
    with pytest.raises(UsageError, match="one stream for each source of pipeline: a, b"):
        check.holds_on(p, "F out", [1])


def test_a_start_value_that_is_not_in_the_domain() -> None:
    p = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=7, id="sum"), x=int)
    with pytest.raises(UsageError, match=r"step 'sum' .* its start value 7 is not among the integers modulo 4"):
        check.live(p, ints=Mod(4))


def test_bounds_give_unknown_and_never_a_pass() -> None:
    counting = pipeline(lambda x: x.cumulate(lambda n, v: n + 1, start=0, id="count"), x=int)
    verdict = check.holds(counting, "AG EF out.value = 3", ints=range(2), max_states=50, engine="explicit")
    assert verdict.unknown and not verdict
    assert verdict.notes == (
        "the limit of 50 states was reached",
        "integers without a bound: count:state; ints=Mod(N) bounds them, at the price of arithmetic modulo N",
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: check.holds(p, "AG EF ot"), "'ot'"),
        (lambda p: check.holds(p, "AG (out"), "expected"),
        (lambda p: check.holds(p, "G out.value = true"), "int"),
        (lambda p: check.holds(p, "AG F out"), "mixes AG of CTL with F of LTL"),
        (lambda p: check.holds(p, "out"), "speaks of one step only"),
        (lambda p: check.holds(p, "AG out", engine="magic"), "engine= takes 'auto', 'explicit', 'smt', found 'magic'"),
        (lambda p: check.equivalent(p, p, how="roughly"), "how= takes 'step', 'sequence' or 'paper', found 'roughly'"),
        (
            lambda p: check.holds(p, "AG (out -> out.value > 3)", engine="explicit"),
            "cannot be listed, so explicit search",
        ),
        (lambda p: check.live(p, within=0), "at least 1, found 0"),
        (lambda p: check.implies(p, p), "implies compares pipelines that put out Booleans"),
        (
            lambda p: check.monitor(check.Transitions([0], lambda s: [s], lambda s: {"x": 0}), p),
            "a monitor puts out Booleans",
        ),
    ],
)
def test_bad_questions(call: object, message: str) -> None:
    p = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    with pytest.raises(UsageError) as error:
        call(p)  # type: ignore[operator]
    assert message in str(error.value)
