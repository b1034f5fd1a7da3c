"""A judge of recursion: by going all ways."""

from __future__ import annotations

import itertools
import random

import pytest

from pellucid.progress import Recursion
from tests.seeds import seeds


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(12, 6000))
def test_recursion_is_decided_as_by_going_all_ways(seed):
    r = random.Random(seed)
    calls = ["c", "d"][: r.randrange(1, 3)]
    inner = ["a", "b"][: r.randrange(0, 3)] + calls
    while True:
        some = ["in", *inner, "out"]
        edges = [(x, y) for x in some for y in some if x != "out" and y != "in" and x != y and r.random() < 0.45]

        def onward(start: str, without: list[str], edges: list[tuple[str, str]] = edges) -> set[str]:
            seen, todo = {start}, [start]
            while todo:
                x = todo.pop()
                for a, b in edges:
                    if a == x and b not in seen and b not in without:
                        seen.add(b)
                        todo.append(b)
            return seen

        if "out" in onward("in", calls) and onward("in", []) == set(some) and all("out" in onward(x, []) for x in some):
            break
    told = Recursion(edges, calls)

    def steps(place: tuple[str, tuple[str, ...]]) -> list[tuple[str, tuple[str, ...]]]:
        p, f = place
        if p.startswith("call-"):
            return [("in", (*f, p[5:]))]
        if p == "out":
            return [(f"ret-{f[-1]}", f[:-1])] if f else []
        name = p.removeprefix("ret-")
        return [(f"call-{b}" if b in calls else b, f) for a, b in edges if a == name]

    parts = [x for x in some if x not in calls] + [f"{k}-{c}" for c in calls for k in ("call", "ret")]
    stacks = [s for n in range(3) for s in itertools.product(calls, repeat=n)]
    for _ in range(6):
        start = (r.choice(parts), r.choice(stacks))
        seen, todo = {start}, [start]
        while todo:
            for to in steps(todo.pop()):
                if len(to[1]) <= 5 and to not in seen:
                    seen.add(to)
                    todo.append(to)
        for end in itertools.product(parts, stacks):
            assert told.reaches(start, end) is (end in seen), (edges, start, end)
            if end in seen and r.random() < 0.05:
                way = told.way(start, end)
                assert way[0] == start and way[-1] == end
                assert all(b in steps(a) for a, b in itertools.pairwise(way))
