"""``list[T]`` and ``tuple[T, ...]``: a value of any length inside an event.

An engine sees a list as one text, which says what is in it: the leaves of its elements, one after the other, as JSON
has them.  Equal texts are equal lists, so a list goes wherever a text does: it is a code in a kernel, and data in a
saved state.  What looks inside asks the text, once for each different one.  The empty list is the empty text.

>>> from pellucid.internal.expr.types.base import INT, STR
>>> t = ListType(INT)
>>> t, t.flatten([1, 2]), t.unflatten(("1,2",)), t.flatten([])
(list[int], ('1,2',), [1, 2], ('',))
>>> ListType(STR, tuple).flatten(("a,b", ""))
('"a,b",""',)
"""

from __future__ import annotations

import enum
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.internal.expr.types.base import BOOL, FLOAT, STR, EnumType, Type

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, repr=False)
class ListType(Type):
    """A list, or a tuple of any length, of values of one type."""

    item: Type
    cls: type = list
    kinds: tuple[Type, ...] = field(init=False, compare=False)  # the types of the leaves of an element

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(kind for _, kind in self.item.leaves()))

    def __str__(self) -> str:
        return f"list[{self.item}]" if self.cls is list else f"tuple[{self.item}, ...]"

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        yield prefix, STR

    def flatten(self, value: Any) -> tuple[Any, ...]:
        flat = self.item.flatten
        return (written([leaf for item in value for leaf in flat(item)]),)

    def _build(self, leaves: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        return self.value(leaves[0]), leaves[1:]

    def value(self, text: str) -> Any:
        """The list that a text says.

        >>> from pellucid.internal.expr.types.base import BOOL
        >>> ListType(BOOL).value("true,false")
        [True, False]
        """
        width, found = self.item.width, self.rows(text)
        if width == 1 and self.item == self.kinds[0]:
            return self.cls(found)
        of = self.item.unflatten
        return self.cls(of(found[i : i + width]) for i in range(0, len(found), width))

    def rows(self, text: str) -> list[Any]:
        """The leaves of all elements, one after the other."""
        found: list[Any] = json.loads(f"[{text}]")
        for j, kind in enumerate(self.kinds):
            if isinstance(kind, EnumType):
                members = kind.cls.__members__
                found[j :: len(self.kinds)] = [members[name] for name in found[j :: len(self.kinds)]]
        return found

    def size(self, text: str) -> int:
        """How many elements the list of a text has."""
        return len(json.loads(f"[{text}]")) // len(self.kinds)

    def tidy(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """A text that says no list stands for one that is made of it, a short one: a solver gives any text."""
        try:
            if self.flatten(self.value(leaves[0])) == tuple(leaves):
                return tuple(leaves)
        except (ValueError, TypeError, LookupError, AssertionError, AttributeError, OverflowError):
            pass
        number = zlib.crc32(leaves[0].encode("utf-8", "replace")) % 1000
        few = all(kind == BOOL or isinstance(kind, EnumType) for kind in self.kinds)
        digits = [int(d) for d in f"{number % 7:b}"] if few else [number]
        return self.flatten([self.item.event([_standing(kind, d, leaves[0]) for kind in self.kinds]) for d in digits])

    def problem(self, value: Any) -> str | None:
        values = elements(value)
        if values is None:
            return f"expected {self}, found {type(value).__name__} {value!r}"
        for i, item in enumerate(values):
            trouble = self.item.problem(item)
            if trouble:
                return f"element {i}: {trouble}"
        return None


def written(leaves: Sequence[Any]) -> str:
    """The text of a list with these leaves; an enum's member goes by its name.

    >>> written([1, True, 2.5, "a"])
    '1,true,2.5,"a"'
    """
    return _encode([leaf.name if isinstance(leaf, enum.Enum) else leaf for leaf in leaves])[1:-1]


def elements(value: Any) -> Sequence[Any] | None:
    """What a list, a tuple or an array of one dimension holds; None of anything else."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return value
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 0) == 1:
        return value.tolist()  # type: ignore[no-any-return]
    return None


def _standing(kind: Type, number: int, text: str) -> Any:
    """A value of a leaf that stands for a number, or for a text."""
    if isinstance(kind, EnumType):
        return kind.members[number % len(kind.members)]
    return {"bool": number % 2 == 1, "int": number, "float": float(number), "str": text}[str(kind)]


def list_in(t: Type) -> ListType | None:
    """The first list in an event of this type; None if it has none.

    >>> from pellucid.internal.expr.types.base import INT
    >>> from pellucid.internal.expr.types.records import TupleType
    >>> list_in(TupleType((INT, ListType(INT)))), list_in(INT)
    (list[int], None)
    """
    for _, column in t.columns():
        inner = getattr(column, "inner", column)
        if isinstance(inner, ListType):
            return inner
    return None


def comparable(t: ListType) -> bool:
    """Whether two lists are equal just if their texts are: not so with floats, of which 0.0 and -0.0 are one.

    >>> comparable(ListType(STR)), comparable(ListType(FLOAT))
    (True, False)
    """
    inside = [getattr(column, "inner", column) for _, column in t.item.columns()]
    return FLOAT not in t.kinds and all(comparable(u) for u in inside if isinstance(u, ListType))


def has_nan(t: Type, value: Any) -> bool:
    """Whether a NaN is among the elements of a list."""
    if not isinstance(t, ListType) or (FLOAT not in t.kinds and STR not in t.kinds):
        return False
    if t.item == FLOAT:
        return any(item != item for item in value)
    return any((type(leaf) is float and leaf != leaf) for item in value for leaf in t.item.flatten(item)) or any(
        has_nan(column, part) for item in value for column, part in _parts(t.item, item)
    )


def _parts(t: Type, item: Any) -> Iterator[tuple[Type, Any]]:
    """The columns of an element that are lists themselves, with their values."""
    at, leaves = 0, t.flatten(item)
    for _, column in t.columns():
        inner = getattr(column, "inner", column)
        if isinstance(inner, ListType):
            value = column.unflatten(leaves[at : at + column.width])
            if value is not None:
                yield inner, value
        at += column.width
