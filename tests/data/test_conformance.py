"""One table of what cells are: columns of every kind of table, cells of CSV, values of JSON Lines, at the edges of
their types; each is read to the last bit, or refused with its row.  And rows of every type through every kind of file.

What is wanted is written by hand from ``docs/how-to-tables.md`` and ``docs/reference/cli.md``: of each case what Python
calls the values that a function gets (``repr``), or `NO`, where the docs want a refusal.  Files are written and read
with ``csv``, ``json`` and ``pyarrow`` alone.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pellucid import PellucidError, Scale, pipeline
from pellucid.internal.cli.main import cli
from tests.judge.row_frames import _arrow as arrow_rows
from tests.judge.row_frames import as_dict
from tests.judge.row_values import Color, E, rows
from tests.seeds import seeds

NO = object()


class Twisted(Enum):
    """Values that are names of others."""

    A = "B"
    B = "A"


Cents = Annotated[Decimal, Scale(2)]
Instant = Annotated[datetime, UTC]
NAN = float("nan")
D = Decimal


class Cell(NamedTuple):
    """A column of some kind of table: what its values are, or `NO`."""

    name: str
    type: Any
    make: Callable[[], Any]
    wanted: Any


def read(case: Cell) -> Any:
    """What a function gets of each row, as Python calls it; `NO` if it is refused, with its message."""
    row = NamedTuple("Row", [("v", case.type)])  # noqa: UP014 - the type is a value
    p = pipeline(lambda x: x.map(lambda e: repr(e.v), to=str), x=row)
    try:
        out = p(case.make())
    except PellucidError as error:
        return NO, str(error)
    if isinstance(out, list):
        return [r["out"] if isinstance(r, dict) else r for r in out]
    if isinstance(out, np.ndarray):
        return out.tolist()
    column = out["out"]
    return column.to_list() if hasattr(column, "to_list") else column.to_pylist()


def _arrow(name: str, kind: Any, values: list[Any], of: pa.DataType, wanted: Any) -> Cell:
    return Cell(f"arrow {of}: {name}", kind, lambda: pa.table({"v": pa.array(values, of)}), wanted)


def _pandas(name: str, kind: Any, make: Callable[[Any, Any], Any], wanted: Any) -> Cell:
    def frame() -> Any:
        import numpy
        import pandas

        return pandas.DataFrame({"v": make(pandas, numpy)})

    return Cell(f"pandas: {name}", kind, frame, wanted)


def _polars(name: str, kind: Any, make: Callable[[Any], Any], wanted: Any) -> Cell:
    def frame() -> Any:
        import polars

        return polars.DataFrame({"v": make(polars)})

    return Cell(f"polars: {name}", kind, frame, wanted)


def _numpy(name: str, kind: Any, values: Any, wanted: Any, of: Any = None) -> Cell:
    """A structured array of one field."""

    def array() -> Any:
        column = np.array(values, of)
        out = np.empty(len(column), [("v", column.dtype)])
        out["v"] = column
        return out

    return Cell(f"numpy: {name}", kind, array, wanted)


def _dicts(name: str, kind: Any, values: list[Any], wanted: Any) -> Cell:
    return Cell(f"dicts: {name}", kind, lambda: [{"v": v} for v in values], wanted)


def _duck(sql: str, kind: Any, wanted: Any) -> Cell:
    def relation() -> Any:
        import duckdb

        return duckdb.connect().sql(
            f"select {sql} as v" if " from " not in sql else f"select {sql.replace(' from ', ' as v from ')}"
        )

    return Cell(f"duckdb: {sql}", kind, relation, wanted)


def _all(*values: Any) -> list[str]:
    return [repr(v) for v in values]


def _ts(*whole: int) -> Any:
    return lambda pandas, numpy: numpy.array(whole, "datetime64[ns]")


U = lambda *a: datetime(*a, tzinfo=UTC)
_INT, _TEXT = int | None, str | None

CELLS: list[Cell] = [
    # pandas: what its columns turn into
    _pandas("ints with holes are floats", _INT, lambda p, n: p.Series([1.0, NAN, -3.0]), _all(1, None, -3)),
    _pandas("half an int", _INT, lambda p, n: p.Series([1.5, NAN]), NO),
    _pandas("a float too large for an int", _INT, lambda p, n: p.Series([9.3e18, NAN]), NO),
    _pandas("2**63 as a float", _INT, lambda p, n: p.Series([float(2**63), NAN]), NO),
    _pandas("-2**63 as a float", _INT, lambda p, n: p.Series([float(-(2**63)), NAN]), NO),
    _pandas("infinity for an int", _INT, lambda p, n: p.Series([float("inf"), NAN]), NO),
    _pandas("Int64", _INT, lambda p, n: p.array([2**63 - 1, None, -(2**63)], "Int64"), _all(2**63 - 1, None, -(2**63))),
    _pandas("UInt64 too large", _INT, lambda p, n: p.array([2**63, None], "UInt64"), NO),
    _pandas("uint64 too large", int, lambda p, n: n.array([2**63, 1], "uint64"), NO),
    _pandas("int8", int, lambda p, n: n.array([-128, 1], "int8"), _all(-128, 1)),
    _pandas("objects, all None", _INT, lambda p, n: p.Series([None, None], dtype=object), _all(None, None)),
    _pandas("objects, all None, text", _TEXT, lambda p, n: p.Series([None, None], dtype=object), _all(None, None)),
    _pandas("floats, all NaN, text", _TEXT, lambda p, n: p.Series([NAN, NAN]), _all(None, None)),
    _pandas("floats, all NaN, time", Instant | None, lambda p, n: p.Series([NAN, NAN]), _all(None, None)),
    _pandas("all NaT, instant", Instant | None, lambda p, n: p.Series([p.NaT, p.NaT]), _all(None, None)),
    _pandas("big ints as objects", _INT, lambda p, n: p.Series([2**53 + 1, None], dtype=object), _all(2**53 + 1, None)),
    _pandas("ints beyond 64 bits", _INT, lambda p, n: p.Series([2**64, None], dtype=object), NO),
    _pandas("a missing int where none may be", int, lambda p, n: p.Series([1.0, NAN]), NO),
    _pandas("NaN where none is declared", float, lambda p, n: p.Series([1.0, NAN]), NO),
    _pandas("NaN where it is", float | None, lambda p, n: p.Series([1.5, NAN, -0.0]), _all(1.5, None, -0.0)),
    _pandas("Float64", float | None, lambda p, n: p.array([1.5, None], "Float64"), _all(1.5, None)),
    _pandas("ints for floats beyond 2**53", float, lambda p, n: p.Series([2**53 + 1]), _all(2.0**53)),
    _pandas("ints for floats", float, lambda p, n: p.Series([2**53, -1]), _all(2.0**53, -1.0)),
    _pandas("booleans", bool | None, lambda p, n: p.array([True, None, False], "boolean"), _all(True, None, False)),
    _pandas("bools as objects", bool | None, lambda p, n: p.Series([True, None, False]), _all(True, None, False)),
    _pandas("bools for ints", int, lambda p, n: p.Series([True, False]), _all(1, 0)),
    _pandas("ints for bools", bool, lambda p, n: p.Series([1, 0]), NO),
    _pandas("string", _TEXT, lambda p, n: p.array(["a", None, ""], "string"), _all("a", None, "")),
    _pandas("texts as objects", _TEXT, lambda p, n: p.Series(["a", None, "", NAN], dtype=object), _all("a", None, "",
    None)),
    _pandas("categories", _TEXT, lambda p, n: p.Categorical(["b", None, "a", "b"]), _all("b", None, "a", "b")),
    _pandas("categories of ints", int, lambda p, n: p.Categorical([3, 1, 3]), _all(3, 1, 3)),
    _pandas("categories of ints with holes", _INT, lambda p, n: p.Categorical([3, None, 1]), _all(3, None, 1)),
    _pandas("an enum in categories", Color | None, lambda p, n: p.Categorical(["RED", None]), _all(Color.RED, None)),
    _pandas("an enum, another name", Color, lambda p, n: p.Series(["RED", "red"]), NO),
    _pandas("a text where a number is", str, lambda p, n: p.Series(["a", 5], dtype=object), NO),
    _pandas("datetime64[ns]", datetime, _ts(1_000, -1_000), _all(datetime(1970, 1, 1, 0, 0, 0, 1), datetime(1969, 12,
    31, 23, 59, 59, 999999))),
    _pandas("a nanosecond", datetime, _ts(1_001), NO),
    _pandas("a nanosecond before 1970", datetime, _ts(-1), NO),
    _pandas("NaT", datetime | None, lambda p, n: n.array(["NaT", "2013-01-01"], "datetime64[s]"), _all(None,
    datetime(2013, 1, 1))),
    _pandas("NaT where none may be", datetime, lambda p, n: n.array(["NaT", "2013-01-01"], "datetime64[ns]"), NO),
    _pandas("naive for an instant", Instant, _ts(1_000), NO),
    _pandas("an instant for naive", datetime, lambda p, n: p.Series([U(2013, 1, 1)]), NO),
    _pandas("the hour that comes twice", Instant, lambda p, n: p.to_datetime(["2013-10-27 00:30", "2013-10-27 01:30"],
    utc=True).tz_convert("Europe/Berlin"), _all(U(2013, 10, 27, 0, 30), U(2013, 10, 27, 1, 30))),
    _pandas("instants as objects of two zones", Instant, lambda p, n: p.Series([U(2013, 1, 1),
    datetime.fromisoformat("2013-01-01T00:00+05:30")], dtype=object), _all(U(2013, 1, 1), U(2012, 12, 31, 18, 30))),
    _pandas("datetimes as objects", datetime, lambda p, n: p.Series([datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59,
    59, 999999)], dtype=object), _all(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))),
    _pandas("naive and aware as objects", datetime, lambda p, n: p.Series([datetime(2013, 1, 1), U(2013, 1, 1)],
    dtype=object), NO),
    _pandas("datetime64[s] of year 1", datetime, lambda p, n: n.array(["0001-01-01", "9999-12-31T23:59:59"],
    "datetime64[s]"), _all(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59))),
    _pandas("a year beyond 9999", datetime, lambda p, n: n.array(["10000-01-01"], "datetime64[s]"), NO),
    _pandas("a year before 1", datetime, lambda p, n: n.array(["0000-12-31"], "datetime64[s]"), NO),
    _pandas("timedelta64", timedelta | None, lambda p, n: p.to_timedelta(["-1 us", None, "1 day"]),
    _all(timedelta(microseconds=-1), None, timedelta(1))),
    _pandas("a nanosecond of a span", timedelta, lambda p, n: p.to_timedelta([1], unit="ns"), NO),
    _pandas("dates as objects", date | None, lambda p, n: p.Series([date(2013, 1, 1), None], dtype=object),
    _all(date(2013, 1, 1), None)),
    _pandas("midnights for dates", date, lambda p, n: p.to_datetime(["2013-01-01"]), NO),
    _pandas("decimals as objects", Cents | None, lambda p, n: p.Series([D("1.5"), None, D("-0.00"), D("1.500")],
    dtype=object), _all(D("1.50"), None, D("0.00"), D("1.50"))),
    _pandas("a third place", Cents, lambda p, n: p.Series([D("1.505")], dtype=object), NO),
    _pandas("decimal NaN", Cents | None, lambda p, n: p.Series([D("NaN"), D("1")], dtype=object), _all(None,
    D("1.00"))),
    _pandas("decimal infinity", Cents, lambda p, n: p.Series([D("Infinity")], dtype=object), NO),
    _pandas("too many digits", Cents, lambda p, n: p.Series([D("123456789012345678.90")], dtype=object), NO),
    _pandas("ints for decimals", Cents, lambda p, n: p.Series([7, -7]), _all(D("7.00"), D("-7.00"))),
    _pandas("floats for decimals", Cents, lambda p, n: p.Series([0.1]), NO),
    _pandas("an exponent", Cents, lambda p, n: p.Series([D("1E+2"), D("25E-1")], dtype=object), _all(D("100.00"),
    D("2.50"))),
    _pandas("a whole number beyond 2**53 beside a float", _INT, lambda p, n: p.Series([2**53 + 1, 1.0, None],
    dtype=object), _all(2**53 + 1, 1, None)),
    _pandas("an aware time of another zone beside a naive one", datetime, lambda p, n: p.Series([datetime(2013, 1, 1),
    datetime.fromisoformat("2013-01-01T00:00+05:30")], dtype=object), NO),
    _pandas("a naive time beside instants", Instant, lambda p, n: p.Series([U(2013, 1, 1), datetime(2013, 1, 1)],
    dtype=object), NO),
    _pandas("a time beside dates", date, lambda p, n: p.Series([date(2013, 1, 1), datetime(2013, 1, 1, 5)],
    dtype=object), NO),
    _pandas("a date beside times", datetime, lambda p, n: p.Series([datetime(2013, 1, 1, 5), date(2013, 1, 1)],
    dtype=object), NO),
    _pandas("a float beside decimals", Cents, lambda p, n: p.Series([D("1.5"), 0.1], dtype=object), NO),
    _pandas("an int beside decimals", Cents, lambda p, n: p.Series([D("1.5"), 2], dtype=object), _all(D("1.50"),
    D("2.00"))),
    _pandas("a bool beside ints", int, lambda p, n: p.Series([1, True], dtype=object), _all(1, 1)),
    _pandas("numpy's ints as objects", int, lambda p, n: p.Series([n.int64(5), n.uint8(7)], dtype=object), _all(5, 7)),
    _pandas("timestamps as objects", Instant | None, lambda p, n: p.Series([p.Timestamp("2013-01-01",
    tz="Europe/Berlin"), p.NaT], dtype=object), _all(U(2012, 12, 31, 23), None)),
    _pandas("a timestamp's nanosecond as an object", datetime, lambda p, n: p.Series([p.Timestamp(1)], dtype=object),
    NO),
    _pandas("texts of times as objects", datetime | None, lambda p, n: p.Series(["2013-01-01 05:00", None],
    dtype=object), _all(datetime(2013, 1, 1, 5), None)),
    _pandas("a text beside times", datetime, lambda p, n: p.Series([datetime(2013, 1, 1), "2013-01-01"], dtype=object),
    NO),
    _pandas("texts of decimals as objects", Cents, lambda p, n: p.Series(["1.5", "2"], dtype=object), _all(D("1.50"),
    D("2.00"))),
    Cell("pandas: a name twice", int, lambda: __import__("pandas").DataFrame([[1, 2]], columns=["v", "v"]), NO),
    Cell("pandas: a name that others spell alike", int, lambda: __import__("pandas").DataFrame({"v": [1],
        5: [object()], "5": [{}]}), _all(1)),
    Cell("pandas: other columns hold what they like", int, lambda: __import__("pandas").DataFrame({"v": [1, 2],
        "o": [object(), "a"]}), _all(1, 2)),
    Cell("pandas: no rows, no types", Instant, lambda: __import__("pandas").DataFrame(columns=["v"]), []),
    # Arrow: units, encodings
    _arrow("unsigned beyond 64 bits for decimals", Cents, [2**63], pa.uint64(), NO),
    _arrow("a day's part", date, [1], pa.date64(), NO),
    _arrow("seconds", datetime, [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59)], pa.timestamp("s"),
    _all(datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59))),
    _arrow("milliseconds", Instant | None, [U(2013, 1, 1, 0, 0, 0, 999000), None], pa.timestamp("ms", "Europe/Berlin"),
    _all(U(2013, 1, 1, 0, 0, 0, 999000), None)),
    _arrow("far away", datetime, [2**62], pa.timestamp("s"), NO),
    _arrow("far away in milliseconds", datetime, [2**62], pa.timestamp("ms"), NO),
    _arrow("year 10000", datetime, [253402300800000000], pa.timestamp("us"), NO),
    _arrow("year 0", Instant, [-62135596800000001], pa.timestamp("us", "UTC"), NO),
    _arrow("the first and the last", Instant, [-62135596800000000, 253402300799999999], pa.timestamp("us", "UTC"),
    _all(U(1, 1, 1), U(9999, 12, 31, 23, 59, 59, 999999))),
    _arrow("the least of nanoseconds", datetime, [-(2**63)], pa.timestamp("ns"), NO),
    _arrow("dates in milliseconds", date, [date(1969, 12, 31), date(2013, 1, 1)], pa.date64(), _all(date(1969, 12, 31),
    date(2013, 1, 1))),
    _arrow("a date beyond 9999", date, [2932897], pa.date32(), NO),
    _arrow("the last date and the first", date, [2932896, -719162], pa.date32(), _all(date(9999, 12, 31), date(1, 1,
    1))),
    _arrow("a time for a date", date, [datetime(2013, 1, 1, 5)], pa.timestamp("us"), NO),
    _arrow("a date for a time", datetime, [date(2013, 1, 1)], pa.date32(), NO),
    _arrow("seconds of a span", timedelta, [2**40], pa.duration("s"), _all(timedelta(seconds=2**40))),
    _arrow("a span beyond 64 bits", timedelta, [2**62], pa.duration("s"), NO),
    _arrow("milliseconds of a span", timedelta, [-1], pa.duration("ms"), _all(timedelta(milliseconds=-1))),
    _arrow("a nanosecond of a span", timedelta, [-999], pa.duration("ns"), NO),
    _arrow("more places that are nothing", Cents, [D("1.5000000000"), D("-2.25")], pa.decimal128(38, 10),
    _all(D("1.50"), D("-2.25"))),
    _arrow("more places", Cents, [D("1.5050000000")], pa.decimal128(38, 10), NO),
    _arrow("too large", Cents, [D("92233720368547758.08")], pa.decimal128(38, 2), NO),
    _arrow("the largest", Cents, [D("92233720368547758.07")], pa.decimal128(38, 2), _all(D("92233720368547758.07"))),
    _arrow("256 bits", Cents | None, [D("-0.01"), None], pa.decimal256(76, 2), _all(D("-0.01"), None)),
    _arrow("fewer places", Cents, [D("100")], pa.decimal128(5, -2), _all(D("100.00"))),
    _arrow("ints too large as decimals", Cents, [2**60], pa.int64(), NO),
    _arrow("unsigned", int, [2**63], pa.uint64(), NO),
    _arrow("unsigned that fits", int, [2**63 - 1], pa.uint64(), _all(2**63 - 1)),
    _arrow("half precision", float, [1.5, -0.0], pa.float32(), _all(1.5, -0.0)),
    _arrow("a float for an int", int, [1.0], pa.float64(), NO),
    _arrow("null type", _INT, [None, None], pa.null(), _all(None, None)),
    _arrow("null type, decimals", Cents | None, [None], pa.null(), _all(None)),
    _arrow("null type where none may be", int, [None], pa.null(), NO),
    _arrow("a null", int, [1, None], pa.int64(), NO),
    _arrow("views", _TEXT, ["a", None, "a text that is longer than twelve bytes", ""], pa.string_view(), _all("a",
    None, "a text that is longer than twelve bytes", "")),
    _arrow("large texts", str, ["🙂", "\x00"], pa.large_string(), _all("🙂", "\x00")),
    _arrow("codes", _TEXT, ["b", None, "a", "b"], pa.dictionary(pa.int8(), pa.string()), _all("b", None, "a", "b")),
    _arrow("codes of ints", _INT, [5, None, 5], pa.dictionary(pa.int32(), pa.int64()), _all(5, None, 5)),
    _arrow("times in texts", datetime, ["2013-01-01T05:00", "2013-01-01 05:00:00.000001"], pa.string(),
    _all(datetime(2013, 1, 1, 5), datetime(2013, 1, 1, 5, 0, 0, 1))),
    _arrow("instants in texts", Instant, ["2013-01-01T05:00Z", "2013-01-01 05:00+05:30"], pa.string(), _all(U(2013, 1,
    1, 5), U(2012, 12, 31, 23, 30))),
    _arrow("a time without a zone", Instant, ["2013-01-01T05:00"], pa.string(), NO),
    _arrow("a time with one", datetime, ["2013-01-01T05:00Z"], pa.string(), NO),
    _arrow("decimals in texts", Cents, ["12.5", "-0.01"], pa.string(), _all(D("12.50"), D("-0.01"))),
    _arrow("a third place in a text", Cents, ["12.505"], pa.string(), NO),
    _arrow("no decimal", Cents, ["twelve"], pa.string(), NO),
    _arrow("binary", str, [b"a"], pa.binary(), NO),
    _arrow("time of day", datetime, [1], pa.time64("us"), NO),
    _arrow("NaN", float, [NAN], pa.float64(), NO),
    Cell("arrow: a code that is null itself", _TEXT, lambda: pa.table({"v": pa.DictionaryArray.from_arrays(pa.array([0,
        1, None]), pa.array(["a", None]))}), _all("a", None, None)),
    Cell("arrow: codes that say one thing twice", str,
        lambda: pa.table({"v": pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", "a"]))}), _all("a",
            "a")),
    Cell("arrow: chunks with codes of their own", str, lambda: pa.table({"v": pa.chunked_array([pa.array(["a",
        "b"]).dictionary_encode(), pa.array(["b", "c"]).dictionary_encode()])}), _all("a", "b", "b", "c")),
    Cell("arrow: no rows", Instant, lambda: pa.table({"v": pa.array([], pa.timestamp("us", "UTC"))}), []),
    Cell("arrow: a slice", _INT, lambda: pa.table({"v": pa.array([1, None, 3, None, 5])}).slice(1, 3), _all(None, 3,
        None)),
    Cell("arrow: run ends", int, lambda: pa.table({"v": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()),
        pa.array([7, 8]))}), NO),
    Cell("arrow: a name twice", int, lambda: pa.table([pa.array([1]), pa.array([2])], names=["v", "v"]), NO),
    Cell("arrow: a year 0 among thousands", datetime, lambda: pa.table({"v": ["0000-01-01 00:00:00"] * 1200}), NO),
    Cell("arrow: many", Instant, lambda: pa.table({"v": ["0001-01-01 00:00:00Z"] * 1200}), _all(U(1, 1, 1)) * 1200),
    # polars
    _polars("categories", _TEXT, lambda p: p.Series(["b", None, "a"], dtype=p.Categorical), _all("b", None, "a")),
    _polars("an enum", Color | None, lambda p: p.Series(["RED", None], dtype=p.Enum(["BLUE", "RED"])), _all(Color.RED,
    None)),
    _polars("nothing", _INT, lambda p: p.Series([None, None]), _all(None, None)),
    _polars("milliseconds", datetime, lambda p: p.Series([datetime(2013, 1, 1)], dtype=p.Datetime("ms")),
    _all(datetime(2013, 1, 1))),
    _polars("nanoseconds of a zone", Instant, lambda p: p.Series([U(2013, 1, 1)], dtype=p.Datetime("ns", "UTC")),
    _all(U(2013, 1, 1))),
    _polars("spans in milliseconds", timedelta | None, lambda p: p.Series([timedelta(days=-1, milliseconds=1), None],
    dtype=p.Duration("ms")), _all(timedelta(days=-1, milliseconds=1), None)),
    _polars("decimals", Cents | None, lambda p: p.Series([D("1.50"), None], dtype=p.Decimal(10, 2)), _all(D("1.50"),
    None)),
    _polars("decimals of more places", Cents, lambda p: p.Series([D("1.5050")], dtype=p.Decimal(10, 4)), NO),
    _polars("unsigned", int, lambda p: p.Series([2**63], dtype=p.UInt64), NO),
    _polars("NaN in an optional", float | None, lambda p: p.Series([1.0, NAN, None]), NO),
    _polars("an int of 128 bits", int, lambda p: p.Series([5, -5], dtype=p.Int128), NO),
    _polars("time of day", datetime, lambda p: p.Series([5], dtype=p.Time), NO),
    # lists of dicts
    _dicts("nothing at all", _INT, [], []),
    _dicts("ints", _INT, [1, None, 2**63 - 1, -(2**63)], _all(1, None, 2**63 - 1, -(2**63))),
    _dicts("an int too large", int, [2**63], NO),
    _dicts("a bool for an int", int, [True], _all(1)),
    _dicts("an int for a bool", bool, [1], NO),
    _dicts("an int for a float", float, [3], _all(3.0)),
    _dicts("an int beyond 2**53 for a float", float, [2**53 + 1], _all(2.0**53)),
    _dicts("an int beyond all floats", float, [10**400], NO),
    _dicts("a float for an int", int, [3.0], NO),
    _dicts("NaN", float, [NAN], NO),
    _dicts("NaN for what may be missing", float | None, [NAN], NO),
    _dicts("decimals", Cents, [D("1.5"), D("-0"), 3], _all(D("1.50"), D("0.00"), D("3.00"))),
    _dicts("a decimal of three places", Cents, [D("1.505")], NO),
    _dicts("a decimal of three places, the last nothing", Cents, [D("1.500")], _all(D("1.50"))),
    _dicts("a float for a decimal", Cents, [1.5], NO),
    _dicts("decimal NaN", Cents, [D("NaN")], NO),
    _dicts("decimal sNaN", Cents, [D("sNaN")], NO),
    _dicts("a huge exponent", Cents, [D("1E+999999")], NO),
    _dicts("a tiny exponent", Cents, [D("1E-999999")], NO),
    _dicts("instants", Instant, [datetime.fromisoformat("2013-01-01T00:00+05:30")], _all(U(2012, 12, 31, 18, 30))),
    _dicts("an instant before year 1", Instant, [datetime.fromisoformat("0001-01-01T00:00+05:30")], NO),
    _dicts("an instant after 9999", Instant, [datetime.fromisoformat("9999-12-31T23:00-05:30")], NO),
    _dicts("naive for an instant", Instant, [datetime(2013, 1, 1)], NO),
    _dicts("an instant for naive", datetime, [U(2013, 1, 1)], NO),
    _dicts("a date for a time", datetime, [date(2013, 1, 1)], NO),
    _dicts("a time for a date", date, [datetime(2013, 1, 1)], NO),
    _dicts("spans", timedelta, [timedelta(microseconds=-1), timedelta(days=106751991)],
    _all(timedelta(microseconds=-1), timedelta(days=106751991))),
    _dicts("a span beyond 64 bits", timedelta, [timedelta(days=106751992)], NO),
    _dicts("half of a pair", str, ["\ud800"], _all("\ud800")),
    _dicts("texts", _TEXT, ["", None, "🙂", "None"], _all("", None, "🙂", "None")),
    _dicts("an enum", Color | None, [Color.GREEN, None], _all(Color.GREEN, None)),
    _dicts("names before values", Twisted, ["A", "B", Twisted.B], _all(Twisted.A, Twisted.B, Twisted.B)),
    # NumPy
    *(_numpy(f"{of}", int, [1, 2], _all(1, 2), of) for of in ("int8", "int32", "uint8", "uint64", ">i4")),
    _numpy("uint64 too large", int, [1, 2**63], NO, "uint64"), _numpy("bools for ints", int, [True], _all(1)),
    _numpy("half precision", float, [0.5, -0.0], _all(0.5, -0.0), "float16"),
    _numpy("floats of other bytes", float, [1.5], _all(1.5), ">f8"), _numpy("ints for floats", float, [1], _all(1.0)),
    _numpy("infinity", float, [-np.inf], _all(float("-inf"))), _numpy("NaN", float, [NAN], NO),
    _numpy("a float for an int", int, [1.5], NO), _numpy("whole floats, where none may be", _INT, [3.0], _all(3)),
    _numpy("bools", bool, [True, False], _all(True, False)), _numpy("ints for bools", bool, [1, 0], NO),
    _numpy("texts", str, ["a", "bc", "a"], _all("a", "bc", "a")), _numpy("bytes", str, [b"a"], NO),
    _numpy("names of members", Color, ["RED", "BLUE"], _all(Color.RED, Color.BLUE)),
    _numpy("values of members", Color, [1, 0], _all(Color.RED, Color.GREEN)), _numpy("no member", Color, ["red"], NO),
    _numpy("a time for an int", int, ["2020"], NO, "M8[s]"), _numpy("years", datetime, ["2020"], NO, "M8[Y]"),
    # DuckDB
    _duck("sum(x) from (select 2::bigint as x)", int, NO), _duck("unnest([1::hugeint, null])", _INT, NO),
    _duck("9223372036854775808::hugeint", int, NO), _duck("1.5::decimal(3, 1)", int, NO),
        _duck("unnest([1, null, 3])", _INT, _all(1, None, 3)), _duck("'2013-01-01 05:00'::timestamp", datetime,
        _all(datetime(2013, 1, 1, 5))),
    _duck("'2013-01-01 05:00:00.000000001'::timestamp_ns", datetime, NO),
    _duck("'2013-01-01 05:00+05:30'::timestamptz", Instant, _all(U(2012, 12, 31, 23, 30))),
    _duck("'2013-01-01 05:00'::timestamp_s", datetime, _all(datetime(2013, 1, 1, 5))), _duck("1.5::decimal(10, 3)",
    Cents, _all(D("1.50"))), _duck("1.505::decimal(10, 3)", Cents, NO),
    _duck("'RED'::enum('BLUE', 'RED')", Color, _all(Color.RED)), _duck("null", _INT, _all(None)),
    _duck("interval 1 hour", timedelta, _all(timedelta(hours=1))), _duck("interval '-3 days 0.000001 seconds'",
    timedelta, _all(timedelta(days=-3, microseconds=1))), _duck("interval 1 month", timedelta, NO),
        _duck("to_days(106751992)", timedelta, NO), _duck("to_days(-106751991)", timedelta,
        _all(timedelta(days=-106751991))), _duck("'2013-01-01'::date", date, _all(date(2013, 1, 1))),
    _duck("'infinity'::date", date, NO), _duck("'infinity'::timestamp", datetime, NO), _duck("'2013-01-01'::date",
    datetime, NO), _duck("9223372036854775808::ubigint", int, NO), _duck("1.5::float", float, _all(1.5)),
    _duck("[1,2]", int, NO),
]  # fmt: skip


# ---------------------------------------------------------------- cells of texts

H = timedelta(hours=1)
PIPELINE = """\
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, NamedTuple
from pellucid import Scale, pipeline
from tests.judge.row_values import Color, E

class R(NamedTuple):
    v: {kind}

p = pipeline(lambda x: x.map(lambda e: repr(e.v), to=str), x=R)
same = pipeline(lambda x: x, x=E)
"""
CSV: dict[str, list[tuple[str, Any]]] = {
    "int | None": [("7", 7), ("", None), (" -7 ", -7), ("+7", 7), ("007", 7), ("9223372036854775807", 2**63 - 1),
    ("9223372036854775808", NO), ("1.0", 1), ("1.5", NO), ("9007199254740994.0", NO), ("1_0", NO), ("١", NO), ('""',
    None), ("null", NO), ("1e3", NO), ("0x1",
    NO), ("--1", NO), ("-", NO)],
    "int": [("7", 7), ("", NO)],
    "float | None": [("1.5", 1.5), ("", None), ("-0.0", -0.0), ("1e999", float("inf")), ("-inf", float("-inf")), (".5",
    0.5), ("1.", 1.0), ("5e-324", 5e-324), ("9007199254740993", 9007199254740992.0), ("nan", NO), ("1,5", NO),
        ("1_0.0", NO), ("0x1p3", NO)],
    "str | None": [("a", "a"), ("", None), ('""', ""), ('"a,b"', "a,b"), ('"a""b"', 'a"b'), ('"a\nb"', "a\nb"), (" x ",
    " x "), ("NULL", "NULL"), ("nan", "nan"), ("\\N", "\\N"), ("🙂", "🙂"), ('"\\"', "\\")],
    "str": [("", ""), ('""', "")],
    "bool | None": [("true", True), ("", None), ("0", False), ("FALSE", False), ("yes", NO), ("tRUE", NO), ("2", NO)],
    "datetime | None": [("2013-01-01T05:00:00", datetime(2013, 1, 1, 5)), ("", None), ("2013-01-01 05:00",
    datetime(2013, 1, 1, 5)), ("2013-01-01 05:00:00.000001", datetime(2013, 1, 1, 5, 0, 0, 1)),
    ("2013-01-01 05:00:00.5", datetime(2013, 1, 1, 5, 0, 0, 500000)),
        ("2013-01-01 05:00:00.000001000", datetime(2013, 1, 1, 5, 0, 0, 1)), ("0001-01-01 00:00:00", datetime(1, 1,
        1)), ("9999-12-31 23:59:59.999999", datetime(9999, 12, 31, 23, 59, 59, 999999)),
            ("2013-01-01 05:00:00.0000001", NO), ("2013-01-01 05:00:00Z", NO), ("2013-01-01 05:00:00+01:00", NO),
        ("2013-02-29 00:00:00", NO), ("2013-01-01 24:00:00", NO), ("2013-01-01 23:59:60", NO), ("0000-01-01 00:00:00",
        NO), ("10000-01-01 00:00:00", NO), ("1.1.2013", NO), ("2013-01-01 05:00:00 ", None if False else datetime(2013,
            1, 1, 5)), ("٢٠١٣-01-01 05:00:00", NO), ("2013-1-1 5:00", NO), ("1357016400", NO), ("now", NO),
                ("-2013-01-01 00:00:00", NO)],
    "Annotated[datetime, UTC] | None": [("2013-01-01T05:00:00Z", U(2013, 1, 1, 5)), ("", None),
    ("2013-01-01 05:00:00+05:30", U(2012, 12, 31, 23, 30)), ("2013-01-01T05:00-0530", None if False else U(2013, 1, 1,
    10, 30)), ("2013-01-01T05:00:00.000001-23:59", U(2013, 1, 2, 4, 59, 0, 1)), ("2013-01-01T05:00:00", NO),
        ("0001-01-01T00:00:00+01:00", NO),
        ("9999-12-31T23:30:00-01:00", NO), ("2013-01-01T05:00:00 Europe/Berlin", NO), ("2013-01-01T05:00:00+24:00",
        NO), ("2013-01-01T05:00:00.1234567Z", NO)],
    "date | None": [("2013-01-01", date(2013, 1, 1)), ("", None), ("0001-01-01", date(1, 1, 1)), ("9999-12-31",
    date(9999, 12, 31)), ("2012-02-29", date(2012, 2, 29)), ("2013-02-29", NO), ("2013-1-1", NO),
    ("2013-01-01 00:00:00", NO), ("01/02/2013", NO), ("2013-W01-1", date(2012, 12, 31)), ("0000-01-01", NO),
    ("10000-01-01", NO)],
    "timedelta | None": [("PT1H30M", 1.5 * H), ("", None), ("1:30:00", 1.5 * H), ('"2 days, 1:30:00"', 49.5 * H),
    ('"-1 day, 23:59:59.999999"', timedelta(microseconds=-1)), ("PT0.000001S", timedelta(microseconds=1)), ("-PT1H",
    -H), ("P1D", 24 * H), ("P1DT1H", 25 * H), ("PT0S", 0 * H), ("PT36H", 36 * H), ("PT1.5S", timedelta(seconds=1.5)),
        ("P1W", NO),
        ("0:00:00.5", timedelta(milliseconds=500)), ('"1 day, 0:00:00"', 24 * H), ('"-2 days, 0:00:00"', -48 * H),
        ("PT0.0000001S", NO), ("P1Y", NO), ("P1M", NO), ("1h", NO), ("PT", NO), ("P", NO), ("3600", NO), ("PT1M1H",
        NO), ("P106751992D", NO), ("PT9999999999999999999S", NO)],
    "Annotated[Decimal, Scale(2)] | None": [("12.50", D("12.50")), ("", None), ("12.5", D("12.50")), ("-0.00",
    D("0.00")), ("+1", D("1.00")), (" 1.5 ", D("1.50")), ("0.010", D("0.01")), ("92233720368547758.07",
        D("92233720368547758.07")), ("-92233720368547758.08", D("-92233720368547758.08")), ("92233720368547758.08",
            NO), ("1.505", NO), ("NaN", NO), ("inf", NO), ("1_0", NO), ("1,5", NO), ("١", NO), ("abc", NO), ("$1", NO)],
    "Color | None": [("RED", "<Color.RED: 1>"), ("", None), ("red", NO), ("1", "<Color.RED: 1>"), ("9", NO)],
}  # fmt: skip
JSON: dict[str, list[tuple[str, Any]]] = {
    "int | None": [("7", 7), ("null", None), ("MISSING", None), ("-0", 0), ("9223372036854775807", 2**63 - 1),
    ("9223372036854775808", NO), ("1.0", 1), ("1.5", NO), ("9007199254740994.0", NO), ("1e3", NO), ('"7"', NO),
    ("true", NO), ("[1]", NO)],
    "int": [("7", 7), ("null", NO), ("MISSING", NO)],
    "float | None": [("1.5", 1.5), ("null", None), ("7", 7.0), ("-0.0", -0.0), ("1e999", float("inf")),
    ("9007199254740993", 2.0**53), ('"1.5"', NO), ("true", NO), ("NaN", NO)],
    "str | None": [('"a"', "a"), ("null", None), ('""', ""), ('"null"', "null"), ('"\\ud83d\\ude42"', "🙂"),
    ('"\\ud83d"', NO), ("5", NO), ('"\\u0000"', "\x00")],
    "bool | None": [("true", True), ("null", None), ("1", NO), ('"true"', NO)],
    "datetime | None": [('"2013-01-01T05:00:00"', datetime(2013, 1, 1, 5)), ("null", None), ('"2013-01-01T05:00:00Z"',
    NO), ('""', NO), ("1357016400", NO), ('"2013-01-01T05:00:00.0000001"', NO)],
    "Annotated[datetime, UTC] | None": [('"2013-01-01T05:00:00Z"', U(2013, 1, 1, 5)), ('"2013-01-01T05:00:00+05:30"',
    U(2012, 12, 31, 23, 30)), ("null", None), ('"2013-01-01T05:00:00"', NO)],
    "date | None": [('"2013-01-01"', date(2013, 1, 1)), ("null", None), ('"2013-01-01T00:00:00"', NO)],
    "timedelta | None": [('"PT1H30M"', 1.5 * H), ("null", None), ('"1:30:00"', 1.5 * H), ("3600", NO)],
    "Annotated[Decimal, Scale(2)] | None": [("12.50", D("12.50")), ("null", None), ("12", D("12.00")), ('"12.5"',
    D("12.50")), ("0.1", D("0.10")), ("92233720368547758.07", D("92233720368547758.07")), ("-0.0", D("0.00")),
        ("1.505", NO), ("0.30000000000000004", NO), ("1e2", D("100.00")), ("true", NO), ('""', NO),
        ("92233720368547758.08", NO), ("9007199254740993.01", D("9007199254740993.01"))],
    "Color | None": [('"RED"', "<Color.RED: 1>"), ("null", None), ('"red"', NO), ("1", "<Color.RED: 1>"), ("9", NO)],
}  # fmt: skip


def run(*args: str) -> tuple[int, str]:
    """The command, here: exit code and what it said."""
    result = CliRunner().invoke(cli, ["run", *args], catch_exceptions=True)
    said = result.output + (result.stderr if hasattr(result, "stderr") else "")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return 99, repr(result.exception)
    return result.exit_code, said


def cells(folder: Path, only: str = "") -> Iterator[str]:
    """What is read wrongly, in words."""
    for form, table in (("csv", CSV), ("jsonl", JSON)):
        for m, (kind, cases) in enumerate(table.items() if only in ("", form) else ()):
            (folder / f"p{form}{m}.py").write_text(PIPELINE.format(kind=kind))
            fine = [c for c in cases if c[1] is not NO]
            groups = [fine, *([c] for c in cases if c[1] is NO)]
            for n, group in enumerate(groups):
                yield from _group(folder, form, m, n, kind, group)


def _group(folder: Path, form: str, m: int, n: int, kind: str, group: list[tuple[str, Any]]) -> Iterator[str]:
    source, out = folder / f"in{form}{m}-{n}.{form}", folder / f"out{form}{m}-{n}.jsonl"
    if form == "csv":
        source.write_text("n,v\n" + "".join(f"{k},{cell}\n" for k, (cell, _) in enumerate(group)))
    else:
        source.write_text(
            "".join(
                f'{{"n": {k}}}\n' if c == "MISSING" else f'{{"n": {k}, "v": {c}}}\n' for k, (c, _) in enumerate(group)
            )
        )
    code, said = run(f"{folder}/p{form}{m}.py:p", "--in", str(source), "--out", str(out))
    if group[0][1] is NO:
        if code != 2:
            found = out.read_text().strip() if out.exists() else said
            yield f"{form} {kind}: {group[0][0]!r} should be refused: exit code {code}, {found}"
        return
    if code != 0:
        for k, one in enumerate(group if len(group) > 1 else []):
            yield from _group(folder, form, m, 1000 + k, kind, [one])
        if len(group) == 1:
            yield f"{form} {kind}: {group[0][0]!r} should be {group[0][1]!r}: exit code {code}, {said.strip()[-300:]}"
        return
    found = [json.loads(line)["out"] for line in out.read_text().splitlines()]
    for (cell, wanted), got in zip(group, found, strict=True):
        if got != (wanted if isinstance(wanted, str) and wanted.startswith("<") else repr(wanted)):
            yield f"{form} {kind}: {cell!r} is {got}, should be {wanted!r}"


def there_and_back(folder: Path, seed: int) -> Iterator[str]:
    """Rows of every type through Parquet, CSV, JSON Lines and Arrow: the same at the end."""
    (folder / "all.py").write_text(PIPELINE.format(kind="int"))
    events = rows(random.Random(seed), 60)
    dicts = [as_dict(e, n) for n, e in enumerate(events)]
    pq.write_table(arrow_rows(dicts), folder / "a.parquet", use_dictionary=True, row_group_size=7)
    places = ["a.parquet", "b.csv", "c.jsonl", "d.arrow", "e.tsv", "f.jsonl.gz", "g.csv.gz", "h.parquet"]
    for a, b in pairwise(places):
        code, said = run(f"{folder}/all.py:same", "--in", str(folder / a), "--out", str(folder / b), "--chunk", "11")
        if code:
            yield f"seed {seed}, {a} to {b}: exit code {code}: {said[-400:]}"
            return
    found = pq.read_table(folder / "h.parquet").to_pylist()
    for n, (row, wanted) in enumerate(zip(found, dicts, strict=True)):
        for name in E._fields:
            w = wanted[name]
            if isinstance(w, D):
                w = abs(w) if w == 0 else w
            if row[name] != w or (isinstance(w, float) and repr(row[name]) != repr(w)):
                yield f"seed {seed}, row {n}, {name}: {row[name]!r}, was {w!r}"
    with (folder / "b.csv").open(newline="") as file:
        for n, (cell, wanted) in enumerate(zip(csv.DictReader(file), dicts, strict=True)):
            if D(cell["m"]) != wanted["m"] or cell["s"] != wanted["s"] or cell["d"] != wanted["d"].isoformat():
                yield f"seed {seed}, row {n} of the CSV: {cell}"
    for n, (line, wanted) in enumerate(
        zip((folder / "c.jsonl").read_text().rstrip("\n").split("\n"), dicts, strict=True)
    ):
        value = json.loads(line, parse_float=D)
        if (
            value["m"] != wanted["m"]
            or value["s"] != wanted["s"]
            or value["j"] != wanted["j"]
            or value["t"] != wanted["t"]
        ):
            yield f"seed {seed}, row {n} of the JSON Lines: {line}"


@pytest.mark.parametrize("case", CELLS, ids=lambda case: case.name)
def test_a_cell_is_read_as_it_is_or_refused(case: Cell) -> None:
    found = read(case)
    if case.wanted is NO:
        assert isinstance(found, tuple), found
        assert "\n" not in found[1]
    else:
        assert found == case.wanted


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_text_is_read_as_what_it_spells_or_refused(tmp_path: Path, form: str) -> None:
    assert list(cells(tmp_path, form)) == []


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(1))
def test_rows_go_through_every_kind_of_file(tmp_path: Path, seed: int) -> None:
    assert list(there_and_back(tmp_path, seed)) == []
