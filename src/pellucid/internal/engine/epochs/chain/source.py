"""A source that reads other runs: it waits for rows, and tells the coordinator which epochs may be committed.

It is one task for all inputs, so that those that have rows wait for those that have not: row *i* of each is push *i*.
An epoch may be committed (``sure``) when all that it has read is committed upstream; if something of it was given up
there, the coordinator is told how far to go back (``undone``).

Inputs with a delay do not keep a run going: it ends when the others have.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Sequence
from typing import Any

from pellucid.internal.base import faults
from pellucid.internal.engine.epochs.chain.lane import ChainLane, Undone
from pellucid.internal.engine.epochs.tasks.messages import Events
from pellucid.internal.engine.epochs.tasks.source import SourceTask
from pellucid.internal.engine.epochs.tasks.task import wait_for_the_end

_SOON, _LATE = 0.004, 0.05  # seconds between two looks at an upstream: after something happened, and after long silence
_SILENT = 5.0  # seconds after which it is looked whether anybody runs there


class ChainSource(SourceTask):
    """Reads the rows of other runs, and files beside them."""

    _told = -1  # the epoch that the coordinator was last told to be sure
    _looked = 0.0
    _pause = _SOON
    _since: float | None = None  # nothing has come since
    _said = False

    def _chained(self) -> list[ChainLane]:
        return [lane for lane in self.lanes if isinstance(lane, ChainLane)]

    def _delayed(self) -> list[ChainLane]:
        return [lane for lane in self._chained() if lane.delay]

    def _leading(self) -> list[Any]:
        return [lane for lane in self.lanes if not (isinstance(lane, ChainLane) and lane.delay)]

    def run(self) -> None:
        """As every source; and then until all that was read is sure."""
        super().run()
        while self._told < self.epoch - 1:
            self._rest()
            self._tend()

    def _ended(self) -> bool:
        return all(lane.exhausted for lane in self._leading())

    def _take(self, lanes: Sequence[Any], count: int) -> tuple[int, dict[str, Events]]:
        """Of an input with a delay no more than the others have."""
        most, found = super()._take(self._leading(), count)
        late = self._delayed()
        return (most, found) if not late else (most, {**found, **super()._take(late, most)[1]})

    def _reached(self, lane: Any) -> int:
        return lane.push if isinstance(lane, ChainLane) else super()._reached(lane)

    def _room(self) -> int:
        """How many pushes the next batch may have: as many as all upstreams have rows for; 0 where the
        epoch, or the input, ends first."""
        most = super()._room()
        for lane in self._leading() if self._delayed() else ():
            lane.look()
        while not self._ended():
            self._tend()
            waited_for = [lane for lane in self._chained() if not lane.exhausted]
            if not waited_for:
                return most
            have = min(lane.available(most) for lane in waited_for)
            if have:
                self._since, self._said = None, False
                return have
            if self._borders.due(self.at) or self._ended():
                return 0
            self._rest()
            self._tell_silence(waited_for)
        return 0

    def _border(self, end: bool = False) -> None:
        for lane in self._chained():
            lane.close_epoch(self.epoch)
        super()._border(end)
        self._pause = _SOON

    def _command(self) -> dict[str, Any]:
        while True:
            try:
                with self.context.waiting():
                    return self.context._commands.get(timeout=self._pause)
            except queue.Empty:
                self._pause = min(_LATE, self._pause * 1.5)
                self._tend()

    def _rest(self) -> None:
        with self.context.waiting():
            time.sleep(self._pause)
        self._pause = min(_LATE, self._pause * 1.5)

    def _tend(self) -> None:
        """Look at the upstreams, not too often; tell what has become sure, or what was given up."""
        now = time.monotonic()
        if now - self._looked < _SOON and not faults.armed():
            return
        self._looked = now
        try:
            for lane in self._chained():
                lane.check(self.epoch)
        except Undone as undone:
            self.context.busy_since = None
            self.context.link.send(undone=undone.epoch, why=str(undone))
            wait_for_the_end()
        sure = min(lane.sure(self.epoch - 1) for lane in self._chained())
        if sure > self._told:
            faults.point("chain:sure")
            self._told, self._pause = sure, _SOON
            self.context.link.send(sure=sure)

    def _tell_silence(self, waited_for: list[ChainLane]) -> None:
        """Say once that nothing comes because nobody runs there."""
        now = time.monotonic()
        self._since = self._since or now
        if self._said or now - self._since < _SILENT:
            return
        self._said = True
        for lane in waited_for:
            if not lane.upstream.running():
                self.context.link.send(
                    say=f"{lane.path}: waiting for rows, and no run is alive there: start it again with its own command"
                )
