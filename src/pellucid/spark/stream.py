"""Streaming: a micro-batch is an epoch (see docs/explanation/spark.md for the argument).

The operator is a plain ``mapInArrow``: Spark does not know that it keeps state, and so any sink, trigger and output
of Spark goes with it.  It finds the number of the micro-batch in the task's local properties, reads the snapshot with a
version below that number, and writes the one with that number before it gives anything out.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pellucid.errors import StateError, UsageError, option
from pellucid.internal.base.identity import refuse_other
from pellucid.internal.engine.saved.form import DamagedState
from pellucid.internal.graph.memory import remembering
from pellucid.spark.daemon import dropped_before
from pellucid.spark.frames import Frame
from pellucid.spark.job import SparkJob, output_schema, packed, unpacked
from pellucid.spark.session import cores
from pellucid.spark.state.bucket import Bucket, made_key, run_bucket
from pellucid.spark.state.store import BucketSnapshot, Store
from pellucid.spark.step import Runner
from pellucid.spark.timed.bucket import TimedBucket
from pellucid.spark.timed.clock import with_clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pellucid.spark.state.bucket import Bucket

_CACHED = 64  # buckets that a worker process remembers


@dataclass(frozen=True)
class StreamPlan:
    """Where and how a query keeps its state; each call of ``p.spark`` is a start of its own."""

    store: Store
    buckets: int
    drop: tuple[str, ...] = ()
    start: int = 0
    token: str = ""

    def identity(self, job: SparkJob) -> dict[str, Any]:
        """What must not change from one start of the query to the next."""
        return identity(job, self.buckets)


def identity(job: SparkJob, buckets: int) -> dict[str, Any]:
    """What decides where a key lies and which row comes first."""
    fields, types = job.fields, dict(job.fields.types)
    return {
        "buckets": buckets,
        "key": [[n, str(t)] for n, t in fields.key],
        "order": [[n, str(t)] for n, t in fields.order],
        "key type": [types.get(k, "made by key_by") for k in fields.keys],  # by which Spark hashes
        "order type": [types.get(o) for o in fields.orders],
        "key_by": made_key(job),
    }


def prepared(job: SparkJob, store: Store, frame: Frame, buckets: int | None, drop: tuple[str, ...]) -> StreamPlan:
    """The plan for this folder; refused here, before the query starts, if its state does not fit the pipeline."""
    found = store.identity()
    if found is not None and buckets is None:
        buckets = found.get("buckets")  # as it was begun: the number cannot change
    buckets = buckets or (cores(frame.df.sparkSession) if frame.fields.key else 1)
    plan = StreamPlan(store, buckets, drop, store.next_start(), uuid.uuid4().hex)
    if found is not None:
        check_identity(
            found, plan.identity(job), f"the state folder {store.path}", "a new state folder and a new checkpoint"
        )
        _check_state(job, plan)
    store.announce(plan.start, plan.token)
    return plan


def _check_state(job: SparkJob, plan: StreamPlan) -> None:
    """Whether the newest snapshots can be gone on from: of buckets that were left by one pipeline, one is enough."""
    seen: set[str] = set()
    for bucket in plan.store.buckets():
        about = plan.store.about(bucket) or {}
        left_by = json.dumps([about.get("digest"), about.get("held")])
        if left_by in seen and (about.get("held") is None or about.get("digest") == job.graph.digest):
            continue  # rows that wait for another pipeline are looked at one by one
        seen.add(left_by)
        snapshot = plan.store.load(bucket, 1 << 62)
        if snapshot is not None:
            load(_new(job), job, plan, snapshot, 1 << 62)


def _new(job: SparkJob) -> Bucket | TimedBucket:
    """A bucket that remembers nothing yet."""
    return TimedBucket(job) if job.graph.timed else Bucket(Runner(job))


def load(bucket: Bucket | TimedBucket, job: SparkJob, plan: StreamPlan, snapshot: BucketSnapshot, version: int) -> None:
    """Go on from a snapshot in this micro-batch, without what was given up since it was saved."""
    given_up = plan.store.dropped(snapshot.version, version)
    same = snapshot.meta.get("digest") == job.graph.digest and not given_up
    try:
        bucket.load(snapshot.state, snapshot.extra, same=same, drop=(*plan.drop, *given_up))
    except DamagedState as error:
        raise StateError(f"the snapshot {snapshot.file.name} in {plan.store.path}: {error}") from None
    bucket.snapshot = snapshot


def streamed(job: SparkJob, frame: Frame, plan: StreamPlan) -> DataFrame:
    """The frame through the pipeline, bucket by bucket."""
    from pyspark.sql import functions as F

    if job.graph.timed:
        return with_clock(job, frame, plan.buckets).mapInArrow(_worker(job, plan), output_schema(job, frame))
    keys = [F.col(k) for k in frame.fields.keys]
    if keys:
        # The very expression by which Spark partitions, so a partition is a bucket.
        bucket = F.pmod(F.hash(*keys), F.lit(plan.buckets))
        df = frame.df.withColumn("b", bucket).repartition(plan.buckets, *keys)
    else:
        df = frame.df.withColumn("b", F.lit(0)).repartition(1)
    return df.mapInArrow(_worker(job, plan), output_schema(job, frame))


def _worker(job: SparkJob, plan: StreamPlan) -> Callable[[Iterator[Any]], Iterator[Any]]:
    data = packed(job)

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        from pellucid.spark.stream import run_task

        yield from run_task(data, plan, batches)

    return run


def run_task(data: bytes, plan: StreamPlan, batches: Iterator[Any]) -> Iterator[Any]:
    """One partition of one micro-batch."""
    query, version, partition = _epoch()
    job = unpacked(data)
    since = _claim(job, plan, query, version)
    waiting = [b for b in batches if b.num_rows]
    table = pa.Table.from_batches(waiting).combine_chunks() if waiting else None
    if table is not None and not (table.column("b").to_numpy() == partition).all():
        # of a partition without rows nothing else tells which bucket has run
        raise UsageError(
            f"partition {partition} of micro-batch {version} has rows of another bucket of keys: what p.spark gives "
            "must be computed in the partitions that it has; say repartition(n) instead of coalesce(n), and in a union "
            "with other DataFrames name it first"
        )
    if version > since:
        _check_ran(plan.store, partition, version)
    if table is None:
        plan.store.settle(partition, version, plan.start)
    else:
        yield from _step(job, plan, query, version, partition, table.drop_columns(["b"]))


def _check_ran(store: Store, bucket: int, version: int) -> None:
    """Refuse to go on if the bucket did not run in the micro-batch before, which Spark has committed."""
    ran = store.generation(bucket)
    if ran < 0:
        store.load(bucket, version)  # says so if its snapshots are gone
    if ran < version - 1:
        again = ran + 1
        back = (
            f"go back to micro-batch {again}, in the checkpoint and with Store(…).rewind({again}), or "
            if ran >= 0
            else ""
        )
        raise StateError(
            f"micro-batch {version - 1} was committed, but bucket {bucket} of the state folder {store.path} did not "
            f"run in it (it ran last in {'none' if ran < 0 else ran}), so events would be lost: foreachBatch must "
            "compute the whole DataFrame (write or collect it; not only limit, take or first), and the folder must "
            f"not be an older copy; put that right and {back}begin anew with a new checkpoint and a new state folder"
        )


def _epoch() -> tuple[str, int, int]:
    """The query, the number of the micro-batch that this task works for, and the number of its partition."""
    from pyspark import TaskContext

    context = TaskContext.get()
    query = context.getLocalProperty("sql.streaming.queryId") if context else None
    version = context.getLocalProperty("streaming.sql.batchId") if context else None
    if context is None or query is None or version is None:
        raise UsageError(
            "a pipeline that keeps its own state runs only inside a streaming query, but this task has no micro-batch "
            "number: start it with writeStream, or choose store='spark'"
        )
    return query, int(version), context.partitionId()


_claimed: set[tuple[str, str, str]] = set()


def _claim(job: SparkJob, plan: StreamPlan, query: str, version: int) -> int:
    """The folder is the driver's, this query's, and this start is the newest of it; since which micro-batch each bucket
    says that it has run."""
    store = plan.store
    since = store.owned(plan.start, plan.token)
    if since is None:
        store.find(plan.start, plan.token)
    mark = (store.path, query, plan.token)
    if mark not in _claimed:
        if version > 0 and store.identity() is None:
            _check_begin(job, plan, version)
        found = store.claim(query, {"pipeline": job.graph.name, **plan.identity(job)})
        check_identity(
            found, plan.identity(job), f"the state folder {store.path}", "a new state folder and a new checkpoint"
        )
    _claimed.add(mark)
    return store.own(plan.start, plan.token, version) if since is None else since


def _check_begin(job: SparkJob, plan: StreamPlan, version: int) -> None:
    """An empty folder in the middle of a query is right only for who gives up what there was."""
    steps = [node.id for node in remembering(job.graph)]
    if job.graph.timed or not set(steps) <= set(plan.drop):
        anew = (
            ""
            if job.graph.timed
            else f", or, if nothing was remembered before or it may be given up, go on with {option('drop', steps)}"
        )
        raise StateError(
            f"the query is at micro-batch {version}, but the state folder {plan.store.path} is empty: is it the one of "
            f"this checkpoint? Begin anew with a new checkpoint as well{anew}"
        )


def check_identity(found: dict[str, Any], wanted: dict[str, Any], where: str, anew: str) -> None:
    """Refuse a state that was begun with other keys, orders or buckets."""
    known = {what: what for what in wanted if what in found}
    refuse_other(where, found, wanted, known, f"This cannot change: put it back, or begin anew with {anew}")


# ------------------------------------------------------------------ one bucket

# By folder and bucket: of which start and query, as it was left.
_cache: dict[tuple[str, int], tuple[str, str, Bucket | TimedBucket]] = dropped_before({})


def _step(job: SparkJob, plan: StreamPlan, query: str, version: int, number: int, rows: Any) -> list[Any]:
    """The rows of one bucket in one micro-batch: load, push, save, then give out."""
    bucket = _bucket(job, plan, query, version, number)
    before = bucket.snapshot
    meta: dict[str, Any] = {"digest": job.graph.digest}
    if isinstance(bucket, TimedBucket):
        out = bucket.run(rows)
        meta |= {"held": None, **bucket.about}
    else:
        out = run_bucket(job, bucket, rows)
        meta["held"] = bucket.read_as
    state, extra = bucket.save()
    bucket.snapshot = plan.store.save(number, version, state, extra, meta, base=before, start=plan.start)
    while len(_cache) >= _CACHED:
        _cache.pop(next(iter(_cache)))
    _cache[plan.store.path, number] = (plan.token, query, bucket)
    return out


def _bucket(job: SparkJob, plan: StreamPlan, query: str, version: int, number: int) -> Bucket | TimedBucket:
    """The bucket as it was before this micro-batch: from memory if that is the same, else from its file."""
    kept = _cache.pop((plan.store.path, number), None)  # taken out: a step that fails must leave nothing behind
    if (
        kept is not None
        and kept[:2] == (plan.token, query)
        and kept[2].snapshot.file.id == plan.store.newest(number, version)
    ):
        return kept[2]  # the very file: another worker may have written this version again
    bucket = _new(job)
    # also asked if none is listed: what was removed must not pass for a new bucket
    snapshot = plan.store.load(number, version)
    if snapshot is not None:
        load(bucket, job, plan, snapshot, version)
        if plan.drop and snapshot.meta.get("digest") != job.graph.digest:
            plan.store.note_drop(version, plan.drop, plan.start)
    return bucket
