"""Windows that are corrected, and that are told early: edge by edge, the same in both engines."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid import LateError, Stream, Windowed, merge, pipeline
from pellucid.internal.engine.explain import step_facts
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.engine.timed.running import LiteralEngine
from pellucid.internal.graph.timing import Timing

ENGINES = [LiteralEngine, TimedEngine]


def count(w: Stream[Any]) -> Stream[int]:
    return w.cumulate(lambda n, _: n + 1, start=0)


def said(windows: list[Windowed[int, int]]) -> list[tuple[int, int]]:
    return [(w.start, w.value) for w in windows]


def corrected(x: Stream[int]) -> Any:
    w = x.at(lambda v: v).tumbling(10, count, allowed_lateness=5, id="w")
    return {"out": w, "late": w.late}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_window_takes_events_until_the_clock_is_at_its_end_and_more(engine: Any) -> None:
    run = engine(pipeline(corrected, x=int).graph)
    assert said(run.push([3, 12])["out"]) == [(0, 1)]
    assert said(run.push([12])["out"]) == []  # nothing came for it
    assert said(run.push([4, 5, 14])["out"]) == [(0, 3)]  # once for a batch
    assert said(run.push([9, 15])["out"]) == [(0, 4)]  # judged at 14; it is over with this batch
    out = run.push([9])
    assert out["out"] == [] and [tuple(late) for late in out["late"]] == [(9, 9, 15, 0, 10)]
    assert said(run.finish()["out"]) == [(10, 4)] and run.late == {"w": 1}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_window_that_was_empty_comes_when_it_gets_an_event(engine: Any) -> None:
    run = engine(pipeline(corrected, x=int).graph)
    assert said(run.push([14])["out"]) == []
    assert said(run.push([1])["out"]) == [(0, 1)]
    assert said(run.push([70])["out"]) == [(10, 1)]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_event_is_late_for_the_windows_that_take_no_more(engine: Any) -> None:
    def sliding(x: Stream[int]) -> Any:
        w = x.at(lambda v: v).sliding(10, 5, count, allowed_lateness=5)
        return {"out": w, "late": w.late}

    run = engine(pipeline(sliding, x=int).graph)
    run.push([16])
    out = run.push([7])  # in [0, 10), which takes events before 15, and in [5, 15)
    assert said(out["out"]) == [(5, 1)] and [(late.start, late.end) for late in out["late"]] == [(0, 10)]


@pytest.mark.parametrize("engine", ENGINES)
def test_too_late_even_so(engine: Any) -> None:
    run = engine(pipeline(lambda x: x.at(lambda v: v).tumbling(10, count, allowed_lateness=5), x=int).graph)
    assert said(run.push([15])) == []
    with pytest.raises(LateError, match="whose window from 0 to 10 is complete, and the clock is at 15"):
        run.push([9])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["tumbling", "session"])
def test_what_windows_have_so_far_at_times(engine: Any, kind: str) -> None:
    """When the clock passes 20, 40, …: of open windows, those with events since then."""

    def so_far(x: Stream[int]) -> Any:
        timed = x.at(lambda v: v).key_by(lambda v: v % 2)
        w = getattr(timed, kind)(100, count, early=20)
        return {"out": w, "early": w.early}

    run = engine(pipeline(so_far, x=int).graph)
    values = []
    for batch in ([2], [4, 5], [19], [20], [30], [39], [40], [40], [300], [301]):
        values.append([w.value for w in run.push(batch)["early"]])
    ends = [[1], [], [], [3, 2], [], [], [5, 3], [], [1], []]
    if kind == "session":  # they come by their end: that of the odd ones is earlier
        ends = [[1], [], [], [2, 3], [], [], [3, 5], [], [1], []]
    assert values == ends


@pytest.mark.parametrize("engine", ENGINES)
def test_early_answers_before_the_clock_begins(engine: Any) -> None:
    """One of two sources is silent: no time is complete, and yet there is something to tell."""

    def both(x: Stream[int], y: Stream[int]) -> Any:
        w = merge(x.at(lambda v: v), y.at(lambda v: v)).tumbling(10, count, early="event", allowed_lateness=3)
        return {"out": w, "early": w.early}

    run = engine(pipeline(both, x=int, y=int).graph)
    assert said(run.push([3, -(2**63) + 8], [])["early"]) == [(-(2**63) + 8, 1), (0, 1)]
    assert said(run.push([4], [])["early"]) == [(0, 2)]
    assert said(run.push([], [11])["early"]) == [(10, 1)]
    assert said(run.finish()["out"]) == [(0, 2), (10, 1)]


def test_a_run_over_all_there_is_has_nothing_early() -> None:
    def both(x: Stream[int]) -> Any:
        w = x.at(lambda v: v, lateness=50).tumbling(10, count, early="event")
        return {"out": w, "early": w.early}

    found = pipeline(both, x=int)([3, 4, 15])
    assert said(found["out"]) == [(0, 2), (10, 1)] and found["early"] == []


def test_what_is_said_of_them() -> None:
    assert Timing(size=10, every=10, allowed=5, early="event").words() == "10, corrected for 5, early at each event"
    assert Timing(gap=3, early=7).words() == "gap 3, early every 7"
    graph = pipeline(corrected, x=int).graph
    (facts,) = [f for f in step_facts(graph) if f.step == "w"]
    assert facts.remembers == "the events of windows that can still be corrected"
    plain = pipeline(lambda x: x.at(lambda v: v).tumbling(10, count), x=int).graph
    assert pipeline(lambda x: x.at(lambda v: v).tumbling(10, count, early=3), x=int).graph.digest != plain.digest
