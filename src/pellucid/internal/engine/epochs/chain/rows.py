"""The rows of an upstream's parts, from any row on; and the checksum by which rows are known again.

A part is read only if its seal is right: it is whole, of that run, and what its name says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pellucid.errors import DataError
from pellucid.internal.base.files import no_links
from pellucid.internal.data.binary import ArrowReader
from pellucid.internal.data.blocks import blocks
from pellucid.internal.data.formats.csv import CsvReader
from pellucid.internal.data.formats.jsonl import JsonLinesReader
from pellucid.internal.engine.epochs.chain.upstream import Upstream, View
from pellucid.internal.engine.epochs.parts import PartName, checksum
from pellucid.internal.expr.types import Type

_BLOCK = 1 << 14  # rows that a checksum takes at once


class Digest:
    """A checksum of rows, whatever batches they come in.

    >>> whole, parted = Digest(), Digest()
    >>> batch = pa.record_batch({"x": pa.array([1, None, 3])})
    >>> whole.add(batch)
    >>> parted.add(batch.slice(0, 1)), parted.add(batch.slice(1))
    (None, None)
    >>> whole.text() == parted.text(), whole.text() == Digest().text()
    (True, False)
    """

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._waiting: list[Any] = []
        self._count = 0

    def add(self, batch: Any) -> None:
        """More rows."""
        while batch.num_rows:
            piece = batch.slice(0, _BLOCK - self._count)
            self._waiting.append(piece)
            self._count += piece.num_rows
            batch = batch.slice(piece.num_rows)
            if self._count == _BLOCK:
                self._flush()

    def _flush(self) -> None:
        if self._count:
            columns = [
                part
                for i in range(self._waiting[0].num_columns)
                for part in _parts(pa.concat_arrays([_plain(batch.column(i)) for batch in self._waiting]))
            ]
            whole = [column for column in columns if len(column) == self._count]
            self._hash.update(pa.RecordBatch.from_arrays(whole, [str(i) for i in range(len(whole))]).serialize())
            for column in columns:
                if len(column) != self._count:  # what stands in lists
                    self._hash.update(pa.RecordBatch.from_arrays([column], [""]).serialize())
        self._waiting, self._count = [], 0

    def text(self) -> str:
        """Of all rows; nothing can be added then."""
        self._flush()
        return self._hash.hexdigest()

    def so_far(self) -> str:
        """Of the rows so far; more may come."""
        other = Digest()
        other._hash, other._waiting, other._count = self._hash.copy(), list(self._waiting), self._count
        return other.text()


def _plain(array: Any) -> Any:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _parts(array: Any) -> list[Any]:
    """A column as columns that are equal in all their bytes where its values are equal.

    Below a record or a list that is null there may lie anything: so of these is taken what is there, and what their
    fields or elements are.  Taken anew, the same values have the same bytes: no offset, nothing behind the last bit.
    """
    if pa.types.is_struct(array.type):
        return [array.is_valid(), *(part for field in array.flatten() for part in _parts(field))]
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        lengths = pc.fill_null(pc.list_value_length(array), -1)
        return [lengths, *_parts(array.flatten())]
    return [array.take(pa.array(np.arange(len(array))))]


class PartRows:
    """The rows of one part from some row on; ``FileNotFoundError`` if it is not there any more."""

    def __init__(
        self, upstream: Upstream, part: tuple[int, PartName, Path], row: int, wanted: Mapping[str, Type],
        *, nulls: Collection[str] = (), rows: int = 1 << 16,
    ) -> None:  # fmt: skip
        first, self.name, path = part
        self.left = first + self.name.rows - row  # rows that were not taken yet
        self._file = open(path, "rb", buffering=0, opener=no_links)  # noqa: SIM115 - closed with the part
        if not self.name.sealed(upstream.whose, checksum(path, self.name.size)):
            self._file.close()
            raise DataError(
                f"{path}: is damaged, or of another run than {upstream.name} was: its seal is wrong. Bring it back "
                "from a copy"
            )
        self._batches = self._read(upstream, wanted, nulls, rows)
        self._rest: Any = None
        skip = row - first
        while skip:
            skip -= self._next(skip).num_rows

    def _read(
        self, upstream: Upstream, wanted: Mapping[str, Type], nulls: Collection[str], rows: int
    ) -> Iterator[Any]:  # fmt: skip
        if not upstream.is_text:
            reader = ArrowReader(upstream.name, pa.PythonFile(self._file, "r"), self.name.size)
            yield from (batch for _, batch in reader.batches(wanted))
            return
        stream = _Headed(upstream.head(), self._file)
        pieces = blocks(stream, upstream.name, quotes=upstream.form != "jsonl")
        text: Any
        if upstream.form == "jsonl":
            text = JsonLinesReader(upstream.name, pieces, self.name.size, None)
        else:
            text = CsvReader(upstream.name, pieces, self.name.size, None, "\t" if upstream.form == "tsv" else ",")
        for chunk in text.chunks(wanted, rows=rows, nulls=nulls):
            yield chunk.batch

    def take(self, count: int) -> list[Any]:
        """So many rows, of those that are left."""
        out, need = [], min(count, self.left)
        self.left -= need
        while need:
            out.append(self._next(need))
            need -= out[-1].num_rows
        return out

    def _next(self, most: int) -> Any:
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches)
        piece = self._rest.slice(0, most)
        self._rest = self._rest.slice(piece.num_rows)
        return piece

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _Headed:
    """A file with something before it."""

    def __init__(self, head: bytes, file: Any) -> None:
        self._head, self._file = head, file

    def read(self, size: int) -> bytes:
        if self._head:
            found, self._head = self._head[:size], self._head[size:]
            return found
        return bytes(self._file.read(size))


def digest_of(upstream: Upstream, view: View, begin: int, end: int, wanted: Mapping[str, Type], **said: Any) -> str:
    """The checksum of some rows as they are there now."""
    digest = Digest()
    while begin < end:
        part = view.at(begin)
        if part is None:
            raise FileNotFoundError(upstream.name)
        rows = PartRows(upstream, part, begin, wanted, **said)
        try:
            for batch in rows.take(end - begin):
                digest.add(batch)
                begin += batch.num_rows
        finally:
            rows.close()
    return digest.text()
