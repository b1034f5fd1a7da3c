"""Times that are not known yet: ``datetime``, ``date`` and ``timedelta`` while a function is traced.

Each is an int (microseconds, or days of a ``date``) with Python's own operations on it, errors included.  What needs
more than whole numbers (text, floats) is refused by name; the function is then called as it is.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.tracing.clock.calendar import civil, days_in_month, days_of
from pellucid.internal.expr.tracing.rich import Rich, as_int, checked, decide
from pellucid.internal.expr.tracing.symbolic import Compared, Sym, Untraceable, _boolean
from pellucid.internal.expr.types import DATE, DATETIME, INSTANT, TIMEDELTA, TimeType, type_of_value
from pellucid.internal.expr.types.times import DAY

_POINTS = (DATETIME, INSTANT)
_UNITS = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "microsecond": 1}
_BY_ITS_CLOCK = "adds a timedelta to a time of another time zone, which Python does by the clock on the wall there"
_SPANS = {"hour": 24, "minute": 60, "second": 60, "microsecond": 1_000_000}


def lift_time(value: Any) -> SymTime | None:
    """A time, symbolic or plain, as a symbolic one; None if it is no time."""
    if type(value) is SymTime:
        return value
    if issubclass(type(value), Rich):  # one in a zone says itself what it does with others
        return None
    if isinstance(value, (dt.datetime, dt.date, dt.timedelta)):
        t = type_of_value(value)
        if isinstance(t, TimeType) and t.problem(value) is None:
            return SymTime(n.const(t.flatten(t.plain(value))[0]), t)
    return None


def _zone_of(value: Any) -> dt.tzinfo | None:
    """The time zone of a plain time, if it is not UTC."""
    zone = value.tzinfo if type(value) is not SymTime and isinstance(value, dt.datetime) else None
    return None if zone is dt.UTC else zone


def _in_doubt(value: Any) -> bool:
    """Whether a plain time stands in an hour that comes twice or not at all: Python finds it equal to no time of
    another zone (PEP 495)."""
    return _zone_of(value) is not None and value.utcoffset() != value.replace(fold=1 - value.fold).utcoffset()


def _c(value: int) -> Expr:
    return n.const(value)


def _in_range(e: Expr, t: TimeType) -> SymTime:
    """A point in time that must be one: the years 1 to 9999."""
    limit = t.limits()[0]
    e = checked(e)
    if limit is not None and not decide(n.and_(n.le(_c(limit[0]), e), n.le(e, _c(limit[1])))):
        raise OverflowError("date value out of range")
    return SymTime(e, t)


def _wrong(sign: str, a: Any, b: Any) -> TypeError:
    names = [str(x._type) if type(x) is SymTime else type(x).__name__ for x in (a, b)]
    return TypeError(f"unsupported operand type(s) for {sign}: '{names[0]}' and '{names[1]}'")


class SymTime(Compared, Rich):
    """A time that is not known yet."""

    __slots__ = ()
    _type: TimeType

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return {DATE: dt.date, TIMEDELTA: dt.timedelta}.get(self._type, dt.datetime)

    def __bool__(self) -> bool:
        return decide(n.not_(n.eq(self._expr, _c(0)))) if self._type == TIMEDELTA else True

    # -- comparison
    def _compare(self, op: str, other: Any, swapped: bool = False) -> Any:
        o = lift_time(other)
        if o is None:
            return NotImplemented
        if o._type != self._type:
            if op == "eq":
                return False
            if {o._type, self._type} == set(_POINTS):
                raise TypeError("can't compare offset-naive and offset-aware datetimes")
            raise _wrong("<", self, o)
        if op == "eq" and _in_doubt(other):
            return False
        a, b = (o, self) if swapped else (self, o)
        return _boolean(n.COMPARE[op](a._expr, b._expr))

    # -- arithmetic
    def __add__(self, other: Any) -> Any:
        o = lift_time(other)
        if o is None:
            return NotImplemented
        a, b = (o, self) if self._type == TIMEDELTA else (self, o)
        if b._type != TIMEDELTA:
            raise _wrong("+", self, other)
        if _zone_of(other):
            raise Untraceable(_BY_ITS_CLOCK)
        if a._type == TIMEDELTA:
            return SymTime(checked(n.add(self._expr, o._expr)), TIMEDELTA)
        by = n.binary("floordiv", b._expr, _c(DAY)) if a._type == DATE else b._expr
        return _in_range(n.add(a._expr, by), a._type)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        o = lift_time(other)
        return NotImplemented if o is None else _minus(self, o)

    def __rsub__(self, other: Any) -> Any:
        o = lift_time(other)
        if self._type == TIMEDELTA and _zone_of(other):
            raise Untraceable(_BY_ITS_CLOCK)
        return NotImplemented if o is None else _minus(o, self)

    def _span(self, sign: str, other: Any) -> Expr:
        if self._type != TIMEDELTA:
            raise _wrong(sign, self, other)
        return self._expr

    def __mul__(self, other: Any) -> Any:
        by = as_int(other)
        if by is None:
            if type(other) is Sym or isinstance(other, float):
                raise Untraceable("multiplies a timedelta by a float, which rounds")
            return NotImplemented
        return SymTime(checked(n.mul(self._span("*", other), by)), TIMEDELTA)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        o, by = lift_time(other), as_int(other)
        if o is not None and o._type == TIMEDELTA:
            return Sym(checked(n.binary("floordiv", self._span("//", other), o._expr)))
        if by is None:
            return NotImplemented
        return SymTime(checked(n.binary("floordiv", self._span("//", other), by)), TIMEDELTA)

    def __rfloordiv__(self, other: Any) -> Any:
        o = lift_time(other)
        return NotImplemented if o is None else o // self

    def __mod__(self, other: Any) -> Any:
        o = lift_time(other)
        if o is None or o._type != TIMEDELTA:
            return NotImplemented
        return SymTime(checked(n.binary("mod", self._span("%", other), o._expr)), TIMEDELTA)

    def __rmod__(self, other: Any) -> Any:
        o = lift_time(other)
        return NotImplemented if o is None else o % self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __truediv__(self, other: Any) -> Any:
        o, by = lift_time(other), as_int(other)
        if o is not None and o._type == TIMEDELTA:
            return Sym(checked(n.binary("truediv", self._span("/", other), o._expr)))
        if by is None:
            if type(other) is Sym or isinstance(other, float):
                raise Untraceable("divides a timedelta by a float, which rounds")
            return NotImplemented
        return SymTime(_nearest(self._span("/", other), by), TIMEDELTA)

    def __rtruediv__(self, other: Any) -> Any:
        o = lift_time(other)
        return NotImplemented if o is None else o / self

    def __neg__(self) -> Any:
        return SymTime(checked(n.neg(self._span("-", self))), TIMEDELTA)

    def __pos__(self) -> Any:
        self._span("+", self)
        return self

    def __abs__(self) -> Any:
        return SymTime(checked(n.abs_(self._span("abs", self))), TIMEDELTA)

    # -- what it says
    def __getattr__(self, name: str) -> Any:
        found = _FIELDS.get((self._type.name, name)) or _FIELDS.get(("", name) if self._type != TIMEDELTA else ("", ""))
        return found(self) if found is not None else Rich.__getattr__(self, name)

    @property
    def _days(self) -> Expr:
        return self._expr if self._type == DATE else n.binary("floordiv", self._expr, _c(DAY))

    def _clock(self, unit: str) -> Expr:
        size, span = _UNITS[unit], _SPANS[unit]
        return n.binary("mod", n.binary("floordiv", self._expr, _c(size)), _c(span))


def _minus(a: SymTime, b: SymTime) -> Any:
    if a._type == b._type and a._type != TIMEDELTA:
        apart = n.sub(a._expr, b._expr)
        return SymTime(n.mul(apart, _c(DAY)) if a._type == DATE else apart, TIMEDELTA)
    if b._type != TIMEDELTA:
        if {a._type, b._type} == set(_POINTS):
            raise TypeError("can't subtract offset-naive and offset-aware datetimes")
        raise _wrong("-", a, b)
    if a._type == TIMEDELTA:
        return SymTime(checked(n.sub(a._expr, b._expr)), TIMEDELTA)
    by = n.binary("floordiv", b._expr, _c(DAY)) if a._type == DATE else b._expr
    return _in_range(n.sub(a._expr, by), a._type)


def _nearest(a: Expr, b: Expr) -> Expr:
    """The quotient rounded to the nearest, of two as near to the even one, as ``timedelta / int`` does."""
    q, r = checked(n.binary("floordiv", a, b)), n.binary("mod", a, b)
    rest = n.sub(b, r)  # of the sign of b, as r is
    positive = n.lt(_c(0), b)
    up = n.ite(positive, n.lt(rest, r), n.lt(r, rest))
    tie = n.and_(n.eq(rest, r), n.eq(n.binary("mod", q, _c(2)), _c(1)))
    return n.ite(n.or_(up, tie), n.add(q, _c(1)), q)


# ---------------------------------------------------------------- fields and methods


def _year(x: SymTime) -> Any:
    return Sym(civil(x._days)[0])


def _month(x: SymTime) -> Any:
    return Sym(civil(x._days)[1])


def _day(x: SymTime) -> Any:
    return Sym(civil(x._days)[2])


def _weekday(x: SymTime, first: int) -> Sym:
    return Sym(n.add(n.binary("mod", n.add(x._days, _c(3)), _c(7)), _c(first)))


def _valid(what: str, e: Expr, least: int, most: Expr) -> None:
    if not decide(n.and_(n.le(_c(least), e), n.le(e, most))):
        raise ValueError(f"{what} is out of range")


def _date_of(year: Expr, month: Expr, day: Expr) -> Expr:
    _valid("year", year, 1, _c(9999))
    _valid("month", month, 1, _c(12))
    _valid("day", day, 1, days_in_month(year, month))
    return days_of(year, month, day)


def _part(name: str, value: Any) -> Expr:
    e = as_int(value)
    if e is None:
        raise TypeError(f"{name}: an integer is required")
    return e


def _replace(x: SymTime) -> Any:
    def replace(**parts: Any) -> Any:
        clock = {} if x._type == DATE else _UNITS
        unknown = [p for p in parts if p not in ("year", "month", "day", *clock)]
        if unknown:
            raise Untraceable(f"uses replace({unknown[0]}=…) on a {x._type}")
        given = {name: _part(name, value) for name, value in parts.items()}
        days, within = x._days, _c(0)
        if not {"year", "month", "day"}.isdisjoint(given):
            now = dict(zip(("year", "month", "day"), civil(days), strict=True)) | given
            days = _date_of(now["year"], now["month"], now["day"])
        if x._type == DATE:
            return SymTime(days, DATE)
        if set(clock).isdisjoint(given):
            within = n.binary("mod", x._expr, _c(DAY))
        else:
            for unit, size in clock.items():
                if unit in given:
                    _valid(unit, given[unit], 0, _c(_SPANS[unit] - 1))
                within = n.add(within, n.mul(given.get(unit, x._clock(unit)), _c(size)))
        return SymTime(n.add(n.mul(days, _c(DAY)), within), x._type)

    return replace


def _astimezone(x: SymTime) -> Any:
    def astimezone(zone: Any = None) -> Any:
        if x._type == INSTANT and zone is dt.UTC:
            return x
        if zone is None or x._type == DATETIME:
            raise Untraceable("asks for the time zone of this machine", effect=True)
        from pellucid.internal.expr.tracing.clock.zones import in_zone

        return in_zone(x, zone)

    return astimezone


def _seconds(x: SymTime) -> Sym:
    return Sym(n.binary("truediv", x._expr, _c(1_000_000)))


_FIELDS: dict[tuple[str, str], Any] = {
    ("", "year"): _year,
    ("", "month"): _month,
    ("", "day"): _day,
    ("", "weekday"): lambda x: lambda: _weekday(x, 0),
    ("", "isoweekday"): lambda x: lambda: _weekday(x, 1),
    ("", "toordinal"): lambda x: lambda: Sym(n.add(x._days, _c(719_163))),
    ("", "replace"): _replace,
    ("timedelta", "days"): lambda x: Sym(n.binary("floordiv", x._expr, _c(DAY))),
    ("timedelta", "seconds"): lambda x: Sym(
        n.binary("floordiv", n.binary("mod", x._expr, _c(DAY)), _c(1_000_000))
    ),
    ("timedelta", "microseconds"): lambda x: Sym(n.binary("mod", x._expr, _c(1_000_000))),
    ("timedelta", "total_seconds"): lambda x: lambda: _seconds(x),
}  # fmt: skip
for _t in _POINTS:
    for _unit in _UNITS:
        _FIELDS[_t.name, _unit] = lambda x, unit=_unit: Sym(x._clock(unit))
    _FIELDS[_t.name, "date"] = lambda x: lambda: SymTime(x._days, DATE)
    _FIELDS[_t.name, "tzinfo"] = lambda x: dt.UTC if x._type == INSTANT else None
    _FIELDS[_t.name, "fold"] = lambda x: 0
    _FIELDS[_t.name, "astimezone"] = _astimezone
_FIELDS[INSTANT.name, "timestamp"] = lambda x: lambda: _seconds(x)
_FIELDS[INSTANT.name, "utcoffset"] = lambda x: lambda: dt.timedelta(0)


# ---------------------------------------------------------------- made in a function


def _unknown(args: Any) -> bool:
    return any(type(a) is Sym for a in args)


def made_timedelta(*args: Any, **named: Any) -> Any:
    """``timedelta(minutes=e.n)``: of whole numbers."""
    if not _unknown((*args, *named.values())):
        return dt.timedelta(*args, **named)
    units = {
        "days": DAY, "seconds": 1_000_000, "microseconds": 1, "milliseconds": 1_000, "minutes": 60_000_000,
        "hours": 3_600_000_000, "weeks": 7 * DAY,
    }  # fmt: skip
    parts = {**dict(zip(units, args, strict=False)), **named}
    total = _c(0)
    for name, value in parts.items():
        e = as_int(value)
        if name not in units:
            raise TypeError(f"{name!r} is an invalid keyword argument for timedelta()")
        if e is None:
            raise Untraceable("makes a timedelta of a float, which rounds")
        total = checked(n.add(total, checked(n.mul(e, _c(units[name])))))
    return SymTime(total, TIMEDELTA)


def made_date(*args: Any, **named: Any) -> Any:
    """``date(y, m, d)``."""
    if not _unknown((*args, *named.values())):
        return dt.date(*args, **named)
    given = {**dict(zip(("year", "month", "day"), args, strict=False)), **named}
    return SymTime(_date_of(*(_part(name, given[name]) for name in ("year", "month", "day"))), DATE)


def made_datetime(*args: Any, **named: Any) -> Any:
    """``datetime(y, m, d, …)``."""
    if not _unknown((*args, *named.values())):
        return dt.datetime(*args, **named)
    given = {**dict(zip(("year", "month", "day", *_UNITS, "tzinfo"), args, strict=False)), **named}
    zone = given.pop("tzinfo", None)
    if zone is not None and zone is not dt.UTC:
        raise Untraceable("makes a datetime in another time zone than UTC")
    total = n.mul(_date_of(*(_part(name, given[name]) for name in ("year", "month", "day"))), _c(DAY))
    for unit, size in _UNITS.items():
        e = _part(unit, given.get(unit, 0))
        _valid(unit, e, 0, _c(_SPANS[unit] - 1))
        total = n.add(total, n.mul(e, _c(size)))
    return SymTime(total, DATETIME if zone is None else INSTANT)
