"""The reference engine: slow, and written without looking at the others.

States are Python tuples, expressions are evaluated by the reference evaluator, the structure of points (a state and the
push that leaves it) is built as plain lists, and formulas are decided by the reference semantics of CTL and of LTL.  It
exists to disagree.
"""

from __future__ import annotations

from typing import Any

from pellucid.check.explicit.program import choices_of
from pellucid.check.formula import AG, Formula, evaluate_lasso, is_invariant, kind
from pellucid.check.system.build import System
from pellucid.errors import UsageError
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.node import Expr
from tests.check.formula.meaning import evaluate_ctl

__all__ = ["decide_by_reference", "points"]


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
