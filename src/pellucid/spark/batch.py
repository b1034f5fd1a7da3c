"""Batch: rows to the partitions of their keys, sorted by order, through the kernel.

The sort is on the order alone, not on key and order: the engine keeps the keys apart anyway, and Spark sorts one
whole number with radix sort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pellucid.spark.frames import Frame
from pellucid.spark.job import SparkJob, output_schema, packed, unpacked
from pellucid.spark.step import Runner, in_chunks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def per_row(job: SparkJob, frame: Frame) -> DataFrame:
    """A pipeline that remembers nothing: every row where it is."""
    return frame.df.mapInArrow(worker(job), output_schema(job, frame))


def keyed(job: SparkJob, frame: Frame, partitions: int | None) -> DataFrame:
    """The rows of a key in one partition (without a key: all in one), in order."""
    keys = frame.fields.keys
    if not keys:
        df = frame.df.repartition(1)
    else:
        df = frame.df.repartition(partitions, *keys) if partitions else frame.df.repartition(*keys)
    return sorted_within(df, frame).mapInArrow(worker(job), output_schema(job, frame))


def sorted_within(df: DataFrame, frame: Frame) -> DataFrame:
    """Partitions sorted by order; rows of one push side by side where sources are apart."""
    fields = frame.fields
    return df.sortWithinPartitions(*fields.orders, *([*fields.keys, "s"] if fields.tagged else []))


def worker(job: SparkJob) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What a worker runs on a partition."""
    data = packed(job)

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        from pellucid.spark.batch import run_partition

        yield from run_partition(data, batches)

    return run


def run_partition(data: bytes, batches: Iterator[Any]) -> Iterator[Any]:
    """A partition's rows, in order, through a new engine."""
    job = unpacked(data)
    runner = Runner(job)
    for table in in_chunks(batches, job.fields.tagged):
        yield from runner.push(table).out
