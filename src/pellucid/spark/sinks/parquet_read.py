"""Reading a Parquet target by its manifests: what is committed counts, wherever its files are at this moment."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.errors import DataError
from pellucid.spark.sinks import folder
from pellucid.spark.sinks.manifest import ManifestLog
from pellucid.spark.sinks.partitions import spark_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["for_spark", "read", "read_spark", "schema_path"]


def read(path: str | os.PathLike[str]) -> pa.Table:
    """The rows that the manifests list, as an Arrow table, batch by batch."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    target = folder.local_folder(path)
    # Spark's default for a timestamp is INT96; read as nanoseconds it would overflow in the year 2262.
    form = ds.ParquetFileFormat(read_options={"coerce_int96_timestamp_unit": "us"})
    for attempt in range(5):
        try:
            places = _places(target)
            schema = _schema(target)  # after the look at what counts: from the first commit on, the schema stays
            tables = [
                ds.dataset(files, schema=schema, format=form, partitioning="hive", partition_base_dir=base).to_table()
                for base, files in places
            ]
            return pa.concat_tables([schema.empty_table(), *tables])
        except FileNotFoundError:  # it moved from staging to its place while we looked
            if attempt == 4:
                raise
    raise AssertionError("unreachable")


def read_spark(spark: SparkSession, path: str | os.PathLike[str]) -> DataFrame:
    """The rows that the manifests list now, as a DataFrame."""
    from pyspark.sql.pandas.types import from_arrow_schema

    target = folder.local_folder(path)
    places = _places(target)
    schema = from_arrow_schema(_schema(target))
    result = spark.createDataFrame([], schema)
    for place, (base, files) in enumerate(places):
        part = spark.read.schema(schema).option("basePath", for_spark(base)).parquet(*map(for_spark, files))
        part = part.select(*map(spark_name, schema.names))
        result = part if place == 0 else result.unionByName(part)
    return result


def for_spark(path: str | Path) -> str:
    """The path as Spark takes it: with the scheme, and not escaped as in a URI (``k=1`` and a space stay what they are)."""
    return f"file://{path}"


def schema_path(target: Path) -> Path:
    """Where the columns of the target are kept."""
    return target / "_manifest" / "schema.arrow"


def _schema(target: Path) -> pa.Schema:
    import pyarrow as pa

    try:
        return pa.ipc.read_schema(pa.BufferReader(schema_path(target).read_bytes()))
    except FileNotFoundError:
        raise DataError(f"{target}: no manifest is there: nothing was written by pellucid.spark.sinks.parquet") from None


def _places(target: Path) -> list[tuple[str, list[str]]]:
    """The files that count, by the folder below which their partitions are told: the target, and rarely a staging folder."""
    log = ManifestLog(target)
    manifests, newest = log.all(), log.newest()
    visible: list[str] = []
    staged: dict[str, list[str]] = {}
    for manifest in manifests:
        on_its_way = (manifest.query, manifest.batch) in newest and (target / "_staging" / manifest.attempt).exists()
        if on_its_way:
            time.sleep(0.05)  # mostly the writer is just moving them; give it the moment
        for file in manifest.files:
            base = target / "_staging" / manifest.attempt
            if on_its_way and not (target / file.name).exists() and (base / file.staged).exists():
                staged.setdefault(str(base), []).append(str(base / file.staged))
            else:
                visible.append(str(target / file.name))
    return ([(str(target), visible)] if visible else []) + list(staged.items())
