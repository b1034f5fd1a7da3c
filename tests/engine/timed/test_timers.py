"""A task that is told of times: in which order, how often, and what is said when it asks for what cannot be."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from itertools import permutations
from typing import Any, NamedTuple

import pytest

from pellucid import Stream, pipeline
from pellucid.errors import LateError, StepError
from pellucid.internal.engine.timed import clock as words
from pellucid.internal.engine.timed import literal
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.expr.types import INT, STR
from tests.engine.timed.literal_engine import LiteralEngine
from tests.seeds import seeds

ENGINES = [
    pytest.param(lambda graph, **more: LiteralEngine(graph, **more), id="literal"),
    pytest.param(lambda graph, **more: TimedEngine(graph, mode="python", **more), id="plain"),
    pytest.param(lambda graph, **more: TimedEngine(graph, mode="numba", **more), id="compiled"),
]


def heard(s: int, v: int) -> tuple[int, list[tuple[str, int, int]], list[int]]:
    return s * 10 + v % 10, [("heard", v, s)], [v, v + 3, v + 3]


def told(s: int, t: int) -> tuple[int, list[tuple[str, int, int]], list[int]]:
    return s, [("told", t, s)], []


def both(x: Stream[int]) -> Any:
    return x.at(lambda v: v, lateness=2).task(heard, 0, on_time=told, id="t")


@pytest.mark.parametrize("engine", ENGINES)
def test_events_and_times_come_in_the_order_of_time(engine: Any) -> None:
    e = engine(pipeline(both, x=int).graph)
    assert e.push([3, 1, 3]) == []  # the clock is at 1: another event of 1 may still come
    assert e.push([4]) == [("heard", 1, 0), ("told", 1, 1)]
    assert e.push([9]) == [
        ("heard", 3, 1),
        ("heard", 3, 13),
        ("told", 3, 133),  # once, behind all events of 3
        ("heard", 4, 133),
        ("told", 4, 1334),  # asked for by the events of 1 and of 4
        ("told", 6, 1334),
    ]
    assert e.finish() == [("told", 7, 1334), ("heard", 9, 1334), ("told", 9, 13349), ("told", 12, 13349)]


def test_every_order_of_arrival_is_one() -> None:
    p = pipeline(lambda x: x.at(lambda v: v, lateness=9).task(heard, 0, on_time=told), x=int)
    want = p([1, 3, 4, 9])
    for order in permutations([1, 3, 4, 9]):
        engine = p.engine()
        assert [*engine.push(list(order[:2])), *engine.push(list(order[2:])), *engine.finish()] == want


class Reading(NamedTuple):
    t: int
    sensor: str
    n: int


class Visit(NamedTuple):
    sensor: str
    start: int
    end: int
    total: int


class Open(NamedTuple):
    start: int
    last: int
    total: int
    is_open: bool


NONE = Open(0, 0, 0, False)


def by_timers(x: Stream[Reading], gap: int, lateness: int) -> Any:
    """Sessions by hand: at each event ask for the time at which nothing more belongs to it."""

    def came(s: Open, r: Reading) -> tuple[Open, list[Visit], list[int]]:
        return Open(s.start if s.is_open else r.t, r.t, s.total * 3 % 1009 + r.n, True), [], [r.t + gap]

    def over(s: Open, t: int) -> tuple[Open, list[Visit], list[int]]:
        return (NONE, [Visit("", s.start, t + 1, s.total)], []) if t == s.last + gap else (s, [], [])

    return x.at("t", lateness=lateness).key_by(lambda r: r.sensor).task(came, NONE, on_time=over)


def by_session(x: Stream[Reading], gap: int, lateness: int) -> Any:
    timed = x.at("t", lateness=lateness).key_by(lambda r: r.sensor)
    sessions = timed.session(gap, lambda w: w.cumulate(lambda s, r: s * 3 % 1009 + r.n, start=0))
    return sessions.map(lambda w: Visit("", w.start, w.end, w.value))


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(6))
def test_a_session_by_timers_is_a_session(seed: int) -> None:
    rng = random.Random(seed)
    gap, lateness = rng.choice([1, 3, 8]), 12
    now, rows = 0, []
    for _ in range(200):
        now += rng.choice([0, 0, 1, 1, 2, 15])
        rows.append(Reading(now - rng.randint(0, lateness // 2), rng.choice("abc"), rng.randint(0, 9)))
    p, q = (pipeline(lambda x, build=build: build(x, gap, lateness), x=Reading) for build in (by_timers, by_session))
    assert p(rows) == q(rows) and len(p(rows)) > 20
    a, b = p.engine(), q.engine()
    at = 0
    while at < len(rows):  # batch by batch they come at the same move of the clock
        until = at + rng.randint(1, 20)
        assert a.push(rows[at:until]) == b.push(rows[at:until])
        at = until
    assert a.finish() == b.finish()


@pytest.mark.parametrize("engine", ENGINES)
def test_keys_are_apart_and_a_key_comes_with_the_data(engine: Any) -> None:
    p = pipeline(
        lambda x: x.at(lambda v: v).task(
            lambda s, v: (s + 1, [], [v + 2]), 0, on_time=lambda s, t: (0, [s * 100 + t], [])
        ),
        x=int,
    )
    e = engine(p.graph, key=STR)
    assert e.push([1, 1, 2, 9], key=["a", "b", "a", "a"]) == [203, 103, 4]
    assert e.finish() == [111]


def test_what_is_put_out_has_times() -> None:
    p = pipeline(
        lambda x: (
            x.at(lambda v: v, lateness=3)
            .task(lambda s, v: (s, [v], [v + 7]), 0, on_time=lambda s, t: (s, [-t], []))
            .tumbling(10, lambda w: w.cumulate(lambda s, v: s + v, start=0))
        ),
        x=int,
    )
    assert [(w.start, w.value) for w in p([1, 5, 8])] == [(0, 14 - 8), (10, -27)]
    engine = p.engine()
    assert engine.push([1, 5, 8]) == [] and [tuple(w) for w in engine.push([15])] == [(0, 10, 6)]


@pytest.mark.parametrize("engine", ENGINES)
def test_late_events(engine: Any) -> None:
    def taken(x: Stream[int]) -> Any:
        w = both(x)
        return {"out": w, "late": w.late}

    e = engine(pipeline(taken, x=int).graph)
    e.push([10])
    assert e.push([7])["late"] == [(7, 7, 8, None, None)] and e.late == {"t": 1}
    e = engine(pipeline(both, x=int).graph)
    e.push([10])
    with pytest.raises(LateError, match=r"step 't' \(timers heard, .*the clock is at 8: it is 1 late"):
        e.push([7])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_time_that_is_over_is_refused(engine: Any) -> None:
    p = pipeline(
        lambda x: (
            x.at(lambda v: v)
            .key_by(lambda v: v % 2)
            .task(lambda s, v: (s, [v], [v - 1]), 0, on_time=lambda s, t: (s, [t], []), id="early")
        ),
        x=int,
    )
    e = engine(p.graph, key=INT)
    with pytest.raises(StepError) as caught:
        e.push([3, 5], key=[7, 7])
    assert str(caught.value).split("failed at ")[1] == (
        "push 1 for the key 7, 1, on an event of 3: it asks to be notified of 2, which is over: expected the time of "
        "its event, or a later one"
    )
    p = pipeline(
        lambda x: x.at(lambda v: v).task(lambda s, v: (s, [v], [v]), 0, on_time=lambda s, t: (s, [t], [t])), x=int
    )
    e = engine(p.graph)
    with pytest.raises(StepError) as caught:
        e.push([3, 5])
    assert str(caught.value).split("failed at ")[1] == (
        "push 1 notified of 3: it asks to be notified of 3, which is over: expected a time after the one that it is "
        "notified of"
    )


def test_a_task_that_asks_for_ever_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of the input all times are complete."""
    from pellucid.internal.engine.kernel.emit import steps as timers

    for module in (literal, words, timers):
        monkeypatch.setattr(module, "MOST_ALONE", 500)
    p = pipeline(
        lambda x: (
            x.at(lambda v: v)
            .key_by(lambda v: "k")
            .task(lambda s, v: (s, [v], [v + 1]), 0, on_time=lambda s, t: (s, [t], [t + 1]), id="on")
        ),
        x=int,
    )
    said = []
    for made in (LiteralEngine, TimedEngine):
        e = made(p.graph)
        assert e.push([1, 490]) == [1, *range(2, 490)]
        with pytest.raises(StepError, match="asked for one more time each time; at the end of the input") as caught:
            e.finish()
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert (
        "for the key 'k', notified of 990: on_time was called 500 times in a row, without an event between" in said[0]
    )


def test_many_times_of_one_push_are_told_compiled() -> None:
    """More than there is room for at first, with an event only now and then."""
    p = pipeline(
        lambda x: x.at(lambda v: v).task(
            lambda s, v: (5000, [], [v]), 0, on_time=lambda s, t: (s - 1, [s, t], [t + 1] if s > 1 else [])
        ),
        x=int,
    )
    engine = TimedEngine(p.graph, mode="numba")
    assert engine.push([0, 10_000]) == [n for t in range(5000) for n in (5000 - t, t)]
    again = TimedEngine(p.graph, mode="python")
    again.load(engine.save())
    assert len(again.finish()) == len(engine.finish()) == 10_000


def test_what_is_kept_is_saved() -> None:
    p = pipeline(lambda x: by_timers(x, 5, 3), x=Reading)
    rng = random.Random(4)
    rows = [Reading(i - rng.randint(0, 3), rng.choice("ab"), i) for i in range(0, 400, 3)]
    want, found, engine = p(rows), [], p.engine()
    for i in range(0, len(rows), 7):
        found += engine.push(rows[i : i + 7])
        other = p.engine()
        other.load(engine.save())
        engine = other
    assert Counter(found + engine.finish()) == Counter(want) and want


@pytest.mark.parametrize("mode", ["python", "numba"])
def test_keys_that_are_as_new_are_given_up(mode: str) -> None:
    """A key whose state is the initial one, and that waits for nothing; one that has something to remember stays."""
    p = pipeline(
        lambda x: (
            x.at(lambda v: v)
            .key_by(lambda v: str(v // 2))
            .task(lambda s, v: (s + 0.5, [], [v + 9]), -0.0, on_time=lambda s, t: (-0.0 if t % 20 else 0.0, [s], []))
        ),
        x=int,
    )
    engine = TimedEngine(p.graph, mode=mode)
    found = [v for first in range(0, 60_000, 1000) for v in engine.push(list(range(first, first + 1000)))]
    assert len([*found, *engine.finish()]) == 60_000
    (stage,) = [s for s in engine.stages if getattr(s, "engine", None) is not None and not hasattr(s, "segment")]
    state = stage.engine.state
    held = int(state.meta[state.region_at(0)])
    assert 3000 < held < 12_000 and len(state.texts()) < 12_000 + 60_000
    again = TimedEngine(p.graph, mode=mode)
    again.load(engine.save())


def test_datetimes_and_errors_name_both_functions() -> None:
    class Ping(NamedTuple):
        when: datetime
        n: int

    hour = timedelta(hours=1)
    noon = datetime(2024, 5, 1, 12)

    def came(s: int, e: Ping) -> tuple[int, list[float], list[datetime]]:
        return e.n, [1.0], [e.when + hour]

    def gone(s: int, t: datetime) -> tuple[int, list[float], list[datetime]]:
        return s, [t.hour / s], []

    p = pipeline(lambda x: x.at("when").task(came, 0, on_time=gone, id="pings"), x=Ping)
    assert p([Ping(noon, 2)]) == [1.0, 6.5]
    for engine in (LiteralEngine(p.graph), TimedEngine(p.graph, mode="python"), TimedEngine(p.graph, mode="numba")):
        engine.push([Ping(noon, 0)])
        with pytest.raises(StepError, match=r"step 'pings' \(timers came, .*\n.*in gone: return s, \[t.hour / s\]"):
            engine.finish()


def test_functions_that_are_not_traced_run() -> None:
    def seen(s: list[int], v: int) -> tuple[list[int], list[str], list[int]]:
        s.append(v)
        return s, [], list(range(v + 1, v + 1 + len(s)))

    def told(s: list[int], t: int) -> tuple[list[int], list[str], list[int]]:
        return [], ["+".join(map(str, s)) + f" by {t}"], []

    p = pipeline(lambda x: x.at(lambda v: v).task(seen, [], on_time=told, id="seen"), x=int)
    engine = p.engine()
    assert "step 'seen' (timers seen" in str(engine.why_plain)
    assert engine.push([1, 5]) == ["1 by 2"]
    other = p.engine()
    other.load(engine.save())
    assert other.push([6, 9]) == ["5+6 by 6", " by 7", " by 8"] and other.finish() == ["9 by 10"]


def test_wrong_results_are_told_at_their_event() -> None:
    def bad(s: Any, v: int) -> Any:
        return (s, [v]) if v > 100 else (s, [v], [datetime(2024, 1, 1) if v > 10 else v])

    p = pipeline(lambda x: x.at(lambda v: v).task(bad, {}, on_time=bad, to=int, id="bad"), x=int)
    with pytest.raises(StepError, match="a time to be called at: expected int, found datetime"):
        p([11])
    with pytest.raises(StepError, match=r"must return three things, \(state, .*found a tuple of 2"):
        p([101])
