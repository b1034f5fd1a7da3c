"""What a source tells with a border in a pipeline by event time, and the file that remembers it.

By event time an epoch is a batch: its border moves the clock, and what is late or complete depends on where it was.  So
an epoch that is made again must have the border it had, and what was decided there by the clock on the wall (that a
source is idle) must be decided so again.  Every border is a line in the file ``borders`` of the state folder, which is
on the disk before any snapshot of its epoch is; a recovered source goes by these lines first.

A border tells which steps `at` are idle (no row in the epoch, and none for as long as was said), which have come to the
end of their input while others go on, and whether it is the last one: then every time is complete.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pellucid.errors import DataError, StateError, option
from pellucid.internal.base.files import no_links, read_own, sync
from pellucid.internal.engine.epochs.store import Store
from pellucid.internal.engine.timed.clock import feeders
from pellucid.internal.graph.model import Graph

FILE = "borders"


class Told(NamedTuple):
    """A border: the push before which it stands, and what it tells."""

    epoch: int
    until: int
    idle: list[str]
    ended: list[str]
    end: bool

    def line(self) -> bytes:
        """As it is written down, with a checksum."""
        text = json.dumps(list(self))
        return f"{text} {zlib.crc32(text.encode()):08x}\n".encode()


def read_line(line: bytes) -> Told | None:
    """A border that was written down; None if it is not whole.

    >>> line = Told(3, 300, ["prices"], [], False).line()
    >>> read_line(line), read_line(line[:-4])
    (Told(epoch=3, until=300, idle=['prices'], ended=[], end=False), None)
    """
    text, _, mark = line.rstrip(b"\n").rpartition(b" ")
    if not line.endswith(b"\n") or mark != f"{zlib.crc32(text):08x}".encode():
        return None
    return Told(*json.loads(text))


class TimesTold:
    """What borders tell; by the steps `at`, which are called by their ids."""

    def __init__(self, store: Store, graph: Graph) -> None:
        self._store, self._path = store, store.root / FILE
        self._feeders = feeders(graph)
        timings = {at: graph[at].timing for at in self._feeders}
        self._idle = {at: t.idle / 1e6 for at, t in timings.items() if t is not None and t.idle is not None}
        self._since = dict.fromkeys((s for sources in self._feeders.values() for s in sources), time.monotonic())
        self._here: set[str] = set()  # the sources that have had a row in this epoch
        self._rows = dict.fromkeys(self._since, 0)  # of each source, and when the last was read, for who looks
        self._heard: dict[str, float] = {}
        self._counts = True  # not where a run goes on that was begun by a version that did not count them
        self._known: dict[int, Told] = {}
        self._size = 0  # of the lines that are whole
        self._file: Any = None

    def restore(self, epoch: int, until: int, met: Mapping[str, Any] | None = None) -> None:
        """Read what was written down; nothing is changed yet.  ``met`` is what `met` said of the sources then."""
        self._counts = met is not None or not epoch
        for source, known in (met or {}).items():
            self._rows[source] = int(known["rows"] or 0)
            self._counts &= known["rows"] is not None
            if known["heard"] is not None:
                self._heard[source] = float(known["heard"])
        data = read_own(self._path) if self._path.exists() else b""
        last = 0
        for line in data.splitlines(keepends=True):
            told = read_line(line)
            if told is None or told.epoch != last + 1:
                break
            last = told.epoch
            if last >= epoch:
                self._known[last] = told
            self._size += len(line)
        needed = max(epoch, self._store.number("progress.json", "epoch"))
        if last < needed or (epoch and self._known[epoch].until != until):
            raise StateError(
                f"{self._path}: is damaged or missing, without which a run by event time cannot go on after epoch "
                f"{epoch} as it was: bring it back from a copy, or start anew in another folder"
            )

    def begin(self) -> None:
        """From here on borders are written down."""
        new = not self._path.exists()
        self._file = open(self._path, "r+b" if not new else "xb", buffering=0, opener=no_links)  # noqa: SIM115
        self._file.truncate(self._size)
        self._file.seek(self._size)
        if new:
            sync(self._store.root)
        now = time.monotonic()
        self._since = dict.fromkeys(self._since, now)

    def settle(self, epoch: int) -> None:
        """Have what was written down on the disk, before a snapshot of these epochs is."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def stop(self, epoch: int) -> int | None:
        """Where an epoch ended before a crash; None if it is new."""
        return self._known[epoch].until if epoch in self._known else None

    def saw(self, rows: Mapping[str, int]) -> None:
        """So many rows of each source have come."""
        now, wall = time.monotonic(), time.time()
        for source, count in rows.items():
            if count:
                self._since[source], self._heard[source] = now, wall
                self._rows[source] = self._rows.get(source, 0) + count
                self._here.add(source)

    def met(self) -> dict[str, Any]:
        """Of each source at a border, for who looks at the run from outside: how many rows were read, when the last
        was by the clock on the wall, and whether one was in this epoch."""
        return {
            source: {
                "rows": rows if self._counts else None,
                "heard": self._heard.get(source),
                "here": source in self._here,
            }
            for source, rows in self._rows.items()
        }

    def told(self, epoch: int, until: int, ended: set[str], end: bool) -> dict[str, Any]:
        """What the border of an epoch tells: what it told before a crash, or what is so now."""
        if epoch not in self._known:
            now = time.monotonic()
            idle = [
                at
                for at, after in self._idle.items()
                if all(s not in self._here and now - self._since[s] >= after for s in self._feeders[at])
            ]
            over = [at for at, sources in self._feeders.items() if ended.issuperset(sources) and not end]
            self._known[epoch] = Told(epoch, until, idle, over, end)
            self._file.write(self._known[epoch].line())
        self._here = set()
        self._known.pop(epoch - 2, None)
        found = self._known[epoch]
        return {"idle": found.idle, "ended": found.ended, "end": found.end}

    def ended(self, epoch: int, at: int, rows: bool, paths: Sequence[str]) -> None:
        """All inputs have ended at this push; refused where that does not fit what was before.  ``rows``: the epoch
        has some."""
        stop = self.stop(epoch)
        if rows and stop is not None and stop != at:
            raise DataError(
                f"{' and '.join(paths)}: the run in this state folder has read {stop:,} rows, and now there are "
                f"{at:,}: bring them back, give a greater {option('head')}, or start anew in another folder"
            )
        if not rows and epoch > 1 and not self._known[epoch - 1].end:
            raise DataError(
                f"{' and '.join(paths)}: {at:,} rows were read before, and were not the end of the input; no row is "
                f"left whose epoch could be the last: give a greater {option('head')}, or none"
            )
