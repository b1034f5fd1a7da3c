"""Builtins that understand symbolic values, put in place of Python's while a function is traced.

``min(a, b)`` would ask for a truth value and split the trace; ``int(x)`` and ``math.sqrt(x)`` would need
the number itself.  So a function is traced as a copy whose globals, closure and helper functions
name these instead.  The user's own function object is never changed.
"""

from __future__ import annotations

import builtins
import dataclasses
import datetime as dt
import decimal
import functools
import math
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pellucid.internal.expr import node as n
from pellucid.internal.expr.convert import promote
from pellucid.internal.expr.displays import NAMES, with_calls
from pellucid.internal.expr.tracing.maybe import replaced
from pellucid.internal.expr.tracing.money import SymDecimal, made_decimal
from pellucid.internal.expr.tracing.running import MATH, ask, asked_math, unknown
from pellucid.internal.expr.tracing.symbolic import Sym, Untraceable, _boolean, _looks_inside, lift_scalar
from pellucid.internal.expr.tracing.tables import run_stand_in
from pellucid.internal.expr.tracing.textual import converted, length_of, stand_in
from pellucid.internal.expr.tracing.times import made_date, made_datetime, made_timedelta
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, Type


def _identity() -> bool:
    from pellucid.internal.expr.tracing.trace import current_path

    return current_path().identity


def _is_sym(value: Any) -> bool:
    return type(value) is Sym


def _extreme(name: str, pick_second: Callable[[n.Expr, n.Expr], n.Expr]) -> Callable[..., Any]:
    plain = getattr(builtins, name)

    def extreme(*args: Any, **kw: Any) -> Any:
        if len(args) != 1 or _is_sym(args[0]):
            items = list(args)
        else:
            items = list(args[0])  # a generator can be read only once, so hand on what it gave
            args = (items,)
        exprs = [] if kw or len(items) < 2 or _identity() else [lift_scalar(i) for i in items]
        if not any(map(_is_sym, items)) or not exprs or any(e is None for e in exprs):
            return plain(*args, **kw)
        kinds = {e.type for e in exprs if e is not None}
        if kinds == {INT} or kinds == {FLOAT}:
            best = exprs[0]
            assert best is not None
            for e in exprs[1:]:
                assert e is not None
                best = n.ite(pick_second(e, best), e, best)
            return Sym(best)
        return plain(*args, **kw)  # mixed types: let the trace fork

    return extreme


def _int(*args: Any, **kw: Any) -> Any:
    if len(args) == 1 and type(args[0]) is SymDecimal and not kw:
        return args[0].__trunc__()
    if len(args) == 1 and _is_sym(args[0]) and not kw:
        e = args[0]._expr
        if e.type in (INT, BOOL):
            return +args[0]
        if e.type == FLOAT:
            return args[0].__trunc__()
        if _looks_inside():
            return converted(args[0], int)
    return int(*args, **kw)


def _float(*args: Any) -> Any:
    if len(args) == 1 and type(args[0]) is SymDecimal:
        return args[0]._as_float()
    if len(args) == 1 and _is_sym(args[0]) and args[0]._expr.type != STR:
        if args[0]._expr.type == FLOAT:
            return args[0]  # Python hands back the same object
        return Sym(promote(args[0]._expr, FLOAT) or args[0]._expr)
    if len(args) == 1 and _is_sym(args[0]) and _looks_inside():
        return converted(args[0], float)
    return float(*args)


def _str(*args: Any, **kw: Any) -> Any:
    return converted(args[0], str) if len(args) == 1 and _is_sym(args[0]) and not kw else str(*args, **kw)


def truth_of(*args: Any) -> Any:
    """``bool(x)`` without a fork."""
    if len(args) == 1 and _is_sym(args[0]):
        e = args[0]._expr
        zero = {INT: 0, FLOAT: 0.0, STR: ""}
        return args[0] if e.type == BOOL else _boolean(n.not_(n.eq(e, n.const(zero[e.type]))))
    return bool(*args)


def _sum(*args: Any, **kw: Any) -> Any:
    items = list(args[0]) if args else []
    if sys.version_info >= (3, 12) and any(_is_sym(i) and i._expr.type == FLOAT for i in items):
        raise Untraceable("adds floats with sum(), which rounds in its own way; write a + b + c")
    return sum(*((items, *args[1:]) if args else ()), **kw)


class _Stand(type):
    """Lets a stand-in for ``int`` be called, and still work in ``isinstance`` and ``is``-free checks."""

    plain: Any
    make: Any

    def __call__(cls, *args: Any, **kw: Any) -> Any:
        return cls.make(*args, **kw)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.plain)

    def __subclasscheck__(cls, sub: type) -> bool:
        return issubclass(sub.plain if isinstance(sub, _Stand) else sub, cls.plain)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.plain, name)


def _stand(plain: type, make: Callable[..., Any]) -> Any:
    return _Stand(plain.__name__, (), {"plain": plain, "make": staticmethod(make)})


def _math(name: str) -> Callable[..., Any]:
    plain = getattr(math, name)

    @functools.wraps(plain)
    def call(x: Any) -> Any:
        if type(x) is SymDecimal and name != "sqrt" and name != "fabs":
            return getattr(x, f"__{name}__")()
        if not _is_sym(x):
            return plain(x)
        if name == "sqrt":
            e = promote(x._expr, FLOAT)
            return plain(x) if e is None else Sym.checked(n.sqrt(e))
        if name == "fabs":
            return abs(_float(x))
        return getattr(x, f"__{name}__")()

    return call


def _is(name: str, holds: Callable[[n.Expr], n.Expr]) -> Callable[..., Any]:
    """``math.isnan`` and the like."""
    plain = getattr(math, name)

    @functools.wraps(plain)
    def call(x: Any) -> Any:
        e = promote(x._expr, FLOAT) if _is_sym(x) else None
        return plain(x) if e is None else _boolean(holds(e))

    return call


_MATH = {name: _math(name) for name in ("sqrt", "floor", "ceil", "trunc", "fabs")}
_MATH["isnan"] = _is("isnan", lambda e: n.not_(n.eq(e, e)))
_MATH["isinf"] = _is("isinf", lambda e: n.eq(n.abs_(e), n.const(math.inf)))
_MATH["isfinite"] = _is("isfinite", lambda e: n.lt(n.abs_(e), n.const(math.inf)))


class _Module:
    """A module, with stand-ins for some of what it holds."""

    def __init__(self, plain: types.ModuleType, stands: dict[str, Any]) -> None:
        self._plain, self._stands = plain, stands

    def __getattr__(self, name: str) -> Any:
        return self._stands.get(name) or getattr(self._plain, name)


_BUILTINS: dict[str, Any] = {
    "min": _extreme("min", lambda e, best: n.lt(e, best)),
    "max": _extreme("max", lambda e, best: n.lt(best, e)),
    "int": _stand(int, _int),
    "float": _stand(float, _float),
    "bool": _stand(bool, truth_of),
    "sum": _sum,
}
_BY_OBJECT: dict[int, Any] = {id(getattr(builtins, k)): v for k, v in _BUILTINS.items()}
_TIMES = {
    "datetime": _stand(dt.datetime, made_datetime),
    "date": _stand(dt.date, made_date),
    "timedelta": _stand(dt.timedelta, made_timedelta),
}
_DECIMAL = {"Decimal": _stand(decimal.Decimal, made_decimal)}
for _module, _stands in (
    (math, _MATH),
    (dt, _TIMES),
    (decimal, _DECIMAL),
    (dataclasses, {"replace": replaced}),
):
    _BY_OBJECT[id(_module)] = _Module(_module, _stands)
    _BY_OBJECT |= {id(getattr(_module, k)): v for k, v in _stands.items()}


@dataclass(frozen=True)
class Stands:
    """What stands in for builtins, and for dictionaries and sets, where a trace looks inside text."""

    by_name: dict[str, Any]
    stand_in: Callable[[Any], Any]
    by_object: dict[int, Any]
    code: Callable[[types.CodeType], types.CodeType | None] | None = None  # code that calls what stands in for syntax
    more: dict[str, Any] = field(default_factory=dict)  # the names that it calls


def _asked(name: str, result: Type, fails: bool = True) -> Callable[..., Any]:
    """A builtin that Python itself is asked for."""
    plain = getattr(builtins, name)

    def called(*args: Any, **named: Any) -> Any:
        if not any(map(unknown, (*args, *named.values()))):
            return plain(*args, **named)
        return ask(name, plain, args, result, named=named, fails=fails)

    return called


def _int_of_text(*args: Any, **named: Any) -> Any:
    if len(args) == 2 and not named and unknown(args[0]):
        return ask("int", int, args, INT)
    return _int(*args, **named)


class _RunMath:
    """The module ``math`` in the trace for running."""

    def __getattr__(self, name: str) -> Any:
        return _RUN_MATH.get(name) or _MATH.get(name) or getattr(math, name)


_FOR_TEXT: dict[str, Any] = {"len": length_of, "str": _stand(str, _str)}
_FOR_CHECKS = Stands(_FOR_TEXT, stand_in, {id(getattr(builtins, k)): v for k, v in _FOR_TEXT.items()})
_RUN_MATH = {name: asked_math(name) for name in MATH if hasattr(math, name)}
_FOR_RUN: dict[str, Any] = {
    **_FOR_TEXT,
    "int": _stand(int, _int_of_text),
    **{name: _asked(name, STR, name == "chr") for name in ("chr", "repr", "ascii", "hex", "oct", "bin")},
    "ord": _asked("ord", INT),
    "format": _asked("format", STR),
}
_FOR_RUNNING = Stands(
    _FOR_RUN,
    run_stand_in,
    {id(getattr(builtins, k)): v for k, v in _FOR_RUN.items()}
    | {id(getattr(math, k)): v for k, v in _RUN_MATH.items()}
    | {id(math): _RunMath()},
    with_calls,
    NAMES,
)


def shadowed(f: Callable[..., Any], *, text: bool = False, run: bool = False) -> Callable[..., Any]:
    """A copy of ``f`` that sees the stand-ins (also through its helpers), or ``f`` if it needs none; with ``text``
    those that look inside text, with ``run`` those that engines run."""
    result = _shadow(f, {}, _FOR_RUNNING if run else _FOR_CHECKS if text else None)
    return result if callable(result) else f


def _shadow(value: Any, done: dict[int, Any], text: Stands | None) -> Any:
    known = (text.by_object.get(id(value)) if text else None) or _BY_OBJECT.get(id(value))
    if known is not None:
        return known
    if type(value) is decimal.Decimal:
        return made_decimal(value)
    if isinstance(value, types.MethodType) and isinstance(value.__func__, types.FunctionType):
        return types.MethodType(_shadow(value.__func__, done, text), value.__self__)
    if isinstance(value, functools.partial):
        return functools.partial(_shadow(value.func, done, text), *value.args, **value.keywords)
    if not isinstance(value, types.FunctionType):
        return text.stand_in(value) if text else value
    if id(value) in done:
        return done[id(value)]
    if (value.__module__ or "").startswith("pellucid."):
        return value
    names = _names(value.__code__)
    space = dict(value.__globals__) | (text.more if text else {})
    code, defaults = (
        (
            _with_sets((text.code(value.__code__) if text.code else None) or value.__code__, text),
            tuple(_shadow(d, done, text) for d in value.__defaults__ or ()),
        )
        if text
        else (value.__code__, value.__defaults__)
    )
    copy = types.FunctionType(
        code,
        space,
        value.__name__,
        defaults,
        None if not value.__closure__ else tuple(types.CellType() for _ in value.__closure__),
    )
    copy.__kwdefaults__ = value.__kwdefaults__
    copy.__qualname__, copy.__module__ = value.__qualname__, value.__module__
    done[id(value)] = copy
    for name in names:
        if name in space:
            space[name] = _shadow(space[name], done, text)
        elif text and name in text.by_name:
            space[name] = text.by_name[name]
        elif name in _BUILTINS:
            space[name] = _BUILTINS[name]
    for old, new in zip(value.__closure__ or (), copy.__closure__ or (), strict=True):
        try:
            content = old.cell_contents
        except ValueError:
            continue  # an empty cell stays empty
        new.cell_contents = _shadow(content, done, text)
    return copy


def _with_sets(code: types.CodeType, text: Stands) -> types.CodeType:
    """The same code, whose constant sets (``s in {"a", "b"}``) may be asked for what is not known yet."""
    constants = tuple(
        _with_sets(c, text) if isinstance(c, types.CodeType) else text.stand_in(c) if type(c) is frozenset else c
        for c in code.co_consts
    )
    return code.replace(co_consts=constants)


def _names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            names |= _names(inner)
    return names
