"""The streaming pipelines of the crash campaign, each with rows that suit it and the answer by the interpreter.

They differ in what a crash could break: state per key, windows, rows that wait for others, rows that are dropped,
several events per push, several outputs, records, text keys, a key inside the pipeline, no key at all, a function that
cannot be compiled.  The rows of a case are made from a seed, file by file; a file is a micro-batch.  Every event
carries its key and order, so a row that is lost, doubled or wrong shows up in the comparison, whatever the pipeline.
"""

from __future__ import annotations

import enum
import os
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pellucid import Pipeline, Stream, apply, merge, pipeline
from pellucid.internal.base import faults
from pellucid.spark import store
from tests.spark.worlds import Row, expected

# What is wrong on purpose: the campaign must catch it, else its silence about the rest would mean nothing.

AFTER = "append:after-commit"
faults.POINTS[AFTER] = "the sink that appends, after a batch is committed"


def append_to_sqlite(path: str) -> Callable[[Any, int], None]:
    """A sink that writes each batch in one transaction, but does not look whether it was there already."""

    def write(df: Any, batch: int) -> None:
        lines = [(line,) for line in df.toJSON().collect()]
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS lines (line TEXT)")
            db.executemany("INSERT INTO lines VALUES (?)", lines)
        faults.point(AFTER)

    return write


class OffByOne(store.Store):
    """Reads the newest snapshot up to this micro-batch, where it must be below: a repeated one starts from its own
    result."""

    def load(self, bucket: int, before: int) -> store.BucketSnapshot | None:
        return super().load(bucket, before + 1)

    def versions(self, bucket: int) -> list[int]:
        return []  # nothing is taken from a worker's memory


def break_the_state() -> None:
    store.Store = OffByOne  # type: ignore[misc]


MARKS = "CRASH_MARKS"  # the folder of marker files, for functions that misbehave once


class Side(enum.Enum):
    BUY = "b"
    SELL = "s"


class Trade(NamedTuple):
    side: Side
    item: str
    size: int
    price: float


class Position(NamedTuple):
    side: Side
    held: int
    worth: float


@pipeline
def sums(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda total, v: total + v, start=0, id="total")


@pipeline
def windows(x: Stream[int]) -> Stream[int]:
    return x.filter(lambda v: v % 4 != 0, id="kept").window(
        3, lambda w: w.cumulate(lambda t, v: t * 3 + v, start=0), id="last3"
    )


def _runs(state: tuple[int, int], v: int) -> tuple[tuple[int, int], list[int]]:
    """The length of each run of one parity, and then its last number: two events, or none."""
    length, last = state
    if length > 0 and v % 2 == last % 2:
        return (length + 1, v), []
    if length == 0:
        return (1, v), []
    return (1, v), [length, last]


@pipeline
def runs(x: Stream[int]) -> Stream[int]:
    return x.task(_runs, initial=(0, 0), id="runs")


@pipeline
def thinned(x: Stream[int]) -> Stream[int]:
    return merge(x.decimate(3, id="third"), x.trim(5, id="later"), id="both")


@pipeline
def joined(a: Stream[int], b: Stream[int]) -> Stream[int]:
    total = b.cumulate(lambda t, v: t + v, start=0, id="b_total")
    return apply(lambda x, y: 1000 * x + y, a, total, id="pairs")


def _trade(p: Position, t: Trade) -> Position:
    size = t.size if t.side is Side.BUY else -t.size
    return Position(t.side, p.held + size, p.worth + size * t.price)


@pipeline
def trades(x: Stream[Trade]) -> Stream[Position]:
    return x.cumulate(_trade, start=Position(Side.BUY, 0, 0.0), id="position")


@pipeline
def inner(x: Stream[int]) -> Stream[int]:
    return x.key_by(lambda v: v % 7, id="sevens").cumulate(lambda n, v: n * 31 % 100003 + v, start=0, id="mixed")


@pipeline
def alone(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda h, v: (h * 31 + v) % 1000003, start=7, id="chain")


@pipeline
def outputs(x: Stream[int]) -> dict[str, Stream[Any]]:
    totals = x.cumulate(lambda t, v: t + v, start=0, id="totals")
    return {
        "totals": totals,
        "means": apply(lambda t, n: t / n, totals, x.cumulate(lambda n, v: n + 1, start=0)),
        "evens": x.filter(lambda v: v % 2 == 0),
    }


def _digits(v: int) -> str:
    """Opaque on purpose: a library call that nobody can trace."""
    return "".join(sorted(str(abs(v))))


@pipeline
def opaque(x: Stream[int]) -> Stream[str]:
    text = x.map(_digits, to=str, id="digits")
    return text.task(lambda last, s: (s, [last + s] if s != last else []), initial="", id="with_the_last")


@pipeline
def floats(x: Stream[float]) -> Stream[float]:
    return x.cumulate(lambda level, v: 0.9 * level + 0.1 * v, start=0.0, id="level").window(
        2, lambda w: w.cumulate(lambda t, v: t - v, start=0.0)
    )


# ------------------------------------------------------------ functions that misbehave on their first attempt


def first_time(what: str) -> bool:
    """Whether this is the first time; a file remembers, whoever asks."""
    folder = os.environ.get(MARKS)
    if not folder:
        return False
    with open(Path(folder) / "attempts", "a") as log:
        log.write(f"{what} {_attempt()}\n")
    try:
        os.close(os.open(Path(folder) / what, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return -1 if context is None else context.attemptNumber()


def _sleeps(v: int) -> int:
    """One task of the whole run: its twin needs the other executor to be free."""
    if v % 50 == 7 and first_time("sleep"):
        time.sleep(10)
    return v


def _raises(v: int) -> int:
    if v % 50 == 7 and first_time(f"raise-{v}"):
        raise OSError(f"a passing failure at {v}")
    return v


def _dies(v: int) -> int:
    if v % 50 == 7 and first_time(f"die-{v}"):
        os._exit(1)
    return v


def _lingers(v: int) -> int:
    """Slow enough that an executor can be killed while it works."""
    if os.environ.get(MARKS):
        first_time("lingering")
        time.sleep(0.01)
    return v


@pipeline
def sleeper(x: Stream[int]) -> Stream[int]:
    return x.map(_sleeps, to=int, id="sleeps").cumulate(lambda t, v: t + v, start=0, id="total")


@pipeline
def raiser(x: Stream[int]) -> Stream[int]:
    return x.map(_raises, to=int, id="raises").cumulate(lambda t, v: t + v, start=0, id="total")


@pipeline
def dier(x: Stream[int]) -> Stream[int]:
    return x.map(_dies, to=int, id="dies").cumulate(lambda t, v: t + v, start=0, id="total")


@pipeline
def lingerer(x: Stream[int]) -> Stream[int]:
    return x.map(_lingers, to=int, id="lingers").cumulate(lambda t, v: t + v, start=0, id="total")


# ------------------------------------------------------------ rows


def _int(rng: random.Random) -> dict[str, Any]:
    return {"x": rng.randrange(-100, 1000)}


def _trades(rng: random.Random) -> dict[str, Any]:
    return {
        "x": Trade(
            rng.choice(list(Side)), rng.choice(["", "tea", "ünï"]), rng.randrange(1, 9), rng.randrange(1, 80) / 8
        )
    }


def _pair(rng: random.Random) -> dict[str, Any]:
    both = {"a": rng.randrange(100), "b": rng.randrange(9)}
    return {name: value for name, value in both.items() if rng.random() < 0.7} or {"a": 5}


@dataclass(frozen=True)
class Case:
    """A pipeline, how Spark is to run it, and how its rows are made."""

    pipeline: Pipeline
    keys: tuple[Any, ...] = (1, 2, 3, 4, 5, 6, 7)
    push: Callable[[random.Random], dict[str, Any]] = _int
    arguments: dict[str, Any] = field(default_factory=dict)
    displaced: int = 0  # rows may come so many places too late
    doubled: float = 0.0  # the share of rows that come twice

    @property
    def spark(self) -> dict[str, Any]:
        """The arguments of ``p.spark``."""
        keyed = {"key": "user"} if self.keys != (None,) else {}
        return {**keyed, "order": "seq", "tag": "output", **self.arguments}

    def files(self, seed: int, files: int, rows: int) -> list[list[Row]]:
        """The rows, file by file, in an order that means nothing."""
        rng = random.Random(seed)
        last: dict[Any, int] = {}
        made: list[tuple[float, Row]] = []
        for place in range(files * rows):
            key = rng.choice(self.keys)
            step = 1 if "sequence" in self.arguments else rng.choice([1, 1, 3])
            last[key] = last[key] + step if key in last else 1
            row = Row(key, last[key], self.push(rng))
            made.append((place + rng.random() * self.displaced, row))
            if rng.random() < self.doubled:
                made.append((place + rng.random() * 3 * rows, row))  # the same again, now or some files later
        ordered = [row for _, row in sorted(made, key=lambda pair: pair[0])]
        size = -(-len(ordered) // files)
        parts = [ordered[at : at + size] for at in range(0, len(ordered), size)]
        for part in parts:
            rng.shuffle(part)
        return parts

    def answer(self, files: list[list[Row]]) -> list[tuple[Any, ...]]:
        """What must come out, by the interpreter, without Spark and without a crash."""
        rows = {(row.key, row.seq): row for part in files for row in part}
        if "wait" in self.arguments:
            ready = max(seq for _, seq in rows) - self.arguments["wait"]
            rows = {at: row for at, row in rows.items() if row.seq <= ready}
        if self.arguments.get("gaps") == "wait":  # what comes after a gap waits for files that are not there yet
            rows = {at: row for at, row in rows.items() if all((row.key, seq) in rows for seq in range(1, row.seq))}
        return expected(self.pipeline, list(rows.values()))


CASES = {
    "sums": Case(sums),
    "windows": Case(windows, keys=("a", "b", "ß", "")),
    "runs": Case(runs, keys=tuple(range(40))),
    "thinned": Case(thinned, arguments={"late": "drop"}, doubled=0.1),
    "joined": Case(joined, push=_pair),
    "trades": Case(trades, keys=("anna", "bo", "çelik"), push=_trades),
    "inner": Case(inner, keys=(None,)),
    "alone": Case(alone, keys=(None,), arguments={"wait": 60}, displaced=15),
    "outputs": Case(outputs, arguments={"sequence": 1, "gaps": "wait"}, displaced=60),
    "opaque": Case(opaque, keys=(1, 2, 3)),
    "floats": Case(floats, push=lambda rng: {"x": rng.uniform(-5, 5)}, arguments={"late": "drop"}, doubled=0.3),
}
MISBEHAVING = {
    "sleeper": Case(sleeper),
    "raiser": Case(raiser),
    "dier": Case(dier),
    "lingerer": Case(lingerer, keys=tuple(range(30))),
}
