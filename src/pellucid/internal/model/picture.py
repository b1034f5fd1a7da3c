"""A counterexample as a picture: a lane for each stream and queue, a column for each step.

An event is a chip on its lane, silence a small dash, a queue a stack that grows upward.  The push in which it goes
wrong stands on red; an arrow leads back over the steps that repeat for ever.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from pellucid.internal.draw.labels import cells, clean, shorten
from pellucid.internal.draw.lanes import (
    Item,
    Lane,
    Mark,
    Strip,
    Upright,
    chips_width,
    label_room,
    page,
    rows,
    stack_height,
)  # fmt: skip
from pellucid.internal.draw.svg import CHAR, FAMILY, group, path, text
from pellucid.internal.model.sheet import REPEATS, Row, Sheet

_LANE, _HEAD, _FOOT = 30.0, 24.0, 26.0


def sheet_svg(sheet: Sheet, *, title: str = "") -> str:
    """The picture as an SVG document; ``title`` stands above it.

    >>> from pellucid import check, pipeline
    >>> example = check.holds(pipeline(lambda x: x.trim(1), x=int), "G (x -> out)").counterexample
    >>> picture = sheet_svg(example.sheet(), title="G (x -> out)")
    >>> picture[:4], "push 0: x 0, out silent" in picture
    ('<svg', True)
    """
    sheet = replace(sheet, words=shorten(clean(sheet.words), 110))
    left = label_room([row.name for row in sheet.rows])
    widths = [max([34.0, *(_cell_width(row, push) for row in sheet.rows)]) + 12.0 for push in range(sheet.count)]
    lanes = [_lane(row) for row in sheet.rows]
    blocks, need = [], left
    for start, stop in rows(widths, left):
        edges = [left, *accumulate(widths[start:stop], initial=left)][1:]
        block, wide = _block(sheet, lanes, left, edges, start)
        blocks.append(block)
        need = max(need, wide)
    named = f"Counterexample to {title}" if title else "Counterexample"
    return page(blocks, need, named=named, words=_words(sheet), title=shorten(clean(title), 110))


def _cell_width(row: Row, push: int) -> float:
    texts = row.texts(push)
    return chips_width(texts) if row.kind != "queue" else max((chips_width([t]) for t in texts), default=0.0)


def _lane(row: Row) -> Lane:
    colour, data = FAMILY.get(row.family, "edge"), {"row": clean(row.name)}
    if row.kind != "queue":
        return Lane(row.name, row.name, _LANE, colour=colour, data=data)
    height = max(_LANE, stack_height(max(len(cell or []) for cell in row.cells)) + 14.0)
    return Lane(row.name, row.name, height, height - 6.0, "floor", colour, "queue", data=data)


def _block(
    sheet: Sheet, lanes: list[Lane], left: float, edges: list[float], start: int
) -> tuple[tuple[str, float], float]:
    """Some steps from ``start`` on, between these edges: what is drawn, its height and its width."""
    stop = start + len(edges) - 1

    def middle(push: float) -> float:
        return (edges[int(push) - start] + edges[int(push) - start + 1]) / 2

    strip = Strip(lanes, middle, left, edges[-1], _HEAD)
    items: list[Item] = []
    for push in range(start, stop):
        width = edges[push - start + 1] - edges[push - start]
        if push in sheet.marks:
            items.append(Upright(push, "bad", width=width - 4))
        items.append(Upright(push, "", str(push), "id"))
        items += [mark for row in sheet.rows for mark in _marks(sheet, row, push, width - 12)]
    out, wide = [strip.draw(items), text("under", left - 10, 15, sheet.unit)], edges[-1]
    here = [push for push in sheet.marks if start <= push < stop]
    if here and here[-1] == sheet.marks[-1]:
        x = edges[here[-1] - start] + 4
        out.append(text("says is-bad", x, strip.bottom + 16, sheet.words))
        wide = max(wide, x + CHAR * 1.05 * cells(sheet.words))
    height = strip.bottom + _FOOT
    if sheet.loop is not None:
        height += 18.0
        if sheet.loop < stop:
            drawn, reach = _loop(sheet, edges, start, strip.bottom + (18.0 if sheet.marks else 4.0))
            out.append(drawn)
            wide = max(wide, reach)
    return ("".join(out), height), wide


def _marks(sheet: Sheet, row: Row, push: int, width: float) -> list[Mark]:
    texts, cell, wrong = tuple(row.texts(push)), row.cells[push], (row.name, push) in sheet.differ
    if row.kind == "queue":
        return [Mark(row.name, push, "stack", texts=texts, width=width)] if texts else []
    if cell or cell is None:
        return [Mark(row.name, push, "chips", "wrong" if wrong or cell is None else "", texts=texts)]
    return [Mark(row.name, push, "hole quiet", "wrong") if wrong else Mark(row.name, push, "quiet")]


def _loop(sheet: Sheet, edges: list[float], start: int, y: float) -> tuple[str, float]:
    """The arrow from the last step back to the first of the loop, or the part of it on this row; how far it reaches."""
    loop, stop = sheet.loop or 0, start + len(edges) - 1
    opens, closes, short = loop >= start, stop == sheet.count, 8.0 if loop == stop - 1 else 0.0
    a = (edges[loop - start] + edges[loop - start + 1]) / 2 - short if opens else edges[0]
    b = (edges[-2] + edges[-1]) / 2 + short if closes else edges[-1]
    way: list[float | str] = ["M", a, y + 5, "v3q0 7 7 7"] if opens else ["M", a, y + 15]
    way += ["H", b - 7, "q7 0 7-7V", y - 2] if closes else ["H", b]
    out = [path("loop", *way)]
    if opens:
        out += [path("point", "M", a, y - 3, "l4.5 9h-9z"), text("side", a, y + 29, REPEATS)]
    return group("frame", *out), (a + CHAR * cells(REPEATS)) if opens else 0.0


def _words(sheet: Sheet) -> str:
    """The picture in words, for those who cannot see it."""
    parts = []
    for push in range(sheet.count):
        words = []
        for row in sheet.rows:
            if row.kind != "queue":
                words.append(f"{row.name} {' '.join(row.texts(push)) or 'silent'}")
            elif row.changed(push):
                words.append(f"queue {row.name} holds {' '.join(row.texts(push)) or 'nothing'}")
        parts.append(f"{sheet.unit} {push}: {', '.join(words)}" + (f" ({sheet.words})" if push in sheet.marks else ""))
    again = f"; from {sheet.unit} {sheet.loop} on it repeats for ever" if sheet.loop is not None else ""
    return clean("; ".join(parts) + again + ".")
