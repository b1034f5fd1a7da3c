"""When two events are the same: NaN is itself, though Python finds it unequal to itself, and a zero is one whatever its
sign."""

from __future__ import annotations

import dataclasses
from typing import Any

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import FLOAT


def alike(a: Any, b: Any) -> bool:
    """Whether two events are the same.

    >>> alike(float("nan"), float("nan")), alike((1, 0.0), (1, -0.0)), alike(1.0, 2.0)
    (True, True, False)
    """
    if a == b or (isinstance(a, float) and isinstance(b, float) and a != a and b != b):
        return True
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if dataclasses.is_dataclass(a) and type(a) is type(b):
        return all(alike(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    return False


def alike_leaves(x: Expr, y: Expr) -> Expr:
    """The same of leaves, as an expression.

    >>> alike_leaves(n.var(0, FLOAT), n.var(0, FLOAT)).value
    True
    """
    if x is y:
        return n.TRUE
    equal = n.eq(x, y)
    if x.type != FLOAT or y.type != FLOAT:
        return equal
    return n.or_(equal, n.and_(n.not_(n.eq(x, x)), n.not_(n.eq(y, y))))
