"""A system with more state: cells that remember something of what was seen.

The cells stand behind the state that is there; the inputs move up, and every expression with them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pellucid.check.system.build import System
from pellucid.check.system.variable import Variable
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.types import Type


class Cells:
    """Collects cells for a system; `done` gives the system with them.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> from pellucid.internal.expr.types import BOOL
    >>> before = build_system(pipeline(lambda x: x + 1, x=int).graph, domain_of(None))
    >>> cells = Cells(before)
    >>> came = cells.add("came", BOOL, False)
    >>> cells.follow(came, before.present("x"))
    >>> after, (out, seen) = cells.done([before.present("out"), came])
    >>> [v.name for v in after.state], seen.value
    ([':stopped', 'came'], 1)
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self._made: list[Variable] = []
        self._next: dict[int, Expr] = {}
        self._mark = len(system.state) + len(system.inputs)  # cells are numbered behind the inputs until all are known

    def add(
        self,
        name: str,
        t: Type,
        start: object,
        role: str = "memory",
        of: str = "",
        at: int = 0,
        *,
        size: int | None = None,
    ) -> Expr:
        """A new cell, of 0 … size-1 where it is a bounded counter; `follow` says what it holds next."""
        self._made.append(Variable(name, t, start, size, role, of, at))
        return n.var(self._mark + len(self._made) - 1, t)

    def follow(self, cell: Expr, value: Expr) -> None:
        """What the cell holds after a push."""
        self._next[cell.value - self._mark] = value

    @n.values_only()
    def done(self, roots: Sequence[Expr]) -> tuple[System, list[Expr]]:
        """The system with the cells, and the roots over it."""
        old, have, many = self._system, len(self._system.state), len(self._made)
        if not many:
            return old, list(roots)
        leaves = [n.var(i, v.type) for i, v in enumerate(old.state)]
        leaves += [n.var(have + many + i, v.type) for i, v in enumerate(old.inputs)]
        leaves += [n.var(have + i, v.type) for i, v in enumerate(self._made)]
        following = [self._next[i] for i in range(many)]
        moved = old.mapped(lambda exprs: substitute(exprs, leaves))
        added = substitute([*following, *roots], leaves)
        system = dataclasses.replace(moved, state=(*old.state, *self._made), next=(*moved.next, *added[:many]))
        return system, added[many:]
