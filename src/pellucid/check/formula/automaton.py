"""Büchi automata: what they are, and how they are made small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pellucid.check.formula.nodes import Formula
from pellucid.internal.model import components

Guard: TypeAlias = tuple[frozenset[Formula], frozenset[Formula]]  # all of these hold, none of those


@dataclass(frozen=True)
class Buchi:
    """A Büchi automaton: it accepts a run that passes accepting states again and again.

    A transition ``(source, (positive, negative), target)`` may be taken in a step in which all positive atoms hold and
    no negative one does.
    """

    states: int
    initial: frozenset[int]
    transitions: tuple[tuple[int, Guard, int], ...]
    accepting: frozenset[int]
    atoms: tuple[Formula, ...]

    def outgoing(self) -> list[list[tuple[Guard, int]]]:
        """The transitions from each state."""
        out: list[list[tuple[Guard, int]]] = [[] for _ in range(self.states)]
        for source, guard, target in self.transitions:
            out[source].append((guard, target))
        return out

    def __str__(self) -> str:
        lines = [f"{self.states} states, initial {sorted(self.initial)}, accepting {sorted(self.accepting)}"]
        for source, (yes, no), target in self.transitions:
            guard = " & ".join(sorted(map(str, yes)) + sorted(f"!{a}" for a in no)) or "true"
            lines.append(f"{source} → {target}: {guard}")
        return "\n".join(lines)


def tidy(
    size: int, initial: set[int], edges: list[tuple[int, Guard, int]], accepting: set[int], atoms: tuple[Formula, ...]
) -> Buchi:
    """The automaton without dead and unreachable states, equal ones merged, numbered in the order of a walk."""
    numbers = {a: i for i, a in enumerate(atoms)}
    live = _live(size, edges, accepting)
    edges = [e for e in edges if e[0] in live and e[2] in live]
    # A state that is on no cycle may be called accepting or not: here it is not, so that more can be merged.
    kept = accepting & _cyclic(size, edges)
    block = _merge(size, edges, kept)
    merged: dict[int, dict[int, set[Guard]]] = {}
    for source, guard, target in edges:
        merged.setdefault(block[source], {}).setdefault(block[target], set()).add(guard)
    order = list(dict.fromkeys(block[q] for q in sorted(initial & live)))
    starts = len(order)
    for q in order:
        order += [t for t in sorted(merged.get(q, {})) if t not in order]
    place = {q: i for i, q in enumerate(order)}

    def key(guard: Guard) -> tuple[list[int], list[int]]:
        return sorted(numbers[a] for a in guard[0]), sorted(numbers[a] for a in guard[1])

    transitions = []
    for q in order:
        for t, guards in sorted(merged.get(q, {}).items(), key=lambda item: place[item[0]]):
            least = [g for g in guards if not any(h != g and h[0] <= g[0] and h[1] <= g[1] for h in guards)]
            transitions += [(place[q], guard, place[t]) for guard in sorted(least, key=key)]
    final = frozenset(place[block[q]] for q in kept if block[q] in place)
    return Buchi(len(order), frozenset(range(starts)), tuple(transitions), final, atoms)


def _live(size: int, edges: list[tuple[int, Guard, int]], accepting: set[int]) -> set[int]:
    """The states from which an accepting state on a cycle can be reached."""
    into: list[list[int]] = [[] for _ in range(size)]
    for source, _, target in edges:
        into[target].append(source)
    out = set(accepting & _cyclic(size, edges))
    todo = list(out)
    while todo:
        for q in into[todo.pop()]:
            if q not in out:
                out.add(q)
                todo.append(q)
    return out


def _cyclic(size: int, edges: list[tuple[int, Guard, int]]) -> set[int]:
    """The states that lie on a cycle: those in a strongly connected component with an edge inside."""
    follow: list[list[int]] = [[] for _ in range(size)]
    for source, _, target in edges:
        follow[source].append(target)
    alone = {s for s, _, t in edges if s == t}
    return alone.union(*(part for part in components(dict(enumerate(follow))) if len(part) > 1))


def _merge(size: int, edges: list[tuple[int, Guard, int]], accepting: set[int]) -> list[int]:
    """The coarsest partition whose states have the same guards to the same blocks: a block number for each state."""
    outgoing: list[list[tuple[Guard, int]]] = [[] for _ in range(size)]
    for source, guard, target in edges:
        outgoing[source].append((guard, target))
    block = [int(q in accepting) for q in range(size)]
    while True:
        looks = [(block[q], frozenset((guard, block[t]) for guard, t in outgoing[q])) for q in range(size)]
        number = {look: i for i, look in enumerate(dict.fromkeys(looks))}
        new = [number[look] for look in looks]
        if len(number) == len(set(block)):
            return new
        block = new
