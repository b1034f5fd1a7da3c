"""What Spark's daemon of Python workers need not look at after every task.

When a task is over, the daemon collects garbage in its worker, in full: it walks through all objects of all modules
that are loaded, with Numba's some 140,000, which takes longer than a small micro-batch does in Pellucid.  Modules stay;
so they are taken out of the collector's sight once, when they have been loaded.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

_SOME = 50  # modules that are worth it

_known = 0  # modules that were there when it was done last
_caches: list[dict[Any, Any]] = []


def dropped_before(cache: dict[Any, Any]) -> dict[Any, Any]:
    """A cache whose contents are thrown away before what is there is put out of the collector's sight: of what it
    holds, cycles could never be collected any more."""
    _caches.append(cache)
    return cache


def modules_stay() -> bool:
    """At the beginning of a task of Spark's, put what is loaded out of the collector's sight, if much has been loaded
    since it was done last; elsewhere nothing.  Whether it was done.

    >>> modules_stay()  # this is no task
    False
    """
    global _known
    loaded = len(sys.modules)
    if loaded < _known + _SOME or not _in_a_task():
        return False
    _known = loaded
    for cache in _caches:
        cache.clear()
    gc.collect()
    gc.freeze()
    return True


def _in_a_task() -> bool:
    found = sys.modules.get("pyspark.taskcontext")
    return found is not None and found.TaskContext.get() is not None
