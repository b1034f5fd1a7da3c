"""The judge of sinks together on Spark: ``python -m tests.judge.kills_together --on spark --kills 500 --seed 1``.

A streaming query, as the command line starts it, writes to PostgreSQL, Parquet and SQLite together while files come
into its folder.  The judge kills the driver, its Java, its Python workers, or all of them, at random moments near the
decisions, and gives the same command again.  Right is: after every kill `read_together` gives the same rows of all
members, those of some whole files from the first on, and never fewer than before; no target has anything else; and in
the end all have exactly the rows that plain Python says.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pellucid import sinks
from pellucid.errors import DataError, PellucidError
from pellucid.sinks.decisions import DecisionLog
from tests.judge.kills import members, send
from tests.spark import quick_jvm

SIGKILL, HANG = 9, 600.0
ROWS, USERS = 40, 4  # of a file
PIPELINE = """\
from pellucid import Stream, pipeline


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")
"""
Row = tuple[str, int, int]


def given(file: int) -> list[Row]:
    """The rows of a file: user, number, value."""
    numbers = range(file * ROWS, (file + 1) * ROWS)
    return [(f"u{(7 * n + file) % USERS}", n, (n * 7919) % 1009) for n in numbers]


def expected(files: int) -> list[Row]:
    """What must come out of the first so many files: told without the pipeline."""
    sums: Counter[str] = Counter()
    out = []
    for user, number, x in (row for file in range(files) for row in given(file)):
        sums[user] += x
        out.append((user, number, sums[user]))
    return sorted(out)


def targets(folder: Path, dsn: str) -> dict[str, Any]:
    return {
        "out-1": sinks.postgres(dsn, "orders"),
        "out-2": sinks.parquet(folder / "archive"),
        "out-3": sinks.sqlite(folder / "totals.db", "totals"),
    }


def rows_in(table: Any) -> list[Row]:
    return sorted((row["user"], row["seq"], row["out"]) for row in table.to_pylist())


class SparkJudge:
    """One query, from the first start to the end."""

    def __init__(self, folder: Path, dsn: str, rng: random.Random, counts: Counter[str]) -> None:
        self.folder, self.dsn, self.rng, self.counts = folder, dsn, rng, counts
        self.files = self.seen = 0
        self.history: list[str] = []
        self.log = DecisionLog(folder / "check" / "pellucid-together")
        (folder / "jobs.py").write_text(PIPELINE)
        (folder / "in").mkdir()
        quick_jvm.set_up()
        self.more()

    def more(self) -> None:
        """One more file comes, whole."""
        columns = list(zip(*given(self.files), strict=True))
        table = pa.table({"user": columns[0], "seq": columns[1], "x": columns[2]})
        aside = self.folder / f"{self.files:05d}.parquet"
        pq.write_table(table, aside)
        aside.rename(self.folder / "in" / aside.name)
        self.files += 1

    def start(self, *options: str) -> subprocess.Popen[str]:
        out = [f"{self.dsn}#orders", "archive", "sqlite:totals.db#totals"]
        command = [
            sys.executable, "-m", "pellucid", "run", "jobs.py:total", "--on", "spark", "--stream", "--in",
            "in", "--key", "user", "--order", "seq", "--checkpoint", "check", "--patience", "20",
            "--master", "local[2,4]",
            "--conf", "spark.sql.shuffle.partitions=2", "--conf",
            f"spark.local.dir={self.folder}/local", *options,
        ]  # fmt: skip
        for place in out:
            command += ["--out", place]
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(Path(__file__).parents[2])]))
        self.said = open(self.folder / "said", "w+")  # noqa: SIM115 - lives as long as the run
        return subprocess.Popen(
            command, stdout=self.said, stderr=self.said, cwd=self.folder, start_new_session=True, text=True,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    def strike(self, process: subprocess.Popen[str]) -> str:
        """Kill something at a random moment near a decision; what, or nothing if nobody was there."""
        began, before = time.monotonic(), self.log.read()
        came = began
        while process.poll() is None and time.monotonic() - began < 120 and self.log.read() == before:
            if time.monotonic() - came > 1.0 and before is not None:
                self.more()
                came = time.monotonic()
            time.sleep(0.005)
        if self.rng.random() < 0.8:
            self.more()
        time.sleep(self.rng.random() ** 2 * 1.5)
        alive = members(process.pid)
        if process.poll() is not None or not alive:
            return ""
        javas = [pid for pid in alive if _name(pid) == "java"]
        workers = [pid for pid in alive if pid != process.pid and pid not in javas]
        how = self.rng.choice(["all", "driver", "java", "worker"])
        victims = {"all": alive, "driver": [process.pid], "java": javas, "worker": workers}[how] or alive
        for pid in victims if how != "worker" else [self.rng.choice(victims)]:
            send(pid, SIGKILL)
        self.history.append(how)
        self.counts["kills"] += 1
        self.counts[f"kills: {how}"] += 1
        return how

    def end(self, process: subprocess.Popen[str]) -> int:
        """The exit code; nothing of it is left."""
        code = process.wait(HANG)
        time.sleep(self.rng.random() * 0.3)  # what is left of the dead may still be at work when the next begins
        if self.rng.random() < 0.7:
            for pid in members(process.pid):
                send(pid, SIGKILL)
        self.said.seek(0)
        text = self.said.read()
        self.said.close()
        # py4j itself logs that its Java is gone; what we say then is one line, the last
        assert "Traceback" not in text or "py4j" in text, f"{self.history}: {text[-3000:]}"
        assert code != 2 or text.rstrip().splitlines()[-1].startswith("pellucid: "), f"{self.history}: {text[-3000:]}"
        assert code in (0, 2, -SIGKILL), f"{self.history}: exit {code}: {text[-3000:]}"
        assert code != 2 or self.history[-1:] in (["java"], ["worker"], ["all"]), f"{self.history}: {text[-3000:]}"
        return code

    def look(self) -> None:
        """What readers see now, and what is in each target: whole files, from the first on."""
        if self.log.read() is None:
            return
        try:
            tables = sinks.read_together(targets(self.folder, self.dsn), log=self.log.folder)
            seen = {name: rows_in(table) for name, table in tables.items()}
        except DataError as error:
            assert "no epoch of query" in str(error), self.history  # noqa: PT017
            seen = {name: [] for name in targets(self.folder, self.dsn)}
        files = {len(rows) // ROWS for rows in seen.values()}
        assert len(files) == 1, f"{self.history}: readers see { ({n: len(r) for n, r in seen.items()}) }"
        (now,) = files
        assert seen == dict.fromkeys(seen, expected(now)), f"{self.history}: readers see other rows"
        assert now >= self.seen, f"{self.history}: readers saw {self.seen} files, and now {now}"
        self.seen = now
        for name, rows in self.have().items():
            assert rows == expected(len(rows) // ROWS), f"{self.history}: {name} has other rows"
        self.counts["looks"] += 1

    def have(self) -> dict[str, list[Row]]:
        found = {}
        for name, sink in targets(self.folder, self.dsn).items():
            try:
                found[name] = rows_in(sink.read())
            except (PellucidError, KeyError):
                found[name] = []
        return found

    def go(self, kills: int) -> None:
        while kills > 0:
            process = self.start()
            how = "worker"
            while kills > 0 and how == "worker":  # Spark tries a task again: the query goes on
                how = self.strike(process)
                kills -= bool(how)
            if how == "worker":
                send(process.pid, 15)
            self.end(process)
            self.look()
        process = self.start("--trigger", "once")
        assert process.wait(HANG) == 0, f"{self.history}: {(self.folder / 'said').read_text()[-3000:]}"
        self.said.close()
        found = self.have()
        whole = expected(self.files)
        assert found == dict.fromkeys(found, whole), f"{self.history}: { ({n: len(r) for n, r in found.items()}) }"
        self.look()
        assert self.seen == self.files
        self.counts["runs"] += 1


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
