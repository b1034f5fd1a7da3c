"""The reference engine: slow, and written without looking at the others.

States are Python tuples, expressions are evaluated by the reference evaluator, the structure of points (a state and the
push that leaves it) is built as plain lists, and formulas are decided by the reference semantics of CTL and of LTL.  It
exists to disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pellucid.check.explicit import choices_of
from pellucid.check.formula import AG, evaluate_lasso, is_invariant, kind
from pellucid.check.formula.buchi import Buchi
from pellucid.check.formula.nodes import LTL, Formula, Labels, _boolean, _holds
from pellucid.check.system.build import System
from pellucid.errors import UsageError
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.node import Expr

__all__ = ["decide_by_reference", "points"]

# What CTL and Büchi automata mean, as directly as it can be written: what the engines are held to.


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


def points(
    system: System, atoms: list[Formula], limit: int = 50_000
) -> tuple[list[list[int]], list[set[Formula]], list[int]]:
    """Every point that can be reached: its successors, the atoms that hold there; and the initial points."""
    _, rows = choices_of(system)
    start = tuple(v.start for v in system.state)
    number: dict[tuple[Any, ...], int] = {start: 0}
    waiting = [start]
    at: list[tuple[int, int]] = []  # of each point: its state, and the state after it
    labels: list[set[Formula]] = []
    while waiting:
        state = waiting.pop(0)
        for row in rows:
            leaves, memo = [*state, *row], {}  # type: ignore[var-annotated]
            if not evaluate(system.assume, leaves, memo):
                continue
            labels.append({a for a in atoms if evaluate(_body(a), leaves, memo)})
            target = tuple(evaluate(e, leaves, memo) for e in system.next)
            if target not in number:
                number[target] = len(number)
                waiting.append(target)
                if len(number) > limit:
                    raise UsageError(f"the reference engine stops at {limit:,} states")
            at.append((number[state], number[target]))
    kept = list(range(len(at)))
    while True:  # a point from which no run goes on is in none
        open_states = {at[i][0] for i in kept}
        going = [i for i in kept if at[i][1] in open_states]
        if len(going) == len(kept):
            break
        kept = going
    place = {i: new for new, i in enumerate(kept)}
    leaving: dict[int, list[int]] = {}
    for i in kept:
        leaving.setdefault(at[i][0], []).append(place[i])
    successors = [leaving[at[i][1]] for i in kept]
    return successors, [labels[i] for i in kept], leaving.get(0, [])


def _body(atom: Formula) -> Expr:
    assert isinstance(atom.body, Expr)
    return atom.body


def decide_by_reference(system: System, formula: Formula) -> bool:
    """Whether a resolved formula holds; for CTL, and for LTL on structures that are small enough for every lasso."""
    successors, labels, initial = points(system, formula.atoms())
    if formula.op == "G" and is_invariant(formula) is not None:  # of every point, however far away
        formula = AG(formula.args[0])
    if kind(formula) != "ltl":
        return set(initial) <= evaluate_ctl(formula, successors, labels)
    return all(evaluate_lasso(formula, trace, loop) for trace, loop in _lassos(successors, labels, initial, 7))


def _lassos(successors: list[list[int]], labels: list[set[Formula]], initial: list[int], longest: int) -> Any:
    """Every lasso of at most so many points."""
    stack = [[i] for i in initial]
    while stack:
        path = stack.pop()
        for t in successors[path[-1]]:
            if t in path:
                yield [labels[p] for p in path], path.index(t)
            if len(path) < longest and t not in path:
                stack.append([*path, t])
