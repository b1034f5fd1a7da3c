"""Files read in chunks with bounded memory: CSV, JSON Lines, Parquet, Arrow; and the standard input.

``open_reader`` finds the format and returns a reader: ``names`` are its columns, ``field_type`` says what a column
holds, ``chunks`` reads the wanted columns, some rows at a time.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import select
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from pellucid.errors import DataError, UsageError, nearest, option
from pellucid.internal.data.binary import ArrowReader, ParquetReader
from pellucid.internal.data.blocks import blocks, line_end_in_quotes, refuse_loose, refuse_no_text
from pellucid.internal.data.formats.csv import CsvReader
from pellucid.internal.data.formats.jsonl import JsonLinesReader
from pellucid.internal.data.tables.folders import Found, files_of, is_several, refuse_dead_link
from pellucid.internal.data.tables.many import ManyReader, said_files
from pellucid.internal.data.text import Chunk
from pellucid.internal.expr.types import Type

PACKINGS = ("gz", "bz2", "xz", "zst")
_ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


class Reader(Protocol):
    """An input that is read once, in chunks, and then closed."""

    name: str
    names: list[str]
    total: int

    @property
    def nothing(self) -> Collection[str]:
        """Of these names, the columns that hold nothing at all: each may be a record that is null in every row."""

    def field_type(self, column: str) -> Any:
        """The Arrow type of a column."""

    @property
    def columns(self) -> list[str]:
        """The columns that can come along as they are: a struct is one."""

    def kept_type(self, column: str) -> Any:
        """The Arrow type of a column that comes along."""

    def chunks(
        self,
        wanted: Mapping[str, Type],
        *,
        rows: int,
        nulls: Collection[str] = (),
        keep: Collection[str] = (),
        lenient: bool = False,
    ) -> Iterator[Chunk]:
        """The wanted columns, at most ``rows`` rows at a time; in those of ``nulls`` an empty cell of a CSV file is
        null, not the text ``""``.  The columns of ``keep`` are read as they are.  ``lenient``: a row that cannot be
        read is noted in its chunk's place, and holds nothing."""

    def close(self) -> None:
        """Close the file."""


def flows(path: str) -> bool:
    """Whether a path is there and is neither a file nor a folder: a pipe, a device, a terminal.

    >>> flows("/dev/null"), flows("/"), flows("no such file")
    (True, False, False)
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _nameless(path: str) -> bool:
    """Whether a name says nothing about the format: ``-``, a pipe, ``/dev/stdin`` also where it is a file."""
    return path in ("-", "/dev/stdin", "/dev/stdout") or path.startswith("/dev/fd/") or flows(path)


def packing_of(path: str) -> str | None:
    """How a file is packed, by its ending.

    >>> packing_of("events.csv.zst"), packing_of("events.csv")
    ('zst', None)
    """
    ending = os.path.splitext(path)[1].lower().lstrip(".")
    return ending if ending in PACKINGS else None


def unpacked(raw: Any, path: str) -> Any:
    """A packed file as the bytes that are packed in it."""
    how = packing_of(path)
    if how == "gz":
        return gzip.GzipFile(fileobj=raw)
    return _Unpacked(raw, str(how))


class _Unpacked:
    """A stream in which whatever is wrong with the packing is said in one way."""

    def __init__(self, raw: Any, how: str) -> None:
        import bz2
        import lzma

        self._wrong: tuple[type[BaseException], ...] = (OSError, ValueError, lzma.LZMAError, pa.ArrowException)
        if how == "zst":
            self._stream: Any = pa.CompressedInputStream(pa.PythonFile(raw), "zstd")
        else:
            self._stream = (bz2.BZ2File if how == "bz2" else lzma.LZMAFile)(raw)

    def read(self, size: int) -> bytes:
        """Up to so many bytes; none at the end."""
        try:
            return bytes(self._stream.read(size))
        except self._wrong as error:
            raise EOFError(" ".join(str(error).split())) from None


def _by_ending(path: str) -> str | None:
    packed = packing_of(path)
    base = path[: -len(packed) - 1] if packed else path
    return _ENDINGS.get(os.path.splitext(base)[1].lower())


def format_of(path: str, given: str | None = None, *, asked: str = "in_format") -> tuple[str, bool]:
    """The format of a file by its ending, and whether it is compressed; JSON Lines for a pipe without an ending.

    >>> format_of("events.csv.gz"), format_of("-")
    (('csv', True), ('jsonl', False))
    """
    packing = packing_of(path)
    packed = packing is not None
    found = given or _by_ending(path) or ("jsonl" if _nameless(path) else None)
    if found is None and path.split(":")[0] in ("sqlite", "postgresql", "postgres", "delta", "kafka"):
        raise DataError(
            f"{path}: is a table or a topic, not a file: a run without epochs writes files. Give "
            f"{option('pushes', any='N')} {option('state', any='FOLDER')} (for sqlite: and postgresql:), or "
            f"{option('on', 'spark')}"
        )
    if found is None:
        raise DataError(
            f"{path}: cannot tell the format from the name: end it in .csv, .jsonl, .parquet or .arrow, or give "
            f"{option(asked)}"
        )
    if packed and found not in ("csv", "tsv", "jsonl"):
        raise DataError(f"{path}: only CSV and JSON Lines can be in .{packing}: {found} has its own compression")
    return found, packed


def open_reader(
    path: str | Sequence[str],
    form: str | None = None,
    *,
    stdin: Any = None,
    idle: Callable[[], None] | None = None,
) -> Reader:
    """Open an input for reading in chunks; ``-`` is the standard input.  What is no regular file is read like it.

    A folder, a pattern (``2013-*.csv``) or a list of them is several files, read one after the other.  ``idle`` is
    called a few times a second while a pipe has nothing to give.
    """
    if not isinstance(path, str) or is_several(path):
        files = input_files(path, form)
        if len(files) > 1 or files[0].parts or not isinstance(path, str):
            return ManyReader(said_files(path), files, lambda one: open_reader(one, form, idle=idle))
        path = files[0].path
    if path != "-" and not os.path.exists(path):
        _checked_size(path)  # says which, before anything about formats
    kind, packed = format_of(path, form)
    if path == "-":
        if stdin is None and sys.__stdin__ is None:
            raise DataError("standard input: is closed: give a file, or something to read there")
        assumed = "standard input" if form is None else None
        return _open_pipe(
            stdin if stdin is not None else sys.stdin.buffer, "standard input", kind, idle, assumed=assumed
        )
    assumed = None if form or _by_ending(path) else "standard input" if path == "/dev/stdin" else "a pipe"
    if flows(path):
        return _open_flow(path, kind, packed, idle, assumed)
    size = _checked_size(path)
    if kind == "parquet":
        return ParquetReader(path)
    if kind == "arrow":
        return ArrowReader(path, pa.OSFile(path), size)
    if size == 0:
        wanted = "a JSON value on each line" if kind == "jsonl" else "a header line with the columns' names"
        raise DataError(f"{path}: is empty (0 bytes): expected {wanted}")
    raw = open(path, "rb", buffering=0)  # noqa: SIM115 - closed with the reader
    try:
        stream: Any = unpacked(raw, path) if packed else raw
        pieces = blocks(stream, path, quotes=kind != "jsonl", tell=raw.tell)
        return _text(path, kind, pieces, size, raw.close, assumed)
    except BaseException:
        raw.close()
        raise


def input_files(path: str | Sequence[str], form: str | None = None) -> list[Found]:
    """The files of an input, in order; all of one format."""
    paths = [path] if isinstance(path, str) else list(path)
    for one in paths:
        if one == "-" or flows(one):
            if len(paths) > 1:
                raise UsageError(f"{said_files(paths)}: a pipe is no file among several: give files, or the pipe alone")
            return [Found(one)]
        if not is_several(one):
            _checked_size(one)
    files = [found for one in paths for found in files_of(one)]
    if form is not None and any(
        is_several(one) for one in paths
    ):  # of a mixed folder those of this format, as on Spark
        files = [found for found in files if _by_ending(found.path) in (form, None)] or files
    kinds = {format_of(found.path, form)[0]: found.path for found in files}
    if len(kinds) > 1:
        a, b = list(kinds.items())[:2]
        raise DataError(f"{a[1]} is {a[0]}, but {b[1]} is {b[0]}: the files of an input must be of one format")
    return files


def paths_of(path: str | Sequence[str]) -> list[str]:
    """The single files of an input, for whoever looks at their names; what cannot be read is said when it is."""
    paths = [path] if isinstance(path, str) else list(path)
    out = []
    for one in paths:
        try:
            out += [found.path for found in files_of(one)] if is_several(one) else [one]
        except DataError:
            out.append(one)
    return out


def look_through(path: str, delimiter: str) -> bool:
    """Refuse a CSV file that is not strict, or not UTF-8; whether a quoted cell of it goes over several lines."""
    breaks = False
    with open(path, "rb", buffering=0) as raw:
        stream: Any = unpacked(raw, path) if packing_of(path) else raw
        for block in blocks(stream, path, quotes=True):
            refuse_loose(block, delimiter, path)
            refuse_no_text(block, path)
            breaks = breaks or line_end_in_quotes(block.data)
    return breaks


def _text(
    name: str, kind: str, pieces: Any, size: int, close: Callable[[], None] | None = None, assumed: str | None = None
) -> Reader:
    if kind == "jsonl":
        return JsonLinesReader(name, pieces, size, close, assumed)
    return CsvReader(name, pieces, size, close, "\t" if kind == "tsv" else ",")


def _open_flow(path: str, kind: str, packed: bool, idle: Callable[[], None] | None, assumed: str | None) -> Reader:
    """A named pipe, a process substitution, a device: opened once, as opening it again would lose what is in it."""
    _refuse_parquet(path, kind)
    try:
        raw = open(path, "rb")  # noqa: SIM115 - closed with the reader
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        stream = unpacked(raw, path) if packed else raw
        return _open_pipe(stream, path, kind, idle, raw.close, assumed)
    except BaseException:
        raw.close()
        raise


def _open_pipe(
    stream: Any,
    name: str,
    kind: str,
    idle: Callable[[], None] | None,
    close: Callable[[], None] | None = None,
    assumed: str | None = None,
) -> Reader:
    _refuse_parquet(name, kind)
    if kind == "arrow":
        return ArrowReader(name, stream, 0, piped=True)
    pipe = stream
    if not isinstance(stream, (gzip.GzipFile, _Unpacked)):
        with contextlib.suppress(OSError, AttributeError):  # not a real file, as in a test
            pipe = _Pipe(stream, idle)
    return _text(name, kind, blocks(pipe, name, quotes=kind != "jsonl"), 0, close, assumed)


def _refuse_parquet(name: str, kind: str) -> None:
    if kind == "parquet":
        raise DataError(
            f"{name}: Parquet cannot be read from a pipe, as its index is at the end: give a file, or use arrow"
        )


class _Pipe:
    """A byte stream that gives what is there instead of waiting for a full block."""

    pellucid_pipe = True

    def __init__(self, stream: Any, idle: Callable[[], None] | None) -> None:
        # Unbuffered, since select sees only what no buffer has taken yet.
        self._fd = stream.fileno()
        self._idle = idle

    def fileno(self) -> int:
        return int(self._fd)

    def read1(self, size: int) -> bytes:
        while self._idle is not None and not select.select([self._fd], [], [], 0.2)[0]:
            self._idle()
        return os.read(self._fd, size)


def _checked_size(path: str) -> int:
    try:
        with open(path, "rb"):
            return os.path.getsize(path)
    except FileNotFoundError:
        refuse_dead_link(path)
        raise DataError(f"{path}: no such file{_similar(path)}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def _similar(path: str) -> str:
    try:
        return nearest(os.path.basename(path), os.listdir(os.path.dirname(path) or "."))
    except OSError:
        return ""
