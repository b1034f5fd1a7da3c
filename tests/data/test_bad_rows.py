"""Tables that are not as they were declared: each message names file or source, row, column and step, and what to
write; from memory and from files (on Spark: tests/spark/test_failure.py).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pellucid import PellucidError, Scale, pipeline
from pellucid.internal.cli.main import cli

NAIVE = dt.datetime(2013, 1, 1, 5)
AWARE = NAIVE.replace(tzinfo=dt.UTC)
AIRLINES = {"UA": "United"}


class Flight(NamedTuple):
    carrier: str
    at: Annotated[dt.datetime, dt.UTC]
    fee: Annotated[Decimal, Scale(2)]
    delay: int


class Wall(NamedTuple):
    at: dt.datetime


names = pipeline(lambda f: f.map(lambda e: AIRLINES[e.carrier], id="name"), f=Flight)
walls = pipeline(lambda f: f.map(lambda e: e.at), f=Wall)
total = pipeline(lambda x: x.cumulate(lambda a, b: a + b, start=0), x=int)
GOOD = {"carrier": "UA", "at": AWARE, "fee": Decimal("1.50"), "delay": 3}
NO_ZONE = (
    f"expected a datetime with a time zone, found {NAIVE}, which has none: say which, as in tzinfo=UTC or 05:00Z, or "
    "declare it as datetime"
)
PLACES = "1.505 has more than 2 places after the point: round it first, or declare Scale(3)"


def rows(**other: Any) -> list[dict[str, Any]]:
    return [GOOD, {**GOOD, **other}]


def table(**other: Any) -> Any:
    return pa.Table.from_pylist([GOOD]).drop_columns(list(other)).append_column(*next(iter(other.items())))


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "a naive time in a dict": (
        lambda: names(rows(at=NAIVE)),
        f"pipeline: source 'f': position 1: field 'at': {NO_ZONE}",
    ),
    "a naive time in a record": (
        lambda: names([Flight("UA", NAIVE, Decimal(1), 1)]),
        f"pipeline: source 'f': position 0: field 'at': {NO_ZONE}",
    ),
    "a column of naive times": (
        lambda: names(table(at=pa.array([NAIVE]))),
        "pipeline: source 'f': column 'at' holds timestamp[us]: expected datetime[UTC]; its times have no time zone: "
        "declare the field as datetime",
    ),
    "a column of instants": (
        lambda: walls(pa.table({"at": [AWARE]})),
        "pipeline: source 'f': column 'at' holds timestamp[us, tz=UTC]: expected datetime; its times have a time zone: "
        "declare the field as Annotated[datetime, UTC]",
    ),
    "a nanosecond": (
        lambda: walls(pa.table({"at": pa.array([0, 1000, 1001], pa.timestamp("ns"))})),
        "pipeline: source 'f': position 2: column 'at': 1970-01-01 00:00:00.000001001 has nanoseconds, and a time has "
        "whole microseconds: round it first",
    ),
    "a decimal with more places": (
        lambda: names(table(fee=pa.array([Decimal("1.505")]))),
        f"pipeline: source 'f': position 0: column 'fee': {PLACES}",
    ),
    "a decimal with more places in a dict": (
        lambda: names(rows(fee=Decimal("1.505"))),
        f"pipeline: source 'f': position 1: field 'fee': {PLACES}",
    ),
    "a decimal with more digits": (
        lambda: names(rows(fee=Decimal("99999999999999999999.50"))),
        "pipeline: source 'f': position 1: field 'fee': 99999999999999999999.50 with 2 places does not fit in 64 bits",
    ),
    "a list in a key": (
        lambda: total(pa.table({"k": [["a"]], "x": [1]}), key="k"),
        "pipeline: source 'x': the key column 'k' holds list<item: string>: a key is int, str, bool or a time; a list "
        "is no key; take an element of it first",
    ),
    "a list in the key of a dict": (
        lambda: total([{"k": ["a"], "x": 1}], key="k"),
        "pipeline: source 'x': position 0: the key 'k' is ['a']: a key is int, str, bool or a time, and the same in "
        "all rows",
    ),
    "keep= of an output's own column": (
        lambda: total(pa.table({"x": [1], "out": [2]}), keep=["out"]),
        "keep='out': the output 'out' has a column of this name itself: leave it out of keep=, or rename the column "
        "before",
    ),
    "a null": (
        lambda: total(pa.table({"x": [1, None]})),
        "pipeline: source 'x': position 1: column 'x' is null: expected int; fill it, remove the row, or declare it as "
        "int | None",
    ),
    "a null in pandas": (
        lambda: total(pd.DataFrame({"x": [1, None]})),
        "pipeline: source 'x': column 'x' holds double: expected int; cast it to int64 first, or make the source "
        "float; if they are whole numbers with holes, int | None",
    ),
    "a null in a dict": (
        lambda: names(rows(carrier=None)),
        "pipeline: source 'f': position 1: field 'carrier': expected str, found None: fill it, or declare it as str | "
        "None",
    ),
    "a null in a record": (
        lambda: names([Flight("UA", AWARE, Decimal(1), None)]),  # type: ignore[arg-type]
        "pipeline: source 'f': position 0: field 'delay': expected int, found None: fill it, or declare it as int | "
        "None",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_in_memory(what: str) -> None:
    call, message = BAD[what]
    with pytest.raises(PellucidError) as caught:
        call()
    assert str(caught.value) == message


def test_a_dictionary_without_the_key() -> None:
    """Named with the step, the event, the key and the line, also where the look-up is compiled."""
    assert names.why_plain is None
    for mode in ("python", "numba"):
        with pytest.raises(PellucidError) as caught:
            names.engine(mode=mode).push([Flight("UA", AWARE, Decimal(1), 1), Flight("ZZ", AWARE, Decimal(1), 1)])
        said = str(caught.value)
        assert said.startswith("step 'name' (map λ, test_bad_rows.py:")
        assert "failed at push 1 on the event Flight(carrier='ZZ'" in said and "KeyError: 'ZZ'" in said
        assert "AIRLINES[e.carrier]" in said


def test_an_optional_used_unguarded() -> None:
    with pytest.raises(PellucidError) as caught:
        pipeline(lambda f: f.map(lambda e: e.delay + 1, id="more"), f=NamedTuple("Late", [("delay", int | None)]))
    assert "step 'more'" in str(caught.value) or "more" in str(caught.value)
    assert "it uses the field 'delay', which may be None (int | None), as if it were always there" in str(caught.value)
    assert "ask first, as in `e.delay is not None and …` or `if e.delay is None`, or take `e.delay or 0`" in str(
        caught.value
    )
    with pytest.raises(PellucidError, match="a key must not contain a float, found float"):
        pipeline(lambda x: x.key_by(lambda e: e * 0.5), x=int)
    with pytest.raises(PellucidError, match="returns a list, which is no event"):
        pipeline(lambda x: x.key_by(lambda e: [e]), x=int)


HEAD = "carrier,at,fee,delay\nUA,2013-01-01T05:00:00Z,1.50,3\n"
FILES: dict[str, tuple[str, str]] = {
    "a naive time": (
        "UA,2013-01-01T05:00:00,1.5,3\n",
        f"column 'at': {NO_ZONE}; correct the value or remove the row",
    ),
    "a nanosecond": (
        "UA,2013-01-01T05:00:00.0000001Z,1.5,3\n",
        "column 'at': 2013-01-01T05:00:00.0000001Z has a finer part than a microsecond: round it first; correct the "
        "value or remove the row",
    ),
    "a decimal": ("UA,2013-01-01T05:00:00Z,1.505,3\n", f"column 'fee': {PLACES}; correct the value or remove the row"),
    "a null": (
        "UA,2013-01-01T05:00:00Z,1.50,\n",
        "column 'delay' is null: expected int; fill it, remove the row, or declare it as int | None",
    ),
}
MODULE = """
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, NamedTuple
from pellucid import Scale, Stream, pipeline

class Flight(NamedTuple):
    carrier: str
    at: Annotated[datetime, UTC]
    fee: Annotated[Decimal, Scale(2)]
    delay: int

AIRLINES = {"UA": "United"}
names = pipeline(lambda f: f.map(lambda e: AIRLINES[e.carrier], id="name"), f=Flight)
"""


def run(*args: str) -> str:
    done = CliRunner().invoke(cli, ["run", "p.py:names", *args])
    assert done.exit_code == 2 and "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "p.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("what", FILES)
def test_in_files(folder: Path, what: str) -> None:
    line, message = FILES[what]
    (folder / "in.csv").write_text(HEAD + line)
    assert run("--in", "in.csv") == f"pellucid: in.csv: row 2 (line 3): {message}\n"


def test_in_parquet_and_a_step(folder: Path) -> None:
    pq.write_table(table(fee=pa.array([Decimal("1.505")])), "in.parquet")
    assert run("--in", "in.parquet") == f"pellucid: in.parquet: row 1: column 'fee': {PLACES}\n"
    (folder / "in.csv").write_text(HEAD + "ZZ,2013-01-01T05:00:00Z,1.50,3\n")
    said = run("--in", "in.csv")
    assert "step 'name'" in said and "KeyError: 'ZZ'" in said and said.endswith("from in.csv: row 2 (line 3)\n")
