"""The calendar as expressions: years, months and days of a number of days since 1970-01-01, and back.

The proleptic Gregorian calendar, as Python's ``datetime`` has it, with years of 365.2425 days in eras of 400 years that
begin in March (the arithmetic is that of Howard Hinnant's ``days_from_civil``): whole numbers only, so that every
engine computes the same.

>>> civil(n.const(15706))
(2013, 1, 1)
>>> days_of(n.const(2000), n.const(2), n.const(29))
11016
"""

from __future__ import annotations

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr


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
