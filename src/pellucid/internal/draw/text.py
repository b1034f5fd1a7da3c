"""The graph in a terminal: a line for a chain, an aligned drawing for forks and joins, a list when it is too big.

A chain that is too long for a line continues in the next.  A window shows its sub-pipeline in brackets if that is
a short chain, and below otherwise.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

from pellucid.internal.draw.labels import OPAQUE, cells, clean, label
from pellucid.internal.draw.layout import Item, Layout, Segment, Wire, arrange
from pellucid.internal.graph.model import Graph, Node

_ARROW = " ─▶ "
_INLINE = 40  # a sub-pipeline longer than this is drawn below


def draw_text(graph: Graph, width: int = 100) -> str:
    """The graph with box-drawing characters, in at most so many columns where its labels allow it.

    >>> from pellucid import pipeline
    >>> total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    >>> print(draw_text(pipeline(lambda x: x.window(3, total).filter(lambda v: v < 9), x=int).graph))
    x ─▶ window 3 [cumulate t + v] ─▶ filter v < 9 ─▶ out
    >>> print(draw_text(pipeline(lambda x: x.decimate(3) + x, x=int).graph))
       ╭─▶ decimate 3 ──▶┐
    x ─┤                 ├ apply + ─▶ out
       ╰────────────────▶┘
    """
    below: list[Node] = []
    labels = [_label(node, below) for node in graph.nodes]
    order = _chain(graph)
    if order is not None:
        drawing = _line([*(labels[i] for i in order), clean(graph.outputs[0][0])], width)
    else:
        drawing = _grid(graph, labels, width) or _list(graph, labels)
    blocks = [drawing]
    for node in below:
        assert node.sub is not None
        inside = draw_text(node.sub, width - 2).replace("\n", "\n  ")
        blocks.append(f"inside {label(node)} ({clean(node.id)}):\n  {inside}")
    return "\n\n".join(blocks)


def why_opaque(graph: Graph) -> str:
    """Below a drawing: which of its steps, marked ``(?)``, cannot be compiled, and why; empty if all can.

    >>> from pellucid import pipeline
    >>> print(why_opaque(pipeline(lambda x: x.map(lambda s: s.encode().hex(), to=str, id="text"), x=str).graph))
    (?) in plain Python, event by event, which is slower:
      step 'text' (map λ, ...): a lambda uses the method str.encode
    """
    lines = [clean(f"{node.describe()}: {fn.name} {fn.reason}") for node, fn in graph.plain()]
    return "\n  ".join(["(?) in plain Python, event by event, which is slower:", *lines]) if lines else ""


def _label(node: Node, below: list[Node]) -> str:
    """The words for a step; a window too big for a line is remembered, to be drawn below."""
    if node.sub is None:
        return label(node) + OPAQUE * any(fn.runs is None for fn in node.functions)
    order = _chain(node.sub)
    if order is not None:
        inner: list[Node] = []
        text = " ─▶ ".join(_label(node.sub.nodes[i], inner) for i in order[1:])
        if not inner and cells(text) <= _INLINE:
            return label(node, inner=f"[{text}]")
    below.append(node)
    return label(node)


# ---------------------------------------------------------------- a chain


def _chain(graph: Graph) -> list[int] | None:
    """The steps in order if each reads only the one before it."""
    if len(graph.outputs) != 1 or any(len(n.inputs) > 1 for n in graph.nodes) or len(graph.sources) != 1:
        return None
    alone = all(node.inputs in ((), (i - 1,)) for i, node in enumerate(graph.nodes))
    return list(range(len(graph.nodes))) if alone and graph.outputs[0][1] == len(graph.nodes) - 1 else None


def _line(words: list[str], width: int) -> str:
    lines = [words[0]]
    for word in words[1:]:
        if cells(lines[-1]) + cells(_ARROW) + cells(word) > width:
            lines.append(f"  ─▶ {word}")
        else:
            lines[-1] += _ARROW + word
    return "\n".join(lines)


# ---------------------------------------------------------------- an aligned drawing


@dataclass
class _Net:
    """What one stream does between two layers: from a row on the left to rows on the right."""

    row: int
    rows: list[int] = field(default_factory=list)
    track: int = 0

    @property
    def bent(self) -> bool:
        return self.rows != [self.row]

    def meets(self, other: _Net) -> bool:
        mine, others = [self.row, *self.rows], [other.row, *other.rows]
        return min(mine) <= max(others) and min(others) <= max(mine)


def _grid(graph: Graph, labels: list[str], width: int) -> str | None:
    """Layers from left to right, or None if that would not fit or not be clear."""
    words = [*labels, *(clean(name) for name, _ in graph.outputs)]
    items = [_item(len(node.inputs), text) for node, text in zip(graph.nodes, labels, strict=True)]
    items += [Item(cells(name), 1, (0,), 0, last=True) for name in words[len(items) :]]
    wires = [Wire(j, i, at) for i, node in enumerate(graph.nodes) for at, j in enumerate(node.inputs)]
    wires += [Wire(j, len(graph.nodes) + n, 0) for n, (_, j) in enumerate(graph.outputs)]
    layout = arrange(items, wires, gap=1, pipe=1, grid=True)
    nets = [_route(layout, i) for i in range(len(layout.layers) - 1)]
    if any(n is None for n in nets):
        return None
    routed = [n for n in nets if n is not None]
    gaps = [4 + 2 * max((net.track + 1 for net in gap.values() if net.bent), default=0) for gap in routed]
    columns = [(int(a), int(b)) for a, b in layout.columns(gaps)]
    if columns[-1][1] > width:
        return None
    canvas = Canvas()
    for i, gap in enumerate(routed):
        _draw_gap(canvas, layout, gap, i, columns)
    for vertex in layout.vertices:
        if vertex.item is not None:
            many = len(items[vertex.item].ports) > 1
            a, b = columns[vertex.layer]
            x = b - int(vertex.shape.width) if not vertex.into else a
            if many:
                canvas.bracket(x, int(vertex.y), int(vertex.shape.height), [int(p) for p in vertex.shape.ports])
            canvas.write(x + 2 * many, int(vertex.pin), words[vertex.item])
    return str(canvas)


def _item(inputs: int, text: str) -> Item:
    if inputs < 2:
        return Item(cells(text), 1, (0,) * inputs, 0)
    return Item(cells(text) + 2, 2 * inputs - 1, tuple(range(0, 2 * inputs, 2)), inputs - 1)


def _route(layout: Layout, i: int) -> dict[int, _Net] | None:
    """A track for each stream that bends between layer i and the next; None if two block each other."""
    nets: dict[int, _Net] = {}
    for vertex in layout.layers[i]:
        if vertex.out:
            nets[id(vertex)] = _Net(int(vertex.pin), [_row(s) for s in vertex.out])
    waiting = [n for n in nets.values() if n.bent]
    done: list[_Net] = []
    while waiting:
        # A stream that leaves on the row on which another arrives must turn off before it.
        ready = [n for n in waiting if not any(m is not n and m.row in n.rows for m in waiting)]
        if not ready:
            return None
        for net in ready:
            after = [m.track for m in done if m.meets(net)]
            net.track = max(after, default=-1) + 1
            waiting.remove(net)
            done.append(net)
    return nets


def _row(segment: Segment) -> int:
    return int(segment.height)


def _draw_gap(canvas: Canvas, layout: Layout, nets: dict[int, _Net], i: int, columns: list[tuple[int, int]]) -> None:
    right, nxt = columns[i][1], columns[i + 1][0]
    for vertex in layout.layers[i]:
        if id(vertex) not in nets:
            continue
        net = nets[id(vertex)]
        a, b = columns[i]
        begin = a if vertex.item is None else (b if not vertex.into else a + int(vertex.shape.width)) + 1
        turn = right + 2 + 2 * net.track if net.bent else right + 1
        canvas.across(net.row, begin, turn, id(vertex))
        if net.bent:
            canvas.down(turn, [net.row, *net.rows], id(vertex))
        for segment in vertex.out:
            row, item = _row(segment), segment.end.item
            if item is None:
                canvas.across(row, turn, nxt, id(vertex))
            else:
                many = len(segment.end.shape.ports) > 1
                tip = nxt - (1 if many else 2)
                canvas.across(row, turn, tip, id(vertex))
                canvas.write(tip, row, "▶")


# ---------------------------------------------------------------- a list


def _list(graph: Graph, labels: list[str]) -> str:
    """One step on a line, with what it reads: always clear, however big the graph."""
    ids = [clean(node.id) for node in graph.nodes]
    rows = [
        (ids[i], "source" if node.kind == "source" else text, ", ".join(ids[j] for j in node.inputs) or str(node.type))
        for i, (node, text) in enumerate(zip(graph.nodes, labels, strict=True))
    ]
    first, second = (max(cells(row[at]) for row in rows) for at in (0, 1))
    second = min(second, 44)
    lines = [
        f"{_pad(name, first)}  {_pad(what, second)}  {'◀─' if graph.nodes[i].inputs else '::'} {reads}"
        for i, (name, what, reads) in enumerate(rows)
    ]
    lines += [f"{_pad(clean(name), first)}  {_pad('output', second)}  ◀─ {ids[i]}" for name, i in graph.outputs]
    return "\n".join(lines)


def _pad(text: str, width: int) -> str:
    return text + " " * max(0, width - cells(text))


# ---------------------------------------------------------------- the canvas
# A sheet of characters on which pipes meet, turn, fork and cross as box-drawing characters.

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_GLYPHS = {
    _LEFT: "─",
    _RIGHT: "─",
    _LEFT | _RIGHT: "─",
    _UP: "│",
    _DOWN: "│",
    _UP | _DOWN: "│",
    _DOWN | _RIGHT: "╭",
    _DOWN | _LEFT: "╮",
    _UP | _RIGHT: "╰",
    _UP | _LEFT: "╯",
    _UP | _DOWN | _RIGHT: "├",
    _UP | _DOWN | _LEFT: "┤",
    _DOWN | _LEFT | _RIGHT: "┬",
    _UP | _LEFT | _RIGHT: "┴",
    _UP | _DOWN | _LEFT | _RIGHT: "┼",
}


class Canvas:
    """Draw pipes by their owner: those of one owner join where they meet, others pass over each other.

    >>> sheet = Canvas()
    >>> sheet.across(0, 0, 4, owner=1)
    >>> sheet.down(4, [0, 1], owner=1)
    >>> sheet.across(1, 4, 6, owner=1)
    >>> print(sheet)
    ────╮
        ╰──
    """

    def __init__(self) -> None:
        self._arms: dict[tuple[int, int], dict[int, int]] = {}
        self._text: dict[tuple[int, int], str] = {}

    def across(self, row: int, start: int, stop: int, owner: int) -> None:
        """A level pipe between two columns, both included."""
        for x in range(start, stop + 1):
            arms = (_LEFT if x > start else 0) | (_RIGHT if x < stop else 0)
            self._add(x, row, arms, owner)

    def down(self, column: int, rows: Iterable[int], owner: int) -> None:
        """An upright pipe through all of these rows."""
        rows = list(rows)
        for y in range(min(rows), max(rows) + 1):
            arms = (_UP if y > min(rows) else 0) | (_DOWN if y < max(rows) else 0)
            self._add(column, y, arms, owner)

    def _add(self, x: int, y: int, arms: int, owner: int) -> None:
        if arms:
            cell = self._arms.setdefault((y, x), {})
            cell[owner] = cell.get(owner, 0) | arms

    def write(self, x: int, y: int, text: str) -> None:
        """Text over whatever is there."""
        for ch in text:
            if unicodedata.combining(ch):
                self._text[y, x - 1] = self._text.get((y, x - 1), "") + ch
                continue
            self._text[y, x] = ch
            for more in range(1, cells(ch)):
                self._text[y, x + more] = ""  # the second half of a wide character
            x += max(1, cells(ch))

    def bracket(self, x: int, top: int, height: int, ports: list[int]) -> None:
        """What joins the inputs of a step: pipes come in from the left at its ports, the step stands at its middle."""
        for y in range(height):
            glyph = "┐" if y == 0 else "┘" if y == height - 1 else "┤" if y in ports else "│"
            if y == height // 2:
                glyph = "┼" if y in ports else "├"
            self.write(x, top + y, glyph)

    def __str__(self) -> str:
        spots = [*self._arms, *self._text]
        lines = []
        for y in range(max((y for y, _ in spots), default=-1) + 1):
            end = max((x for row, x in spots if row == y), default=-1)
            lines.append("".join(self._glyph(y, x) for x in range(end + 1)).rstrip())
        return "\n".join(lines)

    def _glyph(self, y: int, x: int) -> str:
        if (y, x) in self._text:
            return self._text[y, x]
        owners = list(self._arms.get((y, x), {}).values())
        if not owners:
            return " "
        if len(owners) == 1:
            return _GLYPHS[owners[0]]
        # Two streams cross: the upright one passes over, so that it cannot be taken for a fork.
        return next((_GLYPHS[arms] for arms in owners if arms & (_UP | _DOWN)), "─")
