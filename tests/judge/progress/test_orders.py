"""A judge of orders and antichains: by their definitions, as sets and multisets."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest

from pellucid import errors
from pellucid.progress import (
    Antichain,
    ChangeBatch,
    Domains,
    Integers,
    Lexicographic,
    Loop,
    MutableAntichain,
    Order,
    Own,
    Product,
    Stacks,
)
from tests.judge.progress.meaning import LessEqual, least, loops, product
from tests.seeds import seeds

SMALL = range(3)
PAIRS = list(itertools.product(SMALL, SMALL))
TRIPLES = list(itertools.product(range(2), repeat=3))

ORDERS: dict[str, tuple[Order, list[Any], LessEqual]] = {
    "integers": (Integers(), list(range(-2, 3)), lambda a, b: a <= b),
    "product": (Product(Integers(), Integers()), PAIRS, product),
    "product of a product": (
        Product(Product(Integers(), Integers()), Integers()),
        [((a, b), c) for a, b, c in TRIPLES],
        lambda a, b: product((*a[0], a[1]), (*b[0], b[1])),
    ),
    "lexicographic": (Lexicographic(Integers(), Integers()), PAIRS, lambda a, b: a <= b),
    "lexicographic over a product": (
        Lexicographic(Product(Integers(), Integers()), Integers()),
        [((a, b), c) for a, b, c in TRIPLES],
        lambda a, b: a[1] <= b[1] if a[0] == b[0] else product(a[0], b[0]),
    ),
    "loop": (Loop(Integers()), PAIRS, loops),
    "loop in a loop": (Loop(Loop(Integers())), TRIPLES, loops),
    "loop around pairs": (Loop(Product(Integers(), Integers())), TRIPLES, product),
    "domains": (
        Domains({"gmt": Integers(), "step": Product(Integers(), Integers())}),
        [("gmt", n) for n in SMALL] + [("step", p) for p in PAIRS],
        lambda a, b: a[0] == b[0] and (a[1] <= b[1] if a[0] == "gmt" else product(a[1], b[1])),
    ),
    "stacks": (
        Stacks(["c", "d"]),
        [s for n in range(3) for s in itertools.product("cd", repeat=n)],
        lambda a, b: b[: len(a)] == a,
    ),
    "own": (Own(lambda a, b: b % a == 0, range(1, 13)), list(range(1, 13)), lambda a, b: b % a == 0),
}
STRANGERS: list[Any] = ["x", 1.5, (1,), (1, 2, 3, 4), ("gmt", "x"), ("utc", 1), True, None, ("e",), 0.0]


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_is_its_definition(name):
    order, times, le = ORDERS[name]
    for a, b in itertools.product(times, times):
        assert order.less_equal(a, b) is le(a, b), (a, b)
        assert order.less_than(a, b) is (le(a, b) and not le(b, a)), (a, b)
    lows = [t for t in times if all(le(t, u) for u in times)]
    for a, b in itertools.product(times, times):
        above = [t for t in times if le(a, t) and le(b, t)]
        least = [t for t in above if all(le(t, u) for u in above)]
        try:
            joined = order.join(a, b)
        except errors.UsageError:
            continue
        assert le(a, joined) and le(b, joined), (a, b, joined)
        assert not least or joined == least[0], (a, b, joined)
        met = order.meet(a, b)
        below = [t for t in times if le(t, a) and le(t, b)]
        assert le(met, a) and le(met, b) and all(le(t, met) for t in below), (a, b, met)
    assert order.minimum() is None or not lows or order.less_equal(order.minimum(), lows[0])
    for stranger in STRANGERS:
        if order.holds(stranger):
            continue
        with pytest.raises(errors.UsageError) as told:
            order.less_equal(times[0], stranger)
        assert repr(stranger) in str(told.value)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(40, 2000))
def test_what_is_no_order_is_refused_with_the_elements_that_show_it(seed):
    r = random.Random(seed)
    items = list("abcd")
    holds = {(a, b): a == b or r.random() < 0.25 for a in items for b in items}
    if seed % 4 == 0:
        holds[r.choice(items), "b"] = False
    reflexive = [a for a in items if not holds[a, a]]
    both = [(a, b) for a in items for b in items if a < b and holds[a, b] and holds[b, a]]
    chains = [
        (a, b, c) for a, b, c in itertools.product(items, repeat=3) if holds[a, b] and holds[b, c] and not holds[a, c]
    ]
    if not (reflexive or both or chains):
        Own(lambda a, b: holds[a, b], items)
        return
    with pytest.raises(errors.PipelineError) as told:
        Own(lambda a, b: holds[a, b], items, name="mine")
    message = str(told.value)
    assert message.startswith("mine is not an order")
    shown = (
        [f"{a!r} ≤ {a!r}" for a in reflexive]
        + [f"{a!r} ≤ {b!r} and {b!r} ≤ {a!r}" for a, b in both]
        + [f"{b!r} ≤ {a!r} and {a!r} ≤ {b!r}" for a, b in both]
        + [f"{a!r} ≤ {b!r} and {b!r} ≤ {c!r}, but {a!r} ≤ {c!r} does not hold" for a, b, c in chains]
    )
    assert any(s in message for s in shown), (message, shown)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(60, 3000))
def test_antichains_are_sets_and_counted_ones_multisets(seed):
    r = random.Random(seed)
    order, times, le = ORDERS[r.choice(list(ORDERS))]
    line, inserted = Antichain([], order), set()
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
    except errors.UsageError:
        joined = None
    for t in times if joined is not None else ():
        assert joined.less_equal(t) is (line.less_equal(t) and other.less_equal(t)), (line, other, t)

    counted, counts = MutableAntichain([], order), Counter()
    for _ in range(25):
        updates = [(r.choice(times), r.choice([-2, -1, -1, 1, 1, 2, 0])) for _ in range(r.randrange(4))]
        before = least([t for t, n in counts.items() if n > 0], le)
        for t, n in updates:
            counts[t] += n
        after = least([t for t, n in counts.items() if n > 0], le)
        changes = counted.update_iter(updates)
        assert sorted(changes, key=repr) == sorted(
            [(t, 1) for t in after - before] + [(t, -1) for t in before - after], key=repr
        )
        assert set(counted.frontier().elements()) == after and counted.is_empty() is not after
        assert {t: n for t, n in counted.updates() if n} == {t: n for t, n in counts.items() if n}
        probe = r.choice(times)
        assert counted.count_for(probe) == counts[probe]
        assert counted.less_equal(probe) is any(le(u, probe) for u in after)
        assert counted.less_than(probe) is any(le(u, probe) and u != probe for u in after)

    batch, second, net = ChangeBatch(), ChangeBatch([(times[0], 1)]), Counter()
    for _ in range(12):
        t, n = r.choice(times), r.choice([-1, 1, 0, 2])
        batch.update(t, n)
        net[t] += n
        alive = {t: n for t, n in net.items() if n}
        assert len(batch) == len(alive) and batch.is_empty() is not alive and dict(batch.iter()) == alive
    batch.drain_into(second)
    net[times[0]] += 1
    assert batch.is_empty() and batch.drain() == [] and dict(second.drain()) == {t: n for t, n in net.items() if n}
