"""Hundreds of random kills of chained runs."""

from __future__ import annotations

import pytest

from tests.judge.kills_chain import judge


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_hundreds_of_random_kills(seed: int) -> None:
    found = judge(60, seed)
    assert found["kills"] >= 60
    assert found["undone"] > 0
