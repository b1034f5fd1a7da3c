"""A judge of sinks together that knows only what the pages say; what is wrong is reported with all that was done
before it.

A world is a group of two to four random members (SQLite files, two tables of one file, Parquet, Delta, PostgreSQL where
a server is given) and a model of ten lines: which attempt at which batch was decided.  It writes batches, some of them
with other rows than the attempt before, repeats them, leaves numbers out, and does from outside what others do to
targets: takes them away, puts a file where a folder belongs, locks, renames and drops tables, puts back older copies of
members and of the log, spoils the log, stops the server.  Right is: whatever is refused is a `PellucidError`; what says
that no member has it, nobody has; what is decided is in all members once and whole when the fault is mended, without
anything being lost on the way; and `read_together` shows the same batches of all members at any time, or refuses.
"""

from __future__ import annotations

import importlib.util
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa

from pellucid import sinks
from pellucid.errors import PellucidError
from tests.sinks.postgres import Postgres

QUERY, WAIT, PATIENCE = "q", 0.3, 0.3
_BESIDE = ("", "-wal", "-shm", "-journal")  # what belongs to a file of SQLite

Cure = Callable[[], object]


class Target:
    """One member: its sink, its rows as a stranger finds them, and what can be done to it from outside."""

    def __init__(self, name: str, kind: str, folder: Path, server: Postgres | None, dsn: str) -> None:
        self.name, self.kind, self.server, self.dsn = name, kind, server, dsn
        self.path = folder / ("shared.db" if kind == "shared" else f"{name}.db" if kind == "sqlite" else name)

    def sink(self) -> Any:
        if self.kind in ("sqlite", "shared"):
            return sinks.sqlite(self.path, self.name, wait=WAIT)
        if self.kind == "postgres":
            return sinks.postgres(self.dsn, self.name, wait=WAIT)
        return sinks.parquet(self.path) if self.kind == "parquet" else sinks.delta(self.path)

    def rows(self) -> Counter[tuple[int, int]]:
        """Batches and attempts, one for each row."""
        if self.kind in ("sqlite", "shared", "postgres"):
            return Counter((batch, attempt) for batch, attempt, _ in self._asked(f"SELECT * FROM {self.name}"))
        try:
            found = self.sink().read()
        except PellucidError:  # nothing was ever there
            return Counter()
        return Counter(zip(found["batch"].to_pylist(), found["attempt"].to_pylist(), strict=True))

    def faults(self) -> list[Callable[[], Cure]]:
        """What can be done to it; each gives what mends it.  (A table without rows may be made anew.)"""
        renamed = [self.renamed] if self.kind not in ("parquet", "delta") and self.rows() else []
        if self.kind == "postgres":
            return [self.stopped, self.held, *renamed]
        if self.kind == "shared":
            return [self.held, self.spoilt, *renamed]
        return [self.away, self.replaced, *([self.held, self.spoilt, *renamed] if self.kind == "sqlite" else [])]

    def away(self) -> Cure:
        """It is moved away: whatever is there afterwards goes when it is back."""
        kept = self.path.with_name("kept")
        self.path.rename(kept)

        def back() -> None:
            remove(self.path)
            kept.rename(self.path)

        return back

    def replaced(self) -> Cure:
        """A file lies where a folder belongs, a folder where a file does."""
        is_folder, back = self.path.is_dir(), self.away()
        self.path.write_text("notes") if is_folder else self.path.mkdir()
        return back

    def renamed(self) -> Cure:
        """Its table has another name, and perhaps an empty one takes its place."""
        self._done(f"ALTER TABLE {self.name} RENAME TO kept")

        def back() -> None:
            self._done(f"DROP TABLE IF EXISTS {self.name}")
            self._done(f"ALTER TABLE kept RENAME TO {self.name}")

        return back

    def held(self) -> Cure:
        """Another program holds the table."""
        if self.kind == "postgres":
            other = psycopg.connect(self.dsn)
            other.execute(f"LOCK TABLE {self.name} IN EXCLUSIVE MODE".encode())
            return lambda: other.close()
        db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        db.execute("BEGIN IMMEDIATE")
        return db.close

    def spoilt(self) -> Cure:
        """Its file is cut off."""
        content = self.path.read_bytes()
        self.path.write_bytes(content[: len(content) // 2])

        def back() -> None:
            remove(self.path)
            self.path.write_bytes(content)

        return back

    def stopped(self) -> Cure:
        """Its server is stopped."""
        assert self.server is not None
        self.server.stop()
        return self.server.start

    def _asked(self, what: str) -> list[tuple[int, int, int]]:
        try:
            if self.kind == "postgres":
                with psycopg.connect(self.dsn) as there:
                    return list(there.execute(what.encode()).fetchall())
            with closing(sqlite3.connect(self.path)) as db:
                return db.execute(what).fetchall()
        except (psycopg.errors.UndefinedTable, sqlite3.OperationalError):
            return []

    def _done(self, what: str) -> None:
        if self.kind == "postgres":
            with psycopg.connect(self.dsn, autocommit=True) as there:
                there.execute(what.encode())
            return
        with closing(sqlite3.connect(self.path)) as db:
            db.execute(what)
            db.commit()


class World:
    """A group, what was decided, and all that happened."""

    def __init__(self, folder: Path, seed: int, server: Postgres | None, counts: Counter[str]) -> None:
        self.folder, self.rng, self.counts = folder, random.Random(seed), counts
        kinds = ["sqlite", "shared", "shared", "parquet", "parquet"]
        kinds += ["delta"] if importlib.util.find_spec("deltalake") else []
        kinds += ["postgres", "postgres"] if server else []
        dsn = server.database() if server else ""
        picked = self.rng.sample(kinds, self.rng.choice([2, 3, 4]))
        self.targets = [Target(f"m{n}", kind, folder, server, dsn) for n, kind in enumerate(picked)]
        self.log = folder / "log"
        self.decided: dict[int, tuple[int, int]] = {}  # of each batch the attempt, and how many rows it has
        self.attempt, self.group, self.history = 0, self.fresh(), [f"members {picked}"]

    def fresh(self) -> Any:
        return sinks.together(self.members(), log=self.log, patience=PATIENCE)

    def members(self) -> dict[str, Any]:
        return {target.name: target.sink() for target in self.targets}

    @property
    def next(self) -> int:
        return max(self.decided, default=-1) + 1

    # ------------------------------------------------------------ what is done

    def write(self, batch: int) -> str:
        """Write an attempt at a batch; what was said, if it was refused."""
        if self.rng.random() < 0.3:
            self.group.close()
            self.group = self.fresh()
        self.attempt += 1
        count = self.rng.choice([0, 1, 3, 50])
        row = {"batch": [batch] * count, "attempt": [self.attempt] * count, "n": list(range(count))}
        rows = pa.table(row, schema=pa.schema({name: pa.int64() for name in row}))
        self.history.append(f"write {batch}, attempt {self.attempt}, {count} rows")
        try:
            done = self.group.write(rows, QUERY, batch)
        except PellucidError as error:
            self.history.append(f"refused: {error}")
            self.counts["refused"] += 1
            if "is decided, and unresolved" in str(error):
                assert batch not in self.decided, "decided twice"
                self.decided[batch] = (self.attempt, count)
            return str(error)
        assert done.skipped == (batch in self.decided), f"batch {batch}: {done}"
        self.decided.setdefault(batch, (self.attempt, count))
        self.counts["left out" if done.skipped else "written"] += 1
        return ""

    def turn(self) -> None:
        """One thing that may happen."""
        chance = self.rng.random()
        if chance < 0.3:
            assert not self.write(self.next), "refused without a reason"
        elif chance < 0.4:
            assert "are missing" in self.write(self.next + self.rng.choice([2, 7])) or not self.decided
        elif chance < 0.5 and self.decided:
            assert not self.write(self.rng.choice(sorted(self.decided))), "a repetition is refused"
        elif self.decided:
            self.fault() if chance < 0.8 else self.older()
        self.agree()

    def fault(self) -> None:
        """Something is done from outside, work goes on, and it is mended."""
        target = self.rng.choice(self.targets)
        what = self.rng.choice([*target.faults(), self.log_spoilt, self.log_away])
        self.history.append(f"{target.name} ({target.kind}): {what.__name__}")
        self.counts[what.__name__] += 1
        cure = what()
        try:
            for _ in range(self.rng.choice([1, 2])):
                self.look() if self.rng.random() < 0.3 else self.write(self.next)
        finally:
            cure()
        self.mended()

    def older(self) -> None:
        """A member, or the log, comes back from a copy: nothing is written by it."""
        paths = [target.path for target in self.targets if target.kind in ("sqlite", "parquet", "delta")]
        path = self.rng.choice([self.log, *paths])
        older, newer = self.folder / "older", self.folder / "newer"
        copy(path, older)
        for _ in range(self.rng.choice([1, 2])):
            assert not self.write(self.next), "refused without a reason"
        copy(path, newer)
        self.history.append(f"an older copy of {path.name}")
        self.counts["older copies"] += 1
        copy(older, path)
        self.look()
        self.group.close()
        self.group = self.fresh()
        assert self.write(self.next), "written upon an older copy"
        copy(newer, path)
        self.mended()

    def log_spoilt(self) -> Cure:
        path = self.log / "decisions.json"
        content = path.read_bytes()
        path.write_bytes(self.rng.choice([b"", b"null", content[:-9]]))
        return lambda: path.write_bytes(content)

    def log_away(self) -> Cure:
        kept = self.folder / "kept"
        self.log.rename(kept)
        if self.rng.random() < 0.5:
            self.log.write_text("notes")

        def back() -> None:
            remove(self.log)
            kept.rename(self.log)

        return back

    # ------------------------------------------------------------ what must hold

    def mended(self) -> None:
        """All is as it was: what is decided is brought everywhere."""
        self.history.append("mended")
        self.group.close()
        self.group = self.fresh()
        self.group.recover()

    def agree(self) -> None:
        """Every member has what is decided, once and whole, and nothing else; readers see it."""
        whole = Counter({(batch, attempt): count for batch, (attempt, count) in self.decided.items() if count})
        for target in self.targets:
            found = target.rows()
            assert found == whole, f"{target.name}: has {dict(found - whole)} too much, lacks {dict(whole - found)}"
        assert self.look() in (whole, None), "readers see less than all have"
        self.counts["looks"] += 1

    def look(self) -> Counter[tuple[int, int]] | None:
        """What readers see, the same of every member; None if they are told why not."""
        try:
            tables = sinks.read_together(self.members(), log=self.log)
        except PellucidError as error:
            self.history.append(f"readers are told: {error}")
            self.counts["readers are told"] += 1
            return None
        seen = [
            Counter(zip(table["batch"].to_pylist(), table["attempt"].to_pylist(), strict=True))
            for table in tables.values()
        ]
        assert all(one == seen[0] for one in seen), f"readers see half: {[dict(one) for one in seen]}"
        for (batch, attempt), count in seen[0].items():
            assert self.decided.get(batch) == (attempt, count), f"readers see a part of batch {batch}"
        return seen[0]


def remove(path: Path) -> None:
    """A file with what SQLite keeps beside it, or a folder; it may be gone."""
    if path.is_dir():
        shutil.rmtree(path)
        return
    for ending in _BESIDE:
        path.with_name(path.name + ending).unlink(missing_ok=True)


def copy(path: Path, to: Path) -> None:
    """A copy in the place of whatever is there."""
    remove(to)
    shutil.copytree(path, to) if path.is_dir() else shutil.copy(path, to)


def judge(worlds: int, seed: int, server: Postgres | None, turns: int = 12) -> Counter[str]:
    """So many worlds; what happened in them."""
    counts: Counter[str] = Counter()
    for number in range(seed, seed + worlds):
        with tempfile.TemporaryDirectory(prefix="pellucid-outside-", ignore_cleanup_errors=True) as name:
            world = World(Path(name), number, server, counts)
            try:
                for _ in range(turns):
                    world.turn()
            except BaseException as error:
                error.add_note("\n".join([f"world {number}:", *world.history]))
                raise
            finally:
                world.group.close()
        counts["worlds"] += 1
    return counts
