"""Failing is an observation: two pipelines that are compared fail each for itself."""

from __future__ import annotations

import pytest

from pellucid import Mod, apply, check, pipeline
from pellucid.check.side_by_side import apart


def boom(v):
    if v == 3:
        raise ValueError("no threes")
    return v


def over(v):
    return v + 4 // v * 0  # fails on 0


same = pipeline(lambda x: x.map(lambda v: v), x=int)
booms = pipeline(lambda x: x.map(boom), x=int)
divides = pipeline(lambda y: y.map(over), y=int)


@pytest.mark.parametrize("more", [{}, {"ints": range(5)}, {"ints": Mod(5)}, {"engine": "smt"}], ids=str)
@pytest.mark.parametrize(("other", "event"), [(booms, 3), (divides, 0)], ids=["raises", "divides"])
def test_one_that_fails_differs_from_one_that_does_not(other, event, more):
    for a, b in ((same, other), (other, same)):
        verdict = check.equivalent(a, b, **more)
        assert verdict.refuted and [next(iter(push.values())) for push in verdict.counterexample.inputs] == [event]
        assert "fails" in str(verdict)


def test_they_fail_in_the_same_pushes():
    before = pipeline(lambda x: x.map(boom).map(lambda v: v + 1), x=int)
    after = pipeline(lambda x: x.map(lambda v: boom(v) + 1), x=int)
    assert check.equivalent(before, after).proved
    assert check.equivalent(before, after, ints=range(5)).proved


def test_what_comes_after_a_failure_counts():
    # Both fail on 3 once they have seen it; only one of them fails on the first.
    late = pipeline(lambda x: x.trim(1).map(boom), x=int)
    lost = pipeline(lambda x: x.trim(1).map(lambda v: v), x=int)
    verdict = check.equivalent(late, lost, ints=range(5))
    assert verdict.refuted and len(verdict.counterexample.inputs) == 2


def test_shared_steps_go_on_for_the_one_that_has_not_failed():
    total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    fails = pipeline(lambda x: total(x).map(lambda t: boom(t) > 5), x=int)
    also = pipeline(lambda x: total(x).map(lambda t: t > 5), x=int)
    assert check.implies(also, fails, ints=range(4)).refuted and check.implies(fails, also, ints=range(4)).refuted
    assert check.implies(fails, pipeline(lambda x: total(x).map(lambda t: boom(t) > 4), x=int), ints=range(4)).proved


def test_leaving_64_bits_is_a_failure():
    there_and_back = pipeline(lambda x: x + 1 - 1, x=int)
    verdict = check.equivalent(same, there_and_back)
    assert verdict.refuted and verdict.counterexample.inputs == [{"x": 2**63 - 1}]
    assert any("of exact integers they are the same" in note for note in verdict.notes)
    assert check.equivalent(same, there_and_back, ints={2**63 - 1, 0}).refuted
    assert check.equivalent(same, there_and_back, ints=range(5)).proved
    assert check.equivalent(pipeline(lambda x: x * 2, x=int), pipeline(lambda x: x + x, x=int)).proved


def test_what_cannot_be_run_is_no_difference():
    # Of exact integers they differ where both have left 64 bits: in truth both have failed there.
    one = pipeline(lambda x: x.map(lambda v: (v + 2**62 + 2**62 - v) % 3), x=int)
    two = pipeline(lambda x: x.map(lambda v: (v + 2**62 + 2**62 - v) % 3 + 0 * v), x=int)
    verdict = check.equivalent(one, two)
    assert not verdict.refuted or apart([one.graph, two.graph], verdict.counterexample.inputs)


def test_sources_that_trade_names():
    minus = pipeline(lambda x, y: apply(lambda a, b: a - b, x, y), x=int, y=int)
    turned = pipeline(lambda y, x: apply(lambda a, b: a - b, y, x), y=int, x=int)  # the same by position
    back = pipeline(lambda y, x: apply(lambda a, b: b - a, y, x), y=int, x=int)
    assert not check.equivalent(minus, turned, queue=1, ints=range(2)).refuted
    verdict = check.equivalent(minus, back, queue=1, ints=range(2))
    assert verdict.refuted
    (view,) = [step for step in verdict.counterexample.steps if step.streams["1:out"]]
    assert view.streams["1:out"] == [view.inputs["x"] - view.inputs["y"]] != view.streams["2:out"]


def test_a_step_that_fails_matters():
    guarded = pipeline(lambda x: x.map(boom, id="guard").filter(lambda v: v > 5), x=int)
    verdict = check.dead_paths(guarded, ints=range(8))
    assert "guard" not in verdict.details["dead"]
    useless = pipeline(lambda x: x.map(lambda v: v, id="useless").filter(lambda v: v > 5), x=int)
    assert "useless" in check.dead_paths(useless, ints=range(8)).details["dead"]


def test_the_reason_why_a_step_is_dead_is_true() -> None:
    """A filter whose events nobody hears of is dead, but it does not let every event through."""
    p = pipeline(lambda x: x.filter(lambda v: v > 3, id="some").filter(lambda v: v != v, id="none"), x=int)
    assert check.dead_paths(p, ints=range(8)).details["dead"] == {
        "some": "what it does is not seen: without it the outputs are the same",
        "none": "it never carries an event",
    }
    all_ = pipeline(lambda x: x.filter(lambda v: v >= 0, id="all").trim(1), x=int)
    assert check.dead_paths(all_, ints=range(8)).details["dead"] == {
        "all": "it lets every event through: without it the outputs are the same"
    }


def test_a_step_that_leaves_64_bits_matters() -> None:
    there_and_back = pipeline(lambda x: x.map(lambda v: v + 1 - 1, id="same").trim(1), x=int)
    assert check.dead_paths(there_and_back).details["dead"] == {}
    assert "same" in check.dead_paths(there_and_back, ints=range(-9, 9)).details["dead"]
