"""What a run has put out, and how two runs differ: files byte by byte, tables row by row."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

from pellucid.errors import DataError, UsageError
from pellucid.internal.address import Address


def is_table(place: str) -> bool:
    """Whether an output is a table of a database.

    >>> is_table("sqlite:a.db#t"), is_table("out.csv")
    (True, False)
    """
    return Address.of(place).is_table


def read_output(place: str) -> bytes | list[str]:
    """The bytes of a file, or the rows of a table in their order; nothing if it was never made."""
    return read_existing(place) or ([] if is_table(place) else b"")


def read_existing(place: str, login: str | None = None) -> bytes | list[str] | None:
    """The bytes of a file, or the rows of a table in their order; None if it is not there.  A password that the
    address has not is that of ``login``, an address of the same user on the same server.
    """
    if not is_table(place):
        path = Path(place)
        return path.read_bytes() if path.is_file() else None
    rows = _rows(Address.of(place), None if login is None else Address.of(login))
    # A table has no order of its own: its rows are compared as they are, sorted.
    return None if rows is None else sorted(str(row) for row in rows)


def _rows(found: Address, login: Address | None) -> list[tuple[Any, ...]] | None:
    """Read without the code that wrote it."""
    table = found.table
    quoted = ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))
    if found.kind == "sqlite":
        if not Path(found.file).exists():
            return None
        with contextlib.closing(sqlite3.connect(found.file)) as db:
            known = db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone()
            return list(db.execute(f"SELECT * FROM {quoted}")) if known else None
    with _connected(found, login) as connection:
        there = connection.execute("SELECT to_regclass(%s)", (quoted,)).fetchone()
        if not (there and there[0]):
            return None
        return list(connection.execute(f"SELECT * FROM {quoted}"))  # type: ignore[arg-type, unused-ignore]


def _connected(address: Address, login: Address | None = None) -> Any:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    for one in (address, login):
        wrong = None if one is None else one.misspelt()
        if wrong is not None:
            raise UsageError(f"{one}: {wrong}")
    try:
        settings = conninfo_to_dict(address.connection)
        if login is not None and address.same_login(login):
            more = conninfo_to_dict(login.connection).items()
            settings = {k: v for k, v in more if k not in ("dbname", "options", "service")} | settings
        return psycopg.connect(**settings, autocommit=True)
    except psycopg.Error as error:
        raise DataError(
            f"{address}: cannot be reached: {address.clean(error)}; a password that is not in the address is taken "
            "from PGPASSWORD, or from ~/.pgpass"
        ) from None


def drop_table(place: str) -> None:
    """Take a table that a test has made out of a PostgreSQL database, and what was written down of its epochs; files
    go with their folder.

    >>> drop_table("out.csv"), drop_table("sqlite:out.db#t")
    (None, None)
    """
    if Address.of(place).kind != "postgres":
        return
    from pellucid.sinks.postgres_marks import has, quoted, target_of

    found = Address.of(place)
    with _connected(found) as connection:
        target = target_of(connection, found.table)
        if target is not None:
            connection.execute(f"DROP TABLE {quoted(found.table)}")  # type: ignore[arg-type, unused-ignore]
        if target is not None and has(connection, "target"):
            connection.execute("DELETE FROM pellucid_epochs WHERE target = ANY(%s)", (target.spellings(),))


def difference(wanted: bytes | list[str], found: bytes | list[str], name: str = "output") -> str | None:
    """How what was found differs from what was wanted, in words; None if it does not.

    >>> difference(b"a\\nb\\n", b"a\\nb\\n")
    >>> difference(b"a\\nb\\nc\\n", b"a\\nb\\nb\\nc\\n")
    "output: 4 rows instead of 3: 1 is there again (b'b'), from row 3 on: an epoch was written twice, as by a sink that
    appends"
    >>> difference(b"a\\nb\\n", b"a\\n")
    "output: 1 row instead of 2: 1 is lost (b'b'), from row 2 on"
    >>> difference(b"1\\n", b"2\\n")
    "output: row 1 is b'2' instead of b'1': other values, as from a task that is not deterministic"
    """
    if wanted == found:
        return None
    rows, have = (w.splitlines() if isinstance(w, bytes) else w for w in (wanted, found))
    if rows == have:
        return f"{name}: the same rows, but other bytes ({len(found):,} instead of {len(wanted):,})"
    at = next((i for i, (a, b) in enumerate(zip(rows, have, strict=False)) if a != b), min(len(rows), len(have)))
    lost, extra = Counter(rows) - Counter(have), Counter(have) - Counter(rows)
    size = f"{len(have):,} row{'s' * (len(have) != 1)} instead of {len(rows):,}"
    if extra and not lost and set(extra) <= set(rows):
        return (f"{name}: {size}: {_some(extra)} there again ({_first(extra)}), from row {at + 1:,} on: an epoch was "
                "written twice, as by a sink that "
                "appends")  # fmt: skip
    if lost and not extra:
        return f"{name}: {size}: {_some(lost)} lost ({_first(lost)}), from row {at + 1:,} on"
    if not lost and not extra:
        return f"{name}: the same rows in another order, from row {at + 1:,} on"
    if len(rows) == len(have):
        return (
            f"{name}: row {at + 1:,} is {have[at]!r} instead of {rows[at]!r}: other values, as from a task that is "
            "not deterministic"
        )
    return (
        f"{name}: {size}: {lost.total():,} lost (such as {_first(lost)}), {extra.total():,} that should not be "
        f"there (such as {_first(extra)}), from row {at + 1:,} on"
    )


def _some(rows: Counter[Any]) -> str:
    return f"{rows.total():,} {'is' if rows.total() == 1 else 'are'}"


def _first(rows: Counter[Any]) -> str:
    return repr(next(iter(rows)))
