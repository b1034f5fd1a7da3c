"""Small breakages of 30 pipelines: each that changes the meaning is refuted, by a counterexample that replays.

Whether a mutant changes the meaning is found out by brute force: both pipelines are interpreted on every stream of a
few small numbers.  A mutant that brute force cannot tell apart must not be refuted by anything shorter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import pytest

from pellucid import Pipeline, UsageError, check, pipeline
from pellucid.errors import StepError
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.types import BOOL, INT
from pellucid.internal.graph.build import instantiate
from pellucid.internal.graph.model import Graph
from tests.strategies import Seeded, make_pipeline

LENGTH = 5


def change(graph: Graph, i: int, **fields: Any) -> Graph:
    nodes = [dataclasses.replace(n, **fields) if j == i else n for j, n in enumerate(graph.nodes)]
    return dataclasses.replace(graph, nodes=tuple(nodes))


def rewritten(fn: Function, wrap: Any) -> Function:
    return Function.make(wrap(fn.plain), fn.params, task=fn.task, truth=fn.result == BOOL and len(fn.params) == 1)


def mutants(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """Off by one, swapped operands, wrong start value, lost reset, wrong width, negated condition …"""
    for i, node in enumerate(graph.nodes):
        fn = node.fn
        if node.k is not None:
            yield f"{node.kind}: k + 1", change(graph, i, k=node.k + 1)
            if node.k > 1:
                yield f"{node.kind}: k - 1", change(graph, i, k=node.k - 1)
        if node.kind == "cumulate" and node.state == INT and fn is not None:
            yield "cumulate: wrong start", change(graph, i, start=node.start + 1)
            yield (
                "cumulate: lost reset",
                change(graph, i, fn=rewritten(fn, lambda f, s=node.start: lambda a, v: f(s, v))),
            )
            yield "cumulate: one too many", change(graph, i, fn=rewritten(fn, lambda f: lambda a, v: f(a, v) + 1))
        if node.kind == "filter" and fn is not None:
            yield "filter: negated", change(graph, i, fn=rewritten(fn, lambda f: lambda v: not f(v)))
        if node.kind == "map" and fn is not None and fn.result == INT:
            yield "map: off by one", change(graph, i, fn=rewritten(fn, lambda f: lambda v: f(v) + 1))
            yield "map: sign lost", change(graph, i, fn=rewritten(fn, lambda f: lambda v: abs(f(v))))
        if node.kind == "map" and fn is not None and fn.result == BOOL:
            yield "map: negated", change(graph, i, fn=rewritten(fn, lambda f: lambda v: not f(v)))
        if node.kind == "apply" and fn is not None and len(fn.params) == 2 and fn.params[0] == fn.params[1]:
            yield "apply: operands swapped", change(graph, i, inputs=node.inputs[::-1])
        if node.kind == "merge" and len(set(node.inputs)) > 1:
            yield "merge: order turned", change(graph, i, inputs=node.inputs[::-1])
        if node.sub is not None:
            for name, sub in mutants(node.sub):
                yield f"window over ({name})", change(graph, i, sub=sub)
        for j in node.inputs:
            if graph.nodes[j].type == node.type and node.kind != "source":
                yield f"{node.kind}: left out", _without(graph, i, j)
                break


def _without(graph: Graph, i: int, j: int) -> Graph:
    nodes = [dataclasses.replace(n, inputs=tuple(j if k == i else k for k in n.inputs)) for n in graph.nodes]
    outputs = tuple((name, j if at == i else at) for name, at in graph.outputs)
    return dataclasses.replace(graph, nodes=tuple(nodes), outputs=outputs)


def as_pipeline(graph: Graph, name: str) -> Pipeline:
    types = {graph.nodes[i].id: graph.nodes[i].type for i in graph.sources}
    fn = eval(
        f"lambda {', '.join(types)}: build({', '.join(types)})",
        {"build": lambda *s: instantiate(graph, list(s), ids=False)["out"]},
    )
    fn.__name__ = name
    return pipeline(fn, **types)


def observed(p: Pipeline, stream: tuple[Any, ...]) -> list[Any]:
    run, name = Interpreter(p.graph), p.graph.nodes[p.graph.sources[0]].id
    out: list[Any] = []
    for event in stream:
        try:
            out.append(run.push({name: event})["out"])
        except StepError:
            return [*out, "failed"]
    return out


def shortest_difference(a: Pipeline, b: Pipeline) -> int | None:
    events = [False, True] if a.graph.nodes[a.graph.sources[0]].type == BOOL else [0, 1, 2]
    for length in range(1, LENGTH + 1):
        for stream in product(events, repeat=length):
            if observed(a, stream) != observed(b, stream):
                return length
    return None


@cache  # made when the first of these tests runs: whoever only collects them need not wait
def thirty() -> list[Pipeline]:
    found: list[Pipeline] = []
    seed = 0
    while len(found) < 30:
        seed += 1
        p = make_pipeline(Seeded(9000 + seed), max_steps=5, windows=1, keys=False, sources=1)
        source, out = p.graph.nodes[p.graph.sources[0]], p.graph.nodes[p.graph.outputs[0][1]]
        if len(p.graph.outputs) > 1 or source.type not in (INT, BOOL) or out.type not in (INT, BOOL):
            continue
        kinds = {t for n in p.graph.nodes for t in (n.type, *(fp for fp in (n.fn.params if n.fn else ())))}
        if kinds - {INT, BOOL} or any(n.kind == "key_by" for n in p.graph.nodes) or p.graph.opaque():
            continue
        try:
            many = len(list(mutants(p.graph)))
        except Exception:
            continue
        sample = (True, False) * 3 if source.type == BOOL else (1, 2, 0, 1, 2, 1)
        if many >= 5 and any(observed(p, sample)):  # it puts something out
            found.append(p)
    return found


@pytest.mark.parametrize("number", [k if k % 3 == 0 else pytest.param(k, marks=pytest.mark.long) for k in range(30)])
def test_every_mutant_that_changes_the_meaning_is_refuted(number: int) -> None:
    p, tried, refuted = thirty()[number], 0, 0
    original = as_pipeline(p.graph, "original")
    for name, graph in list(mutants(p.graph))[:12]:
        try:
            mutant = as_pipeline(graph, "mutant")
        except Exception:
            continue  # the breakage does not even build
        tried += 1
        wanted = shortest_difference(original, mutant)
        ints = range(3)
        try:
            verdict = check.equivalent(original, mutant, ints=ints, queue=12, engine="explicit", max_states=3000)
        except UsageError as error:
            if "takes no floats" in str(error):
                continue
            raise
        if wanted is not None:
            zeros = (False if p.graph.nodes[p.graph.sources[0]].type == BOOL else 0,) * LENGTH
            failing = "failed" in str(observed(original, zeros)) or "failed" in str(observed(mutant, zeros))
            if not verdict.refuted and failing:
                continue  # they differ in where they fail, which is another question
            assert verdict.refuted, (name, p.graph, wanted, verdict)
        if verdict.refuted:
            refuted += 1
            example = verdict.counterexample
            assert example is not None
            assert example.steps[-1].streams["1:out"] != example.steps[-1].streams["2:out"], name  # it replays
            assert wanted is None or len(example.steps) <= wanted
            assert wanted is not None or len(example.steps) > LENGTH
    assert tried >= 5
    assert refuted >= 1
