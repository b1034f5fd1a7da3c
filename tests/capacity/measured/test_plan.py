"""Plans for measured jobs: who keeps up, and what to change first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pellucid.capacity.measured import BatchCost, Job, MeasuredStep, Sample, Scaling, batch_cost, plan_job, read_jobs
from pellucid.capacity.measured.show import plan_text
from pellucid.errors import UsageError
from tests.capacity.recording import RECORDED


def job(*steps: MeasuredStep, **more: Any) -> Job:
    return Job("late", "flink", {step.name: step for step in steps}, **more)


BUSY = MeasuredStep("busy", rate=90.0, processed=60.0, busy=1.0, workers=2, lag=600.0)


def test_one_that_falls_behind() -> None:
    found = plan_job(job(BUSY))
    assert found.status == "refuted" and found.steps["busy"].least == 4  # 3 take exactly 90: that is not enough
    assert found.steps["busy"].drain is None
    text = plan_text(found)
    assert "falls behind" in text and "never" in text and "∞" in text
    assert "first: busy first: 4 workers instead of 2 keep up with 90 events a second" in text


def test_one_that_cannot_grow() -> None:
    found = plan_job(job(MeasuredStep("busy", rate=90.0, processed=60.0, busy=1.0, workers=2, partitions=2)))
    assert found.advice[0].startswith("busy first: 2 partitions are not enough: 5 workers would be needed; until its")
    assert found.advice[0].endswith("not more than 60 events a second may come")


def test_a_hot_key_holds_all_of_it() -> None:
    """Half of the time both workers are idle on average; but one of them has 80 % of the events."""
    hot = MeasuredStep("hot", rate=600.0, processed=400.0, busy=0.5, workers=2, skew=0.8)
    found = plan_job(job(hot))
    assert hot.capacity == 800 and hot.usable == 500 and found.status == "refuted"
    assert found.advice[0] == (
        "hot first: 80 % of its events have one key or partition, which one worker takes: not more than 500 events a "
        "second may come, whatever the workers"
    )


def test_a_lag_waits_for_the_slowest_step_behind_it() -> None:
    read = MeasuredStep("read", rate=100.0, processed=100.0, busy=0.1, lag=600.0, out=100.0)
    slow = MeasuredStep("slow", processed=100.0, busy=0.8, hears=("read",))
    found = plan_job(job(read, slow)).steps["read"]
    assert found.largest_rate == pytest.approx(125) and found.drain == pytest.approx(600 / 25)
    assert "safe /s" in plan_text(plan_job(job(read, slow))) and "safe /s" not in plan_text(plan_job(job(read)))


def test_one_that_keeps_up_and_drains() -> None:
    found = plan_job(job(MeasuredStep("calm", rate=90.0, processed=60.0, busy=0.5, lag=600.0)))
    assert found.status == "bounded" and found.steps["calm"].drain == 20
    assert "calm: what waits (600) is done in 20 s" in found.advice
    assert found.document()["steps"][0]["seconds_to_drain"] == 20
    json.dumps(found.document(), allow_nan=False)


def test_what_was_not_measured_is_unknown() -> None:
    found = plan_job(job(MeasuredStep("dark", rate=5.0)))
    assert found.status == "unknown" and found.steps["dark"].why == "how busy it is was not measured"
    assert found.advice == ("measure how busy the steps are: without that nothing can be planned",)
    found = plan_job(job(MeasuredStep("dark", able=5.0)))
    assert found.steps["dark"].why == "at which rate events come was not measured"


def test_a_limit_for_the_bursts_that_were_seen() -> None:
    samples = tuple(Sample(float(at), 10 if at == 5 else 1, 0.01) for at in range(12))
    calm = MeasuredStep("calm", rate=2.0, processed=2.0, busy=0.5)
    found = plan_job(job(calm, samples=samples), limits={"calm": 9})
    step = found.steps["calm"]
    assert step.status == "refuted" and step.longest is not None and step.longest >= 10 and "the limit is 9" in step.why
    assert plan_job(job(calm, samples=samples), limits={"calm": step.longest + 1}).status == "bounded"
    assert plan_job(job(calm), limits={"calm": 9}).status == "unknown"
    with pytest.raises(UsageError, match="the job late has no step clam; did you mean 'calm'"):
        plan_job(job(calm), limits={"clam": 9})
    with pytest.raises(UsageError, match="limit calm=0: expected 1 or more events"):
        plan_job(job(calm), limits={"calm": 0})


def test_a_query_that_never_kept_up() -> None:
    """Each batch leaves more behind: the workers for a limit are at least those that keep up, whatever the limit."""
    rows, took, left = (6000, 7200, 8554), (12.0, 14.257, 17.006), (3000, 4200, 5246)
    samples = tuple(
        Sample(at, count, seconds, left=rest)
        for at, count, seconds, rest in zip((0.0, 12.0, 26.257), rows, took, left, strict=True)
    )
    slow = MeasuredStep("slow", rate=685.0, processed=503.0, busy=1.0, growth=85.0)
    found = plan_job(Job("late", "spark", {"slow": slow}, samples=samples), limits={"slow": 100_000})
    plan = found.steps["slow"]
    assert (plan.status, plan.least, plan.for_limit) == ("refuted", 2, 2)
    assert "slow: 2 times the cores keep its queue below 100000" in found.advice
    assert plan_text(found).startswith("late (spark): refuted by what was measured: ")


def test_one_whose_workers_have_time_while_it_falls_behind() -> None:
    """A limit per trigger holds it back: nothing is known of what more workers could do."""
    idle = MeasuredStep("idle", rate=150.0, processed=100.0, busy=0.2, growth=50.0)
    found = plan_job(job(idle), limits={"idle": 1000})
    plan = found.steps["idle"]
    assert (plan.status, plan.least, plan.for_limit, plan.needed.wanted) == ("refuted", None, None, None)
    assert plan.why == (
        "150 events came a second and 100 were taken, though its workers were busy only 20 % of the time: "
        "more workers do not help"
    )
    assert found.advice[0].startswith("idle first: find what holds it back")
    with pytest.raises(UsageError, match="rate idle=80: what idle can take was not measured: 150 events came"):
        job(idle).with_rates({"idle": 80.0})


def test_what_waited_in_the_recording_counts() -> None:
    samples = (Sample(0.0, 5, 0.1, waiting=40.0), Sample(1.0, 5, 0.1), Sample(2.0, 5, 0.1))
    calm = MeasuredStep("calm", rate=5.0, processed=5.0, busy=0.1)
    found = plan_job(job(calm, samples=samples), limits={"calm": 30})
    assert found.status == "refuted" and found.steps["calm"].why.startswith("40 waited while it was measured")
    other = plan_job(job(calm, samples=samples).with_rates({"calm": 6.0}), limits={"calm": 30})
    assert other.status == "unknown" and other.curve is None  # which bursts come at that rate is not known


def test_batches() -> None:
    cost = BatchCost(0.5, 0.001, every=2.0)
    assert cost.settled(500) == 1000 and cost.settled(900) == pytest.approx(4500) and cost.settled(1000) is None
    assert cost.next_rows(500, 100) == 1000 and cost.next_rows(500, 4000) == 2250
    assert cost.largest_rate(1000) == 500 and cost.largest_rate(4500) == 900
    assert cost.longest(lambda length: 1000 * length) is None
    samples = [Sample(2.0 * i, rows, 0.5 + 0.001 * rows) for i, rows in enumerate([500, 900, 1000, 700])]
    assert batch_cost(samples) == cost
    assert batch_cost([Sample(0, 10, 1.0), Sample(1, 10, 2.0)]) is None
    assert batch_cost([Sample(0, 10, 2.0), Sample(1, 20, 1.0)]) is None  # more rows in less time: nothing follows
    assert batch_cost([Sample(0, 10, 0.1), Sample(9, 20, 0.4)]) == BatchCost(0.0, 0.015, 9.0)


def test_the_formula_is_one_line() -> None:
    (found,) = read_jobs(RECORDED / "local_calm.json")
    text = plan_text(plan_job(found, scaling=Scaling(target=0.5, catch_up=0)))
    assert "production: rate / 0.5, as Flink's autoscaler: enriched 32/s" in text
