"""The coordinator: starts the tasks, watches them, commits epochs, and brings all back after a crash.

It does no work on events, so it is small and rarely the one that dies; when it does, its tasks die with it, and the same
command goes on from the store.  Its rules:

* an epoch is *complete* when the snapshot of every task is durable (`gce`, Definition 4.2); only then the sinks may commit it;
* if a task dies or hangs (F-FAIL), all tasks are ended and started again from the greatest common epoch (F-RECOVER, `lcs`);
  what was snapshotted beyond it is removed first, so that no later epoch is put together of two generations;
* an error of the user's (a step that fails, a row that cannot be read) would come again: the run stops, and can go on later.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pellucid import errors
from pellucid.engine.epochs import faults
from pellucid.engine.epochs.job import Job, identify
from pellucid.engine.epochs.process import Ends, start_task
from pellucid.engine.epochs.recording import COORDINATOR, Recorder, write_trace
from pellucid.engine.epochs.store import Damaged
from pellucid.engine.epochs.task import BEAT, Link
from pellucid.errors import StateError

__all__ = ["Coordinator", "Report"]

_LARGE = 1 << 20  # bytes of input from which on the workers will want to compile
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

    @property
    def rate(self) -> float:
        """Events of this command in a second."""
        return (self.pushes - self.began_at) / self.seconds if self.seconds > 0 else 0.0


class _Crash(Exception):  # noqa: N818 - not an error of the program: what recovery is for
    """Some tasks are gone; ``lost`` names snapshots that turned out to be damaged."""

    def __init__(self, why: str, failed: list[str], lost: tuple[str, int] | None = None) -> None:
        super().__init__(why)
        self.failed, self.lost = failed, lost


@dataclass
class _Watched:
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
    border: int = 0
    told: int = 0  # of a sink: the epoch that it was last told to commit
    committed: int = 0
    finished: bool = False


class Coordinator:
    """Runs a job to its end."""

    def __init__(
        self, job: Job, *, say: Callable[[str], None], progress: Callable[[int, float | None, int], None], idle: Callable[[], None]
    ) -> None:
        self.job, self.store = job, job.store
        self.say, self._progress, self._idle = say, progress, idle
        self.report = Report()
        self.generation = 0
        self.tasks: dict[str, _Watched] = {}
        self._recorder: Recorder | None = None
        self._began = time.monotonic()
        self._crashed_at: float | None = None
        self._tidied = 0.0

    def run(self) -> Report:
        """Until the inputs end, through whatever crashes."""
        self.store.open()
        try:
            goes_on = identify(self.job)
            self.store.sweep()
            self._next_generation(goes_on)
            faults.arm(COORDINATOR, self.generation, os.getpid())
            faults.point("coordinator:start")
            self._until_done()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise StateError(
                f"{self.store.root}: {error.strerror}. Nothing is lost: make room and run the same command again"
            ) from None
        finally:
            self._end_tasks()
            self.report.seconds = time.monotonic() - self._began
            if self._recorder is not None:
                self._recorder.close()
            if self.job.settings.record:
                with contextlib.suppress(StateError, OSError):
                    self.report.trace = str(write_trace(self.store.root))
            self.store.close()
        return self.report

    def _next_generation(self, goes_on: bool) -> None:
        """Count this start: after a kill of the whole tree it is a recovery, too."""
        before = self.store.read("generation") if goes_on else None
        if before is None:
            self.store.write("generation", 0)
            self._open_recorder()
            return
        finished = bool((self.store.read("progress.json") or {}).get("finished"))
        self.generation = int(before)
        self._open_recorder()
        if not finished:
            self._note_failures([t.name for t in self.job.plan.tasks])
        self._count_up()

    def _count_up(self) -> None:
        faults.point("coordinator:recover")
        self.generation += 1
        self.store.write("generation", self.generation)
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
            if self._recorder is not None and self.generation:
                self._recorder.step("F-RECOVER", epoch)
            if epoch > best:
                without_progress, best = 0, epoch
            try:
                self._start(epoch)
                self._watch(epoch)
                return
            except _Crash as crash:
                self._crashed_at = time.monotonic()
                self._end_tasks()
                if crash.lost is not None:
                    self._lose(*crash.lost, str(crash))
                else:
                    self.say(str(crash))
                    without_progress += 1
                self._note_failures(crash.failed)
                self.report.recoveries += 1
                if without_progress > self.job.settings.retries:
                    raise StateError(
                        f"{without_progress} crashes without a new epoch after epoch {best} (the last: {crash}): something is wrong that going back does "
                        "not cure. Nothing is lost: when it is put right, the same command goes on"
                    ) from None
                self._count_up()

    def _common_epoch(self) -> int:
        """The greatest common epoch whose snapshots look whole; everything beyond it is removed."""
        names = [t.name for t in self.job.plan.tasks]
        recorded = int((self.store.read("progress.json") or {}).get("epoch", 0))
        have: dict[str, set[int]] = {}
        lost: set[str] = set()
        for name in names:
            have[name] = set()
            for epoch in self.store.epochs(name):
                try:
                    self.store.peek(name, epoch, run=self.job.run)
                    have[name].add(epoch)
                except Damaged as error:
                    self._lose(name, epoch, str(error))
                    lost |= {name} if epoch == recorded else set()
        common = set.intersection(*have.values())
        epoch = max(common, default=0)
        if epoch < recorded:
            lacking = [name for name in names if recorded not in have[name]]
            what = f"epoch {recorded} was complete, but its snapshot of {', '.join(lacking)} is missing or damaged"
            if epoch == 0 and not self.job.settings.from_start:
                raise StateError(
                    f"{self.store.root}: {what}, and no earlier epoch is whole: bring the files in {self.store.root / 'snapshots'} back, or read all input "
                    "again with --from-start (what is committed stays, and is not written twice)"
                )
            self.say(f"{what}: going back to epoch {epoch}")
            for name in lacking:
                if name not in lost:
                    self._note_lost(name, recorded)
        for name in names:
            self.store.go_back(name, epoch)
        return epoch

    def _lose(self, task: str, epoch: int, why: str) -> None:
        self.say(f"{why}; taking an earlier epoch")
        self.store.set_aside(task, epoch)
        self._note_lost(task, epoch)

    def _note_lost(self, task: str, epoch: int) -> None:
        if self._recorder is not None:
            self._recorder.step("F-LOST", epoch, task=task)

    # ------------------------------------------------------------ starting and ending tasks

    def _start(self, epoch: int) -> None:
        job = self.job
        faults.point("coordinator:fork")
        heads = {t.name: self.store.peek(t.name, epoch, run=job.run) if epoch else {} for t in job.plan.tasks}
        self.marks = {name: {epoch: head.get("about", {}).get("digest")} for name, head in heads.items()}
        floor = max((heads[t.name].get("until", 0) for t in job.plan.named("source")), default=0)
        self.report.pushes = floor
        if self.report.resumed_from == epoch and not self.report.began_at:
            self.report.began_at = floor
        self._warm()
        ends = Ends(job.plan)
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            for task in job.plan.tasks:
                pid = start_task(job, task, ends, epoch, floor, self.generation)
                link = Link(ends.coordinators[task.name])
                link.end.setblocking(False)
                self.tasks[task.name] = _Watched(task.name, task.kind, pid, link, time.monotonic())
        finally:
            ends.close_tasks_ends()
        # Not for recovery: for whoever wants to look, or to send a signal.
        pids = {name: t.pid for name, t in self.tasks.items()}
        self.store.write("tasks.json", {"coordinator": os.getpid(), "generation": self.generation, "tasks": pids}, durable=False)
        faults.point("coordinator:forked")

    def _warm(self) -> None:
        """Load the compiler once, here, where all workers of all generations find it: it takes longer than a recovery."""
        size = sum(os.path.getsize(path) for path, _ in self.job.lanes.values())
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

    # ------------------------------------------------------------ watching

    def _watch(self, epoch: int) -> None:
        self.complete = self.recorded = epoch
        self.durable: dict[str, set[int]] = {name: {epoch} for name in self.tasks}
        self.ends: dict[str, dict[int, int]] = {name: {epoch: epoch} for name in self.tasks}
        self._full_since: float | None = None
        self._finish_at: int | None = None  # the last epoch, once all sources have ended
        self._finishing = False
        with selectors.DefaultSelector() as selector:
            for task in self.tasks.values():
                selector.register(task.link.end, selectors.EVENT_READ, task)
            looked = time.monotonic()
            while not all(t.finished for t in self._of("sink")):
                for key, _ in selector.select(BEAT):
                    self._hear(key.data, selector)
                self._idle()
                now = time.monotonic()
                if now - looked >= BEAT:
                    self._check(now, now - looked)
                    looked = now
        faults.point("coordinator:finished")
        self.store.write("progress.json", {"epoch": self.recorded, "until": self.report.pushes, "finished": True})
        for name in self.tasks:
            self.store.forget(name, keep=self.job.settings.keep, before=self.recorded)

    def _of(self, kind: str) -> list[_Watched]:
        return [t for t in self.tasks.values() if t.kind == kind]

    def _hear(self, task: _Watched, selector: selectors.BaseSelector) -> None:
        messages = task.link.receive()
        if messages is None:
            if not task.done:
                raise _Crash(self._death(task), [task.name])
            selector.unregister(task.link.end)
            return
        task.seen = time.monotonic()
        for message in messages:
            self._obey(task, message)

    def _obey(self, task: _Watched, message: dict[str, Any]) -> None:
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
            self._committed()
        elif "failed" in message:
            self._refused(task, message["failed"], message["why"])
        elif "border" in message:
            task.border = message["border"]
            self._drive_sources()
        elif "ended" in message:
            task.ended, task.pushes = message["ended"], message["until"]
            self._drive_sources()
        elif "ready" in message:
            task.ready = True
            if all(t.ready for t in self.tasks.values()):
                self._recovered()
        elif "damaged" in message:
            raise _Crash(message["why"], [], (task.name, message["damaged"]))
        elif "error" in message:
            self._fail(message)
        elif "finished" in message:
            task.finished = True
            self.report.rows[task.name.partition(".")[2]] = message["rows"]
        elif "done" in message:
            task.done = True

    def _refused(self, task: _Watched, epoch: int, why: str) -> None:
        """A disk is full: said once, until there is a new common epoch."""
        if self._full_since is None:
            self._full_since = time.monotonic()
            self.say(
                f"the snapshot of {task.name} for epoch {epoch} could not be written ({why}): it is tried again; until then epoch {self.complete} is "
                "the one to go back to"
            )

    def _recovered(self) -> None:
        """All tasks are where they were: what was complete and not yet committed is committed now."""
        if self._crashed_at is not None:
            self.report.recovery_seconds.append(time.monotonic() - self._crashed_at)
            self._crashed_at = None
        for sink in self._of("sink"):
            if self.complete:
                sink.told = self.complete
                sink.link.send(commit=self.complete, acks=self._acks(self.complete))
        self._drive_sources()

    def _acks(self, epoch: int) -> list[list[Any]]:
        return [[name, marks[epoch]] for name, marks in self.marks.items() if marks.get(epoch) is not None]

    def _completed(self, task: _Watched) -> None:
        if faults.planted("commit-before-snapshot") and task.kind == "sink":
            epoch = max(self.durable[task.name])
            task.link.send(commit=epoch, acks=self._acks(epoch))
        common = set.intersection(*self.durable.values())
        epoch = max(common, default=0)
        if epoch <= self.complete:
            return
        self.complete, self._full_since = epoch, None
        self.report.epochs = epoch
        faults.point("coordinator:complete")
        for sink in self._of("sink"):
            # Epochs that a sink has staged in one file become visible together: when the last of them is complete.
            ready = max((end for end in self.ends[sink.name].values() if end <= epoch and end in common), default=0)
            if ready > sink.told:
                sink.told = ready
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
                faults.point("coordinator:recorded")
                for name in self.tasks:
                    self.store.forget(name, keep=self.job.settings.keep, before=epoch)
                    self.durable[name] = {e for e in self.durable[name] if e >= epoch}
                    self.ends[name] = {e: end for e, end in self.ends[name].items() if e >= epoch}
                    self.marks[name] = {e: m for e, m in self.marks[name].items() if e >= epoch}
        self._maybe_finish()

    def _drive_sources(self) -> None:
        """An input that has ended goes on with borders as long as another has events."""
        sources = self._of("source")
        live = [t for t in sources if t.ended is None]
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

    def _maybe_finish(self) -> None:
        if self._finish_at is None or self._finishing or not all(t.ready for t in self.tasks.values()):
            return
        if self.recorded >= self._finish_at and min(t.committed for t in self._of("sink")) >= min(self._finish_at, self.complete):
            self._finishing = True
            self.report.epochs = self._finish_at
            faults.point("coordinator:finish")
            for sink in self._of("sink"):
                sink.link.send(finish=True)

    def _show(self) -> None:
        sources = self._of("source")
        self.report.pushes = max([self.report.pushes, *(t.pushes for t in sources)])
        shares = [t.share for t in sources if t.share is not None]
        self._progress(self.report.pushes - self.report.began_at, min(shares) if shares else None, self.complete + 1)

    def _check(self, now: float, passed: float) -> None:
        """Whether somebody hangs, or a disk stays full."""
        patience = self.job.settings.patience
        if passed > 10 * BEAT:  # we were stopped ourselves: what came meanwhile is not read yet
            for task in self.tasks.values():
                task.seen = now
            return
        for task in self.tasks.values():
            silent = now - task.seen
            limit = patience if task.ready else max(patience, _START)
            if not task.done and (task.busy > limit or silent > limit):
                what = f"has been busy for {task.busy:.1f} s" if task.busy > limit else f"has not been heard of for {silent:.1f} s"
                raise _Crash(f"{task.name} hangs ({what}): killed", [task.name])
        if self._full_since is not None and now - self._full_since > patience:
            raise StateError(
                f"for {patience:g} s no snapshot could be written: is the disk of {self.store.root} full? Stopped after epoch {self.complete}; nothing is lost: "
                "make room, and the same command goes on"
            )

    def _death(self, task: _Watched) -> str:
        with contextlib.suppress(ChildProcessError):
            _, status = os.waitpid(task.pid, 0)
            task.pid = 0
            if os.WIFSIGNALED(status):
                return f"{task.name} was killed (signal {os.WTERMSIG(status)}): going back"
            return f"{task.name} ended by itself (exit code {os.WEXITSTATUS(status)}): going back"
        return f"{task.name} is gone: going back"

    def _fail(self, message: dict[str, Any]) -> None:
        """An error that would come again."""
        kind, text = message["error"], message["text"]
        if kind == "internal":
            raise RuntimeError(f"{text}\n{message['trace']}")
        found: Any = getattr(errors, kind, StateError)
        if "position" in message:
            row = f"row {message['position'] + 1:,}"
            where = "; ".join(f"{path}: {row}" for path, _ in self.job.lanes.values())
            raise found(f"{text}\n  from {where}", step=message["step"], position=message["position"])
        raise found(text)


