"""What CTL and Büchi automata mean, as directly as it can be written: what the engines are held to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pellucid.check.formula.automaton import Buchi
from pellucid.check.formula.evaluate import Labels, _boolean, _holds
from pellucid.check.formula.nodes import LTL, Formula
from pellucid.errors import UsageError


def evaluate_ctl(formula: Formula, successors: Sequence[Iterable[int]], labels: Sequence[Labels]) -> set[int]:
    """The states in which a CTL formula holds; every state must have a successor.

    >>> from pellucid.check.formula.parse import parse
    >>> p = parse("p")
    >>> sorted(evaluate_ctl(parse("EF p"), [[1], [1], [0, 2]], [{p}, set(), set()]))
    [0, 2]
    """
    for part in formula.walk():
        if part.op in LTL:
            raise UsageError(f"a CTL formula was expected, found {part.op} in {formula}")
    follow = [set(s) for s in successors]
    if len(follow) != len(labels):
        raise UsageError(f"{len(follow)} states have successors, but {len(labels)} have labels")
    for i, s in enumerate(follow):
        if not s:
            raise UsageError(
                f"state {i} has no successor: CTL speaks of runs that go on for ever; let it follow itself"
            )
    return _branching(formula, follow, labels)


def _branching(f: Formula, follow: list[set[int]], labels: Sequence[Labels]) -> set[int]:
    every = set(range(len(follow)))
    parts = [_branching(arg, follow, labels) for arg in f.args]
    p = parts[0] if parts else set()
    q = parts[-1] if parts else set()

    def some(target: set[int]) -> set[int]:
        return {s for s in every if follow[s] & target}

    def all_(target: set[int]) -> set[int]:
        return {s for s in every if follow[s] <= target}

    op = f.op
    if op == "atom":
        return {s for s in every if _holds(f, labels[s])}
    if op in ("true", "false"):
        return every if op == "true" else set()
    if op in ("!", "&", "|", "->", "<->"):
        return {s for s in every if _boolean(op, s in p, s in q)}
    step = some if op[0] == "E" else all_
    if op[1] == "X":
        return step(p)
    out = set(every) if op[1] == "G" else set()
    while True:
        following = step(out)
        new = p & following if op[1] == "G" else q | following if op[1] == "F" else q | (p & following)
        if new == out:
            return out
        out = new


def accepts(made: Buchi, trace: Sequence[Labels], loop: int) -> bool:
    """Whether the automaton accepts the word whose steps from ``loop`` on repeat for ever.

    >>> from pellucid.check.formula.buchi import automaton
    >>> from pellucid.check.formula.parse import parse
    >>> accepts(automaton(parse("G F p")), [{parse("p"): True}, {}], loop=0)
    True
    """
    labels = [frozenset(a for a, v in s.items() if v) if isinstance(s, Mapping) else frozenset(s) for s in trace]
    outgoing, last = made.outgoing(), len(trace) - 1
    follow: dict[tuple[int, int], list[tuple[int, int]]] = {}
    todo = [(q, 0) for q in made.initial]
    while todo:
        q, i = at = todo.pop()
        if at in follow:
            continue
        after = i + 1 if i < last else loop
        follow[at] = [(t, after) for (yes, no), t in outgoing[q] if yes <= labels[i] and not no & labels[i]]
        todo += follow[at]
    return any(_on_cycle(at, follow) for at in follow if at[0] in made.accepting)


def _on_cycle(start: tuple[int, int], follow: Mapping[tuple[int, int], list[tuple[int, int]]]) -> bool:
    seen: set[tuple[int, int]] = set()
    todo = list(follow[start])
    while todo:
        at = todo.pop()
        if at == start:
            return True
        if at not in seen:
            seen.add(at)
            todo += follow[at]
    return False
