"""The lock of a place: one process has its log, and others can see whether there is one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from pellucid.atomic.places.network import Network
from pellucid.errors import StateError
from pellucid.internal.base.files import no_links, own_folder

_TRIES = 100  # somebody may only have looked whether it runs, on a machine where that takes its time


@contextlib.contextmanager
def only_one(network: Network, name: str) -> Iterator[None]:
    """Be the one process of a place; a second one is refused, and is told which one is first."""
    folder = network.folder_of(name)
    own_folder(folder, "DIR", "lock")
    try:
        handle = no_links(folder / "lock", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise StateError(f"{folder / 'lock'}: cannot be used: {error.strerror or error}") from None
    try:
        for n in range(_TRIES):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if n == _TRIES - 1:
                    raise _taken(network, name, handle) from None
                time.sleep(0.02)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def running(network: Network, name: str) -> int | None:
    """The process of a place on this machine, if there is one (0, if it has not said its number yet)."""
    try:
        handle = no_links(network.folder_of(name) / "lock", os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except OSError:
        said = _said(handle)
        return int(said) if said.isdecimal() else 0
    finally:
        os.close(handle)


def _said(handle: int) -> str:
    return os.pread(handle, 32, 0).decode("ascii", "replace").strip()


def _taken(network: Network, name: str, handle: int) -> StateError:
    who = _said(handle)
    return StateError(
        f"{name} runs already{f' (process {who})' if who else ''}: a place is one process; "
        f"`pellucid net down {network.folder} {name}` ends it"
    )
