"""Events as rows of arrays: a time, the leaves of a key, the leaves of a value.  Texts are codes of `Texts`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.internal.expr.types import BOOL, FLOAT, STR, Type

LEAST, MOST = -(2**63), 2**63 - 1


def kind_of(t: Type) -> Any:
    """The type of the array that holds a leaf.

    >>> from pellucid.internal.expr.types import STR
    >>> kind_of(STR)
    dtype('int64')
    """
    return np.dtype(np.float64 if t == FLOAT else np.bool_ if t == BOOL else np.int64)


@dataclass(frozen=True)
class Kinds:
    """The leaves of a stream's keys and of its events."""

    key: tuple[Type, ...]
    value: tuple[Type, ...]

    @staticmethod
    def of(key: Type | None, value: Type) -> Kinds:
        """Of a stream with keys of one type, or none, and events of another."""
        return Kinds(leaves_of(key) if key is not None else (), leaves_of(value))

    @property
    def arrays(self) -> list[Any]:
        """The types of the arrays: the key's, then the value's."""
        return [kind_of(t) for t in (*self.key, *self.value)]

    def texts(self) -> list[bool]:
        """Which of them are codes of texts."""
        return [t == STR for t in (*self.key, *self.value)]

    def none(self) -> Rows:
        """No rows."""
        return Rows(
            np.zeros(0, np.int64),
            [np.zeros(0, kind_of(t)) for t in self.key],
            [np.zeros(0, kind_of(t)) for t in self.value],
        )


def leaves_of(t: Type) -> tuple[Type, ...]:
    """The types of the leaves."""
    return tuple(kind for _, kind in t.leaves())


def picked(columns: Sequence[Any], which: Any) -> list[Any]:
    """Some rows of columns; of one that is there more than once, as a time that is a field of the event, a single copy.

    >>> time = np.array([5, 6, 7])
    >>> one, other = picked([time, time], slice(0, 2))
    >>> one.tolist(), one is other
    ([5, 6], True)
    """
    made: dict[int, Any] = {}
    for column in columns:
        if id(column) not in made:
            made[id(column)] = column[which]
    return [made[id(column)] for column in columns]


@dataclass
class Rows:
    """Some events of one stream."""

    time: Any
    key: list[Any]
    value: list[Any]

    def __len__(self) -> int:
        return len(self.time)

    def at(self, which: Any) -> Rows:
        """Those that an index, a mask or a slice says."""
        time, *columns = picked([self.time, *self.key, *self.value], which)
        return Rows.made(time, columns, len(self.key))

    def columns(self) -> list[Any]:
        """Key and value."""
        return [*self.key, *self.value]

    @staticmethod
    def made(time: Any, columns: Sequence[Any], keys: int) -> Rows:
        """The opposite of `columns`, with the time."""
        return Rows(time, list(columns[:keys]), list(columns[keys:]))


def behind(parts: Sequence[Rows]) -> Rows:
    """Rows one part behind the other."""
    if len(parts) == 1:
        return parts[0]
    return Rows(
        np.concatenate([p.time for p in parts]),
        [np.concatenate(c) for c in zip(*[p.key for p in parts], strict=True)],
        [np.concatenate(c) for c in zip(*[p.value for p in parts], strict=True)],
    )


def later(times: Any, by: int) -> Any:
    """Times moved by so much; what leaves 64 bits stays at their end, where no clock but the last gets.

    >>> later(np.array([1, MOST]), 5).tolist()
    [6, 9223372036854775807]
    """
    if not len(times) or not by:
        return times
    least, most = int(times.min()) + by, int(times.max()) + by
    if least >= LEAST and most <= MOST:
        return times + by
    return np.clip(times.astype(object) + by, LEAST, MOST).astype(np.int64)
