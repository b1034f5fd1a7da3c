"""How far event time has come."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid import Stream, as_of, merge, pipeline
from pellucid.errors import StateError
from pellucid.internal.engine.timed.clock import BEGINNING, END, Clocks


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
