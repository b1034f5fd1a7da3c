"""Random pipelines, called by one another, under keys, in windows, over several sources with silence: what they mean,
told by `tests.judge.told`, is what the interpreter and the kernel say."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import Pipeline, pipeline
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.types import FLOAT, INT
from tests import strategies
from tests.engine.kernel.test_kernel_random import Outcome, batch_of, by_engine, by_interpreter, cut, marked
from tests.judge.told import Judged, told_outputs
from tests.strategies import POINT, Drawn, Seeded, Telling, make_input, make_judged
from tests.volumes import examples, some_seeds


def by_meaning(telling: Telling, p: Pipeline, pushes: list[dict[str, Any]], keys: list[int] | None) -> Outcome:
    """As `by_interpreter`, up to the push that fails: of a failure its push alone, and nothing that comes out with
    it."""
    found: list[tuple[int, int, str, Any, Any]] = []
    fails: list[int] = []
    for key in dict.fromkeys(keys) if keys is not None else [None]:
        mine = [i for i in range(len(pushes)) if keys is None or keys[i] == key]
        outputs, failed = telling([pushes[i] for i in mine])
        fails += [] if failed is None else [mine[failed]]
        found += [
            (mine[e.push], n, name, marked(p, name, e.key) if key is None else key, e.value)
            for name, events in outputs.items()
            for n, e in enumerate(events)
        ]
    end = min(fails, default=len(pushes))
    values: dict[str, list[Any]] = {name: [] for name, _ in p.graph.outputs}
    places: dict[str, list[int]] = {name: [] for name in values}
    marks: dict[str, list[Any]] = {name: [] for name in values}
    for push, _, name, key, value in sorted(found, key=lambda one: one[:2]):
        if push < end:
            values[name].append(value)
            places[name].append(push)
            marks[name].append(key)
    return values, places, marks, end if fails else None


def said(outcome: Outcome) -> str:
    """An outcome as `by_meaning` has it."""
    *streams, failure = outcome
    return repr((*streams, failure if failure is None or isinstance(failure, int) else failure[2]))


def check(
    p: Pipeline, telling: Telling, pushes: list[dict[str, Any]], keys: list[int] | None, sizes: list[int], mode: str
) -> None:
    want = said(by_meaning(telling, p, pushes, keys))
    got = said(by_interpreter(p, pushes, keys))
    assert got == want, ("interpreter", p.graph, pushes, keys, want, got)
    parts = cut(pushes, sizes)
    marks: list[Any] = cut(keys, sizes) if keys is not None else [None] * len(parts)
    for some, with_keys in (([pushes], [keys]), (parts, marks)):
        engines = [Engine(p.graph, key=INT if keys is not None else None, mode=mode) for _ in some]
        outcome = by_engine(engines, [batch_of(p, part, mark) for part, mark in zip(some, with_keys, strict=True)])
        # The outputs of a batch that fails are lost with it: of a failure its push alone is compared.
        assert said(outcome) == want if outcome[3] is None else want.endswith(f", {outcome[3][2]})"), (
            mode,
            p.graph,
            pushes,
            keys,
            want,
            outcome,
        )


@settings(max_examples=examples(50, 80))
@given(st.data(), st.booleans())
def test_random_pipelines(data: st.DataObject, keyed: bool) -> None:
    c = Drawn(data.draw)
    p, telling = make_judged(c, max_steps=6)
    pushes = make_input(c, p, data.draw(st.integers(0, 14)))
    keys = data.draw(st.lists(st.integers(0, 2), min_size=len(pushes), max_size=len(pushes))) if keyed else None
    check(p, telling, pushes, keys, data.draw(st.lists(st.integers(0, 4), max_size=4)), "python")


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(80, 200))
def test_larger_random_pipelines(seed: int) -> None:
    c = Seeded(seed)
    p, telling = make_judged(c, max_steps=12)
    pushes = make_input(c, p, c.of(range(5, 40)))
    keys = [c.of([0, 1, 2]) for _ in pushes] if seed % 2 else None
    check(p, telling, pushes, keys, [c.of(range(9)) for _ in range(5)], "python")


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(60, 400))
def test_keys_that_are_given_up(seed: int) -> None:
    c = Seeded(5000 + seed)
    while True:
        p, telling = make_judged(c, max_steps=8, forgets=True)
        if any(node.kind == "forget" for node in p.graph.nodes):
            break
    pushes = make_input(c, p, c.of(range(5, 40)))
    check(p, telling, pushes, None, [c.of(range(9)) for _ in range(5)], "python")


@pytest.mark.seeded
@pytest.mark.parametrize("mode", ["python", "numba"])
@pytest.mark.parametrize("seed", some_seeds(1, 10))
def test_floats_that_are_nan(seed: int, mode: str) -> None:
    """Bare ones: of two records Python takes a NaN that is one object for equal to itself, which no data can say."""
    c = Seeded(9000 + seed)
    c.nans, left = True, 40 if mode == "python" else 2
    while left:
        p, telling = make_judged(c, max_steps=6)
        types = {p.graph.nodes[i].type for i in p.graph.sources}
        bare = FLOAT in types and POINT not in types
        if bare and len(p.graph.nodes) > 4 and (mode == "python" or Engine(p.graph).why_plain is None):
            check(p, telling, make_input(c, p, 30), None, [c.of(range(9)) for _ in range(5)], mode)
            left -= 1


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(2, 30))
def test_keys_that_are_given_up_compiled(seed: int) -> None:
    c = Seeded(6000 + seed)
    while True:
        p, telling = make_judged(c, max_steps=8, forgets=True)
        if Engine(p.graph).why_plain is None and any(by is not None for by in p.graph.forgotten_by):
            break
    pushes = make_input(c, p, 60)
    check(p, telling, pushes, None, [c.of(range(9)) for _ in range(5)], "numba")


def test_the_generator_draws_what_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipelines called on keyed streams, also in windows; keys in windows and windows under keys; several sources with
    silence."""
    called: list[Any] = []
    real = strategies._called

    def spied(c: Any, given: list[Any], depth: int, keys: bool) -> Any:
        called.append(given[0]._step.key)
        return real(c, given, depth, keys)

    monkeypatch.setattr(strategies, "_called", spied)
    shapes: Counter[str] = Counter()
    for seed in range(300):
        called.clear()
        c = Seeded(seed)
        p, _ = make_judged(c)
        nodes = p.graph.nodes
        keyed = [n for n in nodes if n.key is not None]
        shapes["a call"] += bool(called)
        shapes["a call under a key"] += any(called)
        shapes["memory under a key"] += any(n.kind in ("cumulate", "task", "trim", "decimate", "window") for n in keyed)
        shapes["a window under a key"] += any(n.kind == "window" for n in keyed)
        shapes["a key in a window"] += any(
            n.sub is not None and any(s.kind == "key_by" for s in n.sub.nodes) for n in nodes
        )
        shapes["one key after another"] += any(n.kind == "key_by" and nodes[n.inputs[0]].key is not None for n in nodes)
        shapes["several sources, with silence"] += any(len(push) < len(p.graph.sources) for push in make_input(c, p, 5))
    assert min(shapes.values()) >= 10, shapes


def test_what_a_call_means() -> None:
    """The judge and the pipeline on the shape that was wrong once: called on a keyed stream, a pipeline keeps one state
    for each key."""
    total: Any = lambda x: x.cumulate(lambda t, v: t + v, 0)
    running = pipeline(total, x=int)
    assert pipeline(lambda x: running(x.key_by(lambda v: v % 2)), x=int)(range(8)) == [0, 1, 2, 4, 6, 9, 12, 16]
    found: list[Any] = []

    def build(x: Any) -> Any:
        hole, outer = Judged.source(x), Judged.source(x)
        found[:] = [outer.told, total(hole).told.over({hole.told: outer.key_by(lambda v: v % 2).told})]
        return x

    pipeline(build, x=int)
    events, failed = told_outputs({"x": (found[0], INT)}, {"out": found[1]}, [{"x": v} for v in range(8)])
    assert [e.value for e in events["out"]] == [0, 1, 2, 4, 6, 9, 12, 16] and failed is None
    events, failed = told_outputs({"x": (found[0], INT)}, {"out": found[1]}, [{"x": v} for v in (2**62, 1, 2**62, 3)])
    assert [e.value for e in events["out"]] == [2**62, 1] and failed == 2
