"""Linear relations between numbers, learned from points: the least affine space that holds them.

>>> hull = Hull(2)
>>> for point in [(0, 1), (1, 3), (5, 11)]:
...     _ = hull.join(point)
>>> hull.relations()  # 1 + 2·x - y = 0
[[1, 2, -1]]
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Any

Row = list[Fraction]


def _reduce(row: Row, basis: dict[int, Row]) -> Row:
    for at, other in basis.items():
        if row[at]:
            factor = row[at]
            row = [a - factor * b if b else a for a, b in zip(row, other, strict=True)]
    return row


def _insert(values: Iterable[int], basis: dict[int, Row]) -> bool:
    """Put a row into a basis in reduced echelon form; whether it was not spanned yet."""
    row = _reduce([Fraction(v) for v in values], basis)
    at = next((i for i, v in enumerate(row) if v), None)
    if at is None:
        return False
    row = [v / row[at] for v in row]
    for key, other in basis.items():
        if other[at]:
            basis[key] = _reduce(other, {at: row})
    basis[at] = row
    return True


class Hull:
    """The least affine space of a dimension that holds all the points joined to it."""

    def __init__(self, dimension: int) -> None:
        self.width = dimension + 1
        self._basis: dict[int, Row] = {}

    def __bool__(self) -> bool:
        return bool(self._basis)

    def join(self, point: Sequence[int]) -> bool:
        """Grow to hold the point; whether it grew."""
        return len(self._basis) < self.width and _insert([1, *point], self._basis)

    def relations(self) -> list[list[int]]:
        """A basis of the relations ``c0 + c1·x1 + … = 0`` that hold of all points, in whole numbers."""
        out = []
        for free in range(self.width):
            if free not in self._basis:
                row = [Fraction(0)] * self.width
                row[free] = Fraction(1)
                for at, other in self._basis.items():
                    row[at] = -other[free]
                scale = lcm(*(v.denominator for v in row))
                whole = [int(v * scale) for v in row]
                shared = gcd(*whole)
                first = next(v for v in whole if v)
                out.append([v // (shared if first > 0 else -shared) for v in whole])
        return out


def independent(known: Iterable[Sequence[int]], new: Iterable[list[int]]) -> list[list[int]]:
    """Those of the new relations that do not follow from the known ones and each other.

    >>> independent([[0, 1, -1]], [[0, 2, -2], [1, 1, 0]])
    [[1, 1, 0]]
    """
    basis: dict[int, Row] = {}
    for row in known:
        _insert(row, basis)
    return [row for row in new if _insert(row, basis)]


# What is exactly true of the arithmetic of doubles, as formulas over an order (`pellucid.check.smt.lemmas`).
#
# Each operation is the exact result of its arguments, rounded to the nearest double.  Rounding keeps the order, leaves
# doubles as they are, and is off by at most half a unit in the last place; results beyond the largest double are
# infinite.  From that follow, for finite arguments:
#
# * the result is within a part in 2**53 of the exact one, where that is linear in the arguments;
# * a double that is not below the exact result is not below the rounded one: zero, the arguments, their doubles, the
#   constants;
# * with arguments that are not below A and B a sum is not below the double A + B (and so on), for doubles near which
# the
#   arguments may lie.
#
# NaN and infinities go by the rules of IEEE 754.  Where Python raises (a division by zero) nothing is known of the
# value.

LARGEST = int(sys.float_info.max)
INFINITE = 2**1024
NOT_A_NUMBER = 2**1025
_UNIT = Fraction(1, 2**53)
_TINY = Fraction(1, 2**1075)  # half of the smallest double
_PAIRS = 40  # of operations that are compared with each other


@dataclass(frozen=True)
class FloatOperation:
    """An operation: its arguments, what it makes, and doubles near which each argument may lie."""

    op: str  # add, mul, truediv, sqrt or float_of_int
    args: tuple[Any, ...]
    made: Any
    near: tuple[tuple[float, ...], ...]
    whole: bool  # of ints
    inner: tuple[Any, ...] = ()  # the arguments of operations among the arguments: doubles, too

    @staticmethod
    def compute(op: str, args: tuple[float, ...]) -> float:
        """The same of doubles, in Python; NaN where that raises.

        >>> FloatOperation.compute("truediv", (1.0, 0.0)), FloatOperation.compute("add", (0.1, 0.2))
        (nan, 0.30000000000000004)
        """
        try:
            return float(FLOAT_OPERATIONS[op](*args))
        except (ArithmeticError, ValueError):
            return math.nan


#: The operations that give a float and of which facts are known, in Python.
FLOAT_OPERATIONS: dict[str, Any] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "truediv": lambda a, b: a / b,
    "sqrt": math.sqrt, "float_of_int": lambda a: a, "neg": lambda a: -a, "abs": abs,
}  # fmt: skip


def facts(z3: Any, operations: list[FloatOperation]) -> list[Any]:
    """All facts about these operations."""
    say = _Facts(z3)
    out = [fact for operation in operations for fact in say.of(operation)]
    many = 0
    # of two exact results the larger is not rounded to the smaller
    for one, other in itertools.combinations(operations, 2):
        x, y = say.exact(one), say.exact(other)
        if x is None or y is None or many >= _PAIRS:
            continue
        many += 1
        finite = z3.And(*[say.finite(a) for a in (*one.args, *other.args)])
        out.append(z3.Implies(z3.And(finite, x <= y), one.made <= other.made))
        out.append(z3.Implies(z3.And(finite, y <= x), other.made <= one.made))
    return out


class _Facts:
    def __init__(self, z3: Any) -> None:
        self.z3 = z3

    def finite(self, a: Any) -> Any:
        return self.z3.And(a >= -LARGEST, a <= LARGEST)

    def real(self, c: float | Fraction) -> Any:
        exact = Fraction(c)
        return self.z3.Q(exact.numerator, exact.denominator)

    def of(self, o: FloatOperation) -> list[Any]:
        """The facts about one operation."""
        z3, r = self.z3, o.made
        nan = z3.Or([a == NOT_A_NUMBER for a in o.args]) if not o.whole else z3.BoolVal(False)
        typed = z3.Or(self.finite(r), r == INFINITE, r == -INFINITE, r == NOT_A_NUMBER)
        finite = z3.And(*[self.finite(a) for a in o.args]) if not o.whole else z3.BoolVal(True)
        out = [typed, z3.Implies(nan, r == NOT_A_NUMBER)]
        out += getattr(self, f"_{o.op}")(o)
        exact = self.exact(o)
        if exact is not None:
            out += [z3.Implies(finite, fact) for fact in self._rounded(o, exact)]
        return out

    def exact(self, o: FloatOperation) -> Any:
        """The exact result of finite arguments, where it is linear in them; None: it is not."""
        if o.op == "add":
            return o.args[0] + o.args[1]
        if o.op == "float_of_int":
            return o.args[0]
        if o.op in ("mul", "truediv"):
            (a, b), fixed = o.args, [self._number(x) for x in o.args]
            if fixed[1] is not None and abs(fixed[1]) <= LARGEST and (o.op == "mul" or fixed[1] != 0):
                return a * self.real(fixed[1] if o.op == "mul" else 1 / fixed[1])
            if o.op == "mul" and fixed[0] is not None and abs(fixed[0]) <= LARGEST:
                return self.real(fixed[0]) * b
        return None

    def _number(self, x: Any) -> Fraction | None:
        return Fraction(x.numerator_as_long(), x.denominator_as_long()) if self.z3.is_rational_value(x) else None

    def _rounded(self, o: FloatOperation, x: Any) -> list[Any]:
        """How far from the exact result, and on which side of some doubles."""
        z3, r = self.z3, o.made
        off = z3.If(x >= 0, x, -x) * self.real(_UNIT)
        if o.op in ("mul", "truediv"):
            off = off + self.real(_TINY)
        inside = z3.And(x >= -LARGEST, x <= LARGEST)
        out = [
            z3.Implies(inside, z3.And(self.finite(r), r - x <= off, x - r <= off)),
            z3.Implies(x > LARGEST, z3.Or(r == LARGEST, r == INFINITE)),
            z3.Implies(x < -LARGEST, z3.Or(r == -LARGEST, r == -INFINITE)),
            z3.Implies(x >= INFINITE, r == INFINITE), z3.Implies(x <= -INFINITE, r == -INFINITE),
        ]  # fmt: skip
        doubles = [self.real(0)]
        if not o.whole and o.op != "float_of_int":
            for a in o.args:
                if self._number(a) is None:
                    doubles += [a, -a]
                    if o.op == "add":  # twice a double is one, unless it is too large
                        out += [
                            z3.Implies(
                                self.finite(2 * a),
                                z3.And(z3.Implies(x >= 2 * a, r >= 2 * a), z3.Implies(x <= 2 * a, r <= 2 * a)),
                            )
                        ]
        out += [
            z3.Implies(self.finite(d), z3.And(z3.Implies(x >= d, r >= d), z3.Implies(x <= d, r <= d))) for d in o.inner
        ]
        near = sorted({c for part in o.near for c in part})
        doubles += [self.real(c) for c in (*near[:4], *near[4:][-4:])]
        out += [z3.And(z3.Implies(x >= d, r >= d), z3.Implies(x <= d, r <= d)) for d in doubles]
        if o.op in ("float_of_int", "add"):
            out.append(
                z3.Implies(x == 0, r == 0) if o.op == "add" else z3.Implies(z3.And(x >= -(2**53), x <= 2**53), r == x)
            )
        return out

    # ------------------------------------------------------------ one operation each

    def _add(self, o: FloatOperation) -> list[Any]:
        z3, (a, b), r = self.z3, o.args, o.made
        out = [z3.Implies(z3.And(self.finite(a), self.finite(b)), r != NOT_A_NUMBER)]
        for x, y in ((a, b), (b, a)):
            for end in (INFINITE, -INFINITE):
                out += [z3.Implies(z3.And(x == end, y == -end), r == NOT_A_NUMBER)]
                out += [z3.Implies(z3.And(x == end, y != -end, y != NOT_A_NUMBER), r == end)]
        for c, d in itertools.product(*o.near):
            out += self._at(
                "add",
                r,
                (c, d),
                z3.And(a >= self.real(c), b >= self.real(d)),
                z3.And(a <= self.real(c), b <= self.real(d)),
            )
        return out

    def _float_of_int(self, o: FloatOperation) -> list[Any]:
        return [o.made != NOT_A_NUMBER]

    def _mul(self, o: FloatOperation) -> list[Any]:
        z3, (a, b), r = self.z3, o.args, o.made
        number = z3.And(a != NOT_A_NUMBER, b != NOT_A_NUMBER)
        out = [z3.Implies(z3.And(self.finite(a), self.finite(b)), r != NOT_A_NUMBER)]
        size = {v.get_id(): z3.If(v >= 0, v, -v) for v in (a, b, r)}
        for x, y in ((a, b), (b, a)):
            out += [
                z3.Implies(z3.And(size[x.get_id()] == INFINITE, y == 0), r == NOT_A_NUMBER),
                z3.Implies(z3.And(number, size[x.get_id()] == INFINITE, y != 0), size[r.get_id()] == INFINITE),
                z3.Implies(z3.And(self.finite(x), y == 0), r == 0),
                z3.Implies(z3.And(self.finite(x), size[y.get_id()] <= 1), size[r.get_id()] <= size[x.get_id()]),
                z3.Implies(z3.And(number, size[y.get_id()] >= 1, r != NOT_A_NUMBER),
                           size[r.get_id()] >= size[x.get_id()]),
                z3.Implies(z3.And(number, y == 1), r == x), z3.Implies(z3.And(number, y == -1), r == -x),
            ]  # fmt: skip
        meets = z3.And(number, r != NOT_A_NUMBER)
        same = z3.Or(z3.And(a >= 0, b >= 0), z3.And(a <= 0, b <= 0))
        other = z3.Or(z3.And(a >= 0, b <= 0), z3.And(a <= 0, b >= 0))
        out += [z3.Implies(z3.And(meets, same), r >= 0), z3.Implies(z3.And(meets, other), r <= 0)]
        x, y = size[a.get_id()], size[b.get_id()]
        for c, d in {(abs(c), abs(d)) for c, d in itertools.product(*o.near)}:
            made = FloatOperation.compute("mul", (c, d))
            if math.isfinite(made):
                low, high = z3.And(x >= self.real(c), y >= self.real(d)), z3.And(x <= self.real(c), y <= self.real(d))
                out.append(z3.Implies(z3.And(meets, low), size[r.get_id()] >= self.real(made)))
                out.append(z3.Implies(z3.And(meets, high), size[r.get_id()] <= self.real(made)))
        return out

    def _truediv(self, o: FloatOperation) -> list[Any]:
        z3, (a, b), r = self.z3, o.args, o.made
        size = {v.get_id(): z3.If(v >= 0, v, -v) for v in (a, b, r)}
        x, y, z = (size[v.get_id()] for v in (a, b, r))
        finite = z3.And(b != 0, z3.BoolVal(True) if o.whole else z3.And(self.finite(a), self.finite(b)))
        meets = z3.And(b != 0, r != NOT_A_NUMBER, *([] if o.whole else [a != NOT_A_NUMBER, b != NOT_A_NUMBER]))
        same = z3.Or(z3.And(a >= 0, b > 0), z3.And(a <= 0, b < 0))
        out = [
            z3.Implies(finite, r != NOT_A_NUMBER),
            z3.Implies(z3.And(meets, same), r >= 0), z3.Implies(z3.And(meets, z3.Not(same), a != 0), r <= 0),
            z3.Implies(z3.And(finite, a == 0), r == 0),
            z3.Implies(z3.And(finite, x <= y), z <= 1), z3.Implies(z3.And(finite, x >= y), z >= 1),
        ]  # fmt: skip
        if not o.whole:
            out += [
                z3.Implies(z3.And(finite, y >= 1), z <= x), z3.Implies(z3.And(finite, y <= 1), z >= x),
                z3.Implies(z3.And(x == INFINITE, y == INFINITE), r == NOT_A_NUMBER),
                z3.Implies(z3.And(x == INFINITE, self.finite(b), b != 0), z == INFINITE),
                z3.Implies(z3.And(self.finite(a), y == INFINITE), r == 0),
            ]  # fmt: skip
        for c, d in {(abs(c), abs(d)) for c, d in itertools.product(*o.near)}:
            made = FloatOperation.compute("truediv", (c, d))
            if math.isfinite(made):
                out.append(z3.Implies(z3.And(finite, x <= self.real(c), y >= self.real(d)), z <= self.real(made)))
                out.append(z3.Implies(z3.And(finite, x >= self.real(c), y <= self.real(d)), z >= self.real(made)))
        for c in {abs(c) for c in o.near[0]}:  # a <= c * b is a / b <= c, exactly
            out.append(z3.Implies(z3.And(finite, x <= self.real(c) * y), z <= self.real(c)))
            out.append(z3.Implies(z3.And(finite, x >= self.real(c) * y), z >= self.real(c)))
        return out

    def _sqrt(self, o: FloatOperation) -> list[Any]:
        z3, (a,), r = self.z3, o.args, o.made
        there = z3.And(a >= 0, a != NOT_A_NUMBER)
        out = [
            z3.Implies(there, z3.And(r >= 0, r != NOT_A_NUMBER)), z3.Implies(a == 0, r == 0),
            z3.Implies(a == INFINITE, r == INFINITE),
            z3.Implies(self.finite(a), z3.Or(self.finite(r), r == NOT_A_NUMBER)),
            z3.Implies(z3.And(there, a >= 1), z3.And(r >= 1, r <= a)),
            z3.Implies(z3.And(there, a <= 1), z3.And(r <= 1, r >= a)),
        ]  # fmt: skip
        for (c,) in itertools.product(*o.near):
            if c >= 0:
                out += self._at("sqrt", r, (c,), z3.And(there, a >= self.real(c)), z3.And(there, a <= self.real(c)))
        return out

    def _at(self, op: str, r: Any, at: tuple[float, ...], low: Any, high: Any) -> list[Any]:
        """Where all arguments are above, or below, some doubles the result is on the same side of theirs."""
        made = FloatOperation.compute(op, at)
        if not math.isfinite(made):
            return []
        z3, value = self.z3, self.real(made)
        number = z3.And(r != NOT_A_NUMBER)
        return [z3.Implies(z3.And(low, number), r >= value), z3.Implies(z3.And(high, number), r <= value)]
