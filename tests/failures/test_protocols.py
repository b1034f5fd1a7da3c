"""Sinks and sources tell apart: which of them keep the promise for which pipelines."""

from __future__ import annotations

import dataclasses
import itertools
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from pellucid import StepError, Stream, UsageError, apply, check, merge, pipeline
from pellucid.failures.checker.question import FaultyExecution
from pellucid.failures.checker.search import components, fair_cycle, judge, search
from pellucid.failures.checker.system import (
    Append,
    CrashSystem,
    NotReplayable,
    Own,
    Rules,
    Taking,
    Unaligned,
    UnalignedRules,
)
from pellucid.failures.model import Configuration, IBorder, Normal, Task, f_recover, gce, initial, out
from pellucid.internal.model import Budget, follow
from tests.failures.graphs import chain, merged, random_graph
from tests.failures.mutants import BATCHES, RULES, CommitBeforeSink, NotCaptured, NotRecovered, Uncommitted
from tests.seeds import seeds


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")


@pipeline
def both(a: Stream[int], b: Stream[int]) -> Stream[int]:
    return merge(a, b, id="both")


@pipeline
def paired(x: Stream[int]) -> Stream[int]:
    return apply(lambda a, b: a - b, x * 2, x + 1, id="pair")


@pytest.mark.parametrize(
    ("p", "sink", "status"),
    [
        (total, "transactional", "bounded"),
        (total, "idempotent", "bounded"),
        (total, "append", "refuted"),
        (both, "transactional", "bounded"),
        (both, "idempotent", "refuted"),  # a replay may merge in another order
        (both, "append", "refuted"),
        (paired, "idempotent", "bounded"),  # a synchronous apply gives one result, whatever the schedule
    ],
)
@pytest.mark.parametrize("protocol", ["aligned", "microbatch"])
def test_which_sink_is_enough(p: object, sink: str, status: str, protocol: str) -> None:
    verdict = check.failures(p, sink=sink, protocol=protocol, epochs=2, events=1, crashes=1)
    assert verdict.status == status, str(verdict)


def test_an_append_sink_writes_twice_and_says_so() -> None:
    verdict = check.failures(total, sink="append", crashes=1, inputs=[[5], [7]])
    assert str(verdict.counterexample).splitlines() == [
        "1  sum takes 5 from x and gives 5 to sum",
        "     seen: sum: 5",
        "2  sum crashes",
        "3  all recover (greatest common epoch: 0)",
        "4  sum takes 5 from x and gives 5 to sum",
        "     seen: sum: 5, 5",
        "no failure-free execution shows this: sum: 5, 5; the nearest that one shows is: sum: 5",
    ]


def test_an_idempotent_sink_is_overwritten_with_something_else() -> None:
    verdict = check.failures(both, sink="idempotent", crashes=1, epochs=1, events=1)
    assert "no failure-free execution shows this after what was seen before" in str(verdict)


def test_a_source_that_forgets_loses_events() -> None:
    verdict = check.failures(total, source="not-replayable", epochs=1, events=1, crashes=1)
    assert verdict.refuted and verdict.counterexample is not None
    assert (
        verdict.counterexample.why
        == ("no failure-free execution shows this: x: |; sum: |; the nearest that one shows is: x: 1 |; sum: 1 |")
        or "sum: |; x: |" in verdict.counterexample.why
    )


def test_an_output_that_is_read_inside_as_well_is_a_sink() -> None:
    @pipeline
    def two(x: Stream[int]) -> dict[str, Stream[int]]:
        first = x.map(lambda v: v + 1, id="first")
        return {"first": first, "second": first.map(lambda v: v * 2, id="second")}

    verdict = check.failures(two, sink="append", epochs=1, events=1, crashes=1)
    assert verdict.refuted and "seen: first: 2" in str(verdict)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"sink": "file"}, "sink= takes 'transactional', 'idempotent', 'append', found 'file'"),
        ({"source": "socket"}, "source= takes 'replayable', 'not-replayable', found 'socket'"),
        ({"protocol": "abs"}, "protocol= takes 'aligned', 'unaligned', 'microbatch', found 'abs'"),
        ({"epochs": 0}, "epochs= takes a whole number from 1 on, found 0"),
        ({"crashes": -1}, "crashes= takes a whole number from 0 on, found -1"),
        ({"observe": 3}, "observe= takes a function of a configuration, found 3"),
        ({"observe": len, "protocol": "microbatch"}, "which micro-batches do not have"),
    ],
)
def test_bad_arguments(how: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as error:
        check.failures(total, **how)  # type: ignore[arg-type]
    assert message in str(error.value)


# Liveness: dead ends and fair cycles; and monotone observability functions.


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
    verdict = check.failures(chain(2, 1, 2), rules=LosesABorder(), crashes=1, observe=lambda c: 0)
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
    verdict = check.failures(chain(1, 1, 2), rules=NotRecovered("t1"), crashes=1, observe=lambda c: 0)
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


# Spark's micro-batches: which order of logs, state and sink keeps the promise.


@pipeline
def both_microbatch(a: Stream[int], b: Stream[int]) -> Stream[int]:
    return merge(a, b, id="both").cumulate(lambda t, v: 2 * t + v, start=0, id="sum")


def test_spark_keeps_the_promise_with_a_transactional_sink() -> None:
    verdict = check.failures(total, protocol="microbatch", crashes=2)
    assert verdict.bounded and verdict.details["live"]


def test_but_not_where_a_batch_that_is_run_again_may_compute_something_else() -> None:
    """The sink keeps the rows of the first run, the state store the state of the second."""
    verdict = check.failures(both_microbatch, protocol="microbatch", epochs=2, events=1, crashes=1)
    assert verdict.refuted
    told = str(verdict)
    assert "SINK batch 1: was written before" in told and told.count("COMPUTE batch 1") == 2
    assert check.failures(both_microbatch, protocol="aligned", epochs=2, events=1, crashes=1).bounded


def test_an_append_sink_duplicates_between_the_write_and_the_commit() -> None:
    verdict = check.failures(total, protocol="microbatch", sink="append", epochs=1, events=1, crashes=1)
    assert [str(label) for label in verdict.counterexample.trace] == [  # type: ignore[union-attr]
        "OFFSETS batch 1: pushes 0 to 0",
        "COMPUTE batch 1: from state version 0: 1",
        "STATE batch 1: version 1 is stored",
        "SINK batch 1: row 1 to sum",
        "CRASH batch 1",
        "RESTART batch 1",
        "COMPUTE batch 1: from state version 0: 1",
        "STATE batch 1: version 1 is stored",
        "SINK batch 1: row 1 to sum",
    ]


@pytest.mark.parametrize(("name", "length"), [("commit-before-sink", 11), ("no-offset-log", 15), ("newest-state", 8)])
def test_mutants(name: str, length: int) -> None:
    verdict = check.failures(total, protocol="microbatch", rules=BATCHES[name], crashes=1, events=2, epochs=2)
    assert verdict.refuted and verdict.counterexample is not None
    assert len(verdict.counterexample.trace) == length  # type: ignore[attr-defined]
    assert verdict.counterexample._repr_html_().startswith("<svg")


def test_the_last_batch_can_be_lost_without_a_trace_in_the_output() -> None:
    verdict = check.failures(total, protocol="microbatch", rules=CommitBeforeSink, crashes=1, events=1, epochs=1)
    assert verdict.refuted and verdict.details["live"] is False
    assert "not all of its input is in the sink" in str(verdict)


def test_a_shuffle_that_changes_the_order_shows_with_an_idempotent_sink() -> None:
    verdict = check.failures(both_microbatch, protocol="microbatch", sink="idempotent", events=1, epochs=1, crashes=1)
    assert verdict.refuted


def test_a_source_that_forgets() -> None:
    assert check.failures(total, protocol="microbatch", source="not-replayable", crashes=1).refuted


def test_a_bound_gives_unknown() -> None:
    assert check.failures(total, protocol="microbatch", max_states=10).unknown


# Unaligned snapshots: proved where they capture the events in flight, refuted where they do not.


def test_nothing_speaks_against_it() -> None:
    assert check.failures(chain(2, 2, 3), protocol="unaligned").bounded
    assert check.failures(merged(2, 1), protocol="unaligned").bounded


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(12))
def test_nothing_speaks_against_it_on_random_graphs(seed: int) -> None:
    c = random_graph(random.Random(seed), most_tasks=2, most_events=1, most_epochs=2)
    verdict = check.failures(c, protocol="unaligned", crashes=1)
    assert verdict.bounded, str(verdict)


def test_the_borders_of_sources_are_taken_at_once() -> None:
    """An event of a source is never in flight, so no recovery can put it off to an epoch in which no failure-free run
    has it."""
    c = initial({"t": Task(lambda v, w: (v + w, [v + w]), ("a", "b"), "o")}, {"a": [[4], []], "b": [[5], []]}, {"t": 0})
    rules = UnalignedRules()
    at = next(then for label, then in rules.steps(rules.start(c)) if " -a " in str(label))
    assert [str(label) for label, _ in rules.steps(at)] == ["I-EVENT t  -b ⟨1, EV(5)⟩  +o ⟨1, EV(9)⟩"]
    assert check.failures(c, protocol="unaligned").bounded


def test_a_border_overtakes_the_events_in_front_of_it_and_the_snapshot_keeps_them() -> None:
    rules = UnalignedRules()
    c = rules.start(chain(1, 2, 2))
    for _ in range(3):  # t0 passes its two events and its border on
        c = next(then for label, then in rules.steps(c) if label.p == "t0")  # type: ignore[union-attr]
    border, after = next(
        (label, then) for label, then in rules.steps(c) if label.p == "t1" and isinstance(label, IBorder)
    )
    assert str(border) == "I-BORDER t1  -s1 ⟨1, EV(1)⟩  -s1 ⟨1, EV(3)⟩  -s1 ⟨1, BD⟩  +s2 ⟨1, BD⟩"
    assert after.Sigma["t1"].archive[1] == Unaligned(0, ((1, 3),))
    steps = rules.steps(after)
    label, after = next((label, then) for label, then in steps if label.p == "t1")  # type: ignore[union-attr]
    assert str(label) == "I-EVENT t1  +s2 ⟨2, EV(1)⟩"  # its output is of the next epoch
    assert after.Sigma["t1"].volatile == Normal(2, Unaligned(1, ((3,),)))


def test_between_its_first_and_its_last_border_a_task_notes_what_it_takes() -> None:
    rules = UnalignedRules()
    c = rules.start(merged(1, 1))

    def take(p: str, start: str) -> None:
        nonlocal c
        c = next(then for label, then in rules.steps(c) if str(label).startswith(f"{start} {p}"))

    for p, start in [
        ("left", "I-EVENT"),
        ("left", "I-BORDER"),
        ("right", "I-EVENT"),
        ("join", "I-BORDER"),
        ("join", "I-EVENT"),
    ]:
        take(p, start)
    volatile = c.Sigma["join"].volatile
    assert isinstance(volatile, Normal)
    assert volatile.v.taking == Taking(0, ((1,), ()), frozenset({1}))
    assert 1 not in c.Sigma["join"].archive


def test_without_the_events_in_flight_it_is_refuted() -> None:
    assert check.failures(chain(2, 1, 2), protocol="unaligned", rules=NotCaptured(), crashes=1).refuted


# Each mutant is refuted with a shortest trace that really happens, and on the rules without the mistake nothing
# is found.


def one_event_each() -> Configuration:
    return merged(2, 1)


MUTANTS: dict[str, tuple[Callable[[], Configuration], int, dict[str, Any]]] = {
    "no-alignment": (one_event_each, 14, {"rules": RULES["no-alignment"]()}),
    "early-snapshot": (lambda: chain(2, 1, 2), 10, {"rules": RULES["early-snapshot"]()}),
    "border-before-snapshot": (lambda: chain(2, 1, 1), 9, {"rules": RULES["border-before-snapshot"]()}),
    "not-common": (lambda: chain(2, 1, 2), 8, {"rules": RULES["not-common"]()}),
    "not-purged": (one_event_each, 11, {"rules": RULES["not-purged"]()}),
    "not-reset": (lambda: chain(2, 1, 2), 6, {"rules": RULES["not-reset"]()}),
    "not-recovered": (lambda: chain(2, 2, 2), 9, {"rules": RULES["not-recovered"]()}),
    "not-captured": (lambda: chain(2, 1, 2), 9, {"rules": RULES["not-captured"](), "protocol": "unaligned"}),
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
    rules: Rules = how.get("rules") or Rules()
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
    assert set(RULES) <= set(MUTANTS)


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
