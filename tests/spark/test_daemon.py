"""Workers whose task has ended before them end without a word, and all others with one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pellucid.spark.daemon import manager

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BrokenPipeError(32, "Broken pipe"), ""),
        (ConnectionResetError(), ""),
        (ValueError("mine"), "ValueError: mine\n"),
        (OSError("disk"), "OSError: disk\n"),
    ],
)
def test_only_a_lost_connection_is_silent(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon = pytest.importorskip("pyspark.daemon")

    def ends() -> None:
        """As pyspark's own manager does when a worker ends with an error."""
        try:
            raise error
        except BaseException:
            daemon.traceback.print_exc()

    monkeypatch.setattr(daemon, "traceback", daemon.traceback)  # put back afterwards
    monkeypatch.setattr(daemon, "manager", ends)
    monkeypatch.setenv("PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE", "")
    manager()
    shown = capsys.readouterr().err
    assert shown.endswith(said) and shown.startswith("Traceback (most recent call last):\n" if said else "")
    assert bool(shown) == bool(said)


def test_a_task_that_ends_before_its_worker_leaves_no_traceback(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path)

    def endless(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for _ in batches:
            Path(place, str(os.getpid())).touch()
            while True:  # only a lost connection ends it
                yield pa.RecordBatch.from_pydict({"id": list(range(10_000))})

    assert spark.range(1, numPartitions=1).mapInArrow(endless, "id long").limit(1).count() == 1
    (pid,) = os.listdir(place)
    deadline = time.monotonic() + 60
    while Path("/proc", pid).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.2)  # what it said comes through a pipe
    assert not Path("/proc", pid).exists() and capfd.readouterr().err == ""


SCRIPT = """
import gc, sys, weakref
from types import SimpleNamespace
from pellucid.spark import daemon

class Ring:
    def __init__(self):
        self.me = self

cache = daemon.dropped_before({"a": Ring()})
ring = weakref.ref(cache["a"])
assert not daemon.modules_stay() and not gc.get_freeze_count() and cache  # no Spark, no task
task = SimpleNamespace(get=lambda: None)
sys.modules["pyspark.taskcontext"] = SimpleNamespace(TaskContext=task)
assert not daemon.modules_stay() and not gc.get_freeze_count()
task.get = lambda: "a task"
assert daemon.modules_stay() and gc.get_freeze_count() > 1000 and not cache and ring() is None
cache["b"] = Ring()
before = gc.get_freeze_count()
assert not daemon.modules_stay() and gc.get_freeze_count() == before and cache  # nothing was loaded since
sys.modules.update({f"more_{i}": task for i in range(60)})
assert daemon.modules_stay() and not cache
print("done")
"""


def test_modules_are_put_out_of_sight_once_and_in_a_task_alone() -> None:
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, "done\n", "")
