"""What the pipelines of examples/flights_time.py mean, in DuckDB: from their meaning, not from their code."""

from __future__ import annotations

from functools import lru_cache

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tests.examples.flights_oracle import example

TABLES, EXAMPLE = example("flights_table"), example("flights_time")

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


@lru_cache(maxsize=1)
def year() -> tuple[pa.Table, pa.Table]:
    """All flights, as they left, and the weather."""
    return TABLES.as_they_left(), TABLES.weather()


def part(days: int) -> tuple[pa.Table, pa.Table]:
    """The first days."""
    flights, weather = year()
    until = flights["left"][0].as_py() + days * 24 * EXAMPLE.HOUR
    return flights.filter(pc.field("left") < until), weather.filter(pc.field("time_hour") < until)
