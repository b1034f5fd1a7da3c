"""Tell me when a plane has not left for two days: a task that asks to be told of a time, over the flights of sixteen
planes in 2013, in any order."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, NamedTuple

from pellucid import Stream, pipeline

Instant = Annotated[datetime, UTC]
LONG = timedelta(days=2)


class Flight(NamedTuple):
    time_hour: Instant  # scheduled
    tailnum: str  # the plane
    dest: str


class Alert(NamedTuple):
    tailnum: str
    since: Instant
    dest: str  # where it went


NEVER = Alert("", datetime(1970, 1, 1, tzinfo=UTC), "")


def left(last: Alert, f: Flight) -> tuple[Alert, list[Alert], list[Instant]]:
    return Alert(f.tailnum, f.time_hour, f.dest), [], [f.time_hour + LONG]  # remember it, and tell me in two days


def two_days_on(last: Alert, now: Instant) -> tuple[Alert, list[Alert], list[Instant]]:
    return last, ([last] if now == last.since + LONG else []), []  # unless it has left again in between


@pipeline
def silent(flights: Stream[Flight]) -> Stream[Alert]:
    timed = flights.at("time_hour", lateness=timedelta(hours=22))
    return timed.key_by(lambda f: f.tailnum).task(left, NEVER, on_time=two_days_on, id="silent")


if __name__ == "__main__":
    from pyarrow import csv

    flights = csv.read_csv(Path(__file__).parent / "flights-sixteen-planes.csv.gz")
    found = silent(flights.select(["time_hour", "tailnum", "dest"]))
    print(f"{flights.num_rows:,} flights; silent for {LONG.days} days: {found.num_rows:,} times")
    for alert in found.slice(0, 3).to_pylist():
        print(f"{alert['tailnum']} since {alert['since']:%Y-%m-%d %H:%M}, when it went to {alert['dest']}")
