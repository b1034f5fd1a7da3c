"""``T | None``: a value that may be missing.

Engines see two things: whether it is there, a ``bool``, and the leaves of ``T``, which are the simplest ones where it
is not.  So two events are equal if their leaves are, and no engine needs to know of ``None``.

>>> from pellucid.internal.expr.types.base import INT
>>> t = OptionalType(INT)
>>> t, t.flatten(None), t.flatten(7), t.unflatten((False, 0))
(int | None, (False, 0), (True, 7), None)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.internal.expr.types.base import BOOL, Type, simplest

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
