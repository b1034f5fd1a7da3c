"""Keyed pipelines: verdicts against every stream up to a length, on the interpreter; and questions people ask."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from pellucid import check, merge, pipeline
from pellucid.check.formula.parse import parse
from pellucid.check.keyed import span_of


class Pay(NamedTuple):
    """A payment."""

    user: int
    amount: int


def test_totals_of_each_user() -> None:
    totals = pipeline(
        lambda x: x.key_by(lambda e: e.user).map(lambda e: max(e.amount, 0)).cumulate(lambda t, v: t + v, start=0),
        x=Pay,
    )
    assert check.holds(totals, "G (out -> out.value >= 0)", warn=False).proved
    assert check.holds(totals, "AG EF out", warn=False).proved


def test_a_refactoring_and_a_wrong_one() -> None:
    before = pipeline(lambda x: x.key_by(lambda e: e.user).map(lambda e: e.amount).decimate(2), x=Pay)
    after = pipeline(lambda x: x.key_by(lambda e: e.user).decimate(2).map(lambda e: e.amount), x=Pay)
    unkeyed = pipeline(lambda x: x.map(lambda e: e.amount).decimate(2), x=Pay)
    assert check.equivalent(before, after).proved
    assert check.equivalent(before, after, how="sequence").proved
    wrong = check.equivalent(before, unkeyed)
    assert wrong.refuted and wrong.counterexample is not None
    assert len({push["x"].user for push in wrong.counterexample.inputs}) == 2  # one key alone does not show it


def test_consecutive_pushes_may_be_of_different_keys() -> None:
    every_second = pipeline(lambda x: x.key_by(lambda e: e.user).decimate(2), x=Pay)
    verdict = check.holds(every_second, "G (out -> X !out)")
    assert verdict.refuted and verdict.counterexample is not None
    assert [push["x"].user for push in verdict.counterexample.inputs] == [0, 1]


def test_three_declines_in_a_row() -> None:
    def step(n: int, e: Pay) -> tuple[int, list[int]]:
        n = n + 1 if e.amount < 0 else 0
        return (0, [3]) if n == 3 else (n, [])

    alert = pipeline(lambda x: x.key_by(lambda e: e.user).task(step, 0), x=Pay)
    assert check.holds(alert, "G (out -> x.value.amount < 0)").proved
    assert check.holds(alert, "G (out -> X !out)").refuted  # two cards may raise it one after the other
    soon = check.holds(alert, "G !out")
    assert soon.refuted and soon.counterexample is not None and len(soon.counterexample.steps) == 3


def test_a_monitor_that_keeps_things_apart() -> None:
    system = check.Transitions([0], lambda s: [(s + 1) % 4], lambda s: {"x": Pay(s % 2, s)})
    few = pipeline(lambda x: x.key_by(lambda e: e.user).cumulate(lambda n, e: min(n + 1, 9), start=0) < 4, x=Pay)
    moves = pipeline(
        lambda x: (
            x.key_by(lambda e: e.user).map(lambda e: e.amount).window(2, pipeline(lambda y: y.trim(1) != y, y=int))
        ),
        x=Pay,
    )
    assert check.monitor(system, few).refuted
    assert check.monitor(system, moves).proved


def test_what_looks_at_all_pushes_needs_few_keys() -> None:
    every_second = pipeline(lambda x: x.key_by(lambda e: e.user).decimate(2), x=Pay)
    assert check.holds(every_second, "G (F x -> F out)").unknown
    assert check.holds(every_second, "AG EF out", ints=range(2)).proved


class Pair(NamedTuple):
    a: int
    b: int


RENAMED = [
    ("the other way round", lambda e: (e.a, e.b), lambda e: (e.b, e.a), "proved"),
    ("one twice", lambda e: (e.a, e.b), lambda e: (e.a, e.b, e.a), "proved"),
    ("a sum", lambda e: e.a + e.b, lambda e: e.b + e.a, "proved"),
    ("a Boolean", lambda e: e.a % 2, lambda e: e.a % 2 == 0, "proved"),
    ("coarser", lambda e: (e.a, e.b), lambda e: e.a, "refuted"),
    ("another", lambda e: e.a, lambda e: e.b, "refuted"),
    ("remainders", lambda e: e.a % 2, lambda e: e.a % 3, "refuted"),
]


@pytest.mark.parametrize("ints", [None, pytest.param(range(3), marks=pytest.mark.long)])
@pytest.mark.parametrize(("name", "f", "g", "status"), RENAMED)
def test_keys_with_other_names_and_the_same_parts(name: str, f: Any, g: Any, status: str, ints: Any) -> None:
    """What comes out is the same if two events have one key here where they have one there."""
    a, b = (pipeline(lambda x, key=key: x.key_by(key).cumulate(lambda n, e: n + 1, start=0), x=Pair) for key in (f, g))
    verdict = check.equivalent(a, b, ints=ints)
    assert verdict.status == status, str(verdict)


def test_a_renamed_key_that_comes_out_is_another_output() -> None:
    a, b = (
        pipeline(lambda x, s=sign: x.map(lambda e: s * (e.a % 5)).key_by(lambda v: v).decimate(2), x=Pair)
        for sign in (1, -1)
    )
    assert check.equivalent(a, b).refuted


# Formulas of the past about pipelines with any number of keys: what has to be seen of other keys' pushes, and what may
# be left out.


class Step(NamedTuple):
    """Something that happens to an order."""

    order: int
    did: str


def orders(x: Any) -> Any:
    def act(now: str, e: Step) -> tuple[str, list[str]]:
        if e.did == "pay" and now == "open":
            return "paid", ["paid"]
        return ("shipped", ["shipped"]) if e.did == "ship" and now == "paid" else (now, [])

    return x.key_by(lambda e: e.order).task(act, "open")


SHIPS = pipeline(orders, x=Step)


@pytest.mark.parametrize(
    ("formula", "status"),
    [
        ('G (out.value = "shipped" -> Y O out.value = "paid")', "proved"),
        ('G (x.value.did = "pay" & !Y O x -> out)', "proved"),
        ('G (out.value = "shipped" -> X G !(out.value = "shipped"))', "refuted"),  # another order may be
        ('G (out.value = "paid" -> !Y O out.value = "paid")', "refuted"),
        ('G (x.value.did = "ship" & !Y O x.value.did = "pay" -> !out)', "proved"),
    ],
)
def test_what_people_ask_of_orders(formula: str, status: str) -> None:
    assert check.holds(SHIPS, formula, warn=False).status == status


def test_two_pushes_under_one_key_where_others_may_come_between() -> None:
    again = 'G (out.value = "paid" -> X !(out.value = "paid"))'
    assert check.holds(SHIPS, again, warn=False).refuted
    assert check.holds(SHIPS, again, assume="x.value.order = Y x.value.order", warn=False).proved
    assert check.holds(
        SHIPS, 'G (out.value = "paid" & Y out.value = "paid" -> !(x.value.order = Y x.value.order))', warn=False
    ).proved


def test_what_must_be_seen_of_all_pushes_is_not_left_out() -> None:
    both = pipeline(lambda x, y: merge(x.key_by(lambda v: v), y.key_by(lambda v: v)).decimate(2), x=int, y=int)
    for formula in (
        "G (out -> Y O !x)",
        "G (out -> O (x & !out))",
        "G (out -> O (out.count = 0))",
        "G (out -> O out.value = x.value)",
    ):
        assert span_of(parse(formula), both.graph) is None, formula
    one = span_of(parse("G (out -> Y O (x.value = 3 & y))"), both.graph)
    assert one is not None and one.pushes == 1 and one.thinned
