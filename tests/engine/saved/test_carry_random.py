"""A saved state goes on in a changed pipeline: random pipelines, as long as they are and grown."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pellucid import Pipeline
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.types import INT
from pellucid.internal.graph.model import Graph, Node
from tests.engine.kernel.test_kernel_random import Outcome, batch_of, by_engine, by_interpreter, same
from tests.strategies import Seeded, inputs, make_input, make_pipeline, pipelines
from tests.volumes import examples, some_seeds


def _other(n: Node) -> Node:
    """The step under another name, and those of its window, too: a failure there is told by the name of the step
    inside."""
    inside = n.sub and replace(n.sub, nodes=tuple(m if m.kind == "source" else _other(m) for m in n.sub.nodes))
    return replace(n, id=f"extra.{n.id}", sub=inside)


def together(a: Graph, b: Graph) -> Graph:
    """Both pipelines in one; the steps, sources and outputs of ``b`` stand first and have other names."""
    shift = len(b.nodes)
    nodes = [_other(n) for n in b.nodes]
    nodes += [replace(n, inputs=tuple(i + shift for i in n.inputs)) for n in a.nodes]
    outputs = [(f"extra.{name}", i) for name, i in b.outputs] + [(name, i + shift) for name, i in a.outputs]
    return Graph("both", tuple(nodes), (*b.sources, *[s + shift for s in a.sources]), tuple(outputs))


def run(
    graphs: list[Graph], chunks: list[list[dict[str, Any]]], keys: list[list[int]] | None, mode: str, drop: list[str]
) -> Outcome:
    """Push each chunk into its pipeline, carrying the state from one to the next; only the outputs of ``a`` are looked
    at."""
    found: tuple[dict[str, list[Any]], ...] = ({}, {}, {})
    saved = None
    for i, (graph, chunk) in enumerate(zip(graphs, chunks, strict=True)):
        engine = Engine(graph, key=INT if keys else None, mode=mode)
        if saved is not None:
            engine.carry(saved, drop=drop)
        whole: Any = SimpleNamespace(graph=graph)
        outcome = by_engine([engine], [batch_of(whole, chunk, keys[i] if keys else None)])
        if outcome[3] is not None:
            return {}, {}, {}, outcome[3]
        saved = engine.save()
        for into, some in zip(found, outcome[:3], strict=True):
            for name in [name for name in some if not name.startswith("extra.")]:
                into.setdefault(name, []).extend(some[name])
    return found[0], found[1], found[2], None


def compare(
    p: Pipeline,
    extra: Pipeline,
    pushes: list[dict[str, Any]],
    more: list[dict[str, Any]],
    keys: list[int] | None,
    at: int,
    mode: str,
) -> None:
    want = by_interpreter(p, pushes, keys)
    both = together(p.graph, extra.graph)
    wide = [push | {f"extra.{k}": v for k, v in other.items()} for push, other in zip(pushes, more, strict=True)]
    marks = [keys[:at], keys[at:]] if keys else None
    got = run([p.graph, p.graph], [pushes[:at], pushes[at:]], marks, mode, [])
    assert same(want, got), ("the same", p.graph, pushes, at, want, got)
    got = run([p.graph, both], [pushes[:at], wide[at:]], marks, mode, [])
    if got[3] is None or not got[3][1].startswith("extra."):
        assert same(want, got), ("one more", both, wide, at, want, got)
    gone = [n.id for n in both.nodes if n.id.startswith("extra.")]
    got = run([both, p.graph], [wide[:at], pushes[at:]], marks, mode, gone)
    if got[3] is None or not got[3][1].startswith("extra."):
        assert same(want, got), ("one less", both, wide, at, want, got)


@settings(max_examples=examples(50, 80))
@given(st.data(), st.booleans())
def test_random_pipelines(data: st.DataObject, keyed: bool) -> None:
    p, extra = data.draw(pipelines(max_steps=6)), data.draw(pipelines(max_steps=4, sources=1))
    pushes = data.draw(inputs(p))
    assume(pushes)
    c = Seeded(len(pushes))
    keys = data.draw(st.lists(st.integers(0, 2), min_size=len(pushes), max_size=len(pushes))) if keyed else None
    compare(p, extra, pushes, make_input(c, extra, len(pushes)), keys, data.draw(st.integers(0, len(pushes))), "python")


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(30, 60))
def test_larger_random_pipelines(seed: int) -> None:
    c = Seeded(2000 + seed)
    p, extra = make_pipeline(c, max_steps=12), make_pipeline(c, max_steps=6)
    pushes = make_input(c, p, c.of(range(5, 60)))
    keys = [c.of([0, 1, 2]) for _ in pushes] if seed % 2 else None
    compare(p, extra, pushes, make_input(c, extra, len(pushes)), keys, c.of(range(len(pushes))), "python")


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(2, 20))
def test_random_pipelines_compiled(seed: int) -> None:
    c = Seeded(3000 + seed)
    while True:
        p, extra = make_pipeline(c, max_steps=8), make_pipeline(c, max_steps=4)
        if all(Engine(q.graph, key=k).why_plain is None for q in (p, extra) for k in (None, INT)):
            break
    pushes = make_input(c, p, c.of(range(5, 60)))
    keys = [c.of([0, 1, 2]) for _ in pushes] if seed % 2 else None
    compare(p, extra, pushes, make_input(c, extra, len(pushes)), keys, c.of(range(len(pushes))), "numba")
