"""Random kills of sinks together: runs with epochs, and queries on Spark."""

from __future__ import annotations

import pytest

from tests.judge.kills_together import judge

pytestmark = pytest.mark.long


@pytest.mark.parametrize("seed", range(4))
def test_hundreds_of_random_kills(seed: int) -> None:
    assert judge(100, seed)["kills"] >= 100


@pytest.mark.usefixtures("java_home")
@pytest.mark.parametrize("seed", range(2))
def test_random_kills_of_queries(seed: int) -> None:
    assert judge(10, seed, on="spark")["kills"] >= 10
