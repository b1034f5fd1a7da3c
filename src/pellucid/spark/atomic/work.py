"""Where jobs over logs keep what is between two of them: Parquet files in a folder that goes when the answer does.

Each round reads what the one before it wrote, so that no plan grows with the rounds and no executor that is lost takes
a round with it; what a round counts is counted while it is written.

Who is killed leaves its folder.  In that of temporary files each has a lock that ends with its owner, and the next who
makes one there removes those that nobody holds.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import glob
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from pellucid.base.files import no_links
from pellucid.errors import UsageError
from pellucid.sinks.address import absolute, on_this_machine

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FIT = 30_000_000  # edges that one task takes: some 100 bytes each
BLOCK = 4_000_000  # edges of a block, in a round
ROUNDS = 100
PREFIX = "pellucid-logs-"
OWNER = "owner"  # a file in each folder, which is locked as long as its owner lives


class Work:
    """A folder of tables, and the bounds of the rounds."""

    def __init__(self, spark: SparkSession, folder: str | None, fit: int, most: int) -> None:
        for name, number in (("fit", fit), ("rounds", most)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise UsageError(f"{name}={number!r}: expected a whole number, not below 0")
        self.spark, self.fit, self.most, self.block = spark, fit, most, BLOCK
        self.rounds: dict[str, int] = {}  # what was asked, and in how many rounds it was answered
        self._folder = _folder(spark, folder)
        self._local = on_this_machine(self._folder)
        self._lock = _hold(self._folder) if self._local else -1
        if self._local:
            atexit.register(self.close)
        self._number = 0

    def save(self, frame: DataFrame, **counts: Column) -> Saved:
        """Write it, count, and read it again."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as sql

        self._number += 1
        path = f"{self._folder}/{self._number}"
        seen = Observation()
        observed = frame.observe(
            seen, *(how.alias(name) for name, how in {"rows": sql.count(sql.lit(1)), **counts}.items())
        )
        observed.write.parquet(path)
        told = {name: int(value or 0) for name, value in seen.get.items()}
        return Saved(self, path, self.spark.read.schema(frame.schema).parquet(path), told)

    def remove(self, path: str) -> None:
        """A table that nobody reads any more."""
        if self._local:
            shutil.rmtree(path, ignore_errors=True)
            return
        with contextlib.suppress(Exception):  # what cannot be removed stays: the answer does not depend on it
            jvm: Any = self.spark._jvm
            there = jvm.org.apache.hadoop.fs.Path(path)
            there.getFileSystem(self.spark._jsc.hadoopConfiguration()).delete(there, True)

    def abandon(self) -> None:
        """Remove all of it, in the middle of a job: what tasks that still run write there goes when Python ends."""
        self.remove(self._folder)

    def close(self) -> None:
        """Remove all of it."""
        self.remove(self._folder)
        if self._lock >= 0:
            atexit.unregister(self.close)
            os.close(self._lock)
            self._lock = -1


class Saved:
    """A table in the folder, with what was counted of it."""

    def __init__(self, work: Work, path: str, frame: DataFrame, told: dict[str, int]) -> None:
        self.frame, self.told, self.rows = frame, told, told["rows"]
        self._work, self._path = work, path

    def view(self, frame: DataFrame, **told: int) -> Saved:
        """Something made of it, row by row, of which this is known; the table stays when that is dropped."""
        return Saved(self._work, "", frame, {**self.told, **told})

    def drop(self) -> None:
        """It is read no more."""
        if self._path:
            self._work.remove(self._path)


def _folder(spark: SparkSession, given: str | None) -> str:
    """A folder of its own, inside the one that was given; on this machine in that of temporary files."""
    name = next(tempfile._get_candidate_names())  # type: ignore[attr-defined]
    if given is not None:
        place = f"{absolute(str(given)).rstrip('/')}/{PREFIX}{name}"
        if on_this_machine(place):
            os.makedirs(place, mode=0o700)
        return place
    try:
        master = spark.sparkContext.master
    except Exception:  # Spark Connect has no context
        master = ""
    if not master.startswith("local"):
        raise UsageError(
            "work=: expected a folder that the driver and all executors see (hdfs://…, s3a://…, a shared disk): there "
            "the rounds keep their tables, and remove them"
        )
    sweep(tempfile.gettempdir())
    return tempfile.mkdtemp(prefix=PREFIX)


def _hold(folder: str) -> int:
    """The lock of a folder; it has its name only once it is held, so that nobody takes the folder for left."""
    handle = os.open(f"{folder}/{OWNER}.new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.rename(f"{folder}/{OWNER}.new", f"{folder}/{OWNER}")
    return handle


def sweep(place: str) -> list[str]:
    """Remove folders of this user whose owner was killed; those that were removed.

    >>> place = tempfile.mkdtemp()
    >>> left, used, other = (tempfile.mkdtemp(prefix=PREFIX, dir=place) for _ in range(3))
    >>> os.close(_hold(left)), _hold(used) >= 0
    (None, True)
    >>> sweep(place) == [left], sorted(os.listdir(place)) == sorted(map(os.path.basename, (used, other)))
    (True, True)
    """
    swept = []
    for folder in glob.glob(f"{glob.escape(place)}/{PREFIX}*"):
        try:
            if os.lstat(folder).st_uid != os.getuid():
                continue
            handle = no_links(f"{folder}/{OWNER}", os.O_RDWR)
        except OSError:  # it is not held yet, or gone
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            swept.append(folder)
        except OSError:  # its owner lives
            continue
        finally:
            os.close(handle)
    return swept
