"""How much may be spent: shares of a question do not shrink because another program runs."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pellucid import check, pipeline
from pellucid.check.decide import Options
from pellucid.failures.model import Task, initial
from pellucid.internal.model import Budget, Verdict, now, patiently
from pellucid.progress.graph import Graph, Node


class Time:
    """Clocks that go on when a test says so."""

    def __init__(self) -> None:
        self.wall, self.mine, self.ready = 100.0, 10.0, 0.0

    def perf_counter(self) -> float:
        return self.wall

    def process_time(self) -> float:
        return self.mine

    def starved(self) -> float:
        return self.ready

    def go(self, wall: float, mine: float, ready: float = 0.0) -> None:
        """``ready``: without a processor, as others had it."""
        self.wall, self.mine, self.ready = self.wall + wall, self.mine + mine, self.ready + ready


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Time:
    fake = Time()
    monkeypatch.setattr("pellucid.internal.model.budget.time", fake)
    monkeypatch.setattr("pellucid.internal.model.budget._starved", fake.starved)
    monkeypatch.setattr("pellucid.internal.model.budget.now.starved", 0.0)
    now()  # from one clock to the other
    return fake


def test_work_counts_and_waiting_counts_a_tenth(at: Time) -> None:
    before = now()
    at.go(wall=3.0, mine=1.0)
    assert now() - before == pytest.approx(1.0)
    at.go(wall=20.0, mine=0.0)
    assert now() - before == pytest.approx(3.0)
    at.go(wall=1.0, mine=2.0)  # two threads
    assert now() - before == pytest.approx(4.0)
    at.go(wall=100.0, mine=1.0, ready=99.0)  # a busy machine
    assert now() - before == pytest.approx(5.0)


def test_a_clock_is_over_when_the_work_is_done(at: Time) -> None:
    clock = Budget(1.0)
    at.go(wall=2.0, mine=0.9)
    assert not clock.over and clock.left() == pytest.approx(0.1)
    at.go(wall=0.2, mine=0.2)
    assert clock.over and clock.left() == 0.0 and clock.part(0.5, least=0.0).over


def test_a_solver_that_got_little_is_asked_again_with_more(at: Time) -> None:
    limits: list[float] = []

    def starved(limit: float) -> bool | None:
        limits.append(limit)
        at.go(wall=limit, mine=limit / 3)
        return True if limit > 2.9 else None

    assert patiently(1.0, starved) is True
    assert limits == pytest.approx([1.0, 3.6])


def test_a_solver_that_had_its_time_or_gave_up_is_not_asked_again(at: Time) -> None:
    asked: list[float] = []

    def hard(limit: float) -> bool | None:
        asked.append(limit)
        at.go(wall=limit, mine=limit)
        return None

    def hopeless(limit: float) -> bool | None:
        asked.append(limit)
        at.go(wall=limit / 10, mine=limit / 100)
        return None

    assert patiently(0.05, hard) is None and len(asked) == 1
    assert patiently(0.05, hopeless) is None and len(asked) == 2


def test_the_time_of_a_question_is_work_and_not_time_that_goes_by(at: Time) -> None:
    options = Options(timeout=10.0)
    share, budget = dataclasses.replace(options, timeout=2.0), Budget(10.0)
    at.go(wall=4.0, mine=1.5)
    assert share.left == pytest.approx(0.5) and not share.over
    assert options.left == budget.left() == pytest.approx(8.5)
    at.go(wall=600.0, mine=5.0, ready=595.0)  # a load of a hundred
    assert share.over and not options.over and options.left == pytest.approx(3.5)
    at.go(wall=4.0, mine=3.6)
    assert options.over and budget.over and Options(timeout=None).left is None


def test_a_function_that_sleeps_ends_with_the_question() -> None:
    calls = []

    def slow(v: int) -> int:
        calls.append(v)
        time.sleep(0.02)
        return math.gcd(v, 0)

    p = pipeline(lambda x: x.map(slow, to=int), x=int)
    verdict = check.holds(p, "out.value >= 0", ints=range(1000), timeout=0.2)
    assert verdict.status == "unknown"
    assert len(calls) < 500  # of at least 1,000: a second of sleep counts a tenth


def _until_asked_of(v: int) -> int:
    while math.gcd(v, 77) == 77:
        pass
    return v


def _endless() -> Iterator[int]:
    while True:
        pass
    yield 1


def _with(outputs: Callable[[], Any]) -> Any:
    return initial({"a": Task(lambda v, w: (v, outputs()), ("i",), "o")}, {"i": [[1]]}, {"a": 0})


def _graph() -> Graph:
    node = Node(lambda n, edge, m: (_until_asked_of(77), [], {}), lambda n, t: (n, [], {}), state=0)
    return Graph({"a": node}, {"in": (None, "a"), "out": ("a", None)}, times=[0], name="a")


_same = pipeline(lambda x: x.map(_until_asked_of, to=int), x=int)
_positive = pipeline(lambda x: x > 0, x=int)
_stays = check.Transitions([77], lambda s: [_until_asked_of(s)], lambda s: {"x": s})


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: check.holds(_same, "G (out -> out.value < 9)", ints={76, 77}, timeout=t),
        lambda t: check.monitor(_stays, _positive, timeout=t),
        lambda t: check.failures(_with(_endless), timeout=t),
        lambda t: check.failures(_with(lambda: filter(lambda n: n < 0, itertools.count())), timeout=t),
        lambda t: check.progress(_graph(), about="liveness", timeout=t),
    ],
    ids=["holds", "monitor", "failures", "failures, many short calls", "progress"],
)
def test_a_function_that_does_not_return_is_stopped_and_named(ask: Callable[[float], Verdict]) -> None:
    verdict = ask(0.3)
    assert verdict.unknown and "the time limit of 0.3 s was reached in" in str(verdict)
    assert check.holds(_positive, "G (in -> out)").proved  # and all is as it was


def test_outputs_without_end_are_a_limit() -> None:
    assert "10,000 outputs" in str(check.failures(_with(itertools.count), timeout=60))
