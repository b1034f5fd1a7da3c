"""Lists of dicts and of records: fields by name; rows in, rows out; the oracle is the same data as a table."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from pellucid import DataError, PellucidError, Stream, UsageError, pipeline, silent


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Point(NamedTuple):
    x: int
    y: float


@dataclass(frozen=True)
class Dot:
    at: Point
    color: Color
    name: str


@pipeline
def dots(d: Stream[Dot]) -> Stream[Dot]:
    return d.filter(lambda e: e.at.x > 0)


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0)


@pipeline
def per_pair(d: Stream[Dot]) -> Stream[int]:
    return d.key_by(lambda e: (e.name, e.at.x)).map(lambda e: 1).cumulate(lambda t, v: t + v, start=0)


ROWS = [
    {"at": {"x": 1, "y": 2}, "color": "RED", "name": "a", "note": None},
    {"at": {"x": 0, "y": 0.5}, "color": 2, "name": "b"},
    {"at": {"x": 1, "y": 1.5}, "color": Color.BLUE, "name": "a"},
]
DOTS = [Dot(Point(1, 2.0), Color.RED, "a"), Dot(Point(0, 0.5), Color.BLUE, "b"), Dot(Point(1, 1.5), Color.BLUE, "a")]


def test_dicts_in_dicts_out() -> None:
    assert dots(ROWS) == [
        {"at": {"x": 1, "y": 2.0}, "color": Color.RED, "name": "a"},
        {"at": {"x": 1, "y": 1.5}, "color": Color.BLUE, "name": "a"},
    ]
    assert total([{"x": 1}, {"x": 2}]) == [{"out": 1}, {"out": 3}]
    assert total([{"v": 1}, silent, {"v": 2}]) == [{"out": 1}, {"out": 3}]
    assert total(row for row in [{"x": 1}, {"x": 2}]) == [{"out": 1}, {"out": 3}]
    assert total([]) == []


def test_keys_of_dicts_and_records() -> None:
    rows = [{"user": "a", "x": 1}, {"user": "b", "x": 2}, {"user": "a", "x": 3}]
    assert total(rows, key="user") == [{"user": "a", "out": 1}, {"user": "b", "out": 2}, {"user": "a", "out": 4}]
    assert [tuple(r.values()) for r in total(rows, key="user")] == [
        tuple(r.values()) for r in total(pa.Table.from_pylist(rows), key="user").to_pylist()
    ]
    count = pipeline(lambda d: d.map(lambda e: 1).cumulate(lambda t, v: t + v, start=0), d=Dot)
    assert count(DOTS, key="name") == [1, 1, 2]
    assert count(DOTS, key=["name", "at.x"]) == [1, 1, 2]
    assert count(ROWS, key=["name", "at.x"])[2] == {"name": "a", "at.x": 1, "out": 2}


def test_composite_keys_inside() -> None:
    assert per_pair(DOTS) == [1, 1, 2]
    assert per_pair(ROWS) == [{"out": 1}, {"out": 1}, {"out": 2}]
    assert per_pair.trace(DOTS) == [[1], [1], [2]]
    marked = [{**row, "n": n} for n, row in enumerate(ROWS)]
    assert per_pair(marked, keep="n") == [{"n": 0, "out": 1}, {"n": 1, "out": 1}, {"n": 2, "out": 2}]
    nested = [{k: v for k, v in row.items() if k != "color"} | {"color": "RED"} for row in marked]
    table = pa.Table.from_pylist([{k: v for k, v in row.items() if k != "note"} for row in nested])
    assert per_pair(table, order="n", keep="name").to_pydict() == {
        "n": [0, 1, 2],
        "name": ["a", "b", "a"],
        "out": [1, 1, 2],
    }
    for mode in ("python", "numba"):
        engine = per_pair.engine(mode=mode)
        assert engine.push(DOTS[:2]) == [1, 1]
        other = per_pair.engine(mode=mode)
        other.load(engine.save())
        assert other.push(DOTS[2:]) == [2]


TROUBLE: list[tuple[Any, str]] = [
    (
        lambda: dots([{"at": {"x": 1}, "color": 1, "name": "a"}]),
        "dots: source 'd': position 0: no field 'at.y': expected float; it has x",
    ),
    (
        lambda: dots([{"at": {"x": 1, "y": "2"}, "color": 1, "name": "a"}]),
        "dots: source 'd': position 0: field 'at.y': expected float, found str '2'",
    ),
    (
        lambda: dots([ROWS[0], 3]),
        "dots: source 'd': position 1: expected a dict, as the first is one, found 3",
    ),
    (
        lambda: dots([{**ROWS[0], "color": "GREEN"}]),
        "dots: source 'd': position 0: field 'color': expected a member of Color (RED, BLUE), found 'GREEN'",
    ),
    (
        lambda: total([{"y": 1, "z": 2}]),
        "total: source 'x': no column 'x' for the source 'x' (int): its columns are y, z; rename one",
    ),
    (
        lambda: total([{"x": None}]),
        "total: source 'x': position 0: field 'x': expected int, found None: fill it, or declare it as int | None",
    ),
    (
        lambda: total([{"x": 1, "user": 1}, {"x": 1}], key="user"),
        "total: source 'x': position 1: no key 'user': it has x",
    ),
    (
        lambda: total([{"x": 1, "user": 1}, {"x": 1, "user": None}], key="user"),
        "total: source 'x': position 1: the key 'user' is null: give every row one, or leave such rows out",
    ),
    (
        lambda: total([{"x": 1, "user": 1}, {"x": 1, "user": "b"}], key="user"),
        "total: source 'x': position 1: the key 'user' is 'b': a key is int, str, bool or a time, and "
        "the same in all rows",
    ),
    (
        lambda: dots(DOTS, key="nane"),
        "dots: source 'd': position 0: no key 'nane': it has at, color, name; did you mean 'name'?",
    ),
]


@pytest.mark.parametrize(("call", "said"), TROUBLE)
def test_what_is_refused(call: Any, said: str) -> None:
    with pytest.raises((DataError, UsageError, PellucidError)) as caught:
        call()
    assert str(caught.value) == said


class Seen(NamedTuple):
    when: dt.datetime
    delay: int | None


@pipeline
def delays(s: Stream[Seen]) -> Stream[int]:
    return s.map(lambda e: e.delay if e.delay is not None else -1)


def test_optional_fields_and_times() -> None:
    rows = [
        {"when": dt.datetime(2013, 1, 2), "delay": None, "day": dt.date(2013, 1, 2)},
        {"when": dt.datetime(2013, 1, 1), "delay": 5, "day": dt.date(2013, 1, 1)},
    ]
    assert delays(rows, key="day", order="when") == [
        {"day": dt.date(2013, 1, 1), "when": dt.datetime(2013, 1, 1), "out": 5},
        {"day": dt.date(2013, 1, 2), "when": dt.datetime(2013, 1, 2), "out": -1},
    ]
    table = pa.table({n: [r.get(n) for r in rows] for n in ("when", "delay", "day")})
    assert delays(table, key="day", order="when").to_pylist() == delays(rows, key="day", order="when")
    assert delays(table.to_pandas(), key="day", order="when").out.tolist() == [5, -1]
