"""Files in the order that columns say.

A first reading takes the key's and the order's columns alone.  If the rows are in order already, they are then read
chunk by chunk as ever, with bounded memory; else everything that is needed is read, and sorted in memory.  A pipe
cannot be read twice: it is read to its end, and sorted.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pellucid.data.arrow import array_of, arrow_type, column_at, key_column, key_type, source_columns
from pellucid.data.bind import Binding, Place, some
from pellucid.data.columns import Batch, Column, Strings
from pellucid.data.events import Given
from pellucid.data.rich import rich_array, rich_column
from pellucid.data.spelled import inner_type, is_spelled
from pellucid.data.tables.lineup import Keyed, Lineup, line_up, order_column
from pellucid.data.tables.ready import lined_up
from pellucid.data.text import TextReader
from pellucid.errors import DataError, nearest
from pellucid.expr.types import INT, STR, Type

if TYPE_CHECKING:
    from pellucid.data.feed import Fed, Feed
    from pellucid.data.files import Reader


@dataclass(frozen=True)
class OrderTypes:
    """The columns of an order in one input: in a text each is read as what its first rows hold (``typed``), else as it
    is."""

    names: tuple[str, ...] = ()
    typed: Mapping[str, Type] | Any = ()


def is_text(reader: Any) -> bool:
    """Whether cells have no types of their own."""
    return isinstance(getattr(reader, "head", reader), TextReader)


def order_types(reader: Reader, order: Sequence[str]) -> OrderTypes:
    """How the columns of an order are read from an input."""
    typed: dict[str, Type] = {}
    for column in order:
        if getattr(reader, "blank", False):  # no line, so no names: no events
            typed[column] = STR
            continue
        if column not in reader.names:
            known = list(reader.names)
            raise DataError(
                f"{reader.name}: no order column {column!r}: its columns are {some(known)}{nearest(column, known)}"
            )
        if is_text(reader):
            found = reader.field_type(column)
            if pa.types.is_floating(found) or pa.types.is_boolean(found):
                order_column(pa.array([], found), column, Place(reader.name, lambda i: f"row {i + 1:,}"))
            typed[column] = key_type(found, column, reader.name)
    return OrderTypes(tuple(order), typed)


def with_order(wanted: Mapping[str, Type], order: OrderTypes) -> tuple[dict[str, Type], list[str]]:
    """The columns to read with a type, and those to read as they are; a column that a source reads is read so."""
    typed = {name: t for name, t in dict(order.typed).items() if name not in wanted}
    return {**wanted, **typed}, [name for name in order.names if name not in wanted and name not in typed]


def order_type(reader: Reader, column: str, read: Mapping[str, Type], order: OrderTypes) -> Any:
    """The Arrow type in which a column of the order comes along."""
    found = read.get(column) or dict(order.typed).get(column)
    return arrow_type(found) if found is not None and is_text(reader) else reader.field_type(column)


def order_values(array: Any, column: str, t: Type | None, place: Place) -> Any:
    """A column of the order; a time or a decimal that a text spells is put in order as what it is."""
    if t is not None and is_spelled(t) and not array.null_count and pa.types.is_string(array.type):
        kind: Any = inner_type(t)
        return rich_array(kind, array_of(INT, rich_column(kind, array, column, place)))
    return order_column(array, column, place)


def sorted_feed(
    feed: Feed,
    lanes: Sequence[tuple[Reader, list[Binding]]],
    keeps: Sequence[Sequence[str]],
    again: Callable[[Reader], Reader] | None,
) -> Iterator[Fed] | None:
    """The batches of a feed in order; None if its rows are so already."""
    if again is not None:
        looked = []
        for (reader, bound), order in zip(lanes, feed.orders, strict=True):
            other = again(reader)
            try:
                looked.append(_keyed(_read(other, {}, feed, order, ()), feed, bound[0], order))
            finally:
                other.close()
        if line_up(looked, feed.order, feed.late).as_they_came:
            return None
    return _sorted(feed, lanes, keeps)


@dataclass(frozen=True)
class _Whole:
    """All rows of an input."""

    table: Any
    place: Place


def _read(reader: Reader, wanted: Mapping[str, Type], feed: Feed, order: OrderTypes, keep: Sequence[str]) -> _Whole:
    typed, also = with_order({**feed.key, **wanted}, order)
    nulls = typed if feed.wide else {*feed.key, *dict(order.typed)}
    batches, firsts, places = [], [], []
    rows = 0
    for chunk in reader.chunks(typed, rows=feed.rows, nulls=nulls, keep=[*also, *keep]):
        batches.append(chunk.batch)
        firsts.append(rows)
        places.append(chunk.place)
        rows += chunk.batch.num_rows

    def row(i: int) -> str:
        at = bisect.bisect_right(firsts, i) - 1
        return places[at].row(i - firsts[at]) if places else ""

    if not batches:
        names = [*typed, *also, *(name for name in keep if name not in typed and name not in also)]
        empty = [pa.array([], arrow_type(typed[n]) if n in typed else reader.kept_type(n)) for n in names]
        batches = [pa.RecordBatch.from_arrays(empty, names=names)]
    table = pa.Table.from_batches([_plain(batch, batches[0].schema) for batch in batches])
    return _Whole(table, Place(reader.name, row))


def _plain(batch: Any, schema: Any) -> Any:
    return batch if batch.schema.equals(schema) else batch.cast(schema)


def _keyed(whole: _Whole, feed: Feed, bound: Binding, order: OrderTypes) -> Keyed:
    keys = [key_column(column_at(whole.table, name), name, whole.place) for name in bound.key]
    arrays = [array_of(next(t.leaves())[1], column) for t, column in zip(feed.key.values(), keys, strict=True)]
    from pellucid.data.feed import wanted_columns

    read = wanted_columns([bound], feed.key)
    columns = [order_values(column_at(whole.table, name), name, read.get(name), whole.place) for name in order.names]
    return Keyed(arrays, columns, whole.place)


def _sorted(feed: Feed, lanes: Sequence[tuple[Reader, list[Binding]]], keeps: Sequence[Sequence[str]]) -> Iterator[Fed]:
    from pellucid.data.feed import wanted_columns

    wholes, given, keyed = [], [], []
    for (reader, bound), keep, order in zip(lanes, keeps, feed.orders, strict=True):
        whole = _read(reader, wanted_columns(bound, {}), feed, order, keep)
        wholes.append(whole)
        keyed.append(_keyed(whole, feed, bound[0], order))
        for binding in bound:
            columns, mask, keys = source_columns(binding, whole.table, whole.place, silent=feed.wide)
            named = {n: (t, c) for (n, t), c in zip(feed.key.items(), keys or [], strict=True)}
            given.append(Given(whole.table.num_rows, columns, mask, named))
    lineup = line_up(keyed, feed.order, feed.late)
    rows = lineup.rows * len(given) if feed.wide else lineup.rows
    given = [lined_up(g, r) for g, r in zip(given, rows, strict=True)]
    along: dict[str, Any] = {}
    for whole, keep, mine in zip(wholes, keeps, lineup.rows, strict=True):
        index = pa.array(mine, mask=mine < 0)
        along |= {name: column_at(whole.table, name).take(index) for name in keep}
    first = pa.array(np.arange(lineup.count))
    for name, column in zip(feed.order, lineup.order, strict=True):
        along[name] = column.take(first)
    yield from _slices(feed, lineup, given, along, [w.place for w in wholes])


def _slices(
    feed: Feed, lineup: Lineup, given: Sequence[Given], along: Mapping[str, Any], places: Sequence[Place]
) -> Iterator[Fed]:
    from pellucid.data.feed import Fed

    end = lineup.count if feed.limit is None else min(feed.limit, lineup.count)
    for start in range(0, end, feed.rows):
        count = min(feed.rows, end - start)
        batch = Batch(
            count,
            [[_cut(c, start, count) for c in g.columns] for g in given],
            [None if g.mask is None else g.mask[start : start + count] for g in given],
            [[_cut(c, start, count) for _, c in g.key.values()] for g in given] if feed.key else None,
        )
        here = [
            Place(p.name, _row(p, rows[start : start + count])) for p, rows in zip(places, lineup.rows, strict=True)
        ]
        yield Fed(batch, start, (start + count) / end, here, {name: c.slice(start, count) for name, c in along.items()})


def _row(place: Place, rows: Any) -> Callable[[int], str]:
    return lambda i: place.row(int(rows[i])) if rows[i] >= 0 else "no row"


def _cut(column: Any, start: int, count: int) -> Column:
    if isinstance(column, Strings):
        return Strings(column.codes[start : start + count], column.values)
    found: Column = column[start : start + count]
    return found
