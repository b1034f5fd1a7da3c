"""One door to all drawings, and what every style must do with any graph."""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET
from datetime import timedelta
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import Pipeline, Stream, UsageError, apply, as_of, iterate, join, lookup, merge, pipeline
from pellucid.internal.draw.graph import STYLES, draw, draw_mermaid, parts
from pellucid.internal.draw.labels import cells
from pellucid.internal.draw.layout import Item, Wire, _crossings, arrange, fold
from pellucid.internal.draw.svg import FAMILY
from pellucid.internal.draw.text import draw_text
from pellucid.internal.graph.model import Graph
from pellucid.internal.graph.processors import PROCESSORS

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


# Mermaid flowcharts, line by line.


def drawn(fn: Any, **types: Any) -> list[str]:
    return [line.strip() for line in draw_mermaid(pipeline(fn, **types).graph).splitlines()]


def test_kinds_have_shapes_of_their_own() -> None:
    """A window is a frame around others; for `take` (it has that of `trim`) and event time Mermaid has none left."""
    shapes = [p.shape for kind, p in PROCESSORS.items() if kind not in ("window", "take") and not p.timed]
    assert len(set(shapes)) == len(shapes)


def test_queues_are_named() -> None:
    assert drawn(lambda x: x.trim(1, id="late") + x, x=int)[4:] == [
        'out0(["out"])',
        'n0 -->|"int"| n1',
        'n1 -->|"int · queue"| n2',
        'n0 -->|"int · queue"| n2',
        'n2 -->|"int"| out0',
    ]


def test_a_window_is_a_subgraph_with_pipes_to_its_ends() -> None:
    assert drawn(lambda x: x.window(3, lambda s: s.trim(1, id="late"), id="w"), x=int) == [
        "flowchart LR",
        'n0(["x"])',
        'subgraph n1["window 3 of sub · w"]',
        "direction LR",
        'n1_n0(["in"])',
        'n1_n1[/"trim 1<br/><small>late</small>"/]',
        'n1_out0(["out"])',
        'n1_n0 -->|"int"| n1_n1',
        'n1_n1 -->|"int"| n1_out0',
        "end",
        'out0(["out"])',
        'n0 -->|"int"| n1_n0',
        'n1_out0 -->|"int"| out0',
    ]


def test_what_has_a_meaning_in_mermaid_is_escaped() -> None:
    lines = drawn(lambda x: (x + '"]<b>#`&').trim(1), x=str)
    assert lines[2].startswith('n1["map + #quot;]#lt;b#gt;#35;#96;#amp;<br/>')


# The picture: its structure, what can be read from it, and what must never get into it.

SVG = "{http://www.w3.org/2000/svg}"
total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0, id="sum"), x=int)


def picture(fn: Any, **types: Any) -> ET.Element:
    return ET.fromstring(draw(pipeline(fn, **types).graph, "svg"))


def texts(root: ET.Element) -> list[str]:
    return [e.text or "" for e in root.iter(f"{SVG}text")]


def titles(root: ET.Element) -> list[str]:
    return [e.text or "" for e in root.iter(f"{SVG}title")]


def by_class(root: ET.Element, name: str) -> list[ET.Element]:
    return [e for e in root.iter() if name in (e.get("class") or "").split()]


def test_every_kind_has_a_family_and_a_place() -> None:
    assert set(PROCESSORS) == set(FAMILY)


def test_every_kind_has_its_own_pictogram() -> None:
    def all_kinds(x: Stream[int], y: Stream[int]) -> Any:
        a = x.map(lambda v: v + 1).filter(lambda v: v < 9).cumulate(lambda t, v: t + v, start=0)
        b = (
            y.explode(lambda v: [v, v + 1])
            .decimate(3)
            .trim(3)
            .take(3)
            .lag(2)
            .map(lambda p: p[0])
            .task(lambda s, v: (v, [s]), initial=0)
        )
        c = merge(a, b).filter(a < b)
        d, e = (s.at(lambda v: v, idle=timedelta(1)).key_by(lambda v: v) for s in (x, y))
        w = d.tumbling(9, total, early="event")
        return (
            apply(lambda p, q: p + q, c, a).window(3, total).key_by(lambda v: v),
            x.key_by(lambda v: v).forget(after=3),
            *(w, w.late, w.early, d.sliding(9, 3, total), d.session(5, total), d.dedup(within=2)),
            d.task(lambda s, v: (s, [], [v]), 0, on_time=lambda s, t: (s, [t], [])),
            *(join(d, e, within=3), as_of(d, e), lookup(d, e), iterate(d, total)),
        )

    graph = pipeline(all_kinds, x=int, y=int).graph
    assert {node.kind for node in graph.nodes} == set(PROCESSORS)
    root = ET.fromstring(draw(graph, "svg"))
    icons = {}
    for step in by_class(root, "plc-step"):
        node = step.get("data-step")
        icon = next(iter(by_class(step, "plc-icon")), None)
        if node in graph.position and icon is not None:
            icons[graph[node].kind] = ET.tostring(icon)
    assert set(icons) == set(PROCESSORS) - {"source"}
    assert len(set(icons.values())) == len(icons)


def test_it_stands_alone_and_can_be_read_aloud() -> None:
    text = draw(pipeline(lambda x: x.trim(2, id="late"), x=int).graph, "svg")
    root = ET.fromstring(text)
    assert root.get("role") == "img"
    named = {e.get("id"): e.text for e in root if e.get("id")}
    assert [named[i] for i in (root.get("aria-labelledby") or "").split()] == [
        "Pipeline pipeline",
        "From x to out, by 1 step: late is trim 2 of x",
    ]
    assert "<script" not in text and "href" not in text and "url(" not in text and "@import" not in text
    assert "prefers-color-scheme:dark" in text


def test_styles_touch_nothing_else_on_a_page() -> None:
    style = next(ET.fromstring(draw(total.graph, "svg")).iter(f"{SVG}style")).text or ""
    inner = re.sub(
        r"@supports[^{]*\{(.*)\}", r"\1", re.sub(r"@media[^{]*\{(.*?\})\}", r"\1", style, flags=re.S), flags=re.S
    )
    assert all(rule.strip().startswith(".plc") for rule in re.findall(r"([^{}]+)\{", inner))


def test_what_knows_no_variables_finds_colours() -> None:
    """Converters to PNG and PDF draw black what is filled with a variable, and skip what stands in an at-rule."""
    style = next(ET.fromstring(draw(total.graph, "svg")).iter(f"{SVG}style")).text or ""
    plain, newer = style.split("@supports (color:var(--page)){")
    assert "var(" not in plain and "@" not in plain
    assert ".plc .plc-page{fill:#fff}" in plain and ".plc .plc-edge{color:#52606d}" in plain
    # who knows them draws as if the first part were not there: each colour is set again, in the same order
    colours = r"(?:fill|stroke|color):[^;}]+"
    known = dict(re.findall(r"--([a-z]+):(#\w+)", newer.split("@media")[0]))
    again = [re.sub(r"var\(--(\w+)\)", lambda found: known[found[1]], one) for one in re.findall(colours, newer)]
    assert again == re.findall(colours, plain)


def test_labels_and_ids() -> None:
    root = picture(lambda x: x.cumulate(lambda t, v: t + v, start=7, id="sum").decimate(4, id="some"), x=int)
    assert texts(root) == [
        *("x", "int", "cumulate", "t + v", "start = 7", "sum"),
        *("1/4", "decimate", "k = 4", "some", "out", "int"),
    ]


def test_what_has_a_meaning_in_xml_is_escaped() -> None:
    root = picture(lambda x: (x + 'a<b>&"q"\x00').filter(lambda v: v < "]]>"), x=str)
    assert '+ a<b>&"q"\\x00' in texts(root)


def test_forks_are_dots_and_queues_are_drawn_on_the_pipes_that_have_one() -> None:
    root = picture(lambda x: x.decimate(3) + x, x=int)
    assert len(by_class(root, "plc-fork")) == 1
    assert len(by_class(root, "plc-queue")) == 2
    root = picture(lambda x, y: merge(x, y), x=int, y=int)
    assert not by_class(root, "plc-fork") and not by_class(root, "plc-queue")


def test_a_pipe_tells_its_type() -> None:
    root = picture(lambda x: x.map(lambda v: v / 2, id="half"), x=int)
    assert [titles(pipe) for pipe in by_class(root, "plc-pipe")] == [["x: int"], ["half: float"]]


def test_a_window_holds_its_sub_pipeline() -> None:
    root = picture(lambda x: x.window(5, lambda s: s.window(3, total, id="inner"), id="outer"), x=int)
    nested = ["outer", "inner", "sum"]
    for outer, inner in pairwise(nested):
        frame = next(e for e in root.iter() if e.get("data-step") == outer)
        assert any(e.get("data-step") == inner for e in frame.iter())
    assert "window 3 of pipeline" in texts(root)


def test_an_opaque_function_has_a_badge_with_the_reason() -> None:
    root = picture(lambda x: x.map(lambda v: v + int(time.time()), to=int).map(lambda v: v + 1), x=int)
    (badge,) = by_class(root, "plc-badge")
    assert texts(badge) == ["?"]
    assert titles(badge) == ["opaque: a lambda calls time.time(), which may read or change the outside world"]


# Long pipelines on several rows.


def long(x: Stream[int]) -> Stream[int]:
    for k in range(20):
        x = x.trim(k)
    return x


def test_a_long_chain_is_folded_into_rows_of_about_one_length() -> None:
    graph = pipeline(long).graph
    layout, _, columns = parts(graph)
    rows = fold(layout, columns, 1000)
    starts = [0, *rows.turns, len(columns)]
    ends = [rows.columns[i - 1][1] for i in starts[1:]]
    assert len(ends) == 3 and min(ends) > 0.8 * max(ends)
    assert max(ends) <= rows.width < 1300
    assert len({v.y + v.shape.pin for v in layout.vertices}) == 3


def test_a_short_one_is_not() -> None:
    graph = pipeline(lambda x: x.trim(1), x=int).graph
    layout, _, columns = parts(graph)
    rows = fold(layout, columns, 1000)
    assert rows.columns == columns and not rows.turns


def test_rows_break_only_where_one_pipe_connects_them() -> None:
    graph = pipeline(lambda x: long(x) + x, x=int).graph
    layout, _, columns = parts(graph)
    rows = fold(layout, columns, 1000)
    assert not rows.turns  # x runs beside every step; the output alone is no row
    assert rows.width == columns[-1][1]


def test_the_picture_is_as_wide_as_a_page() -> None:
    root = ET.fromstring(draw(pipeline(long).graph, "svg"))
    assert float(root.get("width") or 0) < 1300


# Layers, order and heights.

BOX = Item(10, 10, (5,), 5)
JOIN = Item(10, 20, (5, 15), 10)
END = Item(10, 10, (5,), 5, last=True)


def test_a_chain_is_level() -> None:
    plan = arrange([BOX] * 5, [Wire(a, b, 0) for a, b in pairwise(range(5))], gap=4)
    assert [(v.layer, v.y) for v in plan.vertices] == [(i, 0.0) for i in range(5)]


def test_a_step_stands_after_the_last_of_its_inputs() -> None:
    plan = arrange([BOX, BOX, BOX, JOIN], [Wire(0, 1, 0), Wire(1, 2, 0), Wire(2, 3, 0), Wire(0, 3, 1)], gap=4)
    assert [v.layer for v in plan.vertices[:4]] == [0, 1, 2, 3]


def test_a_stream_has_one_pipe_for_all_its_far_readers() -> None:
    wires = [Wire(0, 1, 0), Wire(1, 2, 0), Wire(2, 3, 0), Wire(0, 3, 1), Wire(0, 4, 0)]
    plan = arrange([BOX, BOX, BOX, JOIN, END], wires, gap=4)
    joints = [v for v in plan.vertices if v.item is None]
    assert [v.layer for v in joints] == [1, 2]
    assert len({v.y for v in joints}) == 1  # and it is straight
    assert len(joints[-1].out) == 2


def test_outputs_stand_in_the_last_layer() -> None:
    plan = arrange([BOX, BOX, END, END], [Wire(0, 1, 0), Wire(0, 2, 0), Wire(1, 3, 0)], gap=4)
    assert [v.layer for v in plan.vertices[:4]] == [0, 1, 2, 2]


def test_inputs_are_ordered_so_that_pipes_do_not_cross() -> None:
    plan = arrange([BOX, BOX, JOIN], [Wire(0, 2, 1), Wire(1, 2, 0)], gap=4)
    assert plan.vertices[1].y < plan.vertices[0].y


def test_the_reader_that_means_cannot_place_is_exchanged() -> None:
    # k feeds m and the upper input of j; m feeds the output c and, by t, the lower input of j.
    k, m, c, t, j = range(5)
    wires = [Wire(k, m, 0), Wire(m, c, 0), Wire(m, t, 0), Wire(k, j, 0), Wire(t, j, 1)]
    plan = arrange([BOX, BOX, END, BOX, JOIN], wires, gap=4)
    assert plan.vertices[j].y < plan.vertices[c].y
    assert _crossings(plan.layers) == 0


def test_nothing_at_all() -> None:
    assert arrange([], [], gap=4).height == 0.0


# Drawings for the terminal, letter by letter.

running_total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)


def as_text(fn: Any, width: int = 100, **types: Any) -> list[str]:
    return draw_text(pipeline(fn, **types).graph, width).splitlines()


def test_a_chain_is_a_line() -> None:
    assert as_text(lambda x: x.filter(lambda v: v < 9).cumulate(lambda t, v: t + v, start=0), x=int) == [
        "x ─▶ filter v < 9 ─▶ cumulate t + v ─▶ out"
    ]


def test_a_source_alone() -> None:
    assert as_text(lambda x: x, x=int) == ["x ─▶ out"]


def test_a_long_chain_goes_on_in_the_next_line() -> None:
    assert as_text(lambda x: x.trim(1).trim(2).trim(3).trim(4), width=34, x=int) == [
        "x ─▶ trim 1 ─▶ trim 2 ─▶ trim 3",
        "  ─▶ trim 4 ─▶ out",
    ]


def test_figure_2a() -> None:
    assert as_text(lambda x: x.decimate(3) + x, x=int) == [
        "   ╭─▶ decimate 3 ──▶┐",
        "x ─┤                 ├ apply + ─▶ out",
        "   ╰────────────────▶┘",
    ]


def test_two_sources_merge() -> None:
    def average(numbers: Any, resets: Any) -> Any:
        return merge(numbers, resets.map(lambda r: -1)).trim(1)

    assert as_text(average, numbers=int, resets=int) == [
        "numbers ────────────▶┐",
        "                     ├ merge ─▶ trim 1 ─▶ out",
        " resets ─▶ map -1 ──▶┘",
    ]


def test_two_outputs_and_an_output_that_is_a_source() -> None:
    assert as_text(lambda x: {"late": x.trim(1), "all": x}, x=int) == [
        "   ╭─▶ trim 1 ─▶ late",
        "x ─┤",
        "   ╰───────────▶ all",
    ]


def test_three_inputs_and_pipes_that_cross() -> None:
    def cross(x: Any, y: Any) -> Any:
        return {"d": x - y, "e": y - x, "f": apply(lambda a, b, c: a + b, y.trim(1), x.trim(2), x)}

    assert as_text(cross, x=int, y=int) == [
        "   ╭────▶┐",
        "   │     ├ apply - ──────────────────▶ d",
        "   │ ╭──▶┘",
        "   │ │",
        "   │ ├──▶┐",
        "y ─│─┤   ├ apply - ──────────────────▶ e",
        "   ├─│──▶┘",
        "   │ │",
        "x ─┤ ╰─▶ trim 1 ─────▶┐",
        "   │                  │",
        "   ├───▶ trim 2 ─────▶┼ apply a + b ─▶ f",
        "   │                  │",
        "   ╰─────────────────▶┘",
    ]


def test_a_window_shows_its_sub_pipeline() -> None:
    assert as_text(lambda x: x.window(5, lambda s: s.window(3, running_total)), x=int) == [
        "x ─▶ window 5 [window 3 [cumulate t + v]] ─▶ out"
    ]


def test_a_window_over_a_fork_is_drawn_below() -> None:
    lines = as_text(lambda x: x.window(4, lambda s: s.trim(1) + s, id="steps"), x=int)
    assert lines == [
        "x ─▶ window 4 sub ─▶ out",
        "",
        "inside window 4 sub (steps):",
        "      ╭─▶ trim 1 ──▶┐",
        "  in ─┤             ├ apply + ─▶ out",
        "      ╰────────────▶┘",
    ]


def test_what_does_not_fit_is_listed() -> None:
    assert as_text(lambda x: x.trim(1, id="late") + x.trim(2, id="later"), width=20, x=int)[:3] == [
        "x             source   :: int",
        "late          trim 1   ◀─ x",
        "later         trim 2   ◀─ x",
    ]


def test_start_values_are_named_where_they_are_not_nothing() -> None:
    assert as_text(lambda x: x.cumulate(lambda t, v: t * v, start=1), x=int) == ["x ─▶ cumulate t * v from 1 ─▶ out"]


def test_wide_and_unprintable_characters() -> None:
    assert as_text(lambda x: (x + "流\n").trim(1), x=str) == ["x ─▶ map + 流\\n ─▶ trim 1 ─▶ out"]
