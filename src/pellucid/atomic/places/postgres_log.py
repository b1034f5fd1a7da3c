"""The log of a place in a PostgreSQL database; one database can have the logs of many places.

Rows are those of `pellucid.atomic.places.log`.  Who writes a log holds an advisory lock of the session, which the
server lets go when the connection ends; a place whose connection is gone has to stop and start again.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from pellucid.atomic.places.log import Row, packed, unpacked
from pellucid.atomic.places.records import VERSION, Record
from pellucid.errors import StateError, UsageError
from pellucid.internal.address import Address
from pellucid.internal.secrets import redact

if TYPE_CHECKING:
    import psycopg

_TABLES = """
CREATE TABLE IF NOT EXISTS pellucid_places (place text PRIMARY KEY, version integer NOT NULL);
CREATE TABLE IF NOT EXISTS pellucid_place_log (
    place text NOT NULL, number bigint NOT NULL, at double precision NOT NULL, kind text NOT NULL,
    fields bytea NOT NULL, checksum bigint NOT NULL, PRIMARY KEY (place, number)
);
"""
_ROWS = "SELECT number, at, kind, fields, checksum FROM pellucid_place_log WHERE place = %s ORDER BY number"


class PostgresLog:
    """A log in a database."""

    def __init__(self, target: str, place: str) -> None:
        self.place, self.target = place, target
        self._kept: list[Record] = []
        self._db = _connect(target)
        try:
            self._open()
        except BaseException:
            self._db.close()
            raise

    def _open(self) -> None:
        import psycopg

        db = self._db
        try:
            db.execute("SET synchronous_commit = on")
            if _one(db, "SHOW fsync") != "on":
                warnings.warn(
                    f"{redact(self.target)}: the server runs with fsync = off: what it wrote may be lost with it",
                    stacklevel=5,
                )
            if not _one(db, "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", f"pellucid place {self.place}"):
                raise StateError(
                    f"{self.target}: another process has the log of {self.place!r} open for writing: a place runs once"
                )
            if _one(db, "SELECT to_regclass('pellucid_place_log')") is None:
                with db.transaction():
                    db.execute("SELECT pg_advisory_xact_lock(hashtextextended('pellucid places', 0))")
                    db.execute(_TABLES)
            version = _one(db, "SELECT version FROM pellucid_places WHERE place = %s", self.place)
            if version is None:
                db.execute("INSERT INTO pellucid_places VALUES (%s, %s)", (self.place, VERSION))
            else:
                _check(self.target, version)
            query = "SELECT coalesce(max(number), 0) FROM pellucid_place_log WHERE place = %s"
            self._last = int(_one(db, query, self.place))
        except psycopg.errors.InsufficientPrivilege as error:
            raise StateError(
                f"{self.target}: {_words(error)}: the user needs to create, read and write the tables pellucid_places "
                "and pellucid_place_log there"
            ) from None
        except psycopg.Error as error:
            raise StateError(f"{self.target}: {_words(error)}") from None

    def records(self) -> Iterator[Record]:
        """All that last, oldest first."""
        yield from unpacked(self.target, _rows(self._db, self.place))

    def append(self, records: Iterable[Record], *, sync: bool = True) -> None:
        """Write them, with those that were kept back, in one transaction."""
        import psycopg

        self._kept += records
        if not sync or not self._kept:
            return
        rows = packed(self._kept, self._last)
        try:
            with self._db.transaction(), self._db.cursor() as cursor:
                if len(rows) < 50:
                    cursor.executemany(
                        "INSERT INTO pellucid_place_log VALUES (%s, %s, %s, %s, %s, %s)",
                        [(self.place, *row) for row in rows],
                    )
                else:
                    with cursor.copy("COPY pellucid_place_log FROM STDIN") as copy:
                        for row in rows:
                            copy.write_row((self.place, *row))
        except psycopg.Error as error:
            raise StateError(
                f"{self.target}: the log of {self.place!r} cannot be written ({_words(error)}): the place has to stop; "
                "start it again when the server is there"
            ) from None
        self._last += len(rows)
        self._kept = []

    def close(self) -> None:
        """Write what was kept back, and let go."""
        if not self._db.closed:
            try:
                self.append(())
            finally:
                with contextlib.suppress(Exception):  # the server lets go of it otherwise when it notices the end
                    self._db.execute("SELECT pg_advisory_unlock_all()")
                self._db.close()


def read_postgres(target: str, place: str | None) -> list[Record]:
    """The records of a place, for who only looks."""
    import psycopg

    if place is None:
        raise UsageError(f"{target}: say of which place: a database can have the logs of many")
    db = _connect(target)
    try:
        version = None
        if _one(db, "SELECT to_regclass('pellucid_places')") is not None:
            version = _one(db, "SELECT version FROM pellucid_places WHERE place = %s", place)
        if version is None:
            raise StateError(f"{target}: there is no log of {place!r}: the place has never been started")
        _check(target, version)
        return list(unpacked(target, _rows(db, place)))
    except psycopg.Error as error:
        raise StateError(f"{target}: {_words(error)}") from None
    finally:
        db.close()


def _connect(target: str) -> psycopg.Connection[Any]:
    try:
        import psycopg
    except ImportError:
        raise UsageError("a log in PostgreSQL needs psycopg: pip install 'pellucid[postgres]'") from None
    address = Address(target)
    wrong = address.misspelt()
    if wrong is not None:
        raise UsageError(f"{address}: {wrong}")
    try:
        return psycopg.connect(target, autocommit=True, connect_timeout=10)
    except psycopg.Error as error:
        raise StateError(f"{address}: cannot be reached: {address.clean(error)}") from None


def _rows(db: psycopg.Connection[Any], place: str) -> Iterator[Row]:
    """One by one, as the server gives them; autocommit needs a transaction for that."""
    with db.transaction(), db.cursor(name="pellucid_place_log") as cursor:
        cursor.itersize = 10_000
        cursor.execute(_ROWS, (place,))
        for row in cursor:
            yield cast("Row", tuple(row))


def _one(db: psycopg.Connection[Any], query: str, *values: Any) -> Any:
    row = db.execute(cast("Any", query), values or None).fetchone()
    return None if row is None else row[0]


def _check(where: str, version: int) -> None:
    if version != VERSION:
        raise StateError(
            f"{where}: a log of version {version}; this Pellucid reads version {VERSION}: use the one that wrote it"
        )


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
