"""Streaming: a micro-batch is an epoch (see docs/explanation/spark.md for the argument).

The operator is a plain ``mapInArrow``: Spark does not know that it keeps state, and so any sink, trigger and output
of Spark goes with it.  It finds the number of the micro-batch in the task's local properties, reads the snapshot with a
version below that number, and writes the one with that number before it gives anything out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid.errors import StateError, UsageError
from pellucid.spark.frames import Frame
from pellucid.spark.job import Job, output_schema, packed, unpacked
from pellucid.spark.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pellucid.spark.bucket import Bucket

__all__ = ["Plan", "prepared", "streamed"]

_CACHED = 64  # buckets that a worker process remembers


@dataclass(frozen=True)
class Plan:
    """Where and how a query keeps its state."""

    store: Store
    buckets: int
    drop: tuple[str, ...] = ()

    def identity(self, job: Job) -> dict[str, Any]:
        """What must not change from one start of the query to the next."""
        fields = job.fields
        return {
            "buckets": self.buckets,
            "key": [[n, str(t)] for n, t in fields.key],
            "order": [[n, str(t)] for n, t in fields.order],
        }


def prepared(job: Job, store: Store, frame: Frame, buckets: int | None, drop: tuple[str, ...]) -> Plan:
    """The plan for this folder; refused here, before the query starts, if its state does not fit the pipeline."""
    from pellucid.spark.session import cores

    found = store.identity()
    if found is not None and buckets is None:
        buckets = found.get("buckets")  # as it was begun: the number cannot change
    plan = Plan(store, buckets or (cores(frame.df.sparkSession) if frame.fields.key else 1), drop)
    if found is not None:
        check_identity(found, plan.identity(job), store.path)
        _check_state(job, plan)
    return plan


def _check_state(job: Job, plan: Plan) -> None:
    """Whether the newest snapshot of some bucket can be gone on from."""
    from pellucid.spark.bucket import Bucket
    from pellucid.spark.step import Runner

    for bucket in plan.store.buckets()[:1]:
        snapshot = plan.store.load(bucket, 1 << 62)
        if snapshot is not None:
            same = snapshot.meta.get("digest") == job.graph.digest
            Bucket(Runner(job)).load(snapshot.state, snapshot.extra, same=same, drop=plan.drop)


def streamed(job: Job, frame: Frame, plan: Plan) -> DataFrame:
    """The frame through the pipeline, bucket by bucket."""
    from pyspark.sql import functions as F

    keys = [F.col(k) for k in frame.fields.keys]
    if keys:
        # The very expression by which Spark partitions, so a partition is a bucket.
        bucket = F.pmod(F.hash(*keys), F.lit(plan.buckets))
        df = frame.df.withColumn("b", bucket).repartition(plan.buckets, *keys)
    else:
        df = frame.df.withColumn("b", F.lit(0)).repartition(1)
    return df.mapInArrow(_worker(job, plan), output_schema(job, frame))


def _worker(job: Job, plan: Plan) -> Callable[[Iterator[Any]], Iterator[Any]]:
    data = packed(job)

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        from pellucid.spark.stream import run_task

        yield from run_task(data, plan, batches)

    return run


def run_task(data: bytes, plan: Plan, batches: Iterator[Any]) -> Iterator[Any]:
    """One partition of one micro-batch."""
    import numpy as np
    import pyarrow as pa

    waiting = [b for b in batches if b.num_rows]
    if not waiting:
        return
    table = pa.Table.from_batches(waiting).combine_chunks()
    query, version = _epoch()
    job = unpacked(data)
    _claim(job, plan, query)
    numbers = table.column("b").to_numpy()
    for bucket in np.unique(numbers).tolist():  # one, unless somebody coalesced the partitions
        part = table if (numbers == bucket).all() else table.filter(pa.array(numbers == bucket))
        yield from _step(data, job, plan, query, version, int(bucket), part.drop_columns(["b"]))


def _epoch() -> tuple[str, int]:
    """The query and the number of the micro-batch that this task works for."""
    from pyspark import TaskContext

    context = TaskContext.get()
    query = context.getLocalProperty("sql.streaming.queryId") if context else None
    version = context.getLocalProperty("streaming.sql.batchId") if context else None
    if query is None or version is None:
        raise UsageError(
            "a pipeline that keeps its own state runs only inside a streaming query, but this task has no micro-batch "
            "number: start it with writeStream, or choose store='spark'"
        )
    return query, int(version)


_claimed: set[tuple[str, str]] = set()


def _claim(job: Job, plan: Plan, query: str) -> None:
    mark = (plan.store.path, query)
    if mark in _claimed:
        return
    found = plan.store.claim(query, {"pipeline": job.graph.name, **plan.identity(job)})
    check_identity(found, plan.identity(job), plan.store.path)
    _claimed.add(mark)


def check_identity(found: dict[str, Any], wanted: dict[str, Any], path: str) -> None:
    """Refuse a state folder that was begun with other keys, orders or buckets."""
    for what, value in wanted.items():
        if found.get(what) != value:
            raise StateError(
                f"the state folder {path} was begun with {what}={_words(found.get(what))}, but now {what}={_words(value)}: "
                "this cannot change; put it back, or begin anew with a new state folder and a new checkpoint"
            )


def _words(value: Any) -> str:
    return ", ".join(str(v[0]) for v in value) or "none" if isinstance(value, list) else str(value)


# ------------------------------------------------------------------ one bucket

_cache: dict[tuple[str, int], tuple[bytes, str, int, Bucket]] = {}


def _step(data: bytes, job: Job, plan: Plan, query: str, version: int, number: int, rows: Any) -> list[Any]:
    """The rows of one bucket in one micro-batch: load, push, save, then give out."""
    from pellucid.spark.bucket import run_bucket

    bucket = _bucket(data, job, plan, query, version, number)
    before = bucket.snapshot
    out = run_bucket(job, bucket, rows)
    state, extra = bucket.save()
    meta = {"digest": job.graph.digest}
    bucket.snapshot = plan.store.save(number, version, state, extra, meta, base=before)
    while len(_cache) >= _CACHED:
        _cache.pop(next(iter(_cache)))
    _cache[plan.store.path, number] = (data, query, version, bucket)
    return out


def _bucket(data: bytes, job: Job, plan: Plan, query: str, version: int, number: int) -> Bucket:
    """The bucket as it was before this micro-batch: from memory if that is the same, else from its file."""
    from pellucid.spark.bucket import Bucket
    from pellucid.spark.step import Runner

    kept = _cache.pop((plan.store.path, number), None)  # taken out: a step that fails must leave nothing behind
    newest = max((v for v in plan.store.versions(number) if v < version), default=None)
    if kept is not None and kept[:3] == (data, query, newest):
        return kept[3]
    bucket = Bucket(Runner(job))
    snapshot = plan.store.load(number, version)  # also asked if none is listed: what was removed must not pass for a new bucket
    if snapshot is not None:
        bucket.load(snapshot.state, snapshot.extra, same=snapshot.meta.get("digest") == job.graph.digest, drop=plan.drop)
        bucket.snapshot = snapshot
    return bucket
