"""Liveness (Theorem 6.10) and monotone observations (Definition 5.3), decided on the finite graph.

*Liveness*: in a fair execution with finitely many failures every input epoch appears in the output.  A fair execution is
maximal and takes every step that stays enabled.  So it can miss an epoch in two ways only: it ends in a *dead end*, or it
stays for ever in a strongly connected part of the graph, without the epoch, in which every step that is enabled
everywhere is also taken (weak fairness; if the largest such part is not fair, no smaller one is).  With the paper's recovery
the graph has no cycle, for sequence numbers grow and crashes are counted, so dead ends are enough.

*Monotone*: Definition 5.3 asks for some partial order with O(c) ⊑ O(c') for every step.  There is one exactly if no chain
of steps leads from an observation to another one and back: the observations, joined by steps, have no cycle.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from pellucid.errors import UsageError
from pellucid.failures.checker.explore import Limits, successors
from pellucid.failures.checker.packed import Packed
from pellucid.failures.checker.sinks import Own
from pellucid.failures.checker.system import System
from pellucid.failures.model import FFail, FRecover, TraceStep

__all__ = ["check_monotone", "components", "fair_cycle"]


def fair_cycle(system: System, limits: Limits) -> tuple[list[TraceStep], list[TraceStep]] | None:
    """A way into a fair part without the last epoch, and a cycle there; None if every fair execution gets it.

    Dead ends are the business of `pellucid.failures.checker.explore`.
    """
    packed = Packed(system)
    start = packed.pack(system.start()) + system.crashes * packed.one_crash
    parents: dict[int, tuple[int, TraceStep] | None] = {start: None}
    graph: dict[int, list[tuple[TraceStep, int]]] = {}
    for x in (waiting := [start]):
        if not len(graph) & 127:
            limits.look(len(parents), len(waiting) - len(graph))
        graph[x] = []
        if packed.committed(x) >= system.last:
            continue  # an observation is never taken back by fair executions that matter here
        for label, y in successors(packed, x):
            graph[x].append((label, y))
            if y not in parents:
                parents[y] = x, label
                waiting.append(y)
    order = {x: i for i, x in enumerate(parents)}  # breadth first: the first one is nearest
    best: tuple[int, set[int]] | None = None
    for part in components({x: [y for _, y in after] for x, after in graph.items()}):
        inside = set(part)
        edges = [(x, label, y) for x in part for label, y in graph[x] if y in inside]
        if edges and _fair(graph, part, edges):
            entry = min(part, key=order.__getitem__)
            if best is None or order[entry] < order[best[0]]:
                best = entry, inside
    return None if best is None else (_way(parents, best[0]), _loop(graph, best[1], best[0]))


def _fair(graph: Mapping[int, list[tuple[TraceStep, int]]], part: list[int], edges: list[Any]) -> bool:
    taken = {label for _, label, _ in edges}
    always = set.intersection(*({label for label, _ in graph[x] if not isinstance(label, FFail)} for x in part))
    return always <= taken


def _way(parents: Mapping[int, tuple[int, TraceStep] | None], x: int) -> list[TraceStep]:
    labels = []
    while (before := parents[x]) is not None:
        x, label = before
        labels.append(label)
    return labels[::-1]


def _loop(graph: Mapping[int, list[tuple[TraceStep, int]]], inside: set[int], entry: int) -> list[TraceStep]:
    """A shortest cycle from the entry back to it that has something else than recoveries, if there is one."""
    best: list[TraceStep] = []
    ways: dict[int, list[TraceStep]] = {entry: []}
    for x in (waiting := [entry]):
        for label, y in graph[x]:
            if y == entry:
                cycle = [*ways[x], label]
                if not best or (_only_recovers(best) and not _only_recovers(cycle)):
                    best = cycle
            elif y in inside and y not in ways:
                ways[y] = [*ways[x], label]
                waiting.append(y)
    return best


def _only_recovers(labels: list[TraceStep]) -> bool:
    return all(isinstance(label, FRecover) for label in labels)


def check_monotone(system: System, limits: Limits) -> None:
    """Refuse an observability function that is not monotone, with the two configurations that show it."""
    assert isinstance(system.observation, Own)
    packed = Packed(system)
    start = packed.pack(system.start()) + system.crashes * packed.one_crash
    reached, waiting = {start}, [start]
    edges: dict[tuple[Hashable, Hashable], tuple[int, TraceStep, int]] = {}
    for done, x in enumerate(waiting):
        if not done & 127:
            limits.look(len(reached), len(waiting) - done)
        for label, y in successors(packed, x):
            before, after = packed.see(x), packed.see(y)
            if before != after:
                edges.setdefault((before, after), (x, label, y))
            if y not in reached:
                reached.add(y)
                waiting.append(y)
    graph: dict[Hashable, list[Hashable]] = {}
    for before, after in edges:
        graph.setdefault(before, []).append(after)
        graph.setdefault(after, [])
    number = {o: i for i, part in enumerate(components(graph)) for o in part}
    for (before, after), (x, label, y) in edges.items():
        if number[before] == number[after]:
            c, then = packed.unpack(x).c, packed.unpack(y).c
            raise UsageError(
                f"observe={system.observation.name} is not monotone (Definition 5.3), so an observer could not rely on it: "
                f"{label} takes what is seen from {before!r} to {after!r}, and from there it can come back to {before!r}.\n"
                f"  before: {dict(c.Sigma)}\n  after:  {dict(then.Sigma)}\n"
                "An observability function must only grow: show what is committed, as out does"
            )


_END = object()  # None may be an observation


def components(graph: Mapping[Any, list[Any]]) -> Iterator[list[Any]]:
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
