"""Times and decimals as texts: how a cell spells one, and how it is written; without any library for columns."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pellucid.errors import option
from pellucid.internal.data.bind import shorten
from pellucid.internal.expr.types import (
    DATE,
    DATETIME,
    INSTANT,
    TIMEDELTA,
    DecimalType,
    OptionalType,
    TimeType,
    Type,
    fits_int,
)

BLANKS = " \t"


def inner_type(t: Type) -> Type:
    """What a column holds where it is not null."""
    return t.inner if isinstance(t, OptionalType) else t


def is_spelled(t: Type) -> bool:
    """Whether a file of text holds such values as texts: times and decimals."""
    return isinstance(inner_type(t), (TimeType, DecimalType))


NOTHING = frozenset(
    ("NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "-", "?", "\\N")
)  # other programs' words for it


def advice(text: str, t: Type) -> str:
    """What to do about a text that is not what it should be.

    >>> advice("six", DATE)
    'correct the value or remove the row'
    >>> advice("NA", DATE)
    "if 'NA' says that nothing is there: declare date | None, and say nulls=['NA'] of the CSV file (in JSON write null)"
    """
    if text.strip(BLANKS) not in NOTHING:
        return "correct the value or remove the row"
    declare = "" if isinstance(t, OptionalType) else f"declare {t} | None, and "
    said = f"say {option('null', [text.strip(BLANKS)])} of the CSV file (in JSON write null)"
    return f"if {text!r} says that nothing is there: {declare}{said}"


def number_of(t: TimeType | DecimalType, text: str, form: str | None = None) -> int:
    """The number of the leaf of a time or a decimal that a text spells; a ``ValueError`` says what is wrong.  ``form``
    is that of a time, if it is not ISO 8601.

    >>> number_of(DATE, "1970-01-02"), number_of(DecimalType(2), "-1.5"), number_of(TIMEDELTA, "PT1M0.5S")
    (1, -150, 60500000)
    """
    bare = text.strip(" \t")
    if form is not None and isinstance(t, TimeType):
        from pellucid.internal.data.formats.times import time_of

        value: Any = time_of(t, bare, form)
    else:
        value = _SPELLED[t](bare) if isinstance(t, TimeType) else _decimal_of(bare)
    if value is None:
        example = f"such as {_EXAMPLES[t] if isinstance(t, TimeType) else '12.50'}" if form is None else f"as {form}"
        raise ValueError(f"expected {t} ({example}), found {shorten(text)}")
    trouble = t.problem(value)
    if trouble:
        raise ValueError(trouble)
    number = t.flatten(t.plain(value))[0]
    if not fits_int(number):
        raise ValueError(f"{shorten(text)} does not fit in 64 bits")
    return int(number)


def _datetime_of(text: str) -> dt.datetime | None:
    fraction = re.search(r"[.,](\d{7,})", text)
    if fraction is not None:
        if fraction[1][6:].strip("0"):
            raise ValueError(f"{text} has a finer part than a microsecond: round it first")
        text = text.replace(fraction[1], fraction[1][:6])
    try:
        return dt.datetime.fromisoformat(text) if text[:1].isdigit() and text.isascii() else None
    except ValueError:
        return None


def _date_of(text: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text) if text.isascii() else None
    except ValueError:
        return None


_DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+)(?:\.(?P<part>\d{1,6}))?S)?)?",
    re.ASCII,
)
_CLOCK = re.compile(
    r"(?:(?P<days>-?\d+) days?,? )?(?P<sign>[+-]?)(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d)"
    r"(?:\.(?P<part>\d{1,6}))?",
    re.ASCII,
)


def _timedelta_of(text: str) -> dt.timedelta | None:
    found = _DURATION.fullmatch(text)
    if found is not None and not any(found[name] for name in ("days", "hours", "minutes", "seconds")):
        return None
    form = found or _CLOCK.fullmatch(text)
    if form is None:
        return None
    try:
        clock = dt.timedelta(
            hours=int(form["hours"] or 0),
            minutes=int(form["minutes"] or 0),
            seconds=int(form["seconds"] or 0),
            microseconds=int((form["part"] or "").ljust(6, "0")),
        )
        days = dt.timedelta(days=int(form["days"] or 0))
        if found is not None:
            return -(days + clock) if form["sign"] == "-" else days + clock
        return days + (-clock if form["sign"] == "-" else clock)
    except OverflowError:
        raise ValueError(f"{text} does not fit in 64 bits of microseconds") from None


def _decimal_of(text: str) -> Decimal | None:
    return Decimal(text) if re.fullmatch(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,2})?", text, re.ASCII) else None


_SPELLED: dict[TimeType, Callable[[str], Any]] = {
    DATETIME: _datetime_of,
    INSTANT: _datetime_of,
    DATE: _date_of,
    TIMEDELTA: _timedelta_of,
}
_EXAMPLES = {
    DATETIME: "2013-01-01T05:00:00",
    INSTANT: "2013-01-01T05:00:00Z",
    DATE: "2013-01-01",
    TIMEDELTA: "PT1H30M",
}


def duration_text(value: dt.timedelta) -> str:
    """A timedelta in ISO 8601.

    >>> duration_text(dt.timedelta(days=1, minutes=90)), duration_text(-dt.timedelta(microseconds=1))
    ('P1DT1H30M', '-PT0.000001S')
    """
    whole = abs(value // dt.timedelta(microseconds=1))
    seconds, part = divmod(whole, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    fraction = f".{part:06d}".rstrip("0") if part else ""
    clock = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    if seconds or part or (not days and not clock):
        clock += f"{seconds}{fraction}S"
    return (
        ("-" if value < dt.timedelta(0) else "") + "P" + (f"{days}D" if days else "") + (f"T{clock}" if clock else "")
    )
