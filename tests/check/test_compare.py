"""Two versions of a job, each with classes of its own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import pytest

from pellucid import Mod, StepError, TypeMismatch, apply, check, merge, pipeline
from pellucid.check.counterexample import emitted
from pellucid.check.side_by_side import apart
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.load import load_pipeline
from pellucid.internal.pipeline import Pipeline

VERSION = """\
from __future__ import annotations

import enum
from dataclasses import dataclass

from pellucid import Stream, pipeline


class Kind(enum.Enum):
    IN = 1
    OUT = 2
    BACK = 3


@dataclass(frozen=True)
class Pay:
    kind: Kind
    cents: int | None

    def worth(self) -> int:
        return (self.cents or 0) * (1 if self.kind is Kind.IN else -1)


@pipeline
def kept(x: Stream[Pay]) -> Stream[Pay]:
    return x.filter(lambda e: e.worth() > 0)


@pipeline
def kinds(x: Stream[Pay]) -> Stream[Kind]:
    return x.map(lambda e: Kind.BACK if e.kind == Kind.OUT and e.cents is None else e.kind)


@pipeline
def maybe(x: Stream[Kind | None]) -> Stream[Kind | None]:
    return x.map(lambda k: k)


@pipeline
def called(x: Stream[Pay]) -> Stream[int]:
    return x.map(lambda e: int(str(e.worth())))
"""

Versions = Callable[..., tuple[Pipeline, Pipeline]]


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    def load(name: str, *changes: tuple[str, str]) -> tuple[Pipeline, Pipeline]:
        new = VERSION
        for a, b in changes:
            assert a in new
            new = new.replace(a, b)
        (tmp_path / "old.py").write_text(VERSION)
        (tmp_path / "new.py").write_text(new)
        return load_pipeline(f"{tmp_path}/old.py:{name}"), load_pipeline(f"{tmp_path}/new.py:{name}")

    return load


@pytest.mark.parametrize("how", ["step", "sequence", "paper"])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("kept", ("else -1)", "else 1)")),
        ("kinds", ("Kind.BACK if", "Kind.IN if")),
        ("maybe", ("lambda k: k", "lambda k: None if k is None or k == Kind.OUT else k")),
    ],
)
def test_the_same_and_another(versions: Versions, name: str, change: tuple[str, str], how: str) -> None:
    assert check.equivalent(*versions(name), how=how).proved
    verdict = check.equivalent(*versions(name, change), how=how)
    assert verdict.refuted and verdict.counterexample is not None and verdict.counterexample.replay()
    assert len(verdict.counterexample.inputs) <= 2  # of sequences: until the second one speaks


def test_each_calls_its_own_methods(versions: Versions) -> None:
    a, b = versions("called", ("else -1)", "else 1)"))
    verdict = check.equivalent(a, b, ints=range(2))
    assert verdict.refuted and verdict.counterexample is not None
    assert [str(push["x"].kind) for push in verdict.counterexample.inputs] != ["Kind.IN"]
    assert check.equivalent(*versions("called"), ints=range(2)).proved


@pytest.mark.parametrize(
    "change",
    [
        ("cents: int | None", "cents: int | None\n    note: str = ''"),
        ("BACK = 3", "BACK = 4"),
        ("BACK", "BACKWARDS"),
        ("Pay", "Paid"),
    ],
)
def test_what_is_not_alike_is_refused(versions: Versions, change: tuple[str, str]) -> None:
    with pytest.raises(TypeMismatch, match="cannot be compared: their sources are"):
        check.equivalent(*versions("kept", change))


# Sequence equivalence: each output of one pipeline comes in the other in the end, at the same place; and a failure
# does.

later = pipeline(lambda x: x.decimate(2), x=int)  # in a window of two: the event before
IN_64_BITS = "runs in which no integer leaves 64 bits"
total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)


def one(f: Any) -> Any:
    return pipeline(f, x=int)


def two(f: Any) -> Any:
    return pipeline(f, x=int, y=int)


same = one(lambda x: x.map(lambda v: v))
never = one(lambda x: x.filter(lambda v: v != v))
positive = one(lambda x: x.filter(lambda v: v > 0))
quotient = one(lambda x: x.map(lambda v: 10 // v))
first_two, first_three = (one(lambda x, k=k: x.filter(x.cumulate(lambda n, v: n + 1, start=0) <= k)) for k in (2, 3))


@pytest.mark.parametrize(
    "ints", [pytest.param(None, id="exact"), pytest.param(range(3), id="listed", marks=pytest.mark.long)]
)  # over listed integers the pairs of the pool are asked in every run
@pytest.mark.parametrize(
    ("a", "b"),
    [
        (one(lambda x: x.trim(4).decimate(2)), one(lambda x: x.decimate(2).trim(2))),
        (positive, one(lambda x: x.window(2, later).filter(lambda v: v > 0))),
        (first_two, one(lambda x: x.filter(x.cumulate(lambda n, v: n + 1, start=0) < 3))),
        (one(lambda x: x.map(lambda v: 0)), one(lambda x: x.map(lambda v: 0).decimate(2))),  # one is ahead for ever
        (two(lambda x, y: x.map(lambda v: 0)), two(lambda x, y: y.map(lambda v: 0))),  # whenever they come
        (one(lambda x: x.task(lambda s, v: (s, [v, v + 1]), 0)), one(lambda x: merge(x, x.map(lambda v: v + 1)))),
    ],
)
def test_the_same_whatever_the_delay(a: Any, b: Any, ints: Any) -> None:
    verdict = check.equivalent(a, b, how="sequence", ints=ints)
    assert verdict.proved, verdict


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (one(lambda x: x.map(lambda v: v + 1)), one(lambda x: x.window(2, later).map(lambda v: v + 1))),
        (total, one(lambda x: total(x).window(2, later))),
        (never, one(lambda x: x.filter(lambda v: v * v < 0))),
    ],
)
def test_the_same_but_for_overflows(a: Any, b: Any) -> None:
    """One fails later than the other, or alone: over exact integers they are the same."""
    verdict = check.equivalent(a, b, how="sequence")
    assert (verdict.status, verdict.bound) == ("bounded", IN_64_BITS)
    assert check.equivalent(a, b, how="sequence", ints=range(3)).proved


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (one(lambda x: x), one(lambda x: x.map(lambda v: v + 1 - 1))),
        (one(lambda x: x.map(lambda v: v + 1).map(lambda v: v * 2)), one(lambda x: x.map(lambda v: 2 * v + 2))),
        (positive, one(lambda x: x.map(lambda v: v + 1).filter(lambda v: v > 1).map(lambda v: v - 1))),
    ],
)
def test_a_failure_by_overflow_is_a_part_of_a_sequence(a: Any, b: Any) -> None:
    """They were proved to be the same, of exact integers, with a note."""
    verdict = check.equivalent(a, b, how="sequence")
    assert verdict.refuted and verdict.counterexample is not None and "in 64 bits" in verdict.notes[-1]
    first, second = (emitted(p.graph, verdict.counterexample.inputs, a.graph) for p in (a, b))
    assert first != second and ("failed", None) in (first[-1], second[-1])
    assert check.equivalent(a, b, how="sequence", ints=range(3)).proved


@pytest.mark.parametrize(
    "ints", [pytest.param(None, id="exact"), pytest.param(range(3), id="listed", marks=pytest.mark.long)]
)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        (same, never),
        (same, positive),
        (one(lambda x: x.map(lambda v: 0)), one(lambda x: x.filter(lambda v: v > 1).map(lambda v: 0))),
        (first_two, first_three),
        (quotient, one(lambda x: x.filter(lambda v: v != 0).map(lambda v: 10 // v))),  # one fails, and that is the end
        (one(lambda x: x.map(lambda v: 10 // (v * 0))), never),
        (
            one(lambda x: x.task(lambda s, v: (s, [v, v + 1]), 0)),
            one(lambda x: x.task(lambda s, v: (s, [0, v + 1]), 0)),
        ),
        (one(lambda x: merge(x.trim(2), x)), one(lambda x: merge(x, x.trim(3)))),
        (two(lambda x, y: x.map(lambda v: 0)), two(lambda x, y: merge(x.map(lambda v: 0), y.map(lambda v: 1)))),
    ],
)
def test_not_the_same(a: Any, b: Any, ints: Any) -> None:
    verdict = check.equivalent(a, b, how="sequence", ints=ints)
    assert verdict.refuted, verdict
    example = verdict.counterexample
    assert example is not None
    sequences = [_put_out(p, example.inputs, example.loop, 20) for p in (a, b)]
    shorter, longer = sorted(sequences, key=len)
    assert longer[: len(shorter)] != shorter or len(longer) > len(shorter)


def test_a_pipeline_that_falls_silent_is_refuted_by_a_loop() -> None:
    verdict = check.equivalent(same, never, how="sequence")
    example = verdict.counterexample
    assert example is not None and example.loop is not None
    assert any("x" in push for push in example.inputs[example.loop :])
    assert verdict.notes == ("in this run one emits something that never comes in the other",)
    assert check.equivalent(same, never, how="paper").proved  # the formula of the paper is satisfied by silence


def test_the_formula_of_the_paper_speaks_of_every_event_of_a_push() -> None:
    twice, wrong = (one(lambda x, k=k: x.task(lambda s, v: (s, [v * k, v + 1]), 0)) for k in (1, 0))
    assert check.equivalent(twice, wrong, how="paper", ints=range(3)).refuted
    assert check.equivalent(twice, wrong, how="paper").refuted


def test_a_queue_that_needs_more_room_does_not_make_a_proof() -> None:
    ahead = two(lambda x, y: x + y)  # as many x may wait as come before a y
    verdict = check.equivalent(
        ahead, two(lambda x, y: apply(lambda a, b: b + a + (a > 7), x, y)), how="sequence", ints=range(9)
    )
    assert verdict.refuted, verdict
    assert not check.equivalent(
        ahead, two(lambda x, y: x.trim(1) + y), how="sequence", ints=range(2), timeout=10
    ).proved


@pytest.mark.parametrize("how", ["sequence", "paper"])
def test_pipelines_with_keys_are_not_proved_by_the_few_keys_that_are_followed(how: str) -> None:
    rest_of_each = one(lambda x: x.key_by(lambda v: v % 10).trim(1))
    assert not check.equivalent(rest_of_each, one(lambda x: x.trim(1)), how=how, ints=range(4)).proved
    count = one(lambda x: x.key_by(lambda v: v).cumulate(lambda n, v: n + 1, start=0))
    again = one(lambda x: x.key_by(lambda v: v).cumulate(lambda n, v: 1 + n, start=0))
    assert check.equivalent(count, again, how=how, ints=range(3)).proved
    assert check.equivalent(count, one(lambda x: x.map(lambda v: 1)), how=how, ints=range(3)).refuted


POOL = {
    "same": one(lambda x: x.map(lambda v: v)),
    "late": one(lambda x: x.window(2, later)),
    "trim": one(lambda x: x.trim(1)),
    "some": one(lambda x: x.filter(lambda v: v > 0)),
    "some late": one(lambda x: x.window(2, later).filter(lambda v: v > 0)),
    "ones": one(lambda x: x.map(lambda v: 1)),
    "rare ones": one(lambda x: x.decimate(2).map(lambda v: 1)),
    "twice": one(lambda x: x.filter(lambda v: v > 0).task(lambda s, v: (s, [v, v]), 0)),
    "fails": one(lambda x: x.map(lambda v: 1 // v)),
    "fails late": one(lambda x: x.window(2, later).map(lambda v: 1 // v)),
    "never": never,
    "once": one(lambda x: x.task(lambda s, v: (True, [] if s else [1]), False)),
    "changes": one(lambda x: x.task(lambda s, v: (v, [v] if s != v else []), 0)),
}


def _put_out(p: Any, pushes: list[dict[str, Any]], loop: int | None, turns: int) -> list[Any]:
    """The sequence that the interpreter emits; a failure is the last thing in it."""
    run, out = Interpreter(p.graph), []
    for push in [*pushes, *(pushes[loop:] * turns if loop is not None else [])]:
        try:
            out += run.push(push)["out"]
        except StepError:
            return [*out, "failed"]
    return out


def _same_by_definition(a: Any, b: Any) -> bool:
    """On every short way and loop: what one emits in a few turns, the other does in many."""
    events = [{}, {"x": 0}, {"x": 1}]
    for way, loop in product((0, 1, 2), (1, 2)):
        for pushes in product(events, repeat=way + loop):
            if not any(pushes[way:]):
                continue  # the source falls silent: no run of those that count
            given = [dict(push) for push in pushes]
            for p, q in ((a, b), (b, a)):
                few, many = _put_out(p, given, way, 6), _put_out(q, given, way, 30)
                if many[: len(few)] != few:
                    return False
    return True


SLOW = {"ones", "rare ones", "twice", "same"}
PAIRS = list(combinations_with_replacement(POOL, 2))


@pytest.mark.parametrize(
    ("left", "right"), [pytest.param(*pair, marks=[pytest.mark.long] * (i % 2)) for i, pair in enumerate(PAIRS)]
)
def test_as_by_definition(left: str, right: str) -> None:
    a, b = POOL[left], POOL[right]
    verdict = check.equivalent(a, b, how="sequence", ints=range(2), timeout=60 if not {left, right} <= SLOW else 10)
    expected = "proved" if _same_by_definition(a, b) else "refuted"
    if verdict.unknown:  # one of these is ahead for ever and emits several at a time
        assert expected == "proved" and {left, right} <= SLOW, verdict
    else:
        assert verdict.status == expected, verdict


def test_for_the_paper_a_failure_is_no_part_of_a_sequence() -> None:
    keyed = pipeline(lambda x: x.key_by(lambda v: v), x=int)
    fails = pipeline(lambda x: x.key_by(lambda v: v).filter(lambda v: 1 // v < 2), x=int)
    other = pipeline(lambda x: x.key_by(lambda v: v).map(lambda v: v + 1), x=int)
    assert not check.equivalent(keyed, fails, how="paper", ints=range(3)).refuted
    assert check.equivalent(keyed, fails, how="sequence").refuted
    assert check.equivalent(keyed, other, how="paper").refuted


# Failing is an observation: two pipelines that are compared fail each for itself.


def boom(v):
    if v == 3:
        raise ValueError("no threes")
    return v


def over(v):
    return v + 4 // v * 0  # fails on 0


unchanged = pipeline(lambda x: x.map(lambda v: v), x=int)
booms = pipeline(lambda x: x.map(boom), x=int)
divides = pipeline(lambda y: y.map(over), y=int)


@pytest.mark.parametrize("more", [{}, {"ints": range(5)}, {"ints": Mod(5)}, {"engine": "smt"}], ids=str)
@pytest.mark.parametrize(("other", "event"), [(booms, 3), (divides, 0)], ids=["raises", "divides"])
def test_one_that_fails_differs_from_one_that_does_not(other, event, more):
    for a, b in ((unchanged, other), (other, unchanged)):
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
    verdict = check.equivalent(unchanged, there_and_back)
    assert verdict.refuted and verdict.counterexample.inputs == [{"x": 2**63 - 1}]
    assert any("of exact integers they are the same" in note for note in verdict.notes)
    assert check.equivalent(unchanged, there_and_back, ints={2**63 - 1, 0}).refuted
    assert check.equivalent(unchanged, there_and_back, ints=range(5)).proved
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
