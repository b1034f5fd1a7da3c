"""Tasks with ``on_time`` against what docs/how-to-time.md says of them: plain Python, and the public face alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from pellucid import Stream, merge, pipeline


class Event(NamedTuple):
    t: int
    k: int
    v: int


class State(NamedTuple):
    left: int  # how often a time may still ask for another
    sum: int


class Told(NamedTuple):
    t: int
    sum: int
    who: int


def functions(r: random.Random) -> tuple[Callable[..., Any], Callable[..., Any]]:
    a, b, c, m = r.randint(0, 4), r.randint(0, 4), r.randint(0, 4), r.randint(2, 4)
    near, far, again, twice = r.randint(0, 3), r.randint(0, 4), r.randint(1, 3), r.randint(1, 4)

    def f(s, e):  # type: ignore[no-untyped-def]
        now = State(min(s.left + 1, 3), (s.sum * a + e.v + b) % 7)
        asked = [e.t + near, e.t + near, e.t + far] if e.v % 2 == 0 else [e.t + far]
        return now, [Told(e.t, now.sum, 0)] if (s.sum + e.v) % m != 1 else [], asked

    def g(s, t):  # type: ignore[no-untyped-def]
        now = State(max(s.left - 1, 0), (s.sum * 2 + c + t) % 7)
        told = [Told(t, s.sum, 1), Told(t, now.sum, 2)] if (s.sum + t) % m != 0 else []
        return now, told, [t + again, t + twice] if s.left > 0 else []

    return f, g


class Meaning:
    """Events by (time, key, event), behind those of a time the time itself, once: each when the clock is beyond it."""

    def __init__(self, f: Callable[..., Any], g: Callable[..., Any], key: Callable[[Event], int]) -> None:
        self.f, self.g, self.key = f, g, key
        self.states: dict[int, State] = {}
        self.events: list[Event] = []
        self.asked: set[tuple[int, int]] = set()

    def move(self, clock: float) -> list[Told]:
        out: list[Told] = []
        while True:
            ready: list[Any] = [(e.t, self.key(e), 0, e) for e in self.events if e.t < clock]
            ready += [(t, k, 1, ()) for t, k in self.asked if t < clock]
            if not ready:
                return out
            t, k, timer, e = min(ready)
            state = self.states.get(k, State(0, 0))
            if timer:
                self.asked.remove((t, k))
                self.states[k], told, times = self.g(state, t)
            else:
                self.events.remove(e)
                self.states[k], told, times = self.f(state, e)
            self.asked |= {(x, k) for x in times}
            out += told


@pytest.mark.parametrize("seed", range(12))
def test_timers(seed: int) -> None:
    r = random.Random(seed)
    f, g = functions(r)
    keyed, lateness = r.random() < 0.6, {"x": r.randint(0, 3), "y": r.randint(0, 3)}

    @pipeline
    def timers(x: Stream[Event], y: Stream[Event]):  # type: ignore[no-untyped-def]
        both = merge(x.at("t", lateness=lateness["x"]), y.at("t", lateness=lateness["y"]))
        w = (both.key_by(lambda e: e.k) if keyed else both).task(f, State(0, 0), on_time=g)
        return {"out": w, "late": w.late}

    key = (lambda e: e.k) if keyed else (lambda e: 0)
    meaning, accepted = Meaning(f, g, key), []
    top: dict[str, float] = {"x": float("-inf"), "y": float("-inf")}
    clock, streamed, late = float("-inf"), 0, 0
    engine = timers.engine(mode="python")
    events = [Event(r.randint(-3, 9), r.randrange(3), r.randrange(4)) for _ in range(10)]
    events = sorted([*events, *r.choices(events, k=3)], key=lambda e: e.t + r.randint(0, 3))
    while events:
        rows: dict[str, list[Event]] = {"x": [], "y": []}
        for e in (taken := events[: r.randint(1, 4)]):
            rows[r.choice("xy")].append(e)
        events = events[len(taken) :]
        if r.random() < 0.3:
            saved = engine.save()
            engine = timers.engine(mode="python")
            engine.load(saved)
        got = engine.push(**rows)
        missed = [e for e in [*rows["x"], *rows["y"]] if e.t < clock]
        meaning.events += (taken_in := [e for e in [*rows["x"], *rows["y"]] if e.t >= clock])
        accepted += taken_in
        for source, some in rows.items():
            top[source] = max([top[source], *(e.t for e in some)])
        clock = max(clock, min(top[s] - lateness[s] for s in top))
        told = meaning.move(clock)
        assert got["out"] == told
        assert sorted(x.value for x in got["late"]) == sorted(missed)
        streamed, late = streamed + len(told), late + len(missed)
    assert engine.finish()["out"] == (rest := meaning.move(float("inf")))
    assert sum(engine.late.values()) == late
    whole = Meaning(f, g, key)
    whole.events = list(accepted)
    r.shuffle(accepted)
    batch = timers(accepted[::2], accepted[1::2])["out"]
    assert batch == whole.move(float("inf"))
    assert len(batch) == streamed + len(rest)
