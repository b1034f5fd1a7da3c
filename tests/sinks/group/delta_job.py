"""A driver that writes batches to Delta and SQLite together, as a program that can be killed (Delta's own threads do
not outlive a fork): ``python -m tests.sinks.group.delta_job FOLDER ATTEMPT``.

It begins as Spark would: with the batch that was decided last, or was not.  Its members work one after the other, so
that who dies at a commit dies when Delta has the batch and SQLite has not."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pellucid import sinks
from pellucid.internal.base import faults
from tests.sinks.group.world import QUERY, in_one_thread, rows

BATCHES = 4


def members(folder: Path) -> dict[str, Any]:
    return {"lake": sinks.delta(folder / "lake"), "table": sinks.sqlite(folder / "t.db", "t")}


if __name__ == "__main__":
    folder, attempt = Path(sys.argv[1]), int(sys.argv[2])
    faults.arm("driver", 0, os.getpid())
    group = sinks.together(members(folder), log=folder / "log", patience=0)
    assert group.log is not None
    record = group.log.read()
    with in_one_thread():
        for batch in range(0 if record is None else max(record.batch, 0), BATCHES):
            group.write(rows(batch, attempt), QUERY, batch)
