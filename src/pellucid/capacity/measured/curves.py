"""Bursts: the most that came in any window of a length, and how long a queue gets by that.

The *empirical arrival curve* of a recording says for each length of a window how many events came in the fullest
window of that length.  It bounds the queue for every stream that is no burstier than the recording, whatever the order
of its bursts (network calculus; Cruz, 1991).  With W workers that need t for an event, the n-th begins at the latest of
``arrival(n - k * W) + k * t``; so whoever waits at some time came not more than ``k * t`` after those that it waits
for, and the queue is at most ``curve(k * t) - k * W`` for some k.  The recording itself reaches this bound.  Between
two lengths that were measured the curve is taken for the longer one: the bound stays one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

from pellucid.errors import UsageError

EXACT = 1500  # arrivals up to which every length is looked at


@dataclass(frozen=True)
class Curve:
    """The most events in a window: ``most[i]`` in one of ``windows[i]`` seconds (its ends included); after the longest
    one, ``most[-1]``.  ``exact``: it steps up at these lengths and nowhere else.

    >>> curve = Curve((0.0, 1.0, 4.0), (2, 3, 6))
    >>> curve(0), curve(0.5), curve(9)
    (2, 3, 6)
    """

    windows: tuple[float, ...]
    most: tuple[int, ...]
    exact: bool = False

    def __post_init__(self) -> None:
        if len(self.windows) != len(self.most) or not self.windows or list(self.windows) != sorted(set(self.windows)):
            raise UsageError("a curve needs windows, each longer than the one before, and a number of events for each")

    def __call__(self, length: float) -> int:
        """The most in a window of this length, or more where it was not measured."""
        if self.exact:
            return self.most[max(0, bisect_right(self.windows, length) - 1)]
        return self.most[min(bisect_left(self.windows, length), len(self.most) - 1)]

    @property
    def rate(self) -> float:
        """Events per second over all of it."""
        return self.most[-1] / self.windows[-1] if self.windows[-1] > 0 else float("inf")

    def queue(self, time: float | Fraction, workers: int = 1) -> int:
        """No queue before so many workers, each busy for ``time`` with an event, is ever longer (whoever is being
        worked on does not wait any more; whoever comes at the same time does until all have come).

        >>> Curve((0.0, 1.0, 4.0), (2, 3, 6)).queue(time=1), Curve((0.0, 1.0, 4.0), (2, 3, 6)).queue(time=1, workers=2)
        (4, 2)
        """
        self._check(time, workers)
        return max(self.most[0], *(count - workers * rounds for _, count, rounds in self._rounds(time)))

    def delay(self, time: float | Fraction, workers: int = 1) -> float:
        """No event waits longer before it is taken, if they are taken in their order.

        >>> arrival_curve([0, 0, 0, 5]).delay(time=1, workers=2), arrival_curve([0, 2, 4]).delay(3)
        (1.0, 2.0)
        """
        self._check(time, workers)
        # of those that came within a length, the last one waits for as many rounds as there are before it
        return max(0.0, *(float((count - 1) // workers * time - length) for length, count, _ in self._rounds(time)))

    def _check(self, time: float | Fraction, workers: int) -> None:
        if time <= 0 or workers < 1:
            raise UsageError("a queue needs a time above 0 and 1 worker or more")

    def _rounds(self, time: float | Fraction) -> list[tuple[float, int, int]]:
        """Least lengths, the events in them, and how often each worker is done in that time, rounded up."""
        if self.exact:
            return [(w, count, int(-(-w // time))) for w, count in zip(self.windows, self.most, strict=True)]
        longer = [(w, count, int(w // time) + 1) for w, count in zip(self.windows, self.most[1:], strict=False)]
        return [(0.0, self.most[0], 0), *longer]

    def workers(self, time: float | Fraction, limit: int, *, most: int = 1_000_000) -> int | None:
        """The fewest workers for which no more than ``limit`` wait; None if no number up to ``most`` is enough.

        >>> curve = arrival_curve([0, 1, 1, 2, 2, 2, 3, 3, 3, 3])
        >>> curve.workers(1, limit=5), curve.workers(1, limit=4), curve.workers(1, limit=3)
        (2, 3, None)
        """
        if self.queue(time, most) > limit:
            return None
        low, high = 1, most
        while low < high:
            middle = (low + high) // 2
            if self.queue(time, middle) <= limit:
                high = middle
            else:
                low = middle + 1
        return low

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {"windows": list(self.windows), "most": list(self.most)}


Arrival: TypeAlias = "float | tuple[float, int] | tuple[float, float, int]"


def arrival_curve(arrivals: Iterable[Arrival], windows: Sequence[float] | None = None) -> Curve:
    """The curve of events that came at these times, or of so many at each, or of so many between two times, nobody
    knows when (then each may have come at either end).  ``windows`` are all lengths that occur, of up to 1,500 times,
    and else 1, 2 and 5 of every power of ten.

    >>> arrival_curve([0, 0, 3, 4])
    Curve(windows=(0.0, 1.0, 3.0, 4.0), most=(2, 2, 3, 4), exact=True)
    >>> arrival_curve([(0, 2), (3, 1), (4, 1)], windows=[1, 10])
    Curve(windows=(1.0, 10.0), most=(2, 4), exact=False)
    >>> arrival_curve([(0, 1, 5), (1, 2, 7), (2, 3, 5)], windows=[0, 1])
    Curve(windows=(0.0, 1.0), most=(12, 17), exact=False)
    """
    spans = _spans(arrivals)
    if not spans:
        raise UsageError("an arrival curve needs an arrival")
    before = [0]
    for _, _, count in spans:
        before.append(before[-1] + count)
    if windows is not None:
        lengths = [float(w) for w in sorted(set(windows))]
    elif len(spans) <= EXACT:
        return _all_lengths(spans, before)
    else:
        gaps = [b[0] - a[1] for a, b in pairwise(spans) if b[0] > a[1]]
        lengths = window_lengths(min(gaps, default=1.0), spans[-1][0] - spans[0][1])
    return Curve(tuple(lengths), tuple(_most(spans, before, length) for length in lengths))


def _spans(arrivals: Iterable[Arrival]) -> list[tuple[float, float, int]]:
    """From when to when each came, in order; those of one time together."""
    counts: dict[tuple[float, float], int] = {}
    for one in arrivals:
        first, last, count = (
            (one, one, 1) if not isinstance(one, tuple) else one if len(one) == 3 else (one[0], one[0], one[1])
        )
        if first > last or count < 0:
            raise UsageError(f"an arrival of {count} events from {first} to {last} cannot be")
        if count:
            counts[float(first), float(last)] = counts.get((float(first), float(last)), 0) + int(count)
    spans = [(first, last, count) for (first, last), count in sorted(counts.items())]
    if any(a[1] > b[1] for a, b in pairwise(spans)):
        raise UsageError(
            "times between which events came may not lie inside others: give those of one source at a time"
        )
    return spans


def _all_lengths(spans: Sequence[tuple[float, float, int]], before: Sequence[int]) -> Curve:
    """Every length that occurs; of many, only those at which the curve steps up."""
    best: dict[float, int] = {}
    for i, (_, end, _) in enumerate(spans):
        for j in range(i, len(spans)):
            length, count = max(0.0, spans[j][0] - end), before[j + 1] - before[i]
            if count > best.get(length, 0):
                best[length] = count
    windows, most = list[float](), list[int]()
    for length in sorted(best):
        count = max(best[length], most[-1] if most else 0)
        if not most or count > most[-1] or len(best) <= 64:
            windows.append(length)
            most.append(count)
    return Curve(tuple(windows), tuple(most), exact=True)


def _most(spans: Sequence[tuple[float, float, int]], before: Sequence[int], length: float) -> int:
    """Two fingers over the times."""
    best, j = 0, 0
    for i, (_, end, _) in enumerate(spans):
        while j < len(spans) and spans[j][0] <= end + length:
            j += 1
        best = max(best, before[j] - before[i])
    return best


def window_lengths(shortest: float, longest: float) -> list[float]:
    """0, and 1, 2 and 5 of every power of ten from one length to another.

    >>> window_lengths(0.03, 12)
    [0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
    """
    out, power = [0.0], -9
    shortest = max(shortest, 1e-6)
    while True:
        for digit in (1, 2, 5):
            length = float(Fraction(digit) * Fraction(10) ** power)
            following = float(Fraction({1: 2, 2: 5, 5: 10}[digit]) * Fraction(10) ** power)
            if following > shortest:
                out.append(length)
            if length >= longest:
                return out
        power += 1
