"""What every picture of a counterexample shows: a row for what is watched, a column for each step.

The text and the SVG both read this sheet, so they cannot disagree.  Steps are counted from 0, as in the messages of
steps that fail.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
import shutil
import textwrap
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from pellucid.internal.draw.labels import cells as width_of
from pellucid.internal.draw.labels import clean, shorten

FAILS = "fails"
REPEATS = "from here on it repeats"


@dataclass(frozen=True)
class Row:
    """One stream, queue or variable: ``cells[i]`` is what it has in step i, or what waits after it; None after a
    failure."""

    kind: str  # source, output, step: streams; queue; state: shown where it changes; label: the steps' own words
    name: str
    cells: tuple[list[Any] | None, ...]
    family: str  # the kind of processor, for its colour

    def changed(self, at: int) -> bool:
        """Whether a queue holds something else than before (at the start it is empty)."""
        return self.cells[at] != (self.cells[at - 1] if at else [])

    def texts(self, at: int) -> list[str]:
        """What stands in a cell, event by event."""
        cell = self.cells[at]
        if cell is None:
            return [FAILS]
        return [clean(str(e)) for e in cell] if self.kind == "label" else [event_text(e) for e in cell]


@dataclass(frozen=True)
class Sheet:
    """A counterexample as a table."""

    rows: tuple[Row, ...]
    count: int
    loop: int | None
    marks: tuple[int, ...]  # the steps in which it goes wrong
    words: str  # what is wrong there
    differ: frozenset[tuple[str, int]] = frozenset()  # (row, step) where compared pipelines do not agree
    unit: str = "push"  # what a column is


class Word(str):
    """A text of ours, not of the user's data: it is shown without quotes.

    >>> event_text(Word("aborted")), event_text("aborted")
    ('aborted', "'aborted'")
    """

    __slots__ = ()


def event_text(value: Any) -> str:
    """An event, short and on one line.

    >>> from typing import NamedTuple
    >>> Payment = NamedTuple("Payment", [("user", str), ("cents", int)])
    >>> event_text(Payment("ada", -5)), event_text(1.5), event_text("a")
    ("(user='ada', cents=-5)", '1.5', "'a'")
    >>> event_text(datetime.datetime(2013, 1, 1, 5)), event_text(Decimal("12.50"))
    ('2013-01-01 05:00', '12.50')
    """
    fields = event_fields(value)
    if fields is not None:
        return "(" + ", ".join(f"{name}={event_text(part)}" for name, part in fields.items()) + ")"
    if isinstance(value, enum.Enum):
        return clean(value.name)
    if isinstance(value, Word):
        return clean(value)
    if isinstance(value, (datetime.date, datetime.timedelta, Decimal)):
        return time_text(value)
    try:
        return clean(repr(value))
    except Exception:  # the user's own __repr__
        return f"a {type(value).__name__}"


def time_text(value: Any) -> str:
    """A time or a decimal, as people write it."""
    if not isinstance(value, datetime.datetime):
        return str(value)
    text = value.isoformat(" ").replace("+00:00", "Z")
    return text.replace(":00Z", "Z") if text.endswith(":00Z") else text[:-3] if text.endswith(":00") else text


def event_fields(value: Any) -> dict[str, Any] | None:
    """The fields of a record, None for a scalar."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return None


# Documents for programs; versioned, so that a reader can tell what it reads.

VERSION = 1


def as_json(value: Any) -> Any:
    """An event as JSON: a record as an object, an enum by its name, a float that JSON lacks as a text.

    >>> as_json(float("inf")), as_json((1, "a")), as_json(True)
    ('inf', [1, 'a'], True)
    """
    fields = event_fields(value)
    if fields is not None:
        return {name: as_json(part) for name, part in fields.items()}
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (datetime.date, datetime.timedelta, Decimal)):
        return time_text(value)
    if isinstance(value, dict):
        return {str(key): as_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [as_json(part) for part in value]
    return repr(value)


def versioned(document: dict[str, Any], *, indent: int | None = None) -> str:
    """The text of a document.

    >>> versioned({"verb": "audit"})
    '{"pellucid": 1, "verb": "audit"}'
    """
    return json.dumps({"pellucid": VERSION, **document}, indent=indent, ensure_ascii=False, allow_nan=False)


# A counterexample as a table for a terminal: one column for each step, only what changed.
#
# ``-`` is silence; a queue is shown where its contents change; a record that is too long for a cell has a row for each
# field.  A table that is too wide continues below, so nothing is cut off but very long events.

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
    """Records that are too long for a cell get a row for each field; fields that are empty in every step are listed
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
