"""Several files as one input, one after the other; messages name the file and the row in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pellucid.errors import DataError, nearest
from pellucid.internal.data.bind import below, together
from pellucid.internal.data.blocks import BLOCK
from pellucid.internal.data.formats.missing import NEVER, Missing
from pellucid.internal.data.tables.folders import Found, part_value, parts_of
from pellucid.internal.expr.types import Type

if TYPE_CHECKING:
    from pellucid.internal.data.files import Reader
    from pellucid.internal.data.text import Chunk

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
