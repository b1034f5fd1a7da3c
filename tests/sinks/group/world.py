"""A group of real targets, drivers that die by ``kill -9`` at a named moment, and what every target has afterwards.

Each row says which epoch it is of, and from which attempt it came: an epoch that was given up comes back with other
rows, so what two targets have of one epoch can be compared.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from pellucid import sinks
from pellucid.internal.base import faults
from pellucid.sinks import group as members

QUERY = "shop"


def rows(epoch: int, attempt: int, count: int = 3) -> pa.Table:
    """The rows of an attempt at an epoch."""
    return pa.table(
        {"epoch": [epoch] * count, "attempt": [attempt] * count, "n": list(range(count))},
        schema=pa.schema({"epoch": pa.int64(), "attempt": pa.int64(), "n": pa.int64()}),
    )


class World:
    """SQLite, Parquet and PostgreSQL (or a second SQLite file where no server is given), and the group's log."""

    def __init__(self, folder: Path, dsn: str | None) -> None:
        self.folder, self.dsn = folder, dsn
        self.log = folder / "log"

    def sinks(self) -> dict[str, Any]:
        made: dict[str, Any] = {
            "orders": sinks.sqlite(self.folder / "orders.db", "orders", wait=5),
            "archive": sinks.parquet(self.folder / "archive"),
        }
        if self.dsn is not None:
            made["totals"] = sinks.postgres(self.dsn, "totals", wait=5)
        else:
            made["totals"] = sinks.sqlite(self.folder / "totals.db", "totals", wait=5)
        return made

    def group(self, **more: Any) -> Any:
        """A driver that begins now."""
        return sinks.together(self.sinks(), log=self.log, **{"patience": 0.0, **more})

    def write(self, epoch: int, attempt: int, **more: Any) -> Any:
        return self.group(**more).write(rows(epoch, attempt), QUERY, epoch)

    def have(self) -> dict[str, list[tuple[int, int, int]]]:
        """What strangers find in each target: epochs, attempts and numbers, sorted."""
        found = {}
        for name, sink in self.sinks().items():
            found[name] = sorted(tuple(row.values()) for row in _plain(sink))
        return found

    def read(self) -> dict[str, list[tuple[int, int, int]]]:
        """The same by `read_together`."""
        tables = sinks.read_together(self.sinks(), log=self.log)
        return {name: sorted(tuple(row.values()) for row in table.to_pylist()) for name, table in tables.items()}


def _plain(sink: Any) -> list[dict[str, int]]:
    """A target's rows without asking the sink."""
    if sink.kind == "sqlite":
        with closing(sqlite3.connect(sink.path)) as db:
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (sink.table,)).fetchall():
                return []
            found = db.execute(f"SELECT epoch, attempt, n FROM {sink.table}").fetchall()
    elif sink.kind == "parquet":
        if not sink.path.exists():
            return []
        # without those that a committed batch has still in staging: these the manifests tell of
        table = sink.read() if list(sink.path.glob("_manifest/*.json")) else None
        found = [] if table is None else [tuple(row.values()) for row in table.to_pylist()]
    else:
        import psycopg

        with psycopg.connect(sink.address.connection) as db:
            if db.execute("SELECT to_regclass(%s)", (sink.table,)).fetchone() == (None,):
                return []
            found = db.execute(f"SELECT epoch, attempt, n FROM {sink.table}").fetchall()
    return [dict(zip(("epoch", "attempt", "n"), row, strict=True)) for row in found]


def expected(*attempts: tuple[int, int], count: int = 3) -> list[tuple[int, int, int]]:
    """The rows of these epochs, each from an attempt."""
    return sorted((epoch, attempt, n) for epoch, attempt in attempts for n in range(count))


def dies(what: Callable[[], Any], at: str, note: Callable[[str, str], None] | None = None) -> bool:
    """Do something in a process of its own that kills itself at a named point; whether it did.

    ``note`` is told of every point that is passed, with the member at work, before anything happens there.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            faults.arm("driver", 0, os.getpid(), text=at)
            with in_one_thread(note):
                what()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the driver failed in another way"
    return False


@contextmanager
def in_one_thread(note: Callable[[str, str], None] | None = None) -> Iterator[None]:
    """Members one after the other, so that who dies dies between two of them; and who it is, is known."""
    real_soon, real_point = members.Member.soon, faults.point
    at_work = [""]

    class Done:
        def __init__(self, what: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
            self.error: BaseException | None = None
            self.value: Any = None
            try:
                self.value = what(*arguments)
            except Exception as error:
                self.error = error

        def exception(self) -> BaseException | None:
            return self.error

        def result(self) -> Any:
            return self.value

    def soon(self: Any, what: Callable[..., Any], *arguments: Any) -> Any:
        at_work[0] = self.name
        try:
            return Done(what, arguments)
        finally:
            at_work[0] = ""

    def point(name: str) -> None:
        if note is not None:
            note(name, at_work[0])
        real_point(name)

    members.Member.soon = soon  # type: ignore[method-assign]
    faults.point = point  # type: ignore[assignment]
    try:
        yield
    finally:
        members.Member.soon = real_soon  # type: ignore[method-assign]
        faults.point = real_point  # type: ignore[assignment]


__all__ = ["QUERY", "World", "dies", "ds", "expected", "in_one_thread", "rows"]
