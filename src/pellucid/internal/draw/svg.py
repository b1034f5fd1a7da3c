"""The graph as a picture: one self-contained SVG, for papers, pages and notebooks.

Every kind of processor has its own pictogram, as in Model Checking of Stream Processing Pipelines (2021), Figure 1; a
window holds the picture of its sub-pipeline; a dot is a fork; slots on a pipe are the queue that the paper leaves out
of its figures. No script, no font and no file from elsewhere; light and dark follow the reader's setting.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from xml.sax.saxutils import escape

from pellucid.internal.draw.fold import FoldedRows, fold
from pellucid.internal.draw.labels import cells, clean, describe, frame_title, shorten, start_text, wrap
from pellucid.internal.draw.layout import Item, Layout, Segment, Wire, arrange
from pellucid.internal.draw.pictograms import frame_glyph, pictogram, queue_glyph
from pellucid.internal.draw.theme import BOX, CHAR, document
from pellucid.internal.draw.theme import number as _n
from pellucid.internal.graph.model import Graph, Node

_GAP_X, _GAP_Y = 26.0, 22.0
_STUB = 14.0  # the pipe before and after a box
_QUEUE = 24.0  # more of it where a queue is drawn
_LINE = 13.0
_FRAME = 12.0  # around a window's sub-pipeline
_BACK = 14.0  # under a loop's body, for the way back
_HEAD = 40.0  # its title
_PAGE = 1180.0  # a longer pipeline goes on in the next row


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
    rows = fold(layout, columns, _PAGE)
    width, height = rows.width + 2 * margin, rows.height + 2 * margin
    mark = f"plc-{graph.digest[:10]}"
    name = clean(graph.name)
    steps = len(graph.nodes) - len(graph.sources)
    says = f"From {_join(graph.nodes[i].id for i in graph.sources)} to {_join(n for n, _ in graph.outputs)}, by "
    says += f"{steps} step{'' if steps == 1 else 's'}: " + "; ".join(
        _sentence(graph, n) for n in graph.nodes if n.inputs
    )
    body = _draw(graph, layout, placed, rows)
    moved = f'<g transform="translate({_n(margin)} {_n(margin)})">\n{body}</g>\n'
    return document(mark, (width, height), f"Pipeline {name}", clean(says), moved)


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
    way = f"M{_n(right)} {_n(height)}H{_n(part.width - 6)}V{_n(part.height - 8)}H6V{_n(port)}"
    return f'<path class="plc-feed" d="{way}"/><path class="plc-tip" d="M2 {_n(port + 7)}l4-7 4 7z"/>'


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
        d = f"M{_n(x)} {_n(vertex.pin)}H{_n(b)}" + "".join(_curve(s, b, rows, corners) for s in vertex.out)
        source = graph.nodes[vertex.source]
        title = escape(clean(f"{source.id}: {source.type}"))
        fork = f'<circle class="plc-fork" cx="{_n(b)}" cy="{_n(vertex.pin)}" r="4"/>' if len(vertex.out) > 1 else ""
        out.append(
            f'<g class="plc-pipe"><title>{title}</title><path class="plc-feel" d="{d}"/><path d="{d}"/>{fork}</g>\n'
        )
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
        bend = f"M{_n(b)} {_n(y0)}h4q8 0 8 8V{_n(back - 8)}q0 8-8 8H8q-8 0-8 8V{_n(y1 - 8)}q0 8 8 8H{_n(a)}"
    else:
        bend = f"M{_n(b)} {_n(y0)}C{_n(middle)} {_n(y0)} {_n(middle)} {_n(y1)} {_n(a)} {_n(y1)}"
    return bend if end.item is None else bend + f"H{_n(corners[end.item][0])}"


def _box(part: SvgPart, x: float, y: float) -> str:
    node = part.node
    family = "edge" if node is None else node.processor.family
    heights = part.item.ports
    arrows = "".join(f"M{_n(x - 7)} {_n(y + h - 4)}l7 4-7 4z" for h in heights)
    queues = "".join(queue_glyph(x - 6, y + h) for h in heights) if node is not None and node.queued else ""
    if node is None or node.kind == "source":
        title = describe(node) if node is not None else f"{part.name}: output"
        inside = f'<text class="plc-end" x="{_n(part.width / 2)}" y="18.5">{escape(part.name)}</text>'
        radius = part.height / 2
    elif part.inner is not None:
        title, radius = describe(node), 10.0
        sub, layout, placed, columns = part.inner
        over = (part.width - columns[-1][1]) / 2
        first, last = placed[sub.sources[0]], placed[-1]
        starts = over + columns[0][1] - first.item.width + first.left
        ends = over + columns[-1][0] + last.left + last.width
        inside = (
            f'<g class="plc-icon" transform="translate(12 10)">{frame_glyph(node)}</g>'
            f'<text class="plc-head" x="84" y="28">{escape(_window_title(node))}</text>'
            f'<path class="plc-rule" d="M0 {_n(_HEAD)}H{_n(part.width)}"/>'
            f'<path class="plc-feed" d="M0 {_n(part.item.ports[0])}H{_n(starts)}'
            f'M{_n(ends)} {_n(part.item.pin)}H{_n(part.width)}"/>'
            f"{_way_back(part, over) if node.kind == 'iterate' else ''}"
            f'<g transform="translate({_n(over)} '
            f'{_n(_HEAD + _FRAME)})">\n{_draw(sub, layout, placed, FoldedRows(columns, 0.0, 0.0))}</g>'
        )
    else:
        title, radius = describe(node), 9.0
        offset = (BOX - 40) / 2
        inside = (
            f'<g class="plc-icon" transform="translate({_n(offset)} '
            f'{_n((part.height - 40) / 2)})">{pictogram(node)}</g>'
        )
    step = f' data-step="{escape(clean(node.id), {chr(34): "&quot;"})}"' if node is not None else ""
    badge = _badge(node, part.width) if node is not None else ""
    return (
        f'<g class="plc-step plc-{family}"{step}><title>{escape(title)}</title>{queues}'
        f'<path class="plc-tip" d="{arrows}"/><g transform="translate({_n(x)} {_n(y)})">'
        f'<rect class="plc-box" width="{_n(part.width)}" height="{_n(part.height)}" rx="{_n(radius)}"/>{inside}{badge}'
        f"{_below(part)}</g></g>\n"
    )


def _badge(node: Node, width: float) -> str:
    fn = next((fn for fn in node.functions if fn.runs is None), None)
    if fn is None:
        return ""
    why = escape(clean(f"opaque: {fn.name} {fn.reason}"))
    return (
        f'<g class="plc-badge"><title>{why}</title><circle cx="{_n(width)}" cy="0" r="8"/>'
        f'<text x="{_n(width)}" y="3.8">?</text></g>'
    )


def _below(part: SvgPart) -> str:
    lines = []
    for i, line in enumerate(part.text):
        if part.node is None or part.node.kind == "source":
            role = "id"
        else:
            role = "id" if i == len(part.text) - 1 else "kind" if i == 0 else "what"
        y = part.height + _LINE * (i + 1)
        lines.append(f'<text class="plc-{role}" x="{_n(part.width / 2)}" y="{_n(y)}">{escape(line)}</text>')
    return "".join(lines)


def _sentence(graph: Graph, node: Node) -> str:
    what = f" {node.fn}" if node.fn is not None else f" {node.k}" if node.k is not None else ""
    return f"{node.id} is {node.kind.replace('_', ' ')}{what} of {_join(graph.nodes[i].id for i in node.inputs)}"


def _join(names: Iterable[str]) -> str:
    words = list(names)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" and {words[-1]}"
