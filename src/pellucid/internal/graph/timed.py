"""Steps that work by event time: what is asked of them is checked here, and made.

>>> from pellucid import pipeline
>>> pipeline(lambda x: x.at(lambda v: v).sliding(5, 9, lambda w: w), x=int)
Traceback (most recent call last):
pellucid.errors.PipelineError: sliding (...): every (9) is greater than size (5), which leaves events in no window: make
it at most size

The task by event time, which is notified of the times that it asks for: what is asked of it is checked here, and made.

It is what *Timely Dataflow: A Model* (Abadi and Isard, 2015) calls a node: messages and notifications change its state,
emit messages, and ask for notifications.  A request is an element of a set: a node that asks twice for a time is
notified once.  Condition 1 of the paper, that no node asks for a time before the present one, is kept here by failing.
The paper lets a node ask, when it is notified of a time, for the same time again; here that is refused as well, for
the time is complete then, and notified of once.

>>> from pellucid import pipeline
>>> pipeline(lambda x: x.task(lambda s, v: (s, [], [v]), 0, on_time=lambda s, t: (s, [t], [])), x=int)
Traceback (most recent call last):
pellucid.errors.PipelineError: task (...): on_time= needs the times of events: say first what an event's time is, as in
x.at(lambda e: e.when, lateness=…)

Loops: what goes through a pipeline again and again, until nothing changes or to a bound.

What a loop means is in ``docs/how-to-loops.md`` and, word by word, in ``engine/timed/literal.py``.  Here its body is
built, as a graph of its own, and what is asked of it is checked.

The body's graph has one source, ``in``, and the outputs ``again`` and ``out``, or ``again`` alone where what is in the
loop when it ends leaves it.  If a step of it waits for the end of a round (`Stream.each_round`, a loop inside), rounds
are its times: events are pairs of a round and an event then, a step ``at`` says so, and its clock is beyond a round as
soon as that is over.  So a body is a pipeline like any other, and whatever runs pipelines by event time runs it.

>>> from pellucid import iterate, pipeline
>>> iterate(5, lambda x: x)
Traceback (most recent call last):
pellucid.errors.TypeMismatch: iterate (...) wants streams, found int 5
"""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from pellucid.errors import PipelineError, TypeMismatch
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.tracing.mistakes import refuse_undone, refuse_undone_value
from pellucid.internal.expr.types import (
    DATE,
    FLOAT,
    INSTANT,
    INT,
    NOTHING,
    TupleType,
    Type,
    conform,
    list_in,
    type_of,
    type_of_value,
)
from pellucid.internal.expr.types import (
    join as joined_type,
)
from pellucid.internal.expr.types.rich import DAY, EPOCH, TICK
from pellucid.internal.graph.build import _running, assemble, instantiate, source, sub_graph
from pellucid.internal.graph.model import Graph, forgetting
from pellucid.internal.graph.processors import PROCESSORS
from pellucid.internal.graph.stream import (
    LoopBody,
    Step,
    Stream,
    _function,
    _make,
    _mismatch,
    _need_streams,
    _title,
    body_of,
    by_name,
    inside_of,
    scope,
    widened,
)
from pellucid.internal.graph.timing import (
    ROUND,
    Timing,
    late_type,
    length,
    maybe,
    moment,
    shown_length,
    time_type,
    windowed,
)

LATE = ("fail", "drop")
#: In so many windows one event may be: a day that starts again every second is.
MOST_WINDOWS = 100_000


def make_at(x: Stream[Any], f: Any, lateness: Any, idle: Any, to: Any, id: str | None) -> Stream[Any]:
    """The step that says what an event's time is."""
    fn = _function("at", id, by_name("at", id, x, f), (x.type,), to=to)
    clock = time_type(fn.result)
    if clock is None:
        hint = "; make one of it, as in datetime(d.year, d.month, d.day)" if fn.result == DATE else ""
        raise TypeMismatch(
            f"{_title('at', id)}: an event's time is a datetime (or an int that counts anything), found "
            f"{fn.result}{hint}"
        )
    late = 0 if isinstance(lateness, int) and lateness == 0 else _length("at", id, clock, lateness, "lateness", least=0)
    silence = None
    if idle is not None:
        silence = _length("at", id, INSTANT, idle, "idle")  # wall time, whatever the times of the events are
    return _make("at", (x,), x.type, fn=fn, id=id, timing=Timing(times=clock, lateness=late, idle=silence))


def make_fixed(
    kind: str,
    x: Stream[Any],
    size: Any,
    every: Any,
    sub: Any,
    origin: Any,
    tz: Any,
    late: str,
    allowed: Any,
    early: Any,
    id: str | None,
) -> Stream[Any]:
    """Windows that begin at fixed times."""
    clock = _clock(kind, id, x)
    long = _length(kind, id, clock, size, "size")
    step = _length(kind, id, clock, every, "every" if kind == "sliding" else "size")
    if step > long:
        _wrong(
            kind,
            id,
            f"every ({shown_length(clock, step)}) is greater than size ({shown_length(clock, long)}), which leaves "
            "events in no window: make it at most size",
        )
    if -(-long // step) > MOST_WINDOWS:
        _wrong(
            kind,
            id,
            f"each event would be in {-(-long // step):,} windows (size {shown_length(clock, long)}, every "
            f"{shown_length(clock, step)}), and more than {MOST_WINDOWS:,} are too many: make every greater, or size "
            "smaller",
        )
    zone = _zone(kind, id, clock, tz, long, step)
    first = _origin(kind, id, clock, origin, zone)
    nothing = isinstance(allowed, int) and allowed == 0
    timing = Timing(
        times=clock,
        size=long,
        every=step,
        origin=first,
        tz=zone,
        late=_late(kind, id, late),
        allowed=0 if nothing else _length(kind, id, clock, allowed, "allowed_lateness", least=0),
        early=_early(kind, id, clock, early),
    )
    return _windows(kind, x, clock, sub, timing, id)


def make_session(
    x: Stream[Any], gap: Any, sub: Any, late: str, allowed: Any, early: Any, id: str | None
) -> Stream[Any]:
    """Windows of events that are near each other."""
    clock = _clock("session", id, x)
    if allowed is not None:
        _wrong(
            "session",
            id,
            "allowed_lateness= does not go with sessions: a late event could make one session of two that were emitted "
            "already, which no correction of either would say; say lateness= in at, with which they wait for it",
        )
    timing = Timing(
        times=clock,
        gap=_length("session", id, clock, gap, "gap"),
        late=_late("session", id, late),
        early=_early("session", id, clock, early),
    )
    return _windows("session", x, clock, sub, timing, id)


def _early(kind: str, id: str | None, clock: Type, early: Any) -> int | str | None:
    """When running answers come."""
    if early is None:
        return None
    if isinstance(early, str) and early == "event":
        return "event"
    if isinstance(early, str):
        _wrong(kind, id, f"early={early!r}: expected 'event', or a length of time after which an answer so far comes")
    return _length(kind, id, clock, early, "early")


def _windows(kind: str, x: Stream[Any], clock: Type, sub: Any, timing: Timing, id: str | None) -> Stream[Any]:
    from pellucid.internal.graph.build import sub_graph

    graph = sub_graph(sub, x.type, _title(kind, id))
    value = graph.nodes[graph.outputs[0][1]].type
    return _make(kind, (x,), windowed(clock, value), sub=graph, id=id, timing=timing)


def make_dedup(x: Stream[Any], by: Any, within: Any, late: str, to: Any, id: str | None) -> Stream[Any]:
    """The first of like events."""
    clock = _clock("dedup", id, x)
    fn = _function("dedup", id, by_name("dedup", id, x, by if by is not None else _same), (x.type,), to=to)
    if fn.result is None or any(kind == FLOAT for _, kind in fn.result.leaves()):
        _wrong("dedup", id, f"what makes events alike must not contain a float, found {fn.result}: say by=…")
    if list_in(fn.result) is not None:
        _wrong("dedup", id, f"what makes events alike must not contain a list, found {fn.result}: say by=…")
    timing = Timing(
        times=clock, within=_length("dedup", id, clock, within, "within", least=0), late=_late("dedup", id, late)
    )
    return _make("dedup", (x,), x.type, fn=fn, id=id, timing=timing)


def _same(event: Any) -> Any:
    return event


def make_late(w: Stream[Any]) -> Stream[Any] | None:
    """The events that came too late for the step that makes a stream; None if nothing can be late there."""
    step = w._step
    if PROCESSORS[step.kind].judges:
        if step.clock is None:
            raise PipelineError(
                f"{_title('late', None)}: the events of this stream have no times, so none comes too late: leave .late "
                "out, or say what an event's time is, with at"
            )
        assert step.timing is not None
        if step.timing.late == "drop":
            raise PipelineError(
                f"{_title('late', None)}: its late events are dropped (late='drop' is given there, {step.where}), and "
                "they are used here: leave one out"
            )
        return _make("late", (w,), late_type(step.clock, judged_type(step)))
    return None


def make_early(w: Stream[Any]) -> Stream[Any] | None:
    """The answers that windows have so far; None if the stream is not one of windows."""
    step = w._step
    if step.timing is None or (step.timing.size is None and step.timing.gap is None):
        return None
    if step.timing.early is None:
        raise PipelineError(
            f"{_title('early', None)}: the windows ({step.kind}, {step.where}) have no early=, which says when to emit "
            "what they have so far: write early='event' there, or a length of time"
        )
    return _make("early", (w,), step.type)


def judged_type(step: Step) -> Type:
    """The type of an event that came too late for a step, which has its inputs' streams: of one with two inputs it is a
    pair, of which the other part is missing."""
    kinds = [s.type for s in step.inputs]
    return kinds[0] if len(kinds) == 1 else TupleType(tuple(map(maybe, kinds)))


# ---------------------------------------------------------------- functions of two streams


def join(
    a: Stream[Any], b: Stream[Any], *, within: Any = None, how: str = "inner", late: str = "fail", id: str | None = None
) -> Stream[Any]:
    """Pairs ``(a, b)`` of events, of one key, whose times are within an interval of each other.

    ``within=w`` means that ``b`` is at most ``w`` before or after ``a``; ``within=(low, high)`` that ``low`` <= time of
    b - time of a <= ``high``.  A pair comes out when its second event does.  With ``how="left"`` an ``a`` that finds no
    partner comes out with None once none can come any more, with ``"full"`` a ``b`` as well (of a record that is
    missing each field is None).

    >>> from pellucid import pipeline
    >>> def paired(x, y):
    ...     return join(x.at(lambda v: v), y.at(lambda v: v), within=2, how="left")
    >>> pipeline(paired, x=int, y=int)([1, 10], [3, 20])
    [(1, 3), (10, None)]
    """
    clock = _two("join", id, a, b)
    if how not in ("inner", "left", "full"):
        _wrong("join", id, f"how must be 'inner', 'left' or 'full', found {how!r}")
    if within is None:
        _wrong(
            "join",
            id,
            "within= is missing: without an interval every event could still find a partner, so that no lateness "
            "bounds what is kept; say how far apart partners may be",
        )
    if isinstance(within, tuple):
        if len(within) != 2:
            _wrong("join", id, f"within must be a length of time or a pair (low, high) of them, found {within!r}")
        least = -(2**63)
        low, high = (_length("join", id, clock, w, "within", least=least) for w in within)
        if low > high:
            found = f"({shown_length(clock, low)}, {shown_length(clock, high)})"
            _wrong("join", id, f"within=(low, high): low must be at most high, found {found}")
    else:
        high = _length("join", id, clock, within, "within", least=0)
        low = -high
    pair = TupleType((maybe(a.type) if how == "full" else a.type, maybe(b.type) if how in ("left", "full") else b.type))
    return _make(
        "join",
        (a, b),
        pair,
        id=id,
        timing=Timing(times=clock, low=low, high=high, how=how, late=_late("join", id, late)),
    )


def as_of(
    a: Stream[Any], b: Stream[Any], *, within: Any = None, how: str = "left", late: str = "fail", id: str | None = None
) -> Stream[Any]:
    """Each ``a`` beside the latest ``b`` of its key that is not after it, and at most ``within`` older.

    ``how="left"``: where there is none, None stands for it (of a record each field is None); ``"inner"``: such an ``a``
    is left out.  An ``a`` comes out when no ``b`` before it can come any more.

    >>> from pellucid import pipeline
    >>> def priced(x, y):
    ...     return as_of(x.at(lambda v: v), y.at(lambda v: v), within=5)
    >>> pipeline(priced, x=int, y=int)([4, 12], [3, 20])
    [(4, 3), (12, None)]
    """
    clock = _two("as_of", id, a, b)
    if how not in ("inner", "left"):
        _wrong("as_of", id, f"how must be 'inner' or 'left', found {how!r}")
    tolerance = None if within is None else _length("as_of", id, clock, within, "within", least=0)
    pair = TupleType((a.type, maybe(b.type) if how == "left" else b.type))
    timing = Timing(times=clock, within=tolerance, how=how, late=_late("as_of", id, late))
    return _make("as_of", (a, b), pair, id=id, timing=timing)


def lookup(x: Stream[Any], table: Stream[Any], *, late: str = "fail", id: str | None = None) -> Stream[Any]:
    """Each event beside what a table held at its time: ``table`` is the stream of the table's changes, of one key each.

    What holds is the latest change of the event's key that is not after it, however old; before the first one it is
    None (of a record each field is None).  A table changes rarely, and each event waits until no earlier change can
    come any more, so the table's ``at`` says ``idle=``: after such a silence it holds the stream back no longer.

    >>> from datetime import timedelta
    >>> from typing import NamedTuple
    >>> from pellucid import pipeline
    >>> class Price(NamedTuple):
    ...     time: int
    ...     item: str
    ...     cents: int
    >>> class Sale(NamedTuple):
    ...     time: int
    ...     item: str
    >>> def sold(sales, prices):
    ...     table = prices.at("time", idle=timedelta(minutes=1)).key_by(lambda p: p.item)
    ...     pairs = lookup(sales.at("time").key_by(lambda s: s.item), table)
    ...     return pairs.map(lambda pair: pair[1].cents)
    >>> sales = [Sale(3, "pen"), Sale(9, "pen")]
    >>> pipeline(sold, sales=Sale, prices=Price)(sales, [Price(1, "pen", 120), Price(5, "pen", 150)])
    [120, 150]
    """
    if not isinstance(table, Stream):
        _wrong(
            "lookup",
            id,
            f"the table must be the stream of its changes, found {type(table).__name__}; one that never changes is a "
            "dictionary that a function reads, as in x.map(lambda e: names[e.code])",
        )
    clock = _two("lookup", id, x, table)
    if x._step.key is None:
        _wrong("lookup", id, "a table is looked up by key: say key_by(…) on the stream and on the changes of the table")
    for step in _sources_of_time(table):
        assert step.timing is not None
        if step.timing.idle is None:
            _wrong(
                "lookup",
                id,
                "a table that rarely changes would hold the stream back, for an earlier change could still come: say "
                f"idle= where its times are said (at, {step.where}), as in .at(…, idle=timedelta(seconds=10))",
            )
    pair = TupleType((x.type, maybe(table.type)))
    return _make(
        "lookup", (x, table), pair, id=id, timing=Timing(times=clock, how="left", late=_late("lookup", id, late))
    )


def _sources_of_time(x: Stream[Any]) -> list[Step]:
    """The steps before a stream that say what an event's time is."""
    found, stack, seen = [], [x], {id(x)}
    while stack:
        step = stack.pop()._step
        if step.kind == "at":
            found.append(step)
            continue
        for s in step.inputs:
            if id(s) not in seen:
                seen.add(id(s))
                stack.append(s)
    return found


# ---------------------------------------------------------------- what is asked for


def _wrong(kind: str, id: str | None, what: str) -> NoReturn:
    raise PipelineError(f"{_title(kind, id)}: {what}")


def _clock(kind: str, id: str | None, x: Stream[Any]) -> Type:
    """The type of a stream's times; a stream that has none is refused where the step is made."""
    clock = x._step.clock
    if clock is None:
        _make(kind, (x,), x.type, id=id)  # refuses it, in the words of the one rule
    assert clock is not None
    return clock


def _two(kind: str, id: str | None, a: Any, b: Any) -> Type:
    _need_streams(kind, id, (a, b))
    if a._step.clock is None or a._step.clock != b._step.clock:
        _make(kind, (a, b), a.type, id=id)
    clock: Type = a._step.clock
    return clock


def _length(kind: str, id: str | None, clock: Type, given: Any, word: str, *, least: int = 1) -> int:
    try:
        return length(clock, given, word, least=least)
    except ValueError as error:
        _wrong(kind, id, str(error))


def _late(kind: str, id: str | None, late: Any) -> str:
    if late not in LATE:
        _wrong(
            kind,
            id,
            f"late={late!r}: expected 'fail', or 'drop' if events that come too late are to be gone; to have them, use "
            "the stream's .late",
        )
    return str(late)


def _zone(kind: str, id: str | None, clock: Type, tz: Any, size: int, every: int) -> str | None:
    """The name of a time zone whose days windows are made of."""
    if tz is None:
        return None
    if clock != INSTANT:
        what = "ints" if clock == INT else "datetimes without a time zone, whose days have 24 hours"
        _wrong(kind, id, f"tz= goes with times that are instants (Annotated[datetime, UTC]); these are {what}")
    name = getattr(tz, "key", tz)
    try:
        zoneinfo.ZoneInfo(name)
    except Exception:
        _wrong(kind, id, f"tz={tz!r} is no time zone: use a name such as 'Europe/Berlin'")
    for word, units in (("size", size), ("every", every)):
        if units % DAY:
            _wrong(
                kind,
                id,
                f"with tz= windows are whole days, and {word} is {shown_length(clock, units)}: use timedelta(days=n), "
                "or leave tz out: then windows are the same everywhere",
            )
    return str(name)


def _origin(kind: str, id: str | None, clock: Type, origin: Any, zone: str | None) -> int:
    """Where windows are counted from; in a time zone a day, as its midnight on the wall there."""
    if origin is None:
        return 0
    if zone is None:
        try:
            return moment(clock, origin, "origin")
        except ValueError as error:
            _wrong(kind, id, str(error))
    if isinstance(origin, dt.datetime):
        local = origin.astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None) if origin.tzinfo else origin
        if local != dt.datetime.combine(local.date(), dt.time()):
            _wrong(kind, id, f"with tz= origin is a day there, and {origin} is not its beginning: give a date")
        origin = local.date()
    if not isinstance(origin, dt.date):
        _wrong(kind, id, f"with tz= origin is a date, found {type(origin).__name__} {origin!r}")
    return int((dt.datetime.combine(origin, dt.time()) - EPOCH) // TICK)


#: So many times one after the other a key is notified of, without an event of its own between.
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
        emitted = _events(id, fn, told)
        if wider != state:
            state, event = wider, said
        elif emitted is None or all(g.event in (None, emitted) for g in (fn, told)):
            break
        else:
            event = emitted
    event = emitted or event
    if event is None:
        raise PipelineError(
            f"{_title('task', id)}: neither of its functions emits an event, so the stream has no type: pass to=…"
        )
    if fn.traced is not None and not fn.traced.times:
        raise PipelineError(
            f"{_title('task', id)}: its function never asks for a time, so on_time= would never be called: return the "
            "times to be notified of as its third result, or leave on_time= out"
        )
    start = conform(state, initial) if state is not None else initial
    timing = Timing(times=clock, late=_late("task", id, late))
    return _make("timers", (x,), event, fn=fn, on_time=told, start=start, state=state, id=id, timing=timing)


def _both(
    id: str | None, f: tuple[Any, Type], g: tuple[Any, Type], state: Type | None, event: Type | None, clock: Type
) -> tuple[Function, Function]:
    """Both functions, each with what it gets beside the state.  Where it is not known what one emits, it is what the
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
        joined = joined_type(wider, g.result)
        if joined is None:
            _mismatch("task", id, "its functions to return a state like the initial one", state, g.result)
        wider = joined
    return None if wider == NOTHING else wider


def _events(id: str | None, *functions: Function) -> Type | None:
    """The type of the events that both functions emit; None: neither does."""
    found: Type | None = None
    for g in functions:
        if g.event is not None:
            joined = g.event if found is None else joined_type(found, g.event)
            if joined is None:
                _mismatch("task", id, "both its functions to emit events of one type", found, g.event)
            found = joined
    return found


T = TypeVar("T")

#: So many rounds are enough for what ends, unless a loop says something else.
LIMIT = 10_000
#: No round has more events than this: what grows like that does not end.
MOST_EVENTS = 20_000_000

IN, AGAIN, OUT = "in", "again", "out"


def iterate(
    x: Stream[T],
    body: Callable[[Stream[T]], Any] | None = None,
    *,
    limit: int | None = None,
    rounds: int | None = None,
    late: str = "fail",
    id: str | None = None,
) -> Stream[Any]:
    """What goes round: the events of one time go through ``body``, a pipeline; what it emits goes in again.

    Events of one time are those of one push, or, where events have times (``at``), all of one complete time, in the one
    order of events, whatever order they came in.  The body's state lasts, from round to round and from time to time.

    A body that returns two streams ``(again, out)`` sends events round with the first and out of the loop with the
    second; the loop is over when nothing goes round any more.  A body that returns one stream is over when a round puts
    out what it took, in any order (or nothing); that leaves the loop.

    More than ``limit`` rounds (10,000 if neither is given) are an error that shows what still goes round.  ``rounds``
    says that the loop stops after so many: what is in it then leaves it, or, with ``(again, out)``, is gone.

    >>> from pellucid import iterate, pipeline
    >>> def halved(x):
    ...     return x.map(lambda n: n // 2 if n > 10 else n)
    >>> pipeline(lambda x: iterate(x, halved), x=int)([100, 7])
    [6, 7]
    >>> def collatz(x):
    ...     after = x.map(lambda n: n // 2 if n % 2 == 0 else 3 * n + 1)
    ...     return after.filter(lambda n: n > 1), after
    >>> pipeline(lambda x: iterate(x, collatz, limit=200), x=int)([6])
    [3, 10, 5, 16, 8, 4, 2, 1]
    >>> pipeline(lambda x: iterate(x, lambda n: n * 2, rounds=10), x=int)([1, 3])
    [1024, 3072]
    """
    _need_streams("iterate", id, (x,))
    title = _title("iterate", id)
    bound = _bound(title, limit, "limit")
    exact = _bound(title, rounds, "rounds")
    if bound is not None and exact is not None:
        raise PipelineError(
            f"{title}: limit= says that more rounds are an error, and rounds= that it stops after so many: leave one "
            "out"
        )
    if late not in LATE:
        raise PipelineError(f"{title}: late={late!r}: expected 'fail', or 'drop' if events that come too late are gone")
    graph = body_graph(body, x.type, title)
    timing = Timing(
        times=x._step.clock or INT, late=late, limit=bound or LIMIT if exact is None else None, rounds=exact
    )
    return _make("iterate", (x,), graph.nodes[graph.outputs[-1][1]].type, sub=graph, id=id, timing=timing)


def _bound(title: str, given: Any, word: str) -> int | None:
    """A number of rounds."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeMismatch(f"{title}: {word} is a number of rounds, found {type(given).__name__} {given!r}")
    if given < 1:
        raise PipelineError(f"{title}: {word} is a number of rounds, at least 1, found {given}")
    return given


def body_graph(body: Any, t: Type, title: str) -> Graph:
    """The graph of a loop's body over events of this type."""
    if not callable(body):
        raise PipelineError(
            f"{title}: the body must be a pipeline or a function of a stream, as in iterate(x, lambda x: x.map(…)), "
            f"found {body!r}"
        )
    refuse_undone(body, f"{title}: the body")
    name = str(getattr(body, "name", None) or getattr(body, "__name__", "body"))
    name = "body" if name == "<lambda>" else name
    pair = TupleType((INT, t))
    told = Timing(times=INT, lateness=-1, how=ROUND)  # when a round has been, its time is over
    tokens = scope.set(()), inside_of.set(""), body_of.set(LoopBody(title))  # ids inside stand on their own
    try:
        came = source(IN, pair)
        at = _make("at", (came,), pair, fn=_function("at", None, round_of, (pair,)), timing=told)
        event = _make("map", (at,), t, fn=_function("map", None, event_of, (pair,)))
        if hasattr(body, "__wrapped__"):  # a pipeline, which looks after itself
            result = body(event)
        else:
            with _running(body, name):
                result = body(event)
        refuse_undone_value(f"{title}: the body", result)
        outputs = _outputs(result, t, title)
        graph = assemble(name, [came], outputs, title)
        if forgets := forgetting(graph):
            raise PipelineError(
                f"{title}: {forgets.describe()} gives keys up by counting events, and how often an event goes round is "
                "not up to the stream: use key_by alone in the body"
            )
        if any(node.processor.timed for node in graph.nodes if node.kind != "at"):
            return graph
        plain = source(IN, t)  # nothing waits for the end of a round
        i, j = (next(n for n, node in enumerate(graph.nodes) if node.kind == kind) for kind in ("source", "at"))
        # The event of a pair is read by all that read the body's input: the source itself stands for it.
        k = next(n for n, node in enumerate(graph.nodes) if node.inputs == (j,))
        made = instantiate(graph, [plain], bypass={j: i, k: j})
        return assemble(name, [plain], made, title)
    finally:
        scope.reset(tokens[0])
        inside_of.reset(tokens[1])
        body_of.reset(tokens[2])


def _outputs(result: Any, t: Type, title: str) -> dict[str, Stream[Any]]:
    """What a body returned: what goes round, and what leaves the loop if that is something else."""
    streams = result if isinstance(result, tuple) else (result,)
    if len(streams) not in (1, 2) or not all(isinstance(s, Stream) for s in streams):
        raise PipelineError(
            f"{title}: its body must return a stream, or two, (again, out): what goes round, and what leaves the loop; "
            f"found {result!r}"
        )
    again = widened(streams[0], t)
    if again.type != t:
        raise TypeMismatch(
            f"{title}: what goes round goes into the body again, so it must be of the type that the body takes: "
            f"expected {t}, found {again.type}"
        )
    return {AGAIN: again, OUT: streams[1]} if len(streams) == 2 else {AGAIN: again}


def round_of(pair: Any) -> Any:
    """The round of an event in a body with times."""
    return pair[0]


def event_of(pair: Any) -> Any:
    """The event itself."""
    return pair[1]


def value_in(window: Any) -> Any:
    """What a round came to."""
    return window.value


def make_each_round(x: Stream[Any], sub: Any, id: str | None) -> Stream[Any]:
    """The last event of a sub-pipeline over the events of each round, by key."""
    title = _title("each_round", id)
    if body_of.get() is None or inside_of.get():
        raise PipelineError(
            f"{title} goes in the body of a loop, as in iterate(x, body) with def body(x): return x.each_round(total): "
            "elsewhere there are no rounds"
        )
    graph = sub_graph(sub, x.type, title)
    value = graph.nodes[graph.outputs[0][1]].type
    timing = Timing(times=INT, size=1, every=1, how=ROUND)
    made = _make("tumbling", (x,), windowed(INT, value), sub=graph, id=id, timing=timing)
    return made.map(value_in)


def pair_form(graph: Graph) -> bool:
    """Whether a body says itself what leaves the loop."""
    return len(graph.outputs) == 2
