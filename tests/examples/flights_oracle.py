"""What the pipelines of examples/flights.py mean, in pandas and DuckDB: from their meaning, not from their code.

Each answer is a frame with the ``rowid`` of the flight that put an event out, and the event; in the order of the
schedule.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import duckdb
import pandas as pd

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
