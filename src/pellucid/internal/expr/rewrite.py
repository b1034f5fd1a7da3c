"""Putting expressions into others: how a traced function becomes part of a larger system."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pellucid.errors import known
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.operations import OPERATIONS
from pellucid.internal.expr.text import call_fails, rebuilt
from pellucid.internal.expr.types import FLOAT, INT

_BUILD: dict[str, Callable[..., Expr]] = {
    "eq": n.eq, "lt": n.lt, "le": n.le, "and": n.and_, "or": n.or_, "not": n.not_, "ite": n.ite,
    "int_of_bool": n.int_of_bool, "float_of_int": n.float_of_int, "sqrt": n.sqrt, "overflows": n.overflows,
}  # fmt: skip


def rebuild(e: Expr, args: Sequence[Expr]) -> Expr:
    """The same operation on other arguments, simplified."""
    op = e.op
    match OPERATIONS[op].kind:
        case "arithmetic":
            return n.binary(op, args[0], args[1])
        case "sign":
            return n.unary(op, args[0])
        case "round":
            return n.round_to_int(op, args[0])
        case "digits":
            return n.round_to_digits(args[0], args[1].value)
        case "text" | "call":
            return rebuilt(e, args)
    if op == "after":
        return n.after(tuple(args[:-1]), args[-1])
    return known(_BUILD, op, "substitution", "operation")(*args)


def substitute(
    roots: Sequence[Expr], leaves: Sequence[Expr], after: Callable[[Expr], Expr] | None = None
) -> list[Expr]:
    """The expressions with the i-th variable replaced by ``leaves[i]``.

    ``after`` is applied to every integer that an operation makes, for example to reduce it modulo N.

    >>> from pellucid.internal.expr.types import INT
    >>> x = n.var(0, INT)
    >>> substitute([n.add(x, n.const(1))], [n.const(2)])
    [3]
    """
    made: dict[int, Expr] = {}
    for e in walk(*roots):
        if e.op == "var":
            made[id(e)] = leaves[e.value]
        elif not e.args:
            made[id(e)] = e
        else:
            new = rebuild(e, [made[id(a)] for a in e.args])
            keeps = e.op in ("ite", "after")  # these hand on what was made already
            made[id(e)] = after(new) if after is not None and new.type == INT and not keeps else new
    return [made[id(r)] for r in roots]


def replaced(e: Expr, made: dict[int, Expr]) -> Expr:
    """The expression with some of its parts replaced; ``made`` has the new ones by the ``id`` of the old, and learns.

    >>> from pellucid.internal.expr.types import INT
    >>> x = n.var(0, INT)
    >>> replaced(n.add(n.mul(x, x), x), {id(n.mul(x, x)): n.const(2)})
    2 + v0
    """
    stack = [e]
    while stack:
        top = stack[-1]
        missing = [a for a in top.args if id(a) not in made]
        if id(top) in made or not missing:
            if id(top) not in made:
                made[id(top)] = rebuild(top, [made[id(a)] for a in top.args]) if top.args else top
            stack.pop()
        else:
            stack += missing
    return made[id(e)]


def failure(root: Expr) -> Expr:
    """The condition under which evaluating the expression fails, other than by overflow.

    >>> from pellucid.internal.expr.types import INT
    >>> failure(n.binary("floordiv", n.const(10), n.var(0, INT)))
    v0 == 0
    """
    return _condition(root, _fails_otherwise)


def overflow(root: Expr) -> Expr:
    """The condition under which an integer leaves 64 bits while the expression is evaluated.

    >>> from pellucid.internal.expr.types import INT
    >>> x = n.var(0, INT)
    >>> overflow(n.ite(n.lt(x, n.const(0)), n.neg(x), n.const(0)))
    v0 < 0 and overflows(-v0)
    """
    return _condition(root, n.overflows)


def _condition(root: Expr, here: Callable[[Expr], Expr]) -> Expr:
    """Whether ``here`` holds of an operation that is evaluated when the expression is: one branch only, and stopping
    early."""
    false = n.const(False)
    found: dict[int, Expr] = {}
    for e in walk(root):
        parts = [found[id(a)] for a in e.args]
        if e.op == "ite":
            bad = n.or_(parts[0], n.ite(e.args[0], parts[1], parts[2]))
        elif e.op == "and":
            bad = n.or_(parts[0], n.and_(e.args[0], parts[1]))
        elif e.op == "or":
            bad = n.or_(parts[0], n.and_(n.not_(e.args[0]), parts[1]))
        else:
            bad = false
            for part in parts:
                bad = n.or_(bad, part)
        found[id(e)] = n.or_(bad, here(e))
    return found[id(root)]


def _fails_otherwise(e: Expr) -> Expr:
    if e.op == "raise":
        return n.const(True)
    if e.op in ("floordiv", "mod", "truediv") and n.fails_here(e):
        return n.eq(e.args[1], n.const(0.0) if e.args[1].type != INT else n.const(0))
    if (e.op == "shr" and n.fails_here(e)) or e.op == "shl":
        return n.lt(e.args[1], n.const(0))
    if e.op in (
        "trunc",
        "floor",
        "ceil",
        "nearest",
    ):  # of NaN or an infinity: the only floats that minus themselves are not 0
        return n.not_(n.eq(n.sub(e.args[0], e.args[0]), n.const(0.0)))
    if e.op == "sqrt":
        return n.lt(e.args[0], n.const(0.0))
    if e.op == "call":
        return call_fails(e.value, e.args)
    return n.const(False)


def among_ints(roots: Sequence[Expr]) -> list[Expr]:
    """The expressions with every comparison of an int with a constant float as one with a constant int: exact, as in
    Python.

    >>> from pellucid.internal.expr.types import INT
    >>> x = n.var(0, INT)
    >>> among_ints([n.lt(x, n.const(0.5)), n.le(n.const(-1.5), x), n.eq(x, n.const(2.0)), n.lt(x, n.const(1e30))])
    [v0 < 1, v0 >= -1, v0 == 2, True]
    """
    if not any(e.op == "const" and e.type == FLOAT for e in walk(*roots)):
        return list(roots)
    made: dict[int, Expr] = {}
    for e in walk(*roots):
        new = rebuild(e, [made[id(a)] for a in e.args]) if e.args else e
        made[id(e)] = _among_ints(new)
    return [made[id(r)] for r in roots]


def _among_ints(e: Expr) -> Expr:
    if e.op not in ("eq", "lt", "le") or {a.type for a in e.args} != {INT, FLOAT}:
        return e
    at = 0 if e.args[0].type == FLOAT else 1
    if e.args[at].op != "const":
        return e
    c, x = e.args[at].value, e.args[1 - at]

    def always(value: bool) -> Expr:  # x is evaluated all the same: it may fail
        return n.after((x,), n.const(value))

    if c != c:
        return always(False)
    if not -(2.0**63) <= c < 2.0**63:  # beyond every int
        return always(e.op != "eq" and (c > 0) == (at == 1))
    whole = math.floor(c)  # and so is the next int, where there is a fraction
    if whole == c:
        return n.COMPARE[e.op](*((n.const(whole), x) if at == 0 else (x, n.const(whole))))
    if e.op == "eq":
        return always(False)
    return n.le(n.const(whole + 1), x) if at == 0 else n.lt(x, n.const(whole + 1))
