"""Random pipelines on random inputs: interpreter = kernel, whole = in chunks = saved and loaded."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import Pipeline, StepError, Stream, apply, merge, pipeline
from pellucid.internal.data.columns import Batch, columns_of, values_of
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel.buckets import KeyBuckets
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.types import FLOAT, INT, Type
from tests import strategies
from tests.judge.streams import Judged, meant_outputs
from tests.strategies import (
    POINT,
    Drawn,
    PipelineMeaning,
    Seeded,
    inputs,
    make_input,
    make_judged,
    make_pipeline,
    pipelines,
)
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


# The comparison of kernel and interpreter can say no: each planted bug is found by a few random inputs.


def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0)


def squares(x: Stream[int]) -> Stream[int]:
    return x.map(lambda v: v * v % 11).cumulate(lambda t, v: t + v, start=0)


MUTANTS: list[tuple[str, Callable[..., Any], str, str]] = [
    ("decimate by k+1", lambda x: x.decimate(3), r"== 2\) else", "== 3) else"),
    ("trim one more", lambda x: x.trim(2), r"2 <= ", "2 < "),
    ("state not kept", total, r"s0_0 = t\d+\n", "\n"),
    ("operands swapped", lambda x: x.cumulate(lambda a, v: a - v, start=0), r"= (v\d+) - (\w+)", r"= \2 - \1"),
    ("filter turned round", lambda x: x.filter(lambda v: v % 2 == 1), r"== 1", "!= 1"),
    (
        "window one short",
        lambda x: x.window(3, lambda w: w.cumulate(lambda a, v: 2 * a + v, start=0)),
        r"== 3:\n(\s+)h",
        r"== 2:\n\1h",
    ),
    (
        "window forgets its reset",
        lambda x: x.window(3, lambda w: w.trim(1).cumulate(lambda a, v: 2 * a + v, start=0)),
        r"\n\s+s\d+ = \(0\)",
        "",
    ),
    (
        "window starts at the wrong place",
        lambda x: x.window(3, lambda w: w.cumulate(lambda a, v: 2 * a + v, start=0)),
        r"i(\d+) = c(\d+) \+ j",
        r"i\1 = j",
    ),
    ("sum does not lose the old event", lambda x: x.window(3, total), r"\+ \((\w+) - \w+\)", r"+ \1"),
    ("block without its prefix", lambda x: x.window(4, squares), r"\((SI0\[[^\]]+\]) \+ s0_\d+\)", r"\1"),
    (
        "queue gives the newest",
        lambda x: apply(lambda a, b: a - b, x.decimate(2), x),
        r"c(\d+) = s0_4\n",
        r"c\1 = s0_5\n",
    ),
    ("queue forgets to shrink", lambda x: apply(lambda a, b: a - b, x.trim(1), x), r"s0_6 - 1", "s0_6"),
    (
        "merge loses an input",
        lambda x: merge(x, x.trim(1)),
        r"(y\d+_0)\.append\(x0_0\)\n(\s+)(y\d+_c) \+= 1\n(\s+)if",
        r"pass\n\4if",
    ),
    ("all keys share one row", lambda x: total(x.key_by(lambda v: v % 3)), r"return s\n", "return 0\n"),
    ("a key is given up too late", lambda x: total(x.key_by(lambda v: v % 3).forget(after=2)), r"- 1 >= 2", "- 1 > 2"),
    ("what was given up comes back", lambda x: total(x.key_by(lambda v: v % 3).forget(after=1)), r"- 1 >= 1", ">= 99"),
    ("task loses its second event", lambda x: x.task(lambda s, v: (v, [s, v]), 0), r"if 1 < ", "if 2 < "),
    ("overflow unnoticed", total, r"if not -9223372036854775808 <= \w+ <= 9223372036854775807:", "if False:"),
    ("wrong start", lambda x: x.cumulate(lambda a, v: a * 2 + v, start=1), r"s0_0 = SI0\[0\]", "s0_0 = 0"),
]


def refuted(p: Any, change: Callable[[str], str]) -> bool:
    for seed in range(60):
        c = Seeded(seed)
        pushes = make_input(c, p, c.of(range(1, 25)))
        if seed % 3 == 0:
            pushes = [{"x": c.of([2**62, 2**62, 5])} for _ in range(4)]
        engine = p.engine(mode="python")
        kernel = engine._kernel(False, True)
        (which,) = (key for key, found in engine._kernels.items() if found is kernel)
        engine._kernels, engine._calls = {which: dataclasses.replace(kernel, source=change(kernel.source))}, {}
        try:
            got = by_engine([engine], [batch_of(p, pushes)])
        except Exception:
            return True
        if not same(by_interpreter(p, pushes), got):
            return True
    return False


@pytest.mark.parametrize(("name", "build", "pattern", "bug"), MUTANTS, ids=[m[0] for m in MUTANTS])
def test_a_planted_bug_is_found(name: str, build: Callable[..., Any], pattern: str, bug: str) -> None:
    p = pipeline(build, x=int)
    source = p.engine(mode="python")._kernel(False, True).source
    assert re.search(pattern, source), f"the pattern no longer fits:\n{source}"
    assert not refuted(p, lambda text: text)
    assert refuted(p, lambda text: re.sub(pattern, bug, text)), "the bug was not found"


# Random pipelines, called by one another, under keys, in windows, over several sources with silence: what they mean,
# told by `tests.judge.streams`, is what the interpreter and the kernel say.


def by_meaning(meant: PipelineMeaning, p: Pipeline, pushes: list[dict[str, Any]], keys: list[int] | None) -> Outcome:
    """As `by_interpreter`, up to the push that fails: of a failure its push alone, and nothing that comes out with
    it."""
    found: list[tuple[int, int, str, Any, Any]] = []
    fails: list[int] = []
    for key in dict.fromkeys(keys) if keys is not None else [None]:
        mine = [i for i in range(len(pushes)) if keys is None or keys[i] == key]
        outputs, failed = meant([pushes[i] for i in mine])
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
    p: Pipeline,
    meant: PipelineMeaning,
    pushes: list[dict[str, Any]],
    keys: list[int] | None,
    sizes: list[int],
    mode: str,
) -> None:
    want = said(by_meaning(meant, p, pushes, keys))
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
    p, meant = make_judged(c, max_steps=6)
    pushes = make_input(c, p, data.draw(st.integers(0, 14)))
    keys = data.draw(st.lists(st.integers(0, 2), min_size=len(pushes), max_size=len(pushes))) if keyed else None
    check(p, meant, pushes, keys, data.draw(st.lists(st.integers(0, 4), max_size=4)), "python")


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(80, 200))
def test_larger_random_pipelines(seed: int) -> None:
    c = Seeded(seed)
    p, meant = make_judged(c, max_steps=12)
    pushes = make_input(c, p, c.of(range(5, 40)))
    keys = [c.of([0, 1, 2]) for _ in pushes] if seed % 2 else None
    check(p, meant, pushes, keys, [c.of(range(9)) for _ in range(5)], "python")


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(60, 400))
def test_keys_that_are_given_up(seed: int) -> None:
    c = Seeded(5000 + seed)
    while True:
        p, meant = make_judged(c, max_steps=8, forgets=True)
        if any(node.kind == "forget" for node in p.graph.nodes):
            break
    pushes = make_input(c, p, c.of(range(5, 40)))
    check(p, meant, pushes, None, [c.of(range(9)) for _ in range(5)], "python")


@pytest.mark.seeded
@pytest.mark.parametrize("mode", ["python", "numba"])
@pytest.mark.parametrize("seed", some_seeds(1, 10))
def test_floats_that_are_nan(seed: int, mode: str) -> None:
    """Bare ones: of two records Python takes a NaN that is one object for equal to itself, which no data can say."""
    c = Seeded(9000 + seed)
    c.nans, left = True, 40 if mode == "python" else 2
    while left:
        p, meant = make_judged(c, max_steps=6)
        types = {p.graph.nodes[i].type for i in p.graph.sources}
        bare = FLOAT in types and POINT not in types
        if bare and len(p.graph.nodes) > 4 and (mode == "python" or Engine(p.graph).why_plain is None):
            check(p, meant, make_input(c, p, 30), None, [c.of(range(9)) for _ in range(5)], mode)
            left -= 1


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(2, 30))
def test_keys_that_are_given_up_compiled(seed: int) -> None:
    c = Seeded(6000 + seed)
    while True:
        p, meant = make_judged(c, max_steps=8, forgets=True)
        if Engine(p.graph).why_plain is None and any(by is not None for by in p.graph.forgotten_by):
            break
    pushes = make_input(c, p, 60)
    check(p, meant, pushes, None, [c.of(range(9)) for _ in range(5)], "numba")


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
        found[:] = [outer.meaning, total(hole).meaning.over({hole.meaning: outer.key_by(lambda v: v % 2).meaning})]
        return x

    pipeline(build, x=int)
    events, failed = meant_outputs({"x": (found[0], INT)}, {"out": found[1]}, [{"x": v} for v in range(8)])
    assert [e.value for e in events["out"]] == [0, 1, 2, 4, 6, 9, 12, 16] and failed is None
    events, failed = meant_outputs({"x": (found[0], INT)}, {"out": found[1]}, [{"x": v} for v in (2**62, 1, 2**62, 3)])
    assert [e.value for e in events["out"]] == [2**62, 1] and failed == 2
