"""CSV and JSON Lines, block by block: what the two share.

Arrow's parser does the work.  It is both laxer and stricter than the one meaning that a text has here: what it would
take wrongly is found before or after it, block by block; and a block that it refuses is read once more, exactly, or the
row is found.

A block is a few megabytes of whole lines, so memory stays bounded whatever the file's size, and a pipe or a compressed
file is read the same way.
"""

from __future__ import annotations

import re
import select
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError
from pellucid.internal.data.arrow import arrow_type, struct_fields
from pellucid.internal.data.bind import Place
from pellucid.internal.data.cells import NEVER, Missing, advice, inner_type, is_spelled
from pellucid.internal.expr.types import BOOL, FLOAT, INT, ListType, Type

BLOCK = 4 << 20
BOM = b"\xef\xbb\xbf"
SMALL = 1 << 18  # bytes that are read by one thread: to wake others takes longer
LONGEST = 16 << 20  # bytes of one record: a row of CSV with all its lines, a line of JSON
_WIDE = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32"}
_PATTERNS: dict[int, dict[tuple[int, ...], str]] = {
    2: {(1, 0): "UTF-16", (0, 1): "UTF-16"},
    4: {(1, 0, 0, 0): "UTF-32", (0, 0, 0, 1): "UTF-32"},
}
_QUOTE, _NEWLINE = 34, 10
_CLOSED = re.compile(rb'"(?:[^"]++|"")*+"(?=[,\t\r\n])')


@dataclass(frozen=True)
class Block:
    """Whole lines of a text: the bytes, the number of lines before them, whether they are the last."""

    data: bytes
    lines: int
    done: int
    last: bool


class RowsOf:
    """The rows of a block as they stand there, by the lines on which they begin (found when first asked for: most
    blocks are read without a word).

    >>> rows = RowsOf(b"1,2\\n3,4\\n", lambda: [0, 1])
    >>> rows.text(1), len(rows)
    ('3,4', 2)
    """

    def __init__(self, data: bytes, begins: Callable[[], list[int]]) -> None:
        self._data, self._find = data, begins

    @cached_property
    def begins(self) -> list[int]:
        """The line of each row."""
        return self._find()

    @cached_property
    def _bytes(self) -> list[int]:
        ends = np.flatnonzero(np.frombuffer(self._data, dtype=np.uint8) == _NEWLINE) + 1
        starts = np.concatenate([[0], ends])[np.asarray(self.begins, dtype=np.int64)]
        return [*starts.tolist(), len(self._data)]

    def __len__(self) -> int:
        return len(self.begins)

    def without(self, gone: Any) -> bytes:
        """The bytes of all rows but these (a truth value for each).

        >>> RowsOf(b"1,2\\n3,4\\n5,6\\n", lambda: [0, 1, 2]).without(np.array([False, True, False]))
        b'1,2\\n5,6\\n'
        """
        there = np.flatnonzero(~gone)
        if not len(there):
            return b""
        cuts = np.flatnonzero(np.diff(there) != 1)
        firsts, lasts = there[np.concatenate([[0], cuts + 1])], there[np.concatenate([cuts, [len(there) - 1]])]
        at = self._bytes
        return b"".join([self._data[at[i] : at[j + 1]] for i, j in zip(firsts.tolist(), lasts.tolist(), strict=True)])

    def raw(self, i: int) -> bytes:
        """The bytes of a row, with its line end."""
        return self._data[self._bytes[i] : self._bytes[i + 1]]

    def text(self, i: int) -> str:
        """A row as text."""
        return self.raw(i).rstrip(b"\r\n").decode("utf-8", "replace")


def blocks(
    stream: Any,
    name: str,
    *,
    size: int = BLOCK,
    quotes: bool = False,
    tell: Callable[[], int] | None = None,
    begins: bool = True,
) -> Iterator[Block]:
    """Cut a byte stream into blocks of whole lines (with ``quotes``: not inside a quoted CSV value).

    Where the text ``begins``, a mark of UTF-8 is taken away, and another encoding refused.

    >>> import io
    >>> [b.data for b in blocks(io.BytesIO(b"1\\n2\\n3"), "x", size=3)]
    [b'1\\n', b'2\\n', b'3']
    """
    held = bytearray()  # what has come since the last whole row: looked through once
    inside = False  # it ends in a quoted value
    lines = read = 0
    while True:
        data = _read(stream, size, name, lines)
        read += len(data)
        done = tell() if tell is not None else read
        if not data:
            break
        if begins:
            data = bytes(held) + data
            held.clear()
            if any(len(data) < len(mark) and mark.startswith(data) for mark in (BOM, *_WIDE)):
                held += data
                continue
            data, begins = _begun(name, data), False
        first, cut, inside = _ends(data, inside) if quotes else (data.find(b"\n") + 1, data.rfind(b"\n") + 1, False)
        if len(held) + (first or len(data)) > LONGEST:
            raise _too_long(bytes(held) + data, name, lines, quotes)
        if cut:
            held += data[:cut]
            whole = bytes(held)
            held.clear()
            yield Block(whole, lines, done, False)
            lines += whole.count(b"\n")
            del whole  # not kept while the next one is read
        held += data[cut:]
    rest = _begun(name, bytes(held)) if begins else bytes(held)
    if rest:
        yield Block(rest, lines, done, True)


def _too_long(data: bytes, name: str, lines: int, quotes: bool) -> DataError:
    """What is wrong with a record that does not end."""
    most = f"{LONGEST >> 20} MiB"
    opens = _open_quote(data) if quotes else None
    if opens is not None:
        line = lines + data.count(b"\n", 0, opens) + 1
        return DataError(
            f"{name}: line {line:,}: a quote that is not closed within {most} ({_shown(data, opens)!r}): close it, or "
            "double it in a cell in quotes"
        )
    if b"\0" in data:
        return _nul(name, lines + data.count(b"\n", 0, data.index(b"\0")) + 1)
    return DataError(
        f"{name}: line {lines + 1:,}: one record is longer than {most}, the most that is read: is this the right "
        "format, and do its lines end with \\n?"
    )


def _open_quote(data: bytes) -> int | None:
    """Where the first quoted cell of a record begins that does not end as one.

    >>> _open_quote(b'1,"a","b\\n2,"c"\\n'), _open_quote(b'1,"a ""b"" c"\\n')
    (6, None)
    """
    at = data.find(b'"')
    while at >= 0:
        closed = _CLOSED.match(data, at)
        if closed is None:
            return at
        at = data.find(b'"', closed.end())
    return None


def _nul(name: str, line: int) -> DataError:
    return DataError(
        f"{name}: line {line:,}: NUL bytes, which no text has: the file is sparse or damaged (a write that was cut "
        "off leaves such bytes): bring it back from its source, or remove them, for example with tr -d '\\000'"
    )


def _read(stream: Any, size: int, name: str, lines: int) -> bytes:
    """Up to ``size`` bytes; from a pipe what is there, so that a slow writer is not waited for."""
    after = f"{name}: after line {lines:,}" if lines else name
    try:
        if not hasattr(stream, "read1") or not getattr(stream, "pellucid_pipe", False):
            return bytes(stream.read(size))
        parts = [stream.read1(size)]
        while parts[-1] and sum(map(len, parts)) < size and select.select([stream], [], [], 0)[0]:
            parts.append(stream.read1(size))
        return b"".join(parts)
    except (EOFError, zlib.error) as error:
        raise DataError(f"{after}: the compressed file is damaged or cut off ({error})") from None
    except OSError as error:
        raise DataError(f"{after}: cannot be read: {error.strerror or error}") from None


def _begun(name: str, data: bytes) -> bytes:
    """The beginning of a text without a mark of UTF-8.  Another encoding is refused, by its mark or by the pattern of
    NUL bytes in its first characters; so is a text that begins with other NUL bytes."""
    found = _WIDE.get(data[:4]) or _WIDE.get(data[:2]) or _by_pattern(data[:16])
    if found is not None:
        raise DataError(
            f"{name}: is {found}, but a text must be UTF-8: convert it, for example with iconv -f {found} -t UTF-8"
        )
    if b"\0" in data[:2]:
        raise _nul(name, 1)
    return data.removeprefix(BOM)


def _by_pattern(data: bytes) -> str | None:
    """The encoding in which plain letters have NUL bytes in these places.

    >>> _by_pattern("x,y".encode("utf-16-le")), _by_pattern("x,y".encode("utf-32-be")), _by_pattern(bytes(16))
    ('UTF-16', 'UTF-32', None)
    """
    if b"\0" not in data:
        return None
    for width, patterns in _PATTERNS.items():
        units = {tuple(min(byte, 1) for byte in data[i : i + width]) for i in range(0, len(data) - width + 1, width)}
        if len(units) == 1 and (found := patterns.get(min(units))):
            return found
    return None


def _ends(data: bytes, inside: bool) -> tuple[int, int, bool]:
    """Of a text that begins in a quoted value, or not: where the first and the last whole row end (0: none does), and
    whether it ends in one.

    >>> _ends(b'1,"\\n"\\n2,"', False), _ends(b'\\n"\\n2', True)
    ((6, 6, True), (3, 3, False))
    """
    if b'"' not in data:
        return (0, 0, True) if inside else (data.find(b"\n") + 1, data.rfind(b"\n") + 1, False)
    raw = np.frombuffer(data, dtype=np.uint8)
    quotes, newlines = np.flatnonzero(raw == _QUOTE), np.flatnonzero(raw == _NEWLINE)
    # a doubled quote leaves and enters again
    ends = newlines[np.searchsorted(quotes, newlines) % 2 == inside]
    first, last = (int(ends[0]) + 1, int(ends[-1]) + 1) if len(ends) else (0, 0)
    return first, last, inside ^ bool(len(quotes) % 2)


# ------------------------------------------------------------------ CSV: where a cell begins and ends


def refuse_loose(block: Block, delimiter: str, name: str) -> None:
    """Refuse CSV that readers understand differently: a quote that is not closed, that begins or ends in the middle of
    a cell, a carriage return that ends no line.

    >>> refuse_loose(Block(b'1,"a ""b"" c"\\r\\n', 0, 0, True), ",", "x.csv")
    >>> refuse_loose(Block(b'1,2\\n"1"2,3\\n', 0, 0, True), ",", "x.csv")
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: x.csv: line 2: text after a closing quote ('"1"2,3'): put the whole cell in quotes, and
    double a quote in it
    """
    data = block.data
    fault: tuple[int, str] | None = None
    if b'"' in data:
        fault = _quote_fault(data, delimiter)
    if b"\r" in data:
        bare = _bare_return(data, fault[0] if fault else len(data))
        if bare is not None:
            fault = (
                bare,
                "a carriage return that ends no line: give all lines the end \\n or \\r\\n, or put the cell in quotes",
            )
    if fault is not None:
        at, what = fault
        line = block.lines + data.count(b"\n", 0, at) + 1
        raise DataError(f"{name}: line {line:,}: {what.replace('…', repr(_shown(data, at)), 1)}")


def _shown(data: bytes, at: int) -> str:
    """Some of the line around a byte."""
    begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
    return data[max(begin, at - 20) : end if end >= 0 else len(data)][:50].decode("utf-8", "replace")


def refuse_no_text(block: Block, name: str) -> None:
    """Refuse bytes that are not UTF-8.

    >>> refuse_no_text(Block(b"1\\n\\xe9\\n", 0, 0, True), "x.csv")
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: x.csv: line 2: the text b'\\xe9' is not UTF-8: convert the file, for example with iconv
    -t UTF-8
    """
    if block.data.isascii():
        return
    try:
        block.data.decode("utf-8")
    except UnicodeDecodeError as error:
        at = error.start
        line = block.lines + block.data.count(b"\n", 0, at) + 1
        shown = block.data[at : at + 20].split(b"\n")[0]
        raise DataError(
            f"{name}: line {line:,}: the text {shown!r} is not UTF-8: convert the file, for example with iconv -t UTF-8"
        ) from None


def line_end_in_quotes(data: bytes) -> bool:
    """Whether a quoted cell goes over several lines.

    >>> line_end_in_quotes(b'"a","b"\\n'), line_end_in_quotes(b'"a\\rb"\\n')
    (False, True)
    """
    if b'"' not in data:
        return False
    raw = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero((raw == _NEWLINE) | (raw == 13))
    return bool((np.searchsorted(np.flatnonzero(raw == _QUOTE), ends) % 2).any())


def _quote_fault(data: bytes, delimiter: str) -> tuple[int, str] | None:
    """Where the first quote is that neither begins nor ends a cell, nor is doubled in one; and what is wrong with
    it."""
    raw = np.frombuffer(data, dtype=np.uint8)
    at = np.flatnonzero(raw == _QUOTE)
    follows = np.zeros(len(at), dtype=bool)  # directly on the quote before it
    follows[1:] = at[1:] == at[:-1] + 1
    opening, closing = at[0::2], at[1::2]
    before = raw[np.maximum(opening - 1, 0)]
    good = (opening == 0) | (before == ord(delimiter)) | (before == _NEWLINE) | follows[0::2]
    loose = opening[~good]
    last = len(raw) - 1
    after = raw[np.minimum(closing + 1, last)]
    line_end = (after == 13) & (raw[np.minimum(closing + 2, last)] == _NEWLINE)
    doubled = np.zeros(len(closing), dtype=bool)
    doubled[: len(follows[2::2])] = follows[2::2]
    fine = (closing == last) | (after == ord(delimiter)) | (after == _NEWLINE) | line_end | doubled
    followed = closing[~fine]
    faults = []
    if len(loose):
        faults.append(
            (
                int(loose[0]),
                "a quote in the middle of a cell (…): put the whole cell in quotes, and double a quote in it",
            )
        )
    if len(followed):
        what = "text after a closing quote (…): put the whole cell in quotes, and double a quote in it"
        opens = int(opening[np.flatnonzero(~follows[0::2] & (opening < followed[0]))[-1]])
        before_it = data.count(b"\n", opens, int(followed[0]))
        if before_it:
            what += f"; the quote that it closes opens {before_it:,} line{'s' * (before_it != 1)} above: close it there"
        faults.append((int(followed[0]), what))
    if len(at) % 2:
        faults.append(
            (
                int(at[-1]),
                "a quote that is not closed (…): close it, or double it in a cell in quotes; the file may be cut off",
            )
        )
    return min(faults, default=None)


def _bare_return(data: bytes, before: int) -> int | None:
    """Where the first carriage return is that is neither before a line's end nor in quotes."""
    if data.count(b"\r", 0, before) == data.count(b"\r\n", 0, before + 1):
        return None
    raw = np.frombuffer(data, dtype=np.uint8, count=before)
    at = np.flatnonzero(raw == 13)
    ends = at[at + 1 < len(data)]
    bare = np.setdiff1d(at, ends[np.frombuffer(data, dtype=np.uint8)[ends + 1] == _NEWLINE])
    quotes = np.flatnonzero(raw == _QUOTE)
    outside = bare[np.searchsorted(quotes, bare) % 2 == 0]
    return int(outside[0]) if len(outside) else None


@dataclass(frozen=True)
class Chunk:
    """Some rows of an input: a record batch, the absolute number of its first row, and how far the input is read.

    ``done`` of ``total`` is for a progress bar (bytes or rows; ``total`` is 0 where it is not known).
    """

    batch: Any
    first: int
    done: int
    total: int
    place: Place


class TextReader:
    """What CSV and JSON Lines share."""

    missing: Missing = NEVER  # words for nothing, of which JSON has its own
    nothing: Collection[str] = ()  # a CSV file has no records

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
        """The columns that can pass through."""
        return list(self.names)

    def kept_type(self, column: str) -> Any:
        """A cell of a column that no source reads is a text; one that is not there is null."""
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
        batch = self._quickly(block, wanted, strict, nulls, keep)
        if batch is not None:
            return batch
        self._note_bad(block, wanted, place, keep)
        if not place.bad:  # it is no single row, or nothing but slow to read
            return self._batch(block, wanted, strict, nulls, keep)
        lines = self._rows_of(block)
        gone = np.zeros(len(lines), dtype=bool)
        gone[list(place.bad)] = True
        index = np.cumsum(~gone) - 1
        types = {**{n: cell_type(t) for n, t in wanted.items()}, **{n: self.kept_type(n) for n in keep}}
        if not gone.all():
            batch = self._batch(replace(block, data=lines.without(gone)), wanted, strict, nulls, keep)
        else:
            batch = pa.RecordBatch.from_arrays([pa.nulls(1, t) for t in types.values()], names=list(types))
        return batch.take(pa.array(np.maximum(index, 0), mask=gone))

    def _quickly(
        self, block: Block, wanted: Mapping[str, Type], place: Place, nulls: Collection[str], keep: Collection[str]
    ) -> Any:
        """The columns of a block in which nothing is wrong; None where something may be."""
        try:
            return self._batch(block, wanted, place, nulls, keep)
        except DataError:
            return None

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


def cell_type(t: Type) -> Any:
    """The Arrow type that a column of text is read as: times and decimals as they are spelled, also in lists."""
    inner = inner_type(t)
    if isinstance(inner, ListType):
        return pa.list_(cell_type(inner.item))
    fields = struct_fields(inner)
    if fields is not None:
        return pa.struct([(name, cell_type(part)) for name, part in fields])
    return pa.string() if is_spelled(t) else arrow_type(t)


def lists_in(wanted: Mapping[str, Type]) -> list[str]:
    """The columns that hold lists."""
    return [name for name, t in wanted.items() if isinstance(inner_type(t), ListType)]


# ------------------------------------------------------------------ what the exact readers of both share

CUT = "the file ends in the middle of it and seems cut off"


class Unreadable(ValueError):  # noqa: N818 - reads as what it is
    """What is wrong with a row, and in which column."""

    def __init__(self, why: str, column: str | None = None) -> None:
        super().__init__(why)
        self.column = column


def advised(error: ValueError, text: str, t: Type) -> str:
    """What to do about a cell that is not what it should be, as the end of a message."""
    return f"; {advice(text, t)}" if str(error).startswith("expected") else ""


def is_text_cell(t: Type) -> bool:
    """Whether every text is a value of this type."""
    return inner_type(t) not in (INT, FLOAT, BOOL) and not is_spelled(t)
