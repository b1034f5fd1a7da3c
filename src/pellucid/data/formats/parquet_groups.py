"""One Parquet file whose row groups are packed by several threads.

Arrow packs a file's row groups one after the other, all columns of one in one thread: on two cores one waits.  Here
each row group is packed as a file of its own in memory, several at a time, and the files become one: the bytes of a
group go to the target as they are, in order, and the footer at the end has all groups, each with its offsets moved by
as much as its bytes were.  Whatever the number of threads, the bytes are the same.

A footer is a structure of Thrift's compact protocol (``parquet.thrift`` of the Parquet format has the fields).  It is
read here without knowing more of it than which fields are offsets and counts: everything else goes through as it came.
Arrow reads the footer once more before the file is closed, and must find every group where it is.
"""

from __future__ import annotations

import os
import struct
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import pyarrow as pa

MAGIC = b"PAR1"

# ---------------------------------------------------------------- Thrift's compact protocol

STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)

Fields = dict[int, tuple[int, Any]]  # of a structure: number → type and value, in the order in which they came


class Footer:
    """A structure as it is read and written.

    >>> footer = bytes([0x15, 0x04, 0x19, 0x26, 0x02, 0x80, 0x01, 0x00])
    >>> fields = Footer(footer).structure()
    >>> fields
    {1: (5, 2), 2: (9, (6, [1, 64]))}
    >>> written(fields) == footer
    True
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, n: int) -> bytes:
        self._at += n
        return self._data[self._at - n : self._at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _zigzag(self) -> int:
        n = self._varint()
        return (n >> 1) ^ -(n & 1)

    def structure(self) -> Fields:
        fields: Fields = {}
        number = 0
        while (head := self._byte()) != STOP:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 0x0F
            # In a structure, truth is in the type itself.
            fields[number] = kind, None if kind in (TRUE, FALSE) else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (I16, I32, I64):
            return self._zigzag()
        if kind in (TRUE, FALSE, BYTE):  # in a list, truth is a byte
            return self._byte()
        if kind == DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind in (LIST, SET):
            head = self._byte()
            size = head >> 4 if head >> 4 != 15 else self._varint()
            return head & 0x0F, [self._value(head & 0x0F) for _ in range(size)]
        if kind == STRUCT:
            return self.structure()
        raise ValueError(f"a footer with a value of Thrift's type {kind}")  # a map: Parquet has none


def written(fields: Fields) -> bytes:
    """A structure's bytes."""
    out = bytearray()
    _put_structure(out, fields)
    return bytes(out)


def _put_varint(out: bytearray, n: int) -> None:
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)


def _put_zigzag(out: bytearray, n: int) -> None:
    _put_varint(out, (n << 1) ^ (n >> 63))


def _put_structure(out: bytearray, fields: Fields) -> None:
    before = 0
    for number, (kind, value) in fields.items():
        if 0 < number - before < 16:
            out.append(number - before << 4 | kind)
        else:
            out.append(kind)
            _put_zigzag(out, number)
        before = number
        if kind not in (TRUE, FALSE):
            _put_value(out, kind, value)
    out.append(STOP)


def _put_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in (I16, I32, I64):
        _put_zigzag(out, value)
    elif kind in (TRUE, FALSE, BYTE):
        out.append(value)
    elif kind == DOUBLE:
        out += struct.pack("<d", value)
    elif kind == BINARY:
        _put_varint(out, len(value))
        out += value
    elif kind in (LIST, SET):
        inner, items = value
        out.append(min(len(items), 15) << 4 | inner)
        if len(items) >= 15:
            _put_varint(out, len(items))
        for item in items:
            _put_value(out, inner, item)
    else:
        _put_structure(out, value)


# ---------------------------------------------------------------- footers of Parquet

# The fields' numbers, as in parquet.thrift.
ROWS, GROUPS = 3, 4  # FileMetaData
COLUMNS, GROUP_OFFSET, ORDINAL = 1, 5, 7  # RowGroup
CHUNK_OFFSETS, CHUNK = (2, 4, 6), 3  # ColumnChunk: of itself, of its two indexes; what is said of it
PAGE_OFFSETS = (9, 10, 11, 14)  # ColumnMetaData: first page, index page, dictionary page, Bloom filter
ORDINALS = 1 << 15  # a group's number has sixteen bits


def _move(fields: Fields, numbers: tuple[int, ...], by: int) -> None:
    """Zero is what stands for an offset that nobody knows: no page can be where the magic is."""
    for number in numbers:
        if number in fields and fields[number][1]:
            kind, offset = fields[number]
            fields[number] = kind, offset + by


class _Packed(NamedTuple):
    """A row group: its bytes, and the footer of the file that it was alone in."""

    data: memoryview
    footer: Fields


def _split(file: Any) -> _Packed:
    view = memoryview(file)
    length = int.from_bytes(view[-8:-4], "little")
    return _Packed(view[len(MAGIC) : -8 - length], Footer(bytes(view[-8 - length : -8])).structure())


class ParquetGroups:
    """A file of row groups; ``opened(stream)`` makes Arrow's writer for a stream, the same for each group.

    >>> import io, pyarrow.parquet as parquet
    >>> table = pa.table({"plane": ["N1", "N2", "N1"], "delay": [5, None, 7]})
    >>> file = io.BytesIO()
    >>> groups = ParquetGroups(file, lambda stream: parquet.ParquetWriter(stream, table.schema))
    >>> for n in range(3):
    ...     groups.write(table.slice(n, 1))
    >>> groups.close()
    >>> parquet.read_table(file).equals(table), parquet.ParquetFile(file).metadata.num_row_groups
    (True, 3)
    """

    def __init__(self, stream: Any, opened: Callable[[Any], Any], threads: int | None = None) -> None:
        self._stream, self._opened = stream, opened
        self._threads = threads or max(1, min(4, len(os.sched_getaffinity(0))))
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="pellucid-write")
        self._packing: deque[Future[_Packed]] = deque()
        self._footer: Fields | None = None
        self._groups: list[Fields] = []
        self._at = 0

    def write(self, table: Any) -> None:
        """Have a row group packed; what went wrong with an earlier one is said here."""
        while len(self._packing) >= self._threads:
            self._append(self._packing.popleft().result())
        self._packing.append(self._pool.submit(self._pack, table))

    def _pack(self, table: Any) -> _Packed:
        file = pa.BufferOutputStream()
        writer = self._opened(file)
        if table is not None:
            writer.write_table(table)
        writer.close()
        return _split(file.getvalue())

    def _append(self, packed: _Packed) -> None:
        if not self._at:
            self._put(MAGIC)
        for group in packed.footer[GROUPS][1][1]:
            by = self._at - len(MAGIC)
            _move(group, (GROUP_OFFSET,), by)
            for chunk in group[COLUMNS][1][1]:
                _move(chunk, CHUNK_OFFSETS, by)
                _move(chunk[CHUNK][1], PAGE_OFFSETS, by)
            if ORDINAL in group:
                if len(self._groups) < ORDINALS:
                    group[ORDINAL] = I16, len(self._groups)
                else:
                    del group[ORDINAL]  # it need not be there
            self._groups.append(group)
        if self._footer is None:
            self._footer = packed.footer
        else:
            kind, rows = self._footer[ROWS]
            self._footer[ROWS] = kind, rows + packed.footer[ROWS][1]
        self._put(packed.data)

    def _put(self, data: bytes | memoryview) -> None:
        self._stream.write(data)
        self._at += len(data)

    def close(self) -> None:
        """Write what is still being packed, and the footer."""
        if self._footer is None and not self._packing:
            self.write(None)  # a file without rows has a schema all the same
        while self._packing:
            self._append(self._packing.popleft().result())
        self._pool.shutdown()
        footer = self._footer
        assert footer is not None
        footer[GROUPS] = LIST, (STRUCT, self._groups)
        end = written(footer)
        self._look(MAGIC + end + len(end).to_bytes(4, "little") + MAGIC, footer[ROWS][1])
        self._put(end + len(end).to_bytes(4, "little") + MAGIC)

    def _look(self, footer: bytes, rows: int) -> None:
        """Whether Arrow sees the groups one after the other, as they were written."""
        import pyarrow.parquet as parquet

        seen = parquet.read_metadata(pa.BufferReader(footer))
        at, found = len(MAGIC), 0
        for n in range(seen.num_row_groups):
            group = seen.row_group(n)
            found += group.num_rows
            for c in range(group.num_columns):
                column = group.column(c)
                if (column.dictionary_page_offset or column.data_page_offset) != at:
                    raise RuntimeError(f"row group {n} of a Parquet file is not where its footer says")
                at += column.total_compressed_size
        if (at, found, seen.num_rows) != (self._at, rows, rows):
            raise RuntimeError(f"a Parquet file of {rows} rows has a footer of {found} rows in {at} bytes")

    def abandon(self) -> None:
        """Stop: the file is not wanted."""
        self._pool.shutdown(cancel_futures=True)
        self._packing.clear()
