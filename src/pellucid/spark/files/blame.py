"""The row and line of a cell that Spark refused.

Spark reads many pieces of a file at once and counts no lines; its errors name a file and a column, only one of them, or
none.  The local reader counts, so for files of this machine it is asked, once something is wrong.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection
from urllib.parse import unquote

from pellucid.errors import DataError
from pellucid.internal.data.files import open_reader
from pellucid.internal.data.formats.csv import CsvReader
from pellucid.internal.data.formats.jsonl import JsonLinesReader
from pellucid.internal.data.formats.missing import NEVER, Missing
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, OptionalType, Type
from pellucid.sinks.address import on_this_machine
from pellucid.spark.files.csv import files_in

_CELL = re.compile(r"(file:/.+?): column '(.*?)': expected (\w+(?: \| None)?)")
_FILE = re.compile(r"(file:/.+?)(?=: |$)", re.MULTILINE)
_COLUMN = re.compile(r"^the DataFrame: column '(.*?)' holds \w+: expected (\w+)")
_NOTHING = re.compile("^Spark cannot read a value: (Malformed records|a CSV cell)")
_TYPES: dict[str, Type] = {"int": INT, "float": FLOAT, "bool": BOOL, "str": STR, "int | None": OptionalType(INT)}
_LONGEST = 1 << 30  # bytes of files that are read for the sake of a message


def blamed(message: str, inputs: Collection[str], given: str | None = None, missing: Missing = NEVER) -> str:
    """A message of Spark about what it read, with the row and the line if the local reader finds them."""
    named = _CELL.search(message) or _FILE.search(message)
    if named is not None:
        file = re.sub(r"^file:/+", "/", unquote(named[1]))
        shown = as_given(file, inputs)
        wanted = _wanted(named[2], named[3]) if named.re is _CELL else None
        return _found_here([file], inputs, wanted, given, missing) or message.replace(named[1], shown)
    column = _COLUMN.search(message)
    if column is None and _NOTHING.search(message) is None:
        return message
    files = [file for place in inputs if on_this_machine(place) and os.path.exists(place) for file in files_in(place)]
    return _found_here(files, inputs, _wanted(column[1], column[2]) if column else None, given, missing) or message


def _wanted(column: str, word: str) -> dict[str, Type] | None:
    return {column: _TYPES[word]} if word in _TYPES else None


def as_given(file: str, inputs: Collection[str]) -> str:
    """A file in the words of the command line.

    >>> as_given("/data/in/2.csv", ["/data/in"])
    '/data/in/2.csv'
    """
    for place in inputs:
        with contextlib.suppress(OSError, ValueError):
            whole = os.path.realpath(place)
            if os.path.realpath(file) == whole:
                return place
            if os.path.commonpath([whole, os.path.realpath(file)]) == whole:
                return os.path.join(place, os.path.relpath(os.path.realpath(file), whole))
    return file


def _found_here(
    files: list[str], inputs: Collection[str], wanted: dict[str, Type] | None, given: str | None, missing: Missing
) -> str | None:
    file = ""
    try:
        if sum(os.path.getsize(f) for f in files) > _LONGEST:
            return None
        for file in files:
            if not os.path.getsize(file):
                continue  # for Spark it is a file without rows
            with contextlib.closing(open_reader(file, given)) as reader:
                if not isinstance(reader, (CsvReader, JsonLinesReader)):
                    continue
                reader.missing = missing
                # Every cell of CSV is a text; what an object of JSON holds is not: there only lines that are none
                # count.
                some = wanted or (dict.fromkeys(reader.names, STR) if isinstance(reader, CsvReader) else {})
                for _ in reader.chunks(some, rows=1 << 16):
                    pass
    except DataError as error:
        return str(error).replace(file, as_given(file, inputs))
    except (OSError, KeyError):
        return None
    return None
