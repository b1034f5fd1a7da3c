"""Plans against brute force."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from tests.seeds import seeds

from .planning import drained, one


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(10))
def test_plans(seed):
    assert one(seed, Counter()) == ""


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 300))
def test_many(seed):
    assert one(seed, Counter()) == ""


def test_draining():
    assert drained(100, 4, Fraction(2), None, Fraction(10**6)) == 50
    assert drained(101, 4, Fraction(2), None, Fraction(10**6)) == 52
    assert drained(10, 1, Fraction(1), Fraction(2), Fraction(10**6)) == 18
    assert drained(10, 1, Fraction(1), Fraction(1), Fraction(1000)) is None
