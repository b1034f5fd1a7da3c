"""Measured jobs."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pellucid.capacity.measured import (
    BatchCost,
    Curve,
    Job,
    MeasuredStep,
    Sample,
    Scaling,
    arrival_curve,
    batch_cost,
    jobs_of,
    of_progress,
    of_query,
    plan_job,
    read_jobs,
)
from pellucid.capacity.measured.plan import EXACT, needed_capacity, plan_text, round_workers, scale, workers_for
from pellucid.errors import DataError, UsageError
from tests.capacity.recording import RECORDED

# Measurements of Spark, Flink and local runs are read as what they are, and what is none is refused by name.


def kafka(batch: int, start: list[int] | None, end: list[int], latest: list[int], ms: int = 500) -> dict[str, Any]:
    def offsets(values: list[int] | None) -> dict[str, dict[str, int]] | None:
        return None if values is None else {"flights": {str(p): at for p, at in enumerate(values)}}

    rows = sum(end) - sum(start if start is not None else end)
    return {
        "id": "0e5c", "runId": "7a", "name": "late", "batchId": batch, "timestamp": f"2026-01-01T00:00:{batch:02}.000Z",
        "numInputRows": rows, "durationMs": {"addBatch": ms - 100, "triggerExecution": ms},
        "stateOperators": [{"operatorName": "stateStoreSave", "numRowsTotal": 40, "memoryUsedBytes": 900,
                            "numShufflePartitions": 200}],
        "sources": [{"description": "KafkaV2", "startOffset": offsets(start), "endOffset": offsets(end),
                     "latestOffset": offsets(latest), "numInputRows": rows}],
        "sink": {"description": "Parquet", "numOutputRows": -1},
    }  # fmt: skip


BATCHES = [
    kafka(0, None, [0, 0], [50, 50]),
    kafka(1, [0, 0], [30, 70], [100, 120], ms=600),
    kafka(2, [30, 70], [80, 220], [200, 300], ms=800),
]


GREEDY = [
    kafka(0, None, [0, 0], [0, 0]),
    kafka(1, [0, 0], [30, 70], [30, 70], ms=600),
    kafka(2, [30, 70], [80, 220], [80, 220], ms=800),
]


def test_a_query_on_kafka() -> None:
    (job,) = of_progress(BATCHES)
    step = job.steps["late"]
    assert job.kind == "spark" and job.seconds == 2.8
    # 100 and 200 rows were taken, 100 waited when the first batch was made, 200 when the last was
    assert step.rate == (100 + 200 + 200 - 100) / 2
    assert step.processed == pytest.approx(300 / 2.8) and step.busy == pytest.approx(1.9 / 2.8)
    assert step.partitions == 2 and step.skew == pytest.approx(220 / 300) and step.most == 2
    assert step.state == 40 and step.state_bytes == 900 and step.out is None
    assert [s.waiting for s in job.samples] == [100 + 120, 200 + 200, None] and step.lag == 400
    assert step.able is None and job.notes[0].startswith("its batches leave rows behind")
    assert step.capacity == 150 and step.held and (step.load or 0) > 1  # it has time, and the lag grows


def test_a_query_that_takes_all_there_is() -> None:
    (job,) = of_progress(GREEDY)
    step = job.steps["late"]
    assert step.able == pytest.approx(500) and step.rate == 150  # 0.2 s more for 100 rows more
    assert [s.waiting for s in job.samples] == [100, 200, None] and step.load == pytest.approx(0.3) and job.notes == ()


def test_one_progress_alone_says_what_spark_says() -> None:
    (job,) = of_progress([{**BATCHES[1], "inputRowsPerSecond": 55.5}])
    assert job.steps["late"].rate == 55.5 and job.steps["late"].capacity == pytest.approx(100 / 0.6)
    (idle,) = of_progress([{**BATCHES[0], "inputRowsPerSecond": "NaN"}])
    assert idle.steps["late"].rate is None and idle.steps["late"].capacity is None


def test_a_batch_told_twice_counts_once() -> None:
    assert of_progress([*BATCHES, BATCHES[2]]) == of_progress(BATCHES)


def at(batch: int, second: int, rows: int = 100, run: str = "7a", ms: int = 500) -> dict[str, Any]:
    return {**kafka(batch, [0, 0], [rows, 0], [rows, 0], ms=ms), "runId": run,
            "timestamp": f"2026-01-01T00:00:{second:02}.000Z"}  # fmt: skip


def test_a_log_with_holes_repetitions_and_restarts() -> None:
    """What came while batches are missing is not known: the rate is that of the longest part without a hole."""
    (job,) = of_progress([at(1, 0), at(2, 1), at(9, 20), at(10, 21), at(11, 22)])
    assert job.seconds == 2.5 and job.steps["late"].rate == 100
    assert "6 batches are missing: only 9 to 11 are looked at" in job.notes[0]
    (job,) = of_progress([at(1, 0), at(2, 1), at(2, 10, run="b"), at(3, 11, run="b")])  # run again after a restart
    assert [s.events for s in job.samples] == [100, 100, 100] and job.steps["late"].rate == pytest.approx(200 / 11)
    assert job.notes[0] == "batches that were run again after a restart count once"
    (job,) = of_progress([at(1, 0), at(2, 1, rows=0), at(2, 2, rows=0), at(2, 3)])  # an idle query has the next number
    assert len(job.samples) == 4 and not any("missing" in note for note in job.notes)
    with pytest.raises(DataError, match="batch 2: begins 2 s before the batch before it has ended"):
        of_progress([at(1, 0, ms=3000), at(2, 1)])
    with pytest.raises(DataError, match="batch 3 began after batch 7"):
        of_progress([at(7, 0), at(3, 1)])


def test_a_source_of_files_does_not_tell_what_waits() -> None:
    files = [{**b, "sources": [{"startOffset": {"logOffset": 0}, "endOffset": {"logOffset": 1}, "latestOffset": None}]}
             for b in BATCHES]  # fmt: skip
    (job,) = of_progress(files)
    assert job.steps["late"].lag is None and job.steps["late"].partitions == 200
    assert job.steps["late"].rate is None or 0 in [
        s.events for s in job.samples[1:]
    ]  # there may be a limit per trigger
    assert job.notes == (
        "its sources do not tell how far they could be read: what waits before the query is not known",
    )


def test_a_live_query() -> None:
    progress = [SimpleNamespace(json=json.dumps(b)) for b in BATCHES]
    assert of_query(SimpleNamespace(recentProgress=progress)) == of_progress(BATCHES)[0]
    assert of_query(SimpleNamespace(recentProgress=BATCHES)) == of_progress(BATCHES)[0]
    with pytest.raises(UsageError, match="the query late has no progress yet: wait for its first micro-batch"):
        of_query(SimpleNamespace(recentProgress=[], name="late", id="0e5c"))


def test_files_of_many_forms(tmp_path: Path) -> None:
    wanted = of_progress(BATCHES)
    other = [{**b, "id": "77", "name": "cheap"} for b in BATCHES]
    lines = [json.dumps(b) for pair in zip(BATCHES, other, strict=True) for b in pair]
    event = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
    log = [{"Event": "SparkListenerJobStart"}, *({"Event": event, "progress": b} for b in BATCHES)]
    for name, text, jobs in (
        ("list.json", json.dumps(BATCHES), wanted),
        ("log.jsonl", "\n".join(lines) + "\n", [*wanted, *of_progress(other)]),
        ("cut.jsonl", "\n".join(lines[:-1]) + '\n{"id": "77", "na', [*wanted, *of_progress(other[:-1])]),
        ("events", "\n".join(json.dumps(e) for e in log), wanted),
    ):
        (tmp_path / name).write_text(text)
        cut = (f"the last line of {tmp_path / name} is cut off: left out",) if name == "cut.jsonl" else ()
        assert read_jobs(tmp_path / name) == [replace(job, notes=(*job.notes, *cut)) for job in jobs], name
    (tmp_path / "log.json.gz").write_bytes(gzip.compress(json.dumps(BATCHES).encode()))
    assert read_jobs(tmp_path / "log.json.gz") == wanted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"temperature": 21, "city": "Rome"}', r"another kind \(an object with temperature, city\): expected the"),
        ("[1]", r"another kind \(a number\)"),
        ("{}", r"another kind \(an empty object\)"),
        ('{"pellucid": 1, "verb": "check"}', r"another kind \(a report of pellucid check\)"),
        ("", "is empty: expected the progress"),
        ("rates are fine", "is no JSON"),
        ('{"a": 1}\nx\n{"a": 2}', "line 2: is no JSON"),
        ('{"Event": "SparkListenerJobStart"}', "has no progress of a streaming query in it"),
        ("[]", "has no progress"),
        (json.dumps({**BATCHES[0], "timestamp": "noon"}), "query late: timestamp is 'noon': expected a time such as"),
        (json.dumps({**BATCHES[0], "durationMs": 5}), "query late, batch 0: durationMs is 5: expected an object"),
        (json.dumps({**BATCHES[0], "numInputRows": "many"}), "numInputRows: expected a number, got 'many'"),
        ('{"vertices": []}', "the job job has no vertices"),
        ('{"vertices": [{"name": "map"}]}', "a vertex of the job job has no metrics"),
        ('{"vertices": [{"name": "map", "metrics": 3}]}', "vertex map: metrics: expected an object or a list, got 3"),
        ('{"vertices": [{"name": "map", "metrics": [{"value": 3}]}]}', "a metric has no id"),
        ('{"vertices": [{"id": "b", "metrics": {}, "inputs": ["a"]}]}', "the vertex b hears a, which is not among"),
        ('{"vertices": [{"id": "b", "metrics": {"pendingRecords": -2}}]}', "step b: lag is -2.0: expected a number"),
        ('{"pellucid": 1, "kind": "measured run"}', "not whole: KeyError.*make it again with pellucid run --measure"),
    ],
)  # fmt: skip
def test_what_is_none(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "given.json"
    file.write_text(text)
    with pytest.raises(DataError, match=f"given.json: .*{words}|{words}"):
        read_jobs(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        read_jobs(tmp_path / "none.json")
    (tmp_path / "x.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match="cannot be read"):
        read_jobs(tmp_path / "x.gz")


FLINK = {
    "name": "late flights",
    "vertices": [
        {"id": "s", "name": "Source", "parallelism": 4, "maxParallelism": 128, "numSourcePartitions": 4,
         "metrics": [{"id": "busyTimeMsPerSecond", "min": 100, "max": 300, "avg": 200, "sum": 800},
                     {"id": "numRecordsInPerSecond", "sum": 0}, {"id": "numRecordsOutPerSecond", "sum": 400},
                     {"id": "pendingRecords", "sum": 6000}]},
        {"id": "m", "name": "Map", "parallelism": 2, "maxParallelism": 128,
         "metrics": [{"id": "0.busyTimeMsPerSecond", "value": "900.0"},
                     {"id": "1.busyTimeMsPerSecond", "value": "100.0"},
                     {"id": "0.numRecordsInPerSecond", "value": "360"},
                     {"id": "1.numRecordsInPerSecond", "value": "40"},
                     {"id": "0.numRecordsOutPerSecond", "value": "NaN"}]},
        {"id": "k", "name": "Map", "parallelism": 1,
         "metrics": {"busyTimeMsPerSecond": 50, "numRecordsInPerSecond": 400}},
    ],
    "plan": {"nodes": [{"id": "s"}, {"id": "m", "inputs": [{"id": "s", "ship_strategy": "HASH"}]},
                       {"id": "k", "inputs": [{"id": "m"}]}]},
}  # fmt: skip


def test_a_job_of_flink() -> None:
    (job,) = jobs_of([FLINK])
    source, hot, last = job.steps.values()
    assert [step.name for step in (source, hot, last)] == ["Source", "Map", "Map (k)"]
    assert source.rate == source.processed == 400 and source.lag == 6000 and source.capacity == 2000
    assert source.most == 4 and source.workers == 4 and source.skew is None
    assert hot.hears == ("Source",) and hot.busy == 0.5 and hot.skew == 0.9 and hot.most == 2
    assert last.hears == ("Map",) and last.workers == 1 and last.capacity == 8000 and last.keys is None


def test_the_recorded_queries() -> None:
    for file in sorted(RECORDED.glob("spark_*.jsonl")):
        (job,) = read_jobs(file)
        (step,) = job.steps.values()
        assert job.name == file.stem.removeprefix("spark_") and step.state == 7 and step.partitions == 2


# Measurements with every field replaced by what nobody expects: read, or refused with the file, and nothing else.

_SOURCE = {
    "startOffset": {"t": {"0": 1, "1": 4}},
    "endOffset": {"t": {"0": 50, "1": 60}},
    "latestOffset": {"t": {"0": 70, "1": 80}},
    "numInputRows": 100,
}
BATCH: dict[str, Any] = {
    "id": "q", "runId": "r", "name": "late", "timestamp": "2026-01-01T00:00:00.000Z", "batchId": 0,
    "numInputRows": 100, "durationMs": {"triggerExecution": 500}, "sources": [_SOURCE], "sink": {"numOutputRows": 7},
    "stateOperators": [{"numRowsTotal": 5, "memoryUsedBytes": 100, "numShufflePartitions": 4}],
}  # fmt: skip
SPARK = [BATCH, {**BATCH, "batchId": 1, "timestamp": "2026-01-01T00:00:01.000Z"}]
LOCAL = [
    {
        "pellucid": 1, "kind": "measured run", "pipeline": "late", "input": "pipe", "seconds": 2.0, "busy": 1.0,
        "events": 50, "steps": [{"step": "slow", "events_in": 50, "events_out": 25, "seconds": 0.8}],
        "samples": [{"at": i / 2, "events": 10 + i, "seconds": 0.25, "waiting": 10} for i in range(3)],
    }
]  # fmt: skip
_NAN, _INF = float("nan"), float("inf")
HOSTILE: list[Any] = [None, "x", "", -1, 0, 1.5, 10**30, _NAN, _INF, True, [], [1], [None], {}, {"a": 1}, {"a": None}]
_GONE = object()


def _places(document: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    if isinstance(document, dict):
        for key in document:
            yield from _places(document[key], (*at, key))
    elif isinstance(document, list):
        for i in range(min(2, len(document))):
            yield from _places(document[i], (*at, i))


def _with(document: Any, at: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    inner = changed
    for key in at[:-1]:
        inner = inner[key]
    if value is _GONE:
        del inner[at[-1]]
    else:
        inner[at[-1]] = value
    return changed


@pytest.mark.parametrize("documents", [SPARK, LOCAL, [FLINK]], ids=["spark", "local", "flink"])
def test_every_field_may_be_anything(documents: list[Any]) -> None:
    read, refused = 0, list[str]()
    for at in _places(documents):
        for value in [*HOSTILE, _GONE]:
            try:
                plans = [plan_job(job) for job in jobs_of(_with(documents, at, value), where="m.json")]
            except DataError as error:
                refused.append(str(error))
                continue
            for plan in plans:
                assert plan_text(plan)
                json.dumps(plan.document(), allow_nan=False)
            read += 1
    assert read > 100 and len(refused) > 100
    assert [words for words in refused if not words.startswith("m.json: ")] == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"numInputRows": -5}, "batch 0: numInputRows: expected a number that is not below 0, got -5"),
        ({"numInputRows": _NAN}, "batch 0: numInputRows: expected a number that is not below 0, got nan"),
        ({"numInputRows": None}, "batch 0: numInputRows: expected a number that is not below 0, got None"),
        ({"numInputRows": "many"}, "batch 0: numInputRows: expected a number, got 'many'"),
        (
            {"durationMs": {"triggerExecution": -1}},
            "batch 0: durationMs.triggerExecution: expected a number that is not below 0, got -1",
        ),
        ({"sources": None}, None),
        ({"sources": "x"}, "batch 0: sources: expected a list of objects, got 'x'"),
        ({"stateOperators": [3]}, "batch 0: stateOperators: expected a list of objects, got [3]"),
        ({"sink": {"numOutputRows": "x"}}, "batch 0: sink.numOutputRows: expected a number, got 'x'"),
    ],
)
def test_a_field_is_named(changed: dict[str, Any], message: str | None) -> None:
    if message is None:
        assert jobs_of([{**BATCH, **changed}])
        return
    with pytest.raises(DataError) as caught:
        jobs_of([{**BATCH, **changed}], where="m.json")
    assert str(caught.value) == f"m.json: query late, {message}"


def test_rows_that_are_left_out_are_those_of_the_sources() -> None:
    less = [{key: value for key, value in batch.items() if key != "numInputRows"} for batch in SPARK]
    assert jobs_of(less)[0].samples == jobs_of(SPARK)[0].samples


def test_a_query_to_which_nothing_came() -> None:
    (job,) = jobs_of([{**batch, "numInputRows": 0, "sources": []} for batch in SPARK])
    plan = plan_job(job)
    assert plan.status == "unknown" and plan.steps["late"].why == "no events came while it was measured"
    assert plan.advice == ("no events came while it was measured: record it while they do",)


def test_a_log_whose_last_line_is_cut_off_says_so(tmp_path: Path) -> None:
    log = tmp_path / "p.jsonl"
    lines = "\n".join(json.dumps(batch) for batch in SPARK)
    log.write_text(lines)
    assert not any("cut off" in note for note in read_jobs(log)[0].notes)
    log.write_text(lines[:-9])
    (job,) = read_jobs(log)
    assert len(job.samples) == 1 and job.notes[-1] == f"the last line of {log} is cut off: left out"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[" * 100_000 + "]" * 100_000, "lists in lists, too deep to read"),
        ("[1, 2]", "a number"),
        ("null", "null"),
        ('"x"', "a text"),
        ("[[]]", "a list in a list"),
        ("true", "true or false"),
    ],
)
def test_json_of_another_kind(tmp_path: Path, text: str, kind: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)
    with pytest.raises(DataError) as caught:
        read_jobs(file)
    assert str(caught.value).startswith(f"{file}: is JSON of another kind ({kind}): expected the progress of a Spark")


# Plans for measured jobs: who keeps up, and what to change first.


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


# How many workers: the formula by hand, limits, hot keys, and what a bottleneck does to the steps before it.

NOW = Scaling(target=1.0, catch_up=0)


def chain(*steps: MeasuredStep) -> Job:
    return Job("job", "flink", {step.name: step for step in steps})


def test_the_formula_by_hand() -> None:
    # 6000 wait: 3.33 a second for half an hour; 5 minutes of 100 a second for half an hour: 16.67; 100 / 0.7: 142.86
    assert needed_capacity(100, 6000 / 1800, target=0.7, catch_up=1800, restart=300) == 163
    step = MeasuredStep("s", rate=100.0, processed=100.0, busy=0.8, workers=2, lag=6000.0)
    assert scale(chain(step))["s"].wanted == 3  # 2 * 163 / 125 = 2.6
    assert needed_capacity(100, 0, target=-1, catch_up=0) == float("inf")
    assert needed_capacity(100, 0, target=7, catch_up=0) == 100  # nobody works more than always


def test_numbers_are_exact() -> None:
    """1.1 * 30 is 33.00000000000000355 in floats: rounded up, a worker too many."""
    assert round_workers(30, 1.1) == 33 == round_workers(30, Fraction(11, 10))
    assert workers_for(3, 70, 21) == 10
    with pytest.raises(UsageError, match="a capacity of 0 events per second cannot be scaled"):
        workers_for(3, 70, 0)
    with pytest.raises(UsageError, match="at least 3 and at most 2 workers: there is no such number"):
        round_workers(1, 1, lower=3, upper=2)


def test_never_above_partitions_or_keys() -> None:
    for limit in ({"partitions": 3}, {"keys": 3}, {"partitions": 3, "keys": 50}):
        step = MeasuredStep("s", rate=100.0, processed=50.0, busy=1.0, **limit)  # type: ignore[arg-type]
        found = scale(chain(step), Scaling(target=0.4, catch_up=0))["s"]
        assert found.needed == 250 and found.wanted == 3 and found.possible == pytest.approx(100 * 150 / 250)
        word = "partitions" if "partitions" in limit else "keys"
        assert found.limited == f"3 {word} are not enough: 5 workers would be needed"


def test_a_hot_key_is_one_worker() -> None:
    step = MeasuredStep("s", rate=100.0, processed=25.0, busy=1.0, skew=0.4, partitions=64)
    found = scale(chain(step), NOW)["s"]
    assert found.wanted == 3 and found.limited.startswith("40 % of its events have one key or partition")
    assert found.possible == pytest.approx(25 / 0.4)  # that worker takes 25 a second, which are 40 % of all


def test_a_bottleneck_passes_its_limit_upstream() -> None:
    first = MeasuredStep("first", rate=90.0, processed=30.0, busy=1.0, out=60.0)
    slow = MeasuredStep("slow", processed=60.0, busy=1.0, partitions=2, out=60.0, hears=("first",))
    last = MeasuredStep("last", processed=60.0, busy=0.5, hears=("slow",))
    found = scale(chain(first, slow, last), NOW)
    assert found["slow"].needed == 180 and found["slow"].wanted == 2 and found["slow"].possible == 120
    assert found["first"].possible == 60 and found["first"].wanted == 2  # instead of 3
    assert found["first"].limited == found["last"].limited == "slow cannot take more, and holds the sources back"
    assert found["last"].possible == 120 and found["last"].wanted == 1


def test_only_those_that_feed_the_bottleneck_are_held_back() -> None:
    def source(name: str) -> MeasuredStep:
        return MeasuredStep(name, rate=100.0, processed=100.0, busy=0.5, out=100.0)

    slow = MeasuredStep("slow", processed=100.0, busy=1.0, keys=1, hears=("a",))
    free = MeasuredStep("free", processed=100.0, busy=1.0, hears=("b",))
    found = scale(chain(source("a"), source("b"), slow, free), Scaling(target=0.5, catch_up=0))
    assert found["slow"].limited == "1 key is not enough: 2 workers would be needed"
    assert found["a"].possible == 50 and found["b"].possible is None and found["free"].wanted == 2
    assert found["b"].limited == ""


def test_lag_goes_down_the_stream() -> None:
    first = MeasuredStep("first", processed=100.0, growth=50.0, lag=1000.0, busy=0.6, out=200.0)
    found = scale(chain(first, MeasuredStep("last", processed=200.0, busy=0.3, hears=("first",))), Scaling(1.0, 2, 0))
    assert (found["first"].rate, found["first"].catch_up) == (150, 500)
    assert (found["last"].rate, found["last"].catch_up) == (300, 1000)


def test_what_is_not_measured_is_not_guessed() -> None:
    found = scale(chain(MeasuredStep("s", rate=5.0)))["s"]
    assert found.capacity is None and found.wanted is None and found.limited == ""


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"busy": -0.1}, "step s: busy is -0.1: expected a number that is not below 0"),
        ({"rate": float("inf")}, "step s: rate is inf"),
        ({"workers": 0}, "step s: workers is 0: expected 1 or more"),
        ({"skew": 1.5}, "step s: skew is 1.5: expected a part of all events, up to 1"),
    ],
)
def test_what_cannot_be(values: dict[str, float], words: str) -> None:
    with pytest.raises(DataError, match=words):
        MeasuredStep("s", **values)  # type: ignore[arg-type]


def test_steps_that_are_not_there_or_go_in_a_circle() -> None:
    with pytest.raises(DataError, match="step a hears b, which is not there"):
        chain(MeasuredStep("a", hears=("b",)))
    with pytest.raises(DataError, match="the steps a, b hear each other in a circle"):
        chain(MeasuredStep("a", hears=("b",)), MeasuredStep("b", hears=("a",)))


@pytest.mark.parametrize("wanted", [{"target": 0}, {"target": 1.2}, {"catch_up": -1}, {"restart": float("nan")}])
def test_wishes_that_make_no_sense(wanted: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wanted))):
        Scaling(**wanted)


# Arrival curves against their meaning, and the bounds that they give against queues that are played through.


def by_meaning(arrivals: list[tuple[float, float, int]], length: float) -> int:
    """Every run of arrivals that can lie in one window."""
    best = 0
    for i, (_, end, _) in enumerate(arrivals):
        for j in range(i, len(arrivals)):
            if arrivals[j][0] - end <= length:
                best = max(best, sum(count for _, _, count in arrivals[i : j + 1]))
    return best


def longest_queue(arrivals: list[Fraction], time: Fraction, workers: int) -> tuple[int, Fraction]:
    """First come, first served; whoever comes counts before a worker takes it.  And the longest wait."""
    free, longest, wait = [Fraction(-1000)] * workers, 0, Fraction(0)
    waiting: deque[Fraction] = deque()

    def take(until: Fraction, also: bool) -> None:
        nonlocal wait
        while waiting and (min(free) < until or (also and min(free) == until)):
            free.sort()
            came = waiting.popleft()
            begin = max(free[0], came)
            wait = max(wait, begin - came)
            free[0] = begin + time

    for at in sorted(set(arrivals)):
        take(at, also=False)
        waiting.extend([at] * arrivals.count(at))
        longest = max(longest, len(waiting))
        take(at, also=True)
    take(Fraction(10**9), also=True)
    return longest, wait


@pytest.mark.parametrize("seed", range(12))
def test_the_curve_is_what_it_means(seed: int) -> None:
    chance = random.Random(seed)
    at, spans = 0.0, list[tuple[float, float, int]]()
    for _ in range(chance.randint(1, 12)):
        start = at + chance.choice([0, 0, 0.5, 2])
        at = start + chance.choice([0, 0, 1])
        if not spans or (start, at) != spans[-1][:2]:
            spans.append((start, at, chance.randint(1, 4)))
    lengths = [0, 0.5, 1, 2.5, 4, 40]
    wanted = [by_meaning(spans, length) for length in lengths]
    assert list(arrival_curve(spans, lengths).most) == wanted
    exact = arrival_curve(spans)
    assert [exact(length) for length in lengths] == wanted


@pytest.mark.parametrize("seed", range(30))
def test_no_queue_is_longer_than_the_bound(seed: int) -> None:
    chance = random.Random(seed)
    arrivals = [Fraction(chance.randint(0, 40), 4) for _ in range(chance.randint(1, 25))]
    time, workers = Fraction(chance.randint(1, 8), 4), chance.randint(1, 3)
    queue, wait = longest_queue(arrivals, time, workers)
    exact = arrival_curve([float(at) for at in arrivals])
    coarse = arrival_curve([float(at) for at in arrivals], windows=[0, 1, 3, 9, 27])
    assert queue == exact.queue(time, workers) <= coarse.queue(time, workers)  # the recording reaches it
    assert wait == exact.delay(time, workers) <= coarse.delay(time, workers)


@pytest.mark.parametrize("seed", range(30))
def test_nor_is_one_of_a_stream_that_is_no_burstier(seed: int) -> None:
    chance = random.Random(seed)
    arrivals = sorted(Fraction(chance.randint(0, 40), 4) for _ in range(25))
    curve = arrival_curve([float(at) for at in arrivals])
    # the same gaps the other way round have the same windows, and a part of them has fewer
    for other in ([-at for at in arrivals], [at for at in arrivals if chance.random() < 0.7] or arrivals):
        queue, wait = longest_queue(other, Fraction(3, 4), 2)
        assert queue <= curve.queue(0.75, 2) and wait <= curve.delay(0.75, 2)


def test_workers_for_a_limit() -> None:
    curve = arrival_curve([float(at) for at in range(20)])
    for limit in (1, 2, 5, 20):
        found = curve.workers(4.5, limit)
        assert found is not None and curve.queue(4.5, found) <= limit
        assert found == 1 or curve.queue(4.5, found - 1) > limit
    assert curve.workers(4.5, 0) is None


def test_many_arrivals_have_few_windows() -> None:
    curve = arrival_curve([i * 0.01 for i in range(EXACT + 5)])
    assert not curve.exact and len(curve.windows) < 20 and curve.most[-1] == EXACT + 5
    assert curve.rate == pytest.approx(75, rel=0.1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "an arrival curve needs an arrival"),
        ([(2, 1, 5)], "an arrival of 5 events from 2 to 1 cannot be"),
        ([(0, 9, 1), (1, 2, 1)], "may not lie inside others"),
    ],
)
def test_what_cannot_be_curves(given: list[tuple[float, float, int]], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        arrival_curve(given)
    with pytest.raises(UsageError, match="a curve needs windows"):
        Curve((1.0, 0.0), (1, 2))
    with pytest.raises(UsageError, match="a queue needs a time above 0"):
        Curve((0.0,), (1,)).queue(0)
