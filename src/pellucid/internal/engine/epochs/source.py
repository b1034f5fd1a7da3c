"""A source: reads its inputs, gives pushes their numbers, and puts a border after every so many, or every so many
seconds.

Row *i* of every input is push *i*.  Batches end at the same pushes in all sources (every ``chunk`` pushes from the
start of an epoch, and at its border), so that a task that reads several finds batches that fit.  An input that has
ended still has borders as long as another has events: the coordinator says how far.

By event time an epoch is a batch: its border moves the clock, and what is late or complete depends on where it was.  So
an epoch that is made again must have the border it had, and what was decided there by wall-clock time (that a source is
idle) must be decided so again.  Every border is a line in the file ``borders`` of the state folder, which is durable
before any snapshot of its epoch is; a recovered source goes by these lines first (`EventTimeBorders`).
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pellucid.errors import DataError, StateError, option
from pellucid.internal.base import faults
from pellucid.internal.base.files import no_links, read_own, sync
from pellucid.internal.data.feed import uneven
from pellucid.internal.engine.epochs.dead_letters import STREAM, without_bad
from pellucid.internal.engine.epochs.messages import BORDER, EVENTS, ChannelMessage, Events, Outbox, take, workers_of
from pellucid.internal.engine.epochs.recording import digest
from pellucid.internal.engine.epochs.store import Snapshot, Store
from pellucid.internal.engine.epochs.task import Context, TaskProcess
from pellucid.internal.engine.timed.clock import feeders
from pellucid.internal.graph.model import Graph

if TYPE_CHECKING:
    from pellucid.internal.engine.epochs.job import Job
    from pellucid.internal.engine.epochs.plan import TaskPlan

FILE = "borders"


class BorderLine(NamedTuple):
    """A border by event time: the push before which it stands; the steps `at` that are idle there (no row in the epoch,
    and none for as long as was declared); those whose input has ended while others have not; whether it is the last."""

    epoch: int
    until: int
    idle: list[str]
    ended: list[str]
    end: bool

    def line(self) -> bytes:
        """As it is written down, with a checksum."""
        text = json.dumps(list(self))
        return f"{text} {zlib.crc32(text.encode()):08x}\n".encode()


def read_line(line: bytes) -> BorderLine | None:
    """A border that was written down; None if it is not whole.

    >>> line = BorderLine(3, 300, ["prices"], [], False).line()
    >>> read_line(line), read_line(line[:-4])
    (BorderLine(epoch=3, until=300, idle=['prices'], ended=[], end=False), None)
    """
    text, _, mark = line.rstrip(b"\n").rpartition(b" ")
    if not line.endswith(b"\n") or mark != f"{zlib.crc32(text):08x}".encode():
        return None
    return BorderLine(*json.loads(text))


class EventTimeBorders:
    """The borders of a run by event time, and the file that keeps them."""

    def __init__(self, store: Store, graph: Graph) -> None:
        self._store, self._path = store, store.root / FILE
        self._feeders = feeders(graph)
        timings = {at: graph[at].timing for at in self._feeders}
        self._idle = {at: t.idle / 1e6 for at, t in timings.items() if t is not None and t.idle is not None}
        self._since = dict.fromkeys((s for sources in self._feeders.values() for s in sources), time.monotonic())
        self._here: set[str] = set()  # the sources that have had a row in this epoch
        self._rows = dict.fromkeys(self._since, 0)  # of each source, for the status of a run
        self._heard: dict[str, float] = {}  # and when the last was read
        self._counts = True  # not where a version began the run that did not count them
        self._known: dict[int, BorderLine] = {}
        self._size = 0  # of the lines that are whole
        self._file: Any = None

    def restore(self, epoch: int, until: int, known: Mapping[str, Any] | None = None) -> None:
        """Read what was written down; nothing is changed yet.  ``known`` is what `sources` gave then."""
        self._counts = known is not None or not epoch
        for source, about in (known or {}).items():
            self._rows[source] = int(about["rows"] or 0)
            self._counts &= about["rows"] is not None
            if about["heard"] is not None:
                self._heard[source] = float(about["heard"])
        data = read_own(self._path) if self._path.exists() else b""
        last = 0
        for line in data.splitlines(keepends=True):
            border = read_line(line)
            if border is None or border.epoch != last + 1:
                break
            last = border.epoch
            if last >= epoch:
                self._known[last] = border
            self._size += len(line)
        needed = max(epoch, self._store.number("progress.json", "epoch"))
        if last < needed or (epoch and self._known[epoch].until != until):
            raise StateError(
                f"{self._path}: is damaged or missing, without which a run by event time cannot go on after epoch "
                f"{epoch} as it was: bring it back from a copy, or start again in another folder"
            )

    def begin(self) -> None:
        """From here on borders are written down."""
        new = not self._path.exists()
        self._file = open(self._path, "r+b" if not new else "xb", buffering=0, opener=no_links)  # noqa: SIM115
        self._file.truncate(self._size)
        self._file.seek(self._size)
        if new:
            sync(self._store.root)
        now = time.monotonic()
        self._since = dict.fromkeys(self._since, now)

    def settle(self, epoch: int) -> None:
        """Have what was written down on the disk, before a snapshot of these epochs is."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def stop(self, epoch: int) -> int | None:
        """Where an epoch ended before a crash; None if it is new."""
        return self._known[epoch].until if epoch in self._known else None

    def saw(self, rows: Mapping[str, int]) -> None:
        """So many rows of each source have come."""
        now, wall = time.monotonic(), time.time()
        for source, count in rows.items():
            if count:
                self._since[source], self._heard[source] = now, wall
                self._rows[source] = self._rows.get(source, 0) + count
                self._here.add(source)

    def sources(self) -> dict[str, Any]:
        """Of each source at a border, for the status of a run: how many rows were read, when the last
        was by wall-clock time, and whether one was in this epoch."""
        return {
            source: {
                "rows": rows if self._counts else None,
                "heard": self._heard.get(source),
                "here": source in self._here,
            }
            for source, rows in self._rows.items()
        }

    def decided(self, epoch: int, until: int, ended: set[str], end: bool) -> dict[str, Any]:
        """What the border of an epoch says: what it said before a crash, or what is so now."""
        if epoch not in self._known:
            now = time.monotonic()
            idle = [
                at
                for at, after in self._idle.items()
                if all(s not in self._here and now - self._since[s] >= after for s in self._feeders[at])
            ]
            over = [at for at, sources in self._feeders.items() if ended.issuperset(sources) and not end]
            self._known[epoch] = BorderLine(epoch, until, idle, over, end)
            self._file.write(self._known[epoch].line())
        self._here = set()
        self._known.pop(epoch - 2, None)
        found = self._known[epoch]
        return {"idle": found.idle, "ended": found.ended, "end": found.end}

    def ended(self, epoch: int, at: int, rows: bool, paths: Sequence[str]) -> None:
        """All inputs have ended at this push; refused where that does not fit what was before.  ``rows``: the epoch
        has some."""
        stop = self.stop(epoch)
        if rows and stop is not None and stop != at:
            raise DataError(
                f"{' and '.join(paths)}: the run in this state folder has read {stop:,} rows, and now there are "
                f"{at:,}: bring them back, give a greater {option('head')}, or start again in another folder"
            )
        if not rows and epoch > 1 and not self._known[epoch - 1].end:
            raise DataError(
                f"{' and '.join(paths)}: {at:,} rows were read before, and were not the end of the input; no row is "
                f"left whose epoch could be the last: give a greater {option('head')}, or none"
            )


class Borders:
    """When an epoch ends: after ``count`` pushes, or after ``seconds``, whichever is first."""

    def __init__(self, count: int | None, seconds: float | None) -> None:
        self.count, self.seconds = count, seconds
        self.begin = 0
        self.since = time.monotonic()
        self.stop: int | None = None

    def open(self, begin: int, stop: int | None = None) -> None:
        """An epoch begins with this push; it ends before ``stop``, if it was so before a crash."""
        self.begin, self.since, self.stop = begin, time.monotonic(), stop

    def room(self, at: int, chunk: int) -> int:
        """How many pushes the next batch may have: up to the next place on the grid."""
        next_grid = self.begin + ((at - self.begin) // chunk + 1) * chunk
        if self.stop is not None:
            return min(next_grid, self.stop) - at
        return min(next_grid, self.begin + self.count if self.count is not None else next_grid) - at

    def due(self, at: int) -> bool:
        """Whether the epoch ends before this push."""
        if at == self.begin:
            return False
        if self.stop is not None:
            return at >= self.stop
        timely = self.seconds is not None and time.monotonic() - self.since >= self.seconds
        return timely or (self.count is not None and at - self.begin >= self.count)


class SourceTask(TaskProcess):
    """Reads one input, or several in lock-step (with borders by time, which all must have at the same push)."""

    def __init__(self, context: Context, job: Job, task: TaskPlan, floor: int) -> None:
        super().__init__(context)
        s = job.settings
        self._borders, self._chunk, self._short = Borders(s.pushes, s.every), s.chunk, s.short
        self._times = EventTimeBorders(job.store, job.graph) if job.graph.timed else None
        self._lenient = bool(s.aside)  # rows that cannot be read are set aside
        self._alone = len(job.plan.named("source")) == 1  # no other source has to keep up with its borders
        self._floor = floor  # the push with which all sources resume
        self._channels = job.plan.outputs(task.name)
        # The first generation of this command looks at the file itself; later ones trust its size and time.
        self._open_lanes = partial(job.open_lanes, task.name, thorough=True)
        self.lanes: list[Any] = []  # a Lane, a ManyLane or a ChainLane for each input
        self.epoch, self.at = 1, 0

    def restore(self, snapshot: Snapshot | None) -> None:
        """Open the inputs where the snapshot left them."""
        offsets = snapshot.about["lanes"] if snapshot is not None else None
        self.lanes = self._open_lanes(offsets)
        if snapshot is not None:
            self.epoch, self.at = snapshot.epoch + 1, self._floor
            for lane, offset in zip(self.lanes, offsets or [], strict=True):
                if offset["ended"] and lane.row < self.at and lane.take(1)[0]:
                    raise DataError(
                        f"{lane.path}: has grown after it ended at row {lane.row - 1:,}, while another input went on "
                        f"to {self.at:,}: its new rows would belong to pushes that are done; start again in another "
                        "state folder"
                    )
        if self._times is not None:
            known = snapshot.about.get("sources") if snapshot is not None else None
            self._times.restore(self.epoch - 1, self.at, known)
        self._open()
        if self.context.generation:
            faults.point("source:replay")

    def begin(self) -> None:
        """From here on borders are written down, if they are."""
        if self._times is not None:
            self._times.begin()
            self.context.settle = self._times.settle

    def _open(self) -> None:
        """An epoch begins."""
        self._borders.open(self.at, None if self._times is None else self._times.stop(self.epoch))

    def _look(self) -> None:
        """By event time the end belongs to an epoch with rows: it must be known before a border is put."""
        if self._times is not None:
            for lane in self.lanes:
                lane.look()

    def run(self) -> None:
        """Read to the end; then go on with borders as the coordinator says."""
        context, borders = self.context, self._borders
        self._look()
        while not self._ended():
            count = self._room()
            most, found = self._take(self.lanes, count)
            self._refuse_uneven()
            if self._lenient and most:
                read = [lane.last for lane in self.lanes if lane.last is not None]
                found, found[STREAM] = without_bad(read, found, self.at)
            self._look()
            # With the last batch of an epoch goes its border.
            closes = borders.due(self.at + most) and not self._ended()
            if most:
                # A batch says that it goes to the grid's next place also where the input ends before: all sources
                # agree.
                self._send(found, self.at + count, closes and most == count and self._times is None)
                if self._times is not None:
                    self._times.saw({name: len(events) for name, events in found.items()})
                self.at += most
                context.pushes = self.at
                shares = [s for s in (lane.share() for lane in self.lanes) if s is not None]
                context.share = min(shares) if shares else None
            if closes:
                self._border()
        if self._times is not None:
            self._times.ended(self.epoch, self.at, self.at > borders.begin, [lane.path for lane in self.lanes])
        last = self.epoch if self.at > borders.begin else self.epoch - 1
        context.link.send(
            ended=last,
            until=self.at,
            rows=max(lane.row for lane in self.lanes),
            held=[text for lane in self.lanes if (text := lane.held_back()) is not None],
        )
        while True:
            command = self._command()
            goal = command.get("go", command.get("finish"))
            if goal is None:
                continue
            while self.epoch <= goal:
                self._border(end="finish" in command and self.epoch == goal)
            if "finish" in command:
                break
        context.end()

    def _room(self) -> int:
        """How many pushes the next batch may have."""
        return self._borders.room(self.at, self._chunk)

    def _take(self, lanes: Sequence[Any], count: int) -> tuple[int, dict[str, Events]]:
        """Up to so many rows of each input: how many the longest has, and the events of each source."""
        found: dict[str, Events] = {}
        most = 0
        for lane in lanes:
            have, events = lane.take(count)
            most = max(most, have)
            found |= events
        return most, found

    def _command(self) -> dict[str, Any]:
        """What the coordinator wants next."""
        return self.context.command()

    def _refuse_uneven(self) -> None:
        """Inputs that are read in lock-step by this task; the coordinator looks at those of several tasks."""
        rows = [lane.row for lane in self.lanes]
        if self._short == "fail" and min(rows) < max(rows):
            first, last = (self.lanes[rows.index(n)] for n in (min(rows), max(rows)))
            raise DataError(uneven(first.path, first.row, last.path))

    def _ended(self) -> bool:
        return all(lane.exhausted for lane in self.lanes)

    def _send(self, found: dict[str, Events], until: int, closes: bool) -> None:
        faults.point("source:read")
        messages: list[tuple[Outbox, ChannelMessage]] = []
        shares: dict[tuple[str, int], Any] = {}
        for box, channel in zip(self.context.outboxes, self._channels, strict=True):
            parts = {name: found[name] for name in channel.streams if name in found}
            if channel.share is not None:
                parts = {name: self._share(name, events, channel.share, shares) for name, events in parts.items()}
            messages.append((box, ChannelMessage(EVENTS, self.epoch, self.at, until, parts, closes=closes)))
        self.context.send(messages, "SOURCE")

    def _share(self, name: str, events: Events, share: tuple[int, int], known: dict[tuple[str, int], Any]) -> Events:
        mine, count = share
        if (name, count) not in known:
            assert events.keys is not None
            known[name, count] = workers_of(events.keys, count)
        return take(events, np.flatnonzero(known[name, count] == mine), self.at)

    def _border(self, end: bool = False) -> None:
        context, epoch = self.context, self.epoch
        faults.point("source:border")
        offsets = [lane.offset() for lane in self.lanes]
        mark = digest(json.dumps([[o["row"], o["ended"]] for o in offsets]).encode()) if context.recorder else None
        until = self.at
        about: dict[str, Any] = {"lanes": offsets, "at": time.time()}
        if self._times is not None:
            about["sources"] = self._times.sources()
            ended = {binding.source for lane in self.lanes if lane.exhausted for binding in lane.bound}
            decided = self._times.decided(epoch, until, ended, end)
            # The clock moves by an event of its own, the last of the epoch, with which its border travels: so a
            # recorded run says what was decided, and an audit that it was decided so again.
            ticks = [ChannelMessage(EVENTS, epoch, until, until, closes=True, clock=decided) for _ in context.outboxes]
            context.send(list(zip(context.outboxes, ticks, strict=True)), "SOURCE")
        borders = [(box, ChannelMessage(BORDER, epoch, until, until)) for box in context.outboxes]
        context.send(borders, "SOURCE", state=mark)
        if not self._alone:
            context.link.send(border=epoch)
        context.snapshot(lambda: Snapshot(context.name, epoch, until, about=about), epoch, 0, mark)
        self.epoch += 1
        context.now = self.epoch
        self._open()
