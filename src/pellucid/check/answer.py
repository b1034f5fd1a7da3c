"""What an engine answers; and what it is asked, as an expression."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pellucid.check.formula import Formula
from pellucid.expr import node as n
from pellucid.expr.node import Expr
from pellucid.model import Judgement, Status


@dataclass(frozen=True)
class Answer(Judgement):
    """A status with its evidence: pushes that refute (from ``loop`` on repeating), or what was proved and how."""

    status: Status
    engine: str
    pushes: list[dict[str, Any]] | None = None
    loop: int | None = None
    notes: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)


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
