"""How far event time has come."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from pellucid import Stream, as_of, join, merge, pipeline
from pellucid.errors import StateError
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.timed.clock import BEGINNING, END, Clocks, day_of, day_start, windows_of
from pellucid.internal.engine.timed.plan import Segment, Timed, levels, plan_of
from pellucid.internal.expr.types import INSTANT, INT, STR, TupleType
from pellucid.internal.expr.types.rich import DAY
from pellucid.internal.graph.timing import Timing

# Windows that begin at fixed times, and days of time zones.

HOUR = DAY // 24


def days(when: datetime) -> int:
    return (when.date() - datetime(1970, 1, 1).date()).days


def units(when: datetime) -> int:
    return int(INSTANT.flatten(when)[0])


@pytest.mark.parametrize(
    ("size", "every", "origin", "time", "windows"),
    [
        (10, 10, 0, 9, [(0, 10)]),
        (10, 10, 0, 10, [(10, 20)]),  # the end is outside
        (10, 10, 0, -1, [(-10, 0)]),  # floor, not towards zero
        (10, 10, 3, 2, [(-7, 3)]),
        (10, 5, 0, 7, [(0, 10), (5, 15)]),
        (10, 4, 0, 7, [(0, 10), (4, 14)]),
        (10, 4, 0, 9, [(0, 10), (4, 14), (8, 18)]),
    ],
)
def test_the_windows_of_a_time(size: int, every: int, origin: int, time: int, windows: list[tuple[int, int]]) -> None:
    assert windows_of(Timing(size=size, every=every, origin=origin), time) == windows


def test_a_time_is_in_the_windows_that_hold_it_and_in_no_other() -> None:
    rng = random.Random(18)
    for _ in range(300):
        size = rng.randint(1, 12)
        every, origin, time = rng.randint(1, size), rng.randint(-9, 9), rng.randint(-40, 40)
        starts = [origin + k * every for k in range(-80, 80)]
        expected = [(s, s + size) for s in starts if s <= time < s + size]
        assert windows_of(Timing(size=size, every=every, origin=origin), time) == expected


@pytest.mark.parametrize(
    ("zone", "date", "hours"),
    [
        ("Europe/Berlin", datetime(2024, 3, 31), 23),
        ("Europe/Berlin", datetime(2024, 10, 27), 25),
        ("Europe/Berlin", datetime(2024, 6, 1), 24),
        ("America/Sao_Paulo", datetime(2018, 11, 4), 23),  # the clock was set forward at midnight
        ("America/Havana", datetime(2024, 11, 3), 25),  # and back to midnight
        ("America/St_Johns", datetime(2010, 11, 6), 24),  # back over midnight, at 00:01: the next day has begun
        ("America/St_Johns", datetime(2010, 11, 7), 25),
        ("Australia/Lord_Howe", datetime(2024, 4, 7), 24.5),
        ("Pacific/Apia", datetime(2011, 12, 30), 0),  # a date that was left out
    ],
)
def test_days_have_the_hours_that_they_have_there(zone: str, date: datetime, hours: float) -> None:
    day = days(date)
    assert (day_start(zone, day + 1) - day_start(zone, day)) / HOUR == hours


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "Pacific/Apia", "America/Sao_Paulo", "UTC"])
def test_every_instant_is_in_one_day(zone: str) -> None:
    rng = random.Random(zone)
    for _ in range(200):
        time = units(datetime(2008, 1, 1, tzinfo=UTC)) + rng.randrange(12 * 365 * DAY)
        day = day_of(zone, time)
        assert day_start(zone, day) <= time < day_start(zone, day + 1)


def test_the_first_instant_of_a_day_is_its_midnight_there() -> None:
    start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=day_start("Asia/Tokyo", 19_800))
    assert start.astimezone(ZoneInfo("Asia/Tokyo")).strftime("%H:%M") == "00:00"


def test_windows_of_several_days_in_a_zone() -> None:
    noon = units(datetime(2024, 3, 31, 12, tzinfo=UTC))
    week = Timing(INSTANT, size=7 * DAY, every=7 * DAY, origin=days(datetime(2024, 1, 1)) * DAY, tz="Europe/Berlin")
    ((start, end),) = windows_of(week, noon)
    assert (end - start) // HOUR == 7 * 24 - 1  # a week from Monday on, with the day that has 23 hours
    two = windows_of(Timing(INSTANT, size=2 * DAY, every=DAY, tz="Europe/Berlin"), noon)
    assert [(end - start) // HOUR for start, end in two] == [47, 47]


def both(x: Stream[int], y: Stream[int]) -> Any:
    return merge(x.at(lambda v: v, lateness=2, id="a"), y.at(lambda v: v, id="b"), id="both")


@pytest.fixture
def clocks() -> Clocks:
    return Clocks(pipeline(both, x=int, y=int).graph)


def told(clocks: Clocks, *seen: tuple[str, int]) -> int:
    """A batch in which steps see these times; the clock of both afterwards."""
    at = clocks.graph.position
    for step, time in seen:
        clocks.saw(at[step], time)
    after = clocks.after(at["both"])
    clocks.settle()
    assert clocks.now(at["both"]) == after
    return after


def test_the_least_watermark_of_the_active_ones_counts(clocks: Clocks) -> None:
    assert told(clocks, ("a", 10)) == BEGINNING
    assert told(clocks, ("b", 3)) == 3
    assert told(clocks, ("b", 30)) == 8


def test_it_never_goes_back(clocks: Clocks) -> None:
    told(clocks, ("a", 10), ("b", 9))
    assert told(clocks, ("a", 4), ("b", 1)) == 8


def test_events_are_judged_by_the_clock_at_the_beginning_of_their_batch(clocks: Clocks) -> None:
    at = clocks.graph.position
    clocks.saw(at["a"], 10)
    clocks.saw(at["b"], 10)
    assert clocks.now(at["both"]) == BEGINNING and clocks.after(at["both"]) == 8


def test_an_idle_one_holds_nobody_back_until_its_next_event(clocks: Clocks) -> None:
    at = clocks.graph.position
    told(clocks, ("a", 10), ("b", 3))
    clocks.idle(at["b"])
    assert told(clocks) == 8
    assert told(clocks, ("b", 5)) == 8  # active again, and the clock does not go back
    assert told(clocks, ("a", 50)) == 8
    assert told(clocks, ("b", 20)) == 20


def test_if_all_are_idle_the_greatest_watermark_counts(clocks: Clocks) -> None:
    at = clocks.graph.position
    told(clocks, ("a", 10))
    clocks.idle(at["a"])
    clocks.idle(at["b"])  # it has seen nothing
    assert told(clocks) == 8


def test_if_none_has_seen_anything_nothing_is_complete(clocks: Clocks) -> None:
    for step in ("a", "b"):
        clocks.idle(clocks.graph.position[step])
    assert told(clocks) == BEGINNING


def test_at_the_end_every_time_is_complete(clocks: Clocks) -> None:
    told(clocks, ("a", 10))
    clocks.end()
    assert told(clocks) == END
    with pytest.raises(StateError, match=r"step 'a' \(at v, .*\): an event came after the end of its input"):
        clocks.saw(clocks.graph.position["a"], 11)


def test_what_is_saved_goes_on(clocks: Clocks) -> None:
    told(clocks, ("a", 10), ("b", 9))
    clocks.idle(clocks.graph.position["b"])
    other = Clocks(clocks.graph)
    other.load(clocks.save())
    assert told(other, ("a", 40)) == told(clocks, ("a", 40)) == 38


def test_a_stream_that_is_idle_as_a_whole_does_not_hold_back_the_one_beside_it() -> None:
    graph = pipeline(
        lambda x, y: as_of(x.at(lambda v: v, id="a"), y.at(lambda v: v, id="b"), id="both"), x=int, y=int
    ).graph
    clocks, at = Clocks(graph), graph.position
    a, b, step = at["a"], at["b"], at["both"]
    told(clocks, ("a", 10), ("b", 3))
    assert (clocks.now(a, step), clocks.now(b, step)) == (10, 3)
    clocks.idle(b)
    told(clocks, ("a", 20))
    assert (clocks.now(a, step), clocks.now(b, step), clocks.now(b)) == (20, 20, 3)
    told(clocks, ("b", 30))  # active again
    assert (clocks.now(a, step), clocks.now(b, step), clocks.now(step)) == (20, 30, 20)


def test_late_events_are_a_stream_without_times_until_they_get_new_ones() -> None:
    def p(x: Stream[int]) -> Any:
        w = x.at(lambda v: v, id="first").tumbling(5, lambda w: w, id="w")
        return w.late.at(lambda e: e.time, id="again")

    graph = pipeline(p, x=int).graph
    clocks, at = Clocks(graph), graph.position
    assert clocks.before[at["w"]] == (at["first"],) and clocks.before[at["again"]] == (at["again"],)
    assert clocks.before[graph["again"].inputs[0]] == ()


# How a graph is cut at its timed steps.


def count(w: Stream[Any]) -> Stream[int]:
    return w.cumulate(lambda n, _: n + 1, start=0)


def text(fn: Any, **types: Any) -> list[str]:
    return str(plan_of(pipeline(fn, **types).graph)).splitlines()


def test_ordinary_steps_of_one_level_that_a_stream_joins_are_a_segment() -> None:
    def p(x: Stream[int], y: Stream[int]) -> Any:
        a = x.map(lambda v: v + 1, id="inc").filter(lambda v: v > 0, id="some").at(lambda v: v, id="a")
        b = y.map(lambda v: v, id="same").at(lambda v: v, id="b")
        both = merge(a, b, id="both").tumbling(5, count, id="w")
        return both.map(lambda w: w.value, id="value"), both.late.map(lambda e: e.value, id="missed")  # type: ignore[arg-type,return-value]

    assert text(p, x=int, y=int)[:-2] == [
        "[inc, some] ← x",
        "[same] ← y",
        "a ← some",
        "b ← same",
        "[both] ← a, b",
        "w ← both",
        "[value] ← w",
    ]
    late, missed = text(p, x=int, y=int)[-2:]
    assert late.endswith("← w") and missed.startswith("[missed] ← late-")


def test_windows_of_windows_stand_one_level_higher() -> None:
    def p(x: Stream[int]) -> Any:
        return (
            x.at(lambda v: v).tumbling(5, count).tumbling(10, lambda w: w.cumulate(lambda t, v: t + v.value, start=0))
        )

    graph = pipeline(p, x=int).graph
    assert levels(graph) == [0, 0, 1, 2]
    assert all(isinstance(stage, Timed) for stage in plan_of(graph).stages)


def test_whose_late_events_are_taken() -> None:
    def p(x: Stream[int]) -> Any:
        w = x.at(lambda v: v).tumbling(5, count, id="w")
        return w, w.late, x.at(lambda v: v).session(5, count, id="s")

    graph = pipeline(p, x=int).graph
    taken = {graph.nodes[s.step].id: s.late_taken for s in plan_of(graph).stages if isinstance(s, Timed)}
    assert taken["w"] and not taken["s"]


def test_a_stream_under_a_key_goes_into_a_segment_with_its_key() -> None:
    def p(x: Stream[tuple[str, int]]) -> Any:
        keyed = x.at(lambda e: e[1]).key_by(lambda e: e[0], id="key")
        return keyed.tumbling(5, count, id="w").cumulate(lambda t, w: t + w.value, start=0, id="sum")

    graph = pipeline(p, x=tuple[str, int]).graph
    first, second = (s for s in plan_of(graph).stages if isinstance(s, Segment))
    assert [c.keyed for c in first.inputs] == [None] and first.outputs == (graph.position["key"],)
    (crossing,) = second.inputs
    assert (crossing.name, crossing.keyed) == ("w", STR)
    window = graph["w"].type
    assert second.graph.nodes[0].type == TupleType((STR, window))
    assert [node.key for node in second.graph.nodes] == [None, STR, STR, STR]
    run = Interpreter(second.graph)
    events = [("ada", (0, 5, 2)), ("bob", (0, 5, 7)), ("ada", (5, 10, 3))]
    found = [run.push_keyed({"w": (key, window.unflatten(e))})["sum"] for key, e in events]
    assert found == [[("ada", 2)], [("bob", 7)], [("ada", 5)]]


def test_a_segment_puts_out_what_others_want() -> None:
    def p(x: Stream[int]) -> Any:
        inc = x.map(lambda v: v + 1, id="inc")
        hidden = inc.map(lambda v: v, id="hidden")
        return inc, hidden.at(lambda v: v, id="at"), hidden.map(lambda v: v, id="end")

    graph = pipeline(p, x=int).graph
    (segment,) = (s for s in plan_of(graph).stages if isinstance(s, Segment))
    assert [name for name, _ in segment.graph.outputs] == ["inc", "hidden", "end"]
    assert [segment.graph.nodes[i].type for i in segment.graph.sources] == [INT]


def test_a_join_reads_two_streams() -> None:
    graph = pipeline(lambda x, y: join(x.at(lambda v: v), y.at(lambda v: v), within=1), x=int, y=int).graph
    stage = plan_of(graph).stages[-1]
    assert isinstance(stage, Timed) and stage.inputs == graph.nodes[stage.step].inputs and len(stage.inputs) == 2
