"""Joins whose queues have no bound: with something assumed of what comes in, and by key."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import pytest

from pellucid import apply, check, merge, pipeline

sums = pipeline(lambda a, b: apply(lambda u, v: u + v, a, b), a=int, b=int)
share = pipeline(lambda part, whole: apply(lambda p, w: 100 * p // w, part, whole), part=int, whole=int)
POSITIVE = "(a -> a.value > 0) & (b -> b.value > 0)"


def test_what_is_assumed_of_events_holds_of_those_that_wait() -> None:
    assert check.holds(sums, "G (out -> out.value > 1)", assume=POSITIVE, warn=False).proved
    wrong = check.holds(sums, "G (out -> out.value > 2)", assume=POSITIVE, warn=False)
    assert wrong.refuted and wrong.counterexample is not None
    assert all(value > 0 for push in wrong.counterexample.inputs for value in push.values())


def test_what_is_assumed_of_one_source_is_not_assumed_of_the_other() -> None:
    assert check.holds(sums, "G (out -> out.value > 0)", assume="a.value > 0", warn=False).refuted
    assert check.holds(
        sums, "G (out -> out.value > 0)", assume="(a & b -> a.value > 0) & b.value > 0", warn=False
    ).refuted  # a alone may be anything


def test_what_is_assumed_of_two_pushes_is_not_of_one() -> None:
    assert not check.holds(
        sums, "G (out -> out.value >= 0)", assume="a.value >= Y a.value & b.value >= Y b.value", warn=False, timeout=4
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
