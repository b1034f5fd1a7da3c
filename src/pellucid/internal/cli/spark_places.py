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

import contextlib
import os
from typing import Any

from pellucid.errors import DataError, UsageError
from pellucid.internal.address import Address
from pellucid.sinks.interface import absolute, on_this_machine, parsed
from pellucid.spark.files import FILES_AT_ONCE, Wanted, cells, files_in, objects

_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".ndjson": "jsonl",
}


def format_of(path: str, given: str | None) -> str:
    """The format of a file or of the files in a folder.

    >>> format_of("events.csv.gz", None), format_of("s3://bucket/x.parquet", None), format_of("events", "jsonl")
    ('csv', 'parquet', 'jsonl')
    """
    if given is not None:
        if given == "arrow":
            raise UsageError(f"{path}: Spark does not read or write Arrow files: use parquet")
        return given
    ending = _ending(path)
    if ending in (".arrow", ".feather", ".ipc"):
        raise UsageError(f"{path}: Spark does not read or write Arrow files: use parquet")
    if ending in _FORMATS:
        return _FORMATS[ending]
    there = _formats_in(path)
    if there:
        return there[0]
    raise UsageError(f"{path}: which format is it? Give --in-format or --out-format csv, tsv, jsonl or parquet")


def delimiter_of(path: str, given: str | None) -> str | None:
    """What parts the cells of CSV files on this machine; None for any other place.

    >>> delimiter_of("events.tsv", None), delimiter_of("events.parquet", None), delimiter_of("s3://bucket/x.csv", None)
    ('\\t', None, None)
    """
    if path.startswith(("table:", "kafka://")) or not on_this_machine(path):
        return None
    return {"csv": ",", "tsv": "\t"}.get(format_of(path, given))


def _ending(path: str) -> str:
    bare = path[:-3] if path.lower().endswith(".gz") else path
    return os.path.splitext(bare.rstrip("/"))[1].lower()


def _formats_in(path: str) -> list[str]:
    """The formats of the files in a folder of this machine, as far as their names tell."""
    if not on_this_machine(path) or not os.path.isdir(path):
        return []
    return sorted({_FORMATS[ending] for file in files_in(path) if (ending := _ending(file)) in _FORMATS})


def _only(path: str, kind: str, given: str | None) -> str | None:
    """The names of the files to read, for a folder that also holds others; refused if it is not said which."""
    there = _formats_in(path)
    if given is None and len(there) > 1:
        kinds = f"{', '.join(there[:-1])} and {there[-1]}"
        raise UsageError(
            f"{path}: holds {kinds} files: say which to read with --in-format {there[0]}; only those are read then"
        )
    if there in ([], [kind]):
        return None
    endings = [ending for ending, k in _FORMATS.items() if k == kind]
    return "*{" + ",".join(e + packed for e in endings for packed in ("", ".gz")) + "}"


def reader(
    spark: Any, path: str, given: str | None, stream: bool, wanted: Wanted | None = None, begun: Any = None
) -> Any:
    """The DataFrame at this place; ``wanted`` says what the pipeline wants of the columns of text files.

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
    if stream and on_this_machine(path) and not os.path.isdir(path):
        raise UsageError(f"--in {path}: a stream reads a folder, to which files are added: give the folder")
    only = _only(path, kind, given)
    if kind in ("csv", "tsv"):
        return cells(spark, path, "\t" if kind == "tsv" else ",", stream, wanted or Wanted(), begun, only)
    if kind == "jsonl":
        return objects(spark, path, place, stream, wanted or Wanted(), begun, only)
    static = _configured(spark.read, only).load(place)
    if not static.columns:
        raise DataError(f"{path}: holds no {kind} file with columns: put one there first")
    if not stream:
        return static
    return (
        _configured(spark.readStream.schema(static.schema), only)
        .option("maxFilesPerTrigger", FILES_AT_ONCE)
        .load(place)
    )


def _kafka(spark: Any, path: str, stream: bool) -> Any:
    """Key and value as texts, with the partition and the offset, which order them."""
    _, host, topic = parsed(path, "in")
    read = (spark.readStream if stream else spark.read).format("kafka").option("kafka.bootstrap.servers", host)
    read = (
        read.option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
    )
    return read.load().selectExpr(
        "cast(key as string) key", "cast(value as string) value", "topic", "partition", "offset", "timestamp"
    )


def _configured(read: Any, only: str | None) -> Any:
    return (read.option("pathGlobFilter", only) if only else read).format("parquet")


# ------------------------------------------------------------------ out


def target(path: str, stream: bool, given: str | None, exists: str | None) -> tuple[str, str]:
    """What ``--out`` means: ("sink" or Spark's name of a format, the place); refused if it cannot be written."""
    if path == "-":
        if given not in (None, "jsonl"):
            raise UsageError(f"--out-format {given}: on the standard output Spark's rows are JSON Lines (jsonl)")
        return "print", path
    if parsed(path)[0]:
        if exists not in (None, "append"):
            raise UsageError(
                f"--exists {exists} is for files: rows are added to {path}; empty it first if you want it new"
            )
        return "sink", path
    if stream:
        if given not in (None, "parquet"):
            raise UsageError(f"--out {path}: a stream writes Parquet files, or to a database: leave --out-format out")
        if os.path.splitext(path)[1].lower() in _FORMATS and format_of(path, None) != "parquet":
            raise UsageError(
                f"--out {path}: a stream writes a folder of Parquet files, or to a database: choose another name"
            )
        return "sink", path
    kind = format_of(path, given)
    if exists == "append":
        raise UsageError(
            f"--exists append: on Spark rows are added to tables (sqlite:, postgresql:, delta:) and topics, or with "
            f"--stream: give {path} another name, or say --exists overwrite"
        )
    if on_this_machine(path) and os.path.exists(path) and exists != "overwrite":
        raise UsageError(f"--out {path}: is there already: choose another name, remove it, or say --exists overwrite")
    if on_this_machine(path) and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise UsageError(f"--out {path}: there is no folder {os.path.dirname(path)!r}: make it first")
    if kind == "tsv":
        raise UsageError(f"--out {path}: Spark writes csv, jsonl or parquet: choose one of them")
    return {"jsonl": "json"}.get(kind, kind), path


def refuse_unwritable(option: str, path: str, *, into: bool) -> None:
    """Say that nothing can be written to a place of this machine before Spark starts and fails with it.

    With ``into`` a folder that is there gets more files; else it is replaced.  It is tried: rights do not tell it of a
    file system that is read-only, or that takes no files at all.
    """
    if not on_this_machine(path) or path == "-" or Address.of(path).kind:
        return
    whole = absolute(path)
    folder = whole if into and os.path.isdir(whole) else os.path.dirname(whole)
    while not os.path.lexists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)  # what is missing is made
    probe = os.path.join(folder, f".{os.path.basename(whole)}.{os.getpid()}.part")
    try:
        os.mkdir(probe)
    except FileExistsError:
        return  # of ours: it could be written
    except OSError as error:
        raise UsageError(
            f"{option} {path}: cannot be written: the folder {folder} takes no files ({error.strerror})"
        ) from None
    with contextlib.suppress(OSError):
        os.rmdir(probe)
