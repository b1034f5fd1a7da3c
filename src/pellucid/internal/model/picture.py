"""A counterexample as a picture: a lane for each stream and queue, a column for each step.

An event is a chip on its lane, silence a small dash, a queue a stack that grows upward.  The push in which it goes
wrong stands on red; what repeats for ever is held by an arrow that leads back.  The theme is that of the pictures of
pipelines, light and dark; no script, no font and no file from elsewhere.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from xml.sax.saxutils import escape

from pellucid.internal.draw.labels import cells, clean, shorten
from pellucid.internal.draw.theme import CHAR, FAMILY, STYLE, document
from pellucid.internal.draw.theme import number as _n
from pellucid.internal.model.sheet import REPEATS, Row, Sheet

_LANE = 30.0  # the height of a stream's lane
_SLOT = 18.0  # of an event in a queue
_MOST = 8  # events of a queue that are drawn
_HEAD = 24.0
_FOOT = 26.0
_PAGE = 1180.0  # more pushes go on below
_MARGIN = 16.0
_LONGEST = 18

_MORE = """
.plc .plc-lane{stroke:var(--pipe);stroke-width:1;opacity:.28}
.plc .plc-floor{stroke:var(--pipe);stroke-width:1.3;opacity:.55}
.plc .plc-bad{fill:var(--badge);opacity:.13}
.plc .plc-chip{fill:var(--box);stroke:currentColor;stroke-width:1.5}
.plc .plc-wrong .plc-chip{stroke:var(--badge);stroke-width:2.4}
.plc .plc-held{fill:var(--page);stroke:var(--pipe);stroke-width:1.2}
.plc .plc-quiet{stroke:var(--soft);stroke-width:1.6;stroke-linecap:round}
.plc .plc-push{fill:var(--soft)}
.plc .plc-name{font-weight:700;text-anchor:end}
.plc .plc-sort{fill:var(--soft);font-size:9.5px;text-anchor:end}
.plc .plc-says{text-anchor:start}
.plc .plc-says.plc-is-bad{fill:var(--badge);font-weight:700}
.plc .plc-loop path{fill:none;stroke:var(--frame);stroke-width:1.8}
.plc .plc-loop .plc-head-of-loop{fill:var(--frame);stroke:none}
.plc .plc-loop text{fill:var(--frame);font-weight:700;text-anchor:start}
.plc .plc-title{font-size:12px;font-weight:700;text-anchor:start}
"""


@dataclass(frozen=True)
class _Plan:
    """Where things stand: columns by push, lanes by row, blocks of pushes one below the other."""

    sheet: Sheet
    left: float
    widths: tuple[float, ...]
    heights: tuple[float, ...]
    blocks: tuple[tuple[int, int], ...]

    @property
    def block_height(self) -> float:
        return _HEAD + sum(self.heights) + _FOOT + (18.0 if self.sheet.loop is not None else 0.0)


def sheet_svg(sheet: Sheet, *, title: str = "") -> str:
    """The picture as an SVG document; ``title`` stands above it.

    >>> from pellucid import check, pipeline
    >>> example = check.holds(pipeline(lambda x: x.trim(1), x=int), "G (x -> out)").counterexample
    >>> picture = sheet_svg(example.sheet(), title="G (x -> out)")
    >>> picture[:4], "push 0: x 0, out silent" in picture
    ('<svg', True)
    """
    sheet = replace(sheet, words=shorten(clean(sheet.words), 110))
    plan = _plan(sheet)
    title = shorten(clean(title), 110)
    words = _words(sheet)
    top = _MARGIN + (20.0 if title else 0.0)
    room = max((plan.left + sum(plan.widths[a:b]) for a, b in plan.blocks), default=120.0)
    room = max(room, CHAR * 1.2 * cells(title), _room_for_words(plan))
    width, height = room + 2 * _MARGIN, top + plan.block_height * len(plan.blocks) + _MARGIN - 6
    mark = "plc-" + hashlib.sha256(f"{title}|{words}".encode()).hexdigest()[:10]
    named = f"Counterexample to {title}" if title else "Counterexample"
    out = []
    if title:
        out.append(f'<text class="plc-title" x="{_n(_MARGIN)}" y="{_n(_MARGIN + 8)}">{escape(title)}</text>\n')
    for i, (start, stop) in enumerate(plan.blocks):
        y = top + i * plan.block_height
        out.append(f'<g transform="translate({_n(_MARGIN)} {_n(y)})">\n{_block(plan, start, stop)}</g>\n')
    return document(mark, (width, height), named, words, "".join(out), STYLE + _MORE)


def _plan(sheet: Sheet) -> _Plan:
    names = [CHAR * 1.08 * cells(shorten(clean(row.name), 36)) for row in sheet.rows]
    left = max([*names, 48.0]) + 14.0
    widths = tuple(max([34.0, *(_cell_width(row, push) for row in sheet.rows)]) + 12.0 for push in range(sheet.count))
    heights = tuple(_lane_height(row) for row in sheet.rows)
    blocks, start, used = [], 0, left
    for push, w in enumerate(widths):
        if push > start and used + w > _PAGE:
            blocks.append((start, push))
            start, used = push, left
        used += w
    return _Plan(sheet, left, widths, heights, (*blocks, (start, sheet.count)))


def _cell_width(row: Row, push: int) -> float:
    wide = [CHAR * cells(_short(t)) + 12.0 for t in row.texts(push)]
    return max(wide, default=0.0) if row.kind == "queue" else sum(wide) + 3.0 * max(len(wide) - 1, 0)


def _lane_height(row: Row) -> float:
    if row.kind != "queue":
        return _LANE
    most = max(len(cell or []) for cell in row.cells)
    return max(_LANE, _SLOT * min(most, _MOST + 1) + 14.0)


def _room_for_words(plan: _Plan) -> float:
    """Words begin under their column and may reach past the last one."""
    need = 0.0
    for at, words in ((plan.sheet.marks[-1:], plan.sheet.words), ((plan.sheet.loop,), REPEATS)):
        for push in at:
            if push is not None:
                a = next(a for a, b in plan.blocks if a <= push < b)
                need = max(need, plan.left + sum(plan.widths[a:push]) + CHAR * 1.05 * cells(words) + 24.0)
    return need


def _block(plan: _Plan, start: int, stop: int) -> str:
    sheet, out = plan.sheet, []
    xs = [plan.left + sum(plan.widths[start:push]) for push in range(start, stop + 1)]
    bottom = _HEAD + sum(plan.heights)
    for push in range(start, stop):
        x, w = xs[push - start], plan.widths[push]
        if push in sheet.marks:
            out.append(
                f'<rect class="plc-bad" x="{_n(x + 2)}" y="2" width="{_n(w - 4)}" height="{_n(bottom)}" rx="6"/>\n'
            )
        out.append(f'<text class="plc-push" x="{_n(x + w / 2)}" y="15">{push}</text>\n')
    out.append(f'<text class="plc-sort" x="{_n(plan.left - 10)}" y="15">{plan.sheet.unit}</text>\n')
    y = _HEAD
    for row, height in zip(sheet.rows, plan.heights, strict=True):
        out.append(_lane(plan, row, xs, start, stop, y, height))
        y += height
    here = [push for push in sheet.marks if start <= push < stop]
    if here and here[-1] == sheet.marks[-1]:
        x = xs[here[-1] - start]
        out.append(
            f'<text class="plc-says plc-is-bad" x="{_n(x + 4)}" y="{_n(bottom + 16)}">{escape(sheet.words)}</text>\n'
        )
    if sheet.loop is not None and sheet.loop < stop:
        out.append(_loop(plan, xs, start, stop, bottom + (18.0 if sheet.marks else 4.0)))
    return "".join(out)


def _lane(plan: _Plan, row: Row, xs: list[float], start: int, stop: int, y: float, height: float) -> str:
    queue = row.kind == "queue"
    middle = y + height - 12.0 if queue else y + height / 2
    name = shorten(clean(row.name), 36)
    out = [
        f'<g class="plc-{FAMILY.get(row.family, "edge")}" data-row="{escape(clean(row.name), {chr(34): "&quot;"})}">'
        f"<title>{escape(clean(f'{row.kind} {row.name}'))}</title>"
        f'<text class="plc-name" x="{_n(plan.left - 10)}" y="{_n(middle + (-2 if queue else 4))}">{escape(name)}</text>'
    ]
    if queue:
        out.append(f'<text class="plc-sort" x="{_n(plan.left - 10)}" y="{_n(middle + 8)}">queue</text>')
    floor = y + height - 6.0 if queue else middle
    kind = "plc-floor" if queue else "plc-lane"
    out.append(f'<path class="{kind}" d="M{_n(plan.left)} {_n(floor)}H{_n(xs[-1])}"/>')
    for push in range(start, stop):
        x, w = xs[push - start], plan.widths[push]
        cell = row.cells[push]
        if queue:
            out.append(_stack(row.texts(push), x + w / 2, floor, w - 12.0))
        elif cell:
            chips = _chips([_short(t) for t in row.texts(push)], x + w / 2, middle)
            out.append(f'<g class="plc-wrong">{chips}</g>' if (row.name, push) in plan.sheet.differ else chips)
        elif cell is None:
            out.append(f'<g class="plc-wrong">{_chips(row.texts(push), x + w / 2, middle)}</g>')
        else:
            wrong = (row.name, push) in plan.sheet.differ
            ring = f'<g class="plc-wrong"><circle class="plc-chip" cx="{_n(x + w / 2)}" cy="{_n(middle)}" r="9"/></g>'
            out.append((ring if wrong else "") + f'<path class="plc-quiet" d="M{_n(x + w / 2 - 4)} {_n(middle)}h8"/>')
    return "".join(out) + "</g>\n"


def _chips(texts: list[str], x: float, y: float) -> str:
    """The events of one push, side by side."""
    wide = [max(CHAR * cells(t) + 12.0, 22.0) for t in texts]
    at = x - (sum(wide) + 3.0 * (len(wide) - 1)) / 2
    out = []
    for text, w in zip(texts, wide, strict=True):
        out.append(
            f'<rect class="plc-chip" x="{_n(at)}" y="{_n(y - 10)}" width="{_n(w)}" height="20" rx="10"/>'
            f'<text x="{_n(at + w / 2)}" y="{_n(y + 3.8)}">{escape(text)}</text>'
        )
        at += w + 3.0
    return "".join(out)


def _stack(events: list[str], x: float, floor: float, width: float) -> str:
    """What waits: the oldest at the bottom."""
    texts = [_short(e) for e in events[:_MOST]]
    if len(events) > _MOST:
        texts.append(f"+{len(events) - _MOST}")
    out = []
    for i, text in enumerate(texts):
        y = floor - _SLOT * (i + 1)
        out.append(
            f'<rect class="plc-held" x="{_n(x - width / 2)}" y="{_n(y)}" width="{_n(width)}" '
            f'height="{_n(_SLOT)}" rx="2"/>'
            f'<text x="{_n(x)}" y="{_n(y + 13)}">{escape(text)}</text>'
        )
    return "".join(out)


def _loop(plan: _Plan, xs: list[float], start: int, stop: int, y: float) -> str:
    """The arrow from the last push back to the first of the loop; a part of it where the pushes go on below."""
    loop = plan.sheet.loop or 0
    opens, closes = loop >= start, stop == plan.sheet.count
    a = xs[loop - start] + plan.widths[loop] / 2 if opens else plan.left
    b = xs[-1] - plan.widths[stop - 1] / 2 + (8.0 if loop == stop - 1 else 0.0) if closes else xs[-1]
    if opens and loop == stop - 1:
        a -= 8.0
    d = (f"M{_n(a)} {_n(y + 5)}v3q0 7 7 7" if opens else f"M{_n(a)} {_n(y + 15)}") + f"H{_n(b - (7 if closes else 0))}"
    d += f"q7 0 7-7V{_n(y - 2)}" if closes else ""
    tip = f'<path class="plc-head-of-loop" d="M{_n(a)} {_n(y - 3)}l4.5 9h-9z"/>' if opens else ""
    says = f'<text x="{_n(a)}" y="{_n(y + 29)}">{REPEATS}</text>' if opens else ""
    return f'<g class="plc-loop"><path d="{d}"/>{tip}{says}</g>\n'


def _words(sheet: Sheet) -> str:
    """The picture in words, for those who cannot see it."""
    parts = []
    for push in range(sheet.count):
        said = []
        for row in sheet.rows:
            if row.kind == "queue":
                if row.changed(push):
                    said.append(f"queue {row.name} holds {' '.join(row.texts(push)) or 'nothing'}")
            else:
                said.append(f"{row.name} {' '.join(row.texts(push)) or 'silent'}")
        parts.append(f"{sheet.unit} {push}: {', '.join(said)}" + (f" ({sheet.words})" if push in sheet.marks else ""))
    again = f"; from {sheet.unit} {sheet.loop} on it repeats for ever" if sheet.loop is not None else ""
    return clean("; ".join(parts) + again + ".")


def _short(text: str) -> str:
    return shorten(text, _LONGEST)
