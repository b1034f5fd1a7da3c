"""Places on machines of their own, whose wires are cut and slow, in every run where there are rights for it."""

from __future__ import annotations

import pytest

from tests.judge.namespaces import judge_apart, why_not


def test_cut_and_slow_wires() -> None:
    if why := why_not():
        pytest.skip(why)
    counts = judge_apart(3, 2)
    assert sum(count for name, count in counts.items() if name.startswith("wires:")) >= 3
    assert counts["bookings"] >= 2


@pytest.mark.long
def test_many_cut_and_slow_wires() -> None:
    if why := why_not():
        pytest.skip(why)
    assert judge_apart(60, 4)["bookings"] >= 10
