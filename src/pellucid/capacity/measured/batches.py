"""Micro-batches: what one costs, and what follows from that for the lag.

A batch costs something before its first row (planning, offsets, a commit) and something for each row.  Whoever takes
all that waits, works on it and then looks again, as Spark does without a limit per trigger, is never done: while it
works, more comes.  At ``rate`` rows a second the batches settle at ``rate * (fixed + row * n) = n`` rows, if
``rate * row`` is below 1; otherwise each one is longer than the one before, and the lag grows for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median

from pellucid.capacity.measured.job import Sample
from pellucid.errors import UsageError


@dataclass(frozen=True)
class BatchCost:
    """Seconds for a batch: ``fixed``, and ``row`` for each row in it.

    >>> cost = BatchCost(fixed=0.5, row=0.001)
    >>> cost.seconds(1000), cost.capacity, cost.settled(500)
    (1.5, 1000.0, 500.0)
    >>> cost.settled(1000) is None, cost.growth(1500)
    (True, 500.0)
    """

    fixed: float
    row: float
    every: float = 0.0  # seconds from one batch to the next, if it is done by then (the trigger)

    def seconds(self, rows: float) -> float:
        """How long a batch of so many rows takes."""
        return self.fixed + self.row * rows

    @property
    def capacity(self) -> float:
        """Rows per second in batches as long as you like: what no rate may reach."""
        return 1 / self.row if self.row > 0 else float("inf")

    def settled(self, rate: float) -> float | None:
        """The rows of a batch, which are those that came during the one before, when nothing changes any more; None if
        it never settles."""
        load = rate * self.row
        return rate * max(self.every, self.fixed / (1 - load)) if load < 1 else None

    def growth(self, rate: float) -> float:
        """Rows per second by which the lag grows in the long run."""
        return max(0.0, rate - self.capacity)

    def next_rows(self, rate: float, rows: float) -> float:
        """What waits when a batch of so many rows is done."""
        return rate * max(self.every, self.seconds(rows))

    def largest_rate(self, rows: float) -> float:
        """The highest rate at which no batch settles above so many rows."""
        return rows / max(self.every, self.seconds(rows))

    def longest(self, curve: Callable[[float], float], *, rounds: int = 10_000) -> float | None:
        """The most rows that a batch can have, if no window of any length has more arrivals than ``curve`` says: the
        least length d, not below ``every``, with ``fixed + row * curve(d) <= d``; None if there is none.

        >>> round(BatchCost(0.5, 0.001).longest(lambda length: 100 + 500 * length))
        700
        """
        length = max(self.every, self.fixed)
        for _ in range(rounds):
            longer = max(self.every, self.seconds(curve(length)))
            if longer <= length * (1 + 1e-12):
                return curve(length)
            length = longer
        return None


def batch_cost(samples: Iterable[Sample]) -> BatchCost | None:
    """What batches cost, by Theil and Sen: the median of the slopes between any two, so that the first batch, which
    starts Python, does not count for more than one.  None if all batches have as many rows, or cost less for more.

    >>> batch_cost([Sample(0, 100, 0.6), Sample(1, 200, 0.7), Sample(2, 300, 0.8), Sample(3, 100, 9.0)])
    BatchCost(fixed=0.5, row=0.001, every=1)
    """
    samples = list(samples)
    points = _thinned([(s.events, s.seconds) for s in samples if s.events > 0])
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2) if a[0] != b[0]]
    if not slopes:
        return None
    row = median(slopes)
    fixed = median(seconds - row * rows for rows, seconds in points)
    if row < 0:  # the longer ones came when less else was to be done: nothing can be said of a row
        return None
    if fixed < 0:  # nothing costs less than nothing
        row, fixed = median(seconds / rows for rows, seconds in points), 0.0
    return BatchCost(round(fixed, 9), round(row, 9), _every(samples))


def _every(samples: Sequence[Sample]) -> float:
    """The time from one batch to the next, where most of them wait for it."""
    waits = [b.at - a.at for a, b in pairwise(samples) if b.at - a.at > 1.02 * a.seconds]
    if 2 * len(waits) <= len(samples) - 1:
        return 0.0
    usual = median(waits)
    return round(usual, 3) if sum(abs(w - usual) < 0.1 * usual for w in waits) * 2 > len(waits) else 0.0


def _thinned(points: Sequence[tuple[int, float]], most: int = 600) -> Sequence[tuple[int, float]]:
    """All pairs of many batches would take long: every so many-th of them is enough."""
    return points if len(points) <= most else points[:: -(-len(points) // most)]


def predicted(cost: BatchCost, rate: float, seconds: float, *, first: float = 0.0) -> list[tuple[float, float]]:
    """When each batch begins and how many rows it takes, at an even rate; ``first`` rows wait at the start.

    >>> [(at, round(rows)) for at, rows in predicted(BatchCost(0.5, 0.001), 500, 3)]
    [(0.0, 0), (0.5, 250), (1.25, 375), (2.125, 438)]
    """
    if rate < 0 or seconds < 0:
        raise UsageError("a rate and a time are not below 0")
    at, rows, out = 0.0, first, list[tuple[float, float]]()
    while at < seconds:
        out.append((at, rows))
        took = max(cost.every, cost.seconds(rows), 1e-3)
        at, rows = at + took, rate * took
    return out
