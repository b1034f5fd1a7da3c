"""Prepared transactions of PostgreSQL: what was prepared is there after any crash, to be committed or taken back.

The name of one says whose it is: the table (a digest), the query, the batch and the attempt.  So a recovery finds what
belongs to its group and nothing else, and what an earlier attempt left is never taken for this one's.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import psycopg

_NAME = re.compile(r"pellucid\.(?P<target>[0-9a-f]{12})\.(?P<query>[\w-]+)\.(?P<batch>\d+)\.(?P<attempt>\w+)")


class Gid(NamedTuple):
    """The name of a prepared transaction.

    >>> name = str(Gid.of("public.sums", "orders", 7, "a1"))
    >>> name, Gid.read(name) == Gid.of("public.sums", "orders", 7, "a1"), Gid.read("somebody's") is None
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
