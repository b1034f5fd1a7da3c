"""Streaming: a micro-batch is an epoch (see docs/explanation/spark.md for the argument).

The operator is a plain ``mapInArrow``: Spark does not know that it keeps state, and so any sink, trigger and output
of Spark goes with it.  It finds the number of the micro-batch in the task's local properties, reads the snapshot with a
version below that number, and writes the one with that number before it gives anything out.
"""

from __future__ import annotations

import io
import json
import struct
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError, StateError, UsageError, option
from pellucid.internal.base.container import refuse_other
from pellucid.internal.engine.saved.form import DamagedState
from pellucid.internal.graph.model import inner_key, remembering
from pellucid.spark.daemon import dropped_before
from pellucid.spark.frames import Frame, SparkJob, output_schema, packed, unpacked
from pellucid.spark.session import cores
from pellucid.spark.step import Runner
from pellucid.spark.store import BucketSnapshot, Store
from pellucid.spark.timed import TimedBucket, with_clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A bucket of keys between two micro-batches: its engine, what was applied of each key, and the rows that wait.
#
# It holds no Spark and no files: `pellucid.spark.stream` keeps it in snapshots, `pellucid.spark.stream` in Spark's own
# store.
#
# Rows that wait are kept as they came, in columns that have only numbers (``v0_0``).  So what they were read as goes
# with them (:func:`held_about`): a query that reads other columns, or reads them otherwise, would take them for what
# they are not.

_ABOUT = b"pellucid.read_as"  # in the metadata of the table of rows that wait


@dataclass
class Bucket:
    """The state of a bucket: the engine, the judge of order, and rows that wait."""

    runner: Runner
    held: Any = None  # an Arrow table of rows that wait, or None
    high: int | None = None  # the greatest first order seen
    snapshot: Any = None  # the one it was loaded from, for its keeper

    @property
    def read_as(self) -> dict[str, Any] | None:
        """What the rows that wait were read as; None if none waits."""
        return None if self.held is None else held_about(self.runner.job)

    def save(self) -> tuple[bytes, bytes]:
        """The state, and what else there is to keep."""
        extra = b"" if self.runner.judge is None else self.runner.judge.save()
        held = b""
        if self.held is not None:
            held = table_bytes(
                self.held.replace_schema_metadata({_ABOUT: json.dumps(self.read_as, sort_keys=True).encode()})
            )
        head = struct.pack("<QQ?q", len(extra), len(held), self.high is not None, self.high or 0)
        return self.runner.engine.save(), head + extra + held

    def load(self, state: Any, extra: Any, *, same: bool, drop: tuple[str, ...] = ()) -> None:
        """Go on from there; of another version of the pipeline, step by step.

        A :class:`~pellucid.errors.StateError` says what does not fit: steps, or rows that wait and were read otherwise.
        """
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
        if self.held is not None:
            _check_held(self.runner, self.held, same)


def held_about(job: SparkJob) -> dict[str, Any]:
    """What a row of this job is read as: equal for two jobs if one may take the rows that wait for the other.

    ``columns`` are those of the frame, each with what it is for, the user's name and the type that it has there;
    ``front`` says which steps had been applied to a row, if any, ``key_by`` what made the key, if the pipeline makes it
    itself.

    >>> from pellucid import pipeline
    >>> from pellucid.internal.expr.types import INT, STR
    >>> from pellucid.spark.frames import Fields, FrameSource
    >>> p = pipeline(lambda amount: amount.cumulate(lambda t, v: t + v, start=0), amount=int)
    >>> fields = Fields((FrameSource("amount", INT, ("fee",)),), (("account", STR),), (("seq", INT),))
    >>> held_about(SparkJob(p.graph, fields, (), ()))["columns"]
    [['k0', 'key account', 'str'], ['o0', 'order seq', 'int'], ['v0_0', 'fee', 'int']]
    """
    fields = job.fields
    types = dict(fields.types)
    named = [(c, f"key {n}", t) for c, (n, t) in zip(fields.keys, fields.key, strict=True)]
    named += [(c, f"order {n}", t) for c, (n, t) in zip(fields.orders, fields.order, strict=True)]
    for s, source in enumerate(fields.sources):
        prefix = f"{source.name}: " if len(fields.sources) > 1 else ""
        held = [t for _, t in source.type.columns()]
        named += [(c, prefix + path, t) for c, path, t in zip(fields.values(s), source.columns, held, strict=True)]
    return {
        "columns": [[column, name, types.get(column, str(t))] for column, name, t in named],
        "front": job.front,
        "key_by": made_key(job),
        "rows": "of one source" if fields.tagged else "of all sources" if fields.wide else "",
    }


def made_key(job: SparkJob) -> list[str]:
    """The key that the pipeline makes itself by ``key_by``, as expressions; empty if it comes with the data."""
    return [] if job.external else [repr(e) for e in inner_key(job.graph) or ()]


_SAME = {  # types between which a value that waits does not change
    "tinyint": "bigint", "smallint": "bigint", "int": "bigint", "float": "double", "str": "string", "bool": "boolean",
}  # fmt: skip


def _kind(name: str) -> str:
    text = name.startswith(("string collate ", "varchar(", "char("))
    return "string" if text else _SAME.get(name, name)


def _check_held(runner: Runner, held: Any, same: bool) -> None:
    """Whether rows that wait are what this job would take them for."""
    data = (held.schema.metadata or {}).get(_ABOUT)
    if data is None:
        return  # of a version that did not say
    then, now = json.loads(data), held_about(runner.job)
    if then["front"] != now["front"]:
        if then["front"]:
            raise _other_rows(
                held,
                "other first steps had been applied to a row when it came",
                "with pipeline and options as they were",
            )
        raise _other_rows(
            held,
            "as the DataFrame has them, but now Spark does the first steps before a row comes here",
            "with native='off'",
        )
    kinds = [[[c, n, _kind(t)] for c, n, t in about["columns"]] for about in (then, now)]
    if kinds[0] != kinds[1] or then["rows"] != now["rows"]:
        raise _other_rows(
            held, f"read as {_words(then)}, but now rows are read as {_words(now)}", "with the columns as they were"
        )
    if then["key_by"] != now["key_by"]:
        found = ", but now by ".join(", ".join(about["key_by"]) or "nothing" for about in (then, now))
        raise _other_rows(held, f"key_by made the key by {found}", "with key_by as it was")
    if not same:
        try:
            runner.check(held)
        except DataError as error:
            raise _other_rows(
                held, f"what waits does not fit the pipeline any more ({error})", "with the pipeline as it was"
            ) from None


def _other_rows(held: Any, found: str, how: str) -> StateError:
    many = f"{held.num_rows} row{'s wait' if held.num_rows > 1 else ' waits'}"
    return StateError(
        f"{many} in a bucket of the state: {found}; go on {how} until none waits (without {option('wait')} all go on "
        "with the next rows of their bucket), or begin anew with a new state folder and a new checkpoint"
    )


def _words(about: dict[str, Any]) -> str:
    return ", ".join(f"{name} ({kind})" for _, name, kind in about["columns"]) + (
        f", each row {about['rows']}" if about["rows"] else ""
    )


def run_bucket(job: SparkJob, bucket: Bucket, rows: Any) -> list[Any]:
    """New rows, with those that waited, through the bucket's pipeline."""
    rows, letters = bucket.runner.set_aside(rows)
    if bucket.held is not None:
        # as rows are now, but for what else Spark says of its columns
        schema = pa.schema([(f.name, f.type) for f in rows.schema])
        rows = pa.concat_tables([_cast(bucket.held, schema), rows.cast(schema)]).combine_chunks()
    rows = in_order(job, rows)
    later = None
    if job.late.wait:
        rows, later = _ready(job, bucket, rows)
        bucket.runner.check(later)
    out: list[Any] = []
    held = []
    if rows.num_rows:
        done = bucket.runner.push(rows, readable=True)
        out = done.out
        if done.held is not None:
            held.append(done.held)
    if later is not None and later.num_rows:
        held.append(later)
    bucket.held = pa.concat_tables(held).combine_chunks() if held else None
    return [*letters, *out]


def _ready(job: SparkJob, bucket: Bucket, rows: Any) -> tuple[Any, Any]:
    """The rows that need not wait any more, and the others."""
    first = _plain(rows.column("o0"))
    if first is None:
        bucket.runner.check(rows)  # says which row has no order
        raise DataError(
            f"{option('wait')} needs an order of whole numbers or times, but the order column "
            f"{job.fields.order[0][0]!r} is a text"
        )
    high = max(int(first[-1]), bucket.high if bucket.high is not None else int(first[-1]))
    bucket.high = high
    ready = int((first <= high - job.late.wait).sum())  # they are sorted
    return rows.slice(0, ready), rows.slice(ready)


def _cast(held: Any, schema: Any) -> Any:
    """Rows that waited, in the types that rows have now."""
    try:
        return held.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        what = " ".join(str(error).split())
        raise _other_rows(
            held, f"what waits cannot be read as new rows are ({what})", "with the columns as they were"
        ) from None


def in_order(job: SparkJob, rows: Any) -> Any:
    """Rows by order, then key (then source): the same way however they came, so that a repeated step gives the same
    bytes."""
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


def table_bytes(table: Any) -> bytes:
    """A table as bytes (an Arrow stream)."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def table_of(data: bytes) -> Any:
    """The table again."""
    return pa.ipc.open_stream(pa.py_buffer(bytes(data))).read_all()


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


# The other keeper of state: Spark's own state store, one value for each bucket of keys.
#
# Rows travel to their bucket, and events back, as Arrow data in one binary value: ``applyInPandasWithState`` then moves
# a few values per micro-batch instead of rows, and no type is lost on the way through pandas.
#
# One bucket more holds no keys: every micro-batch goes by it, and it remembers what must not change (key, order, the
# number of buckets).  The other buckets could not tell: a key whose number has changed finds an empty state, and that
# is no error.

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

        yield from packed_rows(batches)

    def step(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:

        if key[0] < 0:
            guard(begun, frames, state)
        else:
            yield from run_group(data, drop, frames, state)

    def unpack(batches: Iterator[Any]) -> Iterator[Any]:

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
