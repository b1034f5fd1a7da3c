"""An audit in pieces (as on Spark) answers as one of the whole: wherever it is cut, whatever is wrong."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import pytest

from pellucid.errors import DataError
from pellucid.failures.audit import Audit, audit
from pellucid.failures.audit.cells import in_all, intervals, union
from pellucid.failures.audit.recorded import trace_table
from pellucid.failures.audit.words import KINDS
from tests.failures.audit.carried import audit_in_pieces
from tests.failures.simulated import simulated
from tests.failures.tampered import TAMPERINGS, renumbered
from tests.seeds import HUNT, seeds
from tests.volumes import examples, volumes


def agree(rows: list[Any], seed: int, piece: int, name: str) -> Audit:
    """The same answer: what was found, how often, where, and how it is explained; also when rows come in no order, and
    a few are told."""
    trace = trace_table(rows)
    here = audit(trace, limit=1000)
    there = audit_in_pieces(trace, seed, piece=piece, shuffled=seed % 3 == 0)
    assert set(there.violations) == set(here.violations), name
    assert there.counts == here.counts and there.explained == here.explained, name
    assert (there.steps, there.messages, there.tasks) == (here.steps, here.messages, here.tasks), name
    return here


def falsified(seed: int, count: int) -> tuple[list[Any], list[str]]:
    rng = random.Random(seed)
    faults = frozenset(rng.sample(["unreplayable", "clock", "commit-first"], rng.choice([0, 0, 1])))
    rows: list[Any] = copy.deepcopy(simulated(seed, crashes=rng.randrange(5), faults=faults))
    names = rng.sample(list(TAMPERINGS), count)
    for name in names:
        rows = TAMPERINGS[name][0](copy.deepcopy(rows), rng) or rows
    return rows, names


@pytest.mark.seeded
@pytest.mark.parametrize("piece", [1, 3, 10, 10_000])
def test_right_runs(piece: int) -> None:
    for seed in seeds(3):
        assert agree(simulated(seed + piece, crashes=3), seed, piece, f"seed {seed}").holds


@pytest.mark.seeded
@volumes(1, 2)
@pytest.mark.parametrize("name", TAMPERINGS)
def test_each_falsification(name: str, examples: int) -> None:
    done = 0
    for seed in seeds(40):
        rows = TAMPERINGS[name][0](copy.deepcopy(simulated(seed, crashes=3)), random.Random(seed))
        if rows is not None:
            assert not agree(rows, seed, (2, 7)[done], f"{name}, seed {seed}").holds
            done += 1
        if done == examples:
            return


@pytest.mark.seeded
def test_several_falsifications_at_once() -> None:
    kinds: set[str] = set()
    for seed in seeds(10):
        rows, names = falsified(seed, 1 + seed % 3)
        kinds |= {v.kind for v in agree(rows, seed, (1, 2, 5, 20)[seed % 4], f"{names}, seed {seed}").violations}
    assert HUNT or len(kinds) > 12


@pytest.mark.seeded
@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_many_falsifications(first: int) -> None:
    kinds: set[str] = set()
    for seed in seeds(100, first):
        rows, names = falsified(seed, seed % 4)
        kinds |= {
            v.kind
            for v in agree(
                rows, seed, random.Random(seed).choice([1, 2, 3, 5, 10, 30]), f"{names}, seed {seed}"
            ).violations
        }
    assert kinds <= set(KINDS) and (HUNT or len(kinds) > 20)


def _scattered(rows: list[Any], rng: random.Random) -> None:
    """Anything anywhere: numbers, epochs, indices and names, as no system would write them."""
    for _ in range(rng.randrange(1, 4)):
        row = rng.choice(rows)
        field = rng.choice(["epoch", "index", "generation", "rule", "state", "consumed", "produced"])
        if field in ("consumed", "produced"):
            other = rng.choice(rows)[rng.choice(["consumed", "produced"])]
            row[field] = [*row[field], *other] if rng.random() < 0.6 else other[:1]
        elif field == "rule":
            row[field] = rng.choice(rows)["rule"]
        elif field == "state":
            row[field] = rng.choice([None, 5])
        elif field == "index":  # no index twice: which of the two comes first nobody can say
            row[field] = 1000 + rng.randrange(10**6)
        else:
            row[field] = max(row[field] + rng.choice([-1, 1, 2]), 0)


@pytest.mark.seeded
def test_anything_anywhere() -> None:
    for seed in seeds(examples(5, 12)):
        rng = random.Random(seed)
        rows: list[Any] = copy.deepcopy(simulated(seed, crashes=3))
        _scattered(rows, rng)
        if rng.random() < 0.5:
            rows = renumbered(rows)
        agree(rows, seed, rng.choice([1, 2, 4, 9]), f"seed {seed}")


def test_the_first_few_are_told_in_the_order_of_the_trace() -> None:
    rows, _ = falsified(8, 3)
    whole = audit_in_pieces(trace_table(rows), 1, piece=3)
    few = audit_in_pieces(trace_table(rows), 1, piece=3, limit=2)
    assert few.counts == whole.counts
    for kind in {(v.kept, v.kind) for v in whole.violations}:
        mine, all_of = (
            [(v.task, v.generation, v.index) for v in found.violations if (v.kept, v.kind) == kind]
            for found in (few, whole)
        )
        assert mine == sorted(all_of)[:2], kind


def test_an_empty_trace_and_one_with_holes() -> None:
    rows = simulated(3)
    assert audit_in_pieces(trace_table([]), 1, piece=5).explained == audit(trace_table([])).explained
    trace = trace_table([*rows[:3], {**rows[3], "epoch": None}])
    with pytest.raises(DataError, match="column 'epoch' is empty"):
        audit_in_pieces(trace, 1, piece=5)
    for at, name in enumerate(("stream", "n", "border", "digest")):
        message = [None if place == at else value for place, value in enumerate(("s", 0, False, 1))]
        with pytest.raises(DataError, match=f"a message without '{name}'"):
            audit_in_pieces(trace_table([{**rows[0], "produced": [tuple(message)]}]), 1, piece=5)


def test_ranges() -> None:
    rng = random.Random(5)
    for _ in range(50):
        sets = [{rng.randrange(20) for _ in range(rng.randrange(15))} for _ in range(3)]
        ranges = [intervals(np.array(sorted(one), dtype=np.int64)) for one in sets]
        assert {n for low, high in in_all(ranges) for n in range(low, high + 1)} == set.intersection(*sets)
        assert union([r for some in ranges for r in some]) == intervals(
            np.array(sorted(set.union(*sets)), dtype=np.int64)
        )
