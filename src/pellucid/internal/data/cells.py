"""How a number or a truth value is spelled in a cell of text: one grammar for every engine.

============  ==========================================================================================================
``int``       digits ``0``-``9`` with an optional sign: ``7``, ``+7``, ``-0``, ``007``; within 64 bits
``float``     digits with an optional sign, point and exponent: ``1``, ``1.``, ``.5``, ``-1.5e3``; what is too large is
an
              infinity; ``inf`` and ``infinity`` in any case, with an optional sign; ``nan``, a value if one
              says so
``int|None``  also a whole number with a point, ``3.0``, up to 2**53: so programs write ints with holes in between
``bool``      ``true``, ``True``, ``TRUE``, ``1``; ``false``, ``False``, ``FALSE``, ``0``
============  ==========================================================================================================

Blanks and tabs around it do not count.  Nothing else is a number: no ``0x10``, ``1_000``, ``1e3`` (as an int), digits
of other scripts. JSON has a grammar of its own, in which an int has neither point nor exponent.  The patterns mean the
same in Python, in Java (Spark) and in RE2 (Arrow).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from pellucid.errors import UsageError, nearest, option
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
TRUE, FALSE = ("true", "True", "TRUE", "1"), ("false", "False", "FALSE", "0")
INT_CELL = r"[ \t]*[+-]?[0-9]+[ \t]*"
WHOLE_CELL = r"[ \t]*[+-]?[0-9]+\.0*[ \t]*"
FLOAT_CELL = (
    r"[ \t]*[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?|[nN][aA][nN])[ \t]*"
)
_INT, _WHOLE, _FLOAT = re.compile(INT_CELL), re.compile(WHOLE_CELL), re.compile(FLOAT_CELL)
EXACT = 2**53  # up to here every whole number is a double
_BOOLS = dict.fromkeys(TRUE, True) | dict.fromkeys(FALSE, False)
_DIGITS = 19  # of the largest int


def int_of(text: str) -> int:
    """The int that a cell spells; a ``ValueError`` says what is wrong.

    >>> int_of(" +7 "), int_of("-0"), int_of("007")
    (7, 0, 7)
    >>> int_of("0x10")
    Traceback (most recent call last):
    ...
    ValueError: expected int, found '0x10'
    """
    if not _INT.fullmatch(text):
        raise ValueError(f"expected int, found {shorten(text)}")
    bare = text.strip(BLANKS)
    digits = bare.lstrip("+-").lstrip("0")
    # Python refuses to convert thousands of digits, be they zeros.
    value = int(f"{bare[0] if bare[0] == '-' else ''}{digits or 0}") if len(digits) <= _DIGITS else None
    if value is None or not fits_int(value):
        shown = bare if len(bare) <= 40 else bare[:39] + "…"
        raise ValueError(f"{shown} does not fit in 64 bits: make the source float or str")
    return value


def whole_of(text: str) -> int:
    """The int of a cell that may also be empty: there a whole number may have a point.

    >>> whole_of("7"), whole_of(" -3.0"), whole_of("5.")
    (7, -3, 5)
    >>> whole_of("9007199254740993.0")
    Traceback (most recent call last):
    ...
    ValueError: 9007199254740993.0 has a point, and is beyond 2**53, from where on doubles skip whole numbers: write it
    without the point
    """
    if not _WHOLE.fullmatch(text):
        return int_of(text)
    bare = text.strip(BLANKS)
    value = int_of(bare.partition(".")[0])
    if abs(value) > EXACT:
        raise ValueError(
            f"{shorten(bare)[1:-1]} has a point, and is beyond 2**53, from where on doubles skip whole numbers: write "
            "it without the point"
        )
    return value


def float_of(text: str) -> float:
    """The float that a cell spells.

    >>> float_of("1."), float_of(".5"), float_of("-1e999"), float_of("Infinity")
    (1.0, 0.5, -inf, inf)
    """
    if not _FLOAT.fullmatch(text):
        raise ValueError(f"expected float, found {shorten(text)}")
    return float(text)


def bool_of(text: str) -> bool:
    """The truth value that a cell spells.

    >>> bool_of(" TRUE"), bool_of("0")
    (True, False)
    """
    bare = text.strip(BLANKS)
    if bare not in _BOOLS:
        raise ValueError(f"expected bool (true or false), found {shorten(text)}")
    return _BOOLS[bare]


# Words for nothing in CSV files: ``--null NA``, ``nulls=["NA", "-999"]``.
#
# In a column that is declared as ``T | None`` a cell that is such a word is ``None``, exactly as an empty one is; in
# quotes it is a text, as an empty text in quotes is.  In all other columns a word is what it was without being named: a
# text, or what is refused where a number is declared.


@dataclass(frozen=True)
class Missing:
    """The words for nothing, and the columns in which they are that."""

    words: tuple[str, ...] = ()
    columns: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.words and self.columns)


NEVER = Missing()


def said_nulls(given: Any) -> tuple[str, ...]:
    """The words for nothing, as a user says them: one, or several.

    >>> said_nulls("NA"), said_nulls(["NA", "-999", "NA"]), said_nulls(None)
    (('NA',), ('NA', '-999'), ())
    >>> said_nulls([None])
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: nulls=: expected words for nothing, as in nulls=['NA', '-999'], found [None]
    """
    words = () if given is None else (given,) if isinstance(given, str) else given
    if not isinstance(words, (list, tuple, set, frozenset)) or not all(isinstance(word, str) for word in words):
        example = option("null", ["NA", "-999"])
        raise UsageError(f"{option('null')}: expected words for nothing, as in {example}, found {shorten(given)}")
    for word in words:
        if not word:
            raise UsageError(f"{option('null')}: an empty cell is None anyway: leave the empty word out")
        if re.search('["\r\n]', word):
            raise UsageError(
                f"{option('null')}: {word!r} is no cell without quotes: a word for nothing has no quote and no line end"
            )
    return tuple(dict.fromkeys(sorted(words) if isinstance(words, (set, frozenset)) else words))


def missing_in(words: Sequence[str], columns: Iterable[tuple[str, Type]]) -> Missing:
    """In which of these columns, with what they are declared as, words are nothing.

    >>> from pellucid.internal.expr.types import INT
    >>> sorted(missing_in(["NA"], [("x", INT), ("y", OptionalType(INT))]).columns)
    ['y']
    """
    return Missing(tuple(words), frozenset(name for name, t in columns if isinstance(t, OptionalType)))


def check_nulls(words: Sequence[str], columns: Iterable[tuple[str, Type]], graph: str, *, text: bool) -> None:
    """Refuse words that would never be looked for: no column may be missing, or nothing is read from CSV files.

    >>> from pellucid.internal.expr.types import INT
    >>> check_nulls(["NA"], [("x", INT)], "p", text=True)
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: nulls=['NA']: is for columns that are declared as T | None, and p reads none: its
    columns are x: int; declare one as int | None
    """
    if not words:
        return
    said, known = option("null", list(words)), list(columns)
    if not any(isinstance(t, OptionalType) for _, t in known):
        listing = ", ".join(f"{name}: {t}" for name, t in known[:12]) + (", …" if len(known) > 12 else "")
        raise UsageError(
            f"{said}: is for columns that are declared as T | None, and {graph} reads none: its columns are {listing}; "
            f"declare one as {known[0][1]} | None"
        )
    if not text:
        raise UsageError(
            f"{said}: is for CSV files, in which nothing has many names: other formats have a null of their own; leave "
            "it out"
        )


def quoted_cells(row: str, delimiter: str) -> list[bool]:
    """Which cells of a row of strict CSV stand in quotes.

    >>> quoted_cells('NA,"NA",,"a ""b"",c"', ",")
    [False, True, False, True]
    """
    part = re.escape(delimiter)
    return [found[1] is not None for found in re.finditer(rf'(?:^|{part})(?:("(?:[^"]|"")*")|[^{part}]*)', row)]


# Times and decimals as texts: how a cell spells one, and how it is written; without any library for columns.


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


# Times as texts in a form of their own: ``--time-format "when=%d/%m/%Y %H:%M"``.
#
# A form means what Python's ``datetime.strptime`` reads by it.  It must say the whole time (year, month and day), a
# time
# zone (``%z``) just where an instant is declared, and nothing that a locale decides alone (``%c``, ``%x``, ``%X``).

_PART = re.compile("%(.?)", re.DOTALL)
_KNOWN = "YymdbBaAjHIMSfpz%"
_CLOCK_TIMES = "HIMSfp"
# What ISO 8601 says in this place, and what of a text is it; texts with fewer digits are read one by one.
_DIGITS_TIMES = {"Y": r"(\d{4})", "m": r"(\d\d)", "d": r"(\d\d)", "H": r"(\d\d)", "M": r"(\d\d)", "S": r"(\d\d)"}


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
    if t == DATE and any(part in _CLOCK_TIMES for part in parts):
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
        if part not in _DIGITS_TIMES:
            return None
        pattern += _DIGITS_TIMES[part]
        places[part] = f"\\{len(places) + 1}"
    if "%%" in form or not {"Y", "m", "d"} <= {*places}:
        return None
    day = f"{places['Y']}-{places['m']}-{places['d']}"
    clock = ":".join(places.get(part, "00") for part in "HMS")
    return f"^{pattern}$", day if t == DATE else f"{day}T{clock}"
