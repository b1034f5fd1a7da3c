"""Data in memory: each kind in, the same kind out; every bad event refused with its place."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid import DataError, PellucidError, Scale, Stream, UsageError, merge, pipeline, silent
from pellucid.errors import IntOverflow, StepError
from tests.words import DIVISION


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Trade(NamedTuple):
    price: float
    name: str


@dataclass(frozen=True)
class Deal:
    trade: Trade
    color: Color
    paid: bool


@pipeline
def odds(x: Stream[int]) -> Stream[int]:
    return x.filter(lambda v: v % 2 == 1).cumulate(lambda t, v: t + v, start=0)


@pipeline
def halves(x: Stream[float]) -> Stream[float]:
    return x.map(lambda v: v / 2)


@pipeline
def dear(x: Stream[Trade]) -> Stream[Trade]:
    return x.filter(lambda t: t.price > 1)


@pipeline
def deals(x: Stream[Deal]) -> Stream[Deal]:
    return x.trim(1)


@pipeline
def colors(c: Stream[Color]) -> Stream[Color]:
    return c.trim(1)


@pipeline
def words(w: Stream[str]) -> Stream[str]:
    return w.trim(1)


@pipeline
def both(a: Stream[int], b: Stream[int]) -> Stream[int]:
    return merge(a, b)


@pipeline
def pair(a: Stream[int], b: Stream[int]) -> tuple[Stream[int], Stream[int]]:
    return a + b, a


@pipeline
def named(a: Stream[int], b: Stream[int]):  # type: ignore[no-untyped-def]
    return {"sums": a + b, "firsts": a}


@pytest.mark.parametrize("data", [[1, 2, 3, 4, 5], (1, 2, 3, 4, 5), range(1, 6), iter([1, 2, 3, 4, 5]), {1, 3, 5}])
def test_iterables_give_lists(data: Any) -> None:
    assert odds(data) == [1, 4, 9]


def test_a_generator_is_read_once() -> None:
    assert odds(v for v in (1, 2, 3)) == [1, 4]
    assert odds([]) == []
    assert odds([True, np.int8(3)]) == [1, 4]


def test_silent_pushes() -> None:
    assert odds([1, silent, 3]) == [1, 4]
    assert odds.trace([1, silent, 3, 4]) == [[1], [], [4], []]
    assert odds([silent, silent]) == []
    assert both([1, silent, 3], [silent, 5, silent]) == [1, 5, 3]
    assert both.trace([1, silent, 3], [silent, 5, silent]) == [[1], [5], [3]]
    assert dear([silent, Trade(2.0, "a")]) == [Trade(2.0, "a")]


def test_numpy_others() -> None:
    assert halves(np.array([1, 2], dtype=np.float32)).tolist() == [0.5, 1.0]
    assert halves(np.array([1, 2])).tolist() == [0.5, 1.0]
    assert words(np.array(["a", "bc", "a"])).tolist() == ["bc", "a"]
    assert words(np.array(["a", "bc"], dtype=object)).tolist() == ["bc"]
    assert colors(np.array([1, 2])).tolist() == [Color.BLUE]
    assert colors(np.array(["RED", "BLUE"])).tolist() == [Color.BLUE]
    assert colors(np.array([Color.RED, Color.BLUE])).tolist() == [Color.BLUE]


def test_numpy_structured() -> None:
    data = np.array([(1.0, "a"), (2.0, "bb")], dtype=[("price", "f4"), ("name", "U3")])
    out = dear(data)
    assert out.dtype.names == ("price", "name") and out.tolist() == [(2.0, "bb")]
    assert dear(data[:0]).tolist() == []
    kind = [("trade", [("price", "f8"), ("name", "U3")]), ("color", "i8"), ("paid", "?")]
    nested = np.array([((1, "a"), 1, True), ((2, "b"), 2, False)], dtype=kind)
    out = deals(nested)
    assert out["trade"]["name"].tolist() == ["b"]
    assert out["color"].tolist() == [Color.BLUE] and out["paid"].tolist() == [False]


def test_pandas_keeps_the_index() -> None:
    out = odds(pd.Series([1, 2, 3], index=list("abc")))
    pd.testing.assert_series_equal(out, pd.Series([1, 4], index=["a", "c"], name="out"), check_index_type=False)
    frame = odds(pd.DataFrame({"x": [1, 2, 3], "y": [0, 0, 0]}))
    pd.testing.assert_frame_equal(frame, pd.DataFrame({"out": [1, 4]}, index=[0, 2]))
    trades = pd.DataFrame({"name": ["a", "b"], "price": [1, 2]})
    pd.testing.assert_frame_equal(dear(trades), pd.DataFrame({"price": [2.0], "name": ["b"]}, index=[1]))


def test_arrow() -> None:
    assert odds(pa.array([1, 2, 3])).equals(pa.array([1, 4]))
    assert odds(pa.chunked_array([[1, 2], [3]])).equals(pa.chunked_array([[1, 4]]))
    assert odds(pa.table({"any": [1, 2, 3]})).equals(pa.table({"out": [1, 4]}))
    assert odds(pa.record_batch({"x": [1, 2, 3], "y": [1, 1, 1]})).equals(pa.record_batch({"out": [1, 4]}))
    assert words(pa.array(["a", "b"]).dictionary_encode()).to_pylist() == ["b"]
    assert words(pa.array(["a", "b"], pa.large_string())).to_pylist() == ["b"]
    assert dear(pa.array([{"price": 2.0, "name": "b"}])).to_pylist() == [{"price": 2.0, "name": "b"}]
    nested = pa.table({"trade": [{"price": 1.0, "name": "a"}] * 2, "color": ["RED"] * 2, "paid": [True] * 2})
    assert deals(nested).to_pydict() == {"trade": [{"price": 1.0, "name": "a"}], "color": ["RED"], "paid": [True]}


class Inner(NamedTuple):
    a: int
    b: float


class Nested(NamedTuple):
    i: Inner
    pair: tuple[int, str]


class Whole(NamedTuple):
    k: str
    n: Nested


def test_records_in_records_are_structs_and_come_back() -> None:
    p = pipeline(lambda x: x.map(lambda v: v), x=Whole)
    rows = [
        {"k": "a", "n": {"i": {"a": 1, "b": 2.5}, "pair": {"_0": 3, "_1": "z"}}},
        {"k": "b", "n": {"i": {"a": 4, "b": 0.0}, "pair": {"_0": 6, "_1": ""}}},
    ]
    table = pa.Table.from_pylist(rows)
    assert p(table).equals(table) and p(table.to_batches()[0]).equals(table.to_batches()[0])
    assert p(pa.array(rows)).equals(pa.array(rows)) and p(pa.chunked_array([rows])).to_pylist() == rows
    frame = table.to_pandas()
    pd.testing.assert_frame_equal(p(frame), frame)
    assert p(p(frame)).to_dict("records") == rows
    flat = pa.table(
        {"k": ["a"], "n.i.a": [1], "n.i.b": [2.5], "n.pair.0": [3], "n.pair.1": ["z"]}
    )  # what older versions wrote
    assert p(flat).to_pylist() == rows[:1]


def test_tuples_are_columns_behind_the_outputs_name() -> None:
    p = pipeline(lambda x: x.map(lambda v: (v, (v > 1, v * 0.5))), x=int)
    out = p(pa.table({"x": [1, 2]}))
    assert out.to_pydict() == {"out_0": [1, 2], "out_1": [{"_0": False, "_1": 0.5}, {"_0": True, "_1": 1.0}]}
    back = pipeline(lambda out: out.map(lambda t: t[1][1]), out=tuple[int, tuple[bool, float]])
    assert back(out).to_pydict() == {"out": [0.5, 1.0]}


def test_a_record_of_one_field_stays_a_record() -> None:
    class One(NamedTuple):
        a: int

    p = pipeline(lambda x: x.map(lambda v: v), x=One)
    assert p(pa.array([{"a": 1}])).to_pylist() == [{"a": 1}]


def test_several_sources() -> None:
    assert both([1, 2], [9, 8]) == both(b=[9, 8], a=[1, 2]) == both([1, 2], b=[9, 8]) == [1, 9, 2, 8]
    assert both(np.array([1, 2]), [9, 8]).tolist() == [1, 9, 2, 8]
    assert both([1, 2], np.array([9, 8])) == [1, 9, 2, 8]
    assert both([1, 2], []) == both([], [1, 2]) == [1, 2]  # a source that is always silent
    assert both(pa.table({"a": [1, None], "b": [3, 4]})).to_pydict() == {"out": [1, 3, 4]}
    frame = pd.DataFrame({"a": [1, None], "b": [3, 4]}).astype("Int64")
    assert both(frame)["out"].tolist() == [1, 3, 4] and both(frame).index.tolist() == [0, 0, 1]


def test_several_outputs() -> None:
    assert pair([1, 2], [3, 4]) == ([4, 6], [1, 2])
    assert named([1, 2], [3, 4]) == {"sums": [4, 6], "firsts": [1, 2]}
    assert named.trace([1, 2], [3], short="silent") == [{"sums": [4], "firsts": [1]}, {"sums": [], "firsts": [2]}]


UNEVEN = [
    ([1, 2, 3], [9]),
    (np.array([1, 2, 3]), [9]),
    ([1, 2, 3], np.array([9])),
    (pd.Series([1, 2, 3]), pd.Series([9])),
    (pd.DataFrame({"a": [1, 2, 3]}), pd.DataFrame({"b": [9]})),
    (pa.table({"a": [1, 2, 3]}), pa.table({"b": [9]})),
    (iter([1, 2, 3]), (v for v in [9])),
]


@pytest.mark.parametrize(("a", "b"), UNEVEN)
def test_inputs_of_different_length(a: Any, b: Any) -> None:
    said = (
        "both: the source 'b' has 1 events, but 'a' has 3: the i-th push takes the i-th of each; put `silent` where "
        "there is none, or say "
        "short='silent' if 'b' is to be silent from then on"
    )
    if isinstance(a, list):
        with pytest.raises(DataError) as caught:
            both.trace(a, b)
        assert str(caught.value) == said
    if not hasattr(a, "__next__"):
        found = both(a, b, short="silent")
        assert (
            found
            if isinstance(found, list)
            else pa.table({"out": found["out"]} if hasattr(found, "columns") else {"out": found})["out"].to_pylist()
        ) == [1, 9, 2, 3]
    with pytest.raises(DataError) as caught:
        both(a, b)
    assert str(caught.value) == said


def test_an_empty_table_beside_one_with_rows() -> None:
    with pytest.raises(DataError, match="the source 'b' has 0 events, but 'a' has 2"):
        both(pa.table({"a": [1, 2]}), pa.table({"b": pa.array([], pa.int64())}))
    with pytest.raises(UsageError, match="short='loud': expected fail or silent"):
        both([1], [2], short="loud")


def test_a_key_that_is_a_column() -> None:
    rows = {"u": ["a", "b", "a", "a"], "k": [1, 1, 2, 1], "x": [1, 3, 5, 7]}
    one = {"u": ["a", "b", "a", "a"], "out": [1, 3, 6, 13]}
    two = {"u": ["a", "b", "a", "a"], "k": [1, 1, 2, 1], "out": [1, 3, 5, 8]}
    table = pa.table(rows)
    assert odds(table, key="u").to_pydict() == odds(table, key=["u"]).to_pydict() == one
    assert odds(table, key=["u", "k"]).to_pydict() == odds(table.to_batches()[0], key=("u", "k")).to_pydict() == two
    frame = odds(pd.DataFrame(rows, index=[5, 6, 7, 8]), key=["u", "k"])
    assert frame.to_dict("list") == two and frame.index.tolist() == [5, 6, 7, 8]
    assert odds.trace(table, key="u") == [[1], [3], [6], [13]]
    wide = pa.table({"u": [1, 2, 1], "a": [1, 2, 3], "b": [10, None, 30]})
    assert both.trace(wide, key="u") == [[1, 10], [2], [3, 30]]
    sums = pair(pa.table({"u": [1, 2, 1], "a": [1, 2, 3]}), pa.table({"u": [2, 1, 1], "b": [10, 20, 30]}), key="u")
    assert [out.to_pydict() for out in sums] == [
        {"u": [2, 1, 1], "out1": [12, 21, 33]},
        {"u": [1, 2, 1], "out2": [1, 2, 3]},
    ]


KEY_TROUBLE: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: odds([1, 2], key="u"),
        "odds: key= names columns, so the source 'x' must be a table (a DataFrame, an "
        "Arrow table, a list of dicts or of records), found [1, 2]; for a list of keys use "
        "p.engine(key=str).push(events, key=keys)",
    ),
    (lambda: odds(pa.table({"x": [1]}), key="u"), "odds: source 'x': no key column 'u': its only column is x"),
    (lambda: odds(pa.table({"x": [1], "u": ["a"]}), key=["u", "u"]), "key=: the column 'u' is named twice"),
    (lambda: odds(pa.table({"x": [1], "u": ["a"]}), key=[]), "key=: names no column: leave it out, or name one"),
    (
        lambda: odds(pa.table({"x": [1], "u": ["a"]}), key=3),
        "key=: wants the name of a column, or a list of such names, found 3",
    ),
    (
        lambda: odds(pa.table({"x": [1, 2], "u": ["a", None]}), key="u"),
        "odds: source 'x': position 1: the key column 'u' is null: give every row a key, or leave such rows out",
    ),
    (
        lambda: odds(pd.DataFrame({"x": [1, 2], "u": ["a", None]}), key="u"),
        "odds: source 'x': position 1: the key column 'u' is null: give every row a key, or leave such rows out",
    ),
    (
        lambda: odds(pd.DataFrame({"x": [1, 2], "u": [1.0, None]}), key="u"),
        "odds: source 'x': the key column 'u' holds double: a key is int, str, bool or a time; cast it first",
    ),
    (
        lambda: both(pa.table({"a": [1], "u": [1]}), pa.table({"b": [1], "u": ["a"]}), key="u"),
        "both: the key column 'u' holds int in one input and str in another: they must be of one type",
    ),
]


@pytest.mark.parametrize(("call", "said"), KEY_TROUBLE)
def test_keys_that_are_refused(call: Callable[[], Any], said: str) -> None:
    with pytest.raises((DataError, UsageError)) as caught:
        call()
    assert str(caught.value) == said


def test_a_source_called_key_comes_first() -> None:
    p = pipeline(lambda key: key.map(lambda v: v + 1), key=int)
    assert p(key=[1, 2]) == p([1, 2]) == [2, 3]


def test_a_long_list_and_a_long_array_agree() -> None:
    values = list(range(50_000))
    assert odds(values) == odds(np.array(values)).tolist() == odds(pa.array(values)).to_pylist()


NAN = (
    "NaN is no event, as it equals nothing, not even itself: say nan='keep' if it is a value here; if nothing is "
    "there, declare it as float | None and give None (from pandas NaN is None then)"
)
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: odds([1, 1.5]), "odds: source 'x': position 1: expected int, found float 1.5"),
    (
        lambda: odds([1, None]),
        "odds: source 'x': position 1: expected int, found NoneType None: put `silent` where there is no event, "
        "or declare the type as T | None",
    ),
    (lambda: odds([1, "a"]), "odds: source 'x': position 1: expected int, found str 'a'"),
    (lambda: odds([2**63]), "odds: source 'x': position 0: 9223372036854775808 does not fit in 64 bits"),
    (
        lambda: odds("abc"),
        "odds: expected a list or another iterable of events, a NumPy array, a pandas, polars or Arrow "
        "object, found str 'abc'",
    ),
    (
        lambda: odds(3),
        "odds: expected a list or another iterable of events, a NumPy array, a pandas, polars or "
        "Arrow object, found int 3",
    ),
    (
        lambda: odds({"x": [1]}),
        "odds: expected a list or another iterable of events, a NumPy array, a pandas, polars or "
        "Arrow object, found dict {'x': [1]}",
    ),
    (lambda: halves([1, float("nan")]), f"halves: source 'x': position 1: {NAN}"),
    (lambda: halves([1.0, float("nan")]), f"halves: source 'x': position 1: {NAN}"),
    (lambda: halves(np.array([1, np.nan])), f"halves: source 'x': position 1: column 'x' is NaN: {NAN}"),
    (lambda: halves(pd.Series([1, np.nan])), f"halves: source 'x': position 1: column 'x' is NaN: {NAN}"),
    (
        lambda: halves(pa.array([1.0, None])),
        "halves: source 'x': position 1: column 'x' is null: expected float; fill it, remove the row, or declare it as "
        "float | None",
    ),
    (
        lambda: dear([Trade(float("nan"), "a")]),
        f"dear: source 'x': position 0: field 'price': {NAN}",
    ),
    (lambda: dear([Trade(1.0, "a"), (1, 2)]), "dear: source 'x': position 1: expected Trade, found tuple (1, 2)"),
    (
        lambda: dear([Trade(1.0, 5)]),  # type: ignore[arg-type]
        "dear: source 'x': position 0: field 'name': expected str, found int 5",
    ),
    (lambda: odds(np.zeros((2, 2))), "odds: source 'x': expected an array of one dimension, found 2: flatten it first"),
    (
        lambda: odds(np.array(["2020"], "M8[s]")),
        "odds: source 'x': column 'x' holds timestamp[s]: expected int; cast it to int64 first, so that its unit is "
        "your choice",
    ),
    (
        lambda: odds(np.array([1, 2**63], np.uint64)),
        "odds: source 'x': position 1: column 'x': 9223372036854775808 does not fit in 64 bits (int is signed): make "
        "the source float or str",
    ),
    (lambda: words(np.array([b"a"])), "words: source 'w': cannot read an array of bytes: decode it first"),
    (
        lambda: dear(np.array([1.0])),
        "dear: source 'x': expected Trade(price: float, name: str): give a structured array, found one of float64",
    ),
    (
        lambda: dear(np.array([(1.0,)], [("price", "f8")])),
        "dear: source 'x': no field 'name' in the array: it has price",
    ),
    (
        lambda: colors([Color.RED, "RED"]),
        "colors: source 'c': position 1: expected a member of Color (RED, BLUE), found 'RED'",
    ),
    (
        lambda: colors(np.array(["RED", "GREEN"])),
        "colors: source 'c': position 1: column 'c': expected a member of Color (RED, BLUE), found 'GREEN'; correct "
        "the value or remove the row",
    ),
    (lambda: odds(pd.Series([1, "a"])), "odds: source 'x': position 1: expected int, found str 'a'"),
    (
        lambda: odds(pd.DataFrame({"y": [1], "z": [2]})),
        "odds: source 'x': no column 'x' for the source 'x' (int): its "
        "columns are y, z; rename one, or give that column alone",
    ),
    (
        lambda: odds(pa.array([1.5])),
        "odds: source 'x': column 'x' holds double: expected int; cast it to int64 first, or make the source float; "
        "if they are whole numbers with holes, int | None",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[m[:40] for _, m in REFUSED])
def test_bad_events(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        call()
    assert str(caught.value) == message


USAGE: list[tuple[Callable[[], Any], str]] = [
    (lambda: both([1]), "both has 2 source(s) (a, b): no events for b; give [] for a source that stays silent"),
    (lambda: both([1], c=[2]), "both has no source 'c': its sources are a, b"),
    (lambda: both([1], a=[2]), "both: the source 'a' is given twice, by position and by name"),
    (lambda: odds([1], [2]), "odds has 1 source(s) (x), found 2 inputs"),
]


@pytest.mark.parametrize(("call", "message"), USAGE)
def test_bad_calls(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert str(caught.value) == message
    assert isinstance(caught.value, PellucidError)


invert = pipeline(lambda x: x.map(lambda v: 10 // v, id="invert"), x=int)
square = pipeline(lambda x: x.map(lambda v: v * v, id="square"), x=int)


@pytest.mark.parametrize("how", ["trace", "run"])
def test_a_failing_step_counts_silent_pushes(how: str) -> None:
    def call(p: Any, data: list[Any]) -> Any:
        return p.trace(data) if how == "trace" else p(data)

    with pytest.raises(StepError) as caught:
        call(invert, [1, silent, silent, 0])
    assert (caught.value.position, caught.value.step) == (3, "invert")
    first = str(caught.value).split("\n")[0]
    assert first.endswith(f" failed at push 3 on the event 0: {DIVISION}"), first
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(IntOverflow) as large:
        call(square, [silent] * 1_000 + [2, 2**40])
    assert (large.value.position, large.value.step) == (1_001, "square")
    wanted = " failed at push 1,001 on the event 1099511627776: an integer left the signed 64-bit range"
    assert wanted in str(large.value)
    with pytest.raises(StepError, match=" failed at push 1 on the event 0: "):
        call(invert, [1, 0])


def test_a_bad_event_counts_silent_pushes() -> None:
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: odds([1, silent, silent, "a"]), "odds: source 'x': position 3: expected int, found str 'a'"),
        (
            lambda: odds.trace([silent, 2**63]),
            "odds: source 'x': position 1: 9223372036854775808 does not fit in 64 bits",
        ),
        (
            lambda: halves([silent, 1.0, silent, float("nan")]),
            f"halves: source 'x': position 3: {NAN}",
        ),
        (
            lambda: both([1], [silent, silent, None]),
            "both: source 'b': position 2: expected int, found NoneType None: put `silent` where there is no event, "
            "or declare the type as T | None",
        ),
    ]
    for call, message in cases:
        with pytest.raises(DataError) as caught:
            call()
        assert str(caught.value) == message


# Columns of pandas frames: objects one by one, dicts as records, columns without a value.


class Spot(NamedTuple):
    x: int
    y: int | None
    due: Annotated[Decimal, Scale(2)] | None


class Row(NamedTuple):
    at: Annotated[datetime, UTC] | None
    spot: Spot


same = pipeline(lambda x: x.map(lambda e: repr(e), to=str), x=Row)


def test_dicts_are_records_and_their_whole_numbers_may_be_floats():
    spots = [{"x": 1, "y": 2.0, "due": Decimal("1.5")}, {"x": 3, "y": np.nan, "due": None}, {"x": 2**53 + 1, "y": 4}]
    frame = pd.DataFrame({"at": pd.Series([None] * 3, dtype="float64"), "spot": spots})
    wanted = [
        Row(None, Spot(1, 2, Decimal("1.50"))),
        Row(None, Spot(3, None, None)),
        Row(None, Spot(2**53 + 1, 4, None)),
    ]
    assert same(frame)["out"].tolist() == list(map(repr, wanted))


def test_a_frame_without_rows_has_records_too():
    assert same(pd.DataFrame(columns=["at", "spot"])).empty
    keyed = pipeline(lambda x: x.cumulate(lambda n, e: n + 1, start=0), x=Row)
    assert keyed(pd.DataFrame(columns=["at", "spot", "who", "n"]), key="who", order="n").empty


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            [{"x": 1, "y": 1.5, "due": None}],
            "position 0: column 'spot.y': expected a whole number or null, but 1.5 is none",
        ),
        ([{"x": 1, "y": 1, "due": None}, {"y": 1}], "column 'spot.x' is null"),
        ([{"x": 1, "y": 1, "due": Decimal("1.505")}], "column 'spot.due': 1.505 has more than 2 places"),
        ([{"y": 1, "due": None}], "no column 'spot.x'"),
        ([5], "no column 'spot.x'"),
    ],
)
def test_a_record_that_is_none_is_told_with_its_place(values, said):
    frame = pd.DataFrame(
        {"at": [datetime(2013, 1, 1, tzinfo=UTC)] * len(values), "spot": pd.Series(values, dtype=object)}
    )
    with pytest.raises(DataError, match=said):
        same(frame)


def test_a_text_keeps_its_end():
    ends = pipeline(lambda x: x.map(lambda s: s + "\0"), x=str)
    assert ends(pd.DataFrame({"x": ["a"]}))["out"].tolist() == ["a\0"]
    assert ends(np.array(["a"])).tolist() == ["a\0"]


# Whole numbers with holes in between, which pandas and others keep as floats: the same ints from every place.

delays = pipeline(lambda x: x.map(lambda v: -1 if v is None else v * 10), x=int | None)
HOLES = pd.DataFrame({"x": [3, None, -4, 2**53]})  # float64: there is no other way in NumPy
EXPECTED = [30, -1, -40, 10 * 2**53]


def test_in_memory() -> None:
    table = pa.Table.from_pandas(HOLES)
    assert pa.types.is_floating(table.schema.field("x").type)
    assert list(delays(HOLES)["out"]) == delays(table)["out"].to_pylist() == EXPECTED
    assert delays(table["x"].cast(pa.float32()).slice(0, 3)).to_pylist() == EXPECTED[:3]
    assert delays(np.array([3.0, -4.0])).tolist() == [30, -40]
    both = pipeline(lambda a, b: a.map(lambda v: v or 0) + b, a=int | None, b=int)
    assert both(pd.DataFrame({"a": [1.0, 2.0], "b": [5, 6]}))["out"].tolist() == [6, 8]


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl", "arrow"])
def test_in_files(tmp_path: Path, form: str) -> None:
    frame = pd.concat([HOLES] * 50, ignore_index=True)
    written = {
        "parquet": frame.to_parquet,
        "arrow": frame.to_feather,
        "csv": lambda path: frame.to_csv(path, index=False),
        "jsonl": lambda path: frame.to_json(path, orient="records", lines=True, double_precision=15),
    }
    written[form](tmp_path / f"in.{form}")
    if form == "csv":
        assert "\n3.0\n" in (tmp_path / "in.csv").read_text()
    delays.run_epochs(tmp_path / f"in.{form}", tmp_path / "out.parquet", state=tmp_path / "state", pushes=90, chunk=33)
    assert pq.read_table(tmp_path / "out.parquet")["out"].to_pylist() == EXPECTED * 50


FLOATS: list[tuple[Any, str]] = [
    (0.5, "but 0.5 is none"),
    (math.inf, "but inf is none"),
    (math.nan, "but nan is none"),
    (2.0**53 + 2, "but 9007199254740994.0 is beyond 2**53, from where on floats skip whole numbers"),
]


@pytest.mark.parametrize(("value", "why"), FLOATS, ids=str)
def test_what_is_no_whole_number_is_refused(value: float, why: str) -> None:
    with pytest.raises(DataError) as caught:
        delays(pa.table({"x": pa.array([1.0, None, value])}))
    assert str(caught.value) == (
        f"pipeline: source 'x': position 2: column 'x': expected a whole number or null, {why}; correct the value, or "
        "declare it as float | None"
    )
