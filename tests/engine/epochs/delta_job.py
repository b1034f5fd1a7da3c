"""A run with epochs whose rows go to Delta and SQLite together, as a program of its own (what deltalake has begun does
not outlive a fork): ``python -m tests.engine.epochs.delta_job FOLDER [from-start] [full=TIMES]``.

With ``full`` Delta's disk is full at that many of its commits, as the kernel says it."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

from pellucid import sinks
from pellucid.errors import PellucidError
from pellucid.sinks.delta_sink import DeltaSink
from pellucid.sinks.sqlite_sink import SQLiteSink
from tests.engine.epochs.together_job import ROWS, given, total


def without_room(counted: Path, times: int, what: Any) -> Any:
    """Do it, and the first times no file can be written to meanwhile."""
    counted.touch()
    if counted.stat().st_size >= times:
        return what()
    with open(counted, "a") as file:
        file.write("!")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        return what()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class FullDelta(DeltaSink):
    full, counted = 0, Path()

    def commit(self, staged: Any) -> Any:
        return without_room(self.counted, self.full, lambda: super(FullDelta, self).commit(staged))


class FullSQLite(SQLiteSink):
    full, counted = 0, Path()

    def commit(self, staged: Any) -> Any:
        return without_room(self.counted, self.full, lambda: super(FullSQLite, self).commit(staged))


def members(folder: Path, *, lake: int = 0, table: int = 0) -> dict[str, Any]:
    """Both, and at how many commits their disks are full."""
    made: dict[str, Any] = {"lake": FullDelta(folder / "lake"), "table": FullSQLite(folder / "t.db", "t")}
    for (name, sink), full in zip(made.items(), (lake, table), strict=True):
        sink.full, sink.counted = full, folder / f"{name}.full"
    return made


if __name__ == "__main__":
    folder, asked = Path(sys.argv[1]), sys.argv[2:]
    if not (folder / "x.jsonl").exists():
        (folder / "x.jsonl").write_text("".join(f"{given(i)}\n" for i in range(ROWS)))
    full = {name: int(n) for name, _, n in (one.partition("=") for one in asked if "=" in one)}
    try:
        total.run_epochs(
            folder / "x.jsonl", sinks.together(members(folder, **full)), state=folder / "state", pushes=100,
            patience=3 if full else 120, from_start="from-start" in asked, say=print,
        )  # fmt: skip
    except PellucidError as error:
        print(error)
        sys.exit(2)
