"""Places on machines of their own, whose wires are cut and slow."""

from __future__ import annotations

import pytest

from tests.judge.namespaces import judge_apart, why_not


@pytest.mark.long
def test_many_cut_and_slow_wires() -> None:
    if why := why_not():
        pytest.skip(why)
    assert judge_apart(60, 4)["bookings"] >= 10
