"""Each mutant is refuted with a shortest trace that really happens, and on the rules without the mistake nothing
is found."""

from __future__ import annotations

import itertools
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from pellucid import StepError, UsageError, check
from pellucid.failures.checker.rules import NotReplayable, Rules
from pellucid.failures.checker.search.literal import judge, search
from pellucid.failures.checker.sinks import Append, Uncommitted
from pellucid.failures.checker.story import FaultyExecution
from pellucid.failures.checker.system import CrashSystem
from pellucid.failures.checker.variants import VARIANTS, variant
from pellucid.failures.model import Configuration, Task, initial
from pellucid.internal.model import Budget
from tests.failures.shapes import chain, merged

NO_LIMITS: dict[str, Any] = {"timeout": None, "max_states": 10_000_000}


def one_event_each() -> Configuration:
    return merged(2, 1)


MUTANTS: dict[str, tuple[Callable[[], Configuration], int, dict[str, Any]]] = {
    "no-alignment": (one_event_each, 14, {"variant": "no-alignment"}),
    "early-snapshot": (lambda: chain(2, 1, 2), 10, {"variant": "early-snapshot"}),
    "border-before-snapshot": (lambda: chain(2, 1, 1), 9, {"variant": "border-before-snapshot"}),
    "not-common": (lambda: chain(2, 1, 2), 8, {"variant": "not-common"}),
    "not-purged": (one_event_each, 11, {"variant": "not-purged"}),
    "not-reset": (lambda: chain(2, 1, 2), 6, {"variant": "not-reset"}),
    "not-recovered": (lambda: chain(2, 2, 2), 9, {"variant": "not-recovered"}),
    "not-captured": (lambda: chain(2, 1, 2), 9, {"variant": "not-captured", "protocol": "unaligned"}),
    "non-replayable source": (lambda: chain(2, 1, 2), 5, {"source": "not-replayable"}),
    "append sink": (lambda: chain(2, 1, 2), 6, {"sink": "append"}),
    "uncommitted output": (lambda: chain(2, 1, 2), 3, {"sink": Uncommitted()}),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_refuted_by_a_shortest_trace(name: str) -> None:
    shape, length, how = MUTANTS[name]
    verdict = check.failures(shape(), crashes=1, **how)
    assert verdict.refuted and verdict.details["explained"] is False
    example = verdict.counterexample
    assert isinstance(example, FaultyExecution) and example.kind == "not explained"
    assert len(example.trace) == length, str(example)
    assert sum(str(label).startswith("F-FAIL") for label in example.trace) == 1
    assert str(example).endswith(example.why) and "no failure-free execution shows this" in example.why


@pytest.mark.parametrize("name", MUTANTS)
def test_without_the_mistake_nothing_is_found(name: str) -> None:
    shape, _, how = MUTANTS[name]
    protocol = how.get("protocol", "aligned")
    assert check.failures(shape(), crashes=1, protocol=protocol).bounded


@pytest.mark.parametrize("name", MUTANTS)
def test_the_literal_rules_find_the_same_length_and_replay_it(name: str) -> None:
    shape, length, how = MUTANTS[name]
    rules: Rules = variant(how["variant"]) if "variant" in how else Rules()
    if "source" in how:
        rules = NotReplayable(rules)
    sink = Append() if how.get("sink") == "append" else how.get("sink")
    system = CrashSystem(shape(), crashes=1, rules=rules, observation=sink)
    found = search(system, Budget())
    assert found.unexplained is not None and len(found.unexplained) == length
    example = check.failures(shape(), crashes=1, **how).counterexample
    assert isinstance(example, FaultyExecution)
    judged = judge(system, example.trace, Budget())
    assert judged.empty_at == length - 1


def test_every_rule_variant_is_among_the_mutants() -> None:
    assert set(VARIANTS) <= set(MUTANTS)


# ---------------------------------------------------------------- tasks that are not functions


def stamped(f: Any) -> Configuration:
    return initial({"stamp": Task(f, ("i",), "o")}, {"i": [[1], [2]]}, {"stamp": 0})


def hidden_set() -> Any:
    seen: set[int] = set()

    def once(v: int, w: int) -> tuple[int, list[int]]:
        new = w not in seen
        seen.add(w)
        return v, [w] if new else []

    return once


def counter() -> Any:
    asked: list[int] = []

    def later(v: int, w: int) -> tuple[int, list[int]]:
        asked.append(w)
        return v, [w + (len(asked) > 4)]  # equal when called twice at first

    return later


def lottery(v: int, w: int) -> tuple[int, list[int]]:
    if random.random() < 0.5:
        raise ValueError("no luck today")
    return v, [w]


def generated(v: int, w: int) -> tuple[int, Any]:
    return v, [random.choice([0, 1])]


def lazily(v: int, w: int) -> Any:
    return v, _Lazy()


class _Lazy:
    def __iter__(self) -> Any:
        yield random.choice([0, 1])


GLOBAL = 0


def global_counter(v: int, w: int) -> tuple[int, list[int]]:
    global GLOBAL
    GLOBAL += 1
    return v, [w + (GLOBAL > 4)]


NOT_FUNCTIONS = {
    "iterator": lambda: (lambda clock: lambda v, w: (v, [(w, next(clock))]))(itertools.count(100)),
    "iterator, not shown": lambda: (lambda clock: lambda v, w: (v, [w, next(clock) * 0]))(itertools.count()),
    "clock": lambda: lambda v, w: (v, [(w, time.perf_counter_ns())]),
    "clock of hours": lambda: lambda v, w: (v, [(w, int(time.time() // 3600))]),
    "hidden set": hidden_set,
    "hidden count": counter,
    "global count": lambda: global_counter,
    "coin": lambda: generated,
    "coin in a generator": lambda: lazily,
    "raises sometimes": lambda: lottery,
}


@pytest.mark.parametrize("name", NOT_FUNCTIONS)
@pytest.mark.parametrize("protocol", ["aligned", "microbatch"])
def test_a_task_that_is_no_function_is_unknown_whatever_it_drew(name: str, protocol: str) -> None:
    """It was refuted where two answers happened to differ (9 of 12 seeds of a coin), else not."""
    sink = "idempotent" if protocol == "microbatch" else "transactional"
    said = set()
    for seed in range(12):
        random.seed(seed)
        verdict = check.failures(stamped(NOT_FUNCTIONS[name]()), crashes=1, protocol=protocol, sink=sink)
        said.add((verdict.status, *verdict.notes))
    assert [status for status, _ in said] == ["unknown"] and "task 'stamp'" in next(iter(said))[1]


@pytest.mark.parametrize("sink", ["transactional", "append"])
@pytest.mark.parametrize("asks", ["insert into t values (1)", "select random()"])
def test_answers_that_differ_are_no_ground_for_a_counterexample(asks: str, sink: str) -> None:
    """What is hidden behind a library in C is seen when another call answers otherwise: then nothing is known."""
    with closing(sqlite3.connect(":memory:")) as table:
        table.execute("create table t (x)")

        def hidden(v: int, w: int) -> tuple[int, list[int]]:
            drawn = table.execute(asks).fetchone()
            count = table.execute("select count(*) from t").fetchone()[0]
            return v, [w + (count > 2) + (drawn[0] % 2 if drawn else 0)]

        for _ in range(12):
            table.execute("delete from t")
            verdict = check.failures(stamped(hidden), crashes=1, sink=sink)
            assert verdict.unknown and "task 'stamp' is not a function" in verdict.notes[0], str(verdict)


def test_a_function_of_a_library_is_believed_aloud() -> None:
    with closing(sqlite3.connect(":memory:")) as table:
        once = stamped(lambda v, w: (v, [table.execute("select abs(?)", (w,)).fetchone()[0]]))
        verdict = check.failures(once, crashes=1)
    assert verdict.bounded and "assuming that a lambda always answers" in verdict.question, str(verdict)


def test_a_function_that_always_fails_still_fails() -> None:
    c = stamped(lambda v, w: (v, [1 // 0]))
    with pytest.raises(StepError, match="task 'stamp' failed on f"):
        check.failures(c, crashes=1)


def test_no_such_variant() -> None:
    with pytest.raises(
        UsageError, match="no variant of the rules is called 'nonsense': there are border-before-snapshot"
    ):
        check.failures(chain(), variant="nonsense")
