"""The three programs with loops say what other algorithms say, on random graphs, in any order of rows."""

from __future__ import annotations

import random
from typing import Any

import networkx
import pytest
from networkx.algorithms.link_analysis.pagerank_alg import _pagerank_python

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


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(2, 30))
def test_as_networkx_says(seed: int) -> None:
    """A well-kept library of graphs, which knows nothing of streams."""
    rng = random.Random(seed)
    links = random_links(rng, 40, 50)
    told = {c.node: c.name for c in COMPONENTS.components([COMPONENTS.Link(*row) for row in links])}
    graph = networkx.Graph((a, b) for _, a, b in links)
    assert told == {node: min(part) for part in networkx.connected_components(graph) for node in part}

    rows = random_readings(rng, 9, 60)
    found = PATHS.shortest([PATHS.Reading(*row) for row in rows])
    roads = networkx.DiGraph()
    for batch in sorted({row[0] for row in rows}):
        roads.add_weighted_edges_from(row[1:] for row in rows if row[0] == batch)
        far = networkx.single_source_dijkstra_path_length(roads, "home")
        mine = {w.place: w.minutes for w in found if w.batch == batch}
        assert {k: v for k, v in mine.items() if k != "home"} == {k: v for k, v in far.items() if k != "home"}

    web = random_web(rng, 30)
    pages = [RANKS.Page(name, list(dict.fromkeys(links)), 1 / len(web)) for name, links in web.items()]
    ranks = {page.name: page.rank for page in RANKS.ranked(len(web), 200)(pages)}
    # The public function wants SciPy; this is the same in plain Python.
    settled = _pagerank_python(
        networkx.DiGraph((p.name, to) for p in pages for to in p.links), 0.85, tol=1e-13, max_iter=500
    )
    assert ranks == pytest.approx(settled, rel=1e-9)
