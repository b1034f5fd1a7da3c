"""The types of events: ``bool``, ``int``, ``float``, ``str``, enums, times, decimals, ``T | None``, lists, and records.

Every engine sees an event as a fixed list of scalar **leaves**: a scalar has one, a record (a
dataclass, a ``NamedTuple`` or a plain tuple of a state) has those of its fields, in order.  So a
column store, a kernel, an SMT solver and Spark all share one idea of an event's shape.  What has a
richer meaning is made of leaves, too: a time and a decimal are an int, an optional value is a flag and a
value, a list is a text.

>>> from datetime import datetime
>>> from typing import NamedTuple
>>> Trade = NamedTuple("Trade", [("at", datetime), ("price", float), ("size", int | None)])
>>> t = type_of(Trade)
>>> t
Trade(at: datetime, price: float, size: int | None)
>>> [(path, str(leaf)) for path, leaf in t.leaves()]
[('at', 'int'), ('price', 'float'), ('size.there', 'bool'), ('size', 'int')]
>>> [(path, str(column)) for path, column in t.columns()]
[('at', 'datetime'), ('price', 'float'), ('size', 'int | None')]
>>> t.unflatten(t.flatten(Trade(datetime(2013, 1, 1), 1.5, None)))
Trade(at=datetime.datetime(2013, 1, 1, 0, 0), price=1.5, size=None)
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import types
import typing
from collections.abc import Hashable
from decimal import Decimal
from typing import Any

from pellucid.errors import TypeMismatch
from pellucid.internal.expr.types.base import (
    BOOL,
    FLOAT,
    INT,
    INT_MAX,
    INT_MIN,
    NOTHING,
    STR,
    EnumType,
    NothingType,
    OptionalType,
    RecordType,
    ScalarType,
    TupleType,
    Type,
    fits_int,
    maybe,
    simplest,
)
from pellucid.internal.expr.types.rich import (
    DATE,
    DATETIME,
    INSTANT,
    MOST_PLACES,
    TIMEDELTA,
    DecimalType,
    ListType,
    Scale,
    TimeType,
    elements,
    is_nat,
    list_in,
)

__all__ = [
    "BOOL",
    "DATE",
    "DATETIME",
    "FLOAT",
    "INSTANT",
    "INT",
    "INT_MAX",
    "INT_MIN",
    "NOTHING",
    "STR",
    "TIMEDELTA",
    "DecimalType",
    "EnumType",
    "ListType",
    "OptionalType",
    "RecordType",
    "ScalarType",
    "Scale",
    "TimeType",
    "TupleType",
    "Type",
    "annotation_of",
    "conform",
    "fits_int",
    "join",
    "list_in",
    "no_none",
    "simplest",
    "type_of",
    "type_of_value",
    "with_none",
]


_SCALARS: dict[Any, Type] = {
    bool: BOOL,
    int: INT,
    float: FLOAT,
    str: STR,
    dt.datetime: DATETIME,
    dt.date: DATE,
    dt.timedelta: TIMEDELTA,
}


def type_of(annotation: Any) -> Type:
    """The type that an annotation names.

    >>> type_of(int), type_of(tuple[int, float])
    (int, (int, float))
    >>> type_of(dict)
    Traceback (most recent call last):
    ...
    pellucid.errors.TypeMismatch: an event cannot be a 'dict': use bool, int, float, str, datetime, date, timedelta,
    Annotated[Decimal, Scale(2)], an enum, any of these | None, list[T] or tuple[T, ...] of these, or a frozen dataclass
    or NamedTuple of those
    >>> type_of(int | None), type_of(list[str]), type_of(tuple[float, ...])
    (int | None, list[str], tuple[float, ...])
    """
    if isinstance(annotation, Type):
        return annotation
    if isinstance(annotation, Hashable) and annotation in _SCALARS:
        return _SCALARS[annotation]
    if annotation is Decimal:
        raise TypeMismatch(
            "a Decimal needs the number of places after its point: write Annotated[Decimal, Scale(2)] "
            "(from pellucid import Scale)"
        )
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _annotated(args[0], args[1:])
    if origin in (typing.Union, types.UnionType):
        return _optional(args)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        if not list(annotation):
            raise TypeMismatch(f"the enum {annotation.__name__} has no members")
        if issubclass(annotation, enum.Flag):
            raise TypeMismatch(
                f"the enum {annotation.__name__} is a Flag, whose members combine: use an int for its bits"
            )
        return EnumType(annotation)
    if annotation is list or annotation is tuple:
        name = annotation.__name__
        written = "list[int]" if annotation is list else "tuple[int, ...]"
        raise TypeMismatch(f"a {name} needs the type of what it holds: write {written}")
    if origin is list or (origin is tuple and len(args) == 2 and args[1] is Ellipsis):
        return ListType(type_of(args[0]), origin)
    if origin is tuple and args and Ellipsis not in args:
        return TupleType(tuple(type_of(a) for a in args))
    if isinstance(annotation, type):
        names = _field_names(annotation)
        if names is not None:
            return _record_type(annotation, names)
    if isinstance(origin, type):  # a record with parameters, such as Windowed[datetime, float]
        names = _field_names(origin)
        if names is not None:
            return _record_type(origin, names, dict(zip(getattr(origin, "__parameters__", ()), args, strict=False)))
    name = getattr(annotation, "__name__", None) or str(annotation)
    raise TypeMismatch(
        f"an event cannot be a {name!r}: use bool, int, float, str, datetime, date, timedelta, Annotated[Decimal, "
        "Scale(2)], an enum, any of these | None, list[T] or tuple[T, ...] of these, or a frozen dataclass or "
        "NamedTuple of those"
    )


def annotation_of(t: Type) -> str:
    """How a type is written, as in ``to=``.

    >>> annotation_of(type_of(tuple[int | None, list[str]]))
    'tuple[int | None, list[str]]'
    """
    if isinstance(t, TupleType):
        return f"tuple[{', '.join(map(annotation_of, t.items))}]{' | None' if t.absent else ''}"
    if isinstance(t, RecordType):
        return f"{t.cls.__name__}{' | None' if t.absent else ''}"
    if isinstance(t, ListType):
        return f"list[{annotation_of(t.item)}]" if t.cls is list else f"tuple[{annotation_of(t.item)}, ...]"
    if isinstance(t, OptionalType):
        return f"{annotation_of(t.inner)} | None"
    if isinstance(t, DecimalType):
        return f"Annotated[Decimal, Scale({t.places})]"
    return "Annotated[datetime, UTC]" if t == INSTANT else str(t)


def _annotated(plain: Any, notes: tuple[Any, ...]) -> Type:
    scales = [note for note in notes if isinstance(note, Scale)]
    if plain is Decimal and len(scales) == 1:
        return DecimalType(scales[0].places)
    if plain is dt.datetime and any(isinstance(note, dt.tzinfo) for note in notes):
        return INSTANT
    t = type_of(plain)
    if scales:
        raise TypeMismatch(f"Scale goes with a Decimal, found {t}")
    return t


def _optional(parts: tuple[Any, ...]) -> Type:
    some = [part for part in parts if part is not type(None)]
    if len(some) != 1 or len(some) == len(parts):
        names = " | ".join(getattr(p, "__name__", None) or str(p) for p in parts)
        raise TypeMismatch(
            f"an event cannot be {names}: its type must be one, or one | None; use an enum, or a record with a field "
            "for each"
        )
    return maybe(type_of(some[0]))


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


def _record_type(cls: type, names: list[str], given: dict[Any, Any] | None = None) -> RecordType:
    if not names:
        raise TypeMismatch(f"the record {cls.__name__} has no fields: an event needs at least one")
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except Exception as error:
        raise TypeMismatch(f"cannot read the field types of {cls.__name__}: {error}") from None
    fields = []
    for name in names:
        if name not in hints:
            raise TypeMismatch(f"the field {name!r} of {cls.__name__} has no type")
        try:
            fields.append((name, type_of(_filled(hints[name], given or {}))))
        except TypeMismatch as error:
            raise TypeMismatch(f"the field {name!r} of {cls.__name__}: {error}") from None
    return RecordType(cls, tuple(fields))


def _filled(hint: Any, given: dict[Any, Any]) -> Any:
    """A type hint of a record with parameters, with what is given for them."""
    if isinstance(hint, typing.TypeVar):
        if hint not in given:
            raise TypeMismatch(
                f"its type is a parameter, {hint.__name__}: write what it is, in brackets behind the record"
            )
        return given[hint]
    of = getattr(hint, "__parameters__", ())
    return hint[tuple(given.get(p, p) for p in of)] if of and given else hint


def generic_fields(value: Any) -> list[str] | None:
    """The fields of a record whose class has parameters, such as ``Windowed``: only its values tell their types; None
    for everything else."""
    cls = type(value)
    if not getattr(cls, "__parameters__", ()):
        return None
    try:
        return _field_names(cls)
    except TypeMismatch:
        return None


def type_of_value(value: Any) -> Type | None:
    """The type of a Python value, or None if it cannot be an event.

    >>> type_of_value((1, 2.0)), type_of_value([1])
    ((int, float), None)
    """
    if isinstance(value, enum.Enum):
        return None if isinstance(value, enum.Flag) else EnumType(type(value))
    if value is None:
        return NOTHING
    if isinstance(value, dt.datetime):
        return None if is_nat(value) else DATETIME if value.tzinfo is None else INSTANT
    if type(value) in _SCALARS:
        return _SCALARS[type(value)]
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        places = max(0, -exponent) if isinstance(exponent, int) else MOST_PLACES + 1
        return DecimalType(places) if places <= MOST_PLACES else None
    if type(value) is tuple:
        items = [type_of_value(v) for v in value]
        return TupleType(tuple(items)) if items and all(items) else None  # type: ignore[arg-type]
    generic = generic_fields(value)
    if generic is not None:  # its type is what it holds
        found = [(name, type_of_value(getattr(value, name))) for name in generic]
        known = tuple((name, t) for name, t in found if t is not None and t != NOTHING)
        return RecordType(type(value), known) if len(known) == len(found) else None
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


def with_none(a: Type, b: Type) -> Type | None:
    """The least type that holds both, if they differ in no more than that one of them may be None, also inside tuples;
    numbers stay what they are.

    >>> with_none(INT, OptionalType(INT)), with_none(OptionalType(FLOAT), INT), with_none(INT, FLOAT)
    (int | None, None, None)
    >>> with_none(TupleType((INT, OptionalType(STR))), TupleType((OptionalType(INT), STR)))
    (int | None, str | None)
    """
    if a == b:
        return a
    if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.items) == len(b.items):
        items = [with_none(x, y) for x, y in zip(a.items, b.items, strict=True)]
        found = [t for t in items if t is not None]
        return TupleType(tuple(found)) if len(found) == len(items) else None
    for one, other in ((a, b), (b, a)):
        if isinstance(one, OptionalType) and one.inner == other:
            return one
    return None


def join(a: Type, b: Type) -> Type | None:
    """The least type that holds both (``bool`` < ``int`` < ``float``), or None.

    >>> join(INT, FLOAT), join(INT, STR), join(INT, NOTHING)
    (float, None, int | None)
    """
    if a == b:
        return a
    if isinstance(a, ListType) and isinstance(b, ListType):  # an empty list is one of anything
        return b if a.item == NOTHING else a if b.item == NOTHING or a.item == b.item else None
    if isinstance(a, NothingType):
        a, b = b, a
    if isinstance(b, NothingType):
        return a if isinstance(a, OptionalType) else None if isinstance(a, (RecordType, TupleType)) else OptionalType(a)
    if isinstance(a, OptionalType) or isinstance(b, OptionalType):
        inner = join(*(t.inner if isinstance(t, OptionalType) else t for t in (a, b)))
        return None if inner is None or isinstance(inner, (RecordType, TupleType)) else OptionalType(inner)
    if isinstance(a, DecimalType) or isinstance(b, DecimalType):
        places = [t.places if isinstance(t, DecimalType) else 0 if t in (BOOL, INT) else -1 for t in (a, b)]
        return None if min(places) < 0 else DecimalType(max(places))
    order = [BOOL, INT, FLOAT]
    if a in order and b in order:
        return order[max(order.index(a), order.index(b))]
    if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.items) == len(b.items):
        items = [join(x, y) for x, y in zip(a.items, b.items, strict=True)]
        return TupleType(tuple(items)) if all(items) else None  # type: ignore[arg-type]
    return None


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
    if isinstance(t, OptionalType):
        return None if value is None or is_nat(value) else conform(t.inner, value)
    if value is None and isinstance(t, (RecordType, TupleType)) and t.absent:
        return t.nothing()
    if isinstance(t, (TimeType, DecimalType)):
        trouble = t.problem(value)
        if trouble:
            raise ValueError(trouble)
        return t.plain(value)
    if isinstance(t, ListType):
        values = elements(value)
        if values is None:
            raise ValueError(t.problem(value))
        return t.cls(_element(t.item, i, item) for i, item in enumerate(values))
    if isinstance(t, NothingType):
        if value is not None:
            raise ValueError(t.problem(value))
        return None
    if isinstance(t, ScalarType):
        if type(value).__module__ == "numpy" and hasattr(value, "item"):
            value = value.item()
        if t.name == "float" and isinstance(value, (int, float)):
            try:
                return float(value)
            except OverflowError:
                raise ValueError("expected float, found an int that is too large for one") from None
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
            if getattr(value, name) is None and isinstance(sub, (ScalarType, EnumType, TimeType, DecimalType)):
                raise ValueError(f"field {name!r}: {no_none(sub)}")
            try:
                parts += sub.flatten(conform(sub, getattr(value, name)))
            except ValueError as error:
                raise ValueError(f"field {name!r}: {error}") from None
        return t.unflatten(parts)
    assert isinstance(t, TupleType)
    if not isinstance(value, tuple) or len(value) != len(t.items):
        raise ValueError(t.problem(value))
    return tuple(conform(sub, item) for sub, item in zip(t.items, value, strict=True))


def no_none(t: Type) -> str:
    """The message about a None where none may be.

    >>> no_none(INT)
    'expected int, found None: fill it, or declare it as int | None'
    """
    return f"expected {t}, found None: fill it, or declare it as {t} | None"


def _element(t: Type, i: int, value: Any) -> Any:
    try:
        return conform(t, value)
    except ValueError as error:
        raise ValueError(f"element {i}: {error}") from None


_PLAIN: dict[str, Any] = {"bool": bool, "int": int, "float": float, "str": str}
