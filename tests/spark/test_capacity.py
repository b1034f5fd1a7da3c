"""Histories on Spark: rates, curves and bounds are those of the local functions."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from pellucid.capacity.measured import arrival_curve, of_progress, plan_job
from pellucid.errors import UsageError
from pellucid.spark.capacity import arrival_curves, curves_of, query_plans, queue_bounds
from tests.capacity.test_measured import GREEDY as BATCHES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOWS = [0, 0.5, 3, 20, 60]


def arrivals() -> dict[str, list[tuple[float, int]]]:
    chance = random.Random(7)
    return {
        name: [(chance.randint(0, 4 * span) / 4, chance.randint(1, 3)) for _ in range(60)]
        for name, span in (("ada", 300), ("bob", 40), ("eve", 5))
    }


def test_curves_and_bounds(spark: SparkSession) -> None:
    known = arrivals()
    rows = [(name, at, count) for name, points in known.items() for at, count in points]
    events = spark.createDataFrame(rows, "user string, at double, many int")
    curves = arrival_curves(events, at="at", count="many", key="user", windows=WINDOWS).cache()
    wanted = {name: arrival_curve(points, WINDOWS) for name, points in known.items()}
    assert {name: curve for (name,), curve in curves_of(curves, key="user")} == wanted
    bounds = queue_bounds(curves, key="user", time=1.5, workers=2, limit=9).collect()
    assert {r["user"]: tuple(r)[1:] for r in bounds} == {
        name: (curve.rate, curve.queue(1.5, 2), curve.delay(1.5, 2), curve.workers(1.5, 8))
        for name, curve in wanted.items()
    }
    curves.unpersist()


def test_plans_of_many_queries(spark: SparkSession) -> None:
    logs = {f"q{i}": [{**b, "id": f"q{i}", "name": f"late{i}", "numInputRows": 40 * i + b["numInputRows"]}
                      for b in BATCHES] for i in range(3)}  # fmt: skip
    texts = [json.dumps(b if i % 2 else {"Event": "…QueryProgressEvent", "progress": b})
             for i, log in enumerate(logs.values()) for b in log]  # fmt: skip
    texts.append(json.dumps({"Event": "SparkListenerJobStart", "id": "q1"}))
    found = query_plans(spark.createDataFrame([(t,) for t in texts], "value string")).collect()
    wanted: list[dict[str, Any]] = []
    for log in logs.values():
        (job,) = of_progress(log)
        (plan,) = plan_job(job).steps.values()
        wanted.append({"query": job.name, "rate": plan.step.rate, "capacity": plan.step.capacity, "lag": plan.step.lag,
                       "longest": plan.longest, "status": plan.status, "batches": 3, "state": 40})  # fmt: skip
    assert [{k: row[k] for k in wanted[0]} for row in sorted(found, key=lambda r: r["query"])] == wanted


def test_what_is_refused(spark: SparkSession) -> None:
    events = spark.createDataFrame([("ada", datetime(2026, 1, 1, tzinfo=UTC))], "user string, at timestamp")
    with pytest.raises(UsageError, match="there is no column 'att': there are user, at; did you mean 'at'"):
        arrival_curves(events, at="att", windows=[1])
    with pytest.raises(UsageError, match="expected a column of times or of seconds, it has string"):
        arrival_curves(events, at="user", windows=[1])
    with pytest.raises(UsageError, match="windows: expected lengths in seconds"):
        arrival_curves(events, at="at", windows=[])
    with pytest.raises(UsageError, match="there is no column 'value'"):
        query_plans(events)
    with pytest.raises(UsageError, match="expected a time above 0, and 1 worker or more"):
        queue_bounds(events, time=0)
