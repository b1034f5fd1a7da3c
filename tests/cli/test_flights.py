"""The flights of 2013, whole: keys, order, kept columns and nulls, from CSV and Parquet; pandas is the oracle."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pellucid.internal.cli.main import cli
from pellucid.internal.load import load_pipeline
from tests.examples.flights_oracle import example

PIPELINE = """
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

from pellucid import Stream, pipeline


class Flight(NamedTuple):
    tailnum: str | None
    dep_delay: float | None
    time_hour: Annotated[datetime, UTC]


class Alert(NamedTuple):
    when: Annotated[datetime, UTC]
    run: int


def count(run: int, f: Flight) -> tuple[int, list[Alert]]:
    if f.dep_delay is None:
        return run, []
    if f.dep_delay > 60:
        return run + 1, [Alert(f.time_hour, run + 1)]
    return 0, []


@pipeline
def alerts(flights: Stream[Flight]) -> Stream[Alert]:
    return flights.task(count, 0, id="run").filter(lambda a: a.run == 3)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("flights")
    flights = example("flights_table").frame()
    flights.insert(0, "rowid", range(len(flights)))
    flights = flights[flights.tailnum.notna()]
    flights.to_csv(out / "flights.csv", index=False)
    table = pa.Table.from_pandas(flights, preserve_index=False)
    at = table.schema.get_field_index("time_hour")
    times = pa.compute.strptime(table["time_hour"], "%Y-%m-%dT%H:%M:%SZ", "us").cast(pa.timestamp("us", "UTC"))
    table = table.set_column(at, "time_hour", times)
    (out / "parts").mkdir()
    for month in range(1, 13):
        part = out / "parts" / f"month={month}"
        part.mkdir()
        pq.write_table(table.filter(pa.compute.equal(table["month"], month)).drop_columns("month"), part / "x.parquet")
    (out / "p.py").write_text(PIPELINE)
    return out


@pytest.fixture(scope="module")
def expected() -> pd.DataFrame:
    """In pandas: three delays over an hour in a row per plane, cancelled flights skipped."""
    flights = example("flights_table").frame()
    flights.insert(0, "rowid", range(len(flights)))
    flights = flights[flights.tailnum.notna()].sort_values(["time_hour", "rowid"])
    flown = flights[flights.dep_delay.notna()].copy()
    late = flown.dep_delay > 60
    blocks = (~late).groupby(flown.tailnum).cumsum()
    run = late.astype(int).groupby([flown.tailnum, blocks]).cumsum()
    return flown[late & (run == 3)]


@pytest.mark.parametrize("source", ["flights.csv", "parts"])
def test_three_delays_in_a_row(folder: Path, source: str, expected: pd.DataFrame) -> None:
    out = folder / f"{source}.parquet"
    args = ["--in", str(folder / source), "--out", str(out), "--key", "tailnum", "--order", "time_hour,rowid"]
    done = CliRunner().invoke(cli, ["run", f"{folder}/p.py:alerts", *args, "--keep-columns", "carrier,dest,arr_time"])
    assert done.exit_code == 0, done.stderr
    found = pq.read_table(out)
    assert found.column_names == ["tailnum", "time_hour", "rowid", "carrier", "dest", "arr_time", "when", "run"]
    assert found["rowid"].to_pylist() == expected.rowid.tolist()
    assert found["dest"].to_pylist() == expected.dest.tolist()
    assert [t.strftime("%Y-%m-%dT%H:%M:%SZ") for t in found["when"].to_pylist()] == expected.time_hour.tolist()
    arrived = pd.Series(found["arr_time"].to_pylist()).astype(float).tolist()
    assert pd.Series(arrived).equals(pd.Series(expected.arr_time.tolist()))


def test_the_same_in_memory(folder: Path, expected: pd.DataFrame) -> None:
    p = load_pipeline(f"{folder}/p.py:alerts")
    flights = pd.read_parquet(folder / "parts")
    flights["tail"] = flights.tailnum
    found = p(flights, key="tail", order=["time_hour", "rowid"], keep=["carrier"])
    assert found.rowid.tolist() == expected.rowid.tolist() and found.carrier.tolist() == expected.carrier.tolist()
