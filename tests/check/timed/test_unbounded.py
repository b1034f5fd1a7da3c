"""Runs of any length: states that are moved in time go on alike; proofs and refutations as bounded searches say."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple

import pytest

from pellucid import Stream, check, join, pipeline
from pellucid.check.timed.compare import Moved
from pellucid.check.timed.machine import Inputs, Rows, TimedMachine, frozen, frozen_engine
from pellucid.errors import UsageError


class Reading(NamedTuple):
    t: int
    v: int


def count(w: Stream[Any]) -> Stream[int]:
    return w.cumulate(lambda n, v: n + 1, start=0)


def most(w: Stream[Reading]) -> Stream[int]:
    return w.cumulate(lambda m, e: max(m, e.v), start=0)


def windows(sub: Any = count, size: int = 2, every: int = 2, lateness: int = 1, of: Any = int, when: Any = None) -> Any:
    at = when or (lambda v: v)
    return pipeline(lambda x: x.at(at, lateness=lateness).sliding(size, every, sub, late="drop", id="w"), x=of)


def _both(w: Any) -> Any:
    return {"out": w, "so far": w.early}


def _near(a: Any) -> Any:
    return join(a.filter(lambda v: True), a, within=1, how="left", late="drop")


SHAPES = {
    "tumbling": windows(),
    "sliding": windows(size=4),
    "early": pipeline(lambda x: _both(x.at(lambda v: v).tumbling(2, count, late="drop", early=3)), x=int),
    "corrected": pipeline(lambda x: x.at(lambda v: v).tumbling(2, count, late="drop", allowed_lateness=2), x=int),
    "sessions": pipeline(lambda x: x.at(lambda v: v, lateness=1).session(1, count, late="drop"), x=int),
    "dedup": pipeline(lambda x: x.at(lambda v: v).dedup(by=lambda v: 0, within=2, late="drop"), x=int),
    "join": pipeline(lambda x: _near(x.at(lambda v: v, lateness=1)), x=int),
    "windows of windows": pipeline(lambda x: x.at(lambda v: v).tumbling(2, count, late="drop").tumbling(
        4, lambda w: w.map(lambda a: a.value), late="drop"), x=int),
}  # fmt: skip


@pytest.mark.parametrize("shape", list(SHAPES))
def test_a_state_that_is_moved_goes_on_alike(shape: str) -> None:
    """Moving the state and then the event is as moving what comes of both: drawn runs, and all that is seen of them."""
    graph, rng = SHAPES[shape].graph, random.Random(3)
    moved, machine = Moved(graph), TimedMachine(graph, Inputs({"x": ()}, 99, 1, ()))
    by = moved.period * 5
    for _ in range(12):
        here, there, time = machine.start(), machine.start(), 0
        for n in range(6):
            time += rng.choice((-2, 0, 1, 2, 3))
            here, seen = machine.take(here, Rows((("x", time),)), n)
            there, also = machine.take(there, Rows((("x", time + by),)), n)
            assert {k: len(v) for k, v in seen.outputs.items()} == {k: len(v) for k, v in also.outputs.items()}
            same = machine.take(here, Rows((("x", time),)), n)[0].engine
            moved.engine(same, by)
            other = machine.take(there, Rows((("x", time + by),)), n)[0].engine
            assert frozen_engine(same) == frozen_engine(other)
        assert frozen(seen.outputs) != frozen(also.outputs) or not any(seen.outputs.values())


def test_a_refactoring_is_proved_of_all_runs_that_were_said() -> None:
    tumbling = pipeline(lambda x: x.at(lambda v: v, lateness=1).tumbling(2, count, late="drop"), x=int)
    found = check.equivalent(windows(), tumbling, pushes=None, times=range(-2, 4), rate=2)
    assert found.proved and found.details["states"] == 37, found
    assert (
        "in all runs of any length, one event in a batch, with events -2 to 3 after the greatest time so far, at most 2"
        in found.question
    )
    assert found.notes[0].startswith("no function looks at the time of an event, so states that are 2 apart are alike")
    unsaid = check.equivalent(windows(), tumbling, pushes=None, times=range(-2, 4))
    assert unsaid.bounded and unsaid.bound.endswith("so far, each time once"), unsaid  # nobody said rate=


def test_what_shows_only_in_full_windows_is_found() -> None:
    """Four events of one window, and a fifth that completes it: no bound on the run was needed, but on its rate."""
    few = windows(lambda w: count(w).map(lambda n: min(n, 3)))
    assert check.equivalent(windows(), few, pushes=None, times=range(-2, 4)).bounded
    assert check.equivalent(windows(), few, pushes=None, times=range(-2, 4), rate=1).proved  # as was said
    found = check.equivalent(windows(), few, pushes=None, times=range(-2, 4), rate=2)
    assert found.refuted and found.counterexample is not None and found.counterexample.replay()
    assert len(found.counterexample.steps) == 5
    assert check.equivalent(windows(), few, pushes=3, times=range(4)).bounded  # it is too short a run


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (windows(), windows(size=4)),
        (windows(), windows(lateness=2)),
        (windows(size=4, every=2), windows(size=4, every=4)),
    ],
)
def test_what_differs_is_refuted_as_in_short_runs(one: Any, other: Any) -> None:
    found = check.equivalent(one, other, pushes=None, times=range(-2, 4))
    short = check.equivalent(one, other, pushes=3, times=range(-3, 7))
    assert found.refuted and short.refuted
    assert found.counterexample is not None and short.counterexample is not None
    assert len(found.counterexample.steps) == len(short.counterexample.steps)
    assert found.counterexample.replay()


def test_records_and_hours() -> None:
    hour = timedelta(hours=1)
    kinds = [windows(most, of=Reading, when=lambda e: e.t), windows(most, of=Reading, when="t")]
    assert check.equivalent(*kinds, pushes=None, times=range(-1, 3), ints=range(2), rate=1).proved

    def hourly(x: Any) -> Any:
        return x.at(lambda t: t).tumbling(hour, count, late="drop")

    def gliding(x: Any) -> Any:
        return x.at(lambda t: t).sliding(hour, hour, count, late="drop")

    p, q = pipeline(hourly, x=datetime), pipeline(gliding, x=datetime)
    found = check.equivalent(p, q, pushes=None, times=[-hour, hour / 2, hour], rate=1)
    assert found.bounded and "1 h apart" in found.notes[0] and "the first at a multiple of 30 min" in found.bound


def two(x: Any, y: Any) -> Any:
    return join(x.at(lambda v: v), y.at(lambda v: v), within=1)


def daily(x: Any) -> Any:
    return x.at(lambda t: t).tumbling(timedelta(days=1), count, tz="Europe/Berlin")


@pytest.mark.parametrize(
    ("p", "said", "why"),
    [
        (windows(lambda w: w.cumulate(lambda t, v: t + v, start=0)), {}, r"cumulate t \+ v.* looks at the time of an"),
        (pipeline(lambda x: x.at(lambda v: v).trim(1).tumbling(2, count), x=int), {}, r"\(trim, .* remembers"),
        (pipeline(lambda x: x.filter(lambda v: v > 3).at(lambda v: v), x=int), {}, "filter.* looks at the time"),
        (pipeline(two, x=int, y=int), {}, "two has several sources, of which one may be any time ahead"),
        (pipeline(daily, x=Annotated[datetime, UTC]), {"times": [timedelta(1)]}, "days of a time zone"),
        (windows(), {"times": None}, "pushes=None: say times=, how far an event may be from the greatest time"),
        (windows(), {"times": [0, -1]}, "none of times= is after the greatest time so far"),
        (windows(), {"how": "sequence"}, "pushes=None, runs of any length, goes with how='step'"),
        (windows(), {"rate": 0}, "rate= takes how many events may come at one time, found 0"),
        (windows(), {"rate": 2, "pushes": 3}, "rate= is of runs of any length: give pushes=None as well"),
    ],
)
def test_what_cannot_be_asked_is_refused(p: Any, said: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check.equivalent(p, p, **{"pushes": None, "times": range(-1, 3), **said})
