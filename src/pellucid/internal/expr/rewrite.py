"""Putting expressions into others: how a traced function becomes part of a larger system.

Operations on text, and calls of pure functions, as expressions.

A function that needs them is traced once more (`expr.tracing.textual`).  A check has them as they are, so that
a solver can look inside; for engines all of them become calls whose answers are looked up (`expr.lookup`).
They are those of the kinds ``text`` and ``call`` in `expr.operations`, and ``lt`` and ``le`` of two strings.

>>> from pellucid.internal.expr.node import var
>>> from pellucid.internal.expr.types import STR
>>> s = var(0, STR)
>>> starts(concat(const("a"), s), const("b")), length(const("déjà"))
(starts('a' + v0, 'b'), 4)

From the leaves of one type to those of a wider one: an int as a float, a value as an optional one.

>>> from pellucid.internal.expr.node import var
>>> from pellucid.internal.expr.types import FLOAT, INT, OptionalType
>>> convert([var(0, INT)], INT, OptionalType(FLOAT))
[True, float(v0)]

What is known about the numbers of an expression: between which bounds an int lies, whether a float may be NaN.

A small interval analysis over the DAG.  It widens what can be translated exactly: ``(v & 7) / 3`` divides integers
that a double holds, ``f * 0.5`` is never NaN where ``f`` is not.

>>> from pellucid.internal.expr.node import binary, const, var
>>> bounds(binary("mod", var(0, INT), const(10)))
(0, 9)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.errors import PellucidError, known
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import OPERATIONS, Expr, Overflow64, _node, const, walk
from pellucid.internal.expr.types import (
    BOOL,
    FLOAT,
    INT,
    INT_MAX,
    INT_MIN,
    NOTHING,
    STR,
    DecimalType,
    ListType,
    OptionalType,
    RecordType,
    TimeType,
    TupleType,
    Type,
    conform,
    fits_int,
    simplest,
)

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


def promote(e: Expr, to: Type) -> Expr | None:
    """The expression converted up the ladder bool → int → float; None if it does not fit."""
    if e.type == to:
        return e
    if e.type == BOOL and to in (INT, FLOAT):
        e = n.int_of_bool(e)
    if e.type == INT and to == FLOAT:
        return n.float_of_int(e)
    return e if e.type == to else None


def convert(leaves: Sequence[Expr], have: Type, to: Type) -> list[Expr] | None:
    """The leaves of a value as a type that holds it; None if it does not."""
    if have == to:
        return list(leaves)
    if isinstance(to, OptionalType):
        if have == NOTHING:
            return [n.FALSE, *(n.const(simplest(t)) for _, t in to.inner.leaves())]
        if isinstance(have, OptionalType):
            inner = convert(leaves[1:], have.inner, to.inner)
            return None if inner is None else [leaves[0], *inner]
        inner = convert(leaves, have, to.inner)
        return None if inner is None else [n.TRUE, *inner]
    if isinstance(to, ListType) and isinstance(have, ListType):
        return list(leaves) if have.item in (to.item, NOTHING) else None
    if isinstance(to, DecimalType):
        return _scaled(leaves[0], have, to.places)
    if isinstance(to, TupleType) and isinstance(have, TupleType) and len(to.items) == len(have.items):
        out: list[Expr] = []
        at = 0
        for a, b in zip(have.items, to.items, strict=True):
            part = convert(leaves[at : at + a.width], a, b)
            if part is None:
                return None
            out += part
            at += a.width
        return out
    if len(leaves) != 1 or have not in (BOOL, INT, FLOAT):
        return None
    one = promote(leaves[0], to)
    return None if one is None else [one]


def _scaled(e: Expr, have: Type, places: int) -> list[Expr] | None:
    if have == BOOL:
        e, have = n.int_of_bool(e), INT
    found = have.places if isinstance(have, DecimalType) else 0 if have == INT else None
    if found is None or found > places:
        return None
    return [n.mul(e, n.const(10 ** (places - found)))]


def tidy(t: Type, leaves: Sequence[Expr]) -> list[Expr]:
    """Any values of the leaves as those of some event: what is missing is the simplest value, a time is one that there
    is.

    >>> from pellucid.internal.expr.node import var
    >>> tidy(OptionalType(INT), [var(0, BOOL), var(1, INT)])
    [v0, v1 if v0 else 0]
    """
    if isinstance(t, OptionalType):
        inner = tidy(t.inner, leaves[1:])
        return [leaves[0], *(n.ite(leaves[0], e, n.const(simplest(e.type))) for e in inner)]
    if isinstance(t, TimeType):
        limit, e = t.limits()[0], leaves[0]
        if limit is None:
            return [e]
        low, high = map(n.const, limit)
        return [n.ite(n.lt(e, low), low, n.ite(n.lt(high, e), high, e))]
    parts = [part for _, part in t.fields] if isinstance(t, RecordType) else t.items if isinstance(t, TupleType) else ()
    out: list[Expr] = []
    for part in parts:
        out += tidy(part, leaves[len(out) : len(out) + part.width])
    return out or list(leaves)


_BUILD_REWRITE: dict[str, Callable[..., Expr]] = {
    "eq": n.eq, "lt": n.lt, "le": n.le, "and": n.and_, "or": n.or_, "not": n.not_, "ite": n.ite,
    "int_of_bool": n.int_of_bool, "float_of_int": n.float_of_int, "sqrt": n.sqrt, "overflows": n.overflows,
}  # fmt: skip


def rebuild(e: Expr, args: Sequence[Expr]) -> Expr:
    """The same operation on other arguments, simplified."""
    op = e.op
    match OPERATIONS[op].kind:
        case "arithmetic":
            return n.binary(op, args[0], args[1])
        case "sign":
            return n.unary(op, args[0])
        case "round":
            return n.round_to_int(op, args[0])
        case "digits":
            return n.round_to_digits(args[0], args[1].value)
        case "text" | "call":
            return rebuilt(e, args)
    if op == "after":
        return n.after(tuple(args[:-1]), args[-1])
    if op not in _BUILD_REWRITE:
        known(_BUILD_REWRITE, op, "substitution", "operation")
    return _BUILD_REWRITE[op](*args)


def substitute(
    roots: Sequence[Expr], leaves: Sequence[Expr], after: Callable[[Expr], Expr] | None = None
) -> list[Expr]:
    """The expressions with the i-th variable replaced by ``leaves[i]``.

    ``after`` is applied to every integer that an operation makes, for example to reduce it modulo N.

    >>> from pellucid.internal.expr.types import INT
    >>> x = n.var(0, INT)
    >>> substitute([n.add(x, n.const(1))], [n.const(2)])
    [3]
    """
    made: dict[int, Expr] = {}
    for e in walk(*roots):
        if e.op == "var":
            made[id(e)] = leaves[e.value]
        elif not e.args:
            made[id(e)] = e
        else:
            args = [made[id(a)] for a in e.args]
            same = after is None and all(a is b for a, b in zip(args, e.args, strict=True))
            new = e if same else rebuild(e, args)
            keeps = e.op in ("ite", "after")  # these hand on what was made already
            made[id(e)] = after(new) if after is not None and new.type == INT and not keeps else new
    return [made[id(r)] for r in roots]


def replaced(e: Expr, made: dict[int, Expr]) -> Expr:
    """The expression with some of its parts replaced; ``made`` has the new ones by the ``id`` of the old, and learns.

    >>> from pellucid.internal.expr.types import INT
    >>> x = n.var(0, INT)
    >>> replaced(n.add(n.mul(x, x), x), {id(n.mul(x, x)): n.const(2)})
    2 + v0
    """
    stack = [e]
    while stack:
        top = stack[-1]
        missing = [a for a in top.args if id(a) not in made]
        if id(top) in made or not missing:
            if id(top) not in made:
                made[id(top)] = rebuild(top, [made[id(a)] for a in top.args]) if top.args else top
            stack.pop()
        else:
            stack += missing
    return made[id(e)]


def failure(root: Expr) -> Expr:
    """The condition under which evaluating the expression fails, other than by overflow.

    >>> from pellucid.internal.expr.types import INT
    >>> failure(n.binary("floordiv", n.const(10), n.var(0, INT)))
    v0 == 0
    """
    return _condition(root, _fails_otherwise)


def overflow(root: Expr) -> Expr:
    """The condition under which an integer leaves 64 bits while the expression is evaluated.

    >>> from pellucid.internal.expr.types import INT
    >>> x = n.var(0, INT)
    >>> overflow(n.ite(n.lt(x, n.const(0)), n.neg(x), n.const(0)))
    v0 < 0 and overflows(-v0)
    """
    return _condition(root, n.overflows)


def _condition(root: Expr, here: Callable[[Expr], Expr]) -> Expr:
    """Whether ``here`` holds of an operation that is evaluated when the expression is: one branch only, and stopping
    early."""
    false = n.const(False)
    found: dict[int, Expr] = {}
    for e in walk(root):
        parts = [found[id(a)] for a in e.args]
        if e.op == "ite":
            bad = n.or_(parts[0], n.ite(e.args[0], parts[1], parts[2]))
        elif e.op == "and":
            bad = n.or_(parts[0], n.and_(e.args[0], parts[1]))
        elif e.op == "or":
            bad = n.or_(parts[0], n.and_(n.not_(e.args[0]), parts[1]))
        else:
            bad = false
            for part in parts:
                bad = n.or_(bad, part)
        found[id(e)] = n.or_(bad, here(e))
    return found[id(root)]


def _fails_otherwise(e: Expr) -> Expr:
    if e.op == "raise":
        return n.const(True)
    if e.op in ("floordiv", "mod", "truediv") and n.fails_here(e):
        return n.eq(e.args[1], n.const(0.0) if e.args[1].type != INT else n.const(0))
    if (e.op == "shr" and n.fails_here(e)) or e.op == "shl":
        return n.lt(e.args[1], n.const(0))
    if e.op in (
        "trunc",
        "floor",
        "ceil",
        "nearest",
    ):  # of NaN or an infinity: the only floats that minus themselves are not 0
        return n.not_(n.eq(n.sub(e.args[0], e.args[0]), n.const(0.0)))
    if e.op == "sqrt":
        return n.lt(e.args[0], n.const(0.0))
    if e.op == "call":
        return call_fails(e.value, e.args)
    return n.const(False)


def among_ints(roots: Sequence[Expr]) -> list[Expr]:
    """The expressions with every comparison of an int with a constant float as one with a constant int: exact, as in
    Python.

    >>> from pellucid.internal.expr.types import INT
    >>> x = n.var(0, INT)
    >>> among_ints([n.lt(x, n.const(0.5)), n.le(n.const(-1.5), x), n.eq(x, n.const(2.0)), n.lt(x, n.const(1e30))])
    [v0 < 1, v0 >= -1, v0 == 2, True]
    """
    if not any(e.op == "const" and e.type == FLOAT for e in walk(*roots)):
        return list(roots)
    made: dict[int, Expr] = {}
    for e in walk(*roots):
        new = rebuild(e, [made[id(a)] for a in e.args]) if e.args else e
        made[id(e)] = _among_ints(new)
    return [made[id(r)] for r in roots]


def _among_ints(e: Expr) -> Expr:
    if e.op not in ("eq", "lt", "le") or {a.type for a in e.args} != {INT, FLOAT}:
        return e
    at = 0 if e.args[0].type == FLOAT else 1
    if e.args[at].op != "const":
        return e
    c, x = e.args[at].value, e.args[1 - at]

    def always(value: bool) -> Expr:  # x is evaluated all the same: it may fail
        return n.after((x,), n.const(value))

    if c != c:
        return always(False)
    if not -(2.0**63) <= c < 2.0**63:  # beyond every int
        return always(e.op != "eq" and (c > 0) == (at == 1))
    whole = math.floor(c)  # and so is the next int, where there is a fraction
    if whole == c:
        return n.COMPARE[e.op](*((n.const(whole), x) if at == 0 else (x, n.const(whole))))
    if e.op == "eq":
        return always(False)
    return n.le(n.const(whole + 1), x) if at == 0 else n.lt(x, n.const(whole + 1))


EXACT = 2**53  # up to here a double holds every integer

Bounds = tuple[int, int]
_ALL: Bounds = (INT_MIN, INT_MAX)


def bounds(e: Expr) -> Bounds:
    """The least and the greatest value that an int expression can have, where it does not fail."""
    found: dict[int, Bounds] = {}
    for part in walk(e):
        if part.type == INT:
            low, high = _bounds(part, [found.get(id(a), _ALL) for a in part.args])
            # An integer outside 64 bits is a failure and no value.
            found[id(part)] = (max(low, INT_MIN), min(high, INT_MAX)) if low <= INT_MAX and high >= INT_MIN else _ALL
    return found[id(e)]


def within(e: Expr, low: int, high: int) -> bool:
    """Whether an int expression always lies between these.

    >>> from pellucid.internal.expr.node import binary, const, var
    >>> within(binary("band", var(0, INT), const(7)), 0, 7), within(var(0, INT), 0, 7)
    (True, False)
    """
    least, greatest = bounds(e)
    return low <= least and greatest <= high


def _bounds(e: Expr, args: list[Bounds]) -> Bounds:
    op = e.op
    if op == "const":
        return e.value, e.value
    if op == "int_of_bool":
        return 0, 1
    if op == "ite":
        return min(args[1][0], args[2][0]), max(args[1][1], args[2][1])
    if op == "after":
        return args[-1]
    if op in ("add", "sub", "mul"):
        (a, b), (c, d) = args
        corners = {"add": (a + c, b + d), "sub": (a - d, b - c), "mul": (a * c, a * d, b * c, b * d)}[op]
        return min(corners), max(corners)
    if op == "neg":
        return -args[0][1], -args[0][0]
    if op == "abs":
        low, high = args[0]
        return (low if low > 0 else -high if high < 0 else 0), max(abs(low), abs(high))
    if op == "mod":
        low, high = args[1]
        return (0 if low > 0 else low + 1), (0 if high < 0 else high - 1)
    if op == "band":
        tops = [high for low, high in args if low >= 0]
        return (0, min(tops)) if tops else _ALL
    if op == "floordiv" and args[1][0] > 0:
        (a, b), (c, d) = args
        corners = (a // c, a // d, b // c, b // d)
        return min(corners), max(corners)
    if op == "shr" and args[1][0] >= 0:
        (a, b), (c, d) = args
        corners = (a >> c, a >> min(d, 63), b >> c, b >> min(d, 63))
        return min(corners), max(corners)
    return _ALL


def may_be_nan(e: Expr) -> bool:
    """Whether a float expression can be NaN, given that no event is.

    >>> from pellucid.internal.expr.node import add, const, mul, var
    >>> f = var(0, FLOAT)
    >>> may_be_nan(mul(f, const(0.5))), may_be_nan(add(f, f))
    (False, True)
    """
    found: dict[int, bool] = {}
    for part in walk(e):
        if part.type == FLOAT:
            found[id(part)] = _may_be_nan(part, [found.get(id(a), False) for a in part.args])
    return found.get(id(e), False)


def _may_be_nan(e: Expr, args: list[bool]) -> bool:
    op = e.op
    if op == "const":
        return math.isnan(e.value)
    if any(args[1:] if op == "ite" else args[-1:] if op == "after" else args):
        return True
    if op in ("var", "neg", "abs", "sqrt", "float_of_int", "ite", "after", "raise"):
        return False
    if e.args[0].type in (INT, BOOL):
        return False  # the quotient of two integers
    numbers = [a.value for a in e.args if a.op == "const"]
    if op in ("add", "sub", "mul"):  # infinity - infinity, 0 * infinity
        finite = any(math.isfinite(v) and (v != 0 or op != "mul") for v in numbers) or any(map(_finite, e.args))
        return not finite if op != "mul" else not any(math.isfinite(v) and v != 0 for v in numbers)
    if op == "truediv":  # infinity / infinity
        return not (any(math.isfinite(v) for v in numbers) or any(map(_finite, e.args)))
    return True


def _finite(e: Expr) -> bool:
    """Whether a float expression is surely no infinity."""
    return (
        e.op == "float_of_int"
        or (e.op == "const" and math.isfinite(e.value))
        or (e.op == "truediv" and e.args[0].type == INT)
    )
