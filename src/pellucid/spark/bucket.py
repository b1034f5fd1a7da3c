"""A bucket of keys between two micro-batches: its engine, what was applied of each key, and the rows that wait.

It holds no Spark and no files: `pellucid.spark.stream` keeps it in snapshots, `pellucid.spark.managed` in Spark's own store.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError
from pellucid.spark.job import Job
from pellucid.spark.step import Runner

__all__ = ["Bucket", "in_order", "run_bucket", "table_bytes", "table_of"]


@dataclass
class Bucket:
    """The state of a bucket: the engine, the judge of order, and rows that wait."""

    runner: Runner
    held: Any = None  # an Arrow table of rows that wait, or None
    high: int | None = None  # the greatest first order seen
    snapshot: Any = None  # the one it was loaded from, for its keeper

    def save(self) -> tuple[bytes, bytes]:
        """The state, and what else there is to keep."""
        extra = b"" if self.runner.judge is None else self.runner.judge.save()
        held = b"" if self.held is None else table_bytes(self.held)
        head = struct.pack("<QQ?q", len(extra), len(held), self.high is not None, self.high or 0)
        return self.runner.engine.save(), head + extra + held

    def load(self, state: Any, extra: Any, *, same: bool, drop: tuple[str, ...] = ()) -> None:
        """Go on from there; of another version of the pipeline, step by step."""
        if same:
            self.runner.engine.load(state)
        else:
            self.runner.engine.carry(state, drop=drop)
        size = struct.calcsize("<QQ?q")
        judge, held, known, high = struct.unpack("<QQ?q", extra[:size])
        if self.runner.judge is not None and judge:
            self.runner.judge.load(bytes(extra[size : size + judge]))
        self.held = table_of(extra[size + judge : size + judge + held]) if held else None
        self.high = high if known else None


def run_bucket(job: Job, bucket: Bucket, rows: Any) -> list[Any]:
    """New rows, with those that waited, through the bucket's pipeline."""
    if bucket.held is not None:
        rows = pa.concat_tables([bucket.held, rows.cast(bucket.held.schema)]).combine_chunks()
        bucket.held = None
    rows = in_order(job, rows)
    later = None
    if job.late.wait:
        rows, later = _ready(job, bucket, rows)
    out: list[Any] = []
    held = []
    if rows.num_rows:
        done = bucket.runner.push(rows)
        out = done.out
        if done.held is not None:
            held.append(done.held)
    if later is not None and later.num_rows:
        held.append(later)
    bucket.held = pa.concat_tables(held).combine_chunks() if held else None
    return out


def _ready(job: Job, bucket: Bucket, rows: Any) -> tuple[Any, Any]:
    """The rows that need not wait any more, and the others."""
    first = _plain(rows.column("o0"))
    if first is None:
        raise DataError(f"the order column {job.fields.order[0][0]!r} has a null: give every row an order, or leave such rows out")
    high = max(int(first[-1]), bucket.high if bucket.high is not None else int(first[-1]))
    bucket.high = high
    ready = int((first <= high - job.late.wait).sum())  # they are sorted
    return rows.slice(0, ready), rows.slice(ready)


def in_order(job: Job, rows: Any) -> Any:
    """Rows by order, then key (then source): the same way however they came, so that a repeated step gives the same bytes."""
    fields = job.fields
    if not job.ordered or rows.num_rows < 2:
        return rows
    columns = [*fields.orders, *fields.keys, *(["s"] if fields.tagged else [])]
    numbers = [_plain(rows.column(c)) for c in columns]
    if numbers[0] is not None:
        first = numbers[0]
        rising = first[1:] > first[:-1]
        if rising.all():
            return rows
        if all(n is not None for n in numbers):
            rows = rows.take(pa.array(np.lexsort(numbers[::-1])))
        elif len(np.unique(first)) == len(first):
            rows = rows.take(pa.array(np.argsort(first, kind="stable")))
        else:
            rows = rows.sort_by([(c, "ascending") for c in columns])
    else:
        rows = rows.sort_by([(c, "ascending") for c in columns])
    if job.late.policy != "fail" and _doubled(columns, rows):
        rows = rows.sort_by([(c, "ascending") for c in dict.fromkeys([*columns, *rows.schema.names])])
    return rows


def _plain(column: Any) -> Any:
    """A column of whole numbers or times as an array; None if it is something else."""
    if column.null_count:
        return None  # the step says what is wrong
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    if pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type):
        return column.cast(pa.int64()).to_numpy()
    return None


def _doubled(names: list[str], rows: Any) -> bool:
    """Whether two rows have the same key and order (and source)."""
    return bool(rows.select(names).group_by(names).aggregate([]).num_rows < rows.num_rows)


def table_bytes(table: Any) -> bytes:
    """A table as bytes (an Arrow stream)."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def table_of(data: bytes) -> Any:
    """The table again."""
    return pa.ipc.open_stream(pa.py_buffer(bytes(data))).read_all()
