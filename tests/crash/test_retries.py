"""Tasks that fail, die, run twice at once, or lose their executor: the answers stay right."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.contents import compared, events
from tests.crash.harness import ROOT, Kill, World, end, targets
from tests.crash.pipelines import MARKS
from tests.spark.cluster import REGISTERED, Cluster, launch, standalone, wait_until


def marked(folder: Path) -> Path:
    marks = folder / "marks"
    marks.mkdir(parents=True)
    return marks


def attempts(marks: Path, what: str) -> set[int]:
    """The attempt numbers of the tasks that came to a marked place."""
    lines = (line.split() for line in (marks / "attempts").read_text().splitlines())
    return {int(number) for mark, number in lines if mark.startswith(what)}


@pytest.mark.long
@pytest.mark.parametrize(("name", "what"), [("raiser", "raise"), ("dier", "die")])
def test_a_task_that_fails_once(java_home: object, tmp_path: Path, name: str, what: str) -> None:
    marks = marked(tmp_path)
    world = World(
        name,
        tmp_path / "w",
        targets(tmp_path / "w", ["parquet", "files", "sqlite", "managed"]),
        files=3,
        environment={MARKS: str(marks)},
        master="local[2,40]",
    )
    world.finish()
    assert attempts(marks, what) - {0}, "no task was retried"
    for sink, verdict in world.verdicts():
        assert str(verdict) == "exact", sink


# ------------------------------------------------------------ a real cluster


@pytest.fixture(scope="module")
def cluster(java_home: object) -> Iterator[Cluster]:
    with standalone(workers=2, cores=1, memory="700m") as running:
        yield running


def on(cluster: Cluster, name: str, folder: Path, sinks: list[str], **more: object) -> World:
    """A job on the cluster; its functions lie in this repository, which the executors are told."""
    marks = marked(folder)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    conf = {
        **cluster.conf,
        "spark.executorEnv.PYTHONPATH": path,
        f"spark.executorEnv.{MARKS}": str(marks),
        "spark.cores.max": "2",
        "spark.task.maxFailures": "20",
        **more.pop("conf", {}),
    }  # type: ignore[dict-item]
    made = World(
        name,
        folder / "w",
        targets(folder / "w", sinks),
        master=cluster.master,
        conf=conf,
        executors=cluster.executors,
        **more,
    )  # type: ignore[arg-type]
    return made


@pytest.mark.long  # three Javas; in every run the driver is killed
def test_an_executor_is_killed_in_a_streaming_query(cluster: Cluster, tmp_path: Path) -> None:
    world = on(cluster, "lingerer", tmp_path, ["parquet", "sqlite"], files=3, rows=80, spare=9)
    world.campaign([Kill("executor", "offsets", 0.5)], each=3)
    assert len(world.hits) == 1
    for sink, verdict in world.verdicts():
        assert str(verdict) == "exact", sink
    wait_until(lambda: not cluster.executors(), 300, "the executors to end with their job")


@pytest.mark.long  # a streaming query is many such jobs
def test_an_executor_is_killed_in_a_batch_job(cluster: Cluster, tmp_path: Path) -> None:
    both = {
        "spark.sql.adaptive.coalescePartitions.enabled": "false"
    }  # so few rows would be one task, on one of the workers
    world = on(cluster, "lingerer", tmp_path, [], files=4, rows=200, mode="batch", conf=both)
    world.release()
    job = world.start()
    try:
        # The first row is being worked on, and hundreds are to come.
        wait_until(lambda: (tmp_path / "marks" / "lingering").exists() or job.poll() is not None, 600, "the first row")
        assert job.poll() is None, world.log()
        assert not (world.work / "batch" / "_SUCCESS").exists()
        wait_until(lambda: len(cluster.at_work()) == 2 or job.poll() is not None, 300, "tasks on both workers")
        assert job.poll() is None, world.log()
        killed = cluster.kill_executor(signal.SIGKILL)
        wait_until(lambda: killed not in cluster.executors(), 300, "the executor to be gone")
        world.finish(job)
    finally:
        end(job)
    found = events(world.case.pipeline, "folder", {"path": str(world.work / "batch")})
    assert str(compared(world.case.answer(world.parts), found)) == "exact"
    wait_until(lambda: not cluster.executors(), 300, "the executors to end with their job")


@pytest.fixture(scope="module")
def two_hosts(java_home: object) -> Iterator[Cluster]:
    """Spark never puts a task's twin on the host of the first, so the second worker has another address of the
    loopback."""
    host = "127.0.0.2"
    with standalone(workers=1, cores=1, memory="700m") as running:
        launch(
            running,
            "worker1",
            "org.apache.spark.deploy.worker.Worker",
            "--host",
            host,
            "--webui-port",
            "0",
            "--cores",
            "1",
            "--memory",
            "700m",
            "--work-dir",
            str(running.folder / "work1"),
            running.master,
            SPARK_LOCAL_IP=host,
        )
        wait_until(
            lambda: len(REGISTERED.findall(running.log("master"))) >= 2, 300, "the second worker", running, "worker1"
        )
        running.conf["spark.sql.shuffle.partitions"] = "2"
        yield running


@pytest.mark.long
@pytest.mark.parametrize("sink", ["parquet", "files", "sqlite"])
def test_speculative_tasks(two_hosts: Cluster, tmp_path: Path, sink: str) -> None:
    """A task that sleeps gets a twin on the other executor; the twin wins, and the first one may still be writing."""
    conf = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "200ms",
    }
    world = on(two_hosts, "sleeper", tmp_path, [sink], files=3, conf=conf)
    world.finish()
    assert attempts(tmp_path / "marks", "sleep") - {0}, "no task had a twin"
    assert str(world.verdict(sink)) == "exact"
    wait_until(lambda: not two_hosts.executors(), 300, "the executors to end with their job")
