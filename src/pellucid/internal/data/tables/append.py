"""``exists=``: what becomes of an output that is there already: refused, overwritten, or added to.

Also what is added to appears whole or not at all: the old rows are copied into the new file first, which then takes the
name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from pellucid.errors import DataError, UsageError, option
from pellucid.internal.data.bind import some
from pellucid.internal.data.files import packing_of, unpacked

#: What is done about an output that is there already.
EXISTS = ("refuse", "overwrite", "append")
_PIECE = 1 << 20


def check_exists(exists: str) -> str:
    """Whether this is one of the three words.

    >>> check_exists("append")
    'append'
    """
    if exists not in EXISTS:
        raise UsageError(f"{option('exists', exists)}: expected refuse, overwrite or append")
    return exists


def refuse_there(path: str) -> None:
    """Refuse an output that is there."""
    if os.path.lexists(path):
        raise DataError(
            f"{path}: is there already: choose another name, remove it, or say {option('exists', 'overwrite')} or "
            f"{option('exists', 'append')}"
        )


def old_lines(path: str, header: bytes, write: Callable[[bytes], Any]) -> None:
    """Copy the lines of a text file; its header must be the one that would be written (empty: it has none)."""
    begin, last = b"", b"\n"
    checked = not header
    with open(path, "rb", buffering=0) as raw:
        stream: Any = unpacked(raw, path) if packing_of(path) else raw
        try:
            while data := stream.read(_PIECE):
                if not checked:
                    begin += data
                    if b"\n" not in begin and len(begin) < _PIECE:
                        continue
                    _refuse_header(path, begin, header)
                    data, checked = begin, True
                write(data)
                last = data[-1:]
        except (EOFError, OSError) as error:
            raise DataError(f"{path}: cannot be read, so nothing can be added to it: {error}") from None
    if not checked and begin:
        _refuse_header(path, begin, header)
        write(begin)
        last = begin[-1:]
    elif not checked:
        write(header)
    if last != b"\n":
        write(b"\n")


def _refuse_header(path: str, begin: bytes, header: bytes) -> None:
    found = begin.split(b"\n", 1)[0].rstrip(b"\r").removeprefix(b"\xef\xbb\xbf")
    if found != header.rstrip(b"\n"):
        raise DataError(
            f"{path}: its columns are {found.decode('utf-8', 'replace')[:200]}, but {header.decode().rstrip()} would "
            f"be added: give another file, or say {option('exists', 'overwrite')}"
        )


def old_batches(path: str, form: str, schema: Any, write: Callable[[Any], Any]) -> None:
    """Copy the rows of a Parquet or Arrow file, whose columns must be those that would be written."""
    from pellucid.internal.data.binary import ArrowReader, ParquetReader

    reader: Any = (
        ParquetReader(path) if form == "parquet" else ArrowReader(path, pa.OSFile(path), os.path.getsize(path))
    )
    try:
        names = reader.columns
        kinds = {name: reader.kept_type(name) for name in names}
        other = next((f.name for f in schema if kinds.get(f.name) != f.type), None)
        if names != schema.names or other is not None:
            what = f" ({other!r} holds {kinds.get(other)}, not {schema.field(other).type})" if other in kinds else ""
            raise DataError(
                f"{path}: its columns are {some(names)}, but {some(schema.names)} would be added{what}: give another "
                f"file, or say {option('exists', 'overwrite')}"
            )
        for chunk in reader.chunks({}, rows=1 << 17, keep=names):
            write(pa.RecordBatch.from_arrays([chunk.batch.column(name) for name in names], schema=schema))
    finally:
        reader.close()
