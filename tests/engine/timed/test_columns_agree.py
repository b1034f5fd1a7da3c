"""The engine over columns is the literal one, only faster: the same events in the same order, batch by batch, whatever
is saved and loaded in between; and the same errors."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pellucid import pipeline
from pellucid.engine.timed.engine import TimedEngine
from pellucid.engine.timed.running import LiteralEngine
from pellucid.errors import PellucidError
from pellucid.expr.types import STR
from tests.engine.timed.drawn import batches, drawn
from tests.seeds import seeds


def agree(seed: int, count: int, mode: str = "auto") -> tuple[int, bool]:
    """One run of both engines; how many events came out, and whether it ended with an error."""
    rng = random.Random(seed)
    p, several = drawn(rng)
    key = STR if rng.random() < 0.3 else None
    literal = LiteralEngine(p.graph, key=key)
    fast = TimedEngine(p.graph, key=key, mode=mode)
    events = 0
    for batch in [*batches(rng, p.graph, key, count), None]:
        if rng.random() < 0.1 and several == 2:
            source = rng.choice("xy")
            literal.idle(source)
            fast.idle(source)
        if rng.random() < 0.5:
            other = TimedEngine(p.graph, key=key, mode=mode)
            other.load(fast.save())
            fast = other
        found = []
        for engine in (literal, fast):
            try:
                out = engine.finish_batch() if batch is None else engine.push_batch(batch)
                events += sum(map(len, out))
                found.append(plain(out, key))
            except PellucidError as error:
                found.append(f"{type(error).__name__}: {error}")
        assert found[0] == found[1], f"seed {seed}: {p.graph}"
        assert literal.late == fast.late
        if isinstance(found[0], str):
            return events, True
    return events, False


def plain(outputs: list[Any], key: Any) -> Any:
    """Events, and the keys that came with the data."""
    from pellucid.data.columns import events_of

    return [
        (o.name, [repr(e) for e in o.events()], events_of(key, o.keys) if key is not None else None) for o in outputs
    ]


@pytest.mark.seeded
@pytest.mark.parametrize("first", seeds(4))
def test_both_engines_agree(first: int) -> None:
    put, failed = 0, 0
    for seed in range(first * 1000, first * 1000 + 40):
        events, error = agree(seed, 25)
        put, failed = put + events, failed + error
    assert put > 1000 and failed < 30  # most runs say something


def test_sessions_that_end_together_come_by_key() -> None:
    """All of them were held open before: in the order in which their keys came."""
    p = pipeline(lambda x: x.at(lambda e: e[0]).key_by(lambda e: e[1]).session(5, lambda w: w), x=tuple[int, str])
    for engine in (LiteralEngine(p.graph), TimedEngine(p.graph)):
        assert engine.push([(1, "b"), (2, "z")]) == engine.push([(4, "b"), (4, "a"), (5, "z")]) == []
        assert [w.value for w in engine.push([(30, "z")])] == [(4, "a"), (4, "b"), (5, "z")]


@pytest.mark.seeded
@pytest.mark.long
@pytest.mark.parametrize("first", seeds(20, 100))
def test_both_engines_agree_at_length(first: int) -> None:
    for seed in range(first * 1000, first * 1000 + 300):
        agree(seed, 60)
