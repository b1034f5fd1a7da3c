"""A sink of one's own, as its author would write it: a file of lines for each batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pellucid.internal.base import faults
from pellucid.sinks import Sink, Staged, rows_of


class Lines(Sink):
    """Lines of JSON; a batch counts when its file has its name."""

    kind = "lines"
    guarantee = "each batch is there once, because its number is the name of its file"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.calls: list[str] = []

    @property
    def place(self) -> str:
        return str(self.folder)

    def last(self, query: str) -> int | None:
        return max((int(path.stem) for path in (self.folder / query).glob("*.lines")), default=None)

    def stage(self, data: Any, query: str, batch: int) -> Staged:
        self.calls.append("stage")
        if self.has(query, batch):
            return Staged(query, batch, skipped=True)
        lines = [json.dumps(row) for piece in rows_of(data) for row in piece.to_pylist()]
        aside = self.folder / query / f"{batch}.aside"
        aside.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text("".join(f"{line}\n" for line in lines))
        return Staged(query, batch, len(lines), aside)

    def prepare(self, staged: Staged) -> None:
        self.calls.append("prepare")

    def commit(self, staged: Staged) -> None:
        self.calls.append("commit")
        faults.point("sqlite:before-commit")
        staged.held.rename(staged.held.with_suffix(".lines"))

    def abort(self, staged: Staged) -> None:
        self.calls.append("abort")
        staged.held.unlink(missing_ok=True)

    def rows(self) -> list[dict[str, Any]]:
        """All that count, in the order of the batches."""
        found = sorted(self.folder.glob("*/*.lines"), key=lambda path: int(path.stem))
        return [json.loads(line) for path in found for line in path.read_text().splitlines()]
