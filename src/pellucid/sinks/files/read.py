"""Reading a Parquet target by its manifests: what is committed counts, wherever its files are at this moment."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.errors import DataError, StateError
from pellucid.sinks.files import folder
from pellucid.sinks.files.check import Placed, check_contents, check_on_spark, checked_places
from pellucid.sinks.files.manifest import ManifestLog
from pellucid.sinks.files.partitions import spark_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_MUCH = 256 << 20  # bytes; below, a job of Spark takes longer than the driver alone


def read(path: str | os.PathLike[str], *, verify: bool = True, upto: tuple[str, int | None] | None = None) -> pa.Table:
    """The rows that the manifests list, as an Arrow table, batch by batch.

    Every file is compared with its manifest first; ``verify=False`` leaves out the checksums, which need each file read
    whole.  ``upto`` leaves out the batches of a query after one (after None: all of them).
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    target = folder.local_folder(path)
    # Spark's default for a timestamp is INT96; read as nanoseconds it would overflow in the year 2262.
    form = ds.ParquetFileFormat(read_options={"coerce_int96_timestamp_unit": "us"})
    for attempt in range(5):
        try:
            found = checked_places(target)
            if upto is not None:
                query, last = upto
                found = [one for one in found if one.query != query or (last is not None and one.number <= last)]
            schema = schema_there(target)  # after the look at what counts: from the first commit on, the schema stays
            if verify:
                check_contents(target, found)
            tables = [
                ds.dataset(files, schema=schema, format=form, partitioning="hive", partition_base_dir=base).to_table()
                for base, files in _by_base(found)
            ]
            return pa.concat_tables([schema.empty_table(), *tables])
        except FileNotFoundError:  # it moved from staging to its place while we looked
            if attempt == 4:
                raise
    raise AssertionError("unreachable")


def read_spark(spark: SparkSession, path: str | os.PathLike[str], *, verify: bool = True) -> DataFrame:
    """The rows that the manifests list now, as a DataFrame.

    Every file is compared with its manifest first, by the executors if it is much; ``verify=False`` leaves out the
    checksums.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    target = folder.local_folder(path)
    found = checked_places(target)
    schema = from_arrow_schema(schema_there(target))
    if verify and sum(placed.file.bytes for placed in found) > _MUCH:
        check_on_spark(spark, target, found)
    elif verify:
        check_contents(target, found)
    result = spark.createDataFrame([], schema)
    parts = [
        (base, files, spoilt)
        for spoilt in (False, True)
        for base, files in _by_base([placed for placed in found if _written_by_bytes(placed) == spoilt])
    ]
    for place, (base, files, spoilt) in enumerate(parts):
        part = (
            spark.read.schema(schema)
            .option("basePath", for_spark(base))
            .parquet(*(for_spark(_literal(file)) for file in files))
        )
        columns = [F.col(spark_name(name)) for name in schema.names]
        if spoilt:
            inside = {segment.partition("=")[0] for segment in Path(files[0]).relative_to(base).parts[:-1]}
            columns = [
                F.decode(F.encode(column, "ISO-8859-1"), "UTF-8").alias(field.name)
                if field.name in inside and field.dataType.typeName() == "string"
                else column
                for field, column in zip(schema, columns, strict=True)
            ]
        part = part.select(*columns)
        result = part if place == 0 else result.unionByName(part)
    return result


def _written_by_bytes(placed: Placed) -> bool:
    """Whether a folder's name has bytes beyond ASCII escaped one by one, as Arrow did for earlier versions: Spark takes
    each for a character."""
    return re.search("%[89A-F][0-9A-F]", str(placed.path.relative_to(placed.base).parent)) is not None


def for_spark(path: str | Path) -> str:
    """The path as Spark takes it: with the scheme, and not escaped as in a URI (``k=1`` and a space stay what they
    are)."""
    return f"file://{path}"


def _literal(path: str) -> str:
    """A path that Spark does not take for a pattern.

    >>> print(_literal("out/a*[b]/k=1"))
    out/a\\*\\[b\\]/k=1
    """
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def schema_path(target: Path) -> Path:
    """Where the columns of the target are kept."""
    return target / "_manifest" / "schema.arrow"


def schema_there(target: Path) -> pa.Schema:
    """The columns of the target."""
    import pyarrow as pa

    path = schema_path(target)
    try:
        return pa.ipc.read_schema(pa.BufferReader(path.read_bytes()))
    except FileNotFoundError:
        if ManifestLog(target).is_empty():
            raise DataError(f"{target}: no manifest is there: nothing was written by pellucid.sinks.parquet") from None
        raise StateError(
            f"{path}: the file with the columns of this folder is missing; restore it from a copy"
        ) from None
    except (pa.ArrowInvalid, OSError) as error:
        raise StateError(
            f"{path}: the file with the columns of this folder is damaged ({error}); restore it from a copy"
        ) from None


def _by_base(found: list[Placed]) -> list[tuple[str, list[str]]]:
    """The files by the folder below which their partitions are told: the target, and rarely a staging folder."""
    made: dict[str, list[str]] = {}
    for placed in found:
        made.setdefault(str(placed.base), []).append(str(placed.path))
    return list(made.items())
