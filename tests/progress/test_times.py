"""Orders are orders, and say so; a time of another domain is refused."""

from __future__ import annotations

from datetime import date
from itertools import product

import pytest

from pellucid.errors import PipelineError, UsageError
from pellucid.progress import Domains, Integers, Lexicographic, Loop, Order, Ordered, Own, Product, Stacks
from pellucid.progress.times import NATURAL, not_an_order

SMALL = range(3)
PAIRS = list(product(SMALL, SMALL))
TRIPLES = list(product(SMALL, SMALL, SMALL))

ORDERS: list[tuple[Order, list[object]]] = [
    (Integers(), list(SMALL)),
    (Ordered(str), ["", "a", "b"]),
    (Ordered(date), [date(2013, 1, 1), date(2013, 1, 2)]),
    (Product(Integers(), Integers()), PAIRS),
    (Lexicographic(Integers(), Integers()), PAIRS),
    (Product(Integers(), Lexicographic(Integers(), Integers())), [(a, (b, c)) for a, b, c in TRIPLES]),
    (Lexicographic(Product(Integers(), Integers()), Integers()), [((a, b), c) for a, b, c in TRIPLES]),
    (Loop(Integers()), PAIRS),
    (Loop(Loop(Integers())), TRIPLES),
    (Loop(Product(Integers(), Integers())), TRIPLES),
    (Domains({"gmt": Integers(), "pst": Loop(Integers())}), [("gmt", 0), ("gmt", 1), *(("pst", p) for p in PAIRS)]),
    (Stacks(["f", "g"]), [(), ("f",), ("g",), ("f", "f"), ("f", "g"), ("g", "f")]),
    (Own(lambda a, b: b % a == 0, samples=range(1, 9)), list(range(1, 9))),
    (NATURAL, PAIRS),
]  # fmt: skip


@pytest.mark.parametrize(("order", "times"), ORDERS, ids=[str(order) for order, _ in ORDERS])
def test_an_order_is_one(order: Order, times: list[object]) -> None:
    assert all(order.holds(t) for t in times) and not_an_order(order.less_equal, times) is None
    least = order.minimum()
    assert least is None or all(order.less_equal(least, t) for t in times)
    assert order == order and hash(order) == hash(order)


LATTICES = [row for row in ORDERS if isinstance(row[0], (Product, Loop))]


@pytest.mark.parametrize(("order", "times"), LATTICES, ids=[str(order) for order, _ in LATTICES])
def test_join_and_meet_are_the_least_and_the_greatest(order: Order, times: list[object]) -> None:
    le = order.less_equal
    for a, b in product(times, times):
        join, meet = order.join(a, b), order.meet(a, b)
        assert all(le(join, t) == (le(a, t) and le(b, t)) for t in times)
        assert all(le(t, meet) == (le(t, a) and le(t, b)) for t in times)


def test_the_elements_that_show_it() -> None:
    assert not_an_order(lambda a, b: a < b, [1]) == ("it is not reflexive: 1 ≤ 1 does not hold", (1,))
    with pytest.raises(PipelineError, match=r"near is not an order: it is not antisymmetric: 0 ≤ 1 and 1 ≤ 0, but"):
        Own(lambda a, b: abs(a - b) < 2, samples=[0, 1], name="near")
    with pytest.raises(PipelineError, match=r"it is not transitive: 0 ≤ 1 and 1 ≤ 2, but 0 ≤ 2 does not hold"):
        Own(lambda a, b: 0 <= b - a < 2, samples=[0, 1, 2])
    with pytest.raises(UsageError, match="samples= is empty"):
        Own(lambda a, b: a <= b, samples=[])


@pytest.mark.parametrize(
    ("order", "time"),
    [
        (Integers(), True), (Integers(), 1.0), (Integers(0, 5), 6), (Integers(), (1,)), (Ordered(str), 1),
        (Product(Integers(), Integers()), (1, 2, 3)), (Loop(Integers()), (1, -1)), (Loop(Integers()), 1),
        (Domains({"gmt": Integers()}), ("pst", 1)), (Domains({"gmt": Integers()}), 1), (Stacks(["f"]), ("g",)),
        (Own(lambda a, b: b % a == 0, samples=[1, 2]), 0), (Integers(), [1]), (NATURAL, 1.5),
    ],
)  # fmt: skip
def test_a_time_of_another_domain_is_refused(order: Order, time: object) -> None:
    with pytest.raises(UsageError, match=r"is not a time of .*: times of two domains cannot be compared"):
        order.less_equal(time, time)
