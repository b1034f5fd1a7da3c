"""Pipelines by event time with leaves of many kinds, and rows for them."""

from __future__ import annotations

import enum
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

from pellucid import Pipeline, Scale, Stream, as_of, join, lookup, pipeline


class Colour(enum.Enum):
    """In an order that is not that of the letters."""

    RED = "r"
    BLUE = "b"


class Sale(NamedTuple):
    """A row with a leaf of every kind."""

    when: Annotated[datetime, UTC]
    user: str | None
    n: int
    price: Annotated[Decimal, Scale(2)] | None
    x: float | None
    colour: Colour
    day: date


class Offer(NamedTuple):
    """A row of another DataFrame."""

    at: Annotated[datetime, UTC]
    user: str | None
    rate: int


SALE = "when timestamp, user string, n bigint, price decimal(10,2), x double, colour string, day date, shop int"
OFFER = "at timestamp, user string, rate bigint, shop int"
BEGIN = datetime(2024, 3, 31, 0, 30, tzinfo=UTC)  # an hour that summer time skips in half of Europe
MINUTE = timedelta(minutes=1)


def count(w: Stream[Any]) -> Stream[Any]:
    return w.cumulate(lambda n, e: n + 1, start=0)


def fold(w: Stream[Any]) -> Stream[Any]:
    return w.cumulate(lambda h, e: (h * 31 + e.n + 7) % 1000003, start=1)


def prices(w: Stream[Any]) -> Stream[Any]:
    """What depends on the order of floats, and has decimals."""
    return w.cumulate(lambda s, e: s * 0.5 + (e.x if e.x is not None else 3.0), start=0.0)


class Silent(NamedTuple):
    """Nothing was sold for a while: since when, what was sold before, and how many."""

    since: Annotated[datetime, UTC]
    last: Sale
    sold: int


def silence(x: Stream[Any], **more: Any) -> Stream[Any]:
    """A task that is told of times: a few minutes after each sale."""
    nobody = Sale(BEGIN, None, 0, None, None, Colour.RED, date(2024, 3, 29))

    def sold(s: Silent, e: Sale) -> tuple[Silent, list[Silent], list[Any]]:
        return Silent(e.when, e, s.sold + 1), [], [e.when + 2 * MINUTE]

    def told(s: Silent, t: Any) -> tuple[Silent, list[Silent], list[Any]]:
        return (Silent(BEGIN, nobody, 0), [s], []) if t == s.since + 2 * MINUTE else (s, [], [])

    return x.task(sold, Silent(BEGIN, nobody, 0), on_time=told, **more)


def _whole(w: Stream[Any]) -> Stream[Any]:
    return w


ONE: dict[str, Callable[[Stream[Any]], Any]] = {
    "tumbling": lambda x: x.at("when", lateness=5 * MINUTE).tumbling(10 * MINUTE, fold),
    "sliding": lambda x: x.at("when", lateness=5 * MINUTE).sliding(10 * MINUTE, 3 * MINUTE, prices),
    "session": lambda x: x.at("when", lateness=5 * MINUTE).session(3 * MINUTE, _whole),
    "dedup": lambda x: x.at("when", lateness=5 * MINUTE).dedup(by=lambda e: (e.user, e.n), within=8 * MINUTE),
    "by user": lambda x: x.at("when", lateness=5 * MINUTE).key_by(lambda e: e.user).tumbling(10 * MINUTE, prices),
    "by colour": lambda x: (
        x.filter(lambda e: e.n != 1)
        .key_by(lambda e: (e.colour, e.n % 3))
        .at("when", lateness=5 * MINUTE)
        .session(2 * MINUTE, fold)
    ),
    "windows of windows": lambda x: (
        x.at("when", lateness=5 * MINUTE)
        .key_by(lambda e: e.user)
        .tumbling(5 * MINUTE, fold)
        .sliding(20 * MINUTE, 10 * MINUTE, count)
    ),
    "steps behind": lambda x: (
        x.at("when", lateness=5 * MINUTE)
        .key_by(lambda e: e.user)
        .tumbling(5 * MINUTE, fold)
        .cumulate(lambda t, w: (t * 7 + w.value) % 1009, start=1)
    ),
    "silence": lambda x: silence(x.at("when", lateness=5 * MINUTE).key_by(lambda e: e.user)),
    "timers": lambda x: silence(x.at("when", lateness=5 * MINUTE)),
    "days": lambda x: x.at("when", lateness=5 * MINUTE).tumbling(timedelta(days=1), count, tz="Europe/Berlin"),
    "by a day": lambda x: x.at("when", lateness=5 * MINUTE).key_by(lambda e: e.day).tumbling(10 * MINUTE, count),
}


def _sides(x: Stream[Any], y: Stream[Any]) -> tuple[Stream[Any], Stream[Any]]:
    a = x.at("when", lateness=5 * MINUTE).key_by(lambda e: e.user)
    return a, y.at("at", lateness=5 * MINUTE, idle=timedelta(hours=9)).key_by(lambda e: e.user)


TWO: dict[str, Callable[[Stream[Any], Stream[Any]], Any]] = {
    "inner join": lambda x, y: join(*_sides(x, y), within=4 * MINUTE),
    "left join": lambda x, y: join(*_sides(x, y), within=(-2 * MINUTE, 3 * MINUTE), how="left"),
    "full join": lambda x, y: join(*_sides(x, y), within=MINUTE, how="full"),
    "as_of": lambda x, y: as_of(*_sides(x, y), within=5 * MINUTE),
    "lookup": lambda x, y: lookup(*_sides(x, y)),
    "joined windows": lambda x, y: (
        join(*_sides(x, y), within=MINUTE)
        .map(lambda p: p[1].rate)
        .tumbling(7 * MINUTE, lambda w: w.cumulate(lambda s, v: s + v, start=0))
    ),
}


def made(name: str) -> Pipeline:
    """A pipeline of one of the shapes."""
    return pipeline(ONE[name], x=Sale) if name in ONE else pipeline(TWO[name], x=Sale, y=Offer)


def sales(rng: random.Random, rows: int, spread: int = 90) -> list[dict[str, Any]]:
    """Rows of sales: out of order, many alike, with nulls."""
    out = []
    for _ in range(rows):
        when = BEGIN + timedelta(seconds=rng.randrange(spread * 60 // 20) * 20)
        out.append(
            {
                "when": when,
                "user": rng.choice([None, "", "ada", "Zoë", "b"]),
                "n": rng.randrange(-2, 3),
                "price": rng.choice([None, Decimal("1.50"), Decimal("-0.01")]),
                "x": rng.choice([None, 0.1, -2.5, 1e300]),
                "colour": rng.choice(["RED", "BLUE"]),
                "day": date(2024, 3, rng.randrange(29, 32)),
                "shop": rng.randrange(3),
            }
        )
    return out


def offers(rng: random.Random, rows: int, spread: int = 90) -> list[dict[str, Any]]:
    """Rows of offers."""
    return [
        {
            "at": BEGIN + timedelta(seconds=rng.randrange(spread * 60 // 20) * 20),
            "user": rng.choice([None, "", "ada", "Zoë", "b"]),
            "rate": rng.randrange(5),
            "shop": rng.randrange(3),
        }
        for _ in range(rows)
    ]
