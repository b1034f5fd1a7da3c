"""A trace on its way to the workers of an audit: what a first look says about it, and its steps in blobs.

Steps travel as Arrow data, those of a piece in a few binary values: whoever carries them (Spark) has few and plain rows
to sort.  Rows are a *key*, by which they come together, a *note* (what was found or summed up, pickled) and a *blob*
(steps or messages).  Only notes come to the driver.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError
from pellucid.failures.audit.arrays import Array, columns
from pellucid.failures.audit.cells import CellSum, IndexSpan, summed

if TYPE_CHECKING:
    import pyarrow as pa

    Rows: TypeAlias = Iterator[pa.RecordBatch]
    Worker: TypeAlias = Callable[[Rows], Rows]

ROWS = "key long, note binary, blob binary"
NEEDED = ("task", "generation", "index", "rule", "epoch", "consumed", "produced")


@dataclass
class Spanned:
    """What a first look says: the tasks in their generations, and the crashes (task, generation, index, rule,
    epoch)."""

    spans: dict[tuple[str, int], IndexSpan]
    crashes: list[tuple[str, int, int, str, int]]
    empty: str | None = None


@dataclass(frozen=True)
class TraceCut:
    """How a trace is cut: by task and generation the first cell, the least index and the width of a cell (0: only one);
    the piece of each cell."""

    places: dict[tuple[str, int], tuple[int, int, int]]
    piece_of: list[int]
    cuts: list[int]  # by generation, the last epoch that is kept
    wanted: list[int]  # epochs that recoveries went to
    size: int


def span_worker(batches: Rows) -> Rows:
    """Steps (without their messages) to a note: `Spanned`."""
    out = Spanned({}, [])
    for batch in batches:
        names = [name for name in NEEDED if name in batch.schema.names]
        out.empty = out.empty or next((name for name in names if batch[name].null_count), None)
        if out.empty or not len(batch):
            continue
        coded = batch["task"].dictionary_encode()
        tasks, task = coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)
        recorded, index = batch["generation"].to_numpy(), batch["index"].to_numpy()
        generation = np.maximum(recorded, 0)
        first, group = _groups(task, generation)
        low, high, count = np.full(len(first), index.max()), np.full(len(first), index.min()), np.bincount(group)
        np.minimum.at(low, group, index)
        np.maximum.at(high, group, index)
        for at, place in enumerate(first.tolist()):
            key = (tasks[task[place]], int(generation[place]))
            s = out.spans.setdefault(key, IndexSpan(*key, 0, int(low[at]), int(high[at])))
            s.steps, s.low, s.high = s.steps + int(count[at]), min(s.low, int(low[at])), max(s.high, int(high[at]))
        rules = batch["rule"].dictionary_encode()
        marked = np.array([name in ("F-RECOVER", "F-LOST") for name in rules.dictionary.to_pylist()], dtype=bool)[
            rules.indices.to_numpy()
        ]
        for at in np.flatnonzero(marked).tolist():
            out.crashes.append(
                (
                    tasks[task[at]],
                    int(recorded[at]),
                    int(index[at]),
                    batch["rule"][at].as_py(),
                    batch["epoch"][at].as_py(),
                )
            )
    yield row(0, out)


def pack_worker(cut: TraceCut) -> Worker:
    """Steps to blobs, one for each piece, with a note each: the sums of its cells; or a sentence on what is wrong with
    the trace."""

    def run(batches: Rows) -> Rows:
        for table in _tables(batches, cut.size):
            try:
                yield from _packed(table, cut)
            except DataError as error:
                yield row(0, str(error))

    return run


def _packed(table: pa.Table, cut: TraceCut) -> Rows:
    for name in NEEDED:
        if table[name].null_count:
            raise DataError(f"trace: column {name!r} is empty in some row")
    table = table.combine_chunks()
    for name in ("task", "rule"):
        table = table.set_column(
            table.schema.get_field_index(name), name, table[name].combine_chunks().dictionary_encode()
        )
    task, generation = table["task"].combine_chunks(), np.maximum(table["generation"].to_numpy(), 0)
    names = task.dictionary.to_pylist()
    number = task.indices.to_numpy().astype(np.int64)
    first, group = _groups(number, generation)
    base, low, width = np.array(
        [cut.places[names[number[at]], int(generation[at])] for at in first.tolist()], dtype=np.int64
    ).T[:, group]
    cell = base + np.where(width > 0, (table["index"].to_numpy() - low) // np.maximum(width, 1), 0)
    if (np.diff(cell) < 0).any():
        order = np.argsort(cell, kind="stable")
        table, cell = table.take(pa.array(order)), cell[order]
    piece = np.array(cut.piece_of)[cell]
    wanted = np.array(cut.wanted, dtype=np.int64)
    for start, end in runs(piece):
        sums: dict[int, CellSum] = {}
        for begin, stop in runs(cell[start:end]):
            c = columns(table.slice(start + begin, stop - begin))
            sums[int(cell[start + begin])] = summed(c, cut.cuts[max(int(c.generation[0]), 0)], wanted)
        yield row(int(piece[start]), sums, blob_of(table.slice(start, end - start)))


def _groups(task: Array, generation: Array) -> tuple[Array, Array]:
    """The first row of each task in each generation, and for each row the number of its group."""
    _, first, group = np.unique(task * (int(generation.max()) + 1) + generation, return_index=True, return_inverse=True)
    return first, group


def survey_worker(batches: Rows) -> Rows:
    """The notes of the blobs to one: the sums of all cells."""
    sums: dict[int, CellSum] = {}
    for batch in batches:
        for note in batch["note"]:
            some = pickle.loads(note.as_py())
            if isinstance(some, str):
                yield row(0, some)
                return
            for cell, one in some.items():
                if cell in sums:
                    sums[cell].merge(one)
                else:
                    sums[cell] = one
    yield row(0, sums)


def runs(values: Array) -> Iterator[tuple[int, int]]:
    """Where equal neighbours begin and end."""
    if len(values):
        yield from itertools.pairwise([0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)])


def _tables(batches: Rows, size: int) -> Iterator[pa.Table]:
    """About so many rows at a time."""
    held: list[Any] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += len(batch)
        if count >= size:
            yield pa.Table.from_batches(held)
            held, count = [], 0
    if count:
        yield pa.Table.from_batches(held)


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, list[bytes]]]:
    """The blobs of each key, which come together."""
    current, held = 0, list[bytes]()
    for batch in batches:
        for key, blob in zip(batch["key"].to_numpy().tolist(), batch["blob"], strict=True):
            if not blob.is_valid:
                continue
            if held and key != current:
                yield current, held
                held = []
            current = key
            held.append(blob.as_py())
    if held:
        yield current, held


def row(key: int, note: Any, blob: bytes | None = None) -> pa.RecordBatch:
    """One row."""
    noted = None if note is None else pickle.dumps(note)
    return pa.record_batch(
        [pa.array([key], pa.int64()), pa.array([noted], pa.binary()), pa.array([blob], pa.binary())],
        names=["key", "note", "blob"],
    )


def blob_of(table: pa.Table) -> bytes:
    """A table as a binary value.

    Without threads of Arrow's: Spark has a worker for each core, and for a small table they cost more than the work.
    """
    sink = pa.BufferOutputStream()
    how = pa.ipc.IpcWriteOptions(compression="lz4", unify_dictionaries=True, use_threads=False)
    with pa.ipc.new_stream(sink, table.schema, options=how) as out:
        out.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def table_of(blob: bytes) -> pa.Table:
    """The table of `blob_of`."""
    return pa.ipc.open_stream(blob, options=pa.ipc.IpcReadOptions(use_threads=False)).read_all()
