"""Pipelines by event time on lists, tables and frames, push by push, and chunk by chunk."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from pellucid import (
    DataError,
    LateError,
    PipelineError,
    StepError,
    Stream,
    UsageError,
    Windowed,
    as_of,
    check,
    join,
    merge,
    pipeline,
    silent,
)
from pellucid.internal.engine.explain import step_facts
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.graph.timing import Timing
from tests.engine.timed.literal_engine import LiteralEngine


class Pay(NamedTuple):
    when: datetime
    user: str
    amount: float


class Loose(NamedTuple):
    when: datetime | None
    amount: float


def total(x: Stream[Any]) -> Stream[float]:
    return x.cumulate(lambda t, p: t + p.amount, start=0.0)


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2024, 5, 1, hour, minute)


HOUR = timedelta(hours=1)
PAID = [Pay(at(9, 50), "ada", 20.0), Pay(at(10, 5), "bob", 5.0), Pay(at(9, 20), "ada", 1.5), Pay(at(9, 0), "bob", 2.0)]
hourly = pipeline(lambda x: x.at("when").tumbling(HOUR, total), x=Pay)
NINE, TEN = Windowed(at(9), at(10), 23.5), Windowed(at(10), at(11), 5.0)


def test_a_list() -> None:
    assert hourly(PAID) == [NINE, TEN]


def test_a_frame_has_columns_for_start_end_and_value() -> None:
    frame = pd.DataFrame([p._asdict() for p in PAID], index=[7, 8, 9, 10])
    found = hourly(frame)
    assert list(found.columns) == ["start", "end", "value"] and list(found.index) == [0, 1]
    assert [tuple(row) for row in found.itertuples(index=False)] == [tuple(NINE), tuple(TEN)]
    assert len(hourly(frame[:0])) == 0


def test_an_arrow_table_and_a_polars_frame() -> None:
    table = pa.Table.from_pylist([p._asdict() for p in PAID])
    expected = {"start": [at(9), at(10)], "end": [at(10), at(11)], "value": [23.5, 5.0]}
    assert hourly(table).to_pydict() == expected
    assert hourly(pl.from_arrow(table)).to_dict(as_series=False) == expected


def test_dicts_per_key() -> None:
    rows = [p._asdict() for p in PAID]
    found = hourly(rows, key="user")
    assert [(row["user"], row["start"].hour, row["value"]) for row in found] == [
        ("ada", 9, 21.5),
        ("bob", 9, 2.0),
        ("bob", 10, 5.0),
    ]
    assert list(found[0]) == ["user", "start", "end", "value"]


def test_a_key_of_several_columns() -> None:
    table = pa.table(
        {"when": [at(9), at(9, 1), at(9, 2)], "user": ["a", "a", "b"], "shop": [1, 1, 2], "amount": [1.0] * 3}
    )
    found = hourly(table, key=["shop", "user"]).to_pydict()
    assert (found["shop"], found["user"], found["value"]) == ([1, 2], ["a", "b"], [2.0, 1.0])


def test_a_numpy_array() -> None:
    p = pipeline(lambda x: x.at(lambda v: v).tumbling(10, lambda w: w.cumulate(lambda n, v: n + 1, start=0)), x=int)
    assert p(np.array([3, 12, 4])).tolist() == [(0, 10, 2), (10, 20, 1)]


def test_inputs_of_different_lengths_meet_by_time() -> None:
    p = pipeline(lambda x, y: join(x.at(lambda v: v), y.at(lambda v: v), within=1), x=int, y=int)
    assert p([1, 5, 9], [9]) == [(9, 9)]
    assert p([1, silent, 9], [silent, 1]) == [(1, 1)]
    assert p([], []) == []


def test_keep_has_no_one_row() -> None:
    with pytest.raises(
        UsageError, match=r"keep= does not go with .*, which works by event time: an answer is of many rows"
    ):
        hourly(pd.DataFrame([p._asdict() for p in PAID]), keep=["user"])


def test_an_order_of_rows_is_no_part_of_the_answer() -> None:
    """The same words as on the command line, where `--order` is refused, too."""
    rows = [p._asdict() | {"seq": i} for i, p in enumerate(PAID)]
    said = "order= does not go with pipeline, which works by event time: rows count by their times"
    with pytest.raises(UsageError, match=said):
        hourly(rows, key="user", order="seq")
    with pytest.raises(UsageError, match="order= does not go with pipeline"):
        hourly(rows, order="seq", late="drop")
    assert len(hourly.trace(rows[:1], order="seq")) == 2  # push by push it says what comes first


def test_rows_that_cannot_be_read_are_set_aside() -> None:
    rows: list[dict[str, Any]] = [p._asdict() for p in PAID]
    rows[1]["amount"] = "much"
    found = hourly(rows, bad="keep")
    assert [row["value"] for row in found["out"]] == [23.5]
    assert [(row["row"], row["column"]) for row in found["bad"]] == [(1, "amount")]


def test_an_event_without_a_time_is_found_where_it_came() -> None:
    p = pipeline(lambda x: x.at("when", id="when").tumbling(HOUR, total), x=Loose)
    frame = pd.DataFrame({"when": [at(9), None], "amount": [1.0, 2.0]})
    with pytest.raises(StepError, match=r"step 'when' \(at .*\) failed at push 1 on the event Loose\(when=None"):
        p(frame)
    known = pipeline(lambda x: x.filter(lambda e: e.when is not None).at("when").tumbling(HOUR, total), x=Loose)
    assert list(known(frame)["value"]) == [1.0]


def test_the_trace_has_one_more_entry_for_the_end() -> None:
    assert hourly.trace(PAID[:2]) == [[], [NINE._replace(value=20.0)], [TEN]]
    assert hourly.trace([PAID[0], silent, PAID[1]]) == [[], [], [NINE._replace(value=20.0)], [TEN]]
    with pytest.raises(LateError, match=r"failed at push 2 .* it is 45 min late"):
        hourly.trace(PAID)


def test_a_trace_of_two_outputs_and_two_sources() -> None:
    def p(x: Stream[int], y: Stream[int]) -> Any:
        pairs = join(x.at(lambda v: v), y.at(lambda v: v), within=1, how="left")
        return {"pairs": pairs, "plain": x}

    found = pipeline(p, x=int, y=int).trace([1, 10], [2, 20])
    assert found == [
        {"pairs": [(1, 2)], "plain": [1]},
        {"pairs": [(10, None)], "plain": [10]},
        {"pairs": [], "plain": []},
    ]


def test_chunk_by_chunk() -> None:
    p = pipeline(
        lambda x: x.at(lambda v: v).tumbling(
            10, lambda w: w.cumulate(lambda n, v: n + 1, start=0), late="drop", id="w"
        ),
        x=int,
    )
    engine = p.engine()
    assert engine.push([3, 12, 4]) == [Windowed(0, 10, 2)]  # a chunk is a batch: 12 does not make 4 late
    assert engine.push([5]) == [] and engine.late == {"w": 1}
    assert engine.finish() == [Windowed(10, 20, 1)]
    each = p.engine(key=str)
    assert each.push([3, 4, 12], key=["a", "b", "a"]) == [Windowed(0, 10, 1), Windowed(0, 10, 1)]
    with pytest.raises(UsageError, match="runs per key here"):
        each.push([30])


def test_who_can_be_idle() -> None:
    engine = pipeline(lambda x, y: (x.at(lambda v: v), y), x=int, y=int).engine()
    engine.idle("x")
    with pytest.raises(UsageError, match="has no source 'z': it has x, y"):
        engine.idle("z")
    with pytest.raises(UsageError, match=r"the times of 'y' are not given \(at\), so no clock waits for it"):
        engine.idle("y")


def test_days_of_a_time_zone() -> None:
    def daily(x: Stream[Any]) -> Any:
        return x.at(lambda e: e[0]).tumbling(timedelta(days=1), lambda w: w.map(lambda e: e[1]), tz="Europe/Berlin")

    p = pipeline(daily, x=tuple[Annotated[datetime, UTC], int])
    found = p([(datetime(2024, 3, 30, 23, tzinfo=UTC), 1), (datetime(2024, 3, 31, 22, tzinfo=UTC), 2)])
    assert [(w.end - w.start, w.value) for w in found] == [(timedelta(hours=23), 1), (timedelta(hours=24), 2)]


def test_an_output_that_works_by_no_time_beside_one_that_does() -> None:
    p = pipeline(lambda x: (x.map(lambda v: -v), x.at(lambda v: v).dedup(within=3)), x=int)
    assert p([1, 1, 2]) == ([-1, -1, -2], [1, 2])


def test_a_pipeline_by_event_time_inside_another() -> None:
    inner = pipeline(lambda x: x.at(lambda v: v).tumbling(10, lambda w: w.cumulate(lambda n, v: n + 1, start=0)), x=int)
    outer = pipeline(lambda y: inner(y.map(lambda v: v * 2)).map(lambda w: w.value), y=int)
    assert outer([1, 2, 7]) == [2, 1]


def counts_per_session(x: Stream[int]) -> Any:
    windows = x.at(lambda v: v).tumbling(10, lambda w: w.cumulate(lambda n, v: n + 1, start=0))
    return windows.key_by(lambda w: w.value).forget(after=1).cumulate(lambda t, w: t + 1, start=0)


def test_keys_that_are_given_up_after_windows() -> None:
    p = pipeline(counts_per_session, x=int)
    assert p([1, 2, 11, 21, 22, 31, 41]) == [1, 1, 1, 1, 2]
    engine = p.engine()
    assert engine.push([1, 2, 11]) == [1]
    other = p.engine(mode="numba")
    other.load(engine.save())
    assert engine.finish() == other.finish() == [1]
    with pytest.raises(UsageError, match="mode must be 'auto', 'numba' or 'python', found 'fast'"):
        p.engine(mode="fast")
    with pytest.raises(UsageError, match="counts the events of the whole stream, and with key="):
        p.engine(key=str)
    with pytest.raises(UsageError, match="counts the events of the whole stream, and with key="):
        p(pa.table({"x": [1], "k": ["a"]}), key="k")
    with pytest.raises(UsageError, match="cores=0: expected a whole number, at least 1"):
        p([1], cores=0)
    assert p.why_plain is None


def test_nan_is_refused_unless_it_is_a_value() -> None:
    p = pipeline(lambda x: x.at(lambda e: e[0]).dedup(by=lambda e: e[0], within=1), x=tuple[int, float])
    with pytest.raises(DataError, match="NaN"):
        p.engine().push([(1, float("nan"))])
    engine = p.engine(nan="keep")
    assert engine.push([(1, float("nan"))]) == []
    ((time, value),) = engine.finish()
    assert time == 1 and value != value


# What users get wrong by event time: one clear message each, the same from both engines, with the row, its time, the
# clock and how late it is where that is the trouble; what can be known before a run is refused before it.


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
    assert said.startswith("step 'when' (at .at, test_running.py:")
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
        "join (test_running.py:{line}): within= is missing: without an interval every event could still find a "
        "partner, so that no lateness bounds what is kept; say how far apart partners may be",
    ),
    "two sources without a common time": (
        lambda x, y: join(x.at("when"), y.at("size"), within=timedelta(hours=1)),
        "join (test_running.py:{line}) reads streams without a common time: the times of one are datetime[UTC], of "
        "another int; give both times of one type in .at(…)",
    ),
    "every greater than size": (
        lambda x, y: x.at("when").sliding(timedelta(hours=1), timedelta(hours=2), counted),
        "sliding (test_running.py:{line}): every (2 h) is greater than size (1 h), which leaves events in no window: "
        "make it at most size",
    ),
    "a time zone with a window that is not whole days": (
        lambda x, y: x.at("when").tumbling(timedelta(hours=6), counted, tz="Europe/Berlin"),
        "tumbling (test_running.py:{line}): with tz= windows are whole days, and size is 6 h: use timedelta(days=n), "
        "or leave tz out: then windows are the same everywhere",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_before_it_runs(name: str) -> None:
    build, said = REFUSED[name]
    with pytest.raises(PipelineError) as caught:
        pipeline(build, x=Day, y=Day)
    assert str(caught.value) == said.format(line=build.__code__.co_firstlineno)


# Back-ends that know nothing of event time refuse it by name, in one sentence, before they begin.

timed = pipeline(lambda x: x.at(lambda v: v, id="when").tumbling(5, lambda w: w).map(lambda w: w.value), x=int)
plain = pipeline(lambda x: x.map(lambda v: v), x=int)

QUESTIONS: dict[str, Callable[[], Any]] = {
    "check.holds_on": lambda: check.holds_on(timed, "G out", [1, 2]),
    "check.live": lambda: check.live(timed),
    "check.implies": lambda: check.implies(plain, timed),
    "check.dead_paths": lambda: check.dead_paths(timed),
    "check.monitor": lambda: check.monitor(check.Transitions([0], lambda s: [s], lambda s: {"x": s}), timed),
    "the model of failures": lambda: check.failures(timed),
    "the kernel": lambda: Engine(timed.graph),
    "the interpreter of single pushes": lambda: Interpreter(timed.graph),
}
KNOWN = {"holds", "equivalent", "buffers", "times"}  # these know event time: tests/check/timed


@pytest.mark.parametrize("who", list(QUESTIONS))
def test_refused_by_name(who: str) -> None:
    with pytest.raises(UsageError) as found:
        QUESTIONS[who]()
    said = str(found.value)
    assert "step 'when' (at v, test_running.py:" in said and f"works by event time, which {who} does not" in said, said


def test_every_question_about_a_pipeline_is_here() -> None:
    about = {
        name
        for name in check.__all__
        if inspect.isfunction(ask := getattr(check, name)) and {"p", "a"} & set(inspect.signature(ask).parameters)
    }
    asked = {who.partition("check.")[2] for who in QUESTIONS} | {"failures"} | KNOWN
    assert about - asked <= {"properties"}, about - asked  # which only notes questions down


def test_a_run_on_spark() -> None:
    with pytest.raises(UsageError, match=r"wants a Spark DataFrame, found builtins\.object"):
        timed.spark(object())


# Windows that are corrected, and that are told early: edge by edge, the same in both engines.

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
