"""Columns: how data enters and leaves an engine, one column for each leaf of an event.

A column is

* a NumPy array: ``int64`` (int), ``float64`` (float), ``bool`` (bool), or ``int64`` codes (enum: the
  member's place in its class);
* ``Strings``: codes into a list of texts (str), that is, dictionary-encoded;
* a plain list of Python values, such as enum members or texts, for small data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from pellucid.internal.expr.types import EnumType, ScalarType, Type

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Strings:
    """A dictionary-encoded column of texts: ``values[codes[i]]``."""

    codes: np.ndarray[Any, Any]
    values: Sequence[str]

    def __len__(self) -> int:
        return len(self.codes)


Column: TypeAlias = "np.ndarray[Any, Any] | Strings | list[Any]"


@dataclass
class Batch:
    """``count`` pushes: for each source its leaf columns, and a mask where it may be silent.

    Where ``masks[s]`` is False the row of source ``s`` is no event, whatever its columns hold.
    ``keys`` are the leaf columns of a key that comes with the data, for each source.
    """

    count: int
    columns: list[list[Column]]
    masks: list[np.ndarray[Any, Any] | list[bool] | None] = field(default_factory=list)
    keys: list[list[Column]] | None = None


@dataclass
class Output:
    """What one output stream put out: leaf columns; where asked for, the push and the key of each event.

    The key is the one that came with the data, if the engine runs per key, else that of ``key_by``.
    """

    name: str
    type: Type
    columns: list[Column]
    positions: Any = None  # the 0-based position of the push that each event came with
    key_type: Type | None = None
    keys: list[Column] | None = None
    inner: list[Column] | None = None  # where both have one, the key of key_by

    def __len__(self) -> int:
        return len(self.columns[0])

    def events(self) -> list[Any]:
        """The events as Python values."""
        return events_of(self.type, self.columns)


def columns_of(t: Type, events: Iterable[Any]) -> list[Column]:
    """Events as plain leaf columns."""
    rows = [t.flatten(e) for e in events]
    return [list(c) for c in zip(*rows, strict=True)] if rows else [[] for _ in range(t.width)]


def values_of(t: Type, column: Column) -> list[Any]:
    """A leaf column as Python values."""
    if isinstance(column, list):
        return column
    if isinstance(column, Strings):
        values = column.values
        return [values[c] for c in column.codes.tolist()]
    plain: list[Any] = column.tolist()
    if isinstance(t, EnumType):
        members = t.members
        return [members[c] for c in plain]
    return plain


def events_of(t: Type, columns: Sequence[Column]) -> list[Any]:
    """The events that these leaf columns hold."""
    leaves = [values_of(kind, c) for (_, kind), c in zip(t.leaves(), columns, strict=True)]
    if isinstance(t, (ScalarType, EnumType)):
        return leaves[0]
    return [t.unflatten(row) for row in zip(*leaves, strict=True)]
