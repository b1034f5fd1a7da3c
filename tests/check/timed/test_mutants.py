"""Each promise is one that can be broken: engines with wrong rules are refuted, by a shortest run, which happens."""

from __future__ import annotations

import pytest

from pellucid.check.timed.inputs import Inputs
from pellucid.check.timed.promises import ALL
from pellucid.check.timed.question import TimesVerdict, decide_times
from pellucid.internal.engine.timed.literal import Literal
from pellucid.internal.model import Budget
from tests.check.timed.mutants import MUTANTS, engine


def asked(name: str, kind: type[Literal]) -> TimesVerdict:
    mutant = MUTANTS[name]
    more = dict(mutant.more)
    batch = more.pop("batch", 1)
    times = None if "events" in more else list(mutant.times)
    inputs = Inputs.of(mutant.pipeline.graph, times=times, pushes=3, batch=batch, **more)
    return decide_times(mutant.pipeline.graph, inputs, ALL, Budget(None, 100_000), engine=kind, exact=True)


@pytest.mark.parametrize("name", list(MUTANTS))
def test_a_wrong_rule_is_refuted_by_a_shortest_run(name: str) -> None:
    found = asked(name, engine(name))
    assert found.refuted, f"{name}: {found}"
    broken = {part for part, verdict in found.parts.items() if verdict.refuted}
    assert broken == MUTANTS[name].breaks, found
    example = found.counterexample
    assert example is not None and example.replay()
    shortest = min(len(v.counterexample.steps) for v in found.parts.values() if v.counterexample is not None)
    assert shortest == MUTANTS[name].length, found


@pytest.mark.parametrize("pipeline", {id(m.pipeline): n for n, m in MUTANTS.items()}.values())
def test_nothing_is_found_against_the_right_rules(pipeline: str) -> None:
    found = asked(pipeline, Literal)
    assert found.bounded, found
