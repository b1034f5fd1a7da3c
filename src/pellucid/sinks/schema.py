"""Columns of Arrow as columns of a database, and the difference between two lists of columns in words.

A column may go into a column of the target only if every value arrives unchanged: ``bigint`` fits ``numeric``, but
``double precision`` does not fit ``real``, which would round in silence.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

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
    if t.is_decimal(kind):
        exact = f"numeric({kind.precision},{kind.scale})"
        return exact, frozenset({exact, "numeric"})
    if t.is_struct(kind) or t.is_list(kind) or t.is_map(kind):
        return "jsonb", frozenset({"jsonb", "json"})
    raise DataError(
        f"column {name!r}: {kind} has no counterpart in PostgreSQL; cast it to another type before the sink"
    )


def sqlite_type(name: str, kind: pa.DataType) -> str:
    """The type of a SQLite column; what SQLite has no type for (dates, decimals, records) is exact text.

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
        or t.is_decimal(kind)
        or t.is_struct(kind)
        or t.is_list(kind)
        or t.is_map(kind)
    ):
        return "TEXT"
    raise DataError(f"column {name!r}: {kind} has no counterpart in SQLite; cast it to another type before the sink")
