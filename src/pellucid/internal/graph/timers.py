"""The task by event time, which is told of the times that it asks for: what is asked of it is checked here, and made.

It is what *Timely Dataflow: A Model* (Abadi and Isard, 2015) calls a node: messages and notifications change its state,
put out messages, and ask for notifications.  A request is an element of a set, so that whoever asks twice for a time is
told once.  Condition 1 of the paper, that nobody asks for a time before the present one, is kept here by refusing to go
on.  The paper lets a node that is told of a time ask for the same time again; here it is refused, too, for the time is
complete then, and is told of once.

>>> from pellucid import pipeline
>>> pipeline(lambda x: x.task(lambda s, v: (s, [], [v]), 0, on_time=lambda s, t: (s, [t], [])), x=int)
Traceback (most recent call last):
pellucid.errors.PipelineError: task (...): on_time= needs the times of events: say first what an event's time is, as in
x.at(lambda e: e.when, lateness=…)
"""

from __future__ import annotations

from typing import Any

from pellucid.errors import PipelineError
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.types import NOTHING, Type, conform, join, type_of, type_of_value
from pellucid.internal.graph.stream import Stream, _function, _make, _mismatch, _title
from pellucid.internal.graph.timed import _late
from pellucid.internal.graph.timing import Timing

#: So many times one after the other a key is told of, without an event of its own between.
MOST_ALONE = 1_000_000


def make_timers(x: Stream[Any], f: Any, initial: Any, on_time: Any, late: str, to: Any, id: str | None) -> Stream[Any]:
    """The task whose second function is called when times are complete."""
    clock = x._step.clock
    if clock is None:
        raise PipelineError(
            f"{_title('task', id)}: on_time= needs the times of events: say first what an event's time is, as in "
            "x.at(lambda e: e.when, lateness=…)"
        )
    state = type_of_value(initial)
    event = said = type_of(to) if to is not None else None
    while True:  # types can only grow, so this ends
        fn, told = _both(id, (f, x.type), (on_time, clock), state, event, clock)
        wider = _state(id, state, fn, told)
        put_out = _events(id, fn, told)
        if wider != state:
            state, event = wider, said
        elif put_out is None or all(g.event in (None, put_out) for g in (fn, told)):
            break
        else:
            event = put_out
    event = put_out or event
    if event is None:
        raise PipelineError(
            f"{_title('task', id)}: neither of its functions puts out an event, so the stream has no type: pass to=…"
        )
    if fn.traced is not None and not fn.traced.times:
        raise PipelineError(
            f"{_title('task', id)}: its function never asks for a time, so on_time= would never be called: return the "
            "times to be told of as its third result, or leave on_time= out"
        )
    start = conform(state, initial) if state is not None else initial
    timing = Timing(times=clock, late=_late("task", id, late))
    return _make("timers", (x,), event, fn=fn, on_time=told, start=start, state=state, id=id, timing=timing)


def _both(
    id: str | None, f: tuple[Any, Type], g: tuple[Any, Type], state: Type | None, event: Type | None, clock: Type
) -> tuple[Function, Function]:
    """Both functions, each with what it gets beside the state.  Where nobody knows what one puts out, it is what the
    other does."""

    def made(given: tuple[Any, Type], to: Type | None) -> Function:
        return _function("task", id, given[0], (state, given[1]), task=True, to=to, asks=clock)

    def other(given: tuple[Any, Type]) -> Type | None:
        try:
            return made(given, None).event if event is None else None
        except PipelineError:
            return None

    found = []
    for one, beside in ((f, g), (g, f)):
        try:
            found.append(made(one, event))
        except PipelineError:
            said = other(beside)
            if said is None:
                raise
            found.append(made(one, said))
    return found[0], found[1]


def _state(id: str | None, state: Type | None, *functions: Function) -> Type | None:
    """The type of the state, which both functions return; None: any Python object."""
    if state is None or any(g.result is None for g in functions):
        return None
    wider = state
    for g in functions:
        assert g.result is not None
        joined = join(wider, g.result)
        if joined is None:
            _mismatch("task", id, "its functions to return a state like the initial one", state, g.result)
        wider = joined
    return None if wider == NOTHING else wider


def _events(id: str | None, *functions: Function) -> Type | None:
    """The type of the events that both functions put out; None: neither does."""
    found: Type | None = None
    for g in functions:
        if g.event is not None:
            joined = g.event if found is None else join(found, g.event)
            if joined is None:
                _mismatch("task", id, "both its functions to put out events of one type", found, g.event)
            found = joined
    return found
