"""Inputs of a run with epochs in the order that columns say: looked at before it begins, and sorted once if need be.

Where the rows are in order already, the files are read as ever.  Else they are sorted in memory, and what is needed of
them is written into the state folder: a kill finds the same rows at the same pushes, however often it comes.
``order.json`` says which of the two it was, of how many pushes, and of which files; it is written when all is there,
and no task starts before.

Several inputs meet by their order, so one may have no row in a push: its copy has a column that says where it has one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pellucid.errors import DataError, option
from pellucid.internal.base.files import Draft, beside
from pellucid.internal.data.feed import Feed
from pellucid.internal.data.files import open_reader
from pellucid.internal.data.tables.folders import Found
from pellucid.internal.data.tables.keep import said_keep
from pellucid.internal.data.tables.sorting import looked_at, sorted_tables
from pellucid.internal.engine.epochs.marks import ReadMark, check_unchanged, stamp
from pellucid.internal.engine.epochs.tasks.lanes import THERE

if TYPE_CHECKING:
    from pellucid.internal.engine.epochs.job import Job

_SAID = "order.json"
_ROWS = 1 << 16  # of a record batch of the copy


def look_at_order(job: Job) -> None:
    """Whether the rows are in order, and how many pushes they are; an order that is not total is refused, before
    anything is written."""
    if not job.along.order:
        return
    said = job.store.read(_SAID)
    if said is not None and (said["sorted"] or _same(job, said["files"])):
        job.is_sorted, job.count = said["sorted"], said["count"]
        return
    with contextlib.ExitStack() as stack:
        feed = _feed(job, stack)
        lineup = looked_at(feed, feed._lanes, lambda reader: reader)
    job.is_sorted, job.count = not lineup.as_they_came, lineup.count
    if said is not None and job.is_sorted:
        names = " and ".join(path for path, _ in job.lanes.values())
        raise DataError(
            f"{names}: of the rows that were added, some do not come after all that were read, by "
            f"{option('order', job.along.order)}: append rows in order, or start in another state folder, which sorts "
            "all of them"
        )


def put_in_order(job: Job) -> None:
    """Sort what is not in order; from then on its copy is read."""
    if not job.along.order:
        return
    said = job.store.read(_SAID)
    if said is None or (not said["sorted"] and not _same(job, said["files"])):
        if job.is_sorted:
            _sort(job)
        job.store.write(_SAID, {"sorted": job.is_sorted, "count": job.count, "files": _marks(job)})
    elif said["sorted"] and not _same(job, said["files"]):
        names = " and ".join(path for path, _ in job.lanes.values())
        raise DataError(
            f"{names}: has changed since the run in this state folder began, and was sorted then by "
            f"{option('order', job.along.order)}: bring the old file back, or start anew in another state folder"
        )
    if job.is_sorted:
        # the order's columns are times there, and no texts any more
        formats = {column: form for column, form in job.settings.formats.items() if column not in job.along.order}
        job.lanes = {
            name: (str(_copy(job, name)), [replace(one, formats=formats) for one in bound])
            for name, (_, bound) in job.lanes.items()
        }
        job.files = {name: [Found(path)] for name, (path, _) in job.lanes.items()}


def _feed(job: Job, stack: contextlib.ExitStack) -> Feed:
    s = job.settings
    readers = {
        source: stack.enter_context(contextlib.closing(open_reader(path, s.in_format)))
        for source, path in job.inputs.items()
    }
    return Feed(
        job.graph, readers, value=s.value, key=s.keys, order=s.orders, late=s.late, keep=said_keep(s.keep),
        rows=s.chunk, formats=s.formats, nan=s.nan, nulls=s.words,
    )  # fmt: skip


def _copy(job: Job, name: str) -> Any:
    return job.store.folder("sorted") / f"{name}.arrow"


def _sort(job: Job) -> None:
    with contextlib.ExitStack() as stack:
        feed = _feed(job, stack)
        tables = sorted_tables(feed, feed._lanes, feed._keeps, THERE)
    for name, table in zip(job.lanes, tables, strict=True):
        path = _copy(job, name)
        with Draft(beside(path), over=True) as draft:
            with pa.ipc.new_file(draft.file, table.schema) as writer:
                writer.write_table(table, max_chunksize=_ROWS)
            draft.place(path)


def _marks(job: Job) -> dict[str, list[list[Any]]]:
    """Of each input its files, with their sizes, times and checksums."""
    out: dict[str, list[list[Any]]] = {}
    for name, files in job.files.items():
        out[name] = []
        for one in files:
            mark = ReadMark(one.path, "bytes", (), None)
            stat = os.stat(one.path)
            mark.upto(stat.st_size)
            out[name].append([os.path.abspath(one.path), {**stamp(stat), **mark.document()}])
    return out


def _same(job: Job, before: Mapping[str, Sequence[Any]]) -> bool:
    """Whether all files are what they were."""
    now = {name: [os.path.abspath(one.path) for one in files] for name, files in job.files.items()}
    if now != {name: [path for path, _ in files] for name, files in before.items()}:
        return False
    try:
        for files in before.values():
            for path, mark in files:
                check_unchanged(path, {"mark": mark}, thorough=False)
    except DataError:
        return False
    return True
