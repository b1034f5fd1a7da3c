"""Times, decimals and values that may be missing: from every source to every sink as they were, each once, also where
runs are killed in the middle."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from pellucid import Scale, check, pipeline, sinks
from pellucid.errors import DataError
from tests.diagonal import diagonal
from tests.engine.epochs import rich_rows
from tests.engine.epochs.conftest import Runs
from tests.engine.epochs.rich_rows import CORNERS, Row, many, plain, same, told
from tests.sinks.postgres import Postgres

_US = pa.timestamp("us")
TYPES = {
    "i": pa.int64(), "f": pa.float64(), "b": pa.bool_(), "s": pa.string(), "k": pa.string(), "at": _US,
    "when": pa.timestamp("us", "UTC"), "day": pa.date32(), "took": pa.duration("us"), "fee": pa.decimal128(19, 2),
    "tiny": pa.decimal128(19, 18), "oi": pa.int64(), "of": pa.float64(), "ob": pa.bool_(), "os": pa.string(),
    "ok": pa.string(), "oat": _US, "owhen": pa.timestamp("us", "UTC"), "oday": pa.date32(),
    "otook": pa.duration("us"), "ofee": pa.decimal128(19, 4),
}  # fmt: skip


# ---------------------------------------------------------------- files, written and read by other hands


def iso(value: Any) -> Any:
    """A time as ISO 8601 has it, in seconds where it is a duration; other values as they are."""
    if hasattr(value, "total_seconds"):
        whole = abs(value.days * 86_400_000_000 + value.seconds * 1_000_000 + value.microseconds)
        return f"{'-' if value.days < 0 else ''}PT{whole // 1_000_000}.{whole % 1_000_000:06d}S"
    return value.isoformat() if isinstance(value, (datetime, date)) else value


def write_csv(path: Path, rows: list[Row]) -> None:
    def cell(value: Any) -> str:
        if value is None:
            return ""
        text = f"{value:f}" if isinstance(value, Decimal) else str(iso(value))
        return '"' + text.replace('"', '""') + '"' if isinstance(value, str) else text

    lines = [",".join(TYPES), *(",".join(cell(v) for v in plain(row).values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


def write_jsonl(path: Path, rows: list[Row]) -> None:
    def value(v: Any) -> str:
        if isinstance(v, Decimal):
            return f"{v:f}"  # a number with all its places
        return "1e999" if v == float("inf") else json.dumps(iso(v))

    path.write_text("".join("{" + ", ".join(f'"{n}": {value(v)}' for n, v in plain(r).items()) + "}\n" for r in rows))


def table_of(rows: list[Row]) -> pa.Table:
    return pa.table({name: pa.array([plain(row)[name] for row in rows], t) for name, t in TYPES.items()})


def write_arrow(path: Path, rows: list[Row]) -> None:
    with pa.ipc.new_file(path, pa.schema(list(TYPES.items()))) as out:
        out.write_table(table_of(rows), max_chunksize=7)


SOURCES: dict[str, Callable[[Path, list[Row]], None]] = {
    "csv": write_csv,
    "jsonl": write_jsonl,
    "parquet": lambda path, rows: pa.parquet.write_table(table_of(rows), path, row_group_size=7),
    "arrow": write_arrow,
}


def time_of(name: str, text: str) -> Any:
    """What a text of a time or a decimal says, in Python's own words."""
    t = TYPES[name]
    if pa.types.is_decimal(t):
        return Decimal(text)
    if pa.types.is_date(t):
        return date.fromisoformat(text)
    if pa.types.is_timestamp(t):
        return datetime.fromisoformat(text)
    return None


def spelled_back(name: str, text: str, value: Any) -> bool:
    """Whether a text spells a value of a column."""
    if pa.types.is_duration(TYPES[name]):
        days, _, clock = text.lstrip("-").removeprefix("P").partition("T")
        seconds, digits = Decimal(int(days.rstrip("D") or 0)) * 86400, ""
        for c in clock:
            if c in "HMS":
                seconds, digits = seconds + Decimal(digits) * {"H": 3600, "M": 60, "S": 1}[c], ""
            else:
                digits += c
        micros = (value.days * 86400 + value.seconds) * 1_000_000 + value.microseconds
        return int(seconds * 1_000_000) * (-1 if text.startswith("-") else 1) == micros
    found = time_of(name, text)
    if isinstance(found, Decimal):
        return "E" not in text and found == value
    return bool(found == value) if found is not None else text == value


def is_time(name: str) -> bool:
    return bool(pa.types.is_temporal(TYPES[name]) or pa.types.is_decimal(TYPES[name]))


def csv_equal(path: Path, rows: list[Row]) -> None:
    with open(path, newline="") as file:
        head, *found = csv.reader(file)
    assert head == list(TYPES) and len(found) == len(rows)
    for cells, row in zip(found, rows, strict=True):
        for (name, value), cell in zip(plain(row).items(), cells, strict=True):
            if value is None:
                assert cell == ""
            elif isinstance(value, (bool, int)):
                assert cell == str(value).lower()
            elif isinstance(value, float):
                assert float(cell) == value
            else:
                assert spelled_back(name, cell, value), (name, cell, value)
    # an empty text has quotes, a value that is missing has none
    nulls = sum(row.os is None for row in rows)
    assert sum(',"",' not in line for line in path.read_text().splitlines()[1:] if line.startswith("1,")) >= bool(nulls)


def jsonl_equal(path: Path, rows: list[Row]) -> None:
    found = [json.loads(line, parse_float=Decimal) for line in path.read_text().splitlines()]
    assert len(found) == len(rows)
    for got, row in zip(found, rows, strict=True):
        assert list(got) == list(TYPES)
        for name, value in plain(row).items():
            if is_time(name) and value is not None and isinstance(got[name], str):
                assert spelled_back(name, got[name], value)
            elif isinstance(value, float):
                assert float(got[name]) == value
            else:
                assert got[name] == value and (got[name] is None) == (value is None), name


def sqlite_equal(path: Path, rows: list[Row]) -> None:
    with closing(sqlite3.connect(path)) as db:
        kinds = {row[1]: row[2] for row in db.execute("PRAGMA table_info(t)")}
        found = db.execute("SELECT * FROM t ORDER BY rowid").fetchall()
    assert [kinds[n] for n in ("i", "f", "b", "s", "at", "when", "took", "fee")] == [
        "INTEGER", "REAL", "INTEGER", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT"
    ]  # fmt: skip
    assert len(found) == len(rows)
    for cells, row in zip(found, rows, strict=True):
        for (name, value), cell in zip(plain(row).items(), cells, strict=True):
            assert spelled_back(name, cell, value) if isinstance(cell, str) else cell == value, (name, cell, value)
            assert (cell is None) == (value is None)


def parquet_equal(path: Path, rows: list[Row]) -> None:
    arrow_equal(pa.parquet.read_table(path), rows)


def arrow_equal(table: pa.Table, rows: list[Row]) -> None:
    assert dict(zip(table.schema.names, table.schema.types, strict=True)) == TYPES
    assert table.to_pylist() == [plain(row) for row in rows]


def read_arrow(path: Path) -> pa.Table:
    with pa.ipc.open_file(path) as file:
        return file.read_all()


FILES: dict[str, Callable[[Path, list[Row]], None]] = {
    "csv": csv_equal,
    "jsonl": jsonl_equal,
    "parquet": parquet_equal,
    "arrow": lambda path, rows: arrow_equal(read_arrow(path), rows),
}


@pytest.mark.parametrize(("source", "sink"), diagonal(SOURCES, FILES))
def test_every_source_to_every_file(source: str, sink: str, tmp_path: Path) -> None:
    path, out = tmp_path / f"in.{source}", tmp_path / f"out.{sink}"
    SOURCES[source](path, CORNERS)
    same.run_epochs(path, out, state=tmp_path / "state", pushes=2)
    FILES[sink](out, CORNERS)


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_to_sqlite(source: str, tmp_path: Path) -> None:
    SOURCES[source](tmp_path / f"in.{source}", CORNERS)
    same.run_epochs(tmp_path / f"in.{source}", f"sqlite:{tmp_path / 'out.db'}#t", state=tmp_path / "state", pushes=2)
    sqlite_equal(tmp_path / "out.db", CORNERS)


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_to_a_function_and_a_folder(source: str, tmp_path: Path) -> None:
    SOURCES[source](tmp_path / f"in.{source}", CORNERS)
    note = tmp_path / "seen.arrow"

    def take(rows: Any, batch: int) -> None:  # in a process of its own: what it saw goes to a file
        with pa.ipc.new_file(note.with_suffix(f".{batch}"), rows.schema) as out:
            for piece in rows:
                out.write(piece)

    once = sinks.once(take, ledger=tmp_path / "ledger")
    same.run_epochs(tmp_path / f"in.{source}", once, state=tmp_path / "state", pushes=2)
    seen = sorted(tmp_path.glob("seen.[0-9]*"))
    arrow_equal(pa.concat_tables([read_arrow(path) for path in seen]), CORNERS)
    folder = sinks.parquet(tmp_path / "folder")
    same.run_epochs(tmp_path / f"in.{source}", folder, state=tmp_path / "state 2", pushes=2)
    arrow_equal(folder.read(), CORNERS)


COLUMNS = {
    "at": "timestamp without time zone",
    "when": "timestamp with time zone",
    "day": "date",
    "took": "interval",
    "fee": "numeric(19,2)",
    "tiny": "numeric(19,18)",
    "oi": "bigint",
    "of": "double precision",
    "ob": "boolean",
    "os": "text",
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_to_postgres(source: str, tmp_path: Path, postgres: Postgres) -> None:
    import psycopg

    SOURCES[source](tmp_path / f"in.{source}", CORNERS)
    address = postgres.database()
    same.run_epochs(tmp_path / f"in.{source}", f"{address}#t", state=tmp_path / "state", pushes=2)
    with psycopg.connect(address, options="-c timezone=UTC") as db:
        rows = db.execute("SELECT * FROM t ORDER BY ctid")
        names = [column.name for column in rows.description or []]
        assert [dict(zip(names, row, strict=True)) for row in rows.fetchall()] == [plain(row) for row in CORNERS]
        found = db.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass"
        ).fetchall()
        assert {**dict(found), **COLUMNS} == dict(found)
        # elapsed time, not days of a calendar: the same on either side of a change of clocks
        assert db.execute("SELECT extract(day FROM took) FROM t").fetchall() == [(0,)] * 3
    assert sinks.postgres(address, "t").read().to_pylist() == [plain(row) for row in CORNERS]


# ---------------------------------------------------------------- kills in the middle


@pytest.fixture
def rich(runs: Runs) -> Runs:
    """A folder with the pipelines and some rows."""
    shutil.copy(rich_rows.__file__, runs.folder / "rich.py")
    for form, write in SOURCES.items():
        write(runs.folder / f"in.{form}", many(200))
    return runs


EPOCHS = ("--epoch-size", "23", "--state", "state")
# ---------------------------------------------------------------- tables that are there already


@pytest.fixture
def refused(tmp_path: Path, postgres: Postgres) -> Callable[[str, str], str]:
    """What a run says when the table was altered before."""
    import psycopg

    address = postgres.database()
    write_csv(tmp_path / "in.csv", CORNERS)
    same.run_epochs(tmp_path / "in.csv", f"{address}#first", state=tmp_path / "first", pushes=2)

    def run(change: str, mend: str) -> str:
        with psycopg.connect(address, autocommit=True) as db:
            db.execute("CREATE TABLE t AS SELECT * FROM first LIMIT 0")
            db.execute(f"ALTER TABLE t ALTER {change}".encode())
        with pytest.raises(DataError) as told:
            same.run_epochs(tmp_path / "in.csv", f"{address}#t", state=tmp_path / "state", pushes=2)
        with psycopg.connect(address, autocommit=True) as db:  # nothing of the batch is there, and mended it goes on
            assert len(db.execute("SELECT FROM t").fetchall()) in (0, 2)
            db.execute(f"ALTER TABLE t ALTER {mend}".encode())
        same.run_epochs(tmp_path / "in.csv", f"{address}#t", state=tmp_path / "state", pushes=2)
        assert sinks.postgres(address, "t").read().to_pylist() == [plain(row) for row in CORNERS]
        assert "\n" not in str(told.value)
        return re.sub(r"batch \d", "batch N", str(told.value))  # epochs that wait are committed together

    return run


def test_a_null_where_the_table_takes_none(refused: Callable[[str, str], str]) -> None:
    said = refused("oi SET NOT NULL", "oi DROP NOT NULL")
    assert said.startswith("table 't': column 'oi' is NOT NULL there, and a row of batch N has None for it (1, 0.1, t,")
    assert "give every row a value before the sink, or ALTER TABLE … ALTER COLUMN … DROP NOT NULL" in said


def test_a_decimal_with_more_digits_than_the_table_has(refused: Callable[[str, str], str]) -> None:
    assert refused("fee TYPE numeric(10,2)", "fee TYPE numeric(19,2)") == (
        "table 't': column 'fee' does not take 92233720368547758.07, a value of batch N: numeric field overflow: "
        "A field with precision 10, scale 2 must round to an absolute value less than 10^8."
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("fee TYPE numeric(19,1)", "column 'fee' is numeric(19,1) in the table and numeric(19,2) in the batch"),
        ("at TYPE text", "column 'at' is text in the table and timestamp without time zone in the batch"),
        ("at TYPE timestamptz",
         "column 'at' is timestamp with time zone in the table and timestamp without time zone in the batch"),
        ("at TYPE timestamp(3)",
         "column 'at' is timestamp(3) without time zone in the table and timestamp without time zone in the batch"),
        ("took TYPE interval(0)", "column 'took' is interval(0) in the table and interval in the batch"),
    ],
)  # fmt: skip
def test_a_column_that_would_round_or_mean_something_else(
    refused: Callable[[str, str], str], change: str, said: str
) -> None:
    column, _, _ = change.partition(" ")
    right = {"fee": "numeric(19,2)", "at": "timestamp", "took": "interval"}[column]
    assert (
        refused(change, f"{column} TYPE {right} USING null")
        == f"table 't' does not fit the batch: {said}; name another table, or alter this one"
    )


# ---------------------------------------------------------------- whose state it is, and crash tests


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("oi: int | None", "oi: int", "(oi was int | None, and is now int)"),
        ("i: int", "i: int | None", "(i was int, and is now int | None)"),
        ("at: datetime\n", "at: Annotated[datetime, UTC]\n", "(at was datetime, and is now datetime[UTC])"),
        ("Scale(4)", "Scale(3)", "(ofee was Decimal(4) | None, and is now Decimal(3) | None)"),
        ("    ob: bool | None\n", "", "(ob is gone)"),
    ],
)
def test_a_field_of_another_type_is_another_run(rich: Runs, was: str, now: str, said: str) -> None:
    command = ("rich.py:same", "--in", "in.parquet", "--out", "out.parquet", *EPOCHS)
    killed = rich(*command, faults="sink:before-commit=tree@3")
    assert killed.returncode != 0
    text = (rich.folder / "rich.py").read_text()
    assert was in text
    # of the module only what `same` needs: a task over the changed type could not be built
    changed = text.replace(was, now, 1)
    (rich.folder / "rich.py").write_text(changed[: changed.index("def tell")])
    done = rich(*command)
    assert done.returncode == 2 and "belongs to another run" in done.stderr and said in done.stderr, done.stderr
    assert "--allow-changed" not in done.stderr  # what was remembered is of the other type
    (rich.folder / "rich.py").write_text(text)
    assert rich(*command).returncode == 0
    parquet_equal(rich.folder / "out.parquet", many(200))


def test_the_checker_of_failures_makes_up_valid_rows() -> None:
    assert check.failures(told).bounded
    refuted = check.failures(told, sink="append")
    assert not refuted.holds and refuted.counterexample is not None
    text = str(refuted)
    assert "at=datetime.datetime(1970, 1, 1, 0, 0, 0, 1)" in text and "fee=Decimal('0.01')" in text
    assert "pickle" not in text and "Frozen" not in text
    refuted.counterexample.replay()


# ---------------------------------------------------------------- values alone, and keys


SCALARS: dict[str, tuple[Any, list[Any], Any]] = {
    "text": (str | None, ["a", None, "", "null", None], pa.string()),
    "whole": (int | None, [None, 1, -(2**63), None, 0], pa.int64()),
    "time": (datetime | None, [None, datetime.min, datetime.max, datetime(2013, 1, 1, 5)], pa.timestamp("us")),
    "day": (date, [date.min, date.max, date(1970, 1, 1)], pa.date32()),
    "span": (timedelta | None, [timedelta(0), None, -timedelta(microseconds=1)], pa.duration("us")),
    "money": (
        Annotated[Decimal, Scale(8)] | None,
        [Decimal("0.00000001"), None, Decimal("-1.5")],
        pa.decimal128(19, 8),
    ),
}


@pytest.mark.parametrize(("name", "form"), diagonal(SCALARS, ["csv", "jsonl", "parquet", "arrow"]))
def test_a_value_alone_comes_back_from_what_was_written(name: str, form: str, tmp_path: Path) -> None:
    """There and back: the file that one run writes is the input of the next."""
    t, values, arrow = SCALARS[name]
    p = pipeline(lambda x: x.map(lambda v: v, id="out"), x=t)
    pa.parquet.write_table(pa.table({"x": pa.array(values, arrow)}), tmp_path / "in.parquet")
    p.run_epochs(tmp_path / "in.parquet", tmp_path / f"mid.{form}", state=tmp_path / "s1", pushes=2)
    p.run_epochs(tmp_path / f"mid.{form}", tmp_path / "out.parquet", state=tmp_path / "s2", pushes=2)
    found = pa.parquet.read_table(tmp_path / "out.parquet")
    assert found.schema.types == [arrow] and found.column(0).to_pylist() == values


@pytest.mark.parametrize("key", [("day",), ("when",), ("s", "day")])
def test_a_time_as_a_key(key: tuple[str, ...], tmp_path: Path) -> None:
    rows, counts, wanted = many(60), Counter[Any](), []
    SOURCES["parquet"](tmp_path / "in.parquet", rows)
    for row in rows:
        found = tuple(getattr(row, name) for name in key)
        counts[found] += 1
        wanted.append((*found, counts[found]))
    count = pipeline(lambda e: e.cumulate(lambda n, r: n + 1, 0, id="count"), e=Row)
    count.run_epochs(
        tmp_path / "in.parquet", tmp_path / "out.parquet", state=tmp_path / "s", pushes=17, key=key, workers=2
    )
    table = pa.parquet.read_table(tmp_path / "out.parquet")
    assert [tuple(row.values()) for row in table.to_pylist()] == wanted
    assert table.schema.types[:-1] == [TYPES[name] for name in key]
