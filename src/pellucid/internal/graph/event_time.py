"""The processors of event time, as methods of `Stream`: what an event's time is, windows over it, and dedup.

What each of them means, to the last edge, is in ``docs/how-to-time.md`` and in ``engine/timed/literal.py``.  What they
check and make is in `graph.timed`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from pellucid.internal.graph.stream import Stream
    from pellucid.internal.graph.timing import Late, Windowed

T = TypeVar("T")
U = TypeVar("U")


class EventTime(Generic[T]):
    """What a stream can do by the times of its events."""

    __slots__ = ()

    def at(
        self: Any,
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
        self: Any,
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
        """Windows of time, one after the other: the last event that ``sub``, a pipeline, puts out over each.

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
        self: Any,
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
        self: Any,
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
        two that were put out.

        >>> from pellucid import pipeline
        >>> def visits(x):
        ...     return x.at(lambda v: v).session(5, lambda w: w.cumulate(lambda n, v: n + 1, start=0))
        >>> pipeline(visits, x=int)([1, 6, 20])
        [Windowed(start=1, end=12, value=2), Windowed(start=20, end=26, value=1)]
        """
        from pellucid.internal.graph.timed import make_session

        return make_session(self, gap, sub, late, allowed_lateness, early, id)

    def dedup(
        self: Any,
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

    def each_round(self: Any, sub: Callable[[Stream[T]], Stream[U]], *, id: str | None = None) -> Stream[U]:
        """In the body of a loop: the last event that ``sub``, a pipeline, puts out over the events of each round, by
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
    def late(self: Any) -> Stream[Late[Any, Any]]:
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
    def early(self: Any) -> Stream[Windowed[Any, Any]]:
        """Of windows that are told ``early=``: the answers that they have so far, as `Windowed`; of other streams the
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
