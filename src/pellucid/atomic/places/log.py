"""The log of a place: records that last, in SQLite (WAL, ``synchronous=FULL``) or PostgreSQL.

A log is append only.  Each row has its number, the time, the kind, the fields as msgpack and a checksum; numbers have
no gaps, so that neither a flipped bit nor a lost row goes unseen.  A row in front says whose log it is and of which
version of the format; another version is refused.

One process writes a log: who opens it for writing holds a lock that ends with the process, however it ends.  What is
appended without ``sync`` is kept in memory until the next append with it: a crash loses a tail, never something in the
middle, and a transaction that stays inside of its place costs one synced write.
"""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from pellucid.atomic.places.records import VERSION, Record
from pellucid.errors import StateError
from pellucid.internal.base.files import irregular, make_lasting, own_folder

Row = tuple[int, float, str, bytes, int]

_TABLES = """
CREATE TABLE IF NOT EXISTS head (version INTEGER NOT NULL, place TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS log (
    number INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, fields BLOB NOT NULL, checksum INTEGER NOT NULL
);
"""


class Log(Protocol):
    """One place writes it, alone; others may read it."""

    place: str

    def records(self) -> Iterator[Record]:
        """All of them, oldest first; `StateError` where one is damaged."""

    def append(self, records: Iterable[Record], *, sync: bool = True) -> None:
        """Write them; with ``sync`` they, and all before them, last when it returns.  Without, they may be kept back
        until the next that is synced.  If it raises, what is in memory is ahead of what lasts: start again."""

    def close(self) -> None:
        """Write what was kept back, and let go of the log."""


def open_log(target: str | os.PathLike[str], place: str) -> Log:
    """The log of this place for writing, made if it is not there: ``target`` is a file or a ``postgresql://…``.
    `StateError` if another process has it, or it is another place's, or of another version.

    >>> import tempfile
    >>> from pellucid.atomic.places.records import make
    >>> file = tempfile.mkdtemp() + "/hotel/log.sqlite"
    >>> log = open_log(file, "hotel")
    >>> log.append([make("boot", n=1)])
    >>> open_log(file, "hotel")
    Traceback (most recent call last):
    pellucid.errors.StateError: .../hotel/log.sqlite: another process has this log open for writing: a place runs once
    >>> log.close()
    >>> read_log(file)
    [boot(n=1)]
    """
    if _elsewhere(target):
        from pellucid.atomic.places.postgres_log import PostgresLog

        return PostgresLog(str(target), place)
    return SqliteLog(target, place)


def read_log(target: str | os.PathLike[str], place: str | None = None) -> list[Record]:
    """What a log has, for who only looks (the place may be running).  ``place``: whose it should be; a database of
    PostgreSQL can have the logs of many."""
    return list(each_record(target, place))


def each_record(target: str | os.PathLike[str], place: str | None = None) -> Iterator[Record]:
    """The same, one after the other: a log of millions of records is not held.

    >>> next(each_record("/nowhere/log.sqlite"))
    Traceback (most recent call last):
    pellucid.errors.StateError: /nowhere/log.sqlite: there is no such log: the place has never been started, or the
    folder is another
    """
    if _elsewhere(target):
        from pellucid.atomic.places.postgres_log import read_postgres

        yield from read_postgres(str(target), place)
        return
    path = Path(target)
    check_regular(path)
    if not path.is_file():
        raise StateError(f"{path}: there is no such log: the place has never been started, or the folder is another")
    try:
        with closing(sqlite3.connect(f"file:{_quoted(path)}?mode=ro", uri=True, timeout=10)) as db:
            _check_head(str(path), db.execute("SELECT version, place FROM head").fetchall(), place)
            yield from unpacked(str(path), db.execute("SELECT number, at, kind, fields, checksum FROM log ORDER BY 1"))
    except sqlite3.Error as error:
        raise _not_readable(path, error) from None


def count_records(path: Path) -> int:
    """How many records a log in a file has; one that was never made has none.  What is wrong is SQLite's error."""
    with closing(sqlite3.connect(f"file:{_quoted(path)}?mode=ro", uri=True, timeout=10)) as db:
        tables = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'log'").fetchone()[0]
        return int(db.execute("SELECT coalesce(max(number), 0) FROM log").fetchone()[0]) if tables else 0


def check_regular(path: Path) -> None:
    """Refuse what SQLite would wait for or write into though it is no file."""
    for more in ("", "-wal", "-shm", ".lock"):
        with suppress(FileNotFoundError, NotADirectoryError):
            if (what := irregular(os.stat(f"{path}{more}").st_mode)) is not None:
                raise StateError(f"{path}{more}: {what}: put the log of the place back, or remove what is there")


class SqliteLog:
    """A log in a file; the folder it is in is the place's own."""

    def __init__(self, target: str | os.PathLike[str], place: str) -> None:
        self.place, self.path = place, Path(os.path.abspath(target))
        own_folder(self.path.parent, asked="log", mark=self.path.name)
        check_regular(self.path)
        self._lock = self._locked()
        self._kept: list[Record] = []
        try:
            self._open()
        except BaseException as error:
            if (opened := getattr(self, "_db", None)) is not None:
                opened.close()
            os.close(self._lock)
            if isinstance(error, sqlite3.Error):
                raise _not_readable(self.path, error) from None
            raise

    def _locked(self) -> int:
        import fcntl

        handle = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise StateError(f"{self.path}: another process has this log open for writing: a place runs once") from None
        return handle

    def _open(self) -> None:
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # private from its first moment
        self._db = sqlite3.connect(self.path, isolation_level=None, timeout=30, check_same_thread=False)
        (mode,) = self._db.execute("PRAGMA journal_mode=WAL").fetchone()
        if mode != "wal":
            raise StateError(
                f"{self.path}: SQLite cannot keep a write-ahead log here (its mode is {mode}): use a local disk"
            )
        self._db.execute("PRAGMA synchronous=FULL")
        heads = []
        if self._db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'head'").fetchone()[0]:
            heads = self._db.execute("SELECT version, place FROM head").fetchall()
        if heads:
            _check_head(str(self.path), heads, self.place)
        else:
            self._db.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")
            self._db.execute("INSERT INTO head VALUES (?, ?)", (VERSION, self.place))
            make_lasting(self.path.parent)
        (self._last,) = self._db.execute("SELECT coalesce(max(number), 0) FROM log").fetchone()

    def records(self) -> Iterator[Record]:
        """All that last, oldest first."""
        try:
            rows = self._db.execute("SELECT number, at, kind, fields, checksum FROM log ORDER BY number")
            yield from unpacked(str(self.path), rows)
        except sqlite3.Error as error:
            raise _not_readable(self.path, error) from None

    def append(self, records: Iterable[Record], *, sync: bool = True) -> None:
        """Write them, with those that were kept back."""
        self._kept += records
        if not sync or not self._kept:
            return
        rows = packed(self._kept, self._last)
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise StateError(
                f"{self.path}: nothing can be written ({error}): the place has to stop; make room, and start it again"
            ) from None
        self._last += len(rows)
        self._kept = []

    def close(self) -> None:
        """Write what was kept back, and let go."""
        if self._lock >= 0:
            try:
                self.append(())
            finally:
                self._db.close()
                os.close(self._lock)
                self._lock = -1


# ------------------------------------------------------------ rows


def packed(records: Iterable[Record], last: int) -> list[Row]:
    """Rows that follow on number ``last``."""
    rows = []
    for number, record in enumerate(records, last + 1):
        fields = record.pack()
        rows.append((number, record.when or time.time(), record.kind, fields, _sum(number, record.kind, fields)))
    return rows


def unpacked(where: str, rows: Iterable[Row]) -> Iterator[Record]:
    """The records of rows; what is damaged or missing is a `StateError` that names it."""
    for expected, (number, at, kind, fields, checksum) in enumerate(rows, 1):
        if number != expected:
            raise StateError(f"{where}: record {expected} is missing: the log is damaged; bring it back from a copy")
        if not isinstance(kind, str) or not isinstance(fields, bytes) or checksum != _sum(number, kind, fields):
            raise StateError(f"{where}: record {number} is damaged (its checksum is wrong): bring it back from a copy")
        try:
            yield Record.unpack(kind, fields, at, number)
        except StateError as error:
            raise StateError(f"{where}: record {number}: {error}") from None


def _sum(number: int, kind: str, fields: bytes) -> int:
    return zlib.crc32(fields, zlib.crc32(f"{number} {kind} ".encode()))


def _check_head(where: str, heads: list[tuple[int, str]], place: str | None) -> None:
    if len(heads) != 1:
        raise StateError(f"{where}: not the log of a place (it has {len(heads)} heads): choose another file")
    version, found = heads[0]
    if version != VERSION:
        raise StateError(
            f"{where}: a log of version {version}; this Pellucid reads version {VERSION}: use the one that wrote it"
        )
    if place is not None and found != place:
        raise StateError(f"{where}: this is the log of the place {found!r}, not of {place!r}")


def _elsewhere(target: str | os.PathLike[str]) -> bool:
    return isinstance(target, str) and target.startswith(("postgresql://", "postgres://"))


def _not_readable(path: Path, error: sqlite3.Error) -> StateError:
    return StateError(f"{path}: not a log that SQLite can read ({error}): it is damaged, or another kind of file")


def _quoted(path: Path) -> str:
    return quote(os.path.abspath(path))
