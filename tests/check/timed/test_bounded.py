"""A bound is no proof: what differs only beyond it is never *proved*, and what no run within it reaches is said."""

from __future__ import annotations

import enum
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest

from pellucid import Stream, as_of, check, join, pipeline

TEN = timedelta(minutes=10)


class Payment(NamedTuple):
    ts: datetime
    card: str
    cents: int = 0


class Sale(NamedTuple):
    t: int
    cents: int


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def count(w: Stream[Any]) -> Stream[int]:
    return w.cumulate(lambda n, v: n + 1, start=0)


def total(w: Stream[Sale]) -> Stream[int]:
    return w.cumulate(lambda s, v: s + v.cents, start=0)


def timed(build: Any, lateness: int = 0, of: Any = int, at: Any = lambda v: v) -> Any:
    return pipeline(lambda x: build(x.at(at, lateness=lateness)), x=of)


def counts(keep: Any) -> Any:
    return timed(lambda x: x.tumbling(10, count, late="drop").filter(keep))


def alerts(least: int) -> Any:
    return pipeline(
        lambda x: x.at("ts", lateness=TEN).key_by("card").tumbling(TEN, count).filter(lambda w: w.value > least),
        x=Payment,
    )


def values(w: Any) -> Any:
    return w.map(lambda a: a.value)


def two(build: Any) -> Any:
    return pipeline(lambda x, y: build(x.at(lambda v: v), y.at(lambda v: v)), x=int, y=int)


def told(after: int) -> Any:
    def heard(n: int, v: int) -> tuple[int, list[int], list[int]]:
        return n + 1, [], [v + 1]

    def due(n: int, t: int) -> tuple[int, list[int], list[int]]:
        return n, [n] if n > after else [], []

    return timed(lambda x: x.task(heard, 0, on_time=due, late="drop"))


MINUTES = [Payment(datetime(2026, 1, 1, 0, m), "a") for m in (0, 3, 6, 9)]
#: Two pipelines, what is asked of too little, and what of enough for their difference.
PAIRS: dict[str, tuple[Any, Any, dict[str, Any], dict[str, Any]]] = {
    "another threshold": (alerts(3), alerts(5), {"events": MINUTES}, {"events": MINUTES[:1], "pushes": 4}),
    "a count that is capped": (
        timed(lambda x: x.tumbling(10, lambda w: count(w).map(lambda n: min(n, 3)), late="drop")),
        timed(lambda x: x.tumbling(10, count, late="drop")), {"times": [0, 10]}, {"times": [0], "pushes": 4},
    ),
    "another size of windows": (
        timed(lambda x: values(x.tumbling(10, count, late="drop"))),
        timed(lambda x: values(x.tumbling(20, count, late="drop"))), {"events": [0, 5]}, {"events": [0, 15]},
    ),
    "every fifth, every sixth": (
        timed(lambda x: x.decimate(4)), timed(lambda x: x.decimate(5)), {"times": [0]}, {"times": [0], "pushes": 5},
    ),
    "without three, without four": (
        timed(lambda x: x.trim(3)), timed(lambda x: x.trim(4)), {"times": [0, 1]}, {"times": [0], "pushes": 4},
    ),
    "events that are late for one": (
        timed(lambda x: x.tumbling(5, count, late="drop"), 10), timed(lambda x: x.tumbling(5, count, late="drop"), 12),
        {"events": [0, 10]}, {"events": [0, 16]},
    ),
    "another gap of sessions": (
        timed(lambda x: values(x.session(5, count, late="drop"))),
        timed(lambda x: values(x.session(7, count, late="drop"))), {"events": [0, 4]}, {"events": [0, 6]},
    ),
    "doubles for longer": (
        timed(lambda x: x.dedup(by=lambda v: 0, within=5, late="drop")),
        timed(lambda x: x.dedup(by=lambda v: 0, within=8, late="drop")), {"events": [0, 3]}, {"events": [0, 7]},
    ),
    "a wider join": (
        two(lambda a, b: join(a, b, within=5)), two(lambda a, b: join(a, b, within=9)),
        {"events": {"x": [0], "y": [0, 3]}}, {"events": {"x": [0], "y": [7]}},
    ),
    "an older partner": (
        two(lambda a, b: as_of(a, b, within=5)), two(lambda a, b: as_of(a, b, within=9)),
        {"events": {"x": [3], "y": [0, 3]}}, {"events": {"x": [7], "y": [0]}},
    ),
    "a sum over a hundred": (
        timed(lambda x: x.tumbling(10, total, late="drop").filter(lambda w: w.value > 100), of=Sale, at="t"),
        timed(lambda x: x.tumbling(10, total, late="drop").filter(lambda w: w.value > 150), of=Sale, at="t"),
        {"times": [0]}, {"times": [0], "ints": [120]},
    ),
    "a sum of what was said": (
        timed(lambda x: x.tumbling(10, total, late="drop").filter(lambda w: w.value > 100), of=Sale, at="t"),
        timed(lambda x: x.tumbling(10, total, late="drop").filter(lambda w: w.value > 150), of=Sale, at="t"),
        {"times": [0], "ints": [30]}, {"times": [0], "ints": [30], "pushes": 4},
    ),
    "a name that nobody picked": (
        pipeline(lambda x: x.at("ts").filter(lambda p: p.card != "gold"), x=Payment),
        pipeline(lambda x: x.at("ts").filter(lambda p: p.card != "silver"), x=Payment),
        {}, {"events": [Payment(datetime(2026, 1, 1), "gold")]},
    ),
    "a task that is told of times": (told(3), told(4), {"times": [0]}, {"times": [0], "pushes": 4}),
    "more at one time": (
        timed(lambda x: x.tumbling(2, lambda w: count(w).map(lambda n: min(n, 3)), late="drop")),
        timed(lambda x: x.tumbling(2, count, late="drop")), {"pushes": None, "times": range(-2, 4)},
        {"pushes": None, "times": range(-2, 4), "rate": 2},
    ),
    "times between the times": (
        timed(lambda x: x.tumbling(10, count, late="drop"), 0), timed(lambda x: x.tumbling(10, count, late="drop"), 1),
        {"pushes": None, "times": [15], "rate": 1}, {"pushes": None, "times": range(-2, 12), "rate": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("pair", list(PAIRS))
@pytest.mark.parametrize("how", ["step", "sequence"])
def test_what_differs_beyond_the_bound_is_not_proved(pair: str, how: str) -> None:
    a, b, little, enough = PAIRS[pair]
    if how == "sequence" and (little.get("pushes", 0) is None or pair == "events that are late for one"):
        return  # runs of any length are asked step by step; both of the late ones have all events in the end
    found = check.equivalent(a, b, how=how, **little)
    assert found.bounded and not found and found.bound in str(found).splitlines()[0], found
    assert check.equivalent(a, b, how=how, **enough).refuted


def _counts(least: int) -> Any:
    return pipeline(lambda x: x.cumulate(lambda n, v: n + 1, start=0).filter(lambda n: n > least), x=int)


def _called(limit: int) -> Any:
    return pipeline(lambda x: x.map(lambda v: hash(v) if v < limit else 0, to=int), x=int)


#: Without times: what differs only after many events, for the 65th key, or at a value that nobody tries.
BEYOND: dict[str, Any] = {
    "the 101st event": lambda: check.equivalent(_counts(100), _counts(200)),
    "the 65th of a key": lambda: check.holds(
        pipeline(lambda x: x.key_by(lambda v: v).cumulate(lambda n, v: n + 1, start=0), x=int),
        "G (out -> out.value < 65)", timeout=3,
    ),
    "the 65th key": lambda: check.holds(
        pipeline(lambda x: x.key_by(lambda v: v).trim(1).filter(lambda v: v == 64), x=int), "G !out"
    ),
    "a moment": lambda: check.holds(
        pipeline(lambda t: t.filter(lambda at: at > datetime(2035, 1, 1)), t=datetime), "G !out"
    ),
    "the 5,000th argument": lambda: check.equivalent(_called(4999), _called(10**9), ints=range(5000), timeout=5),
}  # fmt: skip


@pytest.mark.parametrize("case", list(BEYOND))
def test_without_times_what_is_beyond_is_not_proved_either(case: str) -> None:
    verdict = BEYOND[case]()
    assert not verdict and not verdict.bounded
    assert verdict.refuted == (case in ("the 101st event", "the 65th key", "a moment"))
