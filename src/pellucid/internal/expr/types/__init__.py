"""The types of events: ``bool``, ``int``, ``float``, ``str``, enums, times, decimals, ``T | None``, lists, and records.

Every engine sees an event as a fixed list of scalar **leaves**: a scalar has one, a record (a
dataclass, a ``NamedTuple`` or a plain tuple of a state) has those of its fields, in order.  So a
column store, a kernel, an SMT solver and Spark all share one idea of an event's shape.  What has a
richer meaning is made of leaves, too: a time and a decimal are an int, an optional value is a flag and a
value, a list is a text.

>>> from datetime import datetime
>>> from typing import NamedTuple
>>> class Trade(NamedTuple):
...     at: datetime
...     price: float
...     size: int | None
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

from pellucid.internal.expr.types.base import (
    BOOL,
    FLOAT,
    INT,
    INT_MAX,
    INT_MIN,
    NOTHING,
    STR,
    EnumType,
    OptionalType,
    RecordType,
    ScalarType,
    TupleType,
    Type,
    fits_int,
    simplest,
)
from pellucid.internal.expr.types.of import annotation_of, conform, join, no_none, type_of, type_of_value, with_none
from pellucid.internal.expr.types.rich import (
    DATE,
    DATETIME,
    INSTANT,
    TIMEDELTA,
    DecimalType,
    ListType,
    Scale,
    TimeType,
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
