"""The machine of chained runs keeps its promises in all runs, and every fault is refuted by a shortest run."""

from __future__ import annotations

import pytest

from pellucid.engine.epochs.chain.machine import FAULTS, Chained
from pellucid.engine.epochs.chain.question import SAYS, chain_keeps
from pellucid.errors import UsageError
from pellucid.model import follow

LINE, THREE, FORK, JOIN = ((), (0,)), ((), (0,), (1,)), ((), (0,), (0,)), ((), (), (0, 1))

# Which questions a fault is refuted by, with the length of the shortest run.
REFUTED = {
    "commit without asking": {"no orphan": 4},
    "asks without comparing": {"no orphan": 9},
    "dependency forgotten": {"no orphan": 6},
    "undo forgotten": {"an end": 5},
    "reads on": {"one history": 7},
    "commit without looking": {"once": 4},
}


@pytest.mark.parametrize(
    ("reads", "epochs", "failures", "variants"),
    [(LINE, 2, 1, "ab"), (LINE, 1, 3, "ab"), (THREE, 1, 2, "ab"), (FORK, 1, 2, "ab"), (JOIN, 1, 1, "ab")],
)
def test_it_keeps_what_it_promises(
    reads: tuple[tuple[int, ...], ...], epochs: int, failures: int, variants: str
) -> None:
    verdicts = chain_keeps(reads, epochs=epochs, failures=failures, variants=variants)
    assert {name: verdict.status for name, verdict in verdicts.items()} == dict.fromkeys(SAYS, "proved")


@pytest.mark.long
@pytest.mark.parametrize(("reads", "failures"), [(LINE, 3), (THREE, 1)])
def test_it_keeps_it_in_longer_runs(reads: tuple[tuple[int, ...], ...], failures: int) -> None:
    verdicts = chain_keeps(reads, epochs=2, failures=failures)
    assert {name: verdict.status for name, verdict in verdicts.items()} == dict.fromkeys(SAYS, "proved")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_refuted(fault: str) -> None:
    verdicts = chain_keeps(epochs=2, failures=1, rules=[fault])
    broken = {name: v.counterexample for name, v in verdicts.items() if v.refuted}
    assert {name: len(run.steps) for name, run in broken.items() if run is not None} == REFUTED[fault]
    for run in broken.values():
        assert run is not None
        assert run.replay()


def test_what_was_given_up_is_undone_and_made_again() -> None:
    made = ["make 1 at p0 as a", "make 1 at p1", "complete 1 at p1", "crash p0", "recover p0", "make 1 at p0 as b"]
    path = follow(Chained(epochs=1), [*made, "complete 1 at p0", "commit 1 at p0", "undo 1 at p1", "make 1 at p1"])
    assert path[-1].lines[1].staged[0].rows == (("b",),)


def test_the_same_rows_made_again_are_no_reason_to_undo() -> None:
    made = ["make 1 at p0 as a", "make 1 at p1", "crash p0", "recover p0", "make 1 at p0 as a", "complete 1 at p0"]
    path = follow(Chained(epochs=1), [*made, "commit 1 at p0", "complete 1 at p1", "commit 1 at p1"])
    assert path[-1].lines[1].committed == ((1, (("a",),)),)


def test_a_circle_has_no_first_epoch() -> None:
    """Push i of each run takes row i of every input: in a circle nobody can begin, with or without an input beside."""
    for reads in (((1,), (0,)), ((0,),), ((), (0, 2), (1,))):
        verdicts = chain_keeps(reads, epochs=1, failures=0)
        assert verdicts["an end"].refuted, reads
        labels = {label for at in follow(Chained(reads, 1, 0), []) for label, _ in Chained(reads, 1, 0).steps(at)}
        assert not any("p1" in label for label in labels)


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no fault is called 'reads n'; did you mean 'reads on'"):
        chain_keeps(rules=["reads n"])


def test_a_bound_is_no_proof() -> None:
    assert {v.status for v in chain_keeps(states=20).values()} == {"unknown"}
