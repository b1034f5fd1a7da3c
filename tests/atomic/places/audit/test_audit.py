"""The audit of places says yes to runs that keep the rules and no, with the record, to planted faults; the machine of
the calculus is of the same opinion."""

from __future__ import annotations

import random

import pytest

from pellucid.atomic.places.audit import audit_logs
from pellucid.atomic.places.audit.words import CHECKS, KINDS, RULES, Violation
from tests.atomic.places.audit.faults import FAULTS
from tests.atomic.places.audit.simulated import World
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
