"""What a Parquet file says of its columns and pages, read without Arrow.

Two things in a damaged file end a process before Arrow can say what is wrong: the header of a page that claims
gigabytes, which Arrow takes before it looks at the page; and facts about a column that contradict each other, which
Arrow notices in C++ and ends the process, when Python asks it about the column.  So the index, and the headers of
the pages of small files, are read here first (Thrift's compact protocol, of which only places and sizes matter).
What cannot be read here is left to Arrow to complain of.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError
from pellucid.internal.data.arrow import column_at, column_names, columns_of_nothing, numpy_of, type_at
from pellucid.internal.data.bind import Place, below, refuse_twice
from pellucid.internal.data.cells import inner_type
from pellucid.internal.data.text import SMALL, Chunk
from pellucid.internal.expr.types import STR, Type

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


# Formats that Arrow reads without parsing: Parquet, Arrow files (also Feather 2) and Arrow streams.
#
# What such a file says of itself (lengths, offsets, indices, the encoding of texts) is believed by everything that
# touches its memory: a damaged file would end the process with a signal.  So nothing of a batch is touched before Arrow
# has checked all of it, and whatever Arrow has against a file is one :class:`~pellucid.errors.DataError`.

# What Arrow raises for a file that is not what it says: also a length that no memory holds, a name that is no text.
_DAMAGE = (
    pa.ArrowException,
    OSError,
    EOFError,
    MemoryError,
    ValueError,
    LookupError,
    OverflowError,
    TypeError,
    NotImplementedError,
)


@contextlib.contextmanager
def _refusing(message: str) -> Iterator[None]:
    """Whatever Arrow says of a damaged file, as an error that begins with this message."""
    try:
        yield
    except DataError:
        raise
    except _DAMAGE as error:
        raise DataError(f"{message} ({_short(error)})") from None


class _Typed:
    """A file that says the types of its columns."""

    _schema: Any

    @property
    def columns(self) -> list[str]:
        """The columns as they are, structs whole."""
        return list(self._schema.names)

    @cached_property
    def nothing(self) -> list[str]:
        """The columns whose type says that no row holds anything."""
        return columns_of_nothing(self._schema)

    def kept_type(self, column: str) -> Any:
        """The Arrow type of a column as it is."""
        return self._schema.field(column).type

    def field_type(self, column: str) -> Any:
        """The Arrow type of a column."""
        return type_at(self._schema, column)


class ParquetReader(_Typed):
    """A Parquet file."""

    def __init__(self, path: str) -> None:
        self.name = path
        self._opened: list[Any] = []
        self._size = os.path.getsize(path)
        if self._size == 0:
            raise DataError(f"{path}: is empty (0 bytes): expected a Parquet file")
        with _refusing(_not_whole(path, "Parquet")):
            self.file = self._open()
            self._schema = self.file.schema_arrow
            self.names = column_names(self._schema)
            self.total = self.file.metadata.num_rows
        refuse_twice(path, self.names)

    def _open(self, **options: Any) -> Any:
        import pyarrow.parquet as parquet

        # Small buffers and no pre-buffering: else a whole row group, however large, would be in memory.  Times of the
        # old kind (INT96, Spark's default) are nanoseconds to Arrow, which wrap around in the year 2262.
        said = {"coerce_int96_timestamp_unit": "us", **options}
        file = parquet.ParquetFile(
            self.name, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True, **said
        )
        self._opened.append(file)
        return file

    @cached_property
    def pages(self) -> list[list[Pages]] | None:
        """Of each row group the pages of its columns, if its index is not too large to be read here."""
        return pages_of(self.name)

    def pages_in(self, group: int, wanted: Iterable[str]) -> list[Pages]:
        """The pages of these columns in a row group."""
        heads = tuple(f"{name}." for name in wanted)
        if self.pages is not None and group < len(self.pages):
            return [column for column in self.pages[group] if f"{column.path}.".startswith(heads)]
        if not is_large(self.file.metadata):
            raise DataError(f"{_not_whole(self.name, 'Parquet')} (its index does not say where row group {group} is)")
        found, schema = self.file.metadata.row_group(group), self.file.metadata.schema
        places = [i for i in range(len(schema)) if f"{schema.column(i).path}.".startswith(heads)]
        facts = [found.column(i) for i in places]
        return [
            Pages(
                c.path_in_schema,
                min(at for at in (c.dictionary_page_offset, c.data_page_offset) if at),
                c.total_compressed_size,
                c.total_uncompressed_size,
            )
            for c in facts
        ]

    def chunks(
        self,
        wanted: Mapping[str, Type],
        *,
        rows: int,
        nulls: Collection[str] = (),
        keep: Collection[str] = (),
        lenient: bool = False,
    ) -> Iterator[Chunk]:
        """The wanted columns, and those to keep, at most ``rows`` rows at a time."""
        names = [*wanted, *(name for name in keep if name not in wanted)]
        file = self._reopened(wanted, keep)
        for first, batch, place in self._batches(file, names, rows, 0, None, self.total, lenient=lenient):
            yield Chunk(batch, first, first + batch.num_rows, self.total, place)
            del batch  # not kept while the next one is read

    def groups(
        self,
        wanted: Mapping[str, Type],
        *,
        rows: int,
        first: int,
        group: int,
        keep: Collection[str] = (),
        lenient: bool = False,
    ) -> Iterator[tuple[int, int, Any, Place]]:
        """The same from a row group on: the group, the number of a batch's first row, the batch and its place."""
        file = self._reopened(wanted, keep)
        names = [*wanted, *(name for name in keep if name not in wanted)]
        with _refusing(_not_whole(self.name, "Parquet")):
            sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        for number in range(group, len(sizes)):
            end = first + sizes[number]
            for at, batch, place in self._batches(file, names, rows, first, [number], end, lenient=lenient):
                yield number, at, batch, place
            first += sizes[number]
        if first != self.total:
            raise DataError(f"{self._after(first)} (its index says {self.total:,} rows)")

    def _reopened(self, wanted: Mapping[str, Type], keep: Collection[str] = ()) -> Any:
        """The file, with columns of texts as codes."""
        texts = [c for c, t in wanted.items() if inner_type(t) == STR and pa.types.is_string(self.field_type(c))]
        texts += [c for c in keep if c not in wanted and pa.types.is_string(self.kept_type(c))]
        with _refusing(_not_whole(self.name, "Parquet")):
            refuse_huge_pages(self.name, self.pages, [*wanted, *keep])
            return self._open(read_dictionary=texts, metadata=self.file.metadata) if texts else self.file

    def _old_times(self, wanted: Sequence[str]) -> list[str]:
        """Of these columns, and of what is inside them, those that hold times of the old kind."""
        schema = self.file.schema
        found = [schema.column(i).path for i in range(len(schema)) if schema.column(i).physical_type == "INT96"]
        found = [path for path in found if any(f"{path}.".startswith(f"{name}.") for name in wanted)]
        for path in found:
            if path not in self.names:
                raise DataError(
                    f"{self.name}: the column {path!r} holds times of the kind INT96 in a list: write them as "
                    "timestamps (in Spark: spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS)"
                )
        return found

    def _batches(
        self,
        file: Any,
        wanted: Sequence[str],
        rows: int,
        first: int,
        groups: list[int] | None,
        end: int,
        *,
        lenient: bool,
    ) -> Iterator[tuple[int, Any, Place]]:
        with _refusing(self._after(first)):
            there = list(dict.fromkeys(below(name, self.nothing) or name for name in wanted))
            batches = file.iter_batches(
                batch_size=rows, row_groups=groups, columns=there, use_threads=self._size > SMALL
            )
            old = self._old_times(wanted)
            fine = _Fine(self._open(coerce_int96_timestamp_unit="ns"), old, rows, groups) if old else None
        while True:
            batch = None
            with _refusing(self._after(first)):
                batch = next(batches, None)
                if batch is not None:
                    batch.validate(full=True)
            if batch is None:
                break
            count, place = batch.num_rows, row_place(self.name, first)
            place = replace(place, bad={}) if lenient else place
            if fine is not None:
                with _refusing(self._after(first)):
                    fine.compare(batch, place)
            yield first, batch, place
            first += count
        if first != end:
            raise DataError(f"{self._after(first)} (its index says {end:,} rows up to here)")

    def _after(self, row: int) -> str:
        return f"{self.name}: cannot be read after row {row:,}: it is damaged or cut off"

    def close(self) -> None:
        """Close the file."""
        for file in self._opened:
            file.close()


class _Fine:
    """Times of the old kind once more, as nanoseconds, so that none is lost without a word: whether they wrap around or
    not, a whole microsecond is a thousand of them."""

    def __init__(self, file: Any, columns: list[str], rows: int, groups: list[int] | None) -> None:
        self.columns = columns
        self._batches = file.iter_batches(batch_size=rows, row_groups=groups, columns=columns)
        self._rest: list[Any] = []

    def _take(self, count: int) -> Any:
        """The next rows; batches of other columns may be cut elsewhere."""
        have = sum(batch.num_rows for batch in self._rest)
        while have < count:
            self._rest.append(next(self._batches))
            have += self._rest[-1].num_rows
        table = pa.Table.from_batches(self._rest)
        self._rest = table.slice(count).to_batches()
        return table.slice(0, count)

    def compare(self, batch: Any, place: Place) -> None:
        """Refuse a time that has a part of a microsecond."""
        fine = self._take(batch.num_rows)
        for path in self.columns:
            micros, nanos = (numpy_of(column_at(table, path).view(pa.int64()).fill_null(0)) for table in (batch, fine))
            more = nanos - micros * 1000  # both wrap around
            place.refuse_all(np.flatnonzero(more).tolist(), _too_fine(path, column_at(batch, path), more), path)


def _too_fine(path: str, column: Any, more: Any) -> Callable[[int], str]:
    return lambda i: (
        f"column {path!r}: {column[i]} has {more[i]} nanosecond{'' if more[i] == 1 else 's'} more, and a time has "
        "whole microseconds: round it first"
    )


class ArrowReader(_Typed):
    """An Arrow file (also Feather 2) or an Arrow stream; ``whole`` says that it is a file, with an index at its end."""

    def __init__(self, name: str, stream: Any, size: int, *, piped: bool = False) -> None:
        self.name, self._stream, self._size = name, stream, size
        if size == 0 and not piped:
            raise DataError(f"{name}: is empty (0 bytes): expected an Arrow file")
        self.whole = False
        if not piped:
            magic = bytes(stream.read(6))
            stream.seek(0)
            if magic[:4] == b"FEA1":
                raise DataError(f"{name}: is Feather version 1: write it again as version 2 (an Arrow file)")
            self.whole = magic == b"ARROW1"
        with _refusing(_not_whole(name, "Arrow")):
            self._reader = self._open()
            self._schema = self._reader.schema
            self.names = column_names(self._schema)
            self.total = self._reader.num_record_batches if self.whole else size
        refuse_twice(name, self.names)
        for column in self._schema:
            _refuse_scale(name, column.name, column.type)

    def _open(self, options: Any = None) -> Any:
        return (pa.ipc.open_file if self.whole else pa.ipc.open_stream)(self._stream, options=options)

    def batches(self, wanted: Iterable[str], start: int = 0) -> Iterator[tuple[int, Any]]:
        """The record batches with their numbers; of a file only the wanted columns, from any batch on."""
        heads = _heads(self._schema.names, wanted)
        if self.whole:
            with _refusing(_not_whole(self.name, "Arrow")):
                self._reader = self._open(pa.ipc.IpcReadOptions(included_fields=heads))
        number = start
        while not self.whole or number < self.total:
            with _refusing(f"{self.name}: cannot be read after record batch {number:,}: it is damaged or cut off"):
                try:
                    batch = (
                        self._reader.get_batch(number) if self.whole else self._reader.read_next_batch().select(heads)
                    )
                except StopIteration:
                    return
                batch.validate(full=True)
            yield number, batch
            number += 1

    def chunks(
        self,
        wanted: Mapping[str, Type],
        *,
        rows: int,
        nulls: Collection[str] = (),
        keep: Collection[str] = (),
        lenient: bool = False,
    ) -> Iterator[Chunk]:
        """The wanted columns, and those to keep, at most ``rows`` rows at a time."""
        first = 0
        for number, batch in self.batches([*wanted, *keep]):
            done = number + 1 if self.whole else self._stream.tell() if self._size else 0
            for start in range(0, batch.num_rows, rows):
                at = first + start
                yield Chunk(batch.slice(start, rows), at, done, self.total, row_place(self.name, at))
            first += batch.num_rows

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def _refuse_scale(name: str, column: str, t: Any) -> None:
    """No decimal has more than 76 digits; Arrow takes any scale that a damaged file says, and computing with it is a
    signal.

    >>> _refuse_scale("a.arrow", "price", pa.list_(pa.decimal128(18, 8192002)))
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: a.arrow: column 'price' holds decimal128(18, 8192002): it is damaged
    """
    if pa.types.is_decimal(t) and abs(t.scale) > 76:
        raise DataError(f"{name}: column {column!r} holds {t}: it is damaged")
    inside = [t.value_type] if pa.types.is_dictionary(t) else [t.field(i).type for i in range(t.num_fields)]
    for part in inside:
        _refuse_scale(name, column, part)


def _heads(names: list[str], wanted: Iterable[str]) -> list[int]:
    """The columns, by number, that hold these paths.

    >>> _heads(["a", "b", "c.d"], ["b.x", "c.d"])
    [1, 2]
    """
    paths = {path[:i] for path in wanted for i in range(len(path) + 1) if i == len(path) or path[i] == "."}
    return [i for i, name in enumerate(names) if name in paths]


def row_place(name: str, first: int) -> Place:
    """The place of a batch whose first row has this number (from 0)."""
    return Place(name, lambda i: f"row {first + i + 1:,}")


def _not_whole(name: str, form: str) -> str:
    return f"{name}: is no whole {form} file: it seems cut off, or is of another format"


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 120 else text[:119] + "…"
