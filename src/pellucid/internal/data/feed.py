"""One or several inputs, in lock-step, as batches for an engine.

The i-th push takes the i-th row of each input; one that ends before the others is refused, unless ``short="silent"``
says that it is silent from then on.  One input can also hold several
sources, each in the columns of its name: there a null is silence.
"""

from __future__ import annotations

import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pellucid.errors import DataError, StepError, UsageError, nearest, option
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
from pellucid.internal.data.bind import (
    NO_ROW,
    SHORT,
    BadRow,
    Binding,
    Place,
    bind,
    keeps_nan,
    kept_columns,
    missing_keys,
    of_row,
    parted,
    refuse_order_names,
    row_text,
    set_aside,
    some,
    together,
    type_of_key,
)
from pellucid.internal.data.cells import NEVER, check_formats, check_nulls, inner_type, is_spelled, missing_in
from pellucid.internal.data.columns import Batch, Column, Given, Strings, part_of
from pellucid.internal.data.csv_files import CsvReader
from pellucid.internal.data.files import Reader
from pellucid.internal.data.inputs import events_at, lined_up
from pellucid.internal.data.json_files import JsonLinesReader
from pellucid.internal.data.outputs import Along, fits
from pellucid.internal.data.rich import rich_array, rich_column
from pellucid.internal.data.text import Chunk, TextReader
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, Type
from pellucid.internal.graph.model import Graph, refuse_answer_names

# Rows in the order that columns say: which row of which input is which push.
#
# Rows are sorted by the columns of ``order``, the later ones breaking ties.  Rows of several inputs with equal key and
# order are one push, as on Spark; where an input has no such row it is silent.  Two rows of one input with equal key
# and order are an error, because nothing says which is first, unless ``late="drop"`` says that they are the same row
# twice: then one is left out, and the caller refuses those that differ (`refuse_different`).  Rows of different keys
# may be equal: they stay as they came.

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
    pellucid.errors.DataError: events: row 3: order seq=3 is there twice (also row 1): which is first is unknown; name
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
        f"{one.place.at(row)}: {_said(one, order, row)} is there twice (also {one.place.row(before)}): which "
        f"is first is unknown; name more columns in {option('order')}, or if it is the same row twice say "
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
    x=20): which is first is unknown; name more columns in order=, or leave one of them out
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
                f"other values ({what}): which is first is unknown; name more columns in {option('order')}, or leave "
                "one of them out"
            )


def _said(one: Keyed, order: Sequence[str], row: int) -> str:
    said = ", ".join(f"{name}={column[row].as_py()!s}" for name, column in zip(order, one.order, strict=True))
    whose = f" of the key {', '.join(repr(k[row].as_py()) for k in one.key)}" if one.key else ""
    return f"order {said}{whose}"


# Files in the order that columns say.
#
# A first reading takes the key's and the order's columns alone.  If the rows are in order already, they are then read
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
    """The Arrow type in which a column of the order passes through."""
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
            looked.append(without_bad(_keyed(_read(other, {}, feed, order, ()), feed, bound[0], order))[0])
        finally:
            other.close()
    return line_up(looked, feed.order, feed.late)


def sorted_tables(
    feed: Feed, lanes: Sequence[tuple[Reader, list[Binding]]], keeps: Sequence[Sequence[str]], there: str
) -> list[Any]:
    """All that is needed of each input, a row for each push; where one is silent in some, the column ``there`` says in
    which it is not."""

    whole = _gathered(feed, lanes, keeps)
    tables = []
    for one, (_, bound), keep, rows in zip(whole.inputs, lanes, keeps, whole.lineup.rows, strict=True):
        index = pa.array(rows, mask=rows < 0)
        names = [name for name in [*wanted_columns(bound, feed.key), *keep] if name not in feed.order]
        columns = {name: column_at(one.table, name).take(index) for name in names}
        columns |= dict(zip(feed.order, whole.lineup.order, strict=True))
        tables.append(pa.table(columns | ({there: pa.array(rows >= 0)} if (rows < 0).any() else {})))
    return tables


def without_bad(keyed: Keyed) -> tuple[Keyed, Any]:
    """Without the rows that cannot be read; and which those are that can (None: all)."""
    if not keyed.place.bad:
        return keyed, None
    there = np.ones(len(keyed.order[0]), dtype=bool)
    there[list(keyed.place.bad)] = False
    good = np.flatnonzero(there)
    rows = pa.array(good)
    place = keyed.place.picked(lambda i: int(good[i]))
    return Keyed([k.take(rows) for k in keyed.key], [o.take(rows) for o in keyed.order], place), good


def as_given(rows: Any, good: Any) -> Any:
    """Rows among those that can be read as rows of the input."""
    return rows if good is None or not len(good) else np.where(rows < 0, -1, good[rows])


def _kept_at(column: Any) -> Callable[[Any], list[Any]]:
    return lambda rows: list(column.take(pa.array(rows)).to_pylist())


@dataclass(frozen=True)
class _Whole:
    """All rows of an input."""

    table: Any
    place: Place

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
    readable = [without_bad(one) for one in keyed]
    lineup = line_up([one for one, _ in readable], feed.order, feed.late)
    rest = iter(given)
    for (one, good), whole, keep, doubled, (_, bound) in zip(
        readable, wholes, keeps, lineup.doubled, lanes, strict=True
    ):
        values = {binding.source: events_at(binding.type, next(rest)) for binding in bound}
        values |= {name: _kept_at(column_at(whole.table, name)) for name in keep}
        refuse_different(one, feed.order, doubled, values, good)
    rows = [as_given(rows, good) for rows, (_, good) in zip(lineup.rows, readable, strict=True)]
    lineup = replace(lineup, rows=rows)
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

    letters = [letter for whole in wholes for letter in whole.letters()]
    if letters:
        yield Fed(Batch(0, []), 0, None, bad=letters)

    end = lineup.count if feed.limit is None else min(feed.limit, lineup.count)
    for start in range(0, end, feed.rows):
        count = min(feed.rows, end - start)
        batch = Batch(
            count,
            [[part_of(c, start, start + count) for c in g.columns] for g in given],
            [None if g.mask is None else g.mask[start : start + count] for g in given],
            [[part_of(c, start, start + count) for _, cs in g.key.values() for c in cs] for g in given]
            if feed.key
            else None,
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


# Read ahead: the next batches are read by a thread while the present one is worked on.

T = TypeVar("T")

_AHEAD = 1  # items that are made or wait: memory follows it
_END = object()


@contextmanager
def ahead(items: Iterable[T]) -> Iterator[Iterator[T]]:
    """The same items in the same order, made by a thread, each while the one before is used.

    What goes wrong there is raised here, behind the items that came before.  Leaving the block ends the thread.

    >>> with ahead(range(3)) as items:
    ...     list(items)
    [0, 1, 2]
    """
    waiting: queue.Queue[Any] = queue.Queue()
    room = threading.Semaphore(_AHEAD)
    over = threading.Event()

    def make() -> None:
        made = iter(items)
        try:
            while room.acquire() and not over.is_set():
                waiting.put([next(made, _END)])  # nothing here keeps an item: it may be large
        except BaseException as error:
            waiting.put(error)

    def found() -> Iterator[T]:
        while True:
            item = waiting.get()
            if isinstance(item, BaseException):
                raise item
            if item[0] is _END:
                return
            room.release()
            yield item.pop()

    said = contextvars.copy_context()  # who is spoken to: messages name options as that one writes them
    thread = threading.Thread(target=said.run, args=(make,), name="pellucid-read", daemon=True)
    thread.start()
    try:
        yield found()
    finally:
        over.set()
        room.release()
        thread.join()


ROWS = 1 << 17


@dataclass
class Fed:
    """A batch and how far the inputs are read; ``first`` is the number of its first push."""

    batch: Batch
    first: int
    share: float | None
    places: list[Place] = field(default_factory=list)
    along: dict[str, Any] = field(default_factory=dict)  # passthrough columns, a value for each push
    parts: list[Any] = field(default_factory=list)  # what the places speak of: the rows as they were read
    bad: list[tuple[int, BadRow]] = field(default_factory=list)  # rows that cannot be read, with their pushes
    fills: list[int] = field(default_factory=list)  # for each place the last source that it feeds

    def letters(self, failed: Sequence[StepError]) -> list[BadRow]:
        """The rows that are set aside: those that cannot be read, and those in whose push a step failed."""
        out = list(self.bad)
        for error in failed:
            i = error.position - self.first
            for place, part in zip(self.places, self.parts, strict=True):
                if place.row(i) != NO_ROW:
                    out.append((i, of_row(place, i, error.why, part, step=error.step)))
        return [row for _, row in sorted(out, key=lambda one: one[0])]

    def set_aside(self, *, apart: bool = False) -> None:
        """Make silent every push with a row that cannot be read, and write down its rows; ``apart``: the row alone, as
        rows of several inputs do not go together."""
        if apart:
            for place, part, s in zip(self.places, self.parts, self.fills, strict=True):
                found = set_aside([place], [part])
                self.bad += found
                self._silence(sorted({i for i, _ in found}), [s])
            return
        self.bad = set_aside(self.places, self.parts)
        self._silence(sorted({i for i, _ in self.bad}), range(len(self.batch.masks)))

    def _silence(self, gone: list[int], sources: Iterable[int]) -> None:
        for s in sources if gone else ():
            mask = self.batch.masks[s]
            there = np.ones(self.batch.count, dtype=bool) if mask is None else np.array(mask, dtype=bool)
            there[gone] = False
            self.batch.masks[s] = there


def wanted_columns(bound: Sequence[Binding], key: Mapping[str, Type]) -> dict[str, Type]:
    """The columns that these sources and the key read, and as what."""
    wanted: dict[str, Type] = {}
    for binding in bound:
        wanted.update(zip(binding.columns, (t for _, t in binding.type.columns()), strict=True))
    return {**key, **wanted}


def uneven(ended: str, rows: int, other: str) -> str:
    """The message about an input that ends before another."""
    return (
        f"{ended}: ends after {rows:,} row{'s' * (rows != 1)}, but {other} has more: the i-th push takes the i-th row "
        f"of each; complete it, or say {option('short', 'silent')} if an input that has ended is to be silent from "
        "then on"
    )


def source_types(graph: Graph) -> dict[str, Type]:
    """The sources of a graph and what they carry."""
    return {graph.nodes[i].id: graph.nodes[i].type for i in graph.sources}


class Feed:
    """The batches that some readers give to a graph's sources.

    ``readers`` maps each source to its reader; a single reader under the name ``None`` holds all sources.
    """

    def __init__(
        self,
        graph: Graph,
        readers: Mapping[str | None, Reader],
        *,
        value: str | None = None,
        key: Sequence[str] = (),
        rows: int = ROWS,
        limit: int | None = None,
        short: str = "fail",
        order: Sequence[str] = (),
        late: str = "fail",
        keep: Any = (),
        nan: str = "fail",
        formats: Mapping[str, str] = MappingProxyType({}),
        nulls: Sequence[str] = (),
        again: Callable[[Reader], Reader] | None = None,
        lenient: bool = False,
    ) -> None:
        self.lenient = lenient  # rows that cannot be read are set aside
        if short not in SHORT:
            raise UsageError(f"{option('short', short)}: expected fail or silent")
        self.short, keeps = short, keeps_nan(nan)
        self.graph, self.limit = graph, limit
        self.rows = rows if limit is None else max(1, min(rows, limit))
        self.sources = source_types(graph)
        self.key: dict[str, Type] = {}  # the key's columns and what they hold
        if value is not None and len(self.sources) > 1:
            raise UsageError(
                f"{graph.name} has several sources ({', '.join(self.sources)}): {option('value')} goes with one only"
            )
        self.wide = None in readers and len(self.sources) > 1
        if None in readers and not self.wide:
            readers = {next(iter(self.sources)): readers[None]}
        self._check_names(readers)
        self._lanes: list[tuple[Reader, list[Binding]]] = []
        if self.wide:
            reader = readers[None]
            names = _wide_names(reader, self.sources)
            said: dict[str, Any] = {
                "place": reader.name,
                "key": key,
                "wide": True,
                "nan": keeps,
                "nothing": reader.nothing,
            }
            bound = [bind(s, t, names, **said) for s, t in self.sources.items()]
            self._lanes.append((reader, bound))
        else:
            for source, t in self.sources.items():
                reader = readers[source]
                names, at = reader.names, value
                if getattr(reader, "blank", False):  # no line, so no names: no events
                    names = [*([value] if value else [path or source for path, _ in t.columns()]), *key]
                if at is None and getattr(reader, "bare", False):
                    at = reader.names[0] if len(list(t.columns())) == 1 else None
                nothing = reader.nothing
                made = bind(source, t, names, place=reader.name, value=at, key=key, nan=keeps, nothing=nothing)
                self._lanes.append((reader, [made]))
        read = wanted_columns([binding for _, bound in self._lanes for binding in bound], {})
        missing = missing_keys(read.items(), key)
        check_formats(formats, read.items(), graph.name)
        self._lanes = [
            (reader, [replace(b, missing=missing, formats=formats) for b in bound]) for reader, bound in self._lanes
        ]
        self._take_words(nulls, read)
        for column in key:
            self._find_key_type(column, missing.get(column))
        refuse_answer_names(graph, key)
        self._formats = formats
        self.order, self.late, self._again = tuple(order), late, again
        self.orders = [order_types(reader, order) for reader, _ in self._lanes]
        self.along = self._along(keep)

    def _take_words(self, words: Sequence[str], read: Mapping[str, Type]) -> None:
        """Tell the readers of CSV files which words are nothing, and in which columns."""
        readers: list[Any] = [reader for reader, _ in self._lanes]
        texts = [isinstance(getattr(reader, "head", reader), CsvReader) for reader in readers]
        check_nulls(words, read.items(), self.graph.name, text=any(texts))
        self.missing = [missing_in(words, wanted_columns(bound, {}).items()) for _, bound in self._lanes]
        for reader, text, missing in zip(readers, texts, self.missing, strict=True):
            if text:
                reader.missing = missing

    def _check_names(self, readers: Mapping[str | None, Reader]) -> None:
        if self.wide:
            return
        for name in readers:
            if name not in self.sources:
                raise UsageError(
                    f"{self.graph.name} has no source {name!r}: its sources are {', '.join(self.sources)}"
                    f"{nearest(str(name), list(self.sources))}"
                )
        missing = [s for s in self.sources if s not in readers]
        if missing:
            raise UsageError(
                f"{self.graph.name} has {len(self.sources)} sources ({', '.join(self.sources)}): no input for "
                f"{', '.join(missing)}; give {option('in', f'{missing[0]}=FILE')}"
            )

    def _find_key_type(self, key: str, missing: Type | None) -> None:
        for reader, bound in self._lanes:
            declared = wanted_columns(bound, {}).get(key)
            holds = reader.field_type(key)
            if declared is not None and is_text(reader):  # a cell is read as what a source declares
                holds = pa.string() if is_spelled(declared) else arrow_type(declared)
            found = key_type(holds, key, reader.name, missing)
            if self.key.setdefault(key, found) != found:
                raise DataError(
                    f"{reader.name}: the key column {key!r} holds {found}, but in the first input {self.key[key]}: "
                    "they must be of one type"
                )

    def _along(self, keep: Any) -> Along:
        """The passthrough columns, and their types."""
        outputs = {name: self.graph.nodes[i].type for name, i in self.graph.outputs}
        refuse_order_names(outputs, self.order)
        names = ["*"] if self.wide else list(self.sources)
        readers = dict(zip(names, (reader for reader, _ in self._lanes), strict=True))
        if keep:
            for reader in readers.values():
                if getattr(reader, "bare", False):
                    raise DataError(f"{reader.name}: holds bare values: there are no other columns to keep")
        kept = kept_columns(
            keep,
            {name: reader.columns for name, reader in readers.items()},
            outputs,
            there=[*self.key, *self.order],
            place={name: reader.name for name, reader in readers.items()},
            graph=self.graph.name,
        )
        types = {}
        self.kept_as: list[dict[str, Type]] = [{} for _ in names]
        self.order_as: dict[str, Type] = {}  # the order's columns of the first input, as what a text is read
        for at, (_, reader) in enumerate(readers.items()):
            read = wanted_columns(self._lanes[at][1], self.key)
            for column in kept.from_input(names[at]):
                as_read = column in read and is_text(reader) and not is_spelled(read[column])
                types[column] = arrow_type(read[column]) if as_read else reader.kept_type(column)
                if as_read:
                    self.kept_as[at][column] = read[column]
            if at == 0:
                typed = dict(self.orders[0].typed)
                self.order_as = {c: read.get(c) or typed[c] for c in self.order if is_text(reader)}
                types |= {c: order_type(reader, c, read, self.orders[0]) for c in self.order}
        self._keeps = [kept.from_input(name) for name in names]
        return Along(self.order, kept, types, self._formats)

    @property
    def one_key(self) -> bool:
        """Whether all sources have the same key in a push: of one row, or lined up by key and order."""
        return self.wide or bool(self.order)

    @property
    def key_type(self) -> Type | None:
        """What an engine calls the key: one column's type, or a tuple of several."""
        return type_of_key(self.key)

    def __iter__(self) -> Iterator[Fed]:
        if self.order:
            found = sorted_feed(self, self._lanes, self._keeps, self._again)
            if found is not None:
                yield from found
                return
        lanes = [
            _Lane(
                reader,
                bound,
                self.key,
                self.rows,
                self.wide,
                keep=keep,
                order=order,
                lenient=self.lenient,
                alone=len(self._lanes) == 1,
            )
            for (reader, bound), keep, order in zip(self._lanes, self._keeps, self.orders, strict=True)
        ]
        first = 0
        while self.limit is None or first < self.limit:
            live = [lane for lane in lanes if lane.ready()]
            if not live:
                return
            if len(live) < len(lanes) and self.short == "fail":
                ended = next(lane for lane in lanes if lane not in live)
                raise DataError(uneven(ended.reader.name, ended.taken, live[0].reader.name))
            count = min(lane.left for lane in live)
            if self.limit is not None:
                count = min(count, self.limit - first)
            fed = Fed(Batch(count, [], [], [] if self.key else None), first, _share(lanes))
            for lane in lanes:
                lane.take(count, fed, self.along)
            fed.set_aside(apart=self.graph.timed and not self.wide)
            yield fed
            del fed
            first += count


def _share(lanes: list[_Lane]) -> float | None:
    """How much of the inputs is read: the least of them, as the slowest decides."""
    shares = [lane.share for lane in lanes if lane.share is not None]
    return min(shares) if shares else None


def _wide_names(reader: Reader, sources: Mapping[str, Type]) -> list[str]:
    """The columns of a file for several sources; in JSON Lines a source that is silent at first is not there yet."""
    names = list(reader.names)
    if isinstance(reader, JsonLinesReader):
        if reader.bare:
            raise DataError(
                f"{reader.name}: holds bare values, but there are several sources: expected objects such as "
                f"{{{', '.join(f'{chr(34)}{s}{chr(34)}: …' for s in sources)}}}"
            )
        heads = {name.split(".")[0] for name in names}
        if heads & set(sources) or not names:
            wanted = [f"{s}.{p}" if p else s for s, t in sources.items() if s not in heads for p, _ in t.columns()]
            names += [w for w in wanted if w not in names]
    return names


class _Lane:
    """A reader, its current chunk and how much of it was taken."""

    def __init__(
        self,
        reader: Reader,
        bound: list[Binding],
        key: Mapping[str, Type],
        rows: int,
        wide: bool,
        *,
        keep: Sequence[str] = (),
        order: OrderTypes,
        lenient: bool = False,
        alone: bool = False,
    ) -> None:
        self.lenient = lenient
        self.reader, self.bound, self.key, self.wide = reader, bound, key, wide
        self.keep, self.order = list(keep), list(order.names)
        self.taken = 0
        self.alone = alone  # no other input: the key of a row is that of its push
        self.read = wanted_columns(bound, key)
        wanted, also = with_order(self.read, order)
        nulls = wanted if wide else {*key, *order.typed}
        self.chunks = reader.chunks(wanted, rows=rows, nulls=nulls, keep=[*also, *keep], lenient=lenient)
        self.chunk: Chunk | None = None
        self.at = 0
        self.ended = False

    @property
    def left(self) -> int:
        return self.chunk.batch.num_rows - self.at if self.chunk is not None else 0

    @property
    def share(self) -> float | None:
        if self.ended:
            return 1.0
        return self.chunk.done / self.chunk.total if self.chunk is not None and self.chunk.total else None

    def ready(self) -> bool:
        """Whether there is a row to take."""
        while not self.ended and not self.left:
            self.chunk = None  # not kept while the next one is read
            self.chunk, self.at = next(self.chunks, None), 0
            self.ended = self.chunk is None
        return not self.ended

    def take(self, count: int, fed: Fed, along: Along) -> None:
        """Give the next rows to the sources of this lane."""
        if self.ended or self.chunk is None:
            fed.along |= {name: pa.nulls(count, along.types[name]) for name in self.keep}
            for binding in self.bound:
                leaves = [leaf for _, leaf in binding.type.leaves()]
                fed.batch.columns.append([_blank(leaf, count) for leaf in leaves])
                fed.batch.masks.append(np.zeros(count, dtype=bool))
                if fed.batch.keys is not None:
                    fed.batch.keys.append([_blank(leaf, count) for t in self.key.values() for _, leaf in t.leaves()])
            return
        part = self.chunk.batch.slice(self.at, count)
        place = self.chunk.place.shifted(self.at)
        if self.lenient:
            place = replace(place, bad={i: note for i, note in (place.bad or {}).items() if i < count})
        for binding in self.bound:
            columns, mask, keys = source_columns(binding, part, place, silent=self.wide)
            fed.batch.columns.append(columns)
            fed.batch.masks.append(mask)
            if fed.batch.keys is not None:
                fed.batch.keys.append(keys or [])
        fed.along |= {name: column_at(part, name) for name in self.keep}
        if self.alone and self.keep:
            own = {name: column_at(part, name) for name in self.key}
            fed.along |= {name: c for name, c in own.items() if fits(c.type, arrow_type(self.key[name]))}
        for name in self.order:
            form = self.bound[0].formats.get(name)
            fed.along[name] = order_values(column_at(part, name), name, self.read.get(name), place, form)
        fed.places.append(place)
        fed.parts.append(part)
        fed.fills.append(len(fed.batch.masks) - 1)
        self.at += count
        self.taken += count


def _blank(t: Type, count: int) -> Column:
    """A column for rows that are no events."""
    if t == STR:
        return Strings(np.zeros(count, dtype=np.int64), [""])
    return np.zeros(count, dtype=np.float64 if t == FLOAT else np.bool_ if t == BOOL else np.int64)
