"""Zones and the array-based system of the paper: forwards over clocks, backwards over formulas, the same answers."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from pellucid.capacity import Bolt, Spout, Topology
from pellucid.capacity.arrays import decide as backwards
from pellucid.capacity.arrays.storm import storm_system
from pellucid.capacity.zones.decide import decide


def one_bolt(gaps: list[Fraction], time: Fraction, workers: int) -> Topology:
    spouts = {f"S{i}": Spout(gap) for i, gap in enumerate(gaps)}
    return Topology(spouts, {"B": Bolt(time, list(spouts), workers=workers)}, semantics="literal")


def agree(t: Topology, limit: int, timeout: float) -> str:
    """What both say; *unknown* of the array-based one is no disagreement."""
    told, found = backwards(storm_system(t, "B", limit), timeout=timeout), decide(t, "B", limit)
    assert found.status in ("proved", "refuted") and told.status in ("unknown", found.status), t
    if told.refuted and not told.notes:
        assert found.trace is not None and told.counterexample is not None
        assert len(told.counterexample.steps) >= len(found.trace.steps)
    return told.status


@pytest.mark.parametrize(("gap", "spouts"), [("0.8", 1), ("0.8", 2), ("1", 1), ("1.5", 1), ("1.5", 2)])
def test_one_worker(gap: str, spouts: int) -> None:
    assert agree(one_bolt([Fraction(gap)] * spouts, Fraction(1), 1), 2, 60.0) != "unknown"


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_by_chance(part: int) -> None:
    chance, said = random.Random(part), dict.fromkeys(("proved", "refuted", "unknown"), 0)
    for _ in range(10):
        gaps = [Fraction(chance.randint(1, 12), chance.randint(2, 6)) for _ in range(chance.choice([1, 1, 2]))]
        t = one_bolt(gaps, Fraction(chance.randint(1, 4), chance.randint(1, 3)), chance.choice([1, 1, 2]))
        said[agree(t, 2, 8.0)] += 1
    print(f"part {part}: {said}")
    assert said["unknown"] < 6
