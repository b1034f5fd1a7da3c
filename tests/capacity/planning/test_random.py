"""Plans against the simulation: no run is longer than a bound, and every bound is reached by the run that is shown."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import pytest

from pellucid.capacity import replay, simulate
from pellucid.capacity.planning import plan
from pellucid.capacity.planning.plan import SHOWN
from pellucid.internal.model import Budget
from tests.capacity.planning.topologies import topology

CHOICES = ("longest", "round robin", "random", "shortest")


def judged(seeds: range) -> tuple[int, int, int]:
    """How many queues are bounded, unbounded and unknown; what is wrong fails."""
    bounded = unbounded = unknown = 0
    for seed in seeds:
        t = topology(seed)
        found = plan(t, budget=Budget(20.0, 60_000))
        runs = [simulate(t, tuples=60, choose=choose, seed=seed) for choose in CHOICES]
        for name, bolt in found.bolts.items():
            if bolt.run is not None:  # the judge of all runs accepts it, step by step
                assert replay(t, bolt.run.steps).longest(name) == bolt.run.longest(name), seed
            if bolt.unbounded:
                unbounded += 1
                assert bolt.status == "refuted" and bolt.run is not None and bolt.run.longest(name) >= SHOWN, seed
            elif bolt.longest is None:
                unknown += 1
            else:
                bounded += 1
                for run in runs:
                    assert run.longest(name) <= bolt.longest, (seed, name, run.longest(name), bolt.longest)
                reached = bolt.run.longest(name) if bolt.run is not None else 0
                assert reached == bolt.longest, (seed, name)
                assert bolt.flow.utilisation <= 1, (seed, name)
                assert bolt.proof.endswith("checked") or "not checked again" in bolt.proof, (seed, bolt.proof)
    return bounded, unbounded, unknown


def test_a_hundred() -> None:
    bounded, unbounded, unknown = judged(range(100))
    assert bounded > 80 and unbounded > 30 and unknown <= 4, (bounded, unbounded, unknown)


@pytest.mark.long
def test_a_thousand() -> None:
    bounded, unbounded, unknown = judged(range(100, 1100))
    assert bounded > 800 and unbounded > 300 and unknown <= 60, (bounded, unbounded, unknown)


@pytest.mark.parametrize("wrong", [-1, 1])
def test_a_wrong_bound_is_found(monkeypatch: pytest.MonkeyPatch, wrong: int) -> None:
    """The judge says no: of a bound that is exceeded, and of one that is not reached."""
    planning = importlib.import_module("pellucid.capacity.planning.plan")
    right = planning.longest

    def mutant(*args: Any, **more: Any) -> Any:
        found = right(*args, **more)
        if found.any is None:
            return found
        return replace(found, any=max(0, found.any + wrong), settled=max(0, found.settled + wrong))

    monkeypatch.setattr(planning, "longest", mutant)
    with pytest.raises(AssertionError):
        judged(range(12))
