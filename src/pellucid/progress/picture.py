"""The frontier as a picture: every location of a graph with the least times that may still come there."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pellucid.internal.draw.labels import cells, clean, shorten
from pellucid.internal.draw.layout import Item, Vertex, Wire, arrange
from pellucid.internal.draw.svg import document, group, moved, path, rect, text
from pellucid.progress.times import Time

_CHAR, _TALL, _MARGIN = 7.0, 40.0, 18.0
_MORE = """
.plc .plc-way{fill:none;stroke:var(--badge);stroke-width:2.6}
.plc .plc-held .plc-box{stroke:var(--badge);stroke-width:2.6}
.plc .plc-here .plc-box{stroke-dasharray:5 3;stroke-width:2.6}
.plc .plc-note{fill:var(--badge);font-weight:700}
"""


def frontier_svg(
    frontier: Mapping[str, Collection[Time]],
    ties: Collection[tuple[str, str]],
    nodes: Collection[str],
    *,
    title: str = "",
    here: str = "",
    held: Mapping[str, str] | None = None,
    way: Collection[tuple[str, str]] = (),
) -> str:
    """Locations from left to right, ``ties`` between them, each with its frontier; what holds ``here`` back, and its
    way, in red.

    >>> picture = frontier_svg({"i": [1], "a": [1], "o": []}, [("i", "a"), ("a", "o")], ["a"], here="a")
    >>> picture[:4], 'data-location="a"' in picture
    ('<svg', True)
    """
    held = held or {}
    after = {x: [b for a, b in ties if a == x] for x in frontier}
    order = _flow(after)
    place = {x: i for i, x in enumerate(order)}
    times = {x: ", ".join(str(t) for t in frontier.get(x, ())) or "complete" for x in order}
    items = []
    for x in order:
        texts = [shorten(clean(x), 24), shorten(times[x], 30), *([f"pending {held[x]}"] if held.get(x) else [])]
        width = 26 + _CHAR * max(map(cells, texts))
        items.append(Item(width, _TALL + 14, (_TALL / 2,), _TALL / 2))
    layout = arrange(items, [Wire(place[x], place[y], 0) for x, y in ties if place[x] < place[y]], gap=16.0)
    columns = layout.columns([30.0] * (len(layout.layers) - 1))
    at = {order[v.item]: (columns[v.layer][0], v) for v in layout.vertices if v.item is not None}
    back = [(x, y) for x, y in ties if place[x] >= place[y]]
    parts = [_wire(at, x, y, (x, y) in way) for x, y in ties if place[x] < place[y]]
    parts += [_around(at, x, y, layout.height + 14 + 12 * i, (x, y) in way) for i, (x, y) in enumerate(back)]
    parts += [_box(x in nodes, x, *at[x], times[x], here == x, held.get(x)) for x in order]
    width = max(columns[-1][1] + (24 if back else 0) if columns else 0.0, 7.0 * cells(title)) + 2 * _MARGIN
    height = layout.height + 14 + 12 * len(back) + 2 * _MARGIN + 24
    body = text("head", _MARGIN, _MARGIN + 6, title) + "\n" + moved(_MARGIN, _MARGIN + 24, *parts)
    return document(
        (width, height), title or "frontier", "; ".join(f"{x}: {times[x]}" for x in order), body, _MORE, "plc-frontier"
    )


def _flow(after: Mapping[str, list[str]]) -> list[str]:
    """All locations in an order in which only the last edges of cycles go back: depth first, the last to be left
    first."""
    done: list[str] = []
    known: set[str] = set()
    entered = {y for ys in after.values() for y in ys}
    for root in sorted(after, key=lambda x: x in entered):  # what nothing leads to comes first
        stack = [(root, iter(after[root]))] if root not in known else []
        known.add(root)
        while stack:
            x, rest = stack[-1]
            y = next((y for y in rest if y not in known), None)
            if y is None:
                done.append(x)
                stack.pop()
            else:
                known.add(y)
                stack.append((y, iter(after[y])))
    return done[::-1]


Placed = Mapping[str, tuple[float, Vertex]]


def _ends(at: Placed, x: str, y: str) -> tuple[float, float, float, float]:
    (left, a), (right, b) = at[x], at[y]
    return left + a.shape.width, a.y + _TALL / 2, right, b.y + _TALL / 2


def _wire(at: Placed, x: str, y: str, marked: bool) -> str:
    x1, y1, x2, y2 = _ends(at, x, y)
    middle = (x1 + x2) / 2
    return _path(marked, "M", x1, y1, "C", middle, y1, middle, y2, x2, y2)


def _around(at: Placed, x: str, y: str, below: float, marked: bool) -> str:
    """An edge of a cycle that leads back, below everything else."""
    x1, y1, x2, y2 = _ends(at, x, y)
    out, back = ("M", x1, y1, "C", x1 + 24, y1, x1 + 24, below, x1, below), ("C", x2 - 24, below, x2 - 24, y2, x2, y2)
    return _path(marked, *out, "L", x2, below, *back)


def _path(marked: bool, *pieces: float | str) -> str:
    return path("way" if marked else "feed", *pieces) + "\n"


def _box(node: bool, x: str, left: float, v: Vertex, times: str, here: bool, held: str | None) -> str:
    middle = left + v.shape.width / 2
    kind = ("state" if node else "edge") + (" here" if here else "") + (" held" if held is not None else "")
    return group(
        kind,
        rect("box", left, v.y, v.shape.width, _TALL, 4 if node else 19),
        text("kind", middle, v.y + 16, shorten(clean(x), 24)),
        text("", middle, v.y + 31, shorten(clean(times), 30)),
        text("note", middle, v.y + _TALL + 12, f"pending {held}") if held else "",
        data_location=clean(x),
    )
