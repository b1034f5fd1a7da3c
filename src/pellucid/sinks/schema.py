"""Columns of Arrow as columns of a database, and the difference between two lists of columns in words.

A column may go into a column of the target only if every value arrives unchanged: ``bigint`` fits ``numeric``, but
``double precision`` does not fit ``real``, which would round in silence.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa


def refuse_doubled(names: list[str], *, case_counts: bool = True) -> None:
    """Two columns of one name cannot be told apart in a target.

    >>> refuse_doubled(["a", "A"])
    >>> refuse_doubled(["a", "A"], case_counts=False)
    Traceback (most recent call last):
    pellucid.errors.DataError: columns 'a', 'A' have one name in the target: rename one before the sink
    """
    folded = [name if case_counts else name.lower() for name in names]
    for name, count in Counter(folded).items():
        if count > 1:
            doubled = ", ".join(repr(given) for given, fold in zip(names, folded, strict=True) if fold == name)
            raise DataError(f"columns {doubled} have one name in the target: rename one before the sink")


def differences(there: pa.Schema, given: pa.Schema) -> str:
    """What differs between the target's columns and the batch's, in words; '' if nothing does.

    >>> import pyarrow as pa
    >>> differences(pa.schema({"a": pa.int64(), "b": pa.string()}), pa.schema({"b": pa.float64(), "c": pa.bool_()}))
    "column 'a' (int64) is missing, column 'b' is double instead of string, column 'c' (bool) is new"
    """
    found = []
    for field in there:
        if field.name not in given.names:
            found.append(f"column {field.name!r} ({field.type}) is missing")
        elif given.field(field.name).type != field.type:
            found.append(f"column {field.name!r} is {given.field(field.name).type} instead of {field.type}")
    found += [f"column {field.name!r} ({field.type}) is new" for field in given if field.name not in there.names]
    return ", ".join(found)


def postgres_type(name: str, kind: pa.DataType) -> tuple[str, frozenset[str]]:
    """The type of a new PostgreSQL column, and the types of an existing one that take every value unchanged.

    >>> import pyarrow as pa
    >>> postgres_type("sum", pa.int32())[0]
    'integer'
    """
    import pyarrow as pa

    t = pa.types
    if t.is_boolean(kind):
        return "boolean", frozenset({"boolean"})
    if t.is_int8(kind) or t.is_int16(kind):
        return "smallint", frozenset({"smallint", "integer", "bigint", "numeric"})
    if t.is_int32(kind):
        return "integer", frozenset({"integer", "bigint", "numeric"})
    if t.is_int64(kind):
        return "bigint", frozenset({"bigint", "numeric"})
    if t.is_float32(kind):
        return "real", frozenset({"real", "double precision"})
    if t.is_float64(kind):
        return "double precision", frozenset({"double precision"})
    if t.is_string(kind) or t.is_large_string(kind):
        return "text", frozenset({"text", "character varying"})
    if t.is_binary(kind) or t.is_large_binary(kind):
        return "bytea", frozenset({"bytea"})
    if t.is_date32(kind):
        return "date", frozenset({"date"})
    if t.is_timestamp(kind):
        name_ = "timestamp with time zone" if kind.tz else "timestamp without time zone"
        return name_, frozenset({name_})
    if t.is_duration(kind):
        return "interval", frozenset({"interval", "interval day to second"})
    if t.is_decimal(kind):
        exact = f"numeric({kind.precision},{kind.scale})"
        return exact, frozenset({exact, "numeric"})
    if t.is_struct(kind) or t.is_list(kind) or t.is_map(kind):
        return "jsonb", frozenset({"jsonb", "json"})
    raise DataError(
        f"column {name!r}: {kind} has no counterpart in PostgreSQL; cast it to another type before the sink"
    )


def postgres_takes(there: str, kind: pa.DataType, fits: frozenset[str]) -> bool:
    """Whether a column of the table takes such values unchanged, or PostgreSQL itself refuses those that it does not.

    A ``numeric`` with fewer places would round in silence; one with fewer digits before the point refuses.

    >>> import pyarrow as pa
    >>> postgres_takes("numeric(10,2)", pa.decimal128(19, 2), frozenset())
    True
    >>> postgres_takes("numeric(10,1)", pa.decimal128(19, 2), frozenset())
    False
    """
    import pyarrow as pa

    if there in fits:
        return True
    found = re.fullmatch(r"numeric\((\d+),(-?\d+)\)", there)
    return found is not None and pa.types.is_decimal(kind) and int(found[2]) >= kind.scale


def sqlite_type(name: str, kind: pa.DataType) -> str:
    """The type of a SQLite column; what SQLite has no type for (times, decimals, records) is exact text.

    >>> import pyarrow as pa
    >>> sqlite_type("at", pa.timestamp("us", tz="UTC")), sqlite_type("sum", pa.int64())
    ('TEXT', 'INTEGER')
    """
    import pyarrow as pa

    t = pa.types
    if t.is_boolean(kind) or t.is_integer(kind):
        return "INTEGER"
    if t.is_floating(kind):
        return "REAL"
    if t.is_binary(kind) or t.is_large_binary(kind):
        return "BLOB"
    if (
        t.is_string(kind)
        or t.is_large_string(kind)
        or t.is_date(kind)
        or t.is_time(kind)
        or t.is_timestamp(kind)
        or t.is_duration(kind)
        or t.is_decimal(kind)
        or t.is_struct(kind)
        or t.is_list(kind)
        or t.is_map(kind)
    ):
        return "TEXT"
    raise DataError(f"column {name!r}: {kind} has no counterpart in SQLite; cast it to another type before the sink")


def value_text(value: Any) -> str:
    """A time or a decimal as text: ISO 8601, and all places of a decimal; so texts of one column sort as their values
    do where these are times of day and year.

    >>> from datetime import UTC, datetime, timedelta
    >>> value_text(datetime(2013, 1, 1, 5, tzinfo=UTC)), value_text(timedelta(minutes=90)), value_text(Decimal("0E-8"))
    ('2013-01-01T05:00:00+00:00', 'PT1H30M', '0.00000000')
    """
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, timedelta):
        from pellucid.internal.data.spelled import duration_text

        return duration_text(value)
    return str(value.isoformat() if hasattr(value, "isoformat") else value)


def json_cell(value: Any, column: str) -> str:
    """A record or a list as JSON, which has no word for NaN.

    >>> json_cell({"a": [1.5, None]}, "r")
    '{"a": [1.5, null]}'
    >>> json_cell({"a": [float("nan")]}, "r")
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: column 'r' has a NaN inside, for which JSON has no word: replace it before the sink
    """
    text = json.dumps(value, default=value_text)
    if "NaN" in text and _has_nan(value):  # the first is quick, and true of a text as well
        raise DataError(f"column {column!r} has a NaN inside, for which JSON has no word: replace it before the sink")
    return text


def _has_nan(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_nan, value.values()))
    return (
        any(map(_has_nan, value)) if isinstance(value, (list, tuple)) else isinstance(value, float) and value != value
    )
