"""Decimals that are not known yet, while a function is traced: whole numbers and a number of places.

Sums, differences and products are exact, as Python's are within 28 digits; one that leaves 64 bits is an error.
Division rounds in a way that depends on the context, so it is refused by name, and the function is called as it is.
"""

from __future__ import annotations

import decimal
from decimal import Decimal
from typing import Any

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.tracing.rich import Rich, as_int, checked, decide
from pellucid.internal.expr.tracing.symbolic import Compared, Sym, Untraceable, _boolean
from pellucid.internal.expr.types import FLOAT, DecimalType, type_of_value
from pellucid.internal.expr.types.decimals import MOST_PLACES


def lift_decimal(value: Any) -> SymDecimal | None:
    """A decimal or an int, symbolic or plain, as a symbolic decimal; None if it is neither."""
    if type(value) is SymDecimal:
        return value
    if isinstance(value, Decimal):
        t = type_of_value(value)
        if not isinstance(t, DecimalType) or t.problem(value) is not None:
            raise Untraceable(f"uses the decimal {value}, which does not fit in 64 bits")
        return SymDecimal(n.const(t.flatten(value)[0]), t)
    e = as_int(value)
    return None if e is None else SymDecimal(e, DecimalType(0))


def _scaled(x: SymDecimal, places: int) -> Expr:
    return checked(n.mul(x._expr, n.const(10 ** (places - x._places))))


class SymDecimal(Compared, Rich):
    """A decimal that is not known yet."""

    __slots__ = ()
    _type: DecimalType

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return Decimal

    @property
    def _places(self) -> int:
        return self._type.places

    def __bool__(self) -> bool:
        return decide(n.not_(n.eq(self._expr, n.const(0))))

    # -- comparison: exact, and never overflowing
    def _compare(self, op: str, other: Any, swapped: bool = False) -> Any:
        o = _other(other, "compares a decimal with a float")
        if o is None:
            return NotImplemented
        a, b = (o, self) if swapped else (self, o)
        return _boolean(_ordered(op, a, b))

    # -- arithmetic
    def _sum(self, op: Any, other: Any, swapped: bool = False) -> Any:
        o = _other(other, "")
        if o is None:
            return NotImplemented
        places = max(self._places, o._places)
        a, b = _scaled(self, places), _scaled(o, places)
        return SymDecimal(checked(op(b, a) if swapped else op(a, b)), DecimalType(places))

    def __add__(self, other: Any) -> Any:
        return self._sum(n.add, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._sum(n.sub, other)

    def __rsub__(self, other: Any) -> Any:
        return self._sum(n.sub, other, swapped=True)

    def __mul__(self, other: Any) -> Any:
        o = _other(other, "")
        if o is None:
            return NotImplemented
        places = self._places + o._places
        if places > MOST_PLACES:
            raise Untraceable(f"multiplies decimals to {places} places after the point; round one first")
        return SymDecimal(checked(n.mul(self._expr, o._expr)), DecimalType(places))

    __rmul__ = __mul__

    def _divides(self, *_: Any) -> Any:
        raise Untraceable("divides decimals, which rounds as the context says")

    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = _divides
    __rdivmod__ = __pow__ = __rpow__ = _divides

    def __neg__(self) -> Any:
        return SymDecimal(checked(n.neg(self._expr)), self._type)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return SymDecimal(checked(n.abs_(self._expr)), self._type)

    # -- rounding
    def __round__(self, digits: Any = None) -> Any:
        if digits is None:
            return Sym(_rounded(self, 0, decimal.ROUND_HALF_EVEN)._expr)
        if type(digits) is not int or not 0 <= digits <= MOST_PLACES:
            raise Untraceable("rounds a decimal to places that are no small constant")
        return _rounded(self, digits, decimal.ROUND_HALF_EVEN)

    def __trunc__(self) -> Any:
        return Sym(_rounded(self, 0, decimal.ROUND_DOWN)._expr)

    def __floor__(self) -> Any:
        return Sym(_rounded(self, 0, decimal.ROUND_FLOOR)._expr)

    def __ceil__(self) -> Any:
        return Sym(_rounded(self, 0, decimal.ROUND_CEILING)._expr)

    def __int__(self) -> Any:
        raise Untraceable("hands an event's value to code that is not plain Python (it asked for an int)")

    def __float__(self) -> Any:
        raise Untraceable("hands an event's value to code that is not plain Python (it asked for a float)")

    def __getattr__(self, name: str) -> Any:
        if name == "quantize":
            return self._quantize
        return Rich.__getattr__(self, name)

    def _quantize(self, exp: Any, rounding: Any = None, context: Any = None) -> Any:
        # a constant of the function is symbolic as well; its places are those that it is written with
        exponent = (
            -exp._places if type(exp) is SymDecimal else exp.as_tuple().exponent if type(exp) is Decimal else None
        )
        if context is not None or not isinstance(exponent, int) or not -MOST_PLACES <= exponent <= 0:
            raise Untraceable("quantizes a decimal to what is no small constant")
        return _rounded(self, -exponent, rounding or decimal.ROUND_HALF_EVEN)

    def _as_float(self) -> Any:
        return Sym(n.binary("truediv", self._expr, n.const(10**self._places)))


def _other(value: Any, if_float: str) -> SymDecimal | None:
    if isinstance(value, float) or (type(value) is Sym and value._expr.type == FLOAT):
        if if_float:
            raise Untraceable(if_float)
        raise TypeError("unsupported operand type(s): 'decimal.Decimal' and 'float'")
    return lift_decimal(value)


def _ordered(op: str, a: SymDecimal, b: SymDecimal) -> Expr:
    compare = n.COMPARE[op]
    if a._places == b._places:
        return compare(a._expr, b._expr)
    if a._places > b._places:  # a / k against b
        k = n.const(10 ** (a._places - b._places))
        down, rest = n.binary("floordiv", a._expr, k), n.binary("mod", a._expr, k)
        whole = n.eq(rest, n.const(0))
        if op == "eq":
            return n.and_(whole, n.eq(down, b._expr))
        if op == "lt":  # a / k < b: below b, or in the unit below it
            return n.lt(down, b._expr)
        return n.or_(n.lt(down, b._expr), n.and_(whole, n.eq(down, b._expr)))
    k = n.const(10 ** (b._places - a._places))
    down, rest = n.binary("floordiv", b._expr, k), n.binary("mod", b._expr, k)
    whole = n.eq(rest, n.const(0))
    if op == "eq":
        return n.and_(whole, n.eq(a._expr, down))
    if op == "le":  # a <= b / k
        return n.le(a._expr, down)
    return n.or_(n.lt(a._expr, down), n.and_(n.not_(whole), n.eq(a._expr, down)))


def _rounded(x: SymDecimal, places: int, how: str) -> SymDecimal:
    """As ``quantize`` rounds."""
    t = DecimalType(places)
    if places >= x._places:
        return SymDecimal(_scaled(x, places), t)
    k = 10 ** (x._places - places)
    down, rest = n.binary("floordiv", x._expr, n.const(k)), n.binary("mod", x._expr, n.const(k))
    up = n.add(down, n.const(1))
    exact, negative = n.eq(rest, n.const(0)), n.lt(x._expr, n.const(0))
    above, tie = n.lt(n.const(k // 2), rest), n.eq(rest, n.const(k // 2))
    odd = n.eq(n.binary("mod", down, n.const(2)), n.const(1))
    goes_up = {
        decimal.ROUND_FLOOR: n.FALSE,
        decimal.ROUND_CEILING: n.not_(exact),
        decimal.ROUND_DOWN: n.and_(negative, n.not_(exact)),
        decimal.ROUND_UP: n.and_(n.not_(negative), n.not_(exact)),
        decimal.ROUND_HALF_EVEN: n.or_(above, n.and_(tie, odd)),
        decimal.ROUND_HALF_UP: n.or_(above, n.and_(tie, n.not_(negative))),
        decimal.ROUND_HALF_DOWN: n.or_(above, n.and_(tie, negative)),
    }.get(how)
    if goes_up is None:
        raise Untraceable(f"rounds a decimal with {how}")
    return SymDecimal(n.ite(goes_up, up, down), t)


def made_decimal(*args: Any, **named: Any) -> Any:
    """``Decimal(n)`` of an int, and constants: Python's own would look inside a symbolic int."""
    if len(args) == 1 and not named:
        if type(args[0]) is SymDecimal:
            return args[0]
        if type(args[0]) is Sym:
            e = as_int(args[0])
            if e is None:
                raise Untraceable(f"makes a Decimal of a {args[0]._expr.type}")
            return SymDecimal(e, DecimalType(0))
    value = Decimal(*args, **named)
    t = type_of_value(value)
    return SymDecimal(n.const(t.flatten(value)[0]), t) if isinstance(t, DecimalType) and not t.problem(value) else value
