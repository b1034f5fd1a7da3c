"""Processes of places on this machine: start them, see whether they run, end them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pellucid.atomic.places.client import NotReached, Place
from pellucid.atomic.places.network import Network, check_may_listen
from pellucid.atomic.places.serving.lock import running
from pellucid.base import faults
from pellucid.base.files import own_folder
from pellucid.errors import PellucidError, StateError

SAID = "said.log"
SECONDS = 60.0  # to start, or to end


def start(
    network: Network, names: Sequence[str] = (), *, seconds: float = SECONDS, calm: bool = False
) -> dict[str, int]:
    """Start these places, each as a process of its own that goes on when this one ends; their process numbers.

    One that runs already stays as it is.  Returns when all answer; what keeps one from it is raised.  ``calm``: what
    tests arm (`pellucid.base.faults`) is not armed there.
    """
    names = list(names) or list(network.places)
    for name in names:
        check_may_listen(network, name)
    began = {name: _begin(network, name, calm) for name in names if running(network, name) is None}
    until = time.monotonic() + seconds
    for name in names:
        _answers(network, name, began.get(name), until)
    return {name: running(network, name) or 0 for name in names}


def _begin(network: Network, name: str, calm: bool) -> subprocess.Popen[bytes]:
    folder = network.folder_of(name)
    own_folder(folder, "DIR", "lock")
    said = os.open(folder / SAID, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    env = {key: value for key, value in os.environ.items() if not calm or key != faults.VARIABLE}
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "pellucid.atomic.places.host", str(network.folder.absolute()), name],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True, env=env,
        )  # fmt: skip
    finally:
        os.close(said)


def _answers(network: Network, name: str, process: subprocess.Popen[bytes] | None, until: float) -> None:
    while True:
        with contextlib.suppress(NotReached), Place(network, name) as place:
            place.reach()
            if process is not None:
                process.returncode = 0  # it goes on without us, and nobody waits for it
            return
        if process is not None and process.poll() is not None:
            raise StateError(f"{name} did not start: {_last_words(network, name)}")
        if time.monotonic() > until:
            raise StateError(f"{name} gives no answer; see {network.folder_of(name) / SAID}")
        time.sleep(0.02)


def _last_words(network: Network, name: str) -> str:
    try:
        with open(network.folder_of(name) / SAID, "rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - 4096, 0))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    words = [line.removeprefix("pellucid: ") for line in lines if line.startswith("pellucid: ")]
    return words[-1] if words else lines[-1] if lines else f"see {network.folder_of(name) / SAID}"


def end(network: Network, names: Sequence[str] = (), *, seconds: float = SECONDS) -> list[str]:
    """End these places in good order; those that did run."""
    ended = []
    for name in list(names) or list(network.places):
        if pid := running(network, name):
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
                with contextlib.suppress(PellucidError):
                    start(found.network, [name], calm=True)
                    found.starts[name] += 1
