"""What the programs with loops have to say, by other means: union-find, Dijkstra's algorithm, and the sums of PageRank
written out.  Plain Python, nothing of Pellucid; and random graphs."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Mapping, Sequence


def components(links: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The least node that each node can reach (union-find)."""
    of: dict[int, int] = {}

    def root(a: int) -> int:
        while of.setdefault(a, a) != a:
            a = of[a]
        return a

    for a, b in links:
        low, high = sorted((root(a), root(b)))
        of[high] = low
    return {a: root(a) for a in of}


def shortest(roads: Mapping[tuple[str, str], int], start: str) -> dict[str, int]:
    """How far each place is that can be reached by a road (Dijkstra)."""
    done: dict[str, int] = {}
    heap = [(0, start)]
    while heap:
        far, place = heapq.heappop(heap)
        if place in done:
            continue
        done[place] = far
        for (a, b), minutes in roads.items():
            if a == place:
                heapq.heappush(heap, (far + minutes, b))
    return done


def pagerank(web: Mapping[str, Sequence[str]], rounds: int, damping: float = 0.85) -> dict[str, float]:
    """Every page has links; so many rounds, from equal ranks."""
    rank = dict.fromkeys(web, 1 / len(web))
    for _ in range(rounds):
        sums = dict.fromkeys(web, 0.0)
        for page, links in web.items():
            for to in links:
                sums[to] += rank[page] / len(links)
        rank = {page: (1 - damping) / len(web) + damping * sums[page] for page in web}
    return rank


def random_links(rng: random.Random, nodes: int, count: int) -> list[tuple[int, int, int]]:
    """Links (day, a, b), day after day."""
    return [(i * 5 // count, rng.randrange(nodes), rng.randrange(nodes)) for i in range(count)]


def random_readings(rng: random.Random, places: int, count: int) -> list[tuple[int, str, str, int]]:
    """Readings (batch, from, to, minutes), where a road may be read again, faster or slower; none twice in a batch."""
    names = ["home", *(f"p{i}" for i in range(1, places))]
    found: dict[tuple[int, str, str], int] = {}
    for i in range(count):
        a, b = rng.sample(names, 2)
        found[i * 4 // count, a, b] = rng.randint(1, 30)
    return [(batch, a, b, minutes) for (batch, a, b), minutes in found.items()]


def random_web(rng: random.Random, pages: int) -> dict[str, list[str]]:
    """Pages that all link to some others."""
    names = [f"page {i}" for i in range(pages)]
    return {name: rng.sample(names, rng.randint(1, min(5, pages))) for name in names}
