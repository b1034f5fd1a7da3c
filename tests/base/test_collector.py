"""Modules are put out of the collector's sight in a task of Spark's, once, and what was remembered before is gone."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc, sys, weakref
from types import SimpleNamespace
from pellucid.base import collector as collect

class Ring:
    def __init__(self):
        self.me = self

cache = collect.dropped_before({"a": Ring()})
ring = weakref.ref(cache["a"])
assert not collect.modules_stay() and not gc.get_freeze_count() and cache  # no Spark, no task
task = SimpleNamespace(get=lambda: None)
sys.modules["pyspark.taskcontext"] = SimpleNamespace(TaskContext=task)
assert not collect.modules_stay() and not gc.get_freeze_count()
task.get = lambda: "a task"
assert collect.modules_stay() and gc.get_freeze_count() > 1000 and not cache and ring() is None
cache["b"] = Ring()
before = gc.get_freeze_count()
assert not collect.modules_stay() and gc.get_freeze_count() == before and cache  # nothing was loaded since
sys.modules.update({f"more_{i}": task for i in range(60)})
assert collect.modules_stay() and not cache
print("done")
"""


def test_modules_are_put_out_of_sight_once_and_in_a_task_alone() -> None:
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, "done\n", "")
