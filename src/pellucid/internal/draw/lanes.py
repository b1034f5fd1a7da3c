"""Lanes over time, the one form of all pictures of runs: counterexamples, space-time diagrams of recorded runs and of
transactions, queues and workers over time, what waits for which clock.

A picture says in its own units (a column, a time) what there is: lanes, spans, curves, arrows, marks, upright lines.
Here that is placed and drawn.  The colours are those of the pictures of pipelines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pellucid.internal.draw.labels import cells, clean, shorten
from pellucid.internal.draw.svg import CHAR, PAGE, circle, document, group, moved, path, rect, text

MARGIN = 16.0
_EVENTS, _SLOT = 8, 18.0  # of a stack: how many events are drawn, and the height of one
_LONGEST = 18  # of an event's text

STYLE = """
.plc .plc-lane{stroke:var(--pipe);stroke-width:1.2;opacity:.5}
.plc .plc-floor{stroke:var(--pipe);stroke-width:1.3;opacity:.55}
.plc .plc-dead{stroke:var(--page);stroke-width:1.6;stroke-dasharray:5 2}
.plc .plc-name{font-weight:700;text-anchor:end}
.plc .plc-under{fill:var(--soft);font-size:9.5px;text-anchor:end}
.plc .plc-side,.plc .plc-says{fill:var(--soft);font-size:9.5px;text-anchor:start}
.plc .plc-is-bad,.plc .plc-says.plc-is-bad{fill:var(--badge);font-weight:700}
.plc .plc-above{font-size:9.5px;font-weight:700;fill:currentColor}
.plc .plc-bad{fill:var(--badge);opacity:.14}
.plc .plc-grid{stroke:var(--soft);stroke-width:.5;opacity:.5}
.plc .plc-over{stroke:var(--badge);stroke-width:1.6}
.plc .plc-back{stroke:var(--badge);stroke-width:1.6;stroke-dasharray:6 4}
.plc .plc-busy{fill:var(--plain);opacity:.75}
.plc .plc-idle{fill:var(--plain);opacity:.1}
.plc .plc-done{fill:var(--route);opacity:.55}
.plc .plc-may{fill:var(--route);opacity:.18}
.plc .plc-open{fill:var(--state);opacity:.3;stroke:var(--state)}
.plc .plc-kept{fill:var(--soft);opacity:.15;stroke:var(--soft)}
.plc .plc-fill{fill:var(--state);opacity:.22}
.plc .plc-line{fill:none;stroke:var(--state);stroke-width:1.8}
.plc .plc-limit{stroke:var(--badge);stroke-width:1.2;stroke-dasharray:5 3}
.plc .plc-sent{fill:none;stroke:currentColor;stroke-width:1.3}
.plc .plc-sent.plc-border{stroke-dasharray:4 3}
.plc .plc-sent.plc-ack{stroke-dasharray:1.5 3.5;stroke-width:1.1;opacity:.8}
.plc .plc-hop{fill:none;stroke:currentColor;stroke-width:1.6}
.plc .plc-need{fill:none;stroke:var(--state);stroke-width:1.2;stroke-dasharray:4 3}
.plc .plc-hold{fill:none;stroke:var(--badge);stroke-width:1.2;stroke-dasharray:4 3}
.plc .plc-join{stroke:var(--route);stroke-width:1.6}
.plc .plc-maps{stroke:var(--soft);stroke-width:.8;opacity:.5}
.plc .plc-maps.plc-strong{stroke:var(--ink);stroke-width:1.3;opacity:.9}
.plc .plc-point,.plc .plc-dot{fill:currentColor}
.plc .plc-value{fill:currentColor;font-size:9.5px;paint-order:stroke;stroke:var(--page);stroke-width:3px}
.plc .plc-word{font-size:9.5px;paint-order:stroke;stroke:var(--page);stroke-width:3px}
.plc .plc-small{fill:var(--pipe)}
.plc .plc-mark,.plc .plc-many{fill:var(--box);stroke:currentColor;stroke-width:1.8}
.plc .plc-ring{fill:none;stroke:currentColor;stroke-width:1.6}
.plc .plc-commit{fill:var(--page);stroke:var(--route);stroke-width:2.2}
.plc .plc-cross{fill:none;stroke:var(--badge);stroke-width:2.6;stroke-linecap:round}
.plc .plc-tick{stroke:currentColor;stroke-width:2.2}
.plc .plc-emit{fill:none;stroke:var(--route);stroke-width:1.6}
.plc .plc-chip{fill:var(--box);stroke:currentColor;stroke-width:1.5}
.plc .plc-wrong .plc-chip{stroke:var(--badge);stroke-width:2.4}
.plc .plc-held{fill:var(--page);stroke:var(--pipe);stroke-width:1.2}
.plc .plc-quiet{stroke:var(--soft);stroke-width:1.6;stroke-linecap:round}
.plc .plc-loop{fill:none;stroke:var(--frame);stroke-width:1.8}
.plc .plc-gone{opacity:.4;color:var(--soft)}
.plc .plc-gone .plc-word{fill:var(--soft)}
"""

Point: TypeAlias = tuple[str, float]  # a lane, and a time on it


@dataclass(frozen=True)
class Lane:
    """One of the lanes, from top to bottom."""

    key: str
    name: str
    height: float = 46.0
    line: float | None = None  # from its top to its line, where its marks stand; None: the middle
    kind: str = "lane"  # how the line is drawn; empty: it is not
    colour: str = ""
    under: str = ""  # small words under the name
    side: str = ""  # small words at the right end
    data: Mapping[str, str] = field(default_factory=dict)  # attributes, for programs that look for the lane


@dataclass(frozen=True)
class Span:
    """Something that takes a while on a lane: a box, or part of its line (``high`` is 0)."""

    lane: str
    start: float
    stop: float
    kind: str
    high: float = 14.0


@dataclass(frozen=True)
class Curve:
    """A number over time, as steps of a staircase: points ``(time, number)``, and the number that is the limit."""

    lane: str
    points: Sequence[tuple[float, int]]
    stop: float
    most: int
    limit: int | None = None


@dataclass(frozen=True)
class Arrow:
    """From one point to another; without one of them, a short arrow into or out of the picture (``steep``: the outside
    world, else another row)."""

    start: Point | None
    end: Point | None
    kind: str = "sent"
    colour: str = ""
    title: str = ""
    label: str = ""
    tip: bool = True
    curved: bool = False
    steep: bool = False


@dataclass(frozen=True)
class Mark:
    """Something that happens at once; ``shapes`` are drawn one over the other, with the texts that they show."""

    lane: str
    at: float
    shapes: str
    colour: str = ""
    title: str = ""
    texts: tuple[str, ...] = ()
    width: float = 0.0
    step: int | None = None


@dataclass(frozen=True)
class Upright:
    """A line through all lanes, or a band of this width, with words above, ``higher`` than others."""

    at: float
    kind: str
    words: str = ""
    word_kind: str = "above"
    colour: str = ""
    title: str = ""
    width: float = 0.0
    higher: float = 0.0


Item: TypeAlias = Span | Curve | Arrow | Mark | Upright


@dataclass
class Strip:
    """Lanes one below the other, from ``left`` to ``right``; ``x`` says where a time stands."""

    lanes: Sequence[Lane]
    x: Callable[[float], float]
    left: float
    right: float
    top: float = 0.0

    def __post_init__(self) -> None:
        self.tops: dict[str, float] = {}
        at = self.top
        for lane in self.lanes:
            self.tops[lane.key] = at
            at += lane.height
        self.bottom = at
        self.by_key = {lane.key: lane for lane in self.lanes}

    def y(self, key: str) -> float:
        """The height of a lane's line."""
        lane = self.by_key[key]
        return self.tops[key] + (lane.height / 2 if lane.line is None else lane.line)

    def draw(self, items: Sequence[Item]) -> str:
        """Bands and lines behind, then the lanes, then what is on them."""
        kinds = (Upright, Span, Curve, Arrow, Mark)
        by_kind = {kind: [self._item(item) for item in items if isinstance(item, kind)] for kind in kinds}
        made = [*by_kind[Upright], *map(self._lane, self.lanes), *(one for kind in kinds[1:] for one in by_kind[kind])]
        return "".join(dict.fromkeys(made))

    def _item(self, item: Item) -> str:
        match item:
            case Span():
                return self._span(item)
            case Curve():
                return self._curve(item)
            case Arrow():
                return self._arrow(item)
            case Mark():
                return self._mark(item)
            case Upright():
                return self._upright(item)

    def _lane(self, lane: Lane) -> str:
        y = self.y(lane.key)
        out = [text("name", self.left - 8, y + (4 if not lane.under else -2), shorten(clean(lane.name), 36))]
        if lane.under:
            out.append(text("under", self.left - 8, y + (8 if lane.name else 3), lane.under))
        if lane.side:
            out.append(text("side", self.right + 8, y + 4, shorten(clean(lane.side), 18)))
        if lane.kind:
            out.append(path(lane.kind, "M", self.left, y, "H", self.right))
        data = {f"data_{key}": value for key, value in lane.data.items()}
        return group(lane.colour, *out, title=lane.name if lane.data else "", **data)

    def _span(self, span: Span) -> str:
        y = self.y(span.lane)
        a, b = max(self.x(span.start), self.left), min(self.x(span.stop), self.right)
        if not span.high:
            return path(span.kind, "M", a, y, "H", b) if b > a else ""
        return rect(span.kind, a, y - span.high / 2, max(b - a, 0.6), span.high)

    def _curve(self, curve: Curve) -> str:
        lane, top = self.by_key[curve.lane], self.tops[curve.lane]
        bottom = top + lane.height

        def y(n: int) -> float:
            return bottom - lane.height * n / curve.most

        moves: list[float | str] = []
        for at, n in curve.points:
            moves += ["H", self.x(at), "V", y(n)]
        moves += ["H", self.x(curve.stop)]
        out = [
            text("under", self.left - 4, top + 6, str(curve.most)),
            path("fill", "M", self.left, bottom, *moves, "V", bottom, "Z"),
            path("line", "M", self.left, y(curve.points[0][1]), *moves),
        ]
        if curve.limit is not None:
            out.append(path("limit", "M", self.left, y(curve.limit), "H", self.right))
        return "".join(out) + "\n"

    def _arrow(self, arrow: Arrow) -> str:
        far = (0.5, 0.87) if arrow.steep else (0.96, 0.28)
        if arrow.start is None or arrow.end is None:
            point = arrow.start or arrow.end
            assert point is not None
            x, y = self.x(point[1]), self.y(point[0])
            a, b = (-20.0, -8.0) if arrow.start is None else (7.0, 17.0)
            x1, y1, x2, y2 = x + a * far[0], y + a * far[1], x + b * far[0], y + b * far[1]
            at = (x1 - 1, y1 - 1) if arrow.start is None else (x2 + 2, y2 + 9)
            dx, dy = far
        else:
            x1, y1, x2, y2 = (*self._point(arrow.start), *self._point(arrow.end))
            length = max(math.hypot(x2 - x1, y2 - y1), 1.0)
            dx, dy = (x2 - x1) / length, (y2 - y1) / length
            if arrow.tip:
                x1, y1, x2, y2 = x1 + 7 * dx, y1 + 7 * dy, x2 - 9 * dx, y2 - 9 * dy
            near = min(11.0, 0.4 * length)
            at = x1 + near * dx, y1 + near * dy + 3
        if arrow.curved:
            bend = min(y1, y2) - 18 if y1 == y2 else (y1 + y2) / 2
            line = path(arrow.kind, "M", x1, y1, "Q", (x1 + x2) / 2, bend, x2, y2)
        else:
            line = path(arrow.kind, "M", x1, y1, "L", x2, y2)
        label = text("value", *at, arrow.label) if arrow.label else ""
        return group(arrow.colour, line, _tip(x2, y2, dx, dy) if arrow.tip else "", label, title=arrow.title)

    def _point(self, point: Point) -> tuple[float, float]:
        return self.x(point[1]), self.y(point[0])

    def _mark(self, mark: Mark) -> str:
        x, y = self.x(mark.at), self.y(mark.lane)
        inside = [SHAPES[shape](x, y, mark) for shape in mark.shapes.split()]
        colour = f"{self.by_key[mark.lane].colour} {mark.colour}"
        return group(colour, *inside, title=mark.title, data_step=None if mark.step is None else str(mark.step))

    def _upright(self, line: Upright) -> str:
        x = self.x(line.at)
        if line.width:
            shown = rect(line.kind, x - line.width / 2, self.top - 22, line.width, self.bottom - self.top + 24, 6)
        else:
            shown = path(line.kind, "M", x, self.top - 8, "V", self.bottom) if line.kind else ""
        words = text(line.word_kind, x, self.top - 10 - line.higher, line.words) if line.words else ""
        return group(line.colour, shown, words, title=line.title)


def _tip(x: float, y: float, dx: float, dy: float) -> str:
    """The head of an arrow that ends here in this direction."""
    a, b = x - 6 * dx + 3 * dy, y - 6 * dy - 3 * dx
    c, d = x - 6 * dx - 3 * dy, y - 6 * dy + 3 * dx
    return path("point", "M", x, y, "L", a, b, "L", c, d, "z")


# ---------------------------------------------------------------- shapes of marks


def short(event: str) -> str:
    """An event's text, short enough for a lane."""
    return shorten(event, _LONGEST)


def chips_width(texts: Sequence[str]) -> float:
    """How much room the chips of some events take, side by side."""
    return sum(max(CHAR * cells(short(t)) + 12.0, 22.0) for t in texts) + 3.0 * max(len(texts) - 1, 0)


def stack_height(count: int) -> float:
    """How much room a stack of so many events takes."""
    return _SLOT * min(count, _EVENTS + 1)


def _chips(x: float, y: float, mark: Mark) -> str:
    """Events side by side."""
    out, at = [], x - chips_width(mark.texts) / 2
    for event in mark.texts:
        wide = chips_width([event])
        out += [rect("chip", at, y - 10, wide, 20, 10), text("", at + wide / 2, y + 3.8, short(event))]
        at += wide + 3.0
    return "".join(out)


def _stack(x: float, y: float, mark: Mark) -> str:
    """What waits: the oldest at the bottom."""
    texts = [short(event) for event in mark.texts[:_EVENTS]]
    texts += [f"+{len(mark.texts) - _EVENTS}"] if len(mark.texts) > _EVENTS else []
    return "".join(
        rect("held", x - mark.width / 2, y - _SLOT * (i + 1), mark.width, _SLOT, 2)
        + text("", x, y - _SLOT * (i + 1) + 13, event)
        for i, event in enumerate(texts)
    )


def _count(x: float, y: float, mark: Mark) -> str:
    """How many steps are one mark."""
    wide = CHAR * len(mark.texts[0]) + 10.0
    return rect("many", x - wide / 2, y - 8, wide, 16, 8) + text("", x, y + 3.6, mark.texts[0])


def _words(x: float, y: float, mark: Mark) -> str:
    """Lines of words above a mark."""
    first = y - 11 - 10 * (len(mark.texts) - 1)
    return "".join(text("word", x, first + 10 * k, line) for k, line in enumerate(mark.texts))


SHAPES: dict[str, Callable[[float, float, Mark], str]] = {
    "dot": lambda x, y, m: circle("dot", x, y, 4.5),
    "small": lambda x, y, m: circle("small", x, y, 2.6),
    "square": lambda x, y, m: rect("mark", x - 5.5, y - 5.5, 11, 11, 1.5),
    "diamond": lambda x, y, m: path("mark", "M", x, y - 7, "l7 7l-7 7l-7-7z"),
    "cross": lambda x, y, m: path("cross", "M", x - 6, y - 6, "l12 12m0-12l-12 12"),
    "slash": lambda x, y, m: path("cross", "M", x - 8, y + 8, "l16-16"),
    "halo": lambda x, y, m: circle("bad", x, y, 16),
    "ring": lambda x, y, m: circle("ring", x, y, 11),
    "commit": lambda x, y, m: circle("commit", x, y, 6.5),
    "hole": lambda x, y, m: circle("chip", x, y, 9),
    "quiet": lambda x, y, m: path("quiet", "M", x - 4, y, "h8"),
    "tick": lambda x, y, m: path("tick", "M", x, y - 9, "v18"),
    "emit": lambda x, y, m: path("emit", "M", x, y - 5, "v10m-3-4l3 4 3-4"),
    "count": _count,
    "chips": _chips,
    "stack": _stack,
    "words": _words,
}


# ---------------------------------------------------------------- the page


def rows(widths: Sequence[float], left: float, room: float = PAGE) -> list[tuple[int, int]]:
    """Which columns of these widths stand on one row: rows of about one length, none wider than there is room.

    >>> rows([10.0] * 5, 20.0, 55.0)
    [(0, 3), (3, 5)]
    """
    total, most = sum(widths), max(widths, default=0.0)
    limit = room - left
    if total > limit > most:
        limit = min(limit, total / math.ceil(total / limit) + most / 2)
    found, start, used = [], 0, 0.0
    for i, width in enumerate(widths):
        if i > start and used + width > limit:
            found.append((start, i))
            start, used = i, 0.0
        used += width
    return [*found, (start, len(widths))]


def page(
    blocks: Sequence[tuple[str, float]],
    width: float,
    *,
    named: str,
    words: str,
    title: str = "",
    notes: Sequence[str] = (),
    bad: int = 0,
) -> str:
    """A document: a title, blocks one below the other (each with its height), and notes; the first ``bad`` ones say
    what is wrong."""
    title, out, y = shorten(clean(title), 130), [], MARGIN
    if title:
        out.append(text("head", MARGIN, MARGIN + 8, title) + "\n")
        y += 22.0
    for block, height in blocks:
        out.append(moved(MARGIN, y, block))
        y += height
    for k, note in enumerate(notes):
        out.append(text("says is-bad" if k < bad else "says", MARGIN, y + 10 + 16 * k, note) + "\n")
    width = max(width, CHAR * 1.25 * cells(title), *(CHAR * cells(note) for note in notes), 120.0) + 2 * MARGIN
    return document((width, y + 16.0 * len(notes) + MARGIN), named, words, "".join(out), STYLE)


def label_room(names: Sequence[str], least: float = 48.0) -> float:
    """How much room the names before the lanes take."""
    return max([CHAR * 1.08 * cells(shorten(clean(name), 36)) for name in names] + [least]) + MARGIN
