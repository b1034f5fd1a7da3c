"""What is in a target, read without Spark, and compared with what must be there: as a multiset, so nothing lost,
nothing twice."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

from pellucid import Pipeline, sinks
from pellucid.internal.expr.types import RecordType
from tests.spark.worlds import found


@dataclass(frozen=True)
class Verdict:
    """How a target differs from the answer."""

    rows: int
    lost: Counter[tuple[Any, ...]]
    extra: Counter[tuple[Any, ...]]
    allowed: int = 0  # how many rows may come again; 0 for all sinks that promise exactly once
    only_again: bool = False  # every extra row is one that must be there, once more

    @property
    def right(self) -> bool:
        return not self.lost and (not self.extra or (self.only_again and self.extra.total() <= self.allowed))

    def __str__(self) -> str:
        if not self.lost and not self.extra:
            return "exact"
        words = f"{self.lost.total()} lost, {self.extra.total()} {'again' if self.only_again else 'wrong or again'}"
        return (
            f"{words} (allowed: {self.allowed} again)"
            if self.right
            else f"WRONG: {words}, such as {list(self.lost or self.extra)[:3]}"
        )


def compared(answer: Iterable[tuple[Any, ...]], contents: Iterable[tuple[Any, ...]], allowed: int = 0) -> Verdict:
    """The difference of two multisets.

    >>> str(compared([("a", 1), ("a", 2)], [("a", 2), ("a", 1)]))
    'exact'
    >>> compared([("a", 1)], [("a", 1), ("a", 1)]).right, compared([("a", 1)], [("a", 1), ("a", 1)], allowed=1).right
    (False, True)
    >>> compared([("a", 1)], [("a", 1), ("b", 1)], allowed=1).right  # never was in the answer
    False
    """
    wanted, there = Counter(answer), Counter(contents)
    extra = there - wanted
    return Verdict(there.total(), wanted - there, extra, allowed, only_again=set(extra) <= set(wanted))


def events(p: Pipeline, kind: str, arguments: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The rows of a target in the form of `tests.spark.worlds.expected`; none if it was never made."""
    records = {name for name, at in p.graph.outputs if isinstance(p.graph.nodes[at].type, RecordType)}
    rows = []
    for row in _rows(kind, arguments):
        for name in records:
            if isinstance(row.get(name), str):
                row[name] = json.loads(row[name])
        rows.append({"user": None, **row})
    return found(p, rows)


def _rows(kind: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    if kind == "files":
        return [row for path in spark_files(Path(arguments["path"])) for row in pq.ParquetFile(path).read().to_pylist()]
    if kind == "folder":
        return [
            row
            for path in sorted(Path(arguments["path"]).glob("*.parquet"))
            for row in pq.ParquetFile(path).read().to_pylist()
        ]
    if kind == "once":
        return [json.loads(line) for line in Path(arguments["path"]).read_text().splitlines()]
    if kind == "append":
        with closing(sqlite3.connect(arguments["path"])) as db:
            return [json.loads(line) for (line,) in db.execute("SELECT line FROM lines")]
    table = getattr(sinks, kind)(**arguments).read()
    if kind == "kafka":
        return [json.loads(value) for value in table["value"].to_pylist()]
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def spark_files(folder: Path) -> list[Path]:
    """The files that count in the folder of Spark's file sink: those of its metadata log, and no others."""
    log = folder / "_spark_metadata"
    start = max((int(path.stem) for path in log.glob("*.compact")), default=-1)
    names = [f"{start}.compact"] if start >= 0 else []
    names += [str(n) for n in sorted(int(path.name) for path in log.iterdir() if path.name.isdigit()) if n > start]
    entries = [json.loads(line) for name in names for line in (log / name).read_text().splitlines()[1:] if line]
    return [Path(unquote(urlparse(entry["path"]).path)) for entry in entries]
