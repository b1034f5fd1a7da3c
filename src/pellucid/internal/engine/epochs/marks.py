"""Whether an input is still the file that was read: a change would be replayed into another history.

A mark has the file's size and times, and a checksum of *what was read*, in whatever unit the format is read in:

* lines of plain text: the bytes up to a line's end; the file may have grown behind them;
* Parquet: its index, and of each row group the pages of the columns that are read;
* Arrow files: of each record batch the columns that are read;
* what is packed, and Arrow streams: the bytes up to where the reader was.

The checksum of the last three is CRC-32 and Adler-32 together: a packed file has a CRC-32 of its content at its end,
which, where the content is stored as it is, makes that of the whole file the same whatever the content.

Where size and times are the same, and much was read, the content is not looked at.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pellucid.errors import DataError
from pellucid.internal.data.binary import ArrowReader, ParquetReader
from pellucid.internal.data.blocks import BOM
from pellucid.internal.data.files import open_reader

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
