"""What an engine answers; and what it is asked, as an expression."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pellucid.check.formula import And, Atom, Formula, Not, Or
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.model import Judgement, Status


@dataclass(frozen=True)
class Answer(Judgement):
    """A status with its evidence: pushes that refute (from ``loop`` on repeating), or what was proved and how; with
    ``bound``, of which runs, where these are not all."""

    status: Status
    engine: str
    pushes: list[dict[str, Any]] | None = None
    loop: int | None = None
    notes: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    bound: str = ""
    negated: bool = False  # refuted because its negation is proved


def _expr(atom: Formula) -> Expr:
    assert isinstance(atom.body, Expr)
    return atom.body


def expression(f: Formula, atoms: dict[Any, Expr] | None = None) -> Expr:
    """A formula without temporal operators as one expression."""
    if f.op in ("true", "false"):
        return n.const(f.op == "true")
    if f.op == "atom":
        return atoms[f] if atoms is not None else _expr(f)
    parts = [expression(a, atoms) for a in f.args]
    if f.op == "!":
        return n.not_(parts[0])
    if f.op == "&":
        return n.and_(parts[0], parts[1])
    if f.op == "|":
        return n.or_(parts[0], parts[1])
    if f.op == "->":
        return n.or_(n.not_(parts[0]), parts[1])
    assert f.op == "<->"
    return n.eq(parts[0], parts[1])


# ---------------------------------------------------------------- what is not known, for a formula or against it
# From a certain push on nothing is known of a run (``lost``, which stays true). An atom is then taken for whatever
# helps the formula, or for whatever harms it, according to whether the formula wants it to hold or not. If the
# formula holds with everything counted against it, it holds; if it does not hold with everything counted for it, it
# does not. (This is three-valued model checking, Bruns and Godefroid 1999: the point at which nothing is known stands
# for every point.)


def counted(f: Formula, lost: Expr, *, for_it: bool) -> Formula:
    """The resolved formula with what is not known counted for it, or against it.

    >>> from pellucid.check.formula import G
    >>> from pellucid.internal.expr.types import BOOL
    >>> p, lost = Atom(n.var(0, BOOL), "p"), n.var(1, BOOL)
    >>> counted(G(Not(p)), lost, for_it=False).args[0].args[0].body
    v0 or v1
    """
    if lost is n.FALSE:
        return f
    if f.op == "atom":
        assert isinstance(f.body, Expr)
        return Atom(n.or_(f.body, lost) if for_it else n.and_(f.body, n.not_(lost)), str(f))
    if f.op in ("true", "false"):
        return f
    if f.op == "!":
        return Not(counted(f.args[0], lost, for_it=not for_it))
    if f.op == "->":
        a, b = f.args
        return Formula("->", (counted(a, lost, for_it=not for_it), counted(b, lost, for_it=for_it)))
    if f.op == "<->":
        a, b = f.args
        return counted(And(Or(Not(a), b), Or(a, Not(b))), lost, for_it=for_it)
    # all others only gain where their parts do
    return Formula(f.op, tuple(counted(a, lost, for_it=for_it) for a in f.args))
