"""A search finds everything, by shortest ways, and ends with its budget; cycles are found where one can stay."""

from __future__ import annotations

import random
from itertools import product

import pytest

from pellucid.internal.model import Budget, CutShort, Search, components, shortest_cycle
from tests.seeds import seeds

Edges = dict[int, list[tuple[str, int]]]


def graph(seed: int) -> Edges:
    rng = random.Random(seed)
    size = rng.randrange(1, 9)
    return {x: [(f"{x}-{y}", y) for y in range(size) if rng.random() < 0.25] for x in range(size)}


def distances(edges: Edges, start: int) -> dict[int, int]:
    """By relaxing every edge as often as there are states."""
    far = {start: 0}
    for _ in edges:
        for x, after in edges.items():
            for _, y in after:
                if x in far:
                    far[y] = min(far.get(y, len(edges)), far[x] + 1)
    return far


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(40))
def test_every_state_by_a_shortest_way(seed: int) -> None:
    edges = graph(seed)
    search = Search([0], edges.__getitem__)
    left = [x for x, _ in search]
    assert left == list(search.parents)
    assert {x: len(search.way(x)) for x in left} == distances(edges, 0)
    assert search.transitions == sum(len(edges[x]) for x in left)
    for x in left:  # the labels lead there
        at = 0
        for label in search.way(x):
            at = dict(edges[at])[label]
        assert at == x


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(40))
def test_components_are_what_reaches_each_other(seed: int) -> None:
    edges = graph(seed)
    reach = {x: set(distances(edges, x)) for x in edges}
    together = {frozenset(y for y in edges if y in reach[x] and x in reach[y]) for x in edges}
    parts = list(components({x: [y for _, y in after] for x, after in edges.items()}))
    assert {frozenset(part) for part in parts} == together and len(parts) == len(together)
    place = {x: i for i, part in enumerate(parts) for x in part}
    assert all(place[y] <= place[x] for x, after in edges.items() for _, y in after)  # what follows comes first
    for part in parts:
        entry, inside = part[0], set(part)
        cycle = shortest_cycle(edges.__getitem__, entry, inside)
        lengths = (
            [
                n
                for n in range(1, len(edges) + 1)
                for ways in product(inside, repeat=n - 1)
                if all(b in {y for _, y in edges[a]} for a, b in zip((entry, *ways), (*ways, entry), strict=True))
            ]
            if len(part) < 5
            else []
        )
        assert len(part) >= 5 or len(cycle) == min(lengths, default=0)


def test_a_search_ends_with_its_budget() -> None:
    endless = Search([0], lambda n: [("next", n + 1)], Budget(max_states=1000))
    with pytest.raises(CutShort, match="the limit of 1,000 states was reached"):
        endless.all()
    assert len(endless.parents) == 1001
    told: list[dict[str, int]] = []
    Search([0], lambda n: [("next", n + 1)] if n < 500 else [], Budget(progress=told.append)).all()
    assert [t["states"] for t in told] == [1, 129, 257, 385]
    with pytest.raises(CutShort, match=r"the time limit of 0 s was reached after 1 states"):
        Search([0], lambda n: [("next", n + 1)], Budget(0)).all()
