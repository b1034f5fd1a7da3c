"""Event time while a pipeline is built: what is refused, in which words; types, times, keys, ids and digests."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, NamedTuple

import pytest

from pellucid import Late, PipelineError, Stream, TypeMismatch, Windowed, as_of, join, lookup, merge, pipeline
from pellucid.internal.expr.types import DATETIME, INT, type_of
from pellucid.internal.graph.timing import Timing

Instant = Annotated[datetime, UTC]


class Ping(NamedTuple):
    when: datetime
    instant: Instant
    day: date
    host: str
    load: float
    tags: list[str]
    late: int


def count(w: Stream[Any]) -> Stream[int]:
    return w.cumulate(lambda n, _: n + 1, start=0)


def same(event: Any) -> Any:
    return event


def timed(x: Stream[Any], **more: Any) -> Stream[Any]:
    return x.at(lambda e: e.when, **more)


def keyed(x: Stream[Any], **more: Any) -> Stream[Any]:
    return timed(x, **more).key_by(lambda e: e.host)


MINUTE = timedelta(minutes=1)

REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no time": (
        lambda x: x.tumbling(MINUTE, count),
        "needs the times of events: say first what an event's time is, as in x.at",
    ),
    "no time for a join": (lambda x: join(x, x, within=MINUTE), "needs the times of events"),
    "twice": (lambda x: timed(timed(x)), "the times of these events are given already, by an at before it: leave one"),
    "one side": (lambda x: join(timed(x), x, within=MINUTE), "one whose events have none: say .at(…) on both"),
    "one side of a merge": (lambda x: merge(timed(x), x), "one whose events have none: say .at(…) on both"),
    "two kinds": (
        lambda x: join(timed(x), x.at("instant"), within=MINUTE),
        "reads streams without a common time: the times of one are datetime, of another datetime[UTC]",
    ),
    "a text": (lambda x: x.at("host"), "an event's time is a datetime (or an int that counts anything), found str"),
    "a day": (lambda x: x.at("day"), "found date; make one of it, as in datetime(d.year, d.month, d.day)"),
    "no such field": (lambda x: x.at("wen"), "the events of this stream have no field 'wen': its events have when, "),
    "too many windows": (
        lambda x: timed(x).sliding(timedelta(days=2), timedelta(milliseconds=1), count),
        "each event would be in 172,800,000 windows (size 2 d, every 1 ms), and more than 100,000 are too many: make "
        "every greater, or size smaller",
    ),
    "too many windows by one": (
        lambda x: timed(x).sliding(100_000 * MINUTE + timedelta(microseconds=1), MINUTE, count),
        "each event would be in 100,001 windows",
    ),
    "corrections of another kind": (
        lambda x: timed(x).tumbling(MINUTE, count, allowed_lateness=5),
        "allowed_lateness must be a timedelta, found int 5",
    ),
    "corrections of sessions": (
        lambda x: timed(x).session(MINUTE, count, allowed_lateness=MINUTE),
        "allowed_lateness= does not go with sessions: a late event could make one session of two that were emitted",
    ),
    "windows of windows that are corrected": (
        lambda x: timed(x).tumbling(MINUTE, count, allowed_lateness=MINUTE).map(same).tumbling(2 * MINUTE, count),
        "would count a window's answer and its corrections as different events",
    ),
    "a join with windows that are corrected": (
        lambda x: join(timed(x), timed(x).tumbling(MINUTE, count, allowed_lateness=MINUTE), within=MINUTE),
        "(tumbling, test_timed.py:",
    ),
    "early, some day": (
        lambda x: timed(x).tumbling(MINUTE, count, early="soon"),
        "early='soon': expected 'event', or a length of time after which an answer so far comes",
    ),
    "early, never": (lambda x: timed(x).session(MINUTE, count, early=timedelta(0)), "early must be positive"),
    "early, not said": (
        lambda x: timed(x).tumbling(MINUTE, count).early,
        "have no early=, which says when to emit what they have so far: write early='event' there, or a length of time",
    ),
    "windows of what is early": (
        lambda x: timed(x).tumbling(MINUTE, count, early="event").early.tumbling(MINUTE, count),
        "needs the times of events",
    ),
    "negative lateness": (lambda x: timed(x, lateness=-MINUTE), "lateness must be at least 0, found -1 min"),
    "lateness of another kind": (lambda x: timed(x, lateness=5), "lateness must be a timedelta, found int 5"),
    "idle": (lambda x: timed(x, idle=timedelta(0)), "idle must be positive, found 0 s"),
    "size 0": (lambda x: timed(x).tumbling(timedelta(0), count), "size must be positive, found 0 s"),
    "size of another kind": (lambda x: timed(x).tumbling(60, count), "size must be a timedelta, found int 60"),
    "a size for ints": (
        lambda x: x.at("late").tumbling(MINUTE, count),
        "size must be an int, as the times of this stream are ints, found timedelta",
    ),
    "every greater": (
        lambda x: timed(x).sliding(MINUTE, 2 * MINUTE, count),
        "every (2 min) is greater than size (1 min), which leaves events in no window: make it at most size",
    ),
    "no pipeline": (
        lambda x: timed(x).tumbling(MINUTE, 3),
        "the sub-pipeline must be a pipeline or a function of a stream",
    ),
    "late": (
        lambda x: timed(x).tumbling(MINUTE, count, late="keep"),
        "late='keep': expected 'fail', or 'drop' if events that",
    ),
    "late and dropped": (
        lambda x: timed(x).tumbling(MINUTE, count, late="drop").late,
        "its late events are dropped (late='drop' is given there, ",
    ),
    "inside": (
        lambda x: timed(x).tumbling(MINUTE, lambda w: timed(w)),
        "works by event time, which a sub-pipeline knows nothing of: it sees the events of one window, in tumbling",
    ),
    "inside a window of events": (
        lambda x: x.window(3, lambda w: timed(w)),
        "works by event time, which a sub-pipeline",
    ),
    "forget": (
        lambda x: timed(x.key_by(lambda e: e.host).forget(after=9)),
        "is under keys that are given up after a number of events (forget)",
    ),
    "tz of hours": (
        lambda x: x.at("instant").tumbling(timedelta(hours=6), count, tz="Europe/Berlin"),
        "with tz= windows are whole days, and size is 6 h: use timedelta(days=n), or leave tz out",
    ),
    "tz of hours between": (
        lambda x: x.at("instant").sliding(timedelta(days=1), timedelta(hours=6), count, tz="Europe/Berlin"),
        "with tz= windows are whole days, and every is 6 h",
    ),
    "tz without instants": (
        lambda x: timed(x).tumbling(timedelta(days=1), count, tz="Europe/Berlin"),
        "tz= goes with times that are instants (Annotated[datetime, UTC]); these are datetimes without a time zone",
    ),
    "no such tz": (
        lambda x: x.at("instant").tumbling(timedelta(days=1), count, tz="Europe/Berlim"),
        "tz='Europe/Berlim' is no time zone: use a name such as 'Europe/Berlin'",
    ),
    "origin": (lambda x: timed(x).tumbling(MINUTE, count, origin=3), "origin: expected datetime, found int 3"),
    "origin in a zone": (
        lambda x: x.at("instant").tumbling(
            timedelta(days=1), count, tz="Europe/Berlin", origin=datetime(2024, 1, 1, 5)
        ),
        "with tz= origin is a day there, and 2024-01-01 05:00:00 is not its beginning: give a date",
    ),
    "gap": (lambda x: timed(x).session(timedelta(0), count), "gap must be positive, found 0 s"),
    "no interval": (
        lambda x: join(timed(x), timed(x)),
        "within= is missing: without an interval every event could still find a partner, so that no lateness bounds",
    ),
    "an empty interval": (
        lambda x: join(timed(x), timed(x), within=(MINUTE, -MINUTE)),
        "within=(low, high): low must be at most high",
    ),
    "three ends": (lambda x: join(timed(x), timed(x), within=(MINUTE,) * 3), "a length of time or a pair (low, high)"),
    "how": (
        lambda x: join(timed(x), timed(x), within=MINUTE, how="right"),
        "how must be 'inner', 'left' or 'full', found 'right'",
    ),
    "how as of": (lambda x: as_of(timed(x), timed(x), how="full"), "how must be 'inner' or 'left', found 'full'"),
    "keys": (
        lambda x: join(keyed(x), timed(x), within=MINUTE),
        "joins streams that are keyed differently: one by str, another by no key",
    ),
    "no stream": (lambda x: join(timed(x), 3, within=MINUTE), "wants streams, found int 3"),
    "a table that never says idle": (
        lambda x: lookup(keyed(x), keyed(x)),
        "a table that rarely changes would hold the stream back, for an earlier change could still come: say idle=",
    ),
    "a table by no key": (
        lambda x: lookup(timed(x), timed(x, idle=MINUTE)),
        "a table is looked up by key: say key_by(…) on",
    ),
    "a dictionary": (
        lambda x: lookup(keyed(x), {"a": 1}),
        "the table must be the stream of its changes, found dict; one that never changes is a dictionary that",
    ),
    "alike by a float": (
        lambda x: timed(x).dedup(by="load", within=MINUTE),
        "what makes events alike must not contain a float",
    ),
    "alike by a list": (
        lambda x: timed(x).dedup(by="tags", within=MINUTE),
        "what makes events alike must not contain a list",
    ),
}


@pytest.mark.parametrize("what", list(REFUSED))
def test_what_is_refused_says_where_and_what_to_do(what: str) -> None:
    build, words = REFUSED[what]
    with pytest.raises(PipelineError) as found:
        pipeline(build, x=Ping)
    said = str(found.value)
    assert words in said, said
    assert "test_timed.py:" in said, said


def test_the_types_of_answers() -> None:
    def p(x: Stream[Ping]) -> Any:
        w = keyed(x).tumbling(MINUTE, count, id="w")
        inner, left, full = (
            join(timed(x), timed(x), within=MINUTE, how=how).map(lambda p: p[1]) for how in ("inner", "left", "full")
        )
        return {
            "w": w,
            "late": w.late,
            "inner": inner,
            "left": left,
            "full": full,
            "once": keyed(x).dedup(by="host", within=MINUTE),
        }

    graph = pipeline(p, x=Ping).graph
    kinds = {name: graph.nodes[i].type for name, i in graph.outputs}
    assert kinds["w"] == type_of(Windowed[datetime, int])
    assert kinds["late"] == type_of(Late[datetime, Ping])
    assert kinds["inner"] == type_of(Ping) == kinds["once"]
    assert str(kinds["left"]).startswith("Ping(when: datetime | None, instant: datetime[UTC] | None, ")
    assert graph["w"].key == type_of(str)
    assert {graph.clocks[i] for name, i in graph.outputs} == {DATETIME, None}
    assert graph.clocks[dict(graph.outputs)["late"]] is None


def test_a_declared_answer() -> None:
    @pipeline
    def p(x: Stream[int]) -> tuple[Stream[Windowed[int, int]], Stream[Late[int, int]]]:
        w = x.at(lambda v: v).session(5, count)
        return w, w.late

    assert p.graph.timed and not p.graph.nodes[0].processor.timed
    with pytest.raises(
        TypeMismatch, match=r"declares -> Stream\[Windowed\(start: int, end: int, value: float\)\], but its"
    ):

        @pipeline
        def q(x: Stream[int]) -> Stream[Windowed[int, float]]:
            return x.at(lambda v: v).session(5, count)

    with pytest.raises(
        TypeMismatch, match="the field 'start' of Windowed: its type is a parameter, At: write what it is"
    ):
        type_of(Windowed)


def test_a_field_called_late_is_still_there() -> None:
    p = pipeline(lambda x: x.late, x=Ping)
    assert p.graph.nodes[-1].kind == "map" and p.graph.nodes[-1].type == INT
    w = pipeline(lambda x: timed(x).late, x=Ping)  # nothing is late for at
    assert w.graph.nodes[-1].kind == "map"
    with pytest.raises(
        AttributeError, match="has no late events: late goes with tumbling, sliding, session, join, as_of"
    ):
        pipeline(lambda x: x.map(lambda v: v + 1).late, x=int)


def test_what_a_step_is_told_is_in_its_digest_and_its_id() -> None:
    def ids(**more: Any) -> list[str]:
        return [n.id for n in pipeline(lambda x: x.at(lambda v: v, **more).tumbling(5, count), x=int).graph.nodes]

    assert ids() == ids() and ids()[1] != ids(lateness=1)[1] and ids()[2] != ids(lateness=1)[2]
    one, other = (
        pipeline(lambda x, n=n: x.at(lambda v: v, id="at").tumbling(n, count, id="w"), x=int).graph.digest
        for n in (5, 6)
    )
    assert one != other


def test_a_called_pipeline_keeps_its_times() -> None:
    inner = pipeline(lambda x: x.at(lambda v: v, lateness=3).tumbling(5, count, id="w"), x=int)
    outer = pipeline(lambda y: inner(y), y=int).graph
    assert outer["pipeline/w"].timing == Timing(size=5, every=5) and outer.clocks[-1] == INT
    with pytest.raises(PipelineError, match="the times of these events are given already"):
        pipeline(lambda y: inner(y.at(lambda v: v)), y=int)


def test_a_timed_pipeline_is_no_sub_pipeline() -> None:
    inner = pipeline(lambda x: x.at(lambda v: v).tumbling(5, count).map(lambda w: w.value), x=int)
    with pytest.raises(PipelineError, match="works by event time, which a sub-pipeline knows nothing of"):
        pipeline(lambda y: y.window(3, inner), y=int)


@pytest.mark.parametrize(
    ("timing", "words"),
    [
        (Timing(lateness=5), "lateness 5"),
        (Timing(DATETIME, lateness=90_000_000, idle=10_000_000), "lateness 1 min 30 s, idle after 10 s"),
        (Timing(size=5, every=5, origin=2), "5, from 2"),
        (Timing(DATETIME, size=86_400_000_000, every=86_400_000_000, tz="Asia/Tokyo"), "1 d in Asia/Tokyo"),
        (Timing(gap=5, late="drop"), "gap 5, late ones dropped"),
        (Timing(low=-2, high=2, how="inner"), "within 2, inner"),
        (Timing(low=-2, high=3, how="full"), "within -2 to 3, full"),
        (Timing(within=3), "within 3"),
    ],
)
def test_what_a_step_is_told_in_words(timing: Timing, words: str) -> None:
    assert timing.words() == words
