"""SQLite: the rows and the number of the batch in one transaction.

``BEGIN IMMEDIATE`` takes the database's one write lock before the last batch is read, so a second writer waits, and
then sees what the first has committed.  SQLite has no times, decimals or records: they are stored as exact text (times
in ISO 8601).  It turns NaN into NULL without a word, so a batch with NaN is refused.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pellucid.errors import DataError, StateError
from pellucid.internal.address import Address
from pellucid.internal.base import faults
from pellucid.internal.base.files import by_any_name
from pellucid.sinks import interface
from pellucid.sinks.rows import Rows, in_micros, json_cell, refuse_doubled, rows_of, shortened, sqlite_type, value_text

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCHS = """CREATE TABLE IF NOT EXISTS pellucid_epochs
    (target TEXT NOT NULL, query TEXT NOT NULL, batch INTEGER NOT NULL, rows INTEGER, PRIMARY KEY (target, query))"""

_MOST = 2**63 - 1  # the greatest whole number
_MARKS = 1_500  # values of one statement: more of them take longer to parse than they save


class SQLiteSink(interface.Sink):
    """A table in a SQLite file in which each micro-batch counts once.

    The table is made from the first batch's columns.  ``wait`` is how many seconds to wait for another writer.
    ``drained`` says that other programs take rows out, so that an empty table is no sign of damage.  ``first_batch``
    says that the sink begins with this batch of an older checkpoint.

    >>> import pyarrow as pa, tempfile
    >>> sink = sqlite(tempfile.mkdtemp() + "/sums.db", "sums")
    >>> print(sink.write(pa.table({"user": ["a", "b"], "sum": [1, 2]}), "query-1", 0))
    query-1: batch 0: 2 rows written
    >>> print(sink.write(pa.table({"user": ["a", "b"], "sum": [1, 2]}), "query-1", 0))
    query-1: batch 0: left out, its rows are there already
    >>> sink.read().to_pylist()
    [{'user': 'a', 'sum': 1}, {'user': 'b', 'sum': 2}]
    """

    kind: ClassVar[str] = "sqlite"
    guarantee: ClassVar[str] = (
        "each batch is in the table whole and once, because its rows and its number are one transaction"
    )

    wait: float

    def __init__(
        self,
        path: str | os.PathLike[str],
        table: str,
        *,
        wait: float = 60.0,
        drained: bool = False,
        first_batch: int | None = None,
        query: str | None = None,
    ) -> None:
        super().__init__(query, first_batch)
        self.drained = drained
        self._looked: set[str] = set()
        self.path = Path(path).absolute()
        self.table = table
        self.wait = wait

    @property
    def place(self) -> str:
        return f"{self.path}: table {self.table!r}"

    @property
    def identity(self) -> str:
        return Address(f"sqlite:{self.path}", self.table).identity

    def last(self, query: str) -> int | None:
        with self._connection() as db:
            if not self._columns(db, "pellucid_epochs"):
                return None
            return self._last(db, query)

    def read(self) -> pa.Table:
        """The table's rows, with SQLite's types."""
        with self._connection() as db:
            return self._read(db, "")

    def _read(self, db: sqlite3.Connection, which: str) -> pa.Table:
        import pyarrow as pa

        cursor = db.execute(f"SELECT * FROM {_quoted(self.table)}{which}")
        columns = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(cursor.description)
        return pa.table({d[0]: pa.array(list(c)) for d, c in zip(cursor.description, columns, strict=True)})

    def stage(self, data: Any, query: str, batch: int) -> interface.Staged:
        """The rows and the number go into a transaction, which is held until `commit`: the database has no other
        writer until then (so no two batches of one file can be prepared at once), and a crash undoes it."""
        rows = rows_of(data)
        with ExitStack() as stack:
            db = stack.enter_context(self._connection())
            self._begin(db)
            db.execute(_EPOCHS)
            if "rows" not in self._columns(db, "pellucid_epochs"):  # of an earlier version, which did not count
                db.execute("ALTER TABLE pellucid_epochs ADD COLUMN rows INTEGER")
            self._look(db, query)
            last = self._last(db, query)
            if last is not None and batch <= last:
                return interface.Staged(query, batch, skipped=True)
            self._fit(db, rows.schema)
            top = self._top(db) if self.grouped else None
            self._insert(db, rows, batch)
            if self.grouped:
                self._note_cut(db, query, batch, top, rows.count)
            db.execute(
                "INSERT INTO pellucid_epochs (target, query, batch, rows) VALUES (?, ?, ?, ?) ON CONFLICT (target, "
                "query) DO UPDATE SET batch = excluded.batch, rows = coalesce(rows, 0) + excluded.rows",
                (self.table, query, batch, rows.count),
            )
            return interface.Staged(
                query, batch, rows.count, (db, stack.pop_all()), before=-1 if last is None else last
            )

    def commit(self, staged: interface.Staged) -> None:
        db, stack = staged.held
        with stack:
            faults.point("sqlite:before-commit")
            db.execute("COMMIT")
        self._looked.add(staged.query)
        faults.point("sqlite:after-commit")

    def abort(self, staged: interface.Staged) -> None:
        """Closed in the middle of a transaction, the connection takes it back."""
        staged.held[1].close()

    # ------------------------------------------------------------ together with others

    def _top(self, db: sqlite3.Connection) -> int | None:
        """The highest number of a row, as SQLite numbers rows."""
        number = self._numbers(db)
        with suppress(sqlite3.OperationalError):  # a table of one's own WITHOUT ROWID
            if number:
                found = db.execute(f"SELECT coalesce(max({number}), 0) FROM {_quoted(self.table)}").fetchone()
                return int(found[0])
        return None

    def _note_cut(self, db: sqlite3.Connection, query: str, batch: int, top: int | None, added: int) -> None:
        """Which rows are of this batch: so many, above the highest number that was there, up to the highest now."""
        db.execute(
            "CREATE TABLE IF NOT EXISTS pellucid_cuts (target TEXT NOT NULL, query TEXT NOT NULL, batch INTEGER NOT "
            "NULL, top INTEGER, upto INTEGER, added INTEGER, PRIMARY KEY (target, query))"
        )
        there = self._columns(db, "pellucid_cuts")
        for name in (name for name in ("upto", "added") if name not in there):  # of an earlier version
            db.execute(f"ALTER TABLE pellucid_cuts ADD COLUMN {name} INTEGER")
        upto = None if top is None else self._top(db)
        db.execute(
            "INSERT OR REPLACE INTO pellucid_cuts (target, query, batch, top, upto, added) VALUES (?, ?, ?, ?, ?, ?)",
            (self.table, query, batch, top, upto, added),
        )

    def _numbers(self, db: sqlite3.Connection) -> str:
        """By which name SQLite tells how it has numbered the rows; nothing if it cannot be told: a view or a virtual
        table, a column that is the number itself, columns with all of these names."""
        found = db.execute(
            "SELECT type, coalesce(sql, '') FROM sqlite_master WHERE name = ? COLLATE NOCASE AND type IN ('table', "
            "'view')", (self.table,),
        ).fetchone()  # fmt: skip
        columns = self._info(db, self.table)
        if found is None or found[0] != "table" or found[1].upper().startswith("CREATE VIRTUAL"):
            return ""
        if any(row[5] and str(row[2]).upper() == "INTEGER" for row in columns):
            return ""
        taken = {str(row[1]).lower() for row in columns}
        return next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), "")

    def cut(self, query: str, batch: int | None, after: int) -> pa.Table | None:
        """All rows, or those without the batch after this one."""
        with self._connection() as db:
            db.execute("BEGIN")
            if not self._columns(db, self.table):
                return None
            last = self._last(db, query) if self._columns(db, "pellucid_epochs") else None
            if last == batch:
                return self._read(db, "")
            return None if last != after else self._read(db, f" WHERE NOT ({self._of_last(db, query, after)})")

    def _of_last(self, db: sqlite3.Connection, query: str, last: int) -> str:
        """Which rows are of the last batch, as a condition; they must be there as they were written."""
        there, number = self._columns(db, "pellucid_cuts"), self._numbers(db)
        if there and "added" not in there:
            raise interface.Untold("its mark is of an earlier version, which did not keep how many rows they are")
        found = None
        if there and number:
            found = db.execute(
                "SELECT top, upto, added FROM pellucid_cuts WHERE target = ? COLLATE NOCASE AND query = ? AND batch = "
                "?", (self.table, query, last),
            ).fetchone()  # fmt: skip
        if found is None or None in found:
            raise interface.Untold("SQLite has not told how its rows are numbered (a view, a table WITHOUT ROWID?)")
        which = f"{number} > {int(found[0])} AND {number} <= {int(found[1])}"
        (count,) = db.execute(f"SELECT count(*) FROM {_quoted(self.table)} WHERE {which}").fetchone()
        if count > found[2] or (count < found[2] and not self.drained):
            raise interface.Untold(
                f"{found[2]:,} rows were written, and {count:,} are there under their numbers: other rows have them "
                "since the file came back from a dump, or another program has taken rows out"
            )
        return which

    def claim(self, group: str, where: str) -> str | None:
        with self._connection() as db:
            self._begin(db)
            db.execute(
                "CREATE TABLE IF NOT EXISTS pellucid_groups (target TEXT PRIMARY KEY COLLATE NOCASE, name TEXT NOT "
                "NULL, place TEXT NOT NULL)"
            )
            db.execute("INSERT OR IGNORE INTO pellucid_groups VALUES (?, ?, ?)", (self.table, group, where))
            found = db.execute("SELECT name, place FROM pellucid_groups WHERE target = ?", (self.table,)).fetchone()
            db.execute("COMMIT")
            return None if found[0] == group else str(found[1])

    def really(self) -> str:
        return f"{by_any_name(self.path)} {self.table.casefold()}"

    @property
    def file(self) -> str:
        """The file, whatever links lead there."""
        return os.path.realpath(self.path)

    def unclaim(self, group: str | None) -> None:
        with self._connection() as db:
            if self._columns(db, "pellucid_groups"):
                db.execute(
                    "DELETE FROM pellucid_groups WHERE target = ? AND name = coalesce(?, name)", (self.table, group)
                )

    @property
    def forget(self) -> str:
        """What gives the target free again."""
        return f"DELETE FROM pellucid_groups WHERE target = '{self.table}'"

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        # Transactions are begun and ended here, by name; sqlite3's own habit of opening them is switched off.
        try:
            db = sqlite3.connect(self.path, timeout=self.wait, isolation_level=None)
        except sqlite3.OperationalError as error:
            raise DataError(
                f"{self.path}: SQLite cannot open it ({error}): does the folder exist, may you write there?"
            ) from None
        with closing(db):
            try:
                yield db
            except sqlite3.ProgrammingError:
                raise
            except sqlite3.DatabaseError as error:
                # a full or failing disk, a file that is no database or a damaged one, one that may not be written
                raise DataError(f"{self.path}: SQLite says: {error}") from None

    def _begin(self, db: sqlite3.Connection) -> None:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            raise StateError(
                f"{self.path}: another writer has held the database for {self.wait:g} s: "
                "is a second run or query, or another program, still writing there?"
            ) from None
        except sqlite3.DatabaseError as error:
            raise DataError(f"{self.path}: {error}") from None

    def _last(self, db: sqlite3.Connection, query: str) -> int | None:
        # To SQLite T and t are one table (of the letters a to z), so they are one mark.
        row = db.execute(
            "SELECT max(batch) FROM pellucid_epochs WHERE target = ? COLLATE NOCASE AND query = ?", (self.table, query)
        ).fetchone()
        return None if row[0] is None else int(row[0])

    def _look(self, db: sqlite3.Connection, query: str) -> None:
        """At the start, and where the table is gone: its numbers tell of rows, so there must be some."""
        if self.drained or (query in self._looked and self._columns(db, self.table)):
            return
        (written,) = db.execute(
            "SELECT sum(rows) FROM pellucid_epochs WHERE target = ? COLLATE NOCASE", (self.table,)
        ).fetchone()
        if written and self._is_empty(db):
            raise StateError(
                interface.emptied(
                    self.place, query, int(written), f"DELETE FROM pellucid_epochs WHERE target = '{self.table}'"
                )
            )

    def _is_empty(self, db: sqlite3.Connection) -> bool:
        return not self._columns(db, self.table) or (
            db.execute(f"SELECT EXISTS (SELECT 1 FROM {_quoted(self.table)})").fetchone() == (0,)
        )

    def gone(self, query: str) -> str:
        """The numbers tell of rows, and there is none."""
        with self._connection() as db:
            return self._gone(db, query)

    def _gone(self, db: sqlite3.Connection, query: str) -> str:
        if self.drained or "rows" not in self._columns(db, "pellucid_epochs") or not self._is_empty(db):
            return ""
        (written,) = db.execute(
            "SELECT sum(rows) FROM pellucid_epochs WHERE target = ? COLLATE NOCASE AND query = ?", (self.table, query)
        ).fetchone()
        return interface.empty_yet(int(written)) if written else ""

    def renew(self, query: str) -> bool:
        with self._connection() as db:
            self._begin(db)
            if not self._gone(db, query):
                return False
            db.execute("DELETE FROM pellucid_epochs WHERE target = ? COLLATE NOCASE AND query = ?", (self.table, query))
            db.execute("COMMIT")
        self._looked.add(query)  # of other queries rows may be gone as well: that is not asked now
        return True

    @staticmethod
    def _info(db: sqlite3.Connection, table: str) -> list[Any]:
        return list(db.execute(f"PRAGMA table_info({_quoted(table)})"))

    def _columns(self, db: sqlite3.Connection, table: str) -> dict[str, str]:
        return {row[1]: str(row[2]).upper() for row in self._info(db, table)}

    def _fit(self, db: sqlite3.Connection, schema: pa.Schema) -> None:
        """Make the table if there is none; refuse one with other columns."""
        refuse_doubled(schema.names, case_counts=False)
        wanted = {field.name: sqlite_type(field.name, field.type) for field in schema}
        there = self._columns(db, self.table)
        if not there:
            columns = ", ".join(f"{_quoted(name)} {kind}" for name, kind in wanted.items())
            db.execute(f"CREATE TABLE {_quoted(self.table)} ({columns})")
            return
        different = [
            f"column {name!r} ({kind}) is missing in the table" for name, kind in wanted.items() if name not in there
        ]
        different += [f"column {name!r} ({there[name]}) is not in the batch" for name in there if name not in wanted]
        different += [
            f"column {name!r} is {there[name]} in the table and {kind} in the batch"
            for name, kind in wanted.items()
            if there.get(name, kind) != kind
        ]
        if different:
            raise DataError(
                f"{self.path}: table {self.table!r} does not fit the batch: {', '.join(different)}; "
                "name another table, or alter this one"
            )

    def _insert(self, db: sqlite3.Connection, rows: Rows, batch: int) -> None:
        """Many rows with one statement: for each statement Python's lock changes hands, which others wait for, too."""
        names = ", ".join(_quoted(name) for name in rows.schema.names)
        width = len(rows.schema.names)
        most = max(1, min(_MARKS, db.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)) // max(width, 1))
        marks = f"({', '.join('?' * width)})"
        insert = f"INSERT INTO {_quoted(self.table)} ({names}) VALUES "
        before = 0
        for piece in rows:
            columns = [
                _values(self.table, field, column) for field, column in zip(rows.schema, piece.columns, strict=True)
            ]
            lines = zip(*columns, strict=True)
            for first in range(0, piece.num_rows, most):
                some = list(islice(lines, most))
                there = db.total_changes
                try:
                    db.execute(insert + ", ".join([marks] * len(some)), list(chain.from_iterable(some)))
                except sqlite3.IntegrityError as error:
                    place, why = _refused(db, insert + marks, some, error, db.total_changes - there)
                    which = ""
                    if place is not None:
                        shown = ", ".join(f"{n}={v!r}" for n, v in zip(rows.schema.names, some[place], strict=True))
                        which = f"row {before + first + place + 1:,}: {shortened(shown)}"
                    raise DataError(f"{self.path}: table {self.table!r}: {_why(why, batch, which)}") from None
            before += piece.num_rows


def _refused(
    db: sqlite3.Connection, insert: str, rows: list[Any], error: Exception, stayed: int
) -> tuple[int | None, str]:
    """Which of these rows a table refuses, and why: each is tried by itself, as the caller gives the transaction
    up.  None if that cannot be told: a table may say that all is rolled back at once."""
    if not db.in_transaction:
        return None, str(error)
    if stayed:  # it may also say that those before the refused one stay
        return (stayed if stayed < len(rows) else None), str(error)
    for place, row in enumerate(rows):
        try:
            db.execute(insert, row)
        except sqlite3.IntegrityError as alone:
            return place, str(alone)
    return None, str(error)


def _why(text: str, batch: int, which: str) -> str:
    """What is wrong with a row, and what to do.

    >>> _why("UNIQUE constraint failed: t.id", 7, "row 3: id=1")
    'a row of batch 7 is refused, UNIQUE constraint failed: t.id (row 3: id=1): leave it out before the sink, or alter
    the table'
    """
    shown = f" ({which})" if which else ""
    empty = re.fullmatch(r"NOT NULL constraint failed: .*?\.(.*)", text)
    if empty is None:
        return f"a row of batch {batch} is refused, {text}{shown}: leave it out before the sink, or alter the table"
    return (
        f"column {empty[1]!r} is NOT NULL there, and a row of batch {batch} has None for it{shown}: give every row a "
        "value before the sink, or let the column be null"
    )


def _values(table: str, field: pa.Field, column: pa.Array) -> list[Any]:
    """The column as what SQLite stores."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from pellucid.internal.data.rich import refuse_odd_times

    t = pa.types
    if t.is_floating(field.type) and pc.any(pc.is_nan(column)).as_py():
        raise DataError(
            f"table {table!r}: column {field.name!r} has a NaN, which SQLite would store as NULL; filter it or replace "
            "it before the sink"
        )
    if t.is_uint64(field.type) and pc.any(pc.greater(column, pa.scalar(_MOST, pa.uint64()))).as_py():
        raise DataError(
            f"table {table!r}: column {field.name!r} has {pc.max(column).as_py()}, and SQLite's whole numbers end at "
            f"{_MOST}: make a text or a float of it before the sink"
        )
    if t.is_duration(field.type):
        column = in_micros(field.name, column)
    refuse_odd_times(column, field.name)  # they are stored as texts
    if t.is_temporal(field.type) or t.is_decimal(field.type):
        return [None if value is None else value_text(value) for value in column.to_pylist()]
    if t.is_nested(field.type):
        return [None if value is None else json_cell(value, field.name) for value in column.to_pylist()]
    return list(column.to_pylist())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


sqlite = SQLiteSink
