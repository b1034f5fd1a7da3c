"""What a round does, on lists instead of DataFrames: blocks are contracted, pointers followed, edges carried along.
The answers of many rounds are those of the definition, and there are few; on Spark it is the same algebra, in SQL."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pellucid.atomic.logs.contraction import DOOMED, FREE, contracted
from pellucid.atomic.logs.literal import affected, depths, together
from tests.judge.logs.draw import SHAPES, log
from tests.seeds import seeds

Edge = tuple[int, int, int, int]


def one_round(edges: list[Edge], blocks: int, *, levels: bool) -> tuple[dict[int, tuple[int, int, int]], list[Edge]]:
    """What each vertex points to, and the edges of the next round."""
    found: dict[int, tuple[int, int, int]] = {}
    left: list[Edge] = []
    keys = sorted({dst for _, dst, _, _ in edges})
    size = math.ceil(len(keys) / blocks)
    for at in range(0, len(keys), size):
        inside = set(keys[at : at + size])
        part = [edge for edge in edges if edge[1] in inside]
        points, stay = contracted(*(np.array([e[k] for e in part], np.int64) for k in range(4)), levels=levels)
        found |= {
            v: (p, w, c) for v, p, w, c in zip(*(points[k].tolist() for k in ("v", "ptr", "pw", "pc")), strict=True)
        }
        left += zip(*(stay[k].tolist() for k in ("src", "dst", "w", "c")), strict=True)
    left += [(p, v, w, c) for v, (p, w, c) in found.items() if p >= 0 and p != v]
    settled = {v: entry for v, entry in found.items() if entry[0] < 0}
    ahead = {}
    for v, (p, w, c) in found.items():
        if p >= 0 and p not in found:  # it needs nothing
            ahead[v] = (FREE, w, max(c, w))
        else:
            ahead[v] = (settled[p][0], w, max(c, w + settled[p][2])) if p in settled else (p, w, c)
    more = []
    for src, dst, w, c in left:
        if src < 0:
            more.append((src, dst, w, c))
        elif src not in ahead:
            more.append((FREE, dst, w, max(c, w)))
        elif (p := ahead[src][0]) == src:
            more.append((src, dst, w, c))
        else:
            more.append(
                (p, dst, w + ahead[src][1] if p >= 0 else w, max(c, w + ahead[src][2]) if p < 0 or ahead[src][2] else c)
            )
    if not levels:
        more = [edge for edge in more if edge[0] not in (FREE, edge[1])]
    return found, more


def reached(edges: list[Edge], blocks: int) -> tuple[set[int], int]:
    answer: set[int] = set()
    edges, rounds = [edge for edge in edges if edge[0] != edge[1]], 0
    while any(src == DOOMED for src, *_ in edges):
        rounds += 1
        found, more = one_round(edges, blocks, levels=False)
        assert len(more) <= len(edges)
        edges = more
        answer |= {v for v, (p, _, _) in found.items() if p == DOOMED}
    return answer, rounds


def leveled(edges: list[Edge], blocks: int) -> tuple[dict[int, int], int]:
    answer: dict[int, int] = {}
    edges, rounds = [edge for edge in edges if edge[0] != edge[1]], 0
    while edges:
        rounds += 1
        found, edges = one_round(edges, blocks, levels=True)
        free = {v: c for v, (p, _, c) in found.items() if p == FREE}
        if rounds > 1 and not free:
            break
        answer |= free
    return answer, rounds


@pytest.mark.seeded
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", seeds(25))
def test_many_rounds_say_what_is_defined(seed: int, shape: str) -> None:
    statuses, pairs = log(seed, 3 + seed % 25, shape)
    stops = {t for pair in pairs for t in pair if statuses.get(t) not in ("pending", "committed")}
    answer, _ = reached([(DOOMED if u in stops else u, t, 0, 0) for u, t in pairs], 1 + seed % 5)
    assert answer - stops == affected(pairs, stops) - stops
    named = {t for pair in pairs for t in pair}
    stuck = affected(pairs, {t for c in together(named, pairs) if len(c) > 1 for t in c})
    free = named - stuck
    wanted = {t: n for c, n in depths(free, [p for p in pairs if p[0] != p[1]]).items() for t in c}
    levels, _ = leveled([(u, t, 1, 0) for u, t in pairs], 1 + seed % 5)
    assert levels == {t: n for t, n in wanted.items() if n}


def shuffled(pairs: list[tuple[int, int]], n: int) -> list[tuple[int, int]]:
    return [((u * 7919) % n, (t * 7919) % n) for u, t in pairs]


def test_few_rounds() -> None:
    """Of the depth, the logarithm; of what is in order by key, that of the number of blocks."""
    n, blocks = 4000, 16
    chain = [(i, i + 1) for i in range(n - 1)]
    several = [(i - d, i) for i in range(n) for d in (1, 2, 3) if i >= d]
    pipelines = [(i - 4, i) for i in range(4, n)] + [(i - 1, i) for i in range(1, n) if i % 4]
    of_blocks = math.log2(blocks) + 3
    for pairs, most, of_levels in (
        (shuffled(chain, n), math.log2(n) + 2, math.log2(n) + 2),
        (chain, of_blocks, of_blocks),
        (several, of_blocks, of_blocks),
        (pipelines, of_blocks, blocks),  # how far one is ahead of another changes from block to block
    ):
        answer, rounds = reached([(DOOMED if u == 0 else u, t, 0, 0) for u, t in pairs], blocks)
        assert len(answer) == n - 1 and rounds <= most, rounds
        levels, rounds = leveled([(u, t, 1, 0) for u, t in pairs], blocks)
        assert len(levels) == n - 1 and rounds <= of_levels, rounds
