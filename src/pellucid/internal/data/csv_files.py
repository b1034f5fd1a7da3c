"""CSV files: Arrow's parser, held to the one meaning of a cell (see `data.text`).

What Arrow refuses, or might take for something else, is read row by row.  Where bad rows are set aside, whole columns
tell which rows may be bad, and only those are read so: one that is not named is read by the fast parser; one that is
may still be good (``+5``), and only the exact reader says what is wrong with it.
"""

from __future__ import annotations

import contextlib
import csv
import re
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from pellucid.errors import DataError, option
from pellucid.internal.data.bind import Place, refuse_twice, some
from pellucid.internal.data.cells import (
    BLANKS,
    EXACT,
    FALSE,
    FLOAT_CELL,
    INT_CELL,
    NEVER,
    TRUE,
    WHOLE_CELL,
    Missing,
    bool_of,
    float_of,
    inner_type,
    int_of,
    is_spelled,
    quoted_cells,
    whole_of,
)
from pellucid.internal.data.text import (
    CUT,
    SMALL,
    Block,
    RowsOf,
    TextReader,
    Unreadable,
    advised,
    cell_type,
    is_text_cell,
    lists_in,
    refuse_loose,
)
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, OptionalType, Type

# ------------------------------------------------------------------ row by row, exactly


def csv_rows(data: bytes, delimiter: str, blank: bool = False) -> Iterator[tuple[int, list[str]]]:
    """The rows of a block with the number of the line (0-based in the block) on which each begins.

    With ``blank`` an empty line is a row with one empty cell, as in a file of one column; else it is no row.

    >>> list(csv_rows(b"1\\n\\n2\\n", ",")), list(csv_rows(b"1\\n\\n", ",", blank=True))
    ([(0, ['1']), (2, ['2'])], [(0, ['1']), (1, [''])])
    """
    csv.field_size_limit(1 << 30)
    reader = csv.reader(_lines(data), delimiter=delimiter)
    begin = 0
    for row in reader:
        if row or blank:
            yield begin, row or [""]
        begin = reader.line_num


def _lines(data: bytes) -> list[str]:
    lines = data.decode("utf-8", "surrogateescape").splitlines(keepends=True)
    # splitlines also parts at characters such as U+2028, which are no line ends in a file
    if len(lines) != data.count(b"\n") + (not data.endswith(b"\n")):
        lines = re.findall(r"[^\n]*\n|[^\n]+", data.decode("utf-8", "surrogateescape"))
    return lines


def csv_columns(
    data: bytes,
    delimiter: str,
    header: Sequence[str],
    wanted: Mapping[str, Type],
    place: Place,
    last: bool,
    missing: Missing = NEVER,
) -> dict[str, list[Any]]:
    """The wanted columns of a block; a row with a bad value is refused, or noted, and holds nothing then."""
    places = {name: i for i, name in enumerate(header)}
    where = [(name, t, _reader_of(t), places[name]) for name, t in wanted.items()]
    empty = _Empty(data, delimiter, missing, {places[name] for name in wanted if name in missing.columns})
    found: list[list[Any]] = [[] for _ in where]
    rows = list(csv_rows(data, delimiter, blank=len(header) == 1))
    whole = data.isascii()
    for i, (_, row) in enumerate(rows):
        try:
            if len(row) != len(header):
                cut = last and i == len(rows) - 1 and not data.endswith(b"\n")
                raise Unreadable(_other_length(row, header, cut))
            if not whole:
                _refuse_no_text(row, header)
            gone = empty(rows, i)
            values = [
                row[at] if read is None else None if at in gone else _cell(name, t, read, row[at])
                for name, t, read, at in where
            ]
        except Unreadable as error:
            place.refuse(i, str(error), error.column)
            values = [None] * len(where)
        for out, value in zip(found, values, strict=True):
            out.append(value)
    return {name: out for (name, *_), out in zip(where, found, strict=True)}


class _Empty:
    """Which cells of a row hold a word for nothing, and are not in quotes."""

    def __init__(self, data: bytes, delimiter: str, missing: Missing, places: set[int]) -> None:
        self._words, self._places, self._delimiter = {*missing.words}, places, delimiter
        self._lines = _lines(data) if places and b'"' in data else None

    def __call__(self, rows: Sequence[tuple[int, list[str]]], i: int) -> set[int]:
        begin, row = rows[i]
        found = {at for at in self._places if row[at] in self._words}
        if not found or self._lines is None:
            return found
        end = rows[i + 1][0] if i + 1 < len(rows) else len(self._lines)
        quoted = quoted_cells("".join(self._lines[begin:end]).rstrip("\r\n"), self._delimiter)
        return {at for at in found if not quoted[at]}


def _other_length(row: Sequence[str], header: Sequence[str], cut: bool) -> str:
    text = f"{len(row):,} field{'s' * (len(row) != 1)}, expected {len(header):,} ({some(header)})"
    if cut:
        return f"{text}: {CUT}"
    more = "put a text that holds a comma in quotes" if len(row) > len(header) else "complete the row or remove it"
    return f"{text}: {more}"


def _cell(name: str, t: Type, read: Callable[[str], Any], text: str) -> Any:
    if text == "":
        return None
    try:
        return read(text)
    except ValueError as error:
        raise Unreadable(f"column {name!r}: {error}{advised(error, text, t)}", name) from None


def _refuse_no_text(row: Sequence[str], header: Sequence[str]) -> None:
    for name, text in zip(header, row, strict=True):
        if any("\udc80" <= c <= "\udcff" for c in text):
            raw = text.encode("utf-8", "surrogateescape")
            why = f"the text {raw[:40]!r} is not UTF-8: convert the file, for example with iconv -t UTF-8"
            raise Unreadable(f"column {name!r}: {why}", name)


def _reader_of(t: Type) -> Callable[[str], Any] | None:
    """What makes a value of a cell that is not empty; None for a text, which may be."""
    if t == OptionalType(INT):
        return whole_of
    readers: dict[Type, Callable[[str], Any]] = {INT: int_of, FLOAT: float_of, BOOL: bool_of}
    return None if is_text_cell(t) else readers.get(inner_type(t), str)


# ------------------------------------------------------------------ which rows may be bad

_QUOTE, _NEWLINE, _RETURN = 34, 10, 13
_SHORT = r"[ \t]*[+-]?[0-9]{1,18}[ \t]*"  # fits in 64 bits
_SHORT_WHOLE = r"[ \t]*[+-]?[0-9]{1,15}\.0*[ \t]*"  # is below 2**53


def rows_in(data: bytes, delimiter: str, *, blank: bool) -> tuple[Any, Any]:
    """Of the rows of a block of strict CSV the lines on which they begin, and how many cells each has; with ``blank``
    an empty line is a row.

    >>> begins, cells = rows_in(b'1,2\\n\\n"a\\n,b",3,4\\n', ",", blank=False)
    >>> begins.tolist(), cells.tolist()
    ([0, 2], [2, 3])
    """
    raw = np.frombuffer(data, dtype=np.uint8)
    newlines, parts = np.flatnonzero(raw == _NEWLINE), np.flatnonzero(raw == ord(delimiter))
    ends = newlines
    if b'"' in data:
        quotes = np.flatnonzero(raw == _QUOTE)
        ends = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
        parts = parts[np.searchsorted(quotes, parts) % 2 == 0]
    stops = ends if data.endswith(b"\n") else np.append(ends, len(raw))
    begins = np.concatenate([[0], stops[:-1] + 1]).astype(np.int64)
    if not blank:
        length = stops - begins
        empty = (length == 0) | ((length == 1) & (raw[np.minimum(begins, len(raw) - 1)] == _RETURN))
        begins, stops = begins[~empty], stops[~empty]
    cells = np.searchsorted(parts, stops) - np.searchsorted(parts, begins) + 1
    return np.searchsorted(newlines, begins), cells


def suspects(
    rows: RowsOf, cells: Any, width: int, wanted: Mapping[str, Type], texts: Callable[[bytes], Mapping[str, Any]]
) -> Any:
    """A truth value for each row: whether it may be bad.  ``cells`` says how many each has; ``texts`` gives columns of
    some rows as texts, in which what is nothing is null."""
    wrong = cells != width
    rest = rows.without(wrong)
    if not rest:
        return wrong
    there = np.flatnonzero(~wrong)
    try:
        for name, column in texts(rest).items():
            fits = _fits(wanted[name], column)
            if len(fits) != len(there):
                return np.ones(len(wrong), dtype=bool)
            wrong[there[~fits]] = True
    except pa.ArrowInvalid:  # the fast parser does not say which row it is
        return np.ones(len(wrong), dtype=bool)
    return wrong


def numbers_in(wanted: Mapping[str, Type]) -> list[str]:
    """The columns in which not every text is a value."""
    return [name for name, t in wanted.items() if inner_type(t) in (INT, FLOAT, BOOL)]


def _fits(t: Type, column: Any) -> Any:
    """Which cells are surely what they should be."""
    if inner_type(t) == BOOL:
        found = pc.is_in(pc.ascii_trim(column, characters=BLANKS), value_set=pa.array([*TRUE, *FALSE]))
        found = pc.or_(found, pc.is_null(column))
    else:
        form = FLOAT_CELL if inner_type(t) == FLOAT else _SHORT
        if t == OptionalType(INT):
            form = f"{_SHORT}|{_SHORT_WHOLE}"
        found = pc.match_substring_regex(column, f"^(?:{form})$").fill_null(True)
    return np.asarray(found.combine_chunks().to_numpy(zero_copy_only=False), dtype=bool)


# ------------------------------------------------------------------ the reader

if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
    pa.enable_signal_handlers(False)  # a program that handles signals itself: Arrow's own handlers would take them

_ROWS_AT_ONCE = 1 << 20  # bytes that one thread of Arrow's parser takes; a row must fit in


class OneColumnError(DataError):
    """A header whose names are parted by something else."""

    def __init__(self, name: str, column: str) -> None:
        self.name, self.column = name, column
        super().__init__(self.words(f"with {option('in_format', 'tsv')}"))

    def words(self, tabs: str) -> str:
        """What to do; ``tabs`` says how to have it read if the fields are parted by tabs."""
        return (
            f"{self.name}: its header is one column {self.column!r}: its fields must be parted by commas "
            f"(or by tabs, {tabs})"
        )


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
            raise OneColumnError(name, self.names[0])
        self.single = len(header) == 1
        self._at_once = max(_ROWS_AT_ONCE, 64 * len(header), 4 * sum(map(len, header)))

    def _parted(self, head: Block) -> tuple[list[str], Block]:
        """The names in the header of a first block, and its rows."""
        refuse_loose(head, self.delimiter, self.name)
        rows = csv_rows(head.data, self.delimiter, blank=True)
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
        found: list[int] = rows_in(block.data, self.delimiter, blank=self.single)[0].tolist()
        return found

    def _note_bad(self, block: Block, wanted: Mapping[str, Type], place: Place, keep: Collection[str]) -> None:
        refuse_loose(block, self.delimiter, self.name)  # where a row ends is not known there
        rows, (_, cells) = self._rows_of(block), rows_in(block.data, self.delimiter, blank=self.single)
        maybe = suspects(rows, cells, len(self.names), wanted, lambda data: self._texts(data, numbers_in(wanted)))
        if not _is_text(block.data):
            maybe[:] = True
        which, data = np.flatnonzero(maybe), rows.without(~maybe)
        with contextlib.suppress(csv.Error):
            there = place.picked(lambda i: int(which[i]))
            csv_columns(data, self.delimiter, self.names, wanted, there, block.last, self.missing)

    def _texts(self, data: bytes, columns: Sequence[str]) -> dict[str, Any]:
        """Columns as texts; what is empty, or a word for nothing where one may be, is null."""
        out: dict[str, Any] = {}
        for words in ((), self.missing.words) if self.missing else ((),):
            some = [n for n in columns if not self.missing or bool(words) == (n in self.missing.columns)]
            if some:
                strings = dict.fromkeys(some, pa.string())
                table = self._parse(data, strings, some, nulls=True, words=words)
                out |= {n: table.column(n) for n in some}
        return out

    def _nothing(self, data: bytes) -> bool:
        return not (data if self.single else data.strip(b"\r\n"))

    def _parse(
        self,
        data: bytes,
        types: dict[str, Any],
        columns: list[str],
        *,
        nulls: bool,
        whole: bool = False,
        words: Sequence[str] = (),
    ) -> Any:
        """Columns by Arrow's parser; as a ``whole`` even if a row is longer than one of its threads takes; cells that
        are empty, or one of these words, are null."""
        return arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(
                column_names=self.names,
                block_size=max(self._at_once, len(data) + 1) if whole else self._at_once,
                use_threads=len(data) > SMALL,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=b'"' in data, ignore_empty_lines=not self.single
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=columns,
                null_values=["", *words],
                strings_can_be_null=nulls,
                quoted_strings_can_be_null=False,
            ),
        )

    def _quickly(
        self, block: Block, wanted: Mapping[str, Type], place: Place, nulls: Collection[str], keep: Collection[str]
    ) -> Any:
        for name in lists_in(wanted):
            raise DataError(
                f"{self.name}: column {name!r}: a cell of a CSV file holds no {wanted[name]}: give the table as "
                ".jsonl, .parquet or .arrow"
            )
        wanted, nulls, types = self._cells(wanted, nulls, keep)
        refuse_loose(block, self.delimiter, self.name)
        try:
            if not _is_text(block.data):  # Arrow looks at the wanted columns only
                return None
            table = self._table(block.data, wanted, types, nulls=bool(nulls))
            if not self._has_hex(block.data, [n for n, t in wanted.items() if inner_type(t) == INT]):
                arrays = [_whole(table.column(n), types[n]) for n in wanted]
                filled = [
                    a if n in nulls or not a.null_count or not pa.types.is_string(a.type) else a.fill_null("")
                    for n, a in zip(wanted, arrays, strict=True)
                ]
                return pa.RecordBatch.from_arrays(filled, names=list(wanted))
        except (pa.ArrowInvalid, pa.ArrowCapacityError):
            pass
        return None

    def _cells(
        self, wanted: Mapping[str, Type], nulls: Collection[str], keep: Collection[str]
    ) -> tuple[dict[str, Type], set[str], dict[str, Any]]:
        """What all columns are read as, in which an empty cell is null, and their Arrow types."""
        wanted = {**wanted, **dict.fromkeys(keep, STR)}
        nulls = {*nulls, *keep, *(n for n in wanted if n in self.missing.columns)}
        # an empty cell is no time, and None where that is a value
        nulls |= {name for name, t in wanted.items() if is_spelled(t) or isinstance(t, OptionalType)}
        return wanted, nulls, {name: cell_type(t) for name, t in wanted.items()}

    def _batch(
        self, block: Block, wanted: Mapping[str, Type], place: Place, nulls: Collection[str], keep: Collection[str]
    ) -> Any:
        batch = self._quickly(block, wanted, place, nulls, keep)
        if batch is not None:
            return batch
        wanted, nulls, types = self._cells(wanted, nulls, keep)
        try:
            found = csv_columns(block.data, self.delimiter, self.names, wanted, place, block.last, self.missing)
        except csv.Error as error:
            raise DataError(f"{self.name}: after line {block.lines:,}: not a CSV file ({error})") from None
        texts = [n for n in wanted if n in nulls and pa.types.is_string(types[n])]
        for words in ((), self.missing.words) if self.missing else ((),):
            some = [n for n in texts if bool(words) == (n in self.missing.columns)]
            if some:  # Python's parser does not say whether a cell was quoted
                strings = dict.fromkeys(some, pa.string())
                cells = self._parse(block.data, strings, some, nulls=True, whole=True, words=words)
                found |= {n: cells.column(n).to_pylist() for n in some}
        return pa.RecordBatch.from_arrays([pa.array(found[n], types[n]) for n in wanted], names=list(wanted))

    def _table(self, data: bytes, wanted: Mapping[str, Type], types: dict[str, Any], *, nulls: bool) -> Any:
        """The wanted columns; where an int may be missing, ``3.0`` is one, too."""
        table = self._with_holes(data, wanted, types, nulls=nulls)
        if not self.missing:
            return table
        others = [n for n in wanted if n not in self.missing.columns and table.column(n).null_count]
        if others:  # what is null there may be a word, which is none
            again = self._parse(data, {n: types[n] for n in others}, others, nulls=nulls)
            for name in others:
                table = table.set_column(table.schema.names.index(name), name, again.column(name))
        return table

    def _with_holes(self, data: bytes, wanted: Mapping[str, Type], types: dict[str, Any], *, nulls: bool) -> Any:
        words = self.missing.words if self.missing else ()
        whole = [name for name, t in wanted.items() if t == OptionalType(INT)]
        if not self._pointed:
            try:
                return self._parse(data, types, list(wanted), nulls=nulls, words=words)
            except pa.ArrowInvalid:
                if not whole:
                    raise
        cells = types | dict.fromkeys(whole, pa.string())
        table = self._parse(data, cells, list(wanted), nulls=nulls, words=words)
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


def _is_text(data: bytes) -> bool:
    """Whether it is UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _refuse_no_names(place: str, names: list[str]) -> None:
    for name in names:
        if "\0" in name:
            raise DataError(
                f"{place}: the header {name[:40]!r} holds a NUL byte, which no text has: the file is sparse or "
                "damaged: bring it back from its source"
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
