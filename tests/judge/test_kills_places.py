"""A handful of random kills of places and their programs, in every run of the tests; and places with a planted fault,
which the kills and the audit must find."""

from __future__ import annotations

import pytest

from tests.judge.kills_places import Wrong, judge
from tests.judge.places_planted import FAULTS, program

# What must be said about each: by the logs, by who was told what, by what is left in the channels.
FOUND = {
    "commit-before-the-log": r"broke the promise|was told that",
    "dependency-forgotten": r"commits and needs",
    "abort-without-restoring": r"does not put back",
}


def test_random_kills() -> None:
    counts = judge(4, 7, each=4)
    assert counts["kills"] >= 4
    assert counts["bookings"] >= 2


def test_a_planted_fault_is_found() -> None:
    with pytest.raises(Wrong, match=r"(?s)the audit says:.*commits and needs"):
        judge(1, 3, each=1, planted=program("dependency-forgotten"))


@pytest.mark.long
def test_small_networks_with_kills_are_replayed_on_the_calculus() -> None:
    counts = judge(6, 3, small=True)
    assert counts["kills"] >= 6
    assert counts["replayed on the calculus"] >= counts["audits"] - 1, "networks are small enough, but by a rare chance"


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_every_planted_fault_is_found(fault: str) -> None:
    with pytest.raises(Wrong, match=FOUND[fault]):
        judge(60, 5, planted=program(fault))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_a_hundred_random_kills(seed: int) -> None:
    assert judge(100, seed)["kills"] >= 100
