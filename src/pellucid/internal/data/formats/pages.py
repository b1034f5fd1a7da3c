"""What a Parquet file says of its columns and pages, read without Arrow.

Two things in a damaged file end a process before Arrow can say what is wrong: the header of a page that claims
gigabytes, which Arrow takes before it looks at the page; and facts about a column that contradict each other, which
Arrow notices where nobody catches it, when Python asks it about the column.  So the index, and the headers of the pages
of small files, are read here first (Thrift's compact protocol, of which only places and sizes matter).  What cannot be
read here is left to Arrow to complain of.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from pellucid.errors import DataError

# a file, or a page that is never too large: in a large file a page can not be larger than the file by much
_SMALL = 64 << 20
_HEADER = 1 << 16
_INDEX = 4 << 20  # bytes of an index that are read here: more takes seconds
# Of the index: the row groups' columns' facts: path, bytes as they are used and as they lie there, first page,
# dictionary.
_PATH, _MEMORY, _SIZE, _FIRST, _CODES = 3, 6, 7, 9, 11
_FACTS = {4: {1: {3: dict.fromkeys((_PATH, _MEMORY, _SIZE, _FIRST, _CODES))}}}
_PAGE: dict[int, None] = dict.fromkeys((2, 3))  # of a page's header: bytes as they are used, and as they lie there


class Pages(NamedTuple):
    """Where the pages of a column in a row group are."""

    path: str
    begin: int
    size: int
    memory: int


def is_large(metadata: Any) -> bool:
    """Whether the index of a file is too large to be read here."""
    return bool(metadata.serialized_size > _INDEX)


def pages_of(path: str) -> list[list[Pages]] | None:
    """Of each row group the pages of its columns; None if the index cannot be read here."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        file.seek(max(0, size - 8))
        length = int.from_bytes(file.read(4), "little")
        if length > min(_INDEX, size - 8):
            return None
        file.seek(size - 8 - length)
        index = _Struct(file.read(length))
    try:
        return [[_pages(column[3]) for column in group[1]] for group in index.fields(_FACTS)[4]]
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _pages(facts: dict[int, Any]) -> Pages:
    path = b".".join(facts[_PATH]).decode()
    begin = facts[_FIRST]
    if facts.get(_CODES):  # some writers say 0 where there is none
        begin = min(begin, facts[_CODES])
    return Pages(path, begin, facts[_SIZE], facts[_MEMORY])


def refuse_huge_pages(path: str, groups: list[list[Pages]] | None, wanted: Iterable[str]) -> None:
    """Refuse a small file in which a page of a wanted column claims more memory than its column says it takes."""
    if groups is None or os.path.getsize(path) >= _SMALL:
        return
    heads = tuple(f"{name}." for name in wanted)
    with open(path, "rb") as file:
        for column in (c for group in groups for c in group if f"{c.path}.".startswith(heads)):
            _walk(path, file, column)


def _walk(path: str, file: Any, column: Pages) -> bool:
    """Look at the headers of a column's pages, as far as they can be read; whether all could."""
    at, end = column.begin, column.begin + column.size
    largest = max(_SMALL, column.memory)
    while 0 <= at < end:
        file.seek(at)
        header = _Struct(file.read(_HEADER))
        try:
            sizes = header.fields(_PAGE)
            large = max(sizes[2], sizes[3])
        except (IndexError, KeyError, TypeError, RecursionError):
            return False
        if large > largest:
            raise DataError(f"{path}: is damaged: a page of the column {column.path!r} would take {large >> 20:,} MB")
        if sizes[3] < 0:
            return False
        at += header.at + sizes[3]
    return at == end


class _Struct:
    """A struct in Thrift's compact protocol; ``at`` is how far it is read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def fields(self, wanted: Any) -> dict[int, Any]:
        """The wanted fields by their numbers; ``wanted`` has what is wanted of each, if it is a struct or a list of
        structs."""
        out: dict[int, Any] = {}
        field = 0
        while True:
            byte = self._byte()
            kind = byte & 0x0F
            if not kind:
                return out
            field = field + (byte >> 4) if byte >> 4 else self._signed()
            if wanted and field in wanted:
                out[field] = self._value(kind, wanted[field])
            else:
                self._skip(kind)

    def _value(self, kind: int, wanted: Any) -> Any:
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 8:
            size = self._varint()
            self.at += size
            return self.data[self.at - size : self.at]
        if kind in (9, 10):
            kind, count = self._list()
            return [self._value(kind, wanted) for _ in range(count)]
        if kind == 12:
            return self.fields(wanted)
        raise IndexError(kind)

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
        elif kind in (9, 10):
            kind, count = self._list()
            if kind in (1, 2):  # truth values: a byte each
                self.at += count
                return
            for _ in range(count):
                self._skip(kind)
        elif kind == 12:
            self.fields(None)
        elif kind not in (1, 2):  # the truth value of a field is its kind
            raise IndexError(kind)

    def _list(self) -> tuple[int, int]:
        """The kind and the number of its items, each of which takes a byte at least."""
        byte = self._byte()
        count = byte >> 4 if byte >> 4 < 15 else self._varint()
        if count > len(self.data) - self.at:
            raise IndexError(count)
        return byte & 0x0F, count

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
