"""What the judge has found, written out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple

from pellucid import join, lookup, pipeline, silent

LEAST, MOST = -(2**63), 2**63 - 1


class Event(NamedTuple):
    t: int
    k: str


class Moment(NamedTuple):
    t: Annotated[datetime, UTC]
    k: str


def count(x: Any) -> Any:
    return x.cumulate(lambda n, e: n + 1, start=0)


def test_a_table_that_is_idle_holds_nobody_back() -> None:
    def known(x: Any, y: Any) -> Any:
        table = y.at("t", lateness=8, idle=timedelta(seconds=1)).key_by(lambda e: e.k)
        return lookup(x.at("t").key_by(lambda e: e.k), table).map(lambda pair: (pair[0].t, pair[1].t))

    engine = pipeline(known, x=Event, y=Event).engine()
    assert engine.push(x=[Event(-3, "c"), silent], y=[silent, Event(1, "b")]) == []
    engine.idle("y")
    assert engine.push(x=[], y=[]) == []
    assert engine.push(x=[Event(-1, "b")], y=[silent]) == [(-3, None)]


def test_days_of_a_zone_without_rows() -> None:
    p = pipeline(lambda x: x.at("t").tumbling(timedelta(days=1), count, tz="America/New_York"), x=Moment)
    engine = p.engine()
    assert p([]) == engine.push([]) == []
    assert engine.push([Moment(datetime(2024, 3, 10, 12, tzinfo=UTC), "a")]) == []
    assert engine.finish() == [(datetime(2024, 3, 10, 5, tzinfo=UTC), datetime(2024, 3, 11, 4, tzinfo=UTC), 1)]


def test_joins_at_the_ends_of_64_bits() -> None:
    def pairs(low: int, high: int, x: list[int], y: list[int]) -> Any:
        p = pipeline(lambda a, b: join(a.at(lambda v: v), b.at(lambda v: v), within=(low, high)), a=int, b=int)
        return p(x, y)

    assert pairs(4, MOST, [MOST], [MOST]) == []
    assert pairs(-3, -3, [LEAST + 1], [LEAST]) == []
    assert pairs(0, 0, [LEAST, MOST], [LEAST, MOST]) == [(LEAST, LEAST), (MOST, MOST)]


def test_sessions_that_end_together_come_by_key() -> None:
    """Whatever the batches."""
    p = pipeline(lambda x: x.at("t").key_by(lambda e: e.k).session(5, lambda w: w.map(lambda e: e.k)), x=Event)
    rows = [Event(1, "b"), Event(3, "a"), Event(6, "b"), Event(6, "a")]
    assert p(rows) == p.trace(rows)[-1] == [(3, 12, "a"), (1, 12, "b")]
