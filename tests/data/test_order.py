"""``order=`` in memory: rows sorted by columns, as on Spark; the oracle sorts with pandas and loops in plain Python."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, NamedTuple

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid import DataError, PellucidError, Stream, UsageError, pipeline
from pellucid.errors import StepError


class Flight(NamedTuple):
    carrier: str
    delay: int


class Plane(NamedTuple):
    tailnum: str | None
    delay: int | None


@pipeline
def total(delay: Stream[int]) -> Stream[int]:
    return delay.cumulate(lambda t, v: t + v, start=0)


@pipeline
def late(f: Stream[Flight]) -> Stream[Flight]:
    return f.filter(lambda e: e.delay > 1)


@pipeline
def difference(left: Stream[int], right: Stream[int]) -> Stream[int]:
    return left - right


ROWS = [("UA", 2, 30), ("AA", 1, 5), ("UA", 1, 7), ("AA", 3, 1), ("UA", 3, 2)]
FRAME = pd.DataFrame(ROWS, columns=["carrier", "seq", "delay"])


def sums(rows: Any, key: Any, order: Any) -> list[tuple[Any, Any, int]]:
    """In plain Python: sort, keep a sum for each key."""
    seen: dict[Any, int] = {}
    out = []
    for row in sorted(rows, key=order):  # stable: equal orders of several keys stay as they came
        seen[key(row)] = seen.get(key(row), 0) + row[2]
        out.append((key(row), row[1], seen[key(row)]))
    return out


def test_a_frame_is_sorted_and_has_key_and_order() -> None:
    found = total(FRAME, key="carrier", order="seq")
    assert list(found.columns) == ["carrier", "seq", "out"]
    assert list(found.itertuples(index=False, name=None)) == sums(ROWS, lambda r: r[0], lambda r: r[1])
    assert list(found.index) == [1, 2, 0, 3, 4]  # the labels of the rows


KINDS = {
    "pandas": (FRAME, lambda t: [tuple(r) for r in t.itertuples(index=False)]),
    "arrow": (pa.Table.from_pandas(FRAME), lambda t: [tuple(r.values()) for r in t.to_pylist()]),
    "batch": (pa.RecordBatch.from_pandas(FRAME), lambda t: [tuple(r.values()) for r in t.to_pylist()]),
    "polars": (pl.DataFrame(ROWS, schema=["carrier", "seq", "delay"], orient="row"), lambda t: t.rows()),
    "dicts": (FRAME.to_dict("records"), lambda t: [tuple(r.values()) for r in t]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table(kind: str) -> None:
    data, rows = KINDS[kind]
    found = total(data, key="carrier", order=["seq"])
    assert type(found) is type(data)
    assert rows(found) == sums(ROWS, lambda r: r[0], lambda r: r[1])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-3, 3), st.integers(-9, 9)), max_size=12))
def test_random_tables(rows: list[tuple[str, int, int]]) -> None:
    table = (
        pa.table({n: [r[i] for r in rows] for i, n in enumerate(("k", "o", "delay"))})
        if rows
        else pa.table(
            {"k": pa.array([], pa.string()), "o": pa.array([], pa.int64()), "delay": pa.array([], pa.int64())}
        )
    )
    if len({r[:2] for r in rows}) < len(rows):
        with pytest.raises(DataError, match="is there twice"):
            total(table, key="k", order="o")
        if len({r[:2] for r in rows}) < len(set(rows)):
            with pytest.raises(DataError, match=r"is there twice .*, but with other values \(delay="):
                total(table, key="k", order="o", late="drop")
        rows = list(dict.fromkeys(rows))
        table = pa.table({n: [r[i] for r in rows] * 2 for i, n in enumerate(("k", "o", "delay"))})
        if len({r[:2] for r in rows}) < len(rows):
            return
        found = total(table, key="k", order="o", late="drop")
    else:
        found = total(table, key="k", order="o")
    assert [tuple(r.values()) for r in found.to_pylist()] == sums(rows, lambda r: r[0], lambda r: r[1])


@pytest.mark.parametrize(
    "values",
    [
        [dt.date(2013, 1, d) for d in (3, 1, 2)],
        [dt.datetime(2013, 1, 1, h) for h in (9, 1, 5)],
        [dt.datetime(2013, 1, 1, h, tzinfo=dt.UTC) for h in (9, 1, 5)],
        [Decimal("3.00"), Decimal("-1.50"), Decimal("2.25")],
        ["zürich", "Åre", "zebra"],
        [dt.timedelta(seconds=s) for s in (3, 1, 2)],
    ],
)
def test_what_can_put_rows_in_order(values: list[Any]) -> None:
    table = pa.table({"when": values, "delay": [1, 10, 100]})
    in_order = [v for _, v in sorted(zip(values, (1, 10, 100), strict=True))]
    assert total(table, order="when")["out"].to_pylist() == [sum(in_order[: i + 1]) for i in range(3)]
    assert total([{"when": w, "delay": d} for w, d in zip(values, (1, 10, 100), strict=True)], order="when")[-1] == {
        "when": max(values), "out": 111,
    }  # fmt: skip


def test_later_columns_break_ties() -> None:
    table = pa.table({"day": [2, 1, 1], "row": [1, 2, 1], "delay": [1, 10, 100]})
    assert total(table, order=["day", "row"]).to_pydict() == {
        "day": [1, 1, 2],
        "row": [1, 2, 1],
        "out": [100, 110, 111],
    }


def test_a_record_that_has_the_order_has_it_once() -> None:
    rows = [Flight("b", 3), Flight("a", 2)]
    assert late(rows, order="delay") == rows[::-1]
    assert late(rows, key="carrier", order=["delay"]) == rows[::-1]
    assert late(FRAME, order="seq", key="carrier").columns.tolist() == ["seq", "carrier", "delay"]


def test_several_inputs_meet_where_key_and_order_are_equal() -> None:
    left = pa.table({"user": ["a", "a"], "seq": [1, 3], "left": [10, 30]})
    right = pa.table({"user": ["a", "a"], "seq": [3, 2], "right": [2, 1]})
    found = difference(left=left, right=right, key="user", order="seq")
    assert found.to_pydict() == {"user": ["a", "a"], "seq": [2, 3], "out": [9, 28]}  # as docs/how-to-spark.md has it
    frames = difference(left=left.to_pandas(), right=right.to_pandas(), key="user", order="seq")
    assert frames.to_dict("list") == found.to_pydict()
    assert difference(left=left, right=right, key="user", order="seq", keep={"left": ["left"]})["left"].to_pylist() == [
        None, 30,
    ]  # fmt: skip


def test_a_wide_table_in_order() -> None:
    wide = pa.table({"seq": [2, 1, 3], "left": [None, 10, 30], "right": [1, None, 2]})
    assert difference(wide, order="seq").to_pydict() == {"seq": [2, 3], "out": [9, 28]}
    rows = [{"seq": 2, "left": None, "right": 1}, {"seq": 1, "left": 10}, {"seq": 3, "left": 30, "right": 2}]
    assert difference(rows, order="seq") == [{"seq": 2, "out": 9}, {"seq": 3, "out": 28}]


def test_an_error_names_the_row_as_it_came() -> None:
    p = pipeline(lambda x: x.map(lambda v: 10 // v), x=int)
    with pytest.raises(StepError) as caught:
        p(pa.table({"seq": [3, 2, 1], "x": [1, 0, 5]}), order="seq")
    assert caught.value.position == 1


def test_trace_in_order() -> None:
    assert total.trace(FRAME, order="seq", key="carrier") == [[5], [7], [37], [6], [39]]


TROUBLE: list[tuple[Any, str]] = [
    (
        lambda: total(FRAME, order="seq"),
        "total: source 'delay': position 2: order seq=1 is there twice (also position 1): which is first is unknown; "
        "name more columns in order=, or if it is the same row twice say late='drop'",
    ),
    (
        lambda: total(FRAME, order="sec"),
        "total: source 'delay': no order column 'sec': its columns are carrier, seq, delay; did you mean 'seq'?",
    ),
    (
        lambda: total(pa.table({"delay": [1, 2], "t": [1, None]}), order="t"),
        "total: source 'delay': position 1: the order column 't' is null: give every row its place, or leave such rows "
        "out",
    ),
    (
        lambda: total(pa.table({"delay": [1, 2], "t": [1.5, 2.5]}), order="t"),
        "total: source 'delay': the order column 't' holds double: expected a whole number, a date, a time, a decimal "
        "or a text; count in smaller units, so that no two rows become equal",
    ),
    (
        lambda: total(FRAME, order="seq", late="keep"),
        "late='keep': an output of the late rows is for Spark: here a table is sorted first, so that only a row that "
        "is there twice is late; say fail or drop",
    ),
    (lambda: total(FRAME, late="drop"), "late='drop' needs order=, the columns that say which row comes first"),
    (lambda: total(FRAME, order=["seq", "seq"]), "order=: the column 'seq' is named twice"),
    (
        lambda: total([1, 2], order="seq"),
        "total: order= names columns, so the source 'delay' must be a table (a DataFrame, an Arrow table, a list of "
        "dicts or of records), found [1, 2]; for a list of keys use p.engine(key=str).push(events, key=keys)",
    ),
    (
        lambda: total(FRAME.rename(columns={"seq": "out"}), order="out", key="carrier"),
        "the order column 'out' has the name of an output: one of them would be lost; rename the column, or name the "
        "output otherwise (a pipeline that returns a dict names its outputs)",
    ),
    (
        lambda: late([Flight("a", 1)], order="day"),
        "late: source 'f': position 0: no order 'day': it has carrier, delay; did you mean 'delay'?",
    ),
    (
        lambda: total([{"delay": 1, "t": 1}, {"delay": 2, "t": "b"}], order="t"),
        "total: source 'delay': the order 't' mixes types: Could not convert 'b' with type str: tried to convert to "
        "int64",
    ),
    (
        lambda: difference(
            left=pa.table({"seq": [1], "left": [1]}), right=pa.table({"seq": ["1"], "right": [1]}), order="seq"
        ),
        "difference: source 'right': the column 'seq' holds large_string, but int64 in difference: source 'left': cast "
        "one of them",
    ),
]


@pytest.mark.parametrize(("call", "said"), TROUBLE)
def test_what_is_refused(call: Any, said: str) -> None:
    with pytest.raises((DataError, UsageError, PellucidError)) as caught:
        call()
    assert str(caught.value) == said


def test_columns_of_objects_with_holes() -> None:
    """What read_csv makes of texts with empty cells: objects, and a NaN where there is nothing."""
    found_late = pipeline(lambda f: f.filter(lambda e: e.tailnum is None or (e.delay or 0) > 60), f=Plane)
    frame = pd.DataFrame({
        "day": [3, 1, 2], "tailnum": ["N1", float("nan"), "N2"], "delay": [70, None, 5], "note": [None, "x", 1.5]
    })  # fmt: skip
    frame["tailnum"] = frame.tailnum.astype(object)
    found = found_late(frame, order="day")
    assert found.day.tolist() == [1, 3] and found.tailnum.isna().tolist() == [True, False]
    mixed = frame.assign(tailnum=["N1", 7, "N2"])
    with pytest.raises(DataError, match=r"source 'f': column 'tailnum' mixes types: Expected bytes, got a 'int'"):
        found_late(mixed, order="day")
