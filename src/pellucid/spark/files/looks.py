"""The files that a micro-batch reads, looked through before it is written.

Spark does not mind a CSV file whose last quote is not closed: all that follows is one cell.  A batch is looked through
before it is read (:mod:`pellucid.spark.files.csv`); of a stream only its checkpoint knows which files belong to which
micro-batch: the offsets of the micro-batch and of the one before it say between which entries of a source's log they
are.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import unquote

from pellucid.errors import DataError
from pellucid.internal.data.files import look_through
from pellucid.spark.files.blame import as_given
from pellucid.spark.state.files import Files, open_files


def look_at(checkpoint: str, batch: int, inputs: Collection[str], delimiter: str) -> None:
    """Refuse a micro-batch if a file of these inputs on this machine is not strict CSV."""
    places = [os.path.realpath(place) + os.sep for place in inputs]
    for file in files_of(open_files(checkpoint), batch):
        if os.path.realpath(file).startswith(tuple(places)) and os.path.isfile(file) and os.path.getsize(file):
            try:
                look_through(file, delimiter)
            except DataError as error:
                raise DataError(str(error).replace(file, as_given(file, inputs), 1)) from None


def files_of(checkpoint: Files, batch: int) -> Iterator[str]:
    """The files of this machine that a micro-batch reads, of all its sources."""
    before, until = (_offsets(checkpoint, number) for number in (batch - 1, batch))
    for source, end in until.items():
        begin = before.get(source, -1)
        if end <= begin:
            continue
        names = set(checkpoint.names(f"sources/{source}"))
        wanted = [name for k in range(begin + 1, end + 1) for name in (str(k), f"{k}.compact") if name in names]
        for entry in (e for name in wanted for e in _entries(checkpoint.read(f"sources/{source}/{name}"))):
            if begin < entry.get("batchId", -1) <= end and str(entry.get("path", "")).startswith("file:"):
                yield unquote(re.sub(r"^file:/+", "/", entry["path"]))


def _offsets(checkpoint: Files, batch: int) -> dict[int, int]:
    """Of each source that reads files, by its number, how far its log goes in a micro-batch."""
    try:
        lines = checkpoint.read(f"offsets/{batch}").decode().split("\n")[2:]
    except FileNotFoundError:
        return {}
    found = [json.loads(line) if line.startswith("{") else None for line in lines]
    return {i: int(offset["logOffset"]) for i, offset in enumerate(found) if offset and "logOffset" in offset}


def _entries(log: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.decode().split("\n") if line.startswith("{")]
