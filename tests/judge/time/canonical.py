"""The one order in which equal times are told apart: the whole event, leaf by leaf, what is missing first."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any

__all__ = ["canonical"]


def canonical(value: Any) -> tuple[Any, ...]:
    """What to sort by.  Two events of one type always have an order; only equal ones have none.

    >>> sorted([2.0, None, float("nan"), 0.0, -0.0], key=canonical)
    [None, -0.0, 0.0, 2.0, nan]
    """
    if value is None:
        return (0,)
    if isinstance(value, enum.Enum):
        return (1, list(type(value)).index(value))
    if isinstance(value, float):
        if math.isnan(value):
            return (1, 1, 0.0, 0.0)
        return (1, 0, value, math.copysign(1.0, value))
    if dataclasses.is_dataclass(value):
        return (1, *(canonical(getattr(value, part.name)) for part in dataclasses.fields(value)))
    if isinstance(value, (tuple, list)):
        return (1, *(canonical(part) for part in value))
    return (1, value)
