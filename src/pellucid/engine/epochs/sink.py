"""A sink: stages the rows of an epoch, and commits them when the coordinator says that the epoch is durable everywhere.

Its snapshot is the list of staged parts.  After a recovery it asks the target what is committed, and leaves out rows of
pushes that are: so an epoch that was committed and not reported, or that is replayed because a later snapshot was lost, is
there once.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.data.arrow import array_of, output_batch
from pellucid.engine.columns import Output
from pellucid.engine.epochs import faults
from pellucid.engine.epochs.messages import BORDER, EVENTS, Events, positions_of
from pellucid.engine.epochs.recording import Message as Noted
from pellucid.engine.epochs.recording import digest
from pellucid.engine.epochs.store import Damaged, Snapshot, sync
from pellucid.engine.epochs.targets import Part, PartName, Target, parts_in
from pellucid.engine.epochs.task import Context, Task
from pellucid.expr.types import INT, Type

__all__ = ["Sink"]

_AGAIN = 0.5


class Sink(Task):
    """One output of the pipeline."""

    def __init__(
        self, context: Context, output: str, step: str, t: Type, target: Target, schema: Any, key: tuple[str, Type] | None, *, trusting: bool = False
    ) -> None:
        super().__init__(context)
        self.output, self.step, self.type, self.target, self.schema, self.key = output, step, t, target, schema, key
        self.folder = context.store.folder("staged", output)
        self.rows = 0  # in all epochs
        self.floor = 0  # rows of pushes below it are committed
        self.trusting = trusting  # a planted bug: never look what is committed
        self._part: Part | None = None
        self._unfinished: list[tuple[Part, PartName]] = []
        self._due: list[tuple[int, list[list[Any]]]] = []  # epochs to commit, with the snapshots that were waited for

    def restore(self, snapshot: Snapshot | None) -> None:
        """Find what is staged, and what is committed already."""
        epoch = snapshot.epoch if snapshot is not None else 0
        self.floor = 0 if self.trusting else self.target.last()
        for path in list(self.folder.iterdir()):
            name = PartName.read(path.name)
            if name is None or name.epoch > epoch or name.until <= self.floor:
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
        if snapshot is not None:
            self.rows = snapshot.about["rows"]
            for name, size, crc in snapshot.about["parts"]:
                part = PartName.read(name)
                if part is not None and part.until > self.floor and not self.trusting:
                    _check(self.folder / name, size, crc, self.context)
        self._sizes: dict[str, tuple[int, int]] = {n: (s, c) for n, s, c in (snapshot.about["parts"] if snapshot else [])}
        self.context.on_command = self._command
        self.context.settle = lambda: sync(self.folder)

    def _command(self, command: dict[str, Any]) -> None:
        if "commit" in command:
            self._due.append((command["commit"], command["acks"]))
            self.context.soon(self._commit)
        else:
            self.context._commands.put(command)

    def run(self) -> None:
        """Stage until the end; then wait until all is committed, and finish."""
        context = self.context
        while True:
            kind, until, heads = context.next()
            noted = [message.noted(box.name) for box, message in heads] if context.recorder else []
            if kind == EVENTS:
                context.send([], "I-EVENT", noted)
                self._stage([(message.first, message.parts[self.step]) for _, message in heads if self.step in message.parts], until)
                context.pushes = until
            elif kind == BORDER:
                self._border(heads[0][1].epoch, until, noted)
            else:
                break
        context.flush()
        while "finish" not in context.command():
            pass
        faults.point("sink:finish")
        with context.waiting():
            self.target.finish()
        faults.point("sink:finished")
        context.link.send(finished=True, rows=self.rows)

    # ------------------------------------------------------------ staging

    def _stage(self, found: list[tuple[int, Events]], until: int) -> None:
        batch, positions = self._batch(found)
        self.rows += batch.num_rows
        if self.floor and batch.num_rows and positions[0] < self.floor:
            batch = batch.slice(int(np.searchsorted(positions, self.floor)))
        if not batch.num_rows:
            return
        if self._part is None:
            self._part = self.target.part(self.folder / f".{self.context.now}.tmp")
        told = False
        while True:
            try:
                faults.point("sink:write")
                self._part.write(batch)
                return
            except OSError as error:
                if not told:
                    self.context.link.send(failed=self.context.now, why=error.strerror or str(error))
                told = True
                with self.context.waiting():
                    time.sleep(_AGAIN)

    def _batch(self, found: list[tuple[int, Events]]) -> tuple[Any, Any]:
        """The rows in the order of their pushes, whoever sent them."""
        batches, numbers = [], []
        for first, events in found:
            output = Output(self.output, self.type, events.columns)
            if self.key is not None and events.keys is not None:
                output.key_type, output.keys = self.key[1], [events.keys]
            batches.append(output_batch(output, self.schema, key=self.key[0] if self.key else None))
            numbers.append(positions_of(events, first))
        if not batches:
            return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in self.schema], schema=self.schema), []
        if len(batches) == 1:
            return batches[0], numbers[0]
        positions = np.concatenate(numbers)
        order = np.argsort(positions, kind="stable")
        rows = array_of(INT, order)
        columns = [pa.concat_arrays([b.column(j) for b in batches]).take(rows) for j in range(len(self.schema))]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), positions[order]

    def _border(self, epoch: int, until: int, noted: list[Noted]) -> None:
        context = self.context
        part = self._part or self.target.part(self.folder / f".{epoch}.tmp")
        self._part = None
        rows = self.rows
        mark = digest(f"{until} {rows} {part.size} {part.crc}".encode()) if context.recorder else None
        context.send([], "I-BORDER", noted, mark)
        self._unfinished.append((part, PartName(until, epoch, part.rows)))

        def make() -> Snapshot:
            # Not what later epochs have brought meanwhile; but what could not be written at earlier borders.
            while self._unfinished and self._unfinished[0][1].epoch <= epoch:
                waiting, name = self._unfinished[0]
                if name.until > self.floor or waiting.rows:
                    waiting.finish(self.folder / str(name))
                    self._sizes[str(name)] = (waiting.size, waiting.crc)
                self._unfinished.pop(0)
            faults.point("sink:staged")
            staged = [(str(name), *self._sizes[str(name)]) for name, _ in parts_in(self.folder) if name.epoch <= epoch and str(name) in self._sizes]
            return Snapshot(context.name, epoch, until, about={"rows": rows, "parts": staged})

        context.snapshot(make, epoch, 0, mark)
        context.now = epoch + 1

    # ------------------------------------------------------------ committing

    def _commit(self) -> None:
        """Make all epochs that are due visible; in the background, after the snapshots that they waited for."""
        context = self.context
        count = 1 if faults.armed() else len(self._due)
        due, self._due = self._due[:count], self._due[count:]
        if not due:
            return  # they were committed together with others
        epoch = due[-1][0]
        parts = [(name, path) for name, path in parts_in(self.folder) if name.epoch <= epoch]
        if parts:
            if context.recorder is not None:
                new = {name.epoch for name, _ in parts}
                for number, acks in due:
                    if number in new:
                        consumed = [Noted(f"ack:{task}", number, True, mark) for task, mark in acks]
                        context.recorder.step("COMMIT", number, consumed=consumed)
            faults.point("sink:before-commit")
            self.target.commit(parts)
            faults.point("sink:after-commit")
            for name, _ in parts:
                self._sizes.pop(str(name), None)
        context.link.send(committed=epoch)


def _check(path: Path, size: int, crc: int, context: Context) -> None:
    try:
        found = os.path.getsize(path)
        data = path.read_bytes() if found == size else b""
    except FileNotFoundError:
        context.damaged(Damaged(f"{path}: the staged rows of an epoch are missing"))
        return
    if found != size or zlib.crc32(data) != crc:
        context.damaged(Damaged(f"{path}: the staged rows of an epoch are damaged"))


