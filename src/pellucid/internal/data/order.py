"""Rows in the order that columns say: which row of which input is which push.

Rows are sorted by the columns of ``order``, the later ones breaking ties.  Rows of several inputs with equal key and
order are one push, as on Spark; where an input has no such row it is silent.  Two rows of one input with equal key and
order are an error, because nothing says which is first, unless ``late="drop"`` says that they are the same row twice:
then one is left out, and the caller refuses those that differ (`refuse_different`).  Rows of different keys may be
equal: they stay as they came.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pellucid.errors import DataError, UsageError, nearest, option
from pellucid.internal.data.arrow import (
    array_of,
    arrow_type,
    column_at,
    key_array,
    key_leaves,
    key_type,
    numpy_of,
    source_columns,
    taken,
)
from pellucid.internal.data.bind import NO_ROW, Binding, Place, parted, some, together
from pellucid.internal.data.cells import NEVER, inner_type, is_spelled
from pellucid.internal.data.columns import Batch, Column, Given, Strings
from pellucid.internal.data.dead_letters import BadRow, of_row, row_text
from pellucid.internal.data.inputs import events_at, lined_up
from pellucid.internal.data.rich import rich_array, rich_column
from pellucid.internal.data.text import TextReader
from pellucid.internal.expr.types import INT, STR, Type

if TYPE_CHECKING:
    from pellucid.internal.data.feed import Fed, Feed
    from pellucid.internal.data.files import Reader

#: What is done about a row whose key and order were there before.
LATE = ("fail", "drop")


@dataclass(frozen=True)
class Keyed:
    """The columns of one input that say which key a row is of, and when it comes."""

    key: Sequence[Any]
    order: Sequence[Any]
    place: Place


@dataclass(frozen=True)
class Lineup:
    """For each input the row of each push, -1 where it is silent; and the order's columns, a value for each push."""

    rows: list[Any]
    order: list[Any]
    doubled: list[tuple[Any, Any]] = field(default_factory=list)  # of each input: rows left out, and one equal to each

    @property
    def count(self) -> int:
        """How many pushes there are."""
        return len(self.rows[0])

    @property
    def as_they_came(self) -> bool:
        """Whether every input has its rows in order already, and all at the same pushes."""
        return not any(len(out) for out, _ in self.doubled) and all(
            bool((rows == np.arange(len(rows))).all()) for rows in self.rows
        )


def check_late(late: str) -> str:
    """Whether this is a policy that a run here has.

    >>> check_late("drop")
    'drop'
    """
    if late == "keep":
        raise UsageError(
            f"{option('late', late)}: an output of the late rows is for Spark: here a table is sorted first, so that "
            f"only a row that is there twice is late; say 'fail' or 'drop'"
        )
    if late not in LATE:
        raise UsageError(f"{option('late', late)}: expected fail, or drop, which leaves out what comes twice")
    return late


def order_column(array: Any, column: str, place: Place) -> Any:
    """A column that can put rows in order, as one array: whole numbers, times, decimals or texts, none of them null.

    >>> place = Place("events", lambda i: f"row {i + 1}")
    >>> order_column(pa.array([1.5]), "t", place)
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: events: the order column 't' holds double: expected a whole number, a date, a time, a
    decimal or a text; count in smaller units, so that no two rows become equal
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    kind = pa.types
    if kind.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if kind.is_string_view(array.type) or kind.is_string(array.type):
        array = array.cast(pa.large_string())
    if kind.is_integer(array.type) and not kind.is_uint64(array.type):
        array = array.cast(pa.int64())  # the same in all inputs
    t = array.type
    fits = kind.is_integer(t) or kind.is_temporal(t) or kind.is_decimal(t) or kind.is_large_string(t)
    if array.null_count:
        why = f"the order column {column!r} is null: give every row its place, or leave such rows out"
        place.refuse_all(np.flatnonzero(~numpy_of(array.is_valid())).tolist(), lambda _: why, column)
    if not (fits or (kind.is_null(t) and not len(array))):
        hint = "cast it to a whole number"
        if kind.is_floating(t):
            hint = "count in smaller units, so that no two rows become equal"
        elif kind.is_struct(t):
            hint = f"name its fields, as in {option('order', f'{column}.field')}"
        raise DataError(
            f"{place.name}: the order column {column!r} holds {t}: expected a whole number, a date, a time, a decimal "
            f"or a text; {hint}"
        )
    return array


def line_up(inputs: Sequence[Keyed], order: Sequence[str], late: str = "fail") -> Lineup:
    """The rows of some inputs as pushes.

    >>> place = Place("events", lambda i: f"row {i + 1}")
    >>> line_up([Keyed([], [pa.array([3, 1, 2])], place)], ["seq"]).rows
    [array([1, 2, 0])]
    >>> line_up([Keyed([], [pa.array([3, 1, 3])], place)], ["seq"])
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: events: row 3: order seq=3 is there twice (also row 1): nobody knows which is first; name
    more columns in order=, or if it is the same row twice say late='drop'
    """
    sizes = [len(one.order[0]) for one in inputs]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    orders = [_ranked([one.order[j] for one in inputs], inputs, name) for j, name in enumerate(order)]
    keys = [_ranked([one.key[j] for one in inputs], inputs, "key") for j in range(len(inputs[0].key))]
    total = int(starts[-1])
    at = np.arange(total)
    # np.lexsort takes its last key first, and leaves equal rows as they came
    ranked = np.lexsort((*reversed([ranks for ranks, _ in [*orders, *keys]]),)) if total else at
    new = _changes([ranks for ranks, _ in [*orders, *keys]], ranked)
    group = np.cumsum(new) - 1  # of the rows in `ranked`: which push
    source = np.searchsorted(starts[1:], ranked, side="right")
    doubled = np.zeros(total, dtype=bool)
    doubled[1:] = (group[1:] == group[:-1]) & (source[1:] == source[:-1])
    if doubled.any() and late == "fail":
        _refuse_doubled(inputs, order, starts, ranked, source, group, doubled)
    head = np.maximum.accumulate(np.where(doubled, 0, at))  # of each row the one that counts
    pairs = [
        (ranked[mine] - starts[s], ranked[head[mine]] - starts[s])
        for s in range(len(inputs))
        for mine in [doubled & (source == s)]
    ]
    ranked, group, source = ranked[~doubled], group[~doubled], source[~doubled]
    count = int(group[-1]) + 1 if len(group) else 0
    first = np.full(count, total, dtype=np.int64)
    np.minimum.at(first, group, ranked)
    when = np.cumsum(_changes([ranks for ranks, _ in orders], first)) if count else first
    place = np.empty(count, dtype=np.int64)
    place[np.lexsort((first, when))] = np.arange(count)  # equal orders of several keys: as they came
    rows = []
    for s in range(len(inputs)):
        mine = source == s
        out = np.full(count, -1, dtype=np.int64)
        out[place[group[mine]]] = ranked[mine] - starts[s]
        rows.append(out)
    said = np.empty(count, dtype=np.int64)
    said[place] = first
    whole = [pa.concat_arrays([one.order[j] for one in inputs]) for j in range(len(order))]
    return Lineup(rows, [column.take(pa.array(said)) for column in whole], pairs)


def _ranked(columns: Sequence[Any], inputs: Sequence[Keyed], name: str) -> tuple[Any, Any]:
    """A number for each value of a column (of all inputs), larger for what comes later; and the values."""
    if len({str(column.type) for column in columns}) > 1:
        first, other = columns[0], next(c for c in columns if c.type != columns[0].type)
        place = inputs[[c is other for c in columns].index(True)].place.name
        raise DataError(
            f"{place}: the column {name!r} holds {other.type}, but {first.type} in {inputs[0].place.name}: cast one "
            "of them"
        )
    whole = pa.concat_arrays(list(columns)) if len(columns) > 1 else columns[0]
    t = whole.type
    if whole.null_count:  # of a key in which null is one: any numbers will do that keep them apart
        return numpy_of(whole.dictionary_encode("encode").indices).astype(np.int64), whole
    if not len(whole):
        return np.zeros(0, dtype=np.int64), whole
    if pa.types.is_integer(t):
        return numpy_of(whole), whole
    if pa.types.is_boolean(t):
        return numpy_of(whole).astype(np.int64), whole
    return pc.rank(whole, tiebreaker="dense").to_numpy().astype(np.int64), whole


def _changes(ranks: Sequence[Any], rows: Any) -> Any:
    """Where one of some columns differs from the row before."""
    out = np.zeros(len(rows), dtype=bool)
    if len(rows):
        out[0] = True
    for column in ranks:
        values = column[rows]
        out[1:] |= values[1:] != values[:-1]
    return out


def _refuse_doubled(
    inputs: Sequence[Keyed], order: Sequence[str], starts: Any, ranked: Any, source: Any, group: Any, doubled: Any
) -> None:
    i = int(np.argmax(doubled))
    s = int(source[i])
    one = inputs[s]
    row, before = (int(ranked[j] - starts[s]) for j in (i, i - 1))
    raise DataError(
        f"{one.place.at(row)}: {_said(one, order, row)} is there twice (also {one.place.row(before)}): nobody knows "
        f"which is first; name more columns in {option('order')}, or if it is the same row twice say "
        f"{option('late', 'drop')}"
    )


def refuse_different(
    one: Keyed,
    order: Sequence[str],
    doubled: tuple[Any, Any],
    values: Mapping[str, Callable[[Any], Iterable[Any]]],
    good: Any = None,
) -> None:
    """Refuse rows that were left out as being there twice, if some value is not that of the row that counts: which of
    the two counts would depend on which came first.  ``values`` gives what is in some rows; ``good`` are the rows that
    can be read, if the rows that are spoken of are numbers among them.

    >>> place = Place("events", lambda i: f"row {i + 1}")
    >>> one = Keyed([], [pa.array([1, 1])], place)
    >>> values = {"x": lambda rows: np.array([20, 10])[rows].tolist()}
    >>> refuse_different(one, ["seq"], line_up([one], ["seq"], "drop").doubled[0], values)
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: events: row 2: order seq=1 is there twice (also row 1), but with other values (x=10 and
    x=20): nobody knows which is first; name more columns in order=, or leave one of them out
    """
    again, counts = doubled
    if not len(again):
        return
    rows = np.concatenate([again, counts])
    rows = rows if good is None else good[rows]
    two = {name: [repr(v) for v in found(rows)] for name, found in values.items()}
    for i, (row, first) in enumerate(zip(again.tolist(), counts.tolist(), strict=True)):
        differ = {n: sorted((v[i], v[i + len(again)])) for n, v in two.items() if v[i] != v[i + len(again)]}
        if differ:
            what = ", ".join(f"{n}={a} and {n}={b}" for n, (a, b) in differ.items())
            raise DataError(
                f"{one.place.at(row)}: {_said(one, order, row)} is there twice (also {one.place.row(first)}), but with "
                f"other values ({what}): nobody knows which is first; name more columns in {option('order')}, or leave "
                "one of them out"
            )


def _said(one: Keyed, order: Sequence[str], row: int) -> str:
    said = ", ".join(f"{name}={column[row].as_py()!s}" for name, column in zip(order, one.order, strict=True))
    whose = f" of the key {', '.join(repr(k[row].as_py()) for k in one.key)}" if one.key else ""
    return f"order {said}{whose}"


# Files in the order that columns say.
#
# A first reading takes the key's and the order's columns alone.  If the rows are in order already, they are then
# read
# chunk by chunk as ever, with bounded memory; else everything that is needed is read, and sorted in memory.  A pipe
# cannot be read twice: it is read to its end, and sorted.


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
