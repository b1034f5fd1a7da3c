"""The machine of chained runs keeps its promises in all runs, and every fault is refuted by a shortest run."""

from __future__ import annotations

import pytest

from pellucid.errors import UsageError
from pellucid.internal.model import follow
from tests.engine.epochs.chain.machine import FAULTS, Chained, Reads
from tests.engine.epochs.chain.question import SAYS, chain_keeps

LINE, THREE, FORK, JOIN = ((), (0,)), ((), (0,), (1,)), ((), (0,), (0,)), ((), (), (0, 1))
LATER, LATER_JOIN = ((), ((0, 1),)), ((), (0,), ((0, 1), 1))  # with delays

# Which questions a fault is refuted by, with the length of the shortest run.
REFUTED = {
    "commit without asking": {"no orphan": 4},
    "asks without comparing": {"no orphan": 9},
    "dependency forgotten": {"no orphan": 6},
    "undo forgotten": {"an end": 5},
    "reads on": {"one history": 7},
    "commit without looking": {"once": 4},
    "staged is enough": {"no orphan": 4},
}


@pytest.mark.parametrize(
    ("reads", "epochs", "failures", "variants"),
    [(LINE, 2, 1, "ab"), (LINE, 1, 3, "ab"), (THREE, 1, 2, "ab"), (FORK, 1, 2, "ab"), (JOIN, 1, 1, "ab")],
)
def test_it_keeps_what_it_promises(
    reads: Reads, epochs: int, failures: int, variants: str
) -> None:  # fmt: skip
    verdicts = chain_keeps(reads, epochs=epochs, failures=failures, variants=variants)
    assert {name: verdict.status for name, verdict in verdicts.items()} == dict.fromkeys(SAYS, "bounded")


@pytest.mark.parametrize(
    ("reads", "epochs", "failures"),
    [(LATER, 2, 1), (LATER_JOIN, 1, 1)],
)
def test_with_delays_it_keeps_it_as_well(reads: Reads, epochs: int, failures: int) -> None:
    verdicts = chain_keeps(reads, epochs=epochs, failures=failures)
    assert {name: verdict.status for name, verdict in verdicts.items()} == dict.fromkeys(SAYS, "bounded")


@pytest.mark.long
@pytest.mark.parametrize(("reads", "failures"), [(LINE, 3), (THREE, 1)])
def test_it_keeps_it_in_longer_runs(reads: Reads, failures: int) -> None:
    verdicts = chain_keeps(reads, epochs=2, failures=failures)
    assert {name: verdict.status for name, verdict in verdicts.items()} == dict.fromkeys(SAYS, "bounded")


@pytest.mark.parametrize(("fault", "broken_by"), REFUTED.items())
def test_a_fault_is_refuted(fault: str, broken_by: dict[str, int]) -> None:
    verdicts = chain_keeps(LINE, epochs=2, failures=1, rules=[fault])
    broken = {name: v.counterexample for name, v in verdicts.items() if v.refuted}
    assert {name: len(run.steps) for name, run in broken.items() if run is not None} == broken_by
    for run in broken.values():
        assert run is not None
        assert run.replay()


def test_every_fault_is_refuted_somewhere() -> None:
    assert set(REFUTED) == set(FAULTS)


def test_what_was_given_up_is_undone_and_made_again() -> None:
    made = ["make 1 at p0 as a", "make 1 at p1", "complete 1 at p1", "crash p0", "recover p0", "make 1 at p0 as b"]
    path = follow(Chained(epochs=1), [*made, "complete 1 at p0", "commit 1 at p0", "undo 1 at p1", "make 1 at p1"])
    assert path[-1].lines[1].staged[0].rows == (("b",),)


def test_the_same_rows_made_again_are_no_reason_to_undo() -> None:
    made = ["make 1 at p0 as a", "make 1 at p1", "crash p0", "recover p0", "make 1 at p0 as a", "complete 1 at p0"]
    path = follow(Chained(epochs=1), [*made, "commit 1 at p0", "complete 1 at p1", "commit 1 at p1"])
    assert path[-1].lines[1].committed == ((1, (("a",),)),)


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no fault is called 'reads n'; did you mean 'reads on'"):
        chain_keeps(rules=["reads n"])


def test_a_bound_is_no_proof() -> None:
    assert {v.status for v in chain_keeps(states=20).values()} == {"unknown"}
