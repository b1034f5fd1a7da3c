"""Spark's daemon of Python workers, without the tracebacks of workers that nobody waits for any more.

A task may end before its worker: ``limit`` has seen enough, a sibling has failed, a query was stopped.  Spark then
closes the socket, and the worker, which has rows left in its buffer, finds a broken pipe.  Nothing is lost by it, but
``pyspark.daemon`` prints its traceback, line by line, among those of others.  So a local session of Pellucid
(:mod:`pellucid.spark.session`) starts its workers here: a lost connection ends a worker as before, without a word;
whatever else ends one is printed, in one piece.
"""

from __future__ import annotations

import os
import sys
import traceback
from types import SimpleNamespace

MODULE = "pellucid.spark.daemon"  # for spark.python.daemon.module


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


if __name__ == "__main__":
    manager()
