"""Streams and processors: how a user writes a pipeline.

A stream is only a description: a processor applied to other streams.  `graph.build` turns
descriptions into a graph.  Every processor takes an optional ``id``, the stable name of its step.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NoReturn, TypeVar

from pellucid.errors import PipelineError, TypeMismatch, nearest
from pellucid.internal import PACKAGE
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.types import (
    BOOL,
    FLOAT,
    NOTHING,
    ListType,
    RecordType,
    TupleType,
    Type,
    conform,
    join,
    list_in,
    type_of,
    type_of_value,
    with_none,
)
from pellucid.internal.graph.model import forgotten_by, key_of
from pellucid.internal.graph.processors import PROCESSORS
from pellucid.internal.graph.timing import ROUND, Late, Timing, Windowed, clock_of, time_type

_AS_IN = {
    "apply": "apply(lambda a, b: a + b, x, y)",
    "merge": "merge(x, y)",
    "iterate": "iterate(x, body, limit=100)",
}  # functions that are looked for on a stream

T = TypeVar("T")
U = TypeVar("U")
S = TypeVar("S")

#: The names of the pipelines being called right now, outermost first.
scope: ContextVar[tuple[str, ...]] = ContextVar("pellucid_scope", default=())


#: The window whose sub-pipeline is being built right now.
inside_of: ContextVar[str] = ContextVar("pellucid_inside", default="")


class LoopBody:
    """The body of a loop while it is being built: its steps read its own streams alone."""

    def __init__(self, title: str) -> None:
        self.title = title


#: The loop whose body is being built right now.
body_of: ContextVar[LoopBody | None] = ContextVar("pellucid_body", default=None)


class _Silent:
    """The mark for *no event in this push*."""

    def __repr__(self) -> str:
        return "-"


#: Put it in a list of events where a source stays silent in a push.
silent = _Silent()


def caller() -> str:
    """The user's file and line that is being run now."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


@dataclass(frozen=True, eq=False)
class Step:
    """What a stream is made by.

    Its ``key`` and its ``clock`` are never given: they follow from what the step does and from the streams it reads,
    also where a pipeline's steps are made once more over other streams (`instantiate`).
    """

    kind: str
    inputs: tuple[Stream[Any], ...]
    type: Type
    fn: Function | None = None
    k: int | None = None
    start: Any = None
    state: Type | None = None
    sub: Any = None  # the Graph of a window's sub-pipeline
    id: str | None = None
    where: str = ""
    timing: Timing | None = None
    on_time: Function | None = None
    key: Type | None = field(init=False)
    forgotten_by: Step | None = field(init=False)
    clock: Type | None = field(init=False)  # the type of its events' times
    corrected_by: Step | None = field(init=False)  # the windows whose answers may come again
    body: LoopBody | None = field(init=False)  # the loop that it is in

    def __post_init__(self) -> None:
        label = f"{self.kind}, {self.where}" if self.where else self.kind
        title = f"step {self.id!r} ({label})" if self.id else f"{self.kind} ({self.where})" if self.where else self.kind
        object.__setattr__(self, "body", self._in_body(title))
        object.__setattr__(self, "key", key_of(self.kind, self.fn, [s._step.key for s in self.inputs], title))
        by = forgotten_by(self.kind, self, [s._step.forgotten_by for s in self.inputs], title)
        object.__setattr__(self, "forgotten_by", by)
        made = time_type(self.fn.result) if self.fn is not None else None
        if PROCESSORS[self.kind].timed:
            self._refuse_timed(title)
        object.__setattr__(self, "clock", clock_of(self.kind, made, [s._step.clock for s in self.inputs], title))
        object.__setattr__(self, "corrected_by", self._corrected(title))

    def _in_body(self, title: str) -> LoopBody | None:
        """The loop that the step is in."""
        body = body_of.get()
        if body is not None and any(s._step.body is not body for s in self.inputs):
            raise PipelineError(
                f"{title} reads a stream from outside the loop that it is in ({body.title}), and the only stream of a "
                "body is its input: merge what it needs with the events that go into the loop"
            )
        return body

    def _corrected(self, title: str) -> Step | None:
        """The windows with corrections whose answers go on from here: a step that waits for the clock would count both
        the answer and its correction."""
        if PROCESSORS[self.kind].clock == "drops":
            return None
        by = next((s._step.corrected_by for s in self.inputs if s._step.corrected_by is not None), None)
        if by is not None and PROCESSORS[self.kind].timed:
            raise PipelineError(
                f"{title} would count a window's answer and its corrections as different events, and they come for "
                f"times that are over: the windows before it ({by.kind}, {by.where}) have allowed_lateness=; leave "
                "that out, and say lateness= in at instead"
            )
        return self if self.timing is not None and self.timing.allowed else by

    def _refuse_timed(self, title: str) -> None:
        """Where no step can wait for event time."""
        what = "is a loop" if self.kind == "iterate" else "works by event time"
        if inside_of.get():
            raise PipelineError(
                f"{title} {what}, which a sub-pipeline knows nothing of: it sees the events of one window,"
                f" in {inside_of.get()}; use it outside"
            )
        rounds = self.timing is not None and self.timing.how == ROUND
        if self.body is not None and self.kind != "iterate" and not rounds:
            raise PipelineError(
                f"{title} works by event time, and the only times in the body of a loop ({self.body.title}) are its "
                "rounds: use each_round(sub) there, or this step outside"
            )
        if any(s._step.forgotten_by is not None for s in self.inputs):
            raise PipelineError(
                f"{title} is under keys that are given up after a number of events (forget), and by event time keys "
                "are given up when their times are complete: leave forget out, or put key_by(…).forget(…) after it"
            )


def _operator(op: Callable[[Any, Any], Any], name: str) -> tuple[Callable[[Stream[Any], Any], Stream[Any]], ...]:
    """An operator, and the same with the stream on its right."""
    return lambda self, other: self._with(op, other, name), lambda self, other: self._with(op, other, name, True)


class Stream(Generic[T]):
    """A stream of events.  Write ``Stream[int]`` in the parameters of a pipeline.

    >>> from pellucid import pipeline
    >>> @pipeline
    ... def doubled_odds(x: Stream[int]) -> Stream[int]:
    ...     return x.filter(lambda v: v % 2 == 1).map(lambda v: 2 * v)
    >>> doubled_odds([1, 2, 3])
    [2, 6]
    """

    __slots__ = ("_step",)
    _step: Step

    def __init__(self, step: Step) -> None:
        self._step = step

    @property
    def type(self) -> Type:
        """The type of its events."""
        return self._step.type

    # ------------------------------------------------------------ processors

    def map(self, f: Callable[[T], U], *, to: Any = None, id: str | None = None) -> Stream[U]:
        """A function of each event.  ``to`` gives the result's type if it cannot be found out.

        >>> from pellucid import pipeline
        >>> pipeline(lambda x: x.map(lambda v: v * v), x=int)([1, 2, 3])
        [1, 4, 9]
        """
        fn = _function("map", id, f, (self.type,), to=to)
        return _make("map", (self,), fn.result, fn=fn, id=id)

    def filter(self, keep: Callable[[T], Any] | Stream[bool], *, id: str | None = None) -> Stream[T]:
        """The events for which a predicate holds, or whose partner in a Boolean stream is true.

        >>> from pellucid import pipeline
        >>> pipeline(lambda x: x.filter(lambda v: v > 1), x=int)([1, 2, 3])
        [2, 3]
        >>> pipeline(lambda x: x.filter(x.trim(1) > 2), x=int)([1, 2, 3])  # is the next one above 2?
        [2]
        """
        if isinstance(keep, Stream):
            if keep.type != BOOL:
                _mismatch("filter", id, "a stream of bool to filter by", BOOL, keep.type)
            return _make("filter_by", (self, keep), self.type, id=id)
        fn = _function("filter", id, keep, (self.type,), truth=True)
        return _make("filter", (self,), self.type, fn=fn, id=id)

    def cumulate(self, f: Callable[[U, T], U], start: U, *, to: Any = None, id: str | None = None) -> Stream[U]:
        """The successive values of ``f(last, event)``, beginning with ``start``.

        >>> from pellucid import pipeline
        >>> pipeline(lambda x: x.cumulate(lambda total, v: total + v, start=0), x=int)([1, 2, 3])
        [1, 3, 6]
        """
        state = type_of(to) if to is not None else _start_type("cumulate", id, start)
        while True:  # the type can only grow, so this ends
            fn = _function("cumulate", id, f, (state, self.type), to=state, exact=False)
            if fn.traced is None and to is None:  # the start value is one of its values, and says nothing of the others
                fn = _function("cumulate", id, f, (state, self.type))
            joined = join(state, fn.result) if fn.result is not None else None
            if joined is None:
                _mismatch("cumulate", id, "its function to return what it accumulates", state, fn.result)
            if joined == state:
                break
            state = joined  # start=0 on a stream of floats: the total is a float
        if fn.result != state:
            fn = replace(fn, result=state)
        return _make("cumulate", (self,), state, fn=fn, start=conform(state, start), state=state, id=id)

    def decimate(self, k: int, *, id: str | None = None) -> Stream[T]:
        """One event in ``k``: the first, then every k-th after it.

        >>> from pellucid import pipeline
        >>> pipeline(lambda x: x.decimate(3), x=int)([0, 1, 2, 3, 4, 5, 6])
        [0, 3, 6]
        """
        return _make("decimate", (self,), self.type, k=_count("decimate", id, k, 1), id=id)

    def trim(self, k: int, *, id: str | None = None) -> Stream[T]:
        """All but the first ``k`` events.

        >>> from pellucid import pipeline
        >>> pipeline(lambda x: x.trim(2), x=int)([1, 2, 3, 4])
        [3, 4]
        """
        return _make("trim", (self,), self.type, k=_count("trim", id, k, 0), id=id)

    def take(self, k: int, *, id: str | None = None) -> Stream[T]:
        """The first ``k`` events; of a keyed stream the first ``k`` of each key.

        >>> from pellucid import pipeline
        >>> pipeline(lambda x: x.take(2), x=int)([1, 2, 3, 4])
        [1, 2]
        """
        return _make("take", (self,), self.type, k=_count("take", id, k, 1), id=id)

    def lag(self, k: int, *, id: str | None = None) -> Stream[tuple[T, T]]:
        """Pairs of an event and the one ``k`` events before it: the present one first, as in ``now - before``.

        The first ``k`` events have none before them, so nothing is emitted for them, as by ``trim(k)``.

        >>> from pellucid import pipeline
        >>> pipeline(lambda x: x.lag(2), x=int)([1, 2, 5, 9])
        [(5, 1), (9, 2)]
        >>> pipeline(lambda x: x.lag(1).map(lambda pair: pair[0] - pair[1]), x=int)([1, 2, 5])
        [1, 3]
        """
        pair = TupleType((self.type, self.type))
        return _make("lag", (self,), pair, k=_count("lag", id, k, 1), id=id)

    def window(self, k: int, sub: Callable[[Stream[T]], Stream[U]], *, id: str | None = None) -> Stream[U]:
        """The last event that ``sub``, a pipeline, emits over each ``k`` successive events.

        >>> from pellucid import pipeline
        >>> total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
        >>> pipeline(lambda x: x.window(3, total), x=int)([1, 2, 3, 4])
        [6, 9]
        """
        from pellucid.internal.graph.build import sub_graph

        _count("window", id, k, 1)
        graph = sub_graph(sub, self.type, _title("window", id))
        return _make("window", (self,), graph.nodes[graph.outputs[0][1]].type, k=k, sub=graph, id=id)

    def task(
        self,
        f: Callable[[S, T], Any],
        initial: S,
        *,
        on_time: Callable[[S, Any], Any] | None = None,
        late: str = "fail",
        to: Any = None,
        id: str | None = None,
    ) -> Stream[Any]:
        """The general stateful task: ``f(state, event)`` returns ``(state, [events])``.

        >>> from pellucid import pipeline
        >>> def changes(last, v):
        ...     return v, ([] if v == last else [v])
        >>> pipeline(lambda x: x.task(changes, initial=0), x=int)([0, 1, 1, 2])
        [1, 2]

        With ``on_time``, on a stream whose events have times: ``f`` returns ``(state, [events], [times])``, and
        ``on_time(state, time)``, which returns the same, is called once for each time that was asked for, when no event
        up to it can come any more.  ``f`` sees the events of its key by time, whatever order they came in, each when
        its own time is complete; an event that comes later is late, as for windows (``late="drop"``, or ``.late``).
        What ``f`` emits has the time of its event, what ``on_time`` emits the time that it is notified of.

        >>> def heard(last, second):
        ...     return second, [], [second + 10]  # tell me in 10 seconds
        >>> def silent(last, second):
        ...     return last, ([last] if second == last + 10 else []), []
        >>> alarm = pipeline(lambda x: x.at(lambda v: v, lateness=5).task(heard, 0, on_time=silent), x=int)
        >>> alarm([3, 9, 7, 30])
        [9, 30]
        """
        if on_time is not None:
            from pellucid.internal.graph.timed import make_timers

            return make_timers(self, f, initial, on_time, late, to, id)
        if late != "fail":
            raise PipelineError(
                f"{_title('task', id)}: late= goes with on_time=: without it no event is late for a task"
            )
        state = type_of_value(initial)
        event = type_of(to) if to is not None else None
        while True:
            fn = _function("task", id, f, (state, self.type), task=True, to=to)
            if state is None:
                break
            unsettled = state == NOTHING or (fn.runs is None and _unsettled(state))
            if fn.result is None or (fn.result == state and unsettled):
                state = None  # what else it may be is not known
                continue
            joined = join(state, fn.result)
            if joined is None:
                _mismatch("task", id, "its function to return a state like the initial one", state, fn.result)
            if joined == state:
                break
            state = joined
        event = fn.event or event
        if event is None:
            raise PipelineError(
                f"{_title('task', id)}: its function never emits an event, so the stream has no type: pass to=…"
            )
        start = conform(state, initial) if state is not None else initial
        return _make("task", (self,), event, fn=fn, start=start, state=state, id=id)

    def explode(
        self, f: Callable[[T], list[U]], *, beside: bool = False, to: Any = None, id: str | None = None
    ) -> Stream[Any]:
        """Each element of the list that ``f`` gives for an event, in order; nothing for an empty one.

        With ``beside`` an element comes as a pair, with the event that it is from: ``(event, element)``.  ``to`` is the
        type of an element where it cannot be found out.

        >>> from typing import NamedTuple
        >>> from pellucid import pipeline
        >>> class Order(NamedTuple):
        ...     id: int
        ...     items: list[str]
        >>> orders = [Order(1, ["pen", "ink"]), Order(2, [])]
        >>> pipeline(lambda x: x.explode(lambda e: e.items), x=Order)(orders)
        ['pen', 'ink']
        >>> beside = pipeline(lambda x: x.explode(lambda e: e.items, beside=True), x=Order)
        >>> [(order.id, item) for order, item in beside(orders)]
        [(1, 'pen'), (1, 'ink')]
        >>> pipeline(lambda x: x.explode(lambda v: [v, -v]), x=int)([1, 2])
        [1, -1, 2, -2]
        """
        wanted = ListType(type_of(to)) if to is not None else None
        fn = _function("explode", id, f, (self.type,), to=wanted, many=True)
        if not isinstance(fn.result, ListType):
            _mismatch("explode", id, "its function to return a list of events", "a list", fn.result)
        item = fn.result.item
        return _make("explode", (self,), TupleType((self.type, item)) if beside else item, fn=fn, id=id)

    def key_by(
        self, f: Callable[[T], Any] | str | Sequence[str], *, to: Any = None, id: str | None = None
    ) -> Stream[T]:
        """The same events; every stateful processor after it keeps one state for each key: what ``f`` gives, or a field
        by its name, or several.

        >>> from pellucid import pipeline
        >>> def per_parity(x):
        ...     return x.key_by(lambda v: v % 2).cumulate(lambda n, v: n + 1, start=0)
        >>> pipeline(per_parity, x=int)([1, 3, 2, 5])
        [1, 2, 1, 3]
        >>> from typing import NamedTuple
        >>> class Visit(NamedTuple):
        ...     user: str
        ...     page: str
        >>> visits = pipeline(lambda x: x.key_by("user").cumulate(lambda n, v: n + 1, start=0), x=Visit)
        >>> visits([Visit("ada", "/"), Visit("bob", "/"), Visit("ada", "/faq")])
        [1, 1, 2]
        """
        fn = _function("key_by", id, by_name("key_by", id, self, f), (self.type,), to=to)
        if fn.result is None or any(kind == FLOAT for _, kind in fn.result.leaves()):
            raise PipelineError(f"{_title('key_by', id)}: a key must not contain a float, found {fn.result}")
        if fn.result.width == 0:
            raise PipelineError(f"{_title('key_by', id)}: every event has the same key, {fn.result}: leave key_by out")
        if list_in(fn.result) is not None:
            raise PipelineError(
                f"{_title('key_by', id)}: a key must not contain a list, found {fn.result}: take an element of it, or "
                "explode it first"
            )
        return _make("key_by", (self,), self.type, fn=fn, id=id)

    def forget(self, *, after: int, id: str | None = None) -> Stream[T]:
        """Right after ``key_by``: give up what is kept for a key of which the last ``after`` events were not.

        Its next event starts again, as that of a key which has never been; so no more than ``after`` keys are held.
        Events are counted in the stream that ``key_by`` reads, of all keys together.

        >>> from pellucid import pipeline
        >>> def visits(user):
        ...     return user.key_by(lambda u: u).forget(after=2).cumulate(lambda n, u: n + 1, start=0)
        >>> pipeline(visits, user=str)(["ada", "bob", "ada", "bob", "cy", "ada", "bob"])
        [1, 1, 2, 2, 1, 1, 1]
        """
        step = self._step
        if step.kind != "key_by":
            raise PipelineError(
                f"{_title('forget', id)}: comes right after key_by, as in x.key_by(f).forget(after=1000): it says "
                "after how many events of x a key is given up"
            )
        if isinstance(after, bool) or not isinstance(after, int) or not 1 <= after <= 2**60:
            raise PipelineError(
                f"{_title('forget', id)}: after= is a number of events, at least 1, found {type(after).__name__} "
                f"{after!r}"
            )
        if id is None and step.id is not None:  # the step that it takes the place of
            made = Step("forget", step.inputs, step.type, step.fn, after, id=step.id, where=caller())
            return Stream(made)
        return _make("forget", step.inputs, step.type, fn=step.fn, k=after, id=id)

    # ------------------------------------------------------------ event time
    # What each of these means, to the last edge, is in docs/how-to-time.md and engine/timed/literal.py; what they
    # check and make is in graph.timed.

    def at(
        self,
        f: Callable[[T], Any] | str,
        *,
        lateness: Any = 0,
        idle: Any = None,
        to: Any = None,
        id: str | None = None,
    ) -> Stream[T]:
        """The same events, each with its time: what ``f`` gives, or a field by its name.

        A time is a ``datetime``, or an ``int`` that counts anything.  ``lateness`` says how far behind the greatest
        time seen an event may come: a window is complete when no event of it can come any more.  ``idle``: after so
        long a silence of this stream it holds others back no longer (only where a run has a clock on the wall; a run
        over data that ends has none).

        >>> from pellucid import pipeline
        >>> def per_ten(x):
        ...     return x.at(lambda v: v, lateness=5).tumbling(10, lambda w: w.cumulate(lambda n, v: n + 1, start=0))
        >>> pipeline(per_ten, x=int)([3, 12, 8, 25])
        [Windowed(start=0, end=10, value=2), Windowed(start=10, end=20, value=1), Windowed(start=20, end=30, value=1)]
        """
        from pellucid.internal.graph.timed import make_at

        return make_at(self, f, lateness, idle, to, id)

    def tumbling(
        self,
        size: Any,
        sub: Callable[[Stream[T]], Stream[U]],
        *,
        origin: Any = None,
        tz: Any = None,
        late: str = "fail",
        allowed_lateness: Any = 0,
        early: Any = None,
        id: str | None = None,
    ) -> Stream[Windowed[Any, U]]:
        """Windows of time, one after the other: the last event that ``sub``, a pipeline, emits over each.

        A window holds the times from its start to before its end; starts are ``origin`` (1970-01-01, or 0) and every
        ``size`` from there.  It comes out once, when it is complete.  ``sub`` sees its events by time, whatever order
        they came in.  ``tz``, with whole days: days of that time zone, of 23, 24 or 25 hours.  An event whose window is
        complete already is an error, goes to ``.late`` if that is used, or is gone with ``late="drop"``.

        ``allowed_lateness``: for so long after its end a window still takes events, and its answer comes again,
        corrected; only then they are late.  ``early``: what a window has so far comes from the stream ``.early``, with
        ``"event"`` after each batch that brought it events, with a length of time when the clock passes a multiple of
        it.

        >>> from datetime import datetime, timedelta
        >>> from pellucid import pipeline
        >>> def total(x):
        ...     return x.cumulate(lambda t, paid: t + paid[1], start=0.0)
        >>> def hourly(x):
        ...     windows = x.at(lambda paid: paid[0]).tumbling(timedelta(hours=1), total)
        ...     return windows.map(lambda w: (w.start.hour, w.value))
        >>> paid = [(datetime(2024, 5, 1, 9, 50), 20.0), (datetime(2024, 5, 1, 10, 5), 5.0),
        ...         (datetime(2024, 5, 1, 9, 20), 1.5)]
        >>> pipeline(hourly, x=tuple[datetime, float])(paid)
        [(9, 21.5), (10, 5.0)]
        """
        from pellucid.internal.graph.timed import make_fixed

        return make_fixed("tumbling", self, size, size, sub, origin, tz, late, allowed_lateness, early, id)

    def sliding(
        self,
        size: Any,
        every: Any,
        sub: Callable[[Stream[T]], Stream[U]],
        *,
        origin: Any = None,
        tz: Any = None,
        late: str = "fail",
        allowed_lateness: Any = 0,
        early: Any = None,
        id: str | None = None,
    ) -> Stream[Windowed[Any, U]]:
        """Windows of time that overlap: one of ``size`` begins ``every`` so often; otherwise as `tumbling`.

        An event is late, once, if one of its windows is complete; with ``late="drop"``, or ``.late``, it still counts
        in those that are open.

        >>> from pellucid import pipeline
        >>> def moving(x):
        ...     return x.at(lambda v: v).sliding(10, 5, lambda w: w.cumulate(lambda n, v: n + 1, start=0))
        >>> [(w.start, w.value) for w in pipeline(moving, x=int)([7, 12, 14])]
        [(0, 1), (5, 3), (10, 2)]
        """
        from pellucid.internal.graph.timed import make_fixed

        return make_fixed("sliding", self, size, every, sub, origin, tz, late, allowed_lateness, early, id)

    def session(
        self,
        gap: Any,
        sub: Callable[[Stream[T]], Stream[U]],
        *,
        late: str = "fail",
        allowed_lateness: Any = None,
        early: Any = None,
        id: str | None = None,
    ) -> Stream[Windowed[Any, U]]:
        """Sessions: events that are no further apart than ``gap`` are together; otherwise as `tumbling`.

        A session starts with its first event, and ends one unit of time (a microsecond) after the last time at which an
        event would still have belonged to it.  ``allowed_lateness`` is refused: a late event could make one session of
        two that were emitted.

        >>> from pellucid import pipeline
        >>> def visits(x):
        ...     return x.at(lambda v: v).session(5, lambda w: w.cumulate(lambda n, v: n + 1, start=0))
        >>> pipeline(visits, x=int)([1, 6, 20])
        [Windowed(start=1, end=12, value=2), Windowed(start=20, end=26, value=1)]
        """
        from pellucid.internal.graph.timed import make_session

        return make_session(self, gap, sub, late, allowed_lateness, early, id)

    def dedup(
        self,
        *,
        within: Any,
        by: Callable[[T], Any] | str | None = None,
        late: str = "fail",
        to: Any = None,
        id: str | None = None,
    ) -> Stream[T]:
        """The first of like events: kept is one if no kept one that is like it is at most ``within`` older.

        First in event time, whatever order they came in.  Alike are events for which ``by`` (a function or a field's
        name) gives the same; if it is not said, equal ones.  An event comes out when no earlier one can come any more.

        >>> from pellucid import pipeline
        >>> once = pipeline(lambda x: x.at(lambda v: v).dedup(by=lambda v: v % 2, within=4), x=int)
        >>> once([1, 3, 2, 5, 7])
        [1, 2, 7]
        """
        from pellucid.internal.graph.timed import make_dedup

        return make_dedup(self, by, within, late, to, id)

    def each_round(self, sub: Callable[[Stream[T]], Stream[U]], *, id: str | None = None) -> Stream[U]:
        """In the body of a loop: the last event that ``sub``, a pipeline, emits over the events of each round, by
        key.

        ``sub`` begins afresh with every round and sees its events in the one order of events, so that a sum of floats
        is the same whatever order they came in.

        >>> from pellucid import iterate, pipeline
        >>> def total(x):
        ...     return x.cumulate(lambda t, v: t + v, start=0)
        >>> def paired(x):
        ...     return x.key_by(lambda v: v // 2).each_round(total)
        >>> pipeline(lambda x: iterate(x.at(lambda v: 0), paired, rounds=1), x=int)([2, 3, 4, 5, 9])
        [5, 9, 9]
        """
        from pellucid.internal.graph.timed import make_each_round

        return make_each_round(self, sub, id)

    @property
    def late(self) -> Stream[Late[Any, Any]]:
        """Of a window, a join, dedup or a task with ``on_time``: the events that came too late for it, as `Late`; of
        other streams the field that is called so.

        A pipeline that uses it says what becomes of them.  Their times are over, so the stream has none: say ``.at``
        anew, if need be.  In a run over data that ends nothing is late; push by push it can be.

        >>> from pellucid import pipeline
        >>> def both(x):
        ...     w = x.at(lambda v: v).tumbling(10, lambda w: w.cumulate(lambda n, v: n + 1, start=0))
        ...     return w, w.late
        >>> pipeline(both, x=int).trace([3, 12, 4])[2]["out2"]
        [Late(value=4, time=4, clock=12, start=0, end=10)]
        """
        from pellucid.internal.graph.timed import make_late

        made = make_late(self)
        if made is None:
            raise AttributeError("late")  # then Stream.__getattr__ looks for a field
        return made

    @property
    def early(self) -> Stream[Windowed[Any, Any]]:
        """Of windows with ``early=``: the answers that they have so far, as `Windowed`; of other streams the
        field that is called so.

        The windows' own stream stays as it is: an answer comes there when it is complete.  What is not complete belongs
        to no time, so this stream has none.

        >>> from pellucid import pipeline
        >>> def both(x):
        ...     w = x.at(lambda v: v).tumbling(10, lambda w: w.cumulate(lambda n, v: n + 1, start=0), early="event")
        ...     return {"counts": w, "so far": w.early}
        >>> for out in pipeline(both, x=int).trace([3, 4, 12]):
        ...     print([tuple(w) for w in out["counts"]], [tuple(w) for w in out["so far"]])
        [] [(0, 10, 1)]
        [] [(0, 10, 2)]
        [(0, 10, 2)] [(10, 20, 1)]
        [(10, 20, 1)] []
        """
        from pellucid.internal.graph.timed import make_early

        made = make_early(self)
        if made is None:
            raise AttributeError("early")  # then Stream.__getattr__ looks for a field
        return made

    # ------------------------------------------------------------ operators: sugar for map and apply

    def _with(self, op: Callable[[Any, Any], Any], other: Any, name: str, swapped: bool = False) -> Stream[Any]:
        if isinstance(other, Stream):
            return apply(_named(lambda a, b: op(a, b), name), self, other)
        if other is None or type_of_value(other) is None:
            raise TypeMismatch(f"cannot use {name!r} between a stream of {self.type} and {other!r}")
        if swapped:
            return self.map(_named(lambda v: op(other, v), f"{other} {name}"))
        return self.map(_named(lambda v: op(v, other), f"{name} {other}"))

    __add__, __radd__ = _operator(operator.add, "+")
    __sub__, __rsub__ = _operator(operator.sub, "-")
    __mul__, __rmul__ = _operator(operator.mul, "*")
    __truediv__, __rtruediv__ = _operator(operator.truediv, "/")
    __floordiv__, __rfloordiv__ = _operator(operator.floordiv, "//")
    __mod__, __rmod__ = _operator(operator.mod, "%")
    __and__, __rand__ = _operator(operator.and_, "&")
    __or__, __ror__ = _operator(operator.or_, "|")
    __xor__, __rxor__ = _operator(operator.xor, "^")

    def __lt__(self, other: Any) -> Stream[bool]:
        return self._with(operator.lt, other, "<")

    def __le__(self, other: Any) -> Stream[bool]:
        return self._with(operator.le, other, "<=")

    def __gt__(self, other: Any) -> Stream[bool]:
        return self._with(operator.gt, other, ">")

    def __ge__(self, other: Any) -> Stream[bool]:
        return self._with(operator.ge, other, ">=")

    def __eq__(self, other: Any) -> Stream[bool]:  # type: ignore[override]
        return self._with(operator.eq, other, "==")

    def __ne__(self, other: Any) -> Stream[bool]:  # type: ignore[override]
        return self._with(operator.ne, other, "!=")

    def __neg__(self) -> Stream[Any]:
        return self.map(_named(lambda v: -v, "-"))

    def __abs__(self) -> Stream[Any]:
        return self.map(_named(lambda v: abs(v), "abs"))

    def __invert__(self) -> Stream[Any]:
        if self.type == BOOL:
            return self.map(_named(lambda v: not v, "not"))
        return self.map(_named(lambda v: ~v, "~"))

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Stream[Any]:
        """``trades.price``: the stream of a field of a stream of records."""
        t = self._step.type
        if isinstance(t, RecordType) and name in dict(t.fields):
            return self.map(_named(lambda v: getattr(v, name), f".{name}"))
        if name.startswith("__"):
            raise AttributeError(name)
        own = list(dict(t.fields)) if isinstance(t, RecordType) else []
        if name == "late":
            raise AttributeError(
                f"a stream of {t} has no late events: late goes with tumbling, sliding, session, join, as_of, lookup, "
                "dedup and task with on_time=, as in w = x.at(…).tumbling(…), w.late"
            )
        if name == "early":
            raise AttributeError(
                f"a stream of {t} has no early answers: early goes with windows that have early=, as in w = "
                "x.at(…).tumbling(…, early='event'), w.early"
            )
        if name in ("apply", "merge", "iterate"):
            raise AttributeError(
                f"a stream has no {name!r}: it is a function, from pellucid import {name}, as in {_AS_IN[name]}"
            )
        fields = f"; its events have {', '.join(own)}" if own else ""
        known = [*own, *(n for n in dir(Stream) if not n.startswith("_"))]
        raise AttributeError(f"a stream of {t} has no processor or field {name!r}{fields}{nearest(name, known)}")

    def __bool__(self) -> NoReturn:
        raise PipelineError(
            f"{caller()}: a stream is not true or false: use x.filter(…) to choose events, and & | ~ on Boolean streams"
        )

    def __iter__(self) -> NoReturn:
        raise PipelineError(
            f"{caller()}: a stream cannot be looped over while the pipeline is built: use its processors"
        )

    def __repr__(self) -> str:
        return f"<Stream[{self.type}] of {self._step.id or self._step.kind}>"


# ---------------------------------------------------------------- functions of several streams


def apply(f: Callable[..., U], *streams: Stream[Any], to: Any = None, id: str | None = None) -> Stream[U]:
    """A function of one event from each stream, the i-th with the i-th: queues hold what waits.

    >>> from pellucid import pipeline
    >>> pipeline(lambda x, y: apply(lambda a, b: a - b, x, y), x=int, y=int)([5, 6], [1, 2])
    [4, 4]
    """
    _need_streams("apply", id, streams)
    fn = _function("apply", id, f, tuple(s.type for s in streams), to=to)
    return _make("apply", streams, fn.result, fn=fn, id=id)


def merge(*streams: Stream[T], id: str | None = None) -> Stream[T]:
    """The events of all streams, as they come; of those of one push, in the order of the arguments.

    >>> from pellucid import pipeline
    >>> pipeline(lambda x, y: merge(x, y), x=int, y=int)([1, 2], [10, 20])
    [1, 10, 2, 20]
    """
    _need_streams("merge", id, streams)
    carried = streams[0].type
    for s in streams[1:]:
        both = with_none(carried, s.type)
        if both is None:
            _mismatch("merge", id, "all its inputs to carry the same type", carried, s.type)
        carried = both
    return _make("merge", tuple(widened(s, carried) for s in streams), carried, id=id)


def widened(stream: Stream[Any], wanted: Type) -> Stream[Any]:
    """A stream of ``T`` as one of ``T | None`` where that is wanted: a step that hands each event on; else as it is.

    >>> from pellucid import pipeline
    >>> def known_or_not(x, y):
    ...     return merge(x, y)  # a value is one that might have been missing
    >>> pipeline(known_or_not, x=int, y=int | None)([1, 2], [None, 20])
    [1, None, 2, 20]
    """
    if stream.type == wanted or with_none(stream.type, wanted) != wanted:
        return stream
    return stream.map(lambda v: v, to=wanted)


# ---------------------------------------------------------------- helpers


def _named(f: Any, name: str) -> Any:
    f.__name__ = name
    return f


def _title(kind: str, id: str | None) -> str:
    where = caller()
    return f"step {id!r} ({kind}, {where})" if id else f"{kind} ({where})"


def _mismatch(kind: str, id: str | None, wanted: str, expected: Any, found: Any) -> NoReturn:
    raise TypeMismatch(f"{_title(kind, id)} wants {wanted}: expected {expected}, found {found}")


def _function(
    kind: str,
    id: str | None,
    f: Any,
    params: tuple[Type | None, ...],
    *,
    to: Any = None,
    exact: bool = True,
    task: bool = False,
    truth: bool = False,
    many: bool = False,
    asks: Type | None = None,
) -> Function:
    try:
        wanted = type_of(to) if to is not None else None
        return Function.make(f, params, task=task, truth=truth, to=wanted, exact=exact, many=many, asks=asks)
    except PipelineError as error:
        raise type(error)(f"{_title(kind, id)}: {error}") from None


def by_name(kind: str, id: str | None, x: Stream[Any], f: Any) -> Callable[[Any], Any]:
    """The function that gives a field, or several, if they are given by their names."""
    names = [f] if isinstance(f, str) else list(f) if isinstance(f, (list, tuple)) else None
    if names is None:
        return f  # type: ignore[no-any-return]
    known = list(dict(x.type.fields)) if isinstance(x.type, RecordType) else []
    for name in names:
        if not isinstance(name, str) or name not in known:
            what = f"its events are {x.type}"
            if known:
                what = f"its events have {', '.join(known)}{nearest(str(name), known)}"
            raise PipelineError(f"{_title(kind, id)}: the events of this stream have no field {name!r}: {what}")
    if not names:
        raise PipelineError(f"{_title(kind, id)}: no field is named: name one, or give a function")
    first, shown = names[0], ", ".join(f".{name}" for name in names)
    one = lambda event: getattr(event, first)
    several = lambda event: tuple([getattr(event, name) for name in names])
    made: Callable[[Any], Any] = _named(one if len(names) == 1 else several, shown)
    return made


def _unsettled(t: Type) -> bool:
    return t == NOTHING or (isinstance(t, TupleType) and any(map(_unsettled, t.items)))


def _start_type(kind: str, id: str | None, start: Any) -> Type:
    t = type_of_value(start)
    if t is None:
        raise TypeMismatch(
            f"{_title(kind, id)}: the start value {start!r} is a {type(start).__name__}, which cannot be an event; "
            "use a scalar, an enum, a record or a tuple of those, or a task, whose state may be anything"
        )
    return t


def _count(kind: str, id: str | None, k: Any, least: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int):
        raise TypeMismatch(f"{_title(kind, id)}: k must be an int, found {type(k).__name__} {k!r}")
    if k < least:
        raise PipelineError(f"{_title(kind, id)}: k must be at least {least}, found {k}")
    return k


def _need_streams(kind: str, id: str | None, streams: tuple[Any, ...]) -> None:
    if not streams:
        raise PipelineError(f"{_title(kind, id)} needs at least one stream")
    for s in streams:
        if not isinstance(s, Stream):
            raise TypeMismatch(f"{_title(kind, id)} wants streams, found {type(s).__name__} {s!r}")


def _make(kind: str, inputs: tuple[Any, ...], t: Type | None, **more: Any) -> Stream[Any]:
    id = more.pop("id", None)
    if id is not None and (not isinstance(id, str) or not id or not _good_id(id)):
        raise PipelineError(f"{kind} ({caller()}): an id is letters, digits, '-' and '_', found {id!r}")
    assert t is not None
    if t.width == 0:
        raise TypeMismatch(
            f"{_title(kind, id)}: it emits {t} and nothing else, which is no event: say what else it may be, by an "
            "annotation of its function or as in to=int | None"
        )
    names = scope.get()[1:]
    return Stream(Step(kind, inputs, t, id="/".join([*names, id]) if id else None, where=caller(), **more))


def _good_id(id: str) -> bool:
    return all(ch.isalnum() or ch in "-_" for ch in id) and not id[0].isdigit()
