"""A counterexample as a table for a terminal: one column for each step, only what changed.

``-`` is silence; a queue is shown where its contents change.  A table that is too wide goes on below, so nothing is cut
off but very long events.
"""

from __future__ import annotations

import dataclasses
import shutil
import textwrap

from pellucid.draw.labels import cells as width_of
from pellucid.draw.labels import clean, shorten
from pellucid.model.sheet import REPEATS, Row, Sheet, event_fields

_LONGEST = 32  # of a cell
_GAP = 2


def sheet_text(sheet: Sheet, *, width: int | None = None) -> str:
    """The table; ``width`` is the terminal's unless given.

    >>> from pellucid import check, pipeline
    >>> grows = pipeline(lambda x: (x.decimate(2, id="half") + x), x=int)
    >>> print(sheet_text(check.holds(grows, "!EF overflow", queue=1).counterexample.sheet()))
    push                  0  1    2  3
    x                     0  0    0  0
    out                   0  -    0  -
    queue apply-...1         [0]     [0, 0]
                                     ^ here
    >>> falls_silent = pipeline(lambda x: x.filter(lambda v: v > 0), x=int)
    >>> print(sheet_text(check.holds(falls_silent, "G (x -> F out)", ints=range(2)).counterexample.sheet()))
    push  0  1
    x     0  -
    out   -  -
             └ from here on it repeats
    """
    if not sheet.count:
        return f"before any {sheet.unit}" + (f": {sheet.words}" if sheet.words not in ("", "here") else "")
    width = max(shutil.get_terminal_size((100, 24)).columns if width is None else width, 24)
    sheet = dataclasses.replace(sheet, rows=tuple(line for row in sheet.rows for line in _by_field(row)))
    labels = [sheet.unit, *(shorten(clean(_label(row)), 40) for row in sheet.rows)]
    left = max(map(width_of, labels))
    columns = [_column(sheet, push) for push in range(sheet.count)]
    lines: list[str] = []
    for start, stop in _blocks([max(map(width_of, column)) for column in columns], max(width - left, 8)):
        if lines:
            lines.append("")
        wide = [max(map(width_of, column)) for column in columns[start:stop]]
        for i, name in enumerate(labels):
            parts = [_pad(name, left)]
            parts += [_pad(column[i], w) for column, w in zip(columns[start:stop], wide, strict=True)]
            lines.append((" " * _GAP).join(parts).rstrip())
        for line, words in _below(sheet, start, stop, left, wide):
            if not words or width_of(line) + 1 + width_of(words) <= width:
                lines.append(f"{line} {words}".rstrip())
            else:  # no room beside the mark
                lines.append(line)
                lines += [
                    " " * min(len(line) - 1, max(width - width_of(w), 0)) + w for w in textwrap.wrap(words, width)
                ]
    if sheet.words and not sheet.marks:
        lines += textwrap.wrap(clean(sheet.words), width)
    return "\n".join(lines)


def _label(row: Row) -> str:
    """What stands before a row."""
    return f"queue {row.name}" if row.kind == "queue" else row.name


def _by_field(row: Row) -> list[Row]:
    """A row of records that are too long for a cell as one row for each field."""
    events = [event for cell in row.cells for event in cell or ()]
    fields = [event_fields(event) for event in events]
    names = list(fields[0]) if fields and fields[0] is not None else []
    if (
        row.kind in ("queue", "state", "label")
        or not names
        or any(found is None or list(found) != names for found in fields)
        or all(width_of(text) <= _LONGEST for push in range(len(row.cells)) for text in row.texts(push))
    ):
        return [row]
    return [
        dataclasses.replace(
            row,
            name=f"{row.name}.{name}" if i == 0 else f"{' ' * len(row.name)}.{name}",
            cells=tuple(None if cell is None else [getattr(event, name) for event in cell] for cell in row.cells),
        )
        for i, name in enumerate(names)
    ]


def _column(sheet: Sheet, push: int) -> list[str]:
    out = [str(push)]
    for row in sheet.rows:
        if row.kind == "queue":
            text = "[" + ", ".join(row.texts(push)) + "]" if row.changed(push) else ""
        else:
            text = ", ".join(row.texts(push)) or ("" if row.kind == "state" else "-")
        out.append(shorten(text, _LONGEST))
    return out


def _blocks(widths: list[int], room: int) -> list[tuple[int, int]]:
    """Which columns fit beside one another."""
    out, start, used = [], 0, 0
    for i, w in enumerate(widths):
        if i > start and used + w + _GAP > room:
            out.append((start, i))
            start, used = i, 0
        used += w + _GAP
    return [*out, (start, len(widths))]


def _below(sheet: Sheet, start: int, stop: int, left: int, wide: list[int]) -> list[tuple[str, str]]:
    """The marks, each with its words: what is wrong and where, and what repeats."""
    at = [left + _GAP + sum(wide[:i]) + _GAP * i for i in range(stop - start)]
    lines = []
    here = [push for push in sheet.marks if start <= push < stop]
    if here:
        line = ""
        for push in here:
            line = line.ljust(at[push - start]) + "^"
        lines.append((line, clean(sheet.words) if here[-1] == sheet.marks[-1] else ""))
    if sheet.loop is not None and sheet.loop < stop:
        first, last = at[max(sheet.loop, start) - start], at[-1]
        opens, closes = sheet.loop >= start, stop == sheet.count
        if first == last:
            line = "└" if opens else "┘" if closes else "─"
        else:
            line = ("└" if opens else "─") + "─" * (last - first - 1) + ("┘" if closes else "─")
        lines.append((" " * first + line, REPEATS if opens else ""))
    return lines


def _pad(text: str, width: int) -> str:
    return text + " " * (width - width_of(text))
