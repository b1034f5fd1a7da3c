"""Mermaid flowcharts, line by line."""

from __future__ import annotations

from typing import Any

from pellucid import pipeline
from pellucid.internal.draw.mermaid import draw_mermaid
from pellucid.internal.graph.processors import PROCESSORS


def drawn(fn: Any, **types: Any) -> list[str]:
    return [line.strip() for line in draw_mermaid(pipeline(fn, **types).graph).splitlines()]


def test_every_kind_but_a_window_has_its_own_shape() -> None:
    """A window is a frame around others; for the steps of event time Mermaid has no shapes left."""
    shapes = [p.shape for kind, p in PROCESSORS.items() if kind != "window" and not p.timed]
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
