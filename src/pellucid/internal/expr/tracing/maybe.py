"""Values that may be missing, and members of an enum, while a function is traced.

``is`` cannot be overloaded, so a function that asks ``e.delay is None`` must see a real ``None``.  It does: *looking*
at an optional field makes the trace fork, into a path on which it is ``None`` and one on which it is a value; looking
at an enum makes one path for each member.  A field that the function does not look at makes no fork, so a record may
have many of them; that is why records with such fields are handed to the function as objects of a class of their own,
whose optional fields and enums are found out when they are asked for.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import EnumType, OptionalType, RecordType

_UNSEEN = object()


class Maybe:
    """An optional value, or an enum, that the function has not looked at yet.

    Code in C, such as ``"%s" % record``, takes it out of a tuple past ``__getitem__``: what it asks of it is a look.
    """

    __slots__ = ("_look", "leaves", "seen", "type")

    def __init__(self, t: OptionalType | EnumType, leaves: Sequence[Expr], look: Callable[[], Any]) -> None:
        self.type, self.leaves, self._look, self.seen = t, list(leaves), look, _UNSEEN

    def value(self) -> Any:
        """``None`` or a value, or a member: the trace forks, the first time."""
        if self.seen is _UNSEEN:
            self.seen = self._look()
        return self.seen

    def __eq__(self, other: object) -> Any:
        return self.value() == _seen(other)

    def __hash__(self) -> int:
        return hash(self.value())

    def __repr__(self) -> str:
        return repr(self.value())

    def __str__(self) -> str:
        return str(self.value())


def assemble(t: RecordType, values: Sequence[Any]) -> Any:
    """The record with these values of its fields, some of which may be a `Maybe`."""
    if any(type(v) is Maybe for v in values):
        return _lazy_class(t)._made(values)
    return t.made(values)


def record_type_of(record: Any) -> RecordType | None:
    """The type of a record that `assemble` made with a `Maybe` in it; None for anything else."""
    found = getattr(type(record), "_pellucid_record", None)
    return found if isinstance(found, RecordType) else None


def raw_fields(record: Any, t: RecordType) -> list[Any]:
    """The values of a record's fields; those that nobody has looked at as they are."""
    if record_type_of(record) is not None:
        return list(record._pellucid_raw())
    return [getattr(record, name) for name, _ in t.fields]


def replaced(record: Any, /, **changes: Any) -> Any:
    """``dataclasses.replace``, which does not look at the fields that stay."""
    t = record_type_of(record)
    if t is None or hasattr(t.cls, "__post_init__"):
        return dataclasses.replace(record, **changes)
    names = [name for name, _ in t.fields]
    for name in changes:
        if name not in names:
            raise TypeError(f"{t.cls.__name__}.__init__() got an unexpected keyword argument {name!r}")
    values = [changes.get(name, old) for name, old in zip(names, raw_fields(record, t), strict=True)]
    return assemble(t, values)


def _seen(value: Any) -> Any:
    return value.value() if type(value) is Maybe else value


@functools.cache
def _lazy_class(t: RecordType) -> Any:
    names = [name for name, _ in t.fields]
    space: dict[str, Any] = {"_pellucid_record": t, "__class__": property(lambda self: t.cls)}
    if issubclass(t.cls, tuple):
        return _lazy_tuple(t, names, space)

    def made(values: Sequence[Any]) -> Any:
        record: Any = object.__new__(lazy)
        object.__setattr__(record, "_pellucid_values", dict(zip(names, values, strict=True)))
        return record

    def field(name: str) -> property:
        return property(lambda self: _seen(self._pellucid_values[name]))

    space |= {name: field(name) for name in names}
    if t.cls.__dictoffset__:
        space["__dict__"] = property(lambda self: {name: getattr(self, name) for name in names})
    space["_pellucid_raw"] = lambda self: self._pellucid_values.values()
    space["_made"] = staticmethod(made)
    lazy = type(t.cls.__name__, (t.cls,), space)
    return lazy


def _lazy_tuple(t: RecordType, names: list[str], space: dict[str, Any]) -> Any:
    cls: Any = t.cls

    def made(values: Sequence[Any]) -> Any:
        return tuple.__new__(lazy, values)

    def field(i: int) -> property:
        return property(lambda self: _seen(tuple.__getitem__(self, i)))

    def item(self: Any, at: Any) -> Any:
        found = tuple.__getitem__(self, at)
        return tuple(map(_seen, found)) if isinstance(at, slice) else _seen(found)

    def replace(self: Any, /, **changes: Any) -> Any:
        unknown = [name for name in changes if name not in names]
        if unknown:
            raise ValueError(f"Got unexpected field names: {unknown!r}")
        return assemble(t, [changes.get(n, v) for n, v in zip(names, tuple.__iter__(self), strict=True)])

    def plain(self: Any) -> tuple[Any, ...]:
        return tuple(map(_seen, tuple.__iter__(self)))

    methods: dict[str, Callable[..., Any]] = {
        "__iter__": lambda self: iter(plain(self)),
        "__getitem__": item,
        "__eq__": lambda self, other: plain(self) == other,
        "__ne__": lambda self, other: plain(self) != other,
        "__lt__": lambda self, other: plain(self) < tuple(other),
        "__le__": lambda self, other: plain(self) <= tuple(other),
        "__gt__": lambda self, other: plain(self) > tuple(other),
        "__ge__": lambda self, other: plain(self) >= tuple(other),
        "__hash__": lambda self: hash(plain(self)),
        "__add__": lambda self, other: plain(self) + other,
        "__mul__": lambda self, times: plain(self) * times,
        "__rmul__": lambda self, times: plain(self) * times,
        "__contains__": lambda self, value: value in plain(self),
        "index": lambda self, *a: plain(self).index(*a),
        "count": lambda self, *a: plain(self).count(*a),
    }
    # Only what the class has from tuple itself: a method of its own, or a field called count, stays what it is.
    space |= {name: f for name, f in methods.items() if getattr(cls, name) is getattr(tuple, name)}
    if "__add__" in space and not hasattr(cls, "__radd__"):
        space["__radd__"] = lambda self, other: other + plain(self)
    space |= {name: field(i) for i, name in enumerate(names)}
    space |= {
        "__slots__": (),
        "_replace": replace,
        "_asdict": lambda self: dict(zip(names, plain(self), strict=True)),
        "_pellucid_raw": lambda self: tuple.__iter__(self),
        "_made": staticmethod(made),
    }
    lazy = type(cls.__name__, (cls,), space)
    return lazy
