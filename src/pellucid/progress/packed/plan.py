"""A graph as tables of numbers, and the order in which its pointstamps are settled.

A pointstamp must be settled before those that it could result in.  Without loops a rank for each location does: its
place in a topological order.  On a loop the times decide, coordinate by coordinate: first the rank among all locations
(those of one loop share it), then the first coordinate; among those that stay at the same first coordinate again a rank
(loops that go round without advancing it share it), then the second coordinate, and so on.  In the end no loop is left,
because every loop advances something.  So ``(rank₀, t₀, rank₁, t₁, …, rankₙ)`` is a linear order of pointstamps that
agrees with could-result-in, also where a loop is inside another one and has a coordinate more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pellucid.model.components import components
from pellucid.progress.builder import Arcs
from pellucid.progress.rows import Layout, layout
from pellucid.progress.summaries import Same, Set, Shift, Summary
from pellucid.progress.times import LEAST, MOST, Order

if TYPE_CHECKING:
    import numpy as np

HEAD = 8  # numbers at the beginning of the tables: width, locations, domains, arcs, summaries


class NotPacked(Exception):  # noqa: N818 - a reason, not a mistake
    """Why a graph has no tables."""


class Plan(NamedTuple):
    """The tables, as one array (see `kernel.tables`), and the rows of times at each location."""

    width: int
    tables: np.ndarray
    layouts: list[Layout]


def plan(arcs: Arcs) -> Plan:
    """The tables of a graph whose loops all advance."""
    import numpy as np

    known: dict[Order, Layout] = {}
    for order in set(arcs.orders):
        found = layout(order)
        if found is None:
            raise NotPacked(f"times of {order} are not whole numbers")
        if min(found.low) < LEAST or max(found.high) > MOST:
            raise NotPacked(f"times of {order} do not fit into 64 bits with a sign")
        known[order] = found
    layouts = [known[order] for order in arcs.orders]
    width = max((len(found.low) for found in layouts), default=1)
    orders = list(known)
    number = {order: n for n, order in enumerate(orders)}
    ends = [_ends(known[order], width) for order in orders]
    summaries: dict[Summary, int] = {}
    starts, to, how = [0], [], []
    for ways in arcs.ways:
        for there, way in ways:
            to.append(there)
            how.append(-1 if isinstance(way, Same) else summaries.setdefault(way, len(summaries)))
        starts.append(len(to))
    rows = [_summary(way, width) for way in summaries]
    head = [width, len(layouts), len(orders), len(to), len(rows)]
    parts = [
        head + [0] * (HEAD - len(head)),
        [number[order] for order in arcs.orders],
        [n for row in ends for n in row],
        [n for row in _ranks(arcs, layouts, width) for n in row],
        starts,
        to,
        how,
        [n for row in rows for n in row],
    ]
    return Plan(width, np.array([n for part in parts for n in part], dtype=np.int64), layouts)


def _ends(found: Layout, width: int) -> list[int]:
    """For each coordinate whether it is the last of its group."""
    out: list[int] = []
    for size in found.groups:
        out += [0] * (size - 1) + [1]
    return out + [1] * (width - len(out))


def _summary(way: Summary, width: int) -> list[int]:
    """For each coordinate: the least and the greatest that get through, whether it is set, and what is added or set."""
    assert isinstance(way, Shift)
    out = []
    for p in range(width):
        low, high = way.window[p] if p < len(way.window) else (0, 0)
        move = way.moves[p] if p < len(way.moves) else Set(0)
        if way.empty:
            low, high = 1, 0
        fixed = isinstance(move, Set)
        added = move.to if isinstance(move, Set) else move
        out += [
            low,
            high,
            int(fixed),
            added if LEAST <= added <= MOST else 0,
        ]  # beyond: the window lets nothing through
    return out


def _ranks(arcs: Arcs, layouts: list[Layout], width: int) -> list[list[int]]:
    ranks = [[0] * (width + 1) for _ in layouts]
    todo: list[tuple[list[int], int]] = [(list(range(len(layouts))), 0)]
    while todo:
        part, level = todo.pop()
        inside = set(part) if level else None
        graph = {
            n: [there for there, way in arcs.ways[n] if (inside is None or there in inside) and _keeps(way, level)]
            for n in part
        }
        found = list(components(graph))
        for rank, knot in enumerate(reversed(found)):
            for n in knot:
                ranks[n][level] = rank
            if len(knot) == 1 and knot[0] not in graph[knot[0]]:
                continue
            within = set(knot)
            for n in knot:
                if level >= len(layouts[n].low):
                    raise NotPacked(f"a loop through {arcs.places[n]} advances no coordinate of its times")
                for there, way in arcs.ways[n]:
                    if there in within and _keeps(way, level) and not _forward(way, level):
                        raise NotPacked(f"the summary {way} from {arcs.places[n]} goes back on its way round a loop")
            todo.append((knot, level + 1))
    return ranks


def _keeps(way: Summary, level: int) -> bool:
    """Whether the first coordinates stay as they are."""
    return isinstance(way, Same) or (isinstance(way, Shift) and all(move == 0 for move in way.moves[:level]))


def _forward(way: Summary, level: int) -> bool:
    if isinstance(way, Same):
        return True
    if not isinstance(way, Shift) or level >= len(way.moves):
        return False
    move = way.moves[level]
    return isinstance(move, int) and move >= 0
