"""The same search without any cleverness, on whole values: for micro-batches, and as the judge of counterexamples.

`pellucid.failures.checker.system.CrashSystem` and `pellucid.failures.checker.microbatch.MicroBatch` are machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.failures.checker.search.candidates import Candidates
from pellucid.internal.model import Budget, CutShort, Machine, Search, follow


@dataclass
class LiteralSearch:
    """What a literal search saw."""

    states: int = 0
    transitions: int = 0
    failure_free: int = 0
    unexplained: list[Any] | None = None  # the labels of a shortest trace
    dead_end: list[Any] | None = None
    why: str = ""
    seen: set[Any] = field(default_factory=set)  # every situation that was reached


@dataclass(frozen=True)
class Judged:
    """A trace as the literal rules see it; ``empty_at`` is the first step that leaves no candidate."""

    path: tuple[Any, ...]
    observations: tuple[Any, ...]
    empty_at: int | None
    candidates: Candidates
    before: int  # the last set that was not empty
    free_observations: tuple[Any, ...]


def free_graph(machine: Machine, budget: Budget) -> tuple[Candidates, tuple[Any, ...]]:
    """The failure-free graph, literally, and what each of its situations shows."""
    search: Search[Any, Any] = Search([machine.start()], lambda at: machine.steps(at, failures=False), budget)
    edges = [after for _, after in search]
    number = {at: i for i, at in enumerate(search.parents)}
    seen = tuple(machine.see(at) for at in number)
    return Candidates([[number[then] for _, then in after] for after in edges], seen), seen


def search(machine: Machine, budget: Budget, *, stop: bool = True) -> LiteralSearch:
    """Every situation, each with its set of candidates, breadth first."""
    found = LiteralSearch()
    try:
        candidates, free = free_graph(machine, budget)
        found.failure_free = len(free)

        def steps(x: tuple[Any, int]) -> list[tuple[Any, tuple[Any, int]]]:
            at, number = x
            after = [(label, then, machine.see(then)) for label, then in machine.steps(at)]
            return [
                (label, (then, number if seen == candidates.seen(number) else candidates.after(number, seen)))
                for label, then, seen in after
            ]

        walk = Search([(machine.start(), 1)], steps, budget)
        for x, after in walk:
            found.states, found.transitions = len(walk.parents), walk.transitions
            found.seen.add(x[0])
            if found.unexplained is None and (wrong := next((y for _, y in after if not y[1]), None)) is not None:
                found.unexplained = walk.way(wrong)
                if stop:
                    return found
            crashes = all(str(label).startswith(("F-FAIL", "CRASH")) for label, _ in after)
            if found.dead_end is None and crashes and not machine.complete(x[0]):
                found.dead_end = walk.way(x)
    except CutShort as cut:
        found.why = str(cut)
    return found


def judge(machine: Machine, labels: Sequence[Any], budget: Budget) -> Judged:
    """Replay a trace step by step and ask, independently of the fast search, whether something explains it."""
    candidates, free = free_graph(machine, budget)
    path = follow(machine, labels)
    observations = tuple(machine.see(at) for at in path)
    number, before, empty = 1, 1, None
    for i, seen in enumerate(observations[1:]):
        if empty is None and seen != candidates.seen(number):
            before, number = number, candidates.after(number, seen)
            empty = i if number == 0 else None
    return Judged(tuple(path), observations, empty, candidates, before, free)
