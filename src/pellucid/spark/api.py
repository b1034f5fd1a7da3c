"""``p.spark(…)``: a DataFrame in, a DataFrame out, by the best plan for the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any

from pellucid.errors import UsageError, option
from pellucid.internal.data.bind import (
    COLUMNS,
    BadOption,
    BadRow,
    keep_word,
    kept_columns,
    said_keep,
    too_many,
)
from pellucid.internal.data.outputs import refuse_types
from pellucid.internal.engine.kernel.layout import capacities
from pellucid.internal.engine.saved.objects import check_states
from pellucid.internal.expr.types import BOOL, INT, STR, Type
from pellucid.internal.graph.model import Graph, inner_keys, refuse_answer_names
from pellucid.internal.request import BATCH, SPARK, STREAM, Request, asked, by_time
from pellucid.spark.column import column
from pellucid.spark.frames import (
    BAD,
    LATE,
    Frame,
    Late,
    Met,
    SparkJob,
    case_counts,
    one_frame,
    output_schema,
    packed,
    unpacked,
)
from pellucid.spark.plan import SparkPlan, choose
from pellucid.spark.reading import arrow_kind, event_columns, plain_leaves
from pellucid.spark.step import Runner, check_sequence, in_chunks
from pellucid.spark.store import Store
from pellucid.spark.stream import prepared, streamed
from pellucid.spark.timed import TimedRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Batch: rows to the partitions of their keys, sorted by order, through the kernel.
#
# The sort is on the order alone, not on key and order: the engine keeps the keys apart anyway, and Spark sorts one
# whole number with radix sort.


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

        yield from run_partition(data, batches)

    return run


def run_partition(data: bytes, batches: Iterator[Any]) -> Iterator[Any]:
    """A partition's rows, in order, through a new engine."""
    job = unpacked(data)
    runner = Runner(job)
    for table in in_chunks(batches, job.fields.tagged):
        yield from runner.push(table).out


# A batch by event time: rows to the partition of their key, all of them taken, then the end of the input.


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
        run_partition = run_partition_batch

        yield from run_partition(data, batches)

    return run


def run_partition_batch(data: bytes, batches: Iterator[Any]) -> Iterator[Any]:
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


def run(graph: Graph, frames: Sequence[Any], named: Mapping[str, Any], words: Mapping[str, Any]) -> Any:
    """A DataFrame, or a dict of them by output; ``words`` are the keywords of ``p.spark``."""
    given = _given(graph, frames, named)
    streaming = any(getattr(df, "isStreaming", False) for df in given.values())
    options = asked(STREAM if streaming else BATCH, words)
    if graph.timed:
        options = by_time(graph, options, SPARK)
        refuse_answer_names(graph, options.key)
    key, order = options.key, options.order
    keep = _kept(graph, given, options, [*key, *order])
    bad = check_bad(graph, options)
    said: dict[str, Any] = {"nan": options.nan_is_value, "formats": options.time_format, "files": bool(bad)}
    frame = one_frame(graph, given, value=options.value, key=key, order=order, keep=keep, **said)
    plan = choose(
        graph,
        key=bool(key),
        order=bool(order),
        streaming=streaming,
        native=options.native,
        ansi=_ansi(frame.df),
        tagged=frame.fields.tagged,
        nan=options.nan_is_value,
        bad=bool(bad),
        wide=frame.fields.wide,
    )
    if plan.problem is not None:
        raise UsageError(plan.problem)
    outputs = tuple((name, graph.nodes[at].type) for name, at in graph.outputs)
    if bad:
        return _with_bad(graph, frame, replace(options, native="off"), plan, outputs, bad.most)
    if len(outputs) > 1 and options.tag is None:
        if streaming:
            raise UsageError(
                f"{graph.name} has several outputs ({', '.join(n for n, _ in outputs)}): a streaming query has one "
                "result, so say tag='output' to get one DataFrame with a column that tells which output a row is of"
            )
        return {name: _one(graph, frame, options, plan, ((name, t),)) for name, t in outputs}
    return _one(graph, frame, options, plan, outputs)


def _one(
    graph: Graph, frame: Frame, options: Request, plan: SparkPlan, outputs: tuple[tuple[str, Type], ...]
) -> DataFrame:
    """One DataFrame with these outputs."""
    job = _job(graph, frame, options, outputs)
    if plan.timed:
        return _by_time(graph, frame, options, plan, replace(job, ordered=False))
    if plan.way == "native":
        from pellucid.spark.column import NotNative
        from pellucid.spark.native import native_frame

        try:
            return native_frame(job, frame, ansi=_ansi(frame.df))
        except NotNative:  # too large as a whole, or checks that no output computes
            plan = replace(plan, way="rows")
    if plan.way == "rows":
        return per_row(replace(job, ordered=False, external=False), frame)
    if plan.way == "inner":
        from pellucid.spark.native import with_inner_key

        frame, job = with_inner_key(graph, frame, job, ansi=_ansi(frame.df))
    exact = not (options.nan_is_value and graph.reads_floats)
    if options.native == "auto" and len(graph.sources) == 1 and exact:
        from pellucid.spark.native import cut, leaves_of

        leaves, sure = leaves_of(frame)
        job, frame = cut(job, frame, leaves, sure, ansi=_ansi(frame.df))
    if frame.df.isStreaming:
        return _streaming(graph, frame, options, job)
    return keyed(job, frame, options.partitions)


def _by_time(graph: Graph, frame: Frame, options: Request, plan: SparkPlan, job: SparkJob) -> DataFrame:
    """The way of a pipeline by event time."""

    if plan.way == "inner":
        frame, job = with_inner_keys(graph, frame, job, ansi=_ansi(frame.df))
    if frame.df.isStreaming:
        if options.store == "spark":
            raise UsageError(
                f"{graph.name} works by event time, and store='spark' does not know its clock: every bucket is told of "
                "it in every micro-batch; say state='FOLDER' instead"
            )
        return _streaming(graph, frame, options, job)
    return timed_batch(job, frame, options.partitions)


def check_bad(graph: Graph, options: Request) -> BadOption:
    """What becomes of bad rows, if that can be done here."""
    bad = options.aside
    if bad.address is not None:
        raise UsageError(
            f"bad={bad.to!r}: p.spark gives DataFrames: say bad='keep', and write the output called {BAD!r} where you "
            "like; pellucid run --on spark --bad does it for you"
        )
    if bad and options.sequence is not None:
        raise UsageError("bad= does not go with sequence=: a row that is set aside would be missing in the sequence")
    if bad and BAD in [name for name, _ in graph.outputs]:
        raise UsageError(f"bad='keep' makes an output called {BAD!r}, and {graph.name} has one: rename it")
    return bad


def _with_bad(
    graph: Graph,
    frame: Frame,
    options: Request,
    plan: SparkPlan,
    outputs: tuple[tuple[str, Type], ...],
    most: int | None,
) -> Any:
    """The outputs, and the rows that are set aside as one more."""
    if frame.df.isStreaming:
        if options.tag is None:
            raise UsageError(
                "bad='keep' gives rows that are set aside as an output of their own, and a streaming query has one "
                "result: say tag='output' to get a column that tells them apart"
            )
        if most is not None:
            raise UsageError(
                "max_bad= is for a batch: of a streaming query Spark's progress tells how many there are "
                "(observedMetrics['pellucid']); pellucid run --on spark --stream --max-bad ends it"
            )
        return _counted(_one(graph, frame, options, plan, outputs), options.tag)
    alone = _one(graph, frame, replace(options, tag=_TAG, keep=(), late=_not_kept(options.late)), plan, ())
    if most is not None:
        count = alone.count()
        if count > most:
            raise too_many(count, most, [BadRow(*row[BAD]) for row in alone.select(BAD).limit(3).collect()])
    if options.tag is not None:
        return _one(graph, frame, options, plan, outputs)
    kept = [name for name in alone.columns if name not in (_TAG, BAD)]
    refuse_letter_names(kept)
    others = replace(options, bad="drop")
    frames = {name: _one(graph, frame, others, plan, ((name, t),)) for name, t in outputs}
    return {**frames, BAD: alone.select(*[f"`{name}`" for name in kept], f"{BAD}.*")}


_TAG = "pellucid output"


def _not_kept(late: str) -> str:
    """Late rows are no bad ones: who looks at those alone leaves them out."""
    return "drop" if late == "keep" else late


def _counted(df: DataFrame, tag: str) -> DataFrame:
    """The same, with the number of bad rows in Spark's own progress of the query."""
    from pyspark.sql import functions as F

    return df.observe("pellucid", F.count(F.when(F.col(f"`{tag}`") == BAD, 1)).alias(BAD))


def refuse_letter_names(kept: Sequence[str]) -> None:
    """Columns of key and order stand beside those of a dead letter."""
    for name in kept:
        if name.lower() in COLUMNS:
            raise UsageError(
                f"the column {name!r} of the key or order has the name of a column of the output {BAD!r} "
                f"({', '.join(COLUMNS)}): rename it"
            )


def _streaming(graph: Graph, frame: Frame, options: Request, job: SparkJob) -> DataFrame:
    check_states(job.graph)
    if options.store == "spark":
        from pellucid.spark.stream import managed

        return managed(job, frame, options.buckets, options.drop)
    if options.state is None:
        raise UsageError(
            f"{graph.name} remembers something, so a streaming query of it keeps snapshots: say where with "
            "state='FOLDER' (a folder of its own, best beside the query's checkpoint), or let Spark keep it with "
            "store='spark'"
        )
    plan = prepared(job, Store(options.state), frame, options.buckets, options.drop)
    return streamed(job, frame, plan)


def _job(graph: Graph, frame: Frame, options: Request, outputs: tuple[tuple[str, Type], ...]) -> SparkJob:
    held = frame.fields
    check_sequence(held.order, options.sequence, options.gaps)
    late = Late(options.late, _wait(options.wait, frame), options.sequence, options.gaps)
    if late.policy == "keep" and options.tag is None:
        raise UsageError(
            "late='keep' gives late rows as an output of their own: say tag='output' to get a column that tells them "
            "apart"
        )
    most = {} if graph.timed else {name: c for (name, at) in graph.outputs for c in [capacities(graph)[at]]}
    nth = options.nth
    if nth is None and not graph.timed and any(most[name] != 1 for name, _ in outputs):
        nth = "nth"
    if options.tag is None:
        taken = {f.name for name, t in outputs for f in event_columns(t, name)}
    else:
        taken = {name for name, _ in outputs} | ({LATE} if late.policy == "keep" else set())
        taken |= {BAD} if options.bad == "keep" else set()
    for what, name_of in (("tag", options.tag), ("nth", nth)):
        if name_of is not None and (name_of in taken or name_of in {n for n, _ in frame.kept} or name_of in held.along):
            raise UsageError(f"{what}={name_of!r}: there is a column of this name already; choose another with {what}=")
    scalars = {
        name for name, t in outputs if options.tag is not None or [f.name for f in event_columns(t, name)] == [name]
    }
    for name, _ in frame.kept:
        if name in scalars:
            raise UsageError(
                f"the column {name!r} of the key or order has the name of an output of {graph.name}: one of them would "
                "be lost; rename the column, or "
                "name the output otherwise (a pipeline that returns a dict names its outputs)"
            )
    if options.tag is not None:
        _refuse_outputs([*(name for name, _ in frame.kept), *held.along], taken)
    columns = [*held.keys, *held.orders]
    kept: dict[str, str] = {}
    met: dict[str, Met] = {}
    for i, ((name, found), its_column) in enumerate(zip(frame.kept, columns, strict=True)):
        if name not in taken:
            kept.setdefault(name, its_column)
            continue
        if i >= len(held.keys):
            continue  # of the order: what a record has itself is its own
        for output, t in outputs:
            refuse_types("key", output, t, {name: arrow_kind(found, name, "the DataFrame", t)})
        forms = [form for source in held.sources for path, form in source.formats if path == name]
        met.setdefault(name, Met("key", name, its_column, forms[0] if forms else None))
    for name, its_column in zip(held.along, held.keeps, strict=True):
        if name not in taken:  # of all columns those that a record has itself are its own
            kept[name] = its_column
    if not case_counts(frame.df):
        _refuse_case([*kept, *taken, *([options.tag] if options.tag else []), *([nth] if nth else [])], held.along)
    bad = str(options.bad or "fail")
    said: dict[str, Any] = {"late": late, "nth": nth, "tag": options.tag, "bad": bad}
    return SparkJob(graph, held, outputs, tuple(kept.items()), met=tuple(met.values()), **said)


def _refuse_outputs(names: Sequence[str], outputs: Collection[str]) -> None:
    """With a tag each output is a column by its name, also that of late and of bad rows."""
    for name in names:
        if name in outputs:
            raise UsageError(
                f"the column {name!r} has the name of an output, which is a column with tag=: one of them would be "
                "lost; rename the column, or do not keep it"
            )


def _kept(graph: Graph, given: Mapping[str | None, Any], options: Request, there: Sequence[str]) -> tuple[str, ...]:
    """The columns that come along with the events."""
    refuse_keep(graph, given, options.keep, waits=bool(options.wait) or options.gaps == "wait")
    keep = kept_names(graph, given, options.keep)
    if not keep:
        return ()
    (df,) = given.values()
    if not hasattr(df, "columns"):
        return ()  # what it is instead will be said
    types = {name: graph.nodes[at].type for name, at in graph.outputs}
    found = kept_columns(
        keep, {"": list(df.columns)}, types, there=there, place={"": "the DataFrame"}, graph=graph.name
    )
    return tuple(found.from_input(""))


def kept_names(graph: Graph, given: Collection[str | None], keep: Any) -> Any:
    """What is kept of the only DataFrame: names, or True for all; also where it is said for the only source."""
    keep = said_keep(keep)
    if isinstance(keep, Mapping) and len(given) == 1 and list(keep) == [graph.nodes[i].id for i in graph.sources]:
        return next(iter(keep.values()))
    return keep


def refuse_keep(graph: Graph, given: Collection[str | None], keep: Any, *, waits: bool) -> None:
    """Refuse columns that cannot come along on Spark."""
    keep, word = kept_names(graph, given, keep), keep_word()
    if keep and (len(given) > 1 or isinstance(keep, Mapping)):
        raise UsageError(
            f"{graph.name}: {word} goes with one DataFrame on Spark: join the columns of several to what comes out, by "
            "key and order"
        )
    if keep and waits:
        raise UsageError(
            f"{word} does not go with rows that wait: leave {option('wait')} and {option('gaps', 'wait')} out, or join "
            "the columns"
        )


def _refuse_case(names: Sequence[str], along: Sequence[str]) -> None:
    """Two columns that differ only in case are one to Spark."""
    for name in names:
        other = next((n for n in names if n != name and n.lower() == name.lower()), None)
        if other is not None and name not in along and other not in along:
            raise UsageError(
                f"the columns {name!r} and {other!r} of what comes out differ only in case, which Spark does not tell "
                "apart: rename one"
            )
    for name in along:
        other = next((n for n in names if n != name and n.lower() == name.lower()), None)
        if other is not None:
            raise UsageError(
                f"{keep_word(name)}: the columns {name!r} and {other!r} differ only in case, which Spark does not tell "
                "apart: rename one, or do not keep it"
            )


def _given(graph: Graph, frames: Sequence[Any], named: Mapping[str, Any]) -> dict[str | None, Any]:
    """DataFrames by source; None for one that holds all."""
    sources = [graph.nodes[i].id for i in graph.sources]
    if len(frames) == 1 and isinstance(frames[0], Mapping):
        named, frames = {**frames[0], **named}, ()
    if len(frames) > len(sources):
        raise UsageError(
            f"{graph.name} has {len(sources)} source(s) ({', '.join(sources)}), but {len(frames)} DataFrames were given"
        )
    if len(frames) == 1 and not named:
        return {None: frames[0]}
    given: dict[str | None, Any] = dict(zip(sources, frames, strict=False))
    for name, df in named.items():
        if name in given:
            raise UsageError(f"{graph.name}: the source {name!r} was given twice")
        given[name] = df
    if not given:
        raise UsageError(f"{graph.name}.spark wants a DataFrame for {', '.join(sources)}")
    return given


def _wait(wait: int | timedelta | None, frame: Frame) -> int:
    """How far the order must have gone on, in the unit of the order column."""
    if wait is None:
        return 0
    if not frame.fields.order:
        raise UsageError(f"{option('wait')} needs {option('order')}")
    name, t = frame.fields.order[0]
    wants = f"{option('wait')} must be"
    kind = type(dict(frame.kept)[name]).__name__
    if kind in ("TimestampType", "TimestampNTZType", "DateType"):
        if not isinstance(wait, timedelta):
            raise UsageError(f"{wants} a timedelta, as the order column {name!r} is a time, found {wait!r}")
        if kind == "DateType" and wait % timedelta(days=1):
            raise UsageError(f"{wants} whole days, as the order column {name!r} is a date, found {wait!r}")
        amount = wait // timedelta(microseconds=1) if kind != "DateType" else wait.days
    else:
        if t != INT or isinstance(wait, (bool, timedelta)) or not isinstance(wait, int):
            raise UsageError(f"{wants} a whole number, in the unit of the order column {name!r}, found {wait!r}")
        amount = wait
    if amount < 0:
        raise UsageError(f"{option('wait')} must not be negative, found {wait!r}")
    return amount


def _ansi(df: DataFrame) -> bool:
    return str(df.sparkSession.conf.get("spark.sql.ansi.enabled", "true")).lower() == "true"
