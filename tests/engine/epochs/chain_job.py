"""Three runs that read one another, as programs that can be killed:
``python -m tests.engine.epochs.chain_job first|second|third FOLDER [PUSHES]``.

``first`` adds the environment's ``SALT`` to every row, so an epoch that it makes again with another salt has other
rows; ``second`` sums what ``first`` put out, ``third`` keeps the greatest sums of what ``second`` put out.  What must
come out of the last two is told from the rows of the one before by plain Python, which knows nothing of pipelines.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from pellucid import Stream, pipeline
from pellucid.errors import PellucidError
from pellucid.internal.engine.epochs.outputs import parts_in

ROWS = 300


def salted(v: int) -> int:
    """Another number when it is asked for again, if the salt (``pid``: whose process it is) has changed; slowly, if
    there is a pause."""
    time.sleep(float(os.environ.get("PAUSE", "0")))
    salt = os.environ.get("SALT", "0")
    return int(json.loads(json.dumps(v))) * 10 + (os.getpid() % 10 if salt == "pid" else int(salt))


@pipeline
def first(x: Stream[int]) -> Stream[int]:
    return x.map(salted, to=int, id="salted")


@pipeline
def second(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum").filter(lambda s: s % 3 != 0, id="thirds")


@pipeline
def third(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda best, v: max(best, v % 1000), start=0, id="best")


@pipeline
def strict(x: Stream[int]) -> Stream[int]:
    return x.map(lambda v: 1000 // (v % 10 - 5), id="fails")  # on rows that end in 5


def given(i: int) -> int:
    return (i * 7919) % 1009


def seconds_of(rows: list[int]) -> list[int]:
    """What ``second`` must make of the rows of ``first``."""
    out, total = [], 0
    for row in rows:
        total += row
        if total % 3:
            out.append(total)
    return out


def thirds_of(rows: list[int]) -> list[int]:
    """What ``third`` must make of the rows of ``second``."""
    out, best = [], 0
    for row in rows:
        best = max(best, row % 1000)
        out.append(best)
    return out


def unsalted(rows: list[int]) -> list[int]:
    return [row // 10 for row in rows]


def places(folder: Path, scheme: str = "epochs") -> dict[str, tuple[Any, str, str]]:
    """Of each run: its pipeline, its input and its output."""
    return {
        "strict": (strict, f"{scheme}:{folder / 'first'}", str(folder / "strict.csv")),
        "first": (first, str(folder / "x.jsonl"), str(folder / "first.arrow")),
        "second": (second, f"{scheme}:{folder / 'first'}", str(folder / "second.jsonl")),
        "third": (third, f"{scheme}:{folder / 'second'}#out", f"sqlite:{folder / 'third.db'}#best"),
    }


def run(folder: Path, role: str, pushes: int = 50, **more: Any) -> Any:
    """One of the runs, or the same again."""
    if not (folder / "x.jsonl").exists():
        (folder / "x.jsonl").write_text("".join(f"{given(i)}\n" for i in range(ROWS)))
    made, source, target = places(folder)[role]
    return made.run_epochs(source, target, state=folder / role, **{"pushes": pushes, **more})


def committed(folder: Path, role: str) -> list[int]:
    """The rows that are committed now: of a table its own, of a file those in the parts of the state folder."""
    if role == "third":
        return table(folder)
    while True:
        rows, until = [], 0
        there = parts_in(folder / role / "committed" / "out")
        if there != parts_in(folder / role / "committed" / "out"):
            continue  # a list that was made while parts were merged may lack some
        found = {name.first: (name, path) for name, path in there}
        for name, path in there:  # of a merged one and its first, the larger
            if name.until > found[name.first][0].until:
                found[name.first] = (name, path)
        try:
            while until in found:
                name, path = found[until]
                rows += _rows(path, text=role == "second")
                until = name.until
            return rows
        except FileNotFoundError:  # merged meanwhile
            continue


def _rows(path: Path, *, text: bool) -> list[int]:
    data = path.read_bytes()
    if text:
        found = [json.loads(line) for line in data.splitlines()]
        return [one["out"] if isinstance(one, dict) else one for one in found]
    return [int(v) for v in pa.ipc.open_stream(data).read_all()["out"].to_pylist()]


def table(folder: Path) -> list[int]:
    if not (folder / "third.db").exists():
        return []
    with closing(sqlite3.connect(f"file:{folder / 'third.db'}?mode=ro", uri=True, timeout=60)) as db:
        if not db.execute("select 1 from sqlite_master where name = 'best'").fetchone():
            return []
        return [row[0] for row in db.execute("select out from best order by rowid")]


if __name__ == "__main__":
    try:
        pushes = int(sys.argv[3]) if len(sys.argv) > 3 else 50
        print(run(Path(sys.argv[2]), sys.argv[1], pushes).undone)
    except PellucidError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
