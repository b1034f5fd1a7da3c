"""The events that bench/time.py and bench/time_spark.py measure with, and the steps that both begin with."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from pellucid import Stream

MINUTE = 60_000_000  # microseconds
DAY = 24 * 60 * MINUTE
LATE = timedelta(minutes=1)


class Event(NamedTuple):
    """A payment, say."""

    when: datetime
    user: int
    amount: int


def total(w: Stream[Any]) -> Stream[int]:
    """The sum of a window."""
    return w.cumulate(lambda s, e: s + e.amount, start=0)


def timed(x: Stream[Any]) -> Any:
    """By time and user."""
    return x.at("when", lateness=LATE).key_by(lambda e: e.user)


def drawn(rng: np.random.Generator, events: int, keys: int) -> list[Any]:
    """Columns of events over a day in the order of arrival, up to a minute out of order: times in microseconds, keys,
    amounts."""
    when = np.sort(rng.integers(MINUTE, DAY, events)) - rng.integers(0, MINUTE, events)
    return [when, rng.integers(0, keys, events), rng.integers(0, 1000, events)]
