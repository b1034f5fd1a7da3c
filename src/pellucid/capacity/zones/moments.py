"""When the steps of a way happen: differences of times that must be kept, the least ones, and for which gaps.

A way through zones fixes what happens at which *moment*, and what must lie between two moments: more than a gap between
two emits of a spout, exactly the time of a tuple between its take and its end.  Whoever wants times solves these
differences: the longest path to a moment is when it can be at the earliest.  Where a difference is strict, that is an
infimum which no run attains, but one comes as near to it as one likes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import NamedTuple

from pellucid.capacity.topology import Topology
from pellucid.internal.model import on_time


class Apart(NamedTuple):
    """Moment ``later`` is ``by`` after moment ``earlier``, and the gap of ``spout`` besides, or more; strictly more."""

    earlier: int
    later: int
    by: Fraction
    spout: str | None = None
    strict: bool = False


@dataclass
class Moments:
    """Moments 0, 1, …, the first of which is the beginning, and what is between them."""

    count: int = 1
    apart: list[Apart] = field(default_factory=list)

    def next(self, *, strictly: bool = False) -> int:
        """One more moment, not before the last one."""
        self.apart.append(Apart(self.count - 1, self.count, Fraction(0), None, strictly))
        self.count += 1
        return self.count - 1

    def at_least(self, earlier: int, later: int, by: Fraction, spout: str | None = None, *, strictly: bool) -> None:
        """So much is between them, or more."""
        self.apart.append(Apart(earlier, later, by, spout, strictly))

    def at_most(self, earlier: int, later: int, by: Fraction, *, strictly: bool) -> None:
        """So much is between them, or less."""
        self.apart.append(Apart(later, earlier, -by, None, strictly))

    def earliest(self, topology: Topology | None) -> list[tuple[Fraction, int]]:
        """For each moment the infimum of its time, and how many times a little more it is than that.

        >>> m = Moments()
        >>> _ = m.next(), m.next()
        >>> m.at_least(0, 1, Fraction(1), strictly=True)
        >>> m.at_least(1, 2, Fraction(1), strictly=True)
        >>> [(str(time), more) for time, more in m.earliest(None)]
        [('0', 0), ('1', 1), ('2', 2)]
        """
        bys = [a.by + _gap(topology, a.spout) for a in self.apart]
        unit, little = lcm(*(by.denominator for by in bys)), 2 * self.count  # a time and its littles in one number
        edges = [
            (a.earlier, a.later, int(by * unit) * little + a.strict) for a, by in zip(self.apart, bys, strict=True)
        ]
        found = [0] * self.count
        for _ in range(self.count + 1):
            on_time()
            changed = False
            for i, j, by in edges:
                if found[i] + by > found[j]:
                    found[j], changed = found[i] + by, True
            if not changed:
                return [(Fraction(time // little, unit), time % little) for time in found]
        raise AssertionError("a way through zones has times")

    def times(self, topology: Topology | None, within: Fraction) -> tuple[list[Fraction], Fraction]:
        """Times of all moments, the last of which is less than ``within`` above its infimum, and this infimum.

        >>> m = Moments()
        >>> _ = m.next()
        >>> m.at_least(0, 1, Fraction(1), strictly=True)
        >>> m.times(None, Fraction(1, 50))
        ([Fraction(0, 1), Fraction(101, 100)], Fraction(1, 1))
        """
        found = self.earliest(topology)
        last, more = found[-1]
        little = within / (more + 1)
        for i, j, by, spout, strict in self.apart:
            (early, few), (late, many) = found[i], found[j]
            needed = few + strict - many  # times a little, which the rest of the difference must leave room for
            if needed > 0:
                little = min(little, (late - early - by - _gap(topology, spout)) / needed)
        tenths = Fraction(1, 10)
        while tenths > little:
            tenths /= 10
        return [time + count * tenths for time, count in found], last

    def widest(self, topology: Topology | None, spouts: Collection[str]) -> Fraction | None:
        """The supremum of the gaps, of these spouts, with which there are times: a gap below it has some, it has none
        itself.  None if every gap has.

        A gap is too wide if a circle of differences does not close; the gap with which this circle just closes is the
        next to be tried.

        >>> m = Moments()
        >>> _ = m.next(), m.next()
        >>> m.at_least(0, 1, Fraction(0), "S", strictly=True)
        >>> m.at_most(0, 1, Fraction(4, 5), strictly=True)
        >>> m.widest(None, ["S"])
        Fraction(4, 5)
        """
        edges = [
            (a.earlier, a.later, a.by + (0 if a.spout in spouts else _gap(topology, a.spout)), int(a.spout in spouts))
            for a in self.apart
        ]
        gap = 1 + sum((abs(by) for _, _, by, _ in edges), Fraction(0))
        first = True
        while True:
            circle = _too_long(self.count, [(i, j, by + wide * gap) for i, j, by, wide in edges])
            if circle is None:
                return None if first else gap
            gap = -sum((edges[e][2] for e in circle), Fraction(0)) / sum(edges[e][3] for e in circle)
            first = False


def _gap(topology: Topology | None, spout: str | None) -> Fraction:
    return Fraction(0) if spout is None or topology is None else topology.spouts[spout].gap


def _too_long(count: int, edges: Sequence[tuple[int, int, Fraction]]) -> list[int] | None:
    """A circle of edges whose sum is above 0."""
    unit = lcm(*(by.denominator for _, _, by in edges))
    whole = [(i, j, int(by * unit)) for i, j, by in edges]
    time, came = [0] * count, [-1] * count
    at = -1
    for _ in range(count + 1):
        on_time()
        at = -1
        for e, (i, j, by) in enumerate(whole):
            if time[i] + by > time[j]:
                time[j], came[j], at = time[i] + by, e, j
        if at < 0:
            return None
    for _ in range(count):
        at = edges[came[at]][0]
    circle = list[int]()
    here = at
    while not circle or here != at:
        circle.append(came[here])
        here = edges[came[here]][0]
    return circle
