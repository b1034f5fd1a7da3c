"""Files read in chunks with bounded memory: CSV, JSON Lines, Parquet, Arrow; and the standard input.

``open_reader`` finds the format and returns a reader: ``names`` are its columns, ``field_type`` says what a column
holds, ``chunks`` reads the wanted columns, some rows at a time.
"""

from __future__ import annotations

import contextlib
import glob
import gzip
import os
import re
import select
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

import pyarrow as pa

from pellucid.errors import DataError, UsageError, nearest, option
from pellucid.internal.data.arrow_files import ArrowReader, ParquetReader
from pellucid.internal.data.bind import below, some, together
from pellucid.internal.data.cells import NEVER, Missing
from pellucid.internal.data.csv_files import CsvReader
from pellucid.internal.data.json_files import JsonLinesReader
from pellucid.internal.data.text import BLOCK, Chunk, blocks, line_end_in_quotes, refuse_loose, refuse_no_text
from pellucid.internal.expr.types import Type

if TYPE_CHECKING:
    from pellucid.internal.data.text import Chunk

# Which files an input is: a file, a folder, a pattern, or several of these, in the order in which they are read.
#
# Files of a folder come in the order of their names; folders like ``month=2`` say the value of a column, and whole
# numbers among them come in the order of numbers (``month=2`` before ``month=10``).  Names that begin with ``_`` or
# ``.`` are no data.

_NULL = "__HIVE_DEFAULT_PARTITION__"
_WILD = re.compile(r"[*?\[]")
_WHOLE = re.compile(r"-?[0-9]+")


@dataclass(frozen=True)
class Found:
    """A file, and what the names of its folders say of its rows."""

    path: str
    parts: Mapping[str, str] = field(default_factory=dict)


def is_several(path: str) -> bool:
    """Whether a path names files, not one file.

    >>> is_several("/"), is_several("no such/2013-*.csv"), is_several("events.csv")
    (True, True, False)
    """
    return os.path.isdir(path) or (not os.path.lexists(path) and _WILD.search(path) is not None)


def files_of(path: str) -> list[Found]:
    """The files that a path names, in order."""
    if os.path.isdir(path):
        return _in_folder(path, path)
    if not is_several(path):
        return [Found(path)]
    steps = path.split(os.sep)
    wild = next(i for i, step in enumerate(steps) if _WILD.search(step))
    base = os.sep.join(steps[:wild]) or (os.sep if path.startswith(os.sep) else "")
    matches = glob.glob(path, recursive=True)
    out: list[Found] = []
    parts: dict[str, dict[str, str]] = {}
    for match in matches:
        if os.path.isdir(match):
            out += _in_folder(match, base)
            continue
        folder = os.path.dirname(match)
        if folder not in parts:
            parts[folder] = _parts(match, base)
        out.append(Found(match, parts[folder]))
    if not out:
        raise DataError(f"{path}: no file matches")
    if len(out) > 1:
        for found in out:
            refuse_no_file(found.path)
    return _ordered(list({found.path: found for found in out}.values()), base)


def _in_folder(folder: str, base: str) -> list[Found]:
    if os.path.isdir(os.path.join(folder, "_manifest")):
        raise DataError(
            f"{folder}: is written by a sink, whose manifests say which files count: read it with "
            "pellucid.sinks.parquet(…).read(), or give --on spark"
        )
    out = []
    for root, folders, files in os.walk(folder):
        parts: dict[str, str] | None = None  # looked up once for all files of a folder: there may be many
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        for name in files:
            if not name.startswith(("_", ".")):
                path = os.path.join(root, name)
                refuse_no_file(path)
                parts = _parts(path, base) if parts is None else parts
                out.append(Found(path, parts))
    if not out:
        raise DataError(f"{folder}: is a folder without files: expected one or more to read")
    return _ordered(out, base)


_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def refuse_no_file(path: str) -> None:
    """Refuse what is no file where files are read one after the other: a pipe would be waited for, maybe for ever.

    >>> refuse_no_file("/dev/null")
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: /dev/null: is a device, no file: take it out of the folder, or give it alone
    """
    try:
        kind = _KINDS.get(stat.S_IFMT(os.stat(path).st_mode))
    except FileNotFoundError:
        refuse_dead_link(path)
        return
    except OSError:
        return  # said when it is read
    if kind is not None:
        raise DataError(f"{path}: is {kind}, no file: take it out of the folder, or give it alone")


def refuse_dead_link(path: str) -> None:
    """Say of a file that is not there that it is a link, if it is one.

    >>> import tempfile
    >>> link = os.path.join(tempfile.mkdtemp(), "x.csv")
    >>> os.symlink("gone.csv", link)
    >>> refuse_dead_link(link)
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: ...x.csv: is a link to gone.csv, which does not exist: bring that file back, or take the
    link away
    """
    if os.path.islink(path):
        target = os.readlink(path)
        raise DataError(
            f"{path}: is a link to {target}, which does not exist: bring that file back, or take the link away"
        )


def _parts(path: str, base: str) -> dict[str, str]:
    """The columns that folders say.

    >>> _parts("data/year=2013/month=1/x.parquet", "data")
    {'year': '2013', 'month': '1'}
    >>> _parts("data/who=%FF/x.parquet", "data")
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: data/who=%FF/x.parquet: the folder 'who=%FF' says a value that is no UTF-8: rename it
    """
    out: dict[str, str] = {}
    for step in os.path.relpath(os.path.dirname(path) or ".", base or ".").split(os.sep):
        name, equals, value = step.partition("=")
        if not equals:
            continue
        try:
            name, value = (unquote(part, errors="strict") for part in (name, value))
            (name + value).encode()
        except UnicodeError:
            shown = path.encode("utf-8", "backslashreplace").decode()
            raise DataError(f"{shown}: the folder {step!r} says a value that is no UTF-8: rename it") from None
        if name in out:
            raise DataError(f"{path}: its folders say {name!r} twice, {out[name]!r} and {value!r}: rename one")
        out[name] = value
    return out


def _ordered(found: list[Found], base: str) -> list[Found]:
    whole = {
        name
        for name in {name for one in found for name in one.parts}
        if all(_WHOLE.fullmatch(one.parts.get(name, "0")) for one in found)
    }

    def by_step(step: str) -> tuple[int, int, str]:
        name, equals, value = step.partition("=")
        number = int(value) if equals and unquote(name) in whole and _WHOLE.fullmatch(value) else None
        return (0, number, "") if number is not None else (1, 0, step)

    folders: dict[str, list[tuple[int, int, str]]] = {}

    def place(one: Found) -> list[tuple[int, int, str]]:
        folder, name = os.path.split(one.path)
        if folder not in folders:
            steps = os.path.relpath(folder or ".", base or ".").split(os.sep)
            folders[folder] = [by_step(step) for step in steps if step != "."]
        return [*folders[folder], by_step(name)]

    return sorted(found, key=place)


def parts_of(found: Sequence[Found]) -> dict[str, Any]:
    """The columns that the folders of some files say, and their Arrow types: int32 where all are such numbers, else
    text.

    >>> parts_of([Found("a", {"year": "2013", "who": "x"}), Found("b", {"year": "2014", "who": "7"})])
    {'year': DataType(int32), 'who': DataType(string)}
    """
    import pyarrow as pa

    names = list(found[0].parts)
    for one in found:
        if list(one.parts) != names:
            raise DataError(
                f"{one.path}: its folders say {some(list(one.parts)) or 'nothing'}, but those of {found[0].path} "
                f"{some(names) or 'nothing'}: all must say the same columns"
            )
    small = pa.int32(), -(2**31), 2**31
    out = {}
    for name in names:
        values = [one.parts[name] for one in found if one.parts[name] != _NULL]
        fits = all(_WHOLE.fullmatch(v) and small[1] <= int(v) < small[2] for v in values) and bool(values)
        out[name] = small[0] if fits else pa.string()
    return out


def part_value(one: Found, name: str, kind: Any) -> Any:
    """The value of such a column in a file; None for the folder of what has none."""
    import pyarrow as pa

    text = one.parts[name]
    return None if text == _NULL else int(text) if pa.types.is_integer(kind) else text


# Several files as one input, one after the other; messages name the file and the row in it.

_SMALL = 8  # a part of a chunk: fewer rows wait for those of the next file


class ManyReader:
    """Files that are read one after the other; the first says which columns there are, and the others must have those
    that are needed."""

    bare = False
    blank = False

    def __init__(self, name: str, files: Sequence[Found], opened: Callable[[str], Reader]) -> None:
        self.name, self._files, self._opened = name, list(files), opened
        self._sizes = [os.path.getsize(one.path) for one in files]
        self.total = max(1, sum(self._sizes))
        self.parts = parts_of(self._files)
        self.first: Any = opened(files[0].path)
        self._open: Any = self.first
        self.head = self._telling()
        self.bare, self.blank = getattr(self.head, "bare", False), getattr(self.head, "blank", False)
        self._missing = NEVER
        self._refuse_both(self.first)
        self.names = [*self.head.names, *self.parts]
        self.nothing = self.head.nothing

    def _telling(self) -> Any:
        """The first file that tells what its columns hold: one without rows does not, if it is a text."""
        if not getattr(self.first, "empty", False):
            return self.first
        for one in self._files[1:]:
            reader: Any = self._opened(one.path)
            if not reader.empty:
                return reader
            reader.close()
        return self.first

    def _refuse_both(self, reader: Reader) -> None:
        for name in self.parts:
            if name in reader.names:
                raise DataError(f"{reader.name}: has a column {name!r}, which its folders say, too: rename one")

    @property
    def missing(self) -> Missing:
        """The words for nothing in all of the files."""
        return self._missing

    @missing.setter
    def missing(self, missing: Missing) -> None:
        self._missing = missing
        for reader in (self._open, self.first, self.head):
            reader.missing = missing

    @property
    def columns(self) -> list[str]:
        """The columns of the first file, and those that the folders say."""
        return [*self.head.columns, *self.parts]

    def kept_type(self, column: str) -> Any:
        """As in the first file."""
        return self.parts[column] if column in self.parts else self.head.kept_type(column)

    def field_type(self, column: str) -> Any:
        """As in the first file."""
        return self.parts[column] if column in self.parts else self.head.field_type(column)

    def chunks(
        self,
        wanted: Mapping[str, Type],
        *,
        rows: int,
        nulls: Collection[str] = (),
        keep: Collection[str] = (),
        lenient: bool = False,
    ) -> Iterator[Chunk]:
        """The wanted columns, and those to keep; small files come several at a time."""
        held: list[Chunk] = []
        count = size = 0
        try:
            for chunk in self._each(wanted, rows=rows, nulls=nulls, keep=keep, lenient=lenient):
                more = chunk.batch.num_rows
                large = more >= rows // _SMALL
                full = large or count + more > rows or size > BLOCK
                if held and (full or not chunk.batch.schema.equals(held[0].batch.schema)):
                    yield _joined(self.name, held)
                    held, count, size = [], 0, 0
                if large:
                    yield chunk
                else:
                    held.append(chunk)
                    count, size = count + more, size + chunk.batch.nbytes
                del chunk  # not kept while the next one is read
        except DataError:  # of rows that come after these
            if held:
                yield _joined(self.name, held)
            raise
        if held:
            yield _joined(self.name, held)

    def _each(
        self,
        wanted: Mapping[str, Type],
        *,
        rows: int,
        nulls: Collection[str],
        keep: Collection[str],
        lenient: bool,
    ) -> Iterator[Chunk]:
        """The same, file by file."""
        row = done = 0
        inner = {name: t for name, t in wanted.items() if name not in self.parts}
        kept = [name for name in keep if name not in self.parts and name not in wanted]
        said = [name for name in [*wanted, *keep] if name in self.parts]
        types = {name: self.kept_type(name) for name in kept}
        for at, (one, size) in enumerate(zip(self._files, self._sizes, strict=True)):
            reader = self.first if at == 0 else self._next(one, [*inner, *kept], types)
            for chunk in reader.chunks(inner, rows=rows, nulls=nulls, keep=kept, lenient=lenient):
                share = chunk.done / chunk.total if chunk.total else 0.0
                batch = self._with_parts(self._alike(chunk, types, reader), one, said)
                yield replace(chunk, batch=batch, first=row, done=done + int(size * share), total=self.total)
                row += batch.num_rows
            done += size
            reader.close()

    def _next(self, one: Found, needed: Sequence[str], types: Mapping[str, Any]) -> Any:
        self._open = self._opened(one.path)
        self._open.missing = self._missing
        self._refuse_both(self._open)
        if getattr(self._open, "blank", False):
            return self._open
        there = {*self._open.names, *self._open.columns}
        for name in needed:
            if name not in there and not below(name, self._open.nothing):
                raise DataError(
                    f"{one.path}: no column {name!r}, which {self._files[0].path} has{nearest(name, sorted(there))}"
                )
        return self._open

    def _alike(self, chunk: Chunk, types: Mapping[str, Any], reader: Reader) -> Any:
        """A batch whose kept columns are of the types of the first file."""
        batch = chunk.batch
        for name, t in types.items():
            at = batch.schema.names.index(name)
            if batch.column(at).type != t:
                try:
                    batch = batch.set_column(at, name, batch.column(at).cast(t))
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
                    raise DataError(
                        f"{reader.name}: the column {name!r}, which is kept, holds {batch.column(at).type}, but {t} in "
                        f"{self._files[0].path}: {error}"
                    ) from None
        return batch

    def _with_parts(self, batch: Any, one: Found, said: Sequence[str]) -> Any:
        for name in said:
            value = pa.scalar(part_value(one, name, self.parts[name]), self.parts[name])
            batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
        return batch

    def close(self) -> None:
        """Close the file that is open."""
        for reader in (self._open, self.first, self.head):
            reader.close()


def _joined(name: str, chunks: Sequence[Chunk]) -> Chunk:
    """Chunks with columns of the same types as one."""
    if len(chunks) == 1:
        return chunks[0]
    place = together(name, [(chunk.batch.num_rows, chunk.place) for chunk in chunks])
    return replace(chunks[-1], batch=pa.concat_batches([c.batch for c in chunks]), first=chunks[0].first, place=place)


def said_files(paths: str | Sequence[str]) -> str:
    """Several files for a message.

    >>> said_files(["a.csv", "b.csv"]), said_files("data/")
    ('a.csv and b.csv', 'data/')
    """
    if isinstance(paths, str):
        return paths
    names = list(paths)
    if len(names) > 3:
        return f"{names[0]} and {len(names) - 1:,} more"
    return " and ".join(names)


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
        """The columns that can pass through as they are: a struct is one."""

    def kept_type(self, column: str) -> Any:
        """The Arrow type of a passthrough column."""

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
    """A stream in which whatever is wrong with the packing raises one kind of error."""

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
    """The single files of an input, for their names alone; what cannot be read is reported when it is read."""
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
