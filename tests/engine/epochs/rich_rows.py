"""Pipelines over records with every type a column may have, and rows for them; a run's folder gets a copy of this
file."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NamedTuple

from pellucid import Scale, Stream, pipeline


class Kind(Enum):
    A = 1
    B = 2


@dataclass(frozen=True)
class Row:
    i: int
    f: float
    b: bool
    s: str
    k: Kind
    at: datetime
    when: Annotated[datetime, UTC]
    day: date
    took: timedelta
    fee: Annotated[Decimal, Scale(2)]
    tiny: Annotated[Decimal, Scale(18)]
    oi: int | None
    of: float | None
    ob: bool | None
    os: str | None
    ok: Kind | None
    oat: datetime | None
    owhen: Annotated[datetime, UTC] | None
    oday: date | None
    otook: timedelta | None
    ofee: Annotated[Decimal, Scale(4)] | None


class Told(NamedTuple):
    s: str
    last: datetime | None
    gap: timedelta | None
    count: int
    owed: Annotated[Decimal, Scale(2)]


@pipeline
def same(e: Stream[Row]) -> Stream[Row]:
    return e.map(lambda r: r, id="same")


def tell(state: Any, r: Any) -> Any:
    last, count, owed = state
    gap = r.at - last if last is not None else None
    return (r.oat, count + 1, owed + r.fee), [Told(r.s, last, gap, count, owed)]


@pipeline
def told(e: Stream[Row]) -> Stream[Told]:
    return e.map(lambda r: r, id="first").task(tell, (None, 0, Decimal("0.00")), id="tell").map(lambda t: t, id="last")


LOW, HIGH = datetime.min, datetime.max
CORNERS = [
    Row(
        1, 0.1, True, "é", Kind.A, datetime(2013, 1, 1, 5, 0, 0, 7), datetime(2013, 1, 1, 5, tzinfo=UTC),
        date(2013, 1, 1), timedelta(days=1, minutes=-90), Decimal("12.50"), Decimal("0.000000000000000001"),
        None, None, None, None, None, None, None, None, None, None,
    ),
    Row(
        -(2**63), -1e300, False, "", Kind.B, LOW, LOW.replace(tzinfo=UTC), date.min, -timedelta(microseconds=1),
        Decimal("-0.05"), Decimal("0E-18"), 0, 0.0, False, "", Kind.B, HIGH, HIGH.replace(tzinfo=UTC), date.max,
        timedelta(0), Decimal("0.0000"),
    ),
    Row(
        2**63 - 1, 5e-324, True, 'a,"b\n', Kind.A, HIGH, HIGH.replace(tzinfo=UTC), date.max, timedelta(days=106751991),
        Decimal("92233720368547758.07"), Decimal("-9.223372036854775808"), -1, float("inf"), True, "null", Kind.A,
        datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        date(1969, 12, 31), timedelta(days=-106751991), Decimal("-1.0001"),
    ),
]  # fmt: skip


def many(count: int) -> list[Row]:
    """Rows in which something is missing now and then; their times and fees stay where sums of them fit."""

    def maybe(i: int, n: int, value: Any) -> Any:
        return None if i % n == 0 else value

    start = datetime(2013, 1, 1)
    out = []
    for i in range(count):
        at = start + timedelta(minutes=7 * i, microseconds=i)
        money = Decimal((i * 7919) % 1009 - 500)
        out.append(
            Row(
                i, i / 8, i % 2 == 0, f"user {i % 5}", list(Kind)[i % 2], at, at.replace(tzinfo=UTC), at.date(),
                timedelta(seconds=i - 50), money.scaleb(-2), money.scaleb(-18), maybe(i, 2, i), maybe(i, 3, i / 4),
                maybe(i, 4, True), maybe(i, 5, ""), maybe(i, 3, Kind.B), maybe(i, 3, at),
                maybe(i, 2, at.replace(tzinfo=UTC)), maybe(i, 5, at.date()), maybe(i, 2, timedelta(minutes=-i)),
                maybe(i, 3, money.scaleb(-4)),
            )
        )  # fmt: skip
    return out


def tale(rows: list[Row], *, keyed: bool) -> list[Told]:
    """What `told` is to say, by the book."""
    out, states = [], dict[str, Any]()
    for r in rows:
        key = r.s if keyed else ""
        last, count, owed = states.get(key, (None, 0, Decimal("0.00")))
        out.append(Told(r.s, last, None if last is None else r.at - last, count, owed))
        states[key] = r.oat, count + 1, owed + r.fee
    return out


def plain(row: Any) -> dict[str, Any]:
    """A record as a dict of what a table holds: of an enum's member the name."""
    names = row._fields if isinstance(row, tuple) else [f.name for f in fields(row)]
    found = {name: getattr(row, name) for name in names}
    return {name: value.name if isinstance(value, Enum) else value for name, value in found.items()}
