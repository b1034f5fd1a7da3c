"""Operations on text, and calls of pure functions, as expressions.

A function that needs them is traced once more (`expr.tracing.textual`).  A check has them as they are, so that
a solver can look inside; for engines all of them become calls whose answers are looked up (`expr.lookup`).
They are those of the kinds ``text`` and ``call`` in `expr.operations`, and ``lt`` and ``le`` of two strings.

>>> from pellucid.internal.expr.node import var
>>> from pellucid.internal.expr.types import STR
>>> s = var(0, STR)
>>> starts(concat(const("a"), s), const("b")), length(const("déjà"))
(starts('a' + v0, 'b'), 4)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pellucid.errors import PellucidError
from pellucid.internal.expr.node import Expr, _node, const, walk
from pellucid.internal.expr.operations import OPERATIONS, Overflow64
from pellucid.internal.expr.types import BOOL, INT, STR, Type, conform, fits_int, simplest

MEANING = {op: o.meaning for op, o in OPERATIONS.items() if o.kind == "text" and o.meaning is not None}
TEXT_OPS = frozenset(op for op, o in OPERATIONS.items() if o.kind in ("text", "call"))
_RESULT: dict[str, Type] = {
    "length": INT,
    "concat": STR,
    "part": STR,
    "find": INT,
    "starts": BOOL,
    "ends": BOOL,
    "holds": BOOL,
}


class CallFails(ValueError):  # noqa: N818 - reads as what it is
    """A function that is called in an expression raises here, or its result fits no event."""


@dataclass(eq=False)
class Pure:
    """A function in C or of the user's of which only this is used: the same arguments, the same answer.

    ``name`` tells it in words; one object is one function.  ``f`` takes the leaves of its arguments and returns a leaf.
    """

    name: str
    f: Callable[..., Any]
    result: Type
    may_fail: bool
    apart: bool = False  # what is computed of its answer is not looked up together with it: it has few arguments
    _answers: dict[Any, tuple[bool, Any]] = field(default_factory=dict, repr=False)

    def answer(self, *args: Any) -> tuple[bool, Any]:
        """Whether the function really fails on these arguments, and what it really returns (the simplest value where it
        fails).

        >>> upper = Pure("upper", str.upper, STR, False)
        >>> upper.answer("straße"), Pure("int", int, INT, True).answer("x")
        ((False, 'STRASSE'), (True, 0))
        """
        key = tuple((type(a), repr(a)) for a in args)
        if key not in self._answers:
            try:
                self._answers[key] = False, conform(self.result, self.f(*args))
            except PellucidError:  # not the function's own: it has no answers
                raise
            except Exception:
                self._answers[key] = True, simplest(self.result)
        return self._answers[key]

    def __call__(self, *args: Any) -> Any:
        """The answer itself; `CallFails` where it fails."""
        failed, value = self.answer(*args)
        if failed:
            raise CallFails(f"{self.name} fails on {', '.join(map(repr, args))}")
        return value


class Direct(Pure):
    """One that engines call, too: nothing is remembered here, and an int beyond 64 bits is an overflow.

    >>> Direct("int", int, INT, True)("12")
    12
    """

    def answer(self, *args: Any) -> tuple[bool, Any]:
        """As above, asked now."""
        try:
            return False, self(*args)
        except Exception:
            return True, simplest(self.result)

    def __call__(self, *args: Any) -> Any:
        """The answer itself, or what the function raises."""
        value = self.f(*args)
        if self.result == INT and not fits_int(value):
            raise Overflow64(f"{value} does not fit in 64 bits")
        return conform(self.result, value)


def _made(op: str, *args: Expr) -> Expr:
    if all(a.op == "const" for a in args):
        return const(MEANING[op](*(a.value for a in args)))
    return _node(op, _RESULT[op], args)


def length(s: Expr) -> Expr:
    """``len(s)``."""
    return _made("length", s)


def concat(a: Expr, b: Expr) -> Expr:
    """``a + b`` of two strings."""
    return b if a is const("") else a if b is const("") else _made("concat", a, b)


def starts(s: Expr, t: Expr) -> Expr:
    """``s.startswith(t)``."""
    return _made("starts", s, t)


def ends(s: Expr, t: Expr) -> Expr:
    """``s.endswith(t)``."""
    return _made("ends", s, t)


def holds(s: Expr, t: Expr) -> Expr:
    """``t in s``."""
    return _made("holds", s, t)


def find(s: Expr, t: Expr) -> Expr:
    """``s.find(t)``."""
    return _made("find", s, t)


def part(s: Expr, a: Expr, b: Expr) -> Expr:
    """``s[a:b]``, where neither is negative."""
    return _made("part", s, a, b)


def call(f: Pure, args: Iterable[Expr]) -> Expr:
    """The answer of a pure function."""
    given = tuple(args)
    if given and all(a.op == "const" for a in given):
        failed, value = f.answer(*(a.value for a in given))
        if not failed:
            return const(value)
    return _node("call", f.result, given, f)


def call_fails(f: Pure, args: Iterable[Expr]) -> Expr:
    """Whether a pure function raises."""
    given = tuple(args)
    if not f.may_fail:
        return const(False)
    if given and all(a.op == "const" for a in given):
        return const(f.answer(*(a.value for a in given))[0])
    return _node("call_fails", BOOL, given, f)


def order_of_text(e: Expr) -> bool:
    """Whether it orders two strings."""
    return e.op in ("lt", "le") and e.args[0].type == STR


def has_text(*roots: Expr) -> bool:
    """Whether something here looks inside a string, orders strings or calls a function.

    >>> from pellucid.internal.expr import node as n
    >>> has_text(n.eq(n.var(0, STR), const("a"))), has_text(n.lt(n.var(0, STR), const("a")))
    (False, True)
    """
    return any(e.op in TEXT_OPS or order_of_text(e) for e in walk(*roots))


def has_calls(*roots: Expr) -> bool:
    """Whether something here calls a function of which only its consistency is known."""
    return any(e.op in ("call", "call_fails") for e in walk(*roots))


_BUILD: dict[str, Callable[..., Expr]] = {
    "length": length,
    "concat": concat,
    "starts": starts,
    "ends": ends,
    "holds": holds,
    "find": find,
    "part": part,
}


def rebuilt(e: Expr, args: Iterable[Expr]) -> Expr:
    """The same operation on other arguments."""
    if e.op in _BUILD:
        return _BUILD[e.op](*args)
    return (call if e.op == "call" else call_fails)(e.value, args)
