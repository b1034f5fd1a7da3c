"""One door to all drawings of a graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pellucid.errors import UsageError, known
from pellucid.internal.draw import svg
from pellucid.internal.draw.labels import OPAQUE, cells, clean, describe, frame_title, label, shorten, start_text, wrap
from pellucid.internal.draw.layout import FoldedRows, Item, Layout, Segment, Wire, arrange, fold
from pellucid.internal.draw.svg import BOX, CHAR, PAGE, circle, document, drawn, element, group, moved, path
from pellucid.internal.draw.svg import number as _n
from pellucid.internal.graph.model import Graph, Node
from pellucid.internal.graph.processors import PROCESSORS

# The pictograms: each kind of processor recognisable at a glance, as in Model Checking of Stream Processing Pipelines
# (2021), Figure 1.
#
# Each is drawn by hand on a square of 40 by 40 as SVG paths, in the current colour; no font is needed for what
# they mean.  Numbers (the k of a window) are text, because they are data.

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
    ends = [20 + (y - 20) * 0.45 for y in heights]
    pipes = "".join(drawn("M1", y, "C9", y, "6", end, "12", end) for y, end in zip(heights, ends, strict=True))
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


def _take(k: int) -> str:
    """The first k events, and a bar behind them."""
    shown = min(k, 4)
    dots = "".join(_dot(5 + 7 * i, 15, 2.8, full=True) for i in range(shown))
    rest = "".join(_dot(x, 15, 2.8, full=False) for x in range(12 + 7 * shown, 40, 7))
    bar = f'<path d="M{_n(8.5 + 7 * (shown - 1))} 5v20"/>'
    return f'{dots}{bar}{rest}<text class="number" x="20" y="36" text-anchor="middle">{_number(str(k))}</text>'


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
    middle, wide = (first + last) / 2, last - first
    return (
        dots
        + path("", "M", first, "12V8.5h", wide, "V12M", first, "22v3.5h", wide, "V22")
        + element("path", d=drawn("M", middle, "4h", pitch * 1.6, "m-3.5-3l3.5 3-3.5 3"), opacity=".6")
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
        drawn("M", x, 9 - 3 * (i % 2) * (node.kind == "sliding"), "v-4h", width, "v4")
        for i, (x, width) in enumerate(known(edges, node.kind, "the pictograms"))
    )
    return f'{dots}{axis}<path d="{brackets}"/>'


_MADE: dict[str, Callable[[Node], str]] = {
    **{kind: lambda node: _FIXED[node.kind] for kind in _FIXED},
    "source": lambda node: "",  # a source is a labelled end of a pipe
    "apply": lambda node: _apply(len(node.inputs)),
    "decimate": lambda node: _decimate(node.k or 1),
    "trim": lambda node: _trim(node.k or 0),
    "take": lambda node: _take(node.k or 1),
    "lag": lambda node: _lag(node.k or 1),
    "task": lambda node: _gear(),  # code with a state at its heart
    **dict.fromkeys(("window", "tumbling", "sliding", "session", "iterate"), frame_glyph),
}


def queue_glyph(x: float, y: float) -> str:
    """A queue on a pipe that ends at ``x``: slots where events wait, open where they come in."""
    return path("queue", "M", x - 22, y - 6, "h20v12h-20M", x - 8, y - 6, "v12M", x - 14, y - 6, "v12")


def _dot(x: float, y: float, radius: float, *, full: bool) -> str:
    """An event: full if it is kept, or in the window."""
    mark = ' class="full"' if full else ""
    return f'<circle{mark} cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"/>'


def _number(text: str) -> str:
    return text if len(text) <= 6 else text[:5] + "…"


# The graph as a picture: one self-contained SVG, for papers, pages and notebooks.
#
# Every kind of processor has its own pictogram, as in Model Checking of Stream Processing Pipelines (2021), Figure 1; a
# window holds the picture of its sub-pipeline; a dot is a fork; slots on a pipe are the queue that the paper leaves out
# of its figures. No script, no font and no file from elsewhere; light and dark follow the reader's setting.

_GAP_X, _GAP_Y = 26.0, 22.0
_STUB = 14.0  # the pipe before and after a box
_QUEUE = 24.0  # more of it where a queue is drawn
_LINE = 13.0
_FRAME = 12.0  # around a window's sub-pipeline
_BACK = 14.0  # under a loop's body, for the way back
_HEAD = 40.0  # its title

_STYLE = """
.plc .plc-pipe path{fill:none;stroke:var(--pipe);stroke-width:1.6}
.plc .plc-pipe .plc-feel{stroke:transparent;stroke-width:12;pointer-events:stroke}
.plc .plc-pipe:hover path:not(.plc-feel){stroke-width:2.6}
.plc .plc-fork,.plc .plc-tip{fill:var(--pipe)}
.plc .plc-queue{fill:var(--page);stroke:var(--pipe);stroke-width:1.3}
.plc .plc-frame>g>.plc-box{fill:var(--page);stroke-dasharray:none}
.plc .plc-rule{stroke:currentColor;stroke-width:1;opacity:.45}
.plc .plc-icon{fill:none;stroke:currentColor;stroke-width:2;stroke-linecap:round;stroke-linejoin:round}
.plc .plc-icon .wash{fill:currentColor;stroke:none;opacity:.16}
.plc .plc-icon .full{fill:currentColor}
.plc .plc-icon .hole{fill:var(--box)}
.plc .plc-icon .number{fill:currentColor;stroke:none;font-size:12px;font-weight:700}
.plc .plc-end{font-size:13px;font-weight:700}
.plc .plc-badge circle{fill:var(--page);stroke:var(--badge);stroke-width:1.4}
.plc .plc-badge text{fill:var(--badge);font-weight:700}
"""


@dataclass(frozen=True)
class SvgPart:
    """A box to draw: its size without the text below, and what is in it."""

    node: Node | None  # None: an output
    name: str
    width: float
    height: float
    text: tuple[str, ...]
    item: Item
    left: float  # from the item's left edge to the box
    inner: tuple[Graph, Layout, list[SvgPart], list[tuple[float, float]]] | None = None


def draw_svg(graph: Graph) -> str:
    """The graph as an SVG document.

    >>> from pellucid import pipeline
    >>> picture = draw_svg(pipeline(lambda x: x.trim(2, id="late"), x=int).graph)
    >>> picture[:4], 'data-step="late"' in picture
    ('<svg', True)
    """
    layout, placed, columns = parts(graph)
    margin = 16.0
    rows = fold(layout, columns, PAGE)
    width, height = rows.width + 2 * margin, rows.height + 2 * margin
    name = clean(graph.name)
    steps = len(graph.nodes) - len(graph.sources)
    says = f"From {_join(graph.nodes[i].id for i in graph.sources)} to {_join(n for n, _ in graph.outputs)}, by "
    says += f"{steps} step{'' if steps == 1 else 's'}: " + "; ".join(
        _sentence(graph, n) for n in graph.nodes if n.inputs
    )
    body = moved(margin, margin, _draw(graph, layout, placed, rows))
    return document((width, height), f"Pipeline {name}", clean(says), body, _STYLE, f"plc-{graph.digest[:10]}")


def parts(graph: Graph) -> tuple[Layout, list[SvgPart], list[tuple[float, float]]]:
    """Where everything stands: the layout, the box of each of its items, the columns.

    >>> from pellucid import pipeline
    >>> layout, boxes, columns = parts(pipeline(lambda x: x.trim(2), x=int).graph)
    >>> [box.name for box in boxes], len(columns)
    (['x', 'trim', 'out'], 3)
    """
    placed = [_part(node) for node in graph.nodes]
    wires = [Wire(j, i, at) for i, node in enumerate(graph.nodes) for at, j in enumerate(node.inputs)]
    for name, i in graph.outputs:
        wires.append(Wire(i, len(placed), 0))
        placed.append(_end(name, None, graph.nodes[i].type))
    layout = arrange([p.item for p in placed], wires, gap=_GAP_Y)
    gaps = []
    for layer in layout.layers[:-1]:
        bend = max((abs(s.start.pin - s.height) for v in layer for s in v.out), default=0.0)
        gaps.append(_GAP_X + min(0.22 * bend, 34.0))  # steep curves need room
    return layout, placed, layout.columns(gaps)


def _part(node: Node) -> SvgPart:
    if node.kind == "source":
        return _end(node.id, node, node.type)
    if node.sub is not None:
        return _window(node, node.sub)
    count = len(node.inputs)
    height = max(BOX, 22.0 * count + 10.0)
    text = _caption(node)
    left = max(_STUB + (_QUEUE if node.queued else 0.0), (_text_width(text) - BOX) / 2)
    right = max(_STUB, (_text_width(text) - BOX) / 2)
    ports = tuple(height * (i + 1) / (count + 1) if count > 2 else height * (i + 0.5) / count for i in range(count))
    item = Item(left + BOX + right, height + _LINE * len(text) + 6, ports, height / 2)
    return SvgPart(node, node.kind, BOX, height, text, item, left)


def _end(name: str, node: Node | None, t: object) -> SvgPart:
    """A source or an output: a labelled end of a pipe."""
    name = shorten(clean(name), 24)
    width, height = max(34.0, 8.0 * cells(name) + 22.0), 28.0
    text = tuple(wrap(clean(str(t)), 24, 2))
    over = (_text_width(text) - width) / 2
    left, right = (max(_STUB, over), max(1.0, over)) if node is None else (max(1.0, over), max(_STUB, over))
    ports = () if node is not None else (height / 2,)
    item = Item(left + width + right, height + _LINE * len(text) + 6, ports, height / 2, last=node is None)
    return SvgPart(node, name, width, height, text, item, left)


def _window(node: Node, sub: Graph) -> SvgPart:
    layout, placed, columns = parts(sub)
    text = (shorten(clean(node.id), 40),)
    title = 84.0 + CHAR * cells(_window_title(node)) + _FRAME
    width = max(columns[-1][1] + 2 * _FRAME, title)
    height = _HEAD + layout.height + 2 * _FRAME + (_BACK if node.kind == "iterate" else 0.0)
    pin = _HEAD + _FRAME + layout.vertices[len(sub.nodes) + len(sub.outputs) - 1].pin  # of a loop, what leaves it
    port = _HEAD + _FRAME + layout.vertices[sub.sources[0]].pin
    item = Item(width + 2 * _STUB, height + _LINE + 6, (port,), pin)
    return SvgPart(node, node.kind, width, height, text, item, _STUB, (sub, layout, placed, columns))


def _way_back(part: SvgPart, over: float) -> str:
    """In a loop: from what goes round, under the body, to where events come in."""
    assert part.inner is not None
    sub, layout, placed, columns = part.inner
    again = placed[len(sub.nodes)]
    right = over + columns[-1][0] + again.left + again.width
    height = _HEAD + _FRAME + layout.vertices[len(sub.nodes)].pin
    port = part.item.ports[0]
    way = path("feed", "M", right, height, "H", part.width - 6, "V", part.height - 8, "H6V", port)
    return way + path("tip", "M2", port + 7, "l4-7 4 7z")


def _window_title(node: Node) -> str:
    return frame_title(node, shorten(clean(node.sub.name if node.sub else ""), 28))


def _caption(node: Node) -> tuple[str, ...]:
    """What stands under a box: the kind, its function or number, its start, its id."""
    lines = wrap(clean(str(node.fn)), 22, 2) if node.fn is not None else []
    lines += wrap(clean(f"on time {node.on_time}"), 22, 2) if node.on_time is not None else []
    if node.k is not None:
        lines.append(f"k = {node.k}")
    if node.timing is not None and node.timing.words():
        lines += wrap(node.timing.words(), 22, 2)
    if node.starts and (node.state is not None or node.start is not None):
        lines.append(f"start = {start_text(node.start, 14)}")
    return (node.kind.replace("_", " "), *lines, shorten(clean(node.id), 28))


def _text_width(text: tuple[str, ...]) -> float:
    return CHAR * max(map(cells, text), default=0)


# ---------------------------------------------------------------- drawing


def _draw(graph: Graph, layout: Layout, placed: list[SvgPart], rows: FoldedRows) -> str:
    columns = rows.columns

    def corner(i: int) -> tuple[float, float]:
        vertex, part = layout.vertices[i], placed[i]
        a, b = columns[vertex.layer]
        if part.node is None:
            return a + part.left, vertex.y  # outputs stand in line at their left ends
        if part.node.kind == "source":
            return b - part.item.width + part.left, vertex.y
        return (a + b - part.item.width) / 2 + part.left, vertex.y

    corners = [corner(i) for i in range(len(placed))]
    out = []
    for vertex in layout.vertices:
        if not vertex.out:
            continue
        a, b = columns[vertex.layer]
        x = a if vertex.item is None else corners[vertex.item][0] + placed[vertex.item].width
        d = drawn("M", x, vertex.pin, "H", b) + "".join(_curve(s, b, rows, corners) for s in vertex.out)
        source = graph.nodes[vertex.source]
        fork = circle("fork", b, vertex.pin, 4) if len(vertex.out) > 1 else ""
        out.append(group("pipe", path("feel", d), path("", d), fork, title=f"{source.id}: {source.type}"))
    for i, part in enumerate(placed):
        out.append(_box(part, *corners[i]))
    return "".join(out)


def _curve(segment: Segment, b: float, rows: FoldedRows, corners: list[tuple[float, float]]) -> str:
    """From the edge of one layer to the next, and on to the box."""
    y0, y1, end = segment.start.pin, segment.height, segment.end
    a = rows.columns[end.layer][0]
    middle = (a + b) / 2
    if end.layer in rows.turns:  # on to the next row: out, down, back and in
        back = rows.turns[end.layer]
        bend = drawn("M", b, y0, "h4q8 0 8 8V", back - 8, "q0 8-8 8H8q-8 0-8 8V", y1 - 8, "q0 8 8 8H", a)
    else:
        bend = drawn("M", b, y0, "C", middle, y0, middle, y1, a, y1)
    return bend if end.item is None else bend + drawn("H", corners[end.item][0])


def _box(part: SvgPart, x: float, y: float) -> str:
    node = part.node
    family = "edge" if node is None else node.processor.family
    heights = part.item.ports
    title = describe(node) if node is not None else f"{part.name}: output"
    arrows = "".join(drawn("M", x - 7, y + h - 4, "l7 4-7 4z") for h in heights)
    queues = "".join(queue_glyph(x - 6, y + h) for h in heights) if node is not None and node.queued else ""
    if node is None or node.kind == "source":
        inside, radius = svg.text("end", part.width / 2, 18.5, part.name), part.height / 2
    elif part.inner is not None:
        inside, radius = _frame(part, node, part.inner), 10.0
    else:
        inside, radius = _icon((BOX - 40) / 2, (part.height - 40) / 2, pictogram(node)), 9.0
    return group(
        f"step {family}",
        queues,
        path("tip", arrows),
        moved(
            x,
            y,
            element("rect", "box", width=part.width, height=part.height, rx=radius),
            inside,
            _badge(node, part.width) if node is not None else "",
            _below(part),
        ),
        title=title,
        data_step=clean(node.id) if node is not None else None,
    )


def _icon(x: float, y: float, glyph: str) -> str:
    return element("g", "icon", glyph, transform=f"translate({_n(x)} {_n(y)})")


def _frame(part: SvgPart, node: Node, inner: tuple[Graph, Layout, list[SvgPart], list[tuple[float, float]]]) -> str:
    """A sub-pipeline in its frame, with the way of events through it."""
    sub, layout, placed, columns = inner
    over = (part.width - columns[-1][1]) / 2
    first, last = placed[sub.sources[0]], placed[-1]
    starts = over + columns[0][1] - first.item.width + first.left
    ends = over + columns[-1][0] + last.left + last.width
    return "".join([
        _icon(12, 10, frame_glyph(node)),
        svg.text("head", 84, 28, _window_title(node)),
        path("rule", "M0", _HEAD, "H", part.width),
        path("feed", "M0", part.item.ports[0], "H", starts, "M", ends, part.item.pin, "H", part.width),
        _way_back(part, over) if node.kind == "iterate" else "",
        moved(over, _HEAD + _FRAME, _draw(sub, layout, placed, FoldedRows(columns, 0.0, 0.0))),
    ])  # fmt: skip


def _badge(node: Node, width: float) -> str:
    fn = next((fn for fn in node.functions if fn.runs is None), None)
    if fn is None:
        return ""
    return group(
        "badge", circle("", width, 0, 8), svg.text("", width, 3.8, "?"), title=f"opaque: {fn.name} {fn.reason}"
    )


def _below(part: SvgPart) -> str:
    """The words under a box."""
    end = part.node is None or part.node.kind == "source"
    roles = ["id"] * len(part.text) if end else ["kind", *["what"] * (len(part.text) - 2), "id"][-len(part.text) :]
    return "".join(
        svg.text(role, part.width / 2, part.height + _LINE * (i + 1), line)
        for i, (role, line) in enumerate(zip(roles, part.text, strict=True))
    )


def _sentence(graph: Graph, node: Node) -> str:
    what = f" {node.fn}" if node.fn is not None else f" {node.k}" if node.k is not None else ""
    return f"{node.id} is {node.kind.replace('_', ' ')}{what} of {_join(graph.nodes[i].id for i in node.inputs)}"


def _join(names: Iterable[str]) -> str:
    words = list(names)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" and {words[-1]}"


# The graph as a Mermaid flowchart: for Markdown pages, where a picture is made by the page that shows it.

# Inside quotes Mermaid knows HTML's names and numbers, written with # instead of &.
_NAMES = {'"': "quot", "#": "35", "&": "amp", "<": "lt", ">": "gt", "`": "96", "\\": "92"}
_ESCAPES = {ord(ch): f"#{name};" for ch, name in _NAMES.items()}


def draw_mermaid(graph: Graph) -> str:
    r"""The graph as a Mermaid flowchart; the label of a pipe is the type of its events.

    >>> from pellucid import pipeline
    >>> print(draw_mermaid(pipeline(lambda x: x.trim(2, id="late"), x=int).graph))
    flowchart LR
      n0(["x"])
      n1[/"trim 2<br/><small>late</small>"/]
      out0(["out"])
      n0 -->|"int"| n1
      n1 -->|"int"| out0
    """
    return "\n".join(["flowchart LR", *(f"  {line}" for line in _lines(graph, ""))])


def _lines(graph: Graph, prefix: str) -> Iterator[str]:
    for i, node in enumerate(graph.nodes):
        if node.sub is not None:
            yield from _window_mermaid(node, node.sub, f"{prefix}n{i}")
        else:
            yield _shape(f"{prefix}n{i}", node.processor.shape, _caption_mermaid(node))
    for n, (name, _) in enumerate(graph.outputs):
        yield _shape(f"{prefix}out{n}", PROCESSORS["source"].shape, _escape(name))
    for i, node in enumerate(graph.nodes):
        for source in node.inputs:
            yield _pipe(graph, prefix, source, _entry(graph, i, prefix), node.queued)
    for n, (_, source) in enumerate(graph.outputs):
        yield _pipe(graph, prefix, source, f"{prefix}out{n}", False)


def _window_mermaid(node: Node, sub: Graph, name: str) -> Iterator[str]:
    """A subgraph; pipes go to its source and come from its output, as Mermaid lays out both sides then."""
    title = f"{frame_title(node, sub.name)} · {node.id}"  # one line: Mermaid leaves no room for two
    yield f'subgraph {name}["{_escape(title)}"]'
    yield "  direction LR"
    yield from (f"  {line}" for line in _lines(sub, f"{name}_"))
    if node.kind == "iterate":  # the way back
        yield f"  {name}_out0 -.-> {_entry(sub, sub.sources[0], f'{name}_')}"
    yield "end"


def _caption_mermaid(node: Node) -> str:
    opaque = OPAQUE if any(fn.runs is None for fn in node.functions) else ""
    words = _escape(label(node)) + opaque
    return words if node.kind == "source" else f"{words}<br/><small>{_escape(node.id)}</small>"


def _shape(name: str, shape: tuple[str, str], caption: str) -> str:
    opening, closing = shape
    return f'{name}{opening}"{caption}"{closing}'


def _pipe(graph: Graph, prefix: str, source: int, target: str, queued: bool) -> str:
    t = _escape(str(graph.nodes[source].type))
    return f'{_exit(graph, source, prefix)} -->|"{t}{" · queue" if queued else ""}"| {target}'


def _entry(graph: Graph, i: int, prefix: str) -> str:
    """Where a pipe into a step ends: at a window, the source of its sub-pipeline."""
    sub = graph.nodes[i].sub
    return f"{prefix}n{i}" if sub is None else _entry(sub, sub.sources[0], f"{prefix}n{i}_")


def _exit(graph: Graph, i: int, prefix: str) -> str:
    sub = graph.nodes[i].sub  # of a loop, the last output is what leaves it
    return f"{prefix}n{i}" if sub is None else f"{prefix}n{i}_out{len(sub.outputs) - 1}"


def _escape(text: str) -> str:
    return clean(text).translate(_ESCAPES)


#: The styles of drawing, and what each is for.
STYLES = {
    "text": "box-drawing characters, for a terminal",
    "mermaid": "a Mermaid flowchart, for Markdown",
    "svg": "a picture with a pictogram for each kind of processor, for papers and pages",
}


def draw(graph: Graph, style: str = "text") -> str:
    """The graph in one of the `STYLES`.

    >>> from pellucid import pipeline
    >>> small = pipeline(lambda x: x.filter(lambda v: v < 9), x=int).graph
    >>> print(draw(small))
    x ─▶ filter v < 9 ─▶ out
    >>> draw(small, "svg").startswith("<svg")
    True
    >>> draw(small, "png")
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: no style of drawing is called 'png': use text, mermaid or svg
    """
    # Each style is loaded when it is first asked for: a run in production draws nothing.
    if style == "text":
        from pellucid.internal.draw.text import draw_text, why_opaque

        return "\n\n".join(part for part in (draw_text(graph), why_opaque(graph)) if part)
    if style == "mermaid":
        return draw_mermaid(graph)
    if style == "svg":
        return draw_svg(graph)
    *most, last = STYLES
    raise UsageError(f"no style of drawing is called {style!r}: use {', '.join(most)} or {last}")
