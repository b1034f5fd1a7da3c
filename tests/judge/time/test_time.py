"""Random pipelines with times do what the rules say; and rules that are slightly others are noticed."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from pellucid import pipeline
from tests.judge.time import rules
from tests.judge.time.cases import draw_case
from tests.judge.time.judge import Fault, judge
from tests.judge.time.rules import AsOf, At, Dedup, Join, Node, Row, Run, Sessions, Timers, Windows
from tests.seeds import seeds

pytestmark = pytest.mark.long

EACH = 3  # runs of a case


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(5))
def test_random_pipelines_are_as_the_rules_say(seed: int) -> None:
    for number in range(8):
        case = draw_case(f"{seed}.{number}")
        draw = random.Random(seed * 1000 + number)
        for _ in range(EACH):
            judge(case, draw)


def _count(x: Any) -> Any:
    return x.cumulate(lambda n, e: n * 10 + e % 10, start=0)


def _counted(events: list[int]) -> list[int]:
    total = 0
    for event in events:
        total = total * 10 + event % 10
    return [total]


SMALL: list[tuple[str, Callable[[Any], Any], Callable[[At], Node]]] = [
    ("tumbling", lambda x: x.tumbling(4, _count), lambda at: Windows(at, 4, 4, _counted)),
    ("sliding", lambda x: x.sliding(5, 2, _count, origin=1), lambda at: Windows(at, 5, 2, _counted, 1)),
    ("session", lambda x: x.session(2, _count), lambda at: Sessions(at, 2, _counted)),
    (
        "corrected",
        lambda x: x.sliding(5, 2, _count, allowed_lateness=2),
        lambda at: Windows(at, 5, 2, _counted, allowed=2),
    ),
    ("dedup", lambda x: x.dedup(by=lambda e: e % 2, within=2), lambda at: Dedup(at, lambda e: e % 2, 2)),
    (
        "timers",
        lambda x: x.task(lambda s, v: (s + v, [s], [v, v + 3]), 0, on_time=lambda s, t: (s + 1, [100 * t + s], [])),
        lambda at: Timers(
            at,
            0,
            lambda s, row: (s + row.value, [s], [row.time, row.time + 3]),
            lambda s, time: (s + 1, [100 * time + s], []),
        ),
    ),
]


@pytest.mark.parametrize(("name", "step", "rule"), SMALL, ids=[name for name, _, _ in SMALL])
@pytest.mark.parametrize("lateness", [0, 2])
def test_all_orders_of_a_few_events(
    name: str, step: Callable[[Any], Any], rule: Callable[[At], Node], lateness: int
) -> None:
    """Row by row, and in two batches."""

    def run(x: Any) -> Any:
        w = step(x.at(lambda v: v, lateness=lateness))
        return {"out": w, "late": w.late}

    p = pipeline(run, x=int)
    late = 0
    for order in permutations([0, 4, 7, 9]):
        for batches in ([[time] for time in order], [list(order[:2]), list(order[2:])]):
            at = At(lateness)
            node = rule(at)
            rows, engine = Run([at, node]), p.engine()
            for part in [*batches, None]:
                out = engine.finish() if part is None else engine.push(part)
                said, missed = (rows.end() if part is None else rows.batch({at: [Row(t, None, t) for t in part]}))[node]
                assert sorted(out["out"]) == sorted(row.value for row in said), (batches, part)
                assert [(one.value, one.clock) for one in out["late"]] == [(one.value, one.clock) for one in missed]
                late += len(missed)
    assert late


# ---------------------------------------------------------------- other rules


def _with_clock(put: Callable[[Any], list[Row]], by: int) -> Callable[[Any], list[Row]]:
    """A step that puts out as if its clocks were elsewhere."""

    def other(self: Node) -> list[Row]:
        for clock in self.clocks:
            clock.now += by
        out = put(self)
        for clock in self.clocks:
            clock.now -= by
        return out

    return other


def _closer(init: Callable[..., None]) -> Callable[..., None]:
    return lambda self, source, gap, fold, early=None: init(self, source, gap - 1, fold, early)


def _greatest(self: rules.Clock) -> float:
    return max((one.watermark for one in self.sources if one.state == "active"), default=rules.NEVER)


def _by_arrival(rows: Any) -> list[Row]:
    return sorted(rows, key=lambda row: row.time)


def _again(self: Windows) -> list[Row]:
    """Closed windows come out whenever the clock moves, as long as they take rows."""
    self.fresh = set(self.open)
    return Windows_put(self)


Windows_put = Windows.put


def _gone_later(self: Windows, end: int) -> bool:
    return self.clocks[0].now > end + self.allowed if self.allowed else self.clocks[0].now >= end


def _always(early: Any, before: float, now: float) -> bool:
    return early is not None


OTHERS: dict[str, tuple[Any, str, Any]] = {
    "a window closes when the clock is past its end": (Windows, "put", _with_clock(Windows.put, -1)),
    "the clock is the greatest of the sources": (rules.Clock, "candidate", _greatest),
    "events of one time in the order of their arrival": (rules, "in_order", _by_arrival),
    "rows are given up while they could be paired": (Join, "put", _with_clock(Join.put, 2)),
    "as-of is answered at its time": (AsOf, "put", _with_clock(AsOf.put, 1)),
    "dedup puts out at its time": (Dedup, "put", _with_clock(Dedup.put, 2)),
    "corrections come again and again": (Windows, "put", _again),
    "a row is taken when the allowed lateness is just over": (Windows, "gone", _gone_later),
    "answers so far come with every batch": (rules, "told", _always),
    "sessions one gap apart are two": (Sessions, "__init__", _closer(Sessions.__init__)),
    "a time is told of when the clock is at it": (Timers, "put", _with_clock(Timers.put, 1)),
    "a time is told of before its events": (Timers, "first", lambda self, time, told: time < told),
    "who asks twice is told twice": (Timers, "asks", lambda self, asked, more: sorted([*asked, *more])),
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_rule_is_noticed(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, what = OTHERS[other]
    monkeypatch.setattr(where, name, what)
    for number in range(300):
        case = draw_case(f"other.{number}")
        try:
            judge(case, random.Random(number))
        except Fault:
            return
    pytest.fail("nobody noticed")
