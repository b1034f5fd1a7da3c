"""A handful of random kills of chained runs, in every run of the tests."""

from __future__ import annotations

import pytest

from tests.judge.kills_chain import judge


def test_random_kills() -> None:
    assert judge(3, 5)["kills"] >= 3


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_hundreds_of_random_kills(seed: int) -> None:
    found = judge(60, seed)
    assert found["kills"] >= 60
    assert found["undone"] > 0
