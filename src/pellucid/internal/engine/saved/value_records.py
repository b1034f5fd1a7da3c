"""Values of the pipeline's own types: dataclasses, named tuples and enums.

An object is its fields: it is made without its ``__init__``, and the fields are set as they were.  What is no field
would be lost, so it is refused.  A dataclass that is compared by what it holds and is hashable is a value; any other
keeps its identity, like a list.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import types
from collections import deque
from collections.abc import Sequence
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from pellucid.internal.engine.saved.own_types import OwnTypes, foreign, is_record
from pellucid.internal.engine.saved.value_columns import ColumnReader, ColumnWriter, Damage
from pellucid.internal.engine.saved.value_kinds import FIXED, Column, Leaf, Record, Unfit, ValueKind

_BY_NAME = {kind.about: kind for kind in FIXED.values()}


class Misfit(ValueError):  # noqa: N818 - reads as what it is
    """A value was saved of a type that the pipeline does not have, or has otherwise."""


class _Object(Record):
    """A dataclass."""

    def __init__(self, cls: Any, label: str) -> None:
        self.cls = cls
        self.names = [f.name for f in dataclasses.fields(cls)]
        super().__init__(["dataclass", label, self.names], [attrgetter(name) for name in self.names], cls)
        self.mutable = not _by_value(cls)
        self.computed = {
            k for base in cls.__mro__ for k, v in vars(base).items() if isinstance(v, functools.cached_property)
        }

    def write(self, group: Sequence[Any], out: ColumnWriter, below: list[Column]) -> None:
        if self.cls.__dictoffset__:
            for value in group:
                for name in vars(value).keys() - self.names:
                    if name not in self.computed:  # what a cached property has found out is found out again
                        raise Unfit(
                            f"is a {self.cls.__name__} with the attribute {name!r}, which is no field of it",
                            advice=f"declare {name!r} as a field",
                        )
        try:
            super().write(group, out, below)
        except AttributeError as error:
            raise Unfit(
                f"is a {self.cls.__name__} that lacks a field ({error})", advice="give every field a value"
            ) from None

    def made(self, count: int, shape: Any) -> list[Any]:
        return [object.__new__(self.cls) for _ in range(count)]

    def build(self, count: int, shape: Any, held: list[Column], made: list[Any]) -> list[Any]:
        boxes = made if self.mutable else self.made(count, shape)
        for name, column in zip(self.names, held, strict=True):
            deque(map(object.__setattr__, boxes, repeat(name), column), maxlen=0)
        return boxes


class _Tuple(Record):
    """A named tuple."""

    def __init__(self, cls: Any, label: str) -> None:
        self.cls = cls
        super().__init__(
            ["namedtuple", label, list(cls._fields)], [itemgetter(i) for i in range(len(cls._fields))], cls
        )

    def build(self, count: int, shape: Any, held: list[Column], made: list[Any]) -> list[Any]:
        rows = zip(*held, strict=True) if held else repeat((), count)
        return list(map(tuple.__new__, repeat(self.cls), rows))


class _Members(Leaf):
    """An enum: its members by their names."""

    def __init__(self, cls: type[enum.Enum], label: str, names: Sequence[str] | None = None) -> None:
        self.cls, self.names = cls, [m.name for m in cls] if names is None else names
        super().__init__(["enum", label, self.names], self._put, self._get)
        self._numbers = {name: i for i, name in enumerate(self.names)}

    def _put(self, out: ColumnWriter, group: Any) -> None:
        out.ints(np.fromiter((self._numbers[m._name_] for m in group), np.int64, len(group)))

    def _get(self, found: ColumnReader, count: int) -> list[Any]:
        numbers = found.ints(count, low=0, below=len(self.names))
        members: list[Any] = [self.cls.__members__.get(name) for name in self.names]
        for i in np.unique(numbers).tolist():
            if members[i] is None:
                raise Misfit(f"the enum {self.cls.__name__} has no member {self.names[i]!r} any more")
        return [members[i] for i in numbers.tolist()]


def kind_of(cls: type, own: OwnTypes) -> ValueKind:
    """How values of a type are saved; :class:`Unfit` if they are not."""
    if cls in FIXED:
        return FIXED[cls]
    if not is_record(cls):
        raise Unfit(f"is a {_title(cls)}, which is not data", advice=_advice(cls))
    problem = _problem(cls)
    if problem:
        raise Unfit(f"is a {_title(cls)}, {problem}", advice="keep its contents in a dataclass or a tuple")
    label = own.label(cls)
    if label is None:
        raise Unfit(
            f"is a {_title(cls)}, which is not found from the pipeline",
            advice="define the type in a module, and name it in the step's function or in the annotation of its state",
        )
    return _record(cls, label)


def _record(cls: Any, label: str) -> ValueKind:
    if issubclass(cls, enum.Flag):
        return Record(["flag", label], [attrgetter("_value_")], cls)
    if issubclass(cls, enum.Enum):
        return _Members(cls, label)
    return _Object(cls, label) if dataclasses.is_dataclass(cls) else _Tuple(cls, label)


def kind_named(about: Any, own: OwnTypes) -> ValueKind:
    """The kind that stands so in a file: one of the fixed ones, or one of the pipeline's types as it is now."""
    match about:
        case str() if about in _BY_NAME:
            return _BY_NAME[about]
        case [str(what), str(label), *rest] if what in ("dataclass", "namedtuple", "enum", "flag"):
            cls = own.find(label)
            if cls is None or not is_record(cls) or _problem(cls):
                raise Misfit(f"the pipeline has no type {label!r}, of which values were saved")
            kind = _record(cls, label)
            if what == "enum" and kind.about[0] == "enum" and len(rest) == 1 and _texts(rest[0]):
                return _Members(cls, label, rest[0])
            if [what, label, *rest] == kind.about:
                return kind
            then = f" with the fields {', '.join(rest[0]) or 'none'}" if len(rest) == 1 and _texts(rest[0]) else ""
            raise Misfit(f"the type {label} has changed: it was a {what}{then}, and is now {_shown(kind.about)}")
    raise Damage("it names a kind of value that there is not")


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _shown(about: Any) -> str:
    return f"a {about[0]}" + (
        f" with the fields {', '.join(about[2]) or 'none'}" if about[0] in ("dataclass", "namedtuple") else ""
    )


def _problem(cls: Any) -> str | None:
    """Why the fields of a type are not all there is to it."""
    if issubclass(cls, enum.Enum):
        return None
    if issubclass(cls, tuple):
        return "which has attributes besides its fields" if cls.__dictoffset__ else None
    try:
        object.__new__(cls)  # without __init__, as it will be read
    except TypeError:
        return "a dataclass that is something else besides"
    names = {f.name for f in dataclasses.fields(cls)}
    slots = {s for base in cls.__mro__ for s in _slots(base)} - {"__dict__", "__weakref__"}
    if slots - names:
        return f"which has the slot {min(slots - names)!r} besides its fields"
    for name in names:
        static = inspect.getattr_static(cls, name, None)
        if hasattr(type(static), "__set__") and not isinstance(static, types.MemberDescriptorType):
            return f"whose field {name!r} is computed"
    if not cls.__dataclass_params__.frozen and _by_value(cls):
        return "a dataclass that is hashed by what it holds and can be changed (write frozen=True)"
    return None


def _by_value(cls: Any) -> bool:
    """Whether it is hashed by what it holds, and so must be complete before it is a key."""
    return cls.__hash__ is not None and cls.__hash__ is not object.__hash__


def _slots(base: type) -> tuple[str, ...]:
    slots = vars(base).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _title(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"


def _advice(cls: type) -> str:
    if cls.__module__.split(".")[0] == "numpy":
        return "keep Python's own numbers and lists (.item(), .tolist())"
    for base in cls.__mro__[1:]:
        if base in FIXED:
            return f"keep a plain {base.__name__}"
    if not foreign(cls.__module__):
        return f"make {cls.__name__} a dataclass of such values, or keep a tuple, a list or a dict"
    return "keep the values that it stands for"
