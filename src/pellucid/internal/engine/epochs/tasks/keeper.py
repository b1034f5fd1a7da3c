"""Columns that come along in a run with epochs: the sink reads them itself, in step with the pushes.

Push *i* is row *i* of every input, so the row of an event is known by its push, and nothing has to travel through the
tasks between.  A snapshot of the sink keeps where the reading was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError
from pellucid.internal.data.arrow import column_at
from pellucid.internal.data.bind import Place
from pellucid.internal.data.formats.outputs import event_fields
from pellucid.internal.data.tables.along import Along, fitting
from pellucid.internal.data.tables.sorting import order_values
from pellucid.internal.engine.epochs.tasks.lanes import Lane
from pellucid.internal.engine.epochs.tasks.many_lanes import ManyLane
from pellucid.internal.expr.types import Type

#: Opens the lanes of the inputs that have columns to keep, where a snapshot left them.
Open = Callable[[Sequence[Mapping[str, Any]] | None], list[tuple[Lane | ManyLane, list[str]]]]


class Keeper:
    """The kept columns of the inputs, from some push on."""

    def __init__(
        self,
        along: Along,
        opened: Open,
        order_as: Mapping[str, Type] = MappingProxyType({}),
        formats: Mapping[str, str] = MappingProxyType({}),
        key: Sequence[str] = (),
    ) -> None:
        self._key = key
        self._along, self._opened, self._order_as, self._formats = along, opened, order_as, formats
        self._lanes: list[tuple[Lane | ManyLane, list[str]]] = []

    def restore(self, offsets: Sequence[Mapping[str, Any]] | None) -> None:
        """Go on where a snapshot left it."""
        self._lanes = self._opened(offsets)

    def offsets(self) -> list[dict[str, Any]]:
        """Where the lanes are, for a snapshot."""
        return [lane.offset() for lane, _ in self._lanes]

    def read(self, until: int, positions: Any = ()) -> dict[str, Any]:
        """Read all rows of the pushes before this one; of those at these positions the values of the columns, null
        where an input has ended."""
        out: dict[str, Any] = {}
        wanted = np.asarray(positions, dtype=np.int64)
        for lane, names in self._lanes:
            first = lane.row
            have, pieces, places = lane.pieces(max(0, until - first))
            if not len(wanted):
                continue
            rows = wanted - first
            index = pa.array(rows, mask=rows >= have)
            for name in names:
                arrays = [
                    self._fitting(self._value(piece, name, place), name, lane)
                    for piece, (_, place) in zip(pieces, places, strict=True)
                ]
                whole = pa.concat_arrays([pa.array([], self._along.types[name]), *arrays])
                out[name] = whole.take(index)
        return out

    def _value(self, piece: Any, name: str, place: Place) -> Any:
        if name not in self._along.order:
            return piece.column(name)
        return order_values(column_at(piece, name), name, self._order_as.get(name), place, self._formats.get(name))

    def _fitting(self, array: Any, name: str, lane: Lane | ManyLane) -> Any:
        try:
            return fitting(array, self._along.types[name])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise DataError(
                f"{lane.path}: the column {name!r}, which is kept, holds {array.type}, but {self._along.types[name]} "
                f"in the first file: {error}"
            ) from None

    def with_kept(self, batch: Any, positions: Any, until: int, t: Type, output: str, schema: Any) -> Any:
        """A batch of rows of these pushes with the columns that come along, between the key and the event."""
        columns = self.read(until, positions)
        if not batch.num_rows:
            return batch
        at = batch.num_columns - len(event_fields(t, output))
        more = [columns[name] for name in schema.names[at : at + len(schema) - batch.num_columns]]
        return pa.RecordBatch.from_arrays([*batch.columns[:at], *more, *batch.columns[at:]], schema=schema)

    def close(self) -> None:
        """Close the files."""
        for lane, _ in self._lanes:
            lane.close()
