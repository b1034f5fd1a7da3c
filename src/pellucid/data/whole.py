"""Files beside their target until they are whole: a small one written here, without Arrow, and what all share.

A temporary file is called ``.NAME.PID.part``.  A process that was killed leaves it behind; the next one that writes
the same target takes it away.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Any

from pellucid.errors import DataError

__all__ = ["Claim", "make_lasting", "sweep", "sync", "temporary_name", "write_whole"]

_lasting: set[str] = set()  # folders that this process made sure of


def temporary_name(target: str) -> str:
    """The file beside the target that this process fills."""
    return os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{os.getpid()}.part")


class Claim:
    """A lock on a temporary file for as long as it is one; a process id says nothing about another machine."""

    def __init__(self) -> None:
        self._fd: int | None = None

    def __call__(self, file: Any) -> Any:
        with contextlib.suppress(ImportError, OSError):  # not every system and not every disk has locks
            import fcntl

            self._fd = os.dup(file.fileno())  # so that it lasts until the renaming, when the file is closed
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file

    def release(self) -> None:
        """Give it up."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def sweep(target: str) -> None:
    """Remove what dead processes left of this target.

    Only a regular file of this user, of exactly this target, whose process is not alive here and which no process
    anywhere has locked.  What is in doubt stays.
    """
    if os.name != "posix":
        return
    folder, head = os.path.dirname(target), f".{os.path.basename(target)}."
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        number = name[len(head) : -len(".part")]
        if not (name == f"{head}{number}.part" and number.isascii() and number.isdecimal()):
            continue
        if not number.startswith("0") and not _alive(int(number)):
            _remove_unused(os.path.join(folder, name))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # another user's, or no number of a process at all: leave it alone
    return True


def _remove_unused(path: str) -> None:
    import fcntl

    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                return
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(found, os.lstat(path)):
                os.unlink(path)
        finally:
            os.close(fd)


def sync(path: str | os.PathLike[str]) -> None:
    """Make a file's content, or the names in a folder, last: without it a rename may be gone after a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_lasting(folder: str | os.PathLike[str]) -> None:
    """Make a folder, with all above it, so that it lasts: a folder's name is in the folder above, which must be synced,
    too.

    Those above are synced also where they were there already: who made them may have been killed before it did.
    """
    place = os.path.abspath(folder)
    if place in _lasting and os.path.isdir(place):
        return
    os.makedirs(place, exist_ok=True)
    for above in Path(place).parents:
        with contextlib.suppress(PermissionError):  # one that we may not read we have not changed either
            sync(above)
    _lasting.add(place)


def write_whole(path: str, text: str) -> None:
    """Write a text file: beside the target first, then under its name."""
    target = os.path.realpath(path)
    special = os.path.exists(path) and not os.path.isfile(path)
    if os.path.isdir(target):
        raise DataError(f"{path}: is a folder: expected the name of a file to write")
    temporary, claim = path if special else temporary_name(target), Claim()
    try:
        if not special:
            sweep(target)
        with open(temporary, "w" if special else "x", encoding="utf-8") as file:
            (file if special else claim(file)).write(text)
        if not special:
            os.replace(temporary, target)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        if not special:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        claim.release()
