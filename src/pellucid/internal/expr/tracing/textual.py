"""The trace of a check: like `trace.py`, but it also looks inside text, and into constant dictionaries and
sets.

``==``, ``<``, ``in``, ``startswith``, ``endswith``, ``find``, ``len``, ``+`` and slices (``s[:3]``) keep their meaning;
other methods of strings and ``int(s)``, ``float(s)``, ``str(v)`` become calls of pure functions (`expr.text`).
 A dictionary or a set that the function did not make is asked for its keys one by one.

>>> from pellucid.internal.expr.types import STR
>>> text_trace(lambda s: "€" + s[3:] if s[:3].upper() == "EUR" else s, (STR,)).outputs[0].args[0]
upper(part(v0, 0, 3)) == 'EUR'
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from pellucid.internal.expr import node as n
from pellucid.internal.expr import rewrite as text
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.rewrite import Pure
from pellucid.internal.expr.tracing import running
from pellucid.internal.expr.tracing.symbolic import Sym, Untraceable, _boolean, lift_scalar
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, Type

_KEYS = 200  # the most that a dictionary asked key by key may have

#: Methods that never fail on strings: the type of the result, and how many strings they take (at least, at most).
_METHODS: dict[str, tuple[Type, int, int]] = {
    **dict.fromkeys(("upper", "lower", "title", "capitalize", "casefold", "swapcase"), (STR, 0, 0)),
    **dict.fromkeys(("strip", "lstrip", "rstrip"), (STR, 0, 1)),
    **dict.fromkeys(
        ("isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isprintable",
         "isspace", "istitle", "isupper"), (BOOL, 0, 0)),
    **dict.fromkeys(("rfind", "count", "rindex"), (INT, 1, 1)),
    "replace": (STR, 2, 2),
}  # fmt: skip
_MAY_FAIL = ("rindex",)
_known: dict[Any, Pure] = {}


def _pure(name: str, f: Callable[..., Any], result: Type, may_fail: bool, args: Sequence[Expr]) -> Any:
    """The answer of one of Python's own functions: one `Pure` for each name and types of arguments."""
    key = (name, result, *(a.type for a in args))
    found = _known.setdefault(key, Pure(name, f, result, may_fail))
    return Sym.checked(text.call(found, args)) if result != BOOL else _boolean(text.call(found, args))


def _runs() -> bool:
    """Whether the trace is for running."""
    from pellucid.internal.expr.tracing.trace import current_path

    return current_path().run


def _texts(values: Iterable[Any], what: str) -> list[Expr]:
    out = [lift_scalar(v) for v in values]
    if any(e is None or e.type != STR for e in out):
        raise Untraceable(f"calls str.{what} with something other than strings")
    return [e for e in out if e is not None]


def arithmetic(op: str, x: Expr, y: Expr) -> Any:
    """``x + y`` where one of them is a string."""
    if op == "add" and x.type == y.type == STR:
        return Sym(text.concat(x, y))
    if _runs() and op == "mul" and {x.type, y.type} <= {STR, INT, BOOL} and x.type != y.type:
        return running.ask("times", operator.mul, [Sym(x), Sym(y)], STR)
    if _runs() and op == "mod" and x.type == STR:
        return percent(Sym(x), Sym(y))
    raise Untraceable(f"uses arithmetic ({op}) on {x.type} and {y.type}")


def percent(s: Sym, values: Any) -> Any:
    """``s % values``."""
    if not _runs():
        raise Untraceable("uses '%' on a string")
    return running.ask("percent", operator.mod, [s, values], STR)


def rounded(value: Sym, digits: Any, places: int | None) -> Any:
    """``round(value, digits)``; ``places`` are the digits, if they are a constant."""
    if not _runs():
        raise Untraceable("calls round() with a number of digits, which only engines compute")
    if value._expr.type == FLOAT and places is not None and 0 <= places <= n.MOST_DIGITS:
        return Sym(n.round_to_digits(value._expr, places))
    return running.ask("round", round, [value, digits], value._expr.type)


def contains(s: Expr, what: Any) -> Any:
    """``what in s``."""
    (t,) = _texts([what], "__contains__")
    return Sym(text.holds(s, t))


def length_of(value: Any) -> Any:
    """``len(value)``."""
    if type(value) is Sym and value._expr.type == STR:
        return Sym(text.length(value._expr))
    if hasattr(type(value), "_size"):  # a list
        return value._size()
    return value.size() if type(value) is running.Pieces else len(value)


def item(s: Expr, key: Any) -> Any:
    """``s[key]``: an index, or a slice without a step."""
    if _runs():
        return running.item(s, key)
    size = text.length(s)
    if isinstance(key, slice):
        if key.step is not None and (type(key.step) is Sym or key.step != 1):
            raise Untraceable("takes every n-th character of a string")
        start = _place(key.start, size) if key.start is not None else n.const(0)
        return Sym(text.part(s, start, _place(key.stop, size) if key.stop is not None else size))
    at = _whole(key)
    at = n.ite(n.lt(at, n.const(0)), n.add(at, size), at)
    if Sym(n.or_(n.lt(at, n.const(0)), n.le(size, at))):  # the trace forks
        raise IndexError("string index out of range")
    return Sym(text.part(s, at, n.add(at, n.const(1))))


def _whole(value: Any) -> Expr:
    e = lift_scalar(value)
    if e is None or e.type not in (INT, BOOL):
        raise Untraceable("takes a part of a string at something other than an int")
    return n.int_of_bool(e) if e.type == BOOL else e


def _place(value: Any, size: Expr) -> Expr:
    """An end of a slice, counted from the beginning, and never below it."""
    at = _whole(value)
    from_end = n.add(at, size)
    return n.ite(n.lt(at, n.const(0)), n.ite(n.lt(from_end, n.const(0)), n.const(0), from_end), at)


def method(s: Expr, name: str) -> Callable[..., Any]:
    """A method of a string that is not known yet."""
    if _runs():
        return running.method(Sym(s), name)
    if name in ("startswith", "endswith"):
        return lambda *args: _edge(s, name, *args)
    if name in ("removeprefix", "removesuffix"):
        return lambda what: _removed(s, name, what)
    if name in ("find", "index"):
        return lambda *args: _found(s, name, *args)
    if name not in _METHODS:
        raise Untraceable(f"uses the method str.{name}")
    result, least, most = _METHODS[name]

    def called(*args: Any) -> Any:
        if not least <= len(args) <= most:
            raise Untraceable(f"calls str.{name} with {len(args)} arguments")
        return _pure(name, getattr(str, name), result, name in _MAY_FAIL, [s, *_texts(args, name)])

    return called


def _edge(s: Expr, name: str, *args: Any) -> Any:
    if len(args) != 1:
        raise Untraceable(f"calls str.{name} with a start position")
    made = text.starts if name == "startswith" else text.ends
    out: Expr = n.FALSE
    for t in _texts(args[0] if isinstance(args[0], tuple) else args, name):
        out = n.or_(out, made(s, t))
    return _boolean(out)


def _found(s: Expr, name: str, *args: Any) -> Any:
    if len(args) != 1:
        raise Untraceable(f"calls str.{name} with a start position")
    at = Sym(text.find(s, *_texts(args, name)))
    if name == "index" and at < 0:  # the trace forks
        raise ValueError("substring not found")
    return at


def _removed(s: Expr, name: str, what: Any) -> Any:
    (t,) = _texts([what], name)
    size, less = text.length(s), text.length(t)
    if name == "removeprefix":
        return Sym(n.ite(text.starts(s, t), text.part(s, less, size), s))
    return Sym(n.ite(text.ends(s, t), text.part(s, n.const(0), n.sub(size, less)), s))


def converted(value: Sym, to: type) -> Any:
    """``int(s)`` or ``float(s)`` of a string, ``str(v)`` of anything."""
    e = value._expr
    if _runs():
        if e.type == STR and to is str:
            return value
        return running.ask(to.__name__, to, [value], {str: STR, int: INT, float: FLOAT}[to], fails=to is not str)
    if to is str:
        return value if e.type == STR else _pure("str", str, STR, False, [e])
    return _pure(to.__name__, to, INT if to is int else FLOAT, True, [e])


# ---------------------------------------------------------------- constant dictionaries and sets


_MISSING = object()


def _same_key(key: Sym, keys: Iterable[Any]) -> Any:
    """The key that it equals on the path that is being traced."""
    for k in keys:
        if type(k) not in (str, int, bool, float, type(None)) or k != k:
            raise Untraceable(
                f"looks an event's value up among keys that are not plain values, such as {type(k).__name__}"
            )
        if k is not None and isinstance(k, str) == (key._expr.type == STR) and key == k:
            return k
    return _MISSING


def _few(many: Any) -> None:
    if len(many) > _KEYS:
        raise Untraceable(f"looks an event's value up among more than {_KEYS} keys")


class TextDict(dict[Any, Any]):
    """A copy of a dictionary that the function did not make: it may be read with a key that is not known yet, but not
    changed."""

    def __getitem__(self, key: Any) -> Any:
        if type(key) is not Sym:
            return stand_in(super().__getitem__(key))
        _few(self)
        found = _same_key(key, self)
        if found is _MISSING:
            raise KeyError(key)
        return stand_in(super().__getitem__(found))

    def __contains__(self, key: Any) -> bool:
        if type(key) is not Sym:
            return super().__contains__(key)
        _few(self)
        return _same_key(key, self) is not _MISSING

    def get(self, key: Any, default: Any = None) -> Any:
        """As of a dictionary."""
        if key in self:
            return self[key]
        return default

    def _changed(self, *args: Any, **named: Any) -> NoReturn:
        raise Untraceable("changes a dictionary that it did not make", effect=True)

    __setitem__ = __delitem__ = __ior__ = update = pop = popitem = clear = setdefault = _changed


class TextSet(frozenset[Any]):
    """A copy of a set that the function did not make."""

    def __contains__(self, key: Any) -> bool:
        if type(key) is not Sym:
            return super().__contains__(key)
        _few(self)
        return _same_key(key, sorted(self, key=repr)) is not _MISSING  # in an order that no hash decides


def stand_in(value: Any) -> Any:
    """A dictionary or a set as one that can be looked up by a key not known yet; anything else as it is.

    >>> type(stand_in({"a": 1})).__name__, type(stand_in(3)).__name__
    ('TextDict', 'int')
    """
    if type(value) is dict:
        return TextDict(value)
    return TextSet(value) if type(value) in (frozenset, set) else value


def text_trace(f: Callable[..., Any], params: Sequence[Type], *, task: bool = False, truth: bool = False) -> Any:
    """Trace a function as a check sees it; raises `Untraceable` where even that is not possible."""
    from pellucid.internal.expr.tracing.trace import trace

    return trace(f, params, task=task, truth=truth, text=True)
