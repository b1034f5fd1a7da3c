"""The process of a place: connections, messages that are carried along paths, the loop around the core."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pellucid.atomic.places.network import Network
from pellucid.errors import PellucidError, StateError
from pellucid.internal.base import faults
from pellucid.internal.base.files import no_links, own_folder

# The lock of a place: one process has its log, and others can see whether there is one.

_TRIES = 100  # another process may only be looking whether it runs, on a machine where that takes its time


@contextlib.contextmanager
def only_one(network: Network, name: str) -> Iterator[None]:
    """Be the one process of a place; a second one is refused, with the process that was first."""
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


# Processes of places on this machine: start them, see whether they run, end them.

SECONDS = 60.0  # to start, or to end
BYTES = 1_000_000  # of a log, that a place reads at least in a second when it starts


def start(
    network: Network, names: Sequence[str] = (), *, seconds: float = SECONDS, calm: bool = False
) -> dict[str, int]:
    """Start these places, each as a process of its own that outlives this one; their process numbers.

    One that runs already stays as it is.  Returns when all answer; what keeps one from it is raised.  A place reads its
    log when it starts: for each megabyte there is one of the ``seconds`` more.  ``calm``: what tests arm
    (`base.faults`) is not armed there.
    """
    names = list(names) or list(network.places)
    new = [name for name in names if running(network, name) is None]
    if new:
        _begin(network, new, calm, time.monotonic() + seconds + _to_read(network, new))
    return {name: running(network, name) or 0 for name in names}


def _to_read(network: Network, names: Sequence[str]) -> float:
    """Seconds that it may take to read the logs of these places."""
    logs = [log for name in names if isinstance(log := network.log_of(name), Path) and log.is_file()]
    return sum(log.stat().st_size for log in logs) / BYTES


def _begin(network: Network, names: Sequence[str], calm: bool, until: float) -> None:
    """One process reads what all need and becomes all of them; each tells that it listens, or why it does not."""
    env = {key: value for key, value in os.environ.items() if not calm or key != faults.VARIABLE}
    hear, tell = os.pipe()
    try:
        command = [sys.executable, "-m", "pellucid.atomic.places.host", "--tell", str(tell)]
        done = subprocess.Popen(
            [*command, str(network.folder.absolute()), *names],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[tell], env=env,
        )  # fmt: skip
    except BaseException:
        os.close(hear)
        raise
    finally:
        os.close(tell)
    said = _answers(hear, len(names), until)
    done.wait()
    for name in names:
        if said.get(name) != "listens":
            unsaid = f"it gave no answer in time, or was killed; `pellucid net up {network.folder} {name}` shows more"
            raise StateError(f"{name} did not start: {said.get(name) or unsaid}")


def _answers(hear: int, count: int, until: float) -> dict[str, str]:
    """What each said, until all have, none is left to say anything, or time is over."""
    text = b""
    with os.fdopen(hear, "rb", buffering=0) as pipe:
        while text.count(b"\n") < count and (left := until - time.monotonic()) > 0:
            if not select.select([pipe], [], [], left)[0] or not (more := pipe.read(65536)):
                break
            text += more
    pairs = [line.partition(" ") for line in text.decode("utf-8", "replace").splitlines()]
    return {name: words for name, _, words in pairs}


def end(network: Network, names: Sequence[str] = (), *, seconds: float = SECONDS) -> list[str]:
    """End these places in good order; those that did run."""
    ended = []
    for name in list(names) or list(network.places):
        pid, until = running(network, name), time.monotonic() + seconds
        while pid == 0 and time.monotonic() < until:  # it has begun, and has not said its number yet
            time.sleep(0.02)
            pid = running(network, name)
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            ended.append(name)
    until = time.monotonic() + seconds
    for name in ended:
        while running(network, name) is not None:
            if time.monotonic() > until:
                raise StateError(f"{name} (process {running(network, name)}) does not end: kill -9 loses nothing")
            time.sleep(0.02)
    return ended


@dataclass
class Up:
    """Places that were started together: how often each was started here."""

    network: Network
    starts: dict[str, int] = field(default_factory=dict)


@contextlib.contextmanager
def up(network: Network, names: Sequence[str] = (), *, again: bool = False) -> Iterator[Up]:
    """The places of a network, running as long as the block; with ``again`` one that dies is started again.

    For programs and tests that need a network for a while; one that stays is started by ``pellucid net up``.
    """
    chosen = list(names) or list(network.places)
    start(network, chosen)
    found = Up(network, dict.fromkeys(chosen, 1))
    over = threading.Event()
    watching = threading.Thread(target=_watch, args=(found, over), daemon=True)
    if again:
        watching.start()
    try:
        yield found
    finally:
        over.set()
        if again:
            watching.join()
        end(network, chosen)


def _watch(found: Up, over: threading.Event) -> None:
    while not over.wait(0.05):
        for name in found.starts:
            if running(found.network, name) is None and not over.is_set():
                found.starts[name] += 1  # before it can be seen that it is back
                with contextlib.suppress(PellucidError):
                    start(found.network, [name], calm=True)
