"""What every picture of a counterexample shows: a row for what is watched, a column for each step.

The text and the SVG both read this sheet, so they cannot disagree.  Steps are counted from 0, as in the messages of
steps that fail.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pellucid.internal.draw.labels import clean

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
