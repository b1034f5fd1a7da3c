"""The lock of a state folder: one run at a time, and nobody who is left over keeps it.

The lock is on an open file that the tasks inherit, so it is free only when the coordinator *and* all its tasks are
gone: a run that follows a ``kill -9`` never meets a task of the one before.  A task dies with its coordinator, except
one that was stopped between its fork and the moment at which it asks the kernel for that.  Such an orphan has done
nothing yet and never will (it looks for its parent first), so the next run ends it.  Who holds a lock is asked of the
kernel (``/proc``), not of what the file says: its writer may have died before it wrote, and its number may be another
process's by now.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import signal
import time
from pathlib import Path

from pellucid.errors import StateError, UsageError, option
from pellucid.internal.base.files import open_own

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
