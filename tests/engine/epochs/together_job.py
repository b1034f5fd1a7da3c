"""A run with epochs whose rows go to PostgreSQL, Parquet and SQLite together, as a program that can be killed:
``python -m tests.engine.epochs.together_job FOLDER DSN [PUSHES]``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pellucid import Stream, pipeline, sinks
from pellucid.errors import PellucidError

ROWS = 1000


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")


def given(i: int) -> int:
    return (i * 7919) % 1009


def expected() -> list[int]:
    """What must be in every target: told without the pipeline."""
    out, sum_ = [], 0
    for i in range(ROWS):
        sum_ += given(i)
        out.append(sum_)
    return out


def members(folder: Path, dsn: str | None) -> dict[str, Any]:
    """The targets; without a server two SQLite files."""
    orders = sinks.sqlite(folder / "orders.db", "orders") if dsn is None else sinks.postgres(dsn, "orders")
    return {
        "orders": orders,
        "archive": sinks.parquet(folder / "archive"),
        "totals": sinks.sqlite(folder / "totals.db", "totals"),
    }


def have(folder: Path, dsn: str | None) -> dict[str, list[int]]:
    """What is in every target now, in order."""
    found = {}
    for name, sink in members(folder, dsn).items():
        try:
            found[name] = sorted(sink.read()["out"].to_pylist())
        except (PellucidError, KeyError):
            found[name] = []
    return found


def whole(folder: Path, dsn: str | None) -> list[int]:
    """What `read_together` gives, of all members the same."""
    tables = sinks.read_together(members(folder, dsn), log=folder / "state" / "together")
    seen = {name: sorted(table["out"].to_pylist()) for name, table in tables.items()}
    assert len({tuple(rows) for rows in seen.values()}) == 1, {name: len(rows) for name, rows in seen.items()}
    return seen["orders"]


def run(folder: Path, dsn: str | None, pushes: int = 100, **more: Any) -> Any:
    """The run, or the same again."""
    if not (folder / "x.jsonl").exists():
        (folder / "x.jsonl").write_text("".join(f"{given(i)}\n" for i in range(ROWS)))
    group = sinks.together(members(folder, dsn))
    return total.run_epochs(folder / "x.jsonl", group, state=folder / "state", **{"pushes": pushes, **more})


if __name__ == "__main__":
    try:
        run(Path(sys.argv[1]), sys.argv[2] or None, int(sys.argv[3]) if len(sys.argv) > 3 else 100)
    except PellucidError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
