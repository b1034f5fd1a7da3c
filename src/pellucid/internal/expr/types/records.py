"""Types of events that have parts: records and plain tuples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.internal.expr.types.base import Type


def _each_tidy(parts: Iterable[Type], leaves: Sequence[Any]) -> tuple[Any, ...]:
    out: tuple[Any, ...] = ()
    for t in parts:
        out += t.tidy(leaves[len(out) : len(out) + t.width])
    return out


def _each_guards(parts: Iterable[Type]) -> tuple[tuple[int, ...], ...]:
    out: tuple[tuple[int, ...], ...] = ()
    for t in parts:
        first = len(out)
        out += tuple(tuple(first + at for at in inner) for inner in t.guards())
    return out


def _nothing(t: Type) -> Any:
    return t.nothing() if isinstance(t, (RecordType, TupleType)) else None


@dataclass(frozen=True, repr=False)
class RecordType(Type):
    """A frozen dataclass or a ``NamedTuple`` whose fields are events themselves."""

    cls: type
    fields: tuple[tuple[str, Type], ...]
    #: Whether None may stand in its place, for one that has None in each field (see `expr.types.absent`).
    absent: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        inner = ", ".join(f"{name}: {t}" for name, t in self.fields)
        return f"{self.cls.__name__}({inner})"

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        for name, t in self.fields:
            yield from t.leaves(f"{prefix}.{name}" if prefix else name)

    def columns(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        for name, t in self.fields:
            yield from t.columns(f"{prefix}.{name}" if prefix else name)

    def tidy(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        return _each_tidy([t for _, t in self.fields], leaves)

    def guards(self) -> tuple[tuple[int, ...], ...]:
        return _each_guards(t for _, t in self.fields)

    def limits(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(limit for _, t in self.fields for limit in t.limits())

    def flatten(self, value: Any) -> tuple[Any, ...]:
        if value is None and self.absent:
            value = self.nothing()
        out: tuple[Any, ...] = ()
        for name, t in self.fields:
            out += t.flatten(getattr(value, name))
        return out

    def _build(self, leaves: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        values = []
        for _, t in self.fields:
            value, leaves = t._build(leaves)
            values.append(value)
        return self.made(values), leaves

    def nothing(self) -> Any:
        """The record that is missing: None in each field."""
        return self.made([_nothing(t) for _, t in self.fields])

    def made(self, values: Sequence[Any]) -> Any:
        """The record with these values of its fields."""
        if issubclass(self.cls, tuple):
            return self.cls(*values)
        # Not through __init__: the leaves come from an event that was made once already, and a
        # dataclass may compute or refuse things in __post_init__.
        record = object.__new__(self.cls)
        for (name, _), value in zip(self.fields, values, strict=True):
            object.__setattr__(record, name, value)
        return record

    def problem(self, value: Any) -> str | None:
        if value is None and self.absent:
            return None
        if not isinstance(value, self.cls):
            return f"expected {self.cls.__name__}, found {type(value).__name__} {value!r}"
        for name, t in self.fields:
            trouble = t.problem(getattr(value, name))
            if trouble:
                return f"field {name!r}: {trouble}"
        return None


@dataclass(frozen=True, repr=False)
class TupleType(Type):
    """A plain tuple of fixed shape: handy as the state of a task."""

    items: tuple[Type, ...]
    absent: bool = field(default=False, compare=False)  # as of a record

    def __str__(self) -> str:
        return "(" + ", ".join(str(t) for t in self.items) + ("," if len(self.items) == 1 else "") + ")"

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        for i, t in enumerate(self.items):
            yield from t.leaves(f"{prefix}.{i}" if prefix else str(i))

    def columns(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        for i, t in enumerate(self.items):
            yield from t.columns(f"{prefix}.{i}" if prefix else str(i))

    def tidy(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        return _each_tidy(self.items, leaves)

    def guards(self) -> tuple[tuple[int, ...], ...]:
        return _each_guards(self.items)

    def limits(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(limit for t in self.items for limit in t.limits())

    def flatten(self, value: Any) -> tuple[Any, ...]:
        if value is None and self.absent:
            value = self.nothing()
        out: tuple[Any, ...] = ()
        for t, item in zip(self.items, value, strict=True):
            out += t.flatten(item)
        return out

    def _build(self, leaves: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        values = []
        for t in self.items:
            value, leaves = t._build(leaves)
            values.append(value)
        return tuple(values), leaves

    def nothing(self) -> Any:
        """The tuple that is missing: None in each place."""
        return tuple(map(_nothing, self.items))

    def problem(self, value: Any) -> str | None:
        if value is None and self.absent:
            return None
        if not isinstance(value, tuple) or len(value) != len(self.items):
            return f"expected a tuple of {len(self.items)}, found {value!r}"
        for i, (t, item) in enumerate(zip(self.items, value, strict=True)):
            trouble = t.problem(item)
            if trouble:
                return f"item {i}: {trouble}"
        return None
