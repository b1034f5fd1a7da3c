"""The types that the judge of rich verdicts asks about, as Python text and as lists of values.  Nothing of Pellucid but
its ``Scale``, which is how a decimal is declared, is used here.

A type has a name: ``int``, ``Kind``, ``Sale``; ``int?`` is ``int | None``; ``tup(int?,bool)`` is a tuple, which only
states of tasks are.  With few integers a time is so many microseconds after 1970, a date so many days, a decimal so
many cents.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

PRELUDE = """import enum
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, NamedTuple

from pellucid import Mod, Scale, apply, check, merge, pipeline

Cents = Annotated[Decimal, Scale(2)]


class Kind(enum.Enum):
    IN = "in"
    OUT = "out"
    BACK = "back"


class Pos(NamedTuple):
    a: int
    b: bool


@dataclass(frozen=True)
class Sale:
    price: int | None
    kind: Kind | None


@dataclass(frozen=True)
class Nest:
    pos: Pos
    sale: Sale


@dataclass(frozen=True)
class Bill:
    cents: Cents
    day: date | None


class Stamp(NamedTuple):
    at: datetime
    wait: timedelta | None


@dataclass(frozen=True)
class Deep:
    stamp: Stamp
    due: Cents | None
"""

SPACE: dict[str, Any] = {"__name__": "rich_case"}
exec(compile(PRELUDE, "<prelude>", "exec", dont_inherit=True), SPACE)  # the classes of all cases

FIELDS: dict[str, dict[str, str]] = {
    "Pos": {"a": "int", "b": "bool"},
    "Sale": {"price": "int?", "kind": "Kind?"},
    "Nest": {"pos": "Pos", "sale": "Sale"},
    "Bill": {"cents": "cents", "day": "date?"},
    "Stamp": {"at": "datetime", "wait": "timedelta?"},
    "Deep": {"stamp": "Stamp", "due": "cents?"},
}
PLAIN = ["bool", "int", "Kind", "date", "datetime", "timedelta", "cents"]
ORDERED = {"int", "date", "datetime", "timedelta", "cents"}
TIMES = {"date", "datetime", "timedelta", "cents"}


def annotation(kind: str) -> str:
    """A type as Python writes it."""
    if kind.startswith("tup("):
        return f"tuple[{', '.join(annotation(k) for k in kind[4:-1].split(','))}]"
    if kind.endswith("?"):
        return annotation(kind[:-1]) + " | None"
    return {"cents": "Cents"}.get(kind, kind)


def of_number(kind: str, n: int) -> Any:
    """The value that a number stands for."""
    match kind:
        case "date":
            return date(1970, 1, 1) + timedelta(days=n)
        case "datetime":
            return datetime(1970, 1, 1) + timedelta(microseconds=n)
        case "timedelta":
            return timedelta(microseconds=n)
        case "cents":
            return Decimal(n).scaleb(-2)
    return n


def values(kind: str, ints: Sequence[int]) -> list[Any]:
    """All values of a type."""
    if kind.endswith("?"):
        return [None, *values(kind[:-1], ints)]
    if kind == "bool":
        return [False, True]
    if kind == "Kind":
        return list(SPACE["Kind"])
    if kind.startswith("tup("):
        return list(itertools.product(*(values(k, ints) for k in kind[4:-1].split(","))))
    if kind in FIELDS:
        return [SPACE[kind](*c) for c in itertools.product(*(values(k, ints) for k in FIELDS[kind].values()))]
    return [of_number(kind, n) for n in ints]


def numbers(value: Any) -> list[int]:
    """All the numbers that a value is made of, as few integers limit them."""
    if value is None or isinstance(value, bool):
        return []
    if isinstance(value, int):
        return [value]
    if isinstance(value, Decimal):
        return [int(value.scaleb(2))]
    if isinstance(value, datetime):
        return [(value - datetime(1970, 1, 1)) // timedelta(microseconds=1)]
    if isinstance(value, date):
        return [(value - date(1970, 1, 1)).days]
    if isinstance(value, timedelta):
        return [value // timedelta(microseconds=1)]
    if isinstance(value, tuple):
        return [n for part in value for n in numbers(part)]
    if type(value).__name__ in FIELDS:
        return [n for name in FIELDS[type(value).__name__] for n in numbers(getattr(value, name))]
    return []


def written(value: Any) -> str:
    """A value as Python text, with the names of the prelude."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"({', '.join(map(written, value))},)"
    if type(value).__name__ in FIELDS:
        parts = (written(getattr(value, name)) for name in FIELDS[type(value).__name__])
        return f"{type(value).__name__}({', '.join(parts)})"
    if type(value).__name__ == "Kind":
        return str(value)
    return repr(value).replace("datetime.", "")
