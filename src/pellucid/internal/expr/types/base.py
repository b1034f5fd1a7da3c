"""Types of events: what is common to all, the plain scalars and enums."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
        several leaves and is one value to everybody else, such as an optional one."""
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
