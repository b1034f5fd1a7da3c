"""Runs that never end: the parts of a graph in which one can stay for ever, and the cycles there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from pellucid.internal.model.search import Search

L = TypeVar("L")
_END = object()  # None may be a state


def components(graph: Mapping[Any, Iterable[Any]]) -> Iterator[list[Any]]:
    """Strongly connected components (Tarjan, without recursion).

    >>> [sorted(part) for part in components({1: [2], 2: [1, 3], 3: []})]
    [[3], [1, 2]]
    """
    index: dict[Any, int] = {}
    low: dict[Any, int] = {}
    on: set[Any] = set()
    path: list[Any] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        path.append(root)
        on.add(root)
        while work:
            at, more = work[-1]
            following = next(more, _END)
            if following is _END:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == index[at]:
                    part: list[Any] = []
                    while not part or part[-1] != at:
                        part.append(path.pop())
                        on.discard(part[-1])
                    yield part
            elif following not in index:
                index[following] = low[following] = len(index)
                path.append(following)
                on.add(following)
                work.append((following, iter(graph[following])))
            elif following in on:
                low[at] = min(low[at], index[following])


def shortest_cycle(
    edges: Callable[[Any], Iterable[tuple[L, Hashable]]],
    entry: Hashable,
    inside: Collection[Any],
    *,
    wanted: Callable[[list[L]], bool] = lambda labels: True,
) -> list[L]:
    """The labels of a shortest way from the entry back to it that stays inside: one that is wanted, if there is one.

    >>> follow = {1: [("a", 1), ("b", 2)], 2: [("c", 1)]}.__getitem__
    >>> shortest_cycle(follow, 1, {1, 2}), shortest_cycle(follow, 1, {1, 2}, wanted=lambda labels: "b" in labels)
    (['a'], ['b', 'c'])
    """
    best: list[L] = []
    search: Search[Hashable, L] = Search([entry], lambda x: [(label, y) for label, y in edges(x) if y in inside])
    for x, after in search:
        for label, y in after:
            if y == entry:
                cycle = [*search.way(x), label]
                if wanted(cycle):
                    return cycle
                best = best or cycle
    return best
