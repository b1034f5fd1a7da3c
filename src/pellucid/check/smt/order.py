"""Floats as an order: what is exactly true of doubles, told to z3 in linear arithmetic instead of bits.

A double stands for its real number, an infinity for a number beyond them all, NaN for one beyond that.  What an
operation makes is the value of an unknown function, of which only facts are told that hold of IEEE arithmetic
(`solve.float_facts`).  So

* "nothing satisfies it" is a proof, and is mostly found at once, where bits take minutes;
* a model may be none of doubles: it counts only if the run replays with doubles in Python.

That 0.0 and -0.0 are one number here loses nothing: no operation tells them apart (``1 / -0.0`` raises, as ``1 / 0.0``
does).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from pellucid.check.smt.encode import Encoding
from pellucid.check.system.build import System
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.types import FLOAT, INT, Type
from pellucid.internal.solve.float_facts import FLOAT_OPERATIONS, INFINITE, LARGEST, NOT_A_NUMBER, FloatOperation, facts

_INNER = 6  # arguments of inner operations with which a result is compared


class Ordered(Encoding):
    """A system as z3 terms in which floats are numbers with an order.

    ``roots`` are all expressions with floats that will be asked for: what is known of their operations is part of
    ``assume``.
    """

    def __init__(self, system: System, roots: Sequence[Expr]) -> None:
        self.roots = tuple(roots)
        self.operations: dict[int, FloatOperation] = {}
        self._functions: dict[str, Any] = {}
        self._near_constants: dict[int, tuple[float, ...]] = {}
        self._constants = _constants(system, roots)
        super().__init__(system)
        self.terms(self.roots)
        self.facts = facts(self.z3, list(self.operations.values()))
        self.assume = self.z3.And(self.assume, *self.facts)

    def again(self) -> Ordered:
        return Ordered(self.system, self.roots)

    def settled(self, terms: Sequence[Any], pairs: list[tuple[Any, Any]]) -> list[Any]:
        """Each operation has the value that it has in Python."""
        z3, pairs = self.z3, list(pairs)
        for o in self.operations.values():  # inner ones come first
            values = [z3.simplify(z3.substitute(a, *pairs)) for a in o.args]
            if not all(map(z3.is_rational_value, values)):
                return []
            whole = o.whole or o.op == "float_of_int"
            given = tuple(v.numerator_as_long() if whole else self.python(FLOAT, v) for v in values)
            pairs.append((o.made, self.value(FLOAT, FloatOperation.compute(o.op, given))))
        return super().settled(terms, pairs)

    # ------------------------------------------------------------ values and variables

    def constant(self, name: str, t: Type) -> Any:
        return self.z3.Real(name) if t == FLOAT else super().constant(name, t)

    def value(self, t: Type, v: Any) -> Any:
        if t != FLOAT:
            return super().value(t, v)
        if math.isnan(v) or math.isinf(v):
            return self.z3.RealVal(NOT_A_NUMBER if math.isnan(v) else INFINITE if v > 0 else -INFINITE)
        exact = Fraction(v)
        return self.z3.Q(exact.numerator, exact.denominator)

    def python(self, t: Type, v: Any) -> Any:
        if t != FLOAT:
            return super().python(t, v)
        exact = Fraction(v.numerator_as_long(), v.denominator_as_long())
        if exact > INFINITE:
            return math.nan
        if abs(exact) > LARGEST:
            return math.inf if exact > 0 else -math.inf
        return float(exact)

    def bounds(self, t: Type, v: Any) -> list[Any]:
        if t != FLOAT:
            return super().bounds(t, v)
        return [self.z3.Or(self.finite(v), v == INFINITE, v == -INFINITE, v == NOT_A_NUMBER)]

    def not_nan(self, v: Any) -> Any:
        return v != NOT_A_NUMBER

    def finite(self, v: Any) -> Any:
        """A double that is neither infinite nor NaN."""
        return self.z3.And(v >= -LARGEST, v <= LARGEST)

    # ------------------------------------------------------------ expressions

    def terms(self, roots: Sequence[Expr]) -> list[Any]:
        for e in walk(*roots):
            if id(e) not in self._near_constants:
                self._near_constants[id(e)] = self._near_of(e)
        return super().terms(roots)

    def _compare(self, op: str, args: list[Any], kinds: list[Type]) -> Any:
        z3, (a, b) = self.z3, args
        if FLOAT not in kinds:
            return super()._compare(op, args, kinds)
        numbers = [self.not_nan(v) for v, t in zip(args, kinds, strict=True) if t == FLOAT]
        if kinds[0] == kinds[1]:
            return z3.And(*numbers, {"eq": a == b, "lt": a < b, "le": a <= b}[op])
        # An int may be larger than any double, but not than infinity.
        double, left = (a, True) if kinds[0] == FLOAT else (b, False)
        x, y = (a, z3.ToReal(b)) if left else (z3.ToReal(a), b)
        exact = {"eq": x == y, "lt": x < y, "le": x <= y}[op]
        above = z3.BoolVal(False) if op == "eq" else (double < 0) == z3.BoolVal(left)
        return z3.And(*numbers, z3.If(self.finite(double), exact, above))

    def _to_constant(self, e: Expr, args: list[Any], kinds: list[Type]) -> Any:
        return None

    def _one(self, e: Expr, args: list[Any]) -> Any:
        if e.type == FLOAT and e.op in FLOAT_OPERATIONS:
            return self._operation(e, args)
        if e.op in ("trunc", "floor", "ceil", "nearest"):
            (a,), z3 = args, self.z3
            down, up = z3.ToInt(a), -z3.ToInt(-a)
            twice = 2 * a - 2 * z3.ToReal(down)  # where it stands between the two
            near = z3.If(z3.Or(twice < 1, z3.And(twice == 1, down % 2 == 0)), down, up)
            whole = {"floor": down, "ceil": up, "trunc": z3.If(a >= 0, down, up), "nearest": near}[e.op]
            return z3.If(self.finite(a), whole, z3.IntVal(0))
        return super()._one(e, args)

    def _operation(self, e: Expr, args: list[Any]) -> Any:
        z3, op, a = self.z3, e.op, args[0]
        near = [self._near_constants[id(x)] for x in e.args]
        if op in ("neg", "abs"):
            return self._minus(a) if op == "neg" else z3.If(a < 0, -a, a)
        args = [z3.ToReal(x) if t.type == INT else x for x, t in zip(args, e.args, strict=True)]
        if op == "sub":  # a - b is a + -b, of infinities and NaN as well
            op, args, near = "add", [args[0], self._minus(args[1])], [near[0], tuple(-c for c in near[1])]
        if op in ("add", "mul") and args[1].get_id() < args[0].get_id():
            args, near = args[::-1], near[::-1]  # they commute: so a + b and b + a are one term
        whole = all(x.type == INT for x in e.args)
        name = f"{op} of ints" if whole and op == "truediv" else op
        if name not in self._functions:
            self._functions[name] = z3.Function(name, *[z3.RealSort()] * (len(args) + 1))
        made = self._functions[name](*args)
        inside = [self.operations[x.get_id()] for x in args if x.get_id() in self.operations]
        inner = {
            d.get_id(): d
            for o in inside
            if not o.whole and o.op != "float_of_int"
            for d in (*o.args, *o.inner)
            if not z3.is_rational_value(d)
        }
        self.operations[made.get_id()] = FloatOperation(
            op, tuple(args), made, tuple(near), whole, tuple(inner.values())[:_INNER]
        )
        return made

    def _minus(self, a: Any) -> Any:
        return self.z3.If(self.not_nan(a), -a, a)

    def _near_of(self, e: Expr) -> tuple[float, ...]:
        """Doubles near which an expression may lie: where the operations on it are looked at one by one."""
        if e.type == INT:
            return tuple(
                sorted(
                    {float(c) for c in self._constants if c == int(c) and abs(c) <= 2**53}
                    | ({float(e.value)} if e.op == "const" and abs(e.value) <= 2**53 else set())
                )
            )[:8]
        if e.type != FLOAT:
            return ()
        if e.op in ("const", "raise"):
            return (e.value,) if e.op == "const" and math.isfinite(e.value) else ()
        if e.op == "var":
            return self._constants
        parts = [self._near_constants[id(a)] for a in e.args if a.type in (INT, FLOAT)]
        if e.op in ("ite", "after"):
            found = {c for part in parts for c in part}
        elif e.op not in FLOAT_OPERATIONS:  # an answer of a function, or an operation that is refused by name
            return ()
        elif len(parts) == 2:
            found = {FloatOperation.compute(e.op, (a, b)) for a in parts[0] for b in parts[1]}
        else:
            found = {FloatOperation.compute(e.op, (a,)) for a in parts[0]} if parts else set()
        kept = sorted((c for c in found if math.isfinite(c)), key=lambda c: (abs(c), c))
        few = {*kept[:4], *(kept and (min(kept), max(kept), kept[-1])), 0.0}
        return tuple(sorted(few))


def _constants(system: System, roots: Sequence[Expr]) -> tuple[float, ...]:
    """The constants of a system that matter to floats, the smallest first; with zero, and what floats start with."""
    found = {float(v.start) for v in system.state if v.type == FLOAT}
    for e in walk(*system.next, *roots, system.assume):
        if e.op in ("eq", "lt", "le") and FLOAT in (a.type for a in e.args):
            found |= {float(a.value) for a in e.args if a.op == "const" and abs(a.value) <= 2**53}
    few = sorted((c for c in found if math.isfinite(c)), key=lambda c: (abs(c), c))
    return tuple(sorted({0.0, *few[:7], *few[-1:]}))
