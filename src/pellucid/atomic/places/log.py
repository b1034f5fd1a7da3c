"""The log of a place: records that last, in SQLite (WAL, ``synchronous=FULL``) or PostgreSQL.

A log is append only.  Each row has its number, the time, the kind, the fields as msgpack and a checksum; numbers have
no gaps, so that neither a flipped bit nor a lost row goes unseen.  A row in front says whose log it is and of which
version of the format; another version is refused.

One process writes a log: who opens it for writing holds a lock that ends with the process, however it ends.  What is
appended without ``sync`` is kept in memory until the next append with it: a crash loses a tail, never something in the
middle, and a transaction that stays inside of its place costs one synced write.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import quote

from pellucid.atomic.places.core.state import VERSION, Record, State, fits
from pellucid.atomic.places.network import Network
from pellucid.errors import StateError, UsageError
from pellucid.internal.address import Address
from pellucid.internal.base.files import irregular, make_lasting, no_links, own_folder, read_own
from pellucid.internal.secrets import redact

if TYPE_CHECKING:
    import psycopg

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
        until the next that is synced.  If it raises, what is in memory is ahead of what is durable: start again."""

    def close(self) -> None:
        """Write what was kept back, and let go of the log."""


def open_log(target: str | os.PathLike[str], place: str) -> Log:
    """The log of this place for writing, made if it is not there: ``target`` is a file or a ``postgresql://…``.
    `StateError` if another process has it, or it is another place's, or of another version.

    >>> import tempfile
    >>> from pellucid.atomic.places.core.state import make
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


# The log of a place in a PostgreSQL database; one database can have the logs of many places.
#
# Rows are those of `pellucid.atomic.places.log`.  Who writes a log holds an advisory lock of the session, which the
# server lets go when the connection ends; a place whose connection is gone has to stop and start again.

_TABLES_POSTGRES_LOG = """
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
                    db.execute(_TABLES_POSTGRES_LOG)
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


# How far a log was, noted beside it: for the common case that only the log is put back from an older copy.
#
# The note is written after each sync, without a sync of its own: it never says more than what is durable, so that no
# crash makes it speak against the log.  If it says less, nothing is wrong either; then only other places can notice.

FILE = "newest"
_WIDTH = 80  # a longer number would otherwise leave the rest of one before


def noted(folder: Path) -> str | None:
    """How far the log was, as the note says; None if there is none."""
    try:
        return _read(read_own(folder / FILE)[:_WIDTH])
    except OSError:
        return None


def _read(found: bytes) -> str | None:
    text = found.decode("ascii", "replace").strip()
    return text if fits("stand", text) else None


class Newest:
    """The note of a place.

    >>> import tempfile
    >>> from pellucid.atomic.places.core.state import make
    >>> folder, state = Path(tempfile.mkdtemp()), State("p")
    >>> state.apply(make("boot", n=1, mark="x"))
    >>> note = Newest(folder)
    >>> note.stand, note.write(state), note.close()
    (None, None, None)
    >>> Newest(folder).stand
    '1-x/1'
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._handle = no_links(folder / FILE, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise StateError(f"{folder / FILE}: cannot be used: {error.strerror or error}") from None
        self.stand = _read(os.pread(self._handle, _WIDTH, 0))

    def write(self, state: State) -> None:
        """All records of this state last.  Of an older copy: what it lacks, so that the newer log is right again."""
        start, n = next(((s, m) for s, (_, m) in state.behind.items()), (state.start, state.records))
        with contextlib.suppress(OSError):  # no room for it: only the log has to be written
            os.pwrite(self._handle, f"{start}/{n}".ljust(_WIDTH - 1).encode() + b"\n", 0)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._handle)


# A log that is gone: missing, empty or without records, though its place has run.
#
# To begin a new one in its place would lose in silence what was committed.  The signs that a place has run are the note
# beside its log (`pellucid.atomic.places.log`), and what its process printed.  What only other places have heard of,
# they tell when the place has started.

SAID = "said.log"  # in the folder of a place: what its process prints
LISTENS = "listens at "  # what it prints after its first record is durable
FIRST = "1/1"  # the first record of its first start, whose mark is not known


@dataclass(frozen=True)
class Lost:
    """What is wrong, and a record that was there."""

    folder: Path
    place: str
    stand: str
    what: str

    def __str__(self) -> str:
        return f"{self.what}: bring it back; {self.without}"

    @property
    def without(self) -> str:
        """What to do if it cannot be brought back."""
        return f"if there is none, `pellucid net accept {self.folder} {self.place}` resumes without what is lost"


def lost_log(network: Network, name: str) -> Lost | None:
    """Whether the log of a place, as a file, is gone though the place has run; nothing is changed."""
    folder, log = network.folder_of(name), network.log_of(name)
    if not isinstance(log, Path):
        return None
    stand = noted(folder)
    check_regular(log)
    if not log.exists():
        how = "is not there"
    elif not log.stat().st_size:
        how = "is empty"
    else:
        try:
            if count_records(log):
                return None
        except sqlite3.Error:
            return None  # it is another file, or damaged: who opens it says so
        how = "has no records"
    if stand is not None:
        note = "the note beside it says that it had some"
        return Lost(network.folder, name, stand, f"{log}: the log of {name!r} {how}, and {note}")
    if _listened(folder / SAID):
        note = f"{SAID} beside it says that the place has run"
        return Lost(network.folder, name, FIRST, f"{log}: the log of {name!r} {how}, and {note}")
    return None


def _listened(said: Path) -> bool:
    try:
        with open(said, "rb", opener=no_links) as file:
            return any(LISTENS.encode() in line for line in file)
    except OSError:
        return False
