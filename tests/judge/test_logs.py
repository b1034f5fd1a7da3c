"""Answers about random logs held to the judge, and the judge to all subsets and to spoilt answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from pellucid.atomic.logs import cascade, committable, cycles
from tests.judge.logs import (
    SHAPES,
    as_text,
    broken,
    by_removing,
    by_trying,
    log,
    wrong_cascade,
    wrong_committable,
    wrong_cycles,
)
from tests.seeds import seeds

pytestmark = pytest.mark.seeded


@pytest.mark.parametrize("seed", seeds(150))
def test_the_judge_says_what_trying_all_sets_says(seed: int) -> None:
    statuses, pairs = log(seed, 1 + seed % 9)
    ours = by_removing(statuses, pairs)
    if all(statuses[t] != "committed" or statuses.get(u) == "committed" for u, t in pairs if t in statuses):
        assert ours == by_trying(statuses, pairs)
    else:  # what has committed and should not have stops its readers, too
        assert ours <= by_trying(statuses, pairs)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", seeds(12))
def test_answers(seed: int, shape: str) -> None:
    for n in (2, 7, 40, 300):
        drawn = log(seed, n, shape)
        statuses, pairs = drawn if seed % 2 else as_text(drawn)
        assert wrong_committable(statuses, pairs, committable(statuses, pairs).table().to_pylist()) == []
        answers = [committable(statuses, pairs), cycles(statuses, pairs)]
        some = [t for t, word in statuses.items() if word != "committed"][:3]
        answers += [cascade(statuses, pairs, [t]) for t in some]
        for found_broken in (one.counts() for one in answers):
            assert found_broken["broken"] == len(broken(statuses, pairs))
        assert wrong_cycles(statuses, pairs, cycles(statuses, pairs).table().to_pylist()) == []
        abort = [t for t, status in statuses.items() if status != "committed"][:: n // 3 + 1]
        if abort:
            found = cascade(statuses, pairs, abort).table().to_pylist()
            assert wrong_cascade(statuses, pairs, abort, found, shortest=True) == []


STATUSES = {1: "pending", 2: "pending", 3: "pending", 4: "active", 5: "pending", 6: "committed", 7: "pending"}
PAIRS = [(1, 2), (2, 1), (2, 3), (4, 5), (6, 1), (5, 7), (3, 7)]


def spoilt(rows: list[dict[str, Any]]) -> dict[str, Callable[[list[dict[str, Any]]], None]]:
    """Ways to spoil an answer, by name."""

    def change(at: int, **cells: Any) -> Callable[[list[dict[str, Any]]], None]:
        return lambda rows: rows[at].update(cells)

    ways: dict[str, Callable[[list[dict[str, Any]]], None]] = {
        "one is missing": lambda rows: rows.pop(),
        "one is there twice": lambda rows: rows.append(dict(rows[0])),
        "another id": change(0, id=5),
    }
    for name in rows[0]:
        if name in ("level", "size", "steps"):
            ways[f"{name} too small"] = lambda rows, name=name: rows[-1].update({name: rows[-1][name] - 1})  # type: ignore[misc]
            ways[f"{name} too large"] = lambda rows, name=name: rows[0].update({name: rows[0][name] + 1})  # type: ignore[misc]
        if name in ("set", "cycle"):
            label = name
            ways["a set is split"] = lambda rows, label=label: rows[1].update({label: rows[1]["id"], "size": 1})
            ways["all are one set"] = lambda rows, label=label: [
                row.update({label: 1, "size": len(rows)}) for row in rows
            ]
        if name == "via":
            ways["from nobody"] = change(-1, via=None)
            ways["from whom it never read"] = change(-1, via=1)
            ways["by a way that is a circle"] = lambda rows: rows[-1].update({"via": rows[-1]["id"]})
        if name == "status":
            ways["another status"] = change(0, status="aborted")
    return ways


def test_spoilt_answers_are_refused() -> None:
    answers = {
        "committable": (committable(STATUSES, PAIRS).table(), lambda rows: wrong_committable(STATUSES, PAIRS, rows)),
        "cycles": (
            cycles(STATUSES, [*PAIRS, (7, 5)]).table(),
            lambda rows: wrong_cycles(STATUSES, [*PAIRS, (7, 5)], rows),
        ),
        "cascade": (
            cascade(STATUSES, PAIRS, [4]).table(),
            lambda rows: wrong_cascade(STATUSES, PAIRS, [4], rows, True),
        ),
    }
    for what, (table, wrong) in answers.items():
        rows = table.to_pylist()
        assert wrong(rows) == []
        for name, spoil in spoilt(rows).items():
            bad = copy.deepcopy(rows)
            spoil(bad)
            assert wrong(bad), f"{what}: {name}"
    # What commit would do without looking, and an abort that stops half way.
    every = [{"id": t, "level": 0, "set": t, "size": 1} for t, s in STATUSES.items() if s == "pending"]
    assert "not the largest committable set" in wrong_committable(STATUSES, PAIRS, every)
    assert wrong_committable(STATUSES, PAIRS, [])
    first = cascade(STATUSES, PAIRS, [4]).table().to_pylist()[:2]
    assert wrong_cascade(STATUSES, PAIRS, [4], first, True) == ["a reader of one that is undone is missing"]
