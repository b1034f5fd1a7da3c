"""The audit of places says yes to runs that keep the rules and no, with the record, to planted faults; the machine of
the calculus is of the same opinion.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pellucid.atomic.places import Network, connect, end, new_network, start
from pellucid.atomic.places.audit import PlacesAudit, audit, audit_logs
from pellucid.atomic.places.audit.records import CHECKS, KINDS, RULES, Violation
from pellucid.atomic.places.core import Core, Effects
from pellucid.atomic.places.operators import accept_loss, doubts
from tests.atomic.places.planted_faults import FAULTS
from tests.atomic.places.programs import FLAT, anything, booking
from tests.atomic.places.simulated_logs import World
from tests.atomic.places.simulator import World as World_of_test_cores
from tests.atomic.places.test_simulated import PLANTED
from tests.seeds import HUNT, seeds


def told(found: object) -> str:
    return f"{found}"


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(60))
def test_runs_that_keep_the_rules(seed: int) -> None:
    world = World(seed, steps=random.Random(seed).choice([20, 60, 90]))
    found = audit_logs(world.tree, world.logs)
    assert found.holds, told(found)
    assert found.replay is not None, found.notes
    statuses = {t.name: t.status for t in world.ts.values() if t.status != "lost"}
    assert dict(found.transactions) == statuses
    outcome = found.replay.outcome()
    causes = {f["why"] for log in world.logs.values() for _, kind, f in log if kind == "abort"}
    # What was lost, and took others along, has aborted, too.
    gone = {t.name for t in world.ts.values() if t.status == "lost" and f"cascade from {t.name}" in causes}
    assert [len(names) for names in outcome] == [found.count("committed"), found.count("aborted") + len(gone)]
    standing = sorted(mid for there in found.standing.values() for mid, _ in there)
    there = [m for m in world.ms.values() if m.there and not m.taken and statuses.get(m.sender) == "committed"]
    assert standing == sorted(m.mid for m in there)


@pytest.mark.seeded
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_with_its_record(fault: str) -> None:
    caught = 0
    for seed in seeds(40):
        world = World(seed, fault, equal=False, steps=30)
        if world.planted is None:
            continue
        found = audit_logs(world.tree, world.logs, limit=50)
        assert not found.holds, fault
        kinds = {(v.kind, v.place, v.seq) for v in found.violations}
        assert (FAULTS[fault], *world.planted) in kinds, f"{fault} at {world.planted}:\n{told(found)}"
        judges_agree(found)
        caught += 1
        if caught == 6:
            return
    assert HUNT or caught, f"{fault}: no occasion for it"


def judges_agree(found: object) -> None:
    """Where a rule of the calculus is broken the machine has no step, at the first such record; and the other way."""
    if found.replay is None:  # type: ignore[attr-defined]
        return
    mine = [v for v in found.violations if v.kind in RULES]  # type: ignore[attr-defined]
    (theirs,) = [v for v in found.violations if v.kind == "not-a-step"] or [None]  # type: ignore[attr-defined]
    assert (theirs is None) == (not mine), told(found)
    if theirs is not None:
        assert (theirs.place, theirs.seq) in {(v.place, v.seq) for v in mine}, told(found)


def test_every_prefix_of_a_run_is_a_run() -> None:
    """Also where each log is cut for itself, as far as causes are on record: a log that is read while it grows."""
    for seed in seeds(6):
        world = World(seed, steps=60)
        chance = random.Random(seed)
        for _ in range(4):
            upto = {place: chance.randrange(1, len(log) + 1) for place, log in world.logs.items()}
            found = audit_logs(world.tree, world.logs, upto=upto, replay=False)
            assert found.holds, told(found)


def test_every_violation_has_words_and_a_check() -> None:
    for kind, (check, _) in KINDS.items():
        assert check in CHECKS
        assert "{" not in str(Violation(kind, "p", 1, "take", "p:1:1", "q:1:1", "something"))
    assert RULES <= KINDS.keys()
    assert set(FAULTS.values()) <= KINDS.keys()


def test_the_answer_in_words_and_as_a_document() -> None:
    world = World(3, "commit after abort", steps=40)
    found = audit_logs(world.tree, world.logs)
    text = str(found)
    assert "The network broke the promise." in text
    assert "no   commits: who commits has asked to" in text
    assert '"status": "refuted"' in found.to_json(indent=1)
    assert not found


def test_a_set_by_hand() -> None:
    """A hand that commits one of an undecided set, and a hand that undoes what was decided."""
    log = [
        (1, "boot", {"n": 1}), (2, "begin", {"t": "p:1:1", "parent": None}), (3, "pending", {"t": "p:1:1"}),
        (4, "prepared", {"attempt": "q:1:a1", "coordinator": "q", "members": ["p:1:1"], "needs": []}),
        (5, "hand", {"what": "q:1:a1", "outcome": "commit", "who": "ada", "when": 0.0}),
        (6, "commit", {"members": ["p:1:1"], "attempt": "q:1:a1"}),
    ]  # fmt: skip
    found = audit_logs({"p": None, "q": None}, {"p": log, "q": [(1, "boot", {"n": 1})]})
    assert [str(v) for v in found.violations] == [
        "p, record 6 (commit): p:1:1 commits by q:1:a1, which is not decided on record until then",
        "p, record 5 (hand): it says commit, and q:1:a1 was never decided",
    ]


def test_an_effect_before_its_cause() -> None:
    """The decision stands in the log after the commit that it allows."""
    world = next(w for w in (World(seed, steps=90) for seed in range(500)) if any(a.decided for a in w.attempts))
    a = next(a for a in world.attempts if a.decided)
    log = world.logs[a.coordinator]
    at = next(i for i, (_, kind, _) in enumerate(log) if kind == "decide")
    (n, *decide), (m, *commit) = log[at], log[at + 1]
    log[at : at + 2] = [(n, *commit), (m, *decide)]
    found = audit_logs(world.tree, world.logs)
    assert ("commit-undecided", a.coordinator, n) in {(v.kind, v.place, v.seq) for v in found.violations}, told(found)


def test_more_records_than_are_replayed() -> None:
    world = World(1, steps=900)
    found = audit_logs(world.tree, world.logs)
    assert found.holds
    assert found.replay is None
    assert "not replayed on the machine of the calculus" in found.notes[-1]


def test_simulated_runs_have_what_matters() -> None:
    seen: set[str] = set()
    for seed in range(60):
        world = World(seed, steps=60)
        for log in world.logs.values():
            seen |= {kind if kind != "abort" else fields["why"].split(" from")[0] for _, kind, fields in log}
        seen |= {t.status for t in world.ts.values()}
    assert seen >= {"decide", "prepared", "given_up", "end", "sent", "cascade", "crash", "asked", "by hand", "lost"}


# What the real core writes, over networks that lose and double and places that die, is a run of the calculus.

NESTED = {"office": [], "agent": ["answers"], "airline": ["requests", "seats"], "hotel": ["requests", "rooms"]}
INSIDE = {"office": None, "agent": "office", "airline": None, "hotel": "office"}


def audited(world: World_of_test_cores, *, lasting: bool = False, **options: Any) -> PlacesAudit:
    logs = {p: [(n, kind, f) for n, (kind, f) in enumerate(log, 1)] for p, log in world.logs(lasting=lasting).items()}
    return audit_logs(world.parents, logs, **options)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(30))
def test_a_storm(seed: int) -> None:
    """In the middle of it what lasts, and at the end everything."""
    world = World_of_test_cores(NESTED, parents=INSIDE, seed=seed) if seed % 2 else World_of_test_cores(FLAT, seed=seed)
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
    world = World_of_test_cores(FLAT, seed=1)
    booking(world, 2)
    world.run()
    found = audited(world)
    assert found.holds, str(found)
    assert found.count("committed") == 8
    assert found.replay is not None
    assert len(found.replay.outcome()[0]) == 8


def anything_at_all(seed: int, core: type[Core] = Core, *, lazy: bool = False) -> World_of_test_cores:
    """Programs that do anything, at places inside of each other or not, while everything fails that can."""
    chance = random.Random(seed)
    inside: dict[str, str | None] = {"street": None, "inn": "street", "desk": "inn", "bank": None}
    parents = inside if chance.random() < 0.3 else dict.fromkeys(["p", "q", "r", "s"][: chance.randint(2, 4)])
    channels = {place: [f"to_{place}"] for place in parents}
    world = World_of_test_cores(channels, parents=parents, seed=seed, core=core, lazy=lazy, watch=False)
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


class Audited(World_of_test_cores):
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


# An audit says what ``net unresolved`` says of a log that is an older copy, also where no log tells it.


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
