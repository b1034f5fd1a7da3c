"""Which way a pipeline by event time goes on Spark, and what is refused there, in words.  None of this starts Spark."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from pellucid import UsageError, as_of, join, merge, pipeline
from pellucid.internal.graph.model import inner_keys
from pellucid.spark.plan import SparkPlan, choose
from tests.spark.timed.shapes import ONE, TWO, made


def way(p: Any, **said: Any) -> SparkPlan:
    return choose(p.graph, **{"key": False, "order": False, **said})


WAYS = {
    "tumbling": "one", "sliding": "one", "session": "one", "dedup": "one", "timers": "one", "days": "one",
    "by a day": "one",
}  # fmt: skip


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_the_way_is_that_of_the_key(name: str) -> None:
    p = made(name)
    for streaming in (False, True):
        assert way(p, key=True, streaming=streaming).way == "keys"
        plan = way(p, streaming=streaming)
        assert (plan.way, plan.problem) == (WAYS.get(name, "inner"), None)


def test_the_plan_says_the_way_and_why() -> None:
    text = made("by user").spark_plan(key=False)
    assert "inner, by event time: one shuffle by the key that key_by makes, no sort" in text
    assert "a batch has all its rows, so nothing is late" in text
    assert "waits for the clock" in text and "all that it keeps is kept apart by the key of key_by" in text
    text = made("by user").spark_plan(key=False, streaming=True)
    assert "judged by the clock at its beginning, which moves once, at its end; the clock goes to every bucket" in text
    assert "the key that key_by makes reads date" in made("by a day").spark_plan(key=False)
    assert "it has no key, and makes none itself (key_by)" in made("tumbling").spark_plan()


class Day(NamedTuple):
    day: date
    n: int


def test_a_key_that_sparks_expressions_do_not_read_is_none_for_them() -> None:
    """Also without event time: such a pipeline runs in one place, as the plan says."""
    p = pipeline(lambda x: x.key_by(lambda e: e.day).cumulate(lambda t, e: t + e.n, start=0), x=Day)
    assert way(p, order=True).way == "one"


def test_keys_of_two_sources() -> None:
    def near(x: Any, y: Any) -> Any:
        return join(x.at(lambda v: v).key_by(lambda v: v % 2), y.at(lambda v: v).key_by(lambda v: v % 3), within=1)

    assert str(inner_keys(pipeline(near, x=int, y=int).graph)) == "[[v0 % 2], [v0 % 3]]"
    twice = pipeline(
        lambda x, y: join(x.at(lambda v: v).key_by(lambda v: v % 2), merge(
            y.at(lambda v: v).key_by(lambda v: v % 2), y.at(lambda v: v).key_by(lambda v: v % 3)
        ), within=1), x=int, y=int,
    )  # fmt: skip
    assert inner_keys(twice.graph) is None  # the rows of y would have to be in two places
    assert inner_keys(pipeline(lambda x, y: as_of(x.at(lambda v: v), y.at(lambda v: v)), x=int, y=int).graph) is None
    assert way(twice).way == "one" and way(twice, key=True).way == "keys"
    assert way(made("full join"), wide=True).way == "one"


def total(x: Any) -> Any:
    return x.cumulate(lambda t, v: t + v, start=0, id="total")


def last(w: Any) -> Any:
    return w


BY_ARRIVAL = {
    "before a window": lambda x: total(x.at(lambda v: v)).tumbling(5, last),
    "before its times": lambda x: total(x).at(lambda v: v).tumbling(5, last),
    "behind a join": lambda x: total(join(x.at(lambda v: v), x.at(lambda v: v), within=1).map(lambda p: p[0])),
    "behind two windows": lambda x: total(
        merge(*[x.at(lambda v: v).tumbling(k, last).map(lambda w: w.value) for k in (2, 3)])
    ),
    "behind late events": lambda x: total(x.at(lambda v: v).tumbling(5, last).late.map(lambda e: e.value)),
}


@pytest.mark.parametrize("name", list(BY_ARRIVAL))
def test_what_remembers_by_arrival_is_refused(name: str) -> None:
    plan = way(pipeline(BY_ARRIVAL[name], x=int), key=True)
    assert plan.problem is not None
    assert plan.problem.startswith("step 'total' (cumulate")
    assert "in the order in which it arrives, and Spark promises nothing about the order of rows" in plan.problem


def test_what_remembers_behind_a_window_is_not() -> None:
    behind = pipeline(lambda x: total(x.at(lambda v: v).tumbling(5, last).map(lambda w: w.value)), x=int)
    assert way(behind).problem is way(behind, key=True, streaming=True).problem is None


PROBLEMS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "order": (lambda x: x.at(lambda v: v), {"order": True}, "the order of rows is no part of its answers"),
    "bad": (lambda x: x.at(lambda v: v), {"bad": True}, "bad= does not go with event time on Spark yet"),
    "forget": (
        lambda x: x.at(lambda v: v).key_by(lambda v: v).forget(after=2),
        {},
        "begins keys anew after events of others, by arrival",
    ),
    "times of answers": (
        lambda x: x.at(lambda v: v).tumbling(5, last).late.map(lambda e: e.time).at(lambda v: v).tumbling(5, last),
        {"key": True, "streaming": True},
        "gives times to what another timed step puts out",
    ),
}


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_problems_are_told(name: str) -> None:
    build, said, why = PROBLEMS[name]
    assert why in str(way(pipeline(build, x=int), **said).problem)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("nth", "n", "a row that comes out is the answer of many rows"),
        ("late", "drop", "what becomes of late events is declared at the step"),
        ("wait", timedelta(1), "is declared at the step at, with lateness="),
        ("sequence", 1, "the order of rows is no part of its answers"),
        ("keep", True, "an answer is of many rows"),
        ("bad", "keep", "bad rows are not set aside there yet"),
        ("drop", ["w"], "cannot be given up yet"),
    ],
)
def test_options_without_a_meaning_are_refused(name: str, value: Any, why: str) -> None:
    p = pipeline(lambda x: x.at(lambda v: v), x=int)
    stream = SimpleNamespace(isStreaming=True)
    with pytest.raises(UsageError, match=f"{name}= does not go with .*, which works by event time: .*{why}"):
        p.spark(stream, **{name: value})


class Start(NamedTuple):
    start: int
    when: datetime


def test_a_key_that_answers_would_hide_is_refused_here_and_there() -> None:
    """Without it, the key's column was lost among those of the answers."""
    import pyarrow as pa

    p = pipeline(lambda x: x.at("when").tumbling(timedelta(days=1), last), x=Start)
    table = pa.table({"start": [1], "when": pa.array([datetime(2024, 1, 1)], pa.timestamp("us"))})
    for run in (lambda: p(table, key="start"), lambda: p.spark(object(), key="start")):
        with pytest.raises(UsageError, match="key='start': the answers of pipeline have a column 'start' of their own"):
            run()
