"""Zones for the checker of certificates: bounds are numbers with their strictness, and every operation closes again.

Slow and plain: nothing here is shared with the compiled matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

# A bound of a difference: how much at most, and 0 if it is less than that, else 1.  Pairs compare as bounds do.
Bound: TypeAlias = "tuple[Fraction | int, int]"
Number: TypeAlias = "Fraction | int"
Rows: TypeAlias = "list[list[Bound | None]]"
NONE: Bound = (0, 1)


class Zone:
    """All values of clocks whose differences are within bounds; clock 0 is the constant 0.

    >>> z = Zone.zero(3).later([(1, Fraction(1))]).above(2, Fraction(1, 2))
    >>> z.empty, z.above(1, Fraction(1)).empty, z.reset(2).rows[2][1]
    (False, True, (Fraction(-1, 2), 0))
    """

    def __init__(self, rows: Rows) -> None:
        self.rows, self.empty = rows, False

    @staticmethod
    def zero(count: int) -> Zone:
        """All clocks are 0."""
        return Zone([[NONE] * count for _ in range(count)])

    @staticmethod
    def read(rows: Sequence[Sequence[str | None]], unit: int) -> Zone:
        """As a certificate has it, in units of 1 / unit."""
        return Zone([[_read(entry, unit) for entry in row] for row in rows])._closed()

    def _closed(self) -> Zone:
        rows, count = self.rows, len(self.rows)
        for k in range(count):
            through = rows[k]
            for row in rows:
                first = row[k]
                if first is None:
                    continue
                for j in range(count):
                    second = through[j]
                    if second is None:
                        continue
                    total = first[0] + second[0], first[1] & second[1]
                    known = row[j]
                    if known is None or total < known:
                        row[j] = total
        self.empty = any((row[i] or NONE) < NONE for i, row in enumerate(rows))
        return self

    def _with(self, i: int, j: int, bound: Bound) -> Zone:
        """With a tighter bound: whatever goes through it may be tighter, too."""
        known = self.rows[i][j]
        if self.empty or (known is not None and known <= bound):
            return self
        rows = [list(row) for row in self.rows]
        last = self.rows[j]
        for row in rows:
            first = row[i]
            if first is None:
                continue
            first = first[0] + bound[0], first[1] & bound[1]
            for k, rest in enumerate(last):
                if rest is not None:
                    total = first[0] + rest[0], first[1] & rest[1]
                    old = row[k]
                    if old is None or total < old:
                        row[k] = total
        then = Zone(rows)
        then.empty = any((row[k] or NONE) < NONE for k, row in enumerate(rows))
        return then

    def below(self, clock: int, time: Number) -> Zone:
        """With this clock less than a time."""
        return self._with(clock, 0, (time, 0))

    def at_most(self, clock: int, time: Number) -> Zone:
        """With this clock at most a time."""
        return self._with(clock, 0, (time, 1))

    def above(self, clock: int, time: Number) -> Zone:
        """With this clock more than a time."""
        return self._with(0, clock, (-time, 0))

    def at_least(self, clock: int, time: Number) -> Zone:
        """With this clock at least a time."""
        return self._with(0, clock, (-time, 1))

    def equal(self, clock: int, time: Number) -> Zone:
        """With this clock at a time."""
        return self.at_most(clock, time).at_least(clock, time)

    def reset(self, clock: int) -> Zone:
        """This clock becomes 0."""
        order = list(range(len(self.rows)))
        order[clock] = 0
        return self.chosen(order)

    def chosen(self, clocks: Sequence[int]) -> Zone:
        """These clocks, in this order; 0 is a clock that is 0."""
        rows = [[self.rows[i][j] for j in clocks] for i in clocks]
        for a, i in enumerate(clocks):
            for b, j in enumerate(clocks):
                if i == j:
                    rows[a][b] = NONE
        return Zone(rows)

    def later(self, ends: Sequence[tuple[int, Number]] = (), *, strictly: bool = False) -> Zone:
        """After any time, in which no clock gets beyond its end; with ``strictly``, after some time."""
        rows = [list(row) for row in self.rows]
        for i in range(1, len(rows)):
            rows[i][0] = None
            low = rows[0][i]
            if strictly and low is not None:
                rows[0][i] = low[0], 0
        for clock, end in ends:
            rows[clock][0] = end, 1
        return Zone(rows)._closed()

    def within(self, other: Zone) -> bool:
        """Whether it is part of another one."""
        if self.empty:
            return True
        for mine, theirs in zip(self.rows, other.rows, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                if b is not None and (a is None or a > b):
                    return False
        return True


def _read(entry: str | None, unit: int) -> Bound | None:
    if entry is None:
        return None
    weak = entry.startswith("<=")
    number = Fraction(entry[2:] if weak else entry[1:]) * unit
    return (number.numerator if number.denominator == 1 else number), int(weak)
