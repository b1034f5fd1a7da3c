"""Formulas of the past about pipelines with any number of keys: what has to be seen of other keys' pushes, and what may
be left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from pellucid import check, merge, pipeline
from pellucid.check.formula.parse import parse
from pellucid.check.keyed import span_of


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
