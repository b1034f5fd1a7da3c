"""What the workers of an audit do: the rules, in NumPy, of one piece of the trace after the other.

A worker holds one piece at a time.  What it found goes on as a note among the messages that the next workers match;
they merge the notes of all before them.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pellucid.failures.audit.pieces import STORED, Known, Merged, Moved, replay_piece, steps_piece
from pellucid.failures.audit.recorded import trace_table
from pellucid.spark.audit.blobs import blob_of, row, runs, table_of, together
from pellucid.spark.audit.cutting import Ghosts

if TYPE_CHECKING:
    import pyarrow as pa

    from pellucid.spark.audit.blobs import Rows, Worker

_NEIGHBOURS = 13  # bits: so many numbers of a stream are matched in the same place
_SIDES = 8
_WORK = ("SOURCE", "I-EVENT", "I-BORDER")
_ENDS = ("SOURCE", "I-BORDER")  # rules of steps that may end an epoch


def steps_worker(k: Known, ghosts: dict[int, Ghosts], buckets: int) -> Worker:
    """The blobs of pieces, sorted, to messages in so many buckets, and a note."""

    def run(batches: Rows) -> Rows:
        merged = Merged(k.limit)
        for number, blobs in together(batches):
            beside = ghosts.get(number, Ghosts([], []))
            tables = [trace_table(beside.before), *map(table_of, blobs), trace_table(beside.after)]
            made = steps_piece(number, tables, len(beside.before), len(beside.after), k)
            if made is not None:
                found, moved, segments, ends = made
                merged.found(found)
                merged.segments += segments
                merged.ends.append(ends)
                yield from _sent(moved, k, buckets)
        yield row(0, merged)

    return run


def messages_worker(k: Known) -> Worker:
    """Messages, sorted by bucket, and notes, to one note."""

    def run(batches: Rows) -> Rows:
        import pyarrow as pa

        merged = Merged(k.limit)

        def noted(rows: Rows) -> Rows:
            for batch in rows:
                for note in batch["note"].drop_null():
                    merged.merge(pickle.loads(note.as_py()))
                yield batch

        for _, blobs in together(noted(batches)):
            merged.found(_received(pa.concat_tables(list(map(table_of, blobs))), k).check(k))
        yield row(0, merged)

    return run


def again_worker(ranges: dict[str, list[list[int]]], buckets: int) -> Worker:
    """The blobs of pieces to those of the epochs that were done again, with the border before each."""

    def run(batches: Rows) -> Rows:
        import pyarrow as pa
        import pyarrow.compute as pc

        for _, blobs in together(batches):
            table = (
                pa.concat_tables(list(map(table_of, blobs)), promote_options="permissive")
                .unify_dictionaries()
                .combine_chunks()
            )
            epoch = table["epoch"].to_numpy()
            work, ends = (
                np.asarray(pc.is_in(table["rule"].cast(pa.string()), pa.array(rules))) for rules in (_WORK, _ENDS)
            )
            for task, some in ranges.items():
                mine = np.asarray(pc.equal(table["task"].cast(pa.string()), task))
                for low, high in some:
                    for shift, which in (
                        (0, work),
                        (1, ends),
                    ):  # a border comes with its epoch, and with the one that begins with its state
                        rows = np.flatnonzero(mine & which & (epoch + shift >= low) & (epoch + shift <= high))
                        bucket = (epoch[rows] + shift) % buckets
                        for b in np.unique(bucket).tolist():
                            part = table.take(pa.array(rows[bucket == b]))
                            yield row(
                                b, None, blob_of(part.append_column("key", pa.array(epoch[rows[bucket == b]] + shift)))
                            )

    return run


def replay_worker(k: Known, commits: list[dict[str, Any]]) -> Worker:
    """Steps of epochs that were done again, all of an epoch together, to one note.  ``commits``: the last of each task
    in each generation."""

    def run(batches: Rows) -> Rows:
        import pyarrow as pa

        merged = Merged(k.limit)
        for _, blobs in together(batches):
            rows = (
                pa.concat_tables(list(map(table_of, blobs)), promote_options="permissive")
                .unify_dictionaries()
                .combine_chunks()
            )
            names = rows["task"].combine_chunks()
            place = np.array([k.tasks.index(name) for name in names.dictionary.to_pylist()], dtype=np.int64)
            task, epoch = place[names.indices.to_numpy()], rows["epoch"].to_numpy()
            own = rows["key"].to_numpy() == epoch
            low = int(epoch.min())
            pair = task * (int(epoch.max()) - low + 1) + epoch - low
            needed = own | ~np.isin(pair, pair[own])  # a border that is there as itself is needed once
            busy = {k.tasks[t] for t in np.unique(task).tolist()}
            ghosts = trace_table([one for one in commits if one["task"] in busy])
            merged.found(replay_piece([rows.filter(pa.array(needed)), ghosts], task[own], epoch[own], k))
        yield row(0, merged)

    return run


def _sent(m: Moved, k: Known, buckets: int) -> Rows:
    group = np.where(m.side == STORED, len(k.streams) + m.task, m.stream) * k.generations + m.generation
    bucket = ((m.n >> _NEIGHBOURS) + group * 7919) % buckets
    code = (((m.stream * k.generations + m.generation) * len(k.tasks) + m.task) * _SIDES + m.side) * 2 + m.border
    order = np.argsort(bucket, kind="stable")
    bucket = bucket[order]
    values = {"code": code[order]} | {
        name: getattr(m, name)[order] for name in ("n", "index", "at", "epoch", "next_border", "digest")
    }
    for start, end in runs(bucket):
        yield row(
            int(bucket[start]), None, blob_of(pa.table({name: value[start:end] for name, value in values.items()}))
        )


def _received(rows: pa.Table, k: Known) -> Moved:
    code = rows["code"].to_numpy()
    border, side = (code & 1).astype(bool), (code >> 1) % _SIDES
    rest, task = np.divmod((code >> 1) // _SIDES, len(k.tasks))
    stream, generation = np.divmod(rest, k.generations)
    return Moved(
        side,
        stream,
        generation,
        task,
        border,
        *(rows[name].to_numpy() for name in ("n", "index", "at", "epoch", "next_border", "digest")),
    )
