"""``Int64``: a Python int that fails where 64 bits are not enough.

A user's plain function, called with these, computes exactly what a traced one does in a kernel: the
same numbers, and an overflow at the same place, also in the middle of an expression.  This is how
the literal interpreter gets its meaning from the user's own code and not from the trace.

>>> Int64(2**62) + 1
4611686018427387905
>>> Int64(2**62) * 2
Traceback (most recent call last):
...
pellucid.internal.expr.operations.Overflow64: 9223372036854775808 does not fit in 64 bits
"""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Callable
from typing import Any

from pellucid.internal.expr.operations import Overflow64
from pellucid.internal.expr.types import INT, ListType, OptionalType, RecordType, TupleType, Type, fits_int


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
