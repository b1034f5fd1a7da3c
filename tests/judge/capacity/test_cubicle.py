"""Array-based systems: protocols with known verdicts, and random ones against a forward search."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.seeds import seeds

from .cubicle import one, replayed, told
from .protocols import KNOWN, READERS
from .systems import Explorer, draw, text


@pytest.mark.parametrize("name", KNOWN)
def test_known(name):
    source, expected = KNOWN[name]
    found = told(source)
    if expected is None:
        assert found["status"] == "proved"
    else:
        assert (len(found["counterexample"]["steps"]), found["details"]["processes"]) == expected


def test_counting_ends_in_time():
    """Cubes cannot count readers; what they try gets wider and wider, and has ever more names."""
    assert told(READERS, timeout=0.5)["status"] == "unknown"


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(20))
def test_random(seed):
    assert one(seed, Counter()) == ""


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1500))
def test_many(seed):
    assert one(seed, Counter()) == ""


def test_a_run_of_another_system_is_noticed():
    noticed = 0
    for seed in range(30):
        s = draw(random.Random(seed))
        if Explorer(s, 2).shortest() not in (1, 2, 3):
            continue
        found = told(text(s))
        explorer = Explorer(s, found["details"]["processes"])
        assert replayed(explorer, found["counterexample"]) == ""
        s.unsafe = [(("p",), [("<>", ("at", "P", ("p",)), ("at", "P", ("p",)))])]
        assert replayed(explorer, found["counterexample"]) == "does not end unsafe"
        s.transitions = []
        assert "is not possible" in replayed(explorer, found["counterexample"])
        noticed += 1
    assert noticed > 2
