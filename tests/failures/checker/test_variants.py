"""Each mutant is refuted with a shortest trace that really happens, and on the rules without the mistake the same is
proved."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from pellucid import UsageError, check
from pellucid.failures.checker.rules import NotReplayable, Rules
from pellucid.failures.checker.search.literal import judge, search
from pellucid.failures.checker.sinks import Append, Uncommitted
from pellucid.failures.checker.story import FaultyExecution
from pellucid.failures.checker.system import CrashSystem
from pellucid.failures.checker.variants import VARIANTS, variant
from pellucid.failures.model import Configuration, Task, initial
from pellucid.model import Budget
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
def test_without_the_mistake_it_is_proved(name: str) -> None:
    shape, _, how = MUTANTS[name]
    protocol = how.get("protocol", "aligned")
    assert check.failures(shape(), crashes=1, protocol=protocol).proved


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


def test_a_task_that_reads_a_clock_is_found_and_refuted() -> None:
    clock = itertools.count(100)
    verdict = check.failures(stamped(lambda v, w: (v, [(w, next(clock))])), crashes=1)
    assert verdict.refuted
    assert verdict.notes == (
        "task 'stamp' is not a function of its state and event: f(0, 1) gave (0, [(1, 100)]) and then (0, [(1, 101)])",
    )
    assert [str(label).split("  ")[0] for label in verdict.counterexample.trace] == [  # type: ignore[union-attr]
        "I-EVENT stamp",
        "F-FAIL stamp",
        "F-RECOVER",
        "I-EVENT stamp",
        "I-BORDER stamp",
    ]


def test_the_real_clock() -> None:
    import time

    assert check.failures(stamped(lambda v, w: (v, [(w, time.perf_counter_ns())])), crashes=1).refuted


def test_a_hidden_set_that_remembers_events_loses_them_after_a_crash() -> None:
    seen: set[int] = set()

    def once(v: int, w: int) -> tuple[int, list[int]]:
        new = w not in seen
        seen.add(w)
        return v, [w] if new else []

    verdict = check.failures(stamped(once), crashes=1)
    assert verdict.refuted and "gave (0, [1]) and then (0, [])" in verdict.notes[0]


def test_what_is_hidden_and_never_shown_does_not_matter() -> None:
    count = itertools.count()
    assert check.failures(stamped(lambda v, w: (v, [w, next(count) * 0])), crashes=1).proved


def test_a_task_that_is_asked_in_another_order_is_still_found() -> None:
    asked: list[int] = []

    def later(v: int, w: int) -> tuple[int, list[int]]:
        asked.append(w)
        return v, [w + (len(asked) > 4)]  # equal when called twice at first

    assert check.failures(stamped(later), crashes=1).refuted


def test_an_impure_task_in_a_micro_batch() -> None:
    clock = itertools.count(100)
    verdict = check.failures(
        stamped(lambda v, w: (v, [(w, next(clock))])), crashes=1, protocol="microbatch", sink="idempotent"
    )
    assert verdict.refuted and "not a function" in verdict.notes[0]


def test_no_such_variant() -> None:
    with pytest.raises(
        UsageError, match="no variant of the rules is called 'nonsense': there are border-before-snapshot"
    ):
        check.failures(chain(), variant="nonsense")
