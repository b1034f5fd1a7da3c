"""Questions about pipelines over real tables: times, decimals, and values that may be missing."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import pytest

from pellucid import Mod, Pipeline, Scale, UsageError, check, pipeline
from tests.seeds import seeds


@dataclass(frozen=True)
class Flight:
    tail: str
    at: datetime
    delay: int | None


class Alert(NamedTuple):
    tail: str
    at: datetime


def three_in_a_row(run: int, e: Flight) -> tuple[int, list[Alert]]:
    if e.delay is None:  # a cancelled flight changes nothing
        return run, []
    run = run + 1 if e.delay > 60 else 0
    return run, [Alert(e.tail, e.at)] if run >= 3 else []


def rewritten(run: int, e: Flight) -> tuple[int, list[Alert]]:
    if e.delay is not None and e.delay > 60:
        return run + 1, [Alert(e.tail, e.at)] if run >= 2 else []
    return (run, []) if e.delay is None else (0, [])


def wrong(run: int, e: Flight) -> tuple[int, list[Alert]]:
    run = run + 1 if (e.delay or 0) > 60 else 0  # a cancelled flight ends a run
    return run, [Alert(e.tail, e.at)] if run >= 3 else []


def per_plane(f: Callable[..., Any]) -> Pipeline:
    return pipeline(lambda x: x.key_by(lambda e: e.tail).task(f, initial=0, id="run"), x=Flight)


ALERTS = per_plane(three_in_a_row)


def test_an_alert_carries_the_time_of_its_last_event() -> None:
    assert check.holds(ALERTS, "G (out -> out.value.at = x.value.at)").proved


def test_a_cancelled_flight_changes_nothing() -> None:
    without = pipeline(
        lambda x: x.filter(lambda e: e.delay is not None).key_by(lambda e: e.tail).task(three_in_a_row, initial=0),
        x=Flight,
    )
    assert check.equivalent(ALERTS, without).proved
    assert check.holds(ALERTS, "G (x.value.delay = None -> !out)").proved
    assert check.holds(ALERTS, "G (out -> x.value.delay > 60)").proved


def test_a_refactoring_and_a_wrong_one() -> None:
    assert check.equivalent(ALERTS, per_plane(rewritten)).proved
    verdict = check.equivalent(ALERTS, per_plane(wrong))
    assert verdict.refuted and verdict.counterexample is not None and verdict.counterexample.replay()
    pushes = [push["x"] for push in verdict.counterexample.inputs]
    assert len(pushes) == 4 and sum(e.delay is None for e in pushes) == 1  # the shortest: two, one cancelled, one
    assert "1970-01-01 00:00" in str(verdict)


def quiet_hour(last: datetime | None, e: Flight) -> tuple[datetime | None, list[datetime]]:
    if last is not None and e.at - last < timedelta(hours=1):
        return last, []
    return e.at, [e.at]


def hasty(last: datetime | None, e: Flight) -> tuple[datetime | None, list[datetime]]:
    if last is not None and e.at - last < timedelta(minutes=59):
        return last, []
    return e.at, [e.at]


@pytest.mark.parametrize(("f", "holds"), [(quiet_hour, True), (hasty, False)])
def test_never_two_alerts_within_an_hour(f: Callable[..., Any], holds: bool) -> None:
    p = pipeline(lambda x: x.task(f, initial=None, id="quiet"), x=Flight)
    first = check.holds(p, 'G (out -> out.value - Y out.value >= "PT1H")', assume="x.value.at >= Y x.value.at")
    assert first.refuted  # the first alert has none before it
    gaps = pipeline(lambda x: x.task(f, initial=None).lag(1).map(lambda pair: pair[0] - pair[1]), x=Flight)
    answer = check.holds(gaps, 'G (out -> out.value >= "PT1H")', assume="x.value.at >= Y x.value.at")
    assert answer.proved is holds and answer.refuted is not holds
    if not holds:
        assert answer.counterexample is not None and answer.counterexample.replay()


class Fee(NamedTuple):
    minutes: int | None
    fee: Annotated[Decimal, Scale(2)]


def test_money() -> None:
    fees = pipeline(lambda x: x.map(lambda e: Fee(e.delay, Decimal(e.delay or 0) * Decimal("1.25"))), x=Flight)
    assert check.holds(fees, "G (x & x.value.delay = None -> out.value.fee = 0)").proved
    assert check.holds(fees, "G (x.value.delay >= 2 -> out.value.fee >= 2.5)").proved
    bad = check.holds(fees, "G (x.value.delay >= 2 -> out.value.fee > 2.5)")
    assert bad.refuted and bad.counterexample is not None
    assert bad.counterexample.inputs[-1]["x"].delay == 2
    same = pipeline(lambda x: x.map(lambda e: Fee(e.delay, round((e.delay or 0) * Decimal("1.250"), 2))), x=Flight)
    verdict = check.equivalent(fees, same)
    assert (
        verdict.refuted and "one leaves 64 bits where the other does not" in verdict.notes[0]
    )  # three places need more
    assert check.equivalent(fees, same, assume="x.value.delay < 1000000 & x.value.delay > -1000000").proved


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("G (out.value.at >= 3)", "out.value.at is a datetime and 3 is an int"),
        ("G (x.value.delay < None)", "have no order that < could ask for"),
        ("G (x.value.tail = None)", "what can be missing is declared as T | None"),
        ('G (x.value.at >= "noon")', "expected datetime (such as 2013-01-01T05:00:00), found 'noon'"),
        ("G (x.value.at + x.value.at = x.value.at)", "+ has no meaning there"),
    ],
)
def test_questions_without_a_meaning(question: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        check.holds(ALERTS, question)
    assert said in str(caught.value)


def test_times_are_not_modulo_anything() -> None:
    with pytest.raises(UsageError, match=r"carries datetime, and integers modulo 4 are no times"):
        check.holds(ALERTS, "G (out -> x)", ints=Mod(4))


# ---------------------------------------------------------------- against all runs, one by one


class Reading(NamedTuple):
    v: int | None
    ok: bool | None


_STEPS: list[Callable[[Any, Any], Any]] = [
    lambda s, e: ((e.v if e.v is not None else s), [s] if e.ok else []),
    lambda s, e: (s, [e.v]) if e.ok is None else (e.v, []),
    lambda s, e: (None, [(s or 0) + (e.v or 0)]) if s is not None and e.v == s else (e.v, []),
    lambda s, e: (s if e.v is None else (s or 0) + 1, [s] if e.ok is not None and not e.ok else []),
    lambda s, e: ((e.v or s), [e.v, s] if e.v is not None else []),
]
_BAD: list[Callable[[Any], bool]] = [
    lambda o: o is None,
    lambda o: o is not None and o > 1,
    lambda o: o == 2,
    lambda o: not o,
]
_QUESTIONS = ["out.value != None", "!(out.value > 1)", "out.value != 2", "out.value != None & out.value != 0"]


def shortest(step: Callable[[Any, Any], Any], bad: Callable[[Any], bool], most: int) -> int | None:
    """How many pushes it takes until something bad comes out, by trying all of them."""
    events = [None, *(Reading(v, ok) for v in (None, 0, 1) for ok in (None, False, True))]
    for length in range(1, most + 1):
        for pushes in itertools.product(events, repeat=length):
            state: Any = None
            for e in pushes:
                out: list[Any] = []
                if e is not None:
                    state, out = step(state, e)
                if any(bad(o) for o in out):
                    return length
    return None


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(12))
def test_against_all_runs(seed: int) -> None:
    rng = random.Random(seed)
    step, which = rng.choice(_STEPS), rng.randrange(len(_BAD))
    p = pipeline(lambda x: x.task(step, initial=None, id="t"), x=Reading)
    want = shortest(step, _BAD[which], 3)
    for engine in ("explicit", "smt"):
        if step is _STEPS[2] and "None" in _QUESTIONS[which]:  # which puts out a number, always
            with pytest.raises(UsageError, match="None is a None: they cannot be compared"):
                check.holds(p, f"G (out -> {_QUESTIONS[which]})", ints=range(2), engine=engine)
            continue
        verdict = check.holds(p, f"G (out -> {_QUESTIONS[which]})", ints=range(2), engine=engine, max_depth=6)
        assert "a fault of Pellucid" not in str(verdict)
        if want is not None:
            assert verdict.refuted and verdict.counterexample is not None, (seed, engine)
            assert len(verdict.counterexample.inputs) == want and verdict.counterexample.replay()
        else:
            found = verdict.counterexample
            assert not verdict.refuted or (found is not None and len(found.inputs) > 3), (seed, engine)
