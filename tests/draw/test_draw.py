"""One door to all drawings, and what every style must do with any graph."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import Pipeline, UsageError, apply, merge, pipeline
from pellucid.internal.draw.graph import STYLES, draw
from pellucid.internal.draw.labels import cells
from pellucid.internal.draw.svg import parts
from pellucid.internal.draw.text import draw_text
from pellucid.internal.graph.model import Graph

STEPS = ("map", "filter", "cumulate", "decimate", "trim", "window", "task", "apply", "apply3", "merge", "filter_by")


def grow(draw_from: Any, streams: list[Any], count: int, depth: int) -> None:
    """Add steps that read any of the streams so far."""
    for _ in range(count):
        kind = draw_from(st.sampled_from(STEPS))
        a, b, c = (draw_from(st.sampled_from(streams)) for _ in range(3))
        k = draw_from(st.integers(1, 9))
        if kind == "window":
            streams.append(a.window(k, lambda s: inside(draw_from, s, depth)) if depth else a.trim(k))
        else:
            streams.append(
                {
                    "map": lambda a=a: a.map(lambda v: v + 1),
                    "filter": lambda a=a: a.filter(lambda v: v < 3),
                    "cumulate": lambda a=a: a.cumulate(lambda t, v: t + v, start=0),
                    "decimate": lambda a=a, k=k: a.decimate(k),
                    "trim": lambda a=a, k=k: a.trim(k),
                    "task": lambda a=a: a.task(lambda s, v: (v, [s]), initial=0),
                    "apply": lambda a=a, b=b: a + b,
                    "apply3": lambda a=a, b=b, c=c: apply(lambda p, q, r: p + q - r, a, b, c),
                    "merge": lambda a=a, b=b: merge(a, b),
                    "filter_by": lambda a=a, b=b: a.filter(b < 5),
                }[kind]()
            )


def inside(draw_from: Any, s: Any, depth: int) -> Any:
    streams = [s]
    grow(draw_from, streams, draw_from(st.integers(0, 3)), depth - 1)
    return streams[-1]


@st.composite
def graphs(draw_from: Any) -> Graph:
    def build(x: Any, y: Any) -> Any:
        streams = [x, y]
        grow(draw_from, streams, draw_from(st.integers(0, 12)), 2)
        outputs = draw_from(st.lists(st.sampled_from(streams), min_size=1, max_size=3))
        return {f"o{i}": s for i, s in enumerate([streams[-1], *outputs])}

    return pipeline(build, x=int, y=int).graph


def check_places(graph: Graph) -> None:
    """No two boxes overlap, no pipe runs under a box, and a window holds its sub-pipeline."""
    layout, boxes, columns = parts(graph)
    for layer, (left, right) in zip(layout.layers, columns, strict=True):
        assert all(v.shape.width <= right - left + 1e-6 for v in layer)
        for a, b in combinations(layer, 2):
            assert a.y + a.shape.height < b.y or b.y + b.shape.height < a.y
    assert all(a[1] < b[0] for a, b in pairwise(columns))
    for box in boxes:
        assert box.left + box.width <= box.item.width + 1e-6 and box.height <= box.item.height
        if box.inner is not None:
            sub, inner, _, inner_columns = box.inner
            assert inner_columns[-1][1] <= box.width + 1e-6 and inner.height <= box.height
            check_places(sub)


@settings(max_examples=40)
@given(graphs())
def test_any_graph_can_be_drawn(graph: Graph) -> None:
    ids = {node.id for node in graph.nodes}
    root = ET.fromstring(draw(graph, "svg"))
    assert ids <= {e.get("data-step") for e in root.iter() if e.get("data-step")}
    check_places(graph)

    text = draw_text(graph, 100)
    assert all(name in text for name, _ in graph.outputs)
    if "◀─" not in text:
        assert max(map(cells, text.splitlines())) <= 100

    chart = draw(graph, "mermaid")
    assert all(i in chart for i in ids)
    assert chart.count("subgraph ") == sum(line.strip() == "end" for line in chart.splitlines())


@settings(max_examples=25)
@given(graphs())
def test_a_drawing_is_the_same_every_time(graph: Graph) -> None:
    for style in STYLES:
        assert draw(graph, style) == draw(graph, style)


def test_an_unknown_style_names_the_known_ones() -> None:
    graph = pipeline(lambda x: x.trim(1), x=int).graph
    with pytest.raises(UsageError) as error:
        draw(graph, "png")
    assert str(error.value) == "no style of drawing is called 'png': use text, mermaid or svg"


def test_a_pipeline_shows_itself() -> None:
    p: Pipeline = pipeline(lambda x: x.trim(1), x=int)
    assert p.show() == "x ─▶ trim 1 ─▶ out"
    assert p._repr_html_() == draw(p.graph, "svg")
