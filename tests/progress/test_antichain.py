"""Frontiers against their definition: the minimal ones of what has a positive count."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pytest

from pellucid.errors import UsageError
from pellucid.progress import Antichain, ChangeBatch, Integers, Lexicographic, MutableAntichain, Order, Own, Product
from tests.seeds import seeds

ORDERS: list[tuple[Order, str]] = [
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
@pytest.mark.parametrize(("order", "kind"), ORDERS, ids=str)
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


def test_an_antichain_is_a_set_of_incomparable_times() -> None:
    assert Antichain([("a", 1), ("b", 2)]).elements() == [("a", 1)]
    assert Antichain([("a", 2), ("b", 1)]) == Antichain([("b", 1), ("a", 2)]) != Antichain([("a", 2)])
    with pytest.raises(UsageError, match="1 and 'b' are times of two domains"):
        Antichain([1, "b"])
    with pytest.raises(UsageError, match=r"\(1, 2\) is not a time of integers of 64 bits"):
        Antichain([1], order=Integers()).insert((1, 2))
    assert ChangeBatch([(1, 1), ("a", 2)]).into_inner() == [(1, 1), ("a", 2)]  # as they came: Python has no order
