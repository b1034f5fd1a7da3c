"""Places under an adversary: killed before and after each write and each message, a network that loses, doubles, delays
and reorders; held against an oracle that knows the logs and the meaning and nothing else.  Then planted faults, each of
which the same adversary must find."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from pellucid.atomic.places.core import Core
from tests.atomic.places import oracle
from tests.atomic.places.programs import FLAT, anything, booking, chain, ring
from tests.atomic.places.simulator import World
from tests.seeds import seeds

NESTED = {"street": None, "inn": "street", "desk": "inn", "bank": None}
SCENES: dict[str, Callable[[World], None]] = {"booking": booking, "chain": chain}


def play(scene: Callable[[World], None], kills: dict[int, str], core: type[Core] = Core) -> World:
    """A scene from its beginning, with these kills; then everything comes to rest."""
    world = World(FLAT, core=core, watch=bool(kills))
    world.steps = 0
    world.kill_at = dict(kills)
    scene(world)
    world.run(rounds=30)
    world.kill_at = {}
    world.heal()
    world.judge()
    return world


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("lost", ["all", "none"])
def test_killed_before_and_after_each_write_and_each_message(scene: str, lost: str) -> None:
    steps = play(SCENES[scene], {}).steps
    assert steps > 60
    outcomes = set()
    for step in range(1, steps + 1):
        world = play(SCENES[scene], {step: lost})
        outcomes.add(len(oracle.committed(world.logs())))
    assert len(outcomes) > 1  # some kills undo something, some do not


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(40))
def test_killed_twice(seed: int) -> None:
    chance = random.Random(seed)
    first = chance.randint(1, 150)
    play(booking, {first: chance.choice(["all", "some", "none"]), first + chance.randint(1, 60): "some"})


def storm(seed: int, core: type[Core] = Core, *, lazy: bool = False) -> World:
    """Anything at places that are inside of each other or not, while everything fails that can."""
    chance = random.Random(seed)
    parents: dict[str, str | None]
    if chance.random() < 0.3:
        parents = dict(NESTED)
    else:
        parents = dict.fromkeys(["p", "q", "r", "s"][: chance.choice([2, 3, 3, 4])])
    channels = {place: [f"to_{place}"] for place in parents}
    world = World(channels, parents=parents, seed=seed, core=core, lazy=lazy)
    if chance.random() < 0.7:
        for place in list(parents) * chance.randint(1, 2):
            world.client(place, ring(chance))
    for _ in range(chance.randint(0, 4)):
        world.client(chance.choice(list(parents)), anything(chance))
    wild = chance.random() < 0.7
    lose, kill = (0.1, chance.choice([0.0, 0.003, 0.01, 0.03])) if wild else (0.02, 0.002)
    world.storm(chance.randint(80, 250), lose=lose, kill=kill)
    world.heal()
    world.judge()
    return world


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(120))
def test_a_storm(seed: int) -> None:
    storm(seed)


def test_storms_that_hunts_found() -> None:
    storm(403053000074)  # a place followed two that blocked each other, for ever


def test_storms_reach_what_matters() -> None:
    """Sets over several places, cascades, attempts that were given up, crashes: all of it happens in those storms."""
    seen: set[str] = set()
    for seed in range(120):
        for log in storm(seed).logs().values():
            seen |= {kind for kind, _ in log}
            seen |= {f["why"].split(" from")[0] for kind, f in log if kind == "abort"}
    assert seen >= {"decide", "prepared", "given_up", "end", "cascade", "crash", "asked", "sent"}


@pytest.mark.long
@pytest.mark.seeded
def test_many_storms() -> None:
    for seed in seeds(5000, 10_000):
        storm(seed)


# ------------------------------------------------------------ planted faults


class ForgetsDependencies(Core):
    def _needs(self, t: str, u: str) -> None:
        pass


class RestoresNothing(Core):
    def _abort(self, t: str, why: str) -> None:
        self.state.live[t].takes.clear()
        super()._abort(t, why)


class PresumesCommit(Core):
    def _answer(self, peer: str, attempt: str) -> None:
        self._send(peer, "decided", attempt=attempt, outcome="commit")


class DecidesEarly(Core):
    def _heard_vote(self, peer: str, message: Any) -> None:
        if message["yes"] and message["attempt"] in self.attempts:
            self.attempts[message["attempt"]].missing.intersection_update({peer})
        super()._heard_vote(peer, message)


class VotesBeforeTheLog(Core):
    def _write(self, kind: str, *, sync: bool = False, **fields: Any) -> None:
        super()._write(kind, sync=sync and kind != "prepared", **fields)


class AbortDoesNotLast(Core):
    """Of a pending one: it comes back to life after somebody heard that it is aborted."""

    def _write(self, kind: str, *, sync: bool = False, **fields: Any) -> None:
        super()._write(kind, sync=sync and kind != "abort", **fields)


class DecidesInMemory(Core):
    def _write(self, kind: str, *, sync: bool = False, **fields: Any) -> None:
        unsure = kind == "decide" or (kind == "commit" and fields.get("attempt") is not None)
        super()._write(kind, sync=sync and not unsure, **fields)


class TimeOutAborts(Core):
    def _ask_outcome(self, attempt: str, wait: float) -> None:
        for t in self.state.prepared[attempt].members if attempt in self.state.prepared else ():
            self._abort(t, "crash")


class RecoveryAbortsPrepared(Core):
    def start(self, now: float = 0.0, *, mark: str | None) -> Any:
        for own in self.state.live.values():
            if own.attempt is not None:
                own.pending = False
        return super().start(now, mark=mark)


class TakesDoubled(Core):
    def _heard_deposit(self, peer: str, message: Any) -> None:
        self.state.known.pop(message["mid"], None)
        super()._heard_deposit(peer, message)


class SendsOnce(Core):
    def _tick(self, now: float) -> None:
        self._unheard.clear()
        super()._tick(now)


class CommitsWhenPrepared(Core):
    def _heard_prepare(self, peer: str, message: Any) -> None:
        super()._heard_prepare(peer, message)
        if message["attempt"] in self.state.prepared:
            self._heard_decided(peer, {"attempt": message["attempt"], "outcome": "commit"})


class AttemptsHaveNoNames(Core):
    def _heard_vote(self, peer: str, message: Any) -> None:
        attempt = next(iter(self.attempts), message["attempt"])
        super()._heard_vote(peer, {**message, "attempt": attempt})


class NeverGivesUp(Core):
    def _answer(self, peer: str, attempt: str) -> None:
        if attempt in self.state.decided:
            super()._answer(peer, attempt)


PLANTED = [
    ForgetsDependencies, RestoresNothing, PresumesCommit, DecidesEarly, VotesBeforeTheLog, DecidesInMemory,
    TimeOutAborts, RecoveryAbortsPrepared, TakesDoubled, SendsOnce, CommitsWhenPrepared, AttemptsHaveNoNames,
    NeverGivesUp,
]  # fmt: skip


@pytest.mark.parametrize("core", PLANTED)
def test_a_planted_fault_is_found(core: type[Core]) -> None:
    for seed in range(400):
        try:
            storm(seed, core)
        except AssertionError:
            return
    pytest.fail(f"{core.__name__}: no storm of 400 finds it")


@pytest.mark.parametrize("core", [Core, AbortDoesNotLast])
def test_what_was_told_to_be_aborted_does_not_commit_after_a_crash(core: type[Core]) -> None:
    world = World({"p": ["c"], "q": ["d"]}, core=core)
    t, u = world.begin("p"), world.begin("q")
    world.send(t, "q", "d")
    world.ask("q", "receive", t=u, channel="d", timeout=0)
    assert world.ask("q", "commit", t=u, timeout=0)["status"] == "pending"  # that lasts
    assert world.ask("q", "abort", t=u)["status"] == "aborted"
    world.kill("q", "all")
    world.start("q")
    world.ask("p", "commit", t=t, timeout=None)
    world.run()
    world.judge()
    assert world.status(u) == ("aborted" if core is Core else "committed")


def test_a_host_that_speaks_before_it_writes_is_found() -> None:
    for seed in range(400):
        try:
            storm(seed, lazy=True)
        except AssertionError:
            return
    pytest.fail("no storm of 400 finds it")
