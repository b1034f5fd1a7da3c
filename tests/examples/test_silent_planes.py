"""Planes that have not left for two days: what the gaps between their flights say, at once and in batches."""

from __future__ import annotations

import csv
import gzip
import random
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.examples.flights_oracle import example

EXAMPLE = example("silent_planes")
DATA = Path(__file__).parents[2] / "examples" / "flights-sixteen-planes.csv.gz"


def flights() -> list[Any]:
    with gzip.open(DATA, "rt") as file:
        rows = list(csv.DictReader(file))
    return [EXAMPLE.Flight(datetime.fromisoformat(row["time_hour"]), row["tailnum"], row["dest"]) for row in rows]


def gaps(rows: list[Any]) -> set[tuple[str, datetime]]:
    """The times of a plane after which the next one is more than two days away, or there is none."""
    found = set()
    for plane in {f.tailnum for f in rows}:
        times = sorted({f.time_hour for f in rows if f.tailnum == plane})
        found |= {(plane, a) for a, b in pairwise([*times, times[-1] + timedelta(days=999)]) if b - a > EXAMPLE.LONG}
    return found


def test_an_alert_for_each_gap() -> None:
    rows = flights()
    want = gaps(rows)
    found = EXAMPLE.silent(rows)
    assert len(found) == len(want) > 500 and {(a.tailnum, a.since) for a in found} == want


def test_in_any_order_within_lateness() -> None:
    """In batches, each flight up to 22 hours behind others, and the state saved and loaded in between."""
    rng = random.Random(3)
    rows = flights()
    arrival = sorted(rows, key=lambda f: (f.time_hour + timedelta(hours=rng.uniform(0, 22)), f.tailnum))
    engine, found = EXAMPLE.silent.engine(), []
    for first in range(0, len(arrival), 333):
        found += engine.push(arrival[first : first + 333])
        other = EXAMPLE.silent.engine()
        other.load(engine.save())
        engine = other
    found += engine.finish()
    assert sorted(found) == sorted(EXAMPLE.silent(rows)) and engine.late == {}
