"""Builtins that understand symbolic values, put in place of Python's while a function is traced.

``min(a, b)`` would ask for a truth value and split the trace; ``int(x)`` and ``math.sqrt(x)`` would need
the number itself.  So a function is traced as a copy whose globals, closure and helper functions
name these instead.  The user's own function object is never changed.

Code whose f-strings, and what else Python does behind a trace's back, are calls that a trace can answer.

``f"{s}-{n}"`` must have real strings, and ``{"a": 1}[s]`` a key that has a hash: no value of a trace can stand for
them.  So for running, such code is compiled once more from its source, with a call in their place.  That is done only
if the source, compiled as it is, gives the very code that the function has; otherwise it stays as it is.

>>> def f(s: str) -> str: return f"{s}!"
>>> with_calls(f.__code__).co_names
('__pellucid_text__',)
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import datetime as dt
import decimal
import functools
import linecache
import math
import operator
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.rewrite import promote
from pellucid.internal.expr.tracing.rich import SymDecimal, made_decimal
from pellucid.internal.expr.tracing.running import MATH, Pieces, _mark, ask, asked_math, method, run_stand_in, unknown
from pellucid.internal.expr.tracing.symbolic import Sym, Untraceable, _boolean, _looks_inside, lift_scalar
from pellucid.internal.expr.tracing.textual import converted, length_of, stand_in
from pellucid.internal.expr.tracing.times import made_date, made_datetime, made_timedelta
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, EnumType, OptionalType, RecordType, Type

# Values that may be missing, and members of an enum, while a function is traced.
#
# ``is`` cannot be overloaded, so a function that asks ``e.delay is None`` must see a real ``None``.  It does:
# *looking*
# at an optional field makes the trace fork, into a path on which it is ``None`` and one on which it is a value; looking
# at an enum makes one path for each member.  A field that the function does not look at makes no fork, so a record may
# have many of them; that is why records with such fields are handed to the function as objects of a class of their own,
# whose optional fields and enums are found out when they are asked for.

_UNSEEN = object()


class Maybe:
    """An optional value, or an enum, that the function has not looked at yet.

    Code in C, such as ``"%s" % record``, takes it out of a tuple past ``__getitem__``: what it asks of it is a look.
    """

    __slots__ = ("_look", "leaves", "seen", "type")

    def __init__(self, t: OptionalType | EnumType, leaves: Sequence[Expr], look: Callable[[], Any]) -> None:
        self.type, self.leaves, self._look, self.seen = t, list(leaves), look, _UNSEEN

    def value(self) -> Any:
        """``None`` or a value, or a member: the trace forks, the first time."""
        if self.seen is _UNSEEN:
            self.seen = self._look()
        return self.seen

    def __eq__(self, other: object) -> Any:
        return self.value() == _seen(other)

    def __hash__(self) -> int:
        return hash(self.value())

    def __repr__(self) -> str:
        return repr(self.value())

    def __str__(self) -> str:
        return str(self.value())


def assemble(t: RecordType, values: Sequence[Any]) -> Any:
    """The record with these values of its fields, some of which may be a `Maybe`."""
    if any(type(v) is Maybe for v in values):
        return _lazy_class(t)._made(values)
    return t.made(values)


def record_type_of(record: Any) -> RecordType | None:
    """The type of a record that `assemble` made with a `Maybe` in it; None for anything else."""
    found = getattr(type(record), "_pellucid_record", None)
    return found if isinstance(found, RecordType) else None


def raw_fields(record: Any, t: RecordType) -> list[Any]:
    """The values of a record's fields; those that have not been read, as they are."""
    if record_type_of(record) is not None:
        return list(record._pellucid_raw())
    return [getattr(record, name) for name, _ in t.fields]


def replaced(record: Any, /, **changes: Any) -> Any:
    """``dataclasses.replace``, which does not look at the fields that stay."""
    t = record_type_of(record)
    if t is None or hasattr(t.cls, "__post_init__"):
        return dataclasses.replace(record, **changes)
    names = [name for name, _ in t.fields]
    for name in changes:
        if name not in names:
            raise TypeError(f"{t.cls.__name__}.__init__() got an unexpected keyword argument {name!r}")
    values = [changes.get(name, old) for name, old in zip(names, raw_fields(record, t), strict=True)]
    return assemble(t, values)


def _seen(value: Any) -> Any:
    return value.value() if type(value) is Maybe else value


@functools.cache
def _lazy_class(t: RecordType) -> Any:
    names = [name for name, _ in t.fields]
    space: dict[str, Any] = {"_pellucid_record": t, "__class__": property(lambda self: t.cls)}
    if issubclass(t.cls, tuple):
        return _lazy_tuple(t, names, space)

    def made(values: Sequence[Any]) -> Any:
        record: Any = object.__new__(lazy)
        object.__setattr__(record, "_pellucid_values", dict(zip(names, values, strict=True)))
        return record

    def field(name: str) -> property:
        return property(lambda self: _seen(self._pellucid_values[name]))

    space |= {name: field(name) for name in names}
    if t.cls.__dictoffset__:
        space["__dict__"] = property(lambda self: {name: getattr(self, name) for name in names})
    space["_pellucid_raw"] = lambda self: self._pellucid_values.values()
    space["_made"] = staticmethod(made)
    lazy = type(t.cls.__name__, (t.cls,), space)
    return lazy


def _lazy_tuple(t: RecordType, names: list[str], space: dict[str, Any]) -> Any:
    cls: Any = t.cls

    def made(values: Sequence[Any]) -> Any:
        return tuple.__new__(lazy, values)

    def field(i: int) -> property:
        return property(lambda self: _seen(tuple.__getitem__(self, i)))

    def item(self: Any, at: Any) -> Any:
        found = tuple.__getitem__(self, at)
        return tuple(map(_seen, found)) if isinstance(at, slice) else _seen(found)

    def replace(self: Any, /, **changes: Any) -> Any:
        unknown = [name for name in changes if name not in names]
        if unknown:
            raise ValueError(f"Got unexpected field names: {unknown!r}")
        return assemble(t, [changes.get(n, v) for n, v in zip(names, tuple.__iter__(self), strict=True)])

    def plain(self: Any) -> tuple[Any, ...]:
        return tuple(map(_seen, tuple.__iter__(self)))

    methods: dict[str, Callable[..., Any]] = {
        "__iter__": lambda self: iter(plain(self)),
        "__getitem__": item,
        "__eq__": lambda self, other: plain(self) == other,
        "__ne__": lambda self, other: plain(self) != other,
        "__lt__": lambda self, other: plain(self) < tuple(other),
        "__le__": lambda self, other: plain(self) <= tuple(other),
        "__gt__": lambda self, other: plain(self) > tuple(other),
        "__ge__": lambda self, other: plain(self) >= tuple(other),
        "__hash__": lambda self: hash(plain(self)),
        "__add__": lambda self, other: plain(self) + other,
        "__mul__": lambda self, times: plain(self) * times,
        "__rmul__": lambda self, times: plain(self) * times,
        "__contains__": lambda self, value: value in plain(self),
        "index": lambda self, *a: plain(self).index(*a),
        "count": lambda self, *a: plain(self).count(*a),
    }
    # Only what the class has from tuple itself: a method of its own, or a field called count, stays what it is.
    space |= {name: f for name, f in methods.items() if getattr(cls, name) is getattr(tuple, name)}
    if "__add__" in space and not hasattr(cls, "__radd__"):
        space["__radd__"] = lambda self, other: other + plain(self)
    space |= {name: field(i) for i, name in enumerate(names)}
    space |= {
        "__slots__": (),
        "_replace": replace,
        "_asdict": lambda self: dict(zip(names, plain(self), strict=True)),
        "_pellucid_raw": lambda self: tuple.__iter__(self),
        "_made": staticmethod(made),
    }
    lazy = type(cls.__name__, (cls,), space)
    return lazy


# ---------------------------------------------------------------- what stands in their place


def joined(*parts: Any) -> str:
    """An f-string: its texts, and its values with their conversions and formats.

    >>> joined("<", (1.5, "", ".2f"), (None, "r", ""), ">")
    '<1.50None>'
    """
    return "".join(part if isinstance(part, str) else _formatted(*part) for part in parts)


def _formatted(value: Any, conversion: str, spec: str) -> str:
    convert: dict[str, Callable[[Any], str]] = {"r": repr, "s": str, "a": ascii}
    return format(convert[conversion](value) if conversion else value, spec)


def _text(*parts: Any) -> Any:
    if not any(map(unknown, parts)):
        return joined(*parts)
    plain = all(isinstance(p, str) or (p[2] == "" and type(p[2]) is str) for p in parts if type(p) in (str, tuple))
    return ask("text", joined, parts, STR, fails=not plain)


def _percent(s: str, values: Any) -> Any:
    return ask("percent", operator.mod, [s, values], STR) if unknown(values) else s % values


def pieces_joined(s: str, name: str, *args: Any, **named: Any) -> str:
    """The pieces of a string, put together again."""
    return s.join(getattr(str, name)(*args, **named))


def _method(s: str, name: str) -> Callable[..., Any]:
    def called(*args: Any, **named: Any) -> Any:
        if name == "join" and len(args) == 1 and isinstance(args[0], Pieces):
            given = args[0]
            return ask("join", pieces_joined, [s, given.name, *given.given], STR, named=given.named)
        args = tuple(list(a) if isinstance(a, Iterator) else a for a in args)
        if any(map(unknown, (*args, *named.values()))):
            return method(s, name)(*args, **named)
        return getattr(s, name)(*args, **named)

    return called


_tables: dict[Any, Any] = {}


def _table(values: Any) -> Any:
    """A dictionary, set or list that the function makes each time: the same one on every path."""
    items = list(values.items()) if isinstance(values, dict) else list(values)
    items = sorted(items, key=repr) if isinstance(values, set) else items
    if any(map(unknown, (v for i in items for v in (i if isinstance(values, dict) else (i,))))):
        return values
    mark = type(values), tuple(_known_by(i) for i in items)
    return _tables.setdefault(mark, run_stand_in(values))


def _known_by(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(_known_by, value))
    return _mark(value) if isinstance(value, (bool, int, float, str, type(None))) else id(value)


#: The names by which the code calls them.
NAMES: dict[str, Any] = {
    "__pellucid_text__": _text,
    "__pellucid_percent__": _percent,
    "__pellucid_method__": _method,
    "__pellucid_table__": _table,
}


# ---------------------------------------------------------------- the code


class _Calls(ast.NodeTransformer):
    def made(self, name: str, args: list[ast.expr], at: ast.expr) -> ast.expr:
        call = ast.Call(ast.Name(name, ast.Load()), args, [])
        return ast.fix_missing_locations(ast.copy_location(call, at))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        parts: list[ast.expr] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                conversion = ast.Constant("" if part.conversion < 0 else chr(part.conversion))
                spec: ast.expr = ast.Constant("") if part.format_spec is None else self.visit(part.format_spec)
                parts.append(ast.Tuple([self.visit(part.value), conversion, spec], ast.Load()))
            else:
                parts.append(part)
        return self.made("__pellucid_text__", parts, node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            return self.made("__pellucid_percent__", [node.left, node.right], node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        f = node.func
        if isinstance(f, ast.Attribute):
            if f.attr in ("join", "format") and isinstance(f.value, ast.Constant) and isinstance(f.value.value, str):
                node.func = self.made("__pellucid_method__", [f.value, ast.Constant(f.attr)], f)
            elif f.attr == "get" and isinstance(f.value, ast.Dict):
                f.value = self.made("__pellucid_table__", [f.value], f.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.value, (ast.Dict, ast.List, ast.Tuple)) and isinstance(node.ctx, ast.Load):
            node.value = self.made("__pellucid_table__", [node.value], node.value)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        for i, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, (ast.Dict, ast.Set)):
                node.comparators[i] = self.made("__pellucid_table__", [right], right)
        return node


_HINTS = frozenset(
    [
        "FORMAT_VALUE",
        "FORMAT_SIMPLE",
        "FORMAT_WITH_SPEC",
        "BUILD_STRING",
        "BUILD_MAP",
        "BUILD_CONST_KEY_MAP",
        "BUILD_SET",
        "BINARY_SUBSCR",
    ]
)


@functools.lru_cache(maxsize=64)
def _compiled(filename: str, text: str) -> tuple[types.CodeType, types.CodeType] | None:
    """The code of a whole file, as it is and with the calls."""
    try:
        plain = compile(text, filename, "exec", dont_inherit=True)
        tree = ast.fix_missing_locations(_Calls().visit(ast.parse(text)))
        return plain, compile(tree, filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [c for c in code.co_consts if isinstance(c, types.CodeType)]


def _form(code: types.CodeType) -> Any:
    """What a piece of code is and where it stands; not which file it was part of, whose flags it has."""
    constants = [
        _form(c)
        if isinstance(c, types.CodeType)
        else (type(c), sorted(map(repr, c)) if type(c) is frozenset else repr(c))
        for c in code.co_consts
    ]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_name, code.co_firstlineno, code.co_code, names, constants, list(code.co_positions())


def _found(plain: types.CodeType, changed: types.CodeType, code: types.CodeType) -> types.CodeType | None:
    """The changed code that stands where the code stands in the plain one."""
    stack = [(plain, changed)]
    while stack:
        one, other = stack.pop()
        if (one.co_name, one.co_firstlineno) == (code.co_name, code.co_firstlineno) and _form(one) == _form(code):
            return other if (one.co_freevars, one.co_varnames) == (other.co_freevars, other.co_varnames) else None
        below, others = _inner(one), _inner(other)
        if [c.co_name for c in below] != [c.co_name for c in others]:
            return None
        stack += zip(below, others, strict=True)
    return None


def with_calls(code: types.CodeType) -> types.CodeType | None:
    """The code with calls of `NAMES`; None if it needs none, or its source is not at hand."""
    if not _needs(code):
        return None
    text = "".join(linecache.getlines(code.co_filename))
    both = _compiled(code.co_filename, text) if text else None
    return _found(*both, code) if both is not None else None


@functools.lru_cache(maxsize=4096)
def _needs(code: types.CodeType) -> bool:
    import dis

    for op in dis.get_instructions(code):
        if op.opname in _HINTS or (op.opname.startswith("LOAD_") and op.argval in ("join", "format")):
            return True
        if op.opname == "BINARY_OP" and op.argrepr.startswith(("%", "[")):
            return True
    return any(map(_needs, _inner(code)))


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
