"""What the pipelines of examples/flights.py mean, in pandas and DuckDB: from their meaning, not from their code.

Each answer is a frame with the ``rowid`` of the flight that put an event out, and the event; in the order of the
schedule.
"""

from __future__ import annotations

import heapq
import importlib.util
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

EXAMPLES = Path(__file__).parents[2] / "examples"
ORDER = ["time_hour", "minute", "rowid"]
KEYS = {"alerts": None, "mean_delay": "carrier", "once_a_day": None, "airline": None, "earned": "carrier"}


@cache
def example(name: str) -> ModuleType:
    """A file of examples/ as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # demo.py imports flights
    spec.loader.exec_module(module)
    return module


@cache
def scheduled(rows: int | None = None) -> pd.DataFrame:
    """The table of the package, with a rowid, its times as times, in the order of the schedule; or its first rows."""
    found = example("flights_table").frame()
    found.insert(0, "rowid", range(len(found)))
    found["time_hour"] = pd.to_datetime(found.time_hour)
    return found.sort_values(ORDER).head(rows if rows is not None else len(found)).reset_index(drop=True)


@cache
def expected(name: str, rows: int | None = None) -> pd.DataFrame:
    """What a pipeline has to put out."""
    found: pd.DataFrame = globals()[f"_{name}"](scheduled(rows))
    return found.reset_index(drop=True)


def _alerts(flights: pd.DataFrame) -> pd.DataFrame:
    """Every flight that is at least the third in a row of its plane that left over an hour late; one that did not leave
    does not count."""
    flown = flights[flights.dep_delay.notna() & flights.tailnum.notna()]
    late = flown.dep_delay > 60
    runs = (~late).groupby(flown.tailnum).cumsum()  # a new run begins with each flight in time
    nth = late.groupby([flown.tailnum, runs]).cumsum()
    found = flown[late & (nth >= 3)]
    return pd.DataFrame(
        {
            "rowid": found.rowid,
            "tailnum": found.tailnum,
            "time_hour": found.time_hour,
            "delay": found.dep_delay.astype("int64"),
        }
    )


def _ended_by_cancelled(flights: pd.DataFrame) -> pd.DataFrame:
    """The same, if a flight that is cancelled ends a run."""
    late = flights.dep_delay > 60
    runs = (~late).groupby(flights.tailnum).cumsum()
    nth = late.groupby([flights.tailnum, runs]).cumsum()
    return flights[late & (nth >= 3)][["rowid"]]


def _mean_delay(flights: pd.DataFrame) -> pd.DataFrame:
    by = flights[flights.dep_delay.notna()]
    mean = by.groupby("carrier").dep_delay.cumsum() / (by.groupby("carrier").cumcount() + 1)
    return pd.DataFrame({"rowid": by.rowid, "out": mean})


def _once_a_day(flights: pd.DataFrame) -> pd.DataFrame:
    return flights.drop_duplicates(["carrier", "flight", "year", "month", "day"])[["rowid", "flight"]]


def _airline(flights: pd.DataFrame) -> pd.DataFrame:
    named = flights.merge(example("flights_table").frame("airlines"), on="carrier", how="left")
    return pd.DataFrame({"rowid": named.rowid, "out": named.name})


def _earned(flights: pd.DataFrame) -> pd.DataFrame:
    return _sql(
        """select rowid, sum(cast(air_time as bigint) * 1.25::decimal(12, 2)) over
             (partition by carrier order by time_hour, minute, rowid rows unbounded preceding) as "out"
           from flights where air_time is not null order by time_hour, minute, rowid""",
        flights[["rowid", "carrier", "time_hour", "minute", "air_time"]],
    )


def _sql(query: str, flights: pd.DataFrame) -> pd.DataFrame:
    with duckdb.connect() as connection:
        connection.register("flights", flights)
        found = connection.sql(query).to_arrow_table()
    return pd.DataFrame({name: found[name].to_pylist() for name in found.column_names})


def refuse_other(name: str, found: pd.DataFrame, rows: int | None = None, *, sort: bool = False) -> None:
    """Fail unless these rows are what the oracle says: the same flights in the same order, with the same events."""
    wanted = expected(name, rows)
    if sort:
        found = found.sort_values(ORDER)
    assert len(found) == len(wanted)
    for column in wanted.columns:
        values = found[column].astype(wanted[column].dtype)
        assert (values.reset_index(drop=True) == wanted[column]).all(), column


def refuse_lost(found: pd.DataFrame, rows: int | None = None) -> None:
    """Fail unless every column of the table is there, with what the row of each event has in it."""
    table = scheduled(rows).set_index("rowid", drop=False)
    whole = table.loc[found.rowid].reset_index(drop=True)
    found = found.reset_index(drop=True)
    assert set(table.columns) <= set(found.columns)
    for column in table.columns:
        same = (found[column] == whole[column]).fillna(False).astype(bool)
        assert (same | (found[column].isna() & whole[column].isna())).all(), column


# What the pipelines of examples/flights_time.py mean, in DuckDB: from their meaning, not from their code.

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


# What the programs with loops have to say, by other means: union-find, Dijkstra's algorithm, and the sums of PageRank
# written out.  Plain Python, nothing of Pellucid; and random graphs.


def components(links: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The least node that each node can reach (union-find)."""
    of: dict[int, int] = {}

    def root(a: int) -> int:
        while of.setdefault(a, a) != a:
            a = of[a]
        return a

    for a, b in links:
        low, high = sorted((root(a), root(b)))
        of[high] = low
    return {a: root(a) for a in of}


def shortest(roads: Mapping[tuple[str, str], int], start: str) -> dict[str, int]:
    """How far each place is that can be reached by a road (Dijkstra)."""
    done: dict[str, int] = {}
    heap = [(0, start)]
    while heap:
        far, place = heapq.heappop(heap)
        if place in done:
            continue
        done[place] = far
        for (a, b), minutes in roads.items():
            if a == place:
                heapq.heappush(heap, (far + minutes, b))
    return done


def pagerank(web: Mapping[str, Sequence[str]], rounds: int, damping: float = 0.85) -> dict[str, float]:
    """Every page has links; so many rounds, from equal ranks."""
    rank = dict.fromkeys(web, 1 / len(web))
    for _ in range(rounds):
        sums = dict.fromkeys(web, 0.0)
        for page, links in web.items():
            for to in links:
                sums[to] += rank[page] / len(links)
        rank = {page: (1 - damping) / len(web) + damping * sums[page] for page in web}
    return rank


def random_links(rng: random.Random, nodes: int, count: int) -> list[tuple[int, int, int]]:
    """Links (day, a, b), day after day."""
    return [(i * 5 // count, rng.randrange(nodes), rng.randrange(nodes)) for i in range(count)]


def random_readings(rng: random.Random, places: int, count: int) -> list[tuple[int, str, str, int]]:
    """Readings (batch, from, to, minutes), where a road may be read again, faster or slower; none twice in a batch."""
    names = ["home", *(f"p{i}" for i in range(1, places))]
    found: dict[tuple[int, str, str], int] = {}
    for i in range(count):
        a, b = rng.sample(names, 2)
        found[i * 4 // count, a, b] = rng.randint(1, 30)
    return [(batch, a, b, minutes) for (batch, a, b), minutes in found.items()]


def random_web(rng: random.Random, pages: int) -> dict[str, list[str]]:
    """Pages that all link to some others."""
    names = [f"page {i}" for i in range(pages)]
    return {name: rng.sample(names, rng.randint(1, min(5, pages))) for name in names}
