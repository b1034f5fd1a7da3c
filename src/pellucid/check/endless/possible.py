"""Whether something stays possible, where there are too many states to list: ``AG EF p`` over exact integers.

Proved by a way from every state, refuted by a state that can be reached and from which there is none.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from pellucid.check.advice import suggested
from pellucid.check.answer import Answer, expression
from pellucid.check.decide import Options, by_smt, decide_invariant, has_z3, listable
from pellucid.check.endless.assumed_runs import ending
from pellucid.check.endless.history import as_invariant
from pellucid.check.endless.ways import by_ways
from pellucid.check.explicit.branching import Branching
from pellucid.check.explicit.search import explore
from pellucid.check.formula import CTL, Formula
from pellucid.check.system.build import System
from pellucid.check.system.cone import cone
from pellucid.check.system.domains import Domain
from pellucid.check.system.variable import Variable
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.model.budget import Budget


def possible(
    system: System, roots: list[Expr], formula: Formula, number: dict[Any, int], options: Options
) -> Answer | None:
    """``AG EF p`` in an endless space: a way from every state, or a state that can be reached from which there is
    none."""
    if (
        formula.op != "AG"
        or formula.args[0].op != "EF"
        or not has_z3()
        or any(part.op in CTL for part in formula.args[0].args[0].walk())
    ):
        return None
    if ending(system):  # what looks possible may lie on no run
        return None
    events = [v for v in suggested(system, roots) if system.domain.values is None or v in system.domain.values]
    finite = system
    if system.domain.values is None:
        finite = dataclasses.replace(system, domain=Domain(tuple(sorted(events, key=abs))))
    few, observed = cone(finite, roots)
    if listable(few, observed):
        trapped = _trap(*cone(system, roots, all_inputs=True), few, observed, formula, number, options)
        if trapped is not None:
            return trapped
    goal = formula.args[0].args[0]
    return by_ways(system, expression(goal), str(goal), options)


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
    few = explore(system, observed, budget=Budget(max_states=400))
    aim = expression(goal, dict(zip(number, roots, strict=True)))
    import numpy as np

    marks = np.zeros(few.count, bool)
    where = Branching(few, number).where(goal)
    marks[[s for s in range(few.expanded) if where[s].any()]] = True
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
        answer = by_smt(moved, n.not_(aim), dataclasses.replace(options, timeout=min(options.left or 10.0, 10.0)))
        if answer.status == "proved":
            note = f"after these pushes {goal} never holds again (proved: {answer.details.get('certificate', '')})"
            return Answer("refuted", "explicit, smt", way, notes=(note,))
    return None


def _identity(v: Variable) -> tuple[str, str, str]:
    """The same in every cone of a system."""
    return v.role, v.of, v.name


# ---------------------------------------------------------------- events that cannot be listed
# Exact integers, strings, records of them.
# Tried in turn: as an invariant with a little history (`pellucid.check.endless.history`); a way from every state, or
# a state without one (`possible`). What neither decides is *unknown*.


def unlisted(system: System, roots: list[Expr], formula: Formula, number: dict[Any, int], options: Options) -> Answer:
    """Whether a resolved formula holds, without listing what comes in."""
    if not has_z3():
        return Answer("unknown", "none", notes=("the solver z3 is not installed: pip install 'pellucid[check]'",))
    made = as_invariant(system, formula)
    if made is not None:
        return decide_invariant(*made, options)
    found = possible(system, roots, formula, number, options)
    return found if found is not None else Answer("unknown", "none")
