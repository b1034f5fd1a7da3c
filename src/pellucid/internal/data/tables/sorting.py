"""Files in the order that columns say.

A first reading takes the key's and the order's columns alone.  If the rows are in order already, they are then read
chunk by chunk as ever, with bounded memory; else everything that is needed is read, and sorted in memory.  A pipe
cannot be read twice: it is read to its end, and sorted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError, nearest
from pellucid.internal.data.arrow import column_at, key_leaves, key_type, source_columns, taken
from pellucid.internal.data.bind import NO_ROW, Binding, Place, parted, some, together
from pellucid.internal.data.columns import Batch, Column, Strings
from pellucid.internal.data.events import Given
from pellucid.internal.data.formats.missing import NEVER
from pellucid.internal.data.formats.outputs import array_of, arrow_type, key_array
from pellucid.internal.data.rich import rich_array, rich_column
from pellucid.internal.data.spelled import inner_type, is_spelled
from pellucid.internal.data.tables.bad import BadRow, of_row, row_text
from pellucid.internal.data.tables.lineup import Keyed, Lineup, line_up, order_column, refuse_different
from pellucid.internal.data.tables.ready import events_at, lined_up
from pellucid.internal.data.text import TextReader
from pellucid.internal.expr.types import INT, STR, Type

if TYPE_CHECKING:
    from pellucid.internal.data.feed import Fed, Feed
    from pellucid.internal.data.files import Reader


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


def order_values(array: Any, column: str, t: Type | None, place: Place, form: str | None = None) -> Any:
    """A column of the order; a time or a decimal that a text spells is put in order as what it is."""
    texts = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    if t is not None and is_spelled(t) and texts:
        kind: Any = inner_type(t)
        if array.null_count:
            order_column(array, column, place)  # says which
            array = array.fill_null("")
        return rich_array(kind, array_of(INT, rich_column(kind, array, column, place, form)))
    return order_column(array, column, place)


def sorted_feed(
    feed: Feed,
    lanes: Sequence[tuple[Reader, list[Binding]]],
    keeps: Sequence[Sequence[str]],
    again: Callable[[Reader], Reader] | None,
) -> Iterator[Fed] | None:
    """The batches of a feed in order; None if its rows are so already."""
    if again is not None and not (feed.lenient and len(lanes) > 1):  # else a bad row leaves the others of its push
        with contextlib.suppress(*([DataError] if feed.lenient else [])):  # a doubled row may be a bad one
            if looked_at(feed, lanes, again).as_they_came:
                return None
    return _sorted(feed, lanes, keeps)


def looked_at(feed: Feed, lanes: Sequence[tuple[Reader, list[Binding]]], again: Callable[[Reader], Reader]) -> Lineup:
    """How the rows line up, by a first reading that takes the key's and the order's columns alone."""
    looked = []
    for (reader, bound), order in zip(lanes, feed.orders, strict=True):
        other: Any = again(reader)
        if is_text(reader):
            other.missing = getattr(reader, "missing", NEVER)
        try:
            whole = _read(other, {}, feed, order, ())
            looked.append(_good(_keyed(whole, feed, bound[0], order), whole))
        finally:
            other.close()
    return line_up(looked, feed.order, feed.late)


def sorted_tables(
    feed: Feed, lanes: Sequence[tuple[Reader, list[Binding]]], keeps: Sequence[Sequence[str]], there: str
) -> list[Any]:
    """All that is needed of each input, a row for each push; where one is silent in some, the column ``there`` says in
    which it is not."""
    from pellucid.internal.data.feed import wanted_columns

    whole = _gathered(feed, lanes, keeps)
    tables = []
    for one, (_, bound), keep, rows in zip(whole.inputs, lanes, keeps, whole.lineup.rows, strict=True):
        index = pa.array(rows, mask=rows < 0)
        names = [name for name in [*wanted_columns(bound, feed.key), *keep] if name not in feed.order]
        columns = {name: column_at(one.table, name).take(index) for name in names}
        columns |= dict(zip(feed.order, whole.lineup.order, strict=True))
        tables.append(pa.table(columns | ({there: pa.array(rows >= 0)} if (rows < 0).any() else {})))
    return tables


def _good(keyed: Keyed, whole: _Whole) -> Keyed:
    """Without the rows that cannot be read."""
    if not whole.place.bad:
        return keyed
    rows = pa.array(whole.good)
    place = whole.place.picked(lambda i: int(whole.good[i]))
    return Keyed([k.take(rows) for k in keyed.key], [o.take(rows) for o in keyed.order], place)


def _kept_at(column: Any) -> Callable[[Any], list[Any]]:
    return lambda rows: list(column.take(pa.array(rows)).to_pylist())


@dataclass(frozen=True)
class _Whole:
    """All rows of an input."""

    table: Any
    place: Place

    @property
    def good(self) -> Any:
        """The rows that can be read."""
        there = np.ones(self.table.num_rows, dtype=bool)
        there[list(self.place.bad or ())] = False
        return np.flatnonzero(there)

    def letters(self) -> list[tuple[int, BadRow]]:
        """Those that cannot; they belong to no push."""
        notes = sorted((self.place.bad or {}).items())
        return [(-1, of_row(self.place, i, why, self.table, column=column)) for i, (column, why) in notes]


def _read(reader: Reader, wanted: Mapping[str, Type], feed: Feed, order: OrderTypes, keep: Sequence[str]) -> _Whole:
    typed, also = with_order({**feed.key, **wanted}, order)
    nulls = typed if feed.wide else {*feed.key, *dict(order.typed)}
    batches, places = [], []
    for chunk in reader.chunks(typed, rows=feed.rows, nulls=nulls, keep=[*also, *keep], lenient=feed.lenient):
        batches.append(chunk.batch)
        places.append(chunk.place)

    if not batches:
        names = [*typed, *also, *(name for name in keep if name not in typed and name not in also)]
        empty = [pa.array([], arrow_type(typed[n]) if n in typed else reader.kept_type(n)) for n in names]
        batches = [pa.RecordBatch.from_arrays(empty, names=names)]
    table = pa.Table.from_batches([_plain(batch, batches[0].schema) for batch in batches])

    sized = [(batch.num_rows, place) for batch, place in zip(batches, places, strict=False)]
    return _Whole(
        table, together(reader.name, sized) if sized else Place(reader.name, str, bad={} if feed.lenient else None)
    )


def _plain(batch: Any, schema: Any) -> Any:
    return batch if batch.schema.equals(schema) else batch.cast(schema)


def _keyed(whole: _Whole, feed: Feed, bound: Binding, order: OrderTypes) -> Keyed:
    keys = [(t, column_at(whole.table, name), name) for name, t in feed.key.items()]
    arrays = [key_array(t, key_leaves(t, array, name, whole.place)) for t, array, name in keys]
    from pellucid.internal.data.feed import wanted_columns

    read = wanted_columns([bound], feed.key)
    columns = [
        order_values(column_at(whole.table, name), name, read.get(name), whole.place, bound.formats.get(name))
        for name in order.names
    ]
    return Keyed(arrays, columns, whole.place)


@dataclass(frozen=True)
class _Gathered:
    """All rows of all inputs, the events of all sources, each looked at, and how they line up."""

    inputs: list[_Whole]
    given: list[Given]
    lineup: Lineup


def _gathered(feed: Feed, lanes: Sequence[tuple[Reader, list[Binding]]], keeps: Sequence[Sequence[str]]) -> _Gathered:
    from pellucid.internal.data.feed import wanted_columns

    wholes, given, keyed = [], [], []
    for (reader, bound), keep, order in zip(lanes, keeps, feed.orders, strict=True):
        whole = _read(reader, wanted_columns(bound, {}), feed, order, keep)
        wholes.append(whole)
        keyed.append(_keyed(whole, feed, bound[0], order))
        for binding in bound:
            columns, mask, keys = source_columns(binding, whole.table, whole.place, silent=feed.wide)
            leaves = parted(feed.key.values(), keys or [])
            named = {n: (t, mine) for (n, t), mine in zip(feed.key.items(), leaves, strict=True)}
            given.append(Given(whole.table.num_rows, columns, mask, named))
    goods = [_good(k, whole) for k, whole in zip(keyed, wholes, strict=True)]
    lineup = line_up(goods, feed.order, feed.late)
    rest = iter(given)
    for one, whole, keep, doubled, (_, bound) in zip(goods, wholes, keeps, lineup.doubled, lanes, strict=True):
        values = {binding.source: events_at(binding.type, next(rest)) for binding in bound}
        values |= {name: _kept_at(column_at(whole.table, name)) for name in keep}
        refuse_different(one, feed.order, doubled, values, whole.good if whole.place.bad else None)
    if feed.lenient:
        found = [
            np.where(rows < 0, -1, whole.good[rows]) if len(whole.good) else rows
            for rows, whole in zip(lineup.rows, wholes, strict=True)
        ]
        lineup = replace(lineup, rows=found)
    return _Gathered(wholes, given, lineup)


def _sorted(feed: Feed, lanes: Sequence[tuple[Reader, list[Binding]]], keeps: Sequence[Sequence[str]]) -> Iterator[Fed]:
    whole = _gathered(feed, lanes, keeps)
    wholes, given, lineup = whole.inputs, whole.given, whole.lineup
    rows = lineup.rows * len(given) if feed.wide else lineup.rows
    given = [lined_up(g, r) for g, r in zip(given, rows, strict=True)]
    along: dict[str, Any] = {}
    for one, keep, mine in zip(wholes, keeps, lineup.rows, strict=True):
        index = pa.array(mine, mask=mine < 0)
        along |= {name: taken(column_at(one.table, name), index) for name in keep}
    first = pa.array(np.arange(lineup.count))
    for name, column in zip(feed.order, lineup.order, strict=True):
        along[name] = column.take(first)
    yield from _slices(feed, lineup, given, along, wholes)


def _slices(
    feed: Feed, lineup: Lineup, given: Sequence[Given], along: Mapping[str, Any], wholes: Sequence[_Whole]
) -> Iterator[Fed]:
    from pellucid.internal.data.feed import Fed

    letters = [letter for whole in wholes for letter in whole.letters()]
    if letters:
        yield Fed(Batch(0, []), 0, None, bad=letters)

    end = lineup.count if feed.limit is None else min(feed.limit, lineup.count)
    for start in range(0, end, feed.rows):
        count = min(feed.rows, end - start)
        batch = Batch(
            count,
            [[_cut(c, start, count) for c in g.columns] for g in given],
            [None if g.mask is None else g.mask[start : start + count] for g in given],
            [[_cut(c, start, count) for _, cs in g.key.values() for c in cs] for g in given] if feed.key else None,
        )
        here = [_placed(whole, rows[start : start + count]) for whole, rows in zip(wholes, lineup.rows, strict=True)]
        more = {name: c.slice(start, count) for name, c in along.items()}
        yield Fed(batch, start, (start + count) / end, here, more, [None] * len(here))


def _placed(whole: _Whole, rows: Any) -> Place:
    place, file = whole.place, whole.place.file
    return Place(
        place.name,
        lambda i: place.row(int(rows[i])) if rows[i] >= 0 else NO_ROW,
        lambda i: (place.text or (lambda row: row_text(whole.table, row)))(int(rows[i])),
        None if file is None else lambda i: file(int(rows[i])) if rows[i] >= 0 else place.name,
    )


def _cut(column: Any, start: int, count: int) -> Column:
    if isinstance(column, Strings):
        return Strings(column.codes[start : start + count], column.values)
    found: Column = column[start : start + count]
    return found
