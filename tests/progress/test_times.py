"""Orders are what their definitions say, and frontiers the minimal times of what has a positive count; a time of
another domain is refused."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import date
from itertools import product
from typing import Any

import pytest

from pellucid.errors import PipelineError, UsageError
from pellucid.progress import (
    Antichain,
    ChangeBatch,
    Domains,
    Integers,
    Lexicographic,
    Loop,
    MutableAntichain,
    Order,
    Ordered,
    Own,
    Product,
    Stacks,
)
from pellucid.progress.times import NATURAL, not_an_order
from tests.seeds import seeds

LessEqual = Callable[[Any, Any], bool]


def below(a: Any, b: Any) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))


def loops(a: Any, b: Any) -> bool:
    """Of loops inside loops around a number: the number, and lexicographically the counters."""
    return bool(a[0] <= b[0] and a[1:] <= b[1:])


def least(times: Iterable[Any], le: LessEqual) -> set[Any]:
    times = set(times)
    return {t for t in times if not any(u != t and le(u, t) for u in times)}


SMALL = range(3)
PAIRS = list(product(SMALL, SMALL))
TRIPLES = list(product(range(2), repeat=3))

ORDERS: dict[str, tuple[Order, list[Any], LessEqual]] = {
    "integers": (Integers(), list(range(-2, 3)), lambda a, b: a <= b),
    "product": (Product(Integers(), Integers()), PAIRS, below),
    "product of a product": (
        Product(Product(Integers(), Integers()), Integers()),
        [((a, b), c) for a, b, c in TRIPLES],
        lambda a, b: below((*a[0], a[1]), (*b[0], b[1])),
    ),
    "lexicographic": (Lexicographic(Integers(), Integers()), PAIRS, lambda a, b: a <= b),
    "lexicographic over a product": (
        Lexicographic(Product(Integers(), Integers()), Integers()),
        [((a, b), c) for a, b, c in TRIPLES],
        lambda a, b: a[1] <= b[1] if a[0] == b[0] else below(a[0], b[0]),
    ),
    "loop": (Loop(Integers()), PAIRS, loops),
    "loop in a loop": (Loop(Loop(Integers())), TRIPLES, loops),
    "loop around pairs": (Loop(Product(Integers(), Integers())), TRIPLES, below),
    "domains": (
        Domains({"gmt": Integers(), "step": Product(Integers(), Integers())}),
        [("gmt", n) for n in SMALL] + [("step", p) for p in PAIRS],
        lambda a, b: a[0] == b[0] and (a[1] <= b[1] if a[0] == "gmt" else below(a[1], b[1])),
    ),
    "stacks": (
        Stacks(["c", "d"]),
        [s for n in range(3) for s in product("cd", repeat=n)],
        lambda a, b: b[: len(a)] == a,
    ),
    "texts": (Ordered(str), ["", "a", "b"], lambda a, b: a <= b),
    "days": (Ordered(date), [date(2013, 1, 1), date(2013, 1, 2)], lambda a, b: a <= b),
    "natural": (NATURAL, PAIRS, below),
    "lexicographic in a product": (
        Product(Integers(), Lexicographic(Integers(), Integers())),
        [(a, (b, c)) for a, b, c in TRIPLES],
        lambda a, b: a[0] <= b[0] and a[1] <= b[1],
    ),
    "own": (Own(lambda a, b: b % a == 0, range(1, 13)), list(range(1, 13)), lambda a, b: b % a == 0),
}


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_is_its_definition(name: str) -> None:
    order, times, le = ORDERS[name]
    for a, b in product(times, times):
        assert order.less_equal(a, b) is le(a, b), (a, b)
        assert order.less_than(a, b) is (le(a, b) and not le(b, a)), (a, b)
        above = [t for t in times if le(a, t) and le(b, t)]
        lowest = [t for t in above if all(le(t, u) for u in above)]
        try:
            joined, met = order.join(a, b), order.meet(a, b)
        except UsageError:
            continue
        assert le(a, joined) and le(b, joined) and (not lowest or joined == lowest[0]), (a, b, joined)
        assert le(met, a) and le(met, b) and all(le(t, met) for t in times if le(t, a) and le(t, b)), (a, b, met)
    lows = [t for t in times if all(le(t, u) for u in times)]
    assert order.minimum() is None or not lows or order.less_equal(order.minimum(), lows[0])
    assert all(order.holds(t) for t in times) and hash(order) == hash(order)


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


# ---------------------------------------------------------------- frontiers

COUNTED: list[tuple[Order, str]] = [
    (Integers(), "n"), (Product(Integers(), Integers()), "pair"), (Lexicographic(Integers(), Integers()), "pair"),
    (Own(lambda a, b: b % a == 0, samples=range(1, 9)), "positive"),
]  # fmt: skip


def draw(kind: str, rng: random.Random) -> object:
    if kind == "pair":
        return rng.randrange(6), rng.randrange(6)
    return rng.randrange(1, 30)


def minimal(times: Iterable[object], order: Order) -> set[object]:
    known = list(times)
    return {t for t in known if not any(order.less_than(u, t) for u in known)}


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize(("order", "kind"), COUNTED, ids=str)
def test_the_frontier_is_what_is_minimal(order: Order, kind: str, seed: int) -> None:
    """After each batch of changes, of which some take back more than is there."""
    rng = random.Random(seed)
    counts: Counter[object] = Counter()
    pending, before = MutableAntichain(order=order), set[object]()
    for step in range(150):
        batch = [(draw(kind, rng), rng.choice([1, 1, 2, -1])) for _ in range(rng.randrange(4))]
        if step % 3 == 0:  # what is there goes
            batch += [(t, -n) for t, n in counts.items() if n > 0 and rng.random() < 0.6]
        for time, diff in batch:
            counts[time] += diff
        changes = pending.update_iter(batch)
        after = minimal((t for t, n in counts.items() if n > 0), order)
        assert set(pending.frontier()) == after and len(pending.frontier()) == len(after)
        assert sorted(changes) == sorted([(t, -1) for t in before - after] + [(t, 1) for t in after - before])
        assert dict(pending.updates()) == {t: n for t, n in counts.items() if n}
        assert len(pending) <= 2 * len(pending.updates()) + 20
        before = after


def test_what_is_gone_is_forgotten() -> None:
    pending = MutableAntichain([7] * 6 + [8] * 5)
    for time in range(9, 1009):
        assert pending.update_iter([(time, 1)]) == [] == pending.update_iter([(time, -1)])
        assert len(pending) <= 32


def test_a_long_line_is_taken_from_the_front_without_looking_at_all_of_it() -> None:
    """How often two times are compared, for 4,000 that come in any order and leave from the front."""
    asked = 0

    def before(a: int, b: int) -> bool:
        nonlocal asked
        asked += 1
        return a <= b

    order = Own(before, samples=[1, 2], holds=lambda t: True)
    pending, times = MutableAntichain(order=order), list(range(4000))
    random.Random(1).shuffle(times)
    pending.update_iter((t, 1) for t in times)
    for t in range(4000):
        assert pending.frontier().elements() == [t]
        pending.update_iter([(t, -1)])
    assert asked < 4000 * 60  # a look at all would be eight million


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(20, 3000))
def test_antichains_are_sets(seed: int) -> None:
    r = random.Random(seed)
    order, times, le = ORDERS[r.choice(list(ORDERS))]
    line, inserted = Antichain([], order), set[Any]()
    for _ in range(8):
        t = r.choice(times)
        assert line.insert(t) is not any(le(u, t) for u in inserted)
        inserted.add(t)
        assert set(line.elements()) == least(inserted, le) and len(line.elements()) == len(least(inserted, le))
        probe = r.choice(times)
        assert line.less_equal(probe) is any(le(u, probe) for u in inserted)
        assert line.less_than(probe) is any(le(u, probe) and u != probe for u in least(inserted, le))
    other = Antichain(r.sample(times, 2), order)
    assert line.dominates(other) is all(any(le(u, t) for u in inserted) for t in other.elements())
    assert set(line.meet(other).elements()) == least([*line.elements(), *other.elements()], le)
    try:
        joined = line.join(other)
    except UsageError:
        joined = None
    for t in times if joined is not None else ():
        assert joined.less_equal(t) is (line.less_equal(t) and other.less_equal(t)), (line, other, t)


def test_an_antichain_is_a_set_of_incomparable_times() -> None:
    assert Antichain([("a", 1), ("b", 2)]).elements() == [("a", 1)]
    assert Antichain([("a", 2), ("b", 1)]) == Antichain([("b", 1), ("a", 2)]) != Antichain([("a", 2)])
    with pytest.raises(UsageError, match="1 and 'b' are times of two domains"):
        Antichain([1, "b"])
    with pytest.raises(UsageError, match=r"\(1, 2\) is not a time of integers of 64 bits"):
        Antichain([1], order=Integers()).insert((1, 2))
    assert ChangeBatch([(1, 1), ("a", 2)]).into_inner() == [(1, 1), ("a", 2)]  # as they came: Python has no order
