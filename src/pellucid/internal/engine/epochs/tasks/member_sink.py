"""A sink that commits together with others: it prepares, says so, and commits when the coordinator has decided.

Its rows are staged in the state folder until they are committed, so it can always write a decided epoch once more,
under the same number, which the target itself leaves out if it is there.  A commit that fails after the decision is
tried again: the epoch is *in doubt* until then, other members are not kept waiting, and later epochs queue in the state
folder.  A target that cannot be reached before the decision is tried again, too; then nobody has the epoch.
"""

from __future__ import annotations

import time
from typing import Any

from pellucid.errors import DataError, PellucidError, StateError, Unreachable, option
from pellucid.internal.base import faults
from pellucid.internal.engine.epochs.recording import ACK
from pellucid.internal.engine.epochs.recording import RecordedMessage as Noted
from pellucid.internal.engine.epochs.store import Snapshot
from pellucid.internal.engine.epochs.targets import FileTarget, Parts
from pellucid.internal.engine.epochs.tasks.sink import SinkTask
from pellucid.internal.engine.epochs.together import Span
from pellucid.sinks.group.log import DecisionLog
from pellucid.sinks.group.patience import AGAIN, Patience
from pellucid.sinks.interface import Staged


class MemberSink(SinkTask):
    """One member of a group of sinks."""

    def __init__(self, *about: Any, log: DecisionLog, patience: float, keeps_open: bool, **named: Any) -> None:
        super().__init__(*about, **named)
        self._log, self._patience, self._keeps_open = log, patience, keeps_open
        self._apart = True  # all members end a batch with the same epoch
        self._waits = self._patience_at(Span(0, 0))  # for a target that cannot be reached, in the round that is open
        self._ready: tuple[int, str, Staged | None] | None = (
            None  # an epoch that is prepared: its attempt, what is open
        )

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
                    f"{self._patience:g} s ({option('patience')}): nobody has {span.it}: {error}. Nothing is lost: "
                    "when that is put right, the same command goes on"
                ) from error
            except (DataError, StateError) as error:
                raise type(error)(
                    f"{span}: the member {self.place!r} does not take {span.it}, so nobody has {span.it}: {error}"
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
                f"{self._patience:g} s, and until then nobody has {span.it}"
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
        """If somebody holds the run there, it is what an earlier attempt has prepared after we had looked for it."""
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
                            f"{span} {span.are} decided, and in doubt: {self.target.place} does not have {span.it} "
                            f"after {self._patience:g} s: {error}. The other members have {span.it}, readers of "
                            f"read_together() do not see {span.it}, later epochs wait. Nothing is lost: when that is "
                            "put right, the same command goes on, and commits that first"
                        ) from None
                    context.link.send(doubt=epoch, first=span.first, why=str(error))
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
            self._ready = ready  # what lasts can be asked for again
            if target.settle(run, until, ready[1], commit=True):
                target.release(parts)
                self._ready = None
                return
        if target.write(parts, run, until).skipped:
            target.release(parts)
        self._ready = None
