"""Spark's daemon of Python workers, without the tracebacks of workers that are no longer waited for.

A task may end before its worker: ``limit`` has seen enough, a sibling has failed, a query was stopped.  Spark then
closes the socket, and the worker, which has rows left in its buffer, finds a broken pipe.  Nothing is lost by it, but
``pyspark.daemon`` prints its traceback, line by line, among those of others.  So a local session of Pellucid
(:mod:`pellucid.spark.session`) starts its workers here: a lost connection ends a worker as before, without a word;
whatever else ends one is printed, in one piece.

When a task is over, any daemon of Spark's collects garbage in its worker, in full: it walks through all objects of all
modules that are loaded, with Numba's some 140,000, which takes longer than a small micro-batch does in Pellucid.
Modules stay; so tasks take them out of the collector's sight, once, when they have been loaded (`modules_stay`).
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from types import SimpleNamespace
from typing import Any

MODULE = "pellucid.spark.daemon"  # for spark.python.daemon.module

_SOME = 50  # modules that are worth it

_known = 0  # modules that were there when it was done last
_caches: list[dict[Any, Any]] = []


def manager() -> None:
    """Run the daemon until Spark ends it; this is what ``python -m pellucid.spark.daemon`` does, and needs a Spark to
    talk to."""
    from pyspark import daemon

    # A flush that fails is then raised as any other error, and not printed on the spot.
    os.environ["PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE"] = "1"
    daemon.traceback = SimpleNamespace(print_exc=_tell, format_exc=traceback.format_exc)
    daemon.manager()


def _tell() -> None:
    """Print the error that ends a worker, unless it is that its task has ended before."""
    if not isinstance(sys.exc_info()[1], ConnectionError):
        sys.stderr.write(traceback.format_exc())
        sys.stderr.flush()


# ---------------------------------------------------------------- garbage


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


if __name__ == "__main__":
    manager()
