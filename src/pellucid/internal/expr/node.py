"""Expressions: a typed, hash-consed DAG of scalar operations.

The meaning of an expression is that of the Python function it was traced from, **errors included**:
it is evaluated on demand (``ite`` looks at one branch only, ``and`` / ``or`` stop early), integers
are signed 64-bit, and an operation may *fail*: overflow, division by zero, a ``raise`` of the user.
So a rewriting is allowed only if it keeps values **and** failures; ``after(c, …, v)`` is the value
``v`` once the checks ``c`` have been evaluated, for a failure in code whose result is not used.

Equal expressions are the same object, so ``is`` decides equality and a shared part is stored once.

>>> from pellucid.internal.expr.types import INT
>>> x = var(0, INT)
>>> add(x, const(1)) is add(x, const(1))
True
>>> mul(x, const(1)) is x
True
>>> ite(lt(x, const(0)), const(False), const(True))
not v0 < 0

The operations are in a table: `expr.operations`.

The table of operations: each once, with what every target asks about it.

What an operation *is* stands here: what it means on values, when it fails, whether it looks at all its arguments, how
it is written.  How a target *writes* it (statements of a kernel, a solver's term, a column of Spark's) stands in a
table of that target; one that it does not name is refused by name, or for a reason of the target's own.

>>> OPERATIONS["floordiv"].meaning(-7, 2), OPERATIONS["ite"].lazy
(-4, True)

To add one: a row here, a function of `expr.node` that makes it, a row in `expr.rewrite`, and one in
each target that can have it; ``tests/expr/test_node.py`` goes over all of them.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, STR, EnumType, Type, fits_int
from pellucid.internal.expr.types.base import THERE


class Overflow64(OverflowError):  # noqa: N818
    """An integer left the signed 64-bit range."""


@dataclass(frozen=True)
class Operation:
    """One operation."""

    words: str
    #: ``leaf``, ``arithmetic`` of two, ``sign`` of one, ``compare``, ``logic``, ``convert``, ``round``, ``text``,
    #: ``call`` of a function, or ``control``.
    kind: str
    meaning: Callable[..., Any] | None = None  # its value, given those of its arguments; None: that is not all
    #: When it fails itself, whatever its arguments do: never, with an ``int``, when it ``divides`` by 0, on a
    #: ``negative`` amount, as the function does that is ``called``, or it ``may`` anyhow.
    fails: str = ""
    overflows: bool = False  # an int of its may leave 64 bits
    lazy: bool = False  # it looks at its first argument, and then at those that it needs
    infix: tuple[str, int] | None = None  # Python's operator, and how tightly that binds
    name: str = ""  # what it is called where it is no operator, if not so
    runs: bool = True  # engines run it; others are in the systems of checks only


def _shl(a: int, b: int) -> int:
    if b < 0:
        raise ValueError("negative shift count")
    if b > 64 and a != 0:
        raise Overflow64
    return a << min(b, 64)


def _two(
    words: str, meaning: Callable[..., Any], sign: str, binds: int, fails: str = "", over: bool = False
) -> Operation:
    return Operation(words, "arithmetic", meaning, fails, over, infix=(sign, binds))


def _one(words: str, kind: str, meaning: Callable[..., Any], **more: Any) -> Operation:
    return Operation(words, kind, meaning, **more)


def _text(words: str, meaning: Callable[..., Any], **more: Any) -> Operation:
    return Operation(words, "text", meaning, runs=False, **more)


OPERATIONS = {
    "const": Operation("a value", "leaf"),
    "var": Operation("the i-th leaf of the parameters", "leaf"),
    "raise": Operation("the user's function raises here", "leaf", fails="may"),
    # int × int → int, or float × float → float
    "add": _two("a + b", lambda a, b: a + b, "+", 10, "int", True),
    "sub": _two("a - b", lambda a, b: a - b, "-", 10, "int", True),
    "mul": _two("a * b", lambda a, b: a * b, "*", 11, "int", True),
    "floordiv": _two("a // b", lambda a, b: a // b, "//", 11, "divides", True),
    "mod": _two("a % b", lambda a, b: a % b, "%", 11, "divides"),
    "truediv": _two("a / b as a float, correctly rounded", lambda a, b: a / b, "/", 11, "divides"),
    "band": _two("a & b of ints", lambda a, b: a & b, "&", 8),
    "bor": _two("a | b of ints", lambda a, b: a | b, "|", 6),
    "bxor": _two("a ^ b of ints", lambda a, b: a ^ b, "^", 7),
    "shl": _two("a << b", _shl, "<<", 9, "may", True),
    "shr": _two("a >> b", lambda a, b: a >> b, ">>", 9, "negative"),
    "neg": _one("-a", "sign", lambda a: -a, fails="int", overflows=True),
    "abs": _one("abs(a)", "sign", abs, fails="int", overflows=True),
    "invert": _one("~a of an int", "sign", lambda a: ~a),
    # exact, also between an int and a float; of two strings by code points
    "eq": Operation("a == b", "compare", lambda a, b: a == b, infix=("==", 5)),
    "lt": Operation("a < b", "compare", lambda a, b: a < b, infix=("<", 5)),
    "le": Operation("a <= b", "compare", lambda a, b: a <= b, infix=("<=", 5)),
    "and": Operation("a and b", "logic", lazy=True, infix=("and", 3)),
    "or": Operation("a or b", "logic", lazy=True, infix=("or", 2)),
    "not": Operation("not a", "logic", lambda a: not a),
    "ite": Operation("b if a else c", "logic", lazy=True),
    "int_of_bool": _one("int(a) of a bool", "convert", int, name="int"),
    "float_of_int": _one("float(a) of an int", "convert", float, name="float"),
    "trunc": _one("a float towards 0, as an int", "round", math.trunc, fails="may", overflows=True),
    "floor": _one("a float downwards, as an int", "round", math.floor, fails="may", overflows=True),
    "ceil": _one("a float upwards, as an int", "round", math.ceil, fails="may", overflows=True),
    "nearest": _one("a float to the nearest int, a half to the even one", "round", round, fails="may", overflows=True),
    "digits": Operation("round(a, b) of a float to b digits, 0 to 18, as Python does", "digits", round, name="round"),
    "sqrt": _one("math.sqrt(a)", "convert", math.sqrt, fails="may"),
    "after": Operation("its last argument, once the others have been evaluated for their failure", "control"),
    "overflows": Operation("whether an int operation, on its arguments, leaves 64 bits", "control", runs=False),
    "length": _text("len(s), in code points", len, name="len"),
    "concat": _text("s + t", lambda a, b: a + b, infix=("+", 10)),
    "starts": _text("s.startswith(t)", lambda a, b: a.startswith(b)),
    "ends": _text("s.endswith(t)", lambda a, b: a.endswith(b)),
    "holds": _text("t in s", lambda a, b: b in a),
    "find": _text("s.find(t)", lambda a, b: a.find(b)),
    "part": _text("s[a:b] for a, b >= 0", lambda s, a, b: s[a:b]),
    "call": Operation("a pure function of the arguments", "call", fails="called"),
    "call_fails": Operation("whether it fails", "call", runs=False),
}

#: Those that do not look at all their arguments.
LAZY = frozenset(op for op, o in OPERATIONS.items() if o.lazy)


class Expr:
    """One node.  Make nodes with the functions of this module, never directly."""

    __slots__ = ("_fails", "_strict", "args", "op", "type", "value")

    op: str
    type: Type
    args: tuple[Expr, ...]
    value: Any  # of a const; the index of a var; the number of a raise
    _fails: bool | None
    _strict: frozenset[Expr] | None

    def __repr__(self) -> str:

        return show(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _node, (self.op, self.type, self.args, self.value)


_nodes: dict[tuple[Any, ...], Expr] = {}  # every node ever made: small, and it keeps ids unique


def _node(op: str, type_: Type, args: tuple[Expr, ...] = (), value: Any = None) -> Expr:
    # Floats are keyed by their bits: 0.0 and -0.0 differ, and NaN equals itself.
    mark = value.hex() if isinstance(value, float) else value
    key = (op, type_, tuple(map(id, args)), type(value), mark)
    found = _nodes.get(key)
    if found is None:
        found = Expr.__new__(Expr)
        found.op, found.type, found.args, found.value = op, type_, args, value
        found._fails = found._strict = None
        _nodes[key] = found
    return found


# ---------------------------------------------------------------- leaves


def var(index: int, type_: Type) -> Expr:
    """The leaf number ``index`` of the function's parameters."""
    return _node("var", type_, (), index)


def const(value: Any) -> Expr:
    """A constant: bool, int (64-bit), float, str or an enum member.

    >>> const(3), const(True), const("a")
    (3, True, 'a')
    """
    if isinstance(value, enum.Enum):
        return _node("const", EnumType(type(value)), (), value)
    if isinstance(value, bool):
        return _node("const", BOOL, (), value)
    if isinstance(value, int):
        if not INT_MIN <= value <= INT_MAX:
            raise OverflowError(f"the constant {value} does not fit in 64 bits")
        return _node("const", INT, (), int(value))
    if isinstance(value, float):
        return _node("const", FLOAT, (), float(value))
    if isinstance(value, str):
        return _node("const", STR, (), str(value))
    raise TypeError(f"not a scalar: {value!r}")


def raise_(number: int, type_: Type) -> Expr:
    """The user's function raises here; ``number`` tells the places apart."""
    return _node("raise", type_, (), number)


MOST_DIGITS = 18

TRUE = const(True)
FALSE = const(False)


# ---------------------------------------------------------------- failure


_values_only = False


@contextmanager
def values_only(yes: bool = True) -> Iterator[None]:
    """Inside, simplification may lose failures: for systems whose failures are conditions of their own.

    >>> from pellucid.internal.expr.types import INT
    >>> quotient = binary("floordiv", const(10), var(0, INT))
    >>> with values_only():
    ...     ite(eq(quotient, const(5)), const(1), const(1))
    1
    """
    global _values_only
    before, _values_only = _values_only, yes
    try:
        yield
    finally:
        _values_only = before


def fails_here(e: Expr) -> bool:
    """Whether this operation itself may fail, whatever its arguments do."""
    match OPERATIONS[e.op].fails:
        case "":
            return False
        case "int":
            return e.type == INT
        case "divides":
            divisor = e.args[1]
            if divisor.op == "const" and divisor.value != 0:
                # INT_MIN // -1 is the one quotient of integers that does not fit.
                return e.op == "floordiv" and e.type == INT and bool(divisor.value == -1)
        case "negative":
            return not (e.args[1].op == "const" and e.args[1].value >= 0)
        case "called":  # of a check (`expr.text`)
            return bool(e.value.may_fail)
    return True


def fails(e: Expr) -> bool:
    """Whether evaluating the expression may fail.

    >>> from pellucid.internal.expr.types import INT
    >>> fails(add(var(0, INT), const(1))), fails(lt(var(0, INT), const(1)))
    (True, False)
    """
    if _values_only:
        return False
    if e._fails is None:
        for part in _unknown(e, "_fails"):  # children first, so no deep recursion
            if part._fails is None:
                part._fails = fails_here(part) or any(a._fails for a in part.args)
    assert e._fails is not None
    return e._fails


def strict_parts(e: Expr) -> frozenset[Expr]:
    """The parts that may fail and that are evaluated **whenever** ``e`` is."""
    if e._strict is None:
        for part in _unknown(e, "_strict"):
            if part._strict is None:
                part._strict = _strict_of(part)
    assert e._strict is not None
    return e._strict


def _unknown(e: Expr, what: str) -> Sequence[Expr]:
    """The parts of which something has not been found out yet, and perhaps others; mostly it is the last one alone."""
    return walk(e) if any(getattr(a, what) is None for a in e.args) else (e,)


def _strict_of(e: Expr) -> frozenset[Expr]:
    out = surely(e, [a._strict or frozenset() for a in e.args])
    return out | {e} if fails_here(e) else out


def surely(e: Expr, kids: Sequence[frozenset[Expr]]) -> frozenset[Expr]:
    """Of what is evaluated whenever each of its arguments is: what is evaluated whenever ``e`` is."""
    if e.op == "ite":
        return kids[0] | (kids[1] & kids[2])
    return kids[0] if e.op in LAZY else frozenset().union(*kids)


def walk(*roots: Expr) -> list[Expr]:
    """Every part once, arguments before the operations that use them."""
    out: list[Expr] = []
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        e, done = stack.pop()
        if done:
            out.append(e)
        elif id(e) not in seen:
            seen.add(id(e))
            stack.append((e, True))
            stack.extend((a, False) for a in reversed(e.args) if id(a) not in seen)
    return out


# ---------------------------------------------------------------- conversions


def int_of_bool(a: Expr) -> Expr:
    """``int(b)`` of a Boolean."""
    return const(int(a.value)) if a.op == "const" else _node("int_of_bool", INT, (a,))


def float_of_int(a: Expr) -> Expr:
    """``float(i)`` of an integer."""
    return const(float(a.value)) if a.op == "const" else _node("float_of_int", FLOAT, (a,))


def round_to_int(op: str, a: Expr) -> Expr:
    """``trunc``, ``floor``, ``ceil`` or ``nearest`` of a float, as an int."""
    return _node(op, INT, (a,))


def round_to_digits(a: Expr, digits: int) -> Expr:
    """``round(a, digits)`` of a float, which engines compute exactly for so many; checks and Spark do not know it."""
    assert 0 <= digits <= MOST_DIGITS
    return _node("digits", FLOAT, (a, const(digits)))


def sqrt(a: Expr) -> Expr:
    """``math.sqrt`` of a float; fails below zero."""
    return _node("sqrt", FLOAT, (a,))


# ---------------------------------------------------------------- arithmetic


def _value_of(op: str, *args: Any) -> Any:
    meaning = OPERATIONS[op].meaning
    assert meaning is not None
    return meaning(*args)


def binary(op: str, a: Expr, b: Expr) -> Expr:
    """An arithmetic operation on two ints or two floats, simplified where nothing is lost."""
    assert a.type == b.type and a.type in (INT, FLOAT), (op, a, b)
    result = FLOAT if op == "truediv" else a.type
    if a.op == b.op == "const":
        try:
            folded = _value_of(op, a.value, b.value)
            if result == FLOAT or fits_int(folded):
                return const(folded)
        except (ArithmeticError, ValueError):
            pass  # it fails when it is evaluated, as in Python
    if a.type == INT:
        simple = _simplify_int(op, a, b)
        if simple is not None:
            return simple
    return _node(op, result, (a, b))


def _simplify_int(op: str, a: Expr, b: Expr) -> Expr | None:
    left = a.value if a.op == "const" else None
    right = b.value if b.op == "const" else None
    if op in ("add", "bor", "bxor"):
        if right == 0:
            return a
        if left == 0:
            return b
    if op in ("sub", "shl", "shr") and right == 0:
        return a
    if op == "mul":
        if right == 1:
            return a
        if left == 1:
            return b
    if op == "floordiv" and right == 1:
        return a
    if op in ("mul", "band") and ((right == 0 and not fails(a)) or (left == 0 and not fails(b))):
        return const(0)
    if op in ("mod",) and right == 1 and not fails(a):
        return const(0)
    if op in ("sub", "bxor") and a is b and not fails(a):
        return const(0)
    if op in ("band", "bor") and a is b:
        return a
    return None


def add(a: Expr, b: Expr) -> Expr:
    """``a + b``."""
    return binary("add", a, b)


def sub(a: Expr, b: Expr) -> Expr:
    """``a - b``."""
    return binary("sub", a, b)


def mul(a: Expr, b: Expr) -> Expr:
    """``a * b``."""
    return binary("mul", a, b)


def unary(op: str, a: Expr) -> Expr:
    """``neg``, ``abs`` or ``invert``."""
    if a.op == "const":
        folded = _value_of(op, a.value)
        if a.type == FLOAT or fits_int(folded):
            return const(folded)
    if a.type == FLOAT and op == a.op == "neg":
        return a.args[0]
    if op == a.op == "invert":
        return a.args[0]
    return _node(op, a.type, (a,))


def neg(a: Expr) -> Expr:
    """``-a``."""
    return unary("neg", a)


def abs_(a: Expr) -> Expr:
    """``abs(a)``."""
    return unary("abs", a)


# ---------------------------------------------------------------- comparison


def eq(a: Expr, b: Expr) -> Expr:
    """``a == b``."""
    if a.op == b.op == "const":
        return const(a.value == b.value)
    if a is b and a.type != FLOAT and not fails(a):
        return TRUE
    if a.type == b.type == BOOL:
        if b.op == "const":
            return a if b.value else not_(a)
        if a.op == "const":
            return b if a.value else not_(b)
    if a.op == "const":
        a, b = b, a  # both are evaluated anyway; a constant stands on the right
    return _node("eq", BOOL, (a, b))


def lt(a: Expr, b: Expr) -> Expr:
    """``a < b``."""
    if a.op == b.op == "const":
        return const(a.value < b.value)
    if a is b and not fails(a):
        return FALSE
    return _node("lt", BOOL, (a, b))


def le(a: Expr, b: Expr) -> Expr:
    """``a <= b``."""
    if a.op == b.op == "const":
        return const(a.value <= b.value)
    if a is b and a.type != FLOAT and not fails(a):
        return TRUE
    return _node("le", BOOL, (a, b))


#: How two values are compared: all else is one of these, turned round or negated.
COMPARE = {"eq": eq, "lt": lt, "le": le}


# ---------------------------------------------------------------- Booleans


def not_(a: Expr) -> Expr:
    """``not a``."""
    if a.op == "const":
        return const(not a.value)
    if a.op == "not":
        return a.args[0]
    return _node("not", BOOL, (a,))


def and_(a: Expr, b: Expr) -> Expr:
    """``a and b``: ``b`` is evaluated only if ``a`` holds."""
    if a.op == "const":
        return b if a.value else FALSE
    if b is TRUE or a is b:
        return a
    if b is FALSE and not fails(a):
        return FALSE
    if b is not_(a) and not fails(a):
        return FALSE
    return _node("and", BOOL, (a, b))


def or_(a: Expr, b: Expr) -> Expr:
    """``a or b``: ``b`` is evaluated only if ``a`` does not hold."""
    if a.op == "const":
        return TRUE if a.value else b
    if b is FALSE or a is b:
        return a
    if b is TRUE and not fails(a):
        return TRUE
    if b is not_(a) and not fails(a):
        return TRUE
    return _node("or", BOOL, (a, b))


def any_of(parts: Iterable[Expr]) -> Expr:
    """Whether one of them holds.

    >>> any_of([]), any_of([var(0, BOOL), var(1, BOOL)])
    (False, v0 or v1)
    """
    return functools.reduce(or_, parts, const(False))


def all_of(parts: Iterable[Expr]) -> Expr:
    """Whether each of them holds.

    >>> all_of([]), all_of([var(0, BOOL), var(1, BOOL)])
    (True, v0 and v1)
    """
    return functools.reduce(and_, parts, const(True))


def ite(c: Expr, t: Expr, e: Expr) -> Expr:
    """``t if c else e``."""
    assert t.type == e.type, (t, e)
    if c.op == "const":
        return t if c.value else e
    if t is e and not fails(c):
        return t
    if c.op == "not":
        return ite(c.args[0], e, t)
    if t is c:
        t = TRUE
    if e is c:
        e = FALSE
    if t.op == "ite" and t.args[0] is c:
        t = t.args[1]
    if e.op == "ite" and e.args[0] is c:
        e = e.args[2]
    if t is e and not fails(c):
        return t
    # ite(a, ite(b, x, y), y) = ite(a and b, x, y): the common shape of `and` in a condition.
    if t.op == "ite" and t.args[2] is e:
        return ite(and_(c, t.args[0]), t.args[1], e)
    if e.op == "ite" and e.args[1] is t:
        return ite(or_(c, e.args[0]), t, e.args[2])
    if t.type == BOOL:
        if t is TRUE and e is FALSE:
            return c
        if t is FALSE and e is TRUE:
            return not_(c)
        if e is FALSE:
            return and_(c, t)
        if t is TRUE:
            return or_(c, e)
        if t is FALSE:
            return and_(not_(c), e)
        if e is TRUE:
            return or_(not_(c), t)
    if c.op == "eq" and t.op == "const" and c.args[1] is t and c.args[0] is e and t.type != FLOAT:
        return e  # e == 3 ? 3 : e
    return _node("ite", t.type, (c, t, e))


def after(checks: tuple[Expr, ...], value: Expr) -> Expr:
    """``value``, once every check has been evaluated (for its failure only)."""
    needed = strict_parts(value)
    kept: list[Expr] = []
    for check in checks:
        if fails(check) and check not in needed and not any(check in strict_parts(k) for k in kept):
            kept.append(check)
    kept = [k for i, k in enumerate(kept) if not any(k in strict_parts(o) for o in kept[i + 1 :])]
    return _node("after", value.type, (*kept, value)) if kept else value


def overflows(a: Expr) -> Expr:
    """Whether the exact value of this operation does not fit in 64 bits.  It does not fail itself: a check asks for
    failures.

    >>> from pellucid.internal.expr.types import INT
    >>> overflows(add(var(0, INT), const(1))), overflows(var(0, INT)), overflows(binary("mod", var(0, INT), const(3)))
    (overflows(v0 + 1), False, False)
    """
    if a.type != INT or not OPERATIONS[a.op].overflows or (a.op == "floordiv" and not fails_here(a)):
        return FALSE
    return _node("overflows", BOOL, (a,))


# ---------------------------------------------------------------- identity across processes


def digest(*roots: Expr) -> str:
    """A short text that two processes agree on: equal for equal expressions.

    >>> from pellucid.internal.expr.types import INT
    >>> digest(var(0, INT)) == digest(var(0, INT)) != digest(var(1, INT))
    True
    """
    number: dict[int, int] = {}
    h = hashlib.sha256()
    for i, e in enumerate(walk(*roots)):
        number[id(e)] = i
        value = e.value.name if isinstance(e.value, enum.Enum) else e.value
        h.update(f"{e.op}|{e.type}|{value!r}|{[number[id(a)] for a in e.args]};".encode())
    h.update(repr([number[id(r)] for r in roots]).encode())
    return h.hexdigest()


# Expressions as readable text.

_IF, _NOT, _SIGN, _ATOM = 1, 4, 12, 20
_MAX_DEPTH = 100  # a loop of the user's may have made a long chain


def show(e: Expr, names: Sequence[str] | None = None, limit: int = 400) -> str:
    """The expression in Python's own notation, its parameters by the given names.

    >>> from pellucid.internal.expr.node import add, const, mul, var
    >>> from pellucid.internal.expr.types import INT
    >>> show(mul(add(var(0, INT), const(2)), const(3)), ["total"])
    '(total + 2) * 3'
    """
    return _show(e, names, [limit], _MAX_DEPTH)[0]


def _show(e: Expr, names: Sequence[str] | None, room: list[int], depth: int) -> tuple[str, int]:
    """The text, and how tightly its outermost operator binds."""
    room[0] -= 1
    if room[0] < 0 or depth == 0:
        return "…", _ATOM
    if e.op == "var":
        name = names[e.value] if names else f"v{e.value}"
        if name.endswith(f".{THERE}") and e.type == BOOL:
            return f"{name.removesuffix(f'.{THERE}')} is not None", 5
        return name, _ATOM
    if e.op == "const":
        text = str(e.value) if isinstance(e.value, enum.Enum) else repr(e.value)
        return text, (_SIGN if text.startswith("-") else _ATOM)
    if e.op == "raise":
        return "raise", _ATOM

    def part(a: Expr, least: int) -> str:
        text, binds = _show(a, names, room, depth - 1)
        return text if binds >= least else f"({text})"

    infix = OPERATIONS[e.op].infix
    if infix is not None:
        sign, binds = infix
        if e.op in ("lt", "le") and e.args[0].op == "const":  # as people write it: v > 20
            return f"{part(e.args[1], 6)} {'>' if e.op == 'lt' else '>='} {part(e.args[0], 6)}", binds
        # Comparisons do not chain here, and what stands on the right of - or // needs its brackets.
        left = binds + 1 if binds == 5 else binds
        return f"{part(e.args[0], left)} {sign} {part(e.args[1], binds + 1)}", binds
    if e.op == "not":
        inner = e.args[0]
        if inner.op == "var" and names and names[inner.value].endswith(f".{THERE}"):
            return f"{names[inner.value].removesuffix(f'.{THERE}')} is None", 5
        if inner.op == "eq":
            return f"{part(inner.args[0], 6)} != {part(inner.args[1], 6)}", 5
        return f"not {part(inner, _NOT)}", _NOT
    if e.op == "ite":
        c, yes, no = e.args
        return f"{part(yes, _IF + 1)} if {part(c, _IF + 1)} else {part(no, _IF)}", _IF
    if e.op in ("neg", "invert"):
        return f"{'-' if e.op == 'neg' else '~'}{part(e.args[0], _SIGN)}", _SIGN
    if e.op in ("call", "call_fails"):
        return (
            f"{e.value.name}({', '.join(part(a, 0) for a in e.args)}){' fails' if e.op == 'call_fails' else ''}",
            _ATOM,
        )
    return f"{OPERATIONS[e.op].name or e.op}({', '.join(part(a, 0) for a in e.args)})", _ATOM
