"""The flights of 2013 by event time.  They are read in the order in which they left, up to 22 hours late, and counted
by when they were scheduled: per hour, over three hours, in the visits of a plane; beside the weather; once a day."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple

from pellucid import Stream, Windowed, as_of, join, pipeline

HOUR = timedelta(hours=1)
Instant = Annotated[datetime, UTC]


class Flight(NamedTuple):
    scheduled: Instant
    origin: str
    carrier: str
    flight: int
    month: int
    day: int
    tailnum: str | None  # the plane
    dep_delay: int | None  # minutes; None: the flight was cancelled


class Weather(NamedTuple):  # of an airport, each hour
    time_hour: Instant
    origin: str
    visib: float  # miles


class Delays(NamedTuple):
    origin: str
    departures: int
    mean: float | None  # minutes


class Legs(NamedTuple):
    tailnum: str | None
    flights: int


class Seen(NamedTuple):
    scheduled: Instant
    carrier: str
    flight: int
    visib: float | None


def delays(x: Stream[Flight]) -> Stream[Delays]:  # of the flights of one window
    total = x.cumulate(lambda d, f: (f.origin, d[1] + (f.dep_delay is not None), d[2] + (f.dep_delay or 0)), ("", 0, 0))
    return total.map(lambda d: Delays(d[0], d[1], d[2] / d[1] if d[1] > 0 else None))


def legs(x: Stream[Flight]) -> Stream[Legs]:
    return x.cumulate(lambda n, f: Legs(f.tailnum, n.flights + 1), Legs(None, 0))


def seen(f: Flight, w: Weather) -> Seen:
    return Seen(f.scheduled, f.carrier, f.flight, w.visib)


@pipeline
def hourly(flights: Stream[Flight]) -> Stream[Windowed[Instant, Delays]]:
    return flights.at("scheduled", lateness=22 * HOUR).key_by(lambda f: f.origin).tumbling(HOUR, delays)


@pipeline
def three_hours(flights: Stream[Flight]) -> Stream[Windowed[Instant, Delays]]:
    return flights.at("scheduled", lateness=22 * HOUR).key_by(lambda f: f.origin).sliding(3 * HOUR, HOUR, delays)


@pipeline
def visits(flights: Stream[Flight]) -> Stream[Windowed[Instant, Legs]]:  # flights of a plane no more than 6 hours apart
    known = flights.filter(lambda f: f.tailnum is not None).at("scheduled", lateness=22 * HOUR)
    return known.key_by(lambda f: f.tailnum).session(6 * HOUR, legs)


@pipeline
def visibility(flights: Stream[Flight], weather: Stream[Weather]) -> Stream[Seen]:  # the latest of the last hour
    flown = flights.at("scheduled", lateness=22 * HOUR).key_by(lambda f: f.origin)
    return as_of(flown, weather.at("time_hour").key_by(lambda w: w.origin), within=HOUR).map(lambda p: seen(p[0], p[1]))


@pipeline
def in_fog(
    flights: Stream[Flight], weather: Stream[Weather]
) -> Stream[Seen]:  # an hour late, fog in the two hours before
    late = flights.at("scheduled", lateness=22 * HOUR).filter(lambda f: f.dep_delay is not None and f.dep_delay >= 60)
    fog = weather.at("time_hour").filter(lambda w: w.visib < 1).key_by(lambda w: w.origin)
    return join(late.key_by(lambda f: f.origin), fog, within=(-2 * HOUR, 0 * HOUR)).map(lambda p: seen(p[0], p[1]))


@pipeline
def once_a_day(flights: Stream[Flight]) -> Stream[Flight]:
    timed = flights.at("scheduled", lateness=22 * HOUR)
    return timed.dedup(by=lambda f: (f.carrier, f.flight, f.month, f.day), within=24 * HOUR)


if __name__ == "__main__":
    from flights_table import as_they_left, weather

    flights = as_they_left()
    print(f"{flights.num_rows:,} flights, in the order in which they left")
    for p in (hourly, three_hours, visits, once_a_day):
        print(f"{p.name}: {p(flights).num_rows:,}")
    for q in (visibility, in_fog):
        found = q(flights, weather(), short="silent")
        print(f"{q.name}: {found.num_rows - found['visib'].null_count:,}")
