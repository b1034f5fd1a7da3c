"""Plans for measured jobs: who keeps up, what to change first, and a recorded run against what was predicted."""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import replace
from statistics import mean
from typing import TYPE_CHECKING, Any

import pytest

from pellucid.capacity.measured import (
    BatchCost,
    Job,
    MeasuredStep,
    Sample,
    Scaling,
    batch_cost,
    jobs_of,
    of_progress,
    plan_job,
    read_jobs,
)  # fmt: skip
from pellucid.capacity.measured.show import plan_text
from pellucid.errors import UsageError
from tests.capacity.recording import BURST, CALM, RATES, RECORDED, local_run, spark_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    assert found.status == "proved" and found.steps["calm"].drain == 20
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
    assert plan_job(job(calm, samples=samples), limits={"calm": step.longest + 1}).status == "proved"
    assert plan_job(job(calm), limits={"calm": 9}).status == "unknown"
    with pytest.raises(UsageError, match="the job late has no step clam; did you mean 'calm'"):
        plan_job(job(calm), limits={"clam": 9})
    with pytest.raises(UsageError, match="limit calm=0: expected 1 or more events"):
        plan_job(job(calm), limits={"calm": 0})


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


# ---------------------------------------------------------------- predicted against measured


def lag(document: dict[str, Any]) -> list[tuple[float, int]]:
    """What was sent and not yet worked on, at the end of each batch: both are on the clock of the recording, which are
    brought together by the first event that was sent at a known time."""
    times, counts = [at for at, _ in document["sent"]], [count for _, count in document["sent"]]
    samples = document["samples"]
    shift = samples[1]["at"] - next(at for at, count in document["sent"] if count > 1)
    out, done = [], 0
    for sample in samples:
        done += sample["events"]
        at = sample["at"] + sample["seconds"] - shift
        sent = counts[max(0, bisect_right(times, at) - 1)] if at >= times[0] else 1
        out.append((at, max(0, sent - done)))
    return out


def compare(calm: dict[str, Any], burst: dict[str, Any]) -> None:
    """The capacity of a calm run predicts the lag of another one with a burst."""
    (measured,) = jobs_of([calm])
    capacity = measured.steps["enriched"].capacity
    assert capacity is not None
    (_, _), (seconds, rate), _ = BURST
    predicted = (rate - capacity) * seconds
    found = lag(burst)
    worst = max(waiting for _, waiting in found)
    assert predicted == pytest.approx(worst, rel=0.3)
    # and how long it takes until it is gone, from the end of the burst on
    begin = BURST[0][0] + seconds
    gone = next(at for at, waiting in found if at > begin and waiting <= 2) - begin
    assert predicted / (capacity - BURST[2][1]) == pytest.approx(gone, rel=0.4)
    assert plan_job(measured).status == "proved"
    (again,) = jobs_of([burst])
    bound = plan_job(again).steps["enriched"].longest
    assert bound is not None and bound >= worst - 2  # what the windows say is never exceeded


def test_a_recorded_run_of_the_local_engine() -> None:
    calm, burst = (json.loads((RECORDED / f"local_{name}.json").read_text()) for name in ("calm", "burst"))
    compare(calm, burst)
    (found,) = jobs_of([calm])
    assert found.steps["lookup"].capacity == pytest.approx(1 / 0.0021, rel=0.2)  # it sleeps for 2 ms
    assert "lookup takes" in plan_text(plan_job(found))


def _faster(document: dict[str, Any], by: float) -> dict[str, Any]:
    """As if the step had been so much faster, and nothing else had changed."""
    samples = [{**sample, "seconds": sample["seconds"] / by} for sample in document["samples"]]
    steps = [{**step, "seconds": step["seconds"] / by} for step in document["steps"]]
    return {**document, "busy": document["busy"] / by, "samples": samples, "steps": steps}


@pytest.mark.parametrize("by", [1 / 1.6, 1.6])
def test_a_wrong_prediction_for_the_local_engine_is_found_out(by: float) -> None:
    calm, burst = (json.loads((RECORDED / f"local_{name}.json").read_text()) for name in ("calm", "burst"))
    with pytest.raises(AssertionError):
        compare(_faster(calm, by), burst)
    with pytest.raises(AssertionError):  # as much as was predicted, but it was not there
        compare(calm, {**burst, "sent": [[at, 1 + (count - 1) // 2] for at, count in burst["sent"]]})


@pytest.mark.long
def test_a_run_of_the_local_engine_recorded_now() -> None:
    compare(local_run(CALM), local_run(BURST))


def compare_batches(logs: dict[str, list[Sample]], rates: dict[str, int]) -> None:
    """What batches cost in calm queries predicts how many rows wait in faster ones."""
    calm = batch_cost([sample for name in ("slow", "steady") for sample in logs[name][2:]])  # the first start Python
    assert calm is not None
    waiting = [sample.waiting for sample in logs["faster"][2:] if sample.waiting is not None]
    assert calm.settled(rates["faster"]) == pytest.approx(mean(waiting), rel=0.4)
    known = batch_cost([sample for name in ("slow", "steady", "faster") for sample in logs[name][2:]])
    assert known is not None and 1 / 3 < known.capacity / 200 < 3  # two cores that sleep for 10 ms with each row
    for sample in logs["too_fast"]:
        if sample.events:
            assert 1 / 3 < known.seconds(sample.events) / sample.seconds < 3
    # at three times the rate of the steady one what waits grows from batch to batch
    grown = [sample.events for sample in logs["too_fast"]]
    assert grown == sorted(grown) and grown[-1] > 3 * rates["too_fast"]


def test_recorded_queries_of_spark() -> None:
    logs = {name: list(read_jobs(RECORDED / f"spark_{name}.jsonl")[0].samples) for name in RATES}
    compare_batches(logs, RATES)
    (job,) = read_jobs(RECORDED / "spark_faster.jsonl")
    plan = plan_job(job).steps["faster"]
    assert plan.longest is not None and plan.longest >= max(s.waiting or 0 for s in job.samples)
    assert plan.status == "proved" and "batches settle at" in " ".join(plan_job(job).advice)


@pytest.mark.parametrize("name", ["slow and steady", "faster", "too_fast"])
def test_a_wrong_prediction_for_spark_is_found_out(name: str) -> None:
    logs = {name: list(read_jobs(RECORDED / f"spark_{name}.jsonl")[0].samples) for name in RATES}
    if name == "slow and steady":  # rows that cost half as much
        for calm in ("slow", "steady"):
            logs[calm] = [replace(s, seconds=s.seconds / 2, at=s.at / 2) for s in logs[calm]]
    elif name == "faster":  # twice as many that waited
        logs[name] = [replace(s, waiting=None if s.waiting is None else 2 * s.waiting) for s in logs[name]]
    else:  # nothing grew
        logs[name] = [replace(s, events=RATES[name]) for s in logs[name]]
    with pytest.raises(AssertionError):
        compare_batches(logs, RATES)


@pytest.mark.long
def test_queries_of_spark_recorded_now(spark: SparkSession) -> None:
    logs = {}
    spark_query(spark, 20, 20, name="warm")
    for name, rate in RATES.items():
        documents = [json.loads(text) for text in spark_query(spark, rate, 36, name=name)]
        logs[name] = list(of_progress(documents)[0].samples)
    compare_batches(logs, RATES)


def test_the_formula_is_one_line() -> None:
    (found,) = read_jobs(RECORDED / "local_calm.json")
    text = plan_text(plan_job(found, scaling=Scaling(target=0.5, catch_up=0)))
    assert "production: rate / 0.5, as Flink's autoscaler: enriched 159/s" in text
