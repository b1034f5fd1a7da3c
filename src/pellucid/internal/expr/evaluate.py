"""The evaluator: an expression's value for given leaves, in plain Python.

It follows the definition word by word (on demand, 64-bit, failing where Python or 64 bits fail), so
it is the reference for every code generator.

>>> from pellucid.internal.expr.node import add, const, var
>>> from pellucid.internal.expr.types import INT
>>> evaluate(add(var(0, INT), const(2)), [40])
42

``Int64``: a Python int that fails where 64 bits are not enough.

A user's plain function, called with these, computes exactly what a traced one does in a kernel: the
same numbers, and an overflow at the same place, also in the middle of an expression.  This is how
the literal interpreter gets its meaning from the user's own code and not from the trace.

>>> Int64(2**62) + 1
4611686018427387905
>>> Int64(2**62) * 2
Traceback (most recent call last):
...
pellucid.internal.expr.node.Overflow64: 9223372036854775808 does not fit in 64 bits
"""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pellucid.errors import known
from pellucid.internal.expr.node import LAZY, OPERATIONS, Expr, Overflow64
from pellucid.internal.expr.tracing.trace import Traced
from pellucid.internal.expr.types import INT, ListType, OptionalType, RecordType, TupleType, Type, fits_int


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


class Int64(int):
    """A signed 64-bit integer; its arithmetic overflows with an error."""

    __slots__ = ()


def _checked(name: str) -> Callable[..., Any]:
    plain = getattr(int, name)

    def method(self: int, *args: Any) -> Any:
        value = plain(self, *args)
        if type(value) is int:
            if not fits_int(value):
                raise Overflow64(f"{value} does not fit in 64 bits")
            return Int64(value)
        return value

    method.__name__ = name
    return method


def _divmod(self: int, other: Any) -> Any:
    return self // other, self % other


def _rdivmod(self: int, other: Any) -> Any:
    return other // self, other % self


def _shifted(a: int, b: Any) -> Any:
    if not isinstance(a, int):
        return NotImplemented
    if isinstance(b, int) and b > 64 and a != 0:
        raise Overflow64(f"{a} << {b} does not fit in 64 bits")  # without making the huge number first
    return _checked_shift(a, b)


def _pow(self: int, exponent: Any, modulus: Any = None) -> Any:
    """By squaring, as the trace does: the same products, so the same overflows."""
    if modulus is not None or not isinstance(exponent, int) or not 0 <= exponent <= 64:
        return int.__pow__(self, exponent, modulus) if modulus is not None else int.__pow__(self, exponent)
    result: Any = 1
    base: Any = Int64(self)
    while exponent:
        if exponent & 1:
            result = result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return result


def _neg(self: int) -> Any:
    value = -int(self)
    if fits_int(value):
        return Int64(value)
    # CPython itself negates an int where it compares it with a float; only a minus sign of the user's overflows.
    frame = sys._getframe(1)
    if dis.opname[frame.f_code.co_code[frame.f_lasti]] == "UNARY_NEGATIVE":
        raise Overflow64(f"{value} does not fit in 64 bits")
    return value


Int64.__neg__ = _neg  # type: ignore[method-assign]
for _name in (
    "add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift",
):  # fmt: skip
    setattr(Int64, f"__{_name}__", _checked(f"__{_name}__"))
    setattr(Int64, f"__r{_name}__", _checked(f"__r{_name}__"))
for _name in ("pos", "abs", "invert"):
    setattr(Int64, f"__{_name}__", _checked(f"__{_name}__"))
for _name in ("trunc", "floor", "ceil", "round"):
    setattr(Int64, f"__{_name}__", _checked(f"__{_name}__"))
_checked_shift = _checked("__lshift__")
Int64.__lshift__ = _shifted  # type: ignore[method-assign]
Int64.__rlshift__ = lambda self, other: _shifted(other, self)  # type: ignore[method-assign]
Int64.__divmod__ = _divmod  # type: ignore[method-assign]
Int64.__rdivmod__ = _rdivmod  # type: ignore[method-assign]
Int64.__pow__ = _pow  # type: ignore[method-assign]


def wrap(t: Type, value: Any) -> Any:
    """The event with every int in it as an ``Int64``."""
    if t == INT:
        return Int64(value)
    if isinstance(t, OptionalType):
        return None if value is None else wrap(t.inner, value)
    if isinstance(t, ListType):
        return t.cls(wrap(t.item, item) for item in value) if _has_ints(t.item) else value
    if isinstance(t, TupleType):
        return tuple(wrap(part, item) for part, item in zip(t.items, value, strict=True))
    if isinstance(t, RecordType) and _has_ints(t):
        return t.made([wrap(part, getattr(value, name)) for name, part in t.fields])
    return value


@functools.cache
def _has_ints(t: Type) -> bool:
    kinds = [kind.inner if isinstance(kind, OptionalType) else kind for _, kind in t.columns()]
    return any(_has_ints(kind.item) if isinstance(kind, ListType) else kind == INT for kind in kinds)
