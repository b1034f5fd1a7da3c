"""Snapshots are whole or not there; the folder belongs to one run at a time."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pellucid import pipeline
from pellucid.errors import DataError, StateError, UsageError
from pellucid.internal.base import container
from pellucid.internal.engine.epochs import run_epochs, task
from pellucid.internal.engine.epochs import store as lock
from pellucid.internal.engine.epochs.messages import BORDER, ChannelMessage, Gone, Inbox, Outbox, Shape, channel
from pellucid.internal.engine.epochs.store import Damaged, Snapshot, Store
from pellucid.internal.expr.types import INT


def filled(root: Path, *groups: tuple[int, int]) -> Store:
    store = Store(root)
    for first, last in groups:
        epochs = range(first, last + 1)
        made = [Snapshot("w", e, 10 * e, {"a>w": e}, {"n": e}, bytes([e % 256]) * (100 + e)) for e in epochs]
        store.save(*made, run="r")
    return store


class Snapshots(RuleBasedStateMachine):
    """The snapshots of a task beside a list of the epochs in each file: after any steps the same epochs are there, with
    what was saved."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = Store(self.folder.name)
        self.files: list[list[int]] = []

    @property
    def last(self) -> int:
        return self.files[-1][-1] if self.files else 0

    @rule(count=st.integers(1, 4))
    def save(self, count: int) -> None:
        epochs = list(range(self.last + 1, self.last + count + 1))
        filled(Path(self.folder.name), (epochs[0], epochs[-1]))
        self.files.append(epochs)

    @rule(back=st.integers(0, 6))
    def go_back(self, back: int) -> None:
        epoch = max(0, self.last - back)
        self.store.go_back("w", epoch)
        self.files = [kept for file in self.files if (kept := [e for e in file if e <= epoch])]

    @rule(keep=st.integers(1, 3), back=st.integers(0, 4))
    def forget(self, keep: int, back: int) -> None:
        before = self.last - back
        self.store.forget("w", keep=keep, before=before)
        old = [file for file in self.files if file[-1] <= before]
        self.files = [file for file in self.files if file not in old[:-keep]]

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def set_aside(self, data: st.DataObject) -> None:
        """A damaged one is set aside, and earlier ones of its file stay."""
        epoch = data.draw(st.sampled_from([e for file in self.files for e in file]))
        self.store.set_aside("w", epoch)
        self.files = [
            kept for file in self.files if (kept := [e for e in file if e < epoch] if epoch in file else file)
        ]

    @invariant()
    def what_is_there_is_what_was_saved(self) -> None:
        there = [epoch for file in self.files for epoch in file]
        assert self.store.epochs("w") == there
        for epoch in there:
            found = self.store.load("w", epoch, run="r")
            assert (found.until, found.numbers, found.about) == (10 * epoch, {"a>w": epoch}, {"n": epoch})
            assert bytes(found.payload) == bytes([epoch % 256]) * (100 + epoch)

    def teardown(self) -> None:
        self.folder.cleanup()


TestSnapshots = Snapshots.TestCase
TestSnapshots.settings = settings(max_examples=30, stateful_step_count=12)


@given(st.data())
@settings(max_examples=60)
def test_no_cut_and_no_flipped_byte_goes_unnoticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    store = filled(tmp_path_factory.mktemp("s"), (1, 3))
    path = store.path("w", 1)
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        path.write_bytes(whole[:at])
    else:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :])
    for epoch in (1, 2, 3):
        try:
            found = store.load("w", epoch, run="r")
        except Damaged:
            continue
        assert bytes(found.payload) == bytes([epoch]) * (100 + epoch)
        assert (found.until, found.numbers) == (10 * epoch, {"a>w": epoch})


def test_a_flipped_version_is_damage_not_another_version(tmp_path: Path) -> None:
    store = filled(tmp_path, (1, 1))
    whole = store.path("w", 1).read_bytes()
    at = whole.index(container.MAGIC) + len(container.MAGIC)
    store.path("w", 1).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(Damaged):
        store.load("w", 1, run="r")


def test_of_another_run(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="is the snapshot of another run, task or epoch"):
        filled(tmp_path, (1, 1)).load("w", 1, run="other")


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be used"):
        Store(tmp_path / "file" / "state").open()
    assert os.listdir(tmp_path) == ["file"]


# What killed processes leave behind, and what the machine refuses: the same command goes on, or says in one line why
# it cannot.

total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)


def go(folder: Path, **more: Any) -> list[str]:
    said: list[str] = []
    (folder / "in.jsonl").write_text("".join(f"{i}\n" for i in range(25)))
    more = {"outputs": folder / "out.csv", "say": said.append, "state": folder / "state", "pushes": 10, **more}
    run_epochs(total, folder / "in.jsonl", **more)
    if str(more["outputs"]).endswith("csv"):
        assert (folder / "out.csv").read_text() == "out\n" + "".join(f"{i * (i + 1) // 2}\n" for i in range(25))
    return said


# ---------------------------------------------------------------- files that were not finished


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"epoch": "x", "generation": []}', b"\xff\0", None])
def test_a_hint_may_be_anything(tmp_path: Path, content: bytes | None) -> None:
    go(tmp_path)
    for name in ("progress.json", "generation", "tasks.json", "lock"):
        if content is None:
            (tmp_path / "state" / name).unlink()
        else:
            (tmp_path / "state" / name).write_bytes(content)
    assert go(tmp_path) == ["going on after epoch 3"]


def test_a_run_that_was_killed_before_it_had_a_name(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    for name in (".run.json.4242.tmp", "..run.json.4242.tmp.17.tmp", ".lock.17.tmp"):
        (tmp_path / "state" / name).write_text("{")
    go(tmp_path)
    assert not list((tmp_path / "state").rglob("*.tmp"))


def test_a_lost_generation_is_not_recorded_over(tmp_path: Path) -> None:
    from pellucid.failures.audit import audit

    go(tmp_path, record=True)
    go(tmp_path, record=True)
    (tmp_path / "state/generation").unlink()
    go(tmp_path, record=True)
    assert audit(tmp_path / "state").holds
    assert (tmp_path / "state/trace/000002.worker.steps").exists()


def test_who_the_run_is_must_be_whole(tmp_path: Path) -> None:
    go(tmp_path)
    path = tmp_path / "state/run.json"
    text = path.read_text()
    run = text.index('"run": "') + 8
    path.write_text(text[:run] + ("0" if text[run] != "0" else "1") + text[run + 1 :])
    with pytest.raises(
        StateError, match=r"run\.json: the state folder is damaged: .* \(its checksum is wrong\); bring it back"
    ):
        go(tmp_path)
    path.unlink()
    with pytest.raises(StateError, match=r"run\.json: is missing, .*: bring it back from a copy"):
        go(tmp_path)
    path.write_text(text)
    assert go(tmp_path) == ["going on after epoch 3"]


def test_what_a_killed_task_left_is_gone_at_its_recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_FAULTS", "snapshot:after-write=kill@2")
    seen: list[list[str]] = []

    def say(text: str) -> None:
        seen.append([p.name for p in (tmp_path / "state").rglob(".*.snap.*.tmp")])

    go(tmp_path, say=say, idle=lambda: None)
    assert seen and all(len(names) <= 3 for names in seen)
    assert not list((tmp_path / "state").rglob(".*.tmp"))


# ---------------------------------------------------------------- dead peers


def test_a_dead_peer_is_one_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the socket says: the sender hears `Gone`, and waits for its end without an error of its own."""
    ours, theirs = channel()
    out = Outbox("a>b", ours, Shape({"x": INT}), noted=False)
    theirs.close()
    with pytest.raises(Gone):
        out.send(out.prepare(ChannelMessage(BORDER, 1)))
    ours.close()
    told: list[Any] = []
    monkeypatch.setattr(task, "wait_for_the_end", lambda: told.append("waits"))

    class Link:
        def send(self, **message: Any) -> None:
            told.append(message)

    task.report(Link(), Gone("a>b"))  # type: ignore[arg-type]
    assert told == ["waits"]


@pytest.mark.parametrize(
    "error", [ConnectionResetError(errno.ECONNRESET, "reset"), BrokenPipeError(errno.EPIPE, "pipe"), None]
)
def test_a_reader_of_a_dead_sender_waits(error: OSError | None) -> None:
    class End:
        def recv_into(self, view: Any) -> int:
            if error is not None:
                raise error
            return 0

    box = Inbox("a>b", End(), Shape({"x": INT}), noted=False)  # type: ignore[arg-type]
    time.sleep(0.05)
    assert box._queue.empty()


def test_no_half_message_to_a_task_that_is_stopped() -> None:
    """The coordinator never waits for a task: what does not fit into the socket goes later, whole and in order."""
    import socket

    from pellucid.internal.engine.epochs.messages import Link

    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    coordinator, stopped = Link(ours), Link(theirs)
    for number in range(5000):
        coordinator.send(commit=number, acks=["x" * 100])
    got: list[int] = []
    theirs.setblocking(False)
    while len(got) < 5000:
        got += [message["commit"] for message in stopped.receive() or []]
        coordinator.receive()  # it hears a heartbeat
    assert got == list(range(5000))
    ours.close()
    theirs.close()


# ---------------------------------------------------------------- the lock

ORPHAN = """
import os, signal, sys
from pellucid.internal.engine.epochs.store import Store
store = Store(sys.argv[1])
store.open()
pid = os.fork()
if pid == 0:
    os.close(1)
    os.kill(os.getpid(), signal.SIGSTOP)  # before it could ask to die with its parent
    os._exit(0)
os.waitpid(pid, os.WUNTRACED)
print(pid, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="who holds a lock is asked of /proc")
def test_no_orphan_keeps_the_lock(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ORPHAN, str(tmp_path)], stdout=subprocess.PIPE, text=True, check=True)
    orphan = int(done.stdout)
    store = Store(tmp_path)
    try:
        store.open()
        deadline = time.monotonic() + 60
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            while time.monotonic() < deadline:
                stat = Path(f"/proc/{orphan}/stat").read_text()
                assert stat.rpartition(")")[2].split()[0] != "T", "it is still stopped, not ended"
                time.sleep(0.05)
    finally:
        store.close()
        with pytest.raises(ProcessLookupError):
            os.kill(orphan, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="who holds a lock is asked of /proc")
@pytest.mark.parametrize("error", [FileNotFoundError, ProcessLookupError])
def test_one_that_ends_while_it_is_looked_at_holds_no_lock(
    monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    def gone(path: Path) -> str:
        raise error

    assert lock._alive(os.getpid())
    monkeypatch.setattr(Path, "read_text", gone)
    assert not lock._alive(os.getpid())


@pytest.mark.skipif(sys.platform != "linux", reason="who holds a lock is asked of /proc")
def test_the_message_names_who_has_the_lock(tmp_path: Path) -> None:
    """Not who is named in the file: that may be an old number."""
    code = (
        f"import time; from pellucid.internal.engine.epochs.store import Store; Store({str(tmp_path)!r}).open(); "
        "print('open', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        (tmp_path / "lock").write_text(f"{os.getppid()}\n")
        with pytest.raises(StateError, match=rf"another run \(process {other.pid}\) is using this folder"):
            Store(tmp_path).open()
        other.kill()


# ---------------------------------------------------------------- what the machine refuses


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EIO, errno.ENOENT])
def test_a_snapshot_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    with monkeypatch.context() as patch:

        def refuse(*_: Any, **__: Any) -> None:
            raise OSError(number, os.strerror(number), str(tmp_path / "state/snapshots/worker/000000000001.snap"))

        patch.setattr(Store, "save", refuse)
        with pytest.raises(
            StateError,
            match=rf"000000000001\.snap: {os.strerror(number)}\. Nothing is lost: when that is put right, the same "
            r"command goes on",
        ):
            go(tmp_path)
    go(tmp_path)


def test_a_full_disk_at_the_first_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:

        def refuse(*_: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(os, "pwrite", refuse)
        with pytest.raises(
            StateError,
            match=r"state: No space left on device\. Nothing is lost: make room, and the same command goes on",
        ):
            go(tmp_path)
    go(tmp_path)


def test_a_state_folder_that_vanishes(tmp_path: Path) -> None:
    def vanish(value: int) -> int:
        if value == 15:
            shutil.rmtree(tmp_path / "state", ignore_errors=True)
            time.sleep(0.5)
        return value

    (tmp_path / "in.jsonl").write_text("".join(f"{i}\n" for i in range(25)))
    slow = pipeline(lambda x: x.map(vanish, to=int), x=int)
    with pytest.raises(StateError, match=r"the state folder is gone|No such file or directory"):
        run_epochs(
            slow,
            tmp_path / "in.jsonl",
            tmp_path / "out.csv",
            state=tmp_path / "state",
            pushes=10,
            chunk=5,
            say=lambda text: None,
        )


def test_what_is_no_database(tmp_path: Path) -> None:

    (tmp_path / "no.db").write_text("no database at all, really, honest" * 50)
    with pytest.raises(DataError, match=r"no\.db: SQLite says: file is not a database"):
        go(tmp_path, outputs=f"sqlite:{tmp_path}/no.db#t")
