"""The evaluator: an expression's value for given leaves, in plain Python.

It follows the definition word by word (on demand, 64-bit, failing where Python or 64 bits fail), so
it is the reference for every code generator.

>>> from pellucid.expr.node import add, const, var
>>> from pellucid.expr.types import INT
>>> evaluate(add(var(0, INT), const(2)), [40])
42
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pellucid.expr.node import Expr
from pellucid.expr.trace import Traced
from pellucid.expr.types import INT, fits_int

__all__ = ["Overflow64", "UserRaise", "evaluate", "evaluate_call"]


class Overflow64(OverflowError):
    """An integer left the signed 64-bit range."""


class UserRaise(Exception):  # noqa: N818
    """The user's function raises here; ``number`` is the place."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _shl(a: int, b: int) -> int:
    if b < 0:
        raise ValueError("negative shift count")
    if b > 64 and a != 0:
        raise Overflow64
    return a << min(b, 64)


_OPS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "truediv": lambda a, b: a / b,
    "neg": lambda a: -a,
    "abs": abs,
    "invert": lambda a: ~a,
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
    "shl": _shl,
    "shr": lambda a, b: a >> b,
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "not": lambda a: not a,
    "int_of_bool": int,
    "float_of_int": float,
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
}


def evaluate(e: Expr, leaves: Sequence[Any], memo: dict[int, Any] | None = None) -> Any:
    """The value of ``e`` where the i-th variable is ``leaves[i]``."""
    memo = {} if memo is None else memo
    known = memo.get(id(e), memo)
    if known is not memo:
        return known
    op, args = e.op, e.args
    value: Any
    if op == "const":
        value = e.value
    elif op == "var":
        value = leaves[e.value]
    elif op == "raise":
        raise UserRaise(e.value)
    elif op == "ite":
        value = evaluate(args[1] if evaluate(args[0], leaves, memo) else args[2], leaves, memo)
    elif op == "and":
        value = evaluate(args[0], leaves, memo) and evaluate(args[1], leaves, memo)
    elif op == "or":
        value = evaluate(args[0], leaves, memo) or evaluate(args[1], leaves, memo)
    elif op == "after":
        for part in args:
            value = evaluate(part, leaves, memo)
    else:
        value = _OPS[op](*[evaluate(a, leaves, memo) for a in args])
        if e.type == INT and not fits_int(value):
            raise Overflow64(f"{value} does not fit in 64 bits")
    memo[id(e)] = value
    return value


def evaluate_call(traced: Traced, args: Sequence[Any]) -> Any:
    """What the traced function returns on these arguments.

    >>> from pellucid.expr.trace import trace
    >>> from pellucid.expr.types import INT
    >>> evaluate_call(trace(lambda a, b: (a + b, a * b), (INT, INT)), [3, 4])
    (7, 12)
    """
    leaves = [leaf for t, a in zip(traced.params, args, strict=True) for leaf in t.flatten(a)]
    memo: dict[int, Any] = {}
    result = traced.result.unflatten([evaluate(e, leaves, memo) for e in traced.outputs])
    if traced.count is None:
        return result
    count = evaluate(traced.count, leaves, memo)
    slots = [[evaluate(e, leaves, memo) for e in slot] for slot in traced.slots[:count]]
    return result, [traced.event.unflatten(slot) for slot in slots if traced.event is not None]
