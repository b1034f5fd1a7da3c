"""A judge of sinks together that kills runs with epochs, and streaming queries (`tests.judge.together_spark`); what is
wrong is reported, and the folder of that run is kept.

It starts a run with epochs over PostgreSQL (with prepared transactions and without), Parquet and SQLite, kills
processes of it with ``kill -9`` at random moments, and starts it again.  Right is: after every kill `read_together`
gives the same rows of all members, a beginning of those that must come out and never fewer than before; no
target has a row twice, or one that was never decided; and in the end all have exactly the rows that plain Python says.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from pellucid.errors import DataError
from pellucid.sinks.decisions import DecisionLog
from tests.engine.epochs.together_job import expected, have, whole
from tests.judge.kills import members, send
from tests.judge.together_spark import SparkJudge
from tests.sinks.postgres import Postgres, find_programs, serve

SIGKILL, HANG = 9, 600.0


class Judge:
    """One run, from the first start to the end."""

    def __init__(self, folder: Path, dsn: str, rng: random.Random, counts: Counter[str]) -> None:
        self.folder, self.dsn, self.rng, self.counts = folder, dsn, rng, counts
        self.seen: list[int] = []
        self.history: list[str] = []

    def start(self) -> subprocess.Popen[str]:
        pushes = str(self.rng.choice([20, 50, 100]))
        command = [sys.executable, "-m", "tests.engine.epochs.together_job", str(self.folder), self.dsn, pushes]
        self.said = open(self.folder / "said", "w+")  # noqa: SIM115 - lives as long as the run
        return subprocess.Popen(command, stdout=self.said, stderr=self.said, start_new_session=True, text=True)

    def strike(self, process: subprocess.Popen[str]) -> bool:
        """Kill something at a random moment of the rounds; whether somebody was there to be hit."""
        began, log = time.monotonic(), DecisionLog(self.folder / "state" / "together")
        before = log.read()
        while process.poll() is None and time.monotonic() - began < 60 and log.read() == before:
            time.sleep(0.002)  # a round is about to begin
        time.sleep(self.rng.random() ** 2 * 0.5)
        alive = members(process.pid)
        if process.poll() is not None or not alive:
            return False
        how = self.rng.choice(["all", "first", "task", "two tasks"])
        tasks = [pid for pid in alive if pid != process.pid] or alive
        victims = {"all": alive, "first": [process.pid], "task": [self.rng.choice(tasks)]}
        for pid in victims.get(how, self.rng.sample(tasks, min(2, len(tasks)))):
            send(pid, SIGKILL)
        self.history.append(how)
        self.counts["kills"] += 1
        self.counts[f"kills: {how}"] += 1
        return True

    def look(self) -> None:
        """What readers see now, and what is in each target."""
        record = DecisionLog(self.folder / "state" / "together").read()
        if record is None:
            return
        try:
            seen = whole(self.folder, self.dsn)
        except DataError as error:
            assert "no epoch of query" in str(error), self.history  # noqa: PT017
            seen = []
        assert seen == expected()[: len(seen)], f"{self.history}: readers see {len(seen)} rows that are no beginning"
        assert len(seen) >= len(self.seen), f"{self.history}: readers saw {len(self.seen)} rows, and now {len(seen)}"
        self.seen = seen
        for name, rows in have(self.folder, self.dsn).items():
            assert rows == expected()[: len(rows)], f"{self.history}: {name} has other rows"
            assert len(rows) <= max(record.batch, 0), f"{self.history}: {name} has what was never decided"
        self.counts["looks"] += 1

    def go(self, kills: int) -> None:
        for _ in range(kills * 3):
            process = self.start()
            while kills > 0 and self.strike(process):
                kills -= 1
            code = process.wait(HANG)
            self.said.seek(0)
            text = self.said.read()
            self.said.close()
            busy = code == 2 and "is using this folder" in text
            assert busy or code in (0, -SIGKILL), f"{self.history}: exit {code}: {text[-1500:]}"
            if busy:  # tasks of the dead run are still going away, more slowly than it was waited for
                continue
            self.look()
            if code == 0:
                break
        else:
            assert self.start().wait(HANG) == 0, self.history
        found = have(self.folder, self.dsn)
        assert found == dict.fromkeys(found, expected()), f"{self.history}: { ({n: len(r) for n, r in found.items()}) }"
        assert whole(self.folder, self.dsn) == expected()
        self.counts["runs"] += 1


def judge(kills: int, seed: int, servers: list[Postgres] | None = None, on: str = "epochs") -> Counter[str]:
    """Kill so often; what was done."""
    made: type[Judge | SparkJudge] = SparkJudge if on == "spark" else Judge
    rng, counts = random.Random(seed), Counter[str]()
    with ExitStack() as stack:
        if servers is None:
            programs = find_programs()
            assert programs is not None, "no PostgreSQL: python -m tests.sinks.postgres --install"
            servers = [stack.enter_context(serve(programs, prepared)) for prepared in (20, 0)]
        while counts["kills"] < kills:
            folder, server = Path(tempfile.mkdtemp(prefix="pellucid-together-")), servers[counts["runs"] % len(servers)]
            dsn, few = server.database(), rng.randrange(1, 6)
            try:
                made(folder, dsn, rng, counts).go(min(few, kills - counts["kills"]))
            except BaseException as error:
                error.add_note(f"the run is kept in {folder}: seed {seed}, after {counts['kills']} kills, {dsn}")
                raise
            shutil.rmtree(folder, ignore_errors=True)
    return counts
