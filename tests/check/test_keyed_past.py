"""Formulas of the past about pipelines with any number of keys: what has to be seen of other keys' pushes, and what may
be left out.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import pytest

from pellucid import Pipeline, apply, check, merge, pipeline
from pellucid.check.counterexample import atoms_on
from pellucid.check.formula.parse import parse
from pellucid.check.keyed import span_of
from tests.check.test_keyed import STEPS
from tests.seeds import seeds
from tests.strategies import Seeded

FORMULAS = [
    "G (x & !Y O x -> out)",
    "G (out -> Y O x.value = 1)",
    "G (out.value = 1 -> O x.value = 1)",
    "G (out -> H !(x.value = 2))",
    "G (out & Y x -> x.value = Y x.value | O x.value = 2)",
    "G (out.value = 0 -> X G !(out.value = 0))",
    "G (x.value = 0 -> (!out.value = 2 S x))",
    "G (out -> Y O !x)",
]


def holds_at(f: Any, trace: list[Any], i: int) -> bool:
    """Formulas of the past, as meaning.md has them."""
    a = [holds_at(part, trace, i) for part in f.args] if f.op in ("!", "&", "|", "->") else []
    match f.op:
        case "atom":
            return bool(trace[i][f])
        case "!":
            return not a[0]
        case "&":
            return a[0] and a[1]
        case "|":
            return a[0] or a[1]
        case "->":
            return not a[0] or a[1]
        case "Y":
            return i > 0 and holds_at(f.args[0], trace, i - 1)
        case "O":
            return any(holds_at(f.args[0], trace, j) for j in range(i + 1))
        case "H":
            return all(holds_at(f.args[0], trace, j) for j in range(i + 1))
        case "X":
            return i + 1 >= len(trace) or holds_at(f.args[0], trace, i + 1)  # what has not come yet breaks nothing
        case "G":
            return all(holds_at(f.args[0], trace, j) for j in range(i, len(trace)))
        case "S":
            return any(
                holds_at(f.args[1], trace, j) and all(holds_at(f.args[0], trace, k) for k in range(j + 1, i + 1))
                for j in range(i + 1)
            )
    raise AssertionError(f.op)


def broken(p: Pipeline, formula: str, pushes: list[dict[str, Any]]) -> bool:
    f = parse(formula)
    return not holds_at(f, atoms_on(p.graph, f, pushes), 0)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(6))
def test_a_verdict_is_what_short_streams_with_any_keys_show(seed: int) -> None:
    c = Seeded(seed)
    steps = [c.of(STEPS) for _ in range(c.of([1, 2]))]

    def body(x: Any) -> Any:
        s = x.key_by(lambda v: v)
        for step in steps:
            s = step(s)
        return s

    p, formula = pipeline(body, x=int), c.of(FORMULAS)
    verdict = check.holds(p, formula, timeout=2, warn=False)
    events = [{"x": 0}, {"x": 1}, {"x": 2}, {}]
    shortest = next(
        (row for many in range(1, 5) for row in product(events, repeat=many) if broken(p, formula, list(row))), None
    )
    if verdict.proved:
        assert shortest is None
    if verdict.refuted:
        assert verdict.counterexample is not None and broken(p, formula, verdict.counterexample.inputs)
        assert shortest is None or len(verdict.counterexample.inputs) <= len(shortest)


def test_a_key_made_of_what_waits_in_a_queue_that_is_not_followed() -> None:
    # found by a hunt: the values of such a key were looked up among the inputs
    def body(x: Any) -> Any:
        s = x.key_by(lambda v: v)
        return apply(lambda a, b: a + b, s.decimate(2), s).key_by(lambda v: v % 2)

    p = pipeline(body, x=int)
    for formula in FORMULAS[:3]:
        verdict = check.holds(p, formula, timeout=0.5, warn=False)
        if verdict.refuted:
            assert verdict.counterexample is not None and broken(p, formula, verdict.counterexample.inputs)
        assert not verdict.proved or not any(
            broken(p, formula, list(row)) for row in product([{"x": 0}, {"x": 1}, {}], repeat=4)
        )


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
