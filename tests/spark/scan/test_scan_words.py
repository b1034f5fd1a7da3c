"""Which pipelines can be cut into chunks, and why the others cannot, in words."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid import Pipeline, apply, pipeline
from pellucid.spark.plan import choose
from pellucid.spark.scan.parts import Cut, cuts, level_graph, scannable
from tests.spark.scan.scans import total


def reasons(p: Pipeline) -> Any:
    found = scannable(p.graph)
    return found if isinstance(found, str) else [reason for _, reason in found]


def test_reasons() -> None:
    p = pipeline(
        lambda x: (
            x.trim(2).decimate(3).window(4, total).cumulate(lambda t, v: (t[0] + v, max(t[1], v), v), start=(0, 0, 0))
        ),
        x=int,
    )
    assert reasons(p) == ["a count", "a count", "the last 3 events", "an associative fold (sum, max, last)"]
    assert reasons(pipeline(lambda x: x.window(2, total).cumulate(lambda t, v: t ^ v, start=0), x=int)) == [
        "the last 1 event",
        "an associative fold (^)",
    ]


@pytest.mark.parametrize(
    ("build", "kind", "message"),
    [
        (
            lambda x: x.task(lambda s, v: (s + v, [s]), 0, id="a"),
            int,
            "step 'a' (task λ) is a general task: its state can be anything",
        ),
        (
            lambda x: x.cumulate(lambda t, v: t + v, start=0.0, id="a"),
            float,
            "step 'a' (cumulate t + v): a sum of floats is not associative: cut elsewhere, it is rounded elsewhere",
        ),
        (
            lambda x: x.cumulate(lambda t, v: t * v, start=1, id="a"),
            int,
            "step 'a' (cumulate t * v): its function is no associative fold, such as t + v, max(t, v) or t and v",
        ),
        (
            lambda x: x.cumulate(lambda t, v: t + v if t < 9 else 0, start=1, id="a"),
            int,
            "step 'a' (cumulate t + v if "
            "t < 9 else 0): its function "
            "is no associative fold, such as t + v, max(t, v) or t and v",
        ),
        (
            lambda x: x.cumulate(lambda t, v: (t[1], t[0] + v), start=(0, 0), id="a"),
            int,
            "step 'a' (cumulate t.1, t.0 "
            "+ v): its function is no "
            "associative fold, such as t + v, max(t, v) or t and v",
        ),
        (
            lambda x: x.cumulate(lambda t, v: t and 9 // v > 1, start=True, id="a"),
            int,
            "step 'a' (cumulate t and 9 // "
            "v > 1): what follows the old "
            "value in its 'and' may fail, and is not evaluated for every event",
        ),
        (
            lambda x: x.map(lambda v: v - v).cumulate(lambda t, v: max(v, t), start=0.0, id="a"),
            float,
            "step 'a' (cumulate t if v < t else v): a value may be NaN, which ends its minimum or maximum",
        ),
        (
            lambda x: apply(lambda a, b: a + b, x.filter(lambda v: v > 1), x, id="a"),
            int,
            "step 'a' (apply a + b) waits for its inputs: what waits depends on all that came before",
        ),
        (
            lambda x: x.key_by(lambda v: v % 3).trim(2, id="a"),
            int,
            "step 'a' (trim) keeps one state for each key that the pipeline makes",
        ),
        (
            lambda x: x.window(200_000, total, id="a"),
            int,
            "step 'a' (window) has a window of 200,000 events, too many to send to every chunk (at most 100,000)",
        ),
    ],
)
def test_what_cannot_be_cut_and_why(build: Any, kind: type, message: str) -> None:
    import re

    found = scannable(pipeline(build, x=kind).graph)
    assert isinstance(found, str)
    assert re.sub(r", [\w<>]+\.py:\d+\)", ")", found) == message


def test_functions_that_cannot_be_read_are_not_called_twice() -> None:
    seen: list[int] = []

    def note(v: int) -> int:
        seen.append(v)
        return v

    found = scannable(pipeline(lambda x: x.map(note, id="m").trim(2, id="a"), x=int).graph)
    assert isinstance(found, str) and found.startswith("step 'a' (trim") and "note()" in found
    assert found.endswith("and would be called more than once for an event")
    assert reasons(pipeline(lambda x: x.trim(2).map(note), x=int)) == ["a count"]


def test_the_plan_says_it() -> None:
    p = pipeline(lambda x: x.trim(2, id="t").cumulate(lambda t, v: t + v, start=0, id="sum"), x=int)
    plan = choose(p.graph, key=False, order=True)
    assert plan.way == "scan" and len(plan.reasons) == 2
    assert "step 'sum' (cumulate t + v, test_scan_words.py:" in plan.reasons[1] and plan.reasons[1].endswith(
        "an associative fold (sum)"
    )
    p = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0.0, id="sum"), x=float)
    plan = choose(p.graph, key=False, order=True)
    assert plan.way == "one" and "it has no key, and cannot be cut into chunks: step 'sum'" in str(plan)


def test_a_level_runs_only_what_it_needs() -> None:
    p = pipeline(
        lambda x: (
            x.decimate(2, id="d")
            .map(lambda v: 1 // v, id="m")
            .cumulate(lambda t, v: t + v, start=0, id="s")
            .map(lambda v: v + 1)
        ),
        x=int,
    )
    found = cuts(p.graph)
    assert isinstance(found, Cut)
    assert [node.id for node in level_graph(found, 0).nodes] == ["x", "d"]
    assert [node.id for node in level_graph(found, 1).nodes] == ["x", "d", "m", "s"]
