"""The other keeper of state: Spark's own state store, one value for each bucket of keys.

Rows travel to their bucket, and events back, as Arrow data in one binary value: ``applyInPandasWithState`` then moves a
few values per micro-batch instead of rows, and no type is lost on the way through pandas.

One bucket more holds no keys: every micro-batch goes by it, and it remembers what must not change (key, order, the
number of buckets).  The other buckets could not tell: a key whose number has changed finds an empty state, and that is
no error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pellucid.spark.frames import Frame
from pellucid.spark.job import SparkJob, output_schema, packed, unpacked
from pellucid.spark.session import cores
from pellucid.spark.state.bucket import Bucket, run_bucket, table_bytes, table_of
from pellucid.spark.step import Runner
from pellucid.spark.stream import check_identity, identity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_GUARD = -1  # the number of the bucket without keys


def managed(job: SparkJob, frame: Frame, buckets: int | None, drop: tuple[str, ...] = ()) -> DataFrame:
    """The frame through the pipeline, with the state kept by Spark."""
    from pyspark.sql import functions as F
    from pyspark.sql.streaming.state import GroupStateTimeout

    keys = [F.col(k) for k in frame.fields.keys]
    count = buckets or cores(frame.df.sparkSession)
    bucket = F.pmod(F.hash(*keys), F.lit(count)) if keys else F.lit(0)
    data = packed(job)
    begun = identity(job, count)

    def pack(batches: Iterator[Any]) -> Iterator[Any]:
        from pellucid.spark.state.managed import packed_rows

        yield from packed_rows(batches)

    def step(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        from pellucid.spark.state.managed import guard, run_group

        if key[0] < 0:
            guard(begun, frames, state)
        else:
            yield from run_group(data, drop, frames, state)

    def unpack(batches: Iterator[Any]) -> Iterator[Any]:
        from pellucid.spark.state.managed import unpacked_rows

        yield from unpacked_rows(batches)

    rows = frame.df.withColumn("b", bucket).mapInArrow(pack, "b int, rows binary")
    events = rows.groupBy("b").applyInPandasWithState(
        step, "rows binary", "state binary, extra binary, digest string", "append", GroupStateTimeout.NoTimeout
    )
    return events.mapInArrow(unpack, output_schema(job, frame))


def packed_rows(batches: Iterator[Any]) -> Iterator[Any]:
    """The rows of each bucket as one binary value, and a word to the guard."""
    waiting = [b for b in batches if b.num_rows]
    if not waiting:
        return
    table = pa.Table.from_batches(waiting)
    numbers = table.column("b").to_numpy()
    table = table.drop_columns(["b"])
    found = np.unique(numbers).tolist()
    values = [table_bytes(table.filter(pa.array(numbers == b)).combine_chunks()) for b in found]
    found, values = [*found, _GUARD], [*values, b""]
    yield pa.RecordBatch.from_arrays([pa.array(found, pa.int32()), pa.array(values, pa.binary())], names=["b", "rows"])


def guard(begun: dict[str, Any], frames: Iterator[Any], state: Any) -> None:
    """Refuse a checkpoint that was begun otherwise."""
    for _ in frames:
        pass
    if state.exists:
        check_identity(json.loads(state.get[2]), begun, "the state in this checkpoint", "a new checkpoint")
    else:
        state.update((b"", b"", json.dumps(begun)))


def run_group(data: bytes, drop: tuple[str, ...], frames: Iterator[Any], state: Any) -> Iterator[Any]:
    """One bucket in one micro-batch, with the state that Spark hands in."""
    import pandas as pd

    job = unpacked(data)
    bucket = Bucket(Runner(job))
    if state.exists:
        kept, extra, digest = state.get
        bucket.load(kept, extra, same=digest == job.graph.digest, drop=drop)
    parts = [table_of(value) for frame in frames for value in frame["rows"]]
    out = run_bucket(job, bucket, pa.concat_tables(parts).combine_chunks())
    kept, extra = bucket.save()
    state.update((bytes(kept), bytes(extra), job.graph.digest))
    values = [table_bytes(pa.Table.from_batches([b])) for b in out if b.num_rows]
    if values:
        yield pd.DataFrame({"rows": values})


def unpacked_rows(batches: Iterator[Any]) -> Iterator[Any]:
    """Binary values as the rows that they hold."""
    for batch in batches:
        for value in batch.column(0).to_pylist():
            yield from table_of(value).to_batches()
