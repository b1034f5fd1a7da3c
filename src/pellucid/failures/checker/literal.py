"""The same search without any cleverness, on whole values: for micro-batches, and as the judge of counterexamples.

A *machine* has ``start()``, ``steps(at, failures=…)``, ``see(at)`` and ``complete(at)``; `pellucid.failures.checker.system.System` and
`pellucid.failures.checker.microbatch.MicroBatch` are machines.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pellucid.failures.checker.candidates import Candidates
from pellucid.failures.checker.explore import CutShort, Limits

__all__ = ["Judged", "Literal", "Machine", "free_graph", "judge", "search"]


class Machine(Protocol):
    """What can be searched literally."""

    def start(self) -> Any:
        """Before the first step."""

    def steps(self, at: Any, *, failures: bool = True) -> list[tuple[Any, Any]]:
        """Labels and what comes after."""

    def see(self, at: Any) -> Hashable:
        """What is observed."""

    def complete(self, at: Any) -> bool:
        """Whether all of the input is in the output."""


@dataclass
class Literal:
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


def free_graph(machine: Machine, limits: Limits) -> tuple[Candidates, tuple[Any, ...]]:
    """The failure-free graph, literally, and what each of its situations shows."""
    start = machine.start()
    number, order = {start: 0}, [start]
    successors: list[list[int]] = []
    for at in order:
        if not len(successors) & 255 or len(order) > limits.max_states:
            limits.look(len(order), len(order) - len(successors))
        after = []
        for _, then in machine.steps(at, failures=False):
            if then not in number:
                number[then] = len(order)
                order.append(then)
            after.append(number[then])
        successors.append(after)
    seen = tuple(machine.see(at) for at in order)
    return Candidates(successors, seen), seen


def search(machine: Machine, limits: Limits, *, stop: bool = True) -> Literal:
    """Every situation, each with its set of candidates, breadth first."""
    found = Literal()
    try:
        candidates, free = free_graph(machine, limits)
        found.failure_free = len(free)
        first = machine.start(), 1
        parents: dict[Any, Any] = {first: None}
        waiting = [first]
        for x in waiting:
            found.states, (at, number) = len(parents), x
            if not found.transitions & 127 or len(parents) > limits.max_states:
                limits.look(len(parents), len(waiting))
            after = machine.steps(at)
            found.seen.add(at)
            for label, then in after:
                found.transitions += 1
                seen = machine.see(then)
                y = then, number if seen == candidates.seen(number) else candidates.after(number, seen)
                if y in parents:
                    continue
                parents[y] = x, label
                if not y[1] and found.unexplained is None:
                    found.unexplained = _labels(parents, y)
                    if stop:
                        return found
                waiting.append(y)
            free_steps = [s for s in after if not _is_crash(s[0])]
            if not free_steps and found.dead_end is None and not machine.complete(at):
                found.dead_end = _labels(parents, x)
        found.states = len(parents)
    except CutShort as cut:
        found.why = str(cut)
    return found


def judge(machine: Machine, labels: Sequence[Any], limits: Limits) -> Judged:
    """Replay a trace step by step and ask, independently of the fast search, whether something explains it."""
    candidates, free = free_graph(machine, limits)
    at, number = machine.start(), 1
    path, observations, before, empty = [at], [machine.see(at)], 1, None
    for i, label in enumerate(labels):
        after = next((then for name, then in machine.steps(at) if name == label), None)
        if after is None:
            raise ValueError(f"step {i + 1} ({label}) is not enabled")
        at = after
        path.append(at)
        observations.append(machine.see(at))
        if empty is None and observations[-1] != candidates.seen(number):
            before, number = number, candidates.after(number, observations[-1])
            empty = i if number == 0 else None
    return Judged(tuple(path), tuple(observations), empty, candidates, before, free)


def _labels(parents: dict[Any, Any], end: Any) -> list[Any]:
    labels = []
    while parents[end] is not None:
        end, label = parents[end]
        labels.append(label)
    return labels[::-1]


def _is_crash(label: Any) -> bool:
    return str(label).startswith(("F-FAIL", "CRASH"))
