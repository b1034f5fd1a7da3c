"""``split``: one query, several outputs, each to a sink of its own.

Two streaming queries cannot share the state of one pipeline, so a pipeline with several outputs gives one DataFrame
with a column that names the output of each row.  Each part goes to its sink under the query's name with the output's
appended; each sink guards itself, so after a crash between two of them the replayed batch is left out by those that
have it and written by those that do not.  Each output is exactly-once; they do not become visible at the same instant.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, ClassVar

from pellucid.errors import DataError, UsageError
from pellucid.internal.base import faults
from pellucid.sinks import interface
from pellucid.sinks.files.partitions import spark_name
from pellucid.sinks.rows import is_spark, rows_of, schema_of


class SplitSink(interface.Sink):
    """Send each row to the sink of the output that ``column`` names; a sink of None leaves an output out on purpose.

    The sink gets the rows without ``column`` and without the columns of the other outputs.

    >>> import pyarrow as pa, tempfile
    >>> from pellucid.sinks import sqlite
    >>> file = tempfile.mkdtemp() + "/out.db"
    >>> sink = split("output", sinks={"sums": sqlite(file, "sums"), "late": None})
    >>> rows = pa.table({"output": ["sums", "late"], "user": ["a", "b"], "sums": [1, None], "late": [None, 2]})
    >>> print(sink.write(rows, "shop", 0))
    shop: batch 0: 1 rows written
    >>> sink.read()["sums"].to_pylist()
    [{'user': 'a', 'sums': 1}]
    """

    kind: ClassVar[str] = "split"
    guarantee: ClassVar[str] = (
        "each output keeps the guarantee of its own sink; the outputs of a batch become visible one after another"
    )

    def __init__(
        self, column: str = "output", *, sinks: Mapping[str, interface.Sink | None], query: str | None = None
    ) -> None:
        super().__init__(query)
        if not sinks:
            raise UsageError("split: sinks={} is empty: name at least one output and its sink")
        for name, sink in sinks.items():
            interface.checked_query(name)
            if sink is not None and not isinstance(sink, interface.Sink):
                raise UsageError(
                    f"split: sinks[{name!r}] is {type(sink).__name__}, not a sink; wrap a function of your own with "
                    "once(…)"
                )
        self.column = column
        self.sinks = dict(sinks)

    def last(self, query: str) -> int | None:
        """The last batch that all outputs have."""
        numbers = [sink.last(f"{query}-{name}") for name, sink in self.sinks.items() if sink is not None]
        known = [number for number in numbers if number is not None]
        return min(known) if known and len(known) == len(numbers) else None

    def check_turn(self, query: str, batch: int) -> None:
        for name, sink in self.sinks.items():
            if sink is not None:
                sink.check_turn(f"{query}-{name}", batch)

    def read(self) -> dict[str, Any]:
        return {name: sink.read() for name, sink in self.sinks.items() if sink is not None}

    def close(self) -> None:
        for sink in self.sinks.values():
            if sink is not None:
                sink.close()

    def stage(self, data: Any, query: str, batch: int) -> interface.Staged:
        """The batch is computed, and no row of it is without a sink."""
        if self.column not in schema_of(data).names:
            raise DataError(f"split: there is no column {self.column!r}; there are {', '.join(schema_of(data).names)}")
        if self.has(query, batch):
            return interface.Staged(query, batch, skipped=True)
        with ExitStack() as stack:
            if is_spark(data):
                data.persist()  # computed once, read once for each output
                stack.callback(data.unpersist)
            whole = (_Spark if is_spark(data) else _Arrow)(data, self.column)
            stray = whole.stray(list(self.sinks))
            if stray is not None:
                raise DataError(
                    f"split: column {self.column!r} names the output {stray[0]!r}, which has no sink; there are "
                    f"{', '.join(self.sinks)} (give it None to leave its rows out)"
                )
            return interface.Staged(query, batch, held=(whole, stack.pop_all()))

    def commit(self, staged: interface.Staged) -> interface.Written:
        """One sink after another: two may be tables of one database, which has one writer at a time."""
        (whole, stack), count = staged.held, 0
        with stack:
            for name, sink in self.sinks.items():
                if sink is not None:
                    others = [column for column in (self.column, *self.sinks) if column != name]
                    count += sink.write(whole.part(name, others), f"{staged.query}-{name}", staged.batch).rows
                    faults.point("split:between")
        return interface.Written(staged.query, staged.batch, count, skipped=False)

    def abort(self, staged: interface.Staged) -> None:
        staged.held[1].close()


class _Spark:
    def __init__(self, df: Any, column: str) -> None:
        self.df, self.column = df, column

    def stray(self, known: list[str]) -> tuple[Any] | None:
        from pyspark.sql import functions as F

        output = F.col(spark_name(self.column))
        found = self.df.where(output.isNull() | ~output.isin(known)).select(output).limit(1).collect()
        return (found[0][0],) if found else None

    def part(self, name: str, others: list[str]) -> Any:
        from pyspark.sql import functions as F

        return self.df.where(F.col(spark_name(self.column)) == name).drop(*others)


class _Arrow:
    def __init__(self, data: Any, column: str) -> None:
        import pyarrow as pa

        rows = rows_of(data)
        self.table, self.column = pa.Table.from_batches(list(rows), rows.schema), column

    def stray(self, known: list[str]) -> tuple[Any] | None:
        found = [name for name in self.table[self.column].unique().to_pylist() if name not in known]
        return (found[0],) if found else None

    def part(self, name: str, others: list[str]) -> Any:
        import pyarrow.compute as pc

        part = self.table.filter(pc.equal(self.table[self.column], name))
        return part.drop_columns([column for column in others if column in part.column_names])


split = SplitSink
