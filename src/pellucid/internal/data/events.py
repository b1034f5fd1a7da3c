"""Events that are Python objects, each checked, as the columns of a source."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pellucid.internal.data.bind import Place, no_nan
from pellucid.internal.data.columns import Column, columns_of
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, ListType, Type, conform, simplest
from pellucid.internal.expr.types.lists import has_nan
from pellucid.internal.graph.stream import silent

_EXACT: dict[Type, type] = {INT: int, FLOAT: float, BOOL: bool, STR: str}


@dataclass
class Given:
    """One source's events: its leaf columns, where there is an event (None: everywhere), and by name what its key's
    columns hold, and their leaves."""

    count: int
    columns: list[Column]
    mask: Any = None
    key: dict[str, tuple[Type, list[Column]]] = field(default_factory=dict)


def place_of(graph: str, source: str) -> Place:
    """How a message names a place in data that is in memory."""
    return Place(f"{graph}: source {source!r}", lambda i: f"position {i:,}")


def from_events(
    graph: str, source: str, t: Type, events: Iterable[Any], where: Place | None = None, *, nan: bool = False
) -> Given:
    """Python events, each checked; ``silent`` marks a push without one, ``nan`` says that NaN is a value.  ``where``
    may take notes of bad ones."""
    values = events if type(events) is list else list(events)
    kinds = set(map(type, values))
    exact = _EXACT.get(t)
    if exact is not None and kinds <= {exact} and _in_range(t, values, nan):
        return Given(len(values), [values])
    mask = [v is not silent for v in values] if type(silent) in kinds else None
    place = where or place_of(graph, source)
    out = []
    for i, value in enumerate(values):
        if value is silent:
            continue
        try:
            event = conform(t, value)
        except ValueError as error:
            place.refuse(i, f"{error}{_hint(value)}")
            event = filler(t)
        if not nan:
            _refuse_nan(t, event, place, i)
        out.append(event)
    if mask is not None:
        found = iter(out)
        some = out[0] if out else filler(t)
        out = [next(found) if here else some for here in mask]
    return Given(len(values), columns_of(t, out), mask)


def _in_range(t: Type, values: list[Any], nan: bool) -> bool:
    if not values or t in (BOOL, STR):
        return True
    if t == INT:
        return bool(min(values) >= -(2**63) and max(values) < 2**63)
    return nan or not any(map(math.isnan, values))


def _refuse_nan(t: Type, event: Any, place: Place, i: int) -> None:
    at, leaves = 0, t.flatten(event)
    for path, kind in t.columns():
        inner, own = getattr(kind, "inner", kind), leaves[at : at + kind.width]
        at += kind.width
        inside = isinstance(inner, ListType) and has_nan(inner, inner.value(own[-1]))
        if inside or any(type(leaf) is float and leaf != leaf for leaf in own):
            place.refuse(i, f"{f'field {path!r}: ' if path else ''}{no_nan(kind)}", path or None)


def _hint(value: Any) -> str:
    return ": put `silent` where there is no event, or declare the type as T | None" if value is None else ""


def filler(t: Type) -> Any:
    """Some event of a type, for rows that are none."""
    return t.unflatten([simplest(leaf) for _, leaf in t.leaves()])
