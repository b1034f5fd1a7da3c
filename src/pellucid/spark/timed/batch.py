"""A batch by event time: rows to the partition of their key, all of them taken, then the end of the input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pellucid.internal.expr.types import BOOL, INT, STR
from pellucid.internal.graph.memory import inner_keys
from pellucid.internal.graph.model import Graph
from pellucid.spark.frames import Frame
from pellucid.spark.job import SparkJob, output_schema, packed, unpacked
from pellucid.spark.native.column import column
from pellucid.spark.reading import plain_leaves
from pellucid.spark.step import in_chunks
from pellucid.spark.timed.rows import TimedRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def timed_batch(job: SparkJob, frame: Frame, partitions: int | None) -> DataFrame:
    """The rows of a key in one partition (without a key: all in one), through the engine of event time."""
    keys = frame.fields.keys
    if not keys:
        df = frame.df.repartition(1)
    else:
        df = frame.df.repartition(partitions, *keys) if partitions else frame.df.repartition(*keys)
    return df.mapInArrow(_worker(job), output_schema(job, frame))


def _worker(job: SparkJob) -> Callable[[Iterator[Any]], Iterator[Any]]:
    data = packed(job)

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        from pellucid.spark.timed.batch import run_partition

        yield from run_partition(data, batches)

    return run


def run_partition(data: bytes, batches: Iterator[Any]) -> Iterator[Any]:
    """All rows of a partition, and then the end."""
    runner = None
    for table in in_chunks(batches, False):
        runner = runner or TimedRunner(unpacked(data))
        yield from runner.take(table)
    if runner is not None:
        yield from runner.finish()


def with_inner_keys(graph: Graph, frame: Frame, job: SparkJob, *, ansi: bool) -> tuple[Frame, SparkJob]:
    """The frame with the key that the pipeline makes by ``key_by`` as its key; the engine makes it again for itself.

    A row that cannot be read has some key or none: the engine that gets it says what is wrong with it.
    """
    from pyspark.sql import functions as F

    found = inner_keys(graph)
    assert found is not None
    made: list[list[Any]] = []
    for s, (source, exprs) in enumerate(zip(frame.fields.sources, found, strict=True)):
        leaves = plain_leaves(source.type, source.columns, frame.fields.values(s), frame.df.schema)
        made.append([column(e, leaves, ansi=ansi) for e in exprs])
    columns = []
    for i, parts in enumerate(zip(*made, strict=True)):
        cases = [F.when(F.col("s") == s, part) for s, part in enumerate(parts)]
        whole = parts[0] if not frame.fields.tagged else reduce(lambda a, b: F.coalesce(a, b), cases)
        columns.append(whole.alias(f"k{i}"))
    kept = [e.type if e.type in (INT, BOOL, STR) else STR for e in found[0]]
    key = tuple((f"key_by {i}" if len(kept) > 1 else "key_by", t) for i, t in enumerate(kept))
    fields = replace(frame.fields, key=key)
    chosen = [*columns, *(F.col(name) for name in frame.df.columns)]
    return replace(frame, df=frame.df.select(*chosen), fields=fields), replace(job, fields=fields, external=False)
