"""Delta Lake through the ``deltalake`` package: the batch's number is in the same commit as its files.

A commit of Delta can carry ``txn`` actions: an application's id and the version it has reached.  Here they are the
query and the batch.  Writing the same pair twice is no error for Delta, so the number is read first, from the *same*
snapshot of the table on which the commit is then based: if another writer has committed the same query meanwhile, the
commit is refused as a conflict ("Concurrent transaction failed"), and the number is read again.  Appends of other
queries do not disturb.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pellucid.errors import DataError, StateError, UsageError
from pellucid.internal.base import faults
from pellucid.internal.base.files import by_any_name
from pellucid.sinks import folder as claimed
from pellucid.sinks import interface
from pellucid.sinks import parquet_sink as partitions
from pellucid.sinks.interface import absolute
from pellucid.sinks.rows import computed, differences, is_spark, refuse_doubled, rows_of, schema_of

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


class DeltaSink(interface.Sink):
    """A Delta table in which each micro-batch counts once; ``storage_options`` are those of ``deltalake``.

    ``drained`` says that other programs take rows out, so that an empty table is no sign of damage.  ``first_batch``
    says that the sink begins with this batch of an older checkpoint.

    >>> delta("lake/sums").guarantee
    "each batch is in the table whole and once, because its files and its number are one commit of Delta's log"
    """

    kind: ClassVar[str] = "delta"
    forks = False  # its own threads do not outlive a fork
    guarantee: ClassVar[str] = (
        "each batch is in the table whole and once, because its files and its number are one commit of Delta's log"
    )

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        partition_by: str | list[str] | tuple[str, ...] = (),
        storage_options: dict[str, str] | None = None,
        drained: bool = False,
        first_batch: int | None = None,
        query: str | None = None,
    ) -> None:
        super().__init__(query, first_batch)
        self.drained = drained
        self._looked: set[str] = set()
        self.path = absolute(os.fspath(path))  # the same table also after a change of the working folder
        self.partition_by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self.storage_options = storage_options

    @property
    def place(self) -> str:
        return self.path

    def really(self) -> str:
        return self.identity if "://" in self.path else by_any_name(self.path)

    def claim(self, group: str, where: str) -> str | None:
        """By a file in the table's folder; a table in an object store cannot be claimed."""
        return None if "://" in self.path else claimed.claim(Path(self.path), group, where)

    def unclaim(self, group: str | None) -> None:
        if "://" not in self.path:
            claimed.unclaim(Path(self.path), group)

    @property
    def forget(self) -> str:
        """What gives the target free again."""
        return claimed.forget(Path(self.path))

    def last(self, query: str) -> int | None:
        table = self._table()
        return None if table is None else table.transaction_version(query)

    def read(self) -> pa.Table:
        table = self._table()
        if table is None:
            raise DataError(f"{self.path}: no Delta table is there")
        return table.to_pyarrow_table()

    def stage(self, data: Any, query: str, batch: int) -> interface.Staged:
        """The batch is kept, and looked at: ``deltalake`` writes the files and commits them in one call, so that a disk
        may still be full at the `commit`."""
        import pyarrow as pa

        table = self._table()
        last = None if table is None else table.transaction_version(query)
        before = -1 if last is None else last
        if self.grouped:
            if batch <= before:
                return interface.Staged(query, batch, skipped=True)
            data = self._looked_at(table, data, query)
        if table is not None:
            return interface.Staged(query, batch, held=(data, ExitStack()), before=before)
        # A new table is a commit of its own, because Delta lets two drivers make one with rows at once; it is made only
        # when the whole batch is known to be there, so that a step that fails does not decide the columns.
        whole = data.read_all() if isinstance(data, pa.RecordBatchReader) else data
        with ExitStack() as stack:
            stack.enter_context(computed(whole))
            return interface.Staged(query, batch, held=(whole, stack.pop_all()), before=before)

    def _looked_at(self, table: DeltaTable | None, data: Any, query: str) -> Any:
        """The batch, if the table can take it: after the decision of a group it is too late to refuse it."""
        import pyarrow as pa

        schema = schema_of(data)
        if table is None:
            self._as_delta(schema)
            partitions.check_delta(self.path, self.partition_by, schema)
            parts = self.partition_by
        else:
            self._look(table, query)
            self._compare(table, schema)
            parts = self._partitions(table, schema)
        if not parts:
            return data
        whole = data.read_all() if isinstance(data, pa.RecordBatchReader) else data
        for _ in partitions.checked_rows(self.path, parts, rows_of(whole), nulls=("",)):
            pass
        return whole

    def commit(self, staged: interface.Staged) -> interface.Written:
        data, stack = staged.held
        with stack:
            return self._commit(data, staged.query, staged.batch, -1 if staged.before is None else staged.before)

    def abort(self, staged: interface.Staged) -> None:
        staged.held[1].close()

    def cut(self, query: str, batch: int | None, after: int) -> pa.Table | None:
        """The newest version of the table whose last batch is this one."""
        table = self._table()
        if table is None or table.transaction_version(query) not in (batch, after):
            return None
        lake, version = _deltalake(), table.version()
        try:
            for version in range(table.version(), -1, -1):
                table.load_as_version(version)
                if table.transaction_version(query) == batch:
                    return table.to_pyarrow_table()
        except (lake.exceptions.DeltaError, OSError) as error:
            why = f"its version {version} cannot be read any more ({_plain(error)}): was it vacuumed?"
            raise interface.Untold(why) from None
        raise interface.Untold("its log has no version without them: was it copied, or its log cut?")

    def _commit(self, data: Any, query: str, batch: int, before: int) -> interface.Written:
        lake = _deltalake()
        for _ in range(10):
            table = self._table()
            if table is None and before >= 0:
                raise StateError(interface.taken_away(self.path, before, batch))
            table = table or self._created(schema_of(data))
            last = table.transaction_version(query)
            self._look(table, query)
            if last is not None and batch <= last:
                return interface.Written(query, batch, 0, skipped=True)
            self._compare(table, schema_of(data))
            parts = self._partitions(table, schema_of(data))
            rows = rows_of(data)  # a DataFrame is computed again on a second attempt: the same rows, by the offset log
            faults.point("delta:before-commit")
            try:
                self._append(table, rows, parts, query, batch)
            except (lake.exceptions.DeltaError, OSError) as error:
                if "File name too long" in str(error):
                    raise DataError(
                        f"{self.path}: partition_by={list(parts)}: a value's folder would have a name that is too long "
                        "for the file system; shorten it before the sink, or partition by something shorter"
                    ) from None
                if not isinstance(error, lake.exceptions.CommitFailedError):
                    raise self._said(error) from None
                if not is_spark(data) and not hasattr(data, "num_rows") and not isinstance(data, (list, tuple)):
                    raise StateError(
                        f"{self.path}: batch {batch}: another driver of query {query!r} committed meanwhile, and a "
                        "reader of Arrow batches cannot be read twice; write the batch again"
                    ) from None
                continue
            self._looked.add(query)
            faults.point("delta:after-commit")
            return interface.Written(query, batch, rows.count, skipped=False)
        raise StateError(
            f"{self.path}: batch {batch} of query {query!r} met another writer's commit ten times in a row: "
            "is a second driver of this query still running?"
        )

    def _look(self, table: DeltaTable, query: str) -> None:
        """At the start: a batch of this query had rows, so the table must have some."""
        if self.drained or query in self._looked:
            return
        filled = table.transaction_version(_filled(query))
        if filled is not None and not table.file_uris():
            raise StateError(
                f"{self.path}: the table is empty, yet batch {filled} of query {query!r} put rows there: was it "
                "emptied, or overwritten? Batches that are there by their numbers would be left out. Bring the rows "
                "back (RESTORE to the version before); or, to write everything again, begin with a new checkpoint; or, "
                "if other programs take the rows out, say drained=True"
            )

    def gone(self, query: str) -> str:
        """A batch put rows there, and there is none."""
        table = self._table()
        filled = None if table is None or self.drained else table.transaction_version(_filled(query))
        if table is None or filled is None or table.file_uris():
            return ""
        return f"it is empty, yet batch {filled} put rows there"

    def _partitions(self, table: DeltaTable, schema: pa.Schema) -> tuple[str, ...]:
        """The columns by which the table is partitioned, however it was made."""
        there = tuple(table.metadata().partition_columns)
        if self.partition_by and self.partition_by != there:
            raise DataError(
                f"{self.path}: partition_by={list(self.partition_by)}, but the table that is there is partitioned by "
                f"{list(there)}: name these, or write to another table"
            )
        partitions.check_delta(self.path, there, schema)
        return there

    def _append(self, table: DeltaTable, rows: Any, parts: tuple[str, ...], query: str, batch: int) -> None:
        import pyarrow as pa

        lake = _deltalake()
        # Delta reads from a thread of its own, which Spark does not know as the query's: the job must begin in this
        # one.
        batches = partitions.checked_rows(self.path, parts, rows, nulls=("",))
        begun = list(itertools.islice(batches, 1))
        lake.write_deltalake(
            table,
            pa.RecordBatchReader.from_batches(rows.schema, itertools.chain(begun, batches)),
            mode="append",
            partition_by=list(parts) or None,
            commit_properties=lake.CommitProperties(
                app_transactions=[
                    lake.Transaction(name, batch) for name in ([query, _filled(query)] if begun else [query])
                ]
            ),
        )

    def _table(self) -> DeltaTable | None:
        lake = _deltalake()
        try:
            with self._forked():
                return lake.DeltaTable(self.path, storage_options=self.storage_options)
        except lake.exceptions.TableNotFoundError:
            return None
        except (lake.exceptions.DeltaError, OSError) as error:
            raise self._said(error) from None

    @contextmanager
    def _forked(self) -> Iterator[None]:
        """Say in words what ``deltalake`` says by a panic, which is no Exception."""
        try:
            yield
        except BaseException as error:
            if "Forked process" not in str(error):
                raise
            raise UsageError(
                f"{self.path}: this program has used deltalake before it started the run, and deltalake cannot be used "
                "in processes that are forked after that: start the run in a program of its own, and read Delta tables "
                "when it is over"
            ) from None

    def _said(self, error: Exception) -> Exception:
        """What ``deltalake`` says of the table, or of the place where it is, in one line and without colours."""
        if isinstance(error, OSError) and error.errno is not None:  # not of Delta's making
            return error
        return (OSError if isinstance(error, OSError) else DataError)(f"{self.path}: Delta says: {_plain(error)}")

    def _created(self, schema: pa.Schema) -> DeltaTable:
        """An empty table; two drivers may try at once, and one of them finds the other's."""
        lake = _deltalake()
        wanted = self._as_delta(schema)
        partitions.check_delta(self.path, self.partition_by, schema)
        try:
            with self._forked():
                lake.DeltaTable.create(
                    self.path,
                    schema=wanted,
                    mode="ignore",
                    partition_by=list(self.partition_by) or None,
                    storage_options=self.storage_options,
                )
        except (lake.exceptions.DeltaError, OSError) as error:
            if self._table() is None:
                raise self._said(error) from None
        table = self._table()
        assert table is not None
        return table

    def _as_delta(self, schema: pa.Schema) -> Any:
        """The columns as Delta has them."""
        import pyarrow as pa

        refuse_doubled(schema.names, case_counts=False)
        spans = [field.name for field in schema if pa.types.is_duration(field.type)]
        if spans:
            raise DataError(
                f"{self.path}: column {spans[0]!r} holds durations, for which Delta has no type: make whole numbers of "
                "them before the sink (for example took // timedelta(microseconds=1))"
            )
        try:
            return _deltalake().Schema.from_arrow(schema)
        except Exception as error:  # deltalake raises no class of its own here, and adds the stack of its own calls
            raise DataError(
                f"{self.path}: Delta cannot hold these columns: {str(error).splitlines()[0]}; cast them before the sink"
            ) from None

    def _compare(self, table: DeltaTable, given: pa.Schema) -> None:
        import pyarrow as pa

        # Both through Delta's own types, which know fewer kinds than Arrow: a large string is a string there.
        there, wanted = pa.schema(table.schema().to_arrow()), pa.schema(self._as_delta(given).to_arrow())
        different = differences(there, wanted)
        if different:
            raise DataError(
                f"{self.path}: the batch does not fit the Delta table: {different}; write to another table, or alter "
                "this one"
            )


def _filled(query: str) -> str:
    """The name under which the log keeps the last batch of the query that had rows; a query's own name has no colon."""
    return f"{query}:rows"


def _plain(error: Exception) -> str:
    """What Delta says, on one line and without colours.

    >>> _plain(OSError("Generic error\\n   \\x1b[31m↳\\x1b[0m No space left"))
    'Generic error: No space left'
    """
    lines = [line.strip(" ↳\t") for line in re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines()]
    return ": ".join(filter(None, lines)) or type(error).__name__


def _deltalake() -> Any:
    words = "the Delta sink needs the package deltalake: pip install deltalake"
    interface.needed("deltalake.exceptions", words)
    return interface.needed("deltalake", words)


delta = DeltaSink
