"""Records and tuples that may be missing: ``E | None``.

A record is made of its fields, so one that is missing has ``None`` in each of them, as a row of an outer join has in
SQL.  There is no flag beside them that says so: ask for a field.

>>> from pellucid.internal.expr.types.base import INT, STR
>>> from pellucid.internal.expr.types.records import TupleType
>>> t = maybe(TupleType((INT, STR)))
>>> t, missing(t), t.flatten(None) == t.flatten((None, None))
((int | None, str | None), (None, None), True)
"""

from __future__ import annotations

from typing import Any

from pellucid.internal.expr.types.base import Type
from pellucid.internal.expr.types.optional import OptionalType
from pellucid.internal.expr.types.records import RecordType, TupleType


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
    return t.nothing() if isinstance(t, (RecordType, TupleType)) else None
