"""Times: ``datetime``, ``date``, ``timedelta`` as exact 64-bit integers.

A ``datetime`` without a time zone is what it says: microseconds since 1970-01-01 00:00 on the same wall clock.  One
with a time zone, ``Annotated[datetime, UTC]``, is an instant: microseconds since 1970-01-01 00:00 UTC, and a function
gets it in UTC, whatever zone it came with.  The two never mix.  A ``date`` counts days, a ``timedelta`` microseconds.

>>> from datetime import UTC, datetime, timedelta
>>> DATETIME.flatten(datetime(1970, 1, 1, 0, 1)), DATETIME.unflatten((0,))
((60000000,), datetime.datetime(1970, 1, 1, 0, 0))
>>> INSTANT.problem(datetime(2013, 1, 1, 5))
'expected a datetime with a time zone, found 2013-01-01 05:00:00, which has none: say which, as in tzinfo=UTC or 05:00Z,
or declare it as datetime'
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.internal.expr.types.base import INT, Type, fits_int

EPOCH = dt.datetime(1970, 1, 1)
EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
TICK = dt.timedelta(microseconds=1)
DAY = 86_400_000_000  # microseconds
_FIRST = dt.date(1970, 1, 1).toordinal()


@dataclass(frozen=True, repr=False)
class TimeType(Type):
    """One of ``DATETIME``, ``INSTANT`` (a datetime with a time zone), ``DATE``, ``TIMEDELTA``."""

    name: str

    def __str__(self) -> str:
        return self.name

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        yield prefix, INT

    def flatten(self, value: Any) -> tuple[Any, ...]:
        if self.name == "date":
            return (value.toordinal() - _FIRST,)
        if self.name == "timedelta":
            return (value // TICK,)
        return ((value - (EPOCH if self.name == "datetime" else EPOCH_UTC)) // TICK,)

    def _build(self, leaves: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        return self.value(leaves[0]), leaves[1:]

    def value(self, number: int) -> Any:
        """The time that a number is.

        >>> DATE.value(1)
        datetime.date(1970, 1, 2)
        """
        if self.name == "date":
            return dt.date.fromordinal(number + _FIRST)
        if self.name == "timedelta":
            return dt.timedelta(microseconds=int(number))
        return (EPOCH if self.name == "datetime" else EPOCH_UTC) + dt.timedelta(microseconds=int(number))

    def limits(self) -> tuple[tuple[int, int] | None, ...]:
        return (_LIMITS[self.name],)

    def tidy(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        limit = _LIMITS[self.name]
        return (min(max(leaves[0], limit[0]), limit[1]),) if limit is not None else (leaves[0],)

    def problem(self, value: Any) -> str | None:
        wanted = {"date": "date", "timedelta": "timedelta"}.get(self.name, "datetime")
        if is_nat(value):
            return f"expected {self.name}, found NaT, which is no time"
        cls = getattr(dt, wanted)
        if not isinstance(value, cls) or (wanted == "date" and isinstance(value, dt.datetime)):
            return f"expected {self.name}, found {type(value).__name__} {value!r}"
        if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
            return f"{value} has nanoseconds, and a {wanted} has whole microseconds: round it first"
        if wanted == "datetime":
            aware = value.tzinfo is not None and value.utcoffset() is not None
            if aware and self.name == "datetime":
                return (
                    f"expected a datetime without a time zone, found {value}, which has one: declare it as "
                    "Annotated[datetime, UTC]"
                )
            if not aware and self.name != "datetime":
                return (
                    f"expected a datetime with a time zone, found {value}, which has none: say which, as in tzinfo=UTC "
                    "or 05:00Z, or declare it as datetime"
                )
            if aware and not _has_utc(value):
                return f"{value} is no time in UTC, where the years are 1 to 9999"
        if wanted == "timedelta" and not fits_int(value // TICK):
            return f"{value} does not fit in 64 bits of microseconds"
        return None

    def plain(self, value: Any) -> Any:
        """The value as the exact class, an instant in UTC."""
        if self.name == "date":
            return dt.date(value.year, value.month, value.day)
        if self.name == "timedelta":
            return dt.timedelta(value.days, value.seconds, value.microseconds)
        if self.name != "datetime":
            value = value.astimezone(dt.UTC)
        return dt.datetime(
            value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond,
            tzinfo=None if self.name == "datetime" else dt.UTC,
        )  # fmt: skip


def _has_utc(value: dt.datetime) -> bool:
    try:
        value.astimezone(dt.UTC)
    except OverflowError:
        return False
    return True


def is_nat(value: Any) -> bool:
    """Whether it is pandas' mark for a time that is missing."""
    return type(value).__name__ == "NaTType"


DATETIME = TimeType("datetime")
INSTANT = TimeType("datetime[UTC]")
DATE = TimeType("date")
TIMEDELTA = TimeType("timedelta")

_WALL = ((dt.datetime.min - EPOCH) // TICK, (dt.datetime.max - EPOCH) // TICK)
_LIMITS: dict[str, tuple[int, int] | None] = {
    "datetime": _WALL,
    "datetime[UTC]": _WALL,
    "date": (dt.date.min.toordinal() - _FIRST, dt.date.max.toordinal() - _FIRST),
    "timedelta": None,
}
