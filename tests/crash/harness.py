"""Kill -9 at moments that a seed chooses, start the same command again, and compare what the sinks hold with the
answer.

A `World` is one pipeline with a query for each sink, all in one job.  New input is released before every start, so a
kill finds work; one that comes too late all the same has another turn, as long as there is spare input.  A `Kill` names
a victim and a moment:

=================  ==============================================================================================
``driver``         the Python driver and its JVM, at once
``python-driver``  only the Python half; the JVM shuts down by itself
``jvm``            only the JVM; the Python half must end by itself, with an error
``worker``         one Python worker; Spark runs its task again
``daemon``         the process that forks the workers, or what is left of them when it has been killed before
``executor``       a JVM of a cluster
=================  ==============================================================================================

``time``: some seconds after the start; ``offsets``, ``commits``, ``snapshot``: as soon as a new entry of that kind
appears in any query; ``point``: inside a sink (`base.faults`), for instance between its commit and
Spark's.

The schedule is printed, and the same seed makes it again.  What exactly a kill hits depends on the machine as well, and
that is the purpose: no crash, wherever it falls, may change what is in the sinks.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from tests.crash.contents import Verdict, compared, events
from tests.crash.pipelines import CASES, MISBEHAVING, Case
from tests.spark.worlds import Row, table_of

# The processes of a running job, found in /proc: its JVM, the Python daemon below it, and the daemon's workers.

DAEMONS = ("pyspark.daemon", "pellucid.spark.daemon", "tests.spark.warm_daemon")  # modules that fork Python workers


def parent(pid: int) -> int:
    """0 if the process has gone, or only waits to be buried."""
    try:
        state, above, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return 0
    return 0 if state == "Z" else int(above)


def alive(pid: int) -> bool:
    return parent(pid) != 0


def children(pid: int) -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit() and parent(int(name)) == pid)


def below(pid: int) -> list[int]:
    """All descendants, nearest first."""
    found, level = [], [pid]
    while level:
        level = [child for one in level for child in children(one)]
        found += level
    return found


def words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def jvms(pid: int) -> list[int]:
    return [
        child
        for child in below(pid)
        if "org.apache.spark.deploy.SparkSubmit" in words(child) and "java" in words(child).split(" ")[0]
    ]


def daemons(pid: int) -> list[int]:
    """The processes that fork Python workers: one below each JVM that runs Python tasks."""
    return [child for child in below(pid) if _forks(child) and not _forks(parent(child))]


def _forks(pid: int) -> bool:
    """Whether this is a daemon of workers, or a worker, which has the words of its daemon."""
    return any(word in DAEMONS for word in words(pid).split(" "))


def python_workers(pid: int) -> list[int]:
    return [worker for daemon in daemons(pid) for worker in children(daemon)]


def orphans(pid: int) -> list[int]:
    """Workers whose daemon was killed: Spark goes on with them as long as they are enough.  They stay in the job's
    session."""
    found = [int(name) for name in os.listdir("/proc") if name.isdigit() and _session(int(name)) == pid]
    return [one for one in sorted(found) if _forks(one) and alive(one)]


def _session(pid: int) -> int:
    with suppress(OSError):
        return os.getsid(pid)
    return 0


def strike_down(pid: int) -> bool:
    """Whether it was there to be killed."""
    with suppress(ProcessLookupError):
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def gone(pids: list[int], seconds: float) -> bool:
    """Whether they all end within that time."""
    end = time.monotonic() + seconds
    while any(alive(pid) for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


ROOT = Path(__file__).resolve().parents[2]
ENDING = ("driver", "python-driver", "jvm")  # after these the job must be started again
POINTS = {
    "parquet": ("parquet:before-commit", "parquet:after-commit", "parquet:between-moves"),
    "sqlite": ("sqlite:before-commit", "sqlite:after-commit"),
    "postgres": ("postgres:before-commit", "postgres:after-commit"),
    "parallel": ("postgres:staged",),
    "delta": ("delta:before-commit", "delta:after-commit"),
    "once": ("once:began", "once:before-end"),
    "kafka": ("kafka:before-commit", "kafka:after-commit"),
}


class Kill(NamedTuple):
    """Whom to kill, and when."""

    victim: str
    moment: str
    detail: Any  # seconds, a delay after an entry, or (point, nth)

    def __str__(self) -> str:
        return f"{self.victim}@{self.moment}:{self.detail if isinstance(self.detail, tuple) else round(self.detail, 3)}"


def schedule(rng: random.Random, kills: int, sinks: list[str], victims: tuple[str, ...] = ()) -> list[Kill]:
    """Kills to come; a third of them end the job, the others only a part of it.

    >>> one, again = (schedule(random.Random(4), 3, ["sqlite"]) for _ in range(2))
    >>> [str(k) for k in one] == [str(k) for k in again]
    True
    """
    points = [point for name in sinks for point in POINTS.get(name, ())]
    out = []
    for _ in range(kills):
        victim = rng.choice(victims or ("driver", "driver", "python-driver", "jvm", *["worker"] * 6, *["daemon"] * 2))
        moment = rng.choice(
            ("time", "offsets", "commits", "snapshot", *(["point", "point"] if victim == "driver" and points else []))
        )
        detail = (
            (rng.choice(points), rng.randrange(1, 3))
            if moment == "point"
            else rng.uniform(0, 5 if moment == "time" else 0.1)
        )
        out.append(Kill(victim, moment, detail))
    return out


@dataclass
class Hit:
    """A kill that found its victim alive and work unfinished: of each query, the batches opened, closed, and to
    come."""

    kill: Kill
    queries: dict[str, tuple[int, int, int]]

    def within(self, name: str) -> bool:
        """Whether a batch of this query was open."""
        opened, closed, _ = self.queries[name]
        return opened > closed

    def unfinished(self, name: str) -> bool:
        _, closed, released = self.queries[name]
        return closed < released


@dataclass
class World:
    """A case, its input on disk, and a job that feeds all sinks at once."""

    name: str
    folder: Path
    sinks: dict[str, dict[str, Any]]
    seed: int = 0
    files: int = 12
    spare: int = 0  # more of them, for kills that came too late
    rows: int = 60
    master: str = "local[2,8]"  # more kills than attempts of one task would be a failure that is no bug
    conf: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    broken: str | None = None
    mode: str = "stream"
    executors: Callable[[], list[int]] | None = None  # in a cluster
    hits: list[Hit] = field(default_factory=list)
    misses: int = 0
    starts: int = 0

    def __post_init__(self) -> None:
        for part in ("in", "work", "out"):
            (self.folder / part).mkdir(parents=True)
        self.parts: list[list[Row]] = self.case.files(self.seed, self.files + self.spare, self.rows)
        self.released = 0

    @property
    def case(self) -> Case:
        return {**CASES, **MISBEHAVING}[self.name]

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def release(self, count: int | None = None) -> None:
        """Put more files into the source's folder, whole; None for all but the spare ones."""
        upto = max(self.files, self.released) if count is None else self.released + count
        upto = min(upto, len(self.parts))
        for number in range(self.released, upto):
            path, hidden = self.folder / "in" / f"{number:05d}.parquet", self.folder / "in" / f".{number}"
            pq.write_table(table_of(self.case.pipeline, self.parts[number]), hidden)
            os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))  # the order in which Spark takes them
            hidden.rename(path)
        self.released = upto

    # ------------------------------------------------------------ the job

    def start(self, point: tuple[str, int] | None = None) -> subprocess.Popen[bytes]:
        """The same command every time."""
        (self.work / "ready").unlink(missing_ok=True)
        config = {
            "case": self.name,
            "source": str(self.folder / "in"),
            "work": str(self.work),
            "master": self.master,
            "conf": self.conf,
            "mode": self.mode,
            "sinks": self.sinks,
            "kill": point,
            "broken": self.broken,
        }
        (self.folder / "job.json").write_text(json.dumps(config))
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, **self.environment}
        self.starts += 1
        with (self.folder / "job.log").open("ab") as log:
            log.write(f"--- start {self.starts}\n".encode())
            log.flush()
            command = [sys.executable, "-m", "tests.crash.job", str(self.folder / "job.json")]
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def log(self) -> str:
        return (self.folder / "job.log").read_text(errors="replace").rpartition("--- start")[2][-6000:]

    def finish(self, job: subprocess.Popen[bytes] | None = None, seconds: float = 1200) -> None:
        """Let the job come to its end; it must not fail."""
        if job is None:
            self.release()
            job = self.start()
        try:
            code = job.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end(job)
        if code != 0:
            raise AssertionError(
                f"{self.name}: the job {'hangs' if code is None else f'failed with {code}'} without being "
                f"killed:\n{self.log()}"
            )

    # ------------------------------------------------------------ where it stands

    def progress(self) -> dict[str, tuple[int, int, int]]:
        """Of each query: batches opened, closed, and to come in all."""
        return {
            name: (
                *(len(_numbers(self.work / name / "checkpoint" / log)) for log in ("offsets", "commits")),
                self.released,
            )
            for name in self.sinks
        }  # type: ignore[misc]

    def entries(self, moment: str) -> set[str]:
        """What a moment waits for."""
        if moment != "snapshot":
            return {f"{name}/{n}" for name in self.sinks for n in _numbers(self.work / name / "checkpoint" / moment)}
        return {
            f"{name}/{bucket}/{file}"
            for name in self.sinks
            for bucket in _names(self.work / name / "state")
            for file in _names(self.work / name / "state" / bucket)
            if file.endswith(".snap")
        }

    def unfinished(self) -> bool:
        return any(closed < released for _, closed, released in self.progress().values())

    # ------------------------------------------------------------ the campaign

    def campaign(self, kills: list[Kill], each: int = 1) -> None:
        """Run with these kills, releasing ``each`` files for every kill, and then to the end."""
        waiting = list(kills)
        while waiting:
            segment = [waiting.pop(0)]
            while waiting and segment[-1].victim not in ENDING:
                segment.append(waiting.pop(0))
            times = max((kill.detail[1] for kill in segment if kill.moment == "point"), default=0)
            self.release(max(each * len(segment), times))
            late = self._segment(segment)
            if self.released < len(self.parts):
                waiting = [*late, *waiting]
            else:
                self.misses += len(late)
        if self.released < self.files or self.unfinished():
            self.finish()

    def _segment(self, segment: list[Kill]) -> list[Kill]:
        """One start of the job, and the kills until one that ends it; gives those that came too late."""
        inside = next((kill for kill in segment if kill.moment == "point"), None)
        before = len(self.hits)
        job = self.start(inside.detail if inside else None)
        try:
            self._wait_ready(job)
            ended = False
            for kill in segment:
                if self._await(job, kill) and kill is not inside:
                    ended = self._strike(job, kill) and kill.victim in ENDING
                if ended or job.poll() is not None:
                    break
            if inside and not ended and job.poll() == -signal.SIGKILL:  # perhaps before the others had their turn
                self.hits.append(Hit(inside, self.progress()))
                ended = True
            if ended:
                self._wait_end(job)
            else:
                self.finish(job)
        finally:
            end(job)
        return [kill for kill in segment if not any(kill is hit.kill for hit in self.hits[before:])]

    def _wait_ready(self, job: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + 600
        while not (self.work / "ready").exists():
            # A point may kill it before it has told that it is ready.
            if job.poll() == -signal.SIGKILL:
                return
            if job.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{self.name}: the job did not start ({job.poll()}):\n{self.log()}")
            time.sleep(0.01)

    def _await(self, job: subprocess.Popen[bytes], kill: Kill) -> bool:
        """Wait for the moment; False if the job ends before it comes."""
        if kill.moment == "point":
            while job.poll() is None:
                time.sleep(0.02)
            return job.returncode == -signal.SIGKILL
        known = self.entries(kill.moment) if kill.moment != "time" else set()
        deadline = time.monotonic() + kill.detail
        while job.poll() is None:
            if kill.moment == "time":
                if time.monotonic() >= deadline:
                    return True
            elif self.entries(kill.moment) - known:
                time.sleep(kill.detail)
                return job.poll() is None
            time.sleep(0.008)
        return False

    def _strike(self, job: subprocess.Popen[bytes], kill: Kill) -> bool:
        """Whether there was somebody to kill; it is a hit if there was work, too."""
        victims = self._victims(job, kill.victim)
        state, unfinished = self.progress(), self.unfinished()
        if kill.victim == "driver":
            os.killpg(job.pid, signal.SIGKILL)
            struck = True
        else:
            struck = sum(strike_down(pid) for pid in victims) > 0  # all of them
        if struck and unfinished:
            self.hits.append(Hit(kill, state))
        return struck

    def _victims(self, job: subprocess.Popen[bytes], victim: str) -> list[int]:
        """Wait some seconds for one to appear: the first worker comes with the first task."""
        find: dict[str, Callable[[], list[int]]] = {
            "driver": lambda: [job.pid],
            "python-driver": lambda: [job.pid],
            "jvm": lambda: jvms(job.pid)[:1],
            "daemon": lambda: daemons(job.pid)[:1] or orphans(job.pid),
            "worker": lambda: self._any(python_workers(job.pid) or orphans(job.pid)),
            "executor": lambda: (self.executors or list)()[:1],
        }
        deadline = time.monotonic() + 20
        while not (found := find[victim]()) and job.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return found

    def _any(self, pids: list[int]) -> list[int]:
        return [random.Random(len(self.hits) + self.seed).choice(pids)] if pids else []

    def _wait_end(self, job: subprocess.Popen[bytes]) -> None:
        try:
            job.wait(600)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.name}: the driver goes on although its other half is dead:\n{self.log()}"
            ) from None

    # ------------------------------------------------------------ the verdict

    def verdict(self, name: str) -> Verdict:
        """What is in a sink, against the interpreter's answer."""
        sink = self.sinks[name]
        answer = self.case.answer(self.parts[: self.released])
        allowed = (
            self._one_batch() * sum(hit.kill.victim in ENDING for hit in self.hits) if sink["kind"] == "once" else 0
        )
        return compared(answer, events(self.case.pipeline, sink["kind"], sink["arguments"]), allowed)

    def _one_batch(self) -> int:
        """The most events of a batch: what a crash may repeat where nobody looks whether a batch was there already."""
        sizes = [len(self.case.answer(self.parts[:n])) if n else 0 for n in range(self.released + 1)]
        return max(after - before for before, after in pairwise(sizes))

    def verdicts(self) -> Iterator[tuple[str, Verdict]]:
        for name in self.sinks:
            yield name, self.verdict(name)

    def forget_last_commits(self) -> None:
        """Delete the newest entry of every commit log: Spark runs those batches again."""
        for name in self.sinks:
            commits = self.work / name / "checkpoint" / "commits"
            newest = max(_numbers(commits))
            (commits / str(newest)).unlink()
            (commits / f".{newest}.crc").unlink(missing_ok=True)


def end(job: subprocess.Popen[bytes]) -> None:
    """Nothing of the job is left: its group, and the workers below it, which have a group of their own."""
    rest = below(job.pid)
    with suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    if not gone(rest, 15):
        for pid in rest:
            strike_down(pid)


def targets(
    folder: Path, kinds: list[str], dsn: str | None = None, kafka: tuple[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """The sinks by name; ``managed`` is SQLite with the state in Spark's own store."""
    out = folder / "out"
    known: dict[str, tuple[str, dict[str, Any]]] = {
        "parquet": ("parquet", {"path": str(out / "parquet")}),
        "files": ("files", {"path": str(out / "files")}),
        "sqlite": ("sqlite", {"path": str(out / "rows.db"), "table": "rows"}),
        "managed": ("sqlite", {"path": str(out / "managed.db"), "table": "rows"}),
        "postgres": ("postgres", {"dsn": dsn, "table": "rows"}),
        "parallel": ("postgres", {"dsn": dsn, "table": "parallel", "parallel": True}),
        "delta": ("delta", {"path": str(out / "delta")}),
        "once": ("once", {"path": str(out / "once.jsonl")}),
        "append": ("append", {"path": str(out / "append.db")}),
        "kafka": ("kafka", {"bootstrap": kafka[0], "topic": kafka[1]} if kafka else {}),
    }
    return {
        name: {"kind": known[name][0], "arguments": known[name][1], "store": "spark" if name == "managed" else "own"}
        for name in kinds
    }


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _numbers(folder: Path) -> list[int]:
    return [int(name) for name in _names(folder) if name.isdigit()]
