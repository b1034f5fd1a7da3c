"""Windows that begin at fixed times: which of them an event is in; and the days of time zones.

Without a time zone a window is ``[origin + k * every, origin + k * every + size)`` for every whole ``k``, negative ones
too.  With one, sizes are whole days, and a day begins with the first instant of its date there: so it has 23, 24 or 25
hours, or what else the zone has done.  Where a clock is set back over midnight, what comes after the first midnight is
the new day; a date that a zone has left out is a day without instants.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from zoneinfo import ZoneInfo

from pellucid.internal.expr.types.times import DAY, EPOCH, EPOCH_UTC, TICK
from pellucid.internal.graph.timing import Timing


def windows_of(timing: Timing, time: int) -> list[tuple[int, int]]:
    """The windows (start, end) that a time is in, in order.

    >>> windows_of(Timing(size=10, every=5), 12)
    [(5, 15), (10, 20)]
    >>> windows_of(Timing(size=10, every=10, origin=3), -1)
    [(-7, 3)]
    """
    assert timing.size is not None and timing.every is not None
    if timing.tz is None:
        last = timing.origin + (time - timing.origin) // timing.every * timing.every
        starts = range(last, time - timing.size, -timing.every)
        return [(start, start + timing.size) for start in reversed(starts)]
    origin, size, every = timing.origin // DAY, timing.size // DAY, timing.every // DAY
    day = day_of(timing.tz, time)
    last = origin + (day - origin) // every * every
    days = range(last, day - size, -every)
    return [(day_start(timing.tz, d), day_start(timing.tz, d + size)) for d in reversed(days)]


@lru_cache(maxsize=100_000)
def day_start(tz: str, day: int) -> int:
    """The first instant of a day (counted from 1970-01-01) in a time zone, in microseconds of UTC.

    >>> (day_start("Europe/Berlin", 19814) - day_start("Europe/Berlin", 19813)) // 3_600_000_000  # 2024-03-31
    23
    """
    try:
        wall = EPOCH + dt.timedelta(days=day)
        # Of a midnight that is there twice the first; of one that is not there, when it would have been: the moment at
        # which the clock was set forward.
        return int((wall.replace(tzinfo=ZoneInfo(tz), fold=0).astimezone(dt.UTC) - EPOCH_UTC) // TICK)
    except OverflowError:
        raise OverflowError("a day before the year 1 or after 9999") from None


def day_of(tz: str, time: int) -> int:
    """The day in a time zone that an instant is in.

    >>> day_of("Europe/Berlin", 19812 * DAY + 23 * DAY // 24)  # 23:00 in UTC is the next day there
    19813
    """
    wall = (EPOCH_UTC + dt.timedelta(microseconds=time)).astimezone(ZoneInfo(tz)).replace(tzinfo=None)
    day = (wall - EPOCH) // dt.timedelta(days=1)
    while time < day_start(tz, day):
        day -= 1
    while time >= day_start(tz, day + 1):
        day += 1
    return day
