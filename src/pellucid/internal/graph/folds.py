"""Folds that can be cut: the function of a cumulate, as an associative operation on the old value and a term of the
event.

>>> from pellucid.internal.expr.function import Function
>>> f = Function.make(lambda t, v: t + v - 1 if v > 0 else t, (INT, INT))
>>> part = fold_of(f.traced.outputs[0], 0, 1, clean=True)
>>> part.op, [(term.sign, term.value, term.when) for term in part.terms]
('add', [(-1, 1 if v1 > 0 else 0, v1 > 0), (1, v1 if v1 > 0 else 0, v1 > 0)])
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.ranges import may_be_nan
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, EnumType, Type

_BITS = ("band", "bor", "bxor")


@dataclass(frozen=True)
class Term:
    """What an event brings to a fold, and when; a sum subtracts it where ``sign`` is -1."""

    when: Expr
    value: Expr
    sign: int = 1


@dataclass(frozen=True)
class FoldPart:
    """One leaf of a cumulate's value: ``leaf' = op(leaf, term)``."""

    op: str  # add, min, max, and, or, band, bor, bxor, last; same: it never changes
    type: Type
    terms: tuple[Term, ...] = ()
    first: bool = True  # of equals the first is kept (a float zero has a sign)
    nan_kept: bool = True  # a start value that is NaN stays


def fold_of(e: Expr, leaf: int, states: int, *, clean: bool, failing: bool = False) -> FoldPart | str:
    """The fold that a leaf of a cumulate's value is, or why it is none.

    The first ``states`` variables are the old leaves; ``clean`` says that no float of an event is NaN, ``failing`` that
    whoever asks sees by itself to terms that fail.
    """
    return _Splitter(leaf, states, clean, failing).split(e)


_NO_FOLD = "its function is no associative fold, such as t + v, max(t, v) or t and v"
_FLOATS = "a sum of floats is not associative: cut elsewhere, it is rounded elsewhere"


@dataclass(frozen=True)
class _Splitter:
    """Takes one leaf of a cumulate's value apart: the old leaf, and what does not look at old leaves."""

    leaf: int
    states: int
    clean: bool  # no float of the event is NaN
    failing: bool  # terms that fail are seen to elsewhere, so no check may be left out

    def old(self, e: Expr) -> bool:
        return e.op == "var" and bool(e.value == self.leaf)

    def free(self, e: Expr) -> bool:
        return not any(p.op == "var" and p.value < self.states for p in walk(e))

    def split(self, e: Expr) -> FoldPart | str:
        """The fold, or why it is none."""
        if self.old(e):
            return FoldPart("same", e.type)
        if self.free(e):
            return FoldPart("last", e.type, (Term(n.TRUE, e),), first=False)
        if e.op == "after" and not self.failing:
            # The checks can only fail, and if they do the chunk fails when it is run.
            return self.split(e.args[-1])
        if e.op in ("add", "sub"):
            return self.sum(e)
        if e.op in _BITS or e.op in ("and", "or"):
            return self.chain(e)
        if e.op == "ite":
            return self.choice(e)
        return _NO_FOLD

    def sum(self, e: Expr) -> FoldPart | str:
        """``t + a - b``: each term is summed on its own, so that no sum of terms overflows by itself."""
        terms: list[Term] = []
        olds: list[int] = []
        todo = [(1, e)]
        while todo:
            sign, x = todo.pop()
            if self.old(x):
                olds.append(sign)
            elif self.free(x):
                terms.append(Term(n.TRUE, x, sign))
            elif x.op in ("add", "sub"):
                todo += [(sign, x.args[0]), (sign if x.op == "add" else -sign, x.args[1])]
            else:
                return _NO_FOLD
        if olds != [1]:
            return _NO_FOLD
        return FoldPart("add", INT, tuple(terms)) if e.type == INT else _FLOATS

    def chain(self, e: Expr) -> FoldPart | str:
        """``t and a and b``, ``t | a | b``: what stands behind ``t`` in a truth value is not always evaluated."""
        operands: list[Expr] = []
        todo = [e]
        while todo:
            x = todo.pop()
            if x.op == e.op and not self.free(x):
                todo += reversed(x.args)
            else:
                operands.append(x)
        at = [i for i, x in enumerate(operands) if self.old(x)]
        rest = [x for x in operands if not self.old(x)]
        if len(at) != 1 or not all(map(self.free, rest)):
            return _NO_FOLD
        if e.op in ("and", "or"):
            rest = [reduce(n.and_ if e.op == "and" else n.or_, rest)]
            if at[0] < len(operands) - 1 and n.fails(rest[0]) and not self.failing:
                return f"what follows the old value in its {e.op!r} may fail, and is not evaluated for every event"
        return FoldPart(e.op, e.type, tuple(Term(n.TRUE, x) for x in rest))

    def choice(self, e: Expr) -> FoldPart | str:
        c, yes, no = e.args
        if c.op in ("lt", "le") and {yes, no} == set(c.args) and e.type in (INT, FLOAT):
            for old, value in ((yes, no), (no, yes)):
                if self.old(old) and self.free(value):
                    # NaN compares with nothing: where the value stands behind `else`, it is taken.
                    if e.type == FLOAT and value is no and not (self.clean and not may_be_nan(value)):
                        return "a value may be NaN, which ends its minimum or maximum"
                    keeps = old is (yes if c.op == "le" else no)
                    op = "min" if yes is c.args[0] else "max"
                    return FoldPart(op, e.type, (Term(n.TRUE, value),), first=keeps, nan_kept=old is no)
        if not self.free(c):
            return _NO_FOLD
        sides = [self.split(yes), self.split(no)]
        for side in sides:
            if isinstance(side, str):
                return side
        a, b = (s for s in sides if isinstance(s, FoldPart))
        real = a if a.op != "same" else b
        if "same" not in (a.op, b.op) and (a.op, a.first, a.nan_kept) != (b.op, b.first, b.nan_kept):
            return _NO_FOLD
        if real.op == "last" or max(len(a.terms), len(b.terms)) == 1:
            left, right = (s.terms[0] if s.terms else Term(n.FALSE, _nothing(real.op, e.type)) for s in (a, b))
            if left.sign == right.sign or "same" in (a.op, b.op):
                sign = real.terms[0].sign if real.terms else 1
                term = Term(n.ite(c, left.when, right.when), n.ite(c, left.value, right.value), sign)
                return replace(real, terms=(term,) if real.terms else ())
        under = [(c, t) for t in a.terms] + [(n.not_(c), t) for t in b.terms]
        terms = [Term(n.and_(d, t.when), n.ite(d, t.value, _nothing(real.op, t.value.type)), t.sign) for d, t in under]
        return replace(real, terms=tuple(terms))


IDENTITY = {"add": 0, "min": INT_MAX, "max": INT_MIN, "and": True, "or": False, "band": -1, "bor": 0, "bxor": 0}


def _nothing(op: str, t: Type) -> Expr:
    """What changes nothing, for where there is no term; for folds that ask `when`, some value."""
    if isinstance(t, EnumType):
        return n.const(t.members[0])
    if t in (INT, BOOL):
        return n.const(IDENTITY.get(op, 0 if t == INT else False))
    return n.const(0.0 if t == FLOAT else "")
