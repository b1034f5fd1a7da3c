"""The three programs with loops say what other algorithms say, on random graphs, in any order of rows."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.examples.flights_oracle import example
from tests.examples.loops_oracle import components, pagerank, random_links, random_readings, random_web, shortest
from tests.seeds import seeds

COMPONENTS, PATHS, RANKS = example("loop_components"), example("loop_paths"), example("loop_pagerank")


def ways_told(rows: list[tuple[int, str, str, int]]) -> list[tuple[int, str, int]]:
    """After each batch: every place but the first that can be reached, and how far it is; a circle back home counts as
    a way to it."""
    out, roads = [], {}
    for batch in sorted({row[0] for row in rows}):
        roads |= {(a, b): minutes for at, a, b, minutes in rows if at == batch}
        far = shortest(roads, "home")
        home = [far[a] + minutes for (a, b), minutes in roads.items() if b == "home" and a in far]
        far["home"] = min(home, default=0)
        out += [(batch, place, minutes) for place, minutes in far.items() if place != "home" or home]
    return sorted(out)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(2, 30))
def test_connected_components_of_a_growing_graph(seed: int) -> None:
    rng = random.Random(seed)
    links = random_links(rng, 40, 50)
    found: dict[int, int] = {}
    for day, out in zip(links, COMPONENTS.components.trace([COMPONENTS.Link(*row) for row in links])[1:], strict=True):
        found |= {c.node: c.name for c in out}
        if out:  # a day is complete: all links up to it are told
            done = max(row[0] for row in links if row[0] <= day[0]) if out is not None else 0
            known = [components([(a, b) for at, a, b in links if at <= d]) for d in range(done + 1)]
            assert found in known
    assert found == components([(a, b) for _, a, b in links])
    mixed = COMPONENTS.components([COMPONENTS.Link(*row) for row in rng.sample(links, len(links))])
    assert {c.node: c.name for c in mixed} == found


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(2, 30))
def test_shortest_ways_after_each_batch(seed: int) -> None:
    rng = random.Random(seed)
    rows = random_readings(rng, 9, 60)
    found = PATHS.shortest([PATHS.Reading(*row) for row in rng.sample(rows, len(rows))])
    assert sorted((w.batch, w.place, w.minutes) for w in found) == ways_told(rows)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(2, 30))
def test_ranks_of_pages(seed: int) -> None:
    rng = random.Random(seed)
    web = random_web(rng, 30)
    pages = [RANKS.Page(name, links, 1 / len(web)) for name, links in web.items()]
    p = RANKS.ranked(len(web))
    found: list[Any] = p(pages)
    assert {page.name: page.rank for page in found} == pytest.approx(pagerank(web, 20), rel=1e-12)
    assert p(rng.sample(pages, len(pages))) == found  # to the last bit
