"""A pipeline's tasks in the model give what the pipeline gives, whatever the schedule."""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass
from typing import Any

import pytest

from pellucid import Stream, apply, merge, pipeline
from pellucid.errors import CycleError, DataError, StepError, UsageError
from pellucid.failures.model import Configuration, FRecover, gce, steps
from pellucid.failures.model.explain import apply_trace, explain
from pellucid.failures.model.tasks import TaskGraph, freeze, tasks_of, thaw
from pellucid.internal.engine.interpreter import Interpreter
from tests.failures.graphs import order_dependent, random_trace
from tests.seeds import HUNT, seeds
from tests.strategies import Seeded, make_input, make_pipeline


def complete(c: Configuration, rng: random.Random) -> Configuration:
    """A failure-free run to its end, with a random schedule."""
    while enabled := steps(c, failures=False):
        c = rng.choice(enabled)[1]
    return c


def epochs_of(events: list[Any], rng: random.Random, count: int) -> list[list[Any]]:
    cuts = sorted(rng.randint(0, len(events)) for _ in range(count - 1))
    return [events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True)]


@pytest.mark.seeded
@pytest.mark.parametrize("block", range(8))
def test_every_complete_run_gives_what_the_pipeline_gives(block: int) -> None:
    checked = 0
    for seed in seeds(60, block * 60):
        c, rng = Seeded(seed), random.Random(seed)
        p = make_pipeline(c, max_steps=5, windows=1)
        pushes = make_input(c, p, rng.randint(0, 8))
        names = [p.graph.nodes[i].id for i in p.graph.sources]
        groups = rng.choice([False, False, True])
        model = tasks_of(p, fuse=groups)
        if order_dependent(model):
            continue
        try:
            wanted: dict[str, list[Any]] = {name: [] for name, _ in p.graph.outputs}
            for row in Interpreter(p.graph).run(pushes):
                for name, events in row.items():
                    wanted[name] += events
        except StepError:
            continue
        given = {s: epochs_of([push[s] for push in pushes if s in push], rng, 2) for s in names}
        end = complete(model.initial(given), rng)
        assert gce(end) == 2
        assert repr(model.results(end)) == repr(wanted), p.graph
        checked += 1
    assert HUNT or checked >= 15


@pytest.mark.seeded
@pytest.mark.parametrize("block", range(4))
def test_with_crashes_it_gives_the_same(block: int) -> None:
    """Random pipelines, random schedules, crashes and recoveries: the committed output is that of the call, and is
    explained."""
    checked = crashed = 0
    for seed in seeds(40, 1000 + block * 40):
        c, rng = Seeded(seed), random.Random(seed)
        p = make_pipeline(c, max_steps=4, windows=1, sources=1)
        pushes = make_input(c, p, rng.randint(0, 6))
        model = tasks_of(p)
        if order_dependent(model):
            continue
        try:
            wanted = repr(
                {
                    name: [e for row in Interpreter(p.graph).run(pushes) for e in row[name]]
                    for name, _ in p.graph.outputs
                }
            )
        except StepError:
            continue
        source = p.graph.nodes[p.graph.sources[0]].id
        start = model.initial({source: epochs_of([push[source] for push in pushes], rng, 3)})
        trace = random_trace(start, rng, fail=0.1)
        end = apply_trace(trace, start)[-1]
        assert gce(end) == 3 and repr(model.results(end)) == wanted
        assert explain(trace, start)
        checked += 1
        crashed += any(isinstance(z, FRecover) for z in trace)
    assert HUNT or (checked >= 12 and crashed >= 8)


def test_a_group_of_steps_is_one_task() -> None:
    @pipeline
    def p(x: Stream[int]) -> Stream[int]:
        small = x.map(lambda v: v % 3, id="small")
        return apply(lambda a, b: a + b, small.trim(1, id="later"), small, id="sum")

    model = tasks_of(p, fuse={"front": ["small", "later"]})
    assert {name: task.inputs for name, task in model.tasks.items()} == {"front": ("x",), "sum": ("front",)}
    end = complete(model.initial([[1, 2, 3], [4, 5]]), random.Random(0))
    assert model.results(end) == {"out": p([1, 2, 3, 4, 5])}


def test_a_merge_may_interleave_in_every_way() -> None:
    p = pipeline(lambda x, y: merge(x, y, id="both"), x=int, y=int)
    model = tasks_of(p)
    assert order_dependent(model) == ("both",)
    seen = {
        tuple(model.results(complete(model.initial({"x": [[1, 2]], "y": [[8]]}), random.Random(i)))["out"])
        for i in range(60)
    }
    assert seen == {(1, 2, 8), (1, 8, 2), (8, 1, 2)}


def test_a_merge_inside_the_only_task_goes_push_by_push() -> None:
    p = pipeline(lambda x: merge(x, x.map(lambda v: -v)).cumulate(lambda t, v: 2 * t + v, start=0), x=int)
    model = tasks_of(p, fuse=True)
    assert len(model.tasks) == 1 and order_dependent(model) == ()
    assert model.results(complete(model.initial([[1, 2], [3]]), random.Random(0))) == {"out": p([1, 2, 3])}
    assert order_dependent(tasks_of(p)) != ()


def test_a_step_that_reads_a_stream_twice_gets_each_event_for_both_inputs() -> None:
    p = pipeline(lambda x: apply(lambda a, b: a + b, x, x), x=int)
    model = tasks_of(p)
    assert [task.inputs for task in model.tasks.values()] == [("x",)]
    assert model.results(complete(model.initial([[1, 2]]), random.Random(0))) == {"out": [2, 4]}


def test_an_output_that_is_a_source_is_passed_on_by_a_task() -> None:
    model = tasks_of(pipeline(lambda x: x, x=int))
    assert list(model.tasks) == ["out"]
    assert model.results(complete(model.initial([[1], [2]]), random.Random(0))) == {"out": [1, 2]}


def test_a_state_that_is_changed_in_place_does_not_change_its_snapshot() -> None:
    def collect(seen: list[int], v: int) -> tuple[list[int], list[int]]:
        seen.append(v)
        return seen, [len(seen)]

    model = tasks_of(pipeline(lambda x: x.task(collect, initial=[], id="t", to=int), x=int))
    c = model.initial([[1], [2]])
    archives = []
    while enabled := steps(c, failures=False):
        c = enabled[0][1]
        archives.append(c.Sigma["t"].archive)
    assert model.results(c) == {"out": [1, 2]}
    assert [thaw(archives[-1][e]["t"][None]) for e in (1, 2)] == [[1], [1, 2]]


@dataclass(frozen=True)
class Held:
    items: Any


class Plain:
    def __init__(self, n: int) -> None:
        self.n = n


@pytest.mark.parametrize(
    "value",
    [
        0,
        "a",
        None,
        2.5,
        (1, [2]),
        [1, [2, {"a": {1, 2}}]],
        deque([1]),
        {"k": (1, 2)},
        frozenset({1}),
        Held((1,)),
        Held([1]),
    ],
)
def test_frozen_and_thawed_is_the_same(value: Any) -> None:
    frozen = freeze(value)
    hash(frozen)
    assert thaw(frozen) == value and type(thaw(frozen)) is type(value)
    assert freeze(thaw(frozen)) == frozen


def test_frozen_things_of_other_classes() -> None:
    assert thaw(freeze(Plain(3))).n == 3
    assert freeze((float("nan"), 1)) == freeze((math.nan, 1))
    with pytest.raises(
        UsageError, match=r"a state of type generator can be neither hashed nor pickled \(.*\): keep a task's"
    ):
        freeze(x for x in [])


def message(model: TaskGraph, given: Any) -> str:
    with pytest.raises((UsageError, DataError)) as caught:
        model.initial(given)
    return str(caught.value)


def test_bad_inputs_are_named() -> None:
    one = tasks_of(pipeline(lambda x: x + 1, x=int))
    two = tasks_of(pipeline(lambda x, y: x + y, x=int, y=int))
    assert message(two, [[1]]) == "pipeline has the sources x, y: give the epochs of each by name"
    assert message(two, {"x": [[1]]}) == "source 'y': no epochs are given"
    assert message(one, {"x": [[1]], "z": []}) == "source 'z': no such source: pipeline has x"
    assert message(one, [1, 2]) == "source 'x', epoch 1: expected a list of events, found 1"
    assert message(one, [[1], ["a"]]).startswith("source 'x', epoch 2: ")


def test_bad_groups_are_named() -> None:
    p = pipeline(lambda x: x.map(lambda v: v, id="a").map(lambda v: v, id="b").map(lambda v: v, id="c"), x=int)
    for fuse, text in [
        ({"t": ["x"]}, "fuse 't': pipeline has no step 'x' that could be part of a task"),
        ({"t": ["no"]}, "fuse 't': pipeline has no step 'no' that could be part of a task"),
        ({"t": ["a"], "u": ["a"]}, "fuse: step 'a' is in 't' and in 'u': put it into one"),
        ({"t": []}, "fuse 't': a task needs at least one step"),
        ({"b": ["a"]}, "fuse 'b': a step is called so; give the task another name"),
    ]:
        with pytest.raises(UsageError) as caught:
            tasks_of(p, fuse=fuse)
        assert str(caught.value) == text
    with pytest.raises(CycleError, match="the tasks form a cycle: t → b → t; the graph must be acyclic"):
        tasks_of(p, fuse={"t": ["a", "c"]}).initial([[1]])
