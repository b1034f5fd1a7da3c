"""Times that are not known yet: ``datetime``, ``date`` and ``timedelta`` while a function is traced.

Each is an int (microseconds, or days of a ``date``) with Python's own operations on it, errors included.  What needs
more than whole numbers (text, floats) is refused by name; the function is then called as it is.

The calendar as expressions: years, months and days of a number of days since 1970-01-01, and back.

The proleptic Gregorian calendar, as Python's ``datetime`` has it, with years of 365.2425 days in eras of 400 years that
begin in March (the arithmetic is that of Howard Hinnant's ``days_from_civil``): whole numbers only, so that every
engine computes the same.

>>> civil(n.const(15706))
(2013, 1, 1)
>>> days_of(n.const(2000), n.const(2), n.const(29))
11016
"""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Callable
from typing import Any

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.tracing.rich import Rich, as_int, checked, decide
from pellucid.internal.expr.tracing.symbolic import Compared, Sym, Untraceable, _boolean
from pellucid.internal.expr.types import DATE, DATETIME, INSTANT, INT, TIMEDELTA, TimeType, type_of_value
from pellucid.internal.expr.types.rich import DAY, EPOCH_UTC, TICK


def _c(value: int) -> Expr:
    return n.const(value)


def _div(a: Expr, b: int) -> Expr:
    return n.binary("floordiv", a, _c(b))


def _times(a: Expr, b: int) -> Expr:
    return n.mul(a, _c(b))


def civil(days: Expr) -> tuple[Expr, Expr, Expr]:
    """The year, the month and the day."""
    z = n.add(days, _c(719_468))
    era = _div(z, 146_097)
    of_era = n.binary("mod", z, _c(146_097))
    years = _div(n.sub(n.add(n.sub(of_era, _div(of_era, 1_460)), _div(of_era, 36_524)), _div(of_era, 146_096)), 365)
    of_year = n.sub(of_era, n.sub(n.add(_times(years, 365), _div(years, 4)), _div(years, 100)))
    march = _div(n.add(_times(of_year, 5), _c(2)), 153)  # 0 is March
    day = n.add(n.sub(of_year, _div(n.add(_times(march, 153), _c(2)), 5)), _c(1))
    late = n.lt(march, _c(10))
    month = n.ite(late, n.add(march, _c(3)), n.sub(march, _c(9)))
    year = n.add(n.add(years, _times(era, 400)), n.ite(late, _c(0), _c(1)))
    return year, month, day


def days_of(year: Expr, month: Expr, day: Expr) -> Expr:
    """The days since 1970-01-01 of a valid date."""
    early = n.le(month, _c(2))
    y = n.sub(year, n.ite(early, _c(1), _c(0)))
    era = _div(y, 400)
    of_era = n.binary("mod", y, _c(400))
    march = n.ite(early, n.add(month, _c(9)), n.sub(month, _c(3)))
    of_year = n.sub(n.add(_div(n.add(_times(march, 153), _c(2)), 5), day), _c(1))
    days = n.add(n.sub(n.add(_times(of_era, 365), _div(of_era, 4)), _div(of_era, 100)), of_year)
    return n.sub(n.add(_times(era, 146_097), days), _c(719_468))


def days_in_month(year: Expr, month: Expr) -> Expr:
    """How many days a month has.

    >>> days_in_month(n.const(1900), n.const(2)), days_in_month(n.const(2013), n.const(12))
    (28, 31)
    """
    four, hundred, era = (n.eq(n.binary("mod", year, _c(k)), _c(0)) for k in (4, 100, 400))
    leap = n.and_(four, n.or_(n.not_(hundred), era))
    february = n.ite(leap, _c(29), _c(28))
    short = n.const(False)
    for m in (4, 6, 9, 11):
        short = n.or_(short, n.eq(month, _c(m)))
    return n.ite(n.eq(month, _c(2)), february, n.ite(short, _c(30), _c(31)))


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


# Times in a time zone that are not known yet: ``e.at.astimezone(ZoneInfo("America/New_York"))``.
#
# Such a time is an instant and what the clock on the wall says there; the two differ by the zone's offset, which only
# Python's ``zoneinfo`` knows.  An engine asks it once for each quarter of an hour (`expr.lookup`): zones change their
# clocks at such moments, and where one did not, it is asked for the instant itself.
#
# Python computes with two times of one zone by their walls and with times of two zones by their instants; what it does
# by neither (adding to a local time, ``==`` across zones, which is never true in a repeated hour) is left to Python.

QUARTER = 900_000_000  # microseconds
_NOT_STEADY, _BEYOND = 1 << 62, 1 << 60  # no offsets
_FIELDS_ZONES = frozenset(
    [
        "year", "month", "day", "hour", "minute", "second", "microsecond", "weekday", "isoweekday", "toordinal", "date",
    ]
)  # fmt: skip


class Offset:
    """The offset of a zone at an instant, in microseconds.

    >>> Offset("America/New_York")(0) // 3_600_000_000
    -5
    """

    def __init__(self, zone: str) -> None:
        self.zone = zone
        self._zone = zoneinfo.ZoneInfo(zone)

    def __call__(self, instant: int) -> int:
        try:
            found = (EPOCH_UTC + dt.timedelta(microseconds=instant)).astimezone(self._zone).utcoffset()
        except OverflowError:  # so is the sum: the wall is not in the calendar any more
            return _BEYOND if instant > 0 else -_BEYOND
        assert found is not None
        return found // TICK

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.zone,)


class QuarterOffset(Offset):
    """The offset in a quarter of an hour, counted from 1970; no offset if it is not the same all the time."""

    def __call__(self, quarter: int) -> int:
        first, last = (Offset.__call__(self, quarter * QUARTER + at) for at in (0, QUARTER - 1))
        return first if first == last and abs(first) != _BEYOND else _NOT_STEADY


def in_zone(x: SymTime, zone: Any) -> Any:
    """``x.astimezone(zone)`` of an instant."""
    if type(zone) is dt.timezone:
        offset = n.const(zone.utcoffset(None) // TICK)
    elif type(zone) is zoneinfo.ZoneInfo and zone.key is not None and zoneinfo.ZoneInfo(zone.key) is zone:
        offset = _offset(x._expr, zone.key)
    else:
        raise Untraceable(f"changes the time zone of an event's time to {zone!r}")
    wall = _in_range(n.add(x._expr, offset), DATETIME)
    return SymLocal(x._expr, wall._expr, zone)


def _offset(instant: Expr, zone: str) -> Expr:
    from pellucid.internal.expr.tracing import running, textual
    from pellucid.internal.expr.tracing.trace import current_path

    path = current_path()
    if not path.run:
        if not path.text:
            raise Untraceable("changes the time zone of an event's time")
        found: Sym = textual._pure(f"offset in {zone}", Offset(zone), INT, False, [instant])
        return found._expr
    quarter = Sym(n.binary("floordiv", instant, n.const(QUARTER)))
    said: dict[str, Any] = {"fails": False, "key": zone, "apart": True}
    steady = running.ask("quarter_offset", QuarterOffset(zone), [quarter], INT, **said)._expr
    exact = running.ask("offset", Offset(zone), [Sym(instant)], INT, **said)._expr
    return n.ite(n.eq(steady, n.const(_NOT_STEADY)), exact, steady)


class SymLocal(Compared, Rich):
    """A time in a zone that is not known yet."""

    __slots__ = ("_wall", "_zone")

    def __init__(self, instant: Expr, wall: Expr, zone: dt.tzinfo) -> None:
        super().__init__(instant, INSTANT)
        object.__setattr__(self, "_wall", wall)
        object.__setattr__(self, "_zone", zone)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return dt.datetime

    def __getattr__(self, name: str) -> Any:
        wall, instant = SymTime(self._wall, DATETIME), SymTime(self._expr, INSTANT)
        if name in _FIELDS_ZONES:
            return getattr(wall, name)
        found: dict[str, Callable[[], Any]] = {
            "tzinfo": lambda: self._zone,
            "timestamp": lambda: instant.timestamp,
            "astimezone": lambda: instant.astimezone,
            "utcoffset": lambda: lambda: SymTime(n.sub(self._wall, self._expr), TIMEDELTA),
            "replace": lambda: lambda **parts: _replaced(wall, parts),
        }
        return found[name]() if name in found else Rich.__getattr__(self, name)

    # -- with other times
    def _pair(self, other: Any) -> tuple[Expr, Expr] | None:
        """Two numbers by which this one and another are compared, and told apart."""
        if type(other) is SymLocal:
            same = other._zone is self._zone
            return (self._wall, other._wall) if same else (self._expr, other._expr)
        if isinstance(other, dt.datetime) and not issubclass(type(other), Rich) and other.tzinfo is self._zone:
            other = lift_time(other.replace(tzinfo=None))
            return None if other is None else (self._wall, other._expr)
        o = lift_time(other)
        if o is None or o._type not in (INSTANT, DATETIME):
            return None
        if o._type == DATETIME:
            raise TypeError("can't compare offset-naive and offset-aware datetimes")
        return self._expr, o._expr

    def _compare(self, op: str, other: Any, swapped: bool = False) -> Any:
        pair = self._pair(other)
        if pair is None:
            return NotImplemented
        return _boolean(n.COMPARE[op](*(reversed(pair) if swapped else pair)))

    def __eq__(self, other: object) -> Any:
        if type(other) is SymLocal and other._zone is self._zone:
            return self._compare("eq", other)
        raise Untraceable("asks whether a local time equals another, which depends on repeated hours")

    def __ne__(self, other: object) -> Any:
        return _boolean(n.not_(self.__eq__(other)._expr))

    __hash__ = Rich.__hash__

    def __sub__(self, other: Any) -> Any:
        o = lift_time(other)
        if o is not None and o._type == TIMEDELTA:
            raise Untraceable("takes a timedelta from a local time, which is counted on the wall")
        pair = self._pair(other)
        return NotImplemented if pair is None else SymTime(n.sub(*pair), TIMEDELTA)

    def __rsub__(self, other: Any) -> Any:
        pair = self._pair(other)
        return NotImplemented if pair is None else SymTime(n.sub(pair[1], pair[0]), TIMEDELTA)

    def __add__(self, other: Any) -> Any:
        raise Untraceable("adds to a local time, which is counted on the wall")

    __radd__ = __add__


def _replaced(wall: SymTime, parts: dict[str, Any]) -> Any:
    if "tzinfo" not in parts or parts["tzinfo"] is not None:
        raise Untraceable("changes a part of a local time, which may be there twice, or not at all")
    return wall.replace(**{name: value for name, value in parts.items() if name != "tzinfo"})
