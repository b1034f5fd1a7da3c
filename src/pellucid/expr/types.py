"""The types of events: ``bool``, ``int``, ``float``, ``str``, enums, and records of those.

Every engine sees an event as a fixed list of scalar **leaves**: a scalar has one, a record (a
dataclass, a ``NamedTuple`` or a plain tuple of a state) has those of its fields, in order.  So a
column store, a kernel, an SMT solver and Spark all share one idea of an event's shape.

>>> from typing import NamedTuple
>>> class Trade(NamedTuple):
...     price: float
...     size: int
>>> t = type_of(Trade)
>>> t
Trade(price: float, size: int)
>>> [(path, str(leaf)) for path, leaf in t.leaves()]
[('price', 'float'), ('size', 'int')]
>>> t.unflatten(t.flatten(Trade(1.5, 2)))
Trade(price=1.5, size=2)
"""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.errors import TypeMismatch

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


@dataclass(frozen=True, repr=False)
class RecordType(Type):
    """A frozen dataclass or a ``NamedTuple`` whose fields are events themselves."""

    cls: type
    fields: tuple[tuple[str, Type], ...]

    def __str__(self) -> str:
        inner = ", ".join(f"{name}: {t}" for name, t in self.fields)
        return f"{self.cls.__name__}({inner})"

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        for name, t in self.fields:
            yield from t.leaves(f"{prefix}.{name}" if prefix else name)

    def flatten(self, value: Any) -> tuple[Any, ...]:
        out: tuple[Any, ...] = ()
        for name, t in self.fields:
            out += t.flatten(getattr(value, name))
        return out

    def _build(self, leaves: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        values = []
        for _, t in self.fields:
            value, leaves = t._build(leaves)
            values.append(value)
        if issubclass(self.cls, tuple):
            return self.cls(*values), leaves
        # Not through __init__: the leaves come from an event that was made once already, and a
        # dataclass may compute or refuse things in __post_init__.
        record = object.__new__(self.cls)
        for (name, _), value in zip(self.fields, values, strict=True):
            object.__setattr__(record, name, value)
        return record, leaves

    def problem(self, value: Any) -> str | None:
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

    def __str__(self) -> str:
        return "(" + ", ".join(str(t) for t in self.items) + ("," if len(self.items) == 1 else "") + ")"

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        for i, t in enumerate(self.items):
            yield from t.leaves(f"{prefix}.{i}" if prefix else str(i))

    def flatten(self, value: Any) -> tuple[Any, ...]:
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

    def problem(self, value: Any) -> str | None:
        if not isinstance(value, tuple) or len(value) != len(self.items):
            return f"expected a tuple of {len(self.items)}, found {value!r}"
        for i, (t, item) in enumerate(zip(self.items, value, strict=True)):
            trouble = t.problem(item)
            if trouble:
                return f"item {i}: {trouble}"
        return None


BOOL = ScalarType("bool")
INT = ScalarType("int")
FLOAT = ScalarType("float")
STR = ScalarType("str")

_SCALARS: dict[Any, Type] = {bool: BOOL, int: INT, float: FLOAT, str: STR}


def type_of(annotation: Any) -> Type:
    """The type that an annotation names.

    >>> type_of(int), type_of(tuple[int, float])
    (int, (int, float))
    >>> type_of(list)
    Traceback (most recent call last):
    ...
    pellucid.errors.TypeMismatch: an event cannot be a 'list': use bool, int, float, str, an enum, or a frozen dataclass
    or NamedTuple of those
    """
    if isinstance(annotation, Type):
        return annotation
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        if not list(annotation):
            raise TypeMismatch(f"the enum {annotation.__name__} has no members")
        if issubclass(annotation, enum.Flag):
            raise TypeMismatch(
                f"the enum {annotation.__name__} is a Flag, whose members combine: use an int for its bits"
            )
        return EnumType(annotation)
    if typing.get_origin(annotation) is tuple:
        args = typing.get_args(annotation)
        if args and Ellipsis not in args:
            return TupleType(tuple(type_of(a) for a in args))
    if isinstance(annotation, type):
        names = _field_names(annotation)
        if names is not None:
            return _record_type(annotation, names)
    name = getattr(annotation, "__name__", None) or str(annotation)
    raise TypeMismatch(
        f"an event cannot be a {name!r}: use bool, int, float, str, an enum, "
        "or a frozen dataclass or NamedTuple of those"
    )


def _field_names(cls: type) -> list[str] | None:
    if dataclasses.is_dataclass(cls):
        if not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            raise TypeMismatch(
                f"the dataclass {cls.__name__} can be changed after it is made: "
                "an event must not be; write @dataclass(frozen=True)"
            )
        return [f.name for f in dataclasses.fields(cls)]
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return list(cls._fields)
    return None


def _record_type(cls: type, names: list[str]) -> RecordType:
    if not names:
        raise TypeMismatch(f"the record {cls.__name__} has no fields: an event needs at least one")
    try:
        hints = typing.get_type_hints(cls)
    except Exception as error:
        raise TypeMismatch(f"cannot read the field types of {cls.__name__}: {error}") from None
    fields = []
    for name in names:
        if name not in hints:
            raise TypeMismatch(f"the field {name!r} of {cls.__name__} has no type")
        try:
            fields.append((name, type_of(hints[name])))
        except TypeMismatch as error:
            raise TypeMismatch(f"the field {name!r} of {cls.__name__}: {error}") from None
    return RecordType(cls, tuple(fields))


def type_of_value(value: Any) -> Type | None:
    """The type of a Python value, or None if it cannot be an event.

    >>> type_of_value((1, 2.0)), type_of_value([1])
    ((int, float), None)
    """
    if isinstance(value, enum.Enum):
        return None if isinstance(value, enum.Flag) else EnumType(type(value))
    if type(value) in _SCALARS:
        return _SCALARS[type(value)]
    if type(value) is tuple:
        items = [type_of_value(v) for v in value]
        return TupleType(tuple(items)) if items and all(items) else None  # type: ignore[arg-type]
    try:
        if _field_names(type(value)) is not None:
            return type_of(type(value))
    except TypeMismatch:
        return None
    if isinstance(value, (bool, int, float, str)):  # subclasses of the scalars
        for cls, t in _SCALARS.items():
            if isinstance(value, cls):
                return t
    item = getattr(value, "item", None)  # a NumPy scalar
    if item is not None and getattr(value, "shape", None) == ():
        return type_of_value(item())
    return None


def join(a: Type, b: Type) -> Type | None:
    """The least type that holds both (``bool`` < ``int`` < ``float``), or None.

    >>> join(INT, FLOAT), join(INT, STR)
    (float, None)
    """
    if a == b:
        return a
    order = [BOOL, INT, FLOAT]
    if a in order and b in order:
        return order[max(order.index(a), order.index(b))]
    if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.items) == len(b.items):
        items = [join(x, y) for x, y in zip(a.items, b.items, strict=True)]
        return TupleType(tuple(items)) if all(items) else None  # type: ignore[arg-type]
    return None


def simplest(t: Type) -> Any:
    """A value of a leaf's type that stands for any.

    >>> simplest(INT), simplest(STR)
    (0, '')
    """
    if isinstance(t, EnumType):
        return t.members[0]
    return {"bool": False, "int": 0, "float": 0.0, "str": ""}[str(t)]


def conform(t: Type, value: Any) -> Any:
    """The value as an event of this type, exactly (``1`` becomes ``1.0`` in a float stream).

    Raises ``ValueError`` with the reason if it is not one.

    >>> conform(FLOAT, 1), conform(INT, True)
    (1.0, 1)
    >>> conform(INT, 1.5)
    Traceback (most recent call last):
    ...
    ValueError: expected int, found float 1.5
    """
    if isinstance(t, ScalarType):
        if type(value).__module__ == "numpy" and hasattr(value, "item"):
            value = value.item()
        if t.name == "float" and isinstance(value, (int, float)):
            return float(value)
        if t.name == "int" and isinstance(value, bool):
            return int(value)
        trouble = t.problem(value)
        if trouble:
            raise ValueError(trouble)
        return _PLAIN[t.name](value)
    if isinstance(t, EnumType):
        trouble = t.problem(value)
        if trouble:
            raise ValueError(trouble)
        return value
    if isinstance(t, RecordType):
        if not isinstance(value, t.cls):
            raise ValueError(t.problem(value))
        parts: list[Any] = []
        for name, sub in t.fields:
            try:
                parts += sub.flatten(conform(sub, getattr(value, name)))
            except ValueError as error:
                raise ValueError(f"field {name!r}: {error}") from None
        return t.unflatten(parts)
    assert isinstance(t, TupleType)
    if not isinstance(value, tuple) or len(value) != len(t.items):
        raise ValueError(t.problem(value))
    return tuple(conform(sub, item) for sub, item in zip(t.items, value, strict=True))


_PLAIN: dict[str, Any] = {"bool": bool, "int": int, "float": float, "str": str}
