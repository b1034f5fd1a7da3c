"""Fewer states, the same answers: on random networks, with and without reduction."""

from __future__ import annotations

import pytest

from pellucid.atomic import Atomic, explore, parse
from pellucid.atomic.machine import View
from pellucid.atomic.properties import Judge
from pellucid.atomic.reduction import KEPT, Reduced
from pellucid.atomic.rules import MUTANTS
from pellucid.errors import UsageError
from pellucid.internal.model import Budget, CutShort, Search
from tests.atomic.networks import network


def answers(machine: Atomic, reduced: Reduced) -> tuple[int, set[object], set[object], set[str], set[str]]:
    """States, reachable and final outcomes, what breaks and what sticks."""
    judge, search = Judge(machine), Search([reduced.start()], reduced.steps, Budget(None, 2500))
    reachable, final, broken, sticks = set[object](), set[object](), set[str](), set[str]()
    for at, after in search:
        view: View = machine.view(at)
        reachable.add(view[:2])
        broken |= set(judge.broken(at, KEPT))
        if not after:
            final.add(view[:2])
            sticks |= set(machine.transactions) - view.committed - view.aborted
    return len(search.parents), reachable, final, broken, sticks


@pytest.mark.parametrize("rules", ["corrected", "crash", *MUTANTS])
def test_order_changes_no_answer(rules: str) -> None:
    fewer = 0
    for seed in range(14):
        machine = Atomic(parse(network(seed)), rules=rules)
        try:
            whole = answers(machine, Reduced(machine, order=False))
        except CutShort:
            continue
        less = answers(machine, Reduced(machine))
        assert less[1:] == whole[1:], seed
        assert less[0] <= whole[0]
        fewer += less[0] < whole[0]
    assert fewer > 2


def test_symmetry_keeps_one_of_states_that_differ_in_names_only() -> None:
    workers = " | ".join(f"t{n}{{receive(out c, (x) commit, abort)}}" for n in (1, 2, 3))
    text = f"new t1, t2, t3, u: Trans. new p: Place. new c: Chan[<>]. p[ {workers} | u{{send(in c, <>) | commit}} ]"
    machine = Atomic(parse(text))
    reduced = Reduced(machine, order=False, symmetry=True)
    assert len(reduced.swaps) == 5
    whole, less = answers(machine, Reduced(machine, order=False)), answers(machine, reduced)
    assert less[0] * 3 < whole[0] and less[3] == whole[3]

    def counts(outcomes: set[object]) -> set[tuple[int, int, bool]]:
        return {(len(c), len(a), "u" in c) for c, a in outcomes}  # type: ignore[misc]

    assert counts(less[1]) == counts(whole[1]) and counts(less[2]) == counts(whole[2])


def test_transactions_that_differ_are_not_exchanged() -> None:
    text = "new t, u: Trans. new p: Place. p[ t{commit} | u{commit | abort} ]"
    assert Reduced(Atomic(parse(text)), symmetry=True).swaps == []


def test_a_message_at_home_is_not_hurried_past_an_abort() -> None:
    text = "new t: Trans. new p: Place. new c: Chan[<>]. p[ t{send(out p.in c, <>) | abort} ]"
    machine = Atomic(parse(text))
    reduced = Reduced(machine)
    assert {str(step) for step, _ in reduced.steps(reduced.start())} == {"OUT t p", "ABORT t"}
    back = text.replace("p[ t{send(out p.in c, <>) | abort} ]", "p[ t{abort} ] | t{send(in p.out p.in c, <>)}")
    passing = Reduced(Atomic(parse(back)))
    assert {str(step) for step, _ in passing.steps(passing.start())} == {"IN t p", "ABORT t"}
    assert len(explore(machine).search.parents) == len(Search([reduced.start()], reduced.steps).all())


def test_what_is_refused() -> None:
    many = ", ".join(f"t{n}" for n in range(6))
    text = f"new {many}: Trans. new p: Place. p[ {' | '.join(f't{n}{{commit}}' for n in range(6))} ]"
    with pytest.raises(UsageError, match="6 are more than 5"):
        Reduced(Atomic(parse(text)), symmetry=True)
    with pytest.raises(UsageError, match="order=False is needed"):
        Reduced(Atomic(parse(text), rules="drop_dead_messages"))
