"""Thousands of small systems made by chance: what the engine says against what a few processes do, one by one."""

from __future__ import annotations

import pytest

from pellucid.capacity.arrays import check_certificate, decide, read_text, write_text
from pellucid.capacity.arrays.language.interpreter import Instance, explore
from pellucid.capacity.arrays.language.system import System
from pellucid.capacity.arrays.search import backward, compiled, preimage, visited
from pellucid.capacity.arrays.search.cubes import Layout
from tests.capacity.random_systems import random_system

MOST = 3000


def shortest(system: System) -> tuple[int | None, bool]:
    """The fewest steps in which 1, 2 or 3 processes reach an unsafe state; whether all of their states were seen."""
    best, whole = None, True
    for n in (1, 2, 3):
        instance = Instance(system, n)
        parents, state = explore(instance, instance.initials(), MOST)
        whole = whole and len(parents) <= MOST
        if state is not None:
            steps = 0
            while (before := parents[state]) is not None:
                state, steps = before[0], steps + 1
            best = steps if best is None else min(best, steps)
    return best, whole


def agree(seed: int) -> str:
    """Decide a system and hold the answer against a few processes; the status."""
    system = read_text(random_system(seed))
    assert read_text(write_text(system)) == system
    verdict = decide(system, timeout=4)
    best, whole = shortest(system)
    if verdict.proved:
        assert best is None, seed
        assert check_certificate(system, verdict.details["never"]) is None
    if verdict.refuted:
        assert verdict.counterexample is not None and verdict.counterexample.replay()
        steps, count = len(verdict.counterexample.steps), verdict.details["processes"]
        assert best is None or steps <= best, seed
        if whole and count <= 3:
            assert steps == best, seed
    if best is not None and whole:
        assert verdict.refuted, seed
    return verdict.status


@pytest.mark.parametrize("first", range(20, 80, 20))
def test_random_systems(first: int) -> None:
    statuses = [agree(seed) for seed in range(first, first + 20)]
    assert {"proved", "refuted"} <= set(statuses)
    assert statuses.count("unknown") <= 3  # guards about all others, where nothing is known of those others


def test_a_node_that_takes_the_place_of_one_that_is_gone() -> None:
    """A cube that was made before by a node that another one covers now has to be visited all the same."""
    assert agree(4087) == "proved"


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 4000, 100))
def test_many_random_systems(first: int) -> None:
    statuses = [agree(seed) for seed in range(first, first + 100)]
    assert statuses.count("unknown") <= 8


def _broken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One mistake in the engine."""
    if name == "covered too soon":
        monkeypatch.setattr(visited.Visited, "covers", lambda self, cube: bool(self.cubes))
    elif name == "no start is seen":
        monkeypatch.setattr(compiled.Compiled, "starts_in", lambda self, cube: False)
    elif name == "no new processes":
        monkeypatch.setattr(
            preimage,
            "choices",
            lambda count, m: tuple(c for c in _choices(count, m) if max(c, default=0) <= max(count, m)),
        )
    elif name == "no transition":
        monkeypatch.setattr(backward, "before", lambda compiled_, cube: iter(()))
    elif name == "too general":
        monkeypatch.setattr(Layout, "covers", lambda self, general, special: True)
        monkeypatch.setattr(visited.Visited, "cover_together", lambda self, cube, rounds=6: bool(self.cubes))


_choices = preimage.choices
SEEDS = range(20, 50)
MISTAKES = ["covered too soon", "no start is seen", "no new processes", "no transition", "too general"]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_broken_engine_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a mistake in the search no wrong answer comes out, and some right ones do not either."""
    right = [decide(read_text(random_system(seed)), timeout=20).status for seed in SEEDS]  # also on a busy machine
    _broken(name, monkeypatch)
    answers = [decide(read_text(random_system(seed)), timeout=0.3).status for seed in SEEDS]
    for before, after in zip(right, answers, strict=True):
        assert after in (before, "unknown")
    assert answers != right
