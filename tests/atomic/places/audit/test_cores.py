"""What the real core writes, over networks that lose and double and places that die, is a run of the calculus."""

from __future__ import annotations

from typing import Any

import pytest
from tests.atomic.places.programs import FLAT, booking
from tests.atomic.places.simulator import World
from tests.seeds import seeds

from pellucid.atomic.places.audit import PlacesAudit, audit_logs

NESTED = {"office": [], "agent": ["answers"], "airline": ["requests", "seats"], "hotel": ["requests", "rooms"]}
INSIDE = {"office": None, "agent": "office", "airline": None, "hotel": "office"}


def audited(world: World, *, lasting: bool = False, **options: Any) -> PlacesAudit:
    logs = {p: [(n, kind, f) for n, (kind, f) in enumerate(log, 1)] for p, log in world.logs(lasting=lasting).items()}
    return audit_logs(world.parents, logs, **options)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(30))
def test_a_storm(seed: int) -> None:
    """In the middle of it what lasts, and at the end everything."""
    world = World(NESTED, parents=INSIDE, seed=seed) if seed % 2 else World(FLAT, seed=seed)
    world.watch = False
    booking(world, 1 + seed % 3)
    for _ in range(6):
        world.storm(60)
        for lasting in (True, False):
            found = audited(world, lasting=lasting, replay=lasting)
            assert found.holds, str(found)
    world.heal()
    found = audited(world)
    assert found.holds, str(found)
    assert found.replay is not None, found.notes
    assert not found.doubt


def test_without_trouble() -> None:
    world = World(FLAT, seed=1)
    booking(world, 2)
    world.run()
    found = audited(world)
    assert found.holds, str(found)
    assert found.count("committed") == 8
    assert found.replay is not None
    assert len(found.replay.outcome()[0]) == 8
