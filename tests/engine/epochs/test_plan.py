"""Cutting a pipeline: the parts together mean what the whole means, or the cut is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import Pipeline, merge, pipeline
from pellucid.errors import PellucidError, UsageError
from pellucid.internal.data.columns import columns_of, events_of
from pellucid.internal.engine.epochs.plan import fragments, make_plan
from pellucid.internal.engine.epochs.tasks.messages import (
    EVENTS,
    ChannelMessage,
    Events,
    Shape,
    as_arrays,
    decode,
    encode,
)
from pellucid.internal.engine.epochs.tasks.worker import events_of_output, joined
from pellucid.internal.engine.kernel.engine import Engine
from tests.strategies import inputs, pipelines


def in_parts(p: Pipeline, cut: list[str], steps: list[dict[str, Any]], size: int) -> dict[str, list[Any]]:
    """All parts in this process, batch by batch; what goes between them goes through bytes."""
    graph = p.graph
    parts = fragments(graph, cut)
    engines = [Engine(part) for part in parts]
    out: dict[str, list[Any]] = {name: [] for name, _ in graph.outputs}
    types = {n.id: n.type for n in graph.nodes}
    for first in range(0, len(steps), size):
        batch = steps[first : first + size]
        streams: dict[str, Events] = {}
        for at in graph.sources:
            node = graph.nodes[at]
            rows = [i for i, step in enumerate(batch) if node.id in step]
            leaves = [leaf for _, leaf in node.type.leaves()]
            columns = columns_of(node.type, [batch[i][node.id] for i in rows])
            streams[node.id] = Events(
                [as_arrays(t, c) for t, c in zip(leaves, columns, strict=True)], np.array(rows, dtype=np.int64) + first
            )
        for part, engine in zip(parts, engines, strict=True):
            names = [part.nodes[i].id for i in part.sources]
            message = ChannelMessage(EVENTS, 1, first, first + size, {n: streams[n] for n in names})
            pieces = encode(message, Shape(types), canonical=True)
            given_ = decode(b"".join(bytes(piece) for piece in pieces), Shape(types)).parts
            pushes, positions = joined(part, names, given_, first, None)
            base = engine.pushed
            for o in engine.push_batch(pushes, positions=True):
                streams[o.name] = events_of_output(o, base, positions, first, None)
        for name, at in graph.outputs:
            node = graph.nodes[at]
            out[name] += events_of(node.type, streams[node.id].columns)
    return out


@given(st.data())
@settings(max_examples=60)
def test_parts_mean_what_the_whole_means(data: st.DataObject) -> None:
    p = data.draw(pipelines())
    steps = data.draw(inputs(p))
    inner = [n.id for n in p.graph.nodes if n.kind != "source"]
    cut = data.draw(st.lists(st.sampled_from(inner), unique=True, max_size=4)) if inner else []
    try:
        found = in_parts(p, cut, steps, data.draw(st.sampled_from([1, 3, 100])))
    except UsageError as error:
        if not str(error).startswith("cut: the stream of step"):
            raise
        return
    except PellucidError:
        with pytest.raises(PellucidError):
            whole(p, steps)
        return
    assert repr(found) == repr(whole(p, steps))


def whole(p: Pipeline, steps: list[dict[str, Any]]) -> dict[str, list[Any]]:
    from pellucid.internal.engine.interpreter import Interpreter

    out: dict[str, list[Any]] = {name: [] for name, _ in p.graph.outputs}
    for result in Interpreter(p.graph).run(steps):
        for name, events in result.items():
            out[name] += events
    return out


def test_a_stream_with_several_events_in_a_push_may_not_meet_others() -> None:
    p = pipeline(lambda x, y: merge(merge(x, y, id="both").trim(1, id="cut"), x, id="all"), x=int, y=int)
    with pytest.raises(
        UsageError,
        match=r"cut: the stream of step 'cut' \(trim.*\) may carry several events in one push, which would meet other "
        r"streams \(x\)",
    ):
        fragments(p.graph, ["cut"])


def test_a_key_does_not_go_through_a_cut() -> None:
    p = pipeline(lambda x: x.key_by(lambda v: v % 2, id="by").trim(1, id="cut").map(lambda v: v, id="end"), x=int)
    with pytest.raises(
        UsageError, match="is under a key_by, and would go to another worker without its key: cut before the key_by"
    ):
        fragments(p.graph, ["cut"])


def test_shares() -> None:
    p = pipeline(lambda x: x.trim(1, id="a").map(lambda v: v, id="b"), x=int)
    plan = make_plan(p.graph, {"x": ["x"]}, cut=["a"], workers=2, keyed=True)
    assert [c.name for c in plan.channels] == [
        "source.x>worker.a.0",
        "source.x>worker.a.1",
        "worker.a.0>worker.b.0",
        "worker.a.1>worker.b.1",
        "worker.b.0>sink.out",
        "worker.b.1>sink.out",
    ]
    assert [c.share for c in plan.channels[:2]] == [(0, 2), (1, 2)]
    with pytest.raises(UsageError, match="have a key each in one push"):
        make_plan(
            pipeline(lambda x, y: merge(x, y), x=int, y=int).graph, {"x": ["x"], "y": ["y"]}, workers=2, keyed=True
        )
