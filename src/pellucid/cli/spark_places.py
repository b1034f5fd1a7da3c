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
from collections.abc import Collection
from typing import Any

from pellucid.cli.spark_columns import as_begun
from pellucid.errors import DataError, UsageError
from pellucid.expr.types import STR, EnumType
from pellucid.graph.model import Graph
from pellucid.spark.sinks.address import SINKS, absolute, on_this_machine, parsed, sink_of

__all__ = ["absolute", "on_this_machine", "reader", "sink_of", "target", "text_columns"]

_FORMATS = {".parquet": "parquet", ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".json": "jsonl", ".ndjson": "jsonl"}
_FILES_AT_ONCE = 1000  # new files that one micro-batch reads


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
    if ending in (".arrow", ".feather", ".ipc"):
        raise UsageError(f"{path}: Spark does not read or write Arrow files: use parquet")
    if os.path.isdir(path):
        for name in sorted(os.listdir(path)):
            if not name.startswith((".", "_")) and os.path.splitext(name)[1]:
                return format_of(name, None)
    raise UsageError(f"{path}: which format is it? Give --in-format or --out-format csv, tsv, jsonl or parquet")


def text_columns(graph: Graph, source: str | None, value: str | None) -> set[str]:
    """The columns of which it is known that they hold texts: ``007`` in a CSV file is then no number.

    >>> from pellucid import pipeline
    >>> sorted(text_columns(pipeline(lambda w: w.trim(1), w=str).graph, None, "word")), text_columns(pipeline(lambda x: x, x=int).graph, None, None)
    (['w', 'word'], set())
    """
    out: set[str] = set()
    for node in (graph.nodes[i] for i in graph.sources):
        if source is None or node.id == source:
            for path, t in node.type.leaves():
                if t == STR or isinstance(t, EnumType):
                    out |= {path, f"{node.id}.{path}"} if path else {node.id, *([value] if value else [])}
    return out


def reader(
    spark: Any, path: str, given: str | None, stream: bool, texts: Collection[str] = (), silent: bool = False, begun: Any = None
) -> Any:
    """The DataFrame at this place.  In CSV an empty cell of ``texts`` is the empty text, unless ``silent``.

    ``begun`` is the schema that a stream of text files began with.
    """
    if path.startswith("table:"):
        return (spark.readStream if stream else spark.read).table(path[6:])
    if path.startswith("kafka://"):
        return _kafka(spark, path, stream)
    if on_this_machine(path) and not os.path.exists(path):
        raise DataError(f"{path}: no such file or folder")
    kind = format_of(path, given)
    place = absolute(path)
    static = _configured(spark.read, kind).load(place)
    if stream and on_this_machine(path) and not os.path.isdir(path):
        raise UsageError(f"--in {path}: a stream reads a folder, to which files are added: give the folder")
    if not static.columns:
        raise DataError(f"{path}: holds no {kind} file with columns: put one there first")
    found = [c for c in static.columns if c in texts]
    schema = _as_local(static.schema, found) if kind in ("csv", "tsv") else static.schema
    if stream:
        schema = as_begun(schema, begun) if kind != "parquet" else schema
        made = _configured(spark.readStream.schema(schema), kind, infer=False).option("maxFilesPerTrigger", _FILES_AT_ONCE).load(place)
    else:
        made = static if schema == static.schema else _configured(spark.read.schema(schema), kind, infer=False).load(place)
    return made.fillna("", subset=found) if found and kind in ("csv", "tsv") and not silent else made


def _kafka(spark: Any, path: str, stream: bool) -> Any:
    """Key and value as texts, with the partition and the offset, which order them."""
    host, _, topic = path[8:].partition("/")
    if not host or not topic:
        raise UsageError(f"--in {path}: expected kafka://HOST:PORT/TOPIC")
    read = (spark.readStream if stream else spark.read).format("kafka").option("kafka.bootstrap.servers", host)
    read = read.option("subscribe", topic).option("startingOffsets", "earliest").option("kafka.isolation.level", "read_committed")
    return read.load().selectExpr("cast(key as string) key", "cast(value as string) value", "topic", "partition", "offset", "timestamp")


def _configured(read: Any, kind: str, *, infer: bool = True) -> Any:
    if kind == "parquet":
        return read.format("parquet")
    read = read.option("mode", "FAILFAST")  # a line that cannot be read is an error, not a row of nulls
    if kind == "jsonl":
        return read.format("json")
    read = read.format("csv").option("header", True).option("sep", "\t" if kind == "tsv" else ",")
    return read.option("inferSchema", True) if infer else read


def _as_local(schema: Any, texts: Collection[str]) -> Any:
    """What Spark finds in a CSV file, with the types that the local engine finds: texts where they are wanted, 64 bits."""
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    fields = []
    for field in schema.fields:
        t = LongType() if isinstance(field.dataType, IntegerType) else field.dataType
        fields.append(StructField(field.name, StringType() if field.name in texts else t, True))
    return StructType(fields)


# ------------------------------------------------------------------ out


def target(path: str, stream: bool, given: str | None, overwrite: bool) -> tuple[str, str]:
    """What ``--out`` means: ("sink" or Spark's name of a format, the place); refused if it cannot be written."""
    if path == "-":
        if given not in (None, "jsonl"):
            raise UsageError(f"--out-format {given}: on the standard output Spark's rows are JSON Lines (jsonl)")
        return "print", path
    if path.startswith(SINKS):
        parsed(path)
        if overwrite:
            raise UsageError(f"--overwrite is for files: rows are added to {path}; empty it first if you want it new")
        return "sink", path
    if stream:
        if given not in (None, "parquet"):
            raise UsageError(f"--out {path}: a stream writes Parquet files, or to a database: leave --out-format out")
        if os.path.splitext(path)[1].lower() in _FORMATS and format_of(path, None) != "parquet":
            raise UsageError(f"--out {path}: a stream writes a folder of Parquet files, or to a database: choose another name")
        return "sink", path
    kind = format_of(path, given)
    if on_this_machine(path) and os.path.exists(path) and not overwrite:
        raise UsageError(f"--out {path}: is there already: choose another name, remove it, or say --overwrite")
    if on_this_machine(path) and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise UsageError(f"--out {path}: there is no folder {os.path.dirname(path)!r}: make it first")
    if kind == "tsv":
        raise UsageError(f"--out {path}: Spark writes csv, jsonl or parquet: choose one of them")
    return {"jsonl": "json"}.get(kind, kind), path
