"""What the tests of the snapshot store share: contents, and what lies in a store."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from pellucid.spark.store import BucketSnapshot, Store

BIG = 100_000  # bytes: large enough for deltas


def blob(seed: int, size: int = BIG) -> bytes:
    return random.Random(seed).randbytes(size)


def touched(data: bytes, at: int, what: bytes = b"changed!") -> bytes:
    return data[:at] + what + data[at + len(what) :]


def contents(found: BucketSnapshot | None) -> Any:
    return found and (found.version, bytes(found.state), bytes(found.extra), found.meta)


def names(store: Store, bucket: int = 0) -> list[str]:
    return sorted(p.name for p in Path(store.path, f"bucket-{bucket:05d}").iterdir())
