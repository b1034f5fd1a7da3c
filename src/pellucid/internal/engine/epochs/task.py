"""The process around a task: its link to the coordinator, its heartbeat, and the thread that makes snapshots durable.

A task must never outlive its coordinator: the kernel sends it SIGKILL when the parent dies (Linux), and everywhere the
closed link ends it.  Ctrl-C is the coordinator's business; tasks do not hear it.

The heartbeat says since when the task has been *busy*.  A task that waits (for input, for a slow reader) is well,
however long it waits; one that is busy for longer than the coordinator's patience hangs.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import queue
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.errors import PellucidError, StepError, from_outside, out_of_memory
from pellucid.internal.base import faults
from pellucid.internal.engine.epochs.messages import (
    BEAT,
    BORDER,
    END,
    EVENTS,
    ChannelMessage,
    Gone,
    Inbox,
    Link,
    Outbox,
)
from pellucid.internal.engine.epochs.recording import ACK, Recorder
from pellucid.internal.engine.epochs.recording import RecordedMessage as Noted
from pellucid.internal.engine.epochs.store import Damaged, Snapshot, Store, full, stopped_by
from pellucid.internal.secrets import redact

_MANY, _MUCH = 64, 64 << 20  # so many snapshots, or bytes of them, may wait for the disk
_LINGER = 0.2  # seconds between two writes of snapshots, where borders come that fast
_AGAIN = 0.5  # seconds until a snapshot that could not be written is tried again
_TURN = 0.0005  # seconds: what is done in the background must not keep the task waiting
_PR_SET_PDEATHSIG = 1


class _Waiting:
    """While a task is in it, it is not busy."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._context.busy_since = None

    def __exit__(self, *about: object) -> None:
        self._context.busy_since = time.monotonic()


@dataclass
class Context:
    """What a task has around it."""

    name: str
    run: str
    generation: int
    epoch: int  # the snapshot to go back to
    store: Store
    link: Link
    inboxes: list[Inbox]
    outboxes: list[Outbox]
    recorder: Recorder | None

    def __post_init__(self) -> None:
        self.pushes = 0  # how far this task is, for the progress line
        self.now = self.epoch + 1  # the epoch it works on
        self.busy_since: float | None = time.monotonic()
        self._waiting = _Waiting(self)
        self._job_since: float | None = None  # the same for the background
        self.share: float | None = None  # of a source: how much of its input is read
        self._jobs: queue.Queue[Callable[[], None]] = queue.Queue()
        self._changed = threading.Condition()
        self._pending: list[
            tuple[int, Callable[[], Snapshot]]
        ] = []  # snapshots that are not on their way to the disk yet
        self._pending_bytes = 0
        self._saved_at = 0.0
        self._commands: queue.Queue[dict[str, Any]] = queue.Queue()
        self._held: list[tuple[Outbox, list[Any]]] = []
        self.hurry = False  # nothing more comes that could be written together
        # what must be durable before the snapshots up to an epoch are
        self.settle: Callable[[int], None] = lambda epoch: None
        self.ends: Callable[[int], int] = lambda epoch: epoch  # the epoch together with which this one can be committed
        self.on_command: Callable[[dict[str, Any]], None] = self._commands.put
        self._writer = threading.Thread(target=self._work, name="snapshots", daemon=True)
        self._writer.start()
        threading.Thread(target=self._listen, name="link", daemon=True).start()

    # ------------------------------------------------------------ waiting

    def waiting(self) -> _Waiting:
        """Whatever takes long inside is no hang."""
        return self._waiting

    def alive(self) -> None:
        """Whatever this thread waited for has given a sign of life: that is no hang."""
        if threading.current_thread() is self._writer:
            self._job_since = time.monotonic()
        elif self.busy_since is not None:
            self.busy_since = time.monotonic()

    def command(self) -> dict[str, Any]:
        """The next thing that the coordinator wants; waits for it."""
        with self.waiting():
            return self._commands.get()

    def _listen(self) -> None:
        last = 0.0
        while True:
            ready = select.select([self.link.end], [], [], BEAT)[0]
            now = time.monotonic()
            if now - last >= BEAT:
                since = min((s for s in (self.busy_since, self._job_since) if s is not None), default=now)
                self.link.send(beat=now - since, pushes=self.pushes, epoch=self.now, share=self.share)
                last = now
            if ready:
                commands = self.link.receive()
                if commands is None:
                    os._exit(3)  # the coordinator is gone
                for command in commands:
                    self.on_command(command)

    # ------------------------------------------------------------ messages

    def send(
        self,
        messages: Sequence[tuple[Outbox, ChannelMessage]],
        rule: str,
        consumed: Sequence[Noted] = (),
        state: int | None = None,
    ) -> None:
        """Write the step down, then send what it produced.  Batches that close an epoch wait for the step of its
        border."""
        held, self._held = self._held, []
        if held:
            for box, message in messages:
                box.prepare_closing(message)
            prepared = held
        else:
            prepared = [(box, box.prepare(message)) for box, message in messages]
        if self.recorder is not None:
            produced = [m.noted(box.name) for box, m in messages]
            epoch = messages[0][1].epoch if messages else self.now
            self.recorder.step(rule, epoch, consumed=consumed, produced=produced, state=state)
        if messages and messages[0][1].closes:
            self._held = prepared
            return
        with self.waiting():
            for box, pieces in prepared:
                box.send(pieces)

    def next(self) -> tuple[str, int, list[tuple[Inbox, ChannelMessage]]]:
        """What the inputs bring next: batches of the same pushes, or the border of all inputs, or the end.

        An input whose border has come is not read until all have theirs: the alignment of the protocol.
        """
        with self.waiting():
            for box in self.inboxes:
                if box.head is None:
                    box.head = box.get()
        if len(self.inboxes) == 1 and (only := self.inboxes[0].head) is not None:
            self.inboxes[0].head = None
            return only.kind, only.until, [(self.inboxes[0], only)]
        heads = [(box, box.head) for box in self.inboxes if box.head is not None]
        batches = [(box, message) for box, message in heads if message.kind == EVENTS]
        if not batches:
            kinds = {(m.kind, m.epoch if m.kind == BORDER else 0) for _, m in heads}
            if len(kinds) != 1:
                raise RuntimeError(f"{self.name}: the inputs do not agree: {sorted(kinds)}")
            batches = heads
        elif len({(m.epoch, m.until) for _, m in batches}) != 1:
            raise RuntimeError(f"{self.name}: the inputs bring batches of different pushes")
        for box, _ in batches:
            box.head = None
        kind = batches[0][1].kind
        return kind, max(m.until for _, m in batches), batches

    def end(self) -> None:
        """Tell all readers that nothing comes any more, and let all snapshots become durable."""
        with self.waiting():
            for box in self.outboxes:
                box.send(box.prepare(ChannelMessage(END, 0)))
        self.flush()

    # ------------------------------------------------------------ snapshots

    def numbers(self) -> dict[str, int]:
        """How many messages there have been on each stream: the paper's N."""
        return {b.name: b.taken for b in self.inboxes} | {b.name: b.sent for b in self.outboxes}

    def snapshot(self, make: Callable[[], Snapshot], epoch: int, size: int, digest: int | None) -> None:
        """Make a snapshot durable, in the background; then report it to the coordinator.

        Snapshots that wait become durable together.  Where they cannot be written (a full disk), the coordinator is
        told that, and the newest is tried again until it works.
        """
        numbers = self.numbers()

        def made() -> Snapshot:
            snapshot = make()
            snapshot.numbers = numbers
            if digest is not None:
                snapshot.about["digest"] = digest
            return snapshot

        with self.waiting(), self._changed:
            while len(self._pending) >= _MANY or (self._pending and self._pending_bytes + size > _MUCH):
                self._changed.wait()
            self._pending.append((epoch, made))
            self._pending_bytes += size
            first = len(self._pending) == 1
            if self._enough():
                self._changed.notify_all()
        if first or faults.armed():
            self.soon(self._save_pending)

    def _enough(self) -> bool:
        """Whether there is no use in waiting for more snapshots to be written together."""
        return self.hurry or len(self._pending) >= _MANY // 2 or self._pending_bytes >= _MUCH // 2

    def _save_pending(self) -> None:
        told = False
        # Where epochs are short, let some come together: a sync costs the same for one and for many.
        if not faults.armed():
            with self._changed:
                left = min(_LINGER, self._saved_at + _LINGER - time.monotonic())
                self._changed.wait_for(self._enough, max(0.0, left))
        while True:
            with self._changed:
                count = 1 if faults.armed() else len(self._pending)
                waiting, self._pending = self._pending[:count], self._pending[count:]
                self._pending_bytes = 0
                self._changed.notify_all()
            if not waiting:
                return
            if told and self._pending:
                continue  # there is a newer one
            try:
                self.settle(waiting[-1][0])
                snapshots = [made() for _, made in waiting]
                self.store.save(*snapshots, run=self.run)
                self._saved_at = time.monotonic()
                break
            except OSError as error:
                if not full(error):
                    raise
                if not told:
                    self.link.send(failed=waiting[-1][0], why=error.strerror or str(error))
                told = True
                time.sleep(_AGAIN)
                self._job_since = time.monotonic()  # a full disk is no hang
                with self._changed:
                    self._pending = [*waiting[-1:], *self._pending]
        acks = []
        for snapshot in snapshots:
            mark = snapshot.about.get("digest")
            if self.recorder is not None and mark is not None:
                ack = Noted(f"{ACK}{self.name}", snapshot.epoch, True, mark)
                self.recorder.step("SNAPSHOT", snapshot.epoch, produced=[ack], state=mark)
            acks.append((snapshot.epoch, mark, self.ends(snapshot.epoch)))
        faults.point("snapshot:before-ack")
        self.link.send(durable=acks)
        faults.point("snapshot:after-ack")

    def soon(self, job: Callable[[], None]) -> None:
        """Do something in the background, after what was asked for before."""
        self._jobs.put(job)

    def flush(self) -> None:
        """Wait until the background has nothing to do."""
        done = threading.Event()
        with self.waiting():
            with self._changed:
                self.hurry = True
                self._changed.notify_all()
            self._jobs.put(done.set)
            done.wait()

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            self._job_since = time.monotonic()
            try:
                job()
                self._job_since = None
            except BaseException as error:  # a thread must not die in silence
                report(self.link, error, self.store.root)
                return

    def restored(self) -> Snapshot | None:
        """The snapshot to go back to; None at the very start."""
        faults.point("recover:load")
        if self.epoch == 0:
            return None
        try:
            snapshot = self.store.load(self.name, self.epoch, run=self.run)
        except Damaged as error:
            self.damaged(error)
        for box in self.inboxes:
            box.taken = snapshot.numbers[box.name]
        for out in self.outboxes:
            out.sent = snapshot.numbers[out.name]
        return snapshot

    def damaged(self, error: Exception) -> Any:
        """Tell the coordinator that this snapshot cannot be used, and wait for the end."""
        self.link.send(damaged=self.epoch, why=str(error))
        wait_for_the_end()

    def behind(self, until: int, why: str) -> Any:
        """Tell the coordinator that the rows from a push on are not there any more, which this snapshot has behind it;
        wait for the end."""
        self.link.send(behind=until, why=why)
        wait_for_the_end()


class TaskProcess:
    """A task: `restore` what it was, then `run` until the inputs end."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def restore(self, snapshot: Snapshot | None) -> None:
        """Go back to a snapshot, or begin."""
        raise NotImplementedError

    def begin(self) -> None:
        """All tasks have what they go back to; nothing was changed until now."""

    def run(self) -> None:
        """Work until the inputs end."""
        raise NotImplementedError


def wait_for_the_end() -> None:
    """Do nothing until the coordinator ends this task: it knows, or will hear, why."""
    while True:
        time.sleep(3600)


def report(link: Link, error: BaseException, root: Any = "") -> None:
    """Tell the coordinator what went wrong, so that it can tell the user."""
    if isinstance(error, Gone):
        wait_for_the_end()  # a task is dead: the coordinator hears that from its link, and recovers all
    elif isinstance(error, OSError):
        link.send(error="StateError", text=stopped_by(error, root))
    elif isinstance(error, StepError):
        link.send(error=type(error).__name__, text=str(error), step=error.step, position=error.position)
    elif isinstance(error, PellucidError):
        link.send(error=type(error).__name__, text=str(error))
    elif isinstance(error, MemoryError):
        link.send(error="StateError", text=out_of_memory(error))
    elif (outside := from_outside(error)) is not None:
        link.send(error=type(outside).__name__, text=str(outside))
    else:
        text = redact("".join(traceback.format_exception(error)))
        link.send(error="internal", text=redact(f"{type(error).__name__}: {error}"), trace=text)


def run_task(make: Callable[[], tuple[Context, TaskProcess]], link: Link, coordinator: int, root: Any) -> None:
    """What a task's process does; it does not return."""
    code = 1
    context: Context | None = None
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        sys.stdout = sys.stderr  # a user's function may print: stdout belongs to the report
        sys.setswitchinterval(_TURN)
        gc.freeze()  # what the coordinator had is no garbage, and to look at it would copy its pages
        context, task = make()
        faults.arm(context.name, context.generation, coordinator)
        task.restore(context.restored())
        faults.point("recover:loaded")
        link.send(ready=True)
        while "start" not in context.command():
            pass
        task.begin()
        task.run()
        context.flush()
        link.send(done=True)
        code = 0
    except BaseException as error:  # everything must reach the coordinator
        if context is not None:
            context.busy_since = None
        report(link, error, root)
        code = 1
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before we could ask
        os._exit(3)
