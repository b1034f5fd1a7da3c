"""Lists of dicts and of records: fields by name; rows in, rows out; the oracle is the same data as a table."""

from __future__ import annotations

import datetime as dt
import enum
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from click.testing import CliRunner

from pellucid import DataError, PellucidError, Stream, UsageError, pipeline, silent
from pellucid.internal.cli.main import cli


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


class Geo(NamedTuple):
    lat: float | None
    lon: float | None


class Address(NamedTuple):
    city: str
    geo: Geo | None


class Stop(NamedTuple):
    at: Address | None
    tags: list[str | None] | None


class Trip(NamedTuple):
    id: int
    start: Address | None
    stops: list[Stop | None]
    legs: list[list[int] | None] | None
    color: Color | None


class Owner(NamedTuple):
    name: str


class Car(NamedTuple):
    id: int
    owner: Owner
    seen: list[Owner]


def _trips(trip: Stream[Trip]) -> Stream[Trip]:
    return trip.filter(lambda t: t.id > 0)


OSLO = {"city": "Oslo", "geo": None}
TRIPS: list[dict[str, Any]] = [
    {"id": 1, "start": None, "stops": [], "legs": None, "color": None},
    {"id": 2, "start": OSLO, "stops": [None, {"at": None, "tags": None}], "legs": [None], "color": "RED"},
    {"id": 3, "start": {"city": None, "geo": None}, "stops": [{"at": OSLO, "tags": [None, "a"]}], "legs": [[1, 2]]},
    {"id": 4, "start": {"city": "Rome", "geo": {"lat": 1.5, "lon": None}}, "stops": [], "legs": [[], None, [3]]},
]
NO_STOP = {"at": None, "tags": None}


def _trip(row: dict[str, Any]) -> Trip:
    def address(found: Any) -> Any:
        return found and Address(found["city"], found["geo"] and Geo(**found["geo"]))

    stops = [stop and Stop(address(stop["at"]), stop["tags"]) for stop in row["stops"]]
    color = row.get("color")
    return Trip(row["id"], address(row["start"]), stops, row["legs"], None if color is None else Color[color])


def _plainly(value: Any) -> Any:
    """Any way of saying an event, as what a missing record is: None in each of its fields."""
    if isinstance(value, enum.Enum):
        return value.name
    if hasattr(value, "_asdict"):
        return _plainly(value._asdict())
    if isinstance(value, dict):
        return {name: _plainly(inner) for name, inner in value.items()}
    return [*map(_plainly, value)] if isinstance(value, (list, tuple)) else value


NO_ADDRESS = {"city": None, "geo": {"lat": None, "lon": None}}


def _expected(row: dict[str, Any]) -> dict[str, Any]:
    def address(found: Any) -> Any:
        return NO_ADDRESS if found is None else {**found, "geo": found["geo"] or NO_ADDRESS["geo"]}

    stops = [{**(stop or NO_STOP), "at": address((stop or NO_STOP)["at"])} for stop in row["stops"]]
    return {**row, "color": row.get("color"), "start": address(row["start"]), "stops": stops}


ORDERS = [[0, 1, 2, 3], [3, 2, 1, 0], [0], [1], [2, 0], [0, 0]]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("way", ["records", "dicts", "arrow", "untyped", "pandas", "frame", "polars"])
def test_a_declared_null_comes_in_at_any_depth(way: str, order: list[int]) -> None:
    import pandas as pd
    import polars as pl

    from pellucid.internal.data.arrow import output_schema

    trips = pipeline(_trips)
    rows = [TRIPS[i] for i in order]
    table = pa.Table.from_pylist(rows, schema=output_schema(trips.graph.nodes[0].type, "trip", {}))
    given = {
        "records": lambda: [_trip(row) for row in rows],
        "dicts": lambda: rows,
        "arrow": lambda: table,
        "untyped": lambda: pa.Table.from_pylist([{"color": None, **row} for row in rows]),
        "pandas": table.to_pandas,
        "frame": lambda: pd.DataFrame([{"color": None, **row} for row in rows]),
        "polars": lambda: pl.from_arrow(table),
    }[way]()
    found: Any = trips(given)
    found = found.to_pylist() if isinstance(found, pa.Table) else found
    if isinstance(found, pd.DataFrame):
        ids = found["id"].tolist()
        assert ids == [row["id"] for row in rows]
        assert [s["city"] for s in found["start"]] == [_expected(row)["start"]["city"] for row in rows]
        return
    found = found.to_dicts() if isinstance(found, pl.DataFrame) else found
    assert _plainly(found) == [_expected(row) for row in rows]


PROGRAM = """
import enum
from typing import NamedTuple
from pellucid import Stream, pipeline
class Color(enum.Enum):
    RED = 1
    BLUE = 2
class Geo(NamedTuple):
    lat: float | None
    lon: float | None
class Address(NamedTuple):
    city: str
    geo: Geo | None
class Stop(NamedTuple):
    at: Address | None
    tags: list[str | None] | None
class Trip(NamedTuple):
    id: int
    start: Address | None
    stops: list[Stop | None]
    legs: list[list[int] | None] | None
    color: Color | None
@pipeline
def trips(trip: Stream[Trip]) -> Stream[Trip]:
    return trip.filter(lambda t: t.id > 0)
"""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("form", ["jsonl", "parquet", "arrow"])
def test_a_declared_null_comes_in_from_files(form: str, order: list[int], tmp_path: Path) -> None:
    rows = [{"color": None, **TRIPS[i]} for i in order]
    source, out = tmp_path / f"in.{form}", tmp_path / "out.jsonl"
    if form == "jsonl":
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif form == "parquet":
        parquet.write_table(pa.Table.from_pylist(rows), source)
    else:
        table = pa.Table.from_pylist(rows)
        with pa.ipc.new_file(source, table.schema) as file:
            file.write_table(table)
    (tmp_path / "p.py").write_text(PROGRAM)
    said = ["run", f"{tmp_path / 'p.py'}:trips", "--in", str(source), "--out", str(out)]
    done = CliRunner().invoke(cli, said)
    assert done.exit_code == 0, done.output
    assert [json.loads(line) for line in out.read_text().splitlines()] == [_expected(row) for row in rows]


def test_rows_of_a_first_file_may_all_be_null(tmp_path: Path) -> None:
    """Also the other way round, and where a record comes after the rows that are looked at first."""
    for name, rows in {"1": [TRIPS[0]] * 3, "2": TRIPS, "3": [TRIPS[0]] * 1200 + [TRIPS[1]]}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"color": None, **row}) + "\n" for row in rows))
    (tmp_path / "p.py").write_text(PROGRAM)
    for files in (["1", "2"], ["2", "1"], ["3"]):
        said = ["run", f"{tmp_path / 'p.py'}:trips"]
        for name in files:
            said += ["--in", str(tmp_path / f"{name}.jsonl")]
        done = CliRunner().invoke(cli, [*said, "--out", str(tmp_path / "out.jsonl")])
        assert done.exit_code == 0, done.output
        assert '"city":"Oslo"' in (tmp_path / "out.jsonl").read_text().replace(" ", "")


def test_a_null_that_is_not_declared_is_refused_at_any_depth() -> None:
    cars = pipeline(lambda car: car.filter(lambda c: c.id > 0), car=Car)
    for row, said in (
        ({"id": 1, "owner": None, "seen": []}, "field 'owner': expected Owner"),
        ({"id": 1, "owner": {"name": None}, "seen": []}, "field 'owner.name': expected str, found None"),
        ({"id": 1, "owner": {"name": "a"}, "seen": [None]}, "field 'seen.0.': expected Owner"),
    ):
        with pytest.raises(DataError, match=said):
            cars([row])
        with pytest.raises(DataError):
            cars(pa.Table.from_pylist([row]))
