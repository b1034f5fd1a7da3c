"""A function that is called and not traced, over a finite domain: a table of its answers, as expressions.

The arguments are those that can come (`pellucid.check.functions.arguments`).  Where that set does not close, an
argument may come that is not in the table: that is a condition of its own, ``outside``, and about what follows nothing
is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pellucid.check.functions.called import Answers, Failed, key_of
from pellucid.check.functions.inside import inside
from pellucid.check.system.variable import FALSE, TRUE
from pellucid.errors import NotTraceable
from pellucid.internal.expr import node as n
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.text import has_calls
from pellucid.internal.expr.tracing.trace import Traced
from pellucid.internal.expr.types import INT, Type, simplest

_OPEN = 256  # rows of a table that is not complete anyway


class Table:
    """The roots of a function as a traced one has them (results; of a task its state, a count and events), and when it
    is left."""

    def __init__(self, roots: tuple[Expr, ...], outside: Expr, slots: int) -> None:
        self.roots, self.outside, self.slots = roots, outside, slots


class Tables:
    """The tables of all functions of a system."""

    def __init__(self, answers: Callable[[Function], Answers] | None = None) -> None:
        self._answers = answers
        self._made: dict[Function, Table] = {}

    def __call__(self, fn: Function) -> Table:
        """The table of a function that is called and not traced."""
        if fn not in self._made:
            self._made[fn] = tabulate(self.answers(fn))
        return self._made[fn]

    def states(self, fn: Function, start: Any) -> tuple[int, int]:
        """The number of a task's start state, which is any Python object, and how many states there are."""
        answers = self.answers(fn)
        return answers.number(start), len(answers.states)

    def inside(self, fn: Function) -> Traced | None:
        """The function as data of a check, where it has no complete table; None: its table is all there is.

        Beside a table that is not complete only what is known in full counts: a call in it would know less than the
        table.
        """
        answers = self.answers(fn)
        if answers.modulus is not None or (answers.closed and not answers.unlisted):
            return None
        found = inside(fn, answers.ledger, answers.who)
        return found if answers.unlisted or found is None or not has_calls(*found.roots()) else None

    def doubts(self, fn: Function) -> list[str]:
        """Why a function may not always answer as it did."""
        return [f"if it always answers so: it {doubt}" for doubt in self.answers(fn).witness.doubts]

    def answers(self, fn: Function) -> Answers:
        """What the function answered."""
        if self._answers is None:
            raise NotTraceable(f"{fn.name} {fn.reason}, and was not called")
        return self._answers(fn)


def tabulate(answers: Answers) -> Table:
    """The table of these answers."""
    fn = answers.fn
    kinds = [kind for t in fn.params for kind in ([INT] if t is None else [k for _, k in t.leaves()])]
    variables = [n.var(i, t) for i, t in enumerate(kinds)]
    _refuse_two_zeros(answers)
    size = fn.event.width if fn.task and fn.event is not None else 0
    slots = 0
    if fn.task:
        slots = max((len(found[1]) for _, found in answers.rows.values() if not isinstance(found, Failed)), default=0)
    after: list[Type] = [INT] if fn.result is None else [k for _, k in fn.result.leaves()]
    put_out = [k for _, k in fn.event.leaves()] * slots if fn.event is not None else []
    results = [*after, INT, *put_out] if fn.task else after
    out: list[Expr] | None = None
    outside: Expr = TRUE
    rows = list(answers.rows.values())
    for args, found in reversed(rows if answers.closed else rows[:_OPEN]):
        values: list[Expr]
        if isinstance(found, Failed):
            values = [n.raise_(0, t) for t in results]
        elif fn.task:
            events = [leaf for e in found[1] for leaf in e]
            rest = [simplest(kind) for kind in results[len(after) + 1 + len(found[1]) * size :]]
            values = [n.const(v) for v in (*found[0], len(found[1]), *events, *rest)]
        else:
            values = [n.const(v) for v in found]
        test = TRUE
        for v, leaf in zip(variables, args, strict=True):
            test = n.and_(test, _is(v, leaf))
        outside = n.and_(outside, n.not_(test))
        out = values if out is None else [n.ite(test, a, b) for a, b in zip(values, out, strict=True)]
    if out is None:  # no event ever comes to it, or none could be tried
        out = [n.const(simplest(kind)) for kind in results]
    return Table(tuple(out), FALSE if answers.closed else outside, slots)


def _is(v: Expr, leaf: Any) -> Expr:
    if isinstance(leaf, float) and math.isnan(leaf):
        return n.not_(n.eq(v, v))
    return n.eq(v, n.const(leaf))


def _refuse_two_zeros(answers: Answers) -> None:
    """0.0 and -0.0 are equal to every engine here: a function that tells them apart has no table."""
    for args, found in list(answers.rows.values()):
        if any(isinstance(v, float) and v == 0 for v in args):
            for sign in (0.0, -0.0):
                same = tuple(sign if isinstance(v, float) and v == 0 else v for v in args)
                may_come = not answers.closed or key_of(same) in answers.rows
                if may_come and repr(answers.of(same)) != repr(found):
                    raise NotTraceable(
                        f"{answers.who}: {answers.fn.name} tells 0.0 from -0.0, which a check of called functions "
                        "cannot"
                    )
