"""The evaluator: an expression's value for given leaves, in plain Python.

It follows the definition word by word (on demand, 64-bit, failing where Python or 64 bits fail), so
it is the reference for every code generator.

>>> from pellucid.internal.expr.node import add, const, var
>>> from pellucid.internal.expr.types import INT
>>> evaluate(add(var(0, INT), const(2)), [40])
42
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid.errors import known
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.operations import LAZY, OPERATIONS, Overflow64
from pellucid.internal.expr.tracing.trace import Traced
from pellucid.internal.expr.types import INT, fits_int


class UserRaise(Exception):  # noqa: N818
    """The user's function raises here; ``number`` is the place."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


_OPS = {op: o.meaning for op, o in OPERATIONS.items() if o.meaning is not None}


def evaluate(e: Expr, leaves: Sequence[Any], memo: dict[int, Any] | None = None, *, exact: bool = False) -> Any:
    """The value of ``e`` where the i-th variable is ``leaves[i]``; ``exact`` integers may leave 64 bits."""
    memo = {} if memo is None else memo
    stack = [e]  # no recursion: a loop of the user's may have made a long chain
    while stack:
        top = stack[-1]
        if id(top) in memo:
            stack.pop()
            continue
        op, args = top.op, top.args
        if op == "raise":
            raise UserRaise(top.value)
        if op == "const":
            memo[id(top)] = top.value
        elif op == "var":
            memo[id(top)] = leaves[top.value]
        elif op == "overflows":
            missing = next((a for a in args[0].args if id(a) not in memo), None)
            if missing is not None:
                stack.append(missing)
            else:
                memo[id(top)] = _overflows(args[0].op, [memo[id(a)] for a in args[0].args])
        elif op in LAZY:
            needed = _needed(top, memo)
            if id(needed) in memo:
                memo[id(top)] = memo[id(needed)]
            else:
                stack.append(needed)
        else:
            missing = next((a for a in args if id(a) not in memo), None)
            if missing is not None:
                stack.append(missing)
            elif op == "after":
                memo[id(top)] = memo[id(args[-1])]
            else:
                values = [memo[id(a)] for a in args]
                if op == "call":
                    value = top.value(*values)
                elif op == "call_fails":
                    value = top.value.answer(*values)[0]
                else:
                    meaning = _OPS[op] if op in _OPS else known(_OPS, op, "the evaluator", "operation")
                    value = meaning(*values)
                if top.type == INT and not exact and not fits_int(value):
                    raise Overflow64(f"{value} does not fit in 64 bits")
                memo[id(top)] = value
    return memo[id(e)]


def _overflows(op: str, args: list[Any]) -> bool:
    try:
        return not fits_int(_OPS[op](*args))
    except Overflow64:
        return True
    except (ArithmeticError, ValueError):
        return False  # it fails in another way


def _needed(e: Expr, memo: dict[int, Any]) -> Expr:
    """The part whose value is that of ``e``, or, until it is known which one, the condition."""
    first = e.args[0]
    if id(first) not in memo:
        return first
    if e.op == "ite":
        return e.args[1] if memo[id(first)] else e.args[2]
    return first if bool(memo[id(first)]) == (e.op == "or") else e.args[1]


def evaluate_call(traced: Traced, args: Sequence[Any]) -> Any:
    """What the traced function returns on these arguments.

    >>> from pellucid.internal.expr.tracing.trace import trace
    >>> from pellucid.internal.expr.types import INT
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
    events = [traced.event.unflatten(slot) for slot in slots if traced.event is not None]
    if traced.asked is not None and traced.asks is not None:
        asked = evaluate(traced.asked, leaves, memo)
        return result, events, [traced.asks.unflatten([evaluate(e, leaves, memo)]) for e in traced.times[:asked]]
    return events if traced.many else (result, events)
