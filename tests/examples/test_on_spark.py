"""The flights of 2013 on Spark: whole as a batch, from CSV and Parquet, and as a stream of files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from pyspark import cloudpickle

from pellucid import sinks
from pellucid.spark import read_csv
from tests.examples.oracles import KEYS, ORDER, example, refuse_lost, refuse_other

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = list(KEYS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("flights")
    example("flights_table").write(out)
    cloudpickle.register_pickle_by_value(example("flights"))  # workers cannot import it, as `pellucid run` has it
    return out


def read(spark: SparkSession, path: Path, name: str, **stream: bool) -> Any:
    p = getattr(example("flights"), name)
    if path.suffix == ".csv" or "csv" in path.name:
        return read_csv(spark, str(path), p, key=KEYS[name], order=ORDER, **stream)
    if stream:
        return spark.readStream.schema(spark.read.parquet(str(path)).schema).parquet(str(path))
    return spark.read.parquet(str(path))


def whole(name: str, kind: str) -> Any:
    """In every run the alerts from Parquet: the others compute in the same way, and a stream of them reads CSV."""
    chosen = (name, kind) == ("alerts", "parquet")
    return pytest.param(name, kind, marks=[] if chosen else [pytest.mark.long])


@pytest.mark.parametrize(("name", "kind"), [whole(name, kind) for kind in ("parquet", "csv") for name in NAMES])
def test_a_batch(spark: SparkSession, folder: Path, name: str, kind: str) -> None:
    p = getattr(example("flights"), name)
    found = p.spark(read(spark, folder / f"flights.{kind}", name), key=KEYS[name], order=ORDER, keep=True).toPandas()
    found["time_hour"] = pd.to_datetime(found.time_hour, utc=True)
    found = found.sort_values(ORDER)
    refuse_other(name, found)
    if kind == "parquet":  # what nobody declared is text in a CSV file
        refuse_lost(found)


def streams() -> Iterator[Any]:
    for name in NAMES:
        for kind in ("parquet", "csv"):
            yield pytest.param(name, kind, None, marks=pytest.mark.long)
    yield pytest.param("alerts", "csv", 30_000)
    yield pytest.param("mean_delay", "parquet", 30_000, marks=pytest.mark.long)


@pytest.mark.parametrize(("name", "kind", "rows"), list(streams()))
def test_a_stream(spark: SparkSession, tmp_path: Path, folder: Path, name: str, kind: str, rows: int | None) -> None:
    """Three files, one after the other; the query ends after the first and goes on from what it remembers."""
    p, table = getattr(example("flights"), name), example("flights_table").table().slice(0, rows)
    third = len(table) // 3 + 1
    (tmp_path / "ready").mkdir()
    came = tmp_path / f"in-{kind}"
    came.mkdir()
    sink = sinks.parquet(tmp_path / "out")
    for part, names in enumerate(("a", "bc")):
        for at, file in enumerate(names, start=part):
            piece = table.slice(at * third, third)
            ready = tmp_path / "ready" / f"{file}.{kind}"
            (csv.write_csv if kind == "csv" else pq.write_table)(piece, ready)
            ready.rename(came / ready.name)  # whole at once
        stream = read(spark, came, name, stream=True)
        out = p.spark(stream, key=KEYS[name], order=ORDER, keep=True, state=str(tmp_path / "state"), buckets=2)
        query = out.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
    found = sinks.read(tmp_path / "out").to_pandas()
    found["time_hour"] = pd.to_datetime(found.time_hour, utc=True)
    found = found.sort_values(ORDER)
    refuse_other(name, found, rows)
    if kind == "parquet":
        refuse_lost(found, rows)
