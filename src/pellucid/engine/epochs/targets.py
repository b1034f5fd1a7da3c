"""Where committed rows go: a file, or a table of a database.

The rows of an epoch are *staged* first: a file of their own in the state folder, on the disk before the sink's snapshot
is.  To commit an epoch is then one step that happens or does not: for a file output the staged part is renamed into the
folder of committed parts; for a table one transaction holds the rows and how far they go.  Each part knows how far it goes (in
pushes), so a target can always say what it has, and nothing is written twice, whatever the run went back to.

At the end the committed parts become the whole file, under its name at once.  Its bytes depend on the rows alone, not on
where borders or crashes were.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from pellucid.data import writers
from pellucid.data.files import format_of
from pellucid.data.packed import Packer
from pellucid.data.private import created, no_links
from pellucid.data.whole import Claim, sweep, sync, temporary_name
from pellucid.engine.epochs.store import Store
from pellucid.errors import DataError

__all__ = ["FileTarget", "Part", "PartName", "Table", "TableTarget", "Target"]

_SPILL = 1 << 20  # bytes of an epoch that are kept in memory until its border
_ROWS = 1 << 17  # of a batch in the whole file, wherever the borders were
_NAME = re.compile(r"(\d{16})-(\d{10})-(\d+)(-g\d+)?\.part")


class Table(Protocol):
    """A table that remembers, in the same transaction as the rows, how far they go (`pellucid.spark.sinks` has some)."""

    def write(self, data: Any, query: str, batch_id: int) -> Any:
        """Write rows once under this number; nothing if the number, or a greater one, is there."""

    def last(self, query: str) -> int | None:
        """The greatest number that is there for good."""


class PartName(NamedTuple):
    """What a part's file name says: up to which push, of which epoch, how many rows."""

    until: int
    epoch: int
    rows: int

    def __str__(self) -> str:
        return f"{self.until:016d}-{self.epoch:010d}-{self.rows}.part"

    @staticmethod
    def read(name: str) -> PartName | None:
        """From a file's name.

        >>> PartName.read("0000000000000100-0000000001-7.part")
        PartName(until=100, epoch=1, rows=7)
        """
        match = _NAME.fullmatch(name)
        return PartName(int(match[1]), int(match[2]), int(match[3])) if match else None


def parts_in(folder: Path) -> list[tuple[PartName, Path]]:
    """The parts in a folder, in order."""
    found = [(PartName.read(path.name), path) for path in folder.iterdir()] if folder.is_dir() else []
    return sorted((name, path) for name, path in found if name is not None)


class Part:
    """The rows of an epoch on their way to the disk; what could not be written is written again, nothing twice.

    Few rows stay in memory until their border, so that the rows of several short epochs can become one file (`absorb`), with
    one sync for all of them.  ``size`` and ``crc`` are those of the file without its ``tail``: of any prefix that ends at a border.
    """

    def __init__(self, path: str | Path, encode: Callable[[Any], Any], head: bytes, tail: bytes) -> None:
        self.path, self.rows, self.size, self.crc, self.tail = path, 0, 0, 0, tail
        self.held = 0  # bytes in memory
        self._encode, self._head = encode, head
        self._file: Any = None
        self._waiting: list[Any] = []

    def write(self, batch: Any) -> None:
        """Add rows; an OSError leaves it as it was, so that the same call can be made again."""
        data = self._encode(batch)
        if self._file is None and self.held + len(data) <= _SPILL:
            self._waiting.append(data)
            self.held += len(data)
        else:
            self.absorb(self)
            self._append(data)
        self.rows += batch.num_rows

    @property
    def spilled(self) -> bool:
        """Whether some of it is in a file of its own."""
        return self._file is not None

    def content(self) -> tuple[int, int]:
        """The bytes and the checksum of the rows so far, wherever they are."""
        crc = self.crc
        for data in self._waiting:
            crc = zlib.crc32(data, crc)
        return self.size + self.held, crc

    def absorb(self, other: Part) -> None:
        """Write what another part (or this one itself) has in memory; after an OSError the same call goes on where it was."""
        if self._file is None:
            self._file = created(self.path, buffering=0)
        if not self.size:
            self._append(self._head)
        while other._waiting:
            self._append(other._waiting[0])
            other.held -= len(other._waiting.pop(0))

    def _append(self, data: Any) -> None:
        if not len(data):
            return
        view = memoryview(data)
        try:
            while len(view):
                view = view[self._file.write(view) :]
        except OSError:
            with contextlib.suppress(OSError):
                self._file.seek(self.size)
                self._file.truncate()
            raise
        self.size += len(data)
        self.crc = zlib.crc32(data, self.crc)

    def finish(self, name: Path) -> None:
        """Make it durable; the folder, which has its name, is for the caller to sync."""
        if self.path == name:
            return
        self.absorb(self)
        size, crc = self.size, self.crc
        try:
            self._append(self.tail)
            os.fsync(self._file.fileno())
        finally:  # the tail belongs to no epoch; if it must be written again, then at the same place
            self.size, self.crc = size, crc
            self._file.seek(size)
        self._file.close()
        os.replace(self.path, name)
        self.path = name


class Target(Protocol):
    """Where a sink's committed parts go."""

    def part(self, path: str | Path) -> Part:
        """A new part."""

    def last(self) -> int:
        """Up to which push everything is committed."""

    def commit(self, parts: Sequence[tuple[PartName, Path]]) -> None:
        """Make parts visible, in their order, each once."""

    def finish(self) -> None:
        """All epochs are committed."""


class FileTarget:
    """An output file: parts in the state folder, and the whole file at the end."""

    def __init__(self, store: Store, output: str, path: str, form: str | None, schema: Any, *, again: str = "") -> None:
        self.path, self.schema, self._again = path, schema, again
        self.form, self.packed = format_of(path, form, option="--out-format")
        self._folder = store.folder("committed", output)
        self._head = bytes(schema.serialize())
        self._text = self.form in ("csv", "tsv", "jsonl")

    def part(self, path: str | Path) -> Part:
        """Rows of a text format are staged as they will be in the file; others as Arrow."""
        if not self._text:
            return arrow_part(path, self._head)
        buffer = io.BytesIO()
        sink = writers._SINKS[self.form](buffer, self.schema)

        def encode(batch: Any) -> bytes:
            buffer.seek(0)
            buffer.truncate()
            sink.write(batch)
            return buffer.getvalue()

        return Part(path, encode, b"", b"")

    def last(self) -> int:
        """The greatest push number in the names of the committed parts."""
        return max((name.until for name, _ in parts_in(self._folder)), default=0)

    def commit(self, parts: Sequence[tuple[PartName, Path]]) -> None:
        """One rename for each."""
        for name, path in parts:
            os.replace(path, self._folder / str(name).replace(".part", f"{self._again}.part"))
        sync(self._folder)
        sync(parts[0][1].parent)

    def finish(self) -> None:
        """Put the whole file together beside its name, then under it."""
        parts = [path for _, path in parts_in(self._folder)]
        if self._text:
            self._join_text(parts)
            return
        with writers.open_writer(self.path, self.schema, self.form) as writer:
            for batch in _batches(parts, self.schema):
                writer.write(batch)

    def _join_text(self, parts: list[Path]) -> None:
        target = os.path.realpath(self.path)
        head = io.BytesIO()
        writers._SINKS[self.form](head, self.schema)
        claim = Claim()
        aside = temporary_name(target)
        try:
            sweep(target)
            with open(aside, "xb") as file:  # a file or a link that somebody put there is never written to
                claim(file)
                out: Any = Packer(file) if self.packed else file
                out.write(head.getvalue())
                for path in parts:
                    with open(path, "rb", opener=no_links) as part:
                        shutil.copyfileobj(part, out, 1 << 20)
                if self.packed:
                    out.close()
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, target)
            sync(os.path.dirname(target))
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(aside)
            raise DataError(
                f"{self.path}: cannot be written: {error.strerror or error}; its rows are safe in the state folder: run the same command again"
            ) from None
        finally:
            claim.release()


class TableTarget:
    """A table: a transaction for each epoch."""

    def __init__(self, table: Table, run: str, schema: Any, *, again: str = "") -> None:
        self.schema, self._table, self._query = schema, table, run + again
        self._head = bytes(schema.serialize())

    def part(self, path: str | Path) -> Part:
        """Rows as Arrow."""
        return arrow_part(path, self._head)

    def last(self) -> int:
        """What the table itself remembers."""
        return self._table.last(self._query) or 0

    def commit(self, parts: Sequence[tuple[PartName, Path]]) -> None:
        """One transaction for each; the part is not needed any more then."""
        for name, path in parts:
            with open(path, "rb", opener=no_links) as file, pa.ipc.open_stream(file) as reader:
                self._table.write(reader, self._query, name.until)
            os.unlink(path)

    def finish(self) -> None:
        """Nothing is left to do."""


def arrow_part(path: str | Path, head: bytes) -> Part:
    """A part that is an Arrow stream; its head is the schema."""
    # The end of a stream is four bytes of ones and a length of zero.
    return Part(path, lambda batch: batch.serialize(), head, b"\xff\xff\xff\xff\0\0\0\0")


def _batches(parts: list[Path], schema: Any) -> Iterator[Any]:
    """The rows of all parts, in batches of one size wherever the parts ended."""
    waiting: list[Any] = []
    count = 0
    for path in parts:
        with open(path, "rb", opener=no_links) as file, pa.ipc.open_stream(file) as reader:
            for batch in reader:
                while count + batch.num_rows >= _ROWS:
                    cut = _ROWS - count
                    yield _one([*waiting, batch.slice(0, cut)], schema)
                    waiting, count, batch = [], 0, batch.slice(cut)
                if batch.num_rows:
                    waiting.append(batch)
                    count += batch.num_rows
    if waiting:
        yield _one(waiting, schema)


def _one(batches: list[Any], schema: Any) -> Any:
    columns = [pa.concat_arrays([b.column(j) for b in batches]) for j in range(len(schema))]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
