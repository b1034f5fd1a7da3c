"""CSV and JSON Lines, block by block: what the two share.

Arrow's parser does the work.  It is both laxer and stricter than the one meaning that a text has here: what it would
take wrongly is found before or after it, block by block; and where it refuses a block, ``exact`` reads it, or finds the
row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError
from pellucid.internal.data.bind import Place
from pellucid.internal.data.blocks import Block, RowsOf
from pellucid.internal.data.formats.missing import NEVER, Missing
from pellucid.internal.data.formats.outputs import arrow_type, struct_fields
from pellucid.internal.data.spelled import inner_type, is_spelled
from pellucid.internal.expr.types import ListType, Type


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
