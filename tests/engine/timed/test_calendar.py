"""Windows that begin at fixed times, and days of time zones."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from pellucid.internal.engine.timed.calendar import day_of, day_start, windows_of
from pellucid.internal.expr.types import INSTANT
from pellucid.internal.expr.types.times import DAY
from pellucid.internal.graph.timing import Timing

HOUR = DAY // 24


def days(when: datetime) -> int:
    return (when.date() - datetime(1970, 1, 1).date()).days


def units(when: datetime) -> int:
    return int(INSTANT.flatten(when)[0])


@pytest.mark.parametrize(
    ("size", "every", "origin", "time", "windows"),
    [
        (10, 10, 0, 9, [(0, 10)]),
        (10, 10, 0, 10, [(10, 20)]),  # the end is outside
        (10, 10, 0, -1, [(-10, 0)]),  # floor, not towards zero
        (10, 10, 3, 2, [(-7, 3)]),
        (10, 5, 0, 7, [(0, 10), (5, 15)]),
        (10, 4, 0, 7, [(0, 10), (4, 14)]),
        (10, 4, 0, 9, [(0, 10), (4, 14), (8, 18)]),
    ],
)
def test_the_windows_of_a_time(size: int, every: int, origin: int, time: int, windows: list[tuple[int, int]]) -> None:
    assert windows_of(Timing(size=size, every=every, origin=origin), time) == windows


def test_a_time_is_in_the_windows_that_hold_it_and_in_no_other() -> None:
    rng = random.Random(18)
    for _ in range(300):
        size = rng.randint(1, 12)
        every, origin, time = rng.randint(1, size), rng.randint(-9, 9), rng.randint(-40, 40)
        starts = [origin + k * every for k in range(-80, 80)]
        expected = [(s, s + size) for s in starts if s <= time < s + size]
        assert windows_of(Timing(size=size, every=every, origin=origin), time) == expected


@pytest.mark.parametrize(
    ("zone", "date", "hours"),
    [
        ("Europe/Berlin", datetime(2024, 3, 31), 23),
        ("Europe/Berlin", datetime(2024, 10, 27), 25),
        ("Europe/Berlin", datetime(2024, 6, 1), 24),
        ("America/Sao_Paulo", datetime(2018, 11, 4), 23),  # the clock was set forward at midnight
        ("America/Havana", datetime(2024, 11, 3), 25),  # and back to midnight
        ("America/St_Johns", datetime(2010, 11, 6), 24),  # back over midnight, at 00:01: the next day has begun
        ("America/St_Johns", datetime(2010, 11, 7), 25),
        ("Australia/Lord_Howe", datetime(2024, 4, 7), 24.5),
        ("Pacific/Apia", datetime(2011, 12, 30), 0),  # a date that was left out
    ],
)
def test_days_have_the_hours_that_they_have_there(zone: str, date: datetime, hours: float) -> None:
    day = days(date)
    assert (day_start(zone, day + 1) - day_start(zone, day)) / HOUR == hours


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "Pacific/Apia", "America/Sao_Paulo", "UTC"])
def test_every_instant_is_in_one_day(zone: str) -> None:
    rng = random.Random(zone)
    for _ in range(200):
        time = units(datetime(2008, 1, 1, tzinfo=UTC)) + rng.randrange(12 * 365 * DAY)
        day = day_of(zone, time)
        assert day_start(zone, day) <= time < day_start(zone, day + 1)


def test_the_first_instant_of_a_day_is_its_midnight_there() -> None:
    start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=day_start("Asia/Tokyo", 19_800))
    assert start.astimezone(ZoneInfo("Asia/Tokyo")).strftime("%H:%M") == "00:00"


def test_windows_of_several_days_in_a_zone() -> None:
    noon = units(datetime(2024, 3, 31, 12, tzinfo=UTC))
    week = Timing(INSTANT, size=7 * DAY, every=7 * DAY, origin=days(datetime(2024, 1, 1)) * DAY, tz="Europe/Berlin")
    ((start, end),) = windows_of(week, noon)
    assert (end - start) // HOUR == 7 * 24 - 1  # a week from Monday on, with the day that has 23 hours
    two = windows_of(Timing(INSTANT, size=2 * DAY, every=DAY, tz="Europe/Berlin"), noon)
    assert [(end - start) // HOUR for start, end in two] == [47, 47]
