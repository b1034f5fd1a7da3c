"""Loops over columns are the loops of the literal engine, batch by batch, whatever is saved and loaded in between."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pellucid import LateError, PipelineError, StepError, iterate, pipeline
from pellucid.errors import PellucidError
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.expr.types import INT, STR
from tests.engine.timed.drawn import batches, drawn_loop
from tests.engine.timed.literal_engine import LiteralEngine
from tests.engine.timed.test_columns import parts, plain
from tests.seeds import HUNT, seeds


def agree(seed: int, count: int, mode: str = "auto") -> tuple[int, bool]:
    """One run of both engines; how many events came out, and whether it ended with an error."""
    rng = random.Random(seed)
    key = STR if rng.random() < 0.3 else None
    p = drawn_loop(rng)
    if key is not None and p.graph["loop"].sub.name == "divides":  # which key fails first is nobody's promise
        key = None
    literal, fast = LiteralEngine(p.graph, key=key), TimedEngine(p.graph, key=key, mode=mode)
    events = 0
    for batch in [*batches(rng, p.graph, key, count), None]:
        if rng.random() < 0.5:
            other = TimedEngine(p.graph, key=key, mode=mode)
            other.load(fast.save())
            fast = other
        fast._enough_texts = rng.choice([-1, 1 << 20])  # texts that nobody mentions are forgotten now and then
        found: list[Any] = []
        try:
            out = literal.finish_batch() if batch is None else literal.push_batch(batch)
            events += sum(map(len, out))
            found.append(plain(out, key))
        except PellucidError as error:
            found.append(f"{type(error).__name__}: {error}")
        try:
            if batch is None or rng.random() < 0.5:
                found.append(plain(fast.finish_batch() if batch is None else fast.push_batch(batch), key))
            else:
                some = [plain(fast.take(part), key) for part in parts(rng, batch)]
                some.append(plain(fast.move(), key))
                found.append(
                    [
                        (
                            name,
                            [e for out in some for e in out[i][1]],
                            None if key is None else [k for out in some for k in out[i][2]],
                        )
                        for i, (name, _, _) in enumerate(some[0])
                    ]
                )
        except PellucidError as error:
            found.append(f"{type(error).__name__}: {error}")
        if isinstance(found[0], str) and isinstance(found[1], str):
            return events, True  # which error comes first may differ where a batch comes in parts
        assert found[0] == found[1], f"seed {seed}: {p.graph}"
        assert literal.late == fast.late
    return events, False


@pytest.mark.seeded
@pytest.mark.parametrize("first", seeds(2))
def test_the_same_as_the_literal_engine(first: int) -> None:
    found = [agree(seed, 25) for seed in range(first * 1000, first * 1000 + 20)]
    assert HUNT or sum(events for events, _ in found) > 100  # of 20 random pipelines


@pytest.mark.seeded
@pytest.mark.long
@pytest.mark.parametrize("first", seeds(10, 50))
def test_the_same_at_length(first: int) -> None:
    for seed in range(first * 1000, first * 1000 + 300):
        agree(seed, 60)


@pytest.mark.long
def test_the_same_compiled() -> None:
    body = lambda x: (x.filter(lambda v: v > 1).map(lambda v: v // 2), x.cumulate(lambda t, v: t + v, start=0))
    p = pipeline(lambda x: iterate(x.at(lambda v: v // 100), body), x=int)
    rng = random.Random(3)
    rows = [rng.randrange(5000) for _ in range(300)]
    assert TimedEngine(p.graph, mode="numba").why_plain is None
    fast, literal = TimedEngine(p.graph, mode="numba"), LiteralEngine(p.graph)
    assert [fast.push(rows), fast.finish()] == [literal.push(rows), literal.finish()]


def test_all_of_one_time_go_round_together_in_one_order() -> None:
    rounds = []

    def body(x: Any) -> Any:
        count = x.each_round(lambda w: w.cumulate(lambda n, v: n + 1, start=0))
        return x.filter(lambda v: v % 10 > 0).map(lambda v: v - 1), count

    p = pipeline(lambda x: iterate(x.at(lambda v: v // 10, lateness=5), body), x=int)
    for order in ([12, 11, 25, 13], [25, 13, 12, 11]):
        rounds.append(p(order))
    assert rounds[0] == rounds[1] == [3, 3, 2, 1, 1, 1, 1, 1, 1, 1]


def test_what_the_body_remembers_lasts() -> None:
    def body(x: Any) -> Any:
        new = x.key_by(lambda v: v).cumulate(lambda n, v: n + 1, start=0)
        return x.filter(lambda v: v > 5).map(lambda v: v - 5), new

    p = pipeline(lambda x: iterate(x, body), x=int)
    assert p.trace([7, 7, 2]) == [[1, 1], [2, 2], [3], []]


def test_a_loop_for_each_key() -> None:
    def body(x: Any) -> Any:
        return x.filter(lambda v: v > 9).map(lambda v: v // 10), x.cumulate(lambda n, v: n + 1, start=0)

    p = pipeline(lambda x: iterate(x.key_by(lambda v: v % 2), body), x=int)
    assert p([100, 31, 5]) == [1, 2, 3, 1, 2, 3]
    engine = pipeline(lambda x: iterate(x, body), x=int).engine(key=int)
    assert engine.push([10, 10, 1], key=[1, 2, 1]) == [1, 2, 1, 2, 3]
    assert TimedEngine(p.graph, key=INT).push([100, 31], key=[7, 7]) == [1, 2, 3, 1, 2]


def test_late_events() -> None:
    p = pipeline(lambda x: iterate(x.at(lambda v: v), lambda v: v, id="rest"), x=int)
    with pytest.raises(LateError, match=r"step 'rest' .*on the event 1: its time is 1, and the clock is at 5"):
        p.trace([5, 1])

    def both(x: Any) -> Any:
        w = iterate(x.at(lambda v: v), lambda v: v)
        return w, w.late

    assert pipeline(both, x=int).trace([5, 1])[1]["out2"] == [(1, 1, 5, None, None)]
    dropped = pipeline(lambda x: iterate(x.at(lambda v: v), lambda v: v, late="drop"), x=int)
    assert dropped.trace([5, 1, 6]) == [[], [], [5], [6]]
    with pytest.raises(PipelineError, match="have no times, so none comes too late"):
        pipeline(lambda x: iterate(x, lambda v: v).late, x=int)


@pytest.mark.parametrize("engine", [LiteralEngine, TimedEngine])
def test_what_never_ends(engine: Any) -> None:
    p = pipeline(lambda x: iterate(x, lambda v: v.map(lambda n: -n), limit=100, id="turn"), x=int)
    text = (
        r"step 'turn' \(iterate, .*\) failed at push 1 on its events: after 100 rounds 1 event still goes round: 3; "
        r"have the body emit only what changes, allow more with limit=, or say rounds=100 to stop there"
    )
    with pytest.raises(StepError, match=text):
        engine(p.graph).push([0, 3])
    p = pipeline(lambda x: iterate(x.at(lambda v: v // 10), lambda v: v.explode(lambda n: [n, -n]), limit=3), x=int)
    run = engine(p.graph)
    run.push([11])
    with pytest.raises(StepError, match=r"at time 1: after 3 rounds 8 events still go round: 11, -11, -11, …; have"):
        run.finish()


@pytest.mark.parametrize("engine", [LiteralEngine, TimedEngine])
def test_a_body_that_fails(engine: Any) -> None:
    p = pipeline(lambda x: iterate(x, lambda v: v.map(lambda n: 12 // (n - 3), id="part"), id="loop"), x=int)
    text = r"step 'loop' .*failed at push 0 on its events in round 2: step 'part' .*failed on the event 3: ZeroDivision"
    with pytest.raises(StepError, match=text):
        engine(p.graph).push([7])  # 7 gives 3
