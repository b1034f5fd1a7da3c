"""The jobs of the judge of kills: a pipeline as text, an input, and what must come out, computed here in plain
Python."""

from __future__ import annotations

import csv
import json
import random
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

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
