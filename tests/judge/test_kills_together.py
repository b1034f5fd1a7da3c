"""A handful of random kills of sinks together, in every run of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.judge.kills_together import judge
from tests.sinks.postgres import Postgres, server_or_skip


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    yield from server_or_skip()


def test_random_kills(server: Postgres) -> None:
    assert judge(3, 7, [server])["kills"] >= 3


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_hundreds_of_random_kills(seed: int) -> None:
    assert judge(100, seed)["kills"] >= 100


@pytest.mark.long
@pytest.mark.usefixtures("java_home")
@pytest.mark.parametrize("seed", range(2))
def test_random_kills_of_queries(seed: int) -> None:
    assert judge(10, seed, on="spark")["kills"] >= 10
