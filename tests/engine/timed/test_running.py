"""Pipelines by event time on lists, tables and frames, push by push, and chunk by chunk."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from pellucid import DataError, LateError, StateError, StepError, Stream, UsageError, Windowed, join, pipeline, silent
from pellucid.internal.engine.timed.running import LiteralEngine


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
    with pytest.raises(UsageError, match="works by event time, where an answer is of many rows: keep= has no one row"):
        hourly(pd.DataFrame([p._asdict() for p in PAID]), keep=["user"])


def test_an_order_of_rows_is_no_part_of_the_answer() -> None:
    """The same words as on the command line, where `--order` is refused, too."""
    rows = [p._asdict() | {"seq": i} for i, p in enumerate(PAID)]
    said = "order= does not go with pipeline, which works by event time: rows count by their times, whatever order they"
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
    with pytest.raises(UsageError, match=r"the times of 'y' are not said \(at\), so it holds nobody back"):
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
    literal = LiteralEngine(p.graph)
    with pytest.raises(StateError, match="the state of the literal engine cannot be saved"):
        literal.save()
    with pytest.raises(UsageError, match="cannot be compiled: the literal engine never is"):
        LiteralEngine(p.graph, mode="numba")
    with pytest.raises(UsageError, match="mode must be 'auto', 'numba' or 'python', found 'fast'"):
        p.engine(mode="fast")
    with pytest.raises(UsageError, match="counts the events of the whole stream, and with key="):
        p.engine(key=str)
    with pytest.raises(UsageError, match="counts the events of the whole stream, and with key="):
        p(pa.table({"x": [1], "k": ["a"]}), key="k")
    with pytest.raises(UsageError, match="cores=0: expected a whole number from 1 on"):
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
