"""Times and decimals as columns: Arrow's, and those that a text spells, as whole numbers; exact or refused.

A time may be an Arrow timestamp, date or duration of any unit, or a text in ISO 8601 (what
``datetime.fromisoformat`` reads, with up to six digits of a second).  What has a finer part than a microsecond, a time
zone where none is declared or none where one is, or more places than the declared scale, is refused with its row.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pellucid.errors import DataError, option
from pellucid.internal.data.bind import Place
from pellucid.internal.data.cells import advice, duration_text, number_of, to_iso
from pellucid.internal.data.columns import Column, Strings
from pellucid.internal.expr.types import (
    DATE,
    DATETIME,
    FLOAT,
    INSTANT,
    INT,
    STR,
    TIMEDELTA,
    DecimalType,
    EnumType,
    ListType,
    OptionalType,
    RecordType,
    TimeType,
    TupleType,
    Type,
    conform,
)
from pellucid.internal.expr.types.rich import DAY, elements, is_nat

_TO_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def rich_column(t: TimeType | DecimalType, array: Any, column: str, place: Place, form: str | None = None) -> Any:
    """A column without nulls as the numbers of its leaf; ``form`` is that of times in texts, if it is not ISO 8601.

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
        return _spelled(t, array, column, place, form)
    if form is not None:
        raise DataError(
            f"{place.name}: column {column!r} holds {array.type}, and no texts: leave it out of {option('time_format')}"
        )
    if pa.types.is_dictionary(array.type):
        array = array.cast(bare)
    return (
        _decimals(t, array, column, place) if isinstance(t, DecimalType) else _times(t, array, column, place)
    )  # fmt: skip


def _wrong(t: Any, found: Any, column: str, place: Place, hint: str) -> DataError:
    return DataError(f"{place.name}: column {column!r} holds {found}: expected {t}; {hint}")


# ------------------------------------------------------------------ Arrow's own


def _times(t: TimeType, array: Any, column: str, place: Place) -> Any:
    found, kind = array.type, pa.types
    fits = {
        DATETIME: kind.is_timestamp(found) and found.tz is None,
        INSTANT: kind.is_timestamp(found) and found.tz is not None,
        DATE: kind.is_date(found),
        TIMEDELTA: kind.is_duration(found) or found == pa.month_day_nano_interval(),
    }[t]
    if not fits:
        hint = f"read it as {t}, or change the source's type"
        if kind.is_timestamp(found) and t in (DATETIME, INSTANT):
            declare = "Annotated[datetime, UTC]" if t == DATETIME else "datetime"
            hint = f"its times have {'a' if found.tz else 'no'} time zone: declare the field as {declare}"
        raise _wrong(t, found, column, place, hint)
    if t == DATE:
        return _limited(t, _days(array, column, place), column, place)
    if found == pa.month_day_nano_interval():
        return _intervals(array, column, place)
    values = _numpy(array.cast(pa.int64()) if kind.is_duration(found) else array.view(pa.int64()))
    if found.unit == "ns":
        return _limited(t, _whole_micros(values, array, column, place), column, place)
    times = _TO_MICROS[found.unit]
    most = (2**63 - 1) // times
    if times > 1 and len(values) and (values.max() > most or values.min() < -most):
        beyond = (values > most) | (values < -most)
        place.refuse_all(
            np.flatnonzero(beyond).tolist(),
            lambda i: f"column {column!r}: the time {values[i]} {found.unit} does not fit in 64 bits",
            column,
        )
        values = np.where(beyond, 0, values)
    return _limited(t, values * times, column, place)


def _refuse(bad: Any, array: Any, column: str, place: Place, why: str) -> None:
    if bad.any():
        place.refuse_all(np.flatnonzero(bad).tolist(), lambda i: f"column {column!r}: {array[i]} {why}", column)


def _whole_micros(nanos: Any, array: Any, column: str, place: Place) -> Any:
    why = "has nanoseconds, and a time has whole microseconds: round it first"
    _refuse(nanos % 1000 != 0, array, column, place, why)
    return nanos // 1000


def _days(array: Any, column: str, place: Place) -> Any:
    if pa.types.is_date64(array.type):
        millis = _numpy(array.view(pa.int64()))
        _refuse(millis % 86_400_000 != 0, array, column, place, "has a time of day: declare the field as datetime")
        return millis // 86_400_000
    return _numpy(array.view(pa.int32())).astype(np.int64)


_INTERVAL = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])


def _intervals(array: Any, column: str, place: Place) -> Any:
    """DuckDB's intervals: days of 24 hours, and nanoseconds."""
    parts = np.frombuffer(array.buffers()[1] or b"", dtype=_INTERVAL)[array.offset : array.offset + len(array)]
    days, micros = parts["days"].astype(np.int64), _whole_micros(parts["nanos"], array, column, place)
    _refuse(parts["months"] != 0, array, column, place, "has months, which are not all of one length: give it in days")
    # as floats, which do not wrap; what they lose is less than the 4,096 microseconds that are kept free
    beyond = np.abs(days * 86.4e9 + micros) > 2.0**63 - 2**12
    _refuse(beyond, array, column, place, "does not fit in 64 bits")
    return np.where(beyond, 0, days) * DAY + micros


def _limited(t: TimeType, values: Any, column: str, place: Place) -> Any:
    limit = t.limits()[0]
    if limit is not None and len(values) and (values.min() < limit[0] or values.max() > limit[1]):
        beyond = (values < limit[0]) | (values > limit[1])
        unit = "days" if t == DATE else "microseconds"
        place.refuse_all(
            np.flatnonzero(beyond).tolist(),
            lambda i: (
                f"column {column!r}: {values[i]:,} {unit} from 1970 is no {t}: its year is not between 1 and 9999"
            ),
            column,
        )
        values = np.where(beyond, 0, values)
    return values


def _decimals(t: DecimalType, array: Any, column: str, place: Place) -> Any:
    found, kind = array.type, pa.types
    whole = kind.is_integer(found) or kind.is_boolean(found)
    if not whole and not kind.is_decimal(found):
        hint = "cast it to a decimal first" if kind.is_floating(found) else f"read it as {t}"
        raise _wrong(t, found, column, place, hint)
    try:
        if whole:
            array = array.cast(pa.int64())
            array = array.cast(pa.decimal128(38, 0)) if len(array) else pa.array([], pa.decimal128(38, 0))
        scaled = array.cast(pa.decimal128(38, t.places))
    except pa.ArrowInvalid:
        values = array.to_pylist()
        wrong = {i: why for i, value in enumerate(values) if value is not None and (why := t.problem(value))}
        if not wrong:
            raise
        place.refuse_all(list(wrong), lambda i: f"column {column!r}: {wrong[i]}", column)
        zero = Decimal(0)
        scaled = pa.array([zero if i in wrong else value for i, value in enumerate(values)], array.type)
        scaled = scaled.cast(pa.decimal128(38, t.places))
    words = np.frombuffer(scaled.buffers()[1] or b"", dtype=np.int64)[
        2 * scaled.offset : 2 * (scaled.offset + len(scaled))
    ]
    low, high = words[0::2], words[1::2]
    beyond = high != (low >> 63)
    place.refuse_all(
        np.flatnonzero(beyond).tolist(),
        lambda i: f"column {column!r}: {array[i]} with {t.places} places does not fit in 64 bits",
        column,
    )
    return np.ascontiguousarray(low)


def _numpy(array: Any) -> Any:
    from pellucid.internal.data.arrow import numpy_of

    return numpy_of(array)


# ------------------------------------------------------------------ texts

_FAST = {
    DATETIME: r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?$",
    INSTANT: r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?Z$",
}


def _advised(t: TimeType | DecimalType, text: str, form: str | None) -> str:
    """What to do about a text that spells no time or decimal; one with digits may spell a time in another way."""
    if form is None and t in (DATE, DATETIME, INSTANT) and re.match(r"(?!\d{4}-\d\d-\d\d)\D{0,5}\d", text.strip()):
        return f"correct the value, or tell its form, such as %d/%m/%Y, with {option('time_format')}"
    return advice(text, t)


def _spelled(t: TimeType | DecimalType, array: Any, column: str, place: Place, form: str | None) -> Any:
    if isinstance(t, TimeType) and t in _FAST and not pa.types.is_dictionary(array.type) and len(array) > 1000:
        fast = _by_arrow(t, array if form is None else _as_iso(t, array, form))
        if fast is not None:
            return fast
    if not pa.types.is_dictionary(array.type):
        array = array.cast(pa.string()).dictionary_encode()
    codes = _numpy(array.indices.fill_null(0)).astype(np.int64, copy=False)
    numbers: list[int] = []
    bad: dict[int, str] = {}
    for code, text in enumerate(array.dictionary.to_pylist()):
        try:
            numbers.append(number_of(t, text, form))
        except ValueError as error:
            bad[code] = str(error)
            numbers.append(0)
    if bad and len(codes):
        place.refuse_all(
            np.flatnonzero(np.isin(codes, list(bad))).tolist(),
            lambda i: (
                f"column {column!r}: {bad[int(codes[i])]}; {_advised(t, array.dictionary[int(codes[i])].as_py(), form)}"
            ),
            column,
        )
    return np.array(numbers or [0], dtype=np.int64)[codes]


def _as_iso(t: TimeType, array: Any, form: str) -> Any:
    """Texts in a form as those of ISO 8601, where each has all its digits; None otherwise."""
    made = to_iso(t, form)
    if made is None or not pc.all(pc.match_substring_regex(array, made[0])).as_py():
        return None
    return pc.replace_substring_regex(array, *made)


def _by_arrow(t: TimeType, array: Any) -> Any:
    """The numbers by Arrow's parser, where every text has the common form; it then means what Python's does."""
    if array is None:
        return None
    if not pc.all(pc.match_substring_regex(array, _FAST[t])).as_py():
        return None
    if t == INSTANT:
        array = pc.replace_substring(array, "Z", "")
    try:
        values = _numpy(array.cast(pa.timestamp("us")).view(pa.int64()))
    except pa.ArrowInvalid:
        return None
    least = t.limits()[0]
    return values if least is not None and values.min() >= least[0] else None  # Arrow has a year 0


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
    if kind.is_timestamp(t) and t.tz is not None:
        array = array.cast(pa.timestamp(t.unit, "UTC"))
    return pa.array([None if v is None else _text_of(v) for v in array.to_pylist()], pa.string())


_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FIRST, _END = -62_135_596_800, 253_402_300_800  # in seconds from 1970: where the year 1 begins, and 10000
_NO_YEAR = "a time whose year is not between 1 and 9999"
_LONGEST = 86_399_999_913_600  # the seconds of a timedelta


def refuse_odd_times(array: Any, column: str) -> None:
    """Refuse times of a column that is not declared, if files of text have no form for them.

    >>> refuse_odd_times(pa.array([2**40], pa.timestamp("s")), "at")
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: column 'at' has a time whose year is not between 1 and 9999, for which text has no form:
    write .parquet or .arrow
    """
    kind, t = pa.types, array.type
    if not (kind.is_timestamp(t) or kind.is_date(t) or kind.is_duration(t)):
        return
    numbers = array.view(pa.int32()).cast(pa.int64()) if kind.is_date32(t) else array.view(pa.int64())
    found = pc.min_max(numbers).as_py()
    if found["min"] is None:
        return
    first, end = (-_LONGEST, _LONGEST) if kind.is_duration(t) else (_FIRST, _END)
    if kind.is_date32(t):
        first, end = first // 86_400, end // 86_400
    else:
        unit = _A_SECOND["ms" if kind.is_date64(t) else t.unit]
        first, end = first * unit, end * unit
    odd = None
    if found["min"] < first or found["max"] >= end:
        odd = "a span of more than 999,999,999 days" if kind.is_duration(t) else _NO_YEAR
    elif kind.is_duration(t) and t.unit == "ns" and np.any(np.asarray(numbers.drop_null()) % 1000):
        odd = "a span with nanoseconds"
    elif kind.is_timestamp(t) and t.tz is not None:
        try:
            array.slice(0, 1).cast(pa.string())
        except pa.ArrowInvalid:
            odd = f"the time zone {t.tz!r}"
    if odd is not None:
        raise DataError(f"column {column!r} has {odd}, for which text has no form: write .parquet or .arrow")


def decimal_texts(array: Any) -> Any:
    """An Arrow array of decimals as texts with all their places; Arrow writes small ones as 1E-7.

    >>> from decimal import Decimal
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


# Lists as columns: Arrow's lists as the texts that say them (`expr.types.ListType`), and back.
#
# The elements of all rows are one array, so each leaf of theirs is read as a column is, with the same refusals; a
# message names the row and the element.


def is_list(t: Any) -> bool:
    """Whether an Arrow type is one of lists."""
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    views = [getattr(pa.types, name) for name in ("is_list_view", "is_large_list_view") if hasattr(pa.types, name)]
    return any(kind(t) for kind in (*kinds, *views))


@dataclass(frozen=True)
class _Inside(Place):
    """The place of elements: what is refused of one is refused of its row."""

    whole: Place | None = None
    of: Callable[[int], tuple[int, int]] = lambda i: (i, 0)  # the row of an element, and its place there
    column: str | None = None

    def refuse(self, i: int, why: str, column: str | None = None) -> None:
        assert self.whole is not None
        row, at = self.of(i)
        self.whole.refuse(row, f"element {at}: {why}", self.column)


def list_column(t: ListType, array: Any, column: str, place: Place, nan: bool = False) -> Strings:
    """An Arrow array of lists as a column of texts; where a row is null, the text is that of the empty list.

    >>> place = Place("events", lambda i: f"row {i + 1}")
    >>> found = list_column(ListType(INT), pa.array([[1, 2], [], [1, 2]]), "x", place)
    >>> [found.values[c] for c in found.codes]
    ['1,2', '', '1,2']
    >>> list_column(ListType(INT), pa.array([[1], [2, None]]), "x", place)
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: events: row 2: element 1: column 'x' is null: expected int; fill it, remove the row, or
    declare it as int | None
    """
    from pellucid.internal.data.arrow import array_of, numpy_of

    if not is_list(array.type):
        raise DataError(f"{place.name}: column {column!r} holds {array.type}: expected {t}; read it as a list")
    # Not by a cast: Arrow's own of a view reads elements that are not there. What a null has of its own is in neither.
    sizes = numpy_of(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
    ends = np.cumsum(sizes)

    def of(i: int) -> tuple[int, int]:
        row = int(np.searchsorted(ends, i, side="right"))
        return row, i - int(ends[row] - sizes[row])

    inside = _Inside(place.name, lambda i: place.row(of(i)[0]), whole=place, of=of, column=column)
    parts = [fragments(kind, c) for kind, c in _leaves(t.item, array.flatten(), column, inside, nan)]
    comma = pa.scalar(",", pa.large_string())
    one = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, comma)
    offsets = array_of(INT, np.concatenate([[0], ends])).cast(pa.int32())
    coded = pc.binary_join(pa.ListArray.from_arrays(offsets, one), comma).dictionary_encode()
    return Strings(numpy_of(coded.indices).astype(np.int64), coded.dictionary.to_pylist() or [""])


def _leaves(t: Type, array: Any, column: str, place: Place, nan: bool) -> Iterator[tuple[Type, Column]]:
    """The leaf columns of elements, with their types."""
    from pellucid.internal.data.arrow import column_leaves, nested_type, numpy_of, struct_fields

    fields = struct_fields(t)
    if fields is None:
        found, _ = column_leaves(t, array, column=column, place=place, nan=nan)
        yield from zip([kind for _, kind in t.leaves()], found, strict=True)
        return
    if not pa.types.is_struct(array.type):
        if not pa.types.is_null(array.type):
            raise DataError(
                f"{place.name}: the elements of column {column!r} hold {array.type}: expected {t}, a struct"
            )
        array = array.cast(nested_type(t))
    if array.null_count and not getattr(t, "absent", False):
        why = f"column {column!r} is null: expected {t}; fill it, or remove the element"
        place.refuse_all(np.flatnonzero(~numpy_of(array.is_valid())).tolist(), lambda _: why)
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    parts = array.flatten()
    for name, inner in fields:
        if name not in names:
            raise DataError(
                f"{place.name}: the elements of column {column!r} have no field {name!r}: they have {', '.join(names)}"
            )
        yield from _leaves(inner, parts[names.index(name)], f"{column}.{name}", place, nan)


def fragments(kind: Type, column: Column) -> Any:
    """The values of a leaf as the pieces of a list's text."""
    from pellucid.internal.data.arrow import array_of

    if isinstance(column, Strings):
        return pc.take(_large([json.dumps(v, ensure_ascii=False) for v in column.values]), array_of(INT, column.codes))
    if isinstance(kind, EnumType):
        names = _large([json.dumps(m.name, ensure_ascii=False) for m in kind.members])
        return pc.take(names, array_of(INT, column))
    if kind == FLOAT:
        return _large([json.dumps(v) for v in np.asarray(column, dtype=np.float64).tolist()])
    return array_of(kind, column).cast(pa.large_string())


def _large(texts: list[str]) -> Any:
    from pellucid.internal.data.arrow import array_of

    return array_of(STR, texts).cast(pa.large_string())


def list_array(t: ListType, texts: Any) -> Any:
    """Texts that say lists, as an Arrow array of lists.

    >>> list_array(ListType(INT), pa.array(["1,2", "", "1,2"])).to_pylist()
    [[1, 2], [], [1, 2]]
    """
    from pellucid.internal.data.arrow import array_of, event_arrays, nested_type

    coded = texts.dictionary_encode()
    flat: list[Any] = []
    ends = [0]
    for text in coded.dictionary.to_pylist():
        flat += t.rows(text)
        ends.append(len(flat) // len(t.kinds))
    leaves = [array_of(kind, flat[j :: len(t.kinds)]) for j, kind in enumerate(t.kinds)]
    made = event_arrays(TupleType((t.item,)), "x", leaves)[1][0]
    lists = pa.ListArray.from_arrays(array_of(INT, ends).cast(pa.int32()), made, type=nested_type(t))
    return pc.take(lists, coded.indices)


def plain_lists(t: Type, value: Any) -> Any:
    """An element as other libraries have it: a record as a dict, an enum's member by its name.

    >>> plain_lists(ListType(TupleType((INT, STR))), [(1, "a")])
    [{'_0': 1, '_1': 'a'}]
    """
    from pellucid.internal.data.arrow import struct_fields

    if value is None:
        return None
    if isinstance(t, ListType):
        return [plain_lists(t.item, item) for item in value]
    if isinstance(t, EnumType):
        return value.name
    inner = getattr(t, "inner", None)
    if inner is not None:
        return plain_lists(inner, value)
    fields = struct_fields(t)
    if fields is None:
        return value
    parts = [getattr(value, name) for name, _ in fields] if isinstance(t, RecordType) else value
    return {name: plain_lists(u, part) for (name, u), part in zip(fields, parts, strict=True)}


def from_objects(t: Type, value: Any) -> Any:
    """A value of a list in a pandas column, as Arrow takes it: exactly of this type, or a `ValueError`.

    In pandas a NaN inside a list means that there is nothing, and ints with holes are floats.

    >>> from_objects(ListType(OptionalType(INT)), [1.0, float("nan")])
    [1, None]
    """
    from pellucid.internal.data.arrow import EXACT, no_whole, struct_fields

    if isinstance(t, OptionalType):
        if value is None or is_nat(value) or (isinstance(value, float) and value != value):
            return None
        if t.inner == INT and isinstance(value, float):
            if not value.is_integer() or abs(value) > EXACT["double"]:
                raise ValueError(no_whole(value, EXACT["double"]))
            value = int(value)
        return from_objects(t.inner, value)
    if isinstance(t, ListType):
        values = elements(value)
        if values is None:
            raise ValueError(t.problem(value))
        return [_element(t.item, i, item) for i, item in enumerate(values)]
    fields = struct_fields(t)
    if fields is not None and isinstance(value, Mapping):
        return {name: from_objects(inner, value.get(name)) for name, inner in fields}
    if isinstance(t, EnumType) and not isinstance(value, t.cls):
        value = next((m for m in t.members if value in (m.name, m.value)), value)
    return plain_lists(t, conform(t, value))


def _element(t: Type, i: int, value: Any) -> Any:
    try:
        return from_objects(t, value)
    except ValueError as error:
        raise ValueError(f"element {i}: {error}") from None
