"""A generation: the tasks between two crashes, what they say to the coordinator, and what they are told.

* An epoch is *complete* when the snapshot of every task is durable (`gce`, Definition 4.2); only then the sinks may
  commit it.
* Tasks load what they go back to, and start when all have.
* A task that dies or hangs ends the generation with a `Crash`; what comes then is the coordinator's business.
* An error of the user's (a step that fails, a row that cannot be read) would come again: it ends the run.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid import errors
from pellucid.errors import DataError, StateError
from pellucid.internal.base import faults
from pellucid.internal.data.feed import uneven
from pellucid.internal.engine.epochs.job import Job
from pellucid.internal.engine.epochs.letters import BAD
from pellucid.internal.engine.epochs.plan import sink_name
from pellucid.internal.engine.epochs.recording import seal
from pellucid.internal.engine.epochs.store import Damaged
from pellucid.internal.engine.epochs.tasks.channels import BEAT, Link
from pellucid.internal.engine.epochs.together import Rounds, Span

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
    told: int = 0  # of a sink: the epoch that it was last told to commit
    committed: int = 0
    finished: bool = False


@dataclass(frozen=True)
class Told:
    """Whom the coordinator tells what: the user's messages, the progress line, and a look around between two of
    them."""

    say: Callable[[str], None]
    progress: Callable[[int, float | None, int], None]
    idle: Callable[[], None]


class Generation:
    """Tasks that were started from ``epoch``, with the marks of its snapshots; ``crashed_at`` says since when a
    recovery takes."""

    def __init__(self, job: Job, tasks: dict[str, Watched], epoch: int, marks: dict[str, dict[int, int | None]],
                 report: Report, told: Told, crashed_at: float | None,
                 go_back: Callable[[], None]) -> None:  # fmt: skip
        self.job, self.store, self.tasks, self.report, self.told = job, job.store, tasks, report, told
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
        self._rounds = Rounds(job, {n: t for n, t in tasks.items() if n in names}, told.say) if job.members else None

    def watch(self) -> None:
        """Until all that the inputs hold is committed."""
        with selectors.DefaultSelector() as selector:
            for task in self.tasks.values():
                selector.register(task.link.end, selectors.EVENT_READ, task)
            looked = time.monotonic()
            while not all(t.finished for t in self._of("sink")):
                for key, _ in selector.select(BEAT):
                    self._hear(key.data, selector)
                self.told.idle()
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
        elif "doubt" in message and self._rounds is not None:
            self._rounds.doubt(task.name, Span(message["first"], message["doubt"]), message["why"])
        elif "failed" in message:
            self._refused(task, message["failed"], message["why"])
        elif "border" in message:
            task.border = message["border"]
            self._drive_sources()
        elif "ended" in message:
            task.ended, task.pushes, task.rows = message["ended"], message["until"], message["rows"]
            for text in message["held"]:
                self.told.say(text)
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
            self.told.say(message["say"])
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
            self.told.say(
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
                sink.told = self.complete
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
        self.told.progress(
            self.report.pushes - self.report.began_at, min(shares) if shares else None, self.complete + 1
        )

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
            late = {name: one.after for name, one in self.job.chained.items()}
            rows = {name: message["position"] + 1 - late.get(name, 0) for name in self.job.lanes}
            where = "; ".join(f"{self.job.lanes[name][0]}: row {row:,}" for name, row in rows.items() if row > 0)
            raise found(f"{text}\n  from {where}", step=message["step"], position=message["position"])
        raise found(text)
