"""An Arrow batch as the CSV that PostgreSQL's ``COPY`` reads back exactly.

Arrow quotes every string and leaves a null empty and unquoted, which is how ``COPY`` tells '' from NULL; floats have
the fewest digits that give the same float again.  Binary becomes ``\\x…``, a record or a list becomes JSON, a
duration hours, minutes and seconds: a day of PostgreSQL's intervals has as many hours as the clock of a place gives it.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError
from pellucid.sinks.schema import json_cell

if TYPE_CHECKING:
    import pyarrow as pa


def csv_bytes(batch: pa.RecordBatch) -> bytes:
    r"""The rows as CSV, without a header.

    >>> import pyarrow as pa
    >>> csv_bytes(pa.RecordBatch.from_pydict({"a": ["x", "", None], "b": [0.1, None, 2.0]}))
    b'"x",0.1\n"",\n,2\n'
    """
    import pyarrow as pa
    import pyarrow.csv

    columns = [_plain(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    out = io.BytesIO()
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    pyarrow.csv.write_csv(
        pa.RecordBatch.from_arrays(columns, [str(place) for place in range(len(columns))]), out, options
    )
    return out.getvalue()


def _plain(name: str, column: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    t = pa.types
    if t.is_string(column.type) or t.is_large_string(column.type):
        if pc.any(pc.match_substring(column, "\0")).as_py():
            raise DataError(
                f"column {name!r}: a text holds the character NUL, which PostgreSQL cannot store; remove it before the "
                "sink"
            )
        return column
    if t.is_binary(column.type) or t.is_large_binary(column.type):
        return pa.array([None if value is None else "\\x" + value.hex() for value in column.to_pylist()], pa.string())
    if t.is_duration(column.type):
        return pa.array(
            [None if n is None else _clock(n) for n in in_micros(name, column).cast(pa.int64()).to_pylist()],
            pa.string(),
        )
    if t.is_timestamp(column.type):
        return in_micros(name, column)
    if t.is_nested(column.type):
        return pa.array(
            [None if value is None else json_cell(_jsonable(value, column.type), name) for value in column.to_pylist()],
            pa.string(),
        )
    return column


def in_micros(name: str, column: pa.Array) -> pa.Array:
    """Times in microseconds; a finer part, which the target would round off, is refused.

    >>> import pyarrow as pa
    >>> in_micros("at", pa.array([1001], pa.timestamp("ns")))
    Traceback (most recent call last):
    pellucid.errors.DataError: column 'at': a time has a finer part than a microsecond, ...
    """
    import pyarrow as pa

    if column.type.unit != "ns":
        return (
            column if column.type.unit == "us" or pa.types.is_timestamp(column.type) else column.cast(pa.duration("us"))
        )
    fine = pa.duration("us") if pa.types.is_duration(column.type) else pa.timestamp("us", column.type.tz)
    try:
        return column.cast(fine)
    except pa.ArrowInvalid:
        raise DataError(
            f"column {name!r}: a time has a finer part than a microsecond, which the target would round off: round it "
            "before the sink"
        ) from None


def _clock(micros: int) -> str:
    """A duration as PostgreSQL reads it: no days, whose length it takes from a place's clock.

    >>> _clock(129_600_000_001), _clock(-1)
    ('36:00:00.000001', '-0:00:00.000001')
    """
    seconds, part = divmod(abs(micros), 1_000_000)
    return f"{'-' if micros < 0 else ''}{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}" + (
        f".{part:06d}" if part else ""
    )


def _jsonable(value: Any, kind: pa.DataType) -> Any:
    """A value as JSON has it: the type tells a map, which comes from Arrow as pairs, from a list, also where both are
    empty.

    >>> import pyarrow as pa
    >>> _jsonable([], pa.map_(pa.string(), pa.int64())), _jsonable([], pa.list_(pa.int64()))
    ({}, [])
    >>> _jsonable({"m": [(b"a", 1)]}, pa.struct({"m": pa.map_(pa.binary(), pa.int64())}))
    {'m': {'\\\\x61': 1}}
    """
    import pyarrow as pa

    t = pa.types
    if value is None:
        return None
    if t.is_map(kind):
        return {str(_jsonable(key, kind.key_type)): _jsonable(item, kind.item_type) for key, item in value}
    if t.is_struct(kind):
        return {field.name: _jsonable(value[field.name], field.type) for field in kind}
    if t.is_nested(kind):  # the lists of all kinds
        return [_jsonable(item, kind.value_type) for item in value]
    return "\\x" + value.hex() if isinstance(value, bytes) else value
