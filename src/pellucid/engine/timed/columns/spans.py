"""Which windows a time is in: numbered, with their starts and ends.

Window *k* of fixed windows is [origin + k·every, origin + k·every + size).  Calendar days of a time zone are counted by
days; how many hours each has, the zone says.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.engine.timed.columns.rows import LEAST, MOST
from pellucid.errors import DataError

_DAY = 86_400_000_000


@dataclass(frozen=True)
class Spans:
    """Windows of one size, one every so often."""

    size: int
    every: int
    origin: int = 0

    @property
    def apart(self) -> bool:
        """Whether a time is in one window only."""
        return self.size == self.every

    def last(self, times: Any) -> Any:
        """The number of the last window that each time is in."""
        self._fits(times)
        return (times - self.origin) // self.every

    def first(self, times: Any) -> Any:
        """The number of the first one."""
        self._fits(times)
        return (times - (self.origin + self.size)) // self.every + 1

    def open_at(self, clock: int) -> int:
        """The number of the first window that is not closed: whose end is after the clock."""
        return (clock - self.origin - self.size) // self.every + 1

    def start(self, k: Any) -> Any:
        """Where these windows start."""
        return self.origin + k * self.every

    def end(self, k: Any) -> Any:
        """Where they end; the end is not in them."""
        return self.origin + k * self.every + self.size

    def _fits(self, times: Any) -> None:
        if not len(times):
            return
        reach = abs(self.origin) + self.size + self.every
        for t in (int(times.min()), int(times.max())):
            if not (LEAST + 2 * reach <= t <= MOST - 2 * reach):
                # near the ends of 64 bits: look exactly
                low = self.origin + ((t - self.origin - self.size) // self.every + 1) * self.every
                high = self.origin + (t - self.origin) // self.every * self.every + self.size
                if low < LEAST or high > MOST or not (LEAST + reach <= t <= MOST - reach):
                    raise DataError(f"the time {t} is in a window that does not fit in 64 bits: [{low}, {high})")


class Days(Spans):
    """Windows of whole calendar days in a time zone: ``size`` and ``every`` are numbers of days, ``origin`` is a day
    (counted from 1970-01-01).  ``midnight`` tells the instant at which a day begins there."""

    def __init__(self, size: int, every: int, origin: int, midnight: Callable[[int], int]) -> None:
        super().__init__(size, every, origin)
        object.__setattr__(self, "_midnight", midnight)
        object.__setattr__(self, "_known", {})

    def _begins(self, days: Any) -> Any:
        """When these days begin."""
        known: dict[int, int] = self._known  # type: ignore[attr-defined]
        used, places = np.unique(np.asarray(days, dtype=np.int64), return_inverse=True)
        for day in used.tolist():
            if day not in known:
                known[day] = self._midnight(day)  # type: ignore[attr-defined]
        found = np.fromiter((known[day] for day in used.tolist()), dtype=np.int64, count=len(used))
        return found[places].reshape(np.shape(days))

    def _day(self, times: Any) -> Any:
        """The calendar day of each time there."""
        near = times // _DAY
        used, places = np.unique(near, return_inverse=True)
        # No zone is more than a day away from UTC: three days are looked at.
        out = np.empty(len(times), dtype=np.int64)
        begins = np.stack([self._begins(used + d) for d in (-1, 0, 1, 2)], axis=1) if len(used) else None
        if begins is not None:
            here = begins[places]
            out = near - 2 + (here <= times[:, None]).sum(axis=1)
        return out

    def last(self, times: Any) -> Any:
        return (self._day(times) - self.origin) // self.every

    def first(self, times: Any) -> Any:
        return (self._day(times) - (self.origin + self.size)) // self.every + 1

    def open_at(self, clock: int) -> int:
        day = int(self._day(np.array([clock], dtype=np.int64))[0])
        return (day - self.origin - self.size) // self.every + 1

    def start(self, k: Any) -> Any:
        return self._begins(self.origin + k * self.every)

    def end(self, k: Any) -> Any:
        return self._begins(self.origin + k * self.every + self.size)


def midnights(zone: dt.tzinfo) -> Callable[[int], int]:
    """When a calendar day begins in a zone, in microseconds since 1970 in UTC: its first instant, also where the clock
    skips midnight, or shows it twice.

    >>> from zoneinfo import ZoneInfo
    >>> begins = midnights(ZoneInfo("Europe/Berlin"))
    >>> (begins(1) - begins(0)) // 3_600_000_000
    24
    """
    epoch, first = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.date(1970, 1, 1).toordinal()

    def begins(day: int) -> int:
        # A midnight that is skipped is the instant of the change, one that comes twice is the first.
        wall = dt.datetime.combine(dt.date.fromordinal(day + first), dt.time(), tzinfo=zone)
        return (wall - epoch) // dt.timedelta(microseconds=1)

    return begins
