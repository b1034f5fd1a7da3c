"""A real Spark cluster on this machine: one master and some workers, each a JVM of its own, on the loopback address.

It is started from the pip-installed Spark.  What differs from ``local[2]`` is what matters: executors are other
processes, they can be killed, and everything a task needs has to travel to them.

::

    with standalone(workers=2) as cluster:
        spark = session(master=cluster.master, conf=cluster.conf)
        …
        cluster.kill_executor()
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pellucid.atomic.places.network import free_ports
from pellucid.spark import java
from tests.spark import quick_jvm

LOOPBACK = "127.0.0.1"
REGISTERED = re.compile(r"Registering worker ")


@dataclass
class Cluster:
    """A running cluster; ``conf`` is what a driver needs to find it from here."""

    master: str
    folder: Path
    processes: dict[str, subprocess.Popen[bytes]]
    environment: dict[str, str]
    conf: dict[str, str] = field(default_factory=dict)

    def executors(self) -> list[int]:
        """The process ids of the executors' JVMs, oldest first."""
        return sorted(pid for pid in _processes() if _is_executor(pid) and _parent(pid) in self._worker_pids())

    def python_workers(self) -> list[int]:
        """The process ids of the Python processes that executors have started."""
        executors = set(self.executors())
        return sorted(pid for pid in _processes() if _ancestors(pid) & executors)

    def at_work(self) -> set[int]:
        """The executors that have started Python processes."""
        executors = set(self.executors())
        return {pid for worker in self.python_workers() for pid in _ancestors(worker) & executors}

    def wait_for_executors(self, count: int, seconds: float = 600) -> list[int]:
        """The executors, once there are as many as wanted."""
        wait_until(lambda: len(self.executors()) >= count, seconds, f"{count} executors")
        return self.executors()

    def kill_executor(self, how: signal.Signals = signal.SIGKILL) -> int:
        """Kill the oldest executor and give its process id; the master starts another one."""
        pid = self.wait_for_executors(1)[0]
        os.kill(pid, how)
        return pid

    def kill_worker(self, how: signal.Signals = signal.SIGKILL) -> int:
        """Kill a worker and, as on a machine that goes down, its executors; give the worker's process id."""
        name, process = next((n, p) for n, p in self.processes.items() if n != "master" and p.poll() is None)
        executors = [pid for pid in self.executors() if _parent(pid) == process.pid]
        for pid in [process.pid, *executors]:
            _signal(pid, how)
        process.wait()
        del self.processes[name]
        return process.pid

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _worker_pids(self) -> set[int]:
        return {process.pid for name, process in self.processes.items() if name != "master"}


@contextmanager
def standalone(workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[Cluster]:
    """A cluster whose workers have registered; all of it is gone afterwards."""
    home = java.find().home
    with tempfile.TemporaryDirectory(prefix="pellucid-cluster-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        log = folder / "log4j2.properties"
        environment = {
            **os.environ,
            "JAVA_HOME": str(home),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_CONF_DIR": str(folder / "conf"),  # which is not there: nothing of this machine's own settings
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{quick_jvm.options()} -Dlog4j2.configurationFile={log.as_uri()}",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_DIRS": str(folder / "local"),
        }
        log.write_text(
            "rootLogger.level = info\nrootLogger.appenderRef.c.ref = c\nappender.c.type = Console\nappender.c.name = "
            "c\n"
            "appender.c.target = SYSTEM_ERR\nappender.c.layout.type = PatternLayout\n"
            "appender.c.layout.pattern = %d %p %c{1}: %m%n%ex\n"
        )
        (port,) = free_ports(1)
        cluster = Cluster(f"spark://{LOOPBACK}:{port}", folder, {}, environment)
        # A driver on the loopback address, and one core for each executor: they spread over all workers.
        cluster.conf = {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.executor.cores": str(cores),
            "spark.executor.memory": memory,
            "spark.executor.extraJavaOptions": quick_jvm.options(),
            "spark.sql.shuffle.partitions": str(workers * cores),
        }
        try:
            launch(
                cluster,
                "master",
                "org.apache.spark.deploy.master.Master",
                "--host",
                LOOPBACK,
                "--port",
                str(port),
                "--webui-port",
                "0",
            )
            wait_until(lambda: _listens(port), 300, "the master", cluster, "master")
            for number in range(workers):
                launch(
                    cluster,
                    f"worker{number}",
                    "org.apache.spark.deploy.worker.Worker",
                    "--host",
                    LOOPBACK,
                    "--webui-port",
                    "0",
                    "--cores",
                    str(cores),
                    "--memory",
                    memory,
                    "--work-dir",
                    str(folder / f"work{number}"),
                    cluster.master,
                )
            wait_until(
                lambda: len(REGISTERED.findall(cluster.log("master"))) >= workers,
                90,
                f"{workers} workers to register",
                cluster,
                "worker0",
            )
            yield cluster
        finally:
            _tear_down(cluster)


def wait_until(
    done: Callable[[], bool], seconds: float, what: str, cluster: Cluster | None = None, name: str = "master"
) -> None:
    """Wait for something, at most some seconds; if it does not come, say what and show the log."""
    deadline = time.monotonic() + seconds
    while not done():
        died = cluster is not None and any(process.poll() is not None for process in cluster.processes.values())
        if died or time.monotonic() > deadline:
            log = f":\n{cluster.log(name)[-3000:]}" if cluster else ""
            raise TimeoutError(f"waited {seconds} s in vain for {what}{log}")
        time.sleep(0.1)


def launch(cluster: Cluster, name: str, *command: str, within: Sequence[str] = (), **more: str) -> None:
    """Start a process of the cluster; ``more`` is for its environment, ``within`` the command that runs it, if any."""
    import pyspark

    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with open(cluster.folder / f"{name}.log", "wb") as log:
        cluster.processes[name] = subprocess.Popen(
            [*within, str(spark_class), *command],
            env={**cluster.environment, **more},
            cwd=cluster.folder,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _tear_down(cluster: Cluster) -> None:
    """Kill by process id, executors first known, workers first killed: else a worker would start new ones."""
    executors = cluster.executors()
    pythons = cluster.python_workers()
    for _, process in sorted(cluster.processes.items(), reverse=True):
        process.kill()
    for pid in [*executors, *pythons]:
        _signal(pid, signal.SIGKILL)
    for process in cluster.processes.values():
        process.wait()


def _signal(pid: int, how: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it was quicker
        os.kill(pid, how)


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _is_executor(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words


def _parent(pid: int) -> int:
    """0 if the process has gone or is only waiting to be buried."""
    try:
        # The name stands in parentheses and may contain anything: the state and the parent follow the last one.
        state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return 0
    return 0 if state == "Z" else int(parent)


def _ancestors(pid: int) -> set[int]:
    found: set[int] = set()
    while (pid := _parent(pid)) > 1 and pid not in found:
        found.add(pid)
    return found


def _listens(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True
