"""Event time on Spark: the engine of event time in batch jobs, and in streaming queries with a clock of their own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pellucid.errors import StateError, StepError, UsageError, option
from pellucid.internal.data.arrow import array_of, event_arrays, key_array
from pellucid.internal.data.columns import Batch, Column, Output
from pellucid.internal.data.outputs import refuse_other_columns
from pellucid.internal.engine.epochs.status import engine_at
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.engine.timed.clock import feeders
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.engine.timed.literal import fed_by
from pellucid.internal.engine.timed.why.answer import Progress, moment, progress_of
from pellucid.internal.expr.types import OptionalType
from pellucid.internal.graph.model import Graph, Node
from pellucid.spark.frames import Fields, Frame, SparkJob, packed, unpacked
from pellucid.spark.step import Reader, column_type, in_chunks, joined_batch, one_column, spread, unnumbered
from pellucid.spark.store import BucketSnapshot, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Arrow rows of a frame through the engine of event time, to Arrow rows.  It holds no Spark.

_ROWS = 1 << 17  # rows of a record batch that goes back to Spark


class TimedRunner(Reader):
    """A pipeline by event time at work on rows of a frame: a row is a push, and their order does not matter."""

    def __init__(self, job: SparkJob) -> None:
        super().__init__(job)
        self.engine = TimedEngine(job.graph, key=job.fields.key_type if job.external else None, mode=job.engine)
        self._wanted = {name for name, _ in job.outputs}
        self._schema: Any = None  # of the frame, as Arrow has it

    def take(self, table: Any) -> Iterator[Any]:
        """Rows of a batch that more may follow: what comes out with them."""
        self._schema = table.schema
        if not table.num_rows:
            return
        first = self.engine.pushed
        try:
            outputs = self.engine.take(self.batch(table))
        except StepError as error:
            raise self._placed(error, table, error.position - first) from None
        yield from self._shown(outputs)

    def move(self, marks: Mapping[str, int] | None = None) -> Iterator[Any]:
        """The clock moves to what was seen, here and elsewhere: what is complete."""
        try:
            outputs = self.engine.move(marks)
        except StepError as error:
            raise self._placed(error) from None
        yield from self._shown(outputs)

    def finish(self) -> Iterator[Any]:
        """The end of the input: all the rest."""
        try:
            outputs = self.engine.finish_batch()
        except StepError as error:
            raise self._placed(error) from None
        yield from self._shown(outputs)

    def batch(self, table: Any) -> Batch:
        """Rows as a batch, each a push."""
        keys: list[Column] = []
        if self.job.external:
            for (name, t), column in zip(self.fields.key, self.fields.keys, strict=True):
                keys += self._leaves(t, table.column(column), name, "key", table)
        columns: list[list[Column]] = []
        masks: list[Any] = []
        for leaves, mask in self.sources(table, range(len(self._bindings))):
            columns.append(leaves)
            masks.append(mask)
        batch = Batch(table.num_rows, columns, masks)
        if self.job.external and self.fields.key:
            batch.keys = [keys for _ in columns]
        return batch

    def sources(self, table: Any, which: Iterable[int]) -> Iterator[tuple[list[Column], Any]]:
        """The leaves of some sources, and in which rows they have an event (None: in all)."""
        tags = table.column("s").to_numpy() if self.fields.tagged else None
        for s in which:
            if tags is None:
                yield self._columns(self._bindings[s], s, table)
                continue
            rows = np.flatnonzero(tags == s)
            leaves, _ = self._columns(self._bindings[s], s, table.take(pa.array(rows)))
            yield [spread(c, rows, table.num_rows) for c in leaves], tags == s

    def _placed(self, error: StepError, table: Any = None, at: int = -1) -> StepError:
        """The failure with its row, without the number of its push, which is one of a partition."""
        where = ""
        if table is not None and 0 <= at < table.num_rows and self.job.external and self.fields.key:
            where = f"\n  from {self._row(table, at)}"
        return type(error)(f"{unnumbered(error)}{where}", step=error.step, position=-1, why=error.why)

    def _shown(self, outputs: list[Output]) -> Iterator[Any]:
        for output in outputs:
            if output.name in self._wanted and len(output):
                whole = self._events(output)
                for start in range(0, whole.num_rows, _ROWS):
                    yield whole.slice(start, _ROWS)

    def _events(self, output: Output) -> Any:
        """What came out, as Spark gets it: the key, which output it is of, the event."""
        names, arrays = [], []
        kept = {column: name for name, column in self.job.kept}
        met = {one.column: one for one in self.job.met}
        leaves = iter(output.keys or ())
        for (_, t), column in zip(self.fields.key if self.job.external else (), self.fields.keys, strict=False):
            own = [next(leaves) for _ in range(t.width)]
            if column not in kept and column not in met:
                continue
            array = _as_it_came(key_array(t, own), self._schema.field(column).type)
            if column in met:
                refuse_other_columns("key", output, [(met[column].name, array)], formats=met[column].formats)
            if column in kept:
                names.append(kept[column])
                arrays.append(array)
        count = len(output)
        if self.job.tag is not None:
            names.append(self.job.tag)
            arrays.append(pa.array([output.name], pa.string()).take(pa.array(np.zeros(count, np.int64))))
        parts = [array_of(t, c) for (_, t), c in zip(output.type.leaves(), output.columns, strict=True)]
        inner_names, inner = event_arrays(output.type, output.name, parts)
        if self.job.tag is None:
            return joined_batch(names + inner_names, arrays + inner)
        value = one_column(output.name, inner_names, inner)
        for name, t in self.job.outputs:
            names.append(name)
            arrays.append(value if name == output.name else pa.nulls(count, column_type(name, t)))
        return joined_batch(names, arrays)


def _as_it_came(array: Any, kind: Any) -> Any:
    """A key in the type that its column had: engines keep dates and times as numbers, decimals as texts.

    >>> _as_it_came(pa.array([19723, None]), pa.date32()).to_pylist()
    [datetime.date(2024, 1, 1), None]
    >>> _as_it_came(pa.array(["1.50"]), pa.decimal128(5, 2)).to_pylist()
    [Decimal('1.50')]
    """
    if pa.types.is_date32(kind):
        array = array.cast(pa.int32())
    return array if array.type == kind else array.cast(kind)


# The clock of a micro-batch, as rows.
#
# A bucket sees only its own rows, and the clock is of all of them.  So before rows go to their buckets, each partition
# says to every bucket how far event time has come in it: the greatest time that each step `at` has seen there, in one
# more row.  A bucket takes its rows, and then moves to the greatest of what it was told.  It is told in every
# micro-batch, also if no row is of its keys: what is complete comes out then, and not when a key has its next row.
#
# ===========  =========================================================================
# column       what it is (beside those of `pellucid.spark.frames`)
# ===========  =========================================================================
# ``n``        when the micro-batch began, by the clock on the wall; Spark's offset log has it, so that a micro-batch
# that
#              is run again has the same
# ``r``        a number that Spark sends to the partition of the bucket's number
# ``w``        of a row of the clock: the times seen, as JSON; null in rows of data
# ===========  =========================================================================

_MASK = (1 << 32) - 1


def with_clock(job: SparkJob, frame: Frame, buckets: int) -> DataFrame:
    """The frame's rows in the partitions of their buckets, with the rows of the clock."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

    keys = [F.col(k) for k in frame.fields.keys]
    df = frame.df.withColumn("n", F.current_timestamp())
    if not keys:  # one bucket, which sees all there is
        return df.withColumn("b", F.lit(0)).repartition(1)
    df = df.withColumn("b", F.pmod(F.hash(*keys), F.lit(buckets)))
    own = [StructField(f.name, f.dataType, True) for f in frame.df.schema.fields]
    more = [StructField("b", IntegerType()), StructField("r", IntegerType()), StructField("w", BinaryType())]
    told = df.mapInArrow(_worker(job, buckets), StructType([*own, *more]))
    return told.repartition(buckets, "r").drop("r")


def _worker(job: SparkJob, buckets: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    data = packed(job)

    def run(batches: Iterator[Any]) -> Iterator[Any]:

        yield from tell(data, buckets, batches)

    return run


def tell(data: bytes, buckets: int, batches: Iterator[Any]) -> Iterator[Any]:
    """The rows of a partition, and then one for each bucket that says what times they have."""
    found: dict[str, int] = {}
    sources: set[str] = set()
    began: int | None = None
    routes = np.array(routes_to(buckets), np.int32)
    times, schema = None, None
    for table in in_chunks(batches, False):
        times = times or Times(unpacked(data))
        began = began_at(table)
        sources |= present(times.fields, table)
        for step, time in times.of(table).items():
            found[step] = max(found.get(step, time), time)
        rows = table.drop_columns(["n"])
        rows = rows.append_column("r", pa.array(routes[rows.column("b").to_numpy()], pa.int32()))
        rows = rows.append_column("w", pa.nulls(rows.num_rows, pa.binary()))
        schema = pa.schema([(f.name, f.type) for f in rows.schema])  # rows of the clock have nothing in most columns
        yield from pa.Table.from_arrays(rows.columns, schema=schema).to_batches()
    if schema is not None:
        yield _told(schema, buckets, routes, {"seen": found, "sources": sorted(sources), "began": began})


def _told(schema: Any, buckets: int, routes: Any, what: dict[str, Any]) -> Any:
    said = pa.array([json.dumps(what).encode()] * buckets, pa.binary())
    given = {"b": pa.array(np.arange(buckets), pa.int32()), "r": pa.array(routes, pa.int32()), "w": said}
    columns = [given[f.name] if f.name in given else pa.nulls(buckets, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(frozen=True)
class Told:
    """What a bucket is told in a micro-batch: its rows, the times that were seen in all of it (None: whatever these
    rows have), which sources had rows, and when it began, in microseconds."""

    rows: Any
    seen: dict[str, int] | None
    sources: set[str]
    began: int | None


def heard(fields: Fields, table: Any) -> Told:
    """The rows of a bucket apart from those of the clock."""
    if "w" not in table.schema.names:
        return Told(table.drop_columns(["n"]), None, present(fields, table), began_at(table))
    said = table.column("w")
    words = [json.loads(word) for word in said.drop_null().to_pylist()]
    seen: dict[str, int] = {}
    for word in words:
        for step, time in word["seen"].items():
            seen[step] = max(seen.get(step, time), time)
    began = [word["began"] for word in words if word["began"] is not None]
    sources = {source for word in words for source in word["sources"]}
    return Told(table.filter(said.is_null()).drop_columns(["w"]), seen, sources, max(began, default=None))


def present(fields: Fields, table: Any) -> set[str]:
    """The sources that have rows here, whatever becomes of those: one whose events are all filtered is not silent.

    >>> from pellucid.internal.expr.types import INT
    >>> from pellucid.spark.frames import FrameSource
    >>> both = Fields((FrameSource("x", INT, ("x",)), FrameSource("y", INT, ("y",))), tagged=True)
    >>> present(both, pa.table({"s": [1, 1]}))
    {'y'}
    """
    if not table.num_rows:
        return set()
    if fields.tagged:
        return {fields.sources[int(s)].name for s in np.unique(table.column("s").to_numpy())}
    if not fields.wide:
        return {source.name for source in fields.sources}
    there = [
        any(table.column(c).null_count < table.num_rows for c in fields.values(s)) for s in range(len(fields.sources))
    ]
    return {source.name for source, some in zip(fields.sources, there, strict=True) if some}


def counted(fields: Fields, table: Any) -> dict[str, int]:
    """How many rows each source has here.

    >>> from pellucid.internal.expr.types import INT
    >>> from pellucid.spark.frames import FrameSource
    >>> both = Fields((FrameSource("x", INT, ("x",)), FrameSource("y", INT, ("y",))), tagged=True)
    >>> counted(both, pa.table({"s": [1, 1, 0]}))
    {'x': 1, 'y': 2}
    """
    names = [source.name for source in fields.sources]
    if fields.tagged:
        tags = np.bincount(table.column("s").to_numpy(), minlength=len(names)) if table.num_rows else [0] * len(names)
        return {name: int(n) for name, n in zip(names, tags, strict=True)}
    if not fields.wide:
        return dict.fromkeys(names, table.num_rows)
    return {
        name: max((table.num_rows - table.column(c).null_count for c in fields.values(s)), default=0)
        for s, name in enumerate(names)
    }


def began_at(table: Any) -> int | None:
    """When the micro-batch of these rows began, in microseconds."""
    return table.column("n")[0].value if table.num_rows else None


class Times(Reader):
    """The greatest time that each step `at` sees in some rows: of a column as it is where the time is one, else by a
    kernel of the steps before."""

    def __init__(self, job: SparkJob) -> None:
        super().__init__(job)
        self.direct: dict[str, tuple[int, int]] = {}  # step: source, and the column that its time is
        rest = []
        graph = job.graph
        for i, node in enumerate(graph.nodes):
            if node.kind == "at":
                column = _column_of(graph, node)
                if column is None:
                    rest.append(i)
                else:
                    self.direct[node.id] = (graph.sources.index(node.inputs[0]), column)
        self.reads: tuple[int, ...] = ()
        self.engine: Engine | None = None
        if rest:
            small, self.reads = _before(graph, rest)
            self.engine = Engine(small, mode=job.engine)

    def of(self, table: Any) -> dict[str, int]:
        """By step; one that sees no row is not there."""
        found = {}
        parts: dict[int, tuple[Any, Any]] = {}
        for step, (s, column) in self.direct.items():
            if s not in parts:
                parts[s] = self._rows_of(table, s)
            binding = self._bindings[s]
            part = parts[s][0].select([self.fields.values(s)[column]])
            one = replace(binding, type=list(binding.type.columns())[column][1], columns=(binding.columns[column],))
            leaves, there = self._one(one, part, parts[s][0])
            values = np.asarray(leaves[-1])
            if there is not None:
                values = values[there]
            if len(values):
                found[step] = int(values.max())
        return found | self._computed(table)

    def _rows_of(self, table: Any, s: int) -> tuple[Any, Any]:
        """The rows of a source, and where they are; None: all are."""
        if not self.fields.tagged:
            return table, None
        rows = np.flatnonzero(table.column("s").to_numpy() == s)
        return table.take(pa.array(rows)), rows

    def _one(self, binding: Any, part: Any, rows: Any) -> tuple[list[Any], Any]:
        """A column, and where it has a value (None: everywhere)."""
        from pellucid.internal.data.arrow import column_leaves
        from pellucid.internal.data.bind import Place

        place = Place("the DataFrame", lambda i: self._row(rows, i))
        form = binding.formats.get(binding.columns[0])
        said = {"nan": binding.nan, "form": form, "silent": self.fields.wide}
        leaves, mask = column_leaves(binding.type, part.column(0), column=binding.columns[0], place=place, **said)
        there = None if mask is None else np.asarray(mask, np.bool_)
        if isinstance(binding.type, OptionalType):  # one without a time is refused where the row is taken
            present = np.asarray(leaves[0], np.bool_)
            there = present if there is None else there & present
        return leaves, there

    def _events_of(self, table: Any, s: int) -> Any:
        """The rows in which a source has an event."""
        part, _ = self._rows_of(table, s)
        if not self.fields.wide:
            return part
        _, mask = self._columns(self._bindings[s], s, part)
        return part if mask is None else part.filter(pa.array(np.asarray(mask, np.bool_)))

    def _computed(self, table: Any) -> dict[str, int]:
        if self.engine is None or not table.num_rows:
            return {}
        columns: list[Any] = []
        masks: list[Any] = []
        if len(self.reads) == 1:  # a kernel of one source takes all rows for events
            table = self._events_of(table, self.reads[0])
        for s in self.reads:
            part, rows = self._rows_of(table, s)
            leaves, mask = self._columns(self._bindings[s], s, part)
            if len(self.reads) == 1:
                mask = None
            elif rows is not None:
                mask = np.zeros(table.num_rows, np.bool_)
                mask[rows] = True
                leaves = [spread(c, rows, table.num_rows) for c in leaves]
            columns.append(leaves)
            masks.append(mask)
        if not table.num_rows:
            return {}
        first = self.engine.pushed
        try:
            outputs = self.engine.push_batch(Batch(table.num_rows, columns, masks))
        except StepError as error:
            at = error.position - first
            where = f"\n  from {self._row(table, at)}" if self.job.external and 0 <= at < table.num_rows else ""
            raise type(error)(f"{unnumbered(error)}{where}", step=error.step, position=-1, why=error.why) from None
        found = {}
        for output in outputs:
            values = np.asarray(output.columns[-1])
            if isinstance(output.type, OptionalType):
                values = values[np.asarray(output.columns[0], np.bool_)]
            if len(values):
                found[output.name] = int(values.max())
        return found


def _column_of(graph: Graph, at: Node) -> int | None:
    """The column of a source that a step `at` takes for the time; None if it is computed."""
    source = graph.nodes[at.inputs[0]]
    if source.kind != "source" or at.fn is None or at.fn.traced is None:
        return None
    outputs = at.fn.traced.outputs
    if any(leaf.op != "var" for leaf in outputs):
        return None
    first = 0
    for n, (_, t) in enumerate(source.type.columns()):
        if [leaf.value for leaf in outputs] == list(range(first, first + t.width)):
            return n
        first += t.width
    return None


def _before(graph: Graph, steps: Sequence[int]) -> tuple[Graph, tuple[int, ...]]:
    """The ordinary steps before some steps `at`, with the functions of those as outputs; and the numbers of the sources
    that it reads."""
    needed: set[int] = set()
    waiting = [j for i in steps for j in graph.nodes[i].inputs]
    while waiting:
        j = waiting.pop()
        if j not in needed:
            needed.add(j)
            waiting += graph.nodes[j].inputs
    nodes: list[Node] = []
    at: dict[int, int] = {}
    for j in sorted(needed):
        at[j] = len(nodes)
        nodes.append(replace(graph.nodes[j], inputs=tuple(at[k] for k in graph.nodes[j].inputs)))
    outputs = []
    for i in steps:
        node = graph.nodes[i]
        assert node.fn is not None and node.fn.result is not None
        outputs.append((node.id, len(nodes)))
        mapped = Node(node.id, "map", (at[node.inputs[0]],), node.fn.result, node.fn, key=node.key, where=node.where)
        nodes.append(mapped)
    sources = tuple(i for i in graph.sources if i in needed)
    small = Graph(f"{graph.name}, before its times", tuple(nodes), tuple(at[i] for i in sources), tuple(outputs))
    return small, tuple(graph.sources.index(i) for i in sources)


def routes_to(buckets: int) -> list[int]:
    """For each bucket a number that Spark sends to the partition of the bucket's number, of so many.

    >>> [murmur(r) % 3 for r in routes_to(3)]
    [0, 1, 2]
    """
    found: dict[int, int] = {}
    number = 0
    while len(found) < buckets:
        found.setdefault(murmur(number) % buckets, number)
        number += 1
    return [found[b] for b in range(buckets)]


def murmur(value: int) -> int:
    """The hash of a 32-bit whole number by which Spark chooses partitions (Murmur3 with the seed 42), as it has it.

    >>> murmur(0), murmur(1)
    (933211791, -559580957)
    """
    k = (value & _MASK) * 0xCC9E2D51 & _MASK
    k = (k << 15 | k >> 17) & _MASK
    h = 42 ^ (k * 0x1B873593 & _MASK)
    h = (h << 13 | h >> 19) & _MASK
    h = (h * 5 + 0xE6546B64) & _MASK
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


# A bucket of keys of a streaming query by event time: its engine, with the clock, between two micro-batches.


class TimedBucket:
    """What is kept of some keys, and how far time has come in the whole stream.

    ``heard`` has when a source of each step `at` had its last row, by the beginnings of micro-batches: one with
    ``idle=`` that has been silent for so long holds nobody back.  All buckets are told the same, so they decide the
    same; and the beginning of a micro-batch is in Spark's offset log, so that it is decided again as it was.

    ``rows`` of each source, of its own keys, and when its last micro-batch ``began``, are for who looks from outside.
    """

    def __init__(self, job: SparkJob) -> None:
        self.runner = TimedRunner(job)
        self.heard: dict[str, int] = {}
        self.rows: dict[str, int] = {}
        self.began: int | None = None
        self.snapshot: Any = None  # the one it was loaded from, for its keeper
        self.read_as = None  # no row waits as it came

    def run(self, rows: Any) -> list[Any]:
        """One micro-batch: its rows are judged by the clock as it was, which then moves, once."""
        told = heard(self.runner.fields, rows)
        runner, engine = self.runner, self.runner.engine
        out = list(runner.take(told.rows))
        for source, count in counted(runner.fields, told.rows).items():
            self.rows[source] = self.rows.get(source, 0) + count
        self.began = told.began if told.began is not None else self.began
        seen = engine.seen() if told.seen is None else told.seen
        self._silence(told.sources, told.began)
        out += runner.move(seen)
        return out

    def _silence(self, sources: set[str], began: int | None) -> None:
        engine = self.runner.engine
        told = {i for source in sources for i in fed_by(engine.graph, source)}
        for i, node in enumerate(engine.graph.nodes):
            if node.kind != "at" or node.timing is None or began is None:
                continue
            last = began if i in told else self.heard.setdefault(node.id, began)
            self.heard[node.id] = last
            if node.timing.idle is not None and began - last >= node.timing.idle:
                engine.clocks.idle(i)

    @property
    def about(self) -> dict[str, Any]:
        """What can be known of it without reading its state."""
        return {"late": dict(self.runner.engine.late), "clock": self.runner.engine.clock}

    def save(self) -> tuple[bytes, bytes]:
        """The state, and what else there is to keep."""
        return self.runner.engine.save(), json.dumps(self._extra(), sort_keys=True).encode()

    def _extra(self) -> dict[str, Any]:
        return {"heard": self.heard, "rows": self.rows, "began": self.began}

    def load(self, state: Any, extra: Any, *, same: bool, drop: tuple[str, ...] = ()) -> None:
        """Go on from there, if it is the same pipeline."""
        if not same:
            raise StateError(
                f"the state was left by another pipeline, or another version of {self.runner.job.graph.name}: one by "
                "event time is not carried over yet; go on with the pipeline as it was, or begin anew with a new state "
                "folder and a new checkpoint"
            )
        self.runner.engine.load(state)
        kept = json.loads(bytes(extra))
        self.heard = {str(step): int(at) for step, at in kept["heard"].items()}
        self.rows = {str(source): int(count) for source, count in kept.get("rows", {}).items()}
        self.began = kept.get("began")


def late_counts(state: str) -> dict[str, int]:
    """How many events have come too late in a streaming query by event time, for each step, from its state folder: each
    of them once, also those that ``late="drop"`` let go, and after restarts, too::

        late_counts("state")   # {'minutes': 3}
    """
    from pellucid.spark.store import Store

    store = Store(state)
    found: dict[str, int] = {}
    for bucket in store.buckets():
        for step, count in ((store.about(bucket) or {}).get("late") or {}).items():
            found[step] = found.get(step, 0) + int(count)
    return found


# A streaming query by event time, looked at from outside through its state folder: nothing is written, and no Spark is
# needed.
#
# All buckets have the same clock, which is told to each in every micro-batch.  What is said is of the last micro- batch
# that all of them have a snapshot of.

_TRIES = 4


def query_folder(folder: str | os.PathLike[str]) -> str | None:
    """The folder of a query's snapshots: this one, or the one inside that `pellucid run --on spark` makes; None if
    there is none."""
    for place in (os.fspath(folder), os.path.join(os.fspath(folder), "pellucid")):
        if os.path.isfile(os.path.join(place, "identity.json")):
            return place
    return None


def look_at_query(graph: Graph, folder: str | os.PathLike[str]) -> Progress:
    """How far a streaming query is, and why what is not done is not."""
    place, found = option("state", folder), query_folder(folder)
    if found is None:
        raise UsageError(f"{place}: holds no state of a streaming query: give the folder that p.spark was given")
    store = Store(found)
    identity = store.identity()
    assert identity is not None
    if identity.get("pipeline") != graph.name:
        raise StateError(
            f"{place}: belongs to another run: it is of {identity.get('pipeline')!r}, not of {graph.name!r}. Give the "
            "pipeline as it was when it ran"
        )
    version, snapshots = _newest(store)
    for snapshot in snapshots.values():
        if snapshot.meta.get("digest") != graph.digest:
            raise StateError(
                f"{place}: belongs to another run: it is of {graph.name!r} as it was before a change. Give the "
                "pipeline as it was when it ran"
            )
    about: dict[str, Any] = {
        "folder": os.fspath(folder), "kind": "spark", "pipeline": graph.name, "micro_batch": version,
        "buckets": len(snapshots),
    }  # fmt: skip
    words = [f"micro-batch {version}" if version is not None else "no micro-batch yet"]
    about["words"] = words
    if not graph.timed:
        many = f"{len(snapshots)} bucket{'s' * (len(snapshots) != 1)} of keys"
        return Progress(graph.name, graph, (), (), {**about, "words": [*words, f"the state of {many} is kept"]}, True)
    engines, extras = [], []
    for snapshot in snapshots.values():
        engines.append(engine_at(graph, snapshot.state, place))
        extras.append(json.loads(bytes(snapshot.extra)))
    rows: dict[str, int] = {}
    for extra in extras:
        for source, count in extra.get("rows", {}).items():
            rows[source] = rows.get(source, 0) + int(count)
    began = max((extra["began"] for extra in extras if extra.get("began") is not None), default=None)
    if began is not None:
        words.append(f"begun {moment(began / 1e6)}")
        about["at"] = moment(began / 1e6)
    heard = _heard(graph, extras)
    silent = [source for source, at in heard.items() if began is not None and at < began / 1e6]
    return progress_of(
        graph, engines or [TimedEngine(graph, mode="python")], rows=rows or None, heard=heard, silent=silent,
        about=about,
    )  # fmt: skip


def _heard(graph: Graph, extras: list[dict[str, Any]]) -> dict[str, float]:
    """When each source had its last row, where a step `at` has it alone."""
    out: dict[str, float] = {}
    for at, sources in feeders(graph).items():
        found = [extra["heard"][at] for extra in extras if at in extra.get("heard", {})]
        if found and len(sources) == 1:
            out[sources[0]] = max(out.get(sources[0], 0.0), max(found) / 1e6)
    return out


def _newest(store: Store) -> tuple[int | None, dict[int, BucketSnapshot]]:
    """The last micro-batch that all buckets have, and their snapshots of it."""
    for attempt in range(_TRIES):
        versions = {bucket: store.versions(bucket) for bucket in store.buckets()}
        there = {bucket: found for bucket, found in versions.items() if found}
        if not there:
            return None, {}
        version = min(found[-1] for found in there.values())
        try:
            loaded = {bucket: store.load(bucket, version + 1) for bucket in there}
        except StateError:  # a query that runs may remove it meanwhile
            if attempt == _TRIES - 1:
                raise
            continue
        return version, {bucket: snapshot for bucket, snapshot in loaded.items() if snapshot is not None}
    raise AssertionError
