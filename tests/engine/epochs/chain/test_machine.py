"""The machine of chained runs keeps its promises in all runs, and every fault is refuted by a shortest run."""

from __future__ import annotations

import pytest

from pellucid.engine.epochs.chain.machine import FAULTS, Chained, Reads
from pellucid.engine.epochs.chain.question import SAYS, chain_keeps
from pellucid.errors import UsageError
from pellucid.model import follow

LINE, THREE, FORK, JOIN = ((), (0,)), ((), (0,), (1,)), ((), (0,), (0,)), ((), (), (0, 1))
# With delays: a chain; a run that reads itself; two in a circle, both with a delay, or one; three.
LATER, ITSELF = ((), ((0, 1),)), (((0, 1),),)
CIRCLE, EACH, OF_THREE = (((1, 1),), (0,)), (((1, 1),), ((0, 1),)), (((2, 1),), (0,), (1,))
BESIDE = (((1, 1),), (0,), (1,))  # and one that reads a circle, and is not in it

# Which questions a fault is refuted by, with the length of the shortest run.
REFUTED = {
    "commit without asking": {"no orphan": 4},
    "asks without comparing": {"no orphan": 9},
    "dependency forgotten": {"no orphan": 6},
    "undo forgotten": {"an end": 5},
    "reads on": {"one history": 7},
    "commit without looking": {"once": 4},
    "staged is enough": {"no orphan": 4},
    "complete is enough": {"no orphan": 5},
}
# The same in a circle of two.
REFUTED_ROUND = {
    **REFUTED,
    "commit without asking": {"no orphan": 4, "one history": 8},
    "asks without comparing": {"no orphan": 9, "one history": 10},
    "staged is enough": {"no orphan": 4, "one history": 8},
    "complete is enough": {"no orphan": 5, "one history": 9},
    "what goes round is read ahead": {"one history": 6},
    "reads on": {},  # with one epoch at a time: nothing is read on top of what is not committed
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
    [(LATER, 2, 1), (ITSELF, 3, 2), (CIRCLE, 2, 2), (EACH, 2, 1), (OF_THREE, 2, 1), (BESIDE, 1, 1)],
)
def test_with_delays_and_in_circles_it_keeps_it_as_well(reads: Reads, epochs: int, failures: int) -> None:
    verdicts = chain_keeps(reads, epochs=epochs, failures=failures)
    assert {name: verdict.status for name, verdict in verdicts.items()} == dict.fromkeys(SAYS, "bounded")


@pytest.mark.long
@pytest.mark.parametrize(("reads", "failures"), [(LINE, 3), (THREE, 1), (OF_THREE, 2), (BESIDE, 1)])
def test_it_keeps_it_in_longer_runs(reads: Reads, failures: int) -> None:
    verdicts = chain_keeps(reads, epochs=2, failures=failures)
    assert {name: verdict.status for name, verdict in verdicts.items()} == dict.fromkeys(SAYS, "bounded")


@pytest.mark.parametrize(
    ("reads", "fault", "broken_by"),
    [
        *((LINE, fault, found) for fault, found in REFUTED.items()),
        *((CIRCLE, fault, found) for fault, found in REFUTED_ROUND.items()),
    ],
)
def test_a_fault_is_refuted(reads: Reads, fault: str, broken_by: dict[str, int]) -> None:
    verdicts = chain_keeps(reads, epochs=2, failures=1, rules=[fault])
    broken = {name: v.counterexample for name, v in verdicts.items() if v.refuted}
    assert {name: len(run.steps) for name, run in broken.items() if run is not None} == broken_by
    for run in broken.values():
        assert run is not None
        assert run.replay()


def test_every_fault_is_refuted_somewhere() -> None:
    assert set(REFUTED) | set(REFUTED_ROUND) == set(FAULTS)
    assert all(REFUTED.get(fault) or REFUTED_ROUND[fault] for fault in FAULTS)


def test_why_the_complete_epochs_of_a_circle_are_not_committed_at_once() -> None:
    """One of them can still be lost, and then the other has committed rows that were made from what nobody has."""
    machine = Chained(CIRCLE, 2, 1, rules=["complete is enough"])
    whole = ["make 1 at p0 as a", "complete 1 at p0", "make 1 at p1", "complete 1 at p1", "commit 1 at p1"]
    lost = ["crash p0", "recover p0 anew", "make 1 at p0 as b", "complete 1 at p0", "commit 1 at p0"]
    first, second = follow(machine, [*whole, *lost])[-1].lines
    assert first.committed == ((1, ("b", "silent")),)
    assert second.committed == ((1, (("a", "silent"),)),)


def test_what_goes_round_is_not_built_on_ones_own_past() -> None:
    """Read ahead, the rows of the other may be made from rows that their reader has given up."""
    past = ["make 1 at p0 as a", "crash p0", "make 1 at p1", "recover p0", "make 1 at p0 as b"]
    steps = {label for label, _ in Chained(CIRCLE, 2, 1).steps(follow(Chained(CIRCLE, 2, 1), past)[-1])}
    assert not any(label.startswith("make 2 at p0") for label in steps)
    found = chain_keeps(CIRCLE, failures=1, rules=["what goes round is read ahead"])["one history"].counterexample
    assert found is not None
    assert len(found.steps) == 6


def test_what_was_given_up_is_undone_and_made_again() -> None:
    made = ["make 1 at p0 as a", "make 1 at p1", "complete 1 at p1", "crash p0", "recover p0", "make 1 at p0 as b"]
    path = follow(Chained(epochs=1), [*made, "complete 1 at p0", "commit 1 at p0", "undo 1 at p1", "make 1 at p1"])
    assert path[-1].lines[1].staged[0].rows == (("b",),)


def test_the_same_rows_made_again_are_no_reason_to_undo() -> None:
    made = ["make 1 at p0 as a", "make 1 at p1", "crash p0", "recover p0", "make 1 at p0 as a", "complete 1 at p0"]
    path = follow(Chained(epochs=1), [*made, "commit 1 at p0", "complete 1 at p1", "commit 1 at p1"])
    assert path[-1].lines[1].committed == ((1, (("a",),)),)


def test_a_circle_without_a_delay_has_no_first_epoch() -> None:
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
