"""Where the parts of a drawing stand: layers from left to right, shared by the text and the picture.

The method is the classic one of Sugiyama, Tagawa and Toda (1981), in four small parts:

1. *layers*: a step stands one layer after the last of its inputs (longest path);
2. *joints*: where a pipe crosses a layer it gets a joint there, one for each stream, so that the readers
   of a stream share its pipe for as long as they can;
3. *order*: inside each layer by the mean place of the neighbours (barycentre), back and forth, keeping
   the order with the fewest crossings;
4. *heights*: as near to the neighbours as the order allows, by isotonic regression (least squares with
   minimal distances), so that long pipes are straight and nothing overlaps.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True)
class Item:
    """Something to place: its size and, from its top, the heights of its inputs and of its output."""

    width: float
    height: float
    ports: tuple[float, ...]
    pin: float
    last: bool = False  # an output: it stands in the last layer


@dataclass(frozen=True)
class Wire:
    """A stream and one of its readers: the ``port``-th input of the item ``target``."""

    source: int
    target: int
    port: int


@dataclass
class Vertex:
    """An item, or a joint of the stream of ``source``, in its layer; ``y`` is its top."""

    item: int | None
    source: int
    layer: int
    shape: Item
    y: float = 0.0
    into: list[Segment] = field(default_factory=list)
    out: list[Segment] = field(default_factory=list)

    @property
    def pin(self) -> float:
        """The height at which its pipe leaves."""
        return self.y + self.shape.pin


@dataclass(frozen=True)
class Segment:
    """A piece of pipe between two neighbouring layers."""

    start: Vertex
    end: Vertex
    port: int

    @property
    def height(self) -> float:
        """The height at which it arrives."""
        return self.end.y + self.end.shape.ports[self.port]


@dataclass
class Layout:
    """The result: vertices by layer from top to bottom; the first ones of ``vertices`` are the items."""

    vertices: list[Vertex]
    layers: list[list[Vertex]]
    height: float

    def columns(self, gaps: Sequence[float]) -> list[tuple[float, float]]:
        """The left and right edge of each layer, with these gaps between them."""
        edges, x = [], 0.0
        for layer, gap in zip(self.layers, [*gaps, 0.0], strict=True):
            width = max((v.shape.width for v in layer), default=0.0)
            edges.append((x, x + width))
            x += width + gap
        return edges


def arrange(
    items: Sequence[Item], wires: Iterable[Wire], *, gap: float, pipe: float = 0.0, grid: bool = False
) -> Layout:
    """Place the items; ``gap`` is the least distance between two of a layer.

    Items must come in the order of the flow.  ``pipe`` is how thick a pipe is where it crosses a layer, and
    ``grid`` asks for whole numbers, as characters need them.

    >>> box = Item(10, 10, (5,), 5)
    >>> plan = arrange([box, box, box], [Wire(0, 1, 0), Wire(0, 2, 0)], gap=4)
    >>> [(v.layer, v.y) for v in plan.vertices]
    [(0, 7.0), (1, 0.0), (1, 14.0)]
    """
    wires = list(wires)
    depth = _depths(items, wires)
    vertices = [Vertex(i, i, depth[i], item) for i, item in enumerate(items)]
    _connect(vertices, wires, Item(0.0, pipe, (pipe // 2,), pipe // 2))
    layers: list[list[Vertex]] = [[] for _ in range(max(depth, default=0) + 1)]
    for vertex in vertices:
        layers[vertex.layer].append(vertex)
    layers = _ordered(layers)
    _set_heights(layers, gap, grid)
    if not grid:
        _straighten(layers, gap)
    top = min((v.y for v in vertices), default=0.0)
    for vertex in vertices:
        vertex.y -= top
    return Layout(vertices, layers, max((v.y + v.shape.height for v in vertices), default=0.0))


def _depths(items: Sequence[Item], wires: list[Wire]) -> list[int]:
    depth = [0] * len(items)
    for wire in sorted(wires, key=lambda w: w.target):
        depth[wire.target] = max(depth[wire.target], depth[wire.source] + 1)
    deepest = max(depth, default=0)
    return [deepest if item.last else d for item, d in zip(items, depth, strict=True)]


def _connect(vertices: list[Vertex], wires: list[Wire], joint: Item) -> None:
    """Join the items by segments, adding one joint for each stream and layer that it crosses."""
    joints: dict[tuple[int, int], Vertex] = {}
    for wire in wires:
        at, goal = vertices[wire.source], vertices[wire.target]
        for layer in range(at.layer + 1, goal.layer):
            nxt = joints.get((wire.source, layer))
            if nxt is None:
                nxt = joints[wire.source, layer] = Vertex(None, wire.source, layer, joint)
                vertices.append(nxt)
                _link(at, nxt, 0)
            at = nxt
        _link(at, goal, wire.port)


def _link(start: Vertex, end: Vertex, port: int) -> None:
    segment = Segment(start, end, port)
    start.out.append(segment)
    end.into.append(segment)


# ---------------------------------------------------------------- the order inside each layer


def _ordered(layers: list[list[Vertex]], sweeps: int = 8) -> list[list[Vertex]]:
    """The order with the fewest crossings that sweeping back and forth comes across."""
    best, fewest = layers, _crossings(layers)
    for start in (layers, [layer[::-1] for layer in layers]):
        current = start
        for sweep in range(sweeps):
            if fewest == 0:
                return best
            current = _exchange(_sweep(current, forward=sweep % 2 == 1))
            count = _crossings(current)
            if count < fewest:
                best, fewest = current, count
    return best


def _sweep(layers: list[list[Vertex]], forward: bool) -> list[list[Vertex]]:
    new = list(layers)
    if forward:
        for i in range(1, len(new)):
            new[i] = _by_barycentre(new[i], new[i - 1], forward)
    else:  # the inputs of the readers say how their sources should stand
        for i in reversed(range(len(new) - 1)):
            new[i] = _by_barycentre(new[i], new[i + 1], forward)
    return new


def _exchange(layers: list[list[Vertex]]) -> list[list[Vertex]]:
    """Swap neighbours while that saves crossings; it finds what means cannot tell apart."""
    new = [list(layer) for layer in layers]
    for i, layer in enumerate(new):
        if len(layer) > 40:
            continue
        around = new[max(0, i - 1) : i + 2]
        fewest = _crossings(around)
        for j in range(len(layer) - 1):
            layer[j], layer[j + 1] = layer[j + 1], layer[j]
            count = _crossings(around)
            if count < fewest:
                fewest = count
            else:
                layer[j], layer[j + 1] = layer[j + 1], layer[j]
    return new


def _by_barycentre(layer: list[Vertex], near: list[Vertex], forward: bool) -> list[Vertex]:
    place = {id(v): float(i) for i, v in enumerate(near)}

    def centre(pair: tuple[int, Vertex]) -> float:
        i, v = pair
        if forward:
            places = [place[id(s.start)] for s in v.into]
        else:
            places = [place[id(s.end)] + _lean(s) for s in v.out]
        return sum(places) / len(places) if places else float(i)

    return [v for _, v in sorted(enumerate(layer), key=centre)]


def _lean(segment: Segment) -> float:
    """How far above or below the middle of an item a segment arrives, less than half a place."""
    return (segment.port + 1) / (len(segment.end.shape.ports) + 1) - 0.5


def _crossings(layers: list[list[Vertex]]) -> int:
    total = 0
    for left, right in pairwise(layers):
        place = {id(v): i for i, v in enumerate(right)}
        ends: list[float] = []
        for vertex in left:
            arrivals = [place[id(s.end)] + _lean(s) for s in vertex.out]
            total += sum(len(ends) - bisect_right(ends, a) for a in arrivals)
            for a in arrivals:
                insort(ends, a)
    return total


# ---------------------------------------------------------------- heights


def _set_heights(layers: list[list[Vertex]], gap: float, grid: bool) -> None:
    for layer in layers:
        y = 0.0
        for vertex in layer:
            vertex.y, y = y, y + vertex.shape.height + gap
    for sweep in range(10):
        for layer in layers if sweep % 2 else reversed(layers):
            _settle(layer, gap, [_wish(v, back=sweep % 2 == 1, ahead=sweep % 2 == 0) for v in layer], False)
    for layer in layers:
        _settle(layer, gap, [_wish(v, back=True, ahead=True) for v in layer], grid)
    for layer in layers if grid else []:  # rounding may have bent a straight pipe: follow the inputs
        _settle(layer, gap, [_wish(v, back=True, ahead=not v.into) for v in layer], grid)


def _wish(vertex: Vertex, *, back: bool, ahead: bool) -> tuple[float, float]:
    """Where a vertex would like to stand, and how much: straight long pipes count most."""
    total = weight = 0.0
    for segment in vertex.into if back else []:
        w = _weight(segment)
        total, weight = total + w * (segment.start.pin - vertex.shape.ports[segment.port]), weight + w
    for segment in vertex.out if ahead else []:
        w = _weight(segment)
        total, weight = total + w * (segment.height - vertex.shape.pin), weight + w
    return (total / weight, weight) if weight else (vertex.y, 0.01)


def _weight(segment: Segment) -> float:
    joints = (segment.start.item is None) + (segment.end.item is None)
    return (1.0, 2.0, 8.0)[joints]


def _settle(layer: list[Vertex], gap: float, wishes: list[tuple[float, float]], grid: bool) -> None:
    """The heights nearest to the wishes that keep the order and the distances (pool adjacent violators)."""
    offsets, y = [], 0.0
    for vertex in layer:
        offsets.append(y)
        y += vertex.shape.height + gap
    pools: list[tuple[float, float, int]] = []  # mean, weight, how many
    for (wish, weight), offset in zip(wishes, offsets, strict=True):
        mean, count = wish - offset, 1
        while pools and pools[-1][0] >= mean:
            m, w, n = pools.pop()
            mean, weight, count = (m * w + mean * weight) / (w + weight), w + weight, count + n
        pools.append((mean, weight, count))
    settled = [mean for mean, _, count in pools for _ in range(count)]
    for vertex, base, offset in zip(layer, settled, offsets, strict=True):
        vertex.y = (float(round(base)) if grid else base) + offset


def _straighten(layers: list[list[Vertex]], gap: float, small: float = 16.0) -> None:
    """Take small bends out of pipes where there is room: a long pipe is one line, a chain is level."""
    room: dict[int, tuple[Vertex | None, Vertex | None]] = {}
    for layer in layers:
        for i, vertex in enumerate(layer):
            room[id(vertex)] = layer[i - 1] if i else None, layer[i + 1] if i + 1 < len(layer) else None

    def free(vertex: Vertex) -> tuple[float, float]:
        above, below = room[id(vertex)]
        low = above.y + above.shape.height + gap if above else float("-inf")
        return low, (below.y - gap - vertex.shape.height if below else float("inf"))

    for layer in layers:
        for vertex in layer:
            run = _run(vertex)
            low = max(free(v)[0] for v in run) if run else 0.0
            high = min(free(v)[1] for v in run) if run else -1.0
            if low <= high:
                mean = min(max(sum(v.y for v in run) / len(run), low), high)
                ends = [run[0].into[0].start.pin, *(s.height for s in run[-1].out)]
                level = [pin - run[0].shape.pin for pin in ends]
                y = next((y for y in level if abs(y - mean) <= small and low <= y <= high), mean)
                for joint in run:
                    joint.y = y
    for layer in layers:
        for vertex in layer:
            if vertex.item is not None and len(vertex.into or vertex.out) == 1:
                segment = (vertex.into or vertex.out)[0]
                bend = segment.height - segment.start.pin
                y = vertex.y + (-bend if vertex.into else bend)
                low, high = free(vertex)
                if abs(bend) <= small and low <= y <= high:
                    vertex.y = y


def _run(first: Vertex) -> list[Vertex]:
    """The joints of one stream from its first one on; empty if this is not the first."""
    if first.item is not None or first.into[0].start.item is None:
        return []
    run = [first]
    while nxt := next((s.end for s in run[-1].out if s.end.item is None), None):
        run.append(nxt)
    return run


# A long pipeline on several rows, as text is: a strip of twenty boxes cannot be read on a page.

_BETWEEN = 36.0  # between two rows: the pipe runs back in the middle of it
_INDENT = 14.0


@dataclass
class FoldedRows:
    """Where the layers stand after folding; ``turns`` has the height at which the pipe into a layer runs back."""

    columns: list[tuple[float, float]]
    width: float
    height: float
    turns: dict[int, float] = field(default_factory=dict)


def fold(layout: Layout, columns: list[tuple[float, float]], limit: float) -> FoldedRows:
    """Break the layers into rows of about this width, only where a single pipe connects them.

    The heights of the layout's vertices are changed to those of their rows.

    >>> from pellucid.internal.draw.layout import Item, Wire, arrange
    >>> box = Item(10, 10, (5,), 5)
    >>> plan = arrange([box] * 4, [Wire(i, i + 1, 0) for i in range(3)], gap=4)
    >>> rows = fold(plan, plan.columns([5] * 3), 30)
    >>> rows.columns, [v.y for v in plan.vertices]
    ([(0.0, 10.0), (15.0, 25.0), (14.0, 24.0), (29.0, 39.0)], [0.0, 0.0, 46.0, 46.0])
    """
    rows = _rows(layout, columns, limit)
    if len(rows) == 1:
        return FoldedRows(columns, columns[-1][1], layout.height)
    folded = FoldedRows([], 0.0, 0.0)
    bottom = 0.0
    for n, (first, stop) in enumerate(rows):
        here = [v for layer in layout.layers[first:stop] for v in layer]
        top = bottom + _BETWEEN if n else 0.0
        shift = top - min(v.y for v in here)
        for vertex in here:
            vertex.y += shift
        if n:
            folded.turns[first] = bottom + _BETWEEN / 2
        bottom = max(v.y + v.shape.height for v in here)
        left = (_INDENT if n else 0.0) - columns[first][0]
        folded.columns += [(a + left, b + left) for a, b in columns[first:stop]]
    folded.width = max(b for _, b in folded.columns) + _INDENT
    folded.height = bottom
    return folded


def _rows(layout: Layout, columns: list[tuple[float, float]], limit: float) -> list[tuple[int, int]]:
    """The first layer of each row, and the one after its last."""
    cuts = [i + 1 for i, layer in enumerate(layout.layers[:-1]) if sum(len(v.out) for v in layer) == 1]
    total = columns[-1][1]
    if total > limit:  # rows of about one length: no last row with only an output on it
        limit = 1.06 * total / max(1, math.ceil(total / limit - 0.2))
    rows, first = [], 0
    while columns[-1][1] - columns[first][0] > limit:
        fits = [c for c in cuts if c > first and columns[c - 1][1] - columns[first][0] <= limit]
        more = [c for c in cuts if c > first and total - columns[c][0] > 0.15 * limit]
        if not fits and not more:
            break
        stop = fits[-1] if fits else more[0]
        rows.append((first, stop))
        first = stop
    return [*rows, (first, len(columns))]
