"""What the tests share that need Spark: one small session for the whole run, and a PostgreSQL server.

The session is made the way a user's is, by :mod:`pellucid.spark.session`, only smaller.  Where the machine has no Java
for Spark (or no PostgreSQL) the tests are skipped, with the message that a user would get as the reason.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pellucid.errors import UsageError
from pellucid.spark import java
from pellucid.spark.session import session, stop_if_ours
from tests.sinks.postgres import Postgres, server_or_skip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def java_home() -> java.JavaHome:
    """The Java that Spark runs on; whoever needs one is skipped where there is none."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'pellucid[spark]'")
    try:
        return java.find()
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(java_home: java.JavaHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark of two cores in this process; all that it writes is temporary.

    A task has two attempts: enough to see one retried, and what fails for good costs no more starts of workers than
    that.
    """
    folder = tmp_path_factory.mktemp("spark")
    # Workers must run this Python whatever the shell says.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    made = session(
        master="local[2,2]",
        name="pellucid-tests",
        conf={
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
            "spark.python.daemon.module": "tests.spark.warm_daemon",
            "spark.executorEnv.PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        },
    )
    made.sparkContext.setLogLevel("ERROR")
    yield made
    stop_if_ours(made)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real PostgreSQL server: ``.dsn`` is its address, ``.database()`` makes an empty database of its own."""
    yield from server_or_skip()
