"""Which windows a time is in: numbered, with their starts and ends.

Window *k* of fixed windows is [origin + k·every, origin + k·every + size).  Calendar days of a time zone are counted by
days; how many hours each has, the zone says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

_DAY = 86_400_000_000
_FAR = 1 << 61
#: Within the years 1 to 9999 in any time zone, in microseconds since 1970.
_DAYS = (-719_160 * _DAY, 2_932_890 * _DAY)


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

    @property
    def even(self) -> bool:
        """Whether a time is in one window only, and these are of one length within 64 bits."""
        return self.apart and type(self) is Spans and abs(self.origin) + self.every < _FAR

    def last(self, times: Any) -> Any:
        """The number of the last window that each time is in."""
        return self._whole((self._wide(times) - self.origin) // self.every)

    def first(self, times: Any) -> Any:
        """The number of the first one."""
        return self._whole((self._wide(times) - (self.origin + self.size)) // self.every + 1)

    def open_at(self, clock: int) -> int:
        """The number of the first window that is not closed: whose end is after the clock."""
        return (clock - self.origin - self.size) // self.every + 1

    def start(self, k: Any) -> Any:
        """Where these windows start."""
        return self._whole(self.origin + self._wide(k, self.every) * self.every)

    def end(self, k: Any) -> Any:
        """Where they end; the end is not in them."""
        return self._whole(self.origin + self._wide(k, self.every) * self.every + self.size)

    def ends(self, k: int) -> int:
        """Where one window ends; those before it have ended by then."""
        return self.origin + k * self.every + self.size

    def _wide(self, numbers: Any, by: int = 1) -> Any:
        """Numbers with which one can count without leaving 64 bits; near their ends these are Python's own."""
        reach = abs(self.origin) + self.size + self.every
        far = _FAR // by
        if not len(numbers) or (reach < _FAR and -far < int(numbers.min()) and int(numbers.max()) < far):
            return numbers
        return numbers.astype(object)

    def _whole(self, numbers: Any) -> Any:
        if numbers.dtype != object:
            return numbers
        return numbers.astype(np.int64)  # what does not fit is an OverflowError


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
        first, last = _DAYS  # a clock may stand before all times that there are
        day = int(self._day(np.array([min(max(clock, first), last)], dtype=np.int64))[0])
        return (day - self.origin - self.size) // self.every + 1

    def start(self, k: Any) -> Any:
        return self._begins(self.origin + k * self.every)

    def end(self, k: Any) -> Any:
        return self._begins(self.origin + k * self.every + self.size)

    def ends(self, k: int) -> int:
        try:
            return int(self._begins(np.array([self.origin + k * self.every + self.size]))[0])
        except OverflowError:  # before or after all days
            return -(2**63) if k < 0 else 2**63 - 1
