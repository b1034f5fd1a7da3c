"""Null is a key where the field is declared as ``T | None``, and is refused anywhere else: in memory, from files, in
epochs; keys of one column and of several (on Spark: tests/spark/test_columns.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid import DataError, pipeline


class Flight(NamedTuple):
    carrier: str | None
    gate: int | None
    delay: int


class Strict(NamedTuple):
    carrier: str
    delay: int


class Other(NamedTuple):
    delay: int


def running(t: Any) -> Any:
    return pipeline(lambda f: f.map(lambda e: e.delay).cumulate(lambda a, b: a + b, start=0), f=t)


sums = running(Flight)
ROWS = [
    {"seq": 11 * i % 40, "carrier": ["UA", None, "", "AA"][i % 4], "gate": [7, None, 0][i % 3], "delay": i}
    for i in range(40)
]
KEYS: list[Sequence[str]] = [["carrier"], ["gate"], ["carrier", "gate"]]


def told(rows: Sequence[dict[str, Any]], key: Sequence[str]) -> list[tuple[Any, ...]]:
    """The sums by key, where None is a key like any other."""
    totals: dict[Any, int] = {}
    out = []
    for row in rows:
        k = tuple(row[name] for name in key)
        totals[k] = totals.get(k, 0) + row["delay"]
        out.append((*k, totals[k]))
    return out


IN_MEMORY: dict[str, tuple[Callable[[], Any], Callable[[Any], list[dict[str, Any]]]]] = {
    "dicts": (lambda: ROWS, lambda found: found),
    "arrow": (lambda: pa.Table.from_pylist(ROWS), lambda found: found.to_pylist()),
    "pandas": (lambda: pd.DataFrame(ROWS), lambda found: pa.Table.from_pandas(found, preserve_index=False).to_pylist()),
    "polars": (lambda: pl.DataFrame(ROWS), lambda found: found.to_dicts()),
}


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("kind", IN_MEMORY)
def test_in_memory(kind: str, key: list[str]) -> None:
    made, rows = IN_MEMORY[kind]
    found = [tuple(row.values()) for row in rows(sums(made(), key=key))]
    assert found == told(ROWS, key)
    by_seq = [tuple(row.values()) for row in rows(sums(made(), key=key, order="seq"))]
    expected = told(sorted(ROWS, key=lambda row: row["seq"]), key)
    assert [(*row[: len(key)], row[-1]) for row in by_seq] == expected


def test_lists_of_records_and_one_column_that_is_nothing_but_null() -> None:
    events = [Flight(r["carrier"], r["gate"], r["delay"]) for r in ROWS]
    assert sums(events, key="carrier") == [row[-1] for row in told(ROWS, ["carrier"])]
    nothing = pa.table({"carrier": pa.nulls(2), "gate": pa.nulls(2, pa.int64()), "delay": [1, 2]})
    assert sums(nothing, key=["carrier", "gate"])["out"].to_pylist() == [1, 3]
    two = pipeline(lambda f, g: f.map(lambda e: e.delay) + g.map(lambda e: e.delay), f=Flight, g=Other)
    other = [{"carrier": r["carrier"], "delay": 100} for r in ROWS]
    assert [r["out"] for r in two(ROWS, other, key="carrier")] == [100 + r["delay"] for r in ROWS]


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_from_files_in_epochs(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"in.{form}"
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=7)
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    else:
        cells = [("" if r["carrier"] is None else f'"{r["carrier"]}"', r["gate"]) for r in ROWS]
        lines = [f"{r['seq']},{c},{'' if g is None else g},{r['delay']}" for r, (c, g) in zip(ROWS, cells, strict=True)]
        path.write_text("\n".join(["seq,carrier,gate,delay", *lines, ""]))
    for i, (key, order) in enumerate([(KEYS[0], None), (KEYS[2], "seq")]):
        asked: dict[str, Any] = {"pushes": 9, "workers": 2, "chunk": 4, "key": key, "order": order}
        sums.run_epochs(path, tmp_path / f"{i}.parquet", state=tmp_path / f"s{i}", **asked)
        found = pq.read_table(tmp_path / f"{i}.parquet").to_pylist()
        rows = sorted(ROWS, key=lambda row: row["seq"]) if order else ROWS
        assert [(*(row[k] for k in key), row["out"]) for row in found] == told(rows, key)


def test_refused_where_it_is_not_declared(tmp_path: Path) -> None:
    table = pa.table({"carrier": ["UA", None], "delay": [1, 2]})
    said = "source 'f': position 1: the key column 'carrier' is null: give every row a key, or leave such rows out"
    with pytest.raises(DataError, match=said):
        running(Other)(table, key="carrier")
    with pytest.raises(DataError, match="position 1: the key 'carrier' is null: give every row one"):
        running(Other)(table.to_pylist(), key="carrier")
    with pytest.raises(DataError, match=r"column 'carrier' is null: expected str; .* declare it as str \| None"):
        running(Strict)(table, key="carrier")
