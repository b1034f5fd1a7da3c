"""An audit says what ``net doubt`` says of a log that is an older copy, also where no log tells it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid.atomic.places import Network, connect, end, new_network, start
from pellucid.atomic.places.audit import audit
from pellucid.atomic.places.serving.doubt import accept_loss, doubts


def heard_by_agent(network: Network) -> str:
    with connect(network.folder, "agent", patience=60) as agent:
        return str(agent.ask("view")["met"]["hotel"])


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """Of which the hotel ran twice, and has the log of its first time; its second sent nothing to anybody."""
    made = new_network(tmp_path / "trips", {"agent": ["answers"], "hotel": ["rooms"]})
    start(made)
    with connect(made.folder, "hotel") as hotel, hotel.transaction() as t:
        t.send("agent.answers", 1)
        assert t.commit(timeout=60) == "committed"
    with connect(made.folder, "agent") as agent, agent.transaction() as u:
        u.receive("answers", timeout=60)
        assert u.commit(timeout=60) == "committed"
    end(made, ["hotel"])
    shutil.copy(made.log_of("hotel"), tmp_path / "copy")
    before = heard_by_agent(made)
    start(made)
    with connect(made.folder, "hotel") as hotel, hotel.transaction() as t:
        t.send("rooms", 2)
        assert t.commit() == "committed"
    until = time.monotonic() + 60
    while heard_by_agent(made) == before:  # the hotel has said that its log goes on where it ended
        assert time.monotonic() < until
        time.sleep(0.02)
    end(made, ["hotel"])
    shutil.copy(tmp_path / "copy", made.log_of("hotel"))
    yield made
    end(made)


def words(network: Network) -> str:
    """What is said of the one copy, by both."""
    (copy,) = doubts(network, list(network.places)).copies
    said = copy.lines()[0]
    found = audit(network.folder)
    assert not found.holds and ("hotel", said) in [(v.place, v.why) for v in found.violations], str(found)
    return said


def test_by_the_note_beside_the_log(network: Network) -> None:
    end(network)
    assert words(network).endswith("which is noted beside it")
    assert "is an older copy" in str(audit(network.folder))


def test_by_what_a_process_has_heard_and_not_written_down(network: Network) -> None:
    (network.folder_of("hotel") / "newest").unlink()
    assert words(network).endswith("which 'agent' has heard of")


def test_a_loss_that_was_accepted_is_told_by_the_log_alone(network: Network) -> None:
    end(network)
    network.log_of("hotel").unlink()  # type: ignore[union-attr]
    accept_loss(network, "hotel", "ada")
    assert not doubts(network, list(network.places)).copies
    kinds = {v.kind for v in audit(network.folder).violations}
    assert "behind" in kinds and "less-than-known" not in kinds
