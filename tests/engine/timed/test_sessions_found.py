"""Sessions that are over are found in two ways, by looking at all keys and in the order in which they end; whichever is
taken, batch by batch, the answers are those of the literal engine."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from pellucid import Stream, pipeline
from pellucid.internal.engine.timed import sessions
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.engine.timed.sessions import Session
from tests.engine.timed.literal_engine import LiteralEngine
from tests.seeds import seeds


class Event(NamedTuple):
    t: int
    user: int
    amount: int


def total(w: Stream[Event]) -> Stream[int]:
    return w.cumulate(lambda s, e: (s * 2 + e.amount) % 1_000_003, start=0)


visits = pipeline(
    lambda x: x.at("t", lateness=6).key_by(lambda e: e.user).session(5, total, late="drop", id="visits"), x=Event
)


def batches(rng: random.Random) -> list[list[Event]]:
    """Small and large ones, of keys that come back and of keys that do not, some rows later than is allowed."""
    out, now = [], 0
    for _ in range(30):
        many = rng.choice([0, 1, 2, 40])
        keys = rng.choice([3, 60])
        out.append([Event(now - rng.randint(0, 9), rng.randrange(keys), rng.randint(0, 3)) for _ in range(many)])
        now += rng.choice([0, 1, 3, 12])
    return out


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("dense", [0, 1, None])
def test_sessions_are_found_in_either_way(seed: int, dense: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_SOME", 0)
    ways = set()
    rng = random.Random(seed)
    fast, literal = TimedEngine(visits.graph), LiteralEngine(visits.graph)
    for batch in batches(rng):
        monkeypatch.setattr(sessions, "_DENSE", rng.choice([0, 100]) if dense is None else dense)
        assert fast.push(batch) == literal.push(batch)
        ways |= {stage.op._ends is None for stage in fast.stages if isinstance(stage, Session)}
        if rng.random() < 0.2:
            again = TimedEngine(visits.graph)
            again.load(fast.save())
            fast = again
    assert fast.finish() == literal.finish() and fast.late == literal.late
    assert dense == 0 or len(ways) == 2  # both ways were taken
