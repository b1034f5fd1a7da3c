"""``once``: the guard for a function of one's own, with what can honestly be promised from outside.

Only the function can put its effects and the batch's number into one transaction.  From outside, a ledger can do
two things: note *before* the call that the batch began, and *after* it that the batch ended.  A batch that ended is
never given to the function again.  A batch that began and did not end is given again, with ``again=True``: only then
may something of it be there already, so only then need the function look (delete by batch id, upsert, compare).  A
function that uses this well is exactly-once; one that ignores it is at-least-once, and repeats at most one batch per
crash.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

from pellucid.errors import DataError, StateError, UsageError
from pellucid.internal.base import faults
from pellucid.internal.base.files import read_small
from pellucid.sinks import folder, interface
from pellucid.sinks.parquet_sink import spark_name
from pellucid.sinks.rows import computed, is_spark, rows_of, schema_of

_WAIT = 60.0  # seconds for the function to end that a stopped query in this process still runs


class OnceSink(interface.Sink):
    """Call ``fn(df, batch_id)``, or ``fn(df, batch_id, again=…)`` if it takes that, once for each batch that did not
    fail.

    ``ledger`` is a folder for one small file per query, on a disk that outlives the driver.  ``first_batch`` says that
    the sink begins with this batch of an older checkpoint.

    >>> import tempfile
    >>> seen = []
    >>> sink = once(lambda df, batch_id, again: seen.append((batch_id, again)), ledger=tempfile.mkdtemp())
    >>> for batch in (0, 1, 1):
    ...     print(sink.write([], "orders", batch).skipped)
    False
    False
    True
    >>> seen
    [(0, False), (1, False)]
    """

    kind: ClassVar[str] = "once"
    guarantee: ClassVar[str] = (
        "a batch for which the function returned is never given to it again; one that a crash interrupted is given "
        "again, with again=True, so its effects are there at least once"
    )

    def __init__(
        self,
        fn: Callable[..., object],
        *,
        ledger: str | os.PathLike[str],
        first_batch: int | None = None,
        query: str | None = None,
    ) -> None:
        super().__init__(query, first_batch)
        self.fn = fn
        self.ledger = folder.local_folder(ledger)
        self.tells_again = _takes_again(fn)
        self._turns = interface.Turns()

    @property
    def place(self) -> str:
        return f"ledger {self.ledger}"

    def last(self, query: str) -> int | None:
        return self._state(query)["ended"]

    def read(self) -> Any:
        raise UsageError("once: only your function knows where its rows are; read them there")

    def stage(self, data: Any, query: str, batch: int) -> interface.Staged:
        """The batch is computed, and kept."""
        with ExitStack() as stack:
            stack.enter_context(self._turns.taken(query, "once", _WAIT))
            state = self._state(query)
            if state["ended"] is not None and batch <= state["ended"]:
                return interface.Staged(query, batch, skipped=True)
            stack.enter_context(computed(data))
            return interface.Staged(query, batch, held=(data, state, stack.pop_all()))

    def prepare(self, staged: interface.Staged) -> None:
        """That the batch begins is written down; whether the function will fail cannot be known."""
        self._note(staged.query, began=staged.batch, ended=staged.held[1]["ended"])
        faults.point("once:began")

    def commit(self, staged: interface.Staged) -> None:
        """The function is called."""
        (data, state, stack), batch = staged.held, staged.batch
        with stack:
            self.fn(data, batch, **({"again": state["began"] == batch} if self.tells_again else {}))
            faults.point("once:before-end")
            self._note(staged.query, began=batch, ended=batch)

    def abort(self, staged: interface.Staged) -> None:
        staged.held[2].close()

    def _state(self, query: str) -> dict[str, int | None]:
        path = self._path(query)
        try:
            found = read_small(path, links=True)
            return {"began": found["began"], "ended": found["ended"]}
        except FileNotFoundError:
            return {"began": None, "ended": None}
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"{path}: not a ledger of pellucid ({error!r}): the file is damaged; restore it from a copy"
            ) from None

    def _note(self, query: str, *, began: int, ended: int | None) -> None:
        folder.replace(
            self._path(query), json.dumps({"format": 1, "query": query, "began": began, "ended": ended}).encode()
        )

    def _path(self, query: str) -> Path:
        return self.ledger / f"{query}.json"


def _takes_again(fn: Callable[..., object]) -> bool:
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError) as error:
        raise UsageError(f"once: {fn!r} is not a function of (df, batch_id) or (df, batch_id, *, again)") from error
    return "again" in parameters or any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())


once = OnceSink


# ``split``: one query, several outputs, each to a sink of its own.
#
# Two streaming queries cannot share the state of one pipeline, so a pipeline with several outputs gives one DataFrame
# with a column that names the output of each row.  Each part goes to its sink under the query's name with the output's
# appended; each sink guards itself, so after a crash between two of them the replayed batch is left out by those that
# have it and written by those that do not.  Each output is exactly-once; they do not become visible at the same
# instant.


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
