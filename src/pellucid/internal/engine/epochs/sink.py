"""A sink: stages the rows of an epoch, and commits them when the coordinator reports that the epoch is durable
everywhere.

Its snapshot is the list of staged parts.  Where epochs are shorter than a sync of the disk takes, those that wait
together share a part; each snapshot knows how much of the part is its own, and the part is committed when the last of
its epochs is complete.  A recovery to an epoch in the middle cuts the part there.  After a recovery it asks the target
what is committed, and leaves out rows of pushes that are: so an epoch that was committed and not reported, or that is
replayed because a later snapshot was lost, is there once.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError, PellucidError, StateError, Unreachable, option
from pellucid.internal.base import faults
from pellucid.internal.base.files import no_links, sync, write_lasting
from pellucid.internal.data.arrow import array_of, column_at, event_fields, output_batch, output_schema
from pellucid.internal.data.bind import BadRow, Place, of_row, table_of, too_many, type_of_key
from pellucid.internal.data.columns import Output
from pellucid.internal.data.feed import order_values
from pellucid.internal.data.outputs import fitting, refuse_other_keys
from pellucid.internal.engine.epochs.dead_letters import from_events
from pellucid.internal.engine.epochs.group_commit import Span, keeps_open
from pellucid.internal.engine.epochs.messages import BORDER, EVENTS, Events, positions_of
from pellucid.internal.engine.epochs.outputs import (
    FileTarget,
    Part,
    PartName,
    Parts,
    checksum,
    parts_in,
    seal_owner,
)
from pellucid.internal.engine.epochs.recording import ACK, digest
from pellucid.internal.engine.epochs.recording import RecordedMessage as Noted
from pellucid.internal.engine.epochs.store import Damaged, Snapshot, full
from pellucid.internal.engine.epochs.task import Context, TaskProcess
from pellucid.internal.expr.types import INT, Type
from pellucid.sinks.decisions import DecisionLog
from pellucid.sinks.group import AGAIN, Patience
from pellucid.sinks.interface import Staged

if TYPE_CHECKING:
    from pellucid.internal.engine.epochs.job import Job
    from pellucid.internal.engine.epochs.plan import TaskPlan

_AT_ONCE = 1 << 17  # rows that are read over at a time
_AGAIN = 0.5  # seconds between two tries to write to a disk that is full


class InputReader:
    """Inputs that a sink reads itself, in step with the pushes.

    Push *i* is row *i* of every input, so the row of an event is known by its push, and nothing has to travel through
    the tasks between.  A snapshot of the sink keeps where the reading was.
    """

    def __init__(self, opened: Callable[[Sequence[Mapping[str, Any]] | None], list[Any]]) -> None:
        self._opened = opened
        self._lanes: list[Any] = []

    def restore(self, offsets: Sequence[Mapping[str, Any]] | None) -> None:
        """Resume where a snapshot left it."""
        self._lanes = self._opened(offsets)

    def offsets(self) -> list[dict[str, Any]]:
        """Where the reading is, for a snapshot."""
        return [lane.offset() for lane in self._lanes]

    def read(self, until: int) -> Any:
        """Read all rows of the pushes before this one."""

    def added_to(self, batch: Any, positions: Any, until: int) -> Any:
        """A batch of rows of these pushes, with what this reads for them."""
        return batch


class RowFinder(InputReader):
    """The rows of the inputs by their pushes, which only go up: for dead letters.  Nothing is read before it is asked
    for."""

    def found(self, push: int, failure: BadRow) -> list[BadRow]:
        """A dead letter for each row of a push in which a step failed."""
        out = []
        for lane in self._lanes:
            while lane.row < push and lane.pieces(min(_AT_ONCE, push - lane.row))[0]:
                pass
            have, tables, places = lane.pieces(1) if lane.row == push else (0, [], [])
            if have:
                out.append(of_row(places[0][1], 0, failure.reason, tables[0], step=failure.step))
        return out


class Passthrough(InputReader):
    """The passthrough columns of the rows that an output is made of; each lane comes with its columns."""

    def __init__(self, job: Job, t: Type, output: str, schema: Any) -> None:
        super().__init__(self._open)
        self._job, self._along, self._fields, self._schema = job, job.along, len(event_fields(t, output)), schema
        self._columns: list[list[str]] = []

    def _open(self, offsets: Sequence[Mapping[str, Any]] | None) -> list[Any]:
        lanes = self._job.open_kept(offsets)
        self._columns = [names for _, names in lanes]
        return [lane for lane, _ in lanes]

    def read(self, until: int, positions: Any = ()) -> dict[str, Any]:
        """Read all rows of the pushes before this one; of those at these positions the values of the columns, null
        where an input has ended."""
        out: dict[str, Any] = {}
        wanted = np.asarray(positions, dtype=np.int64)
        for lane, names in zip(self._lanes, self._columns, strict=True):
            first = lane.row
            have, pieces, places = lane.pieces(max(0, until - first))
            if not len(wanted):
                continue
            rows = wanted - first
            index = pa.array(rows, mask=rows >= have)
            for name in names:
                arrays = [
                    self._fitting(self._value(piece, name, place), name, lane)
                    for piece, (_, place) in zip(pieces, places, strict=True)
                ]
                whole = pa.concat_arrays([pa.array([], self._along.types[name]), *arrays])
                out[name] = whole.take(index)
        return out

    def _value(self, piece: Any, name: str, place: Place) -> Any:
        if name not in self._along.order:
            return piece.column(name)
        read_as, form = self._job.order_as.get(name), self._job.settings.time_format.get(name)
        return order_values(column_at(piece, name), name, read_as, place, form)

    def _fitting(self, array: Any, name: str, lane: Any) -> Any:
        try:
            return fitting(array, self._along.types[name])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise DataError(
                f"{lane.path}: the column {name!r}, which is kept, holds {array.type}, but {self._along.types[name]} "
                f"in the first file: {error}"
            ) from None

    def added_to(self, batch: Any, positions: Any, until: int) -> Any:
        """A batch with the passthrough columns, between the key and the event."""
        columns = self.read(until, positions)
        if not batch.num_rows:
            return batch
        at, schema = batch.num_columns - self._fields, self._schema
        more = [columns[name] for name in schema.names[at : at + len(schema) - batch.num_columns]]
        return pa.RecordBatch.from_arrays([*batch.columns[:at], *more, *batch.columns[at:]], schema=schema)


class SinkMark(NamedTuple):
    """How far an epoch goes in a staged file: its name if the file ended there, and the bytes and checksum up to
    there."""

    name: PartName
    size: int
    crc: int


@dataclass
class StagedPart:
    """A file of rows that are not committed, and its epochs."""

    part: Part
    marks: list[SinkMark]
    first: int  # the push it begins with
    epochs: list[int] = field(default_factory=list)  # of the marks

    def __post_init__(self) -> None:
        self.epochs = [mark.name.epoch for mark in self.marks]

    def mark(self, mark: SinkMark) -> None:
        """An epoch ends here."""
        self.marks.append(mark)
        self.epochs.append(mark.name.epoch)

    @property
    def name(self) -> PartName:
        """The file's: that of its last epoch."""
        return self.marks[-1].name


class SinkTask(TaskProcess):
    """One output of the pipeline."""

    def __init__(self, context: Context, job: Job, task: TaskPlan, *, apart: bool = False) -> None:
        super().__init__(context)
        self.output, self.step, self.place = task.output, task.step, task.place
        self.type, self.schema, self.key = job.plan.types[task.step], job.schemas[task.place], job.key
        self.target = target = job.target(task.place)
        self._formats = job.settings.time_format  # of times in texts, by column
        self._reader = self._reader_of(job)
        self._plain = self.schema if self._reader is None else output_schema(self.type, self.output, self.key)
        target.on_sign_of_life(context.alive)
        self.folder = context.store.folder("staged", self.place)
        self._aside = f"{self.folder}/."
        self.rows = 0  # in all epochs
        self.floor = 0  # rows of pushes below it are committed
        self._end = 0  # rows of pushes below it are committed, or staged
        self._owner = seal_owner(context.run, self.place)
        self._wanted: set[str] = set()  # staged files that the snapshot has
        self._part: Part | None = None
        # rows that are not on the disk yet, up to which push, and of which epoch
        self._unfinished: list[tuple[Part, int, int]] = []
        self._apart = apart  # whether each epoch has a file of its own
        self._growing: StagedPart | None = None  # what they are being written to
        self._staged: list[StagedPart] = []
        self._unsynced = False  # names of staged files that may not be there after a power failure
        self._due: list[tuple[int, list[list[Any]]]] = []  # epochs to commit, with the snapshots that were waited for

    def _reader_of(self, job: Job) -> InputReader | None:
        """What this sink reads of the inputs."""
        if not job.along.names(self.type, self.output, list(self.key)):
            return None
        return Passthrough(job, self.type, self.output, self.schema)

    def restore(self, snapshot: Snapshot | None) -> None:
        """Find what is staged, and what is committed already; what is staged must continue what is committed."""
        self._see_gone()
        until = snapshot.until if snapshot is not None else 0
        self.floor = self.target.last(self.context.run) or 0
        wrong, self._end = self.target.wrong(), self.floor
        if wrong and (self.floor < until or not self.target.rebuilds):
            self.context.behind(self.floor, wrong)
        for file, own, size, crc in snapshot.about["parts"] if snapshot is not None else []:
            name = PartName.read(own)
            if name is None or name.until <= self.floor:
                continue
            if name.first != self._end:
                break
            part = self.target.part(self.folder / own)
            part.size, part.crc = size, crc
            self._find(file, own, part)
            self._staged.append(StagedPart(part, [SinkMark(name, size, crc)], name.first))
            self._wanted.add(own)
            self._end = name.until
        if self._end < until:
            self.context.behind(self._end, self._lost(until))
        self._end = max(self._end, until)
        self.rows = snapshot.about["rows"] if snapshot is not None else 0
        if self._reader is not None:
            self._reader.restore((snapshot.about["lanes"] or None) if snapshot is not None else None)
        self.context.on_command = self._command
        self.context.settle = self._settle
        self.context.ends = self._ends

    def _see_gone(self) -> None:
        """A target that was emptied has numbers by which nothing would ever be written again: they are forgotten where
        all input is read again, and else reported."""
        gone = self.target.gone(self.context.run)
        if not gone:
            return
        if not self.target.rebuilds:
            self.context.behind(0, f"{self.target.place}: {gone} (it was emptied, or made anew)")
        if not self.target.renew(self.context.run):
            raise StateError(
                f"{self.target.place}: {gone}, and it cannot forget its numbers: bring the rows back from a copy, or "
                "start anew in another state folder, with another target"
            )

    def _lost(self, until: int) -> str:
        """The words about rows that are gone."""
        return (
            f"{self.target.place}: the rows of pushes {self._end:,} to {until:,} were committed, and are not there any "
            "more"
        )

    def begin(self) -> None:
        """Remove what is not needed any more."""
        self.target.begin()
        for path in list(self.folder.iterdir()):
            if path.name not in self._wanted:
                path.unlink(missing_ok=True)

    def _find(self, file: str, own: str, part: Part) -> None:
        """See that a staged part is whole; one that went on beyond the epoch of the snapshot is cut there."""
        whole = part.size + len(part.tail)
        path = self.folder / own
        if path.exists() and path.stat().st_size == whole and checksum(path, part.size) == part.crc:
            return
        # An earlier recovery may have cut it already, farther on: any file that begins with these rows will do.
        longer = [p for n, p in parts_in(self.folder) if str(n) != own]
        for candidate in sorted(longer, key=lambda p: p.name != file) if file != own or not path.exists() else []:
            if candidate.stat().st_size >= whole and checksum(candidate, part.size) == part.crc:
                try:
                    with open(candidate, "rb", opener=no_links) as source:
                        write_lasting(path, [source.read(part.size), part.tail])
                except OSError as error:
                    raise StateError(
                        f"{path}: cannot be written: {error.strerror or error}; nothing is lost: make room, and the "
                        "same command goes on"
                    ) from None
                return
        what = "damaged" if path.exists() or (self.folder / file).exists() else "missing"
        self.context.damaged(
            Damaged(
                f"{self.folder / file}: the staged rows of an epoch are {what}, and {self.target.place} has them not"
            )
        )

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
                self._stage(
                    [(message.first, message.parts[self.step]) for _, message in heads if self.step in message.parts],
                    until,
                )
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
            self.target.finish(self.rows)
        faults.point("sink:finished")
        context.link.send(finished=True, rows=self.rows)

    # ------------------------------------------------------------ staging

    def _stage(self, found: list[tuple[int, Events]], until: int) -> None:
        batch, positions = self._batch(found)
        if self._reader is not None:
            batch = self._reader.added_to(batch, positions, until)
        self.rows += batch.num_rows
        if self.floor and batch.num_rows and positions[0] < self.floor:
            batch = batch.slice(int(np.searchsorted(positions, self.floor)))
        if not batch.num_rows:
            return
        if self._part is None:
            self._part = self._new_part(self.context.now)
        told = False
        while True:
            try:
                faults.point("sink:write")
                self._part.write(batch)
                return
            except OSError as error:
                if not full(error):
                    raise
                if not told:
                    self.context.link.send(failed=self.context.now, why=error.strerror or str(error))
                told = True
                with self.context.waiting():
                    time.sleep(_AGAIN)

    def _new_part(self, epoch: int) -> Part:
        return self.target.part(f"{self._aside}{epoch}.tmp")

    def _batch(self, found: list[tuple[int, Events]]) -> tuple[Any, Any]:
        """The rows in the order of their pushes, from all senders."""
        batches, numbers = [], []
        for first, events in found:
            output = Output(self.output, self.type, events.columns)
            if self.key and events.keys is not None:
                output.key_type, output.keys = type_of_key(self.key), events.keys
            pushes = positions_of(events, first)
            refuse_other_keys(output, list(self.key), _push_of(pushes), self._formats)
            batches.append(output_batch(output, self._plain, key=list(self.key)))
            numbers.append(pushes)
        if not batches:
            return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in self._plain], schema=self._plain), []
        if len(batches) == 1:
            return batches[0], numbers[0]
        positions = np.concatenate(numbers)
        order = np.argsort(positions, kind="stable")
        rows = array_of(INT, order)
        columns = [pa.concat_arrays([b.column(j) for b in batches]).take(rows) for j in range(len(self._plain))]
        return pa.RecordBatch.from_arrays(columns, schema=self._plain), positions[order]

    def _border(self, epoch: int, until: int, noted: list[Noted]) -> None:
        context = self.context
        part = self._part or self._new_part(epoch)
        self._part = None
        rows = self.rows
        mark = digest(f"{until} {rows} {part.content()}".encode()) if context.recorder else None
        context.send([], "I-BORDER", noted, mark)
        lanes: list[Any] = []
        if self._reader is not None:
            self._reader.read(until)  # of pushes without an event there was no batch
            lanes = self._reader.offsets()
        self._unfinished.append((part, until, epoch))

        def make() -> Snapshot:
            faults.point("sink:staged")
            parts = [
                (str(staged.name), *found) for staged in self._staged if (found := _upto(staged, epoch)) is not None
            ]
            return Snapshot(context.name, epoch, until, about={"rows": rows, "parts": parts, "lanes": lanes})

        context.snapshot(make, epoch, part.held, mark)
        context.now = epoch + 1

    def _settle(self, last: int) -> None:
        """Have the rows of all epochs up to one on the disk; in the background, before their snapshots are written."""
        while self._unfinished and self._unfinished[0][2] <= last:
            part, until, epoch = self._unfinished[0]
            grown = None if self._growing is None else self._growing.part
            # One that is this part itself has only begun: the disk was full.
            if grown is not None and grown is not part and (self._apart or part.spilled or grown.closed):
                self._finish_part()
            if until > self._end or part.rows:
                if self._growing is None:
                    self._growing = StagedPart(part, [], self._end)
                whole, marks, first = self._growing.part, self._growing.marks, self._growing.first
                whole.absorb(part)
                rows = part.rows + (marks[-1].name.rows if marks else 0)
                name = PartName.of(self._owner, first, until, epoch, rows, whole.size, whole.crc)
                self._growing.mark(SinkMark(name, whole.size, whole.crc))
                self._end = until
            self._unfinished.pop(0)
        if self._growing is not None:
            self._finish_part()
        if self._unsynced:
            sync(self.folder)
            self._unsynced = False

    def _finish_part(self) -> None:
        assert self._growing is not None
        self._unsynced = True
        self._growing.part.finish(self.folder / str(self._growing.name))
        self._staged.append(self._growing)
        self._growing = None

    def _ends(self, epoch: int) -> int:
        """The last epoch of the part that has the rows of this one: before it is complete, neither can be committed."""
        return next((s.epochs[-1] for s in self._staged if s.epochs[0] <= epoch <= s.epochs[-1]), epoch)

    # ------------------------------------------------------------ committing

    def _commit(self) -> None:
        """Make all epochs that are due visible; in the background, after the snapshots that they waited for."""
        context = self.context
        count = 1 if faults.armed() else len(self._due)
        due, self._due = self._due[:count], self._due[count:]
        if not due:
            return  # they were committed together with others
        epoch = due[-1][0]
        parts = [(staged.name, self.folder / str(staged.name)) for staged in self._staged if staged.name.epoch <= epoch]
        if parts:
            if context.recorder is not None:
                new = {name.epoch for name, _ in parts}
                for number, acks in due:
                    if number in new:
                        consumed = [Noted(f"{ACK}{task}", number, True, mark) for task, mark in acks]
                        context.recorder.step("COMMIT", number, consumed=consumed)
            faults.point("sink:before-commit")
            if self.target.write(parts, context.run, parts[-1][0].until).skipped:
                self.target.release(parts)
            faults.point("sink:after-commit")
            del self._staged[: len(parts)]
        context.link.send(committed=epoch)


def _push_of(pushes: Any) -> Callable[[int], str]:
    """Names the push of the i-th event."""
    return lambda i: f"push {int(pushes[i]):,}"


def _upto(staged: StagedPart, epoch: int) -> tuple[str, int, int] | None:
    """What of a staged file belongs to the epochs up to one."""
    place = bisect_right(staged.epochs, epoch)
    if not place:
        return None
    name, size, crc = staged.marks[place - 1]
    return str(name), size, crc


class DeadLetterSink(SinkTask):
    """The sink of dead letters: an output like the others, in the order of the pushes.  More than ``max_bad`` end the
    run, and the epoch in which they are is committed nowhere."""

    def __init__(self, context: Context, job: Job, task: TaskPlan) -> None:
        super().__init__(context, job, task)
        self.key = {}
        self._most = job.settings.aside.most

    def _reader_of(self, job: Job) -> RowFinder:
        self._finder = RowFinder(job.open_all)
        return self._finder

    def _batch(self, found: list[tuple[int, Events]]) -> tuple[Any, Any]:
        sent = [letter for first, events in found for letter in from_events(first, events)]
        rows: list[tuple[int, BadRow]] = []
        for push, row in sorted(sent, key=lambda letter: letter[0]):
            whole = [row] if row.file else self._finder.found(push, row)
            rows += [(push, one) for one in whole]
        letters = [row for _, row in rows]
        if self._most is not None and self.rows + len(letters) > self._most:
            raise too_many(self.rows + len(letters), self._most, letters[:3])
        return table_of(letters), np.array([push for push, _ in rows], dtype=np.int64)


class MemberSink(SinkTask):
    """A sink that commits together with others: it prepares, reports that, and commits when the coordinator has
    decided.

    Its rows are staged in the state folder until they are committed, so it can always write a decided epoch once more,
    under the same number, which the target itself leaves out if it is there.  A commit that fails after the decision is
    tried again: the epoch is *unresolved* until then, other members do not wait, and later epochs queue in the state
    folder.  A target that cannot be reached before the decision is tried again, too; then no member has the epoch.
    """

    def __init__(self, context: Context, job: Job, task: TaskPlan) -> None:
        super().__init__(context, job, task)
        self._log, self._patience = DecisionLog(job.log_folder), job.settings.busy_at_most
        self._keeps_open = keeps_open(job, task.place)
        self._apart = True  # all members end a batch with the same epoch
        self._waits = self._patience_at(Span(0, 0))  # for a target that cannot be reached, in the round that is open
        # an epoch that is prepared: its attempt, what is open
        self._ready: tuple[int, str, Staged | None] | None = None

    def restore(self, snapshot: Snapshot | None) -> None:
        """What is decided is committed, what is not is taken back; then as every sink."""
        self._take_back()
        record, run = self._log.read(), self.context.run
        self._see_gone()
        if record is not None and snapshot is not None and not isinstance(self.target, FileTarget):
            # No epoch is decided before the one before it is everywhere: what lacks that has lost it.
            self._end = self.target.last(run) or 0
            had = min(snapshot.until, max(record.before, self._log.whole()))
            if self._end < had:
                self.context.behind(self._end, self._lost(had))
        super().restore(snapshot)

    def _lost(self, until: int) -> str:
        return (
            f"the member {self.place!r} ({self.target.place}) has less than its group: the rows of pushes "
            f"{self._end:,} to {until:,} were committed, and are not there any more (it was deleted, or restored from "
            "an older copy)"
        )

    def _command(self, command: dict[str, Any]) -> None:
        if "prepare" in command:
            span = Span(command["first"], command["prepare"])
            self._waits = waits = self._patience_at(span)
            self.context.soon(lambda: self._prepare(span, command["attempt"], waits))
        elif "commit" in command:
            span = Span(command["first"], command["commit"])
            self.context.soon(lambda: self._commit_decided(span, command["acks"]))
        elif "abort" in command:
            self._waits.stop.set()
            self.context.soon(self._give_up)
        else:
            super()._command(command)

    def _parts(self, epoch: int) -> list[Any]:
        staged = [one for one in self._staged if one.name.epoch <= epoch]
        return [(one.name, self.folder / str(one.name)) for one in staged]

    def _prepare(self, span: Span, attempt: str, waits: Patience) -> None:
        """Take the rows of all epochs up to one, so that only the last step is left."""
        self._ready, until, epoch = None, None, span.last
        parts = self._parts(epoch)
        if parts:
            until = parts[-1][0].until
            try:
                self._ready = waits.until_reached(lambda: self._prepared(epoch, attempt, parts), self._take_back)
            except Unreachable as error:
                if waits.stop.is_set():
                    return  # another member has refused: it says why
                raise Unreachable(
                    f"{span}: the member {self.place!r} cannot be reached, and is given up after "
                    f"{self._patience:g} s ({option('patience')}): no member has {span.it}: {error}. Nothing is lost: "
                    "when that is put right, the same command goes on"
                ) from error
            except (DataError, StateError) as error:
                raise type(error)(
                    f"{span}: the member {self.place!r} does not take {span.it}, so no member has {span.it}: {error}"
                ) from error
        faults.point("together:prepared")
        self.context.link.send(prepared=epoch, until=until)

    def _prepared(self, epoch: int, attempt: str, parts: Parts) -> tuple[int, str, Staged | None] | None:
        """What is ready then; None if the target has it already."""
        staged = self._staged_in_target(parts, parts[-1][0].until)
        if staged.skipped:
            return None
        try:
            faults.point("together:prepare")
            self.target.prepare(staged)
            if not self._keeps_open:
                self.target.abort(staged)
                return epoch, attempt, None
            return epoch, attempt, None if self.target.hold(staged, attempt) else staged
        except BaseException:
            self.target.abort(staged)
            raise

    def _patience_at(self, span: Span) -> Patience:
        def tell(error: Unreachable) -> None:
            self.context.link.send(
                say=f"{span}: {self.place} cannot be reached ({error}): it is tried again for "
                f"{self._patience:g} s, and until then no member has {span.it}"
            )

        def back() -> None:
            self.context.link.send(say=f"{span}: {self.place} is reached again")

        return Patience(self._patience, tell, self.context.alive, back)  # to wait for a server is no hang

    def _take_back(self) -> int:
        """What is left prepared and is not decided goes; what is decided is committed.  How many there were."""
        left, record = self.target.held(self.context.run), self._log.read()
        for batch, attempt in left:
            decided = record is not None and (batch, attempt) == (record.batch, record.attempt)
            self.target.settle(self.context.run, batch, attempt, commit=decided)
        return len(left)

    def _staged_in_target(self, parts: Parts, until: int) -> Staged:
        """If the run holds something there, an earlier attempt has prepared it after we had looked for it."""
        try:
            return self.target.stage(parts, self.context.run, until)
        except StateError:
            if not self._take_back():
                raise
            return self.target.stage(parts, self.context.run, until)

    def _give_up(self) -> None:
        """Another member cannot: nothing stays prepared."""
        if self._ready is not None:
            epoch, attempt, staged = self._ready
            if staged is not None:
                self.target.abort(staged)
            else:
                self.target.settle(self.context.run, self._parts(epoch)[-1][0].until, attempt, commit=False)
            self._ready = None
        self.context.link.send(aborted=True)

    def _commit_decided(self, span: Span, acks: list[list[Any]]) -> None:
        """The epoch is decided: make it visible, however often that has to be tried."""
        epoch = span.last
        context, parts = self.context, self._parts(epoch)
        if parts:
            span = Span(span.first or parts[0][0].epoch, epoch)
            if context.recorder is not None:
                consumed = [Noted(f"{ACK}{task}", epoch, True, mark) for task, mark in acks]
                context.recorder.step("COMMIT", epoch, consumed=consumed)
            until, turn = time.monotonic() + self._patience, 0
            while True:
                try:
                    faults.point("sink:before-commit")
                    self._commit_once(parts)
                    break
                except (PellucidError, OSError) as error:
                    if time.monotonic() >= until:
                        raise StateError(
                            f"{span} {span.are} decided, and unresolved: {self.target.place} does not have {span.it} "
                            f"after {self._patience:g} s: {error}. The other members have {span.it}, readers of "
                            f"read_together() do not see {span.it}, later epochs wait. Nothing is lost: when that is "
                            "put right, the same command goes on, and commits that first"
                        ) from None
                    context.link.send(unresolved=epoch, first=span.first, why=str(error))
                    time.sleep(AGAIN[min(turn, len(AGAIN) - 1)])
                    context.alive()  # to wait for a server is no hang
                    turn += 1
            faults.point("sink:after-commit")
            del self._staged[: len(parts)]
        context.link.send(committed=epoch)

    def _commit_once(self, parts: Parts) -> None:
        until, run, target = parts[-1][0].until, self.context.run, self.target
        ready, self._ready = self._ready, None
        if ready is not None and ready[2] is not None:
            try:
                target.commit(ready[2])
                return
            except BaseException:
                target.abort(ready[2])
                raise
        if ready is not None:
            self._ready = ready  # what is durable can be asked for again
            if target.settle(run, until, ready[1], commit=True):
                target.release(parts)
                self._ready = None
                return
        if target.write(parts, run, until).skipped:
            target.release(parts)
        self._ready = None
