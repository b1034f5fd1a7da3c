"""What the real core writes, over networks that lose and double and places that die, is a run of the calculus."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest

from pellucid.atomic.places.audit import PlacesAudit, audit_logs
from pellucid.atomic.places.core import Core, Effects
from tests.atomic.places.programs import FLAT, anything, booking
from tests.atomic.places.simulator import World
from tests.atomic.places.test_simulated import PLANTED
from tests.seeds import seeds

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


def anything_at_all(seed: int, core: type[Core] = Core, *, lazy: bool = False) -> World:
    """Programs that do anything, at places inside of each other or not, while everything fails that can."""
    chance = random.Random(seed)
    inside: dict[str, str | None] = {"street": None, "inn": "street", "desk": "inn", "bank": None}
    parents = inside if chance.random() < 0.3 else dict.fromkeys(["p", "q", "r", "s"][: chance.randint(2, 4)])
    channels = {place: [f"to_{place}"] for place in parents}
    world = World(channels, parents=parents, seed=seed, core=core, lazy=lazy, watch=False)
    for _ in range(chance.randint(3, 7)):
        world.client(chance.choice(list(parents)), anything(chance))
    world.storm(chance.randint(80, 250), kill=chance.choice([0.0, 0.01, 0.05]))
    return world


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(60))
def test_anything(seed: int) -> None:
    world = anything_at_all(seed)
    found = audited(world, lasting=True)
    assert found.holds, str(found)
    world.heal()
    found = audited(world)
    assert found.holds, str(found)
    statuses = {t: core.state.status(t) for core in world.cores.values() if core for t in core.state.outcomes}
    assert {t: status for t, status in found.transactions.items() if t in statuses} == statuses


# Two of them wait for ever, and one lies to its client alone: no log shows that.
EVIDENT = [core for core in PLANTED if core.__name__ not in ("SendsOnce", "NeverGivesUp", "AbortDoesNotLast")]


class Refuted(Exception):  # noqa: N818 - an answer
    """The audit says no."""


class Audited(World):
    """Whenever something was made to last, the audit is asked about all that lasts."""

    def _carry(self, place: str, effects: Effects) -> None:
        super()._carry(place, effects)
        if effects.sync and not (found := audited(self, lasting=True, replay=False)):
            raise Refuted(str(found))


def booked(core: type[Core], seed: int, *, lazy: bool = False) -> None:
    """Bookings, with a kill or two at any moment; then everything comes to rest."""
    chance = random.Random(seed)
    world = Audited(FLAT, seed=seed, core=core, lazy=lazy, watch=False)
    first = world.steps + chance.randint(5, 120)
    world.kill_at = {first: chance.choice(["all", "some"]), first + chance.randint(1, 60): "all"} if seed else {}
    booking(world, 1 + seed % 2)
    world.run(rounds=20)
    world.kill_at = {}
    world.heal()
    if not (found := audited(world, replay=False)):
        raise Refuted(str(found))


@pytest.mark.parametrize("core", [*EVIDENT, None], ids=lambda core: core.__name__ if core else "SpeaksBeforeItWrites")
def test_the_audit_finds_planted_cores(core: type[Core] | None) -> None:
    """By their logs alone."""
    for seed in range(60):
        try:
            booked(core or Core, seed, lazy=core is None)
        except Refuted:
            return
        except Exception:  # it found out itself that something is wrong, without a log that shows it
            continue
    for seed in range(300):  # votes of an old attempt need a restless network
        with suppress(Exception):
            world = anything_at_all(seed, core or Core, lazy=core is None)
            world.heal()
            if not audited(world, replay=False):
                return
    pytest.fail("no booking of 60 and no storm of 300 leaves logs that the audit refutes")


def test_and_says_nothing_of_the_right_one() -> None:
    for seed in range(10):
        booked(Core, seed)
