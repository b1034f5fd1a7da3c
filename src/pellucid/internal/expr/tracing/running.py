"""The trace for running: what looks inside text becomes a call of Python's own function, with its constants in it.

It is made of a function that the plain trace (`trace.py`) cannot take.  Methods of strings, ``int(s)``, ``str(n)``,
look-ups in dictionaries and sets, the functions of ``math`` that other libraries compute otherwise: each is a `Direct`
call of the values that are not known yet.  `expr.lookup` makes of it what an engine runs.

>>> from pellucid.internal.expr.tracing.trace import trace
>>> from pellucid.internal.expr.types import STR
>>> trace(lambda s: s.strip().replace("a", "b"), (STR,), run=True).outputs[0]
replace(strip(v0))

Constant dictionaries and sets in the trace for running: looked up by Python itself, once for each key.

A dictionary that the function did not make is read as it is when the pipeline is built, like everything that is
captured.  Its values may be of several types; then the trace forks, once for each of them.

>>> table = run_stand_in({"AA": "American", "UA": "United"})
>>> table["AA"], table.get("DL", "?")
('American', '?')
"""

from __future__ import annotations

import enum
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from pellucid.internal.expr import node as n
from pellucid.internal.expr import rewrite as text
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.rewrite import Direct
from pellucid.internal.expr.tracing.symbolic import Sym, Untraceable, _boolean, lift_scalar
from pellucid.internal.expr.types import (
    BOOL,
    FLOAT,
    INT,
    STR,
    EnumType,
    RecordType,
    ScalarType,
    TupleType,
    Type,
    conform,
    simplest,
    type_of_value,
)

MOST_ARGUMENTS = 6  # of a function whose answers are kept


class Applied:
    """A function with some of its arguments fixed; the others are the leaves that it is called with, in order.

    >>> Applied(str.replace, [Leaf(0), "a", "b"])("banana")
    'bbnbnb'
    """

    def __init__(self, f: Callable[..., Any], given: Sequence[Any], named: dict[str, Any] | None = None) -> None:
        self.f, self.given, self.named = f, tuple(given), dict(named or {})
        space: dict[str, Any] = {"f": f}
        leaves: list[int] = []
        parts = [_written(g, space, leaves) for g in self.given]
        parts += [f"{name}={_written(g, space, leaves)}" for name, g in self.named.items()]
        heads = ", ".join(f"v{i}" for i in range(max(leaves, default=-1) + 1))
        self._call = eval(compile(f"lambda {heads}: f({', '.join(parts)})", __file__, "eval"), space)

    def __call__(self, *leaves: Any) -> Any:
        return self._call(*leaves)

    def __reduce__(self) -> tuple[Any, ...]:
        return Applied, (self.f, self.given, self.named)


class Leaf:
    """The place of a leaf among the arguments of an `Applied`."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __repr__(self) -> str:
        return f"leaf {self.at}"


def _written(given: Any, space: dict[str, Any], leaves: list[int]) -> str:
    if isinstance(given, Leaf):
        leaves.append(given.at)
        return f"v{given.at}"
    if type(given) in (tuple, list) and any(_has_leaf(g) for g in given):
        inner = "".join(f"{_written(g, space, leaves)}, " for g in given)
        return f"({inner})" if type(given) is tuple else f"[{inner}]"
    if type(given) is slice and any(_has_leaf(g) for g in (given.start, given.stop, given.step)):
        space["slice"] = slice
        return f"slice({', '.join(_written(g, space, leaves) for g in (given.start, given.stop, given.step))})"
    name = f"c{len(space)}"
    space[name] = given
    return name


def _has_leaf(given: Any) -> bool:
    if type(given) in (tuple, list):
        return any(map(_has_leaf, given))
    if type(given) is slice:
        return any(map(_has_leaf, (given.start, given.stop, given.step)))
    return isinstance(given, Leaf)


def unknown(value: Any) -> bool:
    """Whether it is, or has in it, a value that is not known yet."""
    if type(value) in (tuple, list):
        return any(map(unknown, value))
    if type(value) is slice:
        return any(map(unknown, (value.start, value.stop, value.step)))
    return type(value) is Sym


_known: dict[Any, Direct] = {}


def ask(name: str, f: Callable[..., Any], args: Iterable[Any], result: Type, **more: Any) -> Any:
    """The answer of a pure function, as a value of the trace (see `answer_of`)."""
    return real(answer_of(name, f, args, result, **more))


def answer_of(
    name: str,
    f: Callable[..., Any],
    args: Iterable[Any],
    result: Type,
    *,
    named: dict[str, Any] | None = None,
    fails: bool = True,
    key: Any = None,
    apart: bool = False,
) -> Expr:
    """The answer of a pure function, as an expression; ``key`` tells two functions of one name apart."""
    leaves: list[Expr] = []
    given = [_template(a, leaves, name) for a in args]
    also = {k: _template(v, leaves, name) for k, v in (named or {}).items()}
    if len(leaves) > MOST_ARGUMENTS:
        raise Untraceable(f"makes one text, or one look-up, of more than {MOST_ARGUMENTS} values")
    mark = (name, key, result, _mark(given), _mark(list(also.items())), tuple(e.type for e in leaves))
    if mark not in _known:
        applied = Applied(f, given, also)
        _refuse_mistake(applied, [e.type for e in leaves])
        _known[mark] = Direct(name, applied, result, fails, apart)
    return text.call(_known[mark], leaves)


def _refuse_mistake(f: Applied, kinds: list[Type]) -> None:
    """A call that is of the wrong type whatever the values are is a mistake, and not a function to run."""
    found: Exception | None = None
    for text_ in ("", "a", "%s"):
        try:
            f(*[text_ if t == STR else simplest(t) for t in kinds])
        except (TypeError, AttributeError) as error:
            found = error
        except Exception:
            return
        else:
            return
    if found is not None:
        raise Untraceable(f"fails on a symbolic value: {type(found).__name__}: {found}", cause=found)


def _template(value: Any, leaves: list[Expr], name: str) -> Any:
    if type(value) is Sym:
        if value._expr not in leaves:
            leaves.append(value._expr)
        return Leaf(leaves.index(value._expr))
    if type(value) in (tuple, list):
        return type(value)(_template(v, leaves, name) for v in value)
    if type(value) is slice:
        return slice(*(_template(v, leaves, name) for v in (value.start, value.stop, value.step)))
    if value is None or isinstance(value, (bool, int, float, str, enum.Enum)):
        return value
    raise Untraceable(f"hands a {type(value).__name__} to {name}()")


def _mark(given: Any) -> Any:
    """The same for the same constants only: 1 is not True, and 0.0 not -0.0."""
    if type(given) in (tuple, list):
        return type(given), tuple(map(_mark, given))
    if type(given) is slice:
        return slice, _mark((given.start, given.stop, given.step))
    return given if isinstance(given, enum.Enum) else (type(given), repr(given))


def real(e: Expr) -> Any:
    """A value of the trace for an expression: an enum is always one of its members, so the trace forks."""
    if isinstance(e.type, EnumType):
        from pellucid.internal.expr.tracing.trace import current_path

        if n.fails_here(e):
            current_path().note_check(e)
        for member in e.type.members[:-1]:
            if current_path().decide(n.eq(e, n.const(member))):
                return member
        return e.type.members[-1]
    checked = Sym.checked(e)
    return _boolean(e) if e.type == BOOL else checked


# ---------------------------------------------------------------- methods of strings


#: They never fail on strings.
_SAFE = frozenset(
    [
        "upper", "lower", "title", "capitalize", "casefold", "swapcase", "strip", "lstrip", "rstrip", "replace",
        "removeprefix", "removesuffix", "count", "find", "rfind", "startswith", "endswith", "isalnum", "isalpha",
        "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isprintable", "isspace",
        "istitle", "isupper",
    ]
)  # fmt: skip
_TEXTS = frozenset(
    [
        "upper", "lower", "title", "capitalize", "casefold", "swapcase", "strip", "lstrip", "rstrip", "replace",
        "removeprefix", "removesuffix", "center", "ljust", "rjust", "zfill", "expandtabs", "join", "format",
    ]
)  # fmt: skip
_NUMBERS = frozenset(["count", "find", "rfind", "index", "rindex"])
_LISTS = frozenset(["split", "rsplit", "splitlines"])
_TRIPLES = frozenset(["partition", "rpartition"])


def method(s: Any, name: str) -> Callable[..., Any]:
    """A method of a string that is not known yet, or that gets what is not."""
    if name not in _TEXTS | _NUMBERS | _LISTS | _TRIPLES and not (name.startswith("is") or name in _SAFE):
        raise Untraceable(f"uses the method str.{name}")

    def called(*args: Any, **named: Any) -> Any:
        given = [s, *(_spread(a) for a in args)]
        if name in _LISTS:
            return Pieces(name, given, named)
        if name in _TRIPLES:
            return tuple(ask(f"{name}_{i}", nth, [name, i, *given], STR, named=named) for i in range(3))
        result = STR if name in _TEXTS else INT if name in _NUMBERS else BOOL
        kinds = [lift_scalar(v) for a in given for v in (a if isinstance(a, tuple) else (a,))]
        safe = name in _SAFE and not named and all(e is not None and e.type == STR for e in kinds)
        return ask(name, getattr(str, name), given, result, named=named, fails=not safe)

    return called


def _spread(value: Any) -> Any:
    """What a method loops over: a generator as a list."""
    if isinstance(value, (str, int, float, tuple, list, type(None), Pieces)) or type(value) is Sym:
        return list(value) if isinstance(value, Pieces) else value
    return list(value) if isinstance(value, Iterator) else value


def nth(name: str, at: Any, s: str, *args: Any, **named: Any) -> Any:
    """One of the strings that a string is taken apart into."""
    return getattr(str, name)(s, *args, **named)[at]


def how_many(name: str, s: str, *args: Any, **named: Any) -> int:
    """How many there are."""
    return len(getattr(str, name)(s, *args, **named))


def is_among(name: str, what: str, s: str, *args: Any, **named: Any) -> bool:
    """Whether a string is among them."""
    return what in getattr(str, name)(s, *args, **named)


class Pieces:
    """The list that a string which is not known yet is split into."""

    def __init__(self, name: str, given: Sequence[Any], named: dict[str, Any]) -> None:
        self.name, self.given, self.named = name, list(given), named
        self.size()  # it may fail, whatever is done with it

    def size(self) -> Any:
        """``len(pieces)``."""
        whole = self.name == "splitlines" or len(self.given) == 1
        return ask(f"len_{self.name}", how_many, [self.name, *self.given], INT, named=self.named, fails=not whole)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            raise Untraceable("takes some of the pieces of a string")
        return ask(f"{self.name}_item", nth, [self.name, at, *self.given], STR, named=self.named)

    def __iter__(self) -> Iterator[Any]:
        at = 0
        while self.size() > at:  # the trace forks
            yield self[at]
            at += 1

    def __bool__(self) -> bool:
        return bool(self.size() > 0)

    def __contains__(self, what: Any) -> bool:
        return bool(ask(f"{self.name}_has", is_among, [self.name, what, *self.given], BOOL, named=self.named))

    def __eq__(self, other: object) -> Any:
        raise Untraceable("compares the pieces of a string")

    __hash__ = None  # type: ignore[assignment]


def item(s: Expr, key: Any) -> Any:
    """``s[key]``."""
    if not isinstance(key, slice):
        e = lift_scalar(key)
        if e is None or e.type not in (INT, BOOL):
            raise Untraceable("takes a part of a string at something else than an int")
        return ask("item", operator.getitem, [Sym(s), key], STR)
    step = key.step
    return ask("slice", operator.getitem, [Sym(s), key], STR, fails=type(step) is Sym or step == 0)


# ---------------------------------------------------------------- numbers


#: The functions of ``math`` that Python itself is asked for: what they return.
MATH: dict[str, Type] = {
    **dict.fromkeys(
        [
            "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "copysign", "cos", "cosh",
            "degrees", "dist", "erf", "erfc", "exp", "exp2", "expm1", "fma", "fmod", "gamma", "hypot", "ldexp",
            "lgamma", "log", "log10", "log1p", "log2", "nextafter", "pow", "radians", "remainder", "sin", "sinh",
            "tan", "tanh", "ulp",
        ],
        FLOAT,
    ),
    **dict.fromkeys(["comb", "factorial", "gcd", "isqrt", "lcm", "perm"], INT),
    "isclose": BOOL,
}  # fmt: skip


def asked_math(name: str) -> Callable[..., Any]:
    """A function of ``math`` that may get what is not known yet."""
    plain = getattr(math, name)

    def called(*args: Any, **named: Any) -> Any:
        if not any(map(unknown, (*args, *named.values()))):
            return plain(*args, **named)
        return ask(f"math.{name}", plain, args, MATH[name], named=named)

    return called


_numbers = itertools.count()
_OBJECTS = 200  # values of a dictionary that are no events


class Find:
    """Reads a dictionary; a function, so that it can be called and pickled."""

    def __init__(self, values: dict[Any, Any], default: Any = ()) -> None:
        self.values, self.default = values, default

    def __call__(self, key: Any) -> Any:
        if self.default != ():
            return self.values.get(key, self.default[0])
        return self.values[key]


class Has:
    """Whether a key is there."""

    def __init__(self, keys: frozenset[Any]) -> None:
        self.keys = keys

    def __call__(self, key: Any) -> bool:
        return key in self.keys


def _type(value: Any) -> Type | None:
    t = type_of_value(value)
    if t is None or not _plain(t) or t.problem(value) is not None:
        return None
    return t if type(value) in (bool, int, float, str) or not isinstance(value, (int, float, str)) else None


def _plain(t: Type) -> bool:
    """Whether it is made of bools, numbers, texts and enums: what is richer forks, one object after the other."""
    if isinstance(t, RecordType):
        return all(_plain(sub) for _, sub in t.fields)
    if isinstance(t, TupleType):
        return all(map(_plain, t.items))
    return isinstance(t, (ScalarType, EnumType))


class RunDict(dict[Any, Any]):
    """A copy of a dictionary that the function did not make: it may be read with a key that is not known yet."""

    def __init__(self, values: dict[Any, Any]) -> None:
        super().__init__(values)
        self._kinds: dict[Any, tuple[int, Type | None, Any]] | None = None
        self._inner: dict[int, Any] = {}
        self._number = next(_numbers)

    def _sorted(self) -> dict[Any, tuple[int, Type | None, Any]]:
        """The kinds of values: a number, the type (None: an object of its own), an example."""
        if self._kinds is None:
            found: dict[Any, tuple[int, Type | None, Any]] = {}
            for value in self.values():
                t = _type(value)
                found.setdefault(t if t is not None else id(value), (len(found), t, value))
            if len(found) > _OBJECTS:
                raise Untraceable(f"looks an event's value up among more than {_OBJECTS} things that are no events")
            self._kinds = found
        return self._kinds

    def _kind(self, value: Any) -> tuple[int, Type | None, Any]:
        t = _type(value)
        return self._sorted()[t if t is not None else id(value)]

    def _of(self, key: Any, t: Type, default: Any = ()) -> Any:
        """The value, which is of this type."""
        paths, leaves = list(t.leaves()), []
        for j, (path, kind) in enumerate(paths):
            mark = ("get" if default != () else "[]", self._number, j, repr(default))
            values = {k: t.flatten(conform(t, v))[j] for k, v in self.items() if _type(v) == t}
            usual = (t.flatten(conform(t, default[0]))[j],) if default != () else ()
            leaves.append(
                ask(
                    "get" if default != () else f"look_up{path}",
                    Find(values, usual),
                    [key],
                    kind,
                    fails=not usual,
                    key=mark,
                )
            )
        return _assembled(t, leaves)[0]

    def __getitem__(self, key: Any) -> Any:
        if not unknown(key):
            return self._stand_in(super().__getitem__(key))
        kinds = list(self._sorted().values())
        if not kinds:
            raise KeyError(key)
        if len(kinds) > 1:
            which = ask("kind", Find({k: self._kind(v)[0] for k, v in self.items()}), [key], INT, key=self._number)
            kinds = [kind for kind in kinds[:-1] if which == kind[0]][:1] or kinds[-1:]  # the trace forks
        elif kinds[0][1] is None:
            ask("kind", Find(dict.fromkeys(self, 0)), [key], INT, key=self._number)  # it fails without the key
        _, t, value = kinds[0]
        return self._of(key, t) if t is not None else self._stand_in(value)

    def _stand_in(self, value: Any) -> Any:
        if type(value) not in (dict, set, frozenset, list):
            return value
        if id(value) not in self._inner:
            self._inner[id(value)] = run_stand_in(value)
        return self._inner[id(value)]

    def __contains__(self, key: Any) -> bool:
        if not unknown(key):
            return super().__contains__(key)
        return bool(ask("has", Has(frozenset(self)), [key], BOOL, fails=False, key=self._number))

    def get(self, key: Any, default: Any = None) -> Any:
        """As of a dictionary."""
        kinds = list(self._sorted().values()) if unknown(key) else []
        if len(kinds) == 1 and kinds[0][1] is not None and not _symbolic(default) and _type(default) == kinds[0][1]:
            return self._of(key, kinds[0][1], (default,))
        if key in self:  # the trace forks
            return self[key]
        return default

    def _changed(self, *args: Any, **named: Any) -> NoReturn:
        raise Untraceable("changes a dictionary that it did not make", effect=True)

    __setitem__ = __delitem__ = __ior__ = update = pop = popitem = clear = setdefault = _changed


def _symbolic(value: Any) -> bool:
    return unknown(value) or value is None or not isinstance(value, (bool, int, float, str))


def _assembled(t: Type, leaves: list[Any]) -> tuple[Any, list[Any]]:
    """The value that these leaves of the trace are."""
    if isinstance(t, RecordType):
        values = []
        for _, sub in t.fields:
            value, leaves = _assembled(sub, leaves)
            values.append(value)
        if issubclass(t.cls, tuple):
            return t.cls(*values), leaves
        record = object.__new__(t.cls)
        for (name, _), value in zip(t.fields, values, strict=True):
            object.__setattr__(record, name, value)
        return record, leaves
    if isinstance(t, TupleType):
        items = []
        for sub in t.items:
            value, leaves = _assembled(sub, leaves)
            items.append(value)
        return tuple(items), leaves
    return leaves[0], leaves[1:]


class RunSet(frozenset[Any]):
    """A copy of a set that the function did not make."""

    def __contains__(self, key: Any) -> bool:
        if not unknown(key):
            return super().__contains__(key)
        return bool(ask("has", Has(frozenset(self)), [key], BOOL, fails=False, key=tuple(sorted(map(repr, self)))))


def _at(items: Any, key: Any) -> Any:
    """The item at a place that is not known yet."""
    if items._places is None:
        items._places = RunDict({i: items[i] for i in range(-len(items), len(items))})
    return items._places[key]


class RunList(list[Any]):
    """A copy of a list that the function did not make."""

    _places: RunDict | None = None

    def __getitem__(self, key: Any) -> Any:
        return _at(self, key) if type(key) is Sym else super().__getitem__(key)

    def _changed(self, *args: Any, **named: Any) -> NoReturn:
        raise Untraceable("changes a list that it did not make", effect=True)

    append = extend = insert = pop = remove = clear = sort = reverse = _changed
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _changed


class RunTuple(tuple[Any, ...]):
    """A tuple that the function did not make."""

    _places: RunDict | None = None

    def __getitem__(self, key: Any) -> Any:
        return _at(self, key) if type(key) is Sym else super().__getitem__(key)


def run_stand_in(value: Any) -> Any:
    """A dictionary, a set or a list as one that may be asked for what is not known yet; anything else as it is.

    >>> type(run_stand_in({"a": 1})).__name__, type(run_stand_in(3)).__name__
    ('RunDict', 'int')
    """
    if type(value) is dict:
        return RunDict(value)
    if type(value) in (list, tuple):
        return RunList(value) if type(value) is list else RunTuple(value)
    return RunSet(value) if type(value) in (frozenset, set) else value
