"""The model of committing together: proved as it is, and refuted with each classic fault, by a shortest run."""

from __future__ import annotations

import pytest

from pellucid.errors import UsageError
from tests.atomic.places.protocol import FAULTS, SAYS, places_keep

# Which question a fault answers with no, for how many members, and the end of a shortest run.
REFUTED = {
    "decision in memory": ("the decision lasts", 2),
    "vote before the log": ("agreement", 2),
    "decide early": ("agreement", 3),
    "a doubled vote counts twice": ("agreement", 3),
    "a time-out aborts what is prepared": ("no wrong abort", 2),
    "a time-out commits what is prepared": ("the decision lasts", 2),
    "recovery aborts what is prepared": ("no wrong abort", 2),
    "unknown means commit": ("the decision lasts", 2),
    "give up what is decided": ("the decision lasts", 2),
    "forget at the first done": ("the decision lasts", 2),
    "attempts have no names": ("agreement", 2),
    "prepared ones can be aborted": ("no wrong abort", 2),
    "one failing commit stops the others": ("nobody waits for another", 3),
    "readers look between the phases": ("readers", 2),
    "the aborted prepare": ("agreement", 2),
    "an attempt is never given up": ("an end", 2),
    "an older copy is believed": ("agreement", 3),
}


@pytest.mark.parametrize(("members", "crashes", "attempts"), [(2, 2, 3), (3, 1, 2), (3, 2, 1)])
def test_what_every_run_keeps(members: int, crashes: int, attempts: int) -> None:
    found = places_keep(members=members, crashes=crashes, attempts=attempts)
    assert {name: verdict.status for name, verdict in found.items()} == dict.fromkeys(SAYS, "bounded")
    assert found["agreement"].bound.startswith(f"runs of {members} places with at most {attempts} attempts, {crashes} ")
    assert found["agreement"].details["states"] > 500


def test_every_fault_has_its_row() -> None:
    assert set(REFUTED) == set(FAULTS)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_classic_fault_is_refuted_by_a_shortest_run(fault: str) -> None:
    question, members = REFUTED[fault]
    verdict = places_keep(members=members, attempts=2 if members == 2 else 1, rules=[fault])[question]
    assert verdict.status == "refuted", fault
    assert verdict.counterexample is not None and verdict.counterexample.replay()
    assert len(verdict.counterexample.steps) <= 12


def test_a_fault_that_is_none() -> None:
    with pytest.raises(UsageError, match=r"no fault is called 'decide erly'.*did you mean 'decide early'"):
        places_keep(rules=["decide erly"])
    with pytest.raises(UsageError, match="two places at least"):
        places_keep(members=1)
