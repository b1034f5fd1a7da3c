"""A real cluster of two workers: a job runs on it, and runs right when an executor is killed in the middle."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster import LOOPBACK, REGISTERED, Cluster, launch, standalone, wait_until

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


# Queries in which workers have disks of their own: under "own" both, under "half" one, under "shared" one from the
# third micro-batch on.
QUERIES = """
    import json, os, subprocess, sys, time
    from pathlib import Path
    from pellucid import pipeline
    from pellucid.spark import explain
    from pellucid.spark.session import cores, session, stop_if_ours

    master, conf, folder, worker = sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    # one failure ends the query: else a task is tried again, perhaps on the worker that has the folder
    spark = session(master=master, conf={**conf, "spark.locality.wait": "0s", "spark.task.maxFailures": "1"})
    time_out = time.monotonic() + 600
    while cores(spark) < 2 and time.monotonic() < time_out:
        time.sleep(0.2)
    total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    (folder / "in").mkdir()
    for n in range(4):
        rows = [{"user": user, "seq": n, "x": 1} for user in "abcdefgh"]
        (folder / "in" / f"{n}.json").write_text("\\n".join(map(json.dumps, rows)))
        os.utime(folder / "in" / f"{n}.json", (1e9 + n, 1e9 + n))  # by which Spark orders files
    said = {}
    for name in ("own", "half", "shared"):
        taken = []
        def take(df, number):
            taken.append(len(df.collect()))
            if name == "shared" and number == 1:
                command = ["nsenter", "-t", worker, "-m", "mount", "-t", "tmpfs", "tmpfs", str(folder / name)]
                subprocess.run(command, check=True)
        stream = spark.readStream.schema("user string, seq int, x int").option("maxFilesPerTrigger", 1)
        given = {"key": "user", "order": "seq", "buckets": 4, "state": f"{folder}/{name}"}
        out = total.spark(stream.json(f"{folder}/in"), **given)
        query = out.writeStream.foreachBatch(take).option("checkpointLocation", f"{folder}/of-{name}")
        try:
            query.trigger(availableNow=True).start().awaitTermination()
            said[name] = [taken, "ended well"]
        except Exception as error:
            said[name] = [taken, str(explain(error))]
    print(json.dumps(said))
    stop_if_ours(spark)
"""


@pytest.mark.long
def test_workers_that_do_not_share_the_state_folder(java_home: Any, tmp_path: Path) -> None:
    for name in ("own", "half", "shared"):
        (tmp_path / name).mkdir()
    tried = None
    if shutil.which("unshare") and shutil.which("nsenter"):
        mounted = f"mount --make-rprivate / && mount -t tmpfs tmpfs {tmp_path}/own"
        tried = subprocess.run(["unshare", "-m", "sh", "-c", mounted], capture_output=True, text=True)
    if tried is None or tried.returncode:
        pytest.skip(f"no mount namespaces here: {tried.stderr.strip() if tried else 'no unshare or nsenter'}")
    with standalone(workers=0, cores=1, memory="600m") as running:
        for number, folders in enumerate((["own"], ["own", "half"])):
            mounts = [f"mount -t tmpfs tmpfs {tmp_path}/{name}" for name in folders]
            script = " && ".join(["mount --make-rprivate /", *mounts, 'exec "$@"'])
            launch(
                running,
                f"worker{number}",
                "org.apache.spark.deploy.worker.Worker",
                *("--host", LOOPBACK, "--webui-port", "0", "--cores", "1", "--memory", "600m"),
                *("--work-dir", str(running.folder / f"work{number}"), running.master),
                within=["unshare", "-m", "sh", "-c", script, "sh"],
            )
        wait_until(lambda: len(REGISTERED.findall(running.log("master"))) >= 2, 300, "two workers", running, "worker0")
        conf = {**running.conf, "spark.sql.shuffle.partitions": "2", "spark.cores.max": "2"}
        pid = str(running.processes["worker1"].pid)
        command = [sys.executable, "-c", textwrap.dedent(QUERIES), running.master, json.dumps(conf), str(tmp_path), pid]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    for name, (taken, said) in json.loads(done.stdout).items():
        assert taken == ([8, 8] if name == "shared" else []), (name, said)
        assert said.startswith(f"the state folder {tmp_path}/{name} that this task sees on "), said
        assert "must be on a file system that the driver and all workers share" in said


def test_nothing_is_left(java_home: Any) -> None:
    with standalone(workers=1, memory="600m") as running:
        pids = [process.pid for process in running.processes.values()]
        folder = running.folder
        assert running.executors() == [] and all(Path(f"/proc/{pid}").exists() for pid in pids)
        killed = running.kill_worker()
        assert killed in pids and len(running.processes) == 1
    time.sleep(0.1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids) and not os.path.exists(folder)
