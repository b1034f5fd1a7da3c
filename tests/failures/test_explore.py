"""The fast search against the literal rules, and the decision against brute force."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pellucid import check
from pellucid.failures import model
from pellucid.failures.checker.search import explore, labels_to, search
from pellucid.failures.checker.system import (
    Append,
    CrashSystem,
    Idempotent,
    NotReplayable,
    Observation,
    Rules,
    Situation,
    Transactional,
    UnalignedRules,
)
from pellucid.failures.model import FFail
from pellucid.failures.model.explain import Explanation, explain
from pellucid.internal.model import Budget
from tests.failures.graphs import chain, diamond, merged, random_graph, random_trace
from tests.failures.mutants import RULES, Uncommitted
from tests.seeds import seeds

SINKS: list[type[Observation]] = [Transactional, Idempotent, Append, Uncommitted]


def small(seed: int) -> model.Configuration:
    return random_graph(random.Random(seed), most_tasks=3, most_events=1, most_epochs=2)


def reached(system: CrashSystem) -> set[Situation]:
    found = explore(system, Budget(), reduce=False, stop=False)
    bare = ~(((1 << 20) - 1) << found.packed.set_shift)
    return {found.packed.unpack(x & bare) for x in found.parents}


def by_the_model(c: model.Configuration, crashes: int) -> set[tuple[model.Configuration, int]]:
    """Every configuration that `model.steps` reaches, with the crashes that are left."""
    seen, waiting = {(c, crashes)}, [(c, crashes)]
    while waiting:
        at, left = waiting.pop()
        for label, then in model.steps(at):
            if isinstance(label, FFail):
                if not left or then == at:
                    continue
                following = then, left - 1
            else:
                following = then, left
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return seen


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(12))
def test_the_packed_search_reaches_exactly_what_the_models_rules_reach(seed: int) -> None:
    system = CrashSystem(small(seed), crashes=1)
    found = reached(system)
    assert {(at.c, at.crashes) for at in found} == by_the_model(system.c, 1)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(8))
@pytest.mark.parametrize("name", [*sorted(RULES), "unaligned", "not-replayable"])
def test_the_packed_search_reaches_exactly_what_the_rules_of_a_variant_reach(name: str, seed: int) -> None:
    def rules() -> Rules:
        own = {"unaligned": UnalignedRules, "not-replayable": lambda: NotReplayable(Rules())}
        return own[name]() if name in own else RULES[name]()

    c = random_graph(random.Random(seed), most_tasks=2, most_events=1, most_epochs=2)
    literal = search(CrashSystem(c, crashes=1, rules=rules()), Budget(), stop=False)
    system = CrashSystem(c, crashes=1, rules=rules())
    assert {(at.c.Sigma, at.c.N, at.c.M, at.c.D, at.crashes) for at in reached(system)} == {
        (at.c.Sigma, at.c.N, at.c.M, at.c.D, at.crashes) for at in literal.seen
    }
    fast = explore(CrashSystem(c, crashes=1, rules=rules()), Budget(), reduce=False)
    assert (fast.unexplained is None) == (literal.unexplained is None)
    if fast.unexplained is not None:
        assert literal.unexplained is not None
        assert len(labels_to(fast, fast.unexplained)) == len(literal.unexplained)  # both are shortest
    elif fast.dead_end is not None or literal.dead_end is not None:
        assert fast.dead_end is not None and literal.dead_end is not None
        assert len(labels_to(fast, fast.dead_end)) == len(literal.dead_end)


# ---------------------------------------------------------------- brute force


def executions(system: CrashSystem, *, failures: bool) -> set[tuple[Any, ...]]:
    """What is seen along every maximal execution, without repetitions in a row (steps never lead back)."""
    known: dict[Situation, set[tuple[Any, ...]]] = {}

    def after(at: Situation) -> set[tuple[Any, ...]]:
        if at not in known:
            now = system.see(at)
            rests = [rest for _, then in system.steps(at, failures=failures) for rest in after(then)]
            known[at] = {rest if rest[0] == now else (now, *rest) for rest in rests} or {(now,)}
        return known[at]

    return after(system.start())


def is_subsequence(short: tuple[Any, ...], long: tuple[Any, ...]) -> bool:
    rest = iter(long)
    return all(any(x == y for y in rest) for x in short)


def explainable(system: CrashSystem) -> bool:
    """Definition 5.6 for every execution, by listing all of them."""
    free = executions(system, failures=False)
    return all(any(is_subsequence(seen, one) for one in free) for seen in executions(system, failures=True))


TINY = {
    "chain": lambda: chain(1, 1, 2),
    "two epochs": lambda: chain(2, 1, 1),
    "merge": lambda: model.initial(
        {"join": model.Task(lambda v, w: (2 * v + w, [2 * v + w]), ("a", "b"), "o")},
        {"a": [[1]], "b": [[3]]},
        {"join": 0},
    ),
}


@pytest.mark.parametrize("shape", TINY)
@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("name", ["", *sorted(RULES)])
def test_the_verdict_is_that_of_listing_all_executions(shape: str, sink: type[Observation], name: str) -> None:
    def system() -> CrashSystem:
        return CrashSystem(TINY[shape](), crashes=1, rules=RULES[name]() if name else None, observation=sink())

    if name == "not-recovered":
        return  # its executions need not end
    for reduce in (True, False):
        found = explore(system(), Budget(), reduce=reduce)
        assert (found.unexplained is None) == explainable(system()), reduce


# ---------------------------------------------------------------- reduction


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(40))
def test_the_reduced_search_has_the_same_verdict(seed: int) -> None:
    rng = random.Random(1000 + seed)
    c = random_graph(rng, most_tasks=3 - seed % 2, most_events=1 + seed % 2, most_epochs=2)
    sink = SINKS[seed % 4]
    rules = UnalignedRules if seed % 5 == 0 and len(c.M) < 9 else Rules
    found = [
        explore(CrashSystem(c, crashes=2, rules=rules(), observation=sink()), Budget(), reduce=r, reduce_free=f)
        for r, f in ((True, True), (False, False), (False, True))
    ]
    assert len({f.unexplained is None for f in found}) == 1
    assert len({f.dead_end is None for f in found if f.unexplained is None}) <= 1
    if found[0].unexplained is None:
        assert found[0].states <= found[1].states
    else:  # reduced explanations do not hide a shorter trace, nor make one up
        assert found[1].unexplained is not None and found[2].unexplained is not None
        lengths = [len(labels_to(f, f.unexplained)) for f in found if f.unexplained is not None]
        assert lengths[1] == lengths[2] <= lengths[0]


def late_border() -> model.Configuration:
    """``late`` may be the last to finish epoch 1; then ``rank``, which needs nothing of it, has written rows of epoch 2
    already."""

    def rank(v: int, w: int) -> tuple[int, list[int]]:
        return 2 * v + w, [v] if w >= 100 else []

    tasks = {"late": model.Task(lambda v, w: (v, [w]), ("c",), "o"), "rank": model.Task(rank, ("a", "b"), "ranks")}
    return model.initial(tasks, {"a": [[1], [100]], "b": [[3], []], "c": [[], []]}, {"late": 0, "rank": 0})


@pytest.mark.parametrize("crashes", [1, 2])
def test_a_border_is_not_taken_early_where_a_durable_sink_could_tell(crashes: int) -> None:
    """Else no crash would go back behind an epoch of which a sink holds later rows, and nothing would be found."""
    for reduce in (True, False):
        found = explore(CrashSystem(late_border(), crashes=crashes, observation=Idempotent()), Budget(), reduce=reduce)
        assert found.unexplained is not None, reduce
    assert check.failures(late_border(), crashes=crashes, sink="idempotent").refuted
    assert check.failures(late_border(), crashes=crashes).bounded


def test_the_reduced_search_is_much_smaller() -> None:
    whole = explore(CrashSystem(diamond(), crashes=2), Budget(), reduce=False)
    less = explore(CrashSystem(diamond(), crashes=2), Budget())
    assert (whole.states, less.states) == (45730, 1137)
    assert whole.failure_free == 2690 and less.failure_free == 247


# ---------------------------------------------------------------- the paper's protocol


@pytest.mark.parametrize("shape", [chain, diamond, merged])
def test_nothing_speaks_against_the_protocol(shape: Any) -> None:
    verdict = check.failures(shape(), crashes=2)
    assert verdict.bounded, str(verdict)
    assert verdict.details["explained"] and verdict.details["live"]


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(25))
def test_nothing_speaks_against_the_protocol_on_random_graphs_and_the_explainer_agrees(seed: int) -> None:
    rng = random.Random(seed)
    c = random_graph(rng, most_tasks=3, most_events=1, most_epochs=2)
    assert check.failures(c, crashes=2).bounded
    for _ in range(20):
        trace = random_trace(c, rng, fail=0.2, failures=3, length=rng.randint(0, 40))
        assert isinstance(explain(trace, c), Explanation)


def test_a_bound_gives_unknown() -> None:
    few = check.failures(diamond(2, 3), max_states=2000)
    assert few.unknown and few.notes == ("the limit of 2,000 states was reached",) and not few
    cut = check.failures(diamond(2, 3), timeout=0.001)
    assert cut.unknown and "time limit of 0.001 s" in cut.notes[0]


def test_progress_is_told() -> None:
    told: list[dict[str, Any]] = []
    check.failures(merged(), progress=told.append)
    assert told and set(told[0]) == {"states", "waiting"}
