"""Arrow rows of a frame through the engine of event time, to Arrow rows.  It holds no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.errors import StepError
from pellucid.internal.data.columns import Batch, Column, Output
from pellucid.internal.data.formats.met import refuse_other_columns
from pellucid.internal.data.formats.outputs import array_of, event_arrays, key_array
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.spark.job import SparkJob
from pellucid.spark.rows import Reader
from pellucid.spark.step import column_type, joined_batch, one_column, spread, unnumbered

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
