"""The clock of a micro-batch, as rows.

A bucket sees only its own rows, and the clock is of all of them.  So before rows go to their buckets, each partition
says to every bucket how far event time has come in it: the greatest time that each step `at` has seen there, in one
more row.  A bucket takes its rows, and then moves to the greatest of what it was told.  It is told in every
micro-batch, also if no row is of its keys: what is complete comes out then, and not when a key has its next row.

===========  =========================================================================
column       what it is (beside those of `pellucid.spark.frames`)
===========  =========================================================================
``n``        when the micro-batch began, by the clock on the wall; Spark's offset log has it, so that a micro-batch that
             is run again has the same
``r``        a number that Spark sends to the partition of the bucket's number
``w``        of a row of the clock: the times seen, as JSON; null in rows of data
===========  =========================================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pellucid.errors import StepError
from pellucid.internal.data.columns import Batch
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.types import OptionalType
from pellucid.internal.graph.model import Graph, Node
from pellucid.spark.frames import Fields, Frame
from pellucid.spark.job import SparkJob, packed, unpacked
from pellucid.spark.rows import Reader
from pellucid.spark.step import in_chunks, spread, unnumbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
        from pellucid.spark.timed.clock import tell

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
