"""The pictograms: each kind of processor recognisable at a glance, as in Model Checking of Stream Processing Pipelines
(2021), Figure 1.

Each is drawn by hand on a square of 40 by 40 as SVG paths, in the current colour; no font is needed for what
they mean.  Numbers (the k of a window) are text, because they are data.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pellucid.errors import known
from pellucid.internal.graph.model import Node

_F = "M15.5 9.5c-3.6-1.6-5.6.6-6.2 4.2L6.6 27c-.7 3.4-2.2 4.6-4.6 3.6M5 16.5h8.5"  # an italic f

_FIXED = {
    # f(x)
    "map": f'<path d="{_F}"/><path d="M20 10c-4.4 6-4.4 15 0 21M33.5 10c4.4 6 4.4 15 0 21"/>'
    '<path d="M23.2 16.6c3.4-.6 3.6 8.4 7.2 7.6M30.6 16.4c-2.8.2-4.4 7.6-7.4 8"/>',
    # a funnel, and what does not get through
    "filter": '<path class="wash" d="M5 8h30L24 20.5V33l-8-4v-8.5z"/><path d="M5 8h30L24 20.5V33l-8-4v-8.5z"/>'
    '<path d="M10 13h20" opacity=".55"/>',
    # a traffic light on the control pipe
    "filter_by": '<rect class="wash" x="12" y="3" width="16" height="34" rx="5"/>'
    '<rect x="12" y="3" width="16" height="34" rx="5"/>'
    '<circle cx="20" cy="10" r="3.6"/><circle cx="20" cy="20" r="3.6"/>'
    '<circle class="full" cx="20" cy="30" r="3.6"/>',
    # a sum, and the arrow that brings the last value back
    "cumulate": '<path d="M28 9.5V5H9l10.5 11L9 27h19v-4.5"/>'
    '<path d="M33 16c4 7 2 18.5-12 18.5-5 0-9-.9-12-2.5" opacity=".6"/>'
    '<path d="M30 18.8l2.6-3.8 4 2.4" opacity=".6"/>',
    # pipes that join
    "merge": '<path d="M3 8c12 0 9 12 20 12M3 32c12 0 9-12 20-12h12"/><path d="M29.5 14l6.5 6-6.5 6"/>',
    # one that falls apart into several
    "explode": '<rect class="wash" x="3" y="13" width="14" height="14" rx="2.5"/>'
    '<rect x="3" y="13" width="14" height="14" rx="2.5"/><path d="M20 17l9-8M21 20h8M20 23l9 8" opacity=".6"/>'
    '<circle class="full" cx="34" cy="7" r="3.2"/><circle class="full" cx="34" cy="20" r="3.2"/>'
    '<circle class="full" cx="34" cy="33" r="3.2"/>',
    # a key
    "key_by": '<circle class="wash" cx="11.5" cy="20" r="7.5"/><circle cx="11.5" cy="20" r="7.5"/>'
    '<circle class="full" cx="9" cy="20" r="1.6"/><path d="M19 20h18M36 20v7M29.5 20v5"/>',
    # a clock
    "at": '<circle class="wash" cx="20" cy="20" r="15"/><circle cx="20" cy="20" r="15"/><path d="M20 10v10l7 5"/>',
    # two events that an interval joins
    "join": '<circle class="full" cx="9" cy="11" r="4"/><circle class="full" cx="27" cy="29" r="4"/>'
    '<path d="M9 15v6h18v4M3 20v4M37 16v4" opacity=".6"/><path d="M3 22h34" stroke-dasharray="2 3" opacity=".6"/>',
    # an event, and the way back to the latest one before it
    "as_of": '<circle cx="8" cy="30" r="4"/><circle class="full" cx="20" cy="30" r="4"/>'
    '<circle class="full" cx="33" cy="9" r="4"/><path d="M33 13c0 8-5 9-11 12M27.5 25.5l-5.5-.2 2.2-5"/>',
    # a table, and a look at it
    "lookup": '<rect class="wash" x="4" y="6" width="22" height="22" rx="2"/>'
    '<rect x="4" y="6" width="22" height="22" rx="2"/><path d="M4 13h22M4 20h22M13 6v22" opacity=".6"/>'
    '<circle class="hole" cx="28" cy="26" r="6"/><path d="M32.4 30.4l5 5"/>',
    # one of several that are alike
    "dedup": '<circle class="full" cx="11" cy="20" r="6"/><circle cx="22" cy="20" r="6" stroke-dasharray="3 3" '
    'opacity=".6"/><circle cx="33" cy="20" r="6" stroke-dasharray="3 3" opacity=".4"/>',
    # a clock that rings
    "timers": '<circle class="wash" cx="20" cy="22" r="12"/><circle cx="20" cy="22" r="12"/><path d="M20 15v7l5 4"/>'
    '<path d="M5 12l6-6M35 12l-6-6" /><path d="M12 32l-3 4M28 32l3 4" opacity=".6"/>',
    # a clock, and an event behind it
    "late": '<circle cx="24" cy="18" r="12"/><path d="M24 10v8l5 4"/><circle class="full" cx="7" cy="31" r="4"/>'
    '<path d="M13 33h10m-3-3l3 3-3 3" opacity=".6"/>',
    # a window that is not full, and what it has so far
    "early": '<rect x="4" y="6" width="26" height="16" rx="2" stroke-dasharray="4 3"/><circle class="full" cx="11" '
    'cy="14" r="4"/><circle class="full" cx="33" cy="31" r="4"/><path d="M11 22v9h15m-3-3l3 3-3 3" opacity=".6"/>',
    # a key that fades
    "forget": '<circle cx="11.5" cy="20" r="7.5" opacity=".5"/><circle class="full" cx="9" cy="20" r="1.6"/>'
    '<path d="M19 20h4M26 20h3M32 20h2" opacity=".5"/><path d="M26 6h10M26 34h10M28 6l6 8M34 34l-6-8"/>',
}


def pictogram(node: Node) -> str:
    """The pictogram of a step, as SVG elements on a square of 40 by 40.

    >>> from pellucid import pipeline
    >>> graph = pipeline(lambda x: x.decimate(3), x=int).graph
    >>> pictogram(graph.nodes[1]).count("<circle")
    3
    """
    return known(_MADE, node.kind, "the pictograms")(node)


def _apply(inputs: int) -> str:
    """f, and a pipe for each of its inputs."""
    shown = min(inputs, 5)
    heights = [20.0] if shown == 1 else [6 + 28 * i / (shown - 1) for i in range(shown)]
    pipes = "".join(f"M1 {_n(y)}C9 {_n(y)} 6 {_n(20 + (y - 20) * 0.45)} 12 {_n(20 + (y - 20) * 0.45)}" for y in heights)
    return (
        f'<path d="{pipes}" opacity=".6"/><circle class="wash" cx="25" cy="20" r="13.5"/>'
        f'<circle cx="25" cy="20" r="13.5"/><g transform="translate(17.8 5.6) scale(.72)"><path d="{_F}" '
        'transform="translate(2 0)"/></g>'
    )


def _decimate(k: int) -> str:
    """Of k events the first is kept."""
    shown = min(k, 5)
    pitch = 34 / shown
    dots = "".join(_dot(3 + pitch * (i + 0.5), 13, min(3.4, pitch * 0.38), full=i == 0) for i in range(shown))
    return dots + f'<text class="number" x="20" y="34" text-anchor="middle">{_number(f"1/{k}")}</text>'


def _trim(k: int) -> str:
    """Scissors cut off the first k events."""
    return (
        '<path d="M22 3v34" stroke-dasharray="3 3.2" opacity=".6"/>'
        '<path d="M26 9L11.2 25.2M18 9l14.8 16.2"/>'
        '<circle class="wash" cx="9" cy="28.5" r="4"/><circle cx="9" cy="28.5" r="4"/>'
        '<circle class="wash" cx="35" cy="28.5" r="4"/><circle cx="35" cy="28.5" r="4"/>'
        f'<text class="number" x="3" y="14" text-anchor="start">{_number(str(k))}</text>'
    )


def _lag(k: int) -> str:
    """Two events side by side, and the way back from the one to the other."""
    return (
        '<circle cx="8" cy="28" r="4.4"/><circle class="full" cx="32" cy="28" r="4.4"/>'
        '<path d="M32 18C30 8 12 8 9 18"/><path d="M4.6 14.4l4 5.4 5.4-4" opacity=".6"/>'
        f'<text class="number" x="20" y="21" text-anchor="middle">{_number(str(k))}</text>'
    )


def _gear(teeth: int = 8) -> str:
    points = []
    for tooth in range(teeth):
        for share, radius in ((-0.30, 12.5), (-0.20, 17.0), (0.20, 17.0), (0.30, 12.5)):
            angle = 2 * math.pi * (tooth + share) / teeth
            points.append(f"{_n(20 + radius * math.cos(angle))} {_n(20 + radius * math.sin(angle))}")
    outline = "M" + "L".join(points) + "z"
    return (
        f'<path class="wash" d="{outline}"/><path d="{outline}"/>'
        '<rect class="hole" x="14" y="14" width="12" height="12" rx="2.5"/><path d="M14 18.2h12"/>'
    )


def window_glyph(k: int, width: float = 64.0) -> str:
    """Events in a row, a bracket over k of them, and where the bracket slides to.

    >>> window_glyph(3).count("<circle")
    6
    """
    shown = min(k, 4)
    total = shown + 3
    pitch = width / total
    first, last = 1.5 * pitch - pitch / 2, (1 + shown) * pitch
    dots = "".join(_dot(pitch * (i + 0.5), 17, min(3.0, pitch * 0.3), full=1 <= i <= shown) for i in range(total))
    middle = (first + last) / 2
    return (
        dots
        + f'<path d="M{_n(first)} 12V8.5h{_n(last - first)}V12M{_n(first)} 22v3.5h{_n(last - first)}V22"/>'
        + f'<path d="M{_n(middle)} 4h{_n(pitch * 1.6)}m-3.5-3l3.5 3-3.5 3" opacity=".6"/>'
    )


def frame_glyph(node: Node) -> str:
    """What stands beside the title of a frame: events in a row, or on the axis of time, and the window over them.

    >>> from pellucid import pipeline
    >>> graph = pipeline(lambda x: x.at(lambda v: v).session(5, lambda w: w), x=int).graph
    >>> frame_glyph(graph.nodes[-1]).count("<circle")
    5
    """
    if node.timing is None:
        return window_glyph(node.k or 1)
    if node.kind == "iterate":  # events on a ring, and the arrow that brings them back
        ring = "".join(_dot(32 + x, 16 + y, 2.6, full=True) for x, y in ((-16, 0), (0, -9), (16, 0)))
        return f'{ring}<path d="M46 20C42 28 22 28 18 20m-1 5l1-5 5 1" opacity=".6"/>'
    # Events where they are on the axis of time, not in a row; windows side by side, overlapping, or around events.
    dots = "".join(_dot(x, 17, 2.6, full=True) for x in (6, 13, 24, 40, 46))
    axis = '<path d="M1 27h61m-4-3l4 3-4 3" opacity=".6"/>'
    edges = {
        "tumbling": ((2, 20), (22, 20), (42, 20)),
        "sliding": ((2, 30), (17, 30), (32, 30)),
        "session": ((3, 24), (37, 12)),
    }
    brackets = "".join(
        f"M{_n(x)} {_n(9 - 3 * (i % 2) * (node.kind == 'sliding'))}v-4h{_n(width)}v4"
        for i, (x, width) in enumerate(known(edges, node.kind, "the pictograms"))
    )
    return f'{dots}{axis}<path d="{brackets}"/>'


_MADE: dict[str, Callable[[Node], str]] = {
    **{kind: lambda node: _FIXED[node.kind] for kind in _FIXED},
    "source": lambda node: "",  # a source is a labelled end of a pipe
    "apply": lambda node: _apply(len(node.inputs)),
    "decimate": lambda node: _decimate(node.k or 1),
    "trim": lambda node: _trim(node.k or 0),
    "lag": lambda node: _lag(node.k or 1),
    "task": lambda node: _gear(),  # code with a state at its heart
    **dict.fromkeys(("window", "tumbling", "sliding", "session", "iterate"), frame_glyph),
}


def queue_glyph(x: float, y: float) -> str:
    """A queue on a pipe that ends at ``x``: slots where events wait, open where they come in."""
    return (
        f'<path class="plc-queue" d="M{_n(x - 22)} {_n(y - 6)}h20v12h-20'
        f'M{_n(x - 8)} {_n(y - 6)}v12M{_n(x - 14)} {_n(y - 6)}v12"/>'
    )


def _dot(x: float, y: float, radius: float, *, full: bool) -> str:
    """An event: full if it is kept, or in the window."""
    mark = ' class="full"' if full else ""
    return f'<circle{mark} cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"/>'


def _number(text: str) -> str:
    return text if len(text) <= 6 else text[:5] + "…"


def _n(value: float) -> str:
    """A number for an attribute, without noise."""
    return f"{value:.1f}".rstrip("0").rstrip(".")
