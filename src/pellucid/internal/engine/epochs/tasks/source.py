"""A source: reads its inputs, gives pushes their numbers, and puts a border after every so many, or every so many
seconds.

Row *i* of every input is push *i*.  Batches end at the same pushes in all sources (every ``chunk`` pushes from the
start of an epoch, and at its border), so that whoever reads several finds batches that fit.  An input that has ended
goes on with borders as long as another has events: the coordinator says how far.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid.errors import DataError
from pellucid.internal.base import faults
from pellucid.internal.data.feed import uneven
from pellucid.internal.engine.epochs.letters import STREAM, without_bad
from pellucid.internal.engine.epochs.plan import Channel
from pellucid.internal.engine.epochs.recording import digest
from pellucid.internal.engine.epochs.store import Snapshot
from pellucid.internal.engine.epochs.tasks.channels import Outbox
from pellucid.internal.engine.epochs.tasks.messages import BORDER, EVENTS, ChannelMessage, Events, take, workers_of
from pellucid.internal.engine.epochs.tasks.task import Context, TaskProcess
from pellucid.internal.engine.epochs.tasks.times import TimesTold


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

    def __init__(
        self,
        context: Context,
        make: Any,
        channels: Sequence[Channel],
        borders: Borders,
        chunk: int,
        floor: int,
        *,
        alone: bool = False,
        short: str = "fail",
        lenient: bool = False,
        times: TimesTold | None = None,
    ) -> None:
        super().__init__(context)
        self._times = times  # in a pipeline by event time: what is told with borders
        self._lenient = lenient  # rows that cannot be read are set aside
        self._short = short
        self._alone = alone  # no other source has to keep up with its borders
        self._floor = floor  # the push with which all sources go on
        self._make, self._channels, self._borders, self._chunk = make, channels, borders, chunk
        self.lanes: list[Any] = []  # a Lane, a ManyLane or a ChainLane for each input
        self.epoch, self.at = 1, 0

    def restore(self, snapshot: Snapshot | None) -> None:
        """Open the inputs where the snapshot left them."""
        offsets = snapshot.about["lanes"] if snapshot is not None else None
        self.lanes = self._make(offsets)
        if snapshot is not None:
            self.epoch, self.at = snapshot.epoch + 1, self._floor
            for lane, offset in zip(self.lanes, offsets or [], strict=True):
                if offset["ended"] and self._reached(lane) < self.at and lane.take(1)[0]:
                    raise DataError(
                        f"{lane.path}: has grown after it ended at row {lane.row - 1:,}, while another input went on "
                        f"to {self.at:,}: its new rows would belong to pushes that are done; start anew in another "
                        "state folder"
                    )
        if self._times is not None:
            met = snapshot.about.get("sources") if snapshot is not None else None
            self._times.restore(self.epoch - 1, self.at, met)
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
            rows=max(map(self._reached, self.lanes)),
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

    def _reached(self, lane: Any) -> int:
        """The push that takes the next row of an input."""
        return int(lane.row)

    def _command(self) -> dict[str, Any]:
        """What the coordinator wants next."""
        return self.context.command()

    def _refuse_uneven(self) -> None:
        """Inputs that are read in lock-step by this task; the coordinator looks at those of several tasks."""
        rows = [self._reached(lane) for lane in self.lanes]
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
            about["sources"] = self._times.met()
            ended = {binding.source for lane in self.lanes if lane.exhausted for binding in lane.bound}
            told = self._times.told(epoch, until, ended, end)
            # The clock moves by an event of its own, the last of the epoch, with which its border travels: so a
            # recorded run says what was told, and an audit that it was told so again.
            ticks = [ChannelMessage(EVENTS, epoch, until, until, closes=True, told=told) for _ in context.outboxes]
            context.send(list(zip(context.outboxes, ticks, strict=True)), "SOURCE")
        context.send(
            [(box, ChannelMessage(BORDER, epoch, until, until)) for box in context.outboxes],
            "SOURCE",
            (),
            mark,
        )
        if not self._alone:
            context.link.send(border=epoch)
        context.snapshot(lambda: Snapshot(context.name, epoch, until, about=about), epoch, 0, mark)
        self.epoch += 1
        context.now = self.epoch
        self._open()
