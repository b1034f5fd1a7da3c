"""The state folder: who runs here, what the run is, and snapshots that are whole or not there.

A file is written aside, synced, renamed, and its folder synced: after a crash at any moment there is the old file or
the new one.  A snapshot says itself what it is (task, epoch, run) and carries checksums, so that a torn or swapped file
is found when it is looked for, and the epoch before it is taken.

The small files carry checksums, too.  ``run.json`` must be whole; the others are hints, which may be empty, torn or
gone.

::

    DIR/lock, run.json, generation, progress.json, tasks.json
    DIR/snapshots/TASK/EPOCH.snap      what each task goes back to (FIRST-LAST.snap where several were written at once)
    DIR/staged/OUTPUT/…                rows of epochs that are not committed
    DIR/committed/OUTPUT/…             rows of committed epochs (outputs that are files)
    DIR/trace/…                        with --record
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.errors import StateError, UsageError, from_outside, option
from pellucid.internal.base import container, faults
from pellucid.internal.base.files import (
    TEMPORARY,
    Draft,
    beside,
    checked,
    inner_folder,
    no_links,
    open_own,
    own_folder,
    read_small,
    refuse_links,
    sealed,
    sync,
    write_lasting,
)

# The lock of a state folder: one run at a time, and no process that is left over keeps it.
#
# The lock is on an open file that the tasks inherit, so it is free only when the coordinator *and* all its tasks are
# gone: a run that follows a ``kill -9`` never meets a task of the one before.  A task dies with its coordinator, except
# one that was stopped between its fork and the moment at which it asks the kernel for that.  Such an orphan has done
# nothing yet and never will (it looks for its parent first), so the next run ends it.  Who holds a lock is asked of the
# kernel (``/proc``), not of what the file says: its writer may have died before it wrote, and its number may be another
# process's by now.

_WAIT = 15.0  # seconds in which the tasks of a dead coordinator are gone
_SOON = 1.0  # seconds in which those are that the kernel ends
_LOCK = re.compile(r"FLOCK\s+ADVISORY\s+WRITE\s+(-?\d+)\s+[0-9a-f]+:[0-9a-f]+:(\d+)\s", re.IGNORECASE)


def take(root: Path) -> int:
    """The lock of a folder, as an open file; refused while another run has it."""
    try:
        handle = open_own(root / "lock", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise UsageError(
            f"{option('state', root)}: cannot be used: {error.strerror or error}; choose another folder"
        ) from None
    try:
        _wait(handle, root)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _wait(handle: int, root: Path) -> None:
    began = time.monotonic()
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise UsageError(
                    f"{option('state', root)}: its file system has no locks ({error.strerror}): use a local disk"
                ) from None
        waited = time.monotonic() - began
        owner, holders = who_holds(handle)
        if owner is None:  # not to be seen from here: what the file says is all there is
            text = os.pread(handle, 32, 0).strip()
            said = int(text) if text.isdigit() else None
            if said is None or _alive(said):
                raise _taken(root, f" (process {said})" if said else "")
            if waited > _WAIT:
                raise _taken(root, f" (process {said} on another machine or in another container)")
        elif owner in holders:
            raise _taken(root, f" (process {owner})")
        elif waited > _WAIT:
            listed = ", ".join(map(str, holders))
            raise _taken(
                root,
                f" (process {owner}, which is dead, left {listed} behind: end {'it' if len(holders) == 1 else 'them'} "
                "with kill -9)",
            )
        elif waited > _SOON:  # the coordinator is dead, and these did not go with it
            for pid in holders:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _taken(root: Path, who: str) -> StateError:
    return StateError(
        f"{option('state', root)}: another run{who} is using this folder: wait until it ends, or stop it, or choose "
        "another folder"
    )


def who_holds(handle: int) -> tuple[int | None, list[int]]:
    """Of the file behind a handle: the process that locked it, and those alive that hold the lock (Linux).

    >>> import tempfile
    >>> with tempfile.TemporaryFile() as file:
    ...     fcntl.flock(file, fcntl.LOCK_EX)
    ...     who_holds(file.fileno()) == (os.getpid(), [os.getpid()])
    True
    """
    found = os.fstat(handle)
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None, []
    owners = {int(m[1]) for m in map(_LOCK.search, (f"{line} " for line in lines)) if m and int(m[2]) == found.st_ino}
    owners.discard(0)  # a process that cannot be seen from here
    holders = [(pid, owner) for pid in _processes() for owner in _locks_of(pid, found) if owner in owners]
    if not holders:  # another disk may have a file of the same number
        return None, []
    return holders[0][1], sorted({pid for pid, _ in holders})


def _processes() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return []


def _locks_of(pid: int, file: os.stat_result) -> list[int]:
    """The processes that locked what this one has open of a file: its own number, or that of the one that it was forked
    from."""
    out = []
    with contextlib.suppress(OSError):  # it is gone, or another user's
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(f"/proc/{pid}/fd/{fd}"), file):
                    out += [
                        int(m[1])
                        for m in map(_LOCK.search, Path(f"/proc/{pid}/fdinfo/{fd}").read_text().splitlines())
                        if m
                    ]
    return out


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    # A zombie holds nothing any more: its parent has just not asked for it yet.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):  # it went meanwhile; or there is no /proc here
        return not os.path.exists("/proc/self/stat")
    except (OSError, IndexError):
        return True


def running_in(root: Path) -> int | None:
    """The process whose run uses a folder now; None if there is none.  The lock is looked at, and not touched.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> running_in(folder)
    >>> handle = take(folder)
    >>> running_in(folder) == os.getpid()
    True
    """
    try:
        handle = open_own(root / "lock", os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        if not os.path.exists("/proc/locks"):  # what the file says is all there is
            text = os.read(handle, 32).strip()
            return int(text) if text.isdigit() and _alive(int(text)) else None
        owner, holders = who_holds(handle)
        return owner if owner in holders else None
    finally:
        os.close(handle)


READ = (container.VERSION, [2, 3])  # what ``run.json`` may say of its format; the second was that of the version before
_FILE = re.compile(r"(\d{12})(?:-(\d{12}))?\.snap")


class Damaged(StateError):  # noqa: N818 - reads as what it is
    """A snapshot is torn, altered, or of another run; the one before it may do."""


def full(error: OSError) -> bool:
    """Whether a disk is full: what can be waited for."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def stopped_by(error: OSError, root: str | os.PathLike[str]) -> str:
    """What to say to the user when the system refuses something: it is not ours to fix.

    >>> stopped_by(OSError(errno.EROFS, "Read-only file system", "/mnt/state/run.json"), "/mnt/state")
    '/mnt/state/run.json: Read-only file system. Nothing is lost: when that is put right, the same command goes on'
    """
    what = "make room" if full(error) else "when that is put right"
    place = "" if error.filename is not None else f"{os.fspath(root)}: "
    return (
        f"{place}{from_outside(error)}. Nothing is lost: {what}{', and' if full(error) else ','} the same command "
        "goes on"
    )


@dataclass
class Snapshot:
    """What a task goes back to: its epoch, how far it is (pushes), the numbers on its streams, and its own state."""

    task: str
    epoch: int
    until: int
    numbers: dict[str, int] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    payload: Any = b""


class Store:
    """The state folder of one run.

    >>> import tempfile
    >>> store = Store(tempfile.mkdtemp())
    >>> store.save(*[Snapshot("worker", e, 100 * e, {}, {}, b"state") for e in (1, 2, 3)], run="r")
    >>> store.go_back("worker", 2)
    >>> bytes(store.load("worker", 2, run="r").payload), store.epochs("worker")
    (b'state', [1, 2])
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).absolute()
        self._lock: int | None = None

    # ------------------------------------------------------------ the folder

    def open(self) -> None:
        """Make the folder, and take the lock."""
        own_folder(self.root, mark="run.json")
        if (self.root / "run.json").exists():
            refuse_links(self.root)
        self._lock = take(self.root)

    def close(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def read(self, name: str) -> dict[str, Any] | None:
        """A small file; None if there is none, refused if it is damaged."""
        try:
            return _checked(read_small(self.root / name))
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            raise StateError(
                f"{self.root / name}: the state folder is damaged: this file cannot be read ({error}); bring it back "
                "from a copy, or start again in another folder"
            ) from None

    def hint(self, name: str) -> dict[str, Any]:
        """A small file that is of use, but not needed: empty if it is not there, or not whole."""
        with contextlib.suppress(ValueError, OSError):
            return checked(read_small(self.root / name))
        return {}

    def number(self, name: str, key: str) -> int:
        """A number in such a file; 0 if it does not say one."""
        found = self.hint(name).get(key)
        return found if isinstance(found, int) else 0

    def write(self, name: str, value: dict[str, Any], *, durable: bool = True) -> None:
        """A small file: JSON, with a checksum of the rest of it."""
        try:
            write_lasting(self.root / name, [sealed(value)], lasting=durable)
        except OSError as error:
            if durable or not full(error):
                raise

    def folder(self, *names: str) -> Path:
        """A folder inside, made if need be."""
        if not self.root.is_dir():
            raise FileNotFoundError(errno.ENOENT, "the state folder is gone", str(self.root))
        path, made = inner_folder(self.root, *names)
        if made:
            for parent in (path.parent, path.parent.parent):
                sync(parent)
        return path

    # ------------------------------------------------------------ snapshots

    def path(self, task: str, epoch: int) -> Path:
        """The file in which a task's snapshot of an epoch is, or would be."""
        for first, last, path in self._files(task):
            if first <= epoch <= last:
                return path
        return self.root / "snapshots" / task / f"{epoch:012d}.snap"

    def _files(self, task: str) -> list[tuple[int, int, Path]]:
        """The snapshot files of a task, oldest first: (first epoch, last epoch, path)."""
        folder = self.root / "snapshots" / task
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            return []
        matches = [(_FILE.fullmatch(name), name) for name in names]
        return sorted((int(m[1]), int(m[2] or m[1]), folder / name) for m, name in matches if m is not None)

    def save(self, *snapshots: Snapshot, run: str) -> None:
        """Make snapshots of one task durable; those of successive epochs that wait together share a file, and its
        syncs."""
        task = snapshots[0].task
        folder = self.folder("snapshots", task)
        faults.point("snapshot:before-write")
        first, last = snapshots[0].epoch, snapshots[-1].epoch
        path = folder / _name(first, last)
        with Draft(beside(path)) as draft:
            for snapshot in snapshots:
                for piece in _record(snapshot, run):
                    draft.file.write(piece)
            draft.file.flush()
            if faults.torn("snapshot:torn"):
                os.ftruncate(draft.file.fileno(), os.fstat(draft.file.fileno()).st_size // 2)
            draft.finish()
            faults.point("snapshot:after-write")
            draft.place(path)
        faults.point("snapshot:placed")

    def epochs(self, task: str) -> list[int]:
        """The epochs of which there is a snapshot, as the files' names have it, oldest first."""
        return sorted({epoch for first, last, _ in self._files(task) for epoch in range(first, last + 1)})

    def peek(self, task: str, epoch: int, *, run: str) -> dict[str, Any]:
        """The header of a snapshot, if the file is as long as it says; its content is not looked at."""
        return self._head(self.path(task, epoch), task, epoch, run)[0].fields

    def _head(self, path: Path, task: str, epoch: int, run: str) -> tuple[container.Head, int]:
        """A snapshot's header, and where it begins in the file."""
        try:
            with open(path, "rb", opener=no_links) as file:
                size, at = os.fstat(file.fileno()).st_size, 0
                while True:
                    found = _read_header(file, path, at)
                    if at + found.places[-1][1] > size:
                        raise Damaged(
                            f"{path}: is no whole snapshot: expected {at + found.places[-1][1]:,} bytes, found {size:,}"
                        )
                    if found.fields["epoch"] >= epoch:
                        break
                    at += found.end
        except FileNotFoundError:
            raise Damaged(f"{path}: the snapshot is missing") from None
        except OSError as error:
            raise Damaged(f"{path}: the snapshot cannot be read: {error.strerror or error}") from None
        if tuple(found.fields[name] for name in ("task", "epoch", "run")) != (task, epoch, run):
            raise Damaged(f"{path}: is the snapshot of another run, task or epoch")
        return found, at

    def load(self, task: str, epoch: int, *, run: str) -> Snapshot:
        """A snapshot, with its checksum found right."""
        path = self.path(task, epoch)
        found, at = self._head(path, task, epoch, run)
        with open(path, "rb", buffering=0, opener=no_links) as file:
            file.seek(at)
            data = memoryview(_read_all(file, found.end))
        try:
            taken = container.unpack(data, "task")
        except container.Broken as error:
            raise Damaged(f"{path}: the snapshot is damaged: {error}") from None
        head = taken.head
        return Snapshot(task, epoch, head["until"], head["numbers"], head["about"], taken.blocks[0])

    def forget(self, task: str, *, keep: int, before: int) -> None:
        """Remove old snapshots: all but the ``keep`` newest files up to an epoch, and what is newer."""
        old = [path for _, last, path in self._files(task) if last <= before]
        for path in old[:-keep]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def go_back(self, task: str, epoch: int) -> None:
        """Remove the snapshots of epochs beyond one: they are of a generation that is over."""
        for first, last, path in self._files(task):
            if last > epoch:
                if first <= epoch:
                    self._keep_head(path, path, task, first, epoch)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)

    def set_aside(self, task: str, epoch: int) -> None:
        """Keep a damaged snapshot for who wants to look at it, under a name that is not read."""
        for first, last, path in self._files(task):
            if first <= epoch <= last:
                aside = path.with_suffix(".damaged")
                os.replace(path, aside)
                if first < epoch:
                    self._keep_head(aside, path, task, first, epoch - 1)

    def _keep_head(self, source: Path, path: Path, task: str, first: int, last: int) -> None:
        """Write the snapshots up to an epoch of a file that has more of them as a file of their own."""
        end = 0
        with open(source, "rb", opener=no_links) as file:
            while True:
                try:
                    found = _read_header(file, source, end)
                except Damaged:
                    break
                if found.fields["epoch"] > last:
                    break
                end += found.end
            file.seek(0)
            data = _read_all(file, end)
        write_lasting(path.with_name(_name(first, last)), [data])

    def sweep(self) -> None:
        """Remove what a killed process left half written."""
        for path in self.root.rglob(f".*{TEMPORARY}"):
            with contextlib.suppress(OSError):
                path.unlink()


def _name(first: int, last: int) -> str:
    return f"{first:012d}.snap" if first == last else f"{first:012d}-{last:012d}.snap"


def _checked(found: dict[str, Any]) -> dict[str, Any]:
    """What a small file says, if its checksum is right; or if it says itself that it is of another version, which is
    refused for that."""
    return found if found.get("format", container.VERSION) not in READ else checked(found)


def _record(snapshot: Snapshot, run: str) -> list[Any]:
    """A snapshot as pieces of memory."""
    fields = {
        "run": run, "task": snapshot.task, "epoch": snapshot.epoch, "until": snapshot.until,
        "numbers": snapshot.numbers, "about": snapshot.about,
    }  # fmt: skip
    # A saved state has a checksum of its own, and is large: one is enough.
    return container.pieces("task", fields, [snapshot.payload], checked=not container.is_one(snapshot.payload))


def _read_header(file: Any, path: Path, at: int) -> container.Head:
    """The header that begins here; places are counted from there."""
    try:
        file.seek(at)
        start = file.read(container.START)
        return container.head(start + file.read(max(container.front(start) - len(start), 0)), "task")
    except container.OtherVersion as error:
        raise StateError(container.refused(str(path), error)) from None
    except container.Broken as error:
        raise Damaged(f"{path}: is no whole snapshot: {error}") from None


def _read_all(file: Any, size: int) -> bytearray:
    """So many bytes, or fewer at the end: one read gives at most two gigabytes."""
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        count = file.readinto(view[at:])
        if not count:
            return data[:at]
        at += count
    return data
