"""PostgreSQL: the rows and the number of the batch in one transaction.

The transaction first locks the query's row of ``pellucid_epochs``; a second driver waits there, and then sees what the
first has committed.  Rows go in by ``COPY`` of CSV that Arrow writes: no value passes through Python.

With ``parallel=True`` the executors copy into an unlogged table of this attempt, each task under its own number, and
the driver moves the rows of *those tasks whose result Spark accepted* in one transaction.  A task that ran twice leaves
rows under a second number, which are not moved.  It pays where the batch is too large for one connection; each row is
written twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pellucid.errors import DataError, StateError, Unreachable, UsageError, option
from pellucid.internal.address import Address
from pellucid.internal.base import faults
from pellucid.sinks import interface
from pellucid.sinks.interface import Untold
from pellucid.sinks.rows import (
    answering,
    beginning,
    csv_bytes,
    is_spark,
    may_come_back,
    postgres_takes,
    postgres_type,
    refusal,
    refuse_doubled,
    rows_of,
    schema_of,
)

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

# The marks in PostgreSQL: one number for one table and one query, however the table's name is spelt.
#
# ``sums``, ``public.sums`` and, in the database shop, ``shop.public.sums`` may be one table: the server says which, by
# its ``search_path``, and the mark carries the name with its schema.  Marks under the other spellings, written before,
# count as well; so do those of a ``pellucid_epochs`` that lies in another schema, because a driver had another
# ``search_path``.

_WROTE = ("xact", "added")


def identifier(name: str) -> str:
    """One name as SQL, whatever is in it: a column's dot is a part of its name.

    >>> identifier("user.id"), identifier('the "best" 5%')
    ('"user.id"', '"the ""best"" 5%"')
    """
    return '"' + name.replace('"', '""') + '"'


def quoted(table: str) -> str:
    """A table's name as SQL; 'schema.table' is two names.

    >>> quoted("sums"), quoted("stats.sums")
    ('"sums"', '"stats"."sums"')
    """
    return ".".join(identifier(part) for part in table.split("."))


def checked_table(table: str) -> str:
    """The table's name, if the server can take it for one.

    >>> checked_table("stats.")
    Traceback (most recent call last):
    pellucid.errors.UsageError: table='stats.': expected 'table' or 'schema.table'
    """
    parts = table.split(".")
    if not all(parts) or len(parts) > 3:
        raise UsageError(f"table={table!r}: expected 'table' or 'schema.table'")
    return table


@dataclass(frozen=True)
class MarkedTable:
    """A table as the server knows it; ``short`` says whether the name alone means it, too.

    >>> MarkedTable("shop", "public", "sums", short=True).spellings()
    ['public.sums', 'shop.public.sums', 'sums']
    """

    database: str
    schema: str
    table: str
    short: bool

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}"

    def spellings(self, book: str | None = None) -> list[str]:
        """The names under which marks may be; in another schema's book a name alone means a table of that schema."""
        short = self.short if book is None else book == self.schema
        return [self.name, f"{self.database}.{self.name}", *([self.table] if short else [])]


def target_of(db: psycopg.Connection[Any], table: str) -> MarkedTable | None:
    """The table that the server takes this name for; None if there is none."""
    row = db.execute(
        "SELECT current_database(), n.nspname, c.relname, to_regclass(quote_ident(c.relname)) IS NOT DISTINCT FROM "
        "c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)",
        (quoted(table),),
    ).fetchone()
    return None if row is None else MarkedTable(row[0], row[1], row[2], bool(row[3]))


def rows_written(db: psycopg.Connection[Any], names: list[str], query: str | None = None) -> int:
    """How many rows the queries, or one of them, have written to a table of these names by our book."""
    row = db.execute(
        "SELECT coalesce(sum(rows), 0) FROM pellucid_epochs WHERE target = ANY(%s) AND (%s::text IS NULL OR query = "
        "%s)",
        (names, query, query),
    ).fetchone()
    return 0 if row is None else int(row[0])


def has(db: psycopg.Connection[Any], *columns: str) -> bool:
    """Whether there is a book, and one with these columns: those of earlier versions have fewer."""
    row = db.execute(
        "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('pellucid_epochs') AND attname = ANY(%s) AND "
        "NOT attisdropped",
        (list(columns),),
    ).fetchone()
    return bool(row == (len(columns),))


def last_mark(db: psycopg.Connection[Any], target: MarkedTable, query: str) -> int:
    """The highest number of the query under any name of the table; -1 if there is none."""
    books = db.execute(
        "SELECT n.nspname, c.oid::regclass IS NOT DISTINCT FROM to_regclass('pellucid_epochs') FROM pg_class c JOIN "
        "pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = 'pellucid_epochs' AND c.relkind = 'r' AND "
        "has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')"
    ).fetchall()
    found = -1
    for schema, ours in books:
        book = identifier(schema).replace("%", "%%")
        row = db.execute(
            f"SELECT max(batch) FROM {book}.pellucid_epochs WHERE target = ANY(%s) AND query = %s".encode(),
            (target.spellings(None if ours else schema), query),
        ).fetchone()
        found = max(found, -1 if row is None or row[0] is None else int(row[0]))
    return found


def locked_mark(db: psycopg.Connection[Any], target: MarkedTable, query: str) -> int:
    """The same inside a transaction that alone may change it from now on."""
    db.execute(
        "INSERT INTO pellucid_epochs (target, query, batch) VALUES (%s, %s, -1) ON CONFLICT DO NOTHING",
        (target.name, query),
    )
    held = db.execute(
        "SELECT target FROM pellucid_epochs WHERE target = ANY(%s) AND query = %s ORDER BY target FOR UPDATE",
        (target.spellings(), query),
    ).fetchall()
    if (
        target.name,
    ) not in held:  # without the lock nothing is known: neither "is there" nor "is not there" may be said
        raise StateError(
            f"table {target.name!r}: the mark of query {query!r} in pellucid_epochs could not be made, or was removed "
            "at this moment: is another program changing that table? Run the batch again"
        )
    return last_mark(db, target, query)


def advance(db: psycopg.Connection[Any], target: MarkedTable, query: str, batch: int, rows: int) -> None:
    """Set the locked mark to this batch, count its rows, and say which transaction wrote them."""
    done = db.execute(
        "UPDATE pellucid_epochs SET batch = %s, at = now(), rows = coalesce(rows, 0) + %s, added = %s, xact = "
        "txid_current() WHERE target = %s AND query = %s",
        (batch, rows, rows, target.name, query),
    )
    if done.rowcount != 1:
        raise StateError(
            f"table {target.name!r}: the mark of query {query!r} in pellucid_epochs could not be set; run the batch "
            "again"
        )


def written_by(db: psycopg.Connection[Any], target: MarkedTable, query: str, batch: int) -> tuple[int, int] | None:
    """By which transaction (as rows have it in ``xmin``: 32 bits) the rows of this batch were written, and how many
    they were; None if it is not the last of the query by our book.

    A database that came back by ``pg_dump`` has every row from the transaction that restored it, and so the mark: its
    own transaction is not the one that it names.
    """
    where = "WHERE target = %s AND query = %s AND batch = %s"
    there = db.execute(f"SELECT FROM pellucid_epochs {where}".encode(), (target.name, query, batch)).fetchone()
    if there is None:
        return None
    if not has(db, *_WROTE):
        raise Untold("its mark is of an earlier version, which did not keep by which transaction rows were written")
    row = db.execute(
        f"SELECT xmin::text::bigint, xact, added FROM pellucid_epochs {where}".encode(), (target.name, query, batch)
    ).fetchone()
    assert row is not None
    wrote, said, added = row
    if said is None or added is None:
        raise Untold("its mark is of an earlier version, which did not keep by which transaction rows were written")
    if wrote != said & 0xFFFFFFFF:
        raise Untold(
            "its mark was not written by the transaction that it names: the database came back by pg_dump or by "
            "another copy of rows, or another program changed pellucid_epochs"
        )
    return int(wrote), int(added)


# Prepared transactions of PostgreSQL: what was prepared is there after any crash, to be committed or taken back.
#
# The name of one says whose it is: the table (a digest), the query, the batch and the attempt.  So a recovery finds
# what belongs to its group and nothing else, and what an earlier attempt left is never taken for this one's.

_NAME = re.compile(r"pellucid\.(?P<target>[0-9a-f]{12})\.(?P<query>[\w-]+)\.(?P<batch>\d+)\.(?P<attempt>\w+)")


class Gid(NamedTuple):
    """The name of a prepared transaction.

    >>> name = str(Gid.of("public.sums", "orders", 7, "a1"))
    >>> name, Gid.read(name) == Gid.of("public.sums", "orders", 7, "a1"), Gid.read("another") is None
    ('pellucid.f8fbf0994e81.orders.7.a1', True, True)
    """

    target: str
    query: str
    batch: int
    attempt: str

    @staticmethod
    def of(table: str, query: str, batch: int, attempt: str) -> Gid:
        """The name for a table with its schema; PostgreSQL takes 199 bytes."""
        return Gid(hashlib.sha256(table.encode()).hexdigest()[:12], query, batch, attempt)

    @staticmethod
    def read(name: str) -> Gid | None:
        """From the server's list; None if it is not ours."""
        found = _NAME.fullmatch(name)
        return None if found is None else Gid(found["target"], found["query"], int(found["batch"]), found["attempt"])

    def __str__(self) -> str:
        return f"pellucid.{self.target}.{self.query}.{self.batch}.{self.attempt}"


def allowed(db: psycopg.Connection[Any]) -> bool:
    """Whether the server keeps prepared transactions: by default it does not."""
    row = db.execute("SHOW max_prepared_transactions").fetchone()
    return row is not None and int(row[0]) > 0


def prepare(db: psycopg.Connection[Any], name: Gid) -> None:
    """Prepare the transaction that is open; an empty one is open afterwards, for who ends it."""
    db.execute(f"PREPARE TRANSACTION '{name}'".encode())
    db.execute("BEGIN")


def listed(db: psycopg.Connection[Any], table: str, query: str) -> list[tuple[int, str]]:
    """The batches and attempts that are prepared for this table and query, and not settled."""
    rows = db.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()").fetchall()
    found = [Gid.read(gid) for (gid,) in rows]
    mine = Gid.of(table, query, 0, "")
    return sorted((one.batch, one.attempt) for one in found if one is not None and one[:2] == mine[:2])


def settle(db: psycopg.Connection[Any], name: Gid, *, commit: bool) -> bool:
    """Commit it or take it back; False if it is not there (any more)."""
    import psycopg

    try:
        db.execute(f"{'COMMIT' if commit else 'ROLLBACK'} PREPARED '{name}'".encode())
    except psycopg.errors.UndefinedObject:
        return False
    return True


# The tables that a PostgreSQL sink needs: its own books, and the user's table where it is made from the first batch.
#
# They are made, or altered, once and in a short transaction of their own, before anything is staged; and only if the
# catalog says that something is missing.  ``ALTER TABLE … IF NOT EXISTS`` asks for the whole table even where there is
# nothing to do: it would wait for what another member of the group has prepared, which waits for the decision, which
# waits for this one.  A sink that has staged something has seen that the books are complete, so no later one needs to
# change them.

# any number that no other program uses: held while tables are made, which IF NOT EXISTS alone does not guard
_ADVISORY = 7233181290055142706

EPOCHS = """CREATE TABLE IF NOT EXISTS pellucid_epochs
    (target text NOT NULL, query text NOT NULL, batch bigint NOT NULL,
     at timestamptz NOT NULL DEFAULT now(), rows bigint, added bigint, xact bigint, PRIMARY KEY (target, query))"""
# for a book of an earlier version: how many rows there are, how many the last batch has, which transaction wrote it
_LATER = ("rows", "added", "xact")
_ALTER = f"ALTER TABLE pellucid_epochs {', '.join(f'ADD COLUMN IF NOT EXISTS {name} bigint' for name in _LATER)}"
_STAGING = """CREATE TABLE IF NOT EXISTS pellucid_staging
    (name text PRIMARY KEY, pid integer NOT NULL, at timestamptz NOT NULL)"""
_GROUPS = """CREATE TABLE IF NOT EXISTS pellucid_groups
    (target text PRIMARY KEY, name text NOT NULL, place text NOT NULL)"""


def make_books(db: psycopg.Connection[Any]) -> None:
    """The tables in which a sink keeps its numbers, if one is missing or is of an earlier version."""
    _make(db, _missing_books)


def make_groups(db: psycopg.Connection[Any]) -> None:
    """The table that says which group a target is of."""
    _make(db, lambda db: [] if _there(db, "pellucid_groups") else [_GROUPS])


def make_table(db: psycopg.Connection[Any], table: str, columns: Mapping[str, str]) -> bool:
    """The user's table, by the names and types of its columns, if there is none; whether there was none."""
    made = ", ".join(f"{identifier(name)} {kind}" for name, kind in columns.items())
    wanted = [f"CREATE TABLE IF NOT EXISTS {quoted(table)} ({made})"]
    return _make(db, lambda db: [] if _there(db, quoted(table)) else wanted)


def _make(db: psycopg.Connection[Any], missing: Any) -> bool:
    """Run what is missing, alone: what the catalog says then is what counts.  Whether something was."""
    if not missing(db):
        return False
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s)", (_ADVISORY,))
        for statement in missing(db):
            db.execute(statement.encode())
    return True


def _missing_books(db: psycopg.Connection[Any]) -> list[str]:
    wanted = [] if _there(db, "pellucid_staging") else [_STAGING]
    if not _there(db, "pellucid_epochs"):
        return [EPOCHS, *wanted]
    return wanted if has(db, *_LATER) else [_ALTER, *wanted]


def _there(db: psycopg.Connection[Any], name: str) -> bool:
    return bool(db.execute("SELECT to_regclass(%s) IS NOT NULL", (name,)).fetchone() == (True,))


# ---------------------------------------------------------------- who holds what is waited for

_STRENGTH = (
    "ARRAY['AccessExclusiveLock', 'ExclusiveLock', 'ShareRowExclusiveLock', 'ShareLock', 'ShareUpdateExclusiveLock', "
    "'RowExclusiveLock', 'RowShareLock', 'AccessShareLock']"
)
_HOLDERS = f"""SELECT l.granted, l.pid, a.usename, a.query, p.gid FROM pg_locks l
    LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    LEFT JOIN pg_locks own ON l.pid IS NULL AND own.pid IS NULL AND own.locktype = 'transactionid'
        AND own.virtualtransaction = l.virtualtransaction
    LEFT JOIN pg_prepared_xacts p ON p.transaction = own.transactionid
    WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.pid IS DISTINCT FROM pg_backend_pid() AND l.pid IS DISTINCT FROM %s
    AND (l.locktype = 'relation' AND l.relation IN
             (to_regclass(%s), to_regclass('pellucid_epochs'), to_regclass('pellucid_groups'))
         OR l.locktype = 'advisory' AND (l.classid::bigint << 32 | l.objid::bigint) = %s)
    ORDER BY l.locktype, array_position({_STRENGTH}, l.mode),
        l.relation IS NOT DISTINCT FROM to_regclass(%s)::oid DESC, l.granted DESC, l.pid"""


def holders(db: psycopg.Connection[Any], table: str, waited: int | None) -> str:
    """Who holds, or waits for, a lock on the table or on our books: for a message; empty if none is seen any more.

    ``waited`` is the process that waited.
    """
    told: list[str] = []
    with suppress(Exception):  # what cannot be looked up is not said
        name = quoted(table)
        for granted, pid, user, statement, gid in db.execute(_HOLDERS.encode(), (waited, name, _ADVISORY, name)):
            if gid is not None:
                one = f"the prepared transaction {gid!r}"
            elif pid is not None:
                does = "" if granted else ", which waits itself"
                shown = beginning(statement) if statement else "its statement is not shown"
                one = f"process {pid} of {user} ({shown}{does})"
            else:
                continue
            if one not in told:
                told.append(one)
    return ", ".join(told[:3]) + (f" and {len(told) - 3} more" if len(told) > 3 else "")


_LEAST = 5  # seconds to wait for a server's answer, where less is waited for locks


class _Aborted(Exception):  # noqa: N818 - never raised: it ends a transaction
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
        self.table = checked_table(table)
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
        """The user, where one is given: to ask the target later as the same."""
        return self.address.user

    def last(self, query: str) -> int | None:
        with self._connection() as db:
            target = target_of(db, self.table)
            last = -1 if target is None else last_mark(db, target, query)
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
            target = target_of(db, self.table)
            if target is None:
                raise StateError(
                    f"table {self.table!r}: it was dropped while batch {batch} was written; run the batch again"
                )
            last = locked_mark(db, target, query)
            self._look(db, target, query)
            if batch <= last:
                return None
            count = fill()
            advance(db, target, query, batch, count)
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
        if not allowed(db):
            return False
        try:
            target = target_of(db, self.table)
            assert target is not None
            prepare(db, Gid.of(target.name, staged.query, staged.batch, attempt))
        except BaseException:
            if not stack.__exit__(*sys.exc_info()):
                raise
        self.close()
        self._idle = (os.getpid(), db)  # settling it needs no other
        stack.close()
        return True

    def held(self, query: str) -> list[tuple[int, str]]:
        with self._connection() as db:
            target = target_of(db, self.table)
            return [] if target is None else listed(db, target.name, query)

    def held_name(self, query: str, batch: int, attempt: str) -> str:
        with self._connection() as db:
            return str(Gid.of(self._claimed(db), query, batch, attempt))

    def settle(self, query: str, batch: int, attempt: str, *, commit: bool) -> bool:
        idle, self._idle = self._idle, None
        if idle is not None and idle[0] == os.getpid():
            # if the server was started anew meanwhile, a new connection tells
            with suppress(DataError), self._said(idle[1]), closing(idle[1]) as db:
                return self._settled(db, query, batch, attempt, commit)
        with self._connection() as db:
            return self._settled(db, query, batch, attempt, commit)

    def _settled(self, db: psycopg.Connection[Any], query: str, batch: int, attempt: str, commit: bool) -> bool:
        target = target_of(db, self.table)
        if target is None:
            return False
        faults.point("postgres:before-commit")
        done = settle(db, Gid.of(target.name, query, batch, attempt), commit=commit)
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
            return allowed(db)

    def cut(self, query: str, batch: int | None, after: int) -> pa.Table | None:
        """All rows, or those without the last batch: the transaction that wrote its number wrote them, too."""
        with self._connection() as db, db.transaction():
            db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            target = target_of(db, self.table)
            if target is None:
                return None
            last = last_mark(db, target, query)
            if last == (-1 if batch is None else batch):
                return self._read(db, "")
            found = None if last != after else written_by(db, target, query, last)
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
            make_groups(db)
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
        target = target_of(db, self.table)
        if target is not None:
            return target.name
        row = db.execute("SELECT current_schema()").fetchone()
        return self.table if "." in self.table else f"{row[0] if row else 'public'}.{self.table}"

    @property
    def forget(self) -> str:
        """What gives the target free again."""
        return f"DELETE FROM pellucid_groups WHERE target LIKE '%{self.table.rpartition('.')[2]}'"

    def _look(self, db: psycopg.Connection[Any], target: MarkedTable, query: str) -> None:
        """At the start: the numbers of this table tell of rows, so there must be some."""
        if self.drained or query in self._looked:
            return
        written = rows_written(db, target.spellings())
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
        if self.drained or not has(db, "rows"):
            return ""
        target = target_of(db, self.table)
        names = [self._claimed(db)] if target is None else target.spellings()
        written = rows_written(db, names, query)
        return interface.empty_yet(written) if written and (target is None or self._is_empty(db)) else ""

    def renew(self, query: str) -> bool:
        with self._connection() as db, db.transaction():
            if target_of(db, self.table) is not None:  # no writer between the look and the end of it
                db.execute(f"LOCK TABLE {quoted(self.table)} IN SHARE MODE".encode())
            if not self._gone(db, query):
                return False
            target = target_of(db, self.table)
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
        make_books(db)
        if make_table(db, self.table, {name: kind for name, (kind, _) in wanted.items()}):
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
        """A host that is switched off says nothing: it is waited for as long as for a lock, by default."""
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
            told = holders(db, self.table, waited.info.backend_pid)
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
                "that is over, run the same again"
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

        from pellucid.sinks.rows import csv_bytes

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
    return ", ".join(identifier(name) for name in schema.names)


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
