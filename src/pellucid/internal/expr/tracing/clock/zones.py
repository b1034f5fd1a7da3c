"""Times in a time zone that are not known yet: ``e.at.astimezone(ZoneInfo("America/New_York"))``.

Such a time is an instant and what the clock on the wall says there; the two differ by the zone's offset, which only
Python's ``zoneinfo`` knows.  An engine asks it once for each quarter of an hour (`expr.lookup`): zones change
their clocks at such moments, and where one did not, it is asked for the instant itself.

Python computes with two times of one zone by their walls and with times of two zones by their instants; what it does by
neither (adding to a local time, ``==`` across zones, which is never true in a repeated hour) is left to Python.
"""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Callable
from typing import Any

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.tracing.rich import Rich
from pellucid.internal.expr.tracing.symbolic import Compared, Sym, Untraceable, _boolean
from pellucid.internal.expr.tracing.times import SymTime, _in_range, lift_time
from pellucid.internal.expr.types import DATETIME, INSTANT, INT, TIMEDELTA
from pellucid.internal.expr.types.times import EPOCH_UTC, TICK

QUARTER = 900_000_000  # microseconds
_NOT_STEADY, _BEYOND = 1 << 62, 1 << 60  # no offsets
_FIELDS = frozenset(
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
        if name in _FIELDS:
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
