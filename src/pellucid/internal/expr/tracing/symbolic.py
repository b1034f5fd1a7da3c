"""Symbolic values: what a user's function sees while it is traced.

A ``Sym`` stands for a scalar that is not known yet.  Arithmetic on it makes expressions; asking for
its truth value asks the running trace to choose a side (`expr.tracing.trace` then comes back
for the other one).  What would need the value itself raises ``Untraceable`` with the reason.

A ``Sym`` passes ``isinstance`` checks as the type it stands for.  Enums are never symbolic: the trace
tries their members one by one, so ``is``, ``match`` and dictionary look-ups work on them.
"""

from __future__ import annotations

import datetime
import dis
import enum
import math
import operator
import sys
import types
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from pellucid.errors import Control
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.rewrite import promote
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, Type, fits_int


class Untraceable(Control):
    """The function cannot be turned into data.  Not an ``Exception``: users' ``except`` lets it pass.

    ``effect`` says that the function may read or change the outside world, ``large`` that it has too many paths,
    however it is traced, ``cause`` what it raised itself.
    """

    def __init__(
        self, reason: str, *, effect: bool = False, large: bool = False, cause: BaseException | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.effect = effect
        self.large = large
        self.cause = cause
        from pellucid.internal.expr.tracing.trace import note_refusal

        note_refusal(self)  # a bare `except:` may swallow this one, but not its record


_CLASSES: dict[Type, type] = {BOOL: bool, INT: int, FLOAT: float, STR: str}


def lift_scalar(value: Any) -> Expr | None:
    """The expression of a symbolic or plain scalar; None if it is neither."""
    if type(value) is Sym:
        return value._expr
    if isinstance(value, (bool, int, float, str)):
        if isinstance(value, enum.Enum):  # an IntEnum or a StrEnum used as the number or the text it is
            value = _plain(value)
        try:
            return n.const(value)
        except OverflowError:
            raise Untraceable(f"uses the number {value}, which does not fit in 64 bits") from None
    return None


def _plain(value: Any) -> Any:
    for cls in (int, float):
        if isinstance(value, cls):
            return cls(value)
    return str.__str__(value)


def _arith(op: str, a: Sym, b: Any, swapped: bool) -> Any:
    other = lift_scalar(b)
    if other is None:
        if op == "mod" and a._expr.type == STR and type(b) is tuple and not swapped and _looks_inside():
            from pellucid.internal.expr.tracing.textual import percent

            return percent(a, b)
        rich = _rich_constant(b)
        if rich is None or op not in _PYTHON:
            return NotImplemented
        return _PYTHON[op](*((rich, a) if swapped else (a, rich)))
    x, y = a._expr, other
    if STR in (x.type, y.type) or not {x.type, y.type} <= {BOOL, INT, FLOAT}:
        if _looks_inside():
            from pellucid.internal.expr.tracing.textual import arithmetic

            return arithmetic(op, *((y, x) if swapped else (x, y)))
        raise Untraceable(f"uses '{_SIGNS[op]}' on {x.type} and {y.type}, which is not arithmetic")
    if swapped:
        x, y = y, x
    if op in _BITS:
        if x.type == y.type == BOOL and op in ("band", "bor", "bxor"):
            both = n.and_(x, y) if op == "band" else n.or_(x, y) if op == "bor" else n.not_(n.eq(x, y))
            return _boolean(both)
        if FLOAT in (x.type, y.type):
            raise TypeError(f"unsupported operand type(s) for {_SIGNS[op]}: {x.type} and {y.type}")
        common: Type = INT
    else:
        common = FLOAT if FLOAT in (x.type, y.type) else INT
    left, right = promote(x, common), promote(y, common)
    assert left is not None and right is not None
    return Sym.checked(n.binary(op, left, right))


def _operator(op: str) -> tuple[Callable[[Sym, Any], Any], Callable[[Sym, Any], Any]]:
    """An operator, and the same with the value on its right."""
    return lambda self, o: _arith(op, self, o, False), lambda self, o: _arith(op, self, o, True)


def _rich_constant(value: Any) -> Any:
    """A plain timedelta or decimal, which does not know symbolic values, as a symbolic one; None for anything else."""
    if isinstance(value, Decimal):
        from pellucid.internal.expr.tracing.rich import lift_decimal

        return lift_decimal(value) if type(value) is Decimal else None
    if type(value) is datetime.timedelta:
        from pellucid.internal.expr.tracing.times import lift_time

        return lift_time(value)
    return None


_PYTHON: dict[str, Any] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "truediv": operator.truediv,
}
_BITS = ("band", "bor", "bxor", "shl", "shr")
_SIGNS = {
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
}


def _boolean(e: Expr) -> Any:
    """A truth value; a real one where the function asks for identity, since ``x is True`` must work."""
    from pellucid.internal.expr.tracing.trace import current_path

    path = current_path()
    return path.decide(e) if path.identity else Sym(e)


def _looks_inside() -> bool:
    """Whether it is the trace of a check, which looks inside text (`expr.tracing.textual`)."""
    from pellucid.internal.expr.tracing.trace import current_path

    return current_path().text


def _compare_beyond(op: str, x: Expr, big: int, swapped: bool) -> Any:
    """A float against an integer beyond 64 bits, exactly: no float lies between that and the nearest one."""
    try:
        near = float(big)
    except OverflowError:
        near = math.inf if big > 0 else -math.inf
    y = n.const(near)
    if near == big:
        return n.COMPARE[op](*((y, x) if swapped else (x, y)))
    if op == "eq":
        return n.FALSE
    if swapped:
        return (n.le if near > big else n.lt)(y, x)
    return (n.lt if near > big else n.le)(x, y)


def _compare(op: str, a: Sym, b: Any, swapped: bool = False) -> Any:
    x = a._expr
    if isinstance(b, complex):
        raise Untraceable("compares with a complex number")
    if type(b) is not Sym and isinstance(b, int) and not isinstance(b, bool) and not fits_int(b):
        # No 64-bit integer is that large: the answer is known.
        above = b > 0
        if x.type in (INT, BOOL):
            return {"eq": False, "lt": above ^ swapped, "le": above ^ swapped}[op]
        if x.type == FLOAT:
            return _boolean(_compare_beyond(op, x, b, swapped))
    y = lift_scalar(b)
    if y is None:
        rich = _rich_constant(b)
        if rich is None:
            return NotImplemented
        return rich._compare(op, a, swapped=not swapped) if isinstance(b, Decimal) else NotImplemented
    numbers = {BOOL, INT, FLOAT}
    if {x.type, y.type} <= numbers:
        if x.type != y.type:  # bool against a number; int against float stays exact
            if x.type == BOOL:
                x = n.int_of_bool(x)
            if y.type == BOOL:
                y = n.int_of_bool(y)
    elif x.type != y.type:
        if op == "eq":
            return False
        raise TypeError(f"cannot order {x.type} and {y.type}")
    elif x.type == STR and op != "eq" and not _looks_inside():
        raise Untraceable("orders strings; a trace can only compare them for equality")
    if x.type == y.type == BOOL and op != "eq":
        x, y = n.int_of_bool(x), n.int_of_bool(y)
    if swapped:
        x, y = y, x
    return _boolean(n.COMPARE[op](x, y))


_OF_A_MESSAGE = (
    "FORMAT", "CONVERT", "BUILD", "LOAD", "PRECALL", "CALL", "KW_NAMES", "CACHE", "PUSH_NULL", "COPY", "SWAP",
    "BINARY_OP", "RESUME",
)  # fmt: skip


def _in_raise(frame: types.FrameType) -> bool:
    """Whether the code goes straight on to a ``raise``: then the text is that of an error, and no value."""
    for op in dis.get_instructions(frame.f_code):
        if op.offset > frame.f_lasti:
            if op.opname == "RAISE_VARARGS":
                return True
            if op.is_jump_target or not op.opname.startswith(_OF_A_MESSAGE):
                return False
    return False


def _never(what: str) -> Callable[..., NoReturn]:
    """A method that needs the value itself."""

    def refuse(*args: Any, **options: Any) -> NoReturn:
        raise Untraceable(what)

    return refuse


class Unknown:
    """A value that is not known yet: it cannot be printed, looked up or copied."""

    __slots__ = ()

    def __hash__(self) -> NoReturn:
        raise Untraceable("uses an event's value as a dictionary key or in a set (a tuple `in (1, 2)` works)")

    __reduce__ = _never("copies or pickles an event's value")

    def __str__(self) -> str:
        if _in_raise(sys._getframe(1)):
            return "…"
        raise Untraceable("turns an event's value into text")

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        if _in_raise(sys._getframe(1)):
            return "…"
        raise Untraceable("turns an event's value into text")


class Compared(Unknown):
    """One that is compared with others as `_compare` says."""

    __slots__ = ()

    def _compare(self, op: str, other: Any, swapped: bool = False) -> Any:
        """Whether ``self op other`` for ``eq``, ``lt``, ``le``, or ``other op self``; or NotImplemented."""
        raise NotImplementedError

    def __eq__(self, other: object) -> Any:
        return self._compare("eq", other)

    def __ne__(self, other: object) -> Any:
        same = self._compare("eq", other)
        if type(same) is Sym:
            return Sym(n.not_(same._expr))
        return same if same is NotImplemented else not same

    def __lt__(self, other: Any) -> Any:
        return self._compare("lt", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("le", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare("lt", other, swapped=True)

    def __ge__(self, other: Any) -> Any:
        return self._compare("le", other, swapped=True)

    __hash__ = Unknown.__hash__  # a class with an __eq__ of its own loses it


class Sym(Compared):
    """A scalar that is not known yet."""

    __slots__ = ("_expr",)
    _expr: Expr

    def __init__(self, expr: Expr) -> None:
        object.__setattr__(self, "_expr", expr)

    @staticmethod
    def checked(expr: Expr) -> Sym:
        """A value whose computation may fail: the trace must remember the failure."""
        if n.fails_here(expr):
            from pellucid.internal.expr.tracing.trace import current_path

            current_path().note_check(expr)
        return Sym(expr)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # isinstance(x, int) holds for a symbolic int
        return _CLASSES[self._expr.type]

    # -- truth: the trace forks
    def __bool__(self) -> bool:
        from pellucid.internal.expr.tracing.trace import current_path

        e = self._expr
        if e.type == INT:
            e = n.not_(n.eq(e, n.const(0)))
        elif e.type == FLOAT:
            e = n.not_(n.eq(e, n.const(0.0)))
        elif e.type == STR:
            e = n.not_(n.eq(e, n.const("")))
        return current_path().decide(e)

    # -- comparison
    def _compare(self, op: str, other: Any, swapped: bool = False) -> Any:
        return _compare(op, self, other, swapped)

    # -- arithmetic
    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("sub")
    __mul__, __rmul__ = _operator("mul")
    __floordiv__, __rfloordiv__ = _operator("floordiv")
    __mod__, __rmod__ = _operator("mod")
    __truediv__, __rtruediv__ = _operator("truediv")
    __and__, __rand__ = _operator("band")
    __or__, __ror__ = _operator("bor")
    __xor__, __rxor__ = _operator("bxor")
    __lshift__, __rlshift__ = _operator("shl")
    __rshift__, __rrshift__ = _operator("shr")

    def __divmod__(self, o: Any) -> Any:
        return self // o, self % o

    def __rdivmod__(self, o: Any) -> Any:
        return o // self, o % self

    def __pow__(self, o: Any) -> Any:
        if type(o) is Sym or not isinstance(o, int) or isinstance(o, bool) or not 0 <= o <= 64:
            raise Untraceable("uses '**' with an exponent that is not a small whole constant")
        if self._expr.type == FLOAT:
            raise Untraceable("uses '**' on a float, whose last digit differs between engines; write x * x")
        result: Any = 1
        base: Any = +self
        while o:
            if o & 1:
                result = result * base
            o >>= 1
            if o:
                base = base * base
        return result

    def __rpow__(self, o: Any) -> NoReturn:
        raise Untraceable("uses '**' with an exponent that is not a constant")

    def _number(self, what: str) -> Expr:
        e = promote(self._expr, INT) or self._expr
        if e.type not in (INT, FLOAT):
            raise TypeError(f"bad operand type for {what}: {e.type}")
        return e

    def __neg__(self) -> Sym:
        return Sym.checked(n.neg(self._number("unary -")))

    def __pos__(self) -> Sym:
        return Sym(self._number("unary +"))

    def __abs__(self) -> Sym:
        return Sym.checked(n.abs_(self._number("abs()")))

    def __invert__(self) -> Sym:
        e = self._number("unary ~")
        if e.type != INT:
            raise TypeError("bad operand type for unary ~: float")
        return Sym(n.unary("invert", e))

    def _rounded(self, op: str) -> Sym:
        e = self._number(op)
        return Sym(e) if e.type == INT else Sym.checked(n.round_to_int(op, e))

    def __trunc__(self) -> Sym:
        return self._rounded("trunc")

    def __floor__(self) -> Sym:
        return self._rounded("floor")

    def __ceil__(self) -> Sym:
        return self._rounded("ceil")

    def __round__(self, digits: Any = None) -> Any:
        e = self._number("round")
        places = None if type(digits) is Sym or not isinstance(digits, int) else int(digits)
        if e.type == INT and (digits is None or (places is not None and places >= 0)):
            return Sym(e)
        if digits is None:
            return Sym.checked(n.round_to_int("nearest", e))
        if _looks_inside():
            from pellucid.internal.expr.tracing.textual import rounded

            return rounded(Sym(e), digits, places)
        raise Untraceable("calls round() with a number of digits, which only engines compute")

    # -- what needs the value itself
    __index__ = _never("uses an event's value as an index or as the bound of a loop")
    __int__ = _never("hands an event's value to code that is not plain Python (it asked for an int)")
    __float__ = _never("hands an event's value to code that is not plain Python (it asked for a float)")
    __complex__ = _never("makes a complex number")
    __iter__ = _never("loops over an event's value")
    __len__ = _never("asks for the length of an event's value")
    __array__ = _never("calls NumPy or another library that works on arrays")
    __array_ufunc__ = __array_function__ = __array__

    def __contains__(self, item: Any) -> Any:
        if self._expr.type == STR and _looks_inside():
            from pellucid.internal.expr.tracing.textual import contains

            return contains(self._expr, item)
        raise Untraceable("searches inside an event's value")

    def __getitem__(self, key: Any) -> Any:
        if self._expr.type == STR and _looks_inside():
            from pellucid.internal.expr.tracing.textual import item

            return item(self._expr, key)
        raise Untraceable("takes a part of an event's value")

    def __getattr__(self, name: str) -> Any:
        cls = _CLASSES[self._expr.type]
        if hasattr(cls, name):
            if cls is str and _looks_inside():
                from pellucid.internal.expr.tracing.textual import method

                return method(self._expr, name)
            raise Untraceable(f"uses the method {cls.__name__}.{name}")
        raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{self._expr.type} object has no attribute {name!r}")
