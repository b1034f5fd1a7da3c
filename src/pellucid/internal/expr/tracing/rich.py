"""Symbolic values that are richer than a scalar: what times and decimals have in common while a function is traced, and
lists.

A list is handed on, and asked whether it is empty, in every trace.  How long it is and what it holds is asked of Python
itself, once for each different list (`expr.tracing.running`); to a check that stays closed.

>>> from pellucid.internal.expr.tracing.trace import trace
>>> trace(lambda items: items[0] if items else -1, (ListType(INT),), run=True).outputs[0]
-1 if v0 == '' else item_0(v0)
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.rewrite import promote
from pellucid.internal.expr.tracing.running import answer_of
from pellucid.internal.expr.tracing.symbolic import Compared, Sym, Unknown, Untraceable, _boolean, lift_scalar
from pellucid.internal.expr.types import BOOL, FLOAT, INT, NOTHING, DecimalType, ListType, Type, conform, type_of_value
from pellucid.internal.expr.types.rich import MOST_PLACES


def decide(condition: Expr) -> bool:
    """Which way the path being traced goes."""
    from pellucid.internal.expr.tracing.trace import current_path

    return current_path().decide(condition)


def checked(e: Expr) -> Expr:
    """An expression whose failure the trace must remember."""
    return Sym.checked(e)._expr


def as_int(value: Any) -> Expr | None:
    """The expression of an int, symbolic or plain; None if it is none."""
    e = lift_scalar(value)
    return None if e is None else promote(e, INT)


class Rich(Unknown):
    """A time or a decimal that is not known yet: an int, and what it means."""

    __slots__ = ("_expr", "_type")
    _expr: Expr
    _type: Type

    def __init__(self, expr: Expr, t: Type) -> None:
        object.__setattr__(self, "_expr", expr)
        object.__setattr__(self, "_type", t)

    def __getattr__(self, name: str) -> Any:
        cls = self.__class__
        if hasattr(cls, name):
            raise Untraceable(f"uses {cls.__name__}.{name}")
        raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{self._type} object has no attribute {name!r}")


# ---------------------------------------------------------------- lists


class ItemLeaf:
    """A leaf of an element of a list: a function of the list's text and the place.

    >>> ItemLeaf(ListType(INT), 0)("7,8,9", -1)
    9
    """

    def __init__(self, t: ListType, leaf: int) -> None:
        self.type, self.leaf = t, leaf

    def __call__(self, text: str, at: int) -> Any:
        rows, width = self.type.rows(text), len(self.type.kinds)
        size = len(rows) // width
        if not -size <= at < size:
            raise IndexError(f"{self.type.cls.__name__} index out of range")
        return rows[at % size * width + self.leaf]


def _closed(what: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **options: Any) -> NoReturn:
        raise Untraceable(what)

    return refuse


class SymList(Rich):
    """A list that is not known yet: the text that says it, and its type."""

    __slots__ = ()
    _type: ListType

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self._type.cls

    def __bool__(self) -> bool:
        return decide(n.not_(n.eq(self._expr, n.const(""))))

    def _size(self) -> Any:
        """``len(items)``, in the trace for running."""
        self._open("asks for the length of a list")
        return Sym(answer_of("len", self._type.size, [Sym(self._expr)], INT, fails=False, key=self._type))

    def __getitem__(self, at: Any) -> Any:
        from pellucid.internal.expr.tracing.trace import current_path, value_of

        self._open("takes an element of a list")
        place = lift_scalar(at)
        if place is None or place.type not in (INT, BOOL):
            raise Untraceable("takes a part of a list")
        given = [Sym(self._expr), at if place.op != "const" else int(place.value)]
        leaves = [
            answer_of(f"item_{j}", ItemLeaf(self._type, j), given, kind, key=self._type)
            for j, kind in enumerate(self._type.kinds)
        ]
        current_path().note_check(leaves[0])  # also where the element is not used
        return value_of(self._type.item, leaves)

    def _open(self, what: str) -> None:
        from pellucid.internal.expr.tracing.trace import current_path

        if not current_path().run:
            raise Untraceable(f"{what}, which only engines can look into")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _closed("compares a list")
    __hash__ = _closed("uses a list as a dictionary key or in a set")
    __iter__ = _closed("loops over a list, whose length is not known")
    __reversed__ = __iter__
    __len__ = _closed("asks for the length of a list, which only engines can look into")
    __contains__ = _closed("searches in a list")
    __add__ = __radd__ = __mul__ = __rmul__ = _closed("makes a list of another one")
    __iadd__ = __imul__ = __setitem__ = __delitem__ = _closed("changes a list that is part of an event")


def list_leaf(value: Any, t: ListType) -> Expr:
    """The text of a list that a function hands on, or makes of constants."""
    if isinstance(value, Rich) and type(value) is SymList:
        if value._type.item == t.item:
            return value._expr
    elif type(value) in (list, tuple):
        try:
            return n.const(t.flatten(conform(t, value))[0])
        except Untraceable:
            raise Untraceable("makes a list of an event's values") from None
        except ValueError:
            pass
    raise Untraceable(f"returns {_type_name(value)} where {t} is wanted")


def _type_name(value: Any) -> str:
    return str(value._type) if isinstance(value, Rich) else type(value).__name__


def result_type(value: Any) -> Type | None:
    """The type of an empty list that a function returns, which is one of anything; None of others."""
    return ListType(NOTHING, type(value)) if type(value) in (list, tuple) and not value else None


# Decimals that are not known yet, while a function is traced: whole numbers and a number of places.
#
# Sums, differences and products are exact, as Python's are within 28 digits; one that leaves 64 bits is an error.
# Division rounds in a way that depends on the context, so it is refused by name, and the function is called as it
# is.


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
