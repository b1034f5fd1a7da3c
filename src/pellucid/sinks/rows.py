"""The rows of a micro-batch on the driver: as Arrow batches, one after another, never row by row.

One warm run on a machine shared with other work (2 cores, 2 million rows of four columns; a rough guide):
``toLocalIterator`` by row 0.13 million rows/s; Spark's own Arrow stream (``__arrow_c_stream__``, one partition at a
time) 0.5 to 0.8; ``toArrow`` 2.3, but with the whole batch in the driver's Python.  The code here reads the socket that
``toArrow`` reads and hands each Arrow batch on as it comes (its own speed has not been measured apart):
all partitions run in parallel and Python holds one batch.  Partitions come in the order in which they finish; inside
a partition the order stays, so the events of one key keep theirs.
"""

from __future__ import annotations

import functools
import io
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError, UsageError

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa


@dataclass
class Rows:
    """Arrow batches of one schema; ``count`` is the number of rows that have been handed out so far.

    >>> import pyarrow as pa
    >>> rows = rows_of(pa.table({"x": [1, 2, 3]}))
    >>> [batch.num_rows for batch in rows], rows.count
    ([3], 3)
    """

    schema: pa.Schema
    source: Iterable[pa.RecordBatch]
    count: int = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.source:
            if batch.num_rows:
                self.count += batch.num_rows
                yield batch if batch.schema.equals(self.schema) else _labelled(batch, self.schema)


def _labelled(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows with other labels: a time zone, large strings."""
    import pyarrow as pa

    def labelled(array: pa.Array, t: pa.DataType) -> pa.Array:
        if array.type.equals(t):
            return array
        if not pa.types.is_struct(t):
            return array.cast(t)
        # Arrow does not cast a struct of which the schema says that it is never null, and which is in some rows
        fields = [labelled(array.field(i), field.type) for i, field in enumerate(t)]
        return pa.StructArray.from_arrays(fields, fields=list(t), mask=array.is_null())

    columns = [labelled(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def is_spark(data: Any) -> bool:
    """Whether ``data`` is a DataFrame of Spark, of whatever kind."""
    return hasattr(data, "sparkSession")


def schema_of(data: Any) -> pa.Schema:
    """The Arrow schema of the data, known before a row is computed; a timestamp is in UTC."""
    import pyarrow as pa

    if is_spark(data):
        from pyspark.sql.pandas.types import to_arrow_schema

        return to_arrow_schema(data.schema, timezone="UTC")
    if isinstance(data, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
        return data.schema
    if isinstance(data, (list, tuple)) and data and all(isinstance(batch, pa.RecordBatch) for batch in data):
        return data[0].schema
    raise UsageError(
        "a sink writes a DataFrame of Spark, an Arrow table, an Arrow reader or a list of Arrow batches, not "
        f"{type(data).__name__}"
    )


def rows_of(data: Any) -> Rows:
    """The rows as Arrow batches; a DataFrame is evaluated once, when the batches are asked for."""
    import pyarrow as pa

    schema = schema_of(data)
    if is_spark(data):
        return Rows(schema, _from_spark(data))
    if isinstance(data, pa.Table):
        return Rows(schema, data.to_batches())
    if isinstance(data, pa.RecordBatch):
        return Rows(schema, [data])
    return Rows(schema, data)


def _from_spark(df: Any) -> Iterator[pa.RecordBatch]:
    collect = getattr(getattr(df, "_jdf", None), "collectAsArrowToPython", None)
    if collect is None:  # Spark Connect: its client keeps the batches of the result
        yield from df.toArrow().to_batches()
        return
    import pyarrow as pa
    from pyspark.errors import PySparkRuntimeError
    from pyspark.serializers import UTF8Deserializer, read_int

    with _served(df, collect) as stream:
        yield from pa.ipc.open_stream(stream)
        # After the batches come their places in the whole, which are not needed here, or -1 and what went wrong.  A
        # stream that ends earlier raises EOFError: a part of a batch is never taken for the whole.
        places = read_int(stream)
        failure = UTF8Deserializer().loads(stream) if places == -1 else None
        for _ in range(places):
            read_int(stream)
    if failure is not None:  # leaving the socket raised Spark's own error already, unless Spark changed its ways
        raise PySparkRuntimeError(f"the micro-batch failed in Spark: {failure}")


@contextmanager
def computed(data: Any) -> Iterator[None]:
    """A DataFrame computed whole, at the start, and kept inside: for who looks at a part of it, at nothing, or several
    times.

    The steps of a pipeline keep their state while they are computed.  ``df.take(1)`` alone would compute one bucket,
    and what the other buckets should have remembered of this batch would be lost when Spark commits it.
    """
    if not is_spark(data):
        yield
        return
    kept = data.storageLevel
    data.persist()
    try:
        data.write.format("noop").mode("overwrite").save()
        yield
    finally:
        if not (kept.useMemory or kept.useDisk):  # who kept it before decides when it goes
            data.unpersist()


@contextmanager
def _served(df: Any, collect: Any) -> Iterator[Any]:
    """The socket on which the JVM serves the result; at the end, Spark's own error if the job failed."""
    from pyspark.errors.exceptions.captured import unwrap_spark_exception
    from pyspark.traceback_utils import SCCallSiteSync
    from pyspark.util import local_connect_and_auth

    with SCCallSiteSync(df._sc):
        port, secret, server = collect()
    stream, connection = local_connect_and_auth(port, secret)
    connection.settimeout(None)
    finished = False
    try:
        yield stream
        finished = True
    finally:
        stream.close()
        connection.close()
        # Where the reader gave up (the target failed), the JVM's complaint about the closed socket would hide the
        # reason.
        if finished:
            with unwrap_spark_exception():
                server.getResult()


# Columns of Arrow as columns of a database, and the difference between two lists of columns in words.
#
# A column may go into a column of the target only if every value arrives unchanged: ``bigint`` fits ``numeric``, but
# ``double precision`` does not fit ``real``, which would round in silence.


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
        from pellucid.internal.data.cells import duration_text

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


# An Arrow batch as the CSV that PostgreSQL's ``COPY`` reads back exactly.
#
# Arrow quotes every string and leaves a null empty and unquoted, which is how ``COPY`` tells '' from NULL; floats have
# the fewest digits that give the same float again.  Binary becomes ``\x…``, a record or a list becomes JSON, a duration
# hours, minutes and seconds: a day of PostgreSQL's intervals has as many hours as the clock of a place gives it.


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


# What PostgreSQL says of a row that it refuses, as one line that names the table, the column and what was expected;
# and a connection that notices when it says nothing.

_SHOWN = 120  # characters of a row
_SOON = ("starting up", "shutting down", "in recovery mode", "not yet accepting connections", "too many clients",
         "remaining connection slots")  # fmt: skip
_VALUE = re.compile(r"""['"$]|\b\d|--|/\*""")  # where a text, a number or a comment begins


def refusal(table: str, batch: int, error: psycopg.Error) -> str:
    """A refused value, or a null where the table takes none, in words."""
    import psycopg

    said = error.diag
    if isinstance(error, psycopg.errors.NotNullViolation) and said.column_name:
        row = re.search(r"\(.*\)", said.message_detail or "", re.DOTALL)
        shown = f" ({shortened(row[0][1:-1])})" if row else ""
        return (
            f"table {table!r}: column {said.column_name!r} is NOT NULL there, and a row of batch {batch} has None for "
            f"it{shown}: give every row a value before the sink, or ALTER TABLE … ALTER COLUMN … DROP NOT NULL"
        )
    why = ": ".join(" ".join(part.split()) for part in (said.message_primary, said.message_detail) if part)
    found = re.search(r'COPY .*?, line \d+, column (?P<column>.+?): "(?P<value>.*)"', said.context or "", re.DOTALL)
    if found is None:
        return f"table {table!r}: PostgreSQL refuses a value of batch {batch}: {why or type(error).__name__}"
    return (
        f"table {table!r}: column {found['column']!r} does not take {shortened(found['value'])}, a value of batch "
        f"{batch}: {why}"
    )


def may_come_back(said: str) -> bool:
    """Whether a failed login may succeed soon: no server is there, or it is starting or
    ending; not where it answers and says no.

    >>> may_come_back("connection failed: Connection refused")
    True
    >>> may_come_back("FATAL:  the database system is starting up")
    True
    >>> may_come_back('FATAL:  password authentication failed for user "shop"')
    False
    """
    return "FATAL" not in said or any(words in said for words in _SOON)


@functools.cache
def answering() -> Any:
    """A class of connections with ``answers_within``: for so many seconds a server that is asked may be silent (None:
    for ever).  Then the connection is given up, and is ``silent``; ``heard`` is called whenever there is a sign of
    life."""
    import psycopg

    class Answering(psycopg.Connection[Any]):  # type: ignore[misc]  # it may not be installed
        answers_within: float | None = None
        silent = False

        @staticmethod
        def heard() -> None:
            """By default, nothing."""

        def wait(self, gen: Any, *more: Any, **named: Any) -> Any:
            if self.answers_within is None:
                return super().wait(gen, *more, **named)
            try:
                return super().wait(_heard(gen, self.answers_within, self.heard), *more, **named)
            except _NoAnswerError:
                self.silent = True
                self.pgconn.finish()
                raise psycopg.OperationalError("no answer") from None

    return Answering


class _NoAnswerError(Exception):
    """A server says nothing."""


def _heard(asked: Any, within: float, heard: Callable[[], None]) -> Generator[Any, Any, Any]:
    """What asks a server, with an eye on how long it has said nothing.

    >>> def asked():
    ...     return (yield "ready to read?")
    >>> one = _heard(asked(), 0.0, lambda: print("heard"))
    >>> next(one)
    'ready to read?'
    >>> one.send(0)
    Traceback (most recent call last):
    pellucid.sinks.rows._NoAnswerError
    """
    since = time.monotonic()
    try:
        wants = next(asked)
        while True:
            ready = yield wants
            if ready:
                since = time.monotonic()
                heard()
            elif time.monotonic() - since > within:
                raise _NoAnswerError
            wants = asked.send(ready)
    except StopIteration as done:
        return done.value


def shortened(text: str) -> str:
    """A text on one line, not too long.

    >>> shortened("1,\\n2"), len(shortened("x" * 1000))
    ('1, 2', 121)
    """
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "…"


def beginning(statement: str) -> str:
    """A statement of another session, up to its first text or number: what comes there may be data, or a password.

    >>> beginning("ALTER ROLE shop PASSWORD 'S3cret'"), beginning("LOCK TABLE orders")
    ('ALTER ROLE shop PASSWORD …', 'LOCK TABLE orders')
    >>> beginning("SELECT * FROM t1 WHERE card = 4111"), beginning("SELECT $$S3cret$$"), beginning("/* S3cret */ BEGIN")
    ('SELECT * FROM t1 WHERE card = …', 'SELECT …', '…')
    """
    shown = _VALUE.split(statement, maxsplit=1)[0]
    return shortened(shown if shown == statement else shown.rstrip() + " …").strip()
