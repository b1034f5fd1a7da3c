"""Formulas over events that cannot be listed: exact integers, strings, records of them.

Tried in turn: as an invariant with a little history (`pellucid.check.endless.history`); a way from every state, or a
state without one (`pellucid.check.endless.possible`).  What neither decides is *unknown*.
"""

from __future__ import annotations

from typing import Any

from pellucid.check.answer import Answer
from pellucid.check.decide import Options, decide_invariant, has_z3
from pellucid.check.endless.history import as_invariant
from pellucid.check.endless.possible import possible
from pellucid.check.formula import Formula
from pellucid.check.system.build import System
from pellucid.expr.node import Expr


def unlisted(system: System, roots: list[Expr], formula: Formula, number: dict[Any, int], options: Options) -> Answer:
    """Whether a resolved formula holds, without listing what comes in."""
    if not has_z3():
        return Answer("unknown", "none", notes=("the solver z3 is not installed: pip install 'pellucid[check]'",))
    made = as_invariant(system, formula)
    if made is not None:
        return decide_invariant(*made, options)
    found = possible(system, roots, formula, number, options)
    return found if found is not None else Answer("unknown", "none")
