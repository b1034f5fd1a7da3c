"""From the leaves of one type to those of a wider one: an int as a float, a value as an optional one.

>>> from pellucid.internal.expr.node import var
>>> from pellucid.internal.expr.types import FLOAT, INT, OptionalType
>>> convert([var(0, INT)], INT, OptionalType(FLOAT))
[True, float(v0)]
"""

from __future__ import annotations

from collections.abc import Sequence

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import (
    BOOL,
    FLOAT,
    INT,
    NOTHING,
    DecimalType,
    ListType,
    OptionalType,
    RecordType,
    TimeType,
    TupleType,
    Type,
    simplest,
)


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
