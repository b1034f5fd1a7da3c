"""Predicted against measured: the lag of runs that were recorded, of the local engine and of Spark.

How fast a machine is changes from one run to the next, and inside of one.  So the prediction for a run of the local
engine takes from a calm run what the engine itself costs, and from the run in question how long the slow function took,
which that measured by its own clock: then it holds under any load.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from dataclasses import replace
from itertools import accumulate, pairwise
from statistics import mean
from typing import TYPE_CHECKING, Any

import pytest

from pellucid.capacity.measured import Job, Sample, batch_cost, jobs_of, of_progress, plan_job, read_jobs
from pellucid.capacity.measured.plan import plan_text
from tests.capacity.recording import BURST, CALM, EVERY, RATES, RECORDED, ROW, local_run, spark_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEFORE, AFTER, COUNT = range(3)  # of what was sent: when the writing began and ended, and how many there were then
TICK = 0.001  # seconds: what was recorded is rounded


def took(document: dict[str, Any]) -> list[float]:
    """How long the slow function took for each event."""
    return [done - began for began, done in document["seen"]]


def sent_by(document: dict[str, Any], at: float, which: int = AFTER) -> int:
    """How many events were on their way at a time."""
    found = bisect_right(document["sent"], at, key=lambda one: one[which])
    return document["sent"][found - 1][COUNT] if found else 0


def lag(document: dict[str, Any], done: list[float]) -> list[tuple[float, int]]:
    """What was sent and not yet done, whenever something was sent: nothing but that makes it longer; and whenever
    something was done."""
    first = document["seen"][0][1]  # until then the engine was on its way
    times = sorted({at for at in [*done, *(one[AFTER] for one in document["sent"])] if at >= first})
    return [(at, sent_by(document, at) - bisect_right(done, at)) for at in times]


def gone(found: list[tuple[float, int]]) -> float:
    """How long it took from the longest lag until there was none."""
    top = max(waiting for _, waiting in found)
    at = next(at for at, waiting in found if waiting == top)
    return next(then for then, waiting in found if then > at and waiting <= 1) - at


def would_be_done(document: dict[str, Any], cost: float) -> list[float]:
    """When each event is done if they go one by one, and each takes what the function took and ``cost``."""
    counts = [one[COUNT] for one in document["sent"]]
    free, out = document["seen"][0][1], [document["seen"][0][1]]
    for event, seconds in list(enumerate(took(document)))[1:]:
        free = max(free, document["sent"][bisect_left(counts, event + 1)][AFTER]) + seconds + cost
        out.append(free)
    return out


def compare(calm: dict[str, Any], burst: dict[str, Any]) -> None:
    """The capacity of a calm run predicts the lag of another one with a burst."""
    (measured,) = jobs_of([calm])
    capacity = measured.steps["enriched"].capacity
    assert capacity is not None and plan_job(measured).status == "bounded"
    predicted = lag(burst, would_be_done(burst, 1 / capacity - mean(took(calm))))
    found = lag(burst, [done for _, done in burst["seen"]])
    worst = max(waiting for _, waiting in found)
    assert worst > 100 and max(waiting for _, waiting in predicted) == pytest.approx(worst, rel=0.25)
    assert gone(predicted) == pytest.approx(gone(found), rel=0.4)
    (again,) = jobs_of([burst])
    curve = plan_job(again).curve
    assert curve is not None and curve.queue(max(took(burst))) >= worst  # what the windows say is never exceeded


def recorded_truly(document: dict[str, Any]) -> None:
    """What the engine wrote down of each batch is what the sender and the function saw: by inequalities, which hold
    however slow anything was."""
    samples, seen = document["samples"], document["seen"]
    ends = list(accumulate(sample["events"] for sample in samples))
    assert ends[-1] == document["events"] == document["sent"][-1][COUNT] == len(seen)
    spent = took(document)
    for sample, end in zip(samples, ends, strict=True):
        assert sum(spent[end - sample["events"] : end]) <= sample["seconds"] + TICK * sample["events"]
    for sample, end in zip(samples[:-1], ends, strict=False):  # those that had come are in the next one, and no others
        least = sent_by(document, seen[end - 1][1] - TICK) - end
        assert least <= sample["waiting"] <= sent_by(document, seen[end][0] + TICK, BEFORE) - end
    (job,) = jobs_of([document])
    whole = job.steps["enriched"]
    assert whole.capacity is not None and whole.capacity >= 0.999 * document["events"] / document["busy"]


def _recorded() -> tuple[dict[str, Any], dict[str, Any]]:
    calm, burst = (json.loads((RECORDED / f"local_{name}.json").read_text()) for name in ("calm", "burst"))
    return calm, burst


def test_a_recorded_run_of_the_local_engine() -> None:
    calm, burst = _recorded()
    compare(calm, burst)
    recorded_truly(calm)
    recorded_truly(burst)
    (found,), (again,) = jobs_of([calm]), jobs_of([burst])
    assert found.steps["lookup"].capacity == pytest.approx(1 / mean(took(calm)), rel=0.2)
    assert found.notes[1].startswith("its batches are all as long") and len(again.notes) == 1
    assert "lookup takes" in plan_text(plan_job(found))
    longest = plan_job(again).steps["enriched"].longest
    assert longest is not None and longest >= max(n for _, n in lag(burst, [done for _, done in burst["seen"]]))


def _faster(document: dict[str, Any], by: float) -> dict[str, Any]:
    """As if the step had been so much faster, and nothing else had changed."""
    samples = [{**sample, "seconds": sample["seconds"] / by} for sample in document["samples"]]
    steps = [{**step, "seconds": step["seconds"] / by} for step in document["steps"]]
    return {**document, "busy": document["busy"] / by, "samples": samples, "steps": steps}


@pytest.mark.parametrize("by", [1 / 1.6, 1.6])
def test_a_wrong_prediction_for_the_local_engine_is_found_out(by: float) -> None:
    calm, burst = _recorded()
    with pytest.raises(AssertionError):
        compare(_faster(calm, by), burst)
    with pytest.raises(AssertionError):  # as much as was predicted, but it was not there: done three times as fast
        compare(calm, {**burst, "seen": [[began, began + (done - began) / 3] for began, done in burst["seen"]]})


def test_a_wrong_recording_of_the_local_engine_is_found_out() -> None:
    _, burst = _recorded()
    longest = max(range(len(burst["samples"]) - 1), key=lambda i: burst["samples"][i]["waiting"])
    wrong: list[dict[str, Any]] = [
        _faster(burst, 1.1),
        {**burst, "events": burst["events"] - 1},
        {**burst, "samples": burst["samples"][1:]},
    ]
    for change in (-20, 20):
        samples = [dict(sample) for sample in burst["samples"]]
        samples[longest]["waiting"] += change
        wrong.append({**burst, "samples": samples})
    for document in wrong:
        with pytest.raises(AssertionError):
            recorded_truly(document)


@pytest.mark.long
def test_a_run_of_the_local_engine_recorded_now() -> None:
    calm, burst = local_run(CALM), local_run(BURST)
    recorded_truly(calm)
    recorded_truly(burst)
    compare(calm, burst)


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
    assert plan.status == "bounded" and "batches settle at" in " ".join(plan_job(job).advice)


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


def compare_same_run(job: Job, rate: int) -> None:
    """What batches took predicts what waits after them, in the same query: that holds under any load."""
    (step,) = job.steps.values()
    samples = [sample for sample in job.samples if sample.events]
    assert len(samples) > 1
    for sample in samples:
        assert sample.seconds >= sample.events * ROW / 2  # two cores sleep, and nobody sleeps faster than that
    for before, after in pairwise(job.samples):
        assert after.at >= before.at + before.seconds - TICK and before.waiting == after.events
    pairs = list(pairwise(job.samples))[1:]  # rows come for whole seconds: two of them may be missing at the ends
    assert sum(after.events for _, after in pairs) == pytest.approx(
        rate * (pairs[-1][1].at - pairs[0][0].at), abs=2 * rate
    )
    assert step.rate == pytest.approx(rate, abs=2 * rate / (job.samples[-1].at - job.samples[0].at))
    predicted = [rate * max(EVERY, before.seconds) for before, _ in pairs]
    assert mean(predicted) == pytest.approx(mean(after.events for _, after in pairs), rel=0.25)
    if rate > 2 / ROW:  # more comes than two cores can take
        assert [sample.events for sample in samples] == sorted(sample.events for sample in samples)


@pytest.mark.parametrize("name", RATES)
def test_recorded_queries_of_spark_one_by_one(name: str) -> None:
    (job,) = read_jobs(RECORDED / f"spark_{name}.jsonl")
    compare_same_run(job, RATES[name])
    wrong = [
        [replace(s, seconds=s.seconds / 4) for s in job.samples],
        [replace(s, waiting=None if s.waiting is None else 2 * s.waiting) for s in job.samples],
        [replace(s, events=2 * s.events, waiting=s.waiting and 2 * s.waiting) for s in job.samples],
    ]
    for samples in wrong:
        with pytest.raises(AssertionError):
            compare_same_run(replace(job, samples=tuple(samples)), RATES[name])


@pytest.mark.long
def test_queries_of_spark_recorded_now(spark: SparkSession) -> None:
    spark_query(spark, 20, 20, name="warm")
    for name, rate in RATES.items():
        documents = [json.loads(text) for text in spark_query(spark, rate, 36, name=name)]
        (job,) = of_progress(documents)
        compare_same_run(job, rate)
