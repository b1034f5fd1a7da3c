"""CSV and JSON Lines, block by block.

Arrow's parser does the work.  It is both laxer and stricter than the one meaning that a text has here: what it would
take wrongly is found before or after it, block by block; and where it refuses a block, ``exact`` reads it, or finds the
row.
"""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json

from pellucid.data import exact
from pellucid.data.arrow import arrow_type, column_at, struct_fields
from pellucid.data.bind import Place, refuse_twice
from pellucid.data.blocks import Block, RowsOf, refuse_loose
from pellucid.data.numbers import BLANKS, EXACT, FALSE, INT_CELL, TRUE, WHOLE_CELL
from pellucid.data.spelled import inner_type, is_spelled
from pellucid.data.tables.json_kept import json_type, kept_from_json
from pellucid.errors import DataError, option
from pellucid.expr.types import FLOAT, INT, STR, EnumType, ListType, OptionalType, Type

_ROWS_AT_ONCE = 1 << 20  # bytes that one thread of Arrow's parser takes; a row must fit in


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


class TextReader:
    """What CSV and JSON Lines share."""

    def __init__(self, name: str, pieces: Iterator[Block], total: int, close: Callable[[], None] | None) -> None:
        self.name = name
        self._close = close
        self.names: list[str] = []
        self.total = total
        self._first: Block | None = next(pieces, None)
        self._pieces = pieces
        self._before = 0  # rows that were read in another way
        self._at_hand: tuple[Block, RowsOf] | None = None

    def go_on_with(self, pieces: Iterator[Block], *, row: int, header: bool) -> None:
        """Read other blocks of the same file, whose first row has this number; with ``header`` the header is in the
        first of them."""
        block = next(pieces, None) if header else None
        self._first = None if block is None else self._body(block)
        self._pieces, self._before = pieces, row

    def _body(self, block: Block) -> Block:
        """The first block of a text without a header."""
        return block

    @property
    def empty(self) -> bool:
        """Whether nothing in its first block says what its columns hold."""
        return self._first is None or self._nothing(self._first.data)

    @property
    def columns(self) -> list[str]:
        """The columns that can come along."""
        return list(self.names)

    def kept_type(self, column: str) -> Any:
        """A cell that nobody reads is a text; one that is not there is null."""
        return pa.string()

    def chunks(
        self,
        wanted: Mapping[str, Type],
        *,
        rows: int,
        nulls: Collection[str] = (),
        keep: Collection[str] = (),
        lenient: bool = False,
    ) -> Iterator[Chunk]:
        """The wanted columns, and those to keep, at most ``rows`` rows at a time.

        ``lenient``: a row that cannot be read holds nothing, and its chunk's place has a note of it.
        """
        first = 0
        keep = [name for name in keep if name not in wanted]
        for block in self._blocks():
            if self._nothing(block.data):
                continue
            place = self._place(block, self._before + first)
            if lenient:
                place = replace(place, bad={})
            batch = self._readable(block, wanted, place, nulls, keep)
            for start in range(0, batch.num_rows, rows):
                part = batch.slice(start, rows)
                yield Chunk(part, first + start, block.done, self.total, place.shifted(start))
            first += batch.num_rows

    def _readable(
        self, block: Block, wanted: Mapping[str, Type], place: Place, nulls: Collection[str], keep: Collection[str]
    ) -> Any:
        """The columns of a block; where bad rows are noted, they hold nothing, and the others are read without them."""
        strict = replace(place, bad=None)
        if place.bad is None:
            return self._batch(block, wanted, strict, nulls, keep)
        try:
            return self._batch(block, wanted, strict, nulls, keep)
        except DataError:
            self._note_bad(block, wanted, place, keep)
            if not place.bad:
                raise  # it is no single row
        lines = self._rows_of(block)
        good = [i for i in range(len(lines)) if i not in place.bad]
        index = np.zeros(len(lines), dtype=np.int64)
        index[good] = np.arange(len(good))
        rest = replace(block, data=b"".join(lines.raw(i) for i in good))
        types = {**{n: _cell_type(t) for n, t in wanted.items()}, **{n: self.kept_type(n) for n in keep}}
        if good:
            batch = self._batch(rest, wanted, strict, nulls, keep)
        else:
            batch = pa.RecordBatch.from_arrays([pa.nulls(1, t) for t in types.values()], names=list(types))
        gone = np.ones(len(lines), dtype=bool)
        gone[good] = False
        return batch.take(pa.array(index, mask=gone))

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
        rows = self._rows_of(block)
        return Place(
            self.name, lambda i: f"row {first + i + 1:,} (line {block.lines + rows.begins[i] + 1:,})", rows.text
        )

    def _rows_of(self, block: Block) -> RowsOf:
        """The rows of a block; those of the one at hand are found once."""
        if self._at_hand is None or self._at_hand[0] is not block:
            self._at_hand = block, RowsOf(block.data, lambda: self._begins(block))
        return self._at_hand[1]

    def _nothing(self, data: bytes) -> bool:
        """Whether there is no row in these lines."""
        return not data.strip()

    def _begins(self, block: Block) -> list[int]:
        """The lines (0-based in the block) on which its rows begin."""
        raise NotImplementedError

    def _batch(
        self, block: Block, wanted: Mapping[str, Type], place: Place, nulls: Collection[str], keep: Collection[str]
    ) -> Any:
        raise NotImplementedError

    def _note_bad(self, block: Block, wanted: Mapping[str, Type], place: Place, keep: Collection[str]) -> None:
        """Look at every row of a block, and note those that cannot be read."""
        raise NotImplementedError


class CsvReader(TextReader):
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
        self._pointed = False
        if self._first is None or not self._first.data.strip():
            raise DataError(f"{name}: is empty: expected a header line with the columns' names")
        header, self._first = self._parted(self._first)
        self.names = header
        _refuse_no_names(name, header)
        refuse_twice(name, header)
        if len(self.names) == 1 and any(c in self.names[0] for c in ";\t"):
            raise DataError(
                f"{name}: its header is one column {self.names[0]!r}: its fields must be parted by commas "
                f"(or by tabs, with {option('in_format', 'tsv')})"
            )
        self.single = len(header) == 1
        self._at_once = max(_ROWS_AT_ONCE, 64 * len(header), 4 * sum(map(len, header)))

    def _parted(self, head: Block) -> tuple[list[str], Block]:
        """The names in the header of a first block, and its rows."""
        refuse_loose(head, self.delimiter, self.name)
        rows = exact.csv_rows(head.data, self.delimiter, blank=True)
        try:
            header = next((row for _, row in rows if row != [""]), None)
            if header is None:
                raise DataError(f"{self.name}: is empty: expected a header line with the columns' names")
            begin = next((line for line, row in rows if len(header) == 1 or row != [""]), None)
        except csv.Error as error:
            raise DataError(f"{self.name}: line 1: no header line of a CSV file ({error})") from None
        cut = len(head.data) if begin is None else _nth_line(head.data, begin)
        return [column.strip() for column in header], Block(
            head.data[cut:], head.lines + (begin or 0), head.done, head.last
        )

    def _body(self, block: Block) -> Block:
        names, rows = self._parted(block)
        if names != self.names:
            raise DataError(f"{self.name}: its header has changed while it was read")
        return rows

    def field_type(self, column: str) -> Any:
        """The Arrow type that the first rows of a column suggest: int64, bool or string."""
        if self._first is None or self._nothing(self._first.data):
            return pa.string()
        try:
            cells = (
                self._parse(self._first.data, {column: pa.string()}, [column], nulls=True, whole=True)
                .column(column)
                .drop_null()
            )
            if not len(cells):
                return pa.string()
            bare = pc.ascii_trim(cells, characters=BLANKS)
            if pc.all(pc.is_in(bare, value_set=pa.array([w for w in (*TRUE, *FALSE) if w.isalpha()]))).as_py():
                return pa.bool_()
            if pc.all(pc.match_substring_regex(cells, f"^(?:{INT_CELL})$")).as_py():
                pc.ascii_ltrim(bare, characters="+").cast(pa.int64())
                return pa.int64()
        except (pa.ArrowInvalid, UnicodeDecodeError):
            pass  # too large for an int; or reading for real will say what is wrong, with its row
        return pa.string()

    def _begins(self, block: Block) -> list[int]:
        return [line for line, _ in exact.csv_rows(block.data, self.delimiter, self.single)]

    def _note_bad(self, block: Block, wanted: Mapping[str, Type], place: Place, keep: Collection[str]) -> None:
        refuse_loose(block, self.delimiter, self.name)  # where a row ends, nobody knows there
        with contextlib.suppress(csv.Error):
            exact.csv_columns(block.data, self.delimiter, self.names, wanted, place, block.last)

    def _nothing(self, data: bytes) -> bool:
        return not (data if self.single else data.strip(b"\r\n"))

    def _parse(
        self, data: bytes, types: dict[str, Any], columns: list[str], *, nulls: bool, whole: bool = False
    ) -> Any:
        """Columns by Arrow's parser; as a ``whole`` even if a row is longer than one of its threads takes."""
        return arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(
                column_names=self.names, block_size=max(self._at_once, len(data) + 1) if whole else self._at_once
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=b'"' in data, ignore_empty_lines=not self.single
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=columns,
                null_values=[""],
                strings_can_be_null=nulls,
                quoted_strings_can_be_null=False,
            ),
        )

    def _batch(
        self, block: Block, wanted: Mapping[str, Type], place: Place, nulls: Collection[str], keep: Collection[str]
    ) -> Any:
        for name in _lists(wanted):
            raise DataError(
                f"{self.name}: column {name!r}: a cell of a CSV file holds no {wanted[name]}: give the table as "
                ".jsonl, .parquet or .arrow"
            )
        wanted, nulls = {**wanted, **dict.fromkeys(keep, STR)}, {*nulls, *keep}
        types = {name: _cell_type(t) for name, t in wanted.items()}
        # an empty cell is no time, and None where that is a value
        nulls |= {name for name, t in wanted.items() if is_spelled(t) or isinstance(t, OptionalType)}
        refuse_loose(block, self.delimiter, self.name)
        try:
            if not block.data.isascii():
                block.data.decode("utf-8")  # Arrow looks at the wanted columns only
            table = self._table(block.data, wanted, types, nulls=bool(nulls))
            if not self._has_hex(block.data, [n for n, t in wanted.items() if inner_type(t) == INT]):
                arrays = [_whole(table.column(n), types[n]) for n in wanted]
                filled = [
                    a if n in nulls or not a.null_count or not pa.types.is_string(a.type) else a.fill_null("")
                    for n, a in zip(wanted, arrays, strict=True)
                ]
                return pa.RecordBatch.from_arrays(filled, names=list(wanted))
        except (pa.ArrowInvalid, pa.ArrowCapacityError, UnicodeDecodeError):
            pass
        try:
            found = exact.csv_columns(block.data, self.delimiter, self.names, wanted, place, block.last)
        except csv.Error as error:
            raise DataError(f"{self.name}: after line {block.lines:,}: not a CSV file ({error})") from None
        texts = [n for n in wanted if n in nulls and pa.types.is_string(types[n])]
        if texts:  # Python's parser does not say whether an empty cell was quoted
            cells = self._parse(block.data, dict.fromkeys(texts, pa.string()), texts, nulls=True, whole=True)
            found |= {n: cells.column(n).to_pylist() for n in texts}
        return pa.RecordBatch.from_arrays([pa.array(found[n], types[n]) for n in wanted], names=list(wanted))

    def _table(self, data: bytes, wanted: Mapping[str, Type], types: dict[str, Any], *, nulls: bool) -> Any:
        """The wanted columns; where an int may be missing, ``3.0`` is one, too."""
        whole = [name for name, t in wanted.items() if t == OptionalType(INT)]
        if not self._pointed:
            try:
                return self._parse(data, types, list(wanted), nulls=nulls)
            except pa.ArrowInvalid:
                if not whole:
                    raise
        cells = types | dict.fromkeys(whole, pa.string())
        table = self._parse(data, cells, list(wanted), nulls=nulls)
        for name in whole:
            table = table.set_column(table.schema.names.index(name), name, _whole_numbers(table.column(name)))
        self._pointed = True  # as in the blocks that follow
        return table

    def _has_hex(self, data: bytes, ints: list[str]) -> bool:
        """Whether a cell of these columns is like ``0x10``, which is a number for Arrow."""
        # one byte is found faster
        if not ints or (b"x" not in data and b"X" not in data) or (b"0x" not in data and b"0X" not in data):
            return False
        cells = self._parse(data, dict.fromkeys(ints, pa.string()), ints, nulls=False)
        return any(pc.any(pc.match_substring(column, "x", ignore_case=True)).as_py() for column in cells.columns)


def _refuse_no_names(place: str, names: list[str]) -> None:
    for name in names:
        if "\0" in name:
            raise DataError(
                f"{place}: the header {name[:40]!r} holds a NUL: is it UTF-16? A text must be UTF-8: convert it with "
                "iconv"
            )
        if any("\udc80" <= c <= "\udcff" for c in name):
            raw = name.encode("utf-8", "surrogateescape")
            raise DataError(
                f"{place}: the header {raw[:40]!r} is not UTF-8: convert the file, for example with iconv -t UTF-8"
            )


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


def _whole_numbers(cells: Any) -> Any:
    """Texts as ints, of which those with a point are whole and small enough to have been doubles; an ``ArrowInvalid``
    says only that there is another.

    >>> _whole_numbers(pa.array(["3.0", None, "-7"])).to_pylist()
    [3, None, -7]
    """
    if pc.all(pc.match_substring_regex(cells, f"^(?:{INT_CELL}|{WHOLE_CELL})$")).as_py() is False:
        raise pa.ArrowInvalid("no whole number")
    bare = pc.ascii_ltrim(pc.ascii_trim(cells, characters=BLANKS), characters="+")
    found = pc.replace_substring_regex(bare, r"\..*$", "").cast(pa.int64())
    far = pc.or_(pc.greater(found, EXACT), pc.less(found, -EXACT))
    if pc.any(pc.and_(far, pc.match_substring(bare, "."))).as_py():
        raise pa.ArrowInvalid("beyond the doubles that are exact")
    return found


def _cell_type(t: Type) -> Any:
    """The Arrow type that a column of text is read as: times and decimals as they are spelled, also in lists."""
    inner = inner_type(t)
    if isinstance(inner, ListType):
        return pa.list_(_cell_type(inner.item))
    fields = struct_fields(inner)
    if fields is not None:
        return pa.struct([(name, _cell_type(part)) for name, part in fields])
    return pa.string() if is_spelled(t) else arrow_type(t)


def _lists(wanted: Mapping[str, Type]) -> list[str]:
    """The columns that hold lists."""
    return [name for name, t in wanted.items() if isinstance(inner_type(t), ListType)]


_JSON_KINDS = {bool: pa.bool_(), exact.Whole: pa.int64(), float: pa.float64(), str: pa.string()}


class JsonLinesReader(TextReader):
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
        self._flat: dict[str, bool] = {}
        self._known: set[str] = set()
        self._kept: dict[str, Any] = {}
        if self._first is None:
            return
        wrong: DataError | None = None
        for i, (_, line) in enumerate(exact.json_lines(self._first.data)):
            if i >= 1000:
                break
            if i == 0 and line.lstrip().startswith(b"["):
                raise DataError(
                    f"{name}: is one JSON array: expected a JSON value on each line; convert it, for example with jq "
                    "-c '.[]'"
                )
            if i == 0 and not line.lstrip().startswith(b"{"):
                self.bare = True
                if assumed is not None:
                    with self._doubting():
                        self._looked_at(line, 0)
                break
            try:
                value = self._looked_at(line, i)
            except DataError as error:
                wrong = wrong or error
                continue  # reading for real will say what is wrong, with its row
            if isinstance(value, dict):
                self._sample.append(value)
        if wrong is not None and not self._sample:
            raise wrong
        self.blank = not self.bare and not self._sample
        self.names = ["value"] if self.bare else list(dict.fromkeys(p for v in self._sample for p in _paths(v)))
        self._known = set(self.names)

    def _looked_at(self, line: bytes, i: int) -> Any:
        assert self._first is not None
        try:
            return exact.json_value(line, self._first.last and not self._first.data.endswith(b"\n"))
        except exact.Unreadable as error:
            raise DataError(f"{self._place(self._first, 0).at(i)}: {error}") from None

    @property
    def columns(self) -> list[str]:
        """The keys of the first objects."""
        return list(dict.fromkeys(name for value in self._sample for name in value))

    def kept_type(self, column: str) -> Any:
        """The Arrow type that the first rows of a column suggest, whatever it is."""
        if column not in self._kept:
            self._kept[column] = json_type([value.get(column) for value in self._sample], f"{self.name}: {column!r}")
        return self._kept[column]

    @contextlib.contextmanager
    def _doubting(self) -> Iterator[None]:
        """Where the format was only assumed, an error in the very first line may mean that it is another."""
        try:
            yield
        except DataError as error:
            if self._assumed is None or not str(error).startswith(f"{self.name}: row 1 "):
                raise
            raise DataError(
                f"{error}; JSON Lines is assumed on {self._assumed}: for CSV give {option('in_format', 'csv')}"
            ) from None

    def field_type(self, column: str) -> Any:
        """The Arrow type that the first rows of a column suggest."""
        for value in self._sample:
            try:
                found = exact.json_path(value, column)
            except ValueError:
                continue  # it comes twice: reading for real will say so
            if found is not None:
                return next((kind for t, kind in _JSON_KINDS.items() if isinstance(found, t)), pa.null())
        return pa.string()

    def _begins(self, block: Block) -> list[int]:
        return [n for n, _ in exact.json_lines(block.data)]

    def _note_bad(self, block: Block, wanted: Mapping[str, Type], place: Place, keep: Collection[str]) -> None:
        bare = next(iter(wanted)) if self.bare else None
        exact.json_columns(block.data, wanted, place, block.last, bare)
        if keep:
            kept_from_json(block.data, {name: self.kept_type(name) for name in keep}, place, block.last)

    def _schema(self, wanted: Mapping[str, Type]) -> Any:
        """Flat fields, or nested ones where the first objects nest them."""
        tree: dict[str, Any] = {}
        for path, t in wanted.items():
            kind = _cell_type(t)
            if isinstance(inner_type(t), EnumType):
                kind = self.field_type(path)
                kind = pa.string() if self.bare or pa.types.is_null(kind) else kind
            parts = [path] if self._is_flat(path) else path.split(".")
            at = tree
            for part in parts[:-1]:
                at = at.setdefault(part, {})
            at[parts[-1]] = kind
        return _struct(tree)

    def _is_flat(self, path: str) -> bool:
        if path not in self._flat:
            self._flat[path] = (
                self.bare or "." not in path or path not in self._known or any(path in v for v in self._sample)
            )
        return self._flat[path]

    def _batch(
        self, block: Block, wanted: Mapping[str, Type], place: Place, nulls: Collection[str], keep: Collection[str]
    ) -> Any:
        bare = next(iter(wanted)) if self.bare else None
        batch = None
        with contextlib.suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError, IndexError):
            batch = self._fast(block.data, wanted, bare)
        if batch is None:
            with self._doubting() if bare is not None else contextlib.nullcontext():
                found = exact.json_columns(block.data, wanted, place, block.last, bare)
            batch = pa.RecordBatch.from_arrays(
                [pa.array(found[n], _cell_type(t)) for n, t in wanted.items()], names=list(wanted)
            )
        if not keep:
            return batch
        kept = kept_from_json(block.data, {name: self.kept_type(name) for name in keep}, place, block.last)
        return pa.RecordBatch.from_arrays([*batch.columns, *kept.values()], names=[*batch.schema.names, *kept])

    def _fast(self, data: bytes, wanted: Mapping[str, Type], bare: str | None) -> Any:
        """The columns by Arrow's parser; None where it may take for one thing what is another."""
        if _lists(wanted):
            return None  # nobody looks inside for what Arrow takes wrongly
        if not data.isascii():
            data.decode("utf-8")  # Arrow takes texts as they come
        if bare is not None:
            if b":" in data:
                return None  # a line could bring a key of its own
            field = b'{"' + bare.encode() + b'":'
            data = b"\n".join(field + line + b"}" for _, line in exact.json_lines(data)) + b"\n"
        lines = _objects(data)
        if lines is None or (bare is None and self._otherwise(data, wanted)):
            return None
        table = arrow_json.read_json(
            pa.BufferReader(data),
            read_options=arrow_json.ReadOptions(block_size=len(data) + 1),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=self._schema(wanted), unexpected_field_behavior="ignore"
            ),
        )
        batch = table.combine_chunks().to_batches()[0]
        if batch.num_rows != lines:  # several objects on a line
            return None
        for path, t in wanted.items():  # the words NaN and Infinity, which JSON does not have
            if inner_type(t) == FLOAT and pc.all(pc.is_finite(column_at(batch, path))).as_py() is False:
                return None
        return batch

    def _otherwise(self, data: bytes, wanted: Mapping[str, Type]) -> bool:
        """Whether a key may be there in the form that was not expected, flat or nested."""
        dotted = [path for path in wanted if "." in path]
        if not dotted:
            return False
        if b"\\u" in data and re.search(rb'"[^"]*\\u[^"]*"[ \t]*:', data):
            return True
        heads = {path.split(".")[0] for path in dotted if self._is_flat(path)}
        other = [*(path for path in dotted if not self._is_flat(path)), *heads]
        return any(b'"' + name.encode() + b'"' in data for name in other)


def _objects(data: bytes) -> int | None:
    """How many lines there are, blank ones aside; None if one does not begin and end as an object does.

    Then no object goes over several lines, since after an inner one no other can begin.

    >>> _objects(b'{"x": 1}\\n\\n {"x": {}}\\r\\n'), _objects(b'{"x":\\n1}')
    (2, None)
    """
    raw = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(raw == 10)
    inner = ends[:-1] if data.endswith(b"\n") else ends
    if data[:1] == b"{" and data[-3:].rstrip(b"\r\n")[-1:] == b"}":
        before = raw[inner - 1]
        before = np.where(before == 13, raw[inner - 2], before)
        if (before == ord("}")).all() and (raw[inner + 1] == ord("{")).all():
            return len(inner) + 1
    lines = [line for _, line in exact.json_lines(data)]
    for line in lines:
        bare = line.strip(b" \t\r")
        if bare[:1] != b"{" or bare[-1:] != b"}":
            return None
    return len(lines)


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
