"""Some thousand hostile frames, in every run of the tests."""

from __future__ import annotations

import pytest

from tests.judge.fuzz_places import fuzz


def test_hostile_frames_change_nothing() -> None:
    counts = fuzz(3000, 3)
    assert counts["message: refused"] > 300
    assert counts["stood: refused"] > 20


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_a_million_hostile_frames(seed: int) -> None:
    fuzz(1_000_000, seed)
