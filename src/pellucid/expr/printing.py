"""Expressions as readable text."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from pellucid.expr.node import Expr

__all__ = ["show"]

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "floordiv": "//",
    "mod": "%",
    "truediv": "/",
    "band": "&",
    "bor": "|",
    "bxor": "^",
    "shl": "<<",
    "shr": ">>",
    "eq": "==",
    "lt": "<",
    "le": "<=",
    "and": "and",
    "or": "or",
}
_NAMES = {"int_of_bool": "int", "float_of_int": "float"}


def show(e: Expr, names: Sequence[str] | None = None, limit: int = 400) -> str:
    """The expression in Python's own notation, its parameters by the given names.

    >>> from pellucid.expr.node import add, const, var
    >>> from pellucid.expr.types import INT
    >>> show(add(var(0, INT), const(2)), ["total"])
    '(total + 2)'
    """
    return _show(e, names, [limit], 0)


_MAX_DEPTH = 100


def _show(e: Expr, names: Sequence[str] | None, room: list[int], depth: int) -> str:
    room[0] -= 1
    if room[0] < 0 or depth > _MAX_DEPTH:
        return "…"
    if e.op == "var":
        return names[e.value] if names else f"v{e.value}"
    if e.op == "const":
        return str(e.value) if isinstance(e.value, enum.Enum) else repr(e.value)
    if e.op == "raise":
        return "raise"
    parts = [_show(a, names, room, depth + 1) for a in e.args]
    if e.op in _INFIX:
        return f"({parts[0]} {_INFIX[e.op]} {parts[1]})"
    if e.op == "ite":
        return f"({parts[1]} if {parts[0]} else {parts[2]})"
    if e.op == "not":
        return f"(not {parts[0]})"
    if e.op in ("neg", "invert"):
        return f"({'-' if e.op == 'neg' else '~'}{parts[0]})"
    return f"{_NAMES.get(e.op, e.op)}({', '.join(parts)})"
