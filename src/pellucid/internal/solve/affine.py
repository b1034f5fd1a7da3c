"""Linear relations between numbers, learned from points: the least affine space that holds them.

>>> hull = Hull(2)
>>> for point in [(0, 1), (1, 3), (5, 11)]:
...     _ = hull.join(point)
>>> hull.relations()  # 1 + 2·x - y = 0
[[1, 2, -1]]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import gcd, lcm

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
