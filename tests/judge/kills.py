"""A judge of runs with epochs that knows the command line and nothing else: ``python -m tests.judge.kills --kills 300
--seed 1``.

It starts ``pellucid run … --epoch-size N --state DIR`` as a user would, kills processes of it with ``kill -9`` at
random moments (one, some after a pause in which others were stopped, or all of them), damages a random file of the
state folder in between, and gives the same command again.  Right is: in the end exit code 0 and exactly the rows of
:mod:`tests.judge.kills`.  A damaged file may be refused (exit code 2, a message, no traceback); then it is put
back, and the command must go on.  Everything else is *wrong* (other rows) or a *dead end* (any other end, a refusal
without damage, a hang).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

from tests.sinks.postgres import find_programs, serve

# The jobs of the judge of kills: a pipeline as text, an input, and what must come out, computed here in plain
# Python.

Row = dict[str, object]
ROWS = 20_000

PIPELINES = '''
from typing import NamedTuple
import time

from pellucid import Stream, apply, pipeline


class Payment(NamedTuple):
    amount: int
    rate: float


class Booked(NamedTuple):
    number: int
    sum: float


def slow(v):
    """Cannot be traced, and gives the killer time."""
    if int(v) % 300 == 0:
        time.sleep(0.02)
    return int(v) * 3 - 1


@pipeline
def totals(amount: Stream[int]) -> Stream[int]:
    return amount.map(slow, to=int, id="slow").cumulate(lambda t, v: t + v, start=0, id="sum")


@pipeline
def smooth(x: Stream[int]) -> Stream[float]:
    total = pipeline(lambda w: w.cumulate(lambda t, v: t + v, start=0), w=int)
    return x.map(slow, to=int, id="slow").window(3, total, id="window") / 3


@pipeline
def booked(p: Stream[Payment]) -> Stream[Booked]:
    def book(state, p):
        number, total = state
        if p.amount < 0:
            return (number, total), []
        new = Booked(number + 1, total + p.amount * p.rate)
        return (new.number, new.sum), ([new, new] if p.amount % 7 == 0 else [new])
    return p.task(book, initial=(0, 0.0), id="book")


@pipeline
def pairs(a: Stream[int], b: Stream[int]) -> Stream[int]:
    return apply(lambda x, y: x * 1000 + y, a.map(slow, to=int, id="slow"), b.trim(2, id="later"), id="pair")
'''


def slow(v: int) -> int:
    return v * 3 - 1


@dataclass(frozen=True)
class Job:
    """What is run, and ``expected``: the rows that the documentation promises."""

    pipeline: str
    inputs: tuple[tuple[str, str], ...]  # source and file, "" where there is only one
    options: tuple[str, ...]
    expected: tuple[Row, ...]


def jobs(folder: Path, rng: random.Random) -> list[Job]:
    """Inputs of several formats in ``folder``; the answers come from the same numbers, not from the files."""
    (folder / "jobs.py").write_text(PIPELINES)
    return [_totals(folder, rng), _smooth(folder, rng), _booked(folder, rng), _pairs(folder, rng)]


def _totals(folder: Path, rng: random.Random) -> Job:
    rows = [(rng.choice(["ada", "bob", "", "zoë", 'q"t']), rng.randrange(-500, 500)) for _ in range(ROWS)]
    rows = [(user or "eve", amount) for user, amount in rows]
    with open(folder / "events.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "amount"])
        writer.writerows(rows)
    sums: dict[str, int] = {}
    out: list[Row] = []
    for user, amount in rows:
        sums[user] = sums.get(user, 0) + slow(amount)
        out.append({"user": user, "out": sums[user]})
    return Job("totals", (("", "events.csv"),), ("--key", "user", "--workers", "2"), tuple(out))


def _smooth(folder: Path, rng: random.Random) -> Job:
    values = [rng.randrange(10_000) for _ in range(ROWS)]
    pq.write_table(pa.table({"x": values}), folder / "x.parquet", row_group_size=1000)
    mapped = [slow(v) for v in values]
    out = tuple({"out": sum(mapped[i - 2 : i + 1]) / 3} for i in range(2, ROWS))
    return Job("smooth", (("", "x.parquet"),), (), out)


def _booked(folder: Path, rng: random.Random) -> Job:
    rows = [(rng.randrange(-20, 200), rng.choice([0.5, 1.25, 3.0])) for _ in range(ROWS)]
    (folder / "payments.jsonl").write_text("".join(json.dumps({"amount": a, "rate": r}) + "\n" for a, r in rows))
    number, total = 0, 0.0
    out: list[Row] = []
    for amount, rate in rows:
        if amount >= 0:
            number, total = number + 1, total + amount * rate
            out += [{"number": number, "sum": total}] * (2 if amount % 7 == 0 else 1)
    return Job("booked", (("", "payments.jsonl"),), (), tuple(out))


def _pairs(folder: Path, rng: random.Random) -> Job:
    a, b = ([rng.randrange(1000) for _ in range(ROWS)] for _ in "ab")
    (folder / "a.csv").write_text("a\n" + "".join(f"{v}\n" for v in a))
    (folder / "b.csv").write_text("b\n" + "".join(f"{v}\n" for v in b))
    out = tuple({"out": slow(x) * 1000 + y} for x, y in zip(a, b[2:], strict=False))
    return Job("pairs", (("a", "a.csv"), ("b", "b.csv")), ("--cut", "slow"), out)


@dataclass(frozen=True)
class Target:
    """A place for output: its name on the command line, and how a stranger reads it; None where nothing is there."""

    name: str
    place: str
    read: Callable[[], list[Row] | None]


def targets(folder: Path, dsn: str | None, table: str) -> list[Target]:
    def of_file(name: str, read: Callable[[Path], list[Row]]) -> Target:
        path = folder / name
        return Target(name.partition(".")[2], str(path), lambda: read(path) if path.exists() else None)

    found = [
        of_file("out.csv", _csv),
        of_file("out.jsonl", _jsonl),
        of_file("out.parquet", lambda p: list(pq.read_table(p).to_pylist())),
        of_file("out.arrow", _arrow),
        Target("sqlite", f"sqlite:{folder}/out.db#{table}", lambda: _sqlite(folder / "out.db", table)),
    ]
    if dsn:
        found.append(Target("postgresql", f"{dsn}#{table}", lambda: _postgres(dsn, table)))
    return found


def _csv(path: Path) -> list[Row]:
    with open(path, newline="", encoding="utf-8") as file:
        return [dict(row) for row in csv.DictReader(file)]


def _jsonl(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _arrow(path: Path) -> list[Row]:
    with pa.memory_map(str(path)) as source, ipc.open_file(source) as reader:
        return list(reader.read_all().to_pylist())


def _sqlite(path: Path, table: str) -> list[Row] | None:
    if not path.exists():
        return None
    connection = sqlite3.connect(path)
    try:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(f'SELECT * FROM "{table}" ORDER BY rowid')]
    except sqlite3.OperationalError:
        return None
    finally:
        connection.close()


def _postgres(dsn: str, table: str) -> list[Row] | None:
    import psycopg
    from psycopg.rows import dict_row

    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        try:
            return list(connection.execute(f'SELECT * FROM "{table}"'))
        except psycopg.errors.UndefinedTable:
            return None


def same(got: list[Row] | None, expected: tuple[Row, ...], *, ordered: bool) -> str | None:
    """None, or what is wrong.  A table has no order, and marks of the sink may stand beside the columns; text has no
    types."""
    if got is None:
        return "no output"
    if len(got) != len(expected):
        return f"{len(got)} rows for {len(expected)}"
    names = list(expected[0]) if expected else []
    texts = [tuple(_text(row.get(name)) for name in names) for row in got]
    wanted = [tuple(_text(row[name]) for name in names) for row in expected]
    if not ordered:
        texts, wanted = sorted(texts), sorted(wanted)
    return next((f"row {n}: {a} for {b}" for n, (a, b) in enumerate(zip(texts, wanted, strict=True)) if a != b), None)


def _text(value: object) -> str:
    if isinstance(value, bool | int):
        return repr(float(value)) if abs(value) < 2**53 else str(value)
    if isinstance(value, float):
        return repr(value)
    text = str(value)
    try:
        return _text(int(text)) if text.lstrip("-").isdigit() else repr(float(text))
    except ValueError:
        return text


HANG = 180.0  # seconds after which a run that should end is called a dead end
BUSY = 20.0  # seconds for which a folder may say that the run before is still there


@dataclass
class Tally:
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def fault(self, kind: str, where: str, text: str) -> None:
        self.counts[kind] += 1
        self.faults.append(f"{kind}: {where}: {text}")
        print(self.faults[-1], flush=True)


class Run:
    """One job with one target, from the first command to the whole output."""

    def __init__(
        self, job: Job, target: Target, folder: Path, rng: random.Random, tally: Tally, program: list[str]
    ) -> None:
        self.job, self.target, self.rng, self.tally = job, target, rng, tally
        self.state = folder / "state"
        self.where = f"{job.pipeline} to {target.name}"
        self.history: list[str] = []
        inputs = [
            part
            for source, name in job.inputs
            for part in ("--in", f"{source}={folder.parent / name}" if source else str(folder.parent / name))
        ]
        self.command = [
            *program,
            "run",
            f"{folder.parent}/jobs.py:{job.pipeline}",
            *inputs,
            "--out",
            target.place,
            "--state",
            str(self.state),
            "--epoch-size",
            str(rng.choice([150, 500, 1500])),
            "--chunk",
            str(rng.choice([50, 120])),
            *job.options,
        ]

    def start(self) -> subprocess.Popen[bytes]:
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the run
        return subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True
        )

    def said(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-1500:]

    def strike(self, process: subprocess.Popen[bytes], seconds: float) -> bool:
        """Kill something after a random part of ``seconds``; True if it was alive to be hit."""
        time.sleep(self.rng.uniform(self.rng.choice([0.0, 0.4]), 1.0) * seconds)
        alive = members(process.pid)
        if process.poll() is not None or not alive:
            return False
        how = self.rng.choice(["all", "all", "first", "first", "task", "paused", "paused"])
        others = [pid for pid in alive if pid != process.pid] or alive
        victim = process.pid if how == "first" else self.rng.choice(others)
        if how == "paused":  # as on a loaded machine: somebody is not scheduled while another dies
            sleeper = self.rng.choice(alive)
            send(sleeper, signal.SIGSTOP)
            time.sleep(self.rng.random() * 0.4)
            send(victim, signal.SIGKILL)
            time.sleep(self.rng.random() * 0.4)
            send(sleeper, signal.SIGCONT)
        elif how == "all":
            for pid in alive:
                send(pid, signal.SIGKILL)
        else:
            send(victim, signal.SIGKILL)
        self.history.append(how)
        self.tally.counts["kills"] += 1
        self.tally.counts[f"kills: {how}"] += 1
        return True

    def end(self, process: subprocess.Popen[bytes]) -> int | None:
        """The exit code; None if it hangs."""
        try:
            return process.wait(HANG)
        except subprocess.TimeoutExpired:
            for pid in members(process.pid):
                send(pid, signal.SIGKILL)
            process.wait()
            return None

    def whole(self, *, damaged: str = "") -> int | None:
        """The command without kills, given again while the run before is still going away."""
        until = time.monotonic() + BUSY
        while True:
            code = self.end(self.start())
            if code == 2 and time.monotonic() < until and "in use" in self.said():
                self.tally.counts["waited for the run before"] += 1
                time.sleep(0.2)
                continue
            if code == 2 and damaged:
                return code
            if code != 0:
                self.tally.fault("dead end", f"{self.where} {self.history}", f"exit {code} {damaged}: {self.said()}")
            return code

    def damage(self) -> tuple[Path, bytes, str] | None:
        files = sorted(p for p in self.state.rglob("*") if p.is_file() and not p.is_symlink())
        if not files:
            return None
        kind = self.rng.choice(
            sorted({(p.parent, p.suffix) for p in files})
        )  # kinds before files: there are many parts and one run.json
        path = self.rng.choice([p for p in files if (p.parent, p.suffix) == kind])
        old = path.read_bytes()
        how = self.rng.choice(["flip", "flip", "truncate", "empty", "delete", "append", "stray"])
        new = bytearray(old)
        if how == "flip" and old:
            new[self.rng.randrange(len(old))] ^= 1 << self.rng.randrange(8)
        elif how == "truncate":
            del new[self.rng.randrange(len(old) + 1) :]
        elif how == "empty":
            new.clear()
        elif how == "append":
            new += self.rng.randbytes(7)
        if how == "delete":
            path.unlink()
        elif how == "stray":
            (path.parent / f".{path.name}.{self.rng.randrange(10**6)}.tmp").write_bytes(old[: len(old) // 2])
        else:
            path.write_bytes(new)
        self.tally.counts[f"damage: {how}"] += 1
        return path, old, f"{how} {path.relative_to(self.state)}"

    def right(self) -> None:
        wrong = same(self.target.read(), self.job.expected, ordered=self.target.name != "postgresql")
        if wrong:
            self.tally.fault("wrong", f"{self.where} {self.history}", wrong)

    def go(self, seconds: float, kills: int) -> None:
        for _ in range(kills * 4):
            if kills <= 0:
                break
            process = self.start()
            while kills > 0 and self.strike(process, seconds):
                kills -= 1
                if self.rng.random() < 0.5:
                    break
            code = self.end(process)
            if code == 0:
                self.right()
                self.tally.counts["ended under fire"] += 1
                shutil.rmtree(self.state)
                return
            if code is None or (code != -signal.SIGKILL and not (code == 2 and "in use" in self.said())):
                self.tally.fault("dead end", f"{self.where} {self.history}", f"exit {code}: {self.said()}")
                return
            for _ in range(self.rng.randrange(4)):
                if not self.survives_damage():
                    return
        if self.whole() == 0:
            self.right()
            if self.rng.random() < 0.2 and self.whole() == 0:  # once more: nothing changes
                self.right()

    def survives_damage(self) -> bool:
        """The command on a damaged folder: right, or refused, and then it goes on when the file is back.  True if the
        killed run is there again."""
        if not self.state.exists():
            return True
        files = self.target.name not in ("sqlite", "postgresql")
        kept = self.state.with_name("kept")
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self.state, kept)
        damaged = self.damage()
        if damaged is None:
            return True
        path, old, how = damaged
        self.history.append(how)
        code = self.whole(damaged=how)
        said = self.said()
        if code == 2 and ("Traceback" in said or "this is a bug" in said or not said.strip()):
            self.tally.fault("dead end", f"{self.where} {self.history}", f"a refusal like this: {said}")
        if code == 2:
            self.tally.counts["damage refused"] += 1
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(old)
            return True
        if code == 0:
            self.tally.counts["damage harmless"] += 1
            self.right()
            self.history.pop()
        if code == 0 and files:  # nothing of a file's run is outside the folder: back to where it was killed
            Path(self.target.place).unlink()
            shutil.rmtree(self.state)
            kept.rename(self.state)
            return True
        return False


def members(leader: int) -> list[int]:
    """The living processes of a session, whoever their parents are."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError):
                rest = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                if int(rest[3]) == leader and rest[0] != "Z":
                    found.append(int(entry))
    return sorted(found)


def send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def judge(kills: int, seed: int, program: list[str]) -> Tally:
    rng, tally = random.Random(seed), Tally()
    with ExitStack() as stack:
        base = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="pellucid-judge-", ignore_cleanup_errors=True))
        )
        programs = find_programs()
        server = stack.enter_context(serve(programs)) if programs else None
        all_jobs = jobs(base, rng)
        turn = 0
        seconds: dict[str, float] = {}
        while tally.counts["kills"] < kills:
            for job in all_jobs:
                count = len(targets(base, "dsn" if server else None, "t"))
                folder = base / f"turn{turn}"
                folder.mkdir()
                target = targets(folder, server.dsn if server else None, f"t{turn}")[
                    (turn // len(all_jobs) + turn) % count
                ]
                if job.pipeline not in seconds:
                    began = time.monotonic()
                    calm = Run(job, target, folder, rng, tally, program)
                    if calm.whole() == 0:
                        calm.right()
                    seconds[job.pipeline] = time.monotonic() - began
                else:
                    Run(job, target, folder, rng, tally, program).go(seconds[job.pipeline], rng.randrange(1, 9))
                turn += 1
                shutil.rmtree(folder, ignore_errors=True)
                print(f"{tally.counts['kills']} kills, {turn} runs, {len(tally.faults)} faults", flush=True)
                if tally.counts["kills"] >= kills:
                    break
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.judge.kills", description="Kill and damage runs with epochs, from outside."
    )
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default=f"{sys.executable} -m pellucid")
    given = parser.parse_args()
    tally = judge(given.kills, given.seed, given.program.split())
    for name, count in sorted(tally.counts.items()):
        print(f"{count:6}  {name}")
    print(*tally.faults, sep="\n")
    print(
        f"seed {given.seed}: {tally.counts['kills']} kills, {tally.counts['wrong']} wrong, {tally.counts['dead end']} "
        "dead ends"
    )
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
