"""Real places, killed (kill -9) at moments of a commit over three of them: all have the trip, or none, and the stocks
add up."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pellucid.atomic.places import Aborted, InDoubt, Network, NotReached, connect, end, start, up
from pellucid.atomic.places.audit import audit
from pellucid.atomic.places.log import read_log
from pellucid.atomic.places.operators import doubts
from pellucid.atomic.places.processes import running
from pellucid.internal.base import faults
from tests.atomic.places.trips import Aside, fill, left, provide, trips

MOMENTS = [
    "place:before-prepared[hotel]", "place:after-prepared[hotel]", "place:said-vote[hotel]",
    "place:before-decide[agent]", "place:after-decide[agent]", "place:said-decided[agent]",
    "place:before-commit[airline]@2", "place:after-commit[airline]@2",
    "place:after-pending[hotel]@2", "place:before-end[agent]",
]  # fmt: skip


def settled(network: Network) -> None:
    """Wait until nothing is in doubt, and nobody waits for anybody."""
    until = time.monotonic() + 90
    while (found := doubts(network, list(network.places))).code:
        assert time.monotonic() < until, found.lines()
        time.sleep(0.05)


def replayed(network: Network) -> None:
    """What the logs of all places say together is a run of the calculus: its machine goes through it step by step."""
    found = audit(network.folder)
    assert found, str(found)
    assert found.replay is not None, found.notes


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    network = trips(tmp_path)
    point, _, hit = moment.partition("@")
    monkeypatch.setenv(faults.VARIABLE, f"{point}=kill@{hit or 1}")
    with up(network, again=True) as places:
        monkeypatch.delenv(faults.VARIABLE)
        fill(network, "airline", "seats", [1, 2, 3])
        fill(network, "hotel", "rooms", [1, 2, 3])
        others = [Aside(provide, network, place) for place in ("airline", "hotel")]
        name, outcome = "", "aborted"
        try:
            with connect(network.folder, "agent", patience=60) as agent, agent.transaction() as t:
                name = t.id
                t.send("airline.requests", "ada")
                t.send("hotel.requests", "ada")
                for _ in range(2):
                    t.receive("answers", timeout=60)
                outcome = t.commit(timeout=60)
        except InDoubt:
            outcome = "in doubt"
        except (Aborted, NotReached):
            pass
        for other in others:
            found = other.result(150)
            assert found == "committed" or isinstance(found, (Aborted, InDoubt, NotReached, TimeoutError)), found
        settled(network)
        with connect(network.folder, "agent", patience=60) as agent:
            became = agent.status(name)
        assert outcome in (became, "in doubt")
        rest = 2 if became == "committed" else 3
        assert {stock: len(values) for stock, values in left(network).items()} == {"seats": rest, "rooms": rest}
        assert sum(places.starts.values()) == 4, "nobody was killed"
    replayed(network)


def test_in_doubt_until_the_coordinator_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent dies after its decision: the others are in doubt, whatever time passes, and commit when it is back."""
    network = trips(tmp_path)
    monkeypatch.setenv(faults.VARIABLE, "place:after-decide[agent]=kill")
    start(network)
    monkeypatch.delenv(faults.VARIABLE)
    try:
        fill(network, "airline", "seats", [1])
        fill(network, "hotel", "rooms", [1])
        others = [Aside(provide, network, place) for place in ("airline", "hotel")]
        with connect(network.folder, "agent") as agent, agent.transaction() as t:
            t.send("airline.requests", "ada")
            t.send("hotel.requests", "ada")
            for _ in range(2):
                t.receive("answers", timeout=60)
            with pytest.raises(InDoubt):
                t.commit()
        for _ in range(1200):  # its connection ends a moment before it does
            if running(network, "agent") is None:
                break
            time.sleep(0.05)
        assert running(network, "agent") is None
        found = doubts(network, ["airline", "hotel"])
        assert found.code == 1 and [one.kind for one in found.found] == ["prepared", "prepared"]
        for one in found.found:
            known = "does not run; its log says that it is committed"
            assert one.waits == (("agent", known),) and "pellucid net up" in one.resolve
        assert left(network) == {"seats": [], "rooms": []}
        start(network)
        assert [other.result() for other in others] == ["committed", "committed"]
        with connect(network.folder, "agent") as agent:
            assert agent.status(t.id) == "committed"
        assert left(network) == {"seats": [], "rooms": []}
        settled(network)
    finally:
        end(network)
    assert doubts(network, list(network.places)).code == 0
    kinds = [record.kind for record in read_log(network.log_of("agent"), "agent")]
    assert (kinds.count("decide") == 1 and kinds[-1] == "end") or "end" in kinds
    replayed(network)
