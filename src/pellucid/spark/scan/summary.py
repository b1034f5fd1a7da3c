"""Chunks of a stream, summed up: what each tells the chunks after it (see `pellucid.spark.scan.parts` for what that
is).

Rows may be summed up in any order, in several places; sums of one chunk are then **merged**.  So a sum that depends on
order (the last events, the last value, which of two float zeros came first) keeps the order of the events beside them,
as a small Arrow table; all others are numbers, and those of ints are exact.

Failures: a chunk on which a function fails is marked, with the message.  The chunks before it are not affected; it
starts rightly, so it fails in the same way when it is run; and those after it must not run, as nobody knows where they
start.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pellucid.data.arrow import numpy_of
from pellucid.data.columns import Column, Output, Strings
from pellucid.data.formats.outputs import array_of
from pellucid.engine.kernel.engine import Engine
from pellucid.engine.kernel.layout import leaf_types
from pellucid.errors import PellucidError
from pellucid.expr import node as n
from pellucid.expr.types import FLOAT, Type
from pellucid.graph.folds import FoldPart
from pellucid.spark.job import SparkJob
from pellucid.spark.scan.parts import Cut, ScanStep, level_graph
from pellucid.spark.step import Runner, _numbered, unnumbered

CHUNK = "chunk"  # the column of a frame that says which chunk a row is of


@dataclass
class Summary:
    """What is known of a chunk: its pushes, and for each step what its events add up to."""

    rows: int = 0
    last: int | None = None  # the greatest order, where orders are a sequence
    failed: str | None = None
    steps: dict[str, list[Any]] = field(default_factory=dict)


def packed_summaries(summaries: Mapping[int, Summary]) -> bytes:
    """Summaries by chunk, as bytes."""
    return pickle.dumps(dict(summaries))


def unpacked_summaries(data: bytes | None) -> dict[int, Summary]:
    """And again."""
    return pickle.loads(data) if data is not None else {}


# ---------------------------------------------------------------- to sum up


def level_job(job: SparkJob, cut: Cut, level: int, *, ordered: bool) -> SparkJob:
    """The job that runs what the steps of a level get their events from; late rows are of no interest to it."""
    graph = level_graph(cut, level)
    late = replace(job.late, policy="drop") if job.late.policy == "keep" else job.late
    outputs = tuple((name, graph.nodes[at].type) for name, at in graph.outputs)
    return replace(job, graph=graph, outputs=outputs, kept=(), nth=None, tag=None, late=late, ordered=ordered)


class Folder(Runner):
    """Runs the graph of a level on rows of any chunks, and sums up what comes out, by chunk."""

    def __init__(self, job: SparkJob, steps: Iterable[ScanStep]) -> None:
        super().__init__(job)
        self.steps = {s.node.id: s for s in steps}
        self.chunks: dict[int, Summary] = {}

    def fold(self, table: Any) -> None:
        """Take rows into account; without a judge they may be of several chunks, in any order."""
        before = self.engine.pushed
        self.push(table)
        chunks = numpy_of(_one(table.column(CHUNK)))
        order = _numbers(table.column("o0")) if self.job.late.sequence is not None else None
        for chunk, at in _by_chunk(chunks):
            summary = self.chunks.setdefault(chunk, Summary())
            summary.rows += (
                (len(chunks) if at is None else len(at)) if self.judge is None else self.engine.pushed - before
            )
            if order is not None:
                here = int((order if at is None else order[at]).max())
                summary.last = here if summary.last is None else max(summary.last, here)

    def fold_anywhere(self, table: Any) -> None:
        """The same; where a function fails, find out on which chunks it does, and mark those."""
        try:
            self.fold(table)
        except PellucidError:
            for chunk, at in _by_chunk(numpy_of(_one(table.column(CHUNK)))):
                self.engine = Engine(self.job.graph, mode=self.job.engine)  # one that has stopped does not go on
                try:
                    self.fold(table if at is None else table.take(pa.array(at)))
                except PellucidError as error:
                    self.chunks.setdefault(chunk, Summary()).failed = unnumbered(error)
            self.engine = Engine(self.job.graph, mode=self.job.engine)

    def _events(self, output: Output, table: Any, pushes: Any, base: int) -> Any:
        """Sum up, instead of giving out."""
        step = self.steps[output.name]
        rows = np.asarray(output.positions, dtype=np.int64) - base
        order = [_one(table.column(c)) for c in self.fields.orders]
        nth = _numbered(rows) if step.how == "tail" or any(map(keeps_order, step.parts)) else None
        events = _Events(output.columns, leaf_types(output.type), rows, order, nth)
        chunks = numpy_of(_one(table.column(CHUNK)))[rows]
        for chunk, at in _by_chunk(chunks):
            found = _summed(step, events if at is None else events.take(at))
            summary = self.chunks.setdefault(chunk, Summary())
            old = summary.steps.get(output.name)
            summary.steps[output.name] = found if old is None else _joined(step, old, found)


def _by_chunk(chunks: Any) -> Iterator[tuple[int, Any]]:
    """Each chunk and where it is; None: everywhere."""
    if not len(chunks):
        return
    if chunks[0] == chunks[-1] and (chunks == chunks[0]).all():
        yield int(chunks[0]), None
        return
    # Sixteen bits, where they are enough: these are sorted by radix.
    at = np.argsort(chunks.astype(np.int16) if 0 <= chunks.min() <= chunks.max() < 1 << 15 else chunks, kind="stable")
    ends = np.flatnonzero(np.diff(chunks[at])) + 1
    for part in np.split(at, ends):
        yield int(chunks[part[0]]), part


@dataclass
class _Events:
    """Events with the rows they came with, and the order of the rows."""

    columns: list[Column]
    types: tuple[Type, ...]
    rows: Any
    order: list[Any]
    nth: Any  # which of the events of its push each one is; None where nobody asks

    def take(self, at: Any) -> _Events:
        nth = None if self.nth is None else self.nth[at]
        return _Events([_taken(c, at) for c in self.columns], self.types, self.rows[at], self.order, nth)

    def table(self, at: Any, columns: slice) -> Any:
        """Some events with their order, as a table."""
        rows = pa.array(self.rows[at])
        arrays = {f"o{i}": o.take(rows) for i, o in enumerate(self.order)} | {"nth": pa.array(self.nth[at])}
        for j, (t, c) in enumerate(zip(self.types[columns], self.columns[columns], strict=True)):
            arrays[f"v{j}"] = array_of(t, _taken(c, at))
        return pa.table(arrays)

    def latest(self, at: Any, k: int) -> Any:
        """Fewer of these, with the k latest among them."""
        first_type = self.order[0].type
        if len(at) <= 2 * k or not (pa.types.is_integer(first_type) or pa.types.is_temporal(first_type)):
            return at
        first = _numbers(self.order[0])[self.rows[at]]
        return at[first >= np.partition(first, len(at) - k)[len(at) - k]]


def _summed(step: ScanStep, events: _Events) -> list[Any]:
    """What these events add up to."""
    everything = np.arange(len(events.rows))
    if step.how == "count":
        return [len(everything)]
    if step.how == "tail":
        k = step.node.earlier
        return [_extreme(events.table(events.latest(everything, k), slice(None)), "late", k)]
    out: list[Any] = []
    column = 0
    for part in step.parts:
        total: Any = None
        for term in part.terms:
            at = everything
            if term.when is not n.TRUE:
                at = np.flatnonzero(np.asarray(events.columns[column]))
                column += 1
            if not len(at):
                pass
            elif keeps_order(part):
                total = _join(part, total, _best(part, events, at, slice(column, column + 1)))
            else:
                values = np.asarray(events.columns[column])
                found = _reduced(part.op, values if at is everything else values[at])
                total = _join(part, total, -found if term.sign < 0 else found)
            column += 1
        out.append(total)
    return out


def keeps_order(part: FoldPart) -> bool:
    """Whether a sum is a row that was chosen, with its order."""
    return part.op == "last" or part.type == FLOAT


def _best(part: FoldPart, events: _Events, at: Any, column: slice) -> Any:
    """The one event that decides, as a table of one row; None if there is none."""
    if part.op == "last":
        return _extreme(events.table(events.latest(at, 1), column), "late", 1)
    values = np.asarray(events.columns[column.start])[at]
    end = _end(part, values)
    ends = at[values == end]
    return _least(part, events.table(ends if end == 0 else ends[:1], column))  # only zeros are equal and yet differ


def _end(part: FoldPart, values: Any) -> Any:
    """The least or greatest of these; NaN is neither (nor is it equal to itself)."""
    values = values[~np.isnan(values)]
    return np.nan if not len(values) else values.min() if part.op == "min" else values.max()


def _least(part: FoldPart, table: Any) -> Any:
    """The row with the least (greatest) value; of equals the first, or the last."""
    values = numpy_of(_one(table.column("v0")))
    table = table.take(pa.array(np.flatnonzero(values == _end(part, values))))
    return _extreme(table, "early" if part.first else "late", 1) if table.num_rows else None


def _extreme(table: Any, end: str, k: int) -> Any:
    """The k earliest or latest rows."""
    if table.num_rows <= k:
        return table
    keys = [(c, "ascending" if end == "early" else "descending") for c in table.schema.names if c[0] in "on"]
    return table.take(pc.sort_indices(table, sort_keys=keys)[:k])


def _reduced(op: str, values: Any) -> Any:
    if op == "add":
        # High and low halves: neither sum overflows.
        return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())
    if op in ("and", "or"):
        return bool(values.all() if op == "and" else values.any())
    return int(_REDUCE[op].reduce(values))


_REDUCE: dict[str, Any] = {
    "min": np.minimum, "max": np.maximum, "band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor,
}  # fmt: skip


# ---------------------------------------------------------------- to merge


def merged(summaries: Iterable[Summary], steps: Iterable[ScanStep]) -> Summary:
    """Summaries of one chunk, or of chunks in a row, as one."""
    known = {s.node.id: s for s in steps}
    out = Summary()
    for s in summaries:
        out.rows += s.rows
        out.last = s.last if out.last is None else out.last if s.last is None else max(out.last, s.last)
        out.failed = out.failed or s.failed
        for name, found in s.steps.items():
            if name in known:
                old = out.steps.get(name)
                out.steps[name] = found if old is None else _joined(known[name], old, found)
    return out


def _joined(step: ScanStep, a: list[Any], b: list[Any]) -> list[Any]:
    if step.how == "count":
        return [a[0] + b[0]]
    if step.how == "tail":
        return [_extreme(pa.concat_tables([a[0], b[0]]), "late", step.node.earlier)]
    return [_join(p, x, y) for p, x, y in zip(step.parts, a, b, strict=True)]


def _join(part: FoldPart, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    if keeps_order(part):
        both = pa.concat_tables([a, b])
        return _extreme(both, "late", 1) if part.op == "last" else _least(part, both)
    return JOIN[part.op](a, b)


JOIN: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "min": min,
    "max": max,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
}


def _taken(column: Column, at: Any) -> Column:
    """Some of a column."""
    if isinstance(column, list):
        return [column[i] for i in at.tolist()]
    return Strings(column.codes[at], column.values) if isinstance(column, Strings) else column[at]


def _one(array: Any) -> Any:
    """A chunked array as one array."""
    return array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks)


def _numbers(array: Any) -> Any:
    """An order column of whole numbers, dates or timestamps as numbers; null, which fails elsewhere, as 0."""
    if isinstance(array, pa.ChunkedArray):
        array = _one(array)
    if pa.types.is_date(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    return numpy_of(array.fill_null(0) if array.null_count else array)
