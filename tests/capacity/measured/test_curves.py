"""Arrival curves against their meaning, and the bounds that they give against queues that are played through."""

from __future__ import annotations

import random
from collections import deque
from fractions import Fraction

import pytest

from pellucid.capacity.measured import Curve, arrival_curve
from pellucid.capacity.measured.curves import EXACT
from pellucid.errors import UsageError


def by_meaning(arrivals: list[tuple[float, float, int]], length: float) -> int:
    """Every run of arrivals that can lie in one window."""
    best = 0
    for i, (_, end, _) in enumerate(arrivals):
        for j in range(i, len(arrivals)):
            if arrivals[j][0] - end <= length:
                best = max(best, sum(count for _, _, count in arrivals[i : j + 1]))
    return best


def longest_queue(arrivals: list[Fraction], time: Fraction, workers: int) -> tuple[int, Fraction]:
    """First come, first served; whoever comes counts before a worker takes it.  And the longest wait."""
    free, longest, wait = [Fraction(-1000)] * workers, 0, Fraction(0)
    waiting: deque[Fraction] = deque()

    def take(until: Fraction, also: bool) -> None:
        nonlocal wait
        while waiting and (min(free) < until or (also and min(free) == until)):
            free.sort()
            came = waiting.popleft()
            begin = max(free[0], came)
            wait = max(wait, begin - came)
            free[0] = begin + time

    for at in sorted(set(arrivals)):
        take(at, also=False)
        waiting.extend([at] * arrivals.count(at))
        longest = max(longest, len(waiting))
        take(at, also=True)
    take(Fraction(10**9), also=True)
    return longest, wait


@pytest.mark.parametrize("seed", range(12))
def test_the_curve_is_what_it_means(seed: int) -> None:
    chance = random.Random(seed)
    at, spans = 0.0, list[tuple[float, float, int]]()
    for _ in range(chance.randint(1, 12)):
        start = at + chance.choice([0, 0, 0.5, 2])
        at = start + chance.choice([0, 0, 1])
        if not spans or (start, at) != spans[-1][:2]:
            spans.append((start, at, chance.randint(1, 4)))
    lengths = [0, 0.5, 1, 2.5, 4, 40]
    wanted = [by_meaning(spans, length) for length in lengths]
    assert list(arrival_curve(spans, lengths).most) == wanted
    exact = arrival_curve(spans)
    assert [exact(length) for length in lengths] == wanted


@pytest.mark.parametrize("seed", range(30))
def test_no_queue_is_longer_than_the_bound(seed: int) -> None:
    chance = random.Random(seed)
    arrivals = [Fraction(chance.randint(0, 40), 4) for _ in range(chance.randint(1, 25))]
    time, workers = Fraction(chance.randint(1, 8), 4), chance.randint(1, 3)
    queue, wait = longest_queue(arrivals, time, workers)
    exact = arrival_curve([float(at) for at in arrivals])
    coarse = arrival_curve([float(at) for at in arrivals], windows=[0, 1, 3, 9, 27])
    assert queue == exact.queue(time, workers) <= coarse.queue(time, workers)  # the recording reaches it
    assert wait == exact.delay(time, workers) <= coarse.delay(time, workers)


@pytest.mark.parametrize("seed", range(30))
def test_nor_is_one_of_a_stream_that_is_no_burstier(seed: int) -> None:
    chance = random.Random(seed)
    arrivals = sorted(Fraction(chance.randint(0, 40), 4) for _ in range(25))
    curve = arrival_curve([float(at) for at in arrivals])
    # the same gaps the other way round have the same windows, and a part of them has fewer
    for other in ([-at for at in arrivals], [at for at in arrivals if chance.random() < 0.7] or arrivals):
        queue, wait = longest_queue(other, Fraction(3, 4), 2)
        assert queue <= curve.queue(0.75, 2) and wait <= curve.delay(0.75, 2)


def test_workers_for_a_limit() -> None:
    curve = arrival_curve([float(at) for at in range(20)])
    for limit in (1, 2, 5, 20):
        found = curve.workers(4.5, limit)
        assert found is not None and curve.queue(4.5, found) <= limit
        assert found == 1 or curve.queue(4.5, found - 1) > limit
    assert curve.workers(4.5, 0) is None


def test_many_arrivals_have_few_windows() -> None:
    curve = arrival_curve([i * 0.01 for i in range(EXACT + 5)])
    assert not curve.exact and len(curve.windows) < 20 and curve.most[-1] == EXACT + 5
    assert curve.rate == pytest.approx(75, rel=0.1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "an arrival curve needs an arrival"),
        ([(2, 1, 5)], "an arrival of 5 events from 2 to 1 cannot be"),
        ([(0, 9, 1), (1, 2, 1)], "may not lie inside others"),
    ],
)
def test_what_cannot_be(given: list[tuple[float, float, int]], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        arrival_curve(given)
    with pytest.raises(UsageError, match="a curve needs windows"):
        Curve((1.0, 0.0), (1, 2))
    with pytest.raises(UsageError, match="a queue needs a time above 0"):
        Curve((0.0,), (1,)).queue(0)
