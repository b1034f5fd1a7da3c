"""The engine over columns is the literal one, only faster: the same events in the same order, batch by batch, whatever
is saved and loaded in between; and the same errors."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pellucid import pipeline
from pellucid.errors import LateError, PellucidError, UsageError
from pellucid.internal.data.columns import Batch
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.engine.timed.running import LiteralEngine
from pellucid.internal.expr.types import STR
from tests.engine.timed.drawn import batches, drawn
from tests.seeds import HUNT, seeds


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


def agree_in_parts(seed: int, count: int) -> int:
    """The literal engine batch by batch, the other one with each batch's rows in several parts (and saved between
    them), or moved by what another engine has seen; how many events came out."""
    rng = random.Random(seed)
    p, several = drawn(rng)
    key = STR if rng.random() < 0.3 else None
    literal = LiteralEngine(p.graph, key=key)
    fast = TimedEngine(p.graph, key=key)
    events = 0
    for batch in batches(rng, p.graph, key, count):
        if rng.random() < 0.1 and several == 2:
            source = rng.choice("xy")
            literal.idle(source)
            fast.idle(source)
        found: list[Any] = []
        try:
            found.append(plain(literal.push_batch(batch), key))
        except PellucidError as error:
            found.append(type(error))
        try:
            outs = []
            for part in parts(rng, batch):
                outs.append(plain(fast.take(part), key))
                if rng.random() < 0.3:
                    other = TimedEngine(p.graph, key=key)
                    other.load(fast.save())
                    assert other.seen() == fast.seen()
                    fast = other
            outs.append(plain(fast.move(fast.seen() if rng.random() < 0.5 else None), key))
            assert fast.seen() == {}
            found.append(
                [
                    (name, [e for out in outs for e in out[i][1]], [k for out in outs for k in out[i][2] or []])
                    for i, (name, _, _) in enumerate(outs[0])
                ]
            )
        except PellucidError as error:
            found.append(type(error))
        if isinstance(found[0], list):
            found[0] = [(name, shown, keys or []) for name, shown, keys in found[0]]
            events += sum(len(shown) for _, shown, _ in found[0])
        # Which error comes first may differ: an early part is at its end before a later one begins.
        assert isinstance(found[0], type) == isinstance(found[1], type), f"seed {seed}: {found}"
        if isinstance(found[0], type):
            return events
        assert found[0] == found[1], f"seed {seed}: {p.graph}"
        assert literal.late == fast.late
    return events


def parts(rng: random.Random, batch: Batch) -> list[Batch]:
    """A batch cut into several."""
    out, at = [], 0
    while at < batch.count or not out:
        stop = min(batch.count, at + rng.choice([0, 1, 3, 10]))
        if stop == at and out and rng.random() < 0.5:
            continue
        cut = slice(at, stop)
        columns = [[c[cut] for c in columns] for columns in batch.columns]
        masks = [None if m is None else m[cut] for m in batch.masks]
        keys = None if batch.keys is None else [[c[cut] for c in columns] for columns in batch.keys]
        out.append(Batch(stop - at, columns, masks, keys))
        at = stop
    return out


@pytest.mark.seeded
@pytest.mark.parametrize("first", seeds(2))
def test_rows_may_come_in_parts_before_the_clock_moves(first: int) -> None:
    events = sum(agree_in_parts(seed, 25) for seed in range(first * 1000, first * 1000 + 30))
    assert HUNT or events > 300


@pytest.mark.seeded
@pytest.mark.long
@pytest.mark.parametrize("first", seeds(10, 50))
def test_rows_in_parts_at_length(first: int) -> None:
    for seed in range(first * 1000, first * 1000 + 300):
        agree_in_parts(seed, 60)


def test_marks_are_of_steps_that_say_times() -> None:
    p = pipeline(lambda x: x.at(lambda v: v, id="when").tumbling(10, lambda w: w, id="w"), x=int)
    engine = TimedEngine(p.graph)
    with pytest.raises(UsageError, match="no step 'w' that says what an event's time is: it has when"):
        engine.move({"w": 3})
    engine.take(Batch(1, [[[3]]]))
    assert engine.seen() == {"when": 3}
    assert [o.events() for o in engine.move({"when": 12})] == [[(0, 10, 3)]]
    with pytest.raises(LateError, match="9"):
        engine.take(Batch(1, [[[9]]]))


def plain(outputs: list[Any], key: Any) -> Any:
    """Events, and the keys that came with the data."""
    from pellucid.internal.data.columns import events_of

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
    assert HUNT or (put > 1000 and failed < 30)  # most runs say something


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
