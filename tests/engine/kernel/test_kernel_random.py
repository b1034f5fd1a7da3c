"""Random pipelines on random inputs: interpreter = kernel, whole = in chunks = saved and loaded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import Pipeline, StepError
from pellucid.internal.data.columns import Batch, columns_of, values_of
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel.buckets import KeyBuckets
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.types import INT, Type
from tests.strategies import Seeded, inputs, make_input, make_pipeline, pipelines
from tests.volumes import examples, some_seeds, volumes

Outcome = tuple[dict[str, list[Any]], dict[str, list[int]], dict[str, list[Any]], Any]


def batch_of(p: Pipeline, pushes: list[dict[str, Any]], keys: list[int] | None = None) -> Batch:
    columns, masks = [], []
    for at in p.graph.sources:
        node = p.graph.nodes[at]
        present = [node.id in push for push in pushes]
        fill = next((push[node.id] for push in pushes if node.id in push), None)
        if fill is None:
            columns.append([[_zero(t)] * len(pushes) for _, t in node.type.leaves()])
        else:
            columns.append(columns_of(node.type, [push.get(node.id, fill) for push in pushes]))
        masks.append(present)
    return Batch(len(pushes), columns, masks, None if keys is None else [[keys] for _ in p.graph.sources])


def _zero(t: Type) -> Any:
    return getattr(t, "members", [None])[0] or {"bool": False, "int": 0, "float": 0.0, "str": ""}.get(str(t))


def by_interpreter(p: Pipeline, pushes: list[dict[str, Any]], keys: list[int] | None = None) -> Outcome:
    """The outputs with their positions and keys, and the failure if there is one."""
    runs: dict[Any, Interpreter] = {}
    values: dict[str, list[Any]] = {name: [] for name, _ in p.graph.outputs}
    places: dict[str, list[int]] = {name: [] for name in values}
    marks: dict[str, list[Any]] = {name: [] for name in values}
    for i, push in enumerate(pushes):
        key = keys[i] if keys is not None else None
        run = runs.setdefault(key, Interpreter(p.graph))
        run.pushed = i
        try:
            got = run.push_keyed(push)
        except StepError as error:
            return values, places, marks, (type(error), error.step, error.position)
        for name, events in got.items():
            for inner, value in events:
                values[name].append(value)
                places[name].append(i)
                marks[name].append(marked(p, name, inner) if key is None else key)
    return values, places, marks, None


def marked(p: Pipeline, name: str, key: Any) -> Any:
    """The key beside an output's event; none where keys are given up, as nobody asks whose session it was."""
    return None if p.graph.forgotten_by[dict(p.graph.outputs)[name]] is not None else key


def by_engine(engines: list[Engine], chunks: list[Batch]) -> Outcome:
    """Push chunk after chunk; the i-th chunk goes to the i-th engine, which takes over the state."""
    names = [name for name, _ in engines[0].graph.outputs]
    values: dict[str, list[Any]] = {name: [] for name in names}
    places: dict[str, list[int]] = {name: [] for name in names}
    marks: dict[str, list[Any]] = {name: [] for name in names}
    for i, batch in enumerate(chunks):
        if i and engines[i] is not engines[i - 1]:
            engines[i].load(engines[i - 1].save())
        try:
            outputs = engines[i].push_batch(batch, positions=True)
        except StepError as error:
            return values, places, marks, (type(error), error.step, error.position)
        for o in outputs:
            values[o.name] += o.events()
            places[o.name] += [int(at) for at in o.positions]
            if o.keys is not None and o.key_type is not None:
                leaves = [values_of(t, c) for (_, t), c in zip(o.key_type.leaves(), o.keys, strict=True)]
                marks[o.name] += [o.key_type.unflatten(row) for row in zip(*leaves, strict=True)]
            else:
                marks[o.name] += [None] * len(o)
    return values, places, marks, None


def same(want: Outcome, got: Outcome) -> bool:
    """Equal, floats to the last bit; where a run fails, the failure (a chunk's outputs are lost with it)."""
    if want[3] is not None or got[3] is not None:
        return bool(want[3] == got[3])
    return repr(want) == repr(got)


def cut(pushes: list[Any], sizes: list[int]) -> list[list[Any]]:
    parts, at = [], 0
    for size in sizes:
        parts.append(pushes[at : at + size])
        at += size
    return [*parts, pushes[at:]]


@pytest.mark.seeded
@volumes(50, 500)
def test_plain_kernel(examples: int) -> None:
    @settings(max_examples=examples)
    @given(st.data())
    def equal(data: st.DataObject) -> None:
        p = data.draw(pipelines())
        pushes = data.draw(inputs(p))
        want = by_interpreter(p, pushes)
        whole = by_engine([p.engine(mode="python")], [batch_of(p, pushes)])
        assert same(want, whole), (p.graph, pushes, want, whole)
        parts = cut(pushes, data.draw(st.lists(st.integers(0, 4), max_size=6)))
        engine = p.engine(mode="python")
        chunked = by_engine([engine] * len(parts), [batch_of(p, part) for part in parts])
        assert same(want, chunked), (p.graph, pushes, want, chunked)
        engines = [engine, *[p.engine(mode="python") for _ in parts[1:]]]
        engines[0] = p.engine(mode="python")
        loaded = by_engine(engines, [batch_of(p, part) for part in parts])
        assert same(want, loaded), (p.graph, pushes, want, loaded)

    equal()


@settings(max_examples=examples(50, 80))
@given(st.data())
def test_plain_kernel_under_a_key_that_comes_with_the_data(data: st.DataObject) -> None:
    p = data.draw(pipelines(max_steps=5))
    pushes = data.draw(inputs(p))
    keys = data.draw(st.lists(st.integers(0, 2), min_size=len(pushes), max_size=len(pushes)))
    want = by_interpreter(p, pushes, keys)
    parts = cut(pushes, data.draw(st.lists(st.integers(0, 4), max_size=4)))
    marks = cut(keys, [len(part) for part in parts[:-1]])
    engines = [Engine(p.graph, key=INT, mode="python") for _ in parts]
    got = by_engine(engines, [batch_of(p, part, mark) for part, mark in zip(parts, marks, strict=True)])
    assert same(want, got), (p.graph, pushes, keys, want, got)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(100, 300))
def test_plain_kernel_on_larger_pipelines(seed: int) -> None:
    c = Seeded(seed)
    p = make_pipeline(c, max_steps=12)
    pushes = make_input(c, p, c.of(range(5, 60)))
    want = by_interpreter(p, pushes)
    whole = by_engine([p.engine(mode="python")], [batch_of(p, pushes)])
    assert same(want, whole), (p.graph, pushes, want, whole)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(5, 60))
def test_compiled_kernel(seed: int) -> None:
    """Fewer, since each has to be compiled; chunks alternate between the compiled and the plain form."""
    c = Seeded(1000 + seed)
    keyed = seed % 3 == 0
    key = INT if keyed else None
    while True:
        p = make_pipeline(c, max_steps=10, forgets=not keyed)
        if Engine(p.graph, key=key).why_plain is None:
            break
    pushes = make_input(c, p, c.of(range(5, 60)))
    keys = [c.of([0, 1, 2]) for _ in pushes] if keyed else None
    want = by_interpreter(p, pushes, keys)
    whole = by_engine([Engine(p.graph, key=key, mode="numba")], [batch_of(p, pushes, keys)])
    assert same(want, whole), (p.graph, pushes, want, whole)
    parts = cut(pushes, [c.of(range(9)) for _ in range(8)])
    marks: list[Any] = cut(keys, [len(part) for part in parts[:-1]]) if keys is not None else [None] * len(parts)
    engines = [Engine(p.graph, key=key, mode=("numba", "python")[i % 2]) for i in range(len(parts))]
    mixed = by_engine(engines, [batch_of(p, part, mark) for part, mark in zip(parts, marks, strict=True)])
    assert same(want, mixed), (p.graph, pushes, want, mixed)
    if keyed:
        shared: Any = KeyBuckets(Engine(p.graph, key=key, mode="numba"), 2)
        in_buckets = by_engine(
            [shared] * len(parts), [batch_of(p, part, mark) for part, mark in zip(parts, marks, strict=True)]
        )
        assert same(want, in_buckets), (p.graph, pushes, want, in_buckets)
