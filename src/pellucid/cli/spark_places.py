"""Where a run on Spark reads and writes: what ``--in`` and ``--out`` mean.

=================================  ==========================================================================
``--in`` / ``--out``               what it is
=================================  ==========================================================================
``events.parquet``, ``.csv``, …    a file or a folder of files (batch: by the ending; a folder: by what is in it)
``table:NAME``                     a table that the session knows (in)
``kafka://HOST:PORT/TOPIC``        a Kafka topic (out; in through Spark's own connector)
``postgresql://…#TABLE``           a table in PostgreSQL (out)
``sqlite:FILE#TABLE``              a table in a SQLite file (out)
``delta:FOLDER``                   a Delta table (out)
=================================  ==========================================================================
"""

from __future__ import annotations

import os
from typing import Any

from pellucid.errors import DataError, UsageError

__all__ = ["reader", "sink_of", "target"]

_FORMATS = {".parquet": "parquet", ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".json": "jsonl", ".ndjson": "jsonl"}
_SINKS = ("postgresql://", "postgres://", "sqlite:", "delta:", "kafka://")


def format_of(path: str, given: str | None) -> str:
    """The format of a file or of the files in a folder.

    >>> format_of("events.csv.gz", None), format_of("s3://bucket/x.parquet", None), format_of("events", "jsonl")
    ('csv', 'parquet', 'jsonl')
    """
    if given is not None:
        if given == "arrow":
            raise UsageError(f"{path}: Spark does not read or write Arrow files: use parquet")
        return given
    bare = path[:-3] if path.endswith(".gz") else path
    ending = os.path.splitext(bare.rstrip("/"))[1].lower()
    if ending in _FORMATS:
        return _FORMATS[ending]
    if os.path.isdir(path):
        for name in sorted(os.listdir(path)):
            if not name.startswith((".", "_")):
                return format_of(name, None) if os.path.splitext(name)[1] else "parquet"
    raise UsageError(f"{path}: which format is it? Give --in-format or --out-format csv, tsv, jsonl or parquet")


def reader(spark: Any, path: str, given: str | None, stream: bool) -> Any:
    """The DataFrame at this place."""
    if path.startswith("table:"):
        return (spark.readStream if stream else spark.read).table(path[6:])
    if path.startswith("kafka://"):
        host, _, topic = path[8:].partition("/")
        if not topic:
            raise UsageError(f"--in {path}: expected kafka://HOST:PORT/TOPIC")
        read = spark.readStream if stream else spark.read
        return read.format("kafka").option("kafka.bootstrap.servers", host).option("subscribe", topic).option("startingOffsets", "earliest").load()
    if "://" not in path and not os.path.exists(path):
        raise DataError(f"{path}: no such file or folder")
    kind = format_of(path, given)
    static = _configured(spark.read, kind).load(path)
    if not stream:
        return static
    if "://" not in path and not os.path.isdir(path):
        raise UsageError(f"--in {path}: a stream reads a folder, to which files are added: give the folder")
    if not static.columns:
        raise DataError(f"{path}: holds no {kind} file yet, so its columns are not known: put one there first")
    return _configured(spark.readStream.schema(static.schema), kind, infer=False).option("maxFilesPerTrigger", 1000).load(path)


def _configured(read: Any, kind: str, *, infer: bool = True) -> Any:
    if kind in ("csv", "tsv"):
        read = read.format("csv").option("header", True).option("mode", "FAILFAST")
        read = read.option("inferSchema", True) if infer else read
        return read.option("sep", "\t") if kind == "tsv" else read
    return read.format("json" if kind == "jsonl" else kind)


def target(path: str, stream: bool, given: str | None, overwrite: bool) -> tuple[str, str]:
    """What ``--out`` means: ("sink" or Spark's name of a format, the place); refused if it cannot be written."""
    if path == "-":
        return "print", path
    if path.startswith(_SINKS):
        _parsed(path)
        return "sink", path
    if stream:
        if given not in (None, "parquet"):
            raise UsageError(f"--out {path}: a stream writes Parquet files, or to a database: leave --out-format out")
        return "sink", path
    kind = format_of(path, given)
    if "://" not in path and os.path.exists(path) and not overwrite:
        raise UsageError(f"--out {path}: is there already: choose another name, remove it, or say --overwrite")
    if "://" not in path and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise UsageError(f"--out {path}: there is no folder {os.path.dirname(path)!r}: make it first")
    if kind == "tsv":
        raise UsageError(f"--out {path}: Spark writes csv, jsonl or parquet: choose one of them")
    return {"jsonl": "json"}.get(kind, kind), path


def _parsed(path: str) -> tuple[str, str, str]:
    """(kind, address, table or topic) of a sink."""
    if path.startswith("kafka://"):
        host, _, topic = path[8:].partition("/")
        if not host or not topic:
            raise UsageError(f"--out {path}: expected kafka://HOST:PORT/TOPIC")
        return "kafka", host, topic
    if path.startswith("delta:"):
        return "delta", path[6:], ""
    address, hash_, table = path.partition("#")
    kind = "sqlite" if path.startswith("sqlite:") else "postgres"
    if not hash_ or not table:
        example = "sqlite:FILE#TABLE" if kind == "sqlite" else "postgresql://USER@HOST/DATABASE#TABLE"
        raise UsageError(f"--out {path}: which table? Expected {example}")
    return kind, address[7:] if kind == "sqlite" else address, table


def sink_of(path: str) -> Any:
    """The sink that a stream (or a batch, to a database) writes to."""
    from pellucid.spark import sinks

    if not path.startswith(_SINKS):
        return sinks.parquet(path)
    kind, address, name = _parsed(path)
    if kind == "delta":
        return sinks.delta(address)
    return getattr(sinks, kind)(address, name)
