"""Rows of a frame, as Arrow has them, as columns for an engine; and what is said of a row that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError
from pellucid.internal.data.arrow import column_leaves, one_mask
from pellucid.internal.data.bind import Binding, Place
from pellucid.internal.data.columns import Column
from pellucid.internal.expr.types import OptionalType, Type
from pellucid.spark.job import SparkJob
from pellucid.spark.state.order import shown


class Reader:
    """What the columns of a job's frame hold."""

    def __init__(self, job: SparkJob) -> None:
        self.job, self.fields = job, job.fields
        # for messages: the user's names
        self._bindings = [
            Binding(s.name, s.type, s.columns, nan=s.nan, formats=dict(s.formats)) for s in job.fields.sources
        ]

    def _leaves(self, t: Type, array: Any, name: str, what: str, table: Any) -> list[Column]:
        if array.null_count and not isinstance(t, OptionalType):
            i = int(np.argmin(np.asarray(array.combine_chunks().is_valid().to_numpy(zero_copy_only=False))))
            raise DataError(f"{self._row(table, i)}: {self._no_leaf(what, name)}")
        if pa.types.is_date(array.type):
            array = array.cast(pa.int32())
        elif pa.types.is_timestamp(array.type):
            array = array.cast(pa.int64())
        elif pa.types.is_decimal(array.type):
            array = array.cast(pa.string())
        return column_leaves(t, array, column=name, place=Place("the DataFrame", lambda i: self._row(table, i)))[0]

    @staticmethod
    def _no_leaf(what: str, name: str) -> str:
        give = "a key" if what == "key" else "an order"
        return f"the {what} column {name!r} is null: give every row {give}, or leave such rows out"

    def _columns(self, binding: Binding, s: int, part: Any, place: Place | None = None) -> tuple[list[Column], Any]:
        place = place or Place("the DataFrame", lambda i: self._row(part, i))
        leaves: list[Column] = []
        masks = []
        for (_, t), path, column in zip(binding.type.columns(), binding.columns, self.fields.values(s), strict=True):
            said: dict[str, Any] = {"nan": binding.nan, "form": binding.formats.get(path), "silent": self.fields.wide}
            values, mask = column_leaves(t, part.column(column), column=path, place=place, **said)
            leaves += values
            masks.append(mask)
        return leaves, one_mask(binding, masks, place, part.num_rows) if self.fields.wide else None

    def _row(self, table: Any, i: int) -> str:
        """A row for messages: its key and order."""
        names = [
            (n, c)
            for (n, _), c in zip(
                (*self.fields.key, *self.fields.order), (*self.fields.keys, *self.fields.orders), strict=True
            )
        ]
        return ", ".join(f"{n}={shown(table.column(c)[i].as_py())}" for n, c in names) or f"row {i + 1} of a batch"


def row_digests(columns: Sequence[Any], count: int) -> Any:
    """A number for each row, never 0: the same for rows with equal values in all of these Arrow columns, in whatever
    batch they come.

    >>> a, b, c = row_digests([pa.array([1, 2, 1]), pa.array(["x", "x", "x"])], 3)
    >>> bool(a == c), bool(a == b)
    (True, False)
    """
    out = np.full(count, len(columns), np.uint64)
    for column in columns:
        out = _mixed(out * np.uint64(31) + _mixed(_value_digests(column)))
    out[out == 0] = 1
    return out.view(np.int64)


def _value_digests(column: Any) -> Any:
    """A number for each value of a column."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    t, kinds = column.type, pa.types
    if kinds.is_floating(t):
        floats = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False).copy()
        floats[np.isnan(floats)] = np.nan
        out = floats.view(np.uint64).copy()
    elif kinds.is_integer(t) or kinds.is_boolean(t) or kinds.is_temporal(t):
        whole = column.view(pa.int32()) if kinds.is_date32(t) else column
        whole = whole.view(pa.int64()) if kinds.is_timestamp(t) or kinds.is_duration(t) else whole
        out = whole.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64).copy()
    else:
        from pandas.util import hash_array

        if kinds.is_nested(t) or kinds.is_null(t):
            out = hash_array(np.array([repr(v) for v in column.to_pylist()] or [""], dtype=object))[: len(column)]
        else:  # each value once
            found = column.dictionary_encode("encode")
            values = [v if isinstance(v, str) else repr(v) for v in found.dictionary.to_pylist()]
            out = hash_array(np.array(values or [""], dtype=object))[found.indices.to_numpy(zero_copy_only=False)]
    out[~column.is_valid().to_numpy(zero_copy_only=False)] = 0x9E3779B97F4A7C15
    return out


def _mixed(x: Any) -> Any:
    """The bits of some numbers well shaken (the end of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
