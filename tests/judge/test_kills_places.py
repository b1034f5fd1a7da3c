"""Random kills of places and their programs; and places with a planted fault,
which the kills and the audit must find."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from pellucid.atomic.places import connect, new_network
from pellucid.atomic.places.audit import audit
from tests.judge.kills_places import Wrong, judge
from tests.judge.places_planted import FAULTS, program

# What must be said about each: by the logs, by who was told what, by what is left in the channels.
FOUND = {
    "commit-before-the-log": r"broke the promise|was told that",
    "dependency-forgotten": r"commits and needs",
    "abort-without-restoring": r"does not put back",
}


def test_a_place_that_forgets_a_dependency_is_found(tmp_path: Path) -> None:
    """One real place with the fault, and nobody is killed: who took a message of one that goes on commits at once."""
    network = new_network(tmp_path / "net", {"hall": ["letters"]})
    command = [*program("dependency-forgotten"), str(network.folder), "hall"]
    place = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with connect(network.folder, "hall", patience=60) as hall, hall.transaction() as sender:
            sender.send("letters", "a")
            with hall.transaction() as taker:
                assert taker.receive("letters", timeout=60) == "a"
                assert taker.commit(timeout=60) == "committed"
    finally:
        place.kill()
        place.wait()
    found = audit(network.folder)
    assert not found and re.search(FOUND["dependency-forgotten"], str(found)), found


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
