"""Expressions as readable text."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.operations import OPERATIONS
from pellucid.internal.expr.types import BOOL
from pellucid.internal.expr.types.optional import THERE

_IF, _NOT, _SIGN, _ATOM = 1, 4, 12, 20
_MAX_DEPTH = 100  # a loop of the user's may have made a long chain


def show(e: Expr, names: Sequence[str] | None = None, limit: int = 400) -> str:
    """The expression in Python's own notation, its parameters by the given names.

    >>> from pellucid.internal.expr.node import add, const, mul, var
    >>> from pellucid.internal.expr.types import INT
    >>> show(mul(add(var(0, INT), const(2)), const(3)), ["total"])
    '(total + 2) * 3'
    """
    return _show(e, names, [limit], _MAX_DEPTH)[0]


def _show(e: Expr, names: Sequence[str] | None, room: list[int], depth: int) -> tuple[str, int]:
    """The text, and how tightly its outermost operator binds."""
    room[0] -= 1
    if room[0] < 0 or depth == 0:
        return "…", _ATOM
    if e.op == "var":
        name = names[e.value] if names else f"v{e.value}"
        if name.endswith(f".{THERE}") and e.type == BOOL:
            return f"{name.removesuffix(f'.{THERE}')} is not None", 5
        return name, _ATOM
    if e.op == "const":
        text = str(e.value) if isinstance(e.value, enum.Enum) else repr(e.value)
        return text, (_SIGN if text.startswith("-") else _ATOM)
    if e.op == "raise":
        return "raise", _ATOM

    def part(a: Expr, least: int) -> str:
        text, binds = _show(a, names, room, depth - 1)
        return text if binds >= least else f"({text})"

    infix = OPERATIONS[e.op].infix
    if infix is not None:
        sign, binds = infix
        if e.op in ("lt", "le") and e.args[0].op == "const":  # as people write it: v > 20
            return f"{part(e.args[1], 6)} {'>' if e.op == 'lt' else '>='} {part(e.args[0], 6)}", binds
        # Comparisons do not chain here, and what stands on the right of - or // needs its brackets.
        left = binds + 1 if binds == 5 else binds
        return f"{part(e.args[0], left)} {sign} {part(e.args[1], binds + 1)}", binds
    if e.op == "not":
        inner = e.args[0]
        if inner.op == "var" and names and names[inner.value].endswith(f".{THERE}"):
            return f"{names[inner.value].removesuffix(f'.{THERE}')} is None", 5
        if inner.op == "eq":
            return f"{part(inner.args[0], 6)} != {part(inner.args[1], 6)}", 5
        return f"not {part(inner, _NOT)}", _NOT
    if e.op == "ite":
        c, yes, no = e.args
        return f"{part(yes, _IF + 1)} if {part(c, _IF + 1)} else {part(no, _IF)}", _IF
    if e.op in ("neg", "invert"):
        return f"{'-' if e.op == 'neg' else '~'}{part(e.args[0], _SIGN)}", _SIGN
    if e.op in ("call", "call_fails"):
        return (
            f"{e.value.name}({', '.join(part(a, 0) for a in e.args)}){' fails' if e.op == 'call_fails' else ''}",
            _ATOM,
        )
    return f"{OPERATIONS[e.op].name or e.op}({', '.join(part(a, 0) for a in e.args)})", _ATOM
