"""Types of events: what is common to all, the plain scalars and enums.

``T | None``: a value that may be missing.

Engines see two things: whether it is there, a ``bool``, and the leaves of ``T``, which are the simplest ones where it
is not.  So two events are equal if their leaves are, and no engine needs to know of ``None``.

>>> from pellucid.internal.expr.types.base import INT
>>> t = OptionalType(INT)
>>> t, t.flatten(None), t.flatten(7), t.unflatten((False, 0))
(int | None, (False, 0), (True, 7), None)

Records and tuples that may be missing: ``E | None``.

A record is made of its fields, so one that is missing has ``None`` in each of them, as a row of an outer join has in
SQL.  There is no flag beside them that says so: ask for a field.

>>> from pellucid.internal.expr.types.base import INT, STR
>>> from pellucid.internal.expr.types.base import TupleType
>>> t = maybe(TupleType((INT, STR)))
>>> t, missing(t), t.flatten(None) == t.flatten((None, None))
((int | None, str | None), (None, None), True)
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1


def fits_int(value: int) -> bool:
    """Whether a value is a signed 64-bit integer.

    >>> fits_int(2**63 - 1), fits_int(2**63)
    (True, False)
    """
    return INT_MIN <= value <= INT_MAX


class Type:
    """What a stream carries.  Equal types compare equal and hash equal."""

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        """The scalar leaves with their dotted paths; a bare scalar's path is ``''``."""
        yield prefix, self

    def flatten(self, value: Any) -> tuple[Any, ...]:
        """The leaf values of one event."""
        return (value,)

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The event with these leaf values."""
        value, rest = self._build(tuple(leaves))
        assert not rest, (self, leaves)
        return value

    def _build(self, leaves: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        return leaves[0], leaves[1:]

    def columns(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        """The columns of a table that hold such events, with their dotted paths: one for each leaf, but for what has
        several leaves and is one value to everything else, such as an optional one."""
        yield prefix, self

    def tidy(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """Any values of the leaves as those of some event: what is missing is the simplest value, a time is one that
        there is."""
        return tuple(leaves)

    def event(self, leaves: Sequence[Any]) -> Any:
        """The event that any values of the leaves stand for."""
        return self.unflatten(self.tidy(leaves))

    def canonical(self, leaves: Sequence[Any]) -> bool:
        """Whether these leaves are what an event is flattened to."""
        return self.tidy(leaves) == tuple(leaves)

    def guards(self) -> tuple[tuple[int, ...], ...]:
        """For each leaf the leaves that say whether it is there: of what is not there, all leaves are the simplest."""
        return ((),) * self.width

    def limits(self) -> tuple[tuple[int, int] | None, ...]:
        """For each leaf the least and the greatest int that it can be, if not any."""
        return (None,) * self.width

    @property
    def width(self) -> int:
        """How many leaves an event has."""
        return sum(1 for _ in self.leaves())

    def problem(self, value: Any) -> str | None:
        """Why a Python value is not of this type, or None if it is."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, repr=False)
class ScalarType(Type):
    """``bool``, ``int`` (signed 64-bit), ``float`` or ``str``."""

    name: str

    def __str__(self) -> str:
        return self.name

    def problem(self, value: Any) -> str | None:
        found = type(value).__name__
        if self.name == "bool":
            return None if isinstance(value, bool) else f"expected bool, found {found} {value!r}"
        if self.name == "int":
            if not isinstance(value, int) or isinstance(value, bool):
                return f"expected int, found {found} {value!r}"
            return None if fits_int(value) else f"{value} does not fit in 64 bits"
        if self.name == "float":
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                return f"expected float, found {found} {value!r}"
            return None
        return None if isinstance(value, str) else f"expected str, found {found} {value!r}"


@dataclass(frozen=True, repr=False)
class EnumType(Type):
    """An ``enum.Enum`` class; an event is one of its members, coded by its place in the class."""

    cls: type[enum.Enum]

    def __str__(self) -> str:
        return self.cls.__name__

    @property
    def members(self) -> list[enum.Enum]:
        """The members in order of definition, without aliases."""
        return list(self.cls)

    def problem(self, value: Any) -> str | None:
        if isinstance(value, self.cls):
            return None
        names = ", ".join(m.name for m in self.members[:6])
        return f"expected a member of {self.cls.__name__} ({names}), found {value!r}"


BOOL = ScalarType("bool")
INT = ScalarType("int")
FLOAT = ScalarType("float")
STR = ScalarType("str")


def simplest(t: Type) -> Any:
    """A value of a leaf's type that stands for any.

    >>> simplest(INT), simplest(STR)
    (0, '')
    """
    if isinstance(t, EnumType):
        return t.members[0]
    return {"bool": False, "int": 0, "float": 0.0, "str": ""}[str(t)]


#: How the path of the leaf ends that tells whether a value is there.
THERE = "there"


@dataclass(frozen=True, repr=False)
class NothingType(Type):
    """The type of ``None`` alone: a state that has seen nothing yet, until it is known what else it can be."""

    def __str__(self) -> str:
        return "None"

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        return iter(())

    def flatten(self, value: Any) -> tuple[Any, ...]:
        return ()

    def _build(self, leaves: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        return None, leaves

    def problem(self, value: Any) -> str | None:
        return None if value is None else f"expected None, found {type(value).__name__} {value!r}"


NOTHING = NothingType()


@dataclass(frozen=True, repr=False)
class OptionalType(Type):
    """A value of another type, or ``None``."""

    inner: Type

    def __str__(self) -> str:
        return f"{self.inner} | None"

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        yield f"{prefix}.{THERE}" if prefix else THERE, BOOL
        yield from self.inner.leaves(prefix or "value")

    def flatten(self, value: Any) -> tuple[Any, ...]:
        if value is None:
            return (False, *(simplest(t) for _, t in self.inner.leaves()))
        return (True, *self.inner.flatten(value))

    def _build(self, leaves: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        if leaves[0]:
            return self.inner._build(leaves[1:])
        return None, leaves[1 + self.inner.width :]

    def tidy(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        if leaves[0]:
            return True, *self.inner.tidy(leaves[1:])
        return self.flatten(None)

    def guards(self) -> tuple[tuple[int, ...], ...]:
        return (), *((0, *(at + 1 for at in inner)) for inner in self.inner.guards())

    def limits(self) -> tuple[tuple[int, int] | None, ...]:
        return None, *self.inner.limits()

    def problem(self, value: Any) -> str | None:
        return None if value is None else self.inner.problem(value)


# ---------------------------------------------------------------- types that have parts


class PartsType(Type):
    """What records and tuples have in common: their leaves are those of their parts, in order."""

    absent: bool

    def parts(self) -> Iterable[tuple[str, Type]]:
        """The parts with their names; those of a tuple are numbers."""
        raise NotImplementedError

    def made(self, values: Sequence[Any]) -> Any:
        """The event with these parts."""
        raise NotImplementedError

    def nothing(self) -> Any:
        """The event that is missing: None in each place."""
        return self.made([missing(t) for _, t in self.parts()])

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        for name, t in self.parts():
            yield from t.leaves(f"{prefix}.{name}" if prefix else name)

    def columns(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        for name, t in self.parts():
            yield from t.columns(f"{prefix}.{name}" if prefix else name)

    def tidy(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        out: tuple[Any, ...] = ()
        for _, t in self.parts():
            out += t.tidy(leaves[len(out) : len(out) + t.width])
        return out

    def guards(self) -> tuple[tuple[int, ...], ...]:
        out: tuple[tuple[int, ...], ...] = ()
        for _, t in self.parts():
            first = len(out)
            out += tuple(tuple(first + at for at in inner) for inner in t.guards())
        return out

    def limits(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(limit for _, t in self.parts() for limit in t.limits())

    def _build(self, leaves: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        values = []
        for _, t in self.parts():
            value, leaves = t._build(leaves)
            values.append(value)
        return self.made(values), leaves


@dataclass(frozen=True, repr=False)
class RecordType(PartsType):
    """A frozen dataclass or a ``NamedTuple`` whose fields are events themselves."""

    cls: type
    fields: tuple[tuple[str, Type], ...]
    #: Whether None may stand in its place, for one that has None in each field (see `maybe`).
    absent: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        inner = ", ".join(f"{name}: {t}" for name, t in self.fields)
        return f"{self.cls.__name__}({inner})"

    def parts(self) -> Iterable[tuple[str, Type]]:
        return self.fields

    def flatten(self, value: Any) -> tuple[Any, ...]:
        if value is None and self.absent:
            value = self.nothing()
        out: tuple[Any, ...] = ()
        for name, t in self.fields:
            out += t.flatten(getattr(value, name))
        return out

    def made(self, values: Sequence[Any]) -> Any:
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
        problems = ((name, t.problem(getattr(value, name))) for name, t in self.fields)
        return next((f"field {name!r}: {problem}" for name, problem in problems if problem), None)


@dataclass(frozen=True, repr=False)
class TupleType(PartsType):
    """A plain tuple of fixed shape: handy as the state of a task."""

    items: tuple[Type, ...]
    absent: bool = field(default=False, compare=False)  # as of a record

    def __str__(self) -> str:
        return "(" + ", ".join(str(t) for t in self.items) + ("," if len(self.items) == 1 else "") + ")"

    def parts(self) -> Iterable[tuple[str, Type]]:
        return ((str(i), t) for i, t in enumerate(self.items))

    def flatten(self, value: Any) -> tuple[Any, ...]:
        if value is None and self.absent:
            value = self.nothing()
        out: tuple[Any, ...] = ()
        for t, item in zip(self.items, value, strict=True):
            out += t.flatten(item)
        return out

    def made(self, values: Sequence[Any]) -> Any:
        return tuple(values)

    def problem(self, value: Any) -> str | None:
        if value is None and self.absent:
            return None
        if not isinstance(value, tuple) or len(value) != len(self.items):
            return f"expected a tuple of {len(self.items)}, found {value!r}"
        problems = (t.problem(item) for t, item in zip(self.items, value, strict=True))
        return next((f"item {i}: {problem}" for i, problem in enumerate(problems) if problem), None)


def maybe(t: Type) -> Type:
    """The type of an event that may be missing, as the other side of a join: a record or a tuple has None in each of
    its fields then.

    >>> from pellucid.internal.expr.types import FLOAT, type_of
    >>> maybe(FLOAT), maybe(type_of(tuple[int, str | None]))
    (float | None, (int | None, str | None))
    """
    if isinstance(t, RecordType):
        return RecordType(t.cls, tuple((name, maybe(inner)) for name, inner in t.fields), absent=True)
    if isinstance(t, TupleType):
        return TupleType(tuple(map(maybe, t.items)), absent=True)
    return t if isinstance(t, OptionalType) else OptionalType(t)


def missing(t: Type) -> Any:
    """The event of a type made by `maybe` that stands for none.

    >>> from pellucid.internal.expr.types import type_of
    >>> missing(maybe(type_of(tuple[int, str | None])))
    (None, None)
    """
    return t.nothing() if isinstance(t, PartsType) else None
