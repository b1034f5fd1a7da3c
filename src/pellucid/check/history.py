"""Formulas that a little history decides: what can only be broken by something that has been seen.

``G (out -> X !out)`` is broken in a push with an output after a push with one; so with one bit that says "the push
before had an output" it is an invariant.  In general:

* a formula of CTL in which all runs are meant (``AG (p -> AX q)``) is one of LTL, if no two parts of an *or* choose
  runs of their own;
* in negation normal form it may hold ``X G W R`` and the past ``Y O H S``, and is taken apart into clauses, each an
  *or*;
* a clause with a ``G`` or a ``W`` in it speaks of what came before instead: ``G (c | G p)`` is ``G (p | H c)``;
* ``X`` is judged later: a clause with d nested ``X`` is judged d pushes after the push that it speaks of, from bits
  that were kept;
* a past operator is one bit: ``O p`` holds if it held before, or ``p`` does now.

What is left is an expression over the state, with one bit for each thing that is remembered; engines that decide
invariants decide it, over exact integers as well.  A counterexample is a run up to the push in which the formula can be
seen to be broken, no longer.
"""

from __future__ import annotations

from pellucid.check.formula import CTL, LTL, PAST, TRUE, And, Formula, H, Not, Or, S, Y
from pellucid.check.system.build import Cells, System
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import BOOL

_MOST = 32  # clauses of a formula: beyond, it is not taken apart
_DUAL = {
    "&": "|",
    "|": "&",
    "X": "X",
    "F": "G",
    "G": "F",
    "U": "R",
    "R": "U",
    "AX": "EX",
    "EX": "AX",
    "AF": "EG",
    "EG": "AF",
    "AG": "EF",
    "EF": "AG",
}
_BRANCHING = CTL | {"AR", "ER"}


def normal(f: Formula, negated: bool = False) -> Formula:
    """Negation normal form: ``!`` before atoms and past operators only, and no ``->``, ``<->`` or ``W`` outside them.

    >>> from pellucid.check.formula.parse import parse
    >>> print(normal(parse("!(a -> X (b U c))")))
    a & X (!b R !c)
    """
    if f.op in ("atom", "true", "false") or f.op in PAST:
        if not negated:
            return f
        return Formula({"true": "false", "false": "true"}[f.op]) if f.op in ("true", "false") else Not(f)
    if f.op == "!":
        return normal(f.args[0], not negated)
    if f.op == "->":
        return normal(Or(Not(f.args[0]), f.args[1]), negated)
    if f.op == "<->":
        a, b = f.args
        return normal(And(Or(Not(a), b), Or(a, Not(b))), negated)
    if f.op == "W":  # p W q = q R (p | q)
        p, q = f.args
        return normal(Formula("R", (q, Or(p, q))), negated)
    if f.op in ("AU", "EU") and negated:  # not E [p U q]: on all runs !p R !q; not A [p U q]: on some
        return Formula(("A" if f.op == "EU" else "E") + "R", tuple(normal(a, True) for a in f.args))
    return Formula(_DUAL[f.op] if negated else f.op, tuple(normal(a, negated) for a in f.args))


def clauses(f: Formula) -> list[list[Formula]] | None:
    """A formula in normal form as an *and* of *or*s; what stands in one is an atom or begins with a temporal operator.
    None: too many."""
    if f.op == "&":
        left, right = clauses(f.args[0]), clauses(f.args[1])
        return [*left, *right] if left is not None and right is not None and len(left) + len(right) <= _MOST else None
    if f.op == "|":
        left, right = clauses(f.args[0]), clauses(f.args[1])
        if left is None or right is None or len(left) * len(right) > _MOST:
            return None
        return [[*a, *b] for a in left for b in right]
    if f.op in ("X", "AX"):  # it goes through and: X (a & b) is X a & X b; and so does AX
        inner = clauses(f.args[0])
        return [[Formula(f.op, (Or(*c),))] for c in inner] if inner is not None else None
    if f.op in ("true", "false"):
        return [] if f.op == "true" else [[]]
    return [[f]]


def linear(f: Formula) -> Formula | None:
    """The formula of LTL that says the same as one of CTL about all runs; None where that is not seen.

    >>> from pellucid.check.formula.parse import parse
    >>> print(linear(parse("AG (p -> AX q)")), linear(parse("AG (AX p | AX q)")), linear(parse("AG EF p")))
    G (!p | X q) None None
    """
    return _linear(normal(f))


def _branches(f: Formula) -> bool:
    return any(part.op in _BRANCHING for part in f.walk())


def _linear(f: Formula) -> Formula | None:
    if not _branches(f):
        return f
    found = clauses(f)
    if found is None:
        return None
    out: list[Formula] = []
    for clause in found:
        branching = [part for part in clause if _branches(part)]
        if len(branching) > 1:
            return None  # AX p | AX q: each may speak of another run
        for part in branching:
            # p | AX q, p | A [q U r] where q and r speak of a push alone: then all runs can be asked one by one
            # (Maidl).
            if part.op[0] != "A" or (part.op not in ("AX", "AG") and any(map(_branches, part.args))):
                return None
            inner = [_linear(a) for a in part.args]
            if None in inner:
                return None
            clause = [
                *(c for c in clause if c is not part),
                Formula(part.op[1:], tuple(a for a in inner if a is not None)),
            ]
        out.append(Or(*clause))
    return And(*out)


@n.values_only()
def as_invariant(system: System, formula: Formula) -> tuple[System, Expr] | None:
    """A system with history and the expression that must hold in every push, for a resolved formula that nothing but
    the past can break.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.formula import resolve
    >>> from pellucid.check.formula.parse import parse
    >>> from pellucid.check.system.build import build_system
    >>> s = build_system(pipeline(lambda x: x.filter(lambda v: v > 80), x=int).graph, domain_of(None))
    >>> extended, good = as_invariant(s, resolve(parse("G (out -> X !out)"), s))
    >>> [v.name for v in extended.state]
    [':stopped', ':past1', ':past2']
    >>> as_invariant(s, resolve(parse("G F out"), s)) is None
    True
    """
    found = pieces(formula)
    if found is None:
        return None
    history = History(system)
    good = n.all_of(history.always(piece) for piece in found)
    extended, (good,) = history.cells.done([good])
    return extended, good


def pieces(formula: Formula) -> list[Formula] | None:
    """Formulas of ``X`` and the past, each of which must hold in every push; None if the formula is not of that
    kind."""
    flat = linear(formula)
    return _pieces([_LATER], flat) if flat is not None else None


_LATER = Y(TRUE)  # not in the first push


def _pieces(context: list[Formula], f: Formula) -> list[Formula] | None:
    """Formulas of X and the past that must hold in every push so that, wherever nothing of the context does, f holds.

    None: f is not of the kind that this is about.
    """
    found = clauses(f)
    if found is None:
        return None
    out: list[Formula] = []
    for clause in found:
        lasting = [part for part in clause if not _judged(part)]
        here = [*context, *(part for part in clause if _judged(part))]
        if not lasting:
            out.append(Or(*here))
            continue
        part, otherwise = lasting[0], Or(*here)
        if len(lasting) > 1 or part.op not in ("X", "G", "R") or not all(map(_judged, part.args[:-1])):
            return None
        if part.op == "X":  # c | X p in every push: one push later Y c | p
            told = [Not(_LATER), Y(otherwise)]
        elif part.op == "G":  # c | G p in every push: p | H c
            told = [] if here in ([], [_LATER]) else [H(otherwise)]
        else:  # c | p R q in every push: q, unless since each push without c there was a p
            p = part.args[0]
            told = [Not(Or(Not(otherwise), Y(S(Not(p), And(Not(otherwise), Not(p))))))]
        inner = _pieces(told, part.args[-1])
        if inner is None:
            return None
        out += inner
    return out


def _judged(f: Formula) -> bool:
    """Whether a formula is decided by what was and by a known number of pushes to come."""
    return not any(part.op in CTL | LTL and part.op not in PAST and part.op != "X" for part in f.walk())


class History:
    """Bits that remember, for formulas of ``X`` and the past."""

    def __init__(self, system: System) -> None:
        self.cells = Cells(system)
        self._known: dict[tuple[Formula, int], Expr] = {}
        self._bits = 0

    def always(self, f: Formula) -> Expr:
        """What must hold in every push so that f does in every push: f is judged when all that it speaks of has
        come."""
        later = _ahead(f)
        return n.or_(n.not_(self.value(TRUE, later)), self.value(f, later))

    def value(self, f: Formula, ago: int) -> Expr:
        """Whether f held so many pushes ago; false where that was before the first push."""
        if (f, ago) not in self._known:
            self._known[f, ago] = self._bit(f, ago) if ago > _ahead(f) else self._value(f, ago)
        return self._known[f, ago]

    def _cell(self) -> Expr:
        self._bits += 1
        return self.cells.add(f":past{self._bits}", BOOL, False)

    def _bit(self, f: Formula, ago: int) -> Expr:
        """Whether f held a push before the one that is ``ago - 1`` pushes ago: kept in a bit."""
        cell = self._cell()
        self.cells.follow(cell, self.value(f, ago - 1))
        return cell

    def _value(self, f: Formula, ago: int) -> Expr:
        there = self.value(TRUE, ago) if ago else n.TRUE
        if f.op == "true":
            return n.TRUE
        if f.op == "false":
            return n.FALSE
        if f.op == "atom":
            assert isinstance(f.body, Expr)
            return f.body
        if f.op == "X":
            return n.and_(there, self.value(f.args[0], ago - 1))
        if f.op == "Y":
            return n.and_(self.value(TRUE, ago + 1), self.value(f.args[0], ago + 1))
        parts = [self.value(a, ago) for a in f.args]
        match f.op:
            case "!":
                return n.and_(there, n.not_(parts[0]))
            case "&":
                return n.and_(*parts)
            case "|":
                return n.or_(*parts)
            case "->":
                return n.and_(there, n.or_(n.not_(parts[0]), parts[1]))
            case "<->":
                return n.and_(there, n.eq(*parts))
        cell = self._cell()  # of O and S whether it held a push before; of H whether it failed in one
        match f.op:
            case "O":
                now = n.or_(cell, parts[0])
                kept = now
            case "H":
                kept = n.or_(cell, n.and_(there, n.not_(parts[0])))
                now = n.and_(there, n.not_(kept))
            case _:
                now = kept = n.or_(parts[1], n.and_(parts[0], cell))
        self.cells.follow(cell, kept)
        return now


def _ahead(f: Formula) -> int:
    """How many pushes after a push it is known whether f held in it."""
    inner = max((_ahead(a) for a in f.args), default=0)
    return inner + 1 if f.op == "X" else max(inner - 1, 0) if f.op == "Y" else inner
