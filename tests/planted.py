"""The command line with a bug in it: sinks commit an epoch as soon as they have it, without waiting for the snapshots
of the others, and never look at what is committed already.  The audit and the crash test must catch it.

``python -m tests.planted run …`` is ``pellucid run …`` with the bug.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pellucid.failures.crash import Command
from pellucid.internal.base.files import sync
from pellucid.internal.cli.main import main
from pellucid.internal.engine.epochs import outputs, process, sink
from pellucid.internal.engine.epochs.coordinator import Generation
from pellucid.internal.engine.epochs.outputs import PartName, parts_in
from pellucid.internal.engine.epochs.store import Snapshot
from pellucid.sinks import Staged


class Planted(Command):
    """What a crash test runs, with the bug."""

    def argv(self, folder: Path) -> list[str]:
        return ["tests.planted" if word == "pellucid" else word for word in super().argv(folder)]


def completed(generation: Any, task: Any) -> None:
    if task.kind == "sink":
        epoch = max(generation.durable[task.name])
        task.link.send(commit=epoch, acks=generation._acks(epoch))
    _completed(generation, task)


class CarelessSink(sink.SinkTask):
    """Trusts its snapshot, whatever is there."""

    def restore(self, snapshot: Snapshot | None) -> None:
        self.target.generation = self.context.generation  # type: ignore[attr-defined]
        super().restore(None)
        if snapshot is None:
            return
        for _, own, size, crc in snapshot.about["parts"]:
            name = PartName.read(own)
            if name is not None and (self.folder / own).exists():
                part = self.target.part(self.folder / own)
                part.size, part.crc = size, crc
                self._staged.append(sink.StagedPart(part, [sink.SinkMark(name, size, crc)], name.first))
        self._end, self.rows = snapshot.until, snapshot.about["rows"]

    def begin(self) -> None:
        """Nothing is removed that an earlier epoch has staged."""
        for name, path in parts_in(self.folder):
            if name.epoch >= self.context.now:
                path.unlink()


class CarelessFile(outputs.FileTarget):
    """Appends what it is given: each generation to parts of its own."""

    generation = 0

    def last(self, query: str) -> int | None:
        return None

    def commit(self, staged: Staged) -> None:
        more = f"-g{self.generation}" if self.generation else ""
        for name, path in staged.held:
            os.replace(path, self._folder / str(name).replace(".part", f"{more}.part"))
        sync(self._folder)

    def _parts(self, rows: int) -> Iterator[tuple[PartName, Path]]:
        return iter(parts_in(self._folder))


_completed = Generation._completed

if __name__ == "__main__":
    from pellucid.internal.engine.epochs import job, process

    Generation._completed = completed  # type: ignore[method-assign]
    process.SinkTask = CarelessSink  # type: ignore[misc]
    job.FileTarget = CarelessFile  # type: ignore[misc]
    outputs._NAME = re.compile(outputs._NAME.pattern.replace(r"\.part", r"(-g\d+)?\.part"))
    sys.exit(main())
