"""One stream without keys on all cores: chunks by ranges of the order, each run from its right state.

1. **Bounds.**  Some thousand rows, chosen by a hash of their order, are sorted, and cut the order into ranges with
   about equally many rows, however unevenly the orders lie.  They are a function of the data alone, since several
   passes compute them anew.  Rows of one first order are in one chunk, so rows that double another are found there.
   (Ranges of equal length between the least and the greatest order would be cheaper by one look at the order column,
   but one bad timestamp puts everything into one chunk; and a text or a time without zone is compared, never calculated
   with.)
2. **Sums**, one pass for each level (see `pellucid.spark.scan.parts`).  The first needs no order, so every row is
   summed up where it is, without a shuffle.  Deeper ones run chunks that are sorted, from the states that the levels
   below gave.
3. **The run**: rows to the partitions of their chunks, sorted, and through the kernel from the right state.

What one pass finds goes to the next as a scalar subquery, so all of it is one lazy query.  All sorted passes read the
same shuffle (Spark sees that it is the same, and does it once).  The first row of a partition brings the sums along, so
that the sort is one of the order alone, which Spark does by radix for a whole number.

The rows are read once for the bounds (their order only), once for the sums and once for the run: they must be the same
each time.  A DataFrame that makes rows by chance is to be cached or written first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pellucid.errors import PellucidError
from pellucid.spark.batch import keyed
from pellucid.spark.frames import Frame
from pellucid.spark.job import SparkJob, output_schema, packed, unpacked
from pellucid.spark.scan.parts import cuts
from pellucid.spark.session import cores
from pellucid.spark.step import Runner, in_chunks, unnumbered

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CHUNK, SUMS = "chunk", "sums"
_SAMPLE = 2048  # rows, at least, that decide about the bounds
_PER_CHUNK = 128  # of them for each chunk


def scanned(job: SparkJob, frame: Frame, partitions: int | None) -> DataFrame:
    """The pipeline on one stream without keys, in ``partitions`` chunks (twice as many as cores)::

    scanned(job, frame, 8).explain()
    """
    found = cuts(job.graph)
    chunks = partitions or 2 * cores(frame.df.sparkSession)
    lines_up = frame.fields.tagged or not frame.fields.order or bool(frame.fields.key)
    # Which rows of a sequence are dropped as late is known only where all before them are.
    unknown = job.late.sequence is not None and job.late.policy != "fail"
    if isinstance(found, str) or chunks == 1 or lines_up or unknown:
        return keyed(job, frame, partitions)
    rows = frame.df.select("*", _bounds(frame, chunks).scalar().alias("bounds"))
    rows = rows.select(*frame.df.columns, _chunk(chunks).alias(CHUNK))
    together = _repartitioned(rows, chunks)
    sums: DataFrame | None = None
    for level in range(len(found.levels)):
        if level == 0 and job.late.policy == "fail":
            each = rows.mapInArrow(_worker(job, "any", level), f"{SUMS} binary")
        else:
            each = _sorted(together, frame, sums).mapInArrow(_worker(job, "level", level), f"{SUMS} binary")
        sums = each.repartition(1).mapInArrow(_worker(job, "merge", level), f"{SUMS} binary")
    return _sorted(together, frame, sums).mapInArrow(_worker(job, "run", len(found.levels)), output_schema(job, frame))


def _bounds(frame: Frame, chunks: int) -> DataFrame:
    """One row with an array of the first orders of all chunks but the first."""
    from pyspark.sql import functions as F

    size = max(_SAMPLE, _PER_CHUNK * chunks)
    every = frame.df.agg((F.floor(F.count(F.lit(1)) / F.lit(size)) + F.lit(1)).alias("every"))
    # By the whole order: rows of one first order are not all in the sample, or all out of it.
    some = F.pmod(F.xxhash64(*frame.fields.orders), every.scalar()) == 0
    sample = frame.df.select(*frame.fields.orders).where(F.col("o0").isNotNull() & some)
    found = sample.agg(F.sort_array(F.collect_set("o0")).alias("found"))
    places = [F.floor(F.size("found") * F.lit(i) / F.lit(chunks)).cast("int") for i in range(1, chunks)]
    return found.select(F.array(*[F.get("found", at) for at in places]).alias("bounds"))


def _chunk(chunks: int) -> Column:
    """The number of the chunk, by bisection; a null order, which fails when it is run, goes to the first."""
    from pyspark.sql import functions as F

    def between(low: int, high: int) -> Column:
        if low == high:
            return F.lit(low)
        mid = (low + high) // 2
        return F.when(F.col("o0") >= F.get("bounds", F.lit(mid)), between(mid + 1, high)).otherwise(between(low, mid))

    return between(0, chunks - 1)


def _repartitioned(rows: DataFrame, chunks: int) -> DataFrame:
    """A partition for each chunk; before Spark 4.1, chunks in partitions by their hash, perhaps two in one."""
    if hasattr(rows, "repartitionById"):
        return rows.repartitionById(chunks, CHUNK)
    return rows.repartition(chunks, CHUNK)


def _sorted(together: DataFrame, frame: Frame, sums: DataFrame | None) -> DataFrame:
    """Partitions sorted by order, and with that by chunk; the first row of each brings the sums along."""
    from pyspark.sql import functions as F

    rows = together.sortWithinPartitions(*frame.fields.orders)
    if sums is None:
        return rows.select("*", F.lit(None).cast("binary").alias(SUMS))
    number = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1))  # of the row in its partition
    return rows.select("*", F.when(number == 0, sums.scalar()).alias(SUMS))


# ---------------------------------------------------------------- in the workers


def _worker(job: SparkJob, what: str, level: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    data = packed(job)

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        from pellucid.spark.scan.run import run_worker

        yield from run_worker(data, what, level, batches)

    return run


def run_worker(data: bytes, what: str, level: int, batches: Iterator[Any]) -> Iterator[Any]:
    """One of: sum up rows in any order, or in order; merge sums; run chunks."""
    from pellucid.spark.scan.summary import packed_summaries

    job = unpacked(data)
    if what == "run":
        yield from _run(job, level, batches)
        return
    found = {"any": _sum_any, "level": _sum_sorted, "merge": _merge}[what](job, level, batches)
    if found:
        yield pa.RecordBatch.from_arrays([pa.array([packed_summaries(found)], pa.binary())], names=[SUMS])


def _sum_any(job: SparkJob, level: int, batches: Iterator[Any]) -> dict[int, Any]:
    from pellucid.spark.scan.summary import Folder, level_job

    cut = _cut(job)
    folder = Folder(level_job(job, cut, level, ordered=False), cut.levels[level])
    for table in in_chunks(batches, False):
        folder.fold_anywhere(table)
    return folder.chunks


def _sum_sorted(job: SparkJob, level: int, batches: Iterator[Any]) -> dict[int, Any]:
    from pellucid.spark.scan.start import begin
    from pellucid.spark.scan.summary import Folder, Summary, level_job

    cut = _cut(job)
    own = level_job(job, cut, level, ordered=True)
    summaries, rows = _with_sums(batches)
    out: dict[int, Summary] = {}
    folder: Folder | None = None
    for chunk, table in _by_chunk(rows):
        try:
            if chunk not in out:
                out[chunk] = Summary()
                folder = Folder(own, cut.levels[level])
                begin(folder, cut, level, summaries, chunk)
            if folder is not None and out[chunk].failed is None:
                folder.fold(table)
                out[chunk] = folder.chunks.get(chunk, Summary())
        except PellucidError as error:
            out[chunk] = Summary(failed=unnumbered(error))
    for chunk, below in summaries.items():  # go on with what is known from the levels below
        above = out.get(chunk, Summary())
        if chunk in out:
            failed = below.failed or above.failed
            out[chunk] = replace(below, failed=failed, steps=below.steps | above.steps)
    return out


def _merge(job: SparkJob, level: int, batches: Iterator[Any]) -> dict[int, Any]:
    from pellucid.spark.scan.summary import Summary, merged, unpacked_summaries

    steps = [s for level_ in _cut(job).levels for s in level_]
    parts: dict[int, list[Summary]] = {}
    for batch in batches:
        for blob in batch.column(0).to_pylist():
            for chunk, summary in unpacked_summaries(blob).items():
                parts.setdefault(chunk, []).append(summary)
    return {chunk: merged(found, steps) for chunk, found in parts.items()}


def _run(job: SparkJob, level: int, batches: Iterator[Any]) -> Iterator[Any]:
    from pellucid.spark.scan.start import begin

    cut = _cut(job)
    summaries, rows = _with_sums(batches)
    runner, current = Runner(job), -1
    for chunk, table in _by_chunk(rows):
        if chunk != current:
            runner, current = Runner(job), chunk
            begin(runner, cut, level, summaries, chunk)
        yield from runner.push(table).out


def _cut(job: SparkJob) -> Any:
    found = cuts(job.graph)
    assert not isinstance(found, str)
    return found


def _with_sums(batches: Iterator[Any]) -> tuple[dict[int, Any], Iterator[Any]]:
    """The sums that the first row brings, and the rows without them."""
    from pellucid.spark.scan.summary import unpacked_summaries

    rest = iter(batches)
    first = next((b for b in rest if b.num_rows), None)
    if first is None:
        return {}, iter(())
    sums = unpacked_summaries(first.column(SUMS)[0].as_py())
    return sums, (b.drop_columns([SUMS]) for b in chain([first], rest))


def _by_chunk(batches: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    """Rows that are sorted by chunk, as tables of one chunk each."""
    for table in in_chunks(batches, False):
        chunks = table.column(CHUNK).to_numpy()
        ends = [0, *(np.flatnonzero(np.diff(chunks)) + 1).tolist(), len(chunks)]
        for start, stop in pairwise(ends):
            yield int(chunks[start]), table.slice(start, stop - start).combine_chunks()
