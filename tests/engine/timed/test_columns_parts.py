"""What the engine over columns is made of, each held to something that anybody can read."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pellucid.internal.engine.timed.columns import order as order_module
from pellucid.internal.engine.timed.columns.keys import Keys, Numbers
from pellucid.internal.engine.timed.columns.order import by_key_and_time, canonical, numbers, order_by
from pellucid.internal.engine.timed.columns.rows import LEAST, MOST, later
from pellucid.internal.engine.timed.columns.search import Index
from pellucid.internal.engine.timed.columns.texts import Texts
from pellucid.internal.engine.timed.columns.waiting import Waiting
from pellucid.internal.engine.timed.order import ranking
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, type_of
from tests.seeds import seeds

MANY = 40_000


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(3))
def test_sorting_many_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    near = np.arange(MANY) - rng.integers(0, 9, MANY)
    far = rng.integers(LEAST, MOST, MANY)
    few = rng.integers(-3, 3, MANY)
    same = np.full(MANY, 7)
    for columns in (
        [near],
        [far],
        [few],
        [same],
        [few, near],
        [few, far],
        [far, few],
        [same, near],
        [few, same],
        [far, far],
    ):
        assert (order_by(columns) == np.lexsort(columns[::-1])).all()
        order, new, times = by_key_and_time(columns[:-1], columns[-1], (), (), Texts())
        assert (order == np.lexsort(columns[::-1])).all() and (times == columns[-1][order]).all()
        expected = [i == 0 or any(c[order[i]] != c[order[i - 1]] for c in columns[:-1]) for i in range(MANY)]
        assert new.tolist() == expected


@pytest.mark.seeded
@pytest.mark.parametrize("count", [50, MANY])
def test_the_canonical_order_is_that_of_the_literal_engine(count: int) -> None:
    rng = random.Random(count)
    t = type_of(tuple[str, float, bool, int])
    choices = ["", "a", "B", "Zoë", "\U0001d7d8", "￿"], [0.0, -0.0, 1.5, -1.5, float("inf"), float("nan")]
    events = [
        (rng.choice(choices[0]), rng.choice(choices[1]), rng.random() < 0.5, rng.randrange(3)) for _ in range(count)
    ]
    when = np.array([rng.randrange(count // 10) for _ in range(count)])
    texts = Texts()
    leaves = [
        texts.taken([e[0] for e in events]), np.array([e[1] for e in events]), np.array([e[2] for e in events]),
        np.array([e[3] for e in events]),
    ]  # fmt: skip
    order = canonical([when], (STR, FLOAT, BOOL, INT), leaves, texts)
    rank = ranking(t)
    assert order.tolist() == sorted(range(count), key=lambda i: (when[i], rank(events[i])))


def test_numbers_of_leaves_keep_their_order() -> None:
    floats = np.array([-np.inf, -1.5, -5e-324, -0.0, 0.0, 5e-324, 2.5, np.inf, np.nan])
    assert numbers(FLOAT, floats, Texts()).argsort(kind="stable").tolist() == list(range(9))
    assert numbers(FLOAT, np.array([np.nan, -np.nan]), Texts()).tolist() == [MOST, MOST]


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(5))
def test_rows_that_wait_go_when_they_are_due(seed: int) -> None:
    rng = random.Random(seed)
    waiting, plain, name, now = Waiting([np.int64]), [], 0, 0
    for _ in range(300):
        due = [now + rng.randrange(-5, 60) for _ in range(rng.choice([0, 1, 3, 50]))]
        names = list(range(name, name + len(due)))
        name += len(due)
        waiting.add(np.array(due, np.int64), [np.array(names, np.int64)])
        plain += zip(due, names, strict=True)
        now += rng.randrange(4)
        found = waiting.take(now)
        assert sorted(zip(found[0].tolist(), found[1].tolist(), strict=True)) == sorted(p for p in plain if p[0] <= now)
        plain = [p for p in plain if p[0] > now]
        assert len(waiting) == len(plain) and waiting.least == min((p[0] for p in plain), default=None)
        if rng.random() < 0.1:
            columns = waiting.columns()
            waiting = Waiting([np.int64])
            waiting.put(columns)
    assert len(waiting.take(None)[0]) == len(plain)


@pytest.mark.seeded
@pytest.mark.parametrize("wide", [False, True])
def test_rows_are_found_by_key_and_time(wide: bool) -> None:
    """Also where key and time do not go into one number."""
    rng = random.Random(wide)
    scale = 2**58 if wide else 1
    index, plain = Index(), []
    for _ in range(60):
        some = [(rng.randrange(5), rng.randrange(-30, 30) * scale, len(plain) + i) for i in range(rng.randrange(20))]
        plain += some
        index.add(*(np.array([row[j] for row in some], np.int64) for j in range(3)))
        asked = [(rng.randrange(-1, 7), rng.randrange(-31, 31) * scale, rng.randrange(4) * scale) for _ in range(10)]
        key, low = (np.array([a[j] for a in asked]) for j in range(2))
        high = np.array([a[1] + a[2] for a in asked])
        probe, row = index.between(key, low, high)
        found = sorted(zip(probe.tolist(), row.tolist(), strict=True))
        assert found == sorted(
            (i, name)
            for i, (k, at, long) in enumerate(asked)
            for key, t, name in plain
            if key == k and at <= t <= at + long
        )
        for at, last in enumerate(index.last(key, low).tolist()):
            before = [t for k, t, _ in plain if k == asked[at][0] and t <= asked[at][1]]
            assert (last < 0) == (not before) and (last < 0 or plain[last][1] == max(before))


@pytest.mark.parametrize("many", [order_module.MANY, 15])
def test_numbers_get_places_as_they_come(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a dictionary, and in a table that compiled code looks at, which grows."""
    monkeypatch.setattr(order_module, "MANY", many)
    rng = random.Random(1)
    places, plain = Numbers(), {}
    for _ in range(200):
        values = [
            rng.choice([rng.randrange(10), rng.randrange(5000), rng.randrange(-(2**63), 2**63)])
            for _ in range(rng.choice([3, 20, 90]))
        ]
        if rng.random() < 0.3:
            assert places.places(np.array(values), False).tolist() == [plain.get(v, -1) for v in values]
        found = places.places(np.array(values), True).tolist()
        for value, place in zip(values, found, strict=True):
            assert plain.setdefault(value, place) == place
        assert sorted(plain.values()) == list(range(places.count))


def test_keys_of_several_leaves() -> None:
    keys = Keys((INT, BOOL, STR))
    columns = [np.array([1, 1, 2, 1]), np.array([True, False, True, True]), np.array([0, 0, 0, 0])]
    assert keys.of(columns, 4).tolist() == [0, 1, 2, 0]
    assert keys.of([np.array([1, 3]), np.array([False, True]), np.array([0, 0])], 2, add=False).tolist() == [1, -1]
    keys.keep(np.array([2, 0]))
    assert [c.tolist() for c in keys.columns()] == [[2, 1], [True, True], [0, 0]]
    assert keys.of(columns, 4).tolist() == [1, 2, 0, 1]


def test_many_keys_of_several_leaves_and_of_any_width() -> None:
    rng = np.random.default_rng(2)
    first, second = rng.integers(-(2**62), 2**62, 900)[rng.integers(0, 900, MANY)], rng.integers(0, 30, MANY)
    keys, plain = Keys((INT, INT)), {}
    for part in np.split(np.arange(MANY), [33_000, 33_010]):
        found = keys.of([first[part], second[part]], len(part))
        for own, place in zip(
            zip(first[part].tolist(), second[part].tolist(), strict=True), found.tolist(), strict=True
        ):
            assert plain.setdefault(own, place) == place
    assert sorted(plain.values()) == list(range(keys.count))
    assert list(zip(*(c.tolist() for c in keys.columns()), strict=True)) == sorted(plain, key=plain.__getitem__)


def test_times_stay_within_64_bits() -> None:
    times = np.array([LEAST, -1, 0, MOST])
    assert later(times, 5).tolist() == [LEAST + 5, 4, 5, MOST]
    assert later(times, -5).tolist() == [LEAST, -6, -5, MOST - 5]
    assert later(times, 2**63).tolist() == [0, MOST, MOST, MOST]  # of a length that does not fit itself
