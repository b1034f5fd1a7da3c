"""The one order of events with equal times: by the whole event, leaf by leaf, whatever order they came in.

None comes first; False before True, enums by their place in the class, texts by code points, floats by value, -0.0
before 0.0 and NaN last.

>>> from pellucid.internal.expr.types import FLOAT, type_of
>>> rank = ranking(type_of(float | None))
>>> sorted([0.0, float("nan"), None, -0.0, -1.0], key=rank)
[None, -1.0, -0.0, 0.0, nan]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pellucid.internal.expr.types import FLOAT, EnumType, Type


def ranking(t: Type | None) -> Callable[[Any], tuple[Any, ...]]:
    """What to compare events of a type by (of no type: nothing, they are all equal)."""
    if t is None:
        return lambda event: ()
    ranks = [_leaf(kind) for _, kind in t.leaves()]
    return lambda event: tuple(rank(leaf) for rank, leaf in zip(ranks, t.flatten(event), strict=True))


def _leaf(kind: Type) -> Callable[[Any], Any]:
    if kind == FLOAT:
        return _float
    if isinstance(kind, EnumType):
        place = {member: i for i, member in enumerate(kind.members)}
        return place.__getitem__
    return lambda leaf: leaf


def _float(value: float) -> tuple[bool, float, float]:
    if math.isnan(value):
        return True, 0.0, 0.0
    return False, value, math.copysign(1.0, value)
