"""What users get wrong by event time: one clear message each, the same from both engines, with the row, its time, the
clock and how late it is where that is the trouble; what can be known before a run is refused before it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple

import pytest

from pellucid import LateError, PipelineError, StepError, as_of, join, pipeline
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.engine.timed.running import LiteralEngine


class Ping(NamedTuple):
    at: int | None
    size: int


class Day(NamedTuple):
    when: Annotated[datetime, UTC]
    size: int


def counted(x: Any) -> Any:
    return x.cumulate(lambda n, _: n + 1, start=0)


def both(p: Any, *pushes: list[Any]) -> str:
    """What both engines say at the last push."""
    said = []
    for kind in (TimedEngine, LiteralEngine):
        engine = kind(p.graph)
        for push in pushes[:-1]:
            engine.push(*push)
        with pytest.raises(StepError) as caught:
            engine.push(*pushes[-1])
        said.append(str(caught.value))
    assert said[0] == said[1]
    return said[0]


def test_an_event_without_a_time() -> None:
    p = pipeline(lambda x: x.at("at", id="when").tumbling(10, counted), x=Ping)
    said = both(p, [[Ping(3, 1), Ping(None, 2)]])
    assert said.startswith("step 'when' (at .at, test_bad_input.py:")
    assert said.endswith(
        ") failed at push 1 on the event Ping(at=None, size=2): it has no time (None); leave such events out before, "
        "with filter, or say which time they have"
    )


LATE: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "tumbling": (
        lambda x: x.at(lambda v: v).tumbling(10, counted, id="w"),
        ", whose window from 0 to 10 is complete",
        "or with allowed_lateness= here (the answer comes again, corrected), ",
    ),
    "sliding": (
        lambda x: x.at(lambda v: v).sliding(10, 5, counted, id="w"),
        ", whose windows from -5 to 5 and from 0 to 10 are complete",
        "or with allowed_lateness= here (the answer comes again, corrected), ",
    ),
    "session": (
        lambda x: x.at(lambda v: v).session(2, counted, id="w"),
        ", whose window from 3 to 6 is complete",
        "",
    ),
    "dedup": (lambda x: x.at(lambda v: v).dedup(within=5, id="w"), "", ""),
}


@pytest.mark.parametrize("name", LATE)
def test_a_time_that_goes_back_where_nothing_was_said_about_late_rows(name: str) -> None:
    """Without lateness= a stream is said to come in the order of time."""
    build, window, corrected = LATE[name]
    said = both(pipeline(build, x=int), [[20]], [[25, 3]])
    assert said.startswith(f"step 'w' ({name}")
    assert said.partition(" failed ")[2] == (
        f"at push 2 on the event 3: its time is 3{window}, and the clock is at 20: it is 17 late; allow for so "
        f"much more with lateness= in at, {corrected}or take late events from this step's .late, or let them go with "
        "late='drop'"
    )


def test_late_for_some_sliding_windows_and_not_for_others() -> None:
    """By the definition: an event is in each window [k * every, k * every + size) that holds its time, and late for
    those that are complete; it counts in the others."""
    counts: Callable[[Any], Any] = lambda x: x.at(lambda v: v).sliding(10, 5, counted, id="w")
    said = both(pipeline(counts, x=int), [[12]], [[7]])
    assert "whose window from 0 to 10 is complete (it would count in the 1 that is open), and the clock is" in said

    def taken(x: Any) -> Any:
        w = counts(x)
        return {"w": w, "late": w.late}

    p, times, size, every = pipeline(taken, x=int), [3, 12, 7, 31, 4, 24, 27], 10, 5
    kept: list[tuple[int, int]] = []
    late: list[tuple[int, ...]] = []
    for i, t in enumerate(times):
        clock = max(times[:i], default=-99)
        spans = [(s, s + size) for s in range(-50, 50, every) if s <= t < s + size]
        missed = [span for span in spans if span[1] <= clock]
        kept += [span for span in spans if span not in missed]
        late += [(t, t, clock, missed[0][0], missed[-1][1])] if missed else []
    answers = sorted((*span, kept.count(span)) for span in set(kept))
    for mode in ("python", "auto"):
        engine = p.engine(mode=mode)
        out = [*(engine.push([t]) for t in times), engine.finish()]
        assert sorted(tuple(w) for one in out for w in one["w"]) == answers
        assert [tuple(one) for each in out for one in each["late"]] == late and engine.late == {"w": len(late)}


@pytest.mark.parametrize("step", [join, as_of])
def test_a_time_that_goes_back_on_one_side_of_two(step: Any) -> None:
    p = pipeline(lambda x, y: step(x.at(lambda v: v), y.at(lambda v: v), within=5, id="w"), x=int, y=int)
    said = both(p, [[20], [30]], [[], [2]])
    assert (
        "on the event 2: its time is 2, and the clock is at 30: it is 28 late; allow for so much more with lateness="
        in said
    )


def test_an_error_of_a_late_event_has_its_own_kind() -> None:
    p = pipeline(lambda x: x.at(lambda v: v).tumbling(10, counted, id="w"), x=int)
    with pytest.raises(LateError) as caught:
        p.trace([20, 3])
    assert (caught.value.step, caught.value.position) == ("w", 1)


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "a join whose state no lateness bounds": (
        lambda x, y: join(x.at("when"), y.at("when")),
        "join (test_bad_input.py:{line}): within= is missing: without an interval every event could still find a "
        "partner, so that no lateness bounds what is kept; say how far apart partners may be",
    ),
    "two sources without a common time": (
        lambda x, y: join(x.at("when"), y.at("size"), within=timedelta(hours=1)),
        "join (test_bad_input.py:{line}) reads streams without a common time: the times of one are datetime[UTC], of "
        "another int; give both times of one type in .at(…)",
    ),
    "every greater than size": (
        lambda x, y: x.at("when").sliding(timedelta(hours=1), timedelta(hours=2), counted),
        "sliding (test_bad_input.py:{line}): every (2 h) is greater than size (1 h), which leaves events in no window: "
        "make it at most size",
    ),
    "a time zone with a window that is not whole days": (
        lambda x, y: x.at("when").tumbling(timedelta(hours=6), counted, tz="Europe/Berlin"),
        "tumbling (test_bad_input.py:{line}): with tz= windows are whole days, and size is 6 h: use timedelta(days=n), "
        "or leave tz out: then windows are the same everywhere",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_before_it_runs(name: str) -> None:
    build, said = REFUSED[name]
    with pytest.raises(PipelineError) as caught:
        pipeline(build, x=Day, y=Day)
    assert str(caught.value) == said.format(line=build.__code__.co_firstlineno)
