"""The trace for running: what looks inside text becomes a call of Python's own function, with its constants in it.

It is made of a function that the plain trace (`trace.py`) cannot take.  Methods of strings, ``int(s)``, ``str(n)``,
look-ups in dictionaries and sets, the functions of ``math`` that other libraries compute otherwise: each is a `Direct`
call of the values that are not known yet.  `expr.lookup` makes of it what an engine runs.

>>> from pellucid.internal.expr.tracing.trace import trace
>>> from pellucid.internal.expr.types import STR
>>> trace(lambda s: s.strip().replace("a", "b"), (STR,), run=True).outputs[0]
replace(strip(v0))
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pellucid.internal.expr import node as n
from pellucid.internal.expr import text
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.text import Direct
from pellucid.internal.expr.tracing.symbolic import Sym, Untraceable, _boolean, lift_scalar
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, EnumType, Type, simplest

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
