"""A block made smaller says what it said: whatever is known of its atoms, its vertices are doomed as before, and on the
same levels."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from pellucid.atomic.logs import contraction
from pellucid.atomic.logs.contraction import DOOMED, FREE, contracted
from tests.judge.logs.draw import SHAPES, log
from tests.seeds import seeds

OUTSIDE = 1000  # keys from here on are atoms
pytestmark = pytest.mark.seeded


def block(seed: int, *, cycles: bool) -> tuple[list[tuple[int, int, int, int]], list[int]]:
    """Edges (src, dst, w, c) to vertices of a block, from inside and outside."""
    chance = random.Random(seed)
    n = chance.randint(1, 30)
    pairs = [(u, t) for u, t in log(seed, n, chance.choice(list(SHAPES)))[1] if u < n and t < n]
    if not cycles:
        pairs = [(min(p), max(p)) for p in pairs if p[0] != p[1]]
    atoms = [OUTSIDE + i for i in range(chance.randint(0, 4))]
    edges = [(u, t, chance.randint(1, 3), chance.choice([0, 0, chance.randint(0, 9)])) for u, t in pairs]
    edges += [
        (chance.choice(atoms), chance.randrange(n), chance.randint(1, 3), 0)
        for _ in range(chance.randint(0, 8))
        if atoms
    ]
    inside = {t for _, t, _, _ in edges}
    # A block has all edges to its vertices: who is needed and has none is outside.
    moved = [(u if u in inside or u >= OUTSIDE else OUTSIDE + 100 + u, t, w, c) for u, t, w, c in edges]
    return moved, sorted({u for u, *_ in moved if u >= OUTSIDE})


def arrays(edges: list[tuple[int, int, int, int]]) -> list[Any]:
    return [np.array([e[k] for e in edges], np.int64) for k in range(4)]


@pytest.mark.parametrize("width", [2, 8])
@pytest.mark.parametrize("seed", seeds(150))
def test_doomed_as_before(seed: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction, "WIDTH", width)
    chance = random.Random(seed)
    edges, atoms = block(seed, cycles=True)
    if not edges:
        return
    if chance.random() < 0.3:
        edges = [*edges, (DOOMED, chance.choice(edges)[1], 0, 0)]
    found, left = contracted(*arrays(edges), levels=False)
    pointers = dict(zip(found["v"].tolist(), found["ptr"].tolist(), strict=True))
    after = list(zip(left["src"].tolist(), left["dst"].tolist(), strict=True))
    assert len(after) <= len(edges) and all(pointers[t] == t for _, t in after)
    for _ in range(8):
        doomed = {DOOMED, *(a for a in atoms if chance.random() < 0.3)}
        before = closure(doomed, [(u, t) for u, t, _, _ in edges])
        links = [(p, v) for v, p in pointers.items() if p != v and p != FREE]
        assert closure(doomed, [*links, *after]) & set(pointers) == before & set(pointers)


def closure(doomed: set[int], pairs: list[tuple[int, int]]) -> set[int]:
    found = set(doomed)
    while more := {t for u, t in pairs if u in found} - found:
        found |= more
    return found


@pytest.mark.parametrize("width", [2, 8])
@pytest.mark.parametrize("seed", seeds(150))
def test_on_the_same_levels(seed: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction, "WIDTH", width)
    chance = random.Random(seed)
    edges, atoms = block(seed, cycles=seed % 3 == 0)
    if not edges:
        return
    if chance.random() < 0.3:
        edges = [*edges, (FREE, chance.choice(edges)[1], 0, chance.randint(1, 9))]
    found, left = contracted(*arrays(edges), levels=True)
    rows = list(zip(*(found[k].tolist() for k in ("v", "ptr", "pw", "pc")), strict=True))
    after = list(zip(*(left[k].tolist() for k in ("src", "dst", "w", "c")), strict=True))
    links = [(p, v, w, c) for v, p, w, c in rows if p != v]
    for _ in range(8):
        known = {a: chance.randint(0, 12) for a in atoms}
        assert levels(known, [*links, *after]) == levels(known, edges)


def levels(known: dict[int, int], edges: list[tuple[int, int, int, int]]) -> dict[int, int]:
    """The levels of all that no cycle comes before."""
    found, waits = dict(known), {t for _, t, _, _ in edges}
    while True:
        ready = {t for t in waits if all(u == FREE or u in found for u, d, _, _ in edges if d == t)}
        if not ready:
            return found
        for t in ready:
            found[t] = max(max(c, found[u] + w if u != FREE else c) for u, d, w, c in edges if d == t)
        waits -= ready


def test_a_block_of_a_deep_graph_is_one_vertex() -> None:
    """Each needs its last three: all of them need what the first three need."""
    n = 5000
    edges = [(i - d, i, 1, 0) for i in range(100, n) for d in (1, 2, 3)]
    for of_levels in (False, True):
        found, left = contracted(*arrays(edges), levels=of_levels)
        stay = found["v"][found["ptr"] == found["v"]]
        assert len(stay) <= 3 and len(left["src"]) <= 9
