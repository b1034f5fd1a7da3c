"""CSV and JSON Lines, block by block.

A block is a few megabytes of whole lines, so memory stays bounded whatever the file's size, and a pipe or a
compressed file is read the same way.  Arrow's parser does the work; where it refuses a block, ``exact`` finds the row.
"""

from __future__ import annotations

import contextlib
import csv
import json
import select
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json

from pellucid.data import exact
from pellucid.data.arrow import arrow_type
from pellucid.data.bind import Place
from pellucid.errors import DataError
from pellucid.expr.types import EnumType, Type

__all__ = ["BLOCK", "Block", "Chunk", "CsvReader", "JsonLinesReader", "blocks"]

BLOCK = 4 << 20
_LONGEST = 64 << 20


@dataclass(frozen=True)
class Chunk:
    """Some rows of an input: a record batch, the absolute number of its first row, and how far the input is read.

    ``done`` of ``total`` is for a progress bar (bytes or rows; ``total`` is 0 where nobody knows it).
    """

    batch: Any
    first: int
    done: int
    total: int
    place: Place


@dataclass(frozen=True)
class Block:
    """Whole lines of a text: the bytes, the number of lines before them, whether they are the last."""

    data: bytes
    lines: int
    done: int
    last: bool


def blocks(
    stream: Any, name: str, *, size: int = BLOCK, quotes: bool = False, tell: Callable[[], int] | None = None
) -> Iterator[Block]:
    """Cut a byte stream into blocks of whole lines (with ``quotes``: not inside a quoted CSV value).

    >>> import io
    >>> [b.data for b in blocks(io.BytesIO(b"1\\n2\\n3"), "x", size=3)]
    [b'1\\n', b'2\\n', b'3']
    """
    carry, lines, read = b"", 0, 0
    while True:
        data = _read(stream, size, name)
        read += len(data)
        done = tell() if tell is not None else read
        if not data:
            break
        if not lines and not carry and data.startswith(b"\xef\xbb\xbf"):
            data = data[3:]
        carry += data
        cut = _cut(carry, quotes)
        if cut:
            yield Block(carry[:cut], lines, done, False)
            lines += carry.count(b"\n", 0, cut)
            carry = carry[cut:]
        elif len(carry) > _LONGEST:
            what = "a quoted value does not end" if quotes and carry.count(b'"') % 2 else "the line is too long"
            raise DataError(f"{name}: line {lines + 1:,}: {what} within 64 MB: is this the right format?")
    if carry:
        yield Block(carry, lines, done, True)


def _read(stream: Any, size: int, name: str) -> bytes:
    """Up to ``size`` bytes; from a pipe what is there, so that a slow writer is not waited for."""
    try:
        if not hasattr(stream, "read1") or not getattr(stream, "pellucid_pipe", False):
            return bytes(stream.read(size))
        parts = [stream.read1(size)]
        while parts[-1] and sum(map(len, parts)) < size and select.select([stream], [], [], 0)[0]:
            parts.append(stream.read1(size))
        return b"".join(parts)
    except (EOFError, zlib.error) as error:
        raise DataError(f"{name}: the compressed file is damaged or cut off ({error})") from None
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror or error}") from None


def _cut(data: bytes, quotes: bool) -> int:
    """Where the last whole line ends."""
    end = data.rfind(b"\n") + 1
    if not end or not quotes or data.find(b'"', 0, end) < 0:
        return end
    raw = np.frombuffer(data, dtype=np.uint8, count=end)
    marks = np.flatnonzero((raw == 34) | (raw == 10))
    inside = np.cumsum(raw[marks] == 34) % 2  # a doubled quote leaves and enters again
    ends = marks[(raw[marks] == 10) & (inside == 0)]
    return int(ends[-1]) + 1 if len(ends) else 0


class _TextReader:
    """What CSV and JSON Lines share."""

    def __init__(self, name: str, pieces: Iterator[Block], total: int, close: Callable[[], None] | None) -> None:
        self.name = name
        self._close = close
        self.names: list[str] = []
        self.total = total
        self._first: Block | None = next(pieces, None)
        self._pieces = pieces
        self._before = 0  # rows that were read in another way

    def go_on_with(self, pieces: Iterator[Block], *, row: int, header: bool) -> None:
        """Read other blocks of the same file, whose first row has this number; with ``header`` the header is in the first of them."""
        if not header or next(pieces, None) is None:
            self._first = None
        self._pieces, self._before = pieces, row

    def chunks(self, wanted: Mapping[str, Type], *, rows: int, silent: bool = False) -> Iterator[Chunk]:
        """The wanted columns, at most ``rows`` rows at a time."""
        first = 0
        for block in self._blocks():
            if self._nothing(block.data):
                continue
            place = self._place(block, self._before + first)
            batch = self._batch(block, wanted, place, silent)
            for start in range(0, batch.num_rows, rows):
                part = batch.slice(start, rows)
                shifted = Place(place.name, lambda i, start=start, place=place: place.row(start + i))  # type: ignore[misc]
                yield Chunk(part, first + start, block.done, self.total, shifted)
            first += batch.num_rows

    def close(self) -> None:
        """Close the file; the standard input stays open."""
        if self._close is not None:
            self._close()

    def _blocks(self) -> Iterator[Block]:
        if self._first is not None:
            yield self._first
        self._first = None
        yield from self._pieces

    def _place(self, block: Block, first: int) -> Place:
        return Place(self.name, lambda i: f"row {first + i + 1:,} (line {block.lines + self._line(block, i) + 1:,})")

    def _nothing(self, data: bytes) -> bool:
        """Whether there is no row in these lines."""
        return not data.strip()

    def _line(self, block: Block, row: int) -> int:
        raise NotImplementedError

    def _batch(self, block: Block, wanted: Mapping[str, Type], place: Place, silent: bool) -> Any:
        raise NotImplementedError


class CsvReader(_TextReader):
    """A CSV file with a header line.

    In a file of one column an empty line is an empty cell; in one of several it is no row.
    """

    def __init__(
        self,
        name: str,
        pieces: Iterator[Block],
        total: int,
        close: Callable[[], None] | None = None,
        delimiter: str = ",",
    ) -> None:
        super().__init__(name, pieces, total, close)
        self.delimiter = delimiter
        self._types: dict[str, Any] = {}
        if self._first is None or not self._first.data.strip():
            raise DataError(f"{name}: is empty: expected a header line with the columns' names")
        head = self._first
        rows = exact.csv_rows(head.data, delimiter, blank=True)
        try:
            header = next(row for _, row in rows if row != [""])
        except csv.Error as error:
            raise DataError(f"{name}: line 1: no header line of a CSV file ({error})") from None
        self.names = [column.strip() for column in header]
        twice = next((n for n in self.names if self.names.count(n) > 1), None)
        if twice is not None:
            raise DataError(f"{name}: two columns are called {twice!r}: rename one")
        if len(self.names) == 1 and any(c in self.names[0] for c in ";\t"):
            raise DataError(
                f"{name}: its header is one column {self.names[0]!r}: its fields must be parted by commas "
                "(or by tabs, with --in-format tsv)"
            )
        self.single = len(self.names) == 1
        begin = next((line for line, row in rows if self.single or row != [""]), None)
        if begin is None:
            self._first = Block(b"", head.lines, head.done, head.last)
        else:
            cut = _nth_line(head.data, begin)
            self._first = Block(head.data[cut:], head.lines + begin, head.done, head.last)

    def field_type(self, column: str) -> Any:
        """The Arrow type that the first rows of a column suggest: int64, bool or string."""
        found = pa.string()
        if self._first is not None and not self._nothing(self._first.data):
            with contextlib.suppress(pa.ArrowInvalid):  # reading for real will say what is wrong, with its row
                found = self._parse(self._first.data, {}, [column], silent=False).schema.field(column).type
        return found if pa.types.is_integer(found) or pa.types.is_boolean(found) else pa.string()

    def _line(self, block: Block, row: int) -> int:
        return exact.csv_lines(block.data, self.delimiter, row, self.single)

    def _nothing(self, data: bytes) -> bool:
        return not (data if self.single else data.strip(b"\r\n"))

    def _parse(self, data: bytes, types: dict[str, Any], columns: list[str], silent: bool) -> Any:
        return arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(column_names=self.names, block_size=1 << 20),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=b'"' in data, ignore_empty_lines=not self.single
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=columns,
                null_values=[""],
                strings_can_be_null=silent,
                quoted_strings_can_be_null=False,
            ),
        )

    def _batch(self, block: Block, wanted: Mapping[str, Type], place: Place, silent: bool) -> Any:
        types = {name: arrow_type(t) for name, t in wanted.items()}
        try:
            table = self._parse(block.data, types, list(wanted), silent)
            return pa.RecordBatch.from_arrays([_whole(table.column(n), types[n]) for n in wanted], names=list(wanted))
        except (pa.ArrowInvalid, pa.ArrowCapacityError, UnicodeDecodeError):
            pass
        try:
            found = exact.csv_columns(block.data, self.delimiter, self.names, wanted, place, block.last, silent)
        except csv.Error as error:
            raise DataError(f"{self.name}: after line {block.lines:,}: not a CSV file ({error})") from None
        return pa.RecordBatch.from_arrays([pa.array(found[n], types[n]) for n in wanted], names=list(wanted))


def _nth_line(data: bytes, n: int) -> int:
    at = 0
    for _ in range(n):
        at = data.index(b"\n", at) + 1
    return at


def _whole(column: Any, t: Any) -> Any:
    """A chunked column as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], t)


class JsonLinesReader(_TextReader):
    """JSON Lines: an object on each line, or, for one scalar source, the value itself.

    ``assumed`` names the kind of input for which this format was assumed, as nobody said which it is.
    """

    def __init__(
        self,
        name: str,
        pieces: Iterator[Block],
        total: int,
        close: Callable[[], None] | None = None,
        assumed: str | None = None,
    ) -> None:
        super().__init__(name, pieces, total, close)
        self._assumed = assumed
        self.bare, self.blank = False, True
        self._sample: list[dict[str, Any]] = []
        if self._first is None:
            return
        place = self._place(self._first, 0)
        for i, (_, line) in enumerate(exact.json_lines(self._first.data)):
            if i >= 1000:
                break
            if i == 0 and line.lstrip().startswith(b"["):
                raise DataError(
                    f"{name}: is one JSON array: expected a JSON value on each line; convert it, for example with jq -c '.[]'"
                )
            if i == 0 and not line.lstrip().startswith(b"{"):
                self.bare = True
                if assumed is not None:
                    with self._doubting():
                        exact.json_value(line, place, 0, self._first.last and not self._first.data.endswith(b"\n"))
                break
            if i == 0:
                value = exact.json_value(line, place, 0, self._first.last and not self._first.data.endswith(b"\n"))
            else:
                try:
                    value = json.loads(line)
                except ValueError:
                    break  # reading for real will say what is wrong, with its row
            if isinstance(value, dict):
                self._sample.append(value)
        self.blank = not self.bare and not self._sample
        self.names = ["value"] if self.bare else list(dict.fromkeys(p for v in self._sample for p in _paths(v)))

    @contextlib.contextmanager
    def _doubting(self) -> Iterator[None]:
        """Where the format was only assumed, an error in the very first line may mean that it is another."""
        try:
            yield
        except DataError as error:
            if self._assumed is None or not str(error).startswith(f"{self.name}: row 1 "):
                raise
            raise DataError(
                f"{error}; JSON Lines is assumed on {self._assumed}: for CSV give --in-format csv"
            ) from None

    def field_type(self, column: str) -> Any:
        """The Arrow type that the first rows of a column suggest."""
        for value in self._sample:
            found = exact.json_path(value, column)
            if found is not None:
                return pa.scalar(found).type if isinstance(found, (bool, int, float, str)) else pa.null()
        return pa.string()

    def _line(self, block: Block, row: int) -> int:
        return next((n for i, (n, _) in enumerate(exact.json_lines(block.data)) if i == row), 0)

    def _schema(self, wanted: Mapping[str, Type]) -> Any:
        """Flat fields, or nested ones where the first objects nest them."""
        tree: dict[str, Any] = {}
        for path, t in wanted.items():
            kind = arrow_type(t)
            if isinstance(t, EnumType):
                kind = self.field_type(path)
                kind = pa.string() if self.bare or pa.types.is_null(kind) else kind
            flat = self.bare or "." not in path or any(path in v for v in self._sample) or path not in self.names
            parts = [path] if flat else path.split(".")
            at = tree
            for part in parts[:-1]:
                at = at.setdefault(part, {})
            at[parts[-1]] = kind
        return _struct(tree)

    def _batch(self, block: Block, wanted: Mapping[str, Type], place: Place, silent: bool) -> Any:
        bare = next(iter(wanted)) if self.bare else None
        data = block.data
        try:
            if not data.isascii():
                data.decode("utf-8")  # Arrow takes texts as they come
            if bare is not None:
                field = b'{"' + bare.encode() + b'":'
                data = b"\n".join(field + line + b"}" for _, line in exact.json_lines(data)) + b"\n"
            table = arrow_json.read_json(
                pa.BufferReader(data),
                read_options=arrow_json.ReadOptions(block_size=len(data) + 1),
                parse_options=arrow_json.ParseOptions(
                    explicit_schema=self._schema(wanted), unexpected_field_behavior="ignore"
                ),
            )
            return table.combine_chunks().to_batches()[0]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError, IndexError):
            with self._doubting() if bare is not None else contextlib.nullcontext():
                found = exact.json_columns(block.data, wanted, place, block.last, bare)
        return pa.RecordBatch.from_arrays(
            [pa.array(found[n], arrow_type(t)) for n, t in wanted.items()], names=list(wanted)
        )


def _paths(value: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from _paths(inner, f"{prefix}{key}.")
        else:
            yield prefix + key


def _struct(tree: dict[str, Any]) -> Any:
    fields = [(n, _struct_type(t) if isinstance(t, dict) else t) for n, t in tree.items()]
    return pa.schema(fields)


def _struct_type(tree: dict[str, Any]) -> Any:
    return pa.struct([(n, _struct_type(t) if isinstance(t, dict) else t) for n, t in tree.items()])
