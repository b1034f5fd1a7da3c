"""A judge of clocks of loops inside loops, and of several domains of times."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pellucid import errors
from pellucid.progress import Builder, Domains, Integers, Loop, Shift, Source, Tagged, Target, enter, feedback, leave
from tests.judge.progress.meaning import flooded, least, loops, standing
from tests.seeds import seeds


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(12, 4000))
def test_a_scope_in_a_scope(seed):
    r = random.Random(seed)
    outer = Integers(0, 3)
    one, two = Loop(outer), Loop(Loop(outer))
    graph, arcs = Builder(outer), []
    by_outer, by_inner = r.choice([1, 1, 2]), r.choice([1, 1, 2])
    step = {
        "enter": (enter(outer), outer, one, lambda t: (t, 0)),
        "enter2": (enter(one), one, two, lambda t: (*t, 0)),
        "again2": (feedback(two, by_inner), two, two, lambda t: (t[0], t[1], t[2] + by_inner)),
        "leave2": (leave(two), two, one, lambda t: t[:2]),
        "again": (feedback(one, by_outer), one, one, lambda t: (t[0], t[1] + by_outer)),
        "leave": (leave(one), one, outer, lambda t: t[0]),
        "body": (0, one, one, lambda t: t),
        "body2": (0, two, two, lambda t: t),
    }
    places = []
    for name, (by, source, target, move) in step.items():
        graph.add_node(name, 1, 1, [[by]], orders_in=[source], orders_out=[target])
        arcs.append((Target(name), Source(name), move))
        places += [Target(name), Source(name)]
    ways = [
        ("enter", "body"),
        ("body", "enter2"),
        ("enter2", "body2"),
        ("body2", "again2"),
        ("again2", "body2"),
        ("body2", "leave2"),
        ("leave2", "again"),
        ("again", "body"),
        ("leave2", "leave"),
    ]
    if r.random() < 0.3:
        ways.remove(r.choice(ways))
    for a, b in ways:
        graph.add_edge(Source(a), Target(b))
        arcs.append((Source(a), Target(b), lambda t: t))
    clock, counts = graph.build(r.choice(["auto", "plain", "literal"])), Counter()
    orders = {p: step[p.node][1 if p.is_target else 2] for p in places}

    def le(a: Any, b: Any) -> bool:
        return loops(a, b) if isinstance(a, tuple) else a <= b

    def cap(t: Any) -> bool:
        return not isinstance(t, tuple) or max(t[1:]) <= 7

    for _ in range(8):
        at = r.choice(places)
        t = tuple(r.randrange(3) for _ in range({outer: 1, one: 2, two: 3}[orders[at]]))
        stamp = (at, t if len(t) > 1 else t[0])
        alive = [k for k, n in counts.items() if n > 0]
        stamp, diff = (r.choice(alive), -1) if alive and r.random() < 0.4 else (stamp, 1)
        counts[stamp] += diff
        clock.update_iter([(stamp, diff)])
        clock.propagate_all()
        reached = flooded([k for k, n in counts.items() if n > 0], arcs, cap)
        for p in places:
            assert set(clock.frontier(p).elements()) == least(reached.get(p, ()), le), (str(p), counts)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(12, 5000))
def test_domains_lead_where_they_are_sent_and_are_in_no_order(seed):
    r = random.Random(seed)
    clocks = Domains({"a": Integers(0, 5), "b": Integers(0, 5)})
    graph, arcs, places = Builder(clocks), [], []

    def drawn() -> tuple[Any, Callable[[Any], Any]]:
        ways = {d: (r.choice(d + "ab"), r.choice([0, 1, 1, 2])) for d in "ab" if r.random() < 0.8}
        plain = {d: (to, advance(by)) for d, (to, by) in ways.items()}

        def move(t: Any) -> Any:
            if t[0] not in ways:
                return None
            to, by = ways[t[0]]
            return (to, t[1] + by) if t[1] + by <= 5 else None

        return Tagged(clocks, plain), move

    def advance(by: int) -> Any:
        return Shift(Integers(0, 5), Integers(0, 5), [by])

    def tagged(a: Any, b: Any) -> bool:
        return a[0] == b[0] and a[1] <= b[1]

    nodes = r.randrange(1, 4)
    for n in range(nodes):
        by, move = drawn()
        graph.add_node(n, 1, 1, [[by]])
        arcs.append((Target(n), Source(n), move))
        places += [Target(n), Source(n)]
    for a in range(nodes):
        for b in range(nodes):
            if r.random() < 0.5:
                graph.add_edge(Source(a), Target(b))
                arcs.append((Source(a), Target(b), lambda t: t))
    if standing(places, list(itertools.product("ab", range(6))), arcs, tagged):
        with pytest.raises(errors.PipelineError, match="the loop"):
            graph.build()
        return
    clock, stamps = graph.build(r.choice(["auto", "plain", "literal"])), []
    for _ in range(4):
        stamps.append((r.choice(places), (r.choice("ab"), r.randrange(6))))
        clock.update_iter([(stamps[-1], 1)])
        clock.propagate_all()
        reached = flooded(stamps, arcs, lambda _: True)
        for p in places:
            mine = least(reached.get(p, ()), tagged)
            assert set(clock.frontier(p).elements()) == mine, str(p)
