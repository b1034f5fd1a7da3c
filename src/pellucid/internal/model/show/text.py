"""A counterexample as a table for a terminal: one column for each step, only what changed.

``-`` is silence; a queue is shown where its contents change; a record that is too long for a cell has a row for each
field.  A table that is too wide goes on below, so nothing is cut off but very long events.
"""

from __future__ import annotations

import datetime
import shutil
import textwrap
from dataclasses import replace
from typing import Any

from pellucid.internal.draw.labels import cells as width_of
from pellucid.internal.draw.labels import clean, shorten
from pellucid.internal.model.sheet import REPEATS, Row, Sheet, event_fields, event_text

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
    sheet, always = _spread(sheet)
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
    lines += [line for words in always for line in textwrap.wrap(clean(words), width, subsequent_indent="  ")]
    if sheet.words and not sheet.marks:
        lines += textwrap.wrap(clean(sheet.words), width)
    return "\n".join(lines)


def _spread(sheet: Sheet) -> tuple[Sheet, list[str]]:
    """Records that are too long for a cell get a row for each field; fields with nothing in them, in any step, are told
    below."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in sheet.rows:
        fields = _fields(row)
        if fields:
            groups.setdefault(fields, []).append(row)
    shown: dict[str, tuple[str, ...]] = {}
    always: list[str] = []
    for fields, rows in groups.items():
        texts = (text for row in rows for at in range(sheet.count) for text in row.texts(at))
        if max(map(width_of, texts), default=0) <= _LONGEST:
            continue
        events = [event_fields(e) or {} for row in rows for cell in row.cells for e in cell or []]
        idle = [f for f in fields if len({event_text(e[f]) for e in events}) == 1 and _nothing(events[0][f])]
        left = tuple(f for f in fields if f not in idle) or fields[:1]
        shown |= {row.name: left for row in rows}
        told = ", ".join(f"{f}={event_text(events[0][f])}" for f in idle if f not in left)
        always += [f"everywhere in {' and '.join(row.name for row in rows)}: {told}"] if told else []
    out = [part for row in sheet.rows for part in _parts(row, shown.get(row.name, ()))]
    return replace(sheet, rows=tuple(out)), always


def _fields(row: Row) -> tuple[str, ...]:
    """The fields of a row's events, if they are all records of one kind."""
    events = [e for cell in row.cells for e in cell or []]
    found = {tuple(event_fields(e) or ()) for e in events}
    return found.pop() if row.kind in ("source", "output", "step") and len(found) == 1 else ()


def _parts(row: Row, fields: tuple[str, ...]) -> list[Row]:
    if not fields:
        return [row]
    return [
        replace(
            row,
            name=f"{row.name if i == 0 else ' ' * len(row.name)}.{f}",
            cells=tuple(cell and [(event_fields(e) or {})[f] for e in cell] for cell in row.cells),
        )
        for i, f in enumerate(fields)
    ]


def _nothing(value: Any) -> bool:
    """Whether a value is what a solver takes where nothing is asked of it."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None) == datetime.datetime(1970, 1, 1)
    return value == datetime.date(1970, 1, 1) or not value


def _label(row: Row) -> str:
    """What stands before a row."""
    return f"queue {row.name}" if row.kind == "queue" else row.name


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
