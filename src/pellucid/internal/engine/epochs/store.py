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
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.errors import StateError, from_outside
from pellucid.internal.base import container, faults
from pellucid.internal.base.files import (
    TEMPORARY,
    Draft,
    beside,
    inner_folder,
    no_links,
    own_folder,
    refuse_links,
    sync,
    write_lasting,
)
from pellucid.internal.base.small import checked, read_small, sealed
from pellucid.internal.engine.epochs.lock import take

READ = (container.VERSION, [2, 3])  # what ``run.json`` may say of its format; the second was that of the version before
_FILE = re.compile(r"(\d{12})(?:-(\d{12}))?\.snap")


class Damaged(StateError):  # noqa: N818 - reads as what it is
    """A snapshot is torn, altered, or of another run; the one before it may do."""


def full(error: OSError) -> bool:
    """Whether a disk is full: what can be waited for."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def stopped_by(error: OSError, root: str | os.PathLike[str]) -> str:
    """What to say to the user when the system refuses something: it is not ours to mend.

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
                "from a copy, or start anew in another folder"
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
        """Keep a damaged snapshot for who wants to look at it, under a name that nobody reads."""
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
