"""The picture: its structure, what can be read from it, and what must never get into it."""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET
from datetime import timedelta
from itertools import pairwise
from typing import Any

from pellucid import Stream, apply, as_of, iterate, join, lookup, merge, pipeline
from pellucid.internal.draw.graph import draw
from pellucid.internal.draw.theme import FAMILY
from pellucid.internal.graph.processors import PROCESSORS

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
    assert ".plc .plc-page{fill:#fff}" in plain and ".plc .plc-time{color:#0f766e}" in plain
    # who knows them draws as if the first part were not there: each colour is said again, in the same order
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
