"""A handful of random kills of places and their programs, in every run of the tests."""

from __future__ import annotations

import pytest
from tests.judge.kills_places import judge


def test_random_kills() -> None:
    counts = judge(4, 7, each=4)
    assert counts["kills"] >= 4
    assert counts["bookings"] >= 2


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_a_hundred_random_kills(seed: int) -> None:
    assert judge(100, seed)["kills"] >= 100
