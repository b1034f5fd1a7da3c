"""The tables that a PostgreSQL sink needs: its own books, and the user's table where it is made from the first batch.

They are made, or altered, once and in a short transaction of their own, before anything is staged; and only if the
catalog says that something is missing.  ``ALTER TABLE … IF NOT EXISTS`` asks for the whole table even where there is
nothing to do: it would wait for what another member of the group has prepared, which waits for the decision, which
waits for this one.  Whoever has staged something has seen that the books are complete, so nobody after it needs to
change them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pellucid.sinks.postgres_marks import has, identifier, quoted
from pellucid.sinks.postgres_words import beginning

if TYPE_CHECKING:
    import psycopg

# any number nobody else uses: held while tables are made, which IF NOT EXISTS alone does not guard
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
    """Who holds, or waits for, a lock on the table or on our books: for a message; empty if nobody is seen any more.

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
