"""Windows by event time, checked in every order of arrival: what an hourly bill keeps, and refactorings that break it.

Also `pellucid check examples/windows_checked.py`."""

from datetime import datetime, timedelta
from typing import NamedTuple

from pellucid import Stream, Windowed, check, pipeline

HOUR, WAIT = timedelta(hours=1), timedelta(minutes=5)


class Call(NamedTuple):
    began: datetime
    minutes: int


def bill(x: Stream[Call]) -> Stream[int]:  # of the calls of one hour: the first minute is free
    return x.cumulate(lambda cents, c: cents + 9 * max(c.minutes - 1, 0), start=0)


def bill_of_total(x: Stream[Call]) -> Stream[int]:  # "the same, simpler"
    return x.cumulate(lambda total, c: total + c.minutes, start=0).map(lambda total: 9 * max(total - 1, 0))


@pipeline
def hourly(calls: Stream[Call]) -> Stream[Windowed[datetime, int]]:
    return calls.at("began", lateness=WAIT).tumbling(HOUR, bill, late="drop", id="hours")


@pipeline
def simpler(calls: Stream[Call]) -> Stream[Windowed[datetime, int]]:
    return calls.at("began", lateness=WAIT).tumbling(HOUR, bill_of_total, late="drop", id="hours")


@pipeline
def impatient(calls: Stream[Call]) -> Stream[Windowed[datetime, int]]:
    return calls.at("began").tumbling(HOUR, bill, late="drop", id="hours")


TEN = datetime(2024, 5, 1, 10)
CALLS = [Call(TEN, 1), Call(TEN + HOUR - WAIT, 2), Call(TEN + HOUR, 2), Call(TEN + HOUR + WAIT, 1)]


@check.property
def hours_are_right_in_every_order(**settings):
    return check.times(hourly, events=CALLS, pushes=3, **settings)


if __name__ == "__main__":
    print(hours_are_right_in_every_order())
    print(check.holds(hourly, "G (out -> out.value.value >= 0)", events=CALLS))
    for other in (simpler, impatient):
        print(check.equivalent(hourly, other, how="sequence", events=CALLS))
    print(check.equivalent(hourly, impatient, how="sequence", arrival="in time", events=CALLS))
