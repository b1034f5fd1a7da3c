"""Columns on their way into a kernel and out of it: checked, cut, filled up, joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid.errors import DataError
from pellucid.internal.data.bind import no_nan
from pellucid.internal.data.columns import Output, Strings
from pellucid.internal.expr.types import BOOL, FLOAT, STR, EnumType, Type, conform


def conformed(name: str, t: Type, events: list[Any], offset: int, nan: bool = True) -> list[Any]:
    """Events that fit a type; the first that does not is refused with its number."""
    out = []
    floats = not nan and any(leaf == FLOAT for _, leaf in t.leaves())
    for i, event in enumerate(events):
        try:
            out.append(conform(t, event))
            if floats and any(leaf != leaf for leaf in t.flatten(out[-1])):
                raise ValueError(no_nan(t))
        except ValueError as error:
            raise DataError(f"source {name!r}, event {offset + i:,}: {error}") from None
    return out


def checked(name: str, t: Type, array: Any, offset: int, nan: bool) -> Any:
    """An array whose numbers fit the source's type; nothing is cut off in silence."""
    import numpy as np

    kind = np.dtype({"bool": np.bool_, "int": np.int64, "float": np.float64}[str(t)])
    if array.ndim != 1 or not (array.dtype == kind or (t != BOOL and np.can_cast(array.dtype, kind, "safe"))):
        raise DataError(
            f"source {name!r}: expected a one-dimensional array of {t}, found {array.ndim} dimension(s) of "
            f"{array.dtype}"
        )
    if t == FLOAT and not nan and np.isnan(array).any():
        raise DataError(f"source {name!r}, event {offset + int(np.isnan(array).argmax()):,}: {no_nan(t)}")
    return array


def as_array(column: Any) -> Any:
    """A column as one array; texts as objects."""
    import numpy as np

    return np.asarray([column.values[c] for c in column.codes] if isinstance(column, Strings) else column)


def padded(t: Type, column: Any, count: int) -> Any:
    """A column with rows added that are no events."""
    missing = count - len(column)
    if isinstance(column, list):
        zero = t.members[0] if isinstance(t, EnumType) else "" if t == STR else 0
        return column + [column[0] if column else zero] * missing
    import numpy as np

    return np.concatenate([column, np.zeros(missing, column.dtype)])


def cut(column: Any, start: int, stop: int) -> Any:
    """Some rows of a column."""
    return Strings(column.codes[start:stop], column.values) if isinstance(column, Strings) else column[start:stop]


def head(column: Any, have: int) -> Any:
    """The filled part; a copy where that frees much memory."""
    if isinstance(column, list):
        return column
    return column[:have].copy() if have < len(column) // 2 else column[:have]


def shifted(positions: Any, offset: int) -> Any:
    """Positions in a chunk as positions in the stream."""
    if isinstance(positions, list):
        return [p + offset for p in positions] if offset else positions
    return positions + offset


def joined(parts: Sequence[Output]) -> Output:
    """What an output put out, part after part, as one."""
    if len(parts) == 1:
        return parts[0]
    import numpy as np

    def join(columns: list[Any]) -> Any:
        if isinstance(columns[0], Strings):
            if any(c.values is not columns[0].values for c in columns):  # the table was made anew in between
                return [c.values[code] for c in columns for code in c.codes.tolist()]
            return Strings(np.concatenate([c.codes for c in columns]), columns[-1].values)
        if isinstance(columns[0], list):
            return [v for c in columns for v in c]
        return np.concatenate(columns)

    first = parts[0]
    joined = Output(first.name, first.type, [join([p.columns[j] for p in parts]) for j in range(len(first.columns))])
    if first.positions is not None:
        joined.positions = join([p.positions for p in parts])
    if first.keys is not None:
        joined.key_type = first.key_type
        joined.keys = [join([p.keys[j] for p in parts if p.keys is not None]) for j in range(len(first.keys))]
    if first.inner is not None:
        joined.inner = [join([p.inner[j] for p in parts if p.inner is not None]) for j in range(len(first.inner))]
    return joined
