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
import signal
import sys
import time
from collections.abc import Callable

from pellucid.errors import StateError, option
from pellucid.internal.base import faults
from pellucid.internal.engine.epochs.chain.upstream import publish
from pellucid.internal.engine.epochs.generation import Crash, Generation, Report, Told, Watched
from pellucid.internal.engine.epochs.job import Job
from pellucid.internal.engine.epochs.ordered import put_in_order
from pellucid.internal.engine.epochs.recording import COORDINATOR, Recorder, last_generation, seal, stored, write_trace
from pellucid.internal.engine.epochs.store import Damaged, stopped_by
from pellucid.internal.engine.epochs.tasks.channels import Link
from pellucid.internal.engine.epochs.tasks.process import ChannelEnds, start_task
from pellucid.internal.engine.epochs.together import close_group, open_group
from pellucid.internal.engine.epochs.whose import identify, told_unseen
from pellucid.internal.secrets import redact

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
        self._told = Told(self.say, progress, idle)
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
            unseen = told_unseen(self.job.graph)
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
            raise  # nobody reads what we say
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
        # Not for recovery: for whoever wants to look, or to send a signal.
        pids = {name: t.pid for name, t in self.tasks.items()}
        self.store.write(
            "tasks.json", {"coordinator": os.getpid(), "generation": self.generation, "tasks": pids}, durable=False
        )
        faults.point("coordinator:forked")
        crashed, self._crashed_at = self._crashed_at, None
        return Generation(job, self.tasks, epoch, marks, self.report, self._told, crashed, lambda: self._go_back(epoch))

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
