"""A real cluster of two workers: a job runs on it, and runs right when an executor is killed in the middle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster import Cluster, standalone, wait_until

# A driver of its own: a process has one Spark at a time, and the other tests' is there.
DRIVER = """
    import json, os, sys, time
    from pellucid.spark.session import cores, session, stop_if_ours

    master, conf, flag, seconds = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    spark = session(master=master, conf=conf)
    time_out = time.monotonic() + 600
    while cores(spark) < 2 and time.monotonic() < time_out:
        time.sleep(0.2)

    def slow_square(batches):
        import pyarrow as pa
        for batch in batches:
            open(f"{flag}.{os.getpid()}", "w").close()
            time.sleep(seconds)
            squares = [v * v for v in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"x": squares, "pid": [os.getppid()] * len(batch)})

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
    rows = spark.range(0, 4000, 1, 4).mapInArrow(slow_square, "x long, pid long").collect()
    print(json.dumps({"sum": sum(r.x for r in rows), "count": len(rows), "pids": len({r.pid for r in rows})}))
    stop_if_ours(spark)
"""


@pytest.fixture(scope="module")
def cluster(java_home: Any) -> Iterator[Cluster]:
    with standalone(workers=2, cores=1, memory="600m") as running:
        yield running


def drive(cluster: Cluster, flag: Path, seconds: float) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-c",
        textwrap.dedent(DRIVER),
        cluster.master,
        json.dumps(cluster.conf),
        str(flag),
        str(seconds),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer(driver: subprocess.Popen[str]) -> dict[str, int]:
    out, err = driver.communicate(timeout=240)
    assert driver.returncode == 0, err
    found: dict[str, int] = json.loads(out)
    return found


RIGHT = {"sum": sum(v * v for v in range(4000)), "count": 4000}


@pytest.mark.long  # tests/crash/test_retries.py runs a pipeline on both, and kills one under it, in every run
def test_a_job_runs_on_both_workers(cluster: Cluster, tmp_path: Path) -> None:
    found = answer(drive(cluster, tmp_path / "flag", 0.2))
    assert {k: found[k] for k in RIGHT} == RIGHT
    assert found["pids"] == 2
    wait_until(lambda: not cluster.executors(), 300, "the executors to end with their job")


@pytest.mark.long
def test_an_executor_is_killed_in_mid_job(cluster: Cluster, tmp_path: Path) -> None:
    driver = drive(cluster, tmp_path / "flag", 1.0)
    wait_until(lambda: any(tmp_path.iterdir()), 600, "the first batch")
    assert driver.poll() is None
    killed = cluster.kill_executor()
    wait_until(lambda: killed not in cluster.executors(), 300, "the executor to be gone")
    found = answer(driver)
    assert {k: found[k] for k in RIGHT} == RIGHT
    # The cluster saw it as well: 137 is 128 + SIGKILL.  (Executors that end with their job are killed, by another
    # signal.)
    wait_until(
        lambda: any("exitStatus 137" in cluster.log(f"worker{n}") for n in (0, 1)), 300, "a worker to report the kill"
    )


def test_nothing_is_left(java_home: Any) -> None:
    with standalone(workers=1, memory="600m") as running:
        pids = [process.pid for process in running.processes.values()]
        folder = running.folder
        assert running.executors() == [] and all(Path(f"/proc/{pid}").exists() for pid in pids)
        killed = running.kill_worker()
        assert killed in pids and len(running.processes) == 1
    time.sleep(0.1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids) and not os.path.exists(folder)
