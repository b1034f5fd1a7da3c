"""Unaligned snapshots: proved where they capture the events in flight, refuted where they do not."""

from __future__ import annotations

import random

import pytest

from pellucid import check
from pellucid.failures.checker.unaligned import Taking, Unaligned, UnalignedRules
from pellucid.failures.model import IBorder, Normal, Task, initial
from tests.failures.random_graphs import random_graph
from tests.failures.shapes import chain, merged
from tests.seeds import seeds


def test_nothing_speaks_against_it() -> None:
    assert check.failures(chain(2, 2, 3), protocol="unaligned").bounded
    assert check.failures(merged(2, 1), protocol="unaligned").bounded


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(12))
def test_nothing_speaks_against_it_on_random_graphs(seed: int) -> None:
    c = random_graph(random.Random(seed), most_tasks=2, most_events=1, most_epochs=2)
    verdict = check.failures(c, protocol="unaligned", crashes=1)
    assert verdict.bounded, str(verdict)


def test_the_borders_of_sources_are_taken_at_once() -> None:
    """An event of a source is never in flight, so no recovery can put it off to an epoch in which no failure-free run
    has it."""
    c = initial({"t": Task(lambda v, w: (v + w, [v + w]), ("a", "b"), "o")}, {"a": [[4], []], "b": [[5], []]}, {"t": 0})
    rules = UnalignedRules()
    at = next(then for label, then in rules.steps(rules.start(c)) if " -a " in str(label))
    assert [str(label) for label, _ in rules.steps(at)] == ["I-EVENT t  -b ⟨1, EV(5)⟩  +o ⟨1, EV(9)⟩"]
    assert check.failures(c, protocol="unaligned").bounded


def test_a_border_overtakes_the_events_in_front_of_it_and_the_snapshot_keeps_them() -> None:
    rules = UnalignedRules()
    c = rules.start(chain(1, 2, 2))
    for _ in range(3):  # t0 passes its two events and its border on
        c = next(then for label, then in rules.steps(c) if label.p == "t0")  # type: ignore[union-attr]
    border, after = next(
        (label, then) for label, then in rules.steps(c) if label.p == "t1" and isinstance(label, IBorder)
    )
    assert str(border) == "I-BORDER t1  -s1 ⟨1, EV(1)⟩  -s1 ⟨1, EV(3)⟩  -s1 ⟨1, BD⟩  +s2 ⟨1, BD⟩"
    assert after.Sigma["t1"].archive[1] == Unaligned(0, ((1, 3),))
    steps = rules.steps(after)
    label, after = next((label, then) for label, then in steps if label.p == "t1")  # type: ignore[union-attr]
    assert str(label) == "I-EVENT t1  +s2 ⟨2, EV(1)⟩"  # its output is of the next epoch
    assert after.Sigma["t1"].volatile == Normal(2, Unaligned(1, ((3,),)))


def test_between_its_first_and_its_last_border_a_task_notes_what_it_takes() -> None:
    rules = UnalignedRules()
    c = rules.start(merged(1, 1))

    def take(p: str, start: str) -> None:
        nonlocal c
        c = next(then for label, then in rules.steps(c) if str(label).startswith(f"{start} {p}"))

    for p, start in [
        ("left", "I-EVENT"),
        ("left", "I-BORDER"),
        ("right", "I-EVENT"),
        ("join", "I-BORDER"),
        ("join", "I-EVENT"),
    ]:
        take(p, start)
    volatile = c.Sigma["join"].volatile
    assert isinstance(volatile, Normal)
    assert volatile.v.taking == Taking(0, ((1,), ()), frozenset({1}))
    assert 1 not in c.Sigma["join"].archive


def test_without_the_events_in_flight_it_is_refuted() -> None:
    assert check.failures(chain(2, 1, 2), protocol="unaligned", variant="not-captured", crashes=1).refuted
