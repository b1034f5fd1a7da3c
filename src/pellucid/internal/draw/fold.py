"""A long pipeline on several rows, as text is: a strip of twenty boxes cannot be read on a page."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from pellucid.internal.draw.layout import Layout

_BETWEEN = 36.0  # between two rows: the pipe runs back in the middle of it
_INDENT = 14.0


@dataclass
class FoldedRows:
    """Where the layers stand after folding; ``turns`` has the height at which the pipe into a layer runs back."""

    columns: list[tuple[float, float]]
    width: float
    height: float
    turns: dict[int, float] = field(default_factory=dict)


def fold(layout: Layout, columns: list[tuple[float, float]], limit: float) -> FoldedRows:
    """Break the layers into rows of about this width, only where a single pipe connects them.

    The heights of the layout's vertices are changed to those of their rows.

    >>> from pellucid.internal.draw.layout import Item, Wire, arrange
    >>> box = Item(10, 10, (5,), 5)
    >>> plan = arrange([box] * 4, [Wire(i, i + 1, 0) for i in range(3)], gap=4)
    >>> rows = fold(plan, plan.columns([5] * 3), 30)
    >>> rows.columns, [v.y for v in plan.vertices]
    ([(0.0, 10.0), (15.0, 25.0), (14.0, 24.0), (29.0, 39.0)], [0.0, 0.0, 46.0, 46.0])
    """
    rows = _rows(layout, columns, limit)
    if len(rows) == 1:
        return FoldedRows(columns, columns[-1][1], layout.height)
    folded = FoldedRows([], 0.0, 0.0)
    bottom = 0.0
    for n, (first, stop) in enumerate(rows):
        here = [v for layer in layout.layers[first:stop] for v in layer]
        top = bottom + _BETWEEN if n else 0.0
        shift = top - min(v.y for v in here)
        for vertex in here:
            vertex.y += shift
        if n:
            folded.turns[first] = bottom + _BETWEEN / 2
        bottom = max(v.y + v.shape.height for v in here)
        left = (_INDENT if n else 0.0) - columns[first][0]
        folded.columns += [(a + left, b + left) for a, b in columns[first:stop]]
    folded.width = max(b for _, b in folded.columns) + _INDENT
    folded.height = bottom
    return folded


def _rows(layout: Layout, columns: list[tuple[float, float]], limit: float) -> list[tuple[int, int]]:
    """The first layer of each row, and the one after its last."""
    cuts = [i + 1 for i, layer in enumerate(layout.layers[:-1]) if sum(len(v.out) for v in layer) == 1]
    total = columns[-1][1]
    if total > limit:  # rows of about one length: no last row with only an output on it
        limit = 1.06 * total / max(1, math.ceil(total / limit - 0.2))
    rows, first = [], 0
    while columns[-1][1] - columns[first][0] > limit:
        fits = [c for c in cuts if c > first and columns[c - 1][1] - columns[first][0] <= limit]
        more = [c for c in cuts if c > first and total - columns[c][0] > 0.15 * limit]
        if not fits and not more:
            break
        stop = fits[-1] if fits else more[0]
        rows.append((first, stop))
        first = stop
    return [*rows, (first, len(columns))]
