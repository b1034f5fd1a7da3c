"""The coordinator: starts the tasks, has them watched, and brings all back after a crash.

It does no work on events, so it is small and rarely the one that dies; when it does, its tasks die with it, and the
same command goes on from the store.  Its rules:

* if a task dies or hangs (F-FAIL), all tasks are ended and started again from the greatest common epoch (F-RECOVER,
  `lcs`); what was snapshotted beyond it is removed before they go on, so that no later epoch is put together of two
  generations;
* nothing is removed or set aside before every task has found whole what it goes on with: a run that is refused, because
  something is missing or damaged, leaves the folder as it was, and goes on when that is brought back;
* crashes without a new epoch are counted: what going back does not cure ends the run, which can go on later.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid import errors
from pellucid.errors import DataError, StateError, option
from pellucid.internal.base import faults
from pellucid.internal.data.feed import uneven
from pellucid.internal.engine.epochs.chain import publish
from pellucid.internal.engine.epochs.dead_letters import BAD
from pellucid.internal.engine.epochs.group_commit import Rounds, Span, close_group, open_group
from pellucid.internal.engine.epochs.inputs import put_in_order
from pellucid.internal.engine.epochs.job import Job
from pellucid.internal.engine.epochs.messages import BEAT, Link
from pellucid.internal.engine.epochs.plan import sink_name
from pellucid.internal.engine.epochs.process import ChannelEnds, start_task
from pellucid.internal.engine.epochs.recording import COORDINATOR, Recorder, last_generation, seal, stored, write_trace
from pellucid.internal.engine.epochs.state_identity import identify, note_uncomparable
from pellucid.internal.engine.epochs.store import Damaged, stopped_by
from pellucid.internal.secrets import redact

# A generation: the tasks between two crashes, and the messages between them and the coordinator.
#
# * An epoch is *complete* when the snapshot of every task is durable (`gce`, Definition 4.2); only then the sinks
# may
#   commit it.
# * Tasks load what they go back to, and start when all have.
# * A task that dies or hangs ends the generation with a `Crash`; what comes then is the coordinator's business.
# * An error of the user's (a step that fails, a row that cannot be read) would come again: it ends the run.

_START = 60.0  # seconds in which a task has loaded its state
_TIDY = 0.25  # seconds between two looks at what can be removed


@dataclass
class Report:
    """What a run did."""

    pushes: int = 0
    epochs: int = 0
    resumed_from: int | None = None
    recoveries: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    began_at: int = 0  # pushes that were done before this command
    recovery_seconds: list[float] = field(default_factory=list)
    trace: str | None = None
    bad: int | None = None  # rows that were set aside
    forgotten: dict[str, int] = field(default_factory=dict)  # keys that were given up, by step, since the run began
    late: dict[str, int] = field(default_factory=dict)  # events that came too late, by step, since the run began
    undone: int = 0  # how often epochs were undone because an upstream gave up what they had read

    @property
    def rate(self) -> float:
        """Events of this command in a second."""
        return (self.pushes - self.began_at) / self.seconds if self.seconds > 0 else 0.0


class Crash(Exception):  # noqa: N818 - not an error of the program: what recovery is for
    """Some tasks are gone; ``lost`` names a snapshot that turned out to be damaged, ``behind`` a sink and the push up
    to which it has rows, ``undone`` the epoch after which all depends on what an upstream has given up;
    ``early``: an event was read that an upstream may still give up, and something failed on it."""

    def __init__(
        self, why: str, failed: list[str], lost: tuple[str, int] | None = None, behind: tuple[str, int] | None = None,
        undone: int | None = None, early: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(why)
        self.failed, self.lost, self.behind, self.undone, self.early = failed, lost, behind, undone, early


@dataclass
class Watched:
    """A running task, as the coordinator sees it."""

    name: str
    kind: str
    pid: int
    link: Link
    seen: float
    busy: float = 0.0
    ready: bool = False
    done: bool = False
    pushes: int = 0
    share: float | None = None
    ended: int | None = None  # of a source: the epoch of its last event
    rows: int = 0  # of a source that has ended: how many its input has
    border: int = 0
    commanded: int = 0  # of a sink: the epoch of the last command to commit
    committed: int = 0
    finished: bool = False


@dataclass(frozen=True)
class Callbacks:
    """What the coordinator calls: with messages to the user, with progress, and again and again in between."""

    say: Callable[[str], None]
    progress: Callable[[int, float | None, int], None]
    idle: Callable[[], None]


class Generation:
    """Tasks that were started from ``epoch``, with the marks of its snapshots; ``crashed_at`` says since when a
    recovery takes."""

    def __init__(self, job: Job, tasks: dict[str, Watched], epoch: int, marks: dict[str, dict[int, int | None]],
                 report: Report, callbacks: Callbacks, crashed_at: float | None,
                 go_back: Callable[[], None]) -> None:  # fmt: skip
        self.job, self.store, self.tasks, self.report, self.callbacks = job, job.store, tasks, report, callbacks
        self.complete = self.recorded = epoch
        self.marks = marks
        self.durable: dict[str, set[int]] = {name: {epoch} for name in tasks}
        self.ends: dict[str, dict[int, int]] = {name: {epoch: epoch} for name in tasks}
        self._crashed_at, self._go_back = crashed_at, go_back
        self._full_since: float | None = None
        self._finish_at: int | None = None  # the last epoch, once all sources have ended
        self._finishing = False
        self._tidied = 0.0
        names = {sink_name(member) for member in job.members}
        # Of sources that read other runs: up to which epoch all that they read is committed there.
        self._sure: dict[str, int] = {t.name: 0 for t in self._of("source")} if job.chained else {}
        self._rounds = (
            Rounds(job, {n: t for n, t in tasks.items() if n in names}, callbacks.say) if job.members else None
        )

    def watch(self) -> None:
        """Until all that the inputs hold is committed."""
        with selectors.DefaultSelector() as selector:
            for task in self.tasks.values():
                selector.register(task.link.end, selectors.EVENT_READ, task)
            looked = time.monotonic()
            while not all(t.finished for t in self._of("sink")):
                for key, _ in selector.select(BEAT):
                    self._hear(key.data, selector)
                self.callbacks.idle()
                now = time.monotonic()
                if now - looked >= BEAT:
                    self._check(now, now - looked)
                    looked = now
        if self._rounds is not None:
            self._rounds.finish()
        faults.point("coordinator:finished")
        self.store.write("progress.json", {"epoch": self.recorded, "until": self.report.pushes, "finished": True})
        for name in self.tasks:
            self.store.forget(name, keep=self.job.settings.snapshots, before=self.recorded)

    def _of(self, kind: str) -> list[Watched]:
        return [t for t in self.tasks.values() if t.kind == kind]

    def _hear(self, task: Watched, selector: selectors.BaseSelector) -> None:
        messages = task.link.receive()
        if messages is None:
            if not task.done:
                raise Crash(self._death(task), [task.name])
            selector.unregister(task.link.end)
            return
        task.seen = time.monotonic()
        for message in messages:
            self._obey(task, message)

    def _obey(self, task: Watched, message: dict[str, Any]) -> None:
        if "beat" in message:
            task.busy, task.pushes, task.share = message["beat"], message["pushes"], message["share"]
            self._show()
        elif "durable" in message:
            for epoch, digest, end in message["durable"]:
                self.marks[task.name][epoch], self.ends[task.name][epoch] = digest, end
                self.durable[task.name].add(epoch)
            self._completed(task)
        elif "committed" in message:
            task.committed = max(task.committed, message["committed"])
            if self._rounds is not None:
                self._rounds.committed()
            self._committed()
        elif "prepared" in message and self._rounds is not None:
            self._rounds.prepared(task.name, message["prepared"], message["until"])
        elif "unresolved" in message and self._rounds is not None:
            self._rounds.unresolved(task.name, Span(message["first"], message["unresolved"]), message["why"])
        elif "failed" in message:
            self._refused(task, message["failed"], message["why"])
        elif "border" in message:
            task.border = message["border"]
            self._drive_sources()
        elif "ended" in message:
            task.ended, task.pushes, task.rows = message["ended"], message["until"], message["rows"]
            for text in message["held"]:
                self.callbacks.say(text)
            self._drive_sources()
        elif "ready" in message:
            task.ready = True
            if all(t.ready for t in self.tasks.values()):
                self._recovered()
        elif "sure" in message:
            self._sure[task.name] = message["sure"]
            self._release(set.intersection(*self.durable.values()))
        elif "undone" in message:
            raise Crash(message["why"], [], undone=message["undone"])
        elif "say" in message:
            self.callbacks.say(message["say"])
        elif "damaged" in message:
            raise Crash(message["why"], [], lost=(task.name, message["damaged"]))
        elif "behind" in message:
            raise Crash(message["why"], [], behind=(task.name, message["behind"]))
        elif "error" in message:
            if self._rounds is not None:
                self._rounds.give_up(task.name)
            self._fail(message)
        elif "forgotten" in message:
            self.report.forgotten |= message["forgotten"]
        elif "late" in message:
            self.report.late |= message["late"]
        elif "finished" in message:
            task.finished = True
            name = task.name.partition(".")[2]
            if name == BAD and self.job.settings.aside:
                self.report.bad = message["rows"]
            else:
                self.report.rows[name] = message["rows"]
        elif "done" in message:
            task.done = True

    def _refused(self, task: Watched, epoch: int, why: str) -> None:
        """A disk is full: said once, until there is a new common epoch."""
        if self._full_since is None:
            self._full_since = time.monotonic()
            self.callbacks.say(
                f"the snapshot of {task.name} for epoch {epoch} could not be written ({why}): it is tried again; until "
                f"then epoch {self.complete} is the one to go back to"
            )

    def _recovered(self) -> None:
        """All tasks are where they were, and go on: what was complete and not yet committed is committed now."""
        self._go_back()
        for task in self.tasks.values():
            task.link.send(start=True)
        if self._crashed_at is not None:
            self.report.recovery_seconds.append(time.monotonic() - self._crashed_at)
        if self._rounds is not None:
            self._rounds.begin(self.complete, self._acks, self._allowed())
        for sink in self._alone() if not self._sure else ():
            if self.complete:
                sink.commanded = self.complete
                sink.link.send(commit=self.complete, acks=self._acks(self.complete))
        self._drive_sources()

    def _alone(self) -> list[Watched]:
        """The sinks that commit by themselves."""
        return [task for task in self._of("sink") if self._rounds is None or task.name not in self._rounds.names]

    def _acks(self, epoch: int) -> list[list[Any]]:
        for name, marks in self.marks.items() if self._rounds is not None and self.job.settings.record else ():
            if epoch not in marks:  # decided by a generation before: what it had heard is in the snapshots
                with contextlib.suppress(Damaged):
                    found = self.store.peek(name, epoch, run=self.job.run)
                    marks[epoch] = found.get("about", {}).get("digest")
        return [[name, marks[epoch]] for name, marks in self.marks.items() if marks.get(epoch) is not None]

    def _completed(self, task: Watched) -> None:
        common = set.intersection(*self.durable.values())
        epoch = max(common, default=0)
        if epoch <= self.complete:
            return
        self.complete, self._full_since = epoch, None
        self.report.epochs = epoch
        faults.point("coordinator:complete")
        self._release(common)

    def _allowed(self) -> int:
        """The last epoch that may be committed: one that is complete, and depends on nothing that may be given up."""
        return min([self.complete, *self._sure.values()])

    def _release(self, common: set[int]) -> None:
        """Tell the sinks what they may commit of the epochs that all tasks have."""
        epoch = self._allowed()
        if self._rounds is not None:
            self._rounds.offer(epoch)
        for sink in self._alone():
            # Epochs that a sink has staged in one file become visible together: when the last of them is complete.
            ready = max((end for end in self.ends[sink.name].values() if end <= epoch and end in common), default=0)
            if ready > sink.commanded:
                sink.commanded = ready
                sink.link.send(commit=ready, acks=self._acks(ready))

    def _committed(self) -> None:
        epoch = min(t.committed for t in self._of("sink"))
        if epoch > self.recorded and epoch <= self.complete:
            faults.point("coordinator:committed")
            self.recorded = epoch
            # Often enough for who looks; what is true is in the snapshots and at the sinks.
            if time.monotonic() - self._tidied > _TIDY or epoch == self._finish_at:
                self._tidied = time.monotonic()
                self.store.write("progress.json", {"epoch": epoch, "finished": False}, durable=False)
                if self.job.settings.record:
                    seal(self.store.root)
                faults.point("coordinator:recorded")
                for name in self.tasks:
                    self.store.forget(name, keep=self.job.settings.snapshots, before=epoch)
                    self.durable[name] = {e for e in self.durable[name] if e >= epoch}
                    self.ends[name] = {e: end for e, end in self.ends[name].items() if e >= epoch}
                    self.marks[name] = {e: m for e, m in self.marks[name].items() if e >= epoch}
        self._maybe_finish()

    def _drive_sources(self) -> None:
        """An input that has ended goes on with borders as long as another has events."""
        sources = self._of("source")
        live = [t for t in sources if t.ended is None]
        self._refuse_uneven(sources)
        if live:
            goal = max(t.border for t in sources)
            for task in sources:
                if task.ended is not None and task.border < goal:
                    task.link.send(go=goal)
            return
        if self._finish_at is None and all(t.ready for t in self.tasks.values()):
            self._finish_at = max(self.complete, *(t.ended or 0 for t in sources))
            self.report.pushes = max(self.report.pushes, *(t.pushes for t in sources))
            for task in sources:
                task.link.send(finish=self._finish_at)
        self._maybe_finish()

    def _refuse_uneven(self, sources: Sequence[Watched]) -> None:
        """Refuse an input that ends before another, unless it was said that it is silent from then on."""
        ended = min((t for t in sources if t.ended is not None), key=lambda t: t.rows, default=None)
        if self.job.settings.short == "silent" or ended is None:
            return
        longer = next((t for t in sources if (t.pushes if t.ended is None else t.rows) > ended.rows), None)
        if longer is not None:
            paths = [self.job.lanes[t.name.partition(".")[2]][0] for t in (ended, longer)]
            raise DataError(uneven(paths[0], ended.rows, paths[1]))

    def _maybe_finish(self) -> None:
        if self._finish_at is None or self._finishing or not all(t.ready for t in self.tasks.values()):
            return
        if self.recorded >= self._finish_at and min(t.committed for t in self._of("sink")) >= min(
            self._finish_at, self.complete
        ):
            self._finishing = True
            self.report.epochs = self._finish_at
            faults.point("coordinator:finish")
            for sink in self._of("sink"):
                sink.link.send(finish=True)

    def _show(self) -> None:
        sources = self._of("source")
        self.report.pushes = max([self.report.pushes, *(t.pushes for t in sources)])
        shares = [t.share for t in sources if t.share is not None]
        self.callbacks.progress(
            self.report.pushes - self.report.began_at, min(shares) if shares else None, self.complete + 1
        )

    def _check(self, now: float, passed: float) -> None:
        """Whether a task hangs, or a disk stays full."""
        patience = self.job.settings.busy_at_most
        if passed > 10 * BEAT:  # we were stopped ourselves: what came meanwhile is not read yet
            for task in self.tasks.values():
                task.seen = now
            return
        for task in self.tasks.values():
            silent = now - task.seen
            limit = patience if task.ready else max(patience, _START)
            if not task.done and (task.busy > limit or silent > limit):
                what = f"has not been heard of for {silent:.1f} s"
                if task.busy > limit:
                    what = f"has been busy for {task.busy:.1f} s"
                raise Crash(f"{task.name} hangs ({what}): killed", [task.name])
        if self._full_since is not None and now - self._full_since > patience:
            raise StateError(
                f"for {patience:g} s no snapshot could be written: is the disk of {self.store.root} full? Stopped "
                f"after epoch {self.complete}; nothing is lost: make room, and the same command goes on"
            )

    def _death(self, task: Watched) -> str:
        with contextlib.suppress(ChildProcessError):
            _, status = os.waitpid(task.pid, 0)
            task.pid = 0
            if os.WIFSIGNALED(status):
                return f"{task.name} was killed (signal {os.WTERMSIG(status)}): going back"
            return f"{task.name} ended by itself (exit code {os.WEXITSTATUS(status)}): going back"
        return f"{task.name} is gone: going back"

    def _fail(self, message: dict[str, Any]) -> None:
        """An error that would come again; unless it is about rows that may be given up."""
        kind, text = message["error"], message["text"]
        if kind in ("StepError", "DataError") and any(
            one.ahead and not one.finished() for one in self.job.chained.values()
        ):
            raise Crash(text, [], early=True)
        if kind == "internal":
            raise RuntimeError(f"{text}\n{message['trace']}")
        found: Any = getattr(errors, kind, StateError)
        if message.get("position", -1) >= 0:
            row = message["position"] + 1
            where = "; ".join(f"{path}: row {row:,}" for path, _ in self.job.lanes.values())
            raise found(f"{text}\n  from {where}", step=message["step"], position=message["position"])
        raise found(text)


_LARGE = 1 << 20  # bytes of input from which on the workers will want to compile


class Coordinator:
    """Runs a job to its end."""

    def __init__(
        self,
        job: Job,
        *,
        say: Callable[[str], None],
        progress: Callable[[int, float | None, int], None],
        idle: Callable[[], None],
    ) -> None:
        self.job, self.store = job, job.store
        self.say: Callable[[str], None] = lambda text: say(redact(text))
        self._callbacks = Callbacks(self.say, progress, idle)
        self.report = Report()
        self.generation = 0
        self.tasks: dict[str, Watched] = {}
        self._recorder: Recorder | None = None
        self._bad: dict[tuple[str, int], str] = {}  # snapshots that cannot be used, and why
        self._common: set[int] = set()  # epochs that all tasks have a snapshot of
        self._lacking: list[tuple[str, int]] = []  # snapshots that were there, and are gone
        self._behind: tuple[str, int, str] | None = (
            None  # a sink lacks rows from a push on that the snapshots have behind them
        )
        self._undo: int | None = None  # what comes after this epoch depends on what an upstream has given up
        self._began = time.monotonic()
        self._crashed_at: float | None = None

    def run(self) -> Report:
        """Until the inputs end, through whatever crashes."""
        try:
            self.store.open()
            goes_on = identify(self.job)
            unseen = note_uncomparable(self.job.graph)
            if unseen:
                self.say(unseen)
            self.store.sweep()
            publish(self.job)
            self._next_generation(goes_on)
            faults.arm(COORDINATOR, self.generation, os.getpid())
            faults.point("coordinator:start")
            put_in_order(self.job)
            if self.job.members:
                open_group(self.job, self.say)
            self._until_done()
            if self.job.members:
                close_group(self.job)
        except BrokenPipeError:
            raise  # what is written here is not read any more
        except OSError as error:
            raise StateError(stopped_by(error, self.store.root)) from None
        finally:
            self._end_tasks()
            self.report.seconds = time.monotonic() - self._began
            if self._recorder is not None:
                self._recorder.close()
            if self.job.settings.record:
                with contextlib.suppress(StateError, OSError):
                    seal(self.store.root)
                    self.report.trace = str(write_trace(self.store.root))
            self.store.close()
        return self.report

    def _next_generation(self, goes_on: bool) -> None:
        """Count this start: after a kill of the whole tree it is a recovery, too."""
        if not goes_on:
            self.store.write("generation", {"generation": 0})
            self._open_recorder()
            return
        self.generation = max(self.store.number("generation", "generation"), last_generation(self.store.root))
        self._open_recorder()
        if not self.store.hint("progress.json").get("finished"):
            self._note_failures([t.name for t in self.job.plan.tasks])
        self._count_up()

    def _count_up(self) -> None:
        faults.point("coordinator:recover")
        if self.job.settings.record:
            seal(self.store.root)
        self.generation += 1
        self.store.write("generation", {"generation": self.generation})
        self._open_recorder()
        faults.arm(COORDINATOR, self.generation, os.getpid())

    def _open_recorder(self) -> None:
        if self.job.settings.record:
            if self._recorder is not None:
                self._recorder.close()
            self._recorder = Recorder(self.store.root, COORDINATOR, self.generation)

    def _note_failures(self, names: list[str]) -> None:
        if self._recorder is not None:
            for name in names:
                self._recorder.step("F-FAIL", 0, task=name)

    # ------------------------------------------------------------ generations

    def _until_done(self) -> None:
        without_progress, best = 0, -1
        first = True
        while True:
            epoch = self._common_epoch()
            if first:
                self.report.resumed_from = epoch if self.generation else None
                if epoch:
                    self.say(f"going on after epoch {epoch}")
            first = False
            if epoch > best:
                without_progress, best = 0, epoch
            try:
                self._start(epoch).watch()
                return
            except Crash as crash:
                self._crashed_at = time.monotonic()
                self._end_tasks()
                self.store.sweep()
                if crash.lost is not None:
                    self._lose(*crash.lost, str(crash))
                elif crash.behind is not None:
                    # what was visible would be taken back: not without being told to
                    if not self.job.settings.from_start:
                        raise StateError(
                            f"{crash}. Bring that back from a copy, or read all input again with "
                            f"{option('from_start', True)}"
                        ) from None
                    self._behind = (*crash.behind, str(crash))
                    self.say(f"{crash}; taking an earlier epoch")
                elif crash.undone is not None:
                    self._undone(crash.undone, str(crash))
                    best = min(best, crash.undone)
                elif crash.early:
                    self._read_what_is_committed(str(crash))
                else:
                    self.say(str(crash))
                    without_progress += 1
                self._note_failures(crash.failed)
                self.report.recoveries += crash.undone is None and not crash.early
                if without_progress > self.job.settings.retries:
                    raise StateError(
                        f"{without_progress} crashes without a new epoch after epoch {best} (the last: {crash}): "
                        "something is wrong that going back does "
                        "not cure. Nothing is lost: when it is put right, the same command goes on"
                    ) from None
                self._count_up()

    def _undone(self, epoch: int, why: str) -> None:
        """An upstream has given up what was read after an epoch: all tasks go back there."""
        recorded = self.store.number("progress.json", "epoch")
        if recorded > epoch:
            raise StateError(
                f"{why}, and epoch {recorded} that is committed here depends on them: the upstream has made committed "
                "rows again, or its state folder was changed. Bring that back from a copy, or start anew in another "
                "state folder"
            )
        faults.point("chain:undo")
        self._undo = epoch
        self.report.undone += 1
        self.say(f"{why}: what depends on them is undone, going back to epoch {epoch}")

    def _read_what_is_committed(self, why: str) -> None:
        """Something failed on an event that may never have been: it counts when it fails on rows that are committed."""
        for upstream in self.job.chained.values():
            upstream.ahead = False
        self.say(
            f"{why}\n  this may be a row that the upstream gives up again: from here on rows are read when they are "
            "committed there"
        )

    def _common_epoch(self) -> int:
        """The greatest common epoch whose snapshots look whole, and which all sinks have the rows of; nothing is
        changed yet."""
        names = [t.name for t in self.job.plan.tasks]
        recorded = self.store.number("progress.json", "epoch")
        have: dict[str, dict[int, int]] = {name: {} for name in names}
        for name in names:
            for epoch in self.store.epochs(name):
                if (name, epoch) not in self._bad:
                    try:
                        have[name][epoch] = self.store.peek(name, epoch, run=self.job.run)["until"]
                    except Damaged as error:
                        self._lose(name, epoch, str(error))
        self._common = set.intersection(*(set(found) for found in have.values()))
        self._lacking = [
            (name, recorded)
            for name in names
            if recorded and recorded not in have[name] and (name, recorded) not in self._bad
        ]
        usable = self._common
        if self._behind is not None:
            usable = {epoch for epoch in usable if have[self._behind[0]][epoch] <= self._behind[1]}
        if self._undo is not None:
            usable = {epoch for epoch in usable if epoch <= self._undo}
        epoch = max(usable, default=0)
        newest = max(self._common | {recorded})
        if epoch < newest:
            lacking = [name for name in names if newest not in have[name]]
            bad = next((why for (_, at), why in sorted(self._bad.items(), reverse=True) if at == newest), "")
            what = f"epoch {newest} was complete, but its snapshot of {', '.join(lacking)} is missing or damaged"
            bad_tasks = {task for task, _ in self._bad}
            if lacking and not any(have[name] or name in bad_tasks for name in lacking):
                what = (
                    f"epoch {newest} was complete, but {', '.join(lacking)} has no snapshot of any epoch (it is new, "
                    "or its files are gone)"
                )
            if lacking and epoch == 0 and not self.job.settings.from_start:
                raise StateError(
                    f"{self.store.root}: {what}, and no earlier epoch is whole{f' ({bad})' if bad else ''}: bring the "
                    f"files back, or read all input again with {option('from_start', True)} (what is committed stays, "
                    "and is not written twice)"
                )
            if self._lacking:
                self.say(f"{what}: going back to epoch {epoch}")
        return epoch

    def _lose(self, task: str, epoch: int, why: str) -> None:
        self._bad[task, epoch] = why
        self.say(f"{why}; taking an earlier epoch")

    def _go_back(self, epoch: int) -> None:
        """All tasks have what they need of an epoch: what is of no use any more is set aside, and what is later is
        removed."""
        for task, bad in self._bad:
            if bad > epoch or self.store.path(task, bad) != self.store.path(task, epoch):
                self.store.set_aside(task, bad)
        lost = {*self._bad, *self._lacking}
        if self._recorder is not None:  # what the record says that all had, and some have not any more
            on_record = stored(self.store.root, self.generation)
            common = set.intersection(*(on_record.get(task, set()) for task in self.tasks))
            lost |= {
                (task, later)
                for task in self.tasks
                for later in common
                if later > epoch and later not in self.store.epochs(task)
            }
        if self._behind is not None:
            lost |= {(self._behind[0], later) for later in self._common if later > epoch}
        for task, bad in sorted(lost):
            self._note_lost(task, bad)
        self._bad, self._behind, self._undo, self._lacking = {}, None, None, []
        for task in self.tasks:
            self.store.go_back(task, epoch)
        if self._recorder is not None and self.generation:
            self._recorder.step("F-RECOVER", epoch)

    def _note_lost(self, task: str, epoch: int) -> None:
        if self._recorder is not None:
            self._recorder.step("F-LOST", epoch, task=task)

    # ------------------------------------------------------------ starting and ending tasks

    def _start(self, epoch: int) -> Generation:
        job = self.job
        faults.point("coordinator:fork")
        heads = {t.name: self.store.peek(t.name, epoch, run=job.run) if epoch else {} for t in job.plan.tasks}
        marks = {name: {epoch: head.get("about", {}).get("digest")} for name, head in heads.items()}
        floor = max((heads[t.name].get("until", 0) for t in job.plan.named("source")), default=0)
        self.report.pushes = floor
        if self.report.resumed_from == epoch and not self.report.began_at:
            self.report.began_at = floor
        self._warm()
        ends = ChannelEnds(job.plan)
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            for task in job.plan.tasks:
                pid = start_task(job, task, ends, epoch, floor, self.generation)
                link = Link(ends.coordinators[task.name])
                link.end.setblocking(False)
                self.tasks[task.name] = Watched(task.name, task.kind, pid, link, time.monotonic())
        finally:
            ends.close_tasks_ends()
        # Not for recovery: for a user who wants to look, or to send a signal.
        pids = {name: t.pid for name, t in self.tasks.items()}
        self.store.write(
            "tasks.json", {"coordinator": os.getpid(), "generation": self.generation, "tasks": pids}, durable=False
        )
        faults.point("coordinator:forked")
        crashed, self._crashed_at = self._crashed_at, None
        return Generation(
            job, self.tasks, epoch, marks, self.report, self._callbacks, crashed, lambda: self._go_back(epoch)
        )

    def _warm(self) -> None:
        """Load the compiler once, here, where all workers of all generations find it: it takes longer than a
        recovery."""
        size = sum(os.path.getsize(one.path) for files in self.job.files.values() for one in files)
        if size > _LARGE:
            with contextlib.suppress(ImportError):
                import numba  # noqa: F401

    def _end_tasks(self) -> None:
        for task in self.tasks.values():
            with contextlib.suppress(ProcessLookupError):
                if task.pid:
                    os.kill(task.pid, signal.SIGKILL)
        for task in self.tasks.values():
            if task.pid:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(task.pid, 0)
            task.link.end.close()
        self.tasks = {}
