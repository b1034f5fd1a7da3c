"""Terms of a formula with their types, and what is done with times, decimals and values that may be missing.

Equality is Python's: what is missing equals ``None`` and nothing else.  An order, or a calculation, is of values: where
one is missing, the comparison does not hold.  A text beside a time is the time that it spells (ISO 8601), a number
beside a decimal is that decimal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from pellucid.check.formula.terms import Calc
from pellucid.errors import UsageError
from pellucid.internal.data.spelled import number_of
from pellucid.internal.expr import node as n
from pellucid.internal.expr.convert import convert
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import (
    DATE,
    DATETIME,
    FLOAT,
    INSTANT,
    INT,
    NOTHING,
    STR,
    TIMEDELTA,
    DecimalType,
    OptionalType,
    TimeType,
    Type,
    join,
    type_of_value,
)
from pellucid.internal.expr.types.times import DAY


@dataclass(frozen=True)
class Typed:
    """A term with its type: the leaves of its value, and what must be so for it to have one (first: events)."""

    text: str
    type: Type
    leaves: tuple[Expr, ...]
    needs: Mapping[str, Expr] = field(default_factory=dict)
    event: bool = False  # made of events, so that Mod(N) applies
    presence: bool = False


def opened(term: Typed) -> Typed:
    """The value of an optional term, which must be there."""
    if not isinstance(term.type, OptionalType):
        return term
    needs = {**term.needs, f"{term.text} != None": term.leaves[0]}
    return dataclasses.replace(term, type=term.type.inner, leaves=term.leaves[1:], needs=needs)


def alike(left: Typed, right: Typed, op: str) -> tuple[Typed, Typed]:
    """Two sides of a comparison as values of one type, where there is one that holds both."""
    if op not in ("=", "!="):
        left, right = opened(left), opened(right)
    left, right = _read(left, right.type), _read(right, left.type)
    rich = (OptionalType, TimeType, DecimalType)
    if left.type == right.type or not (isinstance(left.type, rich) or isinstance(right.type, rich)):
        return left, right
    common = join(left.type, right.type)
    if common is None:
        return left, right
    return _as(left, common), _as(right, common)


def _as(term: Typed, t: Type) -> Typed:
    leaves = convert(term.leaves, term.type, t)
    return term if leaves is None else dataclasses.replace(term, type=t, leaves=tuple(leaves))


def _read(term: Typed, beside: Type) -> Typed:
    """A constant as what stands beside it would have it."""
    inner = beside.inner if isinstance(beside, OptionalType) else beside
    if len(term.leaves) != 1 or term.leaves[0].op != "const":
        return term
    value = term.leaves[0].value
    if isinstance(inner, TimeType) and term.type == STR:
        try:
            return dataclasses.replace(term, type=inner, leaves=(n.const(number_of(inner, value)),))
        except ValueError as error:
            raise UsageError(f"{term.text} beside {inner}: {error}") from None
    if isinstance(inner, DecimalType) and term.type == FLOAT:
        try:
            exact = Decimal(term.text)  # as it is written: a float is another number beyond 15 digits
        except InvalidOperation:
            exact = Decimal(repr(value))
        t = type_of_value(exact)
        if isinstance(t, DecimalType) and t.problem(exact) is None:
            return dataclasses.replace(term, type=t, leaves=(n.const(t.flatten(exact)[0]),))
    return term


def calculated(term: Calc, args: Sequence[Typed]) -> Typed | None:
    """A sum, a difference or a product in which there are times or decimals; None where there are none."""
    if len(args) == 2:
        args = [_read(args[0], _span_of(args[1].type)), _read(args[1], _span_of(args[0].type))]
    kinds = [arg.type for arg in args]
    if not any(isinstance(kind, (TimeType, DecimalType)) for kind in kinds):
        return None
    found = _decimals(term.op, args) if any(isinstance(k, DecimalType) for k in kinds) else _times(term.op, args)
    if found is None:
        shown = " and ".join(f"{arg.text} is {arg.type}" for arg in args)
        raise UsageError(f"in {term}: {shown}: {term.op} has no meaning there")
    t, e = found
    needs: dict[str, Any] = {name: needed for arg in args for name, needed in arg.needs.items()}
    return Typed(str(term), t, (e,), needs, any(arg.event for arg in args))


def _span_of(t: Type) -> Type:
    """What a text beside a time means in a sum: a span of time."""
    return TIMEDELTA if isinstance(t, TimeType) else t


def _times(op: str, args: Sequence[Typed]) -> tuple[Type, Expr] | None:
    kinds, leaves = [arg.type for arg in args], [arg.leaves[0] for arg in args]
    if len(args) == 1:
        return (TIMEDELTA, n.neg(leaves[0])) if kinds == [TIMEDELTA] else None
    if op == "*" and sorted(map(str, kinds)) == ["int", "timedelta"]:
        return TIMEDELTA, n.mul(*leaves)
    if op not in ("+", "-"):
        return None
    made = n.add if op == "+" else n.sub
    if kinds == [TIMEDELTA, TIMEDELTA] or (kinds[0] in (DATETIME, INSTANT) and kinds[1] == TIMEDELTA):
        return kinds[0], made(*leaves)
    if op == "-" and kinds[0] == kinds[1]:
        apart = n.sub(*leaves)
        return TIMEDELTA, n.mul(apart, n.const(DAY)) if kinds[0] == DATE else apart
    return None


def _decimals(op: str, args: Sequence[Typed]) -> tuple[Type, Expr] | None:
    if any(arg.type != INT and not isinstance(arg.type, DecimalType) for arg in args):
        return None
    if len(args) == 1:
        return args[0].type, n.neg(args[0].leaves[0])
    places = [arg.type.places if isinstance(arg.type, DecimalType) else 0 for arg in args]
    if op == "*":
        return DecimalType(sum(places)), n.mul(args[0].leaves[0], args[1].leaves[0])
    common = DecimalType(max(places))
    a, b = (_as(arg, common).leaves[0] for arg in args)
    return (common, n.add(a, b) if op == "+" else n.sub(a, b)) if op in ("+", "-") else None


NONE = Typed("None", NOTHING, ())
