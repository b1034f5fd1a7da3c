"""Times as texts in a form of their own: ``--time-format "when=%d/%m/%Y %H:%M"``.

A form means what Python's ``datetime.strptime`` reads by it.  It must say the whole time (year, month and day), a time
zone (``%z``) just where an instant is declared, and nothing that a locale decides alone (``%c``, ``%x``, ``%X``).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from pellucid.errors import UsageError, nearest, option
from pellucid.internal.data.bind import shorten
from pellucid.internal.data.spelled import inner_type
from pellucid.internal.expr.types import DATE, DATETIME, INSTANT, TimeType, Type

_PART = re.compile("%(.?)", re.DOTALL)
_KNOWN = "YymdbBaAjHIMSfpz%"
_CLOCK = "HIMSfp"
# What ISO 8601 says in this place, and what of a text is it; texts with fewer digits are read one by one.
_DIGITS = {"Y": r"(\d{4})", "m": r"(\d\d)", "d": r"(\d\d)", "H": r"(\d\d)", "M": r"(\d\d)", "S": r"(\d\d)"}


def said_formats(given: Any, *, who: str = "time_format=") -> dict[str, str]:
    """The forms by column, as a user says them.

    >>> said_formats({"when": "%d/%m/%Y"}), said_formats(None)
    ({'when': '%d/%m/%Y'}, {})
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(v, str) and isinstance(k, str) for k, v in given.items()):
        raise UsageError(
            f"{who}: expected the form of each column, as in {{'when': '%d/%m/%Y %H:%M'}}, found {shorten(given)}"
        )
    return dict(given)


def check_formats(formats: Mapping[str, str], columns: Iterable[tuple[str, Type]], graph: str) -> None:
    """Refuse a form of a column that no source reads as a time, and one that does not say the whole time.

    >>> check_formats({"when": "%H:%M"}, [("when", DATETIME)], "p")
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: time_format={'when': '%H:%M'}: says no year, month and day: a time without them would be
    a guess
    """
    read = {name: inner_type(t) for name, t in columns}
    times = [name for name, t in read.items() if t in (DATETIME, INSTANT, DATE)]
    for column, form in formats.items():
        if column not in times:
            have = f"it reads {', '.join(times)} as times" if times else "it reads no times"
            raise UsageError(
                f"{_said(column, form)}: {graph} reads no column {column!r} as a time: {have}"
                f"{nearest(column, times)}; declare the field as datetime or date"
            )
        trouble = _trouble(read[column], form)
        if trouble:
            raise UsageError(f"{_said(column, form)}: {trouble}")


def _said(column: str, form: str) -> str:
    from pellucid.errors import listener

    if listener() == "Python":
        return f"time_format={ {column: form}!r}"
    return option("time_format", f"{column}={form}")


def _trouble(t: Type, form: str) -> str | None:
    parts = _PART.findall(form)
    strange = next((part for part in parts if part not in _KNOWN or not part), None)
    if strange is not None:
        return f"%{strange} is not among %{' %'.join(_KNOWN)}"
    twice = next((part for i, part in enumerate(parts) if part in parts[:i] and part != "%"), None)
    if twice is not None:
        return f"says %{twice} twice"
    day = ("d" in parts and {"m", "b", "B"} & {*parts}) or "j" in parts
    if not {"Y", "y"} & {*parts} or not day:
        return "says no year, month and day: a time without them would be a guess"
    if "I" in parts and "p" not in parts:
        return "%I needs %p, which says whether it is before noon"
    if t == DATE and any(part in _CLOCK for part in parts):
        return "says a time of the day, and the field is a date: declare it as datetime"
    if t == INSTANT and "z" not in parts:
        return "says no time zone, and the field is a datetime with one: add %z, or declare it as datetime"
    if t != INSTANT and "z" in parts:
        return f"says a time zone, and the field is a {t}: declare it as Annotated[datetime, UTC]"
    return None


def time_of(t: TimeType, text: str, form: str) -> dt.datetime | dt.date | None:
    """The time that a text spells in a form; None if it spells none.

    >>> time_of(DATETIME, "31/12/2013 05:00", "%d/%m/%Y %H:%M"), time_of(DATE, "31/02/2013", "%d/%m/%Y")
    (datetime.datetime(2013, 12, 31, 5, 0), None)
    """
    if any(c.isdigit() and not c.isascii() for c in text):  # strptime takes digits of other scripts
        return None
    try:
        found = dt.datetime.strptime(text, form)
    except ValueError:
        return None
    return found.date() if t == DATE else found


@lru_cache(maxsize=256)
def to_iso(t: TimeType, form: str) -> tuple[str, str] | None:
    r"""A pattern for texts in a form, and what makes ISO 8601 of them; None where a form holds more than digits.

    >>> to_iso(DATETIME, "%d/%m/%Y %H:%M")
    ('^(\\d\\d)/(\\d\\d)/(\\d{4})\\ (\\d\\d):(\\d\\d)$', '\\3-\\2-\\1T\\4:\\5:00')
    """
    if t not in (DATETIME, DATE) or not form.isascii():
        return None
    pattern, places = "", dict[str, str]()
    for literal, part in re.findall(r"([^%]*)%(.)", form + "%%"):
        pattern += re.escape(literal)
        if part == "%":
            continue
        if part not in _DIGITS:
            return None
        pattern += _DIGITS[part]
        places[part] = f"\\{len(places) + 1}"
    if "%%" in form or not {"Y", "m", "d"} <= {*places}:
        return None
    day = f"{places['Y']}-{places['m']}-{places['d']}"
    clock = ":".join(places.get(part, "00") for part in "HMS")
    return f"^{pattern}$", day if t == DATE else f"{day}T{clock}"
