"""The processes of a running job, found in /proc: its JVM, the Python daemon below it, and the daemon's workers."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

DAEMONS = ("pyspark.daemon", "pellucid.spark.daemon", "tests.spark.warm_daemon")  # modules that fork Python workers


def parent(pid: int) -> int:
    """0 if the process has gone, or only waits to be buried."""
    try:
        state, above, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return 0
    return 0 if state == "Z" else int(above)


def alive(pid: int) -> bool:
    return parent(pid) != 0


def children(pid: int) -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit() and parent(int(name)) == pid)


def below(pid: int) -> list[int]:
    """All descendants, nearest first."""
    found, level = [], [pid]
    while level:
        level = [child for one in level for child in children(one)]
        found += level
    return found


def words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def jvms(pid: int) -> list[int]:
    return [
        child
        for child in below(pid)
        if "org.apache.spark.deploy.SparkSubmit" in words(child) and "java" in words(child).split(" ")[0]
    ]


def daemons(pid: int) -> list[int]:
    """The processes that fork Python workers: one below each JVM that runs Python tasks."""
    return [child for child in below(pid) if _forks(child) and not _forks(parent(child))]


def _forks(pid: int) -> bool:
    """Whether this is a daemon of workers, or a worker, which has the words of its daemon."""
    return any(word in DAEMONS for word in words(pid).split(" "))


def python_workers(pid: int) -> list[int]:
    return [worker for daemon in daemons(pid) for worker in children(daemon)]


def orphans(pid: int) -> list[int]:
    """Workers whose daemon was killed: Spark goes on with them as long as they are enough.  They stay in the job's
    session."""
    found = [int(name) for name in os.listdir("/proc") if name.isdigit() and _session(int(name)) == pid]
    return [one for one in sorted(found) if _forks(one) and alive(one)]


def _session(pid: int) -> int:
    with suppress(OSError):
        return os.getsid(pid)
    return 0


def kill(pid: int) -> bool:
    """Whether it was there to be killed."""
    with suppress(ProcessLookupError):
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def gone(pids: list[int], seconds: float) -> bool:
    """Whether they all end within that time."""
    end = time.monotonic() + seconds
    while any(alive(pid) for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
