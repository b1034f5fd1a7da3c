"""The marks in PostgreSQL: one number for one table and one query, however the table's name is spelt.

``sums``, ``public.sums`` and, in the database shop, ``shop.public.sums`` may be one table: the server says which, by
its ``search_path``, and the mark carries the name with its schema.  Marks under the other spellings, written before,
count as well; so do those of a ``pellucid_epochs`` that lies in another schema, because a driver had another
``search_path``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid.errors import StateError, UsageError
from pellucid.sinks.interface import Untold

if TYPE_CHECKING:
    import psycopg

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


def written(db: psycopg.Connection[Any], names: list[str], query: str | None = None) -> int:
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
            "at this moment: is somebody changing that table? Run the batch again"
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
            "another copy of rows, or somebody changed pellucid_epochs"
        )
    return int(wrote), int(added)
