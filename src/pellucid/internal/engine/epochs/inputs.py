"""The inputs of a run with epochs: read from any row on, several files as one, in the order that columns say.

* A snapshot keeps the number of the next row and where to look for it: the byte at which a block of lines begins, a row
  group of Parquet, a record batch of Arrow.  (What is packed, and an Arrow stream, is read from the start again.)  Text
  may have grown at its end; so a last line without its end is held back: more of it may come (`Lane`).
* Of several files it keeps the number of the file, and the marks of the files before it.  Files that are added behind
  the last are read when the run resumes; one that comes before what was read is refused (`ManyLane`).
* A *mark* says whether a file is still the one that was read: a change would be replayed into another history.  It has
  the file's size and times, and a checksum of what was read: of plain text the bytes up to a line's end; of Parquet the
  index, and of each row group the pages of the columns that are read; of Arrow files the columns that are read of each
  record batch; of what is packed, and of Arrow streams, the bytes up to where the reader was.  The checksum of the last
  three is CRC-32 and Adler-32 together: a packed file has a CRC-32 of its content at its end, which, where the content
  is stored as it is, makes that of the whole file the same whatever the content.  Where size and times are the same,
  and much was read, the content is not looked at.
* Where an order is asked for and the rows are not in it, they are sorted in memory before the run begins, and what is
  needed of them is written into the state folder: a kill finds the same rows at the same pushes.  ``order.json`` says
  whether that was so, of how many pushes, and of which files; it is written when all is there, and no task starts
  before.  Several inputs meet by their order: the copy of each has a column that says in which pushes it has a row.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError, option
from pellucid.internal.base.files import Draft, beside
from pellucid.internal.data.arrow import column_at, numpy_of, source_columns
from pellucid.internal.data.arrow_files import ArrowReader, ParquetReader, row_place
from pellucid.internal.data.bind import Binding, Place, together
from pellucid.internal.data.cells import NEVER, Missing
from pellucid.internal.data.columns import Strings
from pellucid.internal.data.feed import Feed, looked_at, sorted_tables, wanted_columns
from pellucid.internal.data.files import Found, format_of, open_reader, part_value, parts_of
from pellucid.internal.data.text import BOM, Block, Chunk, TextReader, blocks
from pellucid.internal.engine.epochs.messages import Events
from pellucid.internal.expr.types import Type

if TYPE_CHECKING:
    from pellucid.internal.engine.epochs.job import Job

_SURE = 64 << 20  # bytes: so much is compared also where size and times have not changed
_PIECE = 1 << 20
_START = 1 << 32  # of the checksum: Adler-32 begins with 1


class ReadMark:
    """What of a file was read, other than plain lines: how many units, and their checksum; ``mark`` is what a snapshot
    had of it."""

    def __init__(self, path: str, unit: str, columns: Iterable[str], mark: Mapping[str, Any] | None) -> None:
        self.path, self.unit, self.columns = path, unit, sorted(columns)
        went_on = mark is not None and mark.get("unit") == unit
        self.count: int = mark["count"] if mark is not None and went_on else 0
        self.crc: int = mark["crc"] if mark is not None and went_on else _START

    def group(self, reader: ParquetReader, number: int) -> None:
        """A row group is about to be read."""
        if number >= self.count:
            with open(self.path, "rb", buffering=0) as file:
                if not self.count:
                    self.crc = _bytes(file, *_footer(self.path), _START)
                for at in range(self.count, number + 1):
                    self.crc = _group(file, reader, at, self.columns, self.crc)
            self.count = number + 1

    def batch(self, number: int, batch: Any) -> None:
        """A record batch of an Arrow file was read."""
        if number == self.count:
            self.count, self.crc = number + 1, _batch(batch, self.crc)

    def upto(self, byte: int) -> None:
        """Something in these first bytes was read."""
        if byte > self.count:
            with open(self.path, "rb", buffering=0) as file:
                self.crc = _bytes(file, self.count, byte - self.count, self.crc)
            self.count = byte

    def document(self) -> dict[str, Any]:
        """For a snapshot."""
        return {"unit": self.unit, "count": self.count, "crc": self.crc, "columns": self.columns}


def stamp(stat: os.stat_result) -> dict[str, int]:
    """The size and the times of a file."""
    return {"size": stat.st_size, "time": stat.st_mtime_ns, "changed": stat.st_ctime_ns}


def check_unchanged(path: str, at: Mapping[str, Any], *, thorough: bool, form: str | None = None) -> None:
    """Refuse a file whose part that was read is not what it was."""
    mark = at["mark"]
    what = (
        "since the last run: what was read of it can not be read again. Bring the old file back, or start anew in "
        "another state folder"
    )
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file: the run in this state folder was reading it; bring it back") from None
    same = all(mark[name] == value for name, value in stamp(stat).items())
    if "read" in mark:
        if stat.st_size < mark["read"]:
            raise DataError(
                f"{path}: has changed {what} (it has {stat.st_size:,} bytes now, {mark['read']:,} were read)"
            )
        if (not same or (thorough and mark["read"] <= _SURE)) and _prefix(path, mark["read"]) != mark["crc"]:
            raise DataError(f"{path}: has changed {what} (its first {mark['read']:,} bytes are not the same)")
        if stat.st_size > mark["read"] and not _ends_line(path, mark["read"]):
            raise DataError(
                f"{path}: has grown, but its last line was not finished when it was read: put a line end after byte "
                f"{mark['read']:,} and start anew"
            )
    elif "unit" in mark:
        if stat.st_size != mark["size"]:
            raise DataError(f"{path}: has changed {what} (only plain CSV and JSON Lines can grow)")
        if (
            (not same or (thorough and mark["size"] <= _SURE))
            and mark["count"]
            and _again(path, mark, form) != mark["crc"]
        ):
            raise DataError(f"{path}: has changed {what} (its first {mark['count']:,} {mark['unit']} are not the same)")


def _again(path: str, mark: Mapping[str, Any], form: str | None) -> int | None:
    """The checksum of what was read, of the file as it is now; None if it cannot be read so."""
    read = ReadMark(path, mark["unit"], mark["columns"], None)
    if mark["unit"] == "bytes":
        read.upto(mark["count"])
        return read.crc
    try:
        reader = open_reader(path, form)
    except DataError:
        return None
    try:
        if isinstance(reader, ParquetReader) and mark["count"] <= reader.file.metadata.num_row_groups:
            read.group(reader, mark["count"] - 1)
        elif isinstance(reader, ArrowReader) and reader.whole:
            for number, batch in reader.batches(mark["columns"]):
                read.batch(number, batch)
                if read.count == mark["count"]:
                    break
    except DataError:
        return None
    finally:
        reader.close()
    return read.crc if read.count == mark["count"] else None


# ---------------------------------------------------------------- checksums


def _sum(data: Any, before: int) -> int:
    """CRC-32 and Adler-32 of what came before and this: both go on from where they were."""
    return zlib.adler32(data, before >> 32) << 32 | zlib.crc32(data, before & 0xFFFFFFFF)


def _bytes(file: Any, begin: int, size: int, before: int) -> int:
    for data in _pieces(file, begin, size):
        before = _sum(data, before)
    return before


def _pieces(file: Any, begin: int, size: int) -> Iterator[bytes]:
    file.seek(begin)
    while size > 0 and (data := file.read(min(size, _PIECE))):
        size -= len(data)
        yield data


def _footer(path: str) -> tuple[int, int]:
    """Where the index of a Parquet file is, and its bytes: the last eight say how long it is."""
    size = os.path.getsize(path)
    with open(path, "rb", buffering=0) as file:
        file.seek(max(0, size - 8))
        length = min(int.from_bytes(file.read(4), "little") + 8, size)
    return size - length, length


def _group(file: Any, reader: ParquetReader, number: int, columns: Iterable[str], crc: int) -> int:
    """Of the pages of some columns in a row group."""
    for column in reader.pages_in(number, columns):
        crc = _bytes(file, column.begin, column.size, crc)
    return crc


def _batch(batch: Any, crc: int) -> int:
    for column in batch.columns:
        for buffer in _buffers(column):
            crc = _sum(buffer, crc) if buffer is not None else crc
    return crc


def _buffers(column: Any) -> Iterator[Any]:
    yield from column.buffers()
    if hasattr(column, "dictionary"):
        yield from column.dictionary.buffers()


def _prefix(path: str, size: int) -> int:
    with open(path, "rb", buffering=0) as file:
        begin = len(BOM) if file.read(len(BOM)) == BOM else 0
        crc = 0
        for data in _pieces(file, begin, size - begin):
            crc = zlib.crc32(data, crc)
        return crc


def _ends_line(path: str, size: int) -> bool:
    if size == 0:
        return True
    with open(path, "rb", buffering=0) as file:
        file.seek(size - 1)
        return file.read(1) == b"\n"


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


@dataclass(frozen=True)
class Reading:
    """Which columns of an input are read, and how."""

    rows: int  # of a batch
    bound: Sequence[Binding] = ()
    key: Mapping[str, Type] = field(default_factory=dict)
    wide: bool = False
    limit: int | None = None
    keep: Collection[str] = ()  # columns that are read as they are
    typed: Mapping[str, Type] = field(default_factory=dict)  # and those that are read as a source reads them
    lenient: bool = False  # rows that cannot be read are noted
    missing: Missing = NEVER  # words for nothing
    whole: bool = False  # nothing is added to a text: a last line without its end is a line

    def columns(self) -> dict[str, Type]:
        """The columns that sources read."""
        return wanted_columns(list(self.bound), self.key)

    def at_most(self, count: int, row: int) -> int:
        """How many of so many rows may be read from a row on."""
        return count if self.limit is None else min(count, self.limit - row)


class InputLane:
    """What a source task reads: rows from some row on, for the sources that they feed."""

    def __init__(self, path: str, reading: Reading, at: Mapping[str, Any] | None) -> None:
        self.path, self.reading, self.bound = path, reading, reading.bound
        self.row = int(at["row"]) if at else 0  # the next
        self.last: tuple[Place, Any] | None = None  # the rows that were taken last, and where they are from

    def take(self, count: int) -> tuple[int, dict[str, Events]]:
        """Up to ``count`` rows (fewer only at the end): how many, and the events of each source."""
        first = self.row
        have, pieces, places = self.pieces(count)
        found, self.last = events_of(self.path, self.reading, pieces, places, first) if have else ({}, None)
        return have, found

    def pieces(self, count: int) -> tuple[int, list[Any], list[tuple[int, Place]]]:
        """Up to ``count`` rows: how many, their batches, and the places of those."""
        raise NotImplementedError

    def _at_limit(self) -> bool:
        return self.reading.limit is not None and self.row >= self.reading.limit


class Lane(InputLane):
    """A file; ``parts`` are columns that the names of its folders say."""

    def __init__(
        self, path: str, form: str | None, reading: Reading, at: Mapping[str, Any] | None = None,
        parts: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        super().__init__(path, reading, at)
        self.parts = parts
        self._keep = [name for name in reading.keep if name not in parts]
        self.kind, self.packed = format_of(path, form)
        self.ended = False
        self._seek: dict[str, int] = dict(at["seek"]) if at else {"row": 0}
        self._stat = os.stat(path)
        self._waiting: list[Chunk] = []
        self._left = 0
        self._blocks: _Counted | None = None
        self._read: ReadMark | None = None  # of what is no plain text
        self._before = at["mark"] if at else None
        self._empty = os.path.getsize(path) == 0 and self.kind != "parquet"
        self._chunks = iter(()) if self._empty else self._open(form, reading.rows)
        self._skip = self.row - self._seek["row"]
        self._end: dict[str, int] = {}  # of a text that was read to its end

    # ------------------------------------------------------------ opening

    def _open(self, form: str | None, rows: int) -> Iterator[Chunk]:
        read = {**self.reading.columns(), **self.reading.typed}
        wanted = {n: t for n, t in read.items() if n not in self.parts}
        self._reader: Any = open_reader(self.path, form)
        if isinstance(self._reader, TextReader):
            self._reader.missing = self.reading.missing
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
        self._read = ReadMark(self.path, unit, [*wanted, *self._keep], self._before)
        if isinstance(self._reader, ParquetReader):
            return self._parquet(self._reader, wanted, rows)
        if isinstance(self._reader, ArrowReader) and self._reader.whole:
            return self._arrow(self._reader, wanted, rows)
        self._seek = {"row": 0}
        return self._from_the_start(self._read, wanted, rows)

    def _how(self, wanted: Mapping[str, Type]) -> dict[str, Any]:
        nulls = wanted if self.reading.wide else self.reading.key
        return {"nulls": nulls, "keep": self._keep, "lenient": self.reading.lenient}

    def _from_the_start(self, read: ReadMark, wanted: Mapping[str, Type], rows: int) -> Iterator[Chunk]:
        for chunk in self._reader.chunks(wanted, rows=rows, **self._how(wanted)):
            read.upto(chunk.done)
            yield chunk
        read.upto(self._stat.st_size)

    def _text(self, reader: Any, wanted: Mapping[str, Type], rows: int, base: int) -> Iterator[Chunk]:
        at, lines, crc = (self._seek.get(k, 0) for k in ("byte", "lines", "crc"))
        self._blocks = _Counted(self.path, self.kind != "jsonl", at, lines, crc, whole=self.reading.whole)
        reader.go_on_with(self._blocks, row=base, header=at == 0)
        last = -1
        for chunk in reader.chunks(wanted, rows=rows, **self._how(wanted)):
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
        said: dict[str, Any] = {"keep": self._keep, "lenient": self.reading.lenient}
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
        for number, batch in reader.batches([*wanted, *self._keep], self._seek.get("batch", 0)):
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
        return (self.ended and not self._left) or self._at_limit()

    def pieces(self, count: int) -> tuple[int, list[Any], list[tuple[int, Place]]]:
        """Up to ``count`` rows: how many, their batches, and the places of those."""
        count = self.reading.at_most(count, self.row)
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


def events_of(
    path: str, reading: Reading, pieces: list[Any], places: list[tuple[int, Place]], first: int
) -> tuple[dict[str, Events], tuple[Place, Any]]:
    """The events of each source in some batches, of which the first row has this number; and these rows, with their
    place."""
    batch = pieces[0] if len(pieces) == 1 else _table(pieces, places)
    place = together(path, places)
    here = np.flatnonzero(numpy_of(column_at(batch, THERE))) if THERE in batch.schema.names else None
    if here is not None and len(here) < batch.num_rows:
        there = here
        batch, place = batch.take(pa.array(there)), place.picked(lambda i: int(there[i]))
    else:
        here = None
    out = {}
    for binding in reading.bound:
        columns, mask, keys = source_columns(binding, batch, place, silent=reading.wide)
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


class ManyLane(InputLane):
    """Files that are read one after the other."""

    def __init__(
        self, name: str, files: Sequence[Found], form: str | None, reading: Reading,
        at: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name, reading, at)
        self._files, self._form = list(files), form
        self._parts = parts_of(self._files)
        self._sizes = [os.path.getsize(one.path) for one in files]
        self._done: list[list[Any]] = [list(one) for one in at["done"]] if at else []  # paths and marks
        self._lane = self._open(at["inner"] if at else None)

    def _open(self, at: Mapping[str, Any] | None) -> Lane:
        one = self._files[len(self._done)]
        parts = {name: pa.scalar(part_value(one, name, kind), kind) for name, kind in self._parts.items()}
        reading = replace(self.reading, limit=None, whole=self.reading.whole or not self._at_last)
        return Lane(one.path, self._form, reading, at, parts)

    @property
    def _at_last(self) -> bool:
        return len(self._done) == len(self._files) - 1

    @property
    def ended(self) -> bool:
        """Whether nothing more is to be read."""
        return self._at_last and self._lane.ended and self._lane.exhausted

    @property
    def exhausted(self) -> bool:
        """Whether nothing more will come."""
        return (self._at_last and self._lane.exhausted) or self._at_limit()

    def pieces(self, count: int) -> tuple[int, list[Any], list[tuple[int, Place]]]:
        """Up to ``count`` rows: how many, their batches, and the places of those."""
        count = self.reading.at_most(count, self.row)
        pieces: list[Any] = []
        places: list[tuple[int, Place]] = []
        have = 0
        while have < count:
            got, more, where = self._lane.pieces(count - have)
            pieces += more
            places += where
            have += got
            if have < count:
                if self._at_last:
                    break
                self._next()
        self.row += have
        return have, pieces, places

    def look(self) -> None:
        """See whether there is one row more: then `exhausted` is sure."""
        self._lane.look()
        while self._lane.exhausted and not self._at_last:
            self._next()
            self._lane.look()

    def _next(self) -> None:
        self._done.append([self._files[len(self._done)].path, self._lane.offset()["mark"]])
        self._lane.close()
        self._lane = self._open(None)

    def share(self) -> float | None:
        """How much is read."""
        at = len(self._done)
        inner = self._lane.share() or 0.0
        return (sum(self._sizes[:at]) + inner * self._sizes[at]) / max(1, sum(self._sizes))

    def offset(self) -> dict[str, Any]:
        """Where it is, and the marks of all that was read."""
        done = list(self._done)  # a snapshot is written later, when more may be done
        return {"row": self.row, "ended": self.ended, "done": done, "inner": self._lane.offset()}

    def held_back(self) -> str | None:
        """What of the last file was not read, as it is no whole line yet; in words."""
        return self._lane.held_back() if self._at_last else None

    def close(self) -> None:
        """Close the files."""
        self._lane.close()


def check_files(
    name: str, files: Sequence[Found], at: Mapping[str, Any], *, thorough: bool, form: str | None = None
) -> None:
    """Refuse files of which something that was read is not what it was."""
    now = [one.path for one in files]
    before = [path for path, _ in at["done"]]
    for i, path in enumerate(before):
        if i >= len(now) or now[i] != path:
            if path not in now:
                raise DataError(
                    f"{path}: no such file in {name}: the run in this state folder has read it; bring it back"
                )
            raise DataError(
                f"{now[i]}: is new, and comes before {path}, which was read: what is added must come behind the last "
                "file; take it away, or start anew in another state folder"
            )
    if len(before) >= len(now):
        raise DataError(f"{name}: the file that the run in this state folder was reading is gone: bring it back")
    for path, mark in at["done"]:
        check_unchanged(path, {"mark": mark}, thorough=False, form=form)
    check_unchanged(now[len(before)], at["inner"], thorough=thorough, form=form)


_SAID = "order.json"
_ROWS = 1 << 16  # of a record batch of the copy


def look_at_order(job: Job) -> None:
    """Whether the rows are in order, and how many pushes they are; an order that is not total is refused, before
    anything is written."""
    if not job.along.order:
        return
    said = job.store.read(_SAID)
    if said is not None and (said["sorted"] or _same(job, said["files"])):
        job.is_sorted, job.count = said["sorted"], said["count"]
        return
    with contextlib.ExitStack() as stack:
        feed = _feed(job, stack)
        lineup = looked_at(feed, feed._lanes, lambda reader: reader)
    job.is_sorted, job.count = not lineup.as_they_came, lineup.count
    if said is not None and job.is_sorted:
        names = " and ".join(path for path, _ in job.lanes.values())
        raise DataError(
            f"{names}: of the rows that were added, some do not come after all that were read, by "
            f"{option('order', job.along.order)}: append rows in order, or start in another state folder, which sorts "
            "all of them"
        )


def put_in_order(job: Job) -> None:
    """Sort what is not in order; from then on its copy is read."""
    if not job.along.order:
        return
    said = job.store.read(_SAID)
    if said is None or (not said["sorted"] and not _same(job, said["files"])):
        if job.is_sorted:
            _sort(job)
        job.store.write(_SAID, {"sorted": job.is_sorted, "count": job.count, "files": _marks(job)})
    elif said["sorted"] and not _same(job, said["files"]):
        names = " and ".join(path for path, _ in job.lanes.values())
        raise DataError(
            f"{names}: has changed since the run in this state folder began, and was sorted then by "
            f"{option('order', job.along.order)}: bring the old file back, or start anew in another state folder"
        )
    if job.is_sorted:
        # the order's columns are times there, and no texts any more
        formats = {column: form for column, form in job.settings.time_format.items() if column not in job.along.order}
        job.lanes = {
            name: (str(_copy(job, name)), [replace(one, formats=formats) for one in bound])
            for name, (_, bound) in job.lanes.items()
        }
        job.files = {name: [Found(path)] for name, (path, _) in job.lanes.items()}


def _feed(job: Job, stack: contextlib.ExitStack) -> Feed:
    s = job.settings
    readers = {
        source: stack.enter_context(contextlib.closing(open_reader(path, s.in_format)))
        for source, path in job.inputs.items()
    }
    return Feed(
        job.graph, readers, value=s.value, key=s.key, order=s.order, late=s.late, keep=s.keep,
        rows=s.chunk, formats=s.time_format, nan=s.nan, nulls=s.nulls,
    )  # fmt: skip


def _copy(job: Job, name: str) -> Any:
    return job.store.folder("sorted") / f"{name}.arrow"


def _sort(job: Job) -> None:
    with contextlib.ExitStack() as stack:
        feed = _feed(job, stack)
        tables = sorted_tables(feed, feed._lanes, feed._keeps, THERE)
    for name, table in zip(job.lanes, tables, strict=True):
        path = _copy(job, name)
        with Draft(beside(path), over=True) as draft:
            with pa.ipc.new_file(draft.file, table.schema) as writer:
                writer.write_table(table, max_chunksize=_ROWS)
            draft.place(path)


def _marks(job: Job) -> dict[str, list[list[Any]]]:
    """Of each input its files, with their sizes, times and checksums."""
    out: dict[str, list[list[Any]]] = {}
    for name, files in job.files.items():
        out[name] = []
        for one in files:
            mark = ReadMark(one.path, "bytes", (), None)
            stat = os.stat(one.path)
            mark.upto(stat.st_size)
            out[name].append([os.path.abspath(one.path), {**stamp(stat), **mark.document()}])
    return out


def _same(job: Job, before: Mapping[str, Sequence[Any]]) -> bool:
    """Whether all files are what they were."""
    now = {name: [os.path.abspath(one.path) for one in files] for name, files in job.files.items()}
    if now != {name: [path for path, _ in files] for name, files in before.items()}:
        return False
    try:
        for files in before.values():
            for path, mark in files:
                check_unchanged(path, {"mark": mark}, thorough=False)
    except DataError:
        return False
    return True
