"""Random expressions over one fixed row of leaves, and rows full of extremes."""

from __future__ import annotations

import enum
import math
import random
from typing import Any

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, STR, Type, type_of


class Side(enum.Enum):
    BUY = "b"
    SELL = "s"
    HOLD = 7


SIDE = type_of(Side)
KINDS: list[Type] = [INT, INT, FLOAT, FLOAT, BOOL, STR, SIDE]
NAMES = ["i", "j", "f", "g", "b", "s", "e"]

INTS = [
    0,
    1,
    -1,
    2,
    -2,
    3,
    7,
    -7,
    10,
    63,
    64,
    100,
    2**31,
    -(2**31),
    2**53,
    2**53 + 1,
    -(2**53) - 1,
    2**62,
    INT_MAX,
    INT_MAX - 1,
    INT_MIN,
    INT_MIN + 1,
]
FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    3.0,
    7.25,
    1e16,
    2.0**53,
    2.0**53 + 2,
    2.0**62,
    2.0**63,
    -(2.0**63),
    1e300,
    -1e300,
    5e-324,
    math.inf,
    -math.inf,
]
TEXTS = ["", "a", "b", "buy", "é", "\uffff", "\U0001f600", "a\U0001f600", "x y", "BUY"]


def row(rng: random.Random) -> tuple[Any, ...]:
    """One row of leaves; half of the numbers are extreme."""

    def number() -> int:
        return rng.choice([rng.choice(INTS), rng.randint(-20, 20), rng.randint(INT_MIN, INT_MAX)])

    def real() -> float:
        return rng.choice([rng.choice(FLOATS), rng.uniform(-10, 10), float(number())])

    return number(), number(), real(), real(), rng.random() < 0.5, rng.choice(TEXTS), rng.choice(list(Side))


_WHOLE = [0, 1, -1, 7, -7, 2**53 + 1, INT_MAX, INT_MIN]
_REAL = [0.0, -0.0, 2.5, -1.0, 2.0**63, 2.0**53, math.inf, -math.inf]
# Every pair of extreme ints, and every pair of extreme floats.
CORNERS = [
    (a, b, _REAL[i], _REAL[j], (i + j) % 2 == 0, TEXTS[(3 * i + j) % len(TEXTS)], list(Side)[(i + j) % 3])
    for i, a in enumerate(_WHOLE)
    for j, b in enumerate(_WHOLE)
]


class Maker:
    """Makes expressions of a given type and depth."""

    def __init__(self, rng: random.Random, *, raises: bool = True) -> None:
        self.rng = rng
        self.raises = raises

    def leaf(self, t: Type) -> Expr:
        r = self.rng
        if r.random() < 0.65:
            return n.var(r.choice([i for i, kind in enumerate(KINDS) if kind == t]), t)
        if t == INT:
            return n.const(r.choice(INTS))
        if t == FLOAT:
            return n.const(r.choice(FLOATS + [math.nan]))
        if t == BOOL:
            return n.const(r.random() < 0.5)
        return n.const(r.choice(TEXTS) if t == STR else r.choice(list(Side)))

    def make(self, t: Type, depth: int) -> Expr:
        r = self.rng
        if depth == 0 or r.random() < 0.1:
            return self.leaf(t)
        roll = r.random()
        sub = depth - 1
        if roll < 0.12:
            return n.ite(self.make(BOOL, sub), self.make(t, sub), self.make(t, sub))
        if roll < 0.16:
            return n.after((self.make(r.choice([INT, FLOAT, BOOL, STR]), sub),), self.make(t, sub))
        if roll < 0.18 and self.raises:
            return n.ite(self.make(BOOL, sub), n.raise_(0, t), self.make(t, sub))
        if t == INT:
            return self.integer(sub)
        if t == FLOAT:
            return self.real(sub)
        if t == BOOL:
            return self.truth(sub)
        return self.leaf(t)

    def integer(self, sub: int) -> Expr:
        r = self.rng
        op = r.choice(
            [
                "add",
                "sub",
                "mul",
                "add",
                "mul",
                "floordiv",
                "mod",
                "floordiv",
                "mod",
                "band",
                "bor",
                "bxor",
                "shl",
                "shr",
                "neg",
                "abs",
                "invert",
                "bool",
                "trunc",
                "floor",
                "ceil",
            ]
        )
        if op in ("neg", "abs", "invert"):
            return n.unary(op, self.make(INT, sub))
        if op == "bool":
            return n.int_of_bool(self.make(BOOL, sub))
        if op in ("trunc", "floor", "ceil"):
            return n.round_to_int(op, self.make(FLOAT, sub))
        a = self.make(INT, sub)
        if op in ("shl", "shr") and r.random() < 0.7:
            amount = (
                n.const(r.choice([0, 1, 3, 31, 62, 63, 64, 70]))
                if r.random() < 0.5
                else n.binary("band", self.make(INT, 0), n.const(7))
            )
            return n.binary(op, a, amount)
        if r.random() < 0.4:
            return n.binary(op, a, n.const(r.choice(INTS)))
        return n.binary(op, a, self.make(INT, sub))

    def real(self, sub: int) -> Expr:
        r = self.rng
        op = r.choice(
            ["add", "sub", "mul", "truediv", "mod", "floordiv", "neg", "abs", "sqrt", "float", "quotient", "add", "mul"]
        )
        if op in ("neg", "abs"):
            return n.unary(op, self.make(FLOAT, sub))
        if op == "sqrt":
            return n.sqrt(self.make(FLOAT, sub))
        if op == "float":
            return n.float_of_int(self.make(INT, sub))
        if op == "quotient":
            small = n.binary("mod", self.make(INT, 0), n.const(r.choice([10, -1000])))
            return n.binary(
                "truediv",
                r.choice([small, self.make(INT, sub)]),
                n.const(r.choice([4, -8, 3, 2**62])) if r.random() < 0.6 else small,
            )
        return n.binary(op, self.make(FLOAT, sub), self.make(FLOAT, sub))

    def truth(self, sub: int) -> Expr:
        r = self.rng
        op = r.choice(
            ["and", "or", "not", "and", "or", "compare", "compare", "compare", "mixed", "text", "enum", "eqb"]
        )
        if op == "not":
            return n.not_(self.make(BOOL, sub))
        if op in ("and", "or"):
            return (n.and_ if op == "and" else n.or_)(self.make(BOOL, sub), self.make(BOOL, sub))
        if op == "enum":
            return n.eq(self.make(SIDE, 0), self.make(SIDE, 0))
        if op == "eqb":
            return n.eq(self.make(BOOL, sub), self.make(BOOL, sub))
        how = r.choice([n.eq, n.lt, n.le])
        if op == "text":
            return how(self.make(STR, sub), self.make(STR, sub))
        kinds = r.choice([(INT, INT), (FLOAT, FLOAT)]) if op == "compare" else r.choice([(INT, FLOAT), (FLOAT, INT)])
        return how(self.make(kinds[0], sub), self.make(kinds[1], sub))
