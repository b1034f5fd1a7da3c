"""The rows of a micro-batch on the driver: as Arrow batches, one after another, never row by row.

One warm run on a machine shared with other work (2 cores, 2 million rows of four columns; a rough guide):
``toLocalIterator`` by row 0.13 million rows/s; Spark's own Arrow stream (``__arrow_c_stream__``, one partition at a
time) 0.5 to 0.8; ``toArrow`` 2.3, but with the whole batch in the driver's Python.  The code here reads the socket that
``toArrow`` reads and hands each Arrow batch on as it comes (its own speed has not been measured apart):
all partitions run in parallel and Python holds one batch.  Partitions come in the order in which they finish; inside
a partition the order stays, so the events of one key keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid.errors import UsageError

if TYPE_CHECKING:
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
        # After the batches come their places in the whole, which nobody here needs, or -1 and what went wrong.  A
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
