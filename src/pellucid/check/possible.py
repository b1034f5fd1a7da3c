"""Whether something stays possible, where there are too many states to list: ``AG EF p`` over exact integers.

Proved by a way from every state, refuted by a state that can be reached and from which there is none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from pellucid.check.advice import suggested
from pellucid.check.assumed_runs import ending, in_domain
from pellucid.check.cone import cone
from pellucid.check.decide import Answer, Options, by_smt, decide_invariant, expression, has_z3, listable
from pellucid.check.domains import Domain
from pellucid.check.explicit import Limits, Space, explore
from pellucid.check.formula import CTL, Formula
from pellucid.check.system import System, Variable
from pellucid.expr import node as n
from pellucid.expr.evaluate import UserRaise, evaluate
from pellucid.expr.node import Expr
from pellucid.expr.rewrite import substitute
from pellucid.expr.types import BOOL, INT, simplest

__all__ = ["possible"]


def possible(system: System, roots: list[Expr], formula: Formula, number: dict[Any, int], options: Options) -> Answer | None:
    """``AG EF p`` in an endless space: a way from every state, or a state that can be reached from which there is none."""
    if formula.op != "AG" or formula.args[0].op != "EF" or not has_z3() or any(part.op in CTL for part in formula.args[0].args[0].walk()):
        return None
    if ending(system):  # what looks possible may lie on no run
        return None
    events = [v for v in suggested(system, roots) if system.domain.values is None or v in system.domain.values]
    finite = system if system.domain.values is not None else dataclasses.replace(system, domain=Domain(tuple(sorted(events, key=abs))))
    few, observed = cone(finite, roots)
    if listable(few, observed):
        trapped = _trap(*cone(system, roots, all_inputs=True), few, observed, formula, number, options)
        if trapped is not None:
            return trapped
    return _always_soon(system, formula, events, options)


def _trap(
    whole: System,
    roots: list[Expr],
    system: System,
    observed: list[Expr],
    formula: Formula,
    number: dict[Any, int],
    options: Options,
) -> Answer | None:
    """Refute ``AG EF p`` in an endless space: a state that can be reached, from which SMT proves that p never comes.

    States are looked for with the events of ``system``; the proof speaks of all those of ``whole``.
    """
    goal = formula.args[0].args[0]
    few = explore(system, observed, limits=Limits(400))
    aim = expression(goal, dict(zip(number, roots, strict=True)))
    import numpy as np

    marks = np.zeros(few.count, bool)
    hit = [int(s) for s in range(few.expanded) if _some(few, s, goal, number)]
    marks[hit] = True
    for _ in range(few.count):  # what can still reach the goal in the explored part
        grown = marks.copy()
        grown[: few.expanded] |= marks[few.successor].any(axis=1)
        if (grown == marks).all():
            break
        marks = grown
    for s in np.flatnonzero(~marks[: few.expanded])[:8]:
        values = dict(zip(map(_identity, system.state), few.values(int(s)), strict=True))
        way = few.pushes(few.path(int(s)))
        moved = dataclasses.replace(
            whole, state=tuple(dataclasses.replace(v, start=values[_identity(v)]) for v in whole.state), lead=tuple(way)
        )
        answer = by_smt(moved, n.not_(aim), dataclasses.replace(options, timeout=min(options.timeout or 10.0, 10.0)))
        if answer.status == "proved":
            note = f"after these pushes {goal} never holds again (proved: {answer.details.get('certificate', '')})"
            return Answer("refuted", "explicit, smt", way, notes=(note,))
    return None


@n.values_only()
def _always_soon(system: System, formula: Formula, events: list[int], options: Options) -> Answer | None:
    """Prove ``AG EF p`` in an endless space: from every state, p holds within m pushes of one event.

    Which event, and how often, is guessed on states of random runs; that it is so from every state is proved.
    """
    from pellucid.check.smt_lemmas import sample_states

    goal = formula.args[0].args[0]
    whole, (aim,) = cone(system, [expression(goal)], all_inputs=True)
    states = sample_states(whole, [aim])
    own = list(whole.domain.values or ())
    for value in list(dict.fromkeys([*own[:1], *events, *own[:8]])):
        for words, push in _pushes(whole, value):
            often = _often_enough(whole, aim, push, states)
            if often is None:
                continue
            now: list[Expr] = [n.var(i, v.type) for i, v in enumerate(whole.state)]
            soon, assumed, fits = n.FALSE, n.TRUE, in_domain(whole, push)
            for _ in range(often):
                here, may, *now = substitute([aim, n.and_(whole.assume, fits), *whole.next], [*now, *substitute(push, now)])
                assumed = n.and_(assumed, may)
                soon = n.or_(soon, n.and_(assumed, here))
            answer = decide_invariant(whole, soon, dataclasses.replace(options, timeout=min(options.timeout or 20.0, 20.0)))
            if answer.status == "proved":
                which = words if any(v.type == INT for v in whole.inputs) else "an event"
                note = f"from every state {goal} holds within {often} push(es) of {which}"
                return dataclasses.replace(answer, notes=(note,))
    return None


def _pushes(system: System, value: int) -> list[tuple[str, list[Expr]]]:
    """Pushes to go on with, over the state: an event; where an assumption remembers the one before, also one that keeps to an order."""
    fixed = [n.const(v.role == "present" if v.type == BOOL else _event(system, v.type, value)) for v in system.inputs]
    out = [(f"the event {value}", fixed)]
    known = {(v.of, v.at): n.var(i, v.type) for i, v in enumerate(system.state) if v.role == "before" and v.type == INT}
    came = {v.of: n.var(i, v.type) for i, v in enumerate(system.state) if v.role == "came"}
    if not known:
        return out

    def each(change: Callable[[Expr, Expr], Expr]) -> list[Expr]:
        made = []
        for v, e in zip(system.inputs, fixed, strict=True):
            old = known.get((v.of, v.at)) if v.role == "leaf" else None
            made.append(e if old is None else n.ite(came.get(v.of, n.TRUE), change(old, e), e))
        return made

    out.append((f"the event {value}, or the one before where that is larger", each(lambda old, e: n.ite(n.lt(old, e), e, old))))
    out.append((f"the event {value}, or the one before where that is smaller", each(lambda old, e: n.ite(n.lt(e, old), e, old))))
    out.append((f"the event {value}, or one above the one before", each(lambda old, e: n.ite(n.lt(old, e), e, n.add(old, n.const(1))))))
    out.append((f"the event {value}, or one below the one before", each(lambda old, e: n.ite(n.lt(e, old), e, n.sub(old, n.const(1))))))
    return out


def _identity(v: Variable) -> tuple[str, str, str]:
    """The same in every cone of a system."""
    return v.role, v.of, v.name


def _event(system: System, t: Any, value: int) -> Any:
    pool = system.domain.leaf(t) if t != INT else None
    return value if t == INT else pool[0] if pool else simplest(t)


def _often_enough(system: System, aim: Expr, push: list[Expr], states: list[Any]) -> int | None:
    """After how many of these pushes the aim has been seen from each of the states; None if not soon from one."""
    most = 1
    for state in states:
        now = list(state)
        for m in range(1, 9):
            memo: dict[int, Any] = {}
            try:
                leaves = [*now, *(evaluate(e, now) for e in push)]
                if not evaluate(system.assume, leaves, memo) or not evaluate(in_domain(system, push), now):
                    return None
                if evaluate(aim, leaves, memo):
                    most = max(most, m)
                    break
                now = [evaluate(e, leaves, memo) for e in system.next]
            except (ArithmeticError, ValueError, UserRaise):
                return None
        else:
            return None
    return most


def _some(space: Space, state: int, goal: Formula, number: dict[Any, int]) -> bool:
    from pellucid.check.branching import Branching

    return bool(Branching(space, number).where(goal)[state].any())
