"""``keep=`` in memory: an event carries the columns of the row whose push put it out; pandas is the oracle."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, NamedTuple

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from pellucid import DataError, PellucidError, Stream, UsageError, pipeline


class Flight(NamedTuple):
    carrier: str
    delay: int


@pipeline
def late(f: Stream[Flight]) -> Stream[Flight]:
    return f.filter(lambda e: e.delay > 10)


@pipeline
def total(delay: Stream[int]) -> Stream[int]:
    return delay.filter(lambda v: v > 10).cumulate(lambda t, v: t + v, start=0)


@pipeline
def difference(left: Stream[int], right: Stream[int]) -> Stream[int]:
    return left - right


TABLE = pa.table(
    {
        "carrier": ["UA", "AA", "UA", "B6"],
        "delay": pa.array([30, 5, 11, 12], pa.int16()),
        "tailnum": ["N1", None, None, "N4"],
        "sched": pa.array([dt.datetime(2013, 1, d, 5, tzinfo=dt.UTC) for d in (1, 2, 3, 4)]),
        "price": [Decimal("1.50"), None, Decimal("3.25"), Decimal("0.01")],
        "tags": [["a"], [], None, ["b", None]],
        "where": [{"x": 1, "y": None}, None, {"x": 2, "y": "q"}, {"x": None, "y": "r"}],
        "share": [0.5, float("nan"), None, 2.0],
        "raw": [b"\x00", b"", None, b"z"],
    }
)
LATE = [0, 2, 3]  # the rows whose push puts something out
OTHERS = [n for n in TABLE.column_names if n not in ("carrier", "delay")]


def test_every_column_of_whatever_type() -> None:
    found = late(TABLE, keep=OTHERS)
    assert found.column_names == [*OTHERS, "carrier", "delay"]
    for name in OTHERS:
        assert found.schema.field(name).type == TABLE.schema.field(name).type
        assert repr(found[name].to_pylist()) == repr(TABLE[name].take(LATE).to_pylist())  # repr: NaN is not NaN


def test_all_are_those_that_a_record_has_not_itself() -> None:
    assert late(TABLE, keep=True) == late(TABLE, keep=OTHERS)
    assert total(TABLE, keep=True).column_names == [*TABLE.column_names, "out"]
    assert total(TABLE, keep=True)["delay"].to_pylist() == [30, 11, 12]


def test_after_the_key_and_the_order() -> None:
    found = total(TABLE, key="carrier", order="sched", keep=["tailnum", "carrier", "price"])
    assert found.column_names == ["carrier", "sched", "tailnum", "price", "out"]
    assert found["tailnum"].to_pylist() == ["N1", None, "N4"] and found["out"].to_pylist() == [30, 41, 12]


def test_pandas_keeps_its_own_types_and_labels() -> None:
    frame = TABLE.select(["delay", "tailnum", "sched", "share"]).to_pandas()
    frame["kind"] = pd.Categorical(["x", "y", "x", None])
    frame["thing"] = [1, "a", None, {2}]  # what Arrow cannot hold
    frame.index = pd.Index([7, 5, 3, 1])
    found = total(frame, keep=True)
    expected = frame[frame.delay > 10]
    assert list(found.index) == list(expected.index)
    pd.testing.assert_frame_equal(found.drop(columns="out"), expected)


def test_polars_keeps_its_own_types() -> None:
    frame = pl.DataFrame({"delay": [30, 5, 11], "kind": ["a", "b", None], "n": [1, None, 3]}).with_columns(
        pl.col("kind").cast(pl.Categorical), pl.col("n").cast(pl.UInt8)
    )
    found = total(frame, keep=True)
    assert found.drop("out").equals(frame.filter(pl.col("delay") > 10)) and found.schema["kind"] == pl.Categorical()
    assert found["out"].to_list() == [30, 41]
    assert total(frame.lazy(), keep=["n"]).equals(found.select("n", "out"))


def test_lists_of_dicts() -> None:
    rows = [{"delay": 30, "who": None}, {"delay": 5}, {"delay": 11, "more": [1]}]
    assert total(rows, keep=True) == [
        {"delay": 30, "who": None, "more": None, "out": 30},
        {"delay": 11, "who": None, "more": [1], "out": 41},
    ]
    assert late([{"carrier": "UA", "delay": 30, "x": 1}], keep=["x"]) == [{"x": 1, "carrier": "UA", "delay": 30}]


@pytest.mark.parametrize("kind", ["dataset", "reader", "duckdb", "batch"])
def test_other_tables_of_arrows_kind(kind: str) -> None:
    small = TABLE.select(["delay", "tailnum"])
    data: Any = {
        "dataset": lambda: ds.dataset(small),
        "reader": lambda: small.to_reader(),
        "duckdb": lambda: duckdb.from_arrow(small),
        "batch": lambda: small.to_batches()[0],
    }[kind]()
    found = total(data, keep="tailnum")
    assert isinstance(found, pa.RecordBatch if kind == "batch" else pa.Table)
    assert found.to_pydict() == {"tailnum": ["N1", None, "N4"], "out": [30, 41, 53]}


def test_polars_series_and_frames_of_one_column() -> None:
    assert total(pl.Series("delay", [30, 5, 11])).to_list() == [30, 41]
    assert total(pl.DataFrame({"v": [30, 5, 11]})).equals(pl.DataFrame({"out": [30, 41]}))


def test_several_inputs() -> None:
    left, right = pa.table({"left": [5, 6], "note": ["a", None]}), pa.table({"right": [1, 2], "n": [7, 8]})
    found = difference(left=left, right=right, keep={"left": "note", "right": True})
    assert found.to_pydict() == {"note": ["a", None], "right": [1, 2], "n": [7, 8], "out": [4, 4]}
    wide = pa.table({"left": [5, None], "right": [1, 2], "note": ["a", "b"]})
    assert difference(wide, keep=["note"]).to_pydict() == {"note": ["a"], "out": [4]}
    mixed = difference(left=left.to_pandas(), right=right, keep={"right": ["n"]})
    assert mixed.to_dict("list") == {"n": [7, 8], "out": [4, 4]}


def test_rows_where_the_source_is_silent() -> None:
    wide = pa.table({"left": [5, None, 7], "right": [1, None, 2], "note": ["a", "b", "c"]})
    assert difference(wide, keep=["note"])["note"].to_pylist() == ["a", "c"]


TROUBLE: list[tuple[Any, str]] = [
    (
        lambda: total(TABLE, keep=["tailnumb"]),
        "total: source 'delay': no column 'tailnumb' to keep: its columns are carrier, delay, tailnum, sched, price, "
        "tags, where, share, raw; did you mean 'tailnum'?",
    ),
    (
        lambda: late(TABLE, keep=["delay"]),
        "keep='delay': the output 'out' has a column of this name itself: leave it out of keep=, or rename the column "
        "before",
    ),
    (
        lambda: total(TABLE.rename_columns(["out", *TABLE.column_names[1:]]), keep=True),
        "keep=True: the output 'out' has a column 'out' itself: name those that you want, or rename the column before",
    ),
    (lambda: total(TABLE, keep=["price", "price"]), "keep=: the column 'price' is named twice"),
    (
        lambda: total(TABLE, keep=3),
        "keep=: expected the name of a column, a list of names, or True for all, found 3",
    ),
    (
        lambda: total([30, 5], keep=["x"]),
        "total: keep= names columns, so the source 'delay' must be a table (a DataFrame, an Arrow table, a list of "
        "dicts), found [30, 5]",
    ),
    (
        lambda: difference(left=TABLE, right=TABLE, keep=["price"]),
        "difference has several inputs (left, right): say of which the columns come along, as in keep={'left': "
        "['price']}",
    ),
    (
        lambda: difference(left=TABLE, right=TABLE, keep={"left": "price", "right": "price"}),
        "keep='price': several inputs have a column of this name: keep one of them, or rename one",
    ),
    (
        lambda: difference(left=TABLE, right=TABLE, keep={"lift": "price"}),
        "keep=: difference has no input 'lift': it has left, right; did you mean 'left'?",
    ),
    (
        lambda: total.trace(TABLE, keep=True),
        "total.trace gives events, push by push: keep= goes with a run, as in p(table, keep=…)",
    ),
]


@pytest.mark.parametrize(("call", "said"), TROUBLE)
def test_what_is_refused(call: Any, said: str) -> None:
    with pytest.raises((DataError, UsageError, PellucidError)) as caught:
        call()
    assert str(caught.value) == said
