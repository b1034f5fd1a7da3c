"""The table of operations: each once, with what every target asks about it.

What an operation *is* stands here: what it means on values, when it fails, whether it looks at all its arguments, how
it is written.  How a target *writes* it (statements of a kernel, a solver's term, a column of Spark's) stands in a
table of that target; one that it does not name is refused by name, or for a reason of the target's own.

>>> OPERATIONS["floordiv"].meaning(-7, 2), OPERATIONS["ite"].lazy
(-4, True)

To add one: a row here, a function of `expr.node` that makes it, a row in `expr.rewrite`, and one in
each target that can have it; ``tests/expr/test_operations.py`` goes over all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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
