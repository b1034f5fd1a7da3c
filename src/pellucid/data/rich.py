"""Times and decimals as columns: Arrow's, and those that a text spells, as whole numbers; exact or refused.

A time may be an Arrow timestamp, date or duration of any unit, or a text in ISO 8601 (what
``datetime.fromisoformat`` reads, with up to six digits of a second).  What has a finer part than a microsecond, a time
zone where none is declared or none where one is, or more places than the declared scale, is refused with its row.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pellucid.data.bind import Place, shorten
from pellucid.errors import DataError
from pellucid.expr.types import DATE, DATETIME, INSTANT, TIMEDELTA, DecimalType, OptionalType, TimeType, Type, fits_int

_TO_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def rich_column(t: TimeType | DecimalType, array: Any, column: str, place: Place) -> Any:
    """A column without nulls as the numbers of its leaf.

    >>> place = Place("events", lambda i: f"row {i + 1}")
    >>> rich_column(DATETIME, pa.array(["2013-01-01T05:00"]), "at", place)
    array([1357016400000000])
    >>> rich_column(DATETIME, pa.array(["today"]), "at", place)
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: events: row 1: column 'at': expected datetime (such as 2013-01-01T05:00:00), found
    'today'; correct the value or remove the row
    """
    bare = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if pa.types.is_string(bare) or pa.types.is_large_string(bare) or pa.types.is_string_view(bare):
        return _spelled(t, array, column, place)
    if pa.types.is_dictionary(array.type):
        array = array.cast(bare)
    return (
        _decimals(t, array, column, place) if isinstance(t, DecimalType) else _times(t, array, column, place)
    )  # fmt: skip


def _wrong(t: Any, found: Any, column: str, place: Place, hint: str) -> DataError:
    return DataError(f"{place.name}: column {column!r} holds {found}: expected {t}; {hint}")


def inner_type(t: Type) -> Type:
    """What a column holds where it is not null."""
    return t.inner if isinstance(t, OptionalType) else t


def is_spelled(t: Type) -> bool:
    """Whether a file of text holds such values as texts: times and decimals."""
    return isinstance(inner_type(t), (TimeType, DecimalType))


# ------------------------------------------------------------------ Arrow's own


def _times(t: TimeType, array: Any, column: str, place: Place) -> Any:
    found, kind = array.type, pa.types
    fits = {
        DATETIME: kind.is_timestamp(found) and found.tz is None,
        INSTANT: kind.is_timestamp(found) and found.tz is not None,
        DATE: kind.is_date(found),
        TIMEDELTA: kind.is_duration(found),
    }[t]
    if not fits:
        hint = f"read it as {t}, or change the source's type"
        if kind.is_timestamp(found) and t in (DATETIME, INSTANT):
            declare = "Annotated[datetime, UTC]" if t == DATETIME else "datetime"
            hint = f"its times have {'a' if found.tz else 'no'} time zone: declare the field as {declare}"
        raise _wrong(t, found, column, place, hint)
    if t == DATE:
        days = array.cast(pa.date32()).cast(pa.int32())
        return _limited(t, _numpy(days).astype(np.int64), column, place)
    values = _numpy(array.cast(pa.int64()) if kind.is_duration(found) else array.view(pa.int64()))
    if found.unit == "ns":
        fine = values % 1000 != 0
        if fine.any():
            i = int(np.argmax(fine))
            raise DataError(
                f"{place.at(i)}: column {column!r}: {array[i]} has nanoseconds, and a time has whole microseconds: "
                "round it first"
            )
        return _limited(t, values // 1000, column, place)
    times = _TO_MICROS[found.unit]
    most = (2**63 - 1) // times
    if times > 1 and len(values) and (values.max() > most or values.min() < -most):
        i = int(np.argmax((values > most) | (values < -most)))
        raise DataError(f"{place.at(i)}: column {column!r}: the time {values[i]} {found.unit} does not fit in 64 bits")
    return _limited(t, values * times, column, place)


def _limited(t: TimeType, values: Any, column: str, place: Place) -> Any:
    limit = t.limits()[0]
    if limit is not None and len(values) and (values.min() < limit[0] or values.max() > limit[1]):
        i = int(np.argmax((values < limit[0]) | (values > limit[1])))
        unit = "days" if t == DATE else "microseconds"
        raise DataError(
            f"{place.at(i)}: column {column!r}: {values[i]:,} {unit} from 1970 is no {t}: its year is not between 1 "
            "and 9999"
        )
    return values


def _decimals(t: DecimalType, array: Any, column: str, place: Place) -> Any:
    found, kind = array.type, pa.types
    if kind.is_integer(found) or kind.is_boolean(found):
        array = array.cast(pa.int64()).cast(pa.decimal128(38, 0)) if len(array) else pa.array([], pa.decimal128(38, 0))
    elif not kind.is_decimal(found):
        hint = "cast it to a decimal first" if kind.is_floating(found) else f"read it as {t}"
        raise _wrong(t, found, column, place, hint)
    try:
        scaled = array.cast(pa.decimal128(38, t.places))
    except pa.ArrowInvalid:
        for i, value in enumerate(array.to_pylist()):
            trouble = t.problem(value) if value is not None else None
            if trouble:
                raise DataError(f"{place.at(i)}: column {column!r}: {trouble}") from None
        raise
    words = np.frombuffer(scaled.buffers()[1] or b"", dtype=np.int64)[
        2 * scaled.offset : 2 * (scaled.offset + len(scaled))
    ]
    low, high = words[0::2], words[1::2]
    beyond = high != (low >> 63)
    if beyond.any():
        i = int(np.argmax(beyond))
        raise DataError(
            f"{place.at(i)}: column {column!r}: {array[i]} with {t.places} places does not fit in 64 bits"
        )  # fmt: skip
    return np.ascontiguousarray(low)


def _numpy(array: Any) -> Any:
    from pellucid.data.arrow import numpy_of

    return numpy_of(array)


# ------------------------------------------------------------------ texts

_FAST = {
    DATETIME: r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?$",
    INSTANT: r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?Z$",
}


def _spelled(t: TimeType | DecimalType, array: Any, column: str, place: Place) -> Any:
    if isinstance(t, TimeType) and t in _FAST and not pa.types.is_dictionary(array.type) and len(array) > 1000:
        fast = _by_arrow(t, array)
        if fast is not None:
            return fast
    if not pa.types.is_dictionary(array.type):
        array = array.cast(pa.string()).dictionary_encode()
    codes = _numpy(array.indices.fill_null(0)).astype(np.int64, copy=False)
    numbers: list[int] = []
    bad: dict[int, str] = {}
    for code, text in enumerate(array.dictionary.to_pylist()):
        try:
            numbers.append(number_of(t, text))
        except ValueError as error:
            bad[code] = str(error)
            numbers.append(0)
    if bad and len(codes):
        wrong = np.isin(codes, list(bad))
        if wrong.any():
            i = int(np.argmax(wrong))
            raise DataError(
                f"{place.at(i)}: column {column!r}: {bad[int(codes[i])]}; correct the value or remove the row"
            )
    return np.array(numbers or [0], dtype=np.int64)[codes]


def _by_arrow(t: TimeType, array: Any) -> Any:
    """The numbers by Arrow's parser, where every text has the common form; it then means what Python's does."""
    if not pc.all(pc.match_substring_regex(array, _FAST[t])).as_py():
        return None
    if t == INSTANT:
        array = pc.replace_substring(array, "Z", "")
    try:
        return _numpy(array.cast(pa.timestamp("us")).view(pa.int64()))
    except pa.ArrowInvalid:
        return None


def number_of(t: TimeType | DecimalType, text: str) -> int:
    """The number of the leaf of a time or a decimal that a text spells; a ``ValueError`` says what is wrong.

    >>> number_of(DATE, "1970-01-02"), number_of(DecimalType(2), "-1.5"), number_of(TIMEDELTA, "PT1M0.5S")
    (1, -150, 60500000)
    """
    bare = text.strip(" \t")
    value = _SPELLED[t](bare) if isinstance(t, TimeType) else _decimal_of(bare)
    if value is None:
        example = _EXAMPLES[t] if isinstance(t, TimeType) else "12.50"
        raise ValueError(f"expected {t} (such as {example}), found {shorten(text)}")
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


# ------------------------------------------------------------------ and back


def rich_type(t: TimeType | DecimalType) -> Any:
    """The Arrow type of a time or a decimal.

    >>> rich_type(INSTANT), rich_type(DecimalType(2))
    (TimestampType(timestamp[us, tz=UTC]), Decimal128Type(decimal128(19, 2)))
    """
    if isinstance(t, DecimalType):
        return pa.decimal128(19, t.places)
    return {
        DATETIME: pa.timestamp("us"),
        INSTANT: pa.timestamp("us", "UTC"),
        DATE: pa.date32(),
        TIMEDELTA: pa.duration("us"),
    }[t]


def rich_array(t: TimeType | DecimalType, numbers: Any) -> Any:
    """An Arrow array of int64 as the times or decimals that they are.

    >>> rich_array(DecimalType(2), pa.array([1250, -5])).to_pylist()
    [Decimal('12.50'), Decimal('-0.05')]
    """
    if isinstance(t, DecimalType):
        low = _numpy(numbers)
        words = np.empty((len(low), 2), dtype=np.int64)
        words[:, 0], words[:, 1] = low, low >> 63
        return pa.Array.from_buffers(rich_type(t), len(low), [None, pa.py_buffer(words)])
    if t == DATE:
        return numbers.cast(pa.int32()).view(pa.date32())
    return numbers.view(rich_type(t))


def spelled(array: Any) -> Any:
    """An Arrow array of times or decimals as the texts that files of text hold; any other as it is.

    >>> spelled(pa.array([dt.datetime(2013, 1, 1, 5)], pa.timestamp("us", "UTC"))).to_pylist()
    ['2013-01-01T05:00:00Z']
    """
    kind, t = pa.types, array.type
    if kind.is_decimal(t):
        return decimal_texts(array)
    if not (kind.is_timestamp(t) or kind.is_date(t) or kind.is_duration(t)):
        return array
    return pa.array([None if v is None else _text_of(v) for v in array.to_pylist()], pa.string())


def decimal_texts(array: Any) -> Any:
    """An Arrow array of decimals as texts with all their places; Arrow writes small ones as 1E-7.

    >>> decimal_texts(pa.array([Decimal("0.0000001"), None])).to_pylist()
    ['0.0000001', None]
    """
    if 0 <= array.type.scale <= 6:
        return array.cast(pa.string())
    return pa.array([None if v is None else f"{v:f}" for v in array.to_pylist()], pa.string())


def _text_of(value: Any) -> str:
    if isinstance(value, dt.timedelta):
        return duration_text(value)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat() + "Z"
    return str(value.isoformat())


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
