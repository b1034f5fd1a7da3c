"""Random functions over records with times, decimals and values that may be missing, as Python text.

They are written from the meaning of Python alone: what `eval` makes of the text is the oracle.
"""

from __future__ import annotations

import datetime as dt
import decimal
import random
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

from pellucid import Scale


@dataclass(frozen=True)
class Row:
    i: int
    f: float
    b: bool
    s: str
    at: datetime
    when: Annotated[datetime, UTC]
    day: date
    took: timedelta
    fee: Annotated[Decimal, Scale(2)]
    oi: int | None
    of: float | None
    ob: bool | None
    os: str | None
    oat: datetime | None
    otook: timedelta | None
    ofee: Annotated[Decimal, Scale(4)] | None


NAMES = {
    "datetime": datetime,
    "date": date,
    "timedelta": timedelta,
    "Decimal": Decimal,
    "UTC": UTC,
    "dt": dt,
    "decimal": decimal,
    "Row": Row,
}
_ROUNDING = [
    "ROUND_HALF_EVEN",
    "ROUND_HALF_UP",
    "ROUND_HALF_DOWN",
    "ROUND_UP",
    "ROUND_DOWN",
    "ROUND_FLOOR",
    "ROUND_CEILING",
]


class Writer:
    """Writes expressions of a wanted kind, no deeper than asked."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def make(self, kind: str, depth: int) -> str:
        """An expression of a kind: int, bool, point, instant, span, day, money."""
        options = getattr(self, f"_{kind}")(depth - 1) if depth > 0 else []
        return str(self.rng.choice([*options, *self.leaves(kind)]))

    def leaves(self, kind: str) -> list[str]:
        rng = self.rng
        return {
            "int": ["e.i", str(rng.randint(-5, 90)), "(e.oi or 3)", "(e.oi if e.oi is not None else -1)"],
            "bool": ["e.b", "e.oi is None", "(e.ob or False)", "e.s == 'a'", "e.os is None", "e.os == 'a'"],
            "point": ["e.at", "datetime(2013, 1, 31, 5, 7, 9, 11)", "(e.oat or e.at)"],
            "instant": ["e.when", "datetime(2000, 2, 29, tzinfo=UTC)"],
            "span": ["e.took", "timedelta(days=1, seconds=7)", "(e.otook or timedelta(minutes=-90))", "timedelta(0)"],
            "day": ["e.day", "date(2012, 2, 29)"],
            "money": ["e.fee", "Decimal('1.25')", "Decimal('-0.05')", "(e.ofee if e.ofee is not None else Decimal(3))"],
        }[kind]

    def _int(self, d: int) -> list[str]:
        m = self.make
        point = m("point", d)
        return [
            f"({m('int', d)} {self.rng.choice('+-*')} {m('int', d)})",
            f"{point}.{self.rng.choice(['year', 'month', 'day', 'hour', 'minute', 'second', 'microsecond'])}",
            f"{m('day', d)}.{self.rng.choice(['year', 'month', 'day', 'weekday()', 'isoweekday()', 'toordinal()'])}",
            f"{m('span', d)}.{self.rng.choice(['days', 'seconds', 'microseconds'])}",
            f"({m('span', d)} // {m('span', d)})",
            f"int({m('money', d)})",
            f"round({m('money', d)})",
            f"({m('int', d)} if {m('bool', d)} else {m('int', d)})",
            f"{m('instant', d)}.hour",
        ]

    def _bool(self, d: int) -> list[str]:
        m, sign = self.make, self.rng.choice(["<", "<=", "==", "!=", ">", ">="])
        kind = self.rng.choice(["int", "point", "instant", "span", "day", "money"])
        return [
            f"({m(kind, d)} {sign} {m(kind, d)})",
            f"({m('money', d)} {sign} {m('int', d)})",
            f"({m('bool', d)} and {m('bool', d)})",
            f"({m('bool', d)} or {m('bool', d)})",
            f"(not {m('bool', d)})",
            f"(e.oat is not None and e.oat {sign} {m('point', d)})",
            f"(e.of is not None and e.of {sign} e.f)",
            f"bool({m('span', d)})",
            f"({m('point', d)} == {m('day', d)})",
        ]

    def _point(self, d: int) -> list[str]:
        m = self.make
        unit = self.rng.choice(
            ["minute=0, second=0, microsecond=0", "hour=0", "day=1", "month=2", "year=2013", "second=59"]
        )
        return [
            f"({m('point', d)} + {m('span', d)})",
            f"({m('point', d)} - {m('span', d)})",
            f"{m('point', d)}.replace({unit})",
            f"({m('point', d)} if {m('bool', d)} else {m('point', d)})",
            f"max({m('point', d)}, {m('point', d)})",
        ]

    def _instant(self, d: int) -> list[str]:
        return [
            f"({self.make('instant', d)} + {self.make('span', d)})",
            f"{self.make('instant', d)}.replace(minute=30)",
        ]

    def _span(self, d: int) -> list[str]:
        m = self.make
        return [
            f"({m('point', d)} - {m('point', d)})",
            f"({m('day', d)} - {m('day', d)})",
            f"({m('instant', d)} - {m('instant', d)})",
            f"({m('span', d)} * {self.rng.randint(-3, 5)})",
            f"({m('span', d)} // {self.rng.choice([1, 2, 7, -3])})",
            f"({m('span', d)} / {self.rng.choice([1, 2, 7, -3])})",
            f"({m('span', d)} % {m('span', d)})",
            f"abs({m('span', d)})",
            f"(-{m('span', d)})",
            f"timedelta(minutes={m('int', d)} % 1000)",
        ]

    def _day(self, d: int) -> list[str]:
        m = self.make
        return [f"{m('point', d)}.date()", f"({m('day', d)} + {m('span', d)})", f"({m('day', d)} - {m('span', d)})",
                f"{m('day', d)}.replace(day=1)"]  # fmt: skip

    def _money(self, d: int) -> list[str]:
        m = self.make
        how = self.rng.choice(_ROUNDING)
        return [
            f"({m('money', d)} {self.rng.choice('+-')} {m('money', d)})",
            f"({m('money', d)} * {self.rng.randint(-3, 4)})",
            f"({m('money', d)} * Decimal('0.5'))",
            f"round({m('money', d)}, {self.rng.randint(0, 2)})",
            f"{m('money', d)}.quantize(Decimal('0.1'), rounding=decimal.{how})",
            f"Decimal({m('int', d)} % 1000)",
            f"abs({m('money', d)})",
            f"(-{m('money', d)})",
            f"(0 + {m('money', d)})",
        ]


def function_text(rng: random.Random) -> str:
    """A function of a row: a few values, one of them perhaps missing."""
    w = Writer(rng)
    kinds = rng.sample(["int", "bool", "point", "instant", "span", "day", "money"], 2)
    parts = [w.make(kind, rng.randint(1, 3)) for kind in kinds]
    parts.append(f"({w.make('point', 1)} if {w.make('bool', 2)} else None)")
    parts.append(rng.choice(["e.oi", "e.oat", "e.os", "e.ofee", "e.of", "e.otook", "e.ob"]))
    return f"lambda e: ({', '.join(parts)})"


def rows(rng: random.Random, count: int) -> list[Row]:
    """Random rows, with the awkward ones often."""
    points = [
        datetime(2013, 1, 1, 5),
        datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime(2000, 2, 29, 12, 34, 56, 789),
    ]
    points += [datetime.min, datetime.max, datetime(1900, 3, 1), datetime(2012, 12, 31, 23, 30)]

    def point() -> datetime:
        if rng.random() < 0.6:
            return rng.choice(points)
        return datetime(rng.randint(1, 9999), rng.randint(1, 12), rng.randint(1, 28)) + timedelta(
            seconds=rng.randint(0, 86399), microseconds=rng.randint(0, 999999)
        )

    def span() -> timedelta:
        return rng.choice(
            [timedelta(0), timedelta(minutes=rng.randint(-999, 999)), timedelta(microseconds=rng.randint(-9, 9)),
             timedelta(days=rng.randint(-400, 400), seconds=rng.randint(0, 86399))]
        )  # fmt: skip

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.35 else value

    def money(places: int) -> Decimal:
        return Decimal(rng.choice([0, 5, -5, 15, 25, 250, rng.randint(-(10**6), 10**6)])).scaleb(-places)

    return [
        Row(
            rng.choice([0, 1, -1, 7, 59, 60, 61, rng.randint(-1000, 1000)]), rng.choice([0.0, -1.5, 2.5, 1e6]),
            rng.random() < 0.5, rng.choice(["", "a", "é"]), point(), point().replace(tzinfo=UTC), point().date(),
            span(), money(2), maybe(rng.choice([0, 1, 61, -7])), maybe(rng.choice([0.0, 2.5])),
            maybe(rng.random() < 0.5), maybe(rng.choice(["", "a"])), maybe(point()), maybe(span()), maybe(money(4)),
        )
        for _ in range(count)
    ]  # fmt: skip
