"""What the pages of a small Parquet file say of their size.

A page's header says how much memory the page takes; Arrow takes that much before it looks at the page.  In a damaged file that may be
gigabytes for a kilobyte.  So the headers of a small file are looked at first: a page that would be larger than all of its column is refused.
What cannot be read here (Thrift's compact protocol, of which only the sizes matter) is left to Arrow to complain of.  In a large file a page can not
be larger than the file by much, and nothing is looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from pellucid.errors import DataError

__all__ = ["refuse_huge_pages"]

_SMALL = 64 << 20  # a file, or a page that is never too large
_HEADER = 1 << 16


def refuse_huge_pages(path: str, metadata: Any, wanted: Iterable[str]) -> None:
    """Refuse a file in which a page of a wanted column claims more memory than its column says it takes."""
    if os.path.getsize(path) >= _SMALL:
        return
    heads = tuple(f"{name}." for name in wanted)
    with open(path, "rb") as file:
        for group in range(metadata.num_row_groups):
            for number in range(metadata.num_columns):
                column = metadata.row_group(group).column(number)
                if f"{column.path_in_schema}.".startswith(heads):
                    _walk(path, file, column)


def _walk(path: str, file: Any, column: Any) -> bool:
    """Look at the headers of a column's pages, as far as they can be read; whether all could."""
    at = column.data_page_offset
    if column.dictionary_page_offset is not None:
        at = min(at, column.dictionary_page_offset)
    end = at + column.total_compressed_size
    largest = max(_SMALL, column.total_uncompressed_size)
    while 0 <= at < end:
        file.seek(at)
        header = _Header(file.read(_HEADER))
        try:
            sizes = header.sizes()
        except (IndexError, RecursionError):
            return False
        large = max(sizes.get(2, 0), sizes.get(3, 0))
        if large > largest:
            raise DataError(f"{path}: is damaged: a page of the column {column.path_in_schema!r} would take {large >> 20:,} MB")
        if sizes.get(3, -1) < 0:
            return False
        at += header.at + sizes[3]
    return bool(at == end)


class _Header:
    """A struct in Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def sizes(self) -> dict[int, int]:
        """The integers of the outermost struct, by their numbers; afterwards ``at`` is behind it."""
        out: dict[int, int] = {}
        field = 0
        while True:
            field, kind = self._field(field)
            if not kind:
                return out
            if kind in (4, 5, 6):
                out[field] = self._signed()
            else:
                self._skip(kind)

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        out = shift = 0
        while True:
            byte = self._byte()
            out |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift > 70:
                return out

    def _signed(self) -> int:
        raw = self._varint()
        return (raw >> 1) ^ -(raw & 1)

    def _field(self, last: int) -> tuple[int, int]:
        byte = self._byte()
        if not byte & 0x0F:
            return 0, 0
        return (last + (byte >> 4) if byte >> 4 else self._signed()), byte & 0x0F

    def _skip(self, kind: int) -> None:
        if kind == 3:
            self.at += 1
        elif kind in (4, 5, 6):
            self._varint()
        elif kind == 7:
            self.at += 8
        elif kind == 8:
            size = self._varint()
            self.at += size
        elif kind in (9, 10):  # a list: of how many, and of what
            byte = self._byte()
            for _ in range(byte >> 4 if byte >> 4 < 15 else self._varint()):
                self._element(byte & 0x0F)
        elif kind == 12:
            field = 0
            while True:
                field, inner = self._field(field)
                if not inner:
                    return
                self._skip(inner)
        elif kind not in (1, 2):
            raise IndexError(kind)

    def _element(self, kind: int) -> None:
        if self.at >= len(self.data):
            raise IndexError(self.at)
        if kind in (1, 2):
            self.at += 1
        else:
            self._skip(kind)
