"""One input, read from any row on: what a source needs to be replayable.

A snapshot keeps the number of the next row and where to look for it: the byte at which a block of lines begins, a row
group of Parquet, a record batch of Arrow.  (What is packed, and an Arrow stream, is read from the start again.)

A snapshot also keeps what says whether the file is still the one that was read (`engine.epochs.marks`).  Text
may have grown at its end; so a last line without its end is held back: more of it may come.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError
from pellucid.internal.data.arrow import column_at, numpy_of, source_columns
from pellucid.internal.data.binary import ArrowReader, ParquetReader, row_place
from pellucid.internal.data.bind import Binding, Place, together
from pellucid.internal.data.blocks import BOM, Block, blocks
from pellucid.internal.data.columns import Strings
from pellucid.internal.data.feed import wanted_columns
from pellucid.internal.data.files import format_of, open_reader
from pellucid.internal.data.formats.missing import NEVER, Missing
from pellucid.internal.data.text import Chunk, TextReader
from pellucid.internal.engine.epochs.marks import ReadMark, stamp
from pellucid.internal.engine.epochs.tasks.messages import Events
from pellucid.internal.expr.types import Type

_PIECES = 8
THERE = "\0there"  # of a copy that is in order: the column that says in which pushes the input has a row


class _Counted:
    """Blocks of lines, with the byte at which each begins and the checksum of all before it."""

    def __init__(
        self, path: str, quotes: bool, at: int = 0, lines: int = 0, crc: int = 0, *, whole: bool = False
    ) -> None:
        self.whole = whole  # nothing more is added to it: a last line without its end is a line
        self.raw = open(path, "rb", buffering=0)  # noqa: SIM115 - closed with the lane
        self.raw.seek(at)
        self.start, self.lines, self.crc = at, lines, crc  # of the block that was handed out last
        self.read = at, lines, crc  # all that was read
        self.held = 0  # bytes at the end that are no whole line
        self._blocks = self._counted(path, quotes, lines)

    def _counted(self, path: str, quotes: bool, lines: int) -> Iterator[Block]:
        begins = self.read[0] == 0
        if begins and self.raw.read(len(BOM)) == BOM:
            self.read, begins = (len(BOM), 0, 0), False
        self.raw.seek(self.read[0])
        for block in blocks(self.raw, path, quotes=quotes, tell=self.raw.tell, begins=begins):
            self.start, self.lines, self.crc = self.read
            if (
                block.last and not self.whole
            ):  # a line without its end: the file may be growing, and the rest of the line on its way
                self.held = len(block.data)
                break
            self.read = (
                self.start + len(block.data),
                self.lines + block.data.count(b"\n"),
                zlib.crc32(block.data, self.crc),
            )
            yield replace(block, lines=block.lines + lines)
        self.start, self.lines, self.crc = self.read

    def __iter__(self) -> Iterator[Block]:
        return self._blocks

    def __next__(self) -> Block:
        return next(self._blocks)


class Lane:
    """An input and the sources that it feeds, from some row on."""

    def __init__(
        self,
        path: str,
        form: str | None,
        bound: list[Binding],
        *,
        key: Mapping[str, Type] | None,
        rows: int,
        wide: bool,
        limit: int | None = None,
        at: Mapping[str, Any] | None = None,
        parts: Mapping[str, Any] = MappingProxyType({}),  # columns that the names of the folders say
        whole: bool = False,
        keep: Collection[str] = (),  # columns that are read as they are
        typed: Mapping[str, Type] = MappingProxyType({}),  # and those that are read as a source reads them
        lenient: bool = False,  # rows that cannot be read are noted
        missing: Missing = NEVER,  # words for nothing
    ) -> None:
        self._missing = missing
        self.lenient = lenient
        self.last: tuple[Place, Any] | None = None  # the rows that were taken last, and where they are from
        self._typed = typed
        self.parts, self.whole = parts, whole
        self.keep = [name for name in keep if name not in parts]
        self.path, self.bound, self.key, self.wide, self.limit = path, bound, key or {}, wide, limit
        self.kind, self.packed = format_of(path, form)
        self.row = int(at["row"]) if at else 0  # the next
        self.ended = False
        self._seek: dict[str, int] = dict(at["seek"]) if at else {"row": 0}
        self._stat = os.stat(path)
        self._waiting: list[Chunk] = []
        self._left = 0
        self._blocks: _Counted | None = None
        self._read: ReadMark | None = None  # of what is no plain text
        self._before = at["mark"] if at else None
        self._empty = os.path.getsize(path) == 0 and self.kind != "parquet"
        self._chunks = iter(()) if self._empty else self._open(form, rows)
        self._skip = self.row - self._seek["row"]
        self._end: dict[str, int] = {}  # of a text that was read to its end

    # ------------------------------------------------------------ opening

    def _open(self, form: str | None, rows: int) -> Iterator[Chunk]:
        read = {**wanted_columns(self.bound, self.key), **self._typed}
        wanted = {n: t for n, t in read.items() if n not in self.parts}
        self._reader: Any = open_reader(self.path, form)
        if isinstance(self._reader, TextReader):
            self._reader.missing = self._missing
        base = self._seek["row"]
        if isinstance(self._reader, TextReader) and not self.packed:
            return self._text(self._reader, wanted, rows, base)
        unit = (
            "row groups"
            if self.kind == "parquet"
            else "record batches"
            if isinstance(self._reader, ArrowReader) and self._reader.whole
            else "bytes"
        )
        self._read = ReadMark(self.path, unit, [*wanted, *self.keep], self._before)
        if isinstance(self._reader, ParquetReader):
            return self._parquet(self._reader, wanted, rows)
        if isinstance(self._reader, ArrowReader) and self._reader.whole:
            return self._arrow(self._reader, wanted, rows)
        self._seek = {"row": 0}
        return self._from_the_start(self._read, wanted, rows)

    def _from_the_start(self, read: ReadMark, wanted: Mapping[str, Type], rows: int) -> Iterator[Chunk]:
        nulls = wanted if self.wide else self.key
        for chunk in self._reader.chunks(wanted, rows=rows, nulls=nulls, keep=self.keep, lenient=self.lenient):
            read.upto(chunk.done)
            yield chunk
        read.upto(self._stat.st_size)

    def _text(self, reader: Any, wanted: Mapping[str, Type], rows: int, base: int) -> Iterator[Chunk]:
        at, lines, crc = (self._seek.get(k, 0) for k in ("byte", "lines", "crc"))
        self._blocks = _Counted(self.path, self.kind != "jsonl", at, lines, crc, whole=self.whole)
        reader.go_on_with(self._blocks, row=base, header=at == 0)
        last = -1
        nulls = wanted if self.wide else self.key
        for chunk in reader.chunks(wanted, rows=rows, nulls=nulls, keep=self.keep, lenient=self.lenient):
            if self._blocks.start != last:
                last = self._blocks.start
                where = {"row": base + chunk.first, "byte": last, "lines": self._blocks.lines, "crc": self._blocks.crc}
                if last <= 3:
                    where = {"row": 0}
            yield _Chunk(chunk, base, where)
        self._end = {"byte": self._blocks.start, "lines": self._blocks.lines, "crc": self._blocks.crc}

    def _parquet(self, reader: ParquetReader, wanted: Mapping[str, Type], rows: int) -> Iterator[Chunk]:
        assert self._read is not None
        where = {"row": self._seek["row"], "group": self._seek.get("group", 0)}
        # Larger pieces than are asked for: what lies within one of them is not copied when it is taken.
        said: dict[str, Any] = {"keep": self.keep, "lenient": self.lenient}
        for group, first, batch, place in reader.groups(
            wanted, rows=_PIECES * rows, first=where["row"], group=where["group"], **said
        ):
            if group != where["group"]:
                where = {"row": first, "group": group}
            self._read.group(reader, group)
            yield _Chunk(Chunk(batch, first, first + batch.num_rows, reader.total, place), 0, where)

    def _arrow(self, reader: ArrowReader, wanted: Mapping[str, Type], rows: int) -> Iterator[Chunk]:
        assert self._read is not None
        first = self._seek["row"]
        for number, batch in reader.batches([*wanted, *self.keep], self._seek.get("batch", 0)):
            where = {"row": first, "batch": number}
            self._read.batch(number, batch)
            for start in range(0, batch.num_rows, rows):
                part = batch.slice(start, rows)
                yield _Chunk(
                    Chunk(part, first + start, number, reader.total, row_place(self.path, first + start)), 0, where
                )
            first += batch.num_rows

    # ------------------------------------------------------------ reading

    def share(self) -> float | None:
        """How much is read."""
        if self.exhausted:
            return 1.0
        chunk = self._waiting[-1] if self._waiting else None
        return chunk.done / chunk.total if chunk is not None and chunk.total else None

    @property
    def exhausted(self) -> bool:
        """Whether nothing more will come."""
        return (self.ended and not self._left) or (self.limit is not None and self.row >= self.limit)

    def take(self, count: int) -> tuple[int, dict[str, Events]]:
        """Up to ``count`` rows (fewer only at the end): how many, and the events of each source."""
        first = self.row
        have, pieces, places = self.pieces(count)
        found, self.last = events_of(self, pieces, places, first) if have else ({}, None)
        return have, found

    def pieces(self, count: int) -> tuple[int, list[Any], list[tuple[int, Place]]]:
        """Up to ``count`` rows: how many, their batches, and the places of those."""
        if self.limit is not None:
            count = min(count, self.limit - self.row)
        self._fill(count)
        have = min(count, self._left)
        pieces, places, need = [], [], have
        while need:
            chunk = self._waiting[0]
            size = min(need, chunk.batch.num_rows)
            pieces.append(chunk.batch.slice(0, size))
            places.append((size, chunk.place))
            self._where = getattr(chunk, "where", {"row": 0})
            if size == chunk.batch.num_rows:
                self._waiting.pop(0)
            else:
                self._waiting[0] = _cut(chunk, size)
            need -= size
        self.row, self._left = self.row + have, self._left - have
        if have:
            self._seek = self._where
        return have, [self._said(piece) for piece in pieces], places

    def look(self) -> None:
        """See whether there is one row more: then `exhausted` is sure."""
        self._fill(1)

    def _fill(self, count: int) -> None:
        while self._left < count and not self.ended:
            chunk = next(self._chunks, None)
            if chunk is None:
                self.ended = True
            else:
                skip = min(self._skip, chunk.batch.num_rows)
                self._skip -= skip
                if skip < chunk.batch.num_rows:
                    self._waiting.append(_cut(chunk, skip))
                    self._left += chunk.batch.num_rows - skip

    def _said(self, batch: Any) -> Any:
        """A batch with the columns that the folders say."""
        for name, value in self.parts.items():
            batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
        return batch

    # ------------------------------------------------------------ for a snapshot

    def offset(self) -> dict[str, Any]:
        """Where the lane is, and the mark of its file."""
        seek = dict(self._seek)
        if self.ended and not self._left and self._end:
            seek = {"row": self.row, **self._end}
        mark: dict[str, Any] = dict(stamp(self._stat))
        if self._blocks is not None:
            mark |= {"read": self._blocks.read[0], "crc": self._blocks.read[2]}
        elif self._read is not None:
            mark |= self._read.document()
        return {"row": self.row, "seek": seek, "ended": self.ended and not self._left, "mark": mark}

    def held_back(self) -> str | None:
        """What of the file was not read, as it is no whole line yet; in words."""
        if self._blocks is None or not self._blocks.held or not self.ended:
            return None
        line = self._blocks.lines + 1
        return (
            f"{self.path}: line {line:,} has no end yet and is not read: the same command goes on with it once it "
            "has one (if it is whole, put a line end after it)"
        )

    def close(self) -> None:
        """Close the files."""
        if not self._empty:
            self._reader.close()
        if self._blocks is not None:
            self._blocks.raw.close()


class OfSources(Protocol):
    """What a lane says of its rows."""

    path: str
    bound: list[Binding]
    wide: bool
    lenient: bool


def events_of(
    lane: OfSources, pieces: list[Any], places: list[tuple[int, Place]], first: int
) -> tuple[dict[str, Events], tuple[Place, Any]]:
    """The events of each source in some batches, of which the first row has this number; and these rows, with their
    place."""
    batch = pieces[0] if len(pieces) == 1 else _table(pieces, places)
    place = together(lane.path, places)
    here = np.flatnonzero(numpy_of(column_at(batch, THERE))) if THERE in batch.schema.names else None
    if here is not None and len(here) < batch.num_rows:
        there = here
        batch, place = batch.take(pa.array(there)), place.picked(lambda i: int(there[i]))
    else:
        here = None
    out = {}
    for binding in lane.bound:
        columns, mask, keys = source_columns(binding, batch, place, silent=lane.wide)
        events = Events(columns, None if here is None else here + first, keys)
        if mask is not None and not mask.all():
            rows = np.flatnonzero(mask)
            events = Events(
                [_rows(c, rows) for c in columns], rows + first, [_rows(c, rows) for c in keys] if keys else None
            )
        out[binding.source] = events
    return out, (place, batch)


def _table(pieces: list[Any], places: list[tuple[int, Place]]) -> Any:
    """Batches as one table; files may have columns of other widths."""
    if all(piece.schema.equals(pieces[0].schema) for piece in pieces):
        return pa.Table.from_batches(pieces)
    try:
        return pa.concat_tables([pa.Table.from_batches([piece]) for piece in pieces], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        names = " and ".join(dict.fromkeys(place.name for _, place in places))
        raise DataError(f"{names}: their columns are of several types: {error}") from None


class _Chunk(Chunk):
    """A chunk that knows where its block begins."""

    where: dict[str, int]

    def __init__(self, chunk: Chunk, base: int, where: dict[str, int]) -> None:
        super().__init__(chunk.batch, chunk.first + base, chunk.done, chunk.total, chunk.place)
        object.__setattr__(self, "where", where)


def _cut(chunk: Chunk, skip: int) -> Chunk:
    if not skip:
        return chunk
    cut = Chunk(chunk.batch.slice(skip), chunk.first + skip, chunk.done, chunk.total, chunk.place.shifted(skip))
    return _Chunk(cut, 0, chunk.where) if isinstance(chunk, _Chunk) else cut


def _rows(column: Any, rows: Any) -> Any:
    return Strings(column.codes[rows], column.values) if isinstance(column, Strings) else column[rows]
