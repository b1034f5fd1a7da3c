"""Rows of real tables for a judge: records with everything that a table may hold, and values at its edges.

Integers of a row are `Int64` for the judge alone: an ``int`` of Python's that fails where 64 bits end, as
``docs/explanation/meaning.md`` says.  Nothing here is Pellucid's, apart from the word ``Scale``.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

from pellucid import Scale

__all__ = ["POOLS", "Color", "E", "Int64", "Point", "checked", "judged_row", "row", "rows"]

Cents = Annotated[Decimal, Scale(2)]
Fine = Annotated[Decimal, Scale(4)]
Instant = Annotated[datetime, UTC]


class Color(Enum):
    """A few members, one of which is false."""

    RED = 1
    GREEN = 0
    BLUE = "blue"


class Point(NamedTuple):
    """A record in a record."""

    x: int
    y: int | None


class E(NamedTuple):
    """An event with a field of each type, and one of each that may be missing."""

    i: int
    j: int | None
    f: float
    g: float | None
    s: str
    t: str | None
    b: bool
    c: bool | None
    at: datetime
    an: datetime | None
    u: Instant
    un: Instant | None
    d: date
    dn: date | None
    w: timedelta
    wn: timedelta | None
    m: Cents
    k: Fine | None
    col: Color
    cn: Color | None
    p: Point


class Int64(int):
    """An integer that fails where 64 bits end, also in the middle of a calculation."""

    def __new__(cls, *args: Any, **named: Any) -> Int64:
        value = super().__new__(cls, *args, **named)
        if not -(2**63) <= value < 2**63:
            raise OverflowError(f"{int(value)} does not fit 64 bits")
        return value


def _checked(name: str) -> Callable[..., Any]:
    plain = getattr(int, name)

    def method(self: int, *others: Any) -> Any:
        found = plain(self, *others)
        if type(found) is int:
            return Int64(found)
        return (Int64(found[0]), Int64(found[1])) if isinstance(found, tuple) else found

    return method


for _name in ("add", "sub", "mul", "floordiv", "mod", "divmod", "pow", "and", "or", "xor", "lshift", "rshift"):
    setattr(Int64, f"__{_name}__", _checked(f"__{_name}__"))
    setattr(Int64, f"__r{_name}__", _checked(f"__r{_name}__"))
for _name in ("neg", "abs", "invert", "pos"):
    setattr(Int64, f"__{_name}__", _checked(f"__{_name}__"))


def checked(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose whole numbers have 64 bits."""

    def g(*args: Any) -> Any:
        found = f(*args)
        return Int64(found) if type(found) is int else found

    return g


class CheckedMath:
    """``math`` with whole numbers of 64 bits."""

    floor, ceil, trunc = (staticmethod(checked(f)) for f in (math.floor, math.ceil, math.trunc))
    sqrt, fabs, isnan, isinf, isfinite = map(
        staticmethod, (math.sqrt, math.fabs, math.isnan, math.isinf, math.isfinite)
    )
    log, sin, fmod, hypot, copysign = map(staticmethod, (math.log, math.sin, math.fmod, math.hypot, math.copysign))
    pi, inf = math.pi, math.inf


_BERLIN, _KATHMANDU = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kathmandu")
_INTS = [0, 1, -1, 2, 3, -3, 5, 7, 10, -10, 60, 61, 100, 255, -256, 1000]
# not -2**63: Python's own comparison of it with a float negates it, and `Int64` cannot
_BIG = [2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, 1 - 2**63, 2**31, 10**18]
_TEXTS = [
    "", " ", "a", "A", "ab", "abc", "Abc d", " x ", "a,b", "a,b,c", ",", "12", "-7", " 5_0 ", "١٢", "007", "1.5", "ß",
    "İ", "ǆ", "ﬁ", "Σας", "é", "e\u0301", "🙂", "a🙂b", "\t\n", "\x1c", "\u00a0x\u00a0", "\x00", "a\x00b", "None",
    "nan",     "x" * 40, "ab" * 9, "%s", "{}", "'", '"', "\\", "true", "0", "²", "½", "२", "\u2028", "K", "UA", "AA",
]  # fmt: skip
_FLOATS = [
    0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1.0, -1.0, 3.0, 0.1, 0.2, 0.3, 2.675, 1e-9, 5e-324, 1e16, 9007199254740993.0,
    1e300, -1e300, float("inf"), float("-inf"), 60.0, 0.05, 1.005, 123456.789, 9.223372036854775e18,
        -9.223372036854775808e18,
]  # fmt: skip
_NAIVE = [
    datetime(2013, 1, 1, 5), datetime(2013, 1, 1, 5, 0, 0, 1), datetime(2012, 2, 29, 23, 59, 59, 999999),
    datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59,
    59, 999999),
    datetime(1900, 3, 1), datetime(2000, 2, 29, 12, 30), datetime(2013, 3, 31, 2, 30), datetime(2013, 10, 27, 2, 30),
    datetime(1582, 10, 10, 1, 2, 3, 4), datetime(2024, 12, 30, 0, 0, 0, 500000),
]  # fmt: skip
_AWARE = [
    datetime(2013, 1, 1, 5, tzinfo=UTC), datetime(2013, 1, 1, 5, 0, 0, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(2013, 10, 27, 2, 30, tzinfo=_BERLIN),
    datetime(2013, 10, 27, 2, 30, fold=1, tzinfo=_BERLIN), datetime(2013, 3, 31, 2, 30, tzinfo=_BERLIN),
    datetime(2013, 6, 1, 12, 0, tzinfo=_KATHMANDU), datetime(2013, 6, 1, tzinfo=timezone(timedelta(hours=-23,
    minutes=-59))),
    datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC), datetime(1883, 11, 18, 12, 0, tzinfo=ZoneInfo("America/New_York")),
]  # fmt: skip
_DATES = [
    date(2013, 1, 1), date(1970, 1, 1), date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31), date(2000, 2, 29),
    date(1900, 2, 28), date(1900, 3, 1), date(2024, 12, 30), date(2012, 2, 29), date(2013, 3, 31),
]  # fmt: skip
_SPANS = [
    timedelta(0), timedelta(microseconds=1), timedelta(microseconds=-1), timedelta(hours=1), timedelta(days=-1),
    timedelta(days=1), timedelta(minutes=90), timedelta(days=-1, seconds=1), timedelta(seconds=-1, microseconds=999999),
    timedelta(days=400, seconds=86399, microseconds=999999), timedelta(microseconds=1500000), timedelta(days=-400,
        hours=5),
    timedelta(seconds=0.1), timedelta(days=3_000_000),
]  # fmt: skip
_CENTS = [Decimal(x) for x in (
    "0.00", "-0.00", "0.01", "-0.01", "1.00", "1.25", "2.50", "-2.50", "0.05", "0.15", "12.34", "99.99", "-12.35",
    "100.00",
    "1234567.89", "9999999999999999.99", "0.50", "1.50",
)]  # fmt: skip
_FINES = [Decimal(x) for x in (
    "0.0000", "-0.0000", "0.0001", "0.0050", "0.0150", "-0.0050", "1.0000", "1.2500", "2.5000", "0.0049", "12.3450",
    "12.3400", "-0.0001", "99999999999999.9999",
)]  # fmt: skip

POOLS: dict[str, list[Any]] = {
    "int": _INTS, "float": _FLOATS, "str": _TEXTS, "bool": [True, False], "datetime": _NAIVE, "instant": _AWARE,
    "date": _DATES, "timedelta": _SPANS, "cents": _CENTS, "fine": _FINES, "color": list(Color),
}  # fmt: skip


def row(r: random.Random, *, calm: bool = False) -> E:
    """A random row; ``calm``: without the ends of the types."""

    def one(kind: str, missing: float = 0.0) -> Any:
        if r.random() < missing:
            return None
        if kind == "int" and not calm and r.random() < 0.1:
            return r.choice(_BIG)
        pool = POOLS[kind]
        if calm and kind in ("float", "datetime", "instant", "cents", "fine", "timedelta", "date"):
            pool = [v for v in pool if not _wild(v)]
        return r.choice(pool)

    return E(
        i=one("int"), j=one("int", 0.35), f=one("float"), g=one("float", 0.35), s=one("str"), t=one("str", 0.35),
        b=one("bool"), c=one("bool", 0.35), at=one("datetime"), an=one("datetime", 0.35), u=one("instant"),
            un=one("instant", 0.35),
        d=one("date"), dn=one("date", 0.35), w=one("timedelta"), wn=one("timedelta", 0.35), m=one("cents"),
        k=one("fine", 0.35),
        col=one("color"), cn=one("color", 0.35), p=Point(one("int"), one("int", 0.35)),
    )  # fmt: skip


def _wild(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value) or abs(value) > 1e15
    if isinstance(value, Decimal):
        return abs(value) > 10**8
    if isinstance(value, timedelta):
        return abs(value) > timedelta(days=1000)
    return isinstance(value, date) and value.year in (1, 9999)


def rows(r: random.Random, count: int, *, calm: bool = False) -> list[E]:
    """Some of them."""
    return [row(r, calm=calm) for _ in range(count)]


def judged_row(e: E) -> E:
    """The row as a function shall see it: integers of 64 bits, instants in UTC, no sign on a decimal nothing."""

    def seen(v: Any) -> Any:
        if isinstance(v, Point):
            return Point(Int64(v.x), None if v.y is None else Int64(v.y))
        if type(v) is int:
            return Int64(v)
        if isinstance(v, datetime) and v.tzinfo is not None:
            return v.astimezone(UTC)
        if isinstance(v, Decimal):
            return v + 0 if v else abs(v)
        return v

    return E(*map(seen, e))


def plain(value: Any) -> Any:
    """Without the judge's own integers; what is compared."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return operator.index(value) + 0 if type(value) is int else int.__add__(value, 0)
    if isinstance(value, tuple):
        return type(value)(*map(plain, value)) if hasattr(value, "_fields") else tuple(map(plain, value))
    return value
