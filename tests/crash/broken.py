"""What is wrong on purpose: the campaign must catch it, else its silence about the rest would mean nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

from pellucid.internal.base import faults
from pellucid.spark.state import store

AFTER = "append:after-commit"
faults.POINTS[AFTER] = "the sink that appends, after a batch is committed"


def append_to_sqlite(path: str) -> Callable[[Any, int], None]:
    """A sink that writes each batch in one transaction, but does not look whether it was there already."""

    def write(df: Any, batch: int) -> None:
        lines = [(line,) for line in df.toJSON().collect()]
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS lines (line TEXT)")
            db.executemany("INSERT INTO lines VALUES (?)", lines)
        faults.point(AFTER)

    return write


class OffByOne(store.Store):
    """Reads the newest snapshot up to this micro-batch, where it must be below: a repeated one starts from its own
    result."""

    def load(self, bucket: int, before: int) -> store.BucketSnapshot | None:
        return super().load(bucket, before + 1)

    def versions(self, bucket: int) -> list[int]:
        return []  # nothing is taken from a worker's memory


def break_the_state() -> None:
    store.Store = OffByOne  # type: ignore[misc]
