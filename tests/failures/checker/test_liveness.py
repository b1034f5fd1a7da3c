"""Liveness: dead ends and fair cycles; and monotone observability functions."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from pellucid import UsageError, check
from pellucid.failures.checker.rules import Rules
from pellucid.failures.checker.search.liveness import components, fair_cycle
from pellucid.failures.checker.sinks import Own
from pellucid.failures.checker.story import FaultyExecution
from pellucid.failures.checker.system import CrashSystem
from pellucid.failures.checker.variants import NotRecovered
from pellucid.failures.model import Configuration, f_recover, gce, out
from pellucid.internal.model import Budget, follow
from tests.failures.shapes import chain


class BlindToTheOutput(Own):
    """Sees nothing: so only liveness is left to be refuted."""

    def __init__(self) -> None:
        super().__init__(lambda c: 0)


class LosesABorder(Rules):
    """After a recovery the last message of the input is gone."""

    name, wrong, paper_recovery = "loses-a-border", "the last border of the input is lost", False

    def recover(self, c: Configuration) -> Configuration | None:
        after = f_recover(c)
        if after is None:
            return None
        last = max(c.D, key=lambda m: (m.e, m.n))
        return dataclasses.replace(after, M=after.M - {last}, D=after.D - {last})


def test_a_deadlock_is_a_counterexample() -> None:
    verdict = check.failures(chain(2, 1, 2), variant=LosesABorder(), crashes=1, observe=lambda c: 0)
    example = verdict.counterexample
    assert verdict.refuted and isinstance(example, FaultyExecution) and example.kind == "not live"
    assert example.why == "nothing can be done any more, and epoch 2 never appears in the output: t0, t1 wait for ever"
    assert verdict.details == {**verdict.details, "explained": True, "live": False}


def test_a_task_that_stays_failed_makes_a_fair_cycle() -> None:
    system = CrashSystem(chain(1, 1, 2), crashes=1, rules=NotRecovered("t1"), observation=BlindToTheOutput())
    found = fair_cycle(system, Budget())
    assert found is not None
    way, loop = found
    assert [str(label) for label in way] == ["F-FAIL t1"]
    assert loop and str(loop[-1]) == "F-RECOVER"
    at = follow(system, [*way, *loop])
    assert at[len(way)].c.Sigma == at[-1].c.Sigma or at[len(way)].c.M == at[-1].c.M


def test_the_verdict_tells_the_cycle() -> None:
    verdict = check.failures(chain(1, 1, 2), variant=NotRecovered("t1"), crashes=1, observe=lambda c: 0)
    assert verdict.refuted and verdict.counterexample is not None
    assert "repeats for ever, fairly, and epoch 1 never appears in the output" in verdict.counterexample.why
    assert verdict.counterexample.loop == 1


def test_the_papers_rules_have_no_fair_cycle() -> None:
    assert fair_cycle(CrashSystem(chain(1, 1, 2), crashes=2), Budget()) is None


# ---------------------------------------------------------------- Definition 5.3


@pytest.mark.parametrize("observe", [out, gce, lambda c: None, lambda c: len(out(c))])
def test_monotone_functions_are_taken(observe: Any) -> None:
    assert check.failures(chain(2, 1, 2), observe=observe, crashes=1).bounded


def test_a_function_that_takes_back_what_it_showed_is_refused_with_two_configurations() -> None:
    def everything(c: Configuration) -> int:
        return len(c.M)

    with pytest.raises(UsageError) as error:
        check.failures(chain(1, 1, 1), observe=everything)
    assert str(error.value) == (
        "observe=everything is not monotone (Definition 5.3), so an observer could not rely on it: "
        "I-EVENT t0  -s0 ⟨1, EV(1)⟩  +s1 ⟨1, EV(1)⟩ takes what is seen from 2 to 3, and from there it can come back to "
        "2.\n"
        "  before: {'t0': ⟨[0 ↦ 0], ⟨1, 0⟩⟩}\n"
        "  after:  {'t0': ⟨[0 ↦ 0], ⟨1, 1⟩⟩}\n"
        "An observability function must only grow: show what is committed, as out does"
    )


def test_a_function_that_sees_failures_is_monotone_or_not_as_its_order_says() -> None:
    def failed(c: Configuration) -> bool:
        return any(str(state.volatile) == "fl" for state in c.Sigma.values())

    with pytest.raises(UsageError, match="F-FAIL t0 takes what is seen from False to True"):
        check.failures(chain(1, 1, 1), observe=failed)


def test_an_observation_must_be_hashable() -> None:
    with pytest.raises(UsageError, match=r"observe=.* gave \[\], which cannot be hashed"):
        check.failures(chain(1, 1, 1), observe=lambda c: [])  # type: ignore[arg-type, return-value]


def test_components() -> None:
    graph = {None: [1], 1: [2, None], 2: [3], 3: [3]}
    assert sorted(map(len, components(graph))) == [1, 1, 2]
