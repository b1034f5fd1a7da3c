"""Local times, compiled: what Python's ``zoneinfo`` says, around every change of the clocks and at the ends of the
calendar; what is left to Python is right, too."""

from __future__ import annotations

import datetime as dt
import pickle
import random
from collections.abc import Callable
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import pytest

from pellucid import StepError, check, pipeline
from pellucid.internal.expr.tracing.clock.zones import Offset, QuarterOffset

INSTANT = Annotated[dt.datetime, dt.UTC]
START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
ZONES = ["America/New_York", "Australia/Lord_Howe", "Africa/Monrovia", "Pacific/Apia", "Asia/Kathmandu", "UTC"]
NY, BERLIN = ZoneInfo("America/New_York"), ZoneInfo("Europe/Berlin")
INDIA = dt.timezone(dt.timedelta(hours=5, minutes=30))


def changes(zone: ZoneInfo) -> list[dt.datetime]:
    """The seconds around which a zone changes its clocks, found by halving."""
    out, at = [], dt.datetime(1960, 1, 1, tzinfo=dt.UTC)
    while at.year < 2040:
        after = at + dt.timedelta(days=20)
        if at.astimezone(zone).utcoffset() != after.astimezone(zone).utcoffset():
            low, high = at, after
            while high - low > dt.timedelta(seconds=1):
                middle = low + (high - low) // 2
                same = middle.astimezone(zone).utcoffset() == at.astimezone(zone).utcoffset()
                low, high = (middle, high) if same else (low, middle)
            out += [high + dt.timedelta(microseconds=d) for d in (-1_000_001, -1, 0, 1, 1_000_000)]
        at = after
    return out


def instants(zone: ZoneInfo) -> list[dt.datetime]:
    rng = random.Random(zone.key)
    found = [START + dt.timedelta(microseconds=rng.randrange(-(10**16), 6 * 10**16)) for _ in range(200)]
    return [*changes(zone), *found, dt.datetime(1, 1, 3, tzinfo=dt.UTC), dt.datetime(9999, 12, 29, tzinfo=dt.UTC)]


def fields(zone: dt.tzinfo) -> Callable[[Any], Any]:
    def f(t):  # type: ignore[no-untyped-def]
        here = t.astimezone(zone)
        day, clock = (here.year, here.month, here.day), (here.hour, here.minute, here.second, here.microsecond)
        return day, clock, here.weekday(), here.date(), here.utcoffset(), here.replace(tzinfo=None)

    return f


@pytest.mark.parametrize("name", ZONES)
def test_every_field_around_every_change(name: str) -> None:
    zone = ZoneInfo(name)
    f, given = fields(zone), instants(zone)
    p = pipeline(lambda t: t.map(f), t=INSTANT)
    assert p.why_plain is None
    for mode in ("python", "numba") if name in ZONES[:2] else ("python",):
        assert p.engine(mode=mode).push(given) == [f(t) for t in given]


#: What it returns, if it cannot be compiled.
OTHERS: dict[str, tuple[Any, Callable[..., Any]]] = {
    "a fixed offset": (None, fields(INDIA)),
    "the hour of the day": (None, lambda t: 8 <= t.astimezone(NY).hour < 18 and t.astimezone(NY).weekday() < 5),
    "the instant again": (None, lambda t: t.astimezone(NY)),
    "from zone to zone": (None, lambda t: t.astimezone(NY).astimezone(BERLIN).replace(tzinfo=None, minute=0)),
    "earlier on the wall": (None, lambda t: t.astimezone(NY) < dt.datetime(2013, 11, 3, 1, 30, tzinfo=NY)),
    "earlier": (None, lambda t: t.astimezone(NY) <= dt.datetime(2013, 11, 3, 1, 30, tzinfo=BERLIN)),
    "since": (None, lambda t: t.astimezone(NY) - dt.datetime(2013, 11, 3, tzinfo=NY)),
    "since an instant": (None, lambda t: (t - t.astimezone(NY), t.astimezone(BERLIN) - t, t.astimezone(NY) >= t)),
    "names": (None, lambda t: {5: "sat", 6: "sun"}.get(t.astimezone(NY).weekday(), "day")),
    "tomorrow": (dt.datetime, lambda t: (t.astimezone(NY) + dt.timedelta(days=1)).replace(tzinfo=None)),
    "midnight": (INSTANT, lambda t: t.astimezone(NY).replace(hour=0, minute=0, second=0, microsecond=0)),
    "across zones": (bool, lambda t: t.astimezone(NY) == t),
}


def utc(value: Any) -> Any:
    """An event is an instant, whatever zone it came with."""
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) and value.tzinfo else value


@pytest.mark.parametrize("name", OTHERS)
def test_with_other_times(name: str) -> None:
    to, f = OTHERS[name]
    p = pipeline(lambda t: t.map(f, to=to), t=INSTANT)
    assert (p.why_plain is None) == (to is None)
    given = instants(NY)
    assert p(given) == [utc(f(t)) for t in given]


def test_beyond_the_calendar_it_fails_as_python_does() -> None:
    last = dt.datetime(9999, 12, 31, 23, tzinfo=dt.UTC)
    p = pipeline(lambda t: t.map(lambda v: v.astimezone(BERLIN).year), t=INSTANT)
    assert p.why_plain is None
    with pytest.raises(StepError, match="OverflowError: date value out of range"):
        p([START, last])
    with pytest.raises(OverflowError):
        last.astimezone(BERLIN)


def test_they_travel_and_are_asked_in_checks() -> None:
    for made in (Offset("Europe/Berlin"), QuarterOffset("Europe/Berlin")):
        assert pickle.loads(pickle.dumps(made))(0) == 3_600_000_000
    late = pipeline(lambda t: t.filter(lambda v: v.astimezone(BERLIN).hour >= 18), t=INSTANT)
    same = pipeline(lambda t: t.filter(lambda v: not v.astimezone(BERLIN).hour < 18), t=INSTANT)
    other = pipeline(lambda t: t.filter(lambda v: v.astimezone(BERLIN).hour > 18), t=INSTANT)
    assert check.equivalent(late, same).proved
    assert not check.equivalent(late, other).proved
    assert check.failures(late, crashes=1).bounded  # that it changes a time zone is no effect
