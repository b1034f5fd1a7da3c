"""What a clock means, said once more without anything that the clock is made of: graphs as dictionaries, times as
tuples, summaries as functions, and frontiers by going along every arc until nothing earlier is found.

A *graph* here is: for each location its successors, each with a function from a time to a time or None.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

from pellucid.progress import (
    Builder,
    Domains,
    Integers,
    Lexicographic,
    Loop,
    Order,
    Own,
    Product,
    Set,
    Shift,
    Source,
    Step,
    Summary,
    Tagged,
    Target,
    enter,
    feedback,
    leave,
)

Before = Callable[[Any, Any], bool]
Way = Callable[[Any], Any]


def minimal(times: Iterable[Any], le: Before) -> set[Any]:
    known = set(times)
    return {t for t in known if not any(le(u, t) and u != t for u in known)}


def frontiers(
    arcs: Mapping[Hashable, list[tuple[Hashable, Way]]], counts: Mapping[tuple[Any, Any], int], le: Mapping[Any, Before]
) -> dict[Any, set[Any]]:
    """The least times that may still come to each location."""
    found: dict[Any, set[Any]] = {place: set() for place in arcs}
    todo = [key for key, count in counts.items() if count > 0]
    while todo:
        place, time = todo.pop()
        if any(le[place](known, time) for known in found[place]):
            continue
        found[place] = {known for known in found[place] if not le[place](time, known)} | {time}
        for there, way in arcs[place]:
            then = way(time)
            if then is not None:
                todo.append((there, then))
    return found


def loops_advance(
    arcs: Mapping[Hashable, list[tuple[Hashable, Way]]], le: Mapping[Any, Before], times: Mapping[Any, list[Any]]
) -> bool:
    """Whether every simple loop takes every sample to a later time, by walking all of them."""

    def walk(start: Any, at: Any, time: Any, then: Any, seen: frozenset[Any]) -> bool:
        for there, way in arcs[at]:
            further = way(then)
            if further is None:
                continue
            if there == start:
                if further == time or not le[start](time, further):
                    return False
            elif there not in seen and not walk(start, there, time, further, seen | {there}):
                return False
        return True

    return all(walk(place, place, time, time, frozenset([place])) for place in arcs for time in times[place])


# ---------------------------------------------------------------- families of times


def _plus(by: tuple[int, ...], low: int, high: int) -> Way:
    def way(time: tuple[int, ...]) -> tuple[int, ...] | None:
        then = tuple(t + n for t, n in zip(time, by, strict=True))
        return then if all(low <= n <= high for n in then) else None

    return way


class Family(NamedTuple):
    """An order, a sample of its times, what is before what, and ways within it: as a summary and as a function."""

    order: Order
    times: list[Any]
    le: Before
    ways: list[tuple[Summary | int | tuple[Any, ...], Way]]


def _bare(way: Way) -> Way:
    def bare(time: int) -> int | None:
        then = way((time,))
        return None if then is None else then[0]

    return bare


def families() -> dict[str, Family]:
    """By name."""
    wide, pairs = 10**6, [(a, b) for a in range(5) for b in range(5)]
    ints = [(n, _bare(_plus((n,), -wide, wide))) for n in (0, 0, 1, 2)]
    back = [*ints, (-1, _bare(_plus((-1,), -wide, wide))), (3, _bare(_plus((3,), -wide, wide)))]
    few = [(n, _bare(_plus((n,), 0, 9))) for n in (0, 1, 4)]
    both = [(by, _plus(by, -wide, wide)) for by in ((0, 0), (0, 0), (0, 1), (1, 0), (1, 1))]
    lex = [(by, _plus(by, -wide, wide)) for by in ((0, 0), (0, 0), (0, 1), (1, 0), (1, -3))]
    lex.append(((1, Set(0)), lambda t: (t[0] + 1, 0)))
    clocks = Domains({"gmt": Integers(), "pst": Integers()})
    plus = {n: Shift(Integers(), Integers(), [n]) for n in (-8, 0, 1, 8)}
    tagged: list[tuple[Any, Way]] = [
        (0, lambda t: t),
        (Tagged(clocks, {"gmt": ("gmt", plus[1]), "pst": ("pst", plus[1])}), lambda t: (t[0], t[1] + 1)),
        (Tagged(clocks, {"gmt": ("pst", plus[-8])}), lambda t: ("pst", t[1] - 8) if t[0] == "gmt" else None),
        (Tagged(clocks, {"gmt": ("gmt", plus[0])}), lambda t: t if t[0] == "gmt" else None),
    ]
    numbers = list(range(1, 25))
    divides = Own(lambda a, b: b % a == 0, samples=numbers, name="divisibility", holds=lambda t: 0 < t)
    own: list[tuple[Any, Way]] = [(0, lambda t: t)]
    for n in (2, 3):
        step = lambda t, n=n: t * n if t * n < 10**9 else None
        own.append((Step(f"times {n}", step, divides), step))
    return {
        "integers": Family(Integers(), list(range(8)), lambda a, b: a <= b, ints),
        "integers with steps back": Family(Integers(), list(range(8)), lambda a, b: a <= b, back),
        "integers that overflow": Family(Integers(0, 9), list(range(10)), lambda a, b: a <= b, few),
        "pairs": Family(Product(Integers(), Integers()), pairs, lambda a, b: a[0] <= b[0] and a[1] <= b[1], both),
        "lexicographic": Family(Lexicographic(Integers(), Integers()), pairs, lambda a, b: a <= b, lex),
        "domains": Family(clocks, [(d, n) for d in ("gmt", "pst") for n in range(5)],
                          lambda a, b: a[0] == b[0] and a[1] <= b[1], tagged),
        "your own": Family(divides, numbers, lambda a, b: b % a == 0, own),
    }  # fmt: skip


class Drawn(NamedTuple):
    """A graph twice: for the library, and as what it means."""

    builder: Builder
    arcs: dict[Any, list[tuple[Any, Way]]]
    le: dict[Any, Before]
    times: dict[Any, list[Any]]


def draw(family: Family, rng: random.Random, nodes: int) -> Drawn:
    """A random graph of nodes with up to two ports on each side."""
    graph, arcs = Builder(family.order), {}
    shapes = [(rng.randrange(1, 3), rng.randrange(1, 3)) for _ in range(nodes)]
    for n, (inputs, outputs) in enumerate(shapes):
        rows: list[dict[int, list[Any]]] = []
        for i in range(inputs):
            row: dict[int, list[Any]] = {}
            for o in range(outputs):
                for given, way in rng.sample(family.ways, rng.choice([0, 1, 1, 1, 2])):
                    row.setdefault(o, []).append(given)
                    arcs.setdefault(Target(n, i), []).append((Source(n, o), way))
            rows.append(row)
        graph.add_node(n, inputs, outputs, rows)
    _edges(graph, arcs, rng, shapes, lambda source, target: True)
    places = [Target(n, i) for n, s in enumerate(shapes) for i in range(s[0])] + [
        Source(n, o) for n, s in enumerate(shapes) for o in range(s[1])
    ]
    for place in places:
        arcs.setdefault(place, [])
    return Drawn(graph, arcs, dict.fromkeys(places, family.le), dict.fromkeys(places, family.times))


def _edges(graph: Builder, arcs: dict[Any, Any], rng: random.Random, shapes: list[tuple[int, int]], fits: Any) -> None:
    for n, (_, outputs) in enumerate(shapes):
        for o in range(outputs):
            targets = [
                Target(m, i)
                for m, (inputs, _) in enumerate(shapes)
                for i in range(inputs)
                if fits(Source(n, o), Target(m, i))
            ]
            for target in rng.sample(targets, min(len(targets), rng.choice([0, 1, 1, 2]))):
                graph.add_edge(Source(n, o), target)
                arcs.setdefault(Source(n, o), []).append((target, lambda t: t))


def draw_loops(rng: random.Random, nodes: int) -> Drawn:
    """A random graph in which every node is at some depth of loops, or goes in, round or out."""
    orders: list[Order] = [Integers(), Loop(Integers()), Loop(Loop(Integers()))]
    graph, arcs, shapes, depths = Builder(), {}, [], []
    for n in range(nodes):
        depth = rng.randrange(3)
        kind = rng.choice(["stay", "stay", "round", "in", "out"])
        to = depth + (kind == "in" and depth < 2) - (kind == "out" and depth > 0)
        if to > depth:
            given, way = enter(orders[depth]), lambda t, d=depth: (t, 0) if d == 0 else (*t, 0)
        elif to < depth:
            given, way = leave(orders[depth]), lambda t, d=depth: t[0] if d == 1 else t[:-1]
        elif kind == "round" and depth:
            given, way = feedback(orders[depth]), lambda t: (*t[:-1], t[-1] + 1)
        else:
            given, way = 0, lambda t: t
        graph.add_node(n, 1, 1, [[given]], orders_in=[orders[depth]], orders_out=[orders[to]])
        arcs[Target(n)] = [(Source(n), way)]
        shapes.append((1, 1))
        depths.append((depth, to))
    _edges(graph, arcs, rng, shapes, lambda source, target: depths[source.node][1] == depths[target.node][0])
    les: list[Before] = [lambda a, b: a <= b, lambda a, b: a[0] <= b[0] and a[1:] <= b[1:]]
    samples: list[list[Any]] = [
        list(range(3)),
        [(e, i) for e in range(3) for i in range(3)],
        [(e, i, j) for e in range(2) for i in range(3) for j in range(3)],
    ]
    le, times = {}, {}
    for n, (depth, to) in enumerate(depths):
        for place, d in ((Target(n), depth), (Source(n), to)):
            arcs.setdefault(place, [])
            le[place], times[place] = les[min(d, 1)], samples[d]
    return Drawn(graph, arcs, le, times)
