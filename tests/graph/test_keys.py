"""A key belongs to the stream: a pipeline that is called on a keyed stream means what its steps, written there, would
mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pellucid import Pipeline, PipelineError, Stream, UsageError, apply, check, merge, pipeline
from pellucid.internal.data.columns import Batch
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.types import INT
from pellucid.internal.graph.model import Graph
from tests.keyed_shapes import EVENTS, SHAPES, add, made, pairs, parity, running, third


def meaning(p: Pipeline, keys: list[int] | None = None) -> dict[str, list[tuple[int, Any]]]:
    """The literal interpreter's events with their pushes; one interpreter for each key that comes with the data."""
    runs: dict[int, Interpreter] = {}
    out: dict[str, list[tuple[int, Any]]] = {name: [] for name, _ in p.graph.outputs}
    for i, v in enumerate(EVENTS):
        run = runs.setdefault(keys[i] if keys else 0, Interpreter(p.graph))
        for name, events in run.push(x=v).items():
            out[name] += [(i, e) for e in events]
    return out


def engine_says(p: Pipeline, mode: str, chunk: int, keys: list[int] | None = None) -> dict[str, list[tuple[int, Any]]]:
    """The engine's, in chunks; every chunk by an engine that loads what the one before it saved."""
    out: dict[str, list[tuple[int, Any]]] = {name: [] for name, _ in p.graph.outputs}
    saved = None
    for start in range(0, len(EVENTS), chunk):
        engine = Engine(p.graph, key=INT if keys else None, mode=mode)
        if saved is not None:
            engine.load(saved)
        part = EVENTS[start : start + chunk]
        batch = Batch(len(part), [[part]], [None], [[keys[start : start + chunk]]] if keys else None)
        for o in engine.push_batch(batch, positions=True):
            out[o.name] += zip([int(at) for at in o.positions], o.events(), strict=True)
        saved = engine.save()
    return out


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_means_what_is_written_out(shape: str) -> None:
    nested, written = made(shape)
    expected = meaning(written)
    assert meaning(nested) == expected
    assert [n.key for n in nested.graph.nodes] == [n.key for n in written.graph.nodes] or shape == "two outputs"
    for chunk in (1, 7, len(EVENTS)):
        assert engine_says(nested, "python", chunk) == expected
        assert engine_says(written, "python", chunk) == expected
    assert engine_says(nested, "auto", len(EVENTS)) == expected


@pytest.mark.parametrize("shape", SHAPES)
def test_a_key_that_comes_with_the_data_runs_each_shape_once_per_key(shape: str) -> None:
    nested, _ = made(shape)
    keys = [v % 5 // 2 for v in range(len(EVENTS))]
    for chunk in (3, len(EVENTS)):
        assert engine_says(nested, "python", chunk, keys) == meaning(nested, keys)


@pytest.mark.parametrize(
    "shape",
    [
        "a key of another type inside",
        *(pytest.param(s, marks=pytest.mark.long) for s in ("a key before two levels", "queues for each key")),
    ],
)
def test_compiled_as_well(shape: str) -> None:
    nested, _ = made(shape)
    keys = [v % 3 for v in range(len(EVENTS))]
    assert engine_says(nested, "numba", 9) == meaning(nested)
    assert engine_says(nested, "numba", 9, keys) == meaning(nested, keys)


@pytest.mark.parametrize("shape", [s for s in SHAPES if s != "two outputs"])  # its key_by is one step there, two here
def test_the_same_graph(shape: str) -> None:
    nested, written = made(shape)
    assert nested.graph.digest == written.graph.digest
    assert [n.id for n in nested.graph.nodes] == [n.id for n in written.graph.nodes]


def test_what_differs_by_its_key_alone_is_not_the_same_graph() -> None:
    plain = pipeline(lambda x: running(x), x=int)
    keyed = pipeline(lambda x: running(x.key_by(parity)), x=int)
    other = pipeline(lambda x: running(x.key_by(third)), x=int)
    again = pipeline(lambda x: running(x.key_by(third).key_by(parity)), x=int)
    assert len({p.graph.digest for p in (plain, keyed, other, again)}) == 4
    assert check.equivalent(keyed, pipeline(lambda x: x.key_by(parity).cumulate(add, start=0), x=int)).proved
    assert check.equivalent(keyed, again).proved  # the second key_by replaces the first
    for p in (plain, other):
        assert check.equivalent(keyed, p).refuted


def test_the_type_of_an_opaque_key_is_part_of_the_graph() -> None:
    kinds = {1: 1}
    as_int, as_bool = (pipeline(lambda x, t=t: x.key_by(lambda v: kinds[v], to=t).trim(1), x=int) for t in (int, bool))
    assert as_int.graph.digest != as_bool.graph.digest


@pytest.mark.parametrize("shape", [s for s in SHAPES if s != "two outputs"])
def test_no_export_takes_a_keyed_step_for_another(shape: str) -> None:
    """Also where the key_by is inside a window."""
    from pellucid.internal.export.smv.kinds import refuse_what_smv_cannot

    for p in made(shape):
        with pytest.raises(UsageError, match="cannot be exported"):
            refuse_what_smv_cannot(p.graph)


def test_crashes_are_checked_under_the_key() -> None:
    nested = pipeline(lambda x: running(x.key_by(parity)), x=int)
    assert check.failures(nested, epochs=2, events=2, crashes=1).bounded


def test_streams_that_are_keyed_differently_do_not_meet_inside_either() -> None:
    said = (
        r"test_keys.py:\d+: pipeline pairs: apply \(keyed_shapes.py:\d+\) joins streams that are keyed differently: "
        r"one by int, another by no key"
    )
    with pytest.raises(PipelineError, match=said):
        pipeline(lambda x: pairs(x.key_by(parity), x), x=int)
    with pytest.raises(PipelineError, match="one by int, another by bool"):
        pipeline(lambda x: pairs(x.key_by(parity), x.key_by(lambda v: v > 2)), x=int)
    named = pipeline(lambda x, y: merge(x, y, id="all"), x=int, y=int)
    with pytest.raises(PipelineError, match=r"pipeline pipeline: step 'pipeline/all' \(merge, .*keyed differently"):
        pipeline(lambda x: named(x, x.key_by(parity)), x=int)
    with pytest.raises(PipelineError, match="one by no key, another by int"):
        pipeline(lambda x: apply(lambda a, b: a + b, x, running(x.key_by(parity))), x=int)


def test_a_graph_whose_keys_are_not_what_its_steps_make_is_refused() -> None:
    graph = pipeline(lambda x: x.key_by(parity).cumulate(add, start=0, id="total"), x=int).graph
    *before, total = graph.nodes
    with pytest.raises(
        PipelineError, match=r"'total' .* is said to be keyed by no key, but what it reads makes that int"
    ):
        Graph(graph.name, (*before, replace(total, key=None)), graph.sources, graph.outputs)
    with pytest.raises(PipelineError, match="is said to be keyed by int, but what it reads makes that no key"):
        Graph(graph.name, (graph.nodes[0], replace(total, inputs=(0,))), graph.sources, (("out", 1),))


def test_pictures_say_the_key() -> None:
    keyed = pipeline(lambda x: running(x.key_by(parity)), x=int)
    assert "kept apart by int" in keyed.show("svg")


def test_a_recursive_use_keeps_each_key_apart() -> None:
    """The same pipeline several times over streams of different keys: each copy has its own."""

    @pipeline
    def many(x: Stream[int]) -> tuple[Stream[int], Stream[int], Stream[int]]:
        return running(x), running(x.key_by(parity)), running(running(x.key_by(lambda v: v > 4)))

    assert [str(many.graph.nodes[i].key) for _, i in many.graph.outputs] == ["None", "int", "bool"]
    plain, odd, big = many([1, 5, 2, 6])
    assert (plain, odd, big) == ([1, 6, 8, 14], [1, 6, 2, 8], [1, 5, 4, 16])
