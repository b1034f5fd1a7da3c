"""A text cut into blocks of whole lines, and what must be right about any text before its cells are looked at.

A block is a few megabytes of whole lines, so memory stays bounded whatever the file's size, and a pipe or a
compressed file is read the same way.
"""

from __future__ import annotations

import select
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pellucid.errors import DataError

BLOCK = 4 << 20
BOM = b"\xef\xbb\xbf"
_LONGEST = 64 << 20
_WIDE = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32"}
_QUOTE, _NEWLINE = 34, 10


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
    carry, lines, read = b"", 0, 0
    while True:
        data = _read(stream, size, name, lines)
        read += len(data)
        done = tell() if tell is not None else read
        if not data:
            break
        carry += data
        if begins:
            if any(len(carry) < len(mark) and mark.startswith(carry) for mark in (BOM, *_WIDE)):
                continue
            carry, begins = _begun(name, carry), False
        cut = _cut(carry, quotes)
        if cut:
            yield Block(carry[:cut], lines, done, False)
            lines += carry.count(b"\n", 0, cut)
            carry = carry[cut:]
        elif len(carry) > _LONGEST:
            what = "a quoted value does not end" if quotes and carry.count(b'"') % 2 else "the line is too long"
            raise DataError(f"{name}: line {lines + 1:,}: {what} within 64 MB: is this the right format?")
    if begins:
        carry = _begun(name, carry)
    if carry:
        yield Block(carry, lines, done, True)


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
    """The beginning of a text without a mark of UTF-8; another encoding is refused, by its mark or by a NUL in the
    first character."""
    found = _WIDE.get(data[:4]) or _WIDE.get(data[:2]) or ("UTF-16" if b"\0" in data[:2] else None)
    if found is not None:
        raise DataError(
            f"{name}: is {found}, but a text must be UTF-8: convert it, for example with iconv -f {found} -t UTF-8"
        )
    return data.removeprefix(BOM)


def _cut(data: bytes, quotes: bool) -> int:
    """Where the last whole line ends."""
    end = data.rfind(b"\n") + 1
    if not end or not quotes or data.find(b'"', 0, end) < 0:
        return end
    raw = np.frombuffer(data, dtype=np.uint8, count=end)
    marks = np.flatnonzero((raw == _QUOTE) | (raw == _NEWLINE))
    inside = np.cumsum(raw[marks] == _QUOTE) % 2  # a doubled quote leaves and enters again
    ends = marks[(raw[marks] == _NEWLINE) & (inside == 0)]
    return int(ends[-1]) + 1 if len(ends) else 0


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
        begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        shown = data[max(begin, at - 20) : end if end >= 0 else len(data)][:50].decode("utf-8", "replace")
        raise DataError(f"{name}: line {line:,}: {what.replace('…', repr(shown), 1)}")


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
        faults.append(
            (int(followed[0]), "text after a closing quote (…): put the whole cell in quotes, and double a quote in it")
        )
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
