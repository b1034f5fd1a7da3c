"""Liveness (Theorem 6.10) and monotone observations (Definition 5.3), decided on the finite graph.

*Liveness*: in a fair execution with finitely many failures every input epoch appears in the output.  A fair execution
is maximal and takes every step that stays enabled.  So it can miss an epoch in two ways only: it ends in a *dead end*,
or it stays for ever in a strongly connected part of the graph, without the epoch, in which every step that is enabled
everywhere is also taken (weak fairness; if the largest such part is not fair, no smaller one is).  With the paper's
recovery the graph has no cycle, for sequence numbers grow and crashes are counted, so dead ends are enough.

*Monotone*: Definition 5.3 asks for some partial order with O(c) ⊑ O(c') for every step.  There is one exactly if no
chain of steps leads from an observation to another one and back: the observations, joined by steps, have no cycle.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from pellucid.errors import UsageError
from pellucid.failures.checker.search.explore import successors
from pellucid.failures.checker.search.packed import Packed
from pellucid.failures.checker.sinks import Own
from pellucid.failures.checker.system import CrashSystem
from pellucid.failures.model import FFail, FRecover, TraceStep
from pellucid.internal.model import Budget, Search, components, shortest_cycle


def fair_cycle(system: CrashSystem, budget: Budget) -> tuple[list[TraceStep], list[TraceStep]] | None:
    """A way into a fair part without the last epoch, and a cycle there; None if every fair execution gets it.

    Dead ends are the business of `pellucid.failures.checker.search.explore`.
    """
    packed = Packed(system)
    start = packed.pack(system.start()) + system.crashes * packed.one_crash
    # what is seen is never taken back by fair executions that matter here
    search = Search([start], lambda x: [] if packed.committed(x) >= system.last else successors(packed, x), budget)
    graph = dict(search)
    order = {x: i for i, x in enumerate(search.parents)}  # breadth first: the first one is nearest
    best: tuple[int, set[int]] | None = None
    for part in components({x: [y for _, y in after] for x, after in graph.items()}):
        inside = set(part)
        edges = [(x, label, y) for x in part for label, y in graph[x] if y in inside]
        if edges and _fair(graph, part, edges):
            entry = min(part, key=order.__getitem__)
            if best is None or order[entry] < order[best[0]]:
                best = entry, inside
    if best is None:
        return None
    moves = lambda labels: not all(isinstance(label, FRecover) for label in labels)
    return search.way(best[0]), shortest_cycle(graph.__getitem__, best[0], best[1], wanted=moves)


def _fair(graph: Mapping[int, list[tuple[TraceStep, int]]], part: list[int], edges: list[Any]) -> bool:
    taken = {label for _, label, _ in edges}
    always = set.intersection(*({label for label, _ in graph[x] if not isinstance(label, FFail)} for x in part))
    return always <= taken


def check_monotone(system: CrashSystem, budget: Budget) -> None:
    """Refuse an observability function that is not monotone, with the two configurations that show it."""
    assert isinstance(system.observation, Own)
    packed = Packed(system)
    start = packed.pack(system.start()) + system.crashes * packed.one_crash
    edges: dict[tuple[Hashable, Hashable], tuple[int, TraceStep, int]] = {}
    for x, steps in Search([start], lambda x: successors(packed, x), budget):
        for label, y in steps:
            before, after = packed.see(x), packed.see(y)
            if before != after:
                edges.setdefault((before, after), (x, label, y))
    graph: dict[Hashable, list[Hashable]] = {}
    for before, after in edges:
        graph.setdefault(before, []).append(after)
        graph.setdefault(after, [])
    number = {o: i for i, part in enumerate(components(graph)) for o in part}
    for (before, after), (x, label, y) in edges.items():
        if number[before] == number[after]:
            c, then = packed.unpack(x).c, packed.unpack(y).c
            raise UsageError(
                f"observe={system.observation.name} is not monotone (Definition 5.3), so an observer could not rely on "
                f"it: {label} takes what is seen from {before!r} to {after!r}, and from there it can come back to "
                f"{before!r}.\n"
                f"  before: {dict(c.Sigma)}\n  after:  {dict(then.Sigma)}\n"
                "An observability function must only grow: show what is committed, as out does"
            )
