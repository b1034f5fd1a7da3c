"""What is known about the numbers of an expression: between which bounds an int lies, whether a float may be NaN.

A small interval analysis over the DAG.  It widens what can be translated exactly: ``(v & 7) / 3`` divides integers
that a double holds, ``f * 0.5`` is never NaN where ``f`` is not.

>>> from pellucid.internal.expr.node import binary, const, var
>>> bounds(binary("mod", var(0, INT), const(10)))
(0, 9)
"""

from __future__ import annotations

import math

from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN

EXACT = 2**53  # up to here a double holds every integer

Bounds = tuple[int, int]
_ALL: Bounds = (INT_MIN, INT_MAX)


def bounds(e: Expr) -> Bounds:
    """The least and the greatest value that an int expression can have, where it does not fail."""
    found: dict[int, Bounds] = {}
    for part in walk(e):
        if part.type == INT:
            low, high = _bounds(part, [found.get(id(a), _ALL) for a in part.args])
            # An integer outside 64 bits is a failure and no value.
            found[id(part)] = (max(low, INT_MIN), min(high, INT_MAX)) if low <= INT_MAX and high >= INT_MIN else _ALL
    return found[id(e)]


def within(e: Expr, low: int, high: int) -> bool:
    """Whether an int expression always lies between these.

    >>> from pellucid.internal.expr.node import binary, const, var
    >>> within(binary("band", var(0, INT), const(7)), 0, 7), within(var(0, INT), 0, 7)
    (True, False)
    """
    least, greatest = bounds(e)
    return low <= least and greatest <= high


def _bounds(e: Expr, args: list[Bounds]) -> Bounds:
    op = e.op
    if op == "const":
        return e.value, e.value
    if op == "int_of_bool":
        return 0, 1
    if op == "ite":
        return min(args[1][0], args[2][0]), max(args[1][1], args[2][1])
    if op == "after":
        return args[-1]
    if op in ("add", "sub", "mul"):
        (a, b), (c, d) = args
        corners = {"add": (a + c, b + d), "sub": (a - d, b - c), "mul": (a * c, a * d, b * c, b * d)}[op]
        return min(corners), max(corners)
    if op == "neg":
        return -args[0][1], -args[0][0]
    if op == "abs":
        low, high = args[0]
        return (low if low > 0 else -high if high < 0 else 0), max(abs(low), abs(high))
    if op == "mod":
        low, high = args[1]
        return (0 if low > 0 else low + 1), (0 if high < 0 else high - 1)
    if op == "band":
        tops = [high for low, high in args if low >= 0]
        return (0, min(tops)) if tops else _ALL
    if op == "floordiv" and args[1][0] > 0:
        (a, b), (c, d) = args
        corners = (a // c, a // d, b // c, b // d)
        return min(corners), max(corners)
    if op == "shr" and args[1][0] >= 0:
        (a, b), (c, d) = args
        corners = (a >> c, a >> min(d, 63), b >> c, b >> min(d, 63))
        return min(corners), max(corners)
    return _ALL


def may_be_nan(e: Expr) -> bool:
    """Whether a float expression can be NaN, given that no event is.

    >>> from pellucid.internal.expr.node import add, const, mul, var
    >>> f = var(0, FLOAT)
    >>> may_be_nan(mul(f, const(0.5))), may_be_nan(add(f, f))
    (False, True)
    """
    found: dict[int, bool] = {}
    for part in walk(e):
        if part.type == FLOAT:
            found[id(part)] = _may_be_nan(part, [found.get(id(a), False) for a in part.args])
    return found.get(id(e), False)


def _may_be_nan(e: Expr, args: list[bool]) -> bool:
    op = e.op
    if op == "const":
        return math.isnan(e.value)
    if any(args[1:] if op == "ite" else args[-1:] if op == "after" else args):
        return True
    if op in ("var", "neg", "abs", "sqrt", "float_of_int", "ite", "after", "raise"):
        return False
    if e.args[0].type in (INT, BOOL):
        return False  # the quotient of two integers
    numbers = [a.value for a in e.args if a.op == "const"]
    if op in ("add", "sub", "mul"):  # infinity - infinity, 0 * infinity
        finite = any(math.isfinite(v) and (v != 0 or op != "mul") for v in numbers) or any(map(_finite, e.args))
        return not finite if op != "mul" else not any(math.isfinite(v) and v != 0 for v in numbers)
    if op == "truediv":  # infinity / infinity
        return not (any(math.isfinite(v) for v in numbers) or any(map(_finite, e.args)))
    return True


def _finite(e: Expr) -> bool:
    """Whether a float expression is surely no infinity."""
    return (
        e.op == "float_of_int"
        or (e.op == "const" and math.isfinite(e.value))
        or (e.op == "truediv" and e.args[0].type == INT)
    )
