"""Columns that come along with the events of an output file: the order's, and those that are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError
from pellucid.internal.data.arrow import taken, without_views
from pellucid.internal.data.columns import Output
from pellucid.internal.data.formats.fields import own_paths
from pellucid.internal.data.formats.lists import is_list
from pellucid.internal.data.formats.met import Where, refuse_other_keys, refuse_types
from pellucid.internal.data.formats.outputs import array_of, arrow_type, event_fields, output_batch, output_schema
from pellucid.internal.data.tables.keep import Kept
from pellucid.internal.expr.types import BOOL, Type


@dataclass(frozen=True)
class Along:
    """Which columns come along, in their order, and of which types."""

    order: tuple[str, ...] = ()
    kept: Kept = field(default_factory=Kept)
    types: Mapping[str, Any] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)  # of times in texts, by column

    def __bool__(self) -> bool:
        return bool(self.order or self.kept.columns)

    def names(self, t: Type, name: str, key: Sequence[str]) -> list[str]:
        """Those that go with one output: what a record has itself, or the key has, is there already."""
        own = own_paths(t, name)
        order = [column for column in self.order if column not in own and column not in key]
        return [*order, *(column for _, column in self.kept.of(t, name))]

    def schema(self, t: Type, name: str, key: Mapping[str, Type]) -> Any:
        """The columns of an output: the key's, what comes along, the event's."""
        refuse_types("key", name, t, {column: arrow_type(kind) for column, kind in key.items()})
        plain = output_schema(t, name, key)
        at = len(plain) - len(event_fields(t, name))
        fields = list(plain)
        more = [pa.field(column, self.types[column]) for column in self.names(t, name, list(key))]
        return pa.schema([*fields[:at], *more, *fields[at:]])

    def batch(
        self,
        output: Output,
        key: Mapping[str, Type],
        columns: Mapping[str, Any],
        rows: Any,
        schema: Any,
        where: Where | None = None,
    ) -> Any:
        """What an output put out, with the values that came along in these rows of the columns; texts may be codes.
        ``where`` names the row of an event."""
        names = self.names(output.type, output.name, list(key))
        refuse_other_keys(output, list(key), where, self.formats)
        width = len(event_fields(output.type, output.name))
        keys = schema.names[: len(schema) - width - len(names)]
        given = bool(names) and all(name in columns for name in keys)  # as they were read: texts may be codes
        known = {} if given else key
        plain = output_batch(output, output_schema(output.type, output.name, known), key=list(known))
        if not names:
            return plain
        pick = _picker(np.asarray(rows, dtype=np.int64), len(columns[names[0]]))
        first = [pick(columns[name]) for name in keys] if given else plain.columns[: len(keys)]
        more = [_coded(pick(columns[name]), self.types[name]) for name in names]
        return pa.RecordBatch.from_arrays([*first, *more, *plain.columns[-width:]], names=schema.names)


def _picker(rows: Any, count: int) -> Callable[[Any], Any]:
    """How these rows are taken from columns of so many: all, those that are there once in their order (which costs a
    fraction of the rest), or any."""
    if bool((rows[1:] > rows[:-1]).all()):
        if len(rows) == count:
            return lambda column: column
        here = np.zeros(count, dtype=bool)
        here[rows] = True
        mask = array_of(BOOL, here)
        return lambda column: without_views(column, lambda plain: plain.filter(mask))
    index = pa.array(rows)
    return lambda column: taken(column, index)


def fits(found: Any, t: Any) -> bool:
    """Whether a column can be written as one of this type: also texts that are codes, which a writer may use.

    >>> fits(pa.dictionary(pa.int32(), pa.string()), pa.string()), fits(pa.int32(), pa.int64())
    (True, False)
    """
    return bool(found == t or (found == pa.dictionary(pa.int32(), pa.string()) and t == pa.string()))


def _coded(array: Any, t: Any) -> Any:
    return array if fits(array.type, t) else fitting(array, t)


def fitting(array: Any, t: Any) -> Any:
    """A column in the type that was announced: a dictionary becomes what it stands for."""
    if array.type == t:
        return array
    return array.cast(t)


_IN_TEXT = (
    pa.types.is_null, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal,
    pa.types.is_string, pa.types.is_large_string, pa.types.is_date, pa.types.is_time, pa.types.is_timestamp,
    pa.types.is_duration,
)  # fmt: skip
_NOT_IN_PARQUET = (pa.types.is_union, pa.types.is_interval, pa.types.is_run_end_encoded)


def refuse_no_cells(path: str, form: str, schema: Any) -> None:
    """Refuse a column for which a file of this format has no form.

    >>> refuse_no_cells("out.csv", "csv", pa.schema([("tags", pa.list_(pa.string()))]))
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: out.csv: the column 'tags' holds list<item: string>, for which csv has no form: do not
    keep it, or write .jsonl, .parquet or .arrow
    """
    for one in schema:
        if not _has_form(one.type, form):
            others = [f".{other}" for other in ("jsonl", "parquet", "arrow") if _has_form(one.type, other)]
            raise DataError(
                f"{path}: the column {one.name!r} holds {one.type}, for which {form} has no form: do not keep it, or "
                f"write {', '.join(others[:-1])}{' or ' if others[1:] else ''}{others[-1]}"
            )


def _has_form(t: Any, form: str) -> bool:
    """Whether a file of this format can hold values of an Arrow type."""
    if form == "arrow":
        return True
    if pa.types.is_dictionary(t):
        return _has_form(t.value_type, form)
    inside = (t.field(i).type for i in range(t.num_fields))
    if form == "parquet":
        here = not any(kind(t) for kind in _NOT_IN_PARQUET)
        return here and all(_has_form(part, form) for part in inside)
    if pa.types.is_struct(t) or (form == "jsonl" and is_list(t)):
        return all(_has_form(part, form) for part in inside)
    return any(kind(t) for kind in _IN_TEXT)
