"""The machine keeps its promises in all runs, and every classic fault is refuted by a shortest run."""

from __future__ import annotations

import pytest

from pellucid.errors import UsageError
from pellucid.internal.model import follow
from tests.sinks.group.machine import FAULTS, SAYS, Together, together_keeps

# Which questions a fault is refuted by, with the length of the shortest run.
REFUTED = {
    "decision in memory": {"agreement": 18, "no wrong abort": 10},
    "commit when prepared": {"agreement": 9, "no wrong abort": 5},
    "decide early": {"an end": 6},
    "time-out aborts what is decided": {"agreement": 15, "no wrong abort": 7, "an end": 11},
    "recovery aborts all": {"no wrong abort": 9, "nothing lost": 10},
    "recovery commits all": {"agreement": 14},
    "commit without looking": {"once": 8, "readers": 9},
    "a failed commit counts": {"nothing lost": 9},
    "attempts have no names": {"agreement": 11, "no wrong abort": 14, "an end": 12},
    "readers look at each": {"readers": 7},
    "the dead take back": {"no wrong abort": 12},
}


@pytest.mark.parametrize(
    ("kinds", "epochs", "failures", "attempts"),
    [(("lasting", "held"), 2, 1, 3), (("lasting", "held"), 1, 2, 3), (("lasting", "lasting"), 1, 2, 2)],
)
def test_it_keeps_what_it_promises(kinds: tuple[str, ...], epochs: int, failures: int, attempts: int) -> None:
    verdicts = together_keeps(kinds, epochs=epochs, failures=failures, attempts=attempts)
    assert {name: verdict.status for name, verdict in verdicts.items()} == dict.fromkeys(SAYS, "bounded")


@pytest.mark.long
@pytest.mark.parametrize("kinds", [("lasting", "held"), ("lasting", "held", "held")])
def test_it_keeps_it_in_longer_runs(kinds: tuple[str, ...]) -> None:
    size = {"epochs": 2, "failures": 2, "attempts": 4} if len(kinds) == 2 else {"epochs": 1, "failures": 2}
    verdicts = together_keeps(kinds, **size)  # type: ignore[arg-type]
    assert {name: verdict.status for name, verdict in verdicts.items()} == dict.fromkeys(SAYS, "bounded")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_classic_fault_is_refuted(fault: str) -> None:
    verdicts = together_keeps(epochs=1, failures=1, attempts=3, rules=[fault])
    broken = {name: v.counterexample for name, v in verdicts.items() if v.refuted}
    assert {name: len(run.steps) for name, run in broken.items() if run is not None} == REFUTED[fault]
    for run in broken.values():
        assert run is not None
        assert run.replay()


def test_a_prepare_that_ends_after_the_recovery_made_its_list() -> None:
    """What was on its way when the coordinator died arrives when the next has looked already: it is cleared away."""
    begin = ["begin 1", "prepare 1 at m0", "crash", "start", "recover m0", "recover m1", "begin 1"]
    machine = Together(("lasting", "held"), 1, 1)
    path = follow(machine, [*begin, "prepare 1 at m0", "prepared 1 at m0 late", "clear m0", "prepared 1 at m0"])
    assert path[-1].members[0].prepared == (1, 2)
    assert path[-1].voted == {0}


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no fault is called 'decide erly'; did you mean 'decide early'"):
        together_keeps(rules=["decide erly"])


def test_a_bound_is_no_proof() -> None:
    assert {v.status for v in together_keeps(states=50).values()} == {"unknown"}
