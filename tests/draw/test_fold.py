"""Long pipelines on several rows."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from pellucid import Stream, pipeline
from pellucid.internal.draw.fold import fold
from pellucid.internal.draw.graph import draw
from pellucid.internal.draw.svg import parts


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
