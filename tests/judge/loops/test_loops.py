"""Every engine's loops against their meaning by hand: random events, orders, batches and restarts; and the judge
itself, which must find what is wrong with engines that are wrong on purpose.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

from pellucid import StepError, Stream, iterate, pipeline
from pellucid.internal.engine.timed import loops
from pellucid.internal.engine.timed.engine import TimedEngine
from tests.engine.timed.literal_engine import LiteralEngine
from tests.seeds import HUNT, seeds

# What a loop means, from docs/how-to-loops.md and nothing else: plain Python, which imports nothing that it judges.
#
# A body is a class with a method ``round``: the events that go in, in order, to those that go round and those that
# leave; None for the latter where the body returns one stream.  What it remembers is in its attributes.


pytestmark = pytest.mark.long


class TooLong(Exception):  # noqa: N818 - reads as what it is
    """More rounds than the limit."""


class Body(Protocol):
    """A body at work."""

    def round(self, events: list[Any]) -> tuple[list[Any], list[Any] | None]: ...


def loop(body: Body, events: list[Any], limit: int | None, rounds: int | None) -> list[Any]:
    """What leaves the loop that begins with these events."""
    left: list[Any] = []
    done, alone = 0, False
    while events:
        if done == rounds:
            return left + (events if alone else [])
        if done == limit:
            raise TooLong(events)
        again, out = body.round(events)
        done, alone = done + 1, out is None
        left += out or []
        if alone and rounds is None and Counter(again) == Counter(events):
            return left + again
        events = again
    return left


def by_time(
    make: Callable[[], Body],
    rows: Iterable[tuple[int, Any, Any]],
    limit: int | None = None,
    rounds: int | None = None,
) -> list[tuple[int, Any, Any]]:
    """A stream with times: rows (time, key, event), in any order, to rows in the order in which they leave."""
    bodies: dict[Any, Body] = {}
    found: dict[tuple[int, Any], list[Any]] = {}
    for time, key, event in rows:
        found.setdefault((time, key), []).append(event)
    out = []
    for time, key in sorted(found):
        body = bodies.setdefault(key, make())
        out += [(time, key, event) for event in loop(body, sorted(found[time, key]), limit, rounds)]
    return out


def by_push(
    make: Callable[[], Body], events: Iterable[Any], limit: int | None = None, rounds: int | None = None
) -> list[list[Any]]:
    """A stream without times and keys: push by push."""
    body = make()
    return [loop(body, [event], limit, rounds) for event in events]


# Loops to be judged: each as Pellucid builds it, and by hand from its meaning.

# ---------------------------------------------------------------- bodies over pairs of ints (node, value)

Pair = tuple[int, int]


def spread(x: Stream[Pair]) -> Any:
    """Monotone: the least value of each node goes to the next one, one greater; changes leave."""

    def hear(least: int, e: Pair) -> tuple[int, list[Pair]]:
        return (e[1], [e]) if e[1] < least else (least, [])

    new = x.key_by(lambda e: e[0]).task(hear, initial=99, to=Pair, id="hear")
    return new.map(lambda e: ((e[0] + 1) % 5, e[1] + 1)), new


class Spread:
    def __init__(self) -> None:
        self.least: dict[int, int] = {}

    def round(self, events: list[Pair]) -> tuple[list[Pair], list[Pair]]:
        new = []
        for node, value in events:
            if value < self.least.get(node, 99):
                self.least[node] = value
                new.append((node, value))
        return [((node + 1) % 5, value + 1) for node, value in new], new


def ordered(x: Stream[Pair]) -> Any:
    """Not monotone: what leaves depends on the order of all that ever went round."""
    return x.filter(lambda e: e[1] > 0).map(lambda e: (e[0], e[1] // 2)), x.cumulate(
        lambda h, e: (h[0] + 1, (h[1] * 31 + e[0] * 7 + e[1]) % 997), start=(0, 1)
    )


class Ordered:
    def __init__(self) -> None:
        self.seen, self.hash = 0, 1

    def round(self, events: list[Pair]) -> tuple[list[Pair], list[Pair]]:
        out = []
        for node, value in events:
            self.seen, self.hash = self.seen + 1, (self.hash * 31 + node * 7 + value) % 997
            out.append((self.seen, self.hash))
        return [(node, value // 2) for node, value in events if value > 0], out


def rest(x: Stream[Pair]) -> Any:
    """Until nothing changes: one stream."""
    return x.map(lambda e: (e[0], e[1] // 2 if e[1] > 3 else e[1]))


class Rest:
    def round(self, events: list[Pair]) -> tuple[list[Pair], None]:
        return [(node, value // 2 if value > 3 else value) for node, value in events], None


def swap(x: Stream[Pair]) -> Any:
    """It goes round for ever: for a bound."""
    return x.map(lambda e: (e[1], e[0] + 1))


class Swap:
    def round(self, events: list[Pair]) -> tuple[list[Pair], None]:
        return [(value, node + 1) for node, value in events], None


def sums(x: Stream[Pair]) -> Any:
    """Sums of a round."""

    def total(w: Stream[Pair]) -> Stream[Pair]:
        return w.cumulate(lambda t, e: (e[0] // 2, t[1] * 3 % 101 + e[1]), start=(0, 0))

    return x.key_by(lambda e: e[0] // 2).each_round(total)


class Sums:
    def round(self, events: list[Pair]) -> tuple[list[Pair], None]:
        out = []
        for key in sorted({node // 2 for node, _ in events}):
            t = 0
            for _, value in sorted(e for e in events if e[0] // 2 == key):
                t = t * 3 % 101 + value
            out.append((key, t))
        return out, None


def inner(x: Stream[Pair]) -> Any:
    """A loop in a loop: all of a round come to rest before the next one begins."""
    calm = iterate(x, rest)
    count = calm.cumulate(lambda n, e: (n[0] + 1, e[1]), start=(0, 0))
    return calm.filter(lambda e: e[0] > 0).map(lambda e: (e[0] - 1, e[1] + 4)), count


class Inner:
    def __init__(self) -> None:
        self.count = 0

    def round(self, events: list[Pair]) -> tuple[list[Pair], list[Pair]]:
        events = sorted(events)  # all of one time, in the one order
        while True:
            after = Rest().round(events)[0]
            if sorted(after) == sorted(events):
                break
            events = after
        out = []
        for _, value in after:
            self.count += 1
            out.append((self.count, value))
        return [(node - 1, value + 4) for node, value in after if node > 0], out


@dataclass(frozen=True)
class Case:
    """A loop twice."""

    build: Any
    make: Any
    said: dict[str, int] = field(default_factory=dict)


CASES = {
    "spread": Case(spread, Spread, {"limit": 200}),
    "ordered": Case(ordered, Ordered),
    "rest": Case(rest, Rest),
    "to a bound": Case(swap, Swap, {"rounds": 5}),
    "sums": Case(sums, Sums, {"rounds": 3}),
    "sums to rest": Case(sums, Sums, {"limit": 40}),
    "in a loop": Case(inner, Inner),
    "too long": Case(swap, Swap, {"limit": 6}),
}


Row = tuple[int, int, int]  # time, node, value
LATENESS = 6


def timed(case: Case, keyed: bool) -> Any:
    """The loop over rows with times; what comes out has its time by a window of one unit."""

    def build(x: Any) -> Any:
        events = x.at(lambda r: r[0], lateness=LATENESS)
        events = events.key_by(lambda r: r[1] % 3) if keyed else events
        return iterate(events.map(lambda r: (r[1], r[2])), case.build, id="loop", **case.said)

    return pipeline(build, x=Row)


def rows_of(rng: random.Random, count: int) -> list[Row]:
    """Rows that come within the lateness."""
    now, out = 0, []
    for _ in range(count):
        now += rng.choice([0, 0, 1, 2])
        out.append((now - rng.randint(0, LATENESS), rng.randrange(5), rng.randrange(20)))
    top = -99
    for i, row in enumerate(out):  # none is behind what is complete
        out[i] = (max(row[0], top - LATENESS), *row[1:])
        top = max(top, out[i][0])
    return out


def in_batches(p: Any, rows: list[Row], rng: random.Random, engine: Any) -> list[Pair] | str:
    """Batch by batch, the fast engine saved and loaded between them, as after a kill at a border."""
    run, out = engine(p.graph), []
    try:
        while rows:
            some, rows = rows[: (cut := rng.choice([1, 2, 5, 30]))], rows[cut:]
            out += run.push(some)
            if engine is TimedEngine and rng.random() < 0.5:
                other = engine(p.graph)
                other.load(run.save())
                run = other
        return out + run.finish()
    except StepError as error:
        return "too long" if "still go" in str(error) else str(error)


def judged(case: Case, seed: int, engine: Any = TimedEngine) -> int:
    """One case; how many events were compared."""
    rng = random.Random(seed)
    keyed = rng.random() < 0.5
    rows, p = rows_of(rng, 40), timed(case, keyed)
    try:
        told = by_time(case.make, [(t, n % 3 if keyed else 0, (n, v)) for t, n, v in rows], **_said(case))
        wanted: Any = [event for _, _, event in told]
    except TooLong:
        wanted = "too long"
    assert in_batches(p, rows, rng, engine) == wanted, (seed, keyed)
    if wanted != "too long":
        assert p(rng.sample(rows, len(rows))) == wanted  # whatever order they come in
    return len(wanted)


def _said(case: Case) -> dict[str, int]:
    return case.said if case.said else {"limit": 10_000}


@pytest.mark.seeded
@pytest.mark.parametrize("first", seeds(1, 20))
@pytest.mark.parametrize("name", CASES)
def test_loops_with_times(name: str, first: int) -> None:
    for seed in range(first * 1000, first * 1000 + 4):
        events = judged(CASES[name], seed)
        assert HUNT or events > 0
    judged(CASES[name], first, LiteralEngine)


@pytest.mark.seeded
@pytest.mark.parametrize("first", seeds(1, 20))
@pytest.mark.parametrize("name", CASES)
def test_loops_push_by_push(name: str, first: int) -> None:
    rng, case = random.Random(first), CASES[name]
    events = [(rng.randrange(5), rng.randrange(20)) for _ in range(25)]
    p = pipeline(lambda x: iterate(x, case.build, **case.said), x=Pair)
    try:
        wanted = by_push(case.make, events, **_said(case))
    except TooLong:
        with pytest.raises(StepError, match="after 6 rounds 1 event still goes round"):
            p(events)
        return
    assert p.trace(events) == [*wanted, []]
    assert p(events) == [e for out in wanted for e in out]


def test_what_is_monotone_comes_to_the_same_end_in_any_order() -> None:
    """Without times, where the order of pushes is the user's: the last word of each node."""
    rng, p = random.Random(5), pipeline(lambda x: iterate(x, CASES["spread"].build), x=Pair)
    events = [(rng.randrange(5), rng.randrange(20)) for _ in range(30)]
    ends = {tuple(sorted(dict(p(rng.sample(events, len(events)))).items())) for _ in range(10)}
    assert len(ends) == 1


# ---------------------------------------------------------------- engines that are wrong on purpose


def stops_early(self: Any, took: Any, puts: Any) -> Any:
    """A loop of one stream that is over a round early: when as many events come as went in."""
    import numpy as np

    return np.full(len(puts), len(took) == len(puts))


def forgets(round: Any) -> Any:
    def wrong(self: Any, events: Any) -> Any:
        again, out = round(self, events)
        return again.at(slice(0, -1)) if len(again) > 2 else again, out

    return wrong


def ends_early(round: Any) -> Any:
    """What would go round for the fourth time is dropped."""

    def wrong(self: Any, events: Any) -> Any:
        again, out = round(self, events)
        self.gone = getattr(self, "gone", 0) + 1
        return again if self.gone % 4 else again.at(slice(0, 0)), out

    return wrong


def leaks(round: Any) -> Any:
    """Some of what goes round waits until the next time: beyond a border, if there is one in between."""

    def wrong(self: Any, events: Any) -> Any:
        held = getattr(self, "held", None)
        again, out = round(self, events if held is None else type(events).behind([held, events]))
        self.held = again.at(slice(-1, None)) if len(again) > 1 else None
        return again.at(slice(0, -1)) if len(again) > 1 else again, out

    return wrong


def unordered(canonical: Any) -> Any:
    """Events of one time as they came."""

    def wrong(front: Any, *more: Any) -> Any:
        import numpy as np

        return np.argsort(front[0], kind="stable")

    return wrong


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "stops a round early": (loops.LoopStep, "_settled", lambda _: stops_early),
    "drops a round": (loops.Body, "round", ends_early),
    "forgets an event": (loops.Body, "round", forgets),
    "leaks a round across a border": (loops.Body, "round", leaks),
    "takes events as they came": (loops, "canonical", unordered),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_judge_finds_what_is_wrong(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, what, wrong = MUTANTS[name]
    monkeypatch.setattr(place, what, wrong(getattr(place, what)))
    found = 0
    for case in CASES.values():
        try:
            judged(case, 1)
        except (AssertionError, StepError):
            found += 1
    assert found
