"""How much may be spent: shares of a question do not shrink because another program runs."""

from __future__ import annotations

import dataclasses
import time

import pytest

from pellucid import check, pipeline
from pellucid.check.decide import Options
from pellucid.model import Budget, now, patiently


class Time:
    """Clocks that go on when a test says so."""

    def __init__(self) -> None:
        self.wall, self.mine = 100.0, 10.0

    def perf_counter(self) -> float:
        return self.wall

    def process_time(self) -> float:
        return self.mine

    def go(self, wall: float, mine: float) -> None:
        self.wall, self.mine = self.wall + wall, self.mine + mine


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Time:
    fake = Time()
    monkeypatch.setattr("pellucid.model.budget.time", fake)
    monkeypatch.setattr("pellucid.check.decide.time", fake)
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


def test_the_time_of_a_question_is_a_time_on_the_wall_and_a_share_of_it_is_not(at: Time) -> None:
    options = Options(timeout=10.0)
    share = dataclasses.replace(options, timeout=2.0)
    at.go(wall=4.0, mine=1.5)
    assert share.left == pytest.approx(0.5) and not share.over
    assert options.left == pytest.approx(6.0)
    at.go(wall=6.0, mine=0.4)
    assert options.over and share.over
    endless = dataclasses.replace(Options(timeout=None), timeout=2.0)
    at.go(wall=4.0, mine=1.0)
    assert endless.left == pytest.approx(1.0) and Options(timeout=None).left is None


def test_a_function_that_sleeps_ends_with_the_question() -> None:
    calls = []

    def slow(v: int) -> int:
        calls.append(v)
        time.sleep(0.02)
        return hash(v)

    p = pipeline(lambda x: x.map(slow, to=int), x=int)
    verdict = check.holds(p, "out.value >= 0", ints=range(1000), timeout=1.0)
    assert verdict.status == "unknown"
    assert len(calls) < 500  # of at least 1,000
