"""A task with on_time=: its types are found, and what is wrong with it is said where it is built."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple

import pytest

from pellucid import PipelineError, Stream, TypeMismatch, pipeline
from pellucid.internal.draw.graph import draw

HOUR = timedelta(hours=1)


class Event(NamedTuple):
    when: datetime
    seen: Annotated[datetime, UTC]
    n: int
    name: str | None


def timed(f: Any, g: Any, initial: Any = 0, **more: Any) -> Any:
    return pipeline(lambda x: x.at("when").task(f, initial, on_time=g, id="t", **more), x=Event).graph["t"]


def told(s: Any, t: Any) -> Any:
    return s, [1], []


def test_types_are_found() -> None:
    node = timed(lambda s, e: (s + 0.5, [], [e.when + HOUR]), lambda s, t: (s, [(t, s)], [t + HOUR]))
    assert (str(node.state), str(node.type), node.start) == ("float", "(datetime, float)", 0.0)
    node = timed(lambda s, e: (s, [e.n], [e.when]), lambda s, t: (s, [0.5], []))
    assert str(node.type) == "float" and node.fn.traced is not None and node.on_time.traced is not None
    node = timed(lambda s, e: (e.when, [e.name], [e.when]), lambda s, t: (None, ["?"], []), None)
    assert (str(node.state), str(node.type)) == ("datetime | None", "str | None")


def test_what_one_function_puts_out_tells_what_the_other_does() -> None:
    """One that cannot be traced, and is not said to put out anything, says nothing of its events."""

    def lists(s: int, e: Event) -> tuple[int, list, list]:  # type: ignore[type-arg]
        return s, [], [e.when + i * HOUR for i in range(abs(e.n) % 5)]

    node = timed(lists, told)
    assert str(node.type) == "int" and node.fn.traced is None


def test_what_is_traced_is_in_the_digest_and_on_the_picture() -> None:
    def build(g: Any) -> Any:
        return pipeline(lambda x: x.at("when").task(lambda s, e: (s, [1], [e.when]), 0, on_time=g), x=Event).graph

    a, b = build(lambda s, t: (s, [1], [])), build(lambda s, t: (s, [2], []))
    assert a.digest != b.digest and a.nodes[-1].id != b.nodes[-1].id and a.digest == build(told).digest
    named = pipeline(lambda x: x.at("when").task(lambda s, e: (s, [1], [e.when]), 7, on_time=told, id="t"), x=Event)
    assert "timers λ and on time told from 7" in draw(named.graph, "text")
    assert "t: timers(at-" in str(named.graph) and "; λ, on time told, start=7) → int" in str(named.graph)


WRONG: dict[str, tuple[Any, Any, str]] = {
    "two results": (
        lambda s, e: (s, [e.n]),
        told,
        r"this lambda must return three things, \(state, \[events\], \[times to be called at\]\), as on_time= is "
        r"given, but returns a tuple of 2; no times are an empty list",
    ),
    "two results of the other": (lambda s, e: (s, [], [e.when]), lambda s, t: (s, [1]), "but returns a tuple of 2"),
    "no list of times": (
        lambda s, e: (s, [1], e.when),
        told,
        "returns a tuple whose third item is a datetime instead of a list",
    ),
    "aware for naive": (
        lambda s, e: (s, [1], [e.seen]),
        told,
        r"asks to be notified of a time that is datetime\[UTC\], and the times of this stream are datetime: expected "
        r"datetime, found datetime\[UTC\]; times with a time zone and without one do not mix",
    ),
    "int for datetime": (
        lambda s, e: (s, [1], [e.n]),
        told,
        "a time that is int, and the times of this stream are dat",
    ),
    "perhaps none": (
        lambda s, e: (s, [1], [e.when if e.n > 3 else None]),
        told,
        "found None; no time is an empty list",
    ),
    "never asks": (
        lambda s, e: (s, [1], []),
        told,
        "its function never asks for a time, so on_time= would never be called: return the times to be notified of as",
    ),
    "nothing is put out": (
        lambda s, e: (s, [], [e.when]),
        lambda s, t: (s, [], []),
        "neither of its functions emits an event, so the stream has no type: pass to=",
    ),
    "events of two types": (
        lambda s, e: (s, ["a"], [e.when]),
        told,
        "wants both its functions to emit events of one type: expected str, found int",
    ),
    "states of two types": (
        lambda s, e: (s, [1], [e.when]),
        lambda s, t: ("?", [1], []),
        "wants its functions to return a state like the initial one: expected int, found str",
    ),
    "times that cannot be traced": (
        lambda s, e: (s, [], [e.when + i * HOUR for i in range(e.n)]),
        lambda s, t: (s, [], [t + i * HOUR for i in range(s)]),
        r"cannot be traced: .* It can still run, but then the type of its events must be given: annotate it \(-> "
        r"tuple\[State, list\[Event\], list\[Time\]\]\) or pass to=",
    ),
    "no function": (lambda s, e: (s, [1], [e.when]), 5, "expected a function, found int 5"),
    "too few arguments": (lambda s, e: (s, [1], [e.when]), lambda s: s, "the function <lambda> gets 2 arguments here"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str) -> None:
    f, g, said = WRONG[name]
    with pytest.raises((PipelineError, TypeMismatch), match=said) as caught:
        timed(f, g)
    assert str(caught.value).startswith("step 't' (task, test_timers.py:")


def test_it_needs_times() -> None:
    with pytest.raises(PipelineError, match="on_time= needs the times of events: say first what an event's time is"):
        pipeline(lambda x: x.task(lambda s, v: (s, [], [v]), 0, on_time=told), x=int)
    with pytest.raises(PipelineError, match="late='later': expected 'fail', or 'drop'"):
        timed(lambda s, e: (s, [1], [e.when]), told, late="later")
    with pytest.raises(PipelineError, match="late= goes with on_time="):
        pipeline(lambda x: x.task(lambda s, v: (s, [v]), 0, late="drop"), x=int)


def test_where_it_cannot_be() -> None:
    def task(x: Stream[Any]) -> Any:
        return x.task(lambda s, e: (s, [1], [e.when]), 0, on_time=told)

    with pytest.raises(PipelineError, match="is under keys that are given up after a number of events"):
        pipeline(lambda x: task(x.at("when").key_by(lambda e: e.n).forget(after=3)), x=Event)
    with pytest.raises(PipelineError, match="its late events are dropped"):
        pipeline(
            lambda x: x.at("when").task(lambda s, e: (s, [1], [e.when]), 0, on_time=told, late="drop").late, x=Event
        )
