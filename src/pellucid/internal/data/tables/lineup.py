"""Rows in the order that columns say: which row of which input is which push.

Rows are sorted by the columns of ``order``, the later ones breaking ties.  Rows of several inputs with equal key and
order are one push, as on Spark; where an input has no such row it is silent.  Two rows of one input with equal key and
order are an error, because nothing says which is first, unless ``late="drop"`` says that they are the same row twice:
then one is left out, and the caller refuses those that differ (`refuse_different`).  Rows of different keys may be
equal: they stay as they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pellucid.errors import DataError, UsageError, option
from pellucid.internal.data.arrow import numpy_of
from pellucid.internal.data.bind import Place

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
