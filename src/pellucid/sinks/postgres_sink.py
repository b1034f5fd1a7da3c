"""PostgreSQL: the rows and the number of the batch in one transaction.

The transaction first locks the query's row of ``pellucid_epochs``; a second driver waits there, and then sees what the
first has committed.  Rows go in by ``COPY`` of CSV that Arrow writes: no value passes through Python.

With ``parallel=True`` the executors copy into an unlogged table of this attempt, each task under its own number, and
the driver moves the rows of *those tasks whose result Spark accepted* in one transaction.  A task that ran twice leaves
rows under a second number, which nobody moves.  It pays where the batch is too large for one connection; each row is
written twice.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar

from pellucid.errors import DataError, StateError, Unreachable, UsageError, option
from pellucid.internal.address import Address
from pellucid.internal.base import faults
from pellucid.sinks import interface
from pellucid.sinks import postgres_marks as marks
from pellucid.sinks import postgres_prepared as prepared
from pellucid.sinks import postgres_tables as tables
from pellucid.sinks.copy_csv import csv_bytes
from pellucid.sinks.interface import Untold
from pellucid.sinks.postgres_marks import quoted
from pellucid.sinks.postgres_words import answering, may_come_back, refusal
from pellucid.sinks.rows import is_spark, rows_of, schema_of
from pellucid.sinks.schema import postgres_takes, postgres_type, refuse_doubled

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa


_LEAST = 5  # seconds to wait for a server's answer, where less is waited for locks


class _Aborted(Exception):  # noqa: N818 - raised by nobody: it ends a transaction
    """A batch is given up."""


class PostgresSink(interface.Sink):
    """A table in PostgreSQL in which each micro-batch counts once.

    The table is made from the first batch's columns (``'schema.table'`` names a schema).  ``parallel=True`` lets the
    executors copy; they must reach the server, too.  ``wait`` is how many seconds to wait for another driver of the
    query. ``drained`` says that other programs take rows out, so that an empty table is no sign of damage.
    ``first_batch`` says that the sink begins with this batch of an older checkpoint.

    >>> postgres("host=db dbname=shop", "sums").guarantee
    'each batch is in the table whole and once, because its rows and its number are one transaction'
    """

    kind: ClassVar[str] = "postgres"
    guarantee: ClassVar[str] = (
        "each batch is in the table whole and once, because its rows and its number are one transaction"
    )

    wait: float

    def __init__(
        self,
        dsn: str,
        table: str,
        *,
        parallel: bool = False,
        wait: float = 60.0,
        drained: bool = False,
        first_batch: int | None = None,
        query: str | None = None,
    ) -> None:
        super().__init__(query, first_batch)
        self.drained = drained
        self._looked: set[str] = set()
        self.table = marks.checked_table(table)
        self.address = Address(dsn, table)
        self.parallel = parallel
        self.wait = wait
        self.answers_within: float | None = None  # seconds for which the server may say nothing; None: for ever
        self.heard: Callable[[], None] | None = None  # what is called when there is a sign of life
        self._idle: tuple[int, Any] | None = None  # a connection that what is prepared was made with, and whose it is

    @property
    def place(self) -> str:
        return f"table {self.table!r}"

    def _is_empty(self, db: psycopg.Connection[Any]) -> bool:
        return bool(db.execute(f"SELECT NOT EXISTS (SELECT FROM {quoted(self.table)})".encode()).fetchone() == (True,))

    @property
    def identity(self) -> str:
        return (self.address if self.address.connection.strip() else Address("postgresql://", self.table)).identity

    @property
    def user(self) -> str:
        """Who logs in, where that is said: for who asks the target later."""
        return self.address.user

    def last(self, query: str) -> int | None:
        with self._connection() as db:
            target = marks.target_of(db, self.table)
            last = -1 if target is None else marks.last_mark(db, target, query)
            return None if last < 0 else last

    def read(self) -> pa.Table:
        """The table's rows."""
        with self._connection() as db:
            return self._read(db, "")

    def _read(self, db: psycopg.Connection[Any], which: str) -> pa.Table:
        import pyarrow as pa

        db.execute("SET TIME ZONE 'UTC'")  # else the first and the last hours of the calendar are out of reach
        cursor = db.execute(f"SELECT * FROM {quoted(self.table)}{which}".encode())
        names = [column.name for column in cursor.description or []]
        columns = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(names)
        return pa.table([_array(column) for column in columns], names=names)

    def stage(self, data: Any, query: str, batch: int) -> interface.Staged:
        """The rows and the number go into a transaction, which is held until `commit`; a crash undoes it.  What the
        executors copy (``parallel``) goes into a table of its own first."""
        schema = schema_of(data)
        with ExitStack() as stack:
            db = stack.enter_context(self._connection())
            self._fit(db, schema)
            if self.parallel and is_spark(data):
                if self.has(query, batch):  # only to save the work; the transaction below looks again
                    return interface.Staged(query, batch, skipped=True)
                fill = self._copied(db, data, schema, batch, stack)
            else:
                rows = rows_of(data)
                copy = f"COPY {quoted(self.table)} ({_names(schema)}) FROM STDIN (FORMAT csv)"

                def fill() -> int:
                    with db.cursor().copy(copy.encode()) as out:
                        for piece in rows:
                            out.write(csv_bytes(piece))
                    return rows.count

            count = self._filled(db, query, batch, fill, stack)
            if count is None:
                return interface.Staged(query, batch, skipped=True)
            filled, before = count
            return interface.Staged(query, batch, filled, (db, stack.pop_all()), before=before)

    def _filled(
        self, db: psycopg.Connection[Any], query: str, batch: int, fill: Callable[[], int], stack: ExitStack
    ) -> tuple[int, int] | None:
        """Run ``fill`` in a transaction with the batch's number, unless the number is there already."""
        import psycopg

        try:
            stack.enter_context(db.transaction())
            target = marks.target_of(db, self.table)
            if target is None:
                raise StateError(
                    f"table {self.table!r}: it was dropped while batch {batch} was written; run the batch again"
                )
            last = marks.locked_mark(db, target, query)
            self._look(db, target, query)
            if batch <= last:
                return None
            count = fill()
            marks.advance(db, target, query, batch, count)
            return count, last
        except psycopg.errors.LockNotAvailable:
            raise StateError(
                f"table {self.table!r}: another writer has held query {query!r} for {self.wait:g} s: "
                f"is a second driver of this query, or a second run, still there?{self._holders(db)}"
            ) from None
        except (psycopg.DataError, psycopg.errors.NotNullViolation) as error:
            raise DataError(refusal(self.table, batch, error)) from error

    def prepare(self, staged: interface.Staged) -> None:
        """Constraints that wait for the commit are looked at now."""
        db, stack = staged.held
        try:
            db.execute("SET CONSTRAINTS ALL IMMEDIATE")
        except BaseException:
            if not stack.__exit__(*sys.exc_info()):
                raise

    def commit(self, staged: interface.Staged) -> None:
        _, stack = staged.held
        with stack:
            faults.point("postgres:before-commit")
        self._looked.add(staged.query)
        faults.point("postgres:after-commit")

    def abort(self, staged: interface.Staged) -> None:
        """Leave the transaction by an error: it is taken back."""
        with suppress(Exception):
            staged.held[1].__exit__(_Aborted, _Aborted(), None)

    # ------------------------------------------------------------ together with others

    def hold(self, staged: interface.Staged, attempt: str) -> bool:
        """``PREPARE TRANSACTION``, where the server allows it (``max_prepared_transactions`` is not 0)."""
        db, stack = staged.held
        if not prepared.allowed(db):
            return False
        try:
            target = marks.target_of(db, self.table)
            assert target is not None
            prepared.prepare(db, prepared.Gid.of(target.name, staged.query, staged.batch, attempt))
        except BaseException:
            if not stack.__exit__(*sys.exc_info()):
                raise
        self.close()
        self._idle = (os.getpid(), db)  # whoever settles it needs no other
        stack.close()
        return True

    def held(self, query: str) -> list[tuple[int, str]]:
        with self._connection() as db:
            target = marks.target_of(db, self.table)
            return [] if target is None else prepared.listed(db, target.name, query)

    def held_name(self, query: str, batch: int, attempt: str) -> str:
        with self._connection() as db:
            return str(prepared.Gid.of(self._claimed(db), query, batch, attempt))

    def settle(self, query: str, batch: int, attempt: str, *, commit: bool) -> bool:
        idle, self._idle = self._idle, None
        if idle is not None and idle[0] == os.getpid():
            # if the server was started anew meanwhile, a new connection tells
            with suppress(DataError), self._said(idle[1]), closing(idle[1]) as db:
                return self._settled(db, query, batch, attempt, commit)
        with self._connection() as db:
            return self._settled(db, query, batch, attempt, commit)

    def _settled(self, db: psycopg.Connection[Any], query: str, batch: int, attempt: str, commit: bool) -> bool:
        target = marks.target_of(db, self.table)
        if target is None:
            return False
        faults.point("postgres:before-commit")
        done = prepared.settle(db, prepared.Gid.of(target.name, query, batch, attempt), commit=commit)
        faults.point("postgres:after-commit")
        return done

    def close(self) -> None:
        idle, self._idle = self._idle, None
        if idle is not None and idle[0] == os.getpid():
            idle[1].close()

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()

    def can_hold(self) -> bool:
        """Whether the server allows ``PREPARE TRANSACTION``."""
        with self._connection() as db:
            return prepared.allowed(db)

    def cut(self, query: str, batch: int | None, after: int) -> pa.Table | None:
        """All rows, or those without the last batch: the transaction that wrote its number wrote them, too."""
        with self._connection() as db, db.transaction():
            db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            target = marks.target_of(db, self.table)
            if target is None:
                return None
            last = marks.last_mark(db, target, query)
            if last == (-1 if batch is None else batch):
                return self._read(db, "")
            found = None if last != after else marks.written_by(db, target, query, last)
            if found is None:
                return None
            self._see_rows_of(db, *found)
            return self._read(db, f" WHERE xmin::text <> '{found[0]}'")

    def _see_rows_of(self, db: psycopg.Connection[Any], transaction: int, added: int) -> None:
        """The rows of the last batch must be seen by their transaction, if a cut is to leave them out."""
        import psycopg

        count = f"SELECT count(*) FROM {quoted(self.table)} WHERE xmin::text = '{transaction}'"
        try:
            row = db.execute(count.encode()).fetchone()
        except psycopg.errors.UndefinedColumn:
            raise Untold("it is no table whose rows know which transaction wrote them (a view?)") from None
        there = 0 if row is None else int(row[0])
        if there > added or (added and not there and not self.drained):
            raise Untold(
                f"{added:,} rows were written by its transaction, and {there:,} of it are there: the table was "
                "rewritten, restored or changed by another program"
            )

    def claim(self, group: str, where: str) -> str | None:
        with self._connection() as db:
            tables.make_groups(db)
            name = self._claimed(db)
            db.execute("INSERT INTO pellucid_groups VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", (name, group, where))
            found = db.execute("SELECT name, place FROM pellucid_groups WHERE target = %s", (name,)).fetchone()
            return None if found is None or found[0] == group else str(found[1])

    def really(self) -> str:
        with self._connection() as db:
            row = db.execute("SELECT pg_postmaster_start_time()::text, current_database()").fetchone()
            return f"{row} {self._claimed(db)}"

    def unclaim(self, group: str | None) -> None:
        with self._connection() as db:
            if db.execute("SELECT to_regclass('pellucid_groups') IS NOT NULL").fetchone() == (True,):
                db.execute(
                    "DELETE FROM pellucid_groups WHERE target = %s AND name = coalesce(%s::text, name)",
                    (self._claimed(db), group),
                )

    def _claimed(self, db: psycopg.Connection[Any]) -> str:
        """The table's name with its schema, also before it is made."""
        target = marks.target_of(db, self.table)
        if target is not None:
            return target.name
        row = db.execute("SELECT current_schema()").fetchone()
        return self.table if "." in self.table else f"{row[0] if row else 'public'}.{self.table}"

    @property
    def forget(self) -> str:
        """What gives the target free again."""
        return f"DELETE FROM pellucid_groups WHERE target LIKE '%{self.table.rpartition('.')[2]}'"

    def _look(self, db: psycopg.Connection[Any], target: marks.MarkedTable, query: str) -> None:
        """At the start: the numbers of this table tell of rows, so there must be some."""
        if self.drained or query in self._looked:
            return
        written = marks.written(db, target.spellings())
        if written and self._is_empty(db):
            raise StateError(
                interface.emptied(
                    self.place, query, written, f"DELETE FROM pellucid_epochs WHERE target = '{target.name}'"
                )
            )

    def gone(self, query: str) -> str:
        """The numbers tell of rows, and there is none, or no table."""
        with self._connection() as db:
            return self._gone(db, query)

    def _gone(self, db: psycopg.Connection[Any], query: str) -> str:
        if self.drained or not marks.has(db, "rows"):
            return ""
        target = marks.target_of(db, self.table)
        names = [self._claimed(db)] if target is None else target.spellings()
        written = marks.written(db, names, query)
        return interface.empty_yet(written) if written and (target is None or self._is_empty(db)) else ""

    def renew(self, query: str) -> bool:
        with self._connection() as db, db.transaction():
            if marks.target_of(db, self.table) is not None:  # nobody writes between the look and the end of it
                db.execute(f"LOCK TABLE {quoted(self.table)} IN SHARE MODE".encode())
            if not self._gone(db, query):
                return False
            target = marks.target_of(db, self.table)
            names = [self._claimed(db)] if target is None else target.spellings()
            db.execute("DELETE FROM pellucid_epochs WHERE target = ANY(%s) AND query = %s", (names, query))
        self._looked.add(query)  # of other queries rows may be gone as well: that is not asked now
        return True

    def _copied(
        self, db: psycopg.Connection[Any], df: Any, schema: pa.Schema, batch: int, stack: ExitStack
    ) -> Callable[[], int]:
        """Let the executors copy the rows into a table of their own, which goes when all is over; what moves them."""
        staging = f"pellucid_staging_{uuid.uuid4().hex}"
        names = _names(schema)
        db.execute(
            f"CREATE UNLOGGED TABLE {quoted(staging)} AS SELECT 0::bigint AS pellucid_task, {names} FROM "
            f"{quoted(self.table)} LIMIT 0".encode()
        )
        stack.callback(self._drop, db, staging)
        db.execute("INSERT INTO pellucid_staging VALUES (%s, pg_backend_pid(), now())", (staging,))
        copy = f"COPY {quoted(staging)} (pellucid_task, {names}) FROM STDIN (FORMAT csv)"
        numbered = df.toDF(*(f"c{place}" for place in range(len(schema))))  # mapInArrow trips over a backtick in a name
        accepted = numbered.mapInArrow(_copier(self.address, copy), "task bigint, n bigint").collect()
        faults.point("postgres:staged")

        def fill() -> int:
            insert = (
                f"INSERT INTO {quoted(self.table)} ({names}) SELECT {names} FROM {quoted(staging)} WHERE "
                "pellucid_task = ANY"
            ).replace("%", "%%")
            moved: int = db.execute(f"{insert}(%s)".encode(), ([row["task"] for row in accepted],)).rowcount
            if moved != sum(row["n"] for row in accepted):
                raise StateError(
                    f"table {self.table!r}: batch {batch}: the executors copied {sum(row['n'] for row in accepted)} "
                    f"rows, but {moved} are in {staging}: did the server restart meanwhile? Run the batch again"
                )
            return moved

        return fill

    @staticmethod
    def _drop(db: psycopg.Connection[Any], staging: str) -> None:
        if not db.broken:
            db.execute(f"DROP TABLE IF EXISTS {quoted(staging)}".encode())
            db.execute("DELETE FROM pellucid_staging WHERE name = %s", (staging,))

    def _fit(self, db: psycopg.Connection[Any], schema: pa.Schema) -> None:
        """Make the tables that are missing, refuse a table with other columns, drop staging tables of drivers that
        died."""
        refuse_doubled(schema.names)
        long = next((name for name in schema.names if len(name.encode()) > 63), None)
        if long is not None:
            raise DataError(f"column {long!r}: PostgreSQL cuts a name after 63 bytes; rename it before the sink")
        wanted = {field.name: postgres_type(field.name, field.type) for field in schema}
        tables.make_books(db)
        if tables.make_table(db, self.table, {name: kind for name, (kind, _) in wanted.items()}):
            self._looked.clear()  # dropped since we looked?
        self._compare(self._columns(db), wanted, {field.name: field.type for field in schema})
        if self.parallel:
            gone = db.execute(
                "SELECT name FROM pellucid_staging s WHERE NOT EXISTS "
                "(SELECT FROM pg_stat_activity a WHERE a.pid = s.pid AND coalesce(a.backend_start <= s.at, true))"
            ).fetchall()
            for (name,) in gone:
                db.execute(f"DROP TABLE IF EXISTS {quoted(name)}".encode())
                db.execute("DELETE FROM pellucid_staging WHERE name = %s", (name,))

    def _columns(self, db: psycopg.Connection[Any]) -> dict[str, tuple[str, bool]]:
        """The table's columns: type, and whether PostgreSQL fills the column by itself."""
        found = db.execute(
            "SELECT attname, format_type(atttypid, atttypmod), atthasdef OR attidentity <> '' FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (quoted(self.table),),
        ).fetchall()
        return {name: (kind, filled) for name, kind, filled in found}

    def _compare(
        self,
        there: dict[str, tuple[str, bool]],
        wanted: dict[str, tuple[str, frozenset[str]]],
        kinds: dict[str, pa.DataType],
    ) -> None:
        different = [
            f"column {name!r} ({kind}) is missing in the table"
            for name, (kind, _) in wanted.items()
            if name not in there
        ]
        different += [
            f"column {name!r} ({kind}) is not in the batch"
            for name, (kind, filled) in there.items()
            if name not in wanted and not filled
        ]
        different += [
            f"column {name!r} is {there[name][0]} in the table and {kind} in the batch"
            for name, (kind, fits) in wanted.items()
            if name in there and not postgres_takes(there[name][0], kinds[name], fits)
        ]
        if different:
            raise DataError(
                f"table {self.table!r} does not fit the batch: {', '.join(different)}; name another table, or alter "
                "this one"
            )

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        psycopg = interface.needed("psycopg", "the PostgreSQL sink needs psycopg 3: pip install 'psycopg[binary]'")
        try:
            self._sign_of_life()
            db = answering().connect(self.address.connection, autocommit=True, **self._at_most())
        except psycopg.OperationalError as error:
            kind = Unreachable if may_come_back(str(error)) else DataError
            why = " ".join(self.address.clean(error).split())
            raise kind(f"PostgreSQL cannot be reached for table {self.table!r}: {why}") from None
        except psycopg.ProgrammingError:  # it repeats what it could not read, which may be a password, or half of one
            raise UsageError(
                f"table {self.table!r}: this is no address that PostgreSQL understands: expected "
                "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
                "with % ? # / @ in a password written as %25 %3F %23 %2F %40; or key=value pairs"
            ) from None
        self._sign_of_life()
        db.answers_within, db.heard = self.answers_within, self._sign_of_life
        # who waited for the lock must see what was committed meanwhile
        db.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        try:
            with self._said(db):
                # nothing waits for a lock in silence: neither what makes tables nor what only looks
                db.execute("SELECT set_config('lock_timeout', %s, false)", (f"{max(1, int(self.wait * 1000))}ms",))
                yield db
        finally:
            if self._idle is None or self._idle[1] is not db:
                db.close()

    def _at_most(self) -> dict[str, int]:
        """A host that is switched off says nothing: nobody waits longer for it than for a lock, if nothing is said."""
        from psycopg.conninfo import conninfo_to_dict

        if "PGCONNECT_TIMEOUT" in os.environ or "connect_timeout" in conninfo_to_dict(self.address.connection):
            return {}
        most = max(_LEAST, int(self.wait))
        return {"connect_timeout": most if self.answers_within is None else max(2, min(most, int(self.answers_within)))}

    def _sign_of_life(self) -> None:
        if self.heard is not None:
            self.heard()

    def _holders(self, waited: psycopg.Connection[Any]) -> str:
        """Who holds what a connection has waited for, as the end of a sentence."""
        import psycopg

        with suppress(psycopg.Error), psycopg.connect(self.address.connection, autocommit=True) as db:
            told = tables.holders(db, self.table, waited.info.backend_pid)
            return f" (locks there: {told})" if told else ""
        return ""

    @contextmanager
    def _said(self, db: psycopg.Connection[Any]) -> Iterator[None]:
        """What the server says, as one of our errors."""
        import psycopg

        try:
            yield
        except psycopg.errors.LockNotAvailable as error:
            raise DataError(
                f"table {self.table!r}: a lock was waited for, and not given within {self.wait:g} s: another program, "
                f"or a transaction that is left prepared, holds it{self._holders(db)}. When "
                "that is over, the same again goes on"
            ) from error
        except psycopg.Error as error:  # the server is gone, its disk is full, a right is missing
            if getattr(db, "silent", False):
                self._sign_of_life()
                raise Unreachable(
                    f"table {self.table!r}: PostgreSQL has not answered for {self.answers_within:g} s: the server "
                    f"hangs, or one statement takes longer than {option('patience')} allows"
                ) from None
            kind = Unreachable if db.broken else DataError
            raise kind(
                f"table {self.table!r}: PostgreSQL says: {' '.join(str(error).split()) or type(error).__name__}"
            ) from error


def _copier(address: Address, copy: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task runs: copy its rows under its own number, and report the number only when they are in."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import psycopg
        import pyarrow as pa
        from pyspark import TaskContext

        from pellucid.sinks.copy_csv import csv_bytes

        context = TaskContext.get()
        assert context is not None
        task, count = context.taskAttemptId(), 0
        with psycopg.connect(address.connection) as db, db.cursor().copy(copy.encode()) as out:
            for batch in batches:
                if batch.num_rows:
                    label = pa.array([task] * batch.num_rows, pa.int64())
                    out.write(
                        csv_bytes(
                            pa.RecordBatch.from_arrays([label, *batch.columns], ["pellucid_task", *batch.schema.names])
                        )
                    )
                    count += batch.num_rows
        yield pa.RecordBatch.from_pydict(
            {"task": [task], "n": [count]}, pa.schema({"task": pa.int64(), "n": pa.int64()})
        )

    return run


def _names(schema: pa.Schema) -> str:
    return ", ".join(marks.identifier(name) for name in schema.names)


def _array(column: tuple[Any, ...]) -> pa.Array:
    """A column of what the server gave; JSON of several shapes (maps with other keys in other rows) stays text.

    >>> _array(({"a": 1}, {"a": None})).type, _array(({"a": 1}, {})).to_pylist()
    (StructType(struct<a: int64>), ['{"a": 1}', '{}'])
    """
    import pyarrow as pa

    given = list(column)
    if not any(isinstance(value, (dict, list)) for value in given):
        return pa.array(given)
    with suppress(pa.ArrowInvalid, pa.ArrowTypeError):
        made = pa.array(given)
        if made.to_pylist() == given:
            return made
    return pa.array([None if value is None else json.dumps(value) for value in given], pa.string())


postgres = PostgresSink
