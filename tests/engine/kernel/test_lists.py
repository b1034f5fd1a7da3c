"""Lists in the kernel: the elements of lists of any length, compiled, in chunks, saved and loaded, are those that plain
Python gives."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, NamedTuple

import pytest

from pellucid import StepError, Stream, pipeline
from pellucid.errors import StateError
from pellucid.internal.engine.kernel import engine as engines
from pellucid.internal.engine.kernel import lookups
from pellucid.internal.engine.kernel.engine import Engine
from tests.engine.test_meaning import check
from tests.seeds import seeds
from tests.strategies import Seeded, make_input, make_judged
from tests.volumes import some_seeds


class Item(NamedTuple):
    sku: str
    n: int
    price: float | None
    parts: list[int]


class Order(NamedTuple):
    id: int
    items: list[Item]


class Line(NamedTuple):
    order: int
    sku: str
    n: int
    parts: int


@pipeline
def lines(orders: Stream[Order]) -> tuple[Stream[Line], Stream[int], Stream[int]]:
    """The lines of all orders, how many of each kind so far, and what is in their parts."""
    pairs = orders.explode(lambda o: o.items, beside=True, id="lines")
    made = pairs.map(lambda p: Line(p[0].id, p[1].sku, p[1].n, len(p[1].parts)))
    counts = made.key_by(lambda line: line.sku).cumulate(lambda t, line: t + line.n, start=0, id="counts")
    deep = orders.filter(lambda o: o.items).lag(1, id="before").explode(lambda p: p[1].items[-1].parts, id="deep")
    return made, counts, deep


def plainly(orders: list[Order]) -> tuple[list[Line], list[int], list[int]]:
    made = [Line(o.id, i.sku, i.n, len(i.parts)) for o in orders for i in o.items]
    counts, total = [], Counter[str]()
    for line in made:
        total[line.sku] += line.n
        counts.append(total[line.sku])
    there = [o for o in orders if o.items]
    return made, counts, [part for o in there[:-1] for part in o.items[-1].parts]


def orders_of(seed: int, count: int, longest: int) -> list[Order]:
    rng = random.Random(seed)
    item = lambda: Item(
        rng.choice("abcdefgh") * rng.choice([1, 1, 2]), rng.randrange(9), rng.choice([None, 0.5]),
        [rng.randrange(100) for _ in range(rng.choice([0, 1, 3]))],
    )  # fmt: skip
    return [Order(i, [item() for _ in range(rng.choice([0, 1, 2, 5, rng.randrange(longest)]))]) for i in range(count)]


@pytest.mark.seeded
@pytest.mark.parametrize("mode", ["python", "numba"])
def test_elements_of_any_length(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer lists than the kernel was made for, more of them than the tables hold, in chunks, saved and loaded."""
    monkeypatch.setattr(lookups, "_MOST_ELEMENTS", 3_000)
    orders = orders_of(seeds(1)[0], 400, 4)[:50] + orders_of(seeds(1, 9)[0], 600, 60)
    engine = Engine(lines.graph, mode=mode)
    names, got = [name for name, _ in lines.graph.outputs], [[], [], []]  # type: ignore[var-annotated]
    for at in range(0, len(orders), 130):
        out = engine.push(orders[at : at + 130])
        for name, events in zip(names, got, strict=True):
            events += out[name]
        saved = engine.save()
        engine = Engine(lines.graph, mode=mode)
        engine.load(saved)
    assert tuple(got) == plainly(orders)


def test_a_list_too_long_to_compile_for_runs_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_LONG", 16)
    p = pipeline(lambda x: x.explode(lambda v: v), x=list[int])
    engine = Engine(p.graph, mode="numba")
    assert engine.push([list(range(100)), [], [7]]) == [*range(100), 7]
    assert engine.push([[8]]) == [8]


def test_a_saved_state_of_another_list_is_refused() -> None:
    def made(t: Any) -> Engine:
        return pipeline(lambda x: x.lag(1, id="last"), x=t).engine()

    ints, floats = made(list[int]), made(list[float])
    ints.push([[1], [2, 3]])
    with pytest.raises(StateError, match=r"was list\[int\], and is now list\[float\]"):
        floats.load(ints.save())
    again = made(list[int])
    again.load(ints.save())
    assert again.push([[4]]) == [([4], [2, 3])]


def test_a_function_that_loops_is_called() -> None:
    p = pipeline(lambda x: x.explode(lambda o: [i.n * o.id for i in o.items if i.n], to=int, id="each"), x=Order)
    orders = orders_of(3, 40, 9)
    assert p(orders) == [i.n * o.id for o in orders for i in o.items if i.n]
    assert p.why_plain is not None and "loops over a list, whose length is not known" in p.why_plain
    wrong = pipeline(lambda x: x.explode(lambda o: [1 // i.n for i in o.items], to=int, id="each"), x=Order)
    with pytest.raises(StepError, match=r"step 'each'.*ZeroDivisionError"):
        wrong(orders)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(40, 300))
def test_random_pipelines(seed: int) -> None:
    """Of events with lists in them: what they mean is what the interpreter and the kernel say."""
    c = Seeded(seed)
    p, telling = make_judged(c, max_steps=8, sources=2, lists=True)
    pushes = make_input(c, p, c.of(range(5, 30)))
    keys = [c.of([0, 1, 2]) for _ in pushes] if seed % 2 else None
    check(p, telling, pushes, keys, [c.of(range(9)) for _ in range(5)], "python")


@pytest.mark.long
@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(100, 5000))
def test_random_pipelines_compiled(seed: int) -> None:
    c = Seeded(seed)
    p, telling = make_judged(c, max_steps=8, sources=2, lists=True)
    if Engine(p.graph).why_plain is None:
        check(p, telling, make_input(c, p, 30), None, [c.of(range(9)) for _ in range(5)], "numba")
