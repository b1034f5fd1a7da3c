"""What Spark does in an audit, done here with lists: rows in partitions and small batches, shuffled by key; so that
thousands of traces can be tried."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from pellucid.failures.audit import Audit, answer
from pellucid.spark.audit import _Asked
from pellucid.spark.audit.blobs import NEEDED

Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class ListCarrier:
    """As `pellucid.spark.audit.carrier.SparkCarrier`, with partitions and batches cut at random."""

    def __init__(self, trace: pa.Table, rng: random.Random, *, partitions: int = 3, shuffled: bool = False) -> None:
        order = list(range(len(trace)))
        if shuffled:
            rng.shuffle(order)
        longs = [trace.schema.get_field_index(name) for name in ("generation", "index", "epoch", "state")]
        for at in longs:
            trace = trace.set_column(at, trace.schema.field(at).name, trace.column(at).cast(pa.int64()))
        self.rng, self.partitions = rng, partitions
        self.steps = self._cut(trace.select([*NEEDED, "state"]).take(pa.array(order, pa.int64())))

    def _cut(self, table: pa.Table) -> list[list[pa.RecordBatch]]:
        out: list[list[pa.RecordBatch]] = [[] for _ in range(self.partitions)]
        start = 0
        while start < len(table):
            size = self.rng.randrange(1, 9)
            out[min(start * self.partitions // len(table), self.partitions - 1)] += (
                table.slice(start, size).combine_chunks().to_batches()
            )
            start += size
        return out

    def _shuffled(self, partitions: list[list[pa.RecordBatch]], count: int) -> list[list[pa.RecordBatch]]:
        rows = [row for part in partitions for batch in part for row in batch.to_pylist()]
        self.rng.shuffle(rows)
        out: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
        salt = self.rng.randrange(1000)
        for row in sorted(rows, key=lambda row: row["key"]):
            schema = pa.schema([("key", pa.int64()), ("note", pa.binary()), ("blob", pa.binary())])
            out[hash((salt, row["key"])) % count].append(pa.RecordBatch.from_pylist([row], schema))
        return out

    @staticmethod
    def _run(partitions: list[list[pa.RecordBatch]], worker: Worker) -> list[list[pa.RecordBatch]]:
        return [list(worker(iter(part))) for part in partitions]

    @staticmethod
    def _notes(partitions: list[list[pa.RecordBatch]]) -> list[bytes]:
        return [note for part in partitions for batch in part for note in batch["note"].to_pylist()]

    def flat(self, worker: Worker) -> list[bytes]:
        names = [name for name in NEEDED if name not in ("consumed", "produced")]
        return self._notes(self._run([[batch.select(names) for batch in part] for part in self.steps], worker))

    def pack(self, worker: Worker, partitions: int) -> None:
        self.blobs = self._shuffled(self._run(self.steps, worker), partitions)

    def survey(self, worker: Worker) -> list[bytes]:
        return self._notes(self._run(self.blobs, worker))

    def through(self, first: Worker, second: Worker, partitions: int) -> list[bytes]:
        return self._notes(self._run(self._shuffled(self._run(self.blobs, first), partitions), second))

    def close(self) -> None:
        self.blobs = []

    def disorder(self, limit: int) -> list[Any]:
        found: dict[str, list[dict[str, Any]]] = {"index": [], "generation-back": []}
        rows = [row for part in self.steps for batch in part for row in batch.to_pylist()]
        before: dict[str, dict[str, Any]] = {}
        for row in sorted(rows, key=lambda row: (row["task"], row["index"], row["generation"])):
            last = before.get(row["task"])
            due = last["index"] + 1 if last else 0
            if row["index"] != due:
                found["index"].append({**row, "a": due})
            if last and row["generation"] < last["generation"]:
                found["generation-back"].append({**row, "a": last["generation"]})
            before[row["task"]] = row
        return [_Row(kind=kind, count=len(some), **row) for kind, some in found.items() for row in some[:limit]]


class _Row(SimpleNamespace):
    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


def audit_in_pieces(trace: pa.Table, seed: int, *, piece: int, limit: int = 1000, shuffled: bool = False) -> Audit:
    """The audit of `pellucid.spark.audit`, without Spark."""
    asked = _Asked(ListCarrier(trace, random.Random(seed), shuffled=shuffled), limit, set(), piece)
    explained = asked.run()
    return answer(
        asked.sizes,
        asked.found.counts,
        [v for some in asked.found.first.values() for v in some],
        explained,
        "pieces",
        0.0,
    )
